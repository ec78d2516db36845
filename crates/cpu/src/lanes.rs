//! Tests of numbers as they lie in a block: codes, plain integers, order keys of plain floats. All of them are unsigned
//! lanes in which a range is one subtraction and one comparison.
//!
//! Invariants: loops over 64 lanes are branch-free and plain enough for the compiler to vectorise.

use std::sync::Arc;

use forebay_block::{Native, validity};
use forebay_pipeline::KeySet;

use crate::Selection;
use crate::find::{self, MASK_ROWS, RowTest};

/// An unsigned number.
pub(crate) trait Lane: Copy + Ord {
    /// `self - low`, wrapping.
    fn above(self, low: Self) -> Self;
    /// The low bits of `wide`.
    fn narrow(wide: u128) -> Self;
    /// Zero-extended.
    fn wide(self) -> u128;
}

macro_rules! lane {
    ($($lane:ident),*) => {$(
        impl Lane for $lane {
            #[inline]
            fn above(self, low: Self) -> Self {
                self.wrapping_sub(low)
            }
            #[inline]
            fn narrow(wide: u128) -> Self {
                wide as $lane
            }
            #[inline]
            fn wide(self) -> u128 {
                self.into()
            }
        }
    )*};
}
lane!(u8, u16, u32, u64, u128);

/// A native whose values, read as [`Scan::lane`], are ranges where they are ranges in SQL's order (modulo 2^bits).
pub(crate) trait Scan: Native {
    /// The lane type.
    type Lane: Lane;
    /// The low bits of the order key.
    fn lane(self) -> Self::Lane;
}

macro_rules! scan {
    ($($native:ident $lane:ident),*) => {$(
        impl Scan for $native {
            type Lane = $lane;
            #[inline]
            fn lane(self) -> $lane {
                self.key() as $lane
            }
        }
    )*};
}
scan!(i8 u8, i16 u16, i32 u32, i64 u64, i128 u128, u8 u8, u16 u16, u32 u32, u64 u64, f32 u64, f64 u64);

/// Ranges that are tested one after the other, vectorised.
const FEW_RANGES: usize = 4;
/// Numbers that a bitmap may cover.
const BITMAP_NUMBERS: u128 = 1 << 16;

/// A set of lanes; all numbers are cut to the width of the lanes that they are compared with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaneTest {
    set: LaneSet,
    /// Lanes outside of the set pass.
    negated: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum LaneSet {
    /// Few ranges as (lowest, distance to the highest).
    Ranges(Vec<(u128, u128)>),
    /// Bit `lane - first` says whether a lane of at most `first + span` is in the set.
    Bitmap { first: u128, span: u128, bits: Vec<u64> },
    /// As `Bitmap`, where bit `lane - first + skip` is one of the keys' words.
    Keys { first: u128, span: u128, skip: u64, keys: Arc<KeySet> },
    /// Ranges relative to `low`, ascending and disjoint.
    Sorted { low: u128, ranges: Vec<(u128, u128)> },
}

impl LaneTest {
    /// Lanes in `ranges` (inclusive, ascending, disjoint, at least one), or those outside of them.
    pub(crate) fn new(ranges: &[(i128, i128)], negated: bool) -> Self {
        let (first, last) = (ranges[0].0, ranges[ranges.len() - 1].1);
        let distance = |from: i128, to: i128| to.wrapping_sub(from) as u128;
        let set = if ranges.len() <= FEW_RANGES {
            LaneSet::Ranges(ranges.iter().map(|(from, to)| (*from as u128, distance(*from, *to))).collect())
        } else if distance(first, last) < BITMAP_NUMBERS {
            let span = distance(first, last);
            let mut bits = vec![0; span as usize / 64 + 1];
            for number in ranges.iter().flat_map(|(from, to)| distance(first, *from)..=distance(first, *to)) {
                bits[number as usize / 64] |= 1 << (number % 64);
            }
            LaneSet::Bitmap { first: first as u128, span, bits }
        } else {
            let ranges = ranges.iter().map(|(from, to)| (distance(first, *from), distance(first, *to))).collect();
            LaneSet::Sorted { low: first as u128, ranges }
        };
        Self { set, negated }
    }

    /// Lanes of `domain` (all that there can be) that, counted from `base`, are keys; `None` where no lane can be one.
    pub(crate) fn of_keys(keys: &Arc<KeySet>, base: i128, domain: (i128, i128)) -> Option<Self> {
        let (low, high) = (keys.low().saturating_sub(base), keys.high().saturating_sub(base));
        // Lanes wrap around in their own width, so that a key beyond them would be found among them.
        let (first, last) = (low.max(domain.0), high.min(domain.1));
        if first > last {
            return None;
        }
        let (skip, span) = ((first - low) as u64, (last - first) as u128);
        Some(Self { set: LaneSet::Keys { first: first as u128, span, skip, keys: Arc::clone(keys) }, negated: false })
    }

