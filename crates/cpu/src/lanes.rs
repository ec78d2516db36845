//! Tests of numbers as they lie in a block: codes, plain integers, order keys of plain floats. All of them are unsigned
//! lanes in which a range is one subtraction and one comparison.
//!
//! Invariants: what vectors can do goes through [`crate::simd`]; other loops over 64 lanes are branch-free and plain
//! enough for the compiler to vectorise.

use std::sync::Arc;

use forebay_block::validity;
use forebay_pipeline::KeySet;

use crate::lane_values::{Lane, Scan};
use crate::matches::{Matches, RowPredicate, thin_by_words};
use crate::predicates::{BitmapPredicate, FarPredicate, LaneSetTest, RANGE_COST, RangePredicate, SortedPredicate};
use crate::simd::{SimdLevel, WORD_ROWS};

/// Ranges that are tested one after the other, vectorised.
const FEW_RANGES: usize = 4;
/// Words of bits that are worth an interval each.
const FEW_WORDS: usize = 64;
/// Numbers that a bitmap may cover.
const BITMAP_NUMBERS: u128 = 1 << 16;

/// A range that holds at most this share of all lanes is worth a test of its own before a set in it is looked up.
const NARROW_SHARE: f64 = 0.5;

/// A set of lanes; all numbers are cut to the width of the lanes that they are compared with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LanePredicate {
    set: LaneSet,
    /// Where the set's lanes lie, if that is a small part of what there can be.
    envelope: Option<Envelope>,
    /// Lanes outside of the set pass.
    negated: bool,
}

/// A range around a set: its lowest lane, and the distance to the highest.
type Envelope = (u128, u128);

/// The range around a set, if it is a small part of `domain`.
fn envelope((first, last): (i128, i128), domain: (i128, i128)) -> Option<Envelope> {
    let distance = |from: i128, to: i128| to.wrapping_sub(from) as u128;
    let share = distance(first, last) as f64 / distance(domain.0, domain.1) as f64;
    (share <= NARROW_SHARE).then(|| (first as u128, distance(first, last)))
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum LaneSet {
    /// Few ranges as (lowest, distance to the highest).
    Ranges(Vec<(u128, u128)>),
    /// Bit `lane - low` says whether a lane is in the set.
    Bitmap { low: u128, bits: Vec<u64> },
    /// As `Bitmap`, of the keys' words; all keys are lanes.
    Keys { low: u128, keys: Arc<KeySet> },
    /// As `Keys`, but some keys are beyond the lanes, which have at most 4 bytes and are widened so as not to wrap around to
    /// them.
    FarKeys { low: i128, keys: Arc<KeySet> },
    /// Ranges relative to `low`, ascending and disjoint.
    Sorted { low: u128, ranges: Vec<(u128, u128)> },
}

/// The lanes of a test, widened to 8 bytes: unsigned ones with zeros, signed ones with their sign.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WideLanes<'a> {
    /// Ranges, both ends included.
    Ranges(Vec<(u64, u64)>),
    /// Bit `lane - low` says whether a lane is in the set, modulo 2^64; what has no bit is not.
    Bits {
        /// The lane of bit 0.
        low: u64,
        /// The bits.
        words: &'a [u64],
    },
}

impl LanePredicate {
    /// The set as lanes of 8 bytes, and whether those outside of it pass. Not for lanes of 16 bytes.
    pub fn widened(&self) -> (WideLanes<'_>, bool) {
        let lanes = match &self.set {
            LaneSet::Ranges(ranges) => {
                let ends = |(low, span): &(u128, u128)| (*low as u64, low.wrapping_add(*span) as u64);
                WideLanes::Ranges(ranges.iter().map(ends).collect())
            }
            LaneSet::Sorted { low, ranges } => {
                let ends = |(from, to): &(u128, u128)| (low.wrapping_add(*from) as u64, low.wrapping_add(*to) as u64);
                WideLanes::Ranges(ranges.iter().map(ends).collect())
            }
            LaneSet::Bitmap { low, bits } => WideLanes::Bits { low: *low as u64, words: bits },
            LaneSet::Keys { low, keys } => WideLanes::Bits { low: *low as u64, words: keys.words() },
            LaneSet::FarKeys { low, keys } => WideLanes::Bits { low: *low as u64, words: keys.words() },
        };
        (lanes, self.negated)
    }

