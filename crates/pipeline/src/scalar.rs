//! One value of a row, of any type, or NULL.
//!
//! Invariants: floats are canonical, so that equal scalars have equal bits. The order is that of SQL within a type.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use forebay_base::{Value, canonical_f64, compare_floats};

use crate::ir::{Constant, Typed, ValueType};

/// A value or NULL. NULL equals itself here, as it does in the keys of groups.
#[derive(Debug, Clone)]
pub enum Scalar {
    /// NULL of any type.
    Null,
    /// true or false.
    Bool(bool),
    /// 8-byte signed integer.
    I64(i64),
    /// 16-byte signed integer.
    I128(i128),
    /// binary64; made by [`Scalar::float`].
    F64(f64),
    /// Text or blob.
    Bytes(Arc<[u8]>),
}

impl Scalar {
    /// A float in canonical form.
    pub fn float(value: f64) -> Self {
        Self::F64(canonical_f64(value))
    }

    /// Text or blob.
    pub fn bytes(value: &[u8]) -> Self {
        Self::Bytes(value.into())
    }

    /// A constant as a value of this type; `None` where it is not one.
    pub fn of_constant(constant: &Constant, value: ValueType) -> Option<Self> {
        Some(match (constant, value) {
            (Constant::Null, _) => Self::Null,
            (Constant::Bool(constant), ValueType::Bool) => Self::Bool(*constant),
            (Constant::Int(constant), ValueType::I64) => Self::I64(i64::try_from(*constant).ok()?),
            (Constant::Int(constant), ValueType::I128) => Self::I128(*constant),
            (Constant::Float(constant), ValueType::F64) => Self::float(*constant),
            (Constant::Bytes(constant), ValueType::Bytes) => Self::Bytes(constant.clone()),
            _ => return None,
        })
    }

    /// A value of a column as this type, where booleans are 0 and 1; `None` is NULL. `None` where it is not of the type.
    pub fn of_value(value: Option<&Value>, as_type: ValueType) -> Option<Self> {
        Some(match (value, as_type) {
            (None, _) => Self::Null,
            (Some(Value::Int(value)), ValueType::Bool) => Self::Bool(*value != 0),
            (Some(Value::Int(value)), ValueType::I64) => Self::I64(i64::try_from(*value).ok()?),
            (Some(Value::Int(value)), ValueType::I128) => Self::I128(*value),
            (Some(Value::Float(value)), ValueType::F64) => Self::float(*value),
            (Some(Value::Bytes(value)), ValueType::Bytes) => Self::bytes(value),
            _ => return None,
        })
    }

    /// As tests on columns see it: `None` is NULL.
    pub fn to_value(&self) -> Option<Value> {
        match self {
            Self::Null => None,
            Self::Bool(value) => Some(Value::Int(i128::from(*value))),
            Self::I64(value) => Some(Value::Int(i128::from(*value))),
            Self::I128(value) => Some(Value::Int(*value)),
            Self::F64(value) => Some(Value::Float(*value)),
            Self::Bytes(value) => Some(Value::Bytes(value.to_vec())),
        }
    }

    /// Its type; `None` for NULL.
    pub fn value_type(&self) -> Option<ValueType> {
        match self {
            Self::Null => None,
            Self::Bool(_) => Some(ValueType::Bool),
            Self::I64(_) => Some(ValueType::I64),
            Self::I128(_) => Some(ValueType::I128),
            Self::F64(_) => Some(ValueType::F64),
            Self::Bytes(_) => Some(ValueType::Bytes),
        }
    }

    /// Whether a register of this type can hold it.
    pub fn is_of(&self, typed: Typed) -> bool {
        self.value_type().map_or(typed.nullable, |value| value == typed.value)
    }

    /// Whether it is NULL.
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    fn family(&self) -> u8 {
        self.value_type().map_or(0, |value| 1 + value as u8)
    }
}

impl Ord for Scalar {
    /// NULL first; across types (a bug of the caller) by type.
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Bool(a), Self::Bool(b)) => a.cmp(b),
            (Self::I64(a), Self::I64(b)) => a.cmp(b),
            (Self::I128(a), Self::I128(b)) => a.cmp(b),
            (Self::F64(a), Self::F64(b)) => compare_floats(*a, *b),
            (Self::Bytes(a), Self::Bytes(b)) => a.cmp(b),
            _ => self.family().cmp(&other.family()),
        }
    }
}

impl PartialOrd for Scalar {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Scalar {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Scalar {}

impl Hash for Scalar {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self {
            Self::Null => state.write_u8(0),
            Self::Bool(value) => value.hash(state),
            Self::I64(value) => value.hash(state),
            Self::I128(value) => value.hash(state),
            Self::F64(value) => canonical_f64(*value).to_bits().hash(state),
            Self::Bytes(value) => value.hash(state),
        }
    }
}

impl fmt::Display for Scalar {
    /// As the text form writes constants.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => Constant::Null.fmt(f),
            Self::Bool(value) => Constant::Bool(*value).fmt(f),
            Self::I64(value) => value.fmt(f),
            Self::I128(value) => value.fmt(f),
            Self::F64(value) => Constant::Float(*value).fmt(f),
            Self::Bytes(value) => Constant::Bytes(value.clone()).fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hash::DefaultHasher;

    #[test]
    fn equal_floats_hash_alike() {
        let hash = |scalar: Scalar| {
            let mut hasher = DefaultHasher::new();
            scalar.hash(&mut hasher);
            hasher.finish()
        };
        for (a, b) in [(0.0, -0.0), (f64::NAN, -f64::NAN)] {
            assert_eq!(Scalar::F64(a), Scalar::F64(b));
            assert_eq!(hash(Scalar::F64(a)), hash(Scalar::F64(b)));
        }
        assert!(Scalar::float(f64::NAN) > Scalar::float(f64::INFINITY));
        assert!(Scalar::Null < Scalar::Bool(false) && Scalar::Null == Scalar::Null);
    }
}
