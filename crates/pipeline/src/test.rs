//! SARGable tests on one column (Data Blocks §3.4), in canonical form, and their meaning on single values.

use std::ops::Bound;
use std::sync::Arc;

use forebay_base::Value;

use crate::{KeySet, LikePattern};

/// A test on one column. A NULL passes only [`Test::IsNull`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Test {
    /// Between two bounds; `=` is the range with two equal included bounds.
    Range {
        /// Lower bound.
        low: Bound<Value>,
        /// Upper bound.
        high: Bound<Value>,
    },
    /// Any value but this one.
    NotEqual(Value),
    /// One of these values: sorted, without duplicates.
    In(Vec<Value>),
    /// One of these integers, of which there may be very many: what a join has learned of its keys.
    Keys(Arc<KeySet>),
    /// None of these values: sorted, without duplicates.
    NotIn(Vec<Value>),
    /// Text that matches this pattern of LIKE, or with `negated` does not. No value but bytes passes.
    Like {
        /// As [`LikePattern::new`] reads it.
        pattern: Arc<[u8]>,
        /// NOT LIKE.
        negated: bool,
    },
    /// NULL.
    IsNull,
    /// Not NULL.
    IsNotNull,
    /// Nothing passes (for example a comparison with NULL).
    Never,
}

/// A [`Test`] on the column with this position in the table's list of columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnTest {
    /// Position in the table's list of columns.
    pub column: usize,
    /// What its values must pass.
    pub test: Test,
}

impl Test {
    /// `= value`.
    pub fn equal(value: Value) -> Self {
        Self::Range { low: Bound::Included(value.clone()), high: Bound::Included(value) }
    }

    /// `IN (values)`, in canonical form.
    pub fn one_of(mut values: Vec<Value>) -> Self {
        values.sort();
        values.dedup();
        match values.len() {
            0 => Self::Never,
            1 => Self::equal(values.remove(0)),
            _ => Self::In(values),
        }
    }

    /// The meaning: whether `value` passes. Every fast evaluation is compared with this one.
    pub fn passes(&self, value: Option<&Value>) -> bool {
        let Some(value) = value else {
            return matches!(self, Self::IsNull);
        };
        match self {
            Self::Range { low, high } => {
                let above = match low {
                    Bound::Included(low) => value >= low,
                    Bound::Excluded(low) => value > low,
                    Bound::Unbounded => true,
                };
                let below = match high {
                    Bound::Included(high) => value <= high,
                    Bound::Excluded(high) => value < high,
                    Bound::Unbounded => true,
                };
                above && below
            }
            Self::NotEqual(other) => value != other,
            Self::In(values) => values.binary_search(value).is_ok(),
            Self::Keys(keys) => matches!(value, Value::Int(value) if keys.contains(*value)),
            Self::NotIn(values) => values.binary_search(value).is_err(),
            Self::Like { pattern, negated } => {
                matches!(value, Value::Bytes(text) if LikePattern::new(pattern).matches(text) != *negated)
            }
            Self::IsNull | Self::Never => false,
            Self::IsNotNull => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_passes_only_is_null() {
        let all = Test::Range { low: Bound::Unbounded, high: Bound::Unbounded };
        for test in [all, Test::NotEqual(Value::Int(1)), Test::IsNotNull, Test::Never, Test::NotIn(vec![])] {
            assert!(!test.passes(None), "{test:?}");
        }
        assert!(Test::IsNull.passes(None));
    }

    #[test]
    fn one_of_is_canonical() {
        let list = |v: &[i128]| Test::one_of(v.iter().map(|v| Value::Int(*v)).collect());
        assert_eq!(list(&[]), Test::Never);
        assert_eq!(list(&[3]), Test::equal(Value::Int(3)));
        assert_eq!(list(&[3, 1, 3]), Test::In(vec![Value::Int(1), Value::Int(3)]));
    }
}
