//! Dictionary: the distinct values in ascending order in the values section, and the rank of each row's value in the codes
//! section, in 1 byte (up to 256 entries) or 2.
//!
//! Invariants: entries ascend and differ, so that code order is value order; every code is below their number.

use forebay_base::Result;
use forebay_base::hash::{hash_bits, hash_bytes};

use super::{BlockEncoding, Bounds, Encoding, range_bits};
use crate::access::{Access, Codes, Values};
use crate::column::{FixedColumn, OFFSET_BYTES, StringColumn};
use crate::distinct::{self, DistinctTable, KnownPlaces};
use crate::encode::{BlockWriter, string_bounds, string_bytes};
use crate::frame::bits::packed_bytes;
use crate::header::Header;
use crate::native::Native;
use crate::parse::EncodedBlock;

/// The encoding of few distinct values.
pub(super) struct Dictionary;

/// Bytes per code.
fn code_bytes(count: usize) -> usize {
    if count <= 1 << 8 { 1 } else { 2 }
}

/// Bytes of a block of `column` with `count` entries, in memory and on disk together. Ascending entries are stored by their
/// steps, which take the fewer bits the more of them share the range.
fn weight<T: Native>(column: &FixedColumn<'_, T>, count: usize) -> usize {
    let rows = column.rows.len();
    let code_bits = usize::BITS - count.saturating_sub(1).leading_zeros();
    let step_bits = (range_bits(column) + STEP_SLACK_BITS).saturating_sub(code_bits).min(8 * T::WIDTH as u32);
    count * T::WIDTH + rows * code_bytes(count) + packed_bytes(rows, code_bits) + packed_bytes(count, step_bits)
}

/// Bits that the steps between entries take more than those of the mean step: they differ.
const STEP_SLACK_BITS: u32 = 2;

impl BlockEncoding for Dictionary {
    const NAME: &'static str = "dictionary";

    fn check_header(header: &Header) -> std::result::Result<(), &'static str> {
        header.check_codes(&[1, 2])?;
        header.check_entries(header.rows.min(1 << (8 * header.code_bytes)))?;
        header.check_base(false)
    }

    fn entries(header: &Header) -> usize {
        header.entry_count as usize
    }

    fn element_bytes(header: &Header) -> usize {
        header.code_bytes.into()
    }

    fn row_bytes(header: &Header) -> usize {
        header.code_bytes.into()
    }

    fn validate(block: &EncodedBlock<'_>) -> std::result::Result<(), &'static str> {
        let count = block.header().entry_count;
        let largest = match block.codes() {
            Codes::U8(codes) if count < 1 << 8 => codes.iter().fold(0, |max, code| max.max(*code)).into(),
            Codes::U16(codes) if count < 1 << 16 => codes.iter().fold(0, |max, code| max.max(*code)).into(),
            // Every code of this width is an entry; the header has no other width.
            Codes::U8(_) | Codes::U16(_) | Codes::U32(_) | Codes::U64(_) => 0,
        };
        if largest >= count {
            return Err("a code is beyond the dictionary");
        }
        // Tests search it, so that one in another order would not fail but give wrong rows.
        if !ascends(block) {
            return Err("the dictionary does not ascend");
        }
        Ok(())
    }

    fn access<'a>(block: &EncodedBlock<'a>) -> Access<'a> {
        Access::Dictionary { values: block.values(), codes: block.codes() }
    }

    fn estimate_fixed<T: Native>(column: &FixedColumn<'_, T>, budget: usize) -> Option<usize> {
        let rows = column.rows;
        if budget <= rows.len() {
            return None; // codes alone are as large
        }
        let count = distinct::estimate(rows.len(), |row| hash_bits(rows.get(row).bits()));
        Some(weight(column, count))
    }

    fn encode_fixed<T: Native>(
        column: &FixedColumn<'_, T>,
        budget: usize,
        block: &mut BlockWriter<'_>,
    ) -> Result<bool> {
        let Some(interned) = Interned::build(column, budget) else { return Ok(false) };
        interned.write(block)?;
        Ok(true)
    }

    fn estimate_strings(column: &StringColumn<'_>, budget: usize) -> Option<usize> {
        if budget <= column.len() {
            return None;
        }
        let count = distinct::estimate(column.len(), |row| hash_bytes(column.get(row)));
        let entry_bytes = column.plain_bytes / column.len();
        Some(count * entry_bytes + column.len() * code_bytes(count))
    }

    fn encode_strings(column: &StringColumn<'_>, budget: usize, block: &mut BlockWriter<'_>) -> Result<Option<Bounds>> {
        match InternedStrings::build(column, budget) {
            Some(interned) => interned.write(block).map(Some),
            None => Ok(None),
        }
    }
}

