//! What to read: decides from metadata alone which chunks and blocks can hold matching rows (GOLAP §4.1, Data Blocks
//! §3.2): the min, max and NULL count of a block, its small materialised aggregate (SMA). Positional ones need the codes, and
//! are `forebay_block::Psma`'s.
//!
//! Invariants: never rules out a row that passes; pure. Must not know: files, threads, codes.
#![forbid(unsafe_code)]

pub mod bins;
pub mod blocks;
pub mod bloom;
pub mod zones;

use std::ops::Bound;

use forebay_base::Value;
use forebay_block::Zone;
use forebay_pipeline::Predicate;

/// Whether some row of the zone may pass `test`. `false` is a proof.
pub fn may_pass(zone: &Zone, test: &Predicate) -> bool {
    if zone.rows == 0 {
        return false;
    }
    match test {
        Predicate::IsNull => return zone.null_count > 0,
        Predicate::Never => return false,
        _ if zone.null_count == zone.rows => return false,
        _ => {}
    }
    match test {
        Predicate::Range { low, high } => !(is_below(zone.max.as_ref(), low) || is_above(zone.min.as_ref(), high)),
        Predicate::In(values) => {
            let first = match &zone.min {
                Some(min) => values.partition_point(|value| value < min),
                None => 0,
            };
            values.get(first).is_some_and(|value| zone.max.as_ref().is_none_or(|max| value <= max))
        }
        Predicate::Keys(keys) => match (&zone.min, &zone.max) {
            (Some(Value::Int(min)), Some(Value::Int(max))) => keys.meets(*min, *max),
            _ => true,
        },
        Predicate::NotEqual(value) => !is_only(zone, value),
        Predicate::NotIn(values) => !values.iter().any(|value| is_only(zone, value)),
        // What every match begins with is a test of its own.
        Predicate::Like { .. } | Predicate::IsNull | Predicate::IsNotNull | Predicate::Never => true,
    }
}

/// Whether every row of the zone passes `test` for sure, so that it need not be evaluated. `true` is a proof.
pub fn must_pass(zone: &Zone, test: &Predicate) -> bool {
    if matches!(test, Predicate::IsNull) {
        return zone.null_count == zone.rows;
    }
    if zone.null_count > 0 {
        return false;
    }
    let (min, max) = (zone.min.as_ref(), zone.max.as_ref());
    match test {
        Predicate::IsNotNull => true,
        Predicate::Range { low, high } => {
            let above = match low {
                Bound::Unbounded => true,
                Bound::Included(low) => min.is_some_and(|min| min >= low),
                Bound::Excluded(low) => min.is_some_and(|min| min > low),
            };
            let below = match high {
                Bound::Unbounded => true,
                Bound::Included(high) => max.is_some_and(|max| max <= high),
                Bound::Excluded(high) => max.is_some_and(|max| max < high),
            };
            above && below
        }
        Predicate::NotEqual(value) => is_outside(zone, value),
        Predicate::NotIn(values) => values.iter().all(|value| is_outside(zone, value)),
        Predicate::Keys(keys) => match (&zone.min, &zone.max) {
            (Some(Value::Int(min)), Some(Value::Int(max))) => keys.covers(*min, *max),
            _ => false,
        },
        Predicate::In(_) | Predicate::Like { .. } | Predicate::IsNull | Predicate::Never => false,
    }
}

/// The zone's rows that hold a value all hold `value`. Bounds of strings may be cut, so only short ones count.
fn is_only(zone: &Zone, value: &Value) -> bool {
    let exact = |bound: &Value| match bound {
        Value::Bytes(bytes) => bytes.len() < forebay_base::limits::ZONE_STRING_BYTES,
        _ => true,
    };
    zone.min.as_ref().is_some_and(|min| min == value && exact(min)) && zone.max.as_ref() == Some(value)
}

fn is_outside(zone: &Zone, value: &Value) -> bool {
    zone.min.as_ref().is_some_and(|min| value < min) || zone.max.as_ref().is_some_and(|max| value > max)
}

fn is_below(max: Option<&Value>, low: &Bound<Value>) -> bool {
    match (max, low) {
        (Some(max), Bound::Included(low)) => max < low,
        (Some(max), Bound::Excluded(low)) => max <= low,
        _ => false,
    }
}

fn is_above(min: Option<&Value>, high: &Bound<Value>) -> bool {
    match (min, high) {
        (Some(min), Bound::Included(high)) => min > high,
        (Some(min), Bound::Excluded(high)) => min >= high,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tests() -> Vec<Predicate> {
        let bounds = |v: i128| [Bound::Included(Value::Int(v)), Bound::Excluded(Value::Int(v)), Bound::Unbounded];
        let mut all = vec![Predicate::IsNull, Predicate::IsNotNull, Predicate::Never];
        for low in -1..5 {
            for high in -1..5 {
                for low in bounds(low) {
                    for high in bounds(high) {
                        all.push(Predicate::Range { low: low.clone(), high });
                    }
                }
                all.push(Predicate::one_of(vec![Value::Int(low), Value::Int(high)]));
                all.push(Predicate::NotIn(vec![Value::Int(low.min(high)), Value::Int(low.max(high))]));
            }
            all.push(Predicate::NotEqual(Value::Int(low)));
            let keys = forebay_pipeline::KeySet::new([low, low + 2].into_iter()).expect("close keys");
            all.push(Predicate::Keys(keys.into()));
            let keys = forebay_pipeline::KeySet::new(low..=low + 1).expect("close keys");
            all.push(Predicate::Keys(keys.into()));
        }
        all
    }

    /// Every answer is compared with the rows themselves, over all small sets of rows.
    #[test]
    fn never_rules_out_a_row_that_passes() {
        for rows in 0..4u32 {
            for combination in 0..5u32.pow(rows) {
                let values: Vec<Option<Value>> = (0..rows)
                    .map(|row| combination / 5u32.pow(row) % 5)
                    .map(|digit| (digit < 4).then(|| Value::Int(digit.into())))
                    .collect();
                let zone = Zone {
                    rows,
                    null_count: values.iter().filter(|value| value.is_none()).count() as u32,
                    min: values.iter().flatten().min().cloned(),
                    max: values.iter().flatten().max().cloned(),
                };
                for test in tests() {
                    let passing = values.iter().filter(|value| test.passes(value.as_ref())).count();
                    assert!(passing == 0 || may_pass(&zone, &test), "{values:?} {test:?}");
                    assert!(passing == values.len() || !must_pass(&zone, &test), "{values:?} {test:?}");
                }
            }
        }
    }

    #[test]
    fn cut_string_bounds_are_not_taken_for_values() {
        let bound = vec![b'a'; forebay_base::limits::ZONE_STRING_BYTES];
        let zone = Zone {
            rows: 2,
            null_count: 0,
            min: Some(Value::Bytes(bound.clone())),
            max: Some(Value::Bytes(bound.clone())),
        };
        assert!(may_pass(&zone, &Predicate::NotEqual(Value::Bytes(bound))));
    }

    #[test]
    fn disjoint_ranges_are_ruled_out() {
        let zone = Zone { rows: 9, null_count: 1, min: Some(Value::Int(10)), max: Some(Value::Int(20)) };
        assert!(!may_pass(&zone, &Predicate::equal(Value::Int(21))));
        assert!(!may_pass(&zone, &Predicate::one_of(vec![Value::Int(9), Value::Int(21)])));
        assert!(may_pass(&zone, &Predicate::one_of(vec![Value::Int(9), Value::Int(15)])));
        assert!(!must_pass(&zone, &Predicate::IsNotNull));
    }
}
