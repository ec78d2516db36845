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
pub(crate) fn encode_row<'c>(cells: impl Iterator<Item = Cell<'c>>) -> Vec<u8> {
    let mut row = Writer::default();
    row.u32(0);
    let mut count: u32 = 0;
    for cell in cells {
        count += 1;
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
    row.bytes[..4].copy_from_slice(&count.to_le_bytes());
    row.bytes
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
}
