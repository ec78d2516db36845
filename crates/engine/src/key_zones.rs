//! Which blocks of a table may have rows with a key: the zones of the key's columns side by side, for who asks again and again.
//!
//! A zone is kept as two integers in whose order no two values change places, so that one pass over an array of them answers for a column of all
//! blocks; where that says less than the zone, the zone is asked in the end. Must not know: keys of rows, hot rows.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use forebay_base::{ColumnId, PhysicalType, Result, Value};
use forebay_block::Zone;
use forebay_store::{Cell, TableSnapshot};

use crate::kept_keys::BlockKeys;
use crate::segment_row::SegmentRow;

/// The zones of a table at one snapshot, in the columns of a key.
#[derive(Debug)]
pub(crate) struct KeyZones {
    of: Weak<TableSnapshot>,
    blocks: Vec<ZonedBlock>,
    columns: Vec<ZonedColumn>,
    /// The columns, first the one whose zones of different blocks have least in common.
    order: Vec<usize>,
}

/// A block of the table.
#[derive(Debug)]
pub(crate) struct ZonedBlock {
    /// Its first row.
    pub(crate) first: SegmentRow,
    pub(crate) rows: u32,
    /// Its keys, if they were found before and are kept.
    pub(crate) keys: Mutex<Weak<BlockKeys>>,
}

#[derive(Debug)]
struct ZonedColumn {
    position: usize,
    low: Vec<i64>,
    high: Vec<i64>,
    /// Whether they say all that the zones say.
    is_exact: bool,
    /// Whether neither ever falls from one block to the next.
    is_sorted: bool,
}

/// What is wanted of a column's values.
#[derive(Debug)]
pub(crate) enum Wanted {
    Null,
    /// From the first value on up to the second.
    Between(Option<Value>, Option<Value>),
}

impl Wanted {
    /// Values within these bounds, which both belong to them; NULL as both stands for NULL. `None` where there are no bounds.
    pub(crate) fn of((low, high): (Option<Cell<'_>>, Option<Cell<'_>>), physical: PhysicalType) -> Option<Self> {
        if low == Some(Cell::Null) {
            return Some(Self::Null);
        }
        let value = |bound: Option<Cell<'_>>| bound.and_then(|cell| cell.value(physical));
        (low.is_some() || high.is_some()).then(|| Self::Between(value(low), value(high)))
    }

    /// Whether a block may have such a value.
    fn may_be_in(&self, zone: &Zone) -> bool {
        let is_before = |one: &Value, other: &Value| match (one, other) {
            (Value::Int(one), Value::Int(other)) => one < other,
            (Value::Bytes(one), Value::Bytes(other)) => one < other,
            // Floats have an order of their own.
            _ => false,
        };
        let (low, high) = match self {
            Self::Null => return zone.null_count > 0,
            Self::Between(low, high) => (low.as_ref(), high.as_ref()),
        };
        let is_below = high.is_some_and(|high| zone.min.as_ref().is_some_and(|min| is_before(high, min)));
        let is_above = low.is_some_and(|low| zone.max.as_ref().is_some_and(|max| is_before(max, low)));
        zone.null_count < zone.rows && !is_below && !is_above
    }

    /// The same as integers, and whether they say all of it.
    fn rounded(&self) -> (i64, i64, bool) {
        let Self::Between(low, high) = self else { return (i64::MIN, i64::MAX, false) };
        let of = |bound: &Option<Value>, none| bound.as_ref().map_or((none, true), |value| rounded(value, none));
        let ((low, is_low_exact), (high, is_high_exact)) = (of(low, i64::MIN), of(high, i64::MAX));
        (low, high, is_low_exact && is_high_exact)
    }
}

/// An integer in whose order no two values of a type change places, and whether no two have the same; `none` for values without one.
fn rounded(value: &Value, none: i64) -> (i64, bool) {
    match value {
        Value::Int(int) => match i64::try_from(*int) {
            Ok(int) => (int, true),
            Err(_) => (if *int < 0 { i64::MIN } else { i64::MAX }, false),
        },
        Value::Bytes(bytes) => {
            let mut first = [0; size_of::<u64>()];
            let length = bytes.len().min(first.len());
            first[..length].copy_from_slice(&bytes[..length]);
            ((u64::from_be_bytes(first) ^ 1 << 63) as i64, false)
        }
        _ => (none, false),
    }
}

impl ZonedColumn {
    fn with_capacity(position: usize, blocks: usize) -> Self {
        let (low, high) = (Vec::with_capacity(blocks), Vec::with_capacity(blocks));
        Self { position, low, high, is_exact: true, is_sorted: true }
    }

