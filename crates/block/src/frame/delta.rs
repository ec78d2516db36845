//! Delta encoding: the steps from one value to the next, bit-packed in the transposed order of FastLanes (VLDB 2023, §3).
//!
//! Values are taken in vectors of 1,024, the last one filled up with its last value. A vector is 16 lanes of 64
//! consecutive rows each. Of every lane its first value is kept, and its steps lie so that step s of all lanes is next to
//! each other: 16 lanes add at once, and decoding puts the sums back in row order. Steps that are much larger than the
//! others, as from month to month in dates, are put aside as outliers, which [`super::patched`] does with values.
//!
//! | bytes | content |
//! |---|---|
//! | 2 | width of a step in bits |
//! | 2 | number of outlying steps N |
//! | 4 | width of a first value's distance in bits |
//! | 8 | the smallest step |
//! | 8 | the smallest first value |
//! | | distances of the lanes' first values, by vector and lane, packed |
//! | | distances of the steps, by vector, step and lane, packed; step 0 of every lane is 0; those of outliers lack high bits |
//! | 2 N | places of the outlying steps among those, ascending |
//! | | zeros up to a multiple of 8 bytes |
//! | E N | the outlying steps, in the element's width E |
//! | | zeros up to a multiple of 8 bytes |

use super::bit_packed::checked_width;
use super::bits::{Unpack, pack, packed_bytes, unpack};
use super::reader::{Parts, Wrong, pad};
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

/// Bytes of the place of an outlying step.
const PLACE_BYTES: usize = size_of::<u16>();

/// The best width of a step, and about how many bytes the stored form has with it.
pub(crate) fn plan<T: Word>(statistics: &Statistics) -> (u32, usize) {
    let vectors = statistics.count.div_ceil(VECTOR);
    let first_bytes = HEAD_BYTES + packed_bytes(vectors * LANES, statistics.width());
    let mut outliers = 0;
    let mut best = (T::BITS, usize::MAX);
    // Every width less puts those aside that need one bit more. Filled-up vectors and the first step of lanes are steps of
    // 0, which must not become outliers.
    let least_width = bit_length((statistics.steps.0 as u64).wrapping_neg());
    for width in (least_width..=step_width(statistics)).rev() {
        let bytes = first_bytes + packed_bytes(vectors * VECTOR, width) + outliers * (PLACE_BYTES + size_of::<T>());
        if bytes < best.1 {
            best = (width, bytes);
        }
        outliers += statistics.by_step_width[width as usize];
    }
    best
}

/// Bits of a step. 0 is among them: filled-up vectors have such steps, and the first of every lane is one.
fn step_width(statistics: &Statistics) -> u32 {
    let (least, most) = statistics.steps;
    bit_length(most.wrapping_sub(least) as u64)
}

