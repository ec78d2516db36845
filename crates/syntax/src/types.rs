//! SQL type names as stored types: the names of DuckDB, PostgreSQL and ClickHouse users.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType as ArrowType, Field, FieldRef};
use datafusion::common::{DataFusionError, Result as DataFusionResult};
use datafusion::logical_expr::planner::TypePlanner;
use datafusion::sql::sqlparser::ast::{DataType, ExactNumberInfo, TimezoneInfo};
use datafusion::sql::sqlparser::parser::Parser;
use forebay_base::{Error, LogicalType, Result, TimeUnit};
use forebay_context::own_types;
use forebay_engine::types::arrow_type;

use crate::dialect::ForebayDialect;

/// The stored type that a type name in SQL stands for.
pub fn sql_type(name: &DataType) -> Result<LogicalType> {
    let logical = match name {
        DataType::Boolean | DataType::Bool => LogicalType::Bool,
        DataType::TinyInt(_) => LogicalType::Int8,
        DataType::SmallInt(_) | DataType::Int2(_) | DataType::Int16 => LogicalType::Int16,
        DataType::Int(_) | DataType::Integer(_) | DataType::Int4(_) | DataType::Int32 | DataType::MediumInt(_) => {
            LogicalType::Int32
        }
        DataType::Signed | DataType::SignedInteger => LogicalType::Int32,
        DataType::BigInt(_) | DataType::Int64 | DataType::Int8(_) => LogicalType::Int64,
        DataType::UTinyInt | DataType::TinyIntUnsigned(_) | DataType::UInt8 => LogicalType::UInt8,
        DataType::USmallInt | DataType::SmallIntUnsigned(_) | DataType::UInt16 => LogicalType::UInt16,
        DataType::IntUnsigned(_) | DataType::IntegerUnsigned(_) | DataType::UInt32 | DataType::UnsignedInteger => {
            LogicalType::UInt32
        }
        DataType::UBigInt | DataType::BigIntUnsigned(_) | DataType::UInt64 => LogicalType::UInt64,
        DataType::HugeInt | DataType::UHugeInt | DataType::Int128 => LogicalType::Decimal { precision: 38, scale: 0 },
        DataType::Real | DataType::Float4 | DataType::Float32 => LogicalType::Float32,
        DataType::Float(info) => match info {
            ExactNumberInfo::Precision(digits) if *digits > 24 => LogicalType::Float64,
            _ => LogicalType::Float32,
        },
        DataType::Double(_) | DataType::DoublePrecision | DataType::Float8 | DataType::Float64 => LogicalType::Float64,
        DataType::Decimal(info) | DataType::Numeric(info) | DataType::Dec(info) | DataType::BigDecimal(info) => {
            decimal(info)?
        }
        DataType::Date | DataType::Date32 => LogicalType::Date,
        DataType::Time(_, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => LogicalType::Time,
        DataType::Timestamp(precision, zone) => timestamp(*precision, zone),
        DataType::Datetime(precision) => timestamp(*precision, &TimezoneInfo::None),
        DataType::Interval { .. } => LogicalType::Interval,
        DataType::Varchar(_)
        | DataType::Nvarchar(_)
        | DataType::Text
        | DataType::String(_)
        | DataType::Char(_)
        | DataType::Character(_)
        | DataType::CharVarying(_)
        | DataType::CharacterVarying(_) => LogicalType::Varchar,
        DataType::Blob(_) | DataType::Bytea | DataType::Binary(_) | DataType::Varbinary(_) | DataType::Bytes(_) => {
            LogicalType::Blob
        }
        DataType::Custom(custom, _) => return custom_type(&custom.to_string()),
        other => {
            return Err(Error::unsupported(format!("type {other} is not supported"))
                .hint("Supported are the integer, float, DECIMAL, DATE, TIME, TIMESTAMP, INTERVAL, VARCHAR, BLOB and BOOLEAN types"));
        }
    };
    Ok(logical)
}

fn custom_type(name: &str) -> Result<LogicalType> {
    let stamp = |unit| LogicalType::Timestamp { unit, zone: None };
    Ok(match name.to_ascii_uppercase().as_str() {
        "INT1" => LogicalType::Int8,
        "UTINYINT" => LogicalType::UInt8,
        "USMALLINT" => LogicalType::UInt16,
        "UINTEGER" | "UINT" => LogicalType::UInt32,
        "UBIGINT" => LogicalType::UInt64,
        "SHORT" => LogicalType::Int16,
        "INTEGRAL" => LogicalType::Int32,
        "LONG" | "OID" => LogicalType::Int64,
        "HUGEINT" | "UHUGEINT" => LogicalType::Decimal { precision: 38, scale: 0 },
        "STRING" | "BPCHAR" => LogicalType::Varchar,
        "LOGICAL" => LogicalType::Bool,
        "TIMESTAMP_S" => stamp(TimeUnit::Second),
        "TIMESTAMP_MS" => stamp(TimeUnit::Milli),
        "TIMESTAMP_US" => stamp(TimeUnit::Micro),
        "TIMESTAMP_NS" => stamp(TimeUnit::Nano),
        "TIMESTAMPTZ" => LogicalType::Timestamp { unit: TimeUnit::Micro, zone: Some("UTC".to_owned()) },
        _ => return Err(Error::input(format!("type {name} does not exist"))),
    })
}

fn decimal(info: &ExactNumberInfo) -> Result<LogicalType> {
    let (precision, scale) = match info {
        ExactNumberInfo::None => (18, 3),
        ExactNumberInfo::Precision(precision) => (*precision, 0),
        ExactNumberInfo::PrecisionAndScale(precision, scale) => (*precision, *scale),
    };
    if precision == 0 || precision > 38 || scale < 0 || scale as u64 > precision {
        return Err(Error::input(format!("DECIMAL({precision},{scale}) does not exist"))
            .hint("The precision is 1 to 38 digits, the scale 0 to the precision"));
    }
    Ok(LogicalType::Decimal { precision: precision as u8, scale: scale as u8 })
}

fn timestamp(precision: Option<u64>, zone: &TimezoneInfo) -> LogicalType {
    let unit = match precision {
        Some(0) => TimeUnit::Second,
        Some(1..=3) => TimeUnit::Milli,
        None | Some(4..=6) => TimeUnit::Micro,
        Some(_) => TimeUnit::Nano,
    };
    let zoned = matches!(zone, TimezoneInfo::Tz | TimezoneInfo::WithTimeZone);
    LogicalType::Timestamp { unit, zone: zoned.then(|| "UTC".to_owned()) }
}

/// Gives DataFusion our meaning of type names, so that CAST and column definitions agree.
pub struct TypeNames;

impl fmt::Debug for TypeNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TypeNames")
    }
}