    /// Adds a block; without a zone it may have any value.
    fn push(&mut self, zone: Option<&Zone>) {
        let (low, high, is_exact) = match zone {
            None => (i64::MIN, i64::MAX, false),
            // It has no value.
            Some(zone) if zone.null_count >= zone.rows => (i64::MAX, i64::MIN, false),
            Some(zone) => {
                let bound =
                    |value: &Option<Value>, none| value.as_ref().map_or((none, false), |value| rounded(value, none));
                let ((low, is_low_exact), (high, is_high_exact)) =
                    (bound(&zone.min, i64::MIN), bound(&zone.max, i64::MAX));
                (low, high, is_low_exact && is_high_exact)
            }
        };
        let is_behind =
            self.low.last().is_none_or(|last| *last <= low) && self.high.last().is_none_or(|last| *last <= high);
        self.is_sorted &= is_behind;
        self.is_exact &= is_exact;
        self.low.push(low);
        self.high.push(high);
    }

    /// How many blocks may have a value, on average, about; in parts of all.
    fn shared(&self) -> f64 {
        let least = self.low.iter().min().map_or(0.0, |low| *low as f64);
        let greatest = self.high.iter().max().map_or(0.0, |high| *high as f64);
        let widths = self.low.iter().zip(&self.high).map(|(low, high)| (*high as f64 - *low as f64).max(0.0) + 1.0);
        widths.sum::<f64>() / (self.low.len().max(1) as f64 * (greatest - least + 1.0).max(1.0))
    }

    fn may_have(&self, block: usize, low: i64, high: i64) -> bool {
        self.low[block] <= high && self.high[block] >= low
    }

    /// The blocks among which those are that may have a value within these bounds.
    fn span(&self, low: i64, high: i64) -> std::ops::Range<usize> {
        if !self.is_sorted {
            return 0..self.low.len();
        }
        let start = self.high.partition_point(|own| *own < low);
        start..self.low.partition_point(|own| *own <= high).max(start)
    }
}

impl KeyZones {
    /// Those of these columns of a table.
    ///
    /// # Errors
    /// Those of reading footers.
    pub(crate) fn of(table: &Arc<TableSnapshot>, positions: &[usize], ids: &[ColumnId]) -> Result<Self> {
        let count = table.segments.iter().map(|segment| {
            segment.groups().map(|groups| groups.iter().map(|group| group.block_rows.len()).sum::<usize>())
        });
        let count = count.sum::<Result<usize>>()?;
        let mut blocks = Vec::with_capacity(count);
        let mut columns: Vec<ZonedColumn> =
            positions.iter().map(|position| ZonedColumn::with_capacity(*position, count)).collect();
        for (number, segment) in table.segments.iter().enumerate() {
            let indexes: Vec<Option<usize>> = ids.iter().map(|id| segment.column_index(*id)).collect();
            let mut first_block = 0;
            for (group, layout) in segment.groups()?.iter().enumerate() {
                for (block, rows) in layout.block_rows.iter().enumerate() {
                    let first =
                        SegmentRow { segment: number, group, block, number: first_block + block as u32, row: 0 };
                    blocks.push(ZonedBlock { first, rows: *rows, keys: Mutex::default() });
                    for (column, index) in columns.iter_mut().zip(&indexes) {
                        column.push(index.map(|index| &layout.columns[index].zones[block]));
                    }
                }
                first_block += layout.block_rows.len() as u32;
            }
        }
        let mut order: Vec<usize> = (0..columns.len()).collect();
        order.sort_by(|one, other| columns[*one].shared().total_cmp(&columns[*other].shared()));
        Ok(Self { of: Arc::downgrade(table), blocks, columns, order })
    }

    /// Whether they are those of this snapshot of the table.
    pub(crate) fn is_of(&self, table: &Arc<TableSnapshot>) -> bool {
        std::ptr::eq(self.of.as_ptr(), Arc::as_ptr(table))
    }

    /// The blocks that may have rows of which the first columns of the key have these values.
    ///
    /// # Errors
    /// Those of reading footers.
    pub(crate) fn blocks_with(&self, table: &TableSnapshot, wanted: &[Option<Wanted>]) -> Result<Vec<&ZonedBlock>> {
        let mut bounded =
            self.order.iter().filter_map(|column| Some((&self.columns[*column], wanted.get(*column)?.as_ref()?)));
        let Some((first, bounds)) = bounded.next() else { return Ok(self.blocks.iter().collect()) };
        let (low, high, mut is_exact) = bounds.rounded();
        is_exact &= first.is_exact;
        let mut found: Vec<usize> = first.span(low, high).filter(|block| first.may_have(*block, low, high)).collect();
        for (column, bounds) in bounded {
            if found.is_empty() {
                return Ok(Vec::new());
            }
            let (low, high, is_own_exact) = bounds.rounded();
            is_exact &= is_own_exact && column.is_exact;
            found.retain(|block| column.may_have(*block, low, high));
        }
        let mut blocks = Vec::with_capacity(found.len());
        for block in found.into_iter().map(|block| &self.blocks[block]) {
            if is_exact || self.may_have(table, block, wanted)? {
                blocks.push(block);
            }
        }
        Ok(blocks)
    }

