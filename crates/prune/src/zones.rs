//! What zones tell of all blocks of a column at once.
//!
//! Invariant: the same as [`may_pass`] and [`must_pass`] tell of each of them.

use std::ops::Bound;

use forebay_base::Value;
use forebay_block::{ColumnZones, IntegerZones, Zone};
use forebay_pipeline::Predicate;

use crate::blocks::BlockBits;
use crate::{may_pass, must_pass};

/// What is known of blocks without their rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// The blocks that may have a row that passes.
    pub may: BlockBits,
    /// The blocks of which all rows pass.
    pub must: BlockBits,
}

/// What the zones of consecutive blocks tell of a test.
pub fn decide(zones: &ColumnZones, test: &Predicate) -> Decision {
    match zones {
        ColumnZones::Others(zones) => decide_each(zones.len(), test, |block| zones[block].clone()),
        ColumnZones::Integers(zones) => match bounds_of(test) {
            Some((low, high)) if low <= high => within(zones, low, high),
            Some(_) => {
                let none = BlockBits::none(zones.rows.len());
                Decision { must: BlockBits::from_fn(none.blocks(), |block| zones.rows[block] == 0), may: none }
            }
            None => decide_each(zones.rows.len(), test, |block| zones.zone(block)),
        },
    }
}

fn decide_each(blocks: usize, test: &Predicate, zone: impl Fn(usize) -> Zone) -> Decision {
    let may = BlockBits::from_fn(blocks, |block| may_pass(&zone(block), test));
    Decision { must: BlockBits::from_fn(blocks, |block| must_pass(&zone(block), test)), may }
}

/// The least and the greatest integer of 8 bytes that a range of integers has; the first is above the second where it has none.
fn bounds_of(test: &Predicate) -> Option<(i64, i64)> {
    let Predicate::Range { low, high } = test else { return None };
    let clamp = |value: i128| value.clamp(i64::MIN.into(), i64::MAX.into()) as i64;
    let low = match low {
        Bound::Unbounded => i64::MIN.into(),
        Bound::Included(Value::Int(low)) => *low,
        Bound::Excluded(Value::Int(low)) => low.checked_add(1)?,
        _ => return None,
    };
    let high = match high {
        Bound::Unbounded => i64::MAX.into(),
        Bound::Included(Value::Int(high)) => *high,
        Bound::Excluded(Value::Int(high)) => high.checked_sub(1)?,
        _ => return None,
    };
    match low > i64::MAX.into() || high < i64::MIN.into() || low > high {
        true => Some((1, 0)),
        false => Some((clamp(low), clamp(high))),
    }
}

/// What the zones tell of the integers of a range.
fn within(zones: &IntegerZones, low: i64, high: i64) -> Decision {
    let blocks = zones.rows.len();
    // All of one length, so that no bound is checked again.
    let (rows, nulls) = (&zones.rows[..blocks], &zones.null_counts[..blocks]);
    let (min, max) = (&zones.min[..blocks], &zones.max[..blocks]);
    let may =
        BlockBits::from_fn(blocks, |block| (min[block] <= high) & (max[block] >= low) & (nulls[block] < rows[block]));
    let must = BlockBits::from_fn(blocks, |block| (min[block] >= low) & (max[block] <= high) & (nulls[block] == 0));
    Decision { may, must }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All small zones of integers, and some at the ends of their range.
    fn zones() -> Vec<Zone> {
        let mut zones = Vec::new();
        let values = [i64::MIN, -1, 0, 1, 2, i64::MAX].map(i128::from);
        for (rows, null_count) in [(0, 0), (1, 1), (3, 0), (3, 1)] {
            for min in values {
                for max in values.into_iter().filter(|max| min <= *max) {
                    let bound = |value| (null_count < rows).then_some(Value::Int(value));
                    zones.push(Zone { rows, null_count, min: bound(min), max: bound(max) });
                }
            }
        }
        zones
    }

    fn tests() -> Vec<Predicate> {
        let beyond = [i128::from(i64::MIN) - 1, i128::from(i64::MAX) + 1, i128::MIN, i128::MAX];
        let values = [-2, -1, 0, 1, 2, 3, i128::from(i64::MIN), i128::from(i64::MAX)].into_iter().chain(beyond);
        let bounds = |value: i128| [Bound::Included(Value::Int(value)), Bound::Excluded(Value::Int(value))];
        let bounds: Vec<Bound<Value>> = values.flat_map(bounds).chain([Bound::Unbounded]).collect();
        let ranges = bounds
            .iter()
            .flat_map(|low| bounds.iter().map(|high| Predicate::Range { low: low.clone(), high: high.clone() }));
        let others = [
            Predicate::IsNull,
            Predicate::IsNotNull,
            Predicate::Never,
            Predicate::NotEqual(Value::Int(1)),
            Predicate::one_of(vec![Value::Int(-1), Value::Int(2)]),
            Predicate::NotIn(vec![Value::Int(0), Value::Int(1)]),
        ];
        ranges.chain(others).collect()
    }

    #[test]
    fn all_blocks_at_once_are_told_what_each_is_told() {
        let zones = zones();
        let columns: ColumnZones = zones.iter().collect();
        assert!(matches!(columns, ColumnZones::Integers(_)));
        let others = ColumnZones::Others(zones.clone());
        for test in tests() {
            let decision = decide(&columns, &test);
            // Of each block alone it is not looked whether the range has an integer.
            let has_none = bounds_of(&test).is_some_and(|(low, high)| low > high);
            for (block, zone) in zones.iter().enumerate() {
                assert_eq!(decision.may.contains(block), may_pass(zone, &test) && !has_none, "{zone:?} {test:?}");
                if zone.rows > zone.null_count {
                    assert_eq!(decision.must.contains(block), must_pass(zone, &test), "{zone:?} {test:?}");
                }
                assert!(!decision.must.contains(block) || must_pass(zone, &test) || zone.rows == 0);
            }
            assert!(has_none || decide(&others, &test).may == decision.may, "{test:?}");
        }
    }
}
