//! Values that a program is given for its parameters, each with its type.
//!
//! Must not know: statements.

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use datafusion::common::DataFusionError;
use datafusion::scalar::ScalarValue;
use forebay_base::{Error, Result};

/// A value for a parameter, with its type. Those of plain types take no memory of their own.
#[derive(Debug, Clone, PartialEq)]
pub struct ParameterValue(pub(crate) ScalarValue);

/// A value for a parameter: of this name, or of that of its place.
pub type Named = (Option<String>, ParameterValue);

fn input(error: DataFusionError) -> Error {
    Error::input(error.strip_backtrace())
}

impl ParameterValue {
    /// NULL, of no type.
    pub fn null() -> Self {
        Self(ScalarValue::Null)
    }

    /// A decimal: `unscaled` divided by ten to the power of `scale`.
    ///
    /// # Errors
    /// `Input` for digits or a scale that decimals do not have.
    pub fn decimal(unscaled: i128, precision: u8, scale: i8) -> Result<Self> {
        ScalarValue::try_new_decimal128(unscaled, precision, scale).map(Self).map_err(input)
    }

    /// The first value of an array.
    ///
    /// # Errors
    /// `Input` for an array without rows, or of a type without values.
    pub fn of_array(array: &ArrayRef) -> Result<Self> {
        ScalarValue::try_from_array(array, 0).map(Self).map_err(input)
    }

    /// An array of this value alone.
    ///
    /// # Errors
    /// `Input` for a type of which there are no arrays.
    pub fn to_array(&self) -> Result<ArrayRef> {
        self.0.to_array().map_err(input)
    }

    /// Its type.
    pub fn data_type(&self) -> DataType {
        self.0.data_type()
    }
}

/// Rust's types as values.
macro_rules! values_from {
    ($($source:ty => $variant:ident),* $(,)?) => {
        $(impl From<Option<$source>> for ParameterValue {
            fn from(value: Option<$source>) -> Self {
                Self(ScalarValue::$variant(value.map(Into::into)))
            }
        })*
    };
}

values_from!(
    bool => Boolean,
    i8 => Int8,
    i16 => Int16,
    i32 => Int32,
    i64 => Int64,
    u8 => UInt8,
    u16 => UInt16,
    u32 => UInt32,
    u64 => UInt64,
    f32 => Float32,
    f64 => Float64,
    &str => Utf8,
    String => Utf8,
    &[u8] => Binary,
);

/// Values in the order of the parameters, which have these names; `None` where there are too few, too many or others.
pub fn ordered<'v>(names: &[String], values: &'v [Named]) -> Option<Vec<&'v ParameterValue>> {
    if names.len() != values.len() {
        return None;
    }
    let value = |(at, name): (usize, &String)| {
        let (own, value) = &values[at];
        match own {
            None => (name.parse() == Ok(at + 1)).then_some(value),
            Some(_) => {
                let is_it = |(own, _): &&Named| own.as_ref().is_some_and(|own| own.eq_ignore_ascii_case(name));
                values.iter().find(is_it).map(|(_, value)| value)
            }
        }
    };
    names.iter().enumerate().map(value).collect()
}
