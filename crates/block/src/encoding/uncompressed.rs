//! Uncompressed: the values as they are, next to each other in the values section; strings as offsets and bytes. It can
//! represent everything.

use forebay_base::Result;

use super::{BlockEncoding, Bounds, Encoding, range_bits};
use crate::access::Access;
use crate::column::{FixedColumn, OFFSET_BYTES, StringColumn};
use crate::encode::{BlockWriter, string_bounds, string_bytes};
use crate::frame::bits::packed_bytes;
use crate::header::Header;
use crate::native::Native;
use crate::parse::EncodedBlock;

/// The encoding of what no other makes smaller.
pub(super) struct Uncompressed;

impl BlockEncoding for Uncompressed {
    const NAME: &'static str = "uncompressed";

    fn check_header(header: &Header) -> std::result::Result<(), &'static str> {
        header.check_codes(&[0])?;
        header.check_entries(0)?;
        header.check_base(false)
    }

    fn entries(header: &Header) -> usize {
        header.rows as usize
    }

    fn element_bytes(header: &Header) -> usize {
        header.physical.width().unwrap_or(1)
    }

    fn row_bytes(header: &Header) -> usize {
        header.physical.width().unwrap_or(OFFSET_BYTES)
    }

    fn validate(_block: &EncodedBlock<'_>) -> std::result::Result<(), &'static str> {
        Ok(())
    }

    fn access<'a>(block: &EncodedBlock<'a>) -> Access<'a> {
        Access::Plain(block.values())
    }

    fn estimate_fixed<T: Native>(column: &FixedColumn<'_, T>, _budget: usize) -> Option<usize> {
        let rows = column.rows.len();
        Some(rows * T::WIDTH + packed_bytes(rows, range_bits(column)))
    }

    fn encode_fixed<T: Native>(
        column: &FixedColumn<'_, T>,
        _budget: usize,
        block: &mut BlockWriter<'_>,
    ) -> Result<bool> {
        block.begin(Header { encoding: Encoding::Uncompressed, ..block.header })?;
        column.rows.for_each_piece(|piece| block.out.extend_from_slice(bytemuck::cast_slice(piece)));
        block.pad();
        Ok(true)
    }

    fn estimate_strings(column: &StringColumn<'_>, _budget: usize) -> Option<usize> {
        Some(column.plain_bytes)
    }

    fn encode_strings(
        column: &StringColumn<'_>,
        _budget: usize,
        block: &mut BlockWriter<'_>,
    ) -> Result<Option<Bounds>> {
        let string_bytes = string_bytes(column.string_bytes())?;
        block.begin(Header { encoding: Encoding::Uncompressed, string_bytes, ..block.header })?;
        block.write_strings((0..column.len()).map(|row| column.get(row)));
        let valid = || (0..column.len()).filter(|row| column.is_valid(*row)).map(|row| column.get(row));
        Ok(Some(string_bounds(valid().min().unwrap_or_default(), valid().max().unwrap_or_default())))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{encode_fixed, encode_strings, parse_changed};
    use super::*;
    use crate::access::Values;

    #[test]
    fn values_lie_as_they_are() {
        let bytes = encode_fixed::<i16>(&[3, -1, 3], None, Some(Encoding::Uncompressed));
        let block = EncodedBlock::parse(bytes.bytes()).expect("own blocks parse");
        let Access::Plain(Values::Fixed(values)) = block.access() else { panic!("{:?}", block.access()) };
        assert_eq!((values.natives::<i16>().as_ref(), block.row_bytes()), (&[3, -1, 3][..], 2));
        let bytes = encode_strings(&[b"pear", b"", b"fig"], Some(Encoding::Uncompressed));
        let block = EncodedBlock::parse(bytes.bytes()).expect("own blocks parse");
        let Access::Plain(Values::Strings(values)) = block.access() else { panic!("{:?}", block.access()) };
        assert_eq!((values.offsets(), values.bytes(), block.row_bytes()), (&[0, 4, 4, 7][..], &b"pearfig"[..], 4));
    }

    #[test]
    fn headers_and_offsets_are_checked() {
        let bytes = encode_fixed::<i16>(&[3, -1, 3], None, Some(Encoding::Uncompressed));
        assert_eq!(parse_changed(&bytes, 6, 2), "code width does not match encoding and type");
        assert_eq!(parse_changed(&bytes, 20, 3), "wrong number of dictionary entries or runs");
        assert_eq!(parse_changed(&bytes, 48, 3), "base value out of the type's range");
        let bytes = encode_strings(&[b"pear", b"", b"fig"], Some(Encoding::Uncompressed));
        assert_eq!(parse_changed(&bytes, 64 + 4, 9), "string offsets are not monotone or out of bounds");
    }
}
