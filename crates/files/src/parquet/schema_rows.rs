//! The tree of a Parquet file's schema as rows, each element in front of its children.

use datafusion::common::ScalarValue;
use datafusion::parquet::basic::{ConvertedType, LogicalType, Repetition, TimeUnit, Type as PhysicalType};
use datafusion::parquet::schema::types::Type;

use super::Known;
use super::metadata_rows::{number, text};
use crate::told_types::Rows;

/// A row for each element.
pub(crate) fn elements(file: &str, known: &Known) -> Rows {
    let mut rows = Rows::new();
    add(file, known.metadata.file_metadata().schema(), true, &mut rows);
    rows
}

fn add(file: &str, element: &Type, is_root: bool, rows: &mut Rows) {
    let info = element.get_basic_info();
    let some = |value: Option<i64>| ScalarValue::Int64(value);
    let (physical, length, scale, precision) = match element {
        Type::PrimitiveType { physical_type, type_length, scale, precision, .. } => {
            let is_decimal = info.converted_type() == ConvertedType::DECIMAL;
            let digits = |digits: i32| is_decimal.then_some(i64::from(digits));
            let length = (*physical_type == PhysicalType::FIXED_LEN_BYTE_ARRAY).then(|| type_length.to_string());
            (Some(physical_type.to_string()), length, digits(*scale), digits(*precision))
        }
        Type::GroupType { .. } => (None, None, None, None),
    };
    let children = if element.is_group() { element.get_fields() } else { &[] };
    let repetition = match info.has_repetition() {
        true => info.repetition().to_string(),
        false => Repetition::REQUIRED.to_string(),
    };
    let converted = match info.converted_type() {
        ConvertedType::NONE => None,
        other => Some(other.to_string()),
    };
    rows.push(vec![
        text(file),
        text(info.name()),
        ScalarValue::Utf8(physical),
        ScalarValue::Utf8(length),
        text(repetition),
        some(element.is_group().then_some(children.len() as i64)),
        ScalarValue::Utf8(converted),
        some(scale),
        some(precision),
        some(info.has_id().then(|| i64::from(info.id()))),
        ScalarValue::Utf8(info.logical_type_ref().and_then(logical_type)),
        ScalarValue::Utf8((!is_root).then(|| sql_type(element))),
        number(rows.len() as i64),
    ]);
    for child in children {
        add(file, child, false, rows);
    }
}

/// A type as Parquet's own description of it has it.
fn logical_type(logical: &LogicalType) -> Option<String> {
    let moment = |name: &str, is_utc: bool, unit: &TimeUnit| {
        let part = |own: TimeUnit, name: &str, value: &str| match *unit == own {
            true => format!("{name}={value}()"),
            false => format!("{name}=<null>"),
        };
        let units = [
            part(TimeUnit::MILLIS, "MILLIS", "MilliSeconds"),
            part(TimeUnit::MICROS, "MICROS", "MicroSeconds"),
            part(TimeUnit::NANOS, "NANOS", "NanoSeconds"),
        ];
        format!("{name}(isAdjustedToUTC={}, unit=TimeUnit({}))", u8::from(is_utc), units.join(", "))
    };
    Some(match logical {
        LogicalType::String => "StringType()".to_owned(),
        LogicalType::Map => "MapType()".to_owned(),
        LogicalType::List => "ListType()".to_owned(),
        LogicalType::Enum => "EnumType()".to_owned(),
        LogicalType::Decimal(told) => format!("DecimalType(scale={}, precision={})", told.scale, told.precision),
        LogicalType::Date => "DateType()".to_owned(),
        LogicalType::Time(told) => moment("TimeType", told.is_adjusted_to_u_t_c, &told.unit),
        LogicalType::Timestamp(told) => moment("TimestampType", told.is_adjusted_to_u_t_c, &told.unit),
        LogicalType::Integer(told) => {
            format!("IntType(bitWidth={}, isSigned={})", told.bit_width, u8::from(told.is_signed))
        }
        LogicalType::Unknown => "NullType()".to_owned(),
        LogicalType::Json => "JsonType()".to_owned(),
        LogicalType::Bson => "BsonType()".to_owned(),
        LogicalType::Uuid => "UUIDType()".to_owned(),
        LogicalType::Float16 => "Float16Type()".to_owned(),
        _ => return None,
    })
}

