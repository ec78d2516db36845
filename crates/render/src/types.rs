//! Arrow types under the names that SQL gives them.

use arrow::datatypes::{DataType, TimeUnit};

/// The SQL name of `data_type`, as CREATE TABLE takes it where such a column can be stored.
pub fn sql_name(data_type: &DataType) -> String {
    let name = match data_type {
        DataType::Null => "NULL",
        DataType::Boolean => "BOOLEAN",
        DataType::Int8 => "TINYINT",
        DataType::Int16 => "SMALLINT",
        DataType::Int32 => "INTEGER",
        DataType::Int64 => "BIGINT",
        DataType::UInt8 => "UTINYINT",
        DataType::UInt16 => "USMALLINT",
        DataType::UInt32 => "UINTEGER",
        DataType::UInt64 => "UBIGINT",
        DataType::Float16 | DataType::Float32 => "FLOAT",
        DataType::Float64 => "DOUBLE",
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "VARCHAR",
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => "BLOB",
        DataType::Date32 | DataType::Date64 => "DATE",
        DataType::Time32(_) | DataType::Time64(_) => "TIME",
        DataType::Timestamp(_, Some(_)) => "TIMESTAMP WITH TIME ZONE",
        DataType::Timestamp(TimeUnit::Second, None) => "TIMESTAMP_S",
        DataType::Timestamp(TimeUnit::Millisecond, None) => "TIMESTAMP_MS",
        DataType::Timestamp(TimeUnit::Microsecond, None) => "TIMESTAMP",
        DataType::Timestamp(TimeUnit::Nanosecond, None) => "TIMESTAMP_NS",
        DataType::Interval(_) | DataType::Duration(_) => "INTERVAL",
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
        | DataType::Decimal256(precision, scale) => return format!("DECIMAL({precision},{scale})"),
        DataType::Dictionary(_, values) => return sql_name(values),
        DataType::RunEndEncoded(_, values) => return sql_name(values.data_type()),
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item)
        | DataType::FixedSizeList(item, _) => return format!("{}[]", sql_name(item.data_type())),
        DataType::Struct(fields) => {
            let is_row = fields.iter().enumerate().all(|(place, field)| *field.name() == format!("c{place}"));
            if is_row {
                let types: Vec<String> = fields.iter().map(|field| sql_name(field.data_type())).collect();
                return format!("TUPLE({})", types.join(", "));
            }
            let fields: Vec<String> =
                fields.iter().map(|field| format!("{} {}", field.name(), sql_name(field.data_type()))).collect();
            return format!("STRUCT({})", fields.join(", "));
        }
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(pair) if pair.len() == 2 => {
                return format!("MAP({}, {})", sql_name(pair[0].data_type()), sql_name(pair[1].data_type()));
            }
            _ => "MAP",
        },
        other => return other.to_string(),
    };
    name.to_owned()
}

/// Whether values line up at their right end.
pub fn is_number(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(_, values) => is_number(values),
        other => other.is_numeric(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::datatypes::Field;

    use super::*;

    #[test]
    fn nested_types_name_their_parts() {
        let item = Arc::new(Field::new("item", DataType::Decimal128(10, 2), true));
        let list = DataType::List(item);
        assert_eq!(sql_name(&list), "DECIMAL(10,2)[]");
        let fields = vec![Field::new("a", list, true), Field::new("b", DataType::Utf8View, true)];
        assert_eq!(sql_name(&DataType::Struct(fields.into())), "STRUCT(a DECIMAL(10,2)[], b VARCHAR)");
        let codes = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
        assert_eq!(sql_name(&codes), "VARCHAR");
        assert!(!is_number(&codes));
    }
}