    /// Lanes of `domain`, all that there can be, in `ranges` (inclusive, ascending, disjoint, at least one), or those outside
    /// of them.
    pub(crate) fn new(ranges: &[(i128, i128)], negated: bool, domain: (i128, i128)) -> Self {
        let (first, last) = (ranges[0].0, ranges[ranges.len() - 1].1);
        let distance = |from: i128, to: i128| to.wrapping_sub(from) as u128;
        let low = first as u128;
        let set = if ranges.len() <= FEW_RANGES {
            LaneSet::Ranges(ranges.iter().map(|(from, to)| (*from as u128, distance(*from, *to))).collect())
        } else if distance(first, last) < BITMAP_NUMBERS {
            let mut bits = vec![0; distance(first, last) as usize / 64 + 1];
            for number in ranges.iter().flat_map(|(from, to)| distance(first, *from)..=distance(first, *to)) {
                bits[number as usize / 64] |= 1 << (number % 64);
            }
            LaneSet::Bitmap { low, bits }
        } else {
            let ranges = ranges.iter().map(|(from, to)| (distance(first, *from), distance(first, *to))).collect();
            LaneSet::Sorted { low, ranges }
        };
        let is_set = !negated && !matches!(set, LaneSet::Ranges(_));
        Self { set, envelope: is_set.then(|| envelope((first, last), domain)).flatten(), negated }
    }

    /// Codes below `count` whose bit is set in `bits`, at least one.
    pub(crate) fn of_codes(bits: Vec<u64>, count: usize) -> Self {
        let first =
            bits.iter().position(|word| *word != 0).map_or(0, |word| word * 64 + bits[word].trailing_zeros() as usize);
        let last = bits.iter().rposition(|word| *word != 0).map_or(0, |word| word * 64 + bits[word].ilog2() as usize);
        let set: usize = bits.iter().map(|word| word.count_ones() as usize).sum();
        let (codes, domain) = ((first as i128, last as i128), (0, count as i128 - 1));
        if set == last - first + 1 {
            return Self::new(&[codes], false, domain);
        }
        Self { set: LaneSet::Bitmap { low: 0, bits }, envelope: envelope(codes, domain), negated: false }
    }

    /// Lanes of `domain`, all that there can be, that are keys when `base` is added; `None` where none can be one.
    pub(crate) fn of_keys(keys: &Arc<KeySet>, base: i128, domain: (i128, i128)) -> Option<Self> {
        let (low, high) = (keys.low().saturating_sub(base), keys.high().saturating_sub(base));
        let (first, last) = (low.max(domain.0), high.min(domain.1));
        if first > last {
            return None;
        }
        let set = if (first, last) == (low, high) {
            LaneSet::Keys { low: low as u128, keys: Arc::clone(keys) }
        } else if domain.0 == 0 && domain.1 <= u32::MAX.into() {
            LaneSet::FarKeys { low, keys: Arc::clone(keys) }
        } else {
            let bits = part_of_bits(keys.words(), (first - low) as usize, (last - low) as usize);
            LaneSet::Bitmap { low: first as u128, bits }
        };
        Some(Self { set, envelope: envelope((first, last), domain), negated: false })
    }

    /// Keeps the rows whose lane passes and that are valid. Gives what it would have cost for each row if all rows had been
    /// left, where looking at one lane costs 1.
    pub(crate) fn select<T: Scan>(&self, values: &[T], validity: Option<&[u8]>, matches: &mut Matches) -> f64 {
        match &self.set {
            LaneSet::Ranges(ranges) if ranges.len() == 1 => {
                self.select_by(RangePredicate::<T::Lane>::new(ranges[0]), values, validity, matches)
            }
            LaneSet::Ranges(ranges) => {
                let predicate: Vec<_> = ranges.iter().map(|range| RangePredicate::<T::Lane>::new(*range)).collect();
                self.select_by(predicate, values, validity, matches)
            }
            LaneSet::Bitmap { low, bits } => {
                self.select_by(BitmapPredicate { low: T::Lane::narrow(*low), bits }, values, validity, matches)
            }
            LaneSet::Keys { low, keys } => {
                let low = T::Lane::narrow(*low);
                self.select_by(BitmapPredicate { low, bits: keys.words() }, values, validity, matches)
            }
            LaneSet::FarKeys { low, keys } => {
                self.select_by(FarPredicate { low: *low as u64, bits: keys.words() }, values, validity, matches)
            }
            LaneSet::Sorted { low, ranges } => {
                let ranges = ranges.iter().map(|(a, b)| (T::Lane::narrow(*a), T::Lane::narrow(*b))).collect();
                self.select_by(SortedPredicate { low: T::Lane::narrow(*low), ranges }, values, validity, matches)
            }
        }
    }

    /// Intervals that hold all lanes of the set, as codes or order keys; `None` where what is outside of it passes.
    pub(crate) fn intervals(&self) -> Option<Vec<(i128, i128)>> {
        if self.negated {
            return None;
        }
        let far = |low: u128, distance: u128| (low as i128).saturating_add_unsigned(distance);
        Some(match &self.set {
            LaneSet::Ranges(ranges) => ranges.iter().map(|(low, span)| (*low as i128, far(*low, *span))).collect(),
            LaneSet::Sorted { low, ranges } => {
                ranges.iter().map(|(from, to)| (far(*low, *from), far(*low, *to))).collect()
            }
            LaneSet::Bitmap { low, bits } => intervals_of_bits(*low as i128, bits),
            LaneSet::Keys { low, keys } => intervals_of_bits(*low as i128, keys.words()),
            LaneSet::FarKeys { low, keys } => intervals_of_bits(*low, keys.words()),
        })
    }

