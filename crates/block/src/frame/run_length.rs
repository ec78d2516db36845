//! Run-length encoding: values of runs and their lengths, each stored by a scheme of their own (a cascade).
//!
//! | bytes | content |
//! |---|---|
//! | 4 | number of runs |
//! | 1 | scheme of the values |
//! | 1 | scheme of the lengths |
//! | 2 | zeros |
//! | 4 | bytes of the stored values V |
//! | 4 | bytes of the stored lengths L |
//! | V | the values of the runs |
//! | L | their lengths less one, as integers of 2 bytes |

use super::bits::Unpack;
use super::integers;
use super::reader::{Parts, Wrong, pad};
use super::statistics::Statistics;
use super::word::Word;
use super::{Scheme, scratch};

/// Bytes before the values.
const HEAD_BYTES: usize = 16;

/// About how many bytes the stored form has: runs are taken to be as long as each other.
pub(crate) fn size(statistics: &Statistics) -> usize {
    let Statistics { count, runs, .. } = statistics;
    let length_bits = super::word::bit_length((count / runs) as u64) as usize + 2;
    HEAD_BYTES + 32 + runs * (statistics.width() as usize + length_bits) / 8
}

/// Appends the stored form.
pub(crate) fn encode<T: Word>(values: &[T], out: &mut Vec<u8>) {
    let start = out.len();
    let (mut run_values, mut lengths): (Vec<T>, Vec<u16>) = (Vec::new(), Vec::new());
    let mut from = 0;
    for (row, pair) in values.windows(2).enumerate() {
        if pair[0] != pair[1] {
            run_values.push(pair[0]);
            lengths.push((row - from) as u16);
            from = row + 1;
        }
    }
    run_values.push(values[values.len() - 1]);
    lengths.push((values.len() - 1 - from) as u16);
    out.extend_from_slice(&(run_values.len() as u32).to_le_bytes());
    out.resize(start + HEAD_BYTES, 0);
    let value_scheme = integers::encode_best(&run_values, integers::Cascade::Inner, out);
    pad(start, out);
    let behind_values = out.len();
    let length_scheme = integers::encode_best(&lengths, integers::Cascade::Inner, out);
    pad(start, out);
    let (value_bytes, length_bytes) = (behind_values - start - HEAD_BYTES, out.len() - behind_values);
    out[start + 4] = value_scheme as u8;
    out[start + 5] = length_scheme as u8;
    out[start + 8..start + 12].copy_from_slice(&(value_bytes as u32).to_le_bytes());
    out[start + 12..start + 16].copy_from_slice(&(length_bytes as u32).to_le_bytes());
}

/// Fills `values` from the stored form.
pub(crate) fn decode<T: Word>(with: &dyn Unpack, stored: &[u8], values: &mut [T]) -> Result<(), Wrong> {
    let mut parts = Parts(stored);
    let [runs, schemes] = parts.halves()?;
    let [value_bytes, length_bytes] = parts.halves()?;
    let runs = runs as usize;
    if runs == 0 || runs > values.len() {
        return Err("it has no runs, or more than values");
    }
    let [value_scheme, length_scheme, 0, 0] = schemes.to_le_bytes() else {
        return Err("reserved bytes are not zero");
    };
    let stored_values = parts.take(value_bytes as usize)?;
    let stored_lengths = parts.take(length_bytes as usize)?;
    parts.finish()?;
    scratch::with_two::<T, u16, _>(runs, |run_values, lengths| {
        decode_inner(with, value_scheme, stored_values, run_values)?;
        decode_inner(with, length_scheme, stored_lengths, lengths)?;
        match size_of::<T>() {
            8 => expand::<T, 8>(run_values, lengths, values),
            _ => expand::<T, 16>(run_values, lengths, values),
        }
    })
}

fn decode_inner<T: Word>(with: &dyn Unpack, scheme: u8, stored: &[u8], values: &mut [T]) -> Result<(), Wrong> {
    let scheme = Scheme::from_code(scheme).filter(|scheme| *scheme != Scheme::RunLength);
    let bytes = size_of_val(values);
    match scheme {
        // Padding follows values that are stored as they are.
        Some(Scheme::Plain) => {
            let plain = stored.get(..bytes).filter(|_| stored.len() == bytes.next_multiple_of(8));
            bytemuck::cast_slice_mut(values).copy_from_slice(plain.ok_or("an inner part has another length")?);
            Ok(())
        }
        Some(scheme) => integers::decode(with, scheme, stored, values),
        None => Err("an inner part has an unknown scheme"),
    }
}

/// Writes every value as often as its run is long, but `STRIDE` times at first, whether the run has as many rows or not: that
/// is a store of known size, and enough for most runs of short values.
fn expand<T: Word, const STRIDE: usize>(run_values: &[T], lengths: &[u16], out: &mut [T]) -> Result<(), Wrong> {
    let mut at = 0;
    for (value, length) in run_values.iter().zip(lengths) {
        let end = at + usize::from(*length) + 1;
        if end > out.len() {
            return Err("its runs are longer than the frame");
        }
        match out[at..].first_chunk_mut::<STRIDE>() {
            Some(first) => {
                *first = [*value; STRIDE];
                if end > at + STRIDE {
                    out[at + STRIDE..end].fill(*value);
                }
            }
            None => out[at..end].fill(*value),
        }
        at = end;
    }
    if at == out.len() { Ok(()) } else { Err("its runs are shorter than the frame") }
}
