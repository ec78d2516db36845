//! Bit packing: distances from the smallest value in as many bits as the largest needs.
//!
//! | bytes | content |
//! |---|---|
//! | 8 | width of a distance in bits |
//! | 8 | the smallest value |
//! | | the distances, packed |

use super::bits::{Unpack, pack, packed_bytes, unpack};
use super::reader::{Parts, Wrong};
use super::statistics::Statistics;
use super::word::Word;

/// Bytes before the distances.
const HEAD_BYTES: usize = 16;

/// Bytes of the stored form.
pub(crate) fn size(statistics: &Statistics) -> usize {
    HEAD_BYTES + packed_bytes(statistics.count, statistics.width())
}

/// Appends the stored form.
pub(crate) fn encode<T: Word>(values: &[T], statistics: &Statistics, out: &mut Vec<u8>) {
    let (width, low) = (statistics.width(), statistics.low);
    out.extend_from_slice(&u64::from(width).to_le_bytes());
    out.extend_from_slice(&low.to_le_bytes());
    pack(values.iter().map(|value| value.number() - low), width, out);
}

/// Fills `values` from the stored form.
pub(crate) fn decode<T: Word>(with: &dyn Unpack, stored: &[u8], values: &mut [T]) -> Result<(), Wrong> {
    let mut parts = Parts(stored);
    let (width, low) = (parts.number()?, parts.number()?);
    let width = checked_width::<T>(width)?;
    unpack(with, parts.take(packed_bytes(values.len(), width))?, width, low, values);
    parts.finish()
}

/// A width that values of `T` can have.
pub(crate) fn checked_width<T: Word>(width: u64) -> Result<u32, Wrong> {
    u32::try_from(width).ok().filter(|width| *width <= T::BITS).ok_or("a packed value is wider than its type")
}