fn ascends(block: &EncodedBlock<'_>) -> bool {
    match block.values() {
        Values::Fixed(values) => crate::with_native!(
            block.physical(),
            T => (1..values.len())
                .fold(true, |ascends, next| ascends & precedes::<T>(values.native(next - 1), values.native(next))),
            bytes => false
        ),
        Values::Strings(values) => (1..values.len()).all(|next| values.get(next - 1) < values.get(next)),
    }
}

/// The order of dictionaries: by key, and by bits where floats are equal.
#[inline]
fn precedes<T: Native>(a: T, b: T) -> bool {
    let (key, next) = (a.key(), b.key());
    key < next || (!T::INTEGER && key == next && a.bits() < b.bits())
}

/// Distinct values in order of first appearance, and the id of each row's value.
struct Interned<T> {
    values: Vec<T>,
    ids: Vec<u16>,
}

impl<T: Native> Interned<T> {
    /// Gives up when the block is sure to come to `budget` bytes or more in memory and on disk.
    fn build(column: &FixedColumn<'_, T>, budget: usize) -> Option<Self> {
        let rows = column.rows.len();
        let mut table = DistinctTable::new();
        let mut values: Vec<T> = Vec::new();
        let mut ids = Vec::with_capacity(rows);
        let mut gave_up = false;
        column.rows.for_each_piece(|piece| {
            if gave_up {
                return;
            }
            for value in piece {
                let bits = value.bits();
                let (id, is_new) = table.insert(hash_bits(bits), |id| values[id as usize].bits() == bits);
                if is_new {
                    values.push(*value);
                }
                ids.push(id as u16);
            }
            gave_up = weight(column, values.len()) >= budget;
        });
        (!gave_up).then_some(Self { values, ids })
    }

