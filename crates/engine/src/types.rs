//! Forebay's types as Arrow types and back.

use arrow::datatypes::{DataType, IntervalUnit, TimeUnit as ArrowUnit};
use forebay_base::{Error, LogicalType, Result, TimeUnit};

/// The Arrow type in which scans give values of `logical`.
pub fn arrow_type(logical: &LogicalType) -> DataType {
    match logical {
        LogicalType::Bool => DataType::Boolean,
        LogicalType::Int8 => DataType::Int8,
        LogicalType::Int16 => DataType::Int16,
        LogicalType::Int32 => DataType::Int32,
        LogicalType::Int64 => DataType::Int64,
        LogicalType::UInt8 => DataType::UInt8,
        LogicalType::UInt16 => DataType::UInt16,
        LogicalType::UInt32 => DataType::UInt32,
        LogicalType::UInt64 => DataType::UInt64,
        LogicalType::Float32 => DataType::Float32,
        LogicalType::Float64 => DataType::Float64,
        LogicalType::Decimal { precision, scale } => DataType::Decimal128(*precision, *scale as i8),
        LogicalType::Date => DataType::Date32,
        LogicalType::Time => DataType::Time64(ArrowUnit::Microsecond),
        LogicalType::Timestamp { unit, zone } => {
            DataType::Timestamp(arrow_unit(*unit), zone.as_deref().map(Into::into))
        }
        LogicalType::Interval => DataType::Interval(IntervalUnit::MonthDayNano),
        LogicalType::Varchar => DataType::Utf8View,
        LogicalType::Blob => DataType::BinaryView,
    }
}

/// The type of a column that is to hold values of `arrow`. Types that Forebay does not store are an error that names
/// `column` and says what to do.
pub fn logical_type(arrow: &DataType, column: &str) -> Result<LogicalType> {
    Ok(match arrow {
        // A column of nothing but NULL literals has some type all the same; DuckDB takes INTEGER too.
        DataType::Null => LogicalType::Int32,
        DataType::Boolean => LogicalType::Bool,
        DataType::Int8 => LogicalType::Int8,
        DataType::Int16 => LogicalType::Int16,
        DataType::Int32 => LogicalType::Int32,
        DataType::Int64 => LogicalType::Int64,
        DataType::UInt8 => LogicalType::UInt8,
        DataType::UInt16 => LogicalType::UInt16,
        DataType::UInt32 => LogicalType::UInt32,
        DataType::UInt64 => LogicalType::UInt64,
        DataType::Float16 | DataType::Float32 => LogicalType::Float32,
        DataType::Float64 => LogicalType::Float64,
        DataType::Decimal32(p, s)
        | DataType::Decimal64(p, s)
        | DataType::Decimal128(p, s)
        | DataType::Decimal256(p, s)
            if *p <= 38 && *s >= 0 && *s as u8 <= *p =>
        {
            LogicalType::Decimal { precision: *p, scale: *s as u8 }
        }
        DataType::Date32 | DataType::Date64 => LogicalType::Date,
        DataType::Time32(_) | DataType::Time64(_) => LogicalType::Time,
        DataType::Timestamp(unit, zone) => {
            LogicalType::Timestamp { unit: time_unit(*unit), zone: zone.as_deref().map(str::to_owned) }
        }
        DataType::Interval(_) => LogicalType::Interval,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => LogicalType::Varchar,
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
            LogicalType::Blob
        }
        DataType::Dictionary(_, values) => return logical_type(values, column),
        other => {
            let shown = match other {
                DataType::Struct(_) => "structures",
                DataType::Map(..) => "maps",
                DataType::Union(..) => "values of several types",
                other if other.is_nested() => "lists",
                _ => "values of a type",
            };
            return Err(Error::unsupported(format!("column {column} has {shown}, which a table cannot hold"))
                .hint("Select its parts, or cast it to VARCHAR"));
        }
    })
}

fn arrow_unit(unit: TimeUnit) -> ArrowUnit {
    match unit {
        TimeUnit::Second => ArrowUnit::Second,
        TimeUnit::Milli => ArrowUnit::Millisecond,
        TimeUnit::Micro => ArrowUnit::Microsecond,
        TimeUnit::Nano => ArrowUnit::Nanosecond,
    }
}

fn time_unit(unit: ArrowUnit) -> TimeUnit {
    match unit {
        ArrowUnit::Second => TimeUnit::Second,
        ArrowUnit::Millisecond => TimeUnit::Milli,
        ArrowUnit::Microsecond => TimeUnit::Micro,
        ArrowUnit::Nanosecond => TimeUnit::Nano,
    }
}

/// Whether values of a type are integers that a BIGINT can hold.
pub(crate) fn is_bigint(logical: &LogicalType) -> bool {
    matches!(
        logical,
        LogicalType::Int8
            | LogicalType::Int16
            | LogicalType::Int32
            | LogicalType::Int64
            | LogicalType::UInt8
            | LogicalType::UInt16
            | LogicalType::UInt32
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_types_survive_the_way_through_arrow() {
        let zoned = LogicalType::Timestamp { unit: TimeUnit::Milli, zone: Some("UTC".into()) };
        let decimal = LogicalType::Decimal { precision: 38, scale: 38 };
        for logical in [LogicalType::Bool, LogicalType::UInt16, LogicalType::Time, LogicalType::Blob, zoned, decimal] {
            assert_eq!(logical_type(&arrow_type(&logical), "c").expect("a stored type"), logical);
        }
    }

    #[test]
    fn nested_types_are_refused_by_name() {
        let list = DataType::new_list(DataType::Int8, true);
        let error = logical_type(&list, "tags").expect_err("lists are not stored");
        assert!(error.to_string().contains("tags"), "{error}");
    }
}