/// The type by SQL's name.
fn sql_type(element: &Type) -> String {
    let info = element.get_basic_info();
    let is_repeated = info.has_repetition() && info.repetition() == Repetition::REPEATED;
    let fields = match element {
        Type::PrimitiveType { physical_type, scale, precision, .. } => {
            let own = primitive(*physical_type, info.converted_type(), info.logical_type_ref(), (*precision, *scale));
            return if is_repeated { format!("{own}[]") } else { own };
        }
        Type::GroupType { fields, .. } => fields,
    };
    let is_list = info.converted_type() == ConvertedType::LIST;
    let is_map = matches!(info.converted_type(), ConvertedType::MAP | ConvertedType::MAP_KEY_VALUE);
    match fields.as_slice() {
        [entries] if is_list => match entries.is_group() && entries.get_fields().len() == 1 {
            true => format!("{}[]", sql_type(&entries.get_fields()[0])),
            false => sql_type(entries),
        },
        [entries] if is_map && entries.is_group() => {
            let parts: Vec<String> = entries.get_fields().iter().map(|part| sql_type(part)).collect();
            format!("MAP({})", parts.join(", "))
        }
        [only] if is_repeated => format!("{}[]", sql_type(only)),
        several => {
            let parts: Vec<String> = several.iter().map(|part| format!("{} {}", part.name(), sql_type(part))).collect();
            let whole = format!("STRUCT({})", parts.join(", "));
            if is_repeated { format!("{whole}[]") } else { whole }
        }
    }
}

fn primitive(
    physical: PhysicalType,
    converted: ConvertedType,
    logical: Option<&LogicalType>,
    (precision, scale): (i32, i32),
) -> String {
    match logical {
        Some(LogicalType::Timestamp(told)) => {
            let name = match told.unit {
                _ if told.is_adjusted_to_u_t_c => "TIMESTAMP WITH TIME ZONE",
                TimeUnit::NANOS => "TIMESTAMP_NS",
                _ => "TIMESTAMP",
            };
            return name.to_owned();
        }
        Some(LogicalType::Time(_)) => return "TIME".to_owned(),
        Some(LogicalType::Uuid) => return "UUID".to_owned(),
        Some(LogicalType::Json) => return "JSON".to_owned(),
        _ => {}
    }
    let name = match converted {
        ConvertedType::UTF8 | ConvertedType::ENUM => "VARCHAR",
        ConvertedType::JSON => "JSON",
        ConvertedType::DATE => "DATE",
        ConvertedType::TIME_MILLIS | ConvertedType::TIME_MICROS => "TIME",
        ConvertedType::TIMESTAMP_MILLIS | ConvertedType::TIMESTAMP_MICROS => "TIMESTAMP",
        ConvertedType::UINT_8 => "UTINYINT",
        ConvertedType::UINT_16 => "USMALLINT",
        ConvertedType::UINT_32 => "UINTEGER",
        ConvertedType::UINT_64 => "UBIGINT",
        ConvertedType::INT_8 => "TINYINT",
        ConvertedType::INT_16 => "SMALLINT",
        ConvertedType::INTERVAL => "INTERVAL",
        ConvertedType::DECIMAL => return format!("DECIMAL({precision},{scale})"),
        _ => match physical {
            PhysicalType::BOOLEAN => "BOOLEAN",
            PhysicalType::INT32 => "INTEGER",
            PhysicalType::INT64 => "BIGINT",
            PhysicalType::INT96 => "TIMESTAMP",
            PhysicalType::FLOAT => "FLOAT",
            PhysicalType::DOUBLE => "DOUBLE",
            PhysicalType::BYTE_ARRAY | PhysicalType::FIXED_LEN_BYTE_ARRAY => "BLOB",
        },
    };
    name.to_owned()
}
