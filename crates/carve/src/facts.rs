//! What scalars are made of besides operations: variables, constants, and what is known of values.

use std::sync::Arc;

use forebay_base::compare_floats;
use forebay_pipeline::ir::{Constant, ValueType};

use forebay_pipeline::interval::Interval;

/// A column of a table, a group or the result of an aggregate: what pipelines carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Variable(pub u32);

/// What is known of a scalar's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ValueFacts {
    /// The type that it is computed in.
    pub value: ValueType,
    /// It may be NULL.
    pub nullable: bool,
    /// The bounds of an integer; that of 16 bytes for all other types.
    pub interval: Interval,
}

/// A constant that can be compared and hashed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Literal {
    /// NULL.
    Null,
    /// true or false.
    Bool(bool),
    /// An integer.
    Int(i128),
    /// The bits of a float in its canonical form.
    Float(u64),
    /// Text or blob.
    Bytes(Arc<[u8]>),
}

impl Literal {
    /// As the IR writes it.
    pub fn constant(&self) -> Constant {
        match self {
            Self::Null => Constant::Null,
            Self::Bool(value) => Constant::Bool(*value),
            Self::Int(value) => Constant::Int(*value),
            Self::Float(bits) => Constant::Float(f64::from_bits(*bits)),
            Self::Bytes(bytes) => Constant::Bytes(Arc::clone(bytes)),
        }
    }

    /// The order of constants of one type.
    pub fn compare(&self, other: &Self) -> std::cmp::Ordering {
        match (self, other) {
            (Self::Bool(a), Self::Bool(b)) => a.cmp(b),
            (Self::Int(a), Self::Int(b)) => a.cmp(b),
            (Self::Float(a), Self::Float(b)) => compare_floats(f64::from_bits(*a), f64::from_bits(*b)),
            (Self::Bytes(a), Self::Bytes(b)) => a.cmp(b),
            _ => std::cmp::Ordering::Equal,
        }
    }
}

/// How far a number may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Range {
    /// A binary64.
    Float,
    /// An error beyond 8 bytes.
    I64,
    /// An error beyond 16 bytes.
    I128,
    /// An error beyond these bounds, which the IR cannot notice.
    Bounds(Interval),
}

impl ValueFacts {
    /// A type whose values have no bounds.
    pub fn of(value: ValueType, nullable: bool) -> Self {
        let interval = if value == ValueType::I64 { Interval::I64 } else { Interval::I128 };
        Self { value, nullable, interval }
    }

    /// Of values of either shape.
    pub fn either(self, other: Self) -> Self {
        let interval = self.interval.around(other.interval);
        let value = match (self.value, other.value) {
            (ValueType::I128, ValueType::I64) | (ValueType::I64, ValueType::I128) => ValueType::I128,
            (value, _) => value,
        };
        Self { value, nullable: self.nullable || other.nullable, interval }
    }
}

/// Whether it is one of the integers.
pub fn is_integer(value: ValueType) -> bool {
    matches!(value, ValueType::I64 | ValueType::I128)
}

/// Whether 8 bytes hold all of it.
pub fn fits_i64(interval: Interval) -> bool {
    Interval::I64.contains(interval)
}

/// The narrowest type of integers within `interval`.
pub fn width(interval: Interval) -> ValueType {
    if fits_i64(interval) { ValueType::I64 } else { ValueType::I128 }
}
