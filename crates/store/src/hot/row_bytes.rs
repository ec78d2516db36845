//! The values of a hot row as bytes, in the redo log and in the manifest (`docs/format.md`, "Hot rows").
//!
//! Invariant: what is read back fits the types that it is read for, whatever the bytes are.

use forebay_base::{PhysicalType, Result};
use forebay_hot::{Cell, Row};

use crate::serial::{Reader, Writer};

/// NULL.
pub(crate) const HOT_NULL: u8 = 0;
/// This and up to 16 more: so many bytes of an integer or a float follow.
pub(crate) const HOT_FIXED: u8 = 1;
/// A length and a text or blob follow.
pub(crate) const HOT_BYTES: u8 = 18;

/// The bytes of a row.
#[cfg(test)]
pub(crate) fn encode_row<'c>(cells: impl Iterator<Item = Cell<'c>>) -> Vec<u8> {
    let mut row = Writer::default();
    push_row(&mut row, cells);
    row.bytes
}

/// Adds the bytes of a row.
pub(super) fn push_row<'c>(row: &mut Writer, cells: impl Iterator<Item = Cell<'c>>) {
    let start = row.bytes.len();
    row.u32(0);
    let mut count: u32 = 0;
    for cell in cells {
        count += 1;
        push_cell(row, cell);
    }
    row.bytes[start..start + size_of::<u32>()].copy_from_slice(&count.to_le_bytes());
}

/// Adds some of a row's values with the positions of their columns, which ascend.
pub(super) fn push_columns<'c>(change: &mut Writer, values: impl Iterator<Item = (usize, Cell<'c>)>) {
    for (column, cell) in values {
        change.u16(column as u16);
        push_cell(change, cell);
    }
}

fn push_cell(row: &mut Writer, cell: Cell<'_>) {
    match cell {
        Cell::Null => row.u8(HOT_NULL),
        Cell::Fixed(bits) => {
            let bytes = (u128::BITS - bits.leading_zeros()).div_ceil(8) as usize;
            row.u8(HOT_FIXED + bytes as u8);
            row.bytes.extend_from_slice(&bits.to_le_bytes()[..bytes]);
        }
        Cell::Bytes(bytes) => {
            row.u8(HOT_BYTES);
            row.blob(bytes);
        }
    }
}

/// The bytes of a row of which some values are others (`push_columns`).
///
/// # Errors
/// `Corrupt` where one of both is not what it should be.
pub(crate) fn with_columns(row: &[u8], changes: &[u8]) -> Result<Vec<u8>> {
    let (mut row, mut changes) = (Reader::new(row, "a hot row"), Reader::new(changes, "a change of a hot row"));
    let count = row.count(1)?;
    let mut changed = Writer::default();
    changed.count(count);
    let mut next = if changes.is_empty() { None } else { Some(changes.u16()?) };
    for column in 0..count as u16 {
        let own = take_cell(&mut row)?;
        if next != Some(column) {
            changed.bytes.extend_from_slice(own);
            continue;
        }
        changed.bytes.extend_from_slice(take_cell(&mut changes)?);
        next = if changes.is_empty() { None } else { Some(changes.u16()?) };
    }
    match next {
        None => row.finish().map(|()| changed.bytes),
        Some(_) => Err(changes.wrong("it is of columns that the row does not have, or not in their order")),
    }
}

/// The bytes of the next value.
fn take_cell<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8]> {
    let all = reader.rest();
    match reader.u8()? {
        HOT_NULL => {}
        HOT_BYTES => drop(reader.blob()?),
        tag if tag < HOT_BYTES => drop(reader.take(usize::from(tag - HOT_FIXED))?),
        _ => return Err(reader.wrong("a value has an unknown tag")),
    }
    Ok(&all[..all.len() - reader.rest().len()])
}

/// The row of these types that the bytes are of.
///
/// # Errors
/// `Corrupt` for other bytes.
pub(crate) fn decode_row(bytes: &[u8], types: &[PhysicalType]) -> Result<Row> {
    let mut reader = Reader::new(bytes, "a hot row");
    let mut row = Row::default();
    if reader.count(1)? != types.len() {
        return Err(reader.wrong("it has another number of values than its table has columns"));
    }
    for physical in types {
        let cell = match reader.u8()? {
            HOT_NULL => Cell::Null,
            HOT_BYTES => Cell::Bytes(reader.blob()?),
            tag if tag < HOT_BYTES => {
                let mut bits = [0; 16];
                let bytes = reader.take(usize::from(tag - HOT_FIXED))?;
                bits[..bytes.len()].copy_from_slice(bytes);
                Cell::Fixed(u128::from_le_bytes(bits))
            }
            _ => return Err(reader.wrong("a value has an unknown tag")),
        };
        if !cell.fits(*physical) {
            return Err(reader.wrong("a value is of another type than its column"));
        }
        row.push(cell);
    }
    match reader.is_empty() {
        true => Ok(row),
        false => Err(reader.wrong("something follows its last value")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_back() {
        let types = [PhysicalType::I64, PhysicalType::I64, PhysicalType::Bytes, PhysicalType::I128, PhysicalType::U8];
        let cells = [Cell::Fixed(0), Cell::i64(-1), Cell::Bytes(b"text"), Cell::Fixed(u128::MAX), Cell::Null];
        let bytes = encode_row(cells.into_iter());
        assert_eq!(bytes.len(), 4 + 1 + 9 + 9 + 17 + 1);
        let row = decode_row(&bytes, &types).expect("its own bytes");
        assert!(row.cells().eq(cells));
        // No byte may be another one without somebody noticing or another row of the same types coming of it.
        for at in 0..bytes.len() {
            for flip in 0..8 {
                let mut damaged = bytes.clone();
                damaged[at] ^= 1 << flip;
                if let Ok(row) = decode_row(&damaged, &types) {
                    assert!(row.cells().zip(types).all(|(cell, physical)| cell.fits(physical)));
                }
            }
            assert!(decode_row(&bytes[..at], &types).is_err(), "cut at {at}");
        }
        assert!(decode_row(&bytes, &types[..4]).is_err() && decode_row(&bytes, &[PhysicalType::U8; 5]).is_err());
    }

    #[test]
    fn columns_of_a_row_become_others() {
        let bytes = encode_row([Cell::i64(7), Cell::Bytes(b"text"), Cell::Null].into_iter());
        let changed = |columns: &[(usize, Cell<'_>)]| {
            let mut change = Writer::default();
            push_columns(&mut change, columns.iter().copied());
            with_columns(&bytes, &change.bytes)
        };
        assert_eq!(changed(&[]).expect("no change"), bytes);
        let same = changed(&[(1, Cell::Bytes(b"longer text")), (2, Cell::i64(-1))]).expect("two columns");
        assert_eq!(same, encode_row([Cell::i64(7), Cell::Bytes(b"longer text"), Cell::i64(-1)].into_iter()));
        let none = changed(&[(0, Cell::Null), (1, Cell::Null)]).expect("two columns");
        assert_eq!(none, encode_row([Cell::Null; 3].into_iter()));
        assert!(changed(&[(3, Cell::Null)]).is_err() && changed(&[(1, Cell::Null), (0, Cell::Null)]).is_err());
        assert!(with_columns(&bytes[..9], &[0, 0, 0]).is_err() && with_columns(&bytes, &[0, 0, 99]).is_err());
        assert!(with_columns(&bytes, &[0]).is_err());
    }
}
