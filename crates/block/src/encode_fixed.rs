//! Encoding of fixed-width columns: constant, truncated integers, dictionary, or as they are.

use forebay_base::Result;

use crate::column::FixedRows;
use crate::distinct::{self, DistinctTable};
use crate::encode::{BlockWriter, Bounds};
use crate::header::{Encoding, Header};
use crate::native::Native;

/// Encodes `bytes`, of which at least one row is valid.
pub(crate) fn encode<T: Native>(bytes: &[u8], force: Option<Encoding>, block: &mut BlockWriter) -> Result<Bounds> {
    let rows = FixedRows::<T>::new(bytes, block.validity);
    let (min, max) = bounds(rows);
    let (low, high) = (min.into(), max.into());
    let is_constant = min == max && is_constant(rows);
    let truncated_bytes = truncated_bytes::<T>(low, high);
    let plain_budget = rows.len() * T::WIDTH;
    let budget = truncated_bytes.map_or(plain_budget, |bytes| plain_budget.min(rows.len() * bytes));

    let header = block.header;
    match (force, truncated_bytes) {
        (Some(Encoding::Uncompressed), _) => write_plain(rows, header, block)?,
        (Some(Encoding::Truncation), Some(bytes)) => write_truncated(rows, low, bytes, header, block)?,
        (Some(Encoding::Dictionary), _) => {
            let dictionary = Dictionary::build(rows, usize::MAX).expect("any block fits an unlimited budget");
            dictionary.write(header, block)?;
        }
        _ if is_constant => {
            block.begin(Header { encoding: Encoding::SingleValue, base: rows.get(0).bits(), ..header })?;
        }
        _ => match (Dictionary::build_if_promising(rows, budget), truncated_bytes) {
            (Some(dictionary), _) => dictionary.write(header, block)?,
            (None, Some(bytes)) if bytes < T::WIDTH => write_truncated(rows, low, bytes, header, block)?,
            _ => write_plain(rows, header, block)?,
        },
    }
    Ok((Some(T::value_of_key(low)), Some(T::value_of_key(high))))
}

/// Smallest and largest key. NULL rows read as a valid value and so change nothing.
fn bounds<T: Native>(rows: FixedRows<T>) -> (T::Key, T::Key) {
    let first = rows.get(0).key();
    let (mut min, mut max) = (first, first);
    rows.for_each_piece(|piece| {
        for value in piece {
            let key = value.key();
            min = min.min(key);
            max = max.max(key);
        }
    });
    (min, max)
}

/// Whether all values have the same bits (equal keys may differ: -0 and 0, NaNs).
fn is_constant<T: Native>(rows: FixedRows<T>) -> bool {
    let first = rows.get(0).bits();
    let mut equal = true;
    rows.for_each_piece(|piece| equal &= piece.iter().all(|value| value.bits() == first));
    equal
}

/// Bytes per code of a truncated block; `None` for floats and where the range needs more than 8 bytes.
fn truncated_bytes<T: Native>(low: i128, high: i128) -> Option<usize> {
    let range = T::INTEGER.then(|| high.checked_sub(low))??;
    match i128::BITS - range.leading_zeros() {
        0..=8 => Some(1),
        9..=16 => Some(2),
        17..=32 => Some(4),
        33..=64 => Some(8),
        _ => None,
    }
}

fn write_truncated<T: Native>(
    rows: FixedRows<T>,
    low: i128,
    code_bytes: usize,
    header: Header,
    block: &mut BlockWriter,
) -> Result<()> {
    block.begin(Header { encoding: Encoding::Truncation, code_bytes: code_bytes as u8, base: low, ..header })?;
    let base = T::from_bits(low).expect("the smallest key of an integer column is a value of its type");
    block.write_codes(code_bytes, |visit| rows.for_each_piece(visit), |value: T| value.minus(base));
    Ok(())
}

fn write_plain<T: Native>(rows: FixedRows<T>, header: Header, block: &mut BlockWriter) -> Result<()> {
    block.begin(Header { encoding: Encoding::Uncompressed, ..header })?;
    rows.for_each_piece(|piece| block.out.extend_from_slice(bytemuck::cast_slice(piece)));
    block.pad();
    Ok(())
}

/// Distinct values in order of first appearance, and the id of each row's value.
struct Dictionary<T> {
    values: Vec<T>,
    ids: Vec<u16>,
}

impl<T: Native> Dictionary<T> {
    /// Builds the dictionary where a sample says that it is smaller than `budget` bytes.
    fn build_if_promising(rows: FixedRows<T>, budget: usize) -> Option<Self> {
        if budget <= rows.len() {
            return None; // codes alone are as large
        }
        let estimate = distinct::estimate(rows.len(), |row| distinct::hash_bits(rows.get(row).bits()));
        if Self::bytes(estimate, rows.len()) >= budget {
            return None;
        }
        Self::build(rows, budget)
    }

    /// Builds the dictionary, or gives up when it is sure not to be smaller than `budget` bytes.
    fn build(rows: FixedRows<T>, budget: usize) -> Option<Self> {
        let mut table = DistinctTable::new();
        let mut values: Vec<T> = Vec::new();
        let mut ids = Vec::with_capacity(rows.len());
        let mut gave_up = false;
        rows.for_each_piece(|piece| {
            if gave_up {
                return;
            }
            for value in piece {
                let bits = value.bits();
                let (id, is_new) = table.insert(distinct::hash_bits(bits), |id| values[id as usize].bits() == bits);
                if is_new {
                    values.push(*value);
                }
                ids.push(id as u16);
            }
            gave_up = Self::bytes(values.len(), rows.len()) >= budget;
        });
        (!gave_up).then_some(Self { values, ids })
    }

    fn bytes(count: usize, rows: usize) -> usize {
        count * T::WIDTH + rows * BlockWriter::dictionary_code_bytes(count)
    }

    fn write(&self, header: Header, block: &mut BlockWriter) -> Result<()> {
        let count = self.values.len();
        let code_bytes = BlockWriter::dictionary_code_bytes(count);
        block.begin(Header {
            encoding: Encoding::Dictionary,
            code_bytes: code_bytes as u8,
            dictionary_count: count as u32,
            ..header
        })?;
        // By bits among equal keys, so that the order is total.
        let mut order: Vec<(T::Key, i128, u16)> =
            self.values.iter().enumerate().map(|(id, value)| (value.key(), value.bits(), id as u16)).collect();
        order.sort_unstable();
        let mut ranks = vec![0u16; count];
        for (rank, (_, _, id)) in order.iter().enumerate() {
            ranks[*id as usize] = rank as u16;
        }
        block.write_codes(code_bytes, |visit| visit(&self.ids), |id: u16| u64::from(ranks[id as usize]));
        for (_, _, id) in order {
            block.out.extend_from_slice(bytemuck::bytes_of(&self.values[id as usize]));
        }
        block.pad();
        Ok(())
    }
}
