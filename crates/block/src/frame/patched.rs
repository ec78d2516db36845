//! Bit packing with outliers put aside: most distances in few bits, the others as positions and whole values.
//!
//! | bytes | content |
//! |---|---|
//! | 4 | width of a distance in bits |
//! | 4 | number of outliers N |
//! | 8 | the smallest value |
//! | | the distances, packed; those of outliers without their high bits |
//! | 2 N | positions of the outliers, ascending |
//! | | zeros up to a multiple of 8 bytes |
//! | E N | their values, in the element's width E |
//! | | zeros up to a multiple of 8 bytes |

use super::bit_packed::checked_width;
use super::bits::{Unpack, pack, packed_bytes, unpack};
use super::reader::{Parts, Wrong, pad};
use super::statistics::Statistics;
use super::word::{Word, bit_length};

/// Bytes before the distances.
const HEAD_BYTES: usize = 16;
/// Bytes of a position.
const POSITION_BYTES: usize = size_of::<u16>();

/// The best width, and about how many bytes the stored form has with it.
pub(crate) fn plan<T: Word>(statistics: &Statistics) -> (u32, usize) {
    let outlier_bytes = POSITION_BYTES + size_of::<T>();
    let mut outliers = 0;
    let mut best = (T::BITS, usize::MAX);
    // Every width less puts those aside that need one bit more.
    for width in (0..=statistics.width()).rev() {
        let bytes = HEAD_BYTES + packed_bytes(statistics.count, width) + outliers * outlier_bytes;
        if bytes < best.1 {
            best = (width, bytes);
        }
        outliers += statistics.by_width[width as usize];
    }
    best
}

/// Appends the stored form with distances of `width` bits.
pub(crate) fn encode<T: Word>(values: &[T], width: u32, statistics: &Statistics, out: &mut Vec<u8>) {
    let start = out.len();
    let low = statistics.low;
    let mask = if width == 0 { 0 } else { u64::MAX >> (u64::BITS - width) };
    let is_outlier = |value: &T| bit_length(value.number() - low) > width;
    let positions: Vec<u16> =
        values.iter().enumerate().filter(|(_, value)| is_outlier(value)).map(|(row, _)| row as u16).collect();
    out.extend_from_slice(&width.to_le_bytes());
    out.extend_from_slice(&(positions.len() as u32).to_le_bytes());
    out.extend_from_slice(&low.to_le_bytes());
    pack(values.iter().map(|value| (value.number() - low) & mask), width, out);
    out.extend_from_slice(bytemuck::cast_slice(&positions));
    pad(start, out);
    for position in positions {
        out.extend_from_slice(bytemuck::bytes_of(&values[usize::from(position)]));
    }
    pad(start, out);
}

/// Fills `values` from the stored form.
pub(crate) fn decode<T: Word>(with: &dyn Unpack, stored: &[u8], values: &mut [T]) -> Result<(), Wrong> {
    let mut parts = Parts(stored);
    let [width, outliers] = parts.halves()?;
    let low = parts.number()?;
    let width = checked_width::<T>(width.into())?;
    let outliers = outliers as usize;
    if outliers > values.len() {
        return Err("it has more outliers than values");
    }
    unpack(with, parts.take(packed_bytes(values.len(), width))?, width, low, values);
    let positions = parts.take((outliers * POSITION_BYTES).next_multiple_of(8))?;
    let outlying = parts.take((outliers * size_of::<T>()).next_multiple_of(8))?;
    let outlying = outlying.chunks_exact(size_of::<T>()).map(bytemuck::pod_read_unaligned::<T>);
    for (position, value) in positions.as_chunks().0.iter().zip(outlying).take(outliers) {
        let slot = values.get_mut(usize::from(u16::from_le_bytes(*position)));
        *slot.ok_or("the position of an outlier is behind the last value")? = value;
    }
    parts.finish()
}
