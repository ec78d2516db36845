//! Values for the parameters of prepared statements.

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::DataType;
use forebay_base::{Error, Result};
use forebay_render::types::sql_name;
use forebay_render::value::{Notation, cells};
use forebay_sql::{Argument, Named, ParameterValue};

/// One value of any type.
///
/// ```
/// use forebay::Value;
/// use std::sync::Arc;
/// let day = forebay::arrow::array::Date32Array::from(vec![9497]);
/// for value in [Value::from(5), Value::from("text"), Value::from(None::<f64>), Value::array(Arc::new(day)).unwrap()] {
///     assert_eq!(value.to_array().unwrap().len(), 1);
/// }
/// ```
#[derive(Debug, Clone)]
pub struct Value(ParameterValue);

impl Value {
    /// NULL, of no type.
    pub fn null() -> Self {
        Self(ParameterValue::null())
    }

    /// A decimal: `unscaled` divided by ten to the power of `scale`.
    ///
    /// Errors: digits or a scale that decimals do not have.
    pub fn decimal(unscaled: i128, precision: u8, scale: u8) -> Result<Self> {
        let scale = i8::try_from(scale).map_err(|_| Error::input(format!("a decimal has no scale of {scale}")))?;
        ParameterValue::decimal(unscaled, precision, scale).map(Self)
    }

    /// The value of an array of one row, whose type the value has: dates, times, timestamps, intervals and so on.
    ///
    /// Errors: an array of no row, or of more; a type without single values.
    pub fn array(array: ArrayRef) -> Result<Self> {
        match array.len() {
            1 => ParameterValue::of_array(&array).map(Self),
            rows => Err(Error::input(format!("a parameter takes one value, not {rows}"))),
        }
    }

    /// The value as an array of one row.
    ///
    /// Errors: a type of which there are no arrays.
    pub fn to_array(&self) -> Result<ArrayRef> {
        self.0.to_array()
    }
}

/// A value as SQL, with its type.
fn sql(value: &ParameterValue) -> Result<String> {
    let array = value.to_array()?;
    let data_type = array.data_type();
    if data_type.is_nested() {
        return Err(Error::unsupported(format!("a parameter of type {} is not supported", sql_name(data_type)))
            .hint("Give its parts as parameters, or write the value in the statement"));
    }
    let mut text = String::new();
    let is_null = !cells(&array, Notation::Text)(0, &mut text);
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

/// `\xff` of `ff`.
fn escaped(digits: &[u8]) -> String {
    format!("\\x{}", String::from_utf8_lossy(digits))
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// Rust's types as values.
macro_rules! values_from {
    ($($source:ty),* $(,)?) => {
        $(impl From<$source> for Value {
            fn from(value: $source) -> Self {
                Self(Some(value).into())
            }
        }

        impl From<Option<$source>> for Value {
            fn from(value: Option<$source>) -> Self {
                Self(value.into())
            }
        })*
    };
}

values_from!(bool, i8, i16, i32, i64, u8, u16, u32, u64, f32, f64, &str, String, &[u8]);

/// Values for all parameters of a statement.
///
/// ```
/// use forebay::Params;
/// let numbered = Params::new().push(5).push("text");
/// let named = Params::new().bind("day", "1996-01-01").bind("$least", 5);
/// ```
#[derive(Debug, Clone, Default)]
pub struct Params(Vec<Named>);

impl Params {
    /// No values.
    pub fn new() -> Self {
        Self::default()
    }

    /// No values, with room for so many.
    pub fn with_capacity(values: usize) -> Self {
        Self(Vec::with_capacity(values))
    }

    /// With the value of the next numbered parameter, `$1` first.
    #[must_use]
    pub fn push(mut self, value: impl Into<Value>) -> Self {
        self.0.push((None, value.into().0));
        self
    }

    /// With the value of a named parameter, with or without its `$`.
    #[must_use]
    pub fn bind(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.0.push((Some(name.trim_start_matches('$').to_owned()), value.into().0));
        self
    }

    /// By name or in their order.
    pub(crate) fn values(&self) -> &[Named] {
        &self.0
    }

    /// As SQL.
    pub(crate) fn arguments(&self) -> Result<Vec<Argument>> {
        let argument = |(name, value): &Named| Ok(Argument { name: name.clone(), value: sql(value)? });
        self.0.iter().map(argument).collect()
    }
}
