//! A test, translated once per block into what its codes must be (Data Blocks §3.4), and its application.
//!
//! Invariants: a frame of reference shifts ranges by its base, an ordered dictionary is searched once per bound; rows are
//! then compared without looking at values, except for plain strings. Runs are compared by their values, once each.

use std::ops::{Bound, Range, RangeBounds};
use std::sync::Arc;

use forebay_base::PhysicalType;
use forebay_block::{
    Access, Codes, EncodedBlock, FixedValues, Native, Psma, RunEnds, StringValues, Values, validity, with_native,
};
use forebay_pipeline::{KeySet, Predicate};

use crate::Selection;
use crate::keys::{KeyRange, RangeSet, StringRange, key_set, string_set};
use crate::lane_values::Scan;
use crate::lanes::LanePredicate;
use crate::like::LikePredicate;
use crate::matches::{Matches, RowPredicate, bits_of_range};
use crate::simd::{SimdLevel, WORD_ROWS};

/// What looking at the validity of a row among many costs, where a code alone costs 1.
const VALIDITY_COST: f64 = 0.02;
/// What comparing a plain string costs likewise.
const STRING_COST: f64 = 10.0;

/// A [`Predicate`] in the terms of one block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BlockPredicate {
    /// No row passes.
    Never,
    /// Every row passes.
    Always,
    /// The valid rows pass.
    NotNull,
    /// The NULL rows pass.
    IsNull,
    /// Valid rows pass by their code, or by their plain number.
    Lanes(LanePredicate),
    /// Valid rows pass by their plain string.
    Strings(StringPredicate),
    /// Valid rows pass by matching a pattern, or by not doing so.
    Like(LikePredicate),
}

/// A test on plain strings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StringPredicate(RangeSet<StringRange>);

/// Translates `test` for `block`, with the help of these vector instructions.
pub fn translate(block: &EncodedBlock, test: &Predicate, level: SimdLevel) -> BlockPredicate {
    let (some, all) = (block.null_count() > 0, block.null_count() == block.rows());
    match test {
        Predicate::IsNull if all => return BlockPredicate::Always,
        Predicate::IsNull if some => return BlockPredicate::IsNull,
        Predicate::IsNull | Predicate::Never => return BlockPredicate::Never,
        Predicate::IsNotNull if !all => return every_valid(block),
        _ if all => return BlockPredicate::Never,
        _ => {}
    }
    if let Predicate::Keys(keys) = test {
        return keys_test(block, keys, level);
    }
    if let Predicate::Like { pattern, negated } = test
        && let Access::Dictionary { values: Values::Strings(_), .. }
        | Access::Plain(Values::Strings(_))
        | Access::RunLength { values: Values::Strings(_), .. } = block.access()
    {
        return BlockPredicate::Like(LikePredicate::new(pattern, *negated));
    }
    match block.access() {
        Access::AllNull => BlockPredicate::Never,
        Access::Constant(value) if test.passes(Some(&value.to_value())) => every_valid(block),
        Access::Constant(_) => BlockPredicate::Never,
        Access::FrameOfReference { base, codes } => {
            let keys = key_set(test, block.physical());
            let shift = |(from, to): &KeyRange| (from.saturating_sub(base), to.saturating_sub(base));
            lane_test(block, keys.ranges.iter().map(shift), keys.negated, (0, largest_code(codes)))
        }
        Access::Dictionary { values: Values::Fixed(values), .. } => with_native!(
            block.physical(),
            T => dictionary_test::<T>(block, &values, test),
            bytes => BlockPredicate::Never
        ),
        Access::Dictionary { values: Values::Strings(values), .. } => {
            let strings = string_set(test);
            let codes = strings.ranges.iter().map(|range| string_codes(&values, range));
            lane_test(block, codes, strings.negated, (0, values.len() as i128 - 1))
        }
        // Runs are tested as if their values were the rows.
        Access::Plain(Values::Fixed(_)) | Access::RunLength { values: Values::Fixed(_), .. } => {
            let keys = key_set(test, block.physical());
            let domain = with_native!(block.physical(), T => <T as Native>::KEYS, bytes => (0, 0));
            lane_test(block, keys.ranges.iter().copied(), keys.negated, domain)
        }
        Access::Plain(Values::Strings(_)) | Access::RunLength { values: Values::Strings(_), .. } => {
            let strings = string_set(test);
            match (strings.ranges.is_empty(), strings.negated) {
                (true, true) => every_valid(block),
                (true, false) => BlockPredicate::Never,
                _ => BlockPredicate::Strings(StringPredicate(strings)),
            }
        }
    }
}

