//! Positional small materialised aggregates (Data Blocks §3.2, Appendix B): for every value of the most significant byte of
//! a code that is not zero, the range of rows where it occurs. A test on codes need look at no other rows.
//!
//! One is made when a test first looks at a block, and only where a sample of the rows says that values lie close together:
//! where each slot spans most of the block it would narrow nothing. It is kept beside the block in memory, not on disk,
//! since one pass over the codes makes it.
//!
//! Invariants: no row whose value lies in a range is outside of the rows of that range; NULL rows may be inside or outside.
//! Must not know: tests of queries.

use std::ops::Range;

use crate::access::{Access, Codes, Values};
use crate::native::Native;
use crate::parse::EncodedBlock;

/// Values of a byte: slots for every number of bytes that follow it.
const BYTE_SLOTS: usize = 1 << 8;

/// Slots of the widest deltas, which have eight bytes.
const MOST_SLOTS: usize = BYTE_SLOTS * size_of::<u64>();

/// Fewer rows are tested sooner than narrowed.
const LEAST_ROWS: usize = 4096;

/// Rows of a sample. Random values fall into at most about 256 slots, so that each gets several of them, and spans most of
/// the block in the sample as it does in the block.
const SAMPLE_ROWS: usize = 2048;

/// A PSMA is kept where the slot of a sampled row spans at most this share of the block, on average.
const NARROW_SHARE: f64 = 0.5;

/// Ranges of rows by slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Psma {
    /// What the code or order key of a delta of 0 is.
    base: i128,
    /// First row per slot, up to the last slot in use; [`u16::MAX`] where the slot is empty.
    first: Vec<u16>,
    /// Last row per slot; 0 where the slot is empty, so that a union is a minimum and a maximum.
    last: Vec<u16>,
}

/// When a PSMA is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Worth {
    /// Where a sample says that slots are narrow.
    Sampled,
    /// Always, so that tests reach every block.
    Always,
}

/// The slot of a delta: its highest byte that is not 0, behind the slots of shorter deltas.
#[inline]
fn slot(delta: u64) -> usize {
    let bytes_after = (u64::BITS - 1 - (delta | 1).leading_zeros()) / 8;
    (delta >> (bytes_after * 8)) as usize + bytes_after as usize * BYTE_SLOTS
}

impl Psma {
    /// The PSMA of a block, if it is worth having one.
    pub fn of_block(block: &EncodedBlock) -> Option<Self> {
        Self::build(block, Worth::Sampled)
    }

    /// The PSMA of a block; `None` where its values have no codes, more than 8 bytes, or one value for all rows.
    pub fn build(block: &EncodedBlock, worth: Worth) -> Option<Self> {
        match block.access() {
            Access::FrameOfReference { codes, .. } | Access::Dictionary { codes, .. } => match codes {
                Codes::U8(codes) => of_deltas(codes, 0, u64::from, worth),
                Codes::U16(codes) => of_deltas(codes, 0, u64::from, worth),
                Codes::U32(codes) => of_deltas(codes, 0, u64::from, worth),
                Codes::U64(codes) => of_deltas(codes, 0, u64::from, worth),
            },
            Access::Plain(Values::Fixed(values)) => crate::with_native!(
                block.physical(),
                T => of_keys::<T>(&values.natives(), worth),
                bytes => None
            ),
            // Runs are found by their ends.
            Access::AllNull | Access::Constant(_) | Access::Plain(Values::Strings(_)) | Access::RunLength { .. } => {
                None
            }
        }
    }

    /// Most bytes that one takes whose codes have `code_bytes` bytes.
    pub fn largest_bytes(code_bytes: usize) -> usize {
        code_bytes.min(size_of::<u64>()) * BYTE_SLOTS * 2 * size_of::<u16>()
    }

    /// A range of rows that holds all those whose code lies in `low..=high`: codes as they are, and order keys of plain
    /// values.
    pub fn rows(&self, low: i128, high: i128) -> Range<u32> {
        let delta = |bound: i128| bound.checked_sub(self.base).map(|delta| delta.clamp(0, u64::MAX.into()) as u64);
        if low > high || high < self.base {
            return 0..0;
        }
        // A difference that does not fit is that of a bound far above or below all values.
        let from = slot(delta(low).unwrap_or(if low < 0 { 0 } else { u64::MAX }));
        let to = slot(delta(high).unwrap_or(u64::MAX)).min(self.first.len() - 1);
        if from > to {
            return 0..0;
        }
        let first = self.first[from..=to].iter().copied().fold(u16::MAX, u16::min);
        let last = self.last[from..=to].iter().copied().fold(0, u16::max);
        if first > last { 0..0 } else { u32::from(first)..u32::from(last) + 1 }
    }
}