    fn select_by<T: Scan>(
        &self,
        predicate: impl LaneSetTest<T::Lane>,
        values: &[T],
        validity: Option<&[u8]>,
        matches: &mut Matches,
    ) -> f64 {
        let rows = LaneRows { values, validity, negated: self.negated, predicate };
        let cost = rows.thinning_cost(matches.level());
        let Some(envelope) = self.envelope.filter(|_| cost > RANGE_COST) else {
            matches.keep(&rows);
            return cost;
        };
        let (around, before) = (RangePredicate::<T::Lane>::new(envelope), matches.len().max(1));
        matches.keep(&LaneRows { values, validity: None, negated: false, predicate: around });
        // What is left is looked up one by one, or all rows by vectors.
        let left = matches.len() as f64 / before as f64;
        matches.keep(&rows);
        RANGE_COST + left.min(cost)
    }
}

/// For every word of bits that has any, the numbers from its first to its last; only one interval for many words.
fn intervals_of_bits(low: i128, bits: &[u64]) -> Vec<(i128, i128)> {
    let end = |word: usize, bit: u32| low.saturating_add(word as i128 * 64 + i128::from(bit));
    if bits.len() <= FEW_WORDS {
        let words = bits.iter().enumerate().filter(|(_, word)| **word != 0);
        return words.map(|(number, word)| (end(number, word.trailing_zeros()), end(number, word.ilog2()))).collect();
    }
    // From both ends: sets of many keys have megabytes, and every block asks.
    let is_some = |word: &u64| *word != 0;
    let ends = bits.iter().position(is_some).zip(bits.iter().rposition(is_some));
    let hull = ends.map(|(first, last)| (end(first, bits[first].trailing_zeros()), end(last, bits[last].ilog2())));
    hull.into_iter().collect()
}

/// Bits `from..=to`.
fn part_of_bits(words: &[u64], from: usize, to: usize) -> Vec<u64> {
    let word = |index: usize| words.get(index).copied().unwrap_or(0);
    let shifted = |bit: usize| match bit % 64 {
        0 => word(bit / 64),
        shift => word(bit / 64) >> shift | word(bit / 64 + 1) << (64 - shift),
    };
    let mut part: Vec<u64> = (from..=to).step_by(64).map(shifted).collect();
    if let Some(last) = part.last_mut() {
        *last &= u64::MAX >> (63 - (to - from) % 64);
    }
    part
}

struct LaneRows<'a, T, P> {
    values: &'a [T],
    validity: Option<&'a [u8]>,
    negated: bool,
    predicate: P,
}

impl<T: Scan, P: LaneSetTest<T::Lane>> RowPredicate for LaneRows<'_, T, P> {
    #[inline]
    fn mask(&self, row: usize, count: usize) -> u64 {
        let values = &self.values[row..row + count];
        let mask = match values.first_chunk::<WORD_ROWS>() {
            Some(values) => self.predicate.mask(values),
            None => values.iter().rev().fold(0, |mask, v| mask << 1 | u64::from(self.predicate.contains(v.lane()))),
        };
        let mask = if self.negated { !mask } else { mask };
        self.validity.map_or(mask, |bitmap| mask & validity::word(bitmap, row))
    }

    #[inline]
    fn passes(&self, row: usize) -> bool {
        let passes = self.predicate.contains(self.values[row].lane()) != self.negated;
        passes & self.validity.is_none_or(|bitmap| validity::is_valid(bitmap, row))
    }

    fn thin(&self, level: SimdLevel, rows: usize, masks: &mut [u64]) {
        let Some(lanes) = T::vectors(&self.values[..rows]) else { return thin_by_words(self, rows, masks) };
        let mut inside = if self.negated { masks.to_vec() } else { Vec::new() };
        let thinned = if self.negated { &mut inside[..] } else { &mut *masks };
        if !self.predicate.thin(level, lanes, thinned) {
            return thin_by_words(self, rows, masks);
        }
        masks.iter_mut().zip(&inside).for_each(|(mask, inside)| *mask &= !inside);
        if let Some(bitmap) = self.validity {
            for (word, mask) in masks.iter_mut().enumerate() {
                *mask &= validity::word(bitmap, word * WORD_ROWS);
            }
        }
    }

    fn thinning_cost(&self, level: SimdLevel) -> f64 {
        if T::vectors(&[]).is_some() { self.predicate.thinning_cost(level) } else { 1.0 }
    }
}