fn every_valid(block: &EncodedBlock) -> BlockPredicate {
    if block.null_count() == 0 { BlockPredicate::Always } else { BlockPredicate::NotNull }
}

/// The test for lanes in `ranges` (ascending), which are cut to `domain`: all lanes that there can be.
fn lane_test(
    block: &EncodedBlock,
    ranges: impl Iterator<Item = KeyRange>,
    negated: bool,
    domain: KeyRange,
) -> BlockPredicate {
    let mut merged: Vec<KeyRange> = Vec::new();
    for (from, to) in ranges {
        let (from, to) = (from.max(domain.0), to.min(domain.1));
        match merged.last_mut() {
            _ if from > to => {}
            Some(last) if from <= last.1.saturating_add(1) => last.1 = last.1.max(to),
            _ => merged.push((from, to)),
        }
    }
    match (merged.as_slice(), negated) {
        ([], false) => BlockPredicate::Never,
        ([], true) => every_valid(block),
        ([all], false) if *all == domain => every_valid(block),
        ([all], true) if *all == domain => BlockPredicate::Never,
        (ranges, negated) => BlockPredicate::Lanes(LanePredicate::new(ranges, negated, domain)),
    }
}

/// The test for integers in `keys`, which are looked up with codes and plain integers as they are.
fn keys_test(block: &EncodedBlock, keys: &Arc<KeySet>, level: SimdLevel) -> BlockPredicate {
    let lanes =
        |base, domain| LanePredicate::of_keys(keys, base, domain).map_or(BlockPredicate::Never, BlockPredicate::Lanes);
    match block.access() {
        Access::Constant(value) if Predicate::Keys(Arc::clone(keys)).passes(Some(&value.to_value())) => {
            every_valid(block)
        }
        Access::FrameOfReference { base, codes } => lanes(base, (0, largest_code(codes))),
        Access::Dictionary { values: Values::Fixed(values), .. } => {
            let codes = with_native!(
                block.physical(),
                T => if T::INTEGER { key_codes(&values.natives::<T>(), keys, level) } else { vec![] },
                bytes => vec![]
            );
            match codes.iter().map(|word| word.count_ones() as usize).sum() {
                0 => BlockPredicate::Never,
                all if all == values.len() => every_valid(block),
                _ => BlockPredicate::Lanes(LanePredicate::of_codes(codes, values.len())),
            }
        }
        Access::Plain(Values::Fixed(_)) | Access::RunLength { values: Values::Fixed(_), .. } => with_native!(
            block.physical(),
            T => if T::INTEGER { lanes(0, T::KEYS) } else { BlockPredicate::Never },
            bytes => BlockPredicate::Never
        ),
        // Neither a constant that is no key nor a string is among integers.
        Access::AllNull
        | Access::Constant(_)
        | Access::Dictionary { values: Values::Strings(_), .. }
        | Access::Plain(Values::Strings(_))
        | Access::RunLength { values: Values::Strings(_), .. } => BlockPredicate::Never,
    }
}

/// Bit `code` says whether that entry of a dictionary, whose values ascend, is a key. Bits behind the last one are 0.
fn key_codes<T: Scan>(values: &[T], keys: &KeySet, level: SimdLevel) -> Vec<u64> {
    let first = values.partition_point(|value| value.bits() < keys.low());
    let end = values.partition_point(|value| value.bits() <= keys.high());
    let mut codes = bits_of_range(first..end, values.len());
    // As lanes, negative numbers are large ones: those must not be keys themselves.
    let fits_lanes = keys.low() >= 0 && keys.high() <= T::KEYS.1;
    match T::vectors(values).filter(|_| fits_lanes) {
        Some(lanes) => lanes.members(level, keys.low() as u64, keys.words(), &mut codes),
        None => {
            for code in first..end {
                let is_key = keys.contains(values[code].bits());
                codes[code / WORD_ROWS] &= !(u64::from(!is_key) << (code % WORD_ROWS));
            }
        }
    }
    codes
}

fn largest_code(codes: Codes) -> i128 {
    match codes {
        Codes::U8(_) => u8::MAX.into(),
        Codes::U16(_) => u16::MAX.into(),
        Codes::U32(_) => u32::MAX.into(),
        Codes::U64(_) => u64::MAX.into(),
    }
}

/// The test for the codes of a dictionary of numbers.
fn dictionary_test<T: Native>(block: &EncodedBlock, values: &FixedValues, test: &Predicate) -> BlockPredicate {
    let keys = key_set(test, block.physical());
    let key = |code: usize| -> i128 { values.native::<T>(code).key().into() };
    let codes = keys.ranges.iter().map(|(from, to)| {
        let below = partition_point(values.len(), |code| key(code) < *from);
        let through = partition_point(values.len(), |code| key(code) <= *to);
        (below as i128, through as i128 - 1)
    });
    lane_test(block, codes, keys.negated, (0, values.len() as i128 - 1))
}

