//! Reading an encoded block in place.
//!
//! Invariants: [`EncodedBlock::parse`] checks all that later access relies on, so hostile bytes are an error here and
//! never a panic or an over-read later.

use forebay_base::{Error, PhysicalType, Result};

use crate::access::{Access, Codes, FixedValues, StringValues, ValueRef, Values};
use crate::header::{Encoding, Header, Section};
use crate::native::Native;
use crate::validity;

/// An encoded block over borrowed bytes.
#[derive(Debug, Clone, Copy)]
pub struct EncodedBlock<'a> {
    bytes: &'a [u8],
    header: Header,
}

impl<'a> EncodedBlock<'a> {
    /// Checks everything and borrows `bytes`, which must be exactly one block in memory aligned to 8 bytes.
    pub fn parse(bytes: &'a [u8]) -> Result<Self> {
        let header = Header::read(bytes)?;
        if !bytes.as_ptr().cast::<u64>().is_aligned() {
            return Err(Error::internal("an encoded block does not lie at a multiple of 8 bytes in memory"));
        }
        let block = Self { bytes, header };
        block.check()?;
        Ok(block)
    }

    /// A block with this header; what was not accepted before has to pass [`EncodedBlock::check`].
    pub(crate) fn reopen(bytes: &'a [u8], header: Header) -> Self {
        Self { bytes, header }
    }

    /// Checks all that a header does not say.
    pub(crate) fn check(&self) -> Result<()> {
        self.check_sections().map_err(|what| Error::corrupt(format!("encoded block: {what}")))
    }

    pub(crate) fn header(&self) -> Header {
        self.header
    }

    fn check_sections(&self) -> std::result::Result<(), &'static str> {
        let layout = self.header.layout();
        if let Some(bitmap) = self.validity() {
            let rows = self.rows();
            let tail_is_zero = rows.is_multiple_of(8) || bitmap[rows / 8] >> (rows % 8) == 0;
            if validity::count_valid(bitmap, rows) != rows - self.null_count() || !tail_is_zero {
                return Err("the validity bitmap does not match the number of NULLs");
            }
        }
        if self.header.physical == PhysicalType::Bytes && layout.values.bytes > 0 {
            let offsets = self.numbers::<u32>(layout.values);
            let monotone = offsets.windows(2).fold(true, |monotone, pair| monotone & (pair[0] <= pair[1]));
            if !monotone || offsets[0] != 0 || offsets[offsets.len() - 1] != self.header.string_bytes {
                return Err("string offsets are not monotone or out of bounds");
            }
        }
        if self.header.encoding == Encoding::Dictionary {
            let count = self.header.dictionary_count;
            let largest = match self.codes() {
                Codes::U8(codes) if count < 1 << 8 => codes.iter().fold(0, |max, code| max.max(*code)).into(),
                Codes::U16(codes) if count < 1 << 16 => codes.iter().fold(0, |max, code| max.max(*code)).into(),
                _ => 0,
            };
            if largest >= count {
                return Err("a code is beyond the dictionary");
            }
            // Tests search it, so that one in another order would not fail but give wrong rows.
            if !self.dictionary_ascends() {
                return Err("the dictionary does not ascend");
            }
        }
        Ok(())
    }

    fn dictionary_ascends(&self) -> bool {
        match self.values() {
            Values::Fixed(values) => crate::with_native!(
                self.header.physical,
                T => (1..values.len())
                    .fold(true, |ascends, next| ascends & precedes::<T>(values.native(next - 1), values.native(next))),
                bytes => false
            ),
            Values::Strings(values) => (1..values.len()).all(|next| values.get(next - 1) < values.get(next)),
        }
    }

    /// Rows of the block.
    pub fn rows(&self) -> usize {
        self.header.rows as usize
    }

    /// NULL rows of the block.
    pub fn null_count(&self) -> usize {
        self.header.null_count as usize
    }

    /// Physical type of the values.
    pub fn physical(&self) -> PhysicalType {
        self.header.physical
    }

    /// How the block is encoded; readers use [`EncodedBlock::access`].
    pub fn encoding(&self) -> Encoding {
        self.header.encoding
    }

    /// Bitmap of valid rows, least significant bit first; `None` unless there are both NULLs and valid rows.
    pub fn validity(&self) -> Option<&'a [u8]> {
        self.header.has_validity().then(|| self.header.layout().validity.of(self.bytes))
    }

    /// Bytes that lie next to each other for every row: of codes, of plain values, of the offsets of plain strings; 0
    /// where all rows have one value.
    pub fn row_bytes(&self) -> usize {
        match (self.header.encoding, self.header.physical.width()) {
            (Encoding::SingleValue, _) => 0,
            (Encoding::Truncation | Encoding::Dictionary, _) => self.header.code_bytes.into(),
            (Encoding::Uncompressed, width) => width.unwrap_or(size_of::<u32>()),
        }
    }

    /// How to read the values.
    pub fn access(&self) -> Access<'a> {
        match self.header.encoding {
            Encoding::SingleValue if self.header.null_count == self.header.rows => Access::AllNull,
            Encoding::SingleValue => Access::Constant(self.constant()),
            Encoding::Truncation => Access::FrameOfReference { base: self.header.base, codes: self.codes() },
            Encoding::Dictionary => Access::Dictionary { values: self.values(), codes: self.codes() },
            Encoding::Uncompressed => Access::Plain(self.values()),
        }
    }

    fn constant(&self) -> ValueRef<'a> {
        let bits = self.header.base;
        match self.header.physical {
            PhysicalType::F32 => ValueRef::Float32(f32::from_bits(bits as u32)),
            PhysicalType::F64 => ValueRef::Float64(f64::from_bits(bits as u64)),
            PhysicalType::Bytes => ValueRef::Bytes(self.header.layout().strings.of(self.bytes)),
            _ => ValueRef::Int(bits),
        }
    }

    fn codes(&self) -> Codes<'a> {
        let section = self.header.layout().codes;
        match self.header.code_bytes {
            1 => Codes::U8(section.of(self.bytes)),
            2 => Codes::U16(self.numbers(section)),
            4 => Codes::U32(self.numbers(section)),
            _ => Codes::U64(self.numbers(section)),
        }
    }

    fn values(&self) -> Values<'a> {
        let layout = self.header.layout();
        match self.header.physical.width() {
            Some(width) => Values::Fixed(FixedValues { bytes: layout.values.of(self.bytes), width }),
            None => Values::Strings(StringValues {
                offsets: self.numbers(layout.values),
                bytes: layout.strings.of(self.bytes),
            }),
        }
    }

    fn numbers<T: bytemuck::Pod>(&self, section: Section) -> &'a [T] {
        bytemuck::cast_slice(section.of(self.bytes))
    }
}

/// The order of dictionaries: by key, and by bits where floats are equal.
#[inline]
fn precedes<T: Native>(a: T, b: T) -> bool {
    let (key, next) = (a.key(), b.key());
    key < next || (!T::INTEGER && key == next && a.bits() < b.bits())
}
