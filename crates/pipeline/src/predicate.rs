//! SARGable predicates on one column (Data Blocks §3.4), in canonical form, and their meaning on single values.

use std::cmp::Ordering;
use std::ops::Bound;
use std::sync::Arc;

use forebay_base::Value;

use crate::{KeySet, LikePattern};

/// A test on one column. A NULL passes only [`Predicate::IsNull`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Predicate {
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
    /// One of these integers, of which there may be very many: the keys of a build side, as a runtime filter has them.
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

/// A [`Predicate`] on the column with this position in the table's list of columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnPredicate {
    /// Position in the table's list of columns.
    pub column: usize,
    /// What its values must pass.
    pub test: Predicate,
}

impl Predicate {
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

    /// The one test that passes what both pass; `None` where that needs two.
    pub fn and(&self, other: &Self) -> Option<Self> {
        Some(match (self, other) {
            (Self::Range { low: a_low, high: a_high }, Self::Range { low: b_low, high: b_high }) => {
                let (low, high) = (tighter(a_low, b_low, Ordering::Greater), tighter(a_high, b_high, Ordering::Less));
                match (&low, &high) {
                    (Bound::Included(first), Bound::Included(last)) if first > last => Self::Never,
                    (Bound::Included(first) | Bound::Excluded(first), Bound::Excluded(last)) if first >= last => {
                        Self::Never
                    }
                    (Bound::Excluded(first), Bound::Included(last)) if first >= last => Self::Never,
                    _ => Self::Range { low, high },
                }
            }
            (Self::In(values), test @ (Self::Range { .. } | Self::In(_) | Self::NotIn(_) | Self::NotEqual(_)))
            | (test @ (Self::Range { .. } | Self::NotIn(_) | Self::NotEqual(_)), Self::In(values)) => {
                Self::one_of(values.iter().filter(|value| test.passes(Some(value))).cloned().collect())
            }
            (Self::Never, _) | (_, Self::Never) | (Self::IsNull, Self::IsNotNull) | (Self::IsNotNull, Self::IsNull) => {
                Self::Never
            }
            (Self::IsNotNull, test) | (test, Self::IsNotNull) if *test != Self::IsNull => test.clone(),
            (a, b) if a == b => a.clone(),
            _ => return None,
        })
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

/// The one of two bounds that leaves less: of two values the one that is `further` than the other.
fn tighter(a: &Bound<Value>, b: &Bound<Value>, further: Ordering) -> Bound<Value> {
    let (first, second) = match (a, b) {
        (Bound::Unbounded, bound) | (bound, Bound::Unbounded) => return bound.clone(),
        (Bound::Included(first) | Bound::Excluded(first), Bound::Included(second) | Bound::Excluded(second)) => {
            (first, second)
        }
    };
    match first.cmp(second) {
        Ordering::Equal if matches!(a, Bound::Included(_)) => b.clone(),
        Ordering::Equal => a.clone(),
        order if order == further => a.clone(),
        _ => b.clone(),
    }
}

/// The same tests with one for each column where one can say it: `BETWEEN` is one look at a code and not two. Each stands
/// where the column's first one stood.
pub fn merge_tests(tests: impl IntoIterator<Item = ColumnPredicate>) -> Vec<ColumnPredicate> {
    let mut merged: Vec<ColumnPredicate> = Vec::new();
    for next in tests {
        let both = merged.iter_mut().filter(|known| known.column == next.column);
        match both.into_iter().find_map(|known| Some((known.test.and(&next.test)?, known))) {
            Some((test, known)) => known.test = test,
            None => merged.push(next),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_passes_only_is_null() {
        let all = Predicate::Range { low: Bound::Unbounded, high: Bound::Unbounded };
        for test in
            [all, Predicate::NotEqual(Value::Int(1)), Predicate::IsNotNull, Predicate::Never, Predicate::NotIn(vec![])]
        {
            assert!(!test.passes(None), "{test:?}");
        }
        assert!(Predicate::IsNull.passes(None));
    }

    #[test]
    fn one_of_is_canonical() {
        let list = |v: &[i128]| Predicate::one_of(v.iter().map(|v| Value::Int(*v)).collect());
        assert_eq!(list(&[]), Predicate::Never);
        assert_eq!(list(&[3]), Predicate::equal(Value::Int(3)));
        assert_eq!(list(&[3, 1, 3]), Predicate::In(vec![Value::Int(1), Value::Int(3)]));
    }

    /// Every pair of tests on numbers, with bounds that meet, cross and leave nothing between them, and NULL.
    #[test]
    fn one_test_passes_what_both_pass() {
        let bounds = |value: i128| [Bound::Included(Value::Int(value)), Bound::Excluded(Value::Int(value))];
        let mut all_bounds: Vec<Bound<Value>> = (1..=3).flat_map(bounds).collect();
        all_bounds.push(Bound::Unbounded);
        let mut tests =
            vec![Predicate::IsNull, Predicate::IsNotNull, Predicate::Never, Predicate::NotEqual(Value::Int(2))];
        for low in &all_bounds {
            tests.extend(all_bounds.iter().map(|high| Predicate::Range { low: low.clone(), high: high.clone() }));
        }
        let list = |values: &[i128]| values.iter().map(|value| Value::Int(*value)).collect::<Vec<_>>();
        tests.extend([Predicate::In(list(&[1, 3])), Predicate::In(list(&[0, 1, 2])), Predicate::NotIn(list(&[1, 4]))]);
        let values: Vec<Option<Value>> = (0..=4).map(|value| Some(Value::Int(value))).chain([None]).collect();
        let mut one = 0;
        for (a, b) in tests.iter().flat_map(|a| tests.iter().map(move |b| (a, b))) {
            let Some(both) = a.and(b) else { continue };
            one += 1;
            for value in &values {
                let value = value.as_ref();
                assert_eq!(both.passes(value), a.passes(value) && b.passes(value), "{a:?} and {b:?}: {both:?}");
            }
        }
        // Left as two: IS NULL with what it contradicts, and values that are left out with ranges or one another.
        assert!(one > tests.len() * tests.len() * 9 / 10, "{one} of {}", tests.len() * tests.len());
    }

    #[test]
    fn bounds_of_one_column_become_one_range() {
        let on = |column, test| ColumnPredicate { column, test };
        let low = |value: f64| Predicate::Range { low: Bound::Included(Value::Float(value)), high: Bound::Unbounded };
        let high =
            |text: &str| Predicate::Range { low: Bound::Unbounded, high: Bound::Excluded(Value::Bytes(text.into())) };
        let not = || Predicate::NotEqual(Value::Float(2.0));
        let tests = vec![on(4, low(1.0)), on(7, high("b")), on(4, not()), on(4, low(f64::NAN)), on(7, high("a"))];
        let expect = vec![on(4, low(f64::NAN)), on(7, high("a")), on(4, not())];
        assert_eq!(merge_tests(tests), expect);
    }
}
