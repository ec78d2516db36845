//! Values for the parameters of prepared statements.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Decimal128Array, Float32Array, Float64Array, Int8Array, Int16Array,
    Int32Array, Int64Array, NullArray, StringArray, UInt8Array, UInt16Array, UInt32Array, UInt64Array,
};
use arrow::datatypes::DataType;
use forebay_base::{Error, Result};
use forebay_render::types::sql_name;
use forebay_render::value::{Notation, cells};
use forebay_sql::Argument;

/// One value of any type: an array of one row, or what is made into one.
///
/// ```
/// use forebay::Value;
/// use std::sync::Arc;
/// let day = forebay::arrow::array::Date32Array::from(vec![9497]);
/// for value in [Value::from(5), Value::from("text"), Value::from(None::<f64>), Value::array(Arc::new(day)).unwrap()] {
///     assert_eq!(value.as_array().len(), 1);
/// }
/// ```
#[derive(Debug, Clone)]
pub struct Value(ArrayRef);

impl Value {
    /// NULL, of no type.
    pub fn null() -> Self {
        Self(Arc::new(NullArray::new(1)))
    }

    /// A decimal: `unscaled` divided by ten to the power of `scale`.
    ///
    /// Errors: digits or a scale that decimals do not have.
    pub fn decimal(unscaled: i128, precision: u8, scale: u8) -> Result<Self> {
        let array = Decimal128Array::from(vec![unscaled]).with_precision_and_scale(precision, scale as i8);
        Ok(Self(Arc::new(array.map_err(|error| Error::input(error.to_string()))?)))
    }

    /// The value of an array of one row, whose type the value has: dates, times, timestamps, intervals and so on.
    ///
    /// Errors: an array of no row, or of more.
    pub fn array(array: ArrayRef) -> Result<Self> {
        match array.len() {
            1 => Ok(Self(array)),
            rows => Err(Error::input(format!("a parameter takes one value, not {rows}"))),
        }
    }

    /// The value as an array of one row.
    pub fn as_array(&self) -> &ArrayRef {
        &self.0
    }

    /// The value as SQL, with its type.
    fn sql(&self) -> Result<String> {
        let data_type = self.0.data_type();
        if data_type.is_nested() {
            return Err(Error::unsupported(format!("a parameter of type {} is not supported", sql_name(data_type)))
                .hint("Give its parts as parameters, or write the value in the statement"));
        }
        let mut text = String::new();
        let is_null = !cells(&self.0, Notation::Text)(0, &mut text);
        Ok(match data_type {
            DataType::Null => "NULL".to_owned(),
            _ if is_null => format!("CAST(NULL AS {})", sql_name(data_type)),
            DataType::Boolean => text,
            // Texts become what they stand beside, as they do where they are written.
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => quoted(&text),
            DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
                let bytes: String = text.as_bytes()[2..].chunks(2).map(escaped).collect();
                format!("CAST('{bytes}' AS BLOB)")
            }
            DataType::Int64 if !text.starts_with('-') => text,
            _ => format!("CAST({} AS {})", quoted(&text), sql_name(data_type)),
        })
    }
}

/// `\xff` of `ff`.
fn escaped(digits: &[u8]) -> String {
    format!("\\x{}", String::from_utf8_lossy(digits))
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// Rust's types as values.
macro_rules! values_from {
    ($($source:ty => $array:ty),* $(,)?) => {
        $(impl From<$source> for Value {
            fn from(value: $source) -> Self {
                Self(Arc::new(<$array>::from(vec![value])))
            }
        }

        impl From<Option<$source>> for Value {
            fn from(value: Option<$source>) -> Self {
                Self(Arc::new(<$array>::from(vec![value])))
            }
        })*
    };
}

values_from!(
    bool => BooleanArray,
    i8 => Int8Array,
    i16 => Int16Array,
    i32 => Int32Array,
    i64 => Int64Array,
    u8 => UInt8Array,
    u16 => UInt16Array,
    u32 => UInt32Array,
    u64 => UInt64Array,
    f32 => Float32Array,
    f64 => Float64Array,
    &str => StringArray,
    String => StringArray,
    &[u8] => BinaryArray,
);

/// Values for all parameters of a statement.
///
/// ```
/// use forebay::Params;
/// let numbered = Params::new().push(5).push("text");
/// let named = Params::new().bind("day", "1996-01-01").bind("$least", 5);
/// ```
#[derive(Debug, Clone, Default)]
pub struct Params(Vec<(Option<String>, Value)>);

impl Params {
    /// No values.
    pub fn new() -> Self {
        Self::default()
    }

    /// With the value of the next numbered parameter, `$1` first.
    #[must_use]
    pub fn push(mut self, value: impl Into<Value>) -> Self {
        self.0.push((None, value.into()));
        self
    }

    /// With the value of a named parameter, with or without its `$`.
    #[must_use]
    pub fn bind(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.0.push((Some(name.trim_start_matches('$').to_owned()), value.into()));
        self
    }

    /// As arrays.
    pub(crate) fn values(&self) -> Vec<(Option<&str>, &ArrayRef)> {
        self.0.iter().map(|(name, value)| (name.as_deref(), &value.0)).collect()
    }

    /// As SQL.
    pub(crate) fn arguments(&self) -> Result<Vec<Argument>> {
        let argument =
            |(name, value): &(Option<String>, Value)| Ok(Argument { name: name.clone(), value: value.sql()? });
        self.0.iter().map(argument).collect()
    }
}
