//! Sets of lanes in the lanes' own width: whether one lane is in a set, and which of 64 or of thousands are.
//!
//! Invariants: every way of asking gives the same answer; what vectors can do goes through [`crate::simd`], other loops
//! are branch-free and plain enough for the compiler to vectorise. Must not know: NULLs, encodings, how a set was made.

use crate::lane_values::{Lane, LaneSlice, Scan};
use crate::simd::{self, SimdLevel, WORD_ROWS};

/// What comparing a lane within a vector costs, where looking at one lane alone costs 1. A lane alone waits for memory: in
/// the cache the ratio is 0.04 (`examples/kernel_speed.rs`), over tables that no cache holds it is this.
pub(crate) const RANGE_COST: f64 = 0.01;
/// What gathering a lane's bit costs likewise.
const GATHER_COST: f64 = 0.15;
/// What loading it with a load of its own costs likewise: in the cache as much, over lanes that no cache holds half as much
/// again, since fewer loads are under way.
const LOAD_COST: f64 = 0.22;

/// A set of lanes in the lanes' own width.
pub(crate) trait LaneSetTest<L: Lane> {
    fn contains(&self, lane: L) -> bool;

    #[inline]
    fn mask<T: Scan<Lane = L>>(&self, values: &[T; WORD_ROWS]) -> u64 {
        let mut flags = [0; WORD_ROWS];
        for (flag, value) in flags.iter_mut().zip(values) {
            *flag = u8::from(self.contains(value.lane()));
        }
        pack(flags)
    }

    /// Takes away the bits of lanes that are not in the set, by vectors; false where it cannot.
    fn thin(&self, _level: SimdLevel, _lanes: LaneSlice<'_>, _masks: &mut [u64]) -> bool {
        false
    }

    /// What that costs for each lane, where [`LaneSetTest::contains`] costs 1.
    fn thinning_cost(&self, _level: SimdLevel) -> f64 {
        1.0
    }
}

/// One bit for each byte that is 1.
#[inline]
fn pack(flags: [u8; WORD_ROWS]) -> u64 {
    let mut bytes = [0; 8];
    for (byte, flags) in bytes.iter_mut().zip(flags.as_chunks::<8>().0) {
        // The product moves the lowest bit of byte i to bit 56 + i; no two bits meet.
        *byte = (u64::from_le_bytes(*flags).wrapping_mul(0x0102_0408_1020_4080) >> 56) as u8;
    }
    u64::from_le_bytes(bytes)
}

pub(crate) struct RangePredicate<L> {
    pub(crate) low: L,
    pub(crate) span: L,
}

impl<L: Lane> RangePredicate<L> {
    pub(crate) fn new((low, span): (u128, u128)) -> Self {
        Self { low: L::narrow(low), span: L::narrow(span) }
    }
}

impl<L: Lane> LaneSetTest<L> for RangePredicate<L> {
    #[inline]
    fn contains(&self, lane: L) -> bool {
        lane.above(self.low) <= self.span
    }

    fn thin(&self, level: SimdLevel, lanes: LaneSlice<'_>, masks: &mut [u64]) -> bool {
        let (low, span) = (self.low.wide(), self.span.wide());
        match lanes {
            LaneSlice::U8(lanes) => simd::range(level, lanes, low as u8, span as u8, masks),
            LaneSlice::U16(lanes) => simd::range(level, lanes, low as u16, span as u16, masks),
            LaneSlice::U32(lanes) => simd::range(level, lanes, low as u32, span as u32, masks),
            LaneSlice::U64(lanes) => simd::range(level, lanes, low as u64, span as u64, masks),
        }
        true
    }

    fn thinning_cost(&self, _level: SimdLevel) -> f64 {
        RANGE_COST
    }
}

impl<L: Lane> LaneSetTest<L> for Vec<RangePredicate<L>> {
    #[inline]
    fn contains(&self, lane: L) -> bool {
        self.iter().fold(false, |found, range| found | range.contains(lane))
    }

