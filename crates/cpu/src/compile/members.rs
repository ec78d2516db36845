//! The lists of IN that compiled code looks up by calls.

use std::sync::Arc;

use forebay_base::canonical_f64;
use forebay_pipeline::ir::{Constant, ValueType};

/// The constants of an IN list.
#[derive(Debug)]
pub(super) enum Members {
    I64(Vec<i64>),
    I128(Vec<i128>),
    /// Canonical bits.
    F64(Vec<u64>),
    Bytes(Vec<Arc<[u8]>>),
}

impl Members {
    /// A list of constants of one type, none of them NULL.
    pub(super) fn new(value: ValueType, list: &[Constant]) -> Self {
        let integers = || {
            list.iter().filter_map(|constant| match constant {
                Constant::Int(value) => Some(*value),
                _ => None,
            })
        };
        let mut members = match value {
            ValueType::I128 => Self::I128(integers().collect()),
            ValueType::F64 => Self::F64(list.iter().filter_map(float_bits).collect()),
            ValueType::Bytes => Self::Bytes(list.iter().filter_map(text).collect()),
            ValueType::I64 | ValueType::Bool => Self::I64(integers().filter_map(|x| i64::try_from(x).ok()).collect()),
        };
        match &mut members {
            Self::I64(list) => list.sort_unstable(),
            Self::I128(list) => list.sort_unstable(),
            Self::F64(list) => list.sort_unstable(),
            Self::Bytes(list) => list.sort_unstable(),
        }
        members
    }
}

fn float_bits(constant: &Constant) -> Option<u64> {
    match constant {
        Constant::Float(value) => Some(canonical_f64(*value).to_bits()),
        _ => None,
    }
}

fn text(constant: &Constant) -> Option<Arc<[u8]>> {
    match constant {
        Constant::Bytes(bytes) => Some(Arc::clone(bytes)),
        _ => None,
    }
}
