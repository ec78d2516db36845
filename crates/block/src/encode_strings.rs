//! Encoding of strings: constant, dictionary, or as they are.

use forebay_base::{Error, Result, limits};

use crate::distinct::{self, DistinctTable};
use crate::encode::{BlockWriter, Bounds};
use crate::header::{Encoding, Header};
use crate::validity;
use crate::zone::{string_max, string_min};

/// Bytes of one entry of an offsets section.
const OFFSET_BYTES: usize = size_of::<u32>();

/// Encodes one slice per row, of which at least one is valid.
pub(crate) fn encode(values: &[&[u8]], force: Option<Encoding>, block: &mut BlockWriter) -> Result<Bounds> {
    let valid = valid_rows(block.validity);
    let row = |row: usize| if valid(row) { values[row] } else { &[] };
    let first = first_row(block.validity);
    let is_constant = (0..values.len()).all(|row| !valid(row) || values[row] == values[first]);
    if is_constant && matches!(force, None | Some(Encoding::SingleValue | Encoding::Truncation)) {
        return write_constant(values[first], block);
    }
    let plain_bytes = (values.len() + 1) * OFFSET_BYTES + (0..values.len()).map(|r| row(r).len()).sum::<usize>();
    let interned = match force {
        Some(Encoding::Uncompressed) => None,
        Some(Encoding::Dictionary) => intern(values, first, valid, usize::MAX),
        _ => {
            let rows = values.len();
            let estimate = distinct::estimate(rows, |r| distinct::hash_bytes(row(r)));
            let entry_bytes = plain_bytes / rows;
            let estimated = estimate * entry_bytes + rows * BlockWriter::dictionary_code_bytes(estimate);
            if estimated < plain_bytes { intern(values, first, valid, plain_bytes) } else { None }
        }
    };
    match interned {
        Some((distinct, ids)) => Ranked::new(&distinct).write(&ids, block),
        None => write_plain(values.len(), row, valid, block),
    }
}

fn valid_rows(bitmap: Option<&[u8]>) -> impl Fn(usize) -> bool + Copy {
    move |row| bitmap.is_none_or(|bitmap| validity::is_valid(bitmap, row))
}

/// The first valid row, of which there is one.
fn first_row(bitmap: Option<&[u8]>) -> usize {
    bitmap.and_then(validity::first_valid).unwrap_or(0)
}

fn bounds(min: &[u8], max: &[u8]) -> Bounds {
    (Some(string_min(min)), string_max(max))
}

fn write_constant(value: &[u8], block: &mut BlockWriter) -> Result<Bounds> {
    block.begin(Header { string_bytes: string_bytes(value.len())?, ..block.header })?;
    block.out.extend_from_slice(value);
    block.pad();
    Ok(bounds(value, value))
}

fn write_plain<'a>(
    rows: usize,
    row: impl Fn(usize) -> &'a [u8] + Copy,
    valid: impl Fn(usize) -> bool,
    block: &mut BlockWriter,
) -> Result<Bounds> {
    let string_bytes = string_bytes((0..rows).map(|r| row(r).len()).sum())?;
    block.begin(Header { encoding: Encoding::Uncompressed, string_bytes, ..block.header })?;
    block.write_strings((0..rows).map(row));
    let valid_values = || (0..rows).filter(|r| valid(*r)).map(row);
    Ok(bounds(valid_values().min().unwrap_or_default(), valid_values().max().unwrap_or_default()))
}

fn string_bytes(bytes: usize) -> Result<u32> {
    u32::try_from(bytes).ok().filter(|_| bytes <= limits::CHUNK_MAX_BYTES).ok_or_else(|| {
        Error::input(format!("the strings of one block have {bytes} bytes, more than {}", limits::CHUNK_MAX_BYTES))
            .hint("Store fewer bytes per string, or fewer strings at a time")
    })
}

/// Distinct values in order of first appearance and the id of each row, NULL rows as the first valid row; gives up when
/// the dictionary is sure not to be smaller than `budget` bytes.
fn intern<'a>(
    values: &[&'a [u8]],
    first: usize,
    valid: impl Fn(usize) -> bool,
    budget: usize,
) -> Option<(Vec<&'a [u8]>, Vec<u32>)> {
    let mut table = DistinctTable::new();
    let mut distinct: Vec<&[u8]> = Vec::new();
    let mut ids = Vec::with_capacity(values.len());
    let mut string_bytes = 0;
    for row in 0..values.len() {
        let value = values[if valid(row) { row } else { first }];
        let (id, is_new) = table.insert(distinct::hash_bytes(value), |id| distinct[id as usize] == value);
        if is_new {
            distinct.push(value);
            string_bytes += value.len();
            let count = distinct.len();
            let codes = values.len() * BlockWriter::dictionary_code_bytes(count);
            if codes + (count + 1) * OFFSET_BYTES + string_bytes >= budget {
                return None;
            }
        }
        ids.push(id);
    }
    Some((distinct, ids))
}

/// Distinct values in order, and the rank of each id.
struct Ranked<'a> {
    values: Vec<&'a [u8]>,
    ranks: Vec<u16>,
}

impl<'a> Ranked<'a> {
    /// Sorts at most 2^16 distinct values; a value's id is its position.
    fn new(distinct: &[&'a [u8]]) -> Self {
        let mut order: Vec<(u64, u32)> =
            distinct.iter().enumerate().map(|(id, value)| (prefix(value), id as u32)).collect();
        order.sort_unstable_by(|(a_prefix, a), (b_prefix, b)| {
            a_prefix.cmp(b_prefix).then_with(|| distinct[*a as usize].cmp(distinct[*b as usize]))
        });
        let mut ranks = vec![0; distinct.len()];
        for (rank, (_, id)) in order.iter().enumerate() {
            ranks[*id as usize] = rank as u16;
        }
        Self { values: order.iter().map(|(_, id)| distinct[*id as usize]).collect(), ranks }
    }

    /// Writes a dictionary block of the rows with these ids.
    fn write(&self, ids: &[u32], block: &mut BlockWriter) -> Result<Bounds> {
        let count = self.values.len();
        let code_bytes = BlockWriter::dictionary_code_bytes(count);
        block.begin(Header {
            encoding: Encoding::Dictionary,
            code_bytes: code_bytes as u8,
            dictionary_count: count as u32,
            string_bytes: string_bytes(self.values.iter().map(|value| value.len()).sum())?,
            ..block.header
        })?;
        block.write_codes(code_bytes, |visit| visit(ids), |id: u32| u64::from(self.ranks[id as usize]));
        block.write_strings(self.values.iter().copied());
        Ok(bounds(self.values[0], self.values[count - 1]))
    }
}

/// The first eight bytes as a number that orders as they do.
fn prefix(value: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    let taken = value.len().min(8);
    bytes[..taken].copy_from_slice(&value[..taken]);
    u64::from_be_bytes(bytes)
}
