//! The form in which a run leaves memory: by word of the row, the distances to the least value in as few bytes as all of
//! them fit (byte-aligned frames of reference, as blocks have them: Data Blocks §3.2). Most words of a row are much smaller
//! than a word, or the same in all rows: counts, sums, flags, numbers of few digits.
//!
//! A column is its frame (8 bytes), the bytes of a distance (1 byte: 0, 1, 2, 4 or 8), and as many distances as rows. Behind
//! the columns come the bytes that rows refer to, as they are.

use super::{Run, RunLayout};
use crate::layout::WORD;

impl Run {
    /// The run in the form in which it leaves memory.
    pub fn pack(&self, layout: &RunLayout) -> Vec<u8> {
        let mut into = Vec::new();
        let rows = self.words.len() / layout.words;
        for word in 0..layout.words {
            let values = || self.words.chunks_exact(layout.words).map(|row| row[word]);
            let (low, high) = values().fold((i64::MAX, i64::MIN), |(low, high), value| {
                let value = value as i64;
                (low.min(value), high.max(value))
            });
            let span = high.wrapping_sub(low) as u64;
            let distances = values().map(|value| value.wrapping_sub(low as u64));
            let width = match span {
                _ if low >= high => 0,
                0..=0xff => 1,
                0x100..=0xffff => 2,
                0x1_0000..=0xffff_ffff => 4,
                _ => 8,
            };
            into.extend_from_slice(&low.to_le_bytes());
            into.push(width);
            match width {
                1 => write::<1>(distances, rows, &mut into),
                2 => write::<2>(distances, rows, &mut into),
                4 => write::<4>(distances, rows, &mut into),
                8 => write::<8>(distances, rows, &mut into),
                _ => {}
            }
        }
        into.extend_from_slice(&self.bytes);
        into
    }

    /// The run of so many rows and bytes that was packed like that; `None` where it cannot have been.
    pub fn unpack(layout: &RunLayout, rows: usize, bytes: usize, mut packed: &[u8]) -> Option<Self> {
        let mut words = vec![0; rows * layout.words];
        for word in 0..layout.words {
            let low = u64::from_le_bytes(*packed.split_off(..WORD)?.as_array()?);
            let width = *packed.split_off_first()?;
            let distances = packed.split_off(..rows * usize::from(width))?;
            let places = words.iter_mut().skip(word).step_by(layout.words);
            match width {
                0 => places.for_each(|place| *place = low),
                1 => read::<1>(distances, low, places),
                2 => read::<2>(distances, low, places),
                4 => read::<4>(distances, low, places),
                8 => read::<8>(distances, low, places),
                _ => return None,
            }
        }
        (packed.len() == bytes).then(|| Self { words, bytes: packed.to_vec() })
    }
}

fn write<const BYTES: usize>(distances: impl Iterator<Item = u64>, rows: usize, into: &mut Vec<u8>) {
    let start = into.len();
    into.resize(start + rows * BYTES, 0);
    let (places, _) = into[start..].as_chunks_mut::<BYTES>();
    for (place, distance) in places.iter_mut().zip(distances) {
        place.copy_from_slice(&distance.to_le_bytes()[..BYTES]);
    }
}

fn read<'a, const BYTES: usize>(distances: &[u8], low: u64, places: impl Iterator<Item = &'a mut u64>) {
    let (distances, _) = distances.as_chunks::<BYTES>();
    for (place, distance) in places.zip(distances) {
        let mut bytes = [0; WORD];
        bytes[..BYTES].copy_from_slice(distance);
        *place = low.wrapping_add(u64::from_le_bytes(bytes));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_was_packed_is_unpacked(
            columns in prop::collection::vec((any::<u64>(), 0u32..65), 1..8),
            rows in 0usize..300,
            mut seed: u64,
        ) {
            let layout = RunLayout { words: columns.len(), hash: None, views: Vec::new() };
            let value = |(base, bits): &(u64, u32), seed: &mut u64| {
                let random = crate::scalars::random(seed);
                base.wrapping_add(random.checked_shr(u64::BITS - bits).unwrap_or(0))
            };
            let words: Vec<u64> = (0..rows).flat_map(|_| columns.iter().collect::<Vec<_>>()).map(|column| value(column, &mut seed)).collect();
            let run = Run { words, bytes: vec![7; rows] };
            let packed = run.pack(&layout);
            let unpacked = Run::unpack(&layout, rows, rows, &packed).expect("it was packed");
            prop_assert_eq!((unpacked.words, unpacked.bytes), (run.words, run.bytes));
            // A column whose values differ by less than 2^bits takes no more bytes than those bits.
            let most = |(base, bits): &(u64, u32)| match (bits, base.checked_add((1u64 << (bits % 64)) - 1)) {
                (0, _) => 0,
                (1..64, Some(high)) if (*base as i64 <= high as i64) => bits.div_ceil(8).next_power_of_two() as usize,
                _ => 8,
            };
            prop_assert!(packed.len() <= rows + columns.iter().map(|column| 9 + most(column) * rows).sum::<usize>());
            prop_assert!(Run::unpack(&layout, rows, rows, &packed[..packed.len() - 1]).is_none());
        }
    }
}
