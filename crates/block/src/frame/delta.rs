//! Delta encoding: the steps from one value to the next, bit-packed in the transposed order of FastLanes (VLDB 2023, §3).
//!
//! Values are taken in vectors of 1,024, the last one filled up with its last value. A vector is 16 lanes of 64
//! consecutive rows each. Of every lane its first value is kept, and its steps lie so that step s of all lanes is next to
//! each other: 16 lanes add at once, and decoding puts the sums back in row order.
//!
//! | bytes | content |
//! |---|---|
//! | 4 | width of a step in bits |
//! | 4 | width of a first value's distance in bits |
//! | 8 | the smallest step |
//! | 8 | the smallest first value |
//! | | distances of the lanes' first values, by vector and lane, packed |
//! | | distances of the steps, by vector, step and lane, packed; step 0 of every lane is 0 |

use super::bit_packed::checked_width;
use super::bits::{Unpack, pack, packed_bytes, unpack};
use super::reader::{Parts, Wrong};
use super::statistics::Statistics;
use super::word::{Word, bit_length};

/// Values of a vector.
const VECTOR: usize = 1024;
/// Lanes of a vector.
const LANES: usize = 16;
/// Rows of a lane.
const STEPS: usize = VECTOR / LANES;
/// The same for statistics. Loads mix batches of several workers: between those steps are large, and batches begin where
/// lanes do.
pub(crate) const LANE_ROWS: usize = STEPS;
/// Bytes before the first values.
const HEAD_BYTES: usize = 24;

/// Bytes of the stored form, or some more.
pub(crate) fn size(statistics: &Statistics) -> usize {
    let vectors = statistics.count.div_ceil(VECTOR);
    let width = step_width(statistics);
    HEAD_BYTES + packed_bytes(vectors * LANES, statistics.width()) + packed_bytes(vectors * VECTOR, width)
}

/// Bits of a step. 0 is among them: filled-up vectors have such steps, and the first of every lane is one.
fn step_width(statistics: &Statistics) -> u32 {
    let (least, most) = statistics.steps;
    bit_length(most.wrapping_sub(least) as u64)
}

/// Appends the stored form.
pub(crate) fn encode<T: Word>(values: &[T], statistics: &Statistics, out: &mut Vec<u8>) {
    let width = step_width(statistics);
    let least = T::from_low_bits(statistics.steps.0 as u64);
    let last = values[values.len() - 1];
    let vectors = values.len().div_ceil(VECTOR);
    let row = |row: usize| values.get(row).copied().unwrap_or(last);
    let firsts = || (0..vectors * LANES).map(|lane| row(lane * STEPS).number());
    let (low, high) = (firsts().min().unwrap_or(0), firsts().max().unwrap_or(0));
    let first_width = bit_length(high - low);
    out.extend_from_slice(&width.to_le_bytes());
    out.extend_from_slice(&first_width.to_le_bytes());
    out.extend_from_slice(&least.number().to_le_bytes());
    out.extend_from_slice(&low.to_le_bytes());
    pack(firsts().map(|first| first - low), first_width, out);
    let step_of = |index: usize| {
        let (vector, in_vector) = (index / VECTOR, index % VECTOR);
        let (step, lane) = (in_vector / LANES, in_vector % LANES);
        let at = vector * VECTOR + lane * STEPS + step;
        let difference = if step == 0 { T::default() } else { row(at).minus(row(at - 1)) };
        difference.minus(least).number()
    };
    pack((0..vectors * VECTOR).map(step_of), width, out);
}

/// Fills `values` from the stored form.
pub(crate) fn decode<T: Word>(with: &dyn Unpack, stored: &[u8], values: &mut [T]) -> Result<(), Wrong> {
    let mut parts = Parts(stored);
    let [width, first_width] = parts.halves()?;
    let (least, low) = (parts.number()?, parts.number()?);
    let (width, first_width) = (checked_width::<T>(width.into())?, checked_width::<T>(first_width.into())?);
    let vectors = values.len().div_ceil(VECTOR);
    let mut firsts = parts.take(packed_bytes(vectors * LANES, first_width))?;
    let mut steps = parts.take(packed_bytes(vectors * VECTOR, width))?;
    // The first values of a vector do not end at a whole word where the width is odd: unpack four vectors' at once.
    let mut first_values = [T::zeroed(); 4 * LANES];
    let mut differences = [T::zeroed(); VECTOR];
    let mut whole = [T::zeroed(); VECTOR];
    for (index, piece) in values.chunks_mut(VECTOR).enumerate() {
        if index % 4 == 0 {
            let count = ((vectors - index) * LANES).min(first_values.len());
            let (packed, rest) = firsts.split_at(packed_bytes(count, first_width));
            unpack(with, packed, first_width, low, &mut first_values[..count]);
            firsts = rest;
        }
        let (packed, rest) = steps.split_at(packed_bytes(VECTOR, width));
        unpack(with, packed, width, least, &mut differences);
        steps = rest;
        let mut sums: [T; LANES] = std::array::from_fn(|lane| first_values[index % 4 * LANES + lane]);
        for (step, differences) in differences.as_chunks::<LANES>().0.iter().enumerate() {
            for lane in 0..LANES {
                sums[lane] = sums[lane].plus(differences[lane]);
                whole[lane * STEPS + step] = sums[lane];
            }
        }
        piece.copy_from_slice(&whole[..piece.len()]);
    }
    parts.finish()
}
