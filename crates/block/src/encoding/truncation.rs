//! Truncation: integers as their distance from the smallest one of the block, in 1, 2, 4 or 8 bytes: a frame of reference.
//! The smallest value is the header's base, the codes section has one distance per row.

use forebay_base::Result;

use super::{BlockEncoding, Bounds, Encoding, range_bits};
use crate::access::Access;
use crate::column::{FixedColumn, StringColumn};
use crate::encode::BlockWriter;
use crate::frame::bits::packed_bytes;
use crate::header::Header;
use crate::native::Native;
use crate::parse::EncodedBlock;

/// The encoding of integers close to each other.
pub(super) struct Truncation;

/// Bytes per code; `None` for floats and where the range needs more than 8 bytes.
fn code_bytes<T: Native>(low: i128, high: i128) -> Option<usize> {
    let range = T::INTEGER.then(|| high.checked_sub(low))??;
    match i128::BITS - range.leading_zeros() {
        0..=8 => Some(1),
        9..=16 => Some(2),
        17..=32 => Some(4),
        33..=64 => Some(8),
        _ => None,
    }
}

impl BlockEncoding for Truncation {
    const NAME: &'static str = "truncation";

    fn check_header(header: &Header) -> std::result::Result<(), &'static str> {
        let is_integer = crate::with_native!(header.physical, T => <T as Native>::INTEGER, bytes => false);
        header.check_codes(if is_integer { &[1, 2, 4, 8] } else { &[] })?;
        header.check_entries(0)?;
        header.check_base(true)
    }

    fn entries(_header: &Header) -> usize {
        0
    }

    fn element_bytes(header: &Header) -> usize {
        header.code_bytes.into()
    }

    fn row_bytes(header: &Header) -> usize {
        header.code_bytes.into()
    }

    fn validate(_block: &EncodedBlock<'_>) -> std::result::Result<(), &'static str> {
        Ok(())
    }

    fn access<'a>(block: &EncodedBlock<'a>) -> Access<'a> {
        Access::FrameOfReference { base: block.header().base, codes: block.codes() }
    }

    fn estimate_fixed<T: Native>(column: &FixedColumn<'_, T>, _budget: usize) -> Option<usize> {
        let rows = column.rows.len();
        let code_bytes = code_bytes::<T>(column.low, column.high)?;
        Some(rows * code_bytes + packed_bytes(rows, range_bits(column)))
    }

    fn encode_fixed<T: Native>(
        column: &FixedColumn<'_, T>,
        _budget: usize,
        block: &mut BlockWriter<'_>,
    ) -> Result<bool> {
        let Some(bytes) = code_bytes::<T>(column.low, column.high) else { return Ok(false) };
        block.begin(Header {
            encoding: Encoding::Truncation,
            code_bytes: bytes as u8,
            base: column.low,
            ..block.header
        })?;
        let base = T::from_bits(column.low).expect("the smallest key of an integer column is a value of its type");
        block.write_codes(bytes, |visit| column.rows.for_each_piece(visit), |value: T| value.minus(base));
        Ok(true)
    }

    fn estimate_strings(_column: &StringColumn<'_>, _budget: usize) -> Option<usize> {
        None
    }

    fn encode_strings(
        _column: &StringColumn<'_>,
        _budget: usize,
        _block: &mut BlockWriter<'_>,
    ) -> Result<Option<Bounds>> {
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{encode_fixed, parse_changed};
    use super::*;
    use crate::access::Codes;

    #[test]
    fn the_range_sets_the_width() {
        assert_eq!(code_bytes::<i64>(5, 5), Some(1));
        assert_eq!(code_bytes::<i64>(-1, 254), Some(1));
        assert_eq!(code_bytes::<i64>(-1, 255), Some(2));
        assert_eq!(code_bytes::<i64>(0, 1 << 16), Some(4));
        assert_eq!(code_bytes::<i64>(i64::MIN.into(), i64::MAX.into()), Some(8));
        assert_eq!(code_bytes::<i128>(0, 1 << 64), None);
        assert_eq!(code_bytes::<i128>(i128::MIN, i128::MAX), None);
        assert_eq!(code_bytes::<f32>(0, 1), None);
    }

    #[test]
    fn distances_are_from_the_smallest_value() {
        let bytes = encode_fixed::<i64>(&[i64::MIN, i64::MIN + 300, i64::MIN + 7], None, Some(Encoding::Truncation));
        let block = EncodedBlock::parse(bytes.bytes()).expect("own blocks parse");
        let Access::FrameOfReference { base, codes: Codes::U16(codes) } = block.access() else {
            panic!("{:?}", block.access());
        };
        assert_eq!((base, codes, block.row_bytes()), (i64::MIN.into(), &[0, 300, 7][..], 2));
    }

    #[test]
    fn headers_are_checked() {
        let bytes = encode_fixed::<i32>(&[1000, 1300], None, Some(Encoding::Truncation));
        assert_eq!(parse_changed(&bytes, 6, 3), "code width does not match encoding and type");
        assert_eq!(parse_changed(&bytes, 5, 10), "code width does not match encoding and type", "floats");
        assert_eq!(parse_changed(&bytes, 20, 1), "wrong number of dictionary entries or runs");
        assert_eq!(parse_changed(&bytes, 63, 1), "base value out of the type's range");
    }
}