    #[inline]
    fn mask<T: Scan<Lane = L>>(&self, values: &[T; WORD_ROWS]) -> u64 {
        self.iter().fold(0, |mask, range| mask | range.mask(values))
    }

    fn thin(&self, level: SimdLevel, lanes: LaneSlice<'_>, masks: &mut [u64]) -> bool {
        let mut any = vec![0; masks.len()];
        for range in self {
            let mut one = masks.to_vec();
            range.thin(level, lanes, &mut one);
            any.iter_mut().zip(one).for_each(|(any, one)| *any |= one);
        }
        masks.copy_from_slice(&any);
        true
    }

    fn thinning_cost(&self, _level: SimdLevel) -> f64 {
        RANGE_COST * self.len() as f64
    }
}

pub(crate) struct BitmapPredicate<'a, L> {
    pub(crate) low: L,
    pub(crate) bits: &'a [u64],
}

impl<L: Lane> LaneSetTest<L> for BitmapPredicate<'_, L> {
    #[inline]
    fn contains(&self, lane: L) -> bool {
        let number = lane.above(self.low).wide();
        let word = usize::try_from(number / 64).ok().and_then(|word| self.bits.get(word));
        word.is_some_and(|word| word >> (number % 64) & 1 == 1)
    }

    fn thin(&self, level: SimdLevel, lanes: LaneSlice<'_>, masks: &mut [u64]) -> bool {
        // Vectors do not wrap around in the lanes' own width, which a set of signed numbers can do.
        let highest = self.bits.iter().rposition(|word| *word != 0);
        let span = highest.map_or(0, |word| word as u128 * 64 + u128::from(self.bits[word].ilog2()));
        let last = self.low.wide().saturating_add(span);
        if last > L::narrow(u128::MAX).wide() || last > u64::MAX.into() {
            return false;
        }
        lanes.members(level, self.low.wide() as u64, self.bits, masks);
        true
    }

    fn thinning_cost(&self, level: SimdLevel) -> f64 {
        members_cost(level, size_of::<L>())
    }
}

/// What looking a lane of so many bytes up in a bitmap costs with vectors, where one lane alone costs 1.
fn members_cost(level: SimdLevel, lane_bytes: usize) -> f64 {
    match (level, lane_bytes) {
        (SimdLevel::Avx2 | SimdLevel::Avx512, 1) => RANGE_COST,
        (SimdLevel::Avx512, 2 | 4) => GATHER_COST,
        (SimdLevel::Avx2, 2 | 4) | (SimdLevel::Avx2 | SimdLevel::Avx512, 8) => LOAD_COST,
        _ => 1.0,
    }
}

/// As [`BitmapPredicate`], for lanes that are short enough not to wrap around as 8 bytes.
pub(crate) struct FarPredicate<'a> {
    pub(crate) low: u64,
    pub(crate) bits: &'a [u64],
}

impl<L: Lane> LaneSetTest<L> for FarPredicate<'_> {
    #[inline]
    fn contains(&self, lane: L) -> bool {
        let number = (lane.wide() as u64).wrapping_sub(self.low);
        let word = self.bits.get((number / 64) as usize);
        word.is_some_and(|word| word >> (number % 64) & 1 == 1)
    }
    fn thin(&self, level: SimdLevel, lanes: LaneSlice<'_>, masks: &mut [u64]) -> bool {
        lanes.members(level, self.low, self.bits, masks);
        true
    }

    fn thinning_cost(&self, level: SimdLevel) -> f64 {
        members_cost(level, size_of::<L>())
    }
}

pub(crate) struct SortedPredicate<L> {
    pub(crate) low: L,
    pub(crate) ranges: Vec<(L, L)>,
}

impl<L: Lane> LaneSetTest<L> for SortedPredicate<L> {
    fn contains(&self, lane: L) -> bool {
        let number = lane.above(self.low);
        let after = self.ranges.partition_point(|(from, _)| *from <= number);
        after > 0 && number <= self.ranges[after - 1].1
    }
}