/// The PSMA of plain values by their order keys; `None` for values that are wider than deltas.
fn of_keys<T: Native>(values: &[T], worth: Worth) -> Option<Psma> {
    if T::WIDTH > size_of::<u64>() {
        return None;
    }
    let key = |value: &T| -> i128 { value.key().into() };
    let base = values.iter().map(key).min()?;
    of_deltas(values, base, |value| (key(&value) - base) as u64, worth)
}

fn of_deltas<C: Copy>(codes: &[C], base: i128, delta: impl Fn(C) -> u64, worth: Worth) -> Option<Psma> {
    if worth == Worth::Sampled && (codes.len() < LEAST_ROWS || !is_narrow(codes, &delta)) {
        return None;
    }
    let mut first = vec![u16::MAX; MOST_SLOTS];
    let mut last = vec![0; MOST_SLOTS];
    let mut close = |slot: usize, begin: usize, end: usize| {
        first[slot] = first[slot].min(begin as u16);
        last[slot] = (end - 1) as u16;
    };
    // Runs rather than rows, since neighbours share slots where values lie close together.
    let (mut begin, mut current) = (0, slot(delta(*codes.first()?)));
    for (row, code) in codes.iter().enumerate() {
        let next = slot(delta(*code));
        if next != current {
            close(current, begin, row);
            (begin, current) = (row, next);
        }
    }
    close(current, begin, codes.len());
    let used = 1 + first.iter().zip(&last).rposition(|(first, last)| first <= last).unwrap_or(0);
    for slots in [&mut first, &mut last] {
        slots.truncate(used);
        slots.shrink_to_fit();
    }
    Some(Psma { base, first, last })
}

/// Whether slots are narrow in a sample of the rows. A regular step might meet a period of the data, so that each row is
/// taken anywhere in its step.
fn is_narrow<C: Copy>(codes: &[C], delta: impl Fn(C) -> u64) -> bool {
    let step = codes.len() / SAMPLE_ROWS;
    let sampled = SAMPLE_ROWS.min(codes.len());
    let mut slots = vec![(0u16, 0u16, 0u16); MOST_SLOTS];
    for number in 0..sampled {
        let anywhere = number.wrapping_mul(0x9e37_79b9) >> 7;
        let row = number * step + anywhere % step.max(1);
        let (count, first, last) = &mut slots[slot(delta(codes[row]))];
        if *count == 0 {
            *first = number as u16;
        }
        (*count, *last) = (*count + 1, number as u16);
    }
    let span = |(count, first, last): &(u16, u16, u16)| f64::from(*count) * (f64::from(last - first) + 1.0);
    let spans: f64 = slots.iter().filter(|(count, ..)| *count > 0).map(span).sum();
    spans <= NARROW_SHARE * (sampled * sampled) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_the_paper() {
        // Figure 4: a delta of 0x05 and one of 0x03e4.
        assert_eq!(slot(5), 5);
        assert_eq!(slot(0x03e4), 3 + 256);
        assert_eq!(slot(0), 0);
        assert_eq!(slot(255), 255);
        assert_eq!(slot(256), 1 + 256);
        assert_eq!(slot(0x01ff_ffff), 1 + 3 * 256);
        assert_eq!(slot(u64::MAX), MOST_SLOTS - 1);
    }

    #[test]
    fn sorted_codes_are_narrow_and_random_ones_are_not() {
        let sorted: Vec<u16> = (0..=u16::MAX).collect();
        let psma = of_deltas(&sorted, 0, u64::from, Worth::Sampled).expect("sorted");
        assert_eq!(psma.rows(7, 7), 7..8);
        assert_eq!(psma.rows(300, 300), 256..512);
        assert_eq!(psma.rows(200, 513), 200..768);
        assert_eq!(psma.rows(-9, -1), 0..0);
        assert_eq!(psma.rows(70_000, i128::MAX), 0..0);
        assert_eq!(psma.rows(i128::MIN, i128::MAX), 0..65_536);
        let mix = |row: u64| (row + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        for limit in [2, 3, 40, 256, 1000, 1 << 24] {
            let random: Vec<u64> = (0..65_536).map(|row| mix(row) % limit).collect();
            assert_eq!(of_deltas(&random, 0, u64::from, Worth::Sampled), None, "{limit}");
        }
        assert_eq!(of_deltas(&[1u8; 10], 0, u64::from, Worth::Sampled), None, "few rows");
    }

    #[test]
    fn bounds_far_away_are_no_overflow() {
        let keys: Vec<i64> = (0..8192).map(|row| i64::MIN + row).collect();
        let psma = of_keys(&keys, Worth::Sampled).expect("sorted");
        assert_eq!(psma.rows(i128::MIN, i128::MAX), 0..8192);
        assert_eq!(psma.rows(i128::MAX, i128::MAX), 0..0);
        assert_eq!(psma.rows(i128::MIN, i128::MIN), 0..0);
        assert_eq!(psma.rows(i128::MIN, i128::from(i64::MIN) + 3), 0..4);
    }
}
