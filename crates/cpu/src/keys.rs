//! Tests as sets of ranges: of order keys for numbers, of bytes for strings.
//!
//! Invariants: constants of another family than the column's lie below or above all its values, as in `Value`'s order.

use std::ops::Bound;

use forebay_base::{PhysicalType, Value};
use forebay_block::native::float_key;
use forebay_pipeline::Predicate;

/// Where a constant lies among the values of a column.
enum Place<K> {
    Below,
    At(K),
    Above,
}

/// Ascending, disjoint ranges of one kind of key, or all that is outside of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RangeSet<R> {
    pub(crate) ranges: Vec<R>,
    pub(crate) negated: bool,
}

/// Inclusive range of order keys.
pub(crate) type KeyRange = (i128, i128);
/// Range of strings.
pub(crate) type StringRange = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// The keys that pass `test`, which is not about NULL.
pub(crate) fn key_set(test: &Predicate, physical: PhysicalType) -> RangeSet<KeyRange> {
    let is_float = matches!(physical, PhysicalType::F32 | PhysicalType::F64);
    let place = |value: &Value| match value {
        Value::Int(value) if !is_float => Place::At(*value),
        Value::Int(_) => Place::Below,
        Value::Float(value) if is_float => Place::At(i128::from(float_key(*value))),
        Value::Float(_) | Value::Bytes(_) => Place::Above,
    };
    let low = |bound: &Bound<Value>| match bound {
        Bound::Unbounded => Some(i128::MIN),
        Bound::Included(value) | Bound::Excluded(value) => match place(value) {
            Place::Below => Some(i128::MIN),
            Place::At(key) => key.checked_add(i128::from(matches!(bound, Bound::Excluded(_)))),
            Place::Above => None,
        },
    };
    let high = |bound: &Bound<Value>| match bound {
        Bound::Unbounded => Some(i128::MAX),
        Bound::Included(value) | Bound::Excluded(value) => match place(value) {
            Place::Below => None,
            Place::At(key) => key.checked_sub(i128::from(matches!(bound, Bound::Excluded(_)))),
            Place::Above => Some(i128::MAX),
        },
    };
    let range = |(from, to): (&Bound<Value>, &Bound<Value>)| low(from).zip(high(to)).filter(|(from, to)| from <= to);
    let point = |value: &Value| match place(value) {
        Place::At(key) => Some((key, key)),
        Place::Below | Place::Above => None,
    };
    range_set(test, range, point)
}

/// The strings that pass `test`, which is not about NULL.
pub(crate) fn string_set(test: &Predicate) -> RangeSet<StringRange> {
    // Constants that are no strings lie below all strings.
    let low = |bound: &Bound<Value>| match bound {
        Bound::Included(Value::Bytes(value)) => Bound::Included(value.clone()),
        Bound::Excluded(Value::Bytes(value)) => Bound::Excluded(value.clone()),
        _ => Bound::Unbounded,
    };
    let range = |(from, to): (&Bound<Value>, &Bound<Value>)| match to {
        Bound::Included(Value::Bytes(value)) => Some((low(from), Bound::Included(value.clone()))),
        Bound::Excluded(Value::Bytes(value)) => Some((low(from), Bound::Excluded(value.clone()))),
        Bound::Unbounded => Some((low(from), Bound::Unbounded)),
        _ => None,
    };
    let point = |value: &Value| match value {
        Value::Bytes(value) => Some((Bound::Included(value.clone()), Bound::Included(value.clone()))),
        _ => None,
    };
    range_set(test, range, point)
}

fn range_set<R>(
    test: &Predicate,
    range: impl Fn((&Bound<Value>, &Bound<Value>)) -> Option<R>,
    point: impl Fn(&Value) -> Option<R>,
) -> RangeSet<R> {
    let ranges = match test {
        Predicate::Range { low, high } => range((low, high)).into_iter().collect(),
        Predicate::NotEqual(value) => point(value).into_iter().collect(),
        Predicate::In(values) | Predicate::NotIn(values) => values.iter().filter_map(point).collect(),
        // Keys are looked up and patterns matched, not made into ranges.
        Predicate::Keys(_) | Predicate::Like { .. } | Predicate::IsNull | Predicate::IsNotNull | Predicate::Never => {
            Vec::new()
        }
    };
    RangeSet { ranges, negated: matches!(test, Predicate::NotEqual(_) | Predicate::NotIn(_) | Predicate::IsNotNull) }
}
