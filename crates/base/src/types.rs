//! Logical types (what SQL sees) and physical types (how values lie in memory and in blocks).

use std::fmt;

use crate::{Error, Result, limits};

/// Resolution of a timestamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TimeUnit {
    /// Seconds.
    Second,
    /// Milliseconds.
    Milli,
    /// Microseconds.
    Micro,
    /// Nanoseconds.
    Nano,
}

/// A column's type as SQL sees it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum LogicalType {
    /// true or false, stored as one byte 1 or 0.
    Bool,
    /// Signed integers.
    Int8,
    /// 16-bit signed.
    Int16,
    /// 32-bit signed.
    Int32,
    /// 64-bit signed.
    Int64,
    /// Unsigned integers.
    UInt8,
    /// 16-bit unsigned.
    UInt16,
    /// 32-bit unsigned.
    UInt32,
    /// 64-bit unsigned.
    UInt64,
    /// IEEE binary32.
    Float32,
    /// IEEE binary64.
    Float64,
    /// Scaled integer; 8 bytes up to precision 18, 16 bytes up to 38.
    Decimal {
        /// Digits in all, 1 to 38.
        precision: u8,
        /// Digits after the point, 0 to `precision`.
        scale: u8,
    },
    /// Days since 1970-01-01.
    Date,
    /// Microseconds since midnight.
    Time,
    /// `unit`s since 1970-01-01 00:00:00, in UTC where there is a zone.
    Timestamp {
        /// Resolution.
        unit: TimeUnit,
        /// Zone to show the instant in; `None` is a local date and time.
        zone: Option<String>,
    },
    /// Months, days, nanoseconds.
    Interval,
    /// UTF-8 text.
    Varchar,
    /// Bytes.
    Blob,
}

/// How values of a type lie in memory: little-endian and fixed width, or bytes of any length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum PhysicalType {
    /// 1-byte signed integer.
    I8 = 1,
    /// 2-byte signed integer.
    I16 = 2,
    /// 4-byte signed integer.
    I32 = 3,
    /// 8-byte signed integer.
    I64 = 4,
    /// 16-byte signed integer.
    I128 = 5,
    /// 1-byte unsigned integer (also booleans).
    U8 = 6,
    /// 2-byte unsigned integer.
    U16 = 7,
    /// 4-byte unsigned integer.
    U32 = 8,
    /// 8-byte unsigned integer.
    U64 = 9,
    /// binary32.
    F32 = 10,
    /// binary64.
    F64 = 11,
    /// Bytes of any length, UTF-8 where the logical type is text.
    Bytes = 12,
}

impl PhysicalType {
    /// All physical types, in code order.
    pub const ALL: [Self; 12] = [
        Self::I8,
        Self::I16,
        Self::I32,
        Self::I64,
        Self::I128,
        Self::U8,
        Self::U16,
        Self::U32,
        Self::U64,
        Self::F32,
        Self::F64,
        Self::Bytes,
    ];

    /// Bytes per value; `None` for [`PhysicalType::Bytes`].
    pub const fn width(self) -> Option<usize> {
        match self {
            Self::I8 | Self::U8 => Some(1),
            Self::I16 | Self::U16 => Some(2),
            Self::I32 | Self::U32 | Self::F32 => Some(4),
            Self::I64 | Self::U64 | Self::F64 => Some(8),
            Self::I128 => Some(16),
            Self::Bytes => None,
        }
    }

    /// The type with this code on disk.
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|t| *t as u8 == code)
    }
}

impl LogicalType {
    /// How values of this type are stored.
    pub fn physical(&self) -> PhysicalType {
        match self {
            Self::Bool | Self::UInt8 => PhysicalType::U8,
            Self::Int8 => PhysicalType::I8,
            Self::Int16 => PhysicalType::I16,
            Self::Int32 | Self::Date => PhysicalType::I32,
            Self::Int64 | Self::Time | Self::Timestamp { .. } => PhysicalType::I64,
            Self::UInt16 => PhysicalType::U16,
            Self::UInt32 => PhysicalType::U32,
            Self::UInt64 => PhysicalType::U64,
            Self::Float32 => PhysicalType::F32,
            Self::Float64 => PhysicalType::F64,
            Self::Decimal { precision, .. } if *precision <= limits::DECIMAL64_DIGITS => PhysicalType::I64,
            Self::Decimal { .. } | Self::Interval => PhysicalType::I128,
            Self::Varchar | Self::Blob => PhysicalType::Bytes,
        }
    }