    /// Asks the zones of a block.
    fn may_have(&self, table: &TableSnapshot, block: &ZonedBlock, wanted: &[Option<Wanted>]) -> Result<bool> {
        let SegmentRow { segment, group, block, .. } = block.first;
        let segment = &table.segments[segment];
        let layout = &segment.groups()?[group];
        Ok(self.columns.iter().zip(wanted).all(|(column, wanted)| {
            let index = segment.column_index(table.columns[column.position].id);
            let zone = index.map(|index| &layout.columns[index].zones[block]);
            wanted.as_ref().zip(zone).is_none_or(|(wanted, zone)| wanted.may_be_in(zone))
        }))
    }
}

/// The zones of a key at the snapshot of its table that was asked for last.
#[derive(Debug, Default)]
pub(crate) struct KnownZones(Mutex<Option<Arc<KeyZones>>>);

impl KnownZones {
    /// Those of a table, made with `make` where another snapshot was asked for last.
    pub(crate) fn get(
        &self,
        table: &Arc<TableSnapshot>,
        make: impl FnOnce() -> Result<KeyZones>,
    ) -> Result<Arc<KeyZones>> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(zones) = known.as_ref().filter(|zones| zones.is_of(table)) {
            return Ok(Arc::clone(zones));
        }
        let zones = Arc::new(make()?);
        *known = Some(Arc::clone(&zones));
        Ok(zones)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Values of one type: the zone's, in their order, and two bounds.
    fn values() -> impl Strategy<Value = ([Value; 2], [Value; 2])> {
        let near = prop_oneof![-3_i128..4, Just(i128::from(i64::MAX)), Just(i128::from(i64::MIN))];
        let int = (near, -2_i128..3).prop_map(|(near, by)| near + by);
        let byte = prop_oneof![Just(0_u8), Just(b'a'), Just(255)];
        let bytes = prop::collection::vec(byte, 0..12);
        fn split<T: Ord>(mut of: Vec<T>, value: fn(T) -> Value) -> ([Value; 2], [Value; 2]) {
            of[..2].sort();
            let mut of = of.into_iter().map(value);
            let mut two = || [(); 2].map(|()| of.next().expect("there are four"));
            (two(), two())
        }
        prop_oneof![
            prop::collection::vec(int, 4).prop_map(|of| split(of, Value::Int)),
            prop::collection::vec(bytes, 4).prop_map(|of| split(of, Value::Bytes)),
        ]
    }

    proptest! {
        /// Of many blocks those are found that the zones allow, or more; exactly those where integers say all. In order or not, with blocks
        /// that have nothing but NULL.
        #[test]
        fn blocks_are_found_that_zones_allow(
            zones in prop::collection::vec((values(), 0_u32..5), 1..20),
            wanted in values(),
            is_sorted in any::<bool>(),
        ) {
            let of_ints = |value: &Value| matches!(value, Value::Int(_));
            let is_int = of_ints(&wanted.0[0]);
            let mut bounds: Vec<_> = zones.into_iter().filter(|((own, _), _)| of_ints(&own[0]) == is_int).collect();
            if is_sorted {
                bounds.sort_by_key(|((own, _), _)| match &own[0] {
                    Value::Int(int) => (*int, Vec::new()),
                    Value::Bytes(bytes) => (0, bytes.clone()),
                    _ => (0, Vec::new()),
                });
            }
            let zones: Vec<Zone> = bounds.into_iter().map(|(([min, max], _), nulls)| {
                let has_value = nulls < 4;
                let (min, max) = (has_value.then_some(min), has_value.then_some(max));
                Zone { rows: 4, null_count: nulls, min, max }
            }).collect();
            let mut column = ZonedColumn::with_capacity(0, zones.len());
            zones.iter().for_each(|zone| column.push(Some(zone)));
            let [low, high] = wanted.0;
            let wanted = Wanted::Between(Some(low), Some(high));
            let (low, high, is_exact) = wanted.rounded();
            let found: Vec<usize> = column.span(low, high).filter(|block| column.may_have(*block, low, high)).collect();
            let allowed: Vec<usize> = (0..zones.len()).filter(|block| wanted.may_be_in(&zones[*block])).collect();
            prop_assert!(allowed.iter().all(|block| found.contains(block)), "{found:?} {allowed:?}");
            if is_exact && column.is_exact {
                prop_assert_eq!(found, allowed);
            }
        }

        /// A block that the zone does not rule out is not ruled out by integers either, and where they are exact it is ruled out by both.
        #[test]
        fn integers_rule_out_what_zones_do_or_less(([min, max], [low, high]) in values(), nulls in 0_u32..4) {
            let has_value = nulls < 3;
            let zone = Zone { rows: 3, null_count: nulls.min(3), min: has_value.then_some(min), max: has_value.then_some(max) };
            let wanted = Wanted::Between(Some(low), Some(high));
            let mut column = ZonedColumn::with_capacity(0, 1);
            column.push(Some(&zone));
            let (low, high, is_exact) = wanted.rounded();
            let may_have = column.may_have(0, low, high) && column.span(low, high) == (0..1);
            prop_assert!(may_have || !wanted.may_be_in(&zone));
            if is_exact && column.is_exact {
                prop_assert_eq!(may_have, wanted.may_be_in(&zone));
            }
        }
    }
}
