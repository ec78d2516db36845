//! SingleValue: one value for all valid rows, in the header, or for strings as the whole strings section. Also blocks
//! without any valid row, which have no value.

use forebay_base::{PhysicalType, Result};

use super::{BlockEncoding, Bounds};
use crate::access::{Access, ValueRef};
use crate::column::{FixedColumn, StringColumn};
use crate::encode::{BlockWriter, string_bounds, string_bytes};
use crate::header::Header;
use crate::native::Native;
use crate::parse::EncodedBlock;

/// The encoding of constants.
pub(super) struct SingleValue;

impl BlockEncoding for SingleValue {
    const NAME: &'static str = "single_value";

    fn check_header(header: &Header) -> std::result::Result<(), &'static str> {
        header.check_codes(&[0])?;
        header.check_entries(0)?;
        header.check_base(header.physical != PhysicalType::Bytes && !header.is_all_null())
    }

    fn entries(_header: &Header) -> usize {
        0
    }

    fn element_bytes(_header: &Header) -> usize {
        1
    }

    fn row_bytes(_header: &Header) -> usize {
        0
    }

    fn validate(_block: &EncodedBlock<'_>) -> std::result::Result<(), &'static str> {
        Ok(())
    }

    fn access<'a>(block: &EncodedBlock<'a>) -> Access<'a> {
        let header = block.header();
        if header.is_all_null() {
            return Access::AllNull;
        }
        Access::Constant(match header.physical {
            PhysicalType::F32 => ValueRef::Float32(f32::from_bits(header.base as u32)),
            PhysicalType::F64 => ValueRef::Float64(f64::from_bits(header.base as u64)),
            PhysicalType::Bytes => ValueRef::Bytes(block.section(header.layout().strings)),
            _ => ValueRef::Int(header.base),
        })
    }

    fn estimate_fixed<T: Native>(column: &FixedColumn<'_, T>, _budget: usize) -> Option<usize> {
        column.is_constant.then_some(0)
    }

    fn encode_fixed<T: Native>(
        column: &FixedColumn<'_, T>,
        _budget: usize,
        block: &mut BlockWriter<'_>,
    ) -> Result<bool> {
        if column.is_constant {
            block.begin(Header { base: column.rows.get(0).bits(), ..block.header })?;
        }
        Ok(column.is_constant)
    }

    fn estimate_strings(column: &StringColumn<'_>, _budget: usize) -> Option<usize> {
        column.is_constant.then(|| column.first().len())
    }

    fn encode_strings(
        column: &StringColumn<'_>,
        _budget: usize,
        block: &mut BlockWriter<'_>,
    ) -> Result<Option<Bounds>> {
        if !column.is_constant {
            return Ok(None);
        }
        let value = column.first();
        block.begin(Header { string_bytes: string_bytes(value.len())?, ..block.header })?;
        block.write_section(value);
        Ok(Some(string_bounds(value, value)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{encode_fixed, encode_strings, parse_changed};
    use super::*;
    use crate::Encoding;

    #[test]
    fn constants_take_no_section_but_their_string() {
        for force in [None, Some(Encoding::SingleValue)] {
            let bytes = encode_fixed::<i16>(&[-7; 5], None, force);
            let block = EncodedBlock::parse(bytes.bytes()).expect("own blocks parse");
            assert_eq!((block.row_bytes(), bytes.bytes().len()), (0, 64));
            assert!(matches!(block.access(), Access::Constant(ValueRef::Int(-7))));
            let bytes = encode_strings(&[b"fig".as_slice(); 3], force);
            let block = EncodedBlock::parse(bytes.bytes()).expect("own blocks parse");
            assert!(matches!(block.access(), Access::Constant(ValueRef::Bytes(b"fig"))));
            assert_eq!(bytes.bytes().len(), 128);
        }
    }

    #[test]
    fn equal_floats_with_other_bits_are_no_constant() {
        let bytes = encode_fixed::<f64>(&[0.0, -0.0], None, Some(Encoding::SingleValue));
        assert_ne!(EncodedBlock::parse(bytes.bytes()).expect("own blocks parse").encoding(), Encoding::SingleValue);
    }

    #[test]
    fn nulls_only_are_of_this_encoding_whatever_is_forced() {
        for force in Encoding::ALL {
            let bytes = encode_fixed::<u32>(&[1, 2], Some(&[0]), Some(force));
            let block = EncodedBlock::parse(bytes.bytes()).expect("own blocks parse");
            assert!(matches!(block.access(), Access::AllNull), "{force:?}");
        }
    }

    #[test]
    fn headers_are_checked() {
        let bytes = encode_fixed::<i16>(&[-7; 5], None, None);
        assert_eq!(parse_changed(&bytes, 6, 1), "code width does not match encoding and type");
        assert_eq!(parse_changed(&bytes, 20, 1), "wrong number of dictionary entries or runs");
        assert_eq!(parse_changed(&bytes, 50, 0), "base value out of the type's range");
    }
}