    /// True where the order of physical values is the order of SQL (not so for intervals).
    pub fn is_ordered(&self) -> bool {
        !matches!(self, Self::Interval)
    }

    /// The type written by [`fmt::Display`], as the catalog keeps it.
    pub fn parse(text: &str) -> Result<Self> {
        let unknown = || Error::corrupt(format!("unknown type {text:?}"));
        let (name, arguments) = match text.split_once('(') {
            Some((name, rest)) => (name, rest.strip_suffix(')').ok_or_else(unknown)?),
            None => (text, ""),
        };
        let simple = match name {
            "BOOLEAN" => Self::Bool,
            "TINYINT" => Self::Int8,
            "SMALLINT" => Self::Int16,
            "INTEGER" => Self::Int32,
            "BIGINT" => Self::Int64,
            "UTINYINT" => Self::UInt8,
            "USMALLINT" => Self::UInt16,
            "UINTEGER" => Self::UInt32,
            "UBIGINT" => Self::UInt64,
            "FLOAT" => Self::Float32,
            "DOUBLE" => Self::Float64,
            "DATE" => Self::Date,
            "TIME" => Self::Time,
            "INTERVAL" => Self::Interval,
            "VARCHAR" => Self::Varchar,
            "BLOB" => Self::Blob,
            "DECIMAL" => {
                let (precision, scale) = arguments.split_once(',').ok_or_else(unknown)?;
                let precision = precision.trim().parse().map_err(|_| unknown())?;
                let scale = scale.trim().parse().map_err(|_| unknown())?;
                if precision == 0 || precision > limits::DECIMAL_DIGITS || scale > precision {
                    return Err(unknown());
                }
                return Ok(Self::Decimal { precision, scale });
            }
            "TIMESTAMP_S" => timestamp(TimeUnit::Second, arguments),
            "TIMESTAMP_MS" => timestamp(TimeUnit::Milli, arguments),
            "TIMESTAMP" => timestamp(TimeUnit::Micro, arguments),
            "TIMESTAMP_NS" => timestamp(TimeUnit::Nano, arguments),
            _ => return Err(unknown()),
        };
        Ok(simple)
    }
}

fn timestamp(unit: TimeUnit, zone: &str) -> LogicalType {
    LogicalType::Timestamp { unit, zone: (!zone.is_empty()).then(|| zone.to_owned()) }
}

impl fmt::Display for LogicalType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Self::Bool => "BOOLEAN",
            Self::Int8 => "TINYINT",
            Self::Int16 => "SMALLINT",
            Self::Int32 => "INTEGER",
            Self::Int64 => "BIGINT",
            Self::UInt8 => "UTINYINT",
            Self::UInt16 => "USMALLINT",
            Self::UInt32 => "UINTEGER",
            Self::UInt64 => "UBIGINT",
            Self::Float32 => "FLOAT",
            Self::Float64 => "DOUBLE",
            Self::Decimal { precision, scale } => return write!(f, "DECIMAL({precision},{scale})"),
            Self::Date => "DATE",
            Self::Time => "TIME",
            Self::Timestamp { unit, zone } => {
                let name = match unit {
                    TimeUnit::Second => "TIMESTAMP_S",
                    TimeUnit::Milli => "TIMESTAMP_MS",
                    TimeUnit::Micro => "TIMESTAMP",
                    TimeUnit::Nano => "TIMESTAMP_NS",
                };
                return match zone {
                    Some(zone) => write!(f, "{name}({zone})"),
                    None => f.write_str(name),
                };
            }
            Self::Interval => "INTERVAL",
            Self::Varchar => "VARCHAR",
            Self::Blob => "BLOB",
        };
        f.write_str(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_reads_back_from_its_name() {
        let zoned = LogicalType::Timestamp { unit: TimeUnit::Nano, zone: Some("Europe/Berlin".into()) };
        let local = LogicalType::Timestamp { unit: TimeUnit::Milli, zone: None };
        let decimal = LogicalType::Decimal { precision: 38, scale: 10 };
        for logical in [LogicalType::Bool, LogicalType::UInt64, LogicalType::Blob, decimal, zoned, local] {
            assert_eq!(LogicalType::parse(&logical.to_string()).expect("own name parses"), logical);
        }
        assert!(LogicalType::parse("DECIMAL(39,1)").is_err());
        assert!(LogicalType::parse("TEXTS").is_err());
    }

    #[test]
    fn physical_codes_read_back() {
        for physical in PhysicalType::ALL {
            assert_eq!(PhysicalType::from_code(physical as u8), Some(physical));
        }
        assert_eq!(PhysicalType::from_code(0), None);
    }
}