impl TypePlanner for TypeNames {
    fn plan_type_field(&self, sql_type_name: &DataType) -> DataFusionResult<Option<FieldRef>> {
        if let Some(map) = map_type(sql_type_name) {
            return Ok(Some(Arc::new(Field::new("", map, true))));
        }
        match sql_type(sql_type_name) {
            Ok(logical) => Ok(Some(Arc::new(Field::new("", arrow_type(&logical), true)))),
            Err(error) if matches!(sql_type_name, DataType::Custom(..) | DataType::Decimal(_)) => {
                Err(DataFusionError::External(Box::new(error)))
            }
            // Arrays, structs and the like exist within queries though not in tables.
            Err(_) => Ok(None),
        }
    }
}

/// `MAP(VARCHAR, INTEGER)`, of types that tables have.
fn map_type(name: &DataType) -> Option<ArrowType> {
    let DataType::Custom(custom, parts) = name else { return None };
    let ([key, value], true) = (parts.as_slice(), custom.to_string().eq_ignore_ascii_case("map")) else { return None };
    let part = |text: &str| {
        let parsed = Parser::new(&ForebayDialect).try_with_sql(text).and_then(|mut parser| parser.parse_data_type());
        Some(arrow_type(&sql_type(&parsed.ok()?).ok()?))
    };
    let fields = vec![Field::new("key", part(key)?, false), Field::new("value", part(value)?, true)];
    Some(ArrowType::Map(Arc::new(Field::new("entries", ArrowType::Struct(fields.into()), false)), false))
}

/// The name of a field, in quotes where it is no plain word.
fn shown_name(name: &str) -> String {
    let is_plain = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if is_plain { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

/// The type of a field, by SQL's name.
pub fn shown_field(field: &Field) -> String {
    own_types::of(field).map_or_else(|| shown_type(field.data_type()), str::to_owned)
}

/// The Arrow type in which values are shown as text, used by DESCRIBE and friends.
pub fn shown_type(arrow: &ArrowType) -> String {
    match forebay_engine::types::logical_type(arrow, "") {
        Ok(logical) => shown_column_type(&logical),
        Err(_) => match arrow {
            ArrowType::List(element) => format!("{}[]", shown_field(element)),
            ArrowType::FixedSizeList(element, length) => format!("{}[{length}]", shown_field(element)),
            ArrowType::Struct(fields) => {
                let field = |field: &FieldRef| format!("{} {}", shown_name(field.name()), shown_field(field));
                format!("STRUCT({})", fields.iter().map(field).collect::<Vec<_>>().join(", "))
            }
            ArrowType::Map(entries, _) => match entries.data_type() {
                ArrowType::Struct(pair) if pair.len() == 2 => {
                    format!("MAP({}, {})", shown_field(&pair[0]), shown_field(&pair[1]))
                }
                other => other.to_string(),
            },
            other => other.to_string().to_uppercase(),
        },
    }
}

/// The name that SQL has for the type of a column.
pub fn shown_column_type(logical: &LogicalType) -> String {
    match logical {
        LogicalType::Timestamp { zone: Some(_), .. } => "TIMESTAMP WITH TIME ZONE".to_owned(),
        LogicalType::Decimal { precision: 38, scale: 0 } => "HUGEINT".to_owned(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_have_limits() {
        assert!(decimal(&ExactNumberInfo::PrecisionAndScale(39, 2)).is_err());
        assert!(decimal(&ExactNumberInfo::PrecisionAndScale(5, 6)).is_err());
        let plain = decimal(&ExactNumberInfo::None).expect("default decimal");
        assert_eq!(plain, LogicalType::Decimal { precision: 18, scale: 3 });
    }

    #[test]
    fn names_of_neighbours_are_known() {
        assert_eq!(custom_type("uinteger").expect("DuckDB's name"), LogicalType::UInt32);
        assert!(custom_type("geography").is_err());
    }
}