    /// Keeps the selected rows whose lane passes and that are valid.
    pub(crate) fn select<T: Scan>(&self, values: &[T], validity: Option<&[u8]>, selection: &mut Selection) {
        match &self.set {
            LaneSet::Ranges(ranges) if ranges.len() == 1 => {
                self.select_by(RangePredicate::<T::Lane>::new(ranges[0]), values, validity, selection);
            }
            LaneSet::Ranges(ranges) => {
                let predicate: Vec<_> = ranges.iter().map(|range| RangePredicate::<T::Lane>::new(*range)).collect();
                self.select_by(predicate, values, validity, selection);
            }
            LaneSet::Bitmap { first, span, bits } => {
                self.select_by(BitmapPredicate::<T::Lane>::new(*first, *span, 0, bits), values, validity, selection);
            }
            LaneSet::Keys { first, span, skip, keys } => {
                let predicate = BitmapPredicate::<T::Lane>::new(*first, *span, *skip, keys.words());
                self.select_by(predicate, values, validity, selection);
            }
            LaneSet::Sorted { low, ranges } => {
                let ranges = ranges.iter().map(|(a, b)| (T::Lane::narrow(*a), T::Lane::narrow(*b))).collect();
                self.select_by(SortedPredicate { low: T::Lane::narrow(*low), ranges }, values, validity, selection);
            }
        }
    }

    fn select_by<T: Scan>(
        &self,
        predicate: impl Predicate<T::Lane>,
        values: &[T],
        validity: Option<&[u8]>,
        selection: &mut Selection,
    ) {
        find::select(selection, &LaneRows { values, validity, negated: self.negated, predicate });
    }
}

/// A set of lanes in the lanes' own width.
trait Predicate<L: Lane> {
    fn contains(&self, lane: L) -> bool;

    #[inline]
    fn mask<T: Scan<Lane = L>>(&self, values: &[T; MASK_ROWS]) -> u64 {
        let mut flags = [0; MASK_ROWS];
        for (flag, value) in flags.iter_mut().zip(values) {
            *flag = u8::from(self.contains(value.lane()));
        }
        pack(flags)
    }
}

/// One bit for each byte that is 1.
#[inline]
fn pack(flags: [u8; MASK_ROWS]) -> u64 {
    let mut bytes = [0; 8];
    for (byte, flags) in bytes.iter_mut().zip(flags.as_chunks::<8>().0) {
        // The product moves the lowest bit of byte i to bit 56 + i; no two bits meet.
        *byte = (u64::from_le_bytes(*flags).wrapping_mul(0x0102_0408_1020_4080) >> 56) as u8;
    }
    u64::from_le_bytes(bytes)
}

struct RangePredicate<L> {
    low: L,
    span: L,
}

impl<L: Lane> RangePredicate<L> {
    fn new((low, span): (u128, u128)) -> Self {
        Self { low: L::narrow(low), span: L::narrow(span) }
    }
}

impl<L: Lane> Predicate<L> for RangePredicate<L> {
    #[inline]
    fn contains(&self, lane: L) -> bool {
        lane.above(self.low) <= self.span
    }
}

impl<L: Lane> Predicate<L> for Vec<RangePredicate<L>> {
    #[inline]
    fn contains(&self, lane: L) -> bool {
        self.iter().fold(false, |found, range| found | range.contains(lane))
    }

    #[inline]
    fn mask<T: Scan<Lane = L>>(&self, values: &[T; MASK_ROWS]) -> u64 {
        self.iter().fold(0, |mask, range| mask | range.mask(values))
    }
}

struct BitmapPredicate<'a, L> {
    first: L,
    span: L,
    skip: u64,
    bits: &'a [u64],
}

impl<'a, L: Lane> BitmapPredicate<'a, L> {
    fn new(first: u128, span: u128, skip: u64, bits: &'a [u64]) -> Self {
        Self { first: L::narrow(first), span: L::narrow(span), skip, bits }
    }
}

impl<L: Lane> Predicate<L> for BitmapPredicate<'_, L> {
    #[inline]
    fn contains(&self, lane: L) -> bool {
        let above = lane.above(self.first);
        // What is cut off here belongs to lanes that are out of the span.
        let number = (above.wide() as u64).wrapping_add(self.skip);
        let word = self.bits.get((number / 64) as usize);
        word.is_some_and(|word| word >> (number % 64) & 1 == 1) & (above <= self.span)
    }
}

struct SortedPredicate<L> {
    low: L,
    ranges: Vec<(L, L)>,
}

impl<L: Lane> Predicate<L> for SortedPredicate<L> {
    fn contains(&self, lane: L) -> bool {
        let number = lane.above(self.low);
        let after = self.ranges.partition_point(|(from, _)| *from <= number);
        after > 0 && number <= self.ranges[after - 1].1
    }
}

struct LaneRows<'a, T, P> {
    values: &'a [T],
    validity: Option<&'a [u8]>,
    negated: bool,
    predicate: P,
}

impl<T: Scan, P: Predicate<T::Lane>> RowTest for LaneRows<'_, T, P> {
    #[inline]
    fn mask(&self, row: usize, count: usize) -> u64 {
        let values = &self.values[row..row + count];
        let mask = match values.first_chunk::<MASK_ROWS>() {
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
}