/// The codes of the dictionary's strings in `range`.
fn string_codes(values: &StringValues, (low, high): &StringRange) -> KeyRange {
    let count = |is_before: &dyn Fn(&[u8]) -> bool| partition_point(values.len(), |code| is_before(values.get(code)));
    let from = match low {
        Bound::Included(low) => count(&|value| value < low.as_slice()),
        Bound::Excluded(low) => count(&|value| value <= low.as_slice()),
        Bound::Unbounded => 0,
    };
    let end = match high {
        Bound::Included(high) => count(&|value| value <= high.as_slice()),
        Bound::Excluded(high) => count(&|value| value < high.as_slice()),
        Bound::Unbounded => values.len(),
    };
    (from as i128, end as i128 - 1)
}

/// The first index for which `is_before` does not hold; it holds for all indexes before that.
fn partition_point(len: usize, is_before: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, len);
    while low < high {
        let middle = low.midpoint(high);
        if is_before(middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

impl BlockPredicate {
    /// Keeps the selected rows that pass: finds matches in a range of rows, reduces positions. A range in which every row
    /// passes stays as it is. `block` must be the one that the test was translated for. Gives what the test costs for each
    /// row while many are left, where looking at one row alone costs 1.
    pub fn select(&self, block: &EncodedBlock, matches: &mut Matches) -> f64 {
        match (self, block.access()) {
            (Self::Always, _) => 0.0,
            (Self::Never, _) => {
                matches.clear();
                0.0
            }
            (Self::NotNull | Self::IsNull, _) => match block.validity() {
                Some(bitmap) => {
                    matches.keep(&ValidityRows { bitmap, null: *self == Self::IsNull });
                    VALIDITY_COST
                }
                None => {
                    debug_assert!(false, "{self:?} is for blocks with a validity bitmap");
                    0.0
                }
            },
            (Self::Lanes(_) | Self::Strings(_) | Self::Like(_), Access::RunLength { ends, values }) => {
                let (passing, cost) = self.select_runs(block.physical(), ends, values, matches.level());
                matches.keep_ranges(&rows_of_runs(ends, &passing));
                let share = ends.len() as f64 / block.rows() as f64;
                cost * share + block.validity().map_or(0.0, |_| Self::NotNull.select(block, matches))
            }
            (Self::Lanes(_) | Self::Strings(_) | Self::Like(_), access) => {
                self.select_values(&access, block.physical(), block.validity(), matches)
            }
        }
    }

    /// Keeps the selected rows of codes or plain values that pass. Gives the cost for each row.
    fn select_values(
        &self,
        access: &Access,
        physical: PhysicalType,
        validity: Option<&[u8]>,
        matches: &mut Matches,
    ) -> f64 {
        match (self, access) {
            (Self::Lanes(test), Access::FrameOfReference { codes, .. } | Access::Dictionary { codes, .. }) => {
                match codes {
                    Codes::U8(codes) => test.select(codes, validity, matches),
                    Codes::U16(codes) => test.select(codes, validity, matches),
                    Codes::U32(codes) => test.select(codes, validity, matches),
                    Codes::U64(codes) => test.select(codes, validity, matches),
                }
            }
            (Self::Lanes(test), Access::Plain(Values::Fixed(values))) => with_native!(
                physical,
                T => test.select::<T>(&values.natives::<T>(), validity, matches),
                bytes => {
                    matches.clear();
                    0.0
                }
            ),
            (Self::Strings(StringPredicate(set)), Access::Plain(Values::Strings(values))) => {
                matches.keep(&StringRows { values: *values, set, validity });
                STRING_COST
            }
            (Self::Like(test), access) => test.select(access, validity, matches),
            (Self::Lanes(_), Access::AllNull | Access::Constant(_) | Access::Plain(Values::Strings(_)))
            | (
                Self::Strings(_),
                Access::AllNull
                | Access::Constant(_)
                | Access::FrameOfReference { .. }
                | Access::Dictionary { .. }
                | Access::Plain(Values::Fixed(_)),
            )
            | (Self::Lanes(_) | Self::Strings(_), Access::RunLength { .. })
            | (Self::Never | Self::Always | Self::NotNull | Self::IsNull, _) => {
                panic!("{self:?} was not translated for a block with {access:?}")
            }
        }
    }

    /// The runs whose value passes, and the cost for each run.
    fn select_runs(&self, physical: PhysicalType, ends: RunEnds, values: Values, level: SimdLevel) -> (Selection, f64) {
        let mut runs = Matches::new(Selection::Rows(0..ends.len() as u32), ends.len(), level);
        let cost = self.select_values(&Access::Plain(values), physical, None, &mut runs);
        (runs.finish(), cost)
    }

    /// Bit `run` says whether the value of that run passes, whether or not its rows are valid; `None` where `block`, for which
    /// the test was translated, has no runs, or the test does not depend on values.
    pub fn run_bits(&self, block: &EncodedBlock, level: SimdLevel) -> Option<Vec<u64>> {
        match (self, block.access()) {
            (Self::Lanes(_) | Self::Strings(_) | Self::Like(_), Access::RunLength { ends, values }) => {
                let mut bits = vec![0u64; ends.len().div_ceil(WORD_ROWS)];
                let (passing, _) = self.select_runs(block.physical(), ends, values, level);
                passing.rows().for_each(|run| bits[run / WORD_ROWS] |= 1 << (run % WORD_ROWS));
                Some(bits)
            }
            (
                _,
                Access::AllNull
                | Access::Constant(_)
                | Access::FrameOfReference { .. }
                | Access::Dictionary { .. }
                | Access::Plain(_),
            )
            | (Self::Never | Self::Always | Self::NotNull | Self::IsNull, Access::RunLength { .. }) => None,
        }
    }
}

/// The rows of some runs, ascending; those of adjacent runs are one range.
fn rows_of_runs(ends: RunEnds, runs: &Selection) -> Vec<Range<u32>> {
    let mut ranges: Vec<Range<u32>> = Vec::new();
    match runs {
        Selection::Rows(runs) if runs.is_empty() => {}
        Selection::Rows(runs) => {
            ranges.push(ends.rows(runs.start as usize).start..ends.rows(runs.end as usize - 1).end);
        }
        Selection::Positions(runs) => {
            for run in runs {
                let rows = ends.rows(usize::from(*run));
                match ranges.last_mut() {
                    Some(last) if last.end == rows.start => last.end = rows.end,
                    _ => ranges.push(rows),
                }
            }
        }
    }
    ranges
}

impl BlockPredicate {
    /// A range of rows that holds all those that pass, from the block's positional aggregates; `None` where they do not
    /// tell (Data Blocks §3.2).
    pub fn rows(&self, psma: &Psma) -> Option<Range<u32>> {
        match self {
            Self::Never => Some(0..0),
            Self::Lanes(test) => {
                let mut rows: Option<Range<u32>> = None;
                for (low, high) in test.intervals()? {
                    let next = psma.rows(low, high);
                    if !next.is_empty() {
                        let known = rows.get_or_insert(next.clone());
                        *known = known.start.min(next.start)..known.end.max(next.end);
                    }
                }
                Some(rows.unwrap_or(0..0))
            }
            Self::Always | Self::NotNull | Self::IsNull | Self::Strings(_) | Self::Like(_) => None,
        }
    }
}

struct ValidityRows<'a> {
    bitmap: &'a [u8],
    null: bool,
}

impl RowPredicate for ValidityRows<'_> {
    fn mask(&self, row: usize, _count: usize) -> u64 {
        let valid = validity::word(self.bitmap, row);
        if self.null { !valid } else { valid }
    }

    fn passes(&self, row: usize) -> bool {
        validity::is_valid(self.bitmap, row) != self.null
    }
}

struct StringRows<'a> {
    values: StringValues<'a>,
    set: &'a RangeSet<StringRange>,
    validity: Option<&'a [u8]>,
}

impl RowPredicate for StringRows<'_> {
    fn mask(&self, row: usize, count: usize) -> u64 {
        const { assert!(WORD_ROWS == u64::BITS as usize) };
        (0..count).fold(0, |mask, i| mask | u64::from(self.passes(row + i)) << i)
    }

    fn passes(&self, row: usize) -> bool {
        if self.validity.is_some_and(|bitmap| !validity::is_valid(bitmap, row)) {
            return false;
        }
        let value = self.values.get(row);
        let ranges = &self.set.ranges;
        // Ranges ascend and are disjoint: only the last one that starts at or below the value can hold it.
        let after = ranges.partition_point(|(low, _)| match low {
            Bound::Included(low) => low.as_slice() <= value,
            Bound::Excluded(low) => low.as_slice() < value,
            Bound::Unbounded => true,
        });
        let is_in = after > 0 && {
            let (_, high) = &ranges[after - 1];
            (Bound::Unbounded, high.as_ref().map(Vec::as_slice)).contains(value)
        };
        is_in != self.set.negated
    }
}
