//! The zones of a column's blocks, one block behind the other: integers as arrays, so that a question to all of them runs over
//! memory in order.
//!
//! Must not know: tests, tables.

use forebay_base::Value;

use crate::zone::Zone;

/// The zones of consecutive blocks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ColumnZones {
    /// Of integers of at most 8 bytes.
    Integers(IntegerZones),
    /// Of anything else.
    Others(Vec<Zone>),
}

/// Zones of integers, one entry per block in each array.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct IntegerZones {
    /// Rows.
    pub rows: Vec<u32>,
    /// NULL rows.
    pub null_counts: Vec<u32>,
    /// Lower bounds; `i64::MAX` where no row is valid.
    pub min: Vec<i64>,
    /// Upper bounds; `i64::MIN` where no row is valid.
    pub max: Vec<i64>,
}

impl ColumnZones {
    /// The number of blocks.
    pub fn len(&self) -> usize {
        match self {
            Self::Integers(zones) => zones.rows.len(),
            Self::Others(zones) => zones.len(),
        }
    }

    /// Whether there is no block.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl IntegerZones {
    /// The zone of a block.
    pub fn zone(&self, block: usize) -> Zone {
        let (rows, null_count) = (self.rows[block], self.null_counts[block]);
        let bound = |value: i64| (null_count < rows).then(|| Value::Int(value.into()));
        Zone { rows, null_count, min: bound(self.min[block]), max: bound(self.max[block]) }
    }

    /// Adds a zone; false where it is none of integers of 8 bytes, or has values without bounds.
    fn push(&mut self, zone: &Zone) -> bool {
        let integer = |value: &Option<Value>| match value {
            Some(Value::Int(value)) => i64::try_from(*value).ok(),
            _ => None,
        };
        let (min, max) = match (integer(&zone.min), integer(&zone.max)) {
            (Some(min), Some(max)) if zone.null_count < zone.rows => (min, max),
            _ if zone.null_count == zone.rows => (i64::MAX, i64::MIN),
            _ => return false,
        };
        self.rows.push(zone.rows);
        self.null_counts.push(zone.null_count);
        self.min.push(min);
        self.max.push(max);
        true
    }
}

impl<'z> FromIterator<&'z Zone> for ColumnZones {
    fn from_iter<I: IntoIterator<Item = &'z Zone>>(zones: I) -> Self {
        let mut integers = IntegerZones::default();
        let mut zones = zones.into_iter();
        while let Some(zone) = zones.next() {
            if !integers.push(zone) {
                let before = (0..integers.rows.len()).map(|block| integers.zone(block));
                return Self::Others(before.chain([zone.clone()]).chain(zones.cloned()).collect());
            }
        }
        Self::Integers(integers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zone(rows: u32, null_count: u32, bounds: Option<(i128, i128)>) -> Zone {
        let bound = |value: i128| Value::Int(value);
        Zone { rows, null_count, min: bounds.map(|both| bound(both.0)), max: bounds.map(|both| bound(both.1)) }
    }

    #[test]
    fn zones_of_integers_are_arrays_and_all_others_what_they_were() {
        let ints = [zone(3, 1, Some((-4, 9))), zone(2, 2, None), zone(0, 0, None)];
        let ColumnZones::Integers(columns) = ints.iter().collect::<ColumnZones>() else { panic!("not of integers") };
        assert_eq!((0..3).map(|block| columns.zone(block)).collect::<Vec<_>>(), ints);
        let wide = [zone(2, 2, None), zone(3, 0, Some((0, i128::from(i64::MAX) + 1))), zone(1, 0, Some((1, 1)))];
        assert_eq!(wide.iter().collect::<ColumnZones>(), ColumnZones::Others(wide.to_vec()));
        let text = Some(Value::Bytes(b"a".to_vec()));
        let texts = [Zone { rows: 1, null_count: 0, min: text, max: None }];
        assert_eq!(texts.iter().collect::<ColumnZones>(), ColumnZones::Others(texts.to_vec()));
        assert!(std::iter::empty::<&Zone>().collect::<ColumnZones>().is_empty());
    }
}