/// Appends the stored form with steps of `width` bits.
pub(crate) fn encode<T: Word>(values: &[T], width: u32, statistics: &Statistics, out: &mut Vec<u8>) {
    let start = out.len();
    let least = T::from_low_bits(statistics.steps.0 as u64);
    let last = values[values.len() - 1];
    let vectors = values.len().div_ceil(VECTOR);
    let row = |row: usize| values.get(row).copied().unwrap_or(last);
    let firsts = || (0..vectors * LANES).map(|lane| row(lane * STEPS).number());
    let (low, high) = (firsts().min().unwrap_or(0), firsts().max().unwrap_or(0));
    let first_width = bit_length(high - low);
    let step_of = |index: usize| {
        let (vector, in_vector) = (index / VECTOR, index % VECTOR);
        let (step, lane) = (in_vector / LANES, in_vector % LANES);
        let at = vector * VECTOR + lane * STEPS + step;
        if step == 0 { T::default() } else { row(at).minus(row(at - 1)) }
    };
    let distance = |index: usize| step_of(index).minus(least).number();
    let outliers: Vec<u16> = match width == step_width(statistics) {
        true => Vec::new(),
        false => (0..vectors * VECTOR).filter(|index| bit_length(distance(*index)) > width).map(|i| i as u16).collect(),
    };
    // A sample chose the width. Where more steps are outliers than their number has room for, it was no good one.
    let Ok(count) = u16::try_from(outliers.len()) else {
        return encode(values, step_width(statistics), statistics, out);
    };
    out.extend_from_slice(&(width as u16).to_le_bytes());
    out.extend_from_slice(&count.to_le_bytes());
    out.extend_from_slice(&first_width.to_le_bytes());
    out.extend_from_slice(&least.number().to_le_bytes());
    out.extend_from_slice(&low.to_le_bytes());
    pack(firsts().map(|first| first - low), first_width, out);
    let mask = if width == 0 { 0 } else { u64::MAX >> (u64::BITS - width) };
    pack((0..vectors * VECTOR).map(|index| distance(index) & mask), width, out);
    out.extend_from_slice(bytemuck::cast_slice(&outliers));
    pad(start, out);
    for place in outliers {
        out.extend_from_slice(bytemuck::bytes_of(&step_of(place.into())));
    }
    pad(start, out);
}

/// Fills `values` from the stored form.
pub(crate) fn decode<T: Word>(with: &dyn Unpack, stored: &[u8], values: &mut [T]) -> Result<(), Wrong> {
    let mut parts = Parts(stored);
    let [width, first_width] = parts.halves()?;
    let (least, low) = (parts.number()?, parts.number()?);
    let (width, outliers) = (width & u32::from(u16::MAX), (width >> u16::BITS) as usize);
    let (width, first_width) = (checked_width::<T>(width.into())?, checked_width::<T>(first_width.into())?);
    let vectors = values.len().div_ceil(VECTOR);
    let mut firsts = parts.take(packed_bytes(vectors * LANES, first_width))?;
    let mut steps = parts.take(packed_bytes(vectors * VECTOR, width))?;
    let places = parts.take((outliers * PLACE_BYTES).next_multiple_of(8))?;
    let outlying = parts.take((outliers * size_of::<T>()).next_multiple_of(8))?;
    let outlying = outlying.chunks_exact(size_of::<T>()).map(bytemuck::pod_read_unaligned::<T>);
    let places = places.as_chunks().0.iter().map(|place| usize::from(u16::from_le_bytes(*place)));
    let mut outliers = places.zip(outlying).take(outliers).peekable();
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
        while let Some((place, step)) = outliers.next_if(|(place, _)| place / VECTOR == index) {
            differences[place % VECTOR] = step;
        }
        let firsts: [T; LANES] = std::array::from_fn(|lane| first_values[index % 4 * LANES + lane]);
        match piece.try_into() {
            Ok(piece) => sum_lanes(with, &firsts, &differences, piece),
            Err(_) => {
                sum_lanes(with, &firsts, &differences, &mut whole);
                piece.copy_from_slice(&whole[..piece.len()]);
            }
        }
    }
    match outliers.next() {
        Some(_) => Err("the places of outlying steps do not ascend, or are behind the last one"),
        None => parts.finish(),
    }
}

/// Fills a vector in row order from its lanes' first values and the steps.
fn sum_lanes<T: Word>(with: &dyn Unpack, firsts: &[T; LANES], steps: &[T; VECTOR], out: &mut [T; VECTOR]) {
    let (first_bytes, step_bytes) = (bytemuck::cast_slice(firsts), bytemuck::cast_slice(steps));
    if with.sum_lanes(first_bytes, step_bytes, size_of::<T>(), bytemuck::cast_slice_mut(out)) {
        return;
    }
    let mut sums = *firsts;
    for (step, steps) in steps.as_chunks::<LANES>().0.iter().enumerate() {
        for lane in 0..LANES {
            sums[lane] = sums[lane].plus(steps[lane]);
            out[lane * STEPS + step] = sums[lane];
        }
    }
}
