//! Reading an encoded block in place.
//!
//! Invariants: [`EncodedBlock::parse`] checks all that later access relies on, so hostile bytes are an error here and
//! never a panic or an over-read later.

use forebay_base::{Error, PhysicalType, Result};

use crate::access::{Access, Codes, FixedValues, StringValues, Values};
use crate::encoding::Encoding;
use crate::header::{Header, Section};
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
        self.header.encoding.validate(self)
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
        self.header.encoding.row_bytes(&self.header)
    }

    /// How to read the values.
    pub fn access(&self) -> Access<'a> {
        self.header.encoding.access(self)
    }

    /// The bytes of a section.
    pub(crate) fn section(&self, section: Section) -> &'a [u8] {
        section.of(self.bytes)
    }

    /// The codes section.
    pub(crate) fn codes(&self) -> Codes<'a> {
        let section = self.header.layout().codes;
        match self.header.code_bytes {
            1 => Codes::U8(section.of(self.bytes)),
            2 => Codes::U16(self.numbers(section)),
            4 => Codes::U32(self.numbers(section)),
            _ => Codes::U64(self.numbers(section)),
        }
    }

    /// The values section, with the strings.
    pub(crate) fn values(&self) -> Values<'a> {
        let layout = self.header.layout();
        match self.header.physical.width() {
            Some(width) => Values::Fixed(FixedValues { bytes: layout.values.of(self.bytes), width }),
            None => Values::Strings(StringValues {
                offsets: self.numbers(layout.values),
                bytes: layout.strings.of(self.bytes),
            }),
        }
    }

    /// A section of numbers, whose width divides its length.
    pub(crate) fn numbers<T: bytemuck::Pod>(&self, section: Section) -> &'a [T] {
        bytemuck::cast_slice(section.of(self.bytes))
    }
}