    fn write(&self, block: &mut BlockWriter<'_>) -> Result<()> {
        let count = self.values.len();
        let code_bytes = code_bytes(count);
        block.begin(Header {
            encoding: Encoding::Dictionary,
            code_bytes: code_bytes as u8,
            entry_count: count as u32,
            ..block.header
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

/// Distinct strings in ascending order, the id of each row's string by first appearance, and the rank of each id.
struct InternedStrings<'a> {
    values: Vec<&'a [u8]>,
    ids: Vec<u32>,
    ranks: Vec<u16>,
}

impl<'a> InternedStrings<'a> {
    /// NULL rows are as the first valid row. Gives up when the dictionary is sure not to be smaller than `budget` bytes.
    fn build(column: &StringColumn<'a>, budget: usize) -> Option<Self> {
        let (mut table, mut known) = (DistinctTable::new(), KnownPlaces::new());
        let mut distinct: Vec<&[u8]> = Vec::new();
        let mut ids = Vec::with_capacity(column.len());
        let mut string_bytes = 0;
        for row in 0..column.len() {
            let value = column.filled(row);
            let id = known.id(value, || {
                let (id, is_new) = table.insert(hash_bytes(value), |id| distinct[id as usize] == value);
                if is_new {
                    distinct.push(value);
                    string_bytes += value.len();
                    let count = distinct.len();
                    let bytes = column.len() * code_bytes(count) + (count + 1) * OFFSET_BYTES + string_bytes;
                    return (bytes < budget).then_some(id);
                }
                Some(id)
            })?;
            ids.push(id);
        }
        let mut order: Vec<(u64, u32)> =
            distinct.iter().enumerate().map(|(id, value)| (prefix(value), id as u32)).collect();
        order.sort_unstable_by(|(a_prefix, a), (b_prefix, b)| {
            a_prefix.cmp(b_prefix).then_with(|| distinct[*a as usize].cmp(distinct[*b as usize]))
        });
        let mut ranks = vec![0; distinct.len()];
        for (rank, (_, id)) in order.iter().enumerate() {
            ranks[*id as usize] = rank as u16;
        }
        Some(Self { values: order.iter().map(|(_, id)| distinct[*id as usize]).collect(), ids, ranks })
    }

    fn write(&self, block: &mut BlockWriter<'_>) -> Result<Bounds> {
        let count = self.values.len();
        let code_bytes = code_bytes(count);
        block.begin(Header {
            encoding: Encoding::Dictionary,
            code_bytes: code_bytes as u8,
            entry_count: count as u32,
            string_bytes: string_bytes(self.values.iter().map(|value| value.len()).sum())?,
            ..block.header
        })?;
        block.write_codes(code_bytes, |visit| visit(&self.ids), |id: u32| u64::from(self.ranks[id as usize]));
        block.write_strings(self.values.iter().copied());
        Ok(string_bounds(self.values[0], self.values[count - 1]))
    }
}

/// The first eight bytes as a number that orders as they do.
fn prefix(value: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    let taken = value.len().min(8);
    bytes[..taken].copy_from_slice(&value[..taken]);
    u64::from_be_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{encode_fixed, encode_strings, parse_changed};
    use super::*;

    #[test]
    fn entries_ascend_and_codes_are_ranks() {
        let bytes = encode_fixed::<i32>(&[70_000, -1, 70_000, 5], None, Some(Encoding::Dictionary));
        let block = EncodedBlock::parse(bytes.bytes()).expect("own blocks parse");
        let Access::Dictionary { values: Values::Fixed(values), codes: Codes::U8(codes) } = block.access() else {
            panic!("{:?}", block.access());
        };
        assert_eq!(values.natives::<i32>().as_ref(), [-1, 5, 70_000]);
        assert_eq!((codes, block.row_bytes()), (&[2, 0, 2, 1][..], 1));
    }

    #[test]
    fn more_than_256_entries_have_codes_of_two_bytes() {
        for (entries, width) in [(256, 1), (257, 2)] {
            let values: Vec<i64> = (0..1000).map(|row| row % entries * 1_000_003).collect();
            let bytes = encode_fixed(&values, None, Some(Encoding::Dictionary));
            assert_eq!(EncodedBlock::parse(bytes.bytes()).expect("own blocks parse").row_bytes(), width);
            let strings: Vec<Vec<u8>> = values.iter().map(|value| value.to_string().into_bytes()).collect();
            let slices: Vec<&[u8]> = strings.iter().map(Vec::as_slice).collect();
            let bytes = encode_strings(&slices, Some(Encoding::Dictionary));
            assert_eq!(EncodedBlock::parse(bytes.bytes()).expect("own blocks parse").row_bytes(), width);
        }
    }

    #[test]
    fn it_gives_up_where_it_is_not_smaller_than_the_budget() {
        let bytes: Vec<u8> = (0..2000i64).flat_map(|row| (row % 50).to_le_bytes()).collect();
        let column = FixedColumn::<i64>::new(&bytes, None);
        // Codes of a byte and of 6 bits, entries of 8 bytes and, as steps within a range of 6 bits, of 2 bits.
        let bytes = 2000 + packed_bytes(2000, 6) + 50 * 8 + packed_bytes(50, 2);
        assert!(Interned::build(&column, bytes + 1).is_some());
        assert!(Interned::build(&column, bytes).is_none());
    }

    #[test]
    fn headers_codes_and_order_are_checked() {
        let bytes = encode_fixed::<i64>(&[9, 5, 9, 7], None, Some(Encoding::Dictionary));
        assert_eq!(parse_changed(&bytes, 6, 4), "code width does not match encoding and type");
        assert_eq!(parse_changed(&bytes, 20, 0), "wrong number of dictionary entries or runs");
        assert_eq!(parse_changed(&bytes, 20, 5), "wrong number of dictionary entries or runs");
        assert_eq!(parse_changed(&bytes, 48, 1), "base value out of the type's range");
        assert_eq!(parse_changed(&bytes, 64, 3), "a code is beyond the dictionary");
        assert_eq!(parse_changed(&bytes, 128, 7), "the dictionary does not ascend");
        let bytes = encode_strings(&[b"b", b"a", b"b"], Some(Encoding::Dictionary));
        assert_eq!(parse_changed(&bytes, 192, b'c'), "the dictionary does not ascend");
    }
}
