//! The block header: 64 bytes from which the place of every section follows. `docs/format.md`, "Encoded block".
//!
//! Invariants: `Header::layout` is the only place that knows where sections lie; stored offsets must equal it.

use forebay_base::{Error, PhysicalType, Result, limits};

use crate::encoding::Encoding;

/// First four bytes of an encoded block: `FBBK`.
pub const BLOCK_MAGIC: u32 = u32::from_le_bytes(*b"FBBK");
/// Bytes of the block header.
pub const BLOCK_HEADER_BYTES: usize = 64;
/// Alignment of every section in its block, and of every block in its chunk: a cache line.
pub const SECTION_ALIGN: usize = 64;
/// Flag bit: the block has a validity section.
pub const FLAG_VALIDITY: u8 = 1;

/// The header's content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) encoding: Encoding,
    pub(crate) physical: PhysicalType,
    /// Bytes per code; 0 where there are no codes.
    pub(crate) code_bytes: u8,
    pub(crate) rows: u32,
    pub(crate) null_count: u32,
    /// Entries of the dictionary, or runs; 0 for other encodings.
    pub(crate) entry_count: u32,
    /// Length of the string section.
    pub(crate) string_bytes: u32,
    /// The smallest value of a truncated block, or the bits of a single fixed-width value.
    pub(crate) base: i128,
}

/// Start and length in bytes of one section.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Section {
    pub(crate) start: usize,
    pub(crate) bytes: usize,
}

impl Section {
    pub(crate) fn of<'a>(&self, block: &'a [u8]) -> &'a [u8] {
        &block[self.start..self.start + self.bytes]
    }
}

/// Where the sections of a block lie; absent sections are empty at 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) validity: Section,
    pub(crate) codes: Section,
    /// Dictionary values, plain values, values of runs, or the offsets of either into `strings`.
    pub(crate) values: Section,
    pub(crate) strings: Section,
    /// Bytes of the whole block.
    pub(crate) end: usize,
}

impl Header {
    pub(crate) fn has_validity(&self) -> bool {
        0 < self.null_count && self.null_count < self.rows
    }

    /// Whether no row is valid.
    pub(crate) fn is_all_null(&self) -> bool {
        self.null_count == self.rows
    }

    /// Width of the numbers that most of the block's bytes are; 1 for strings.
    pub(crate) fn element_bytes(&self) -> usize {
        self.encoding.element_bytes(self)
    }

    pub(crate) fn layout(&self) -> Layout {
        let rows = self.rows as usize;
        let mut end = BLOCK_HEADER_BYTES;
        let mut place = |bytes: usize| {
            let section = Section { start: if bytes == 0 { 0 } else { end }, bytes };
            end += bytes.next_multiple_of(SECTION_ALIGN);
            section
        };
        let validity = place(if self.has_validity() { rows.div_ceil(8) } else { 0 });
        let codes = place(self.encoding.codes(self) * self.code_bytes as usize);
        let values = place(match (self.encoding.entries(self), self.physical.width()) {
            (0, _) => 0,
            (entries, Some(width)) => entries * width,
            (entries, None) => (entries + 1) * size_of::<u32>(),
        });
        let strings = place(self.string_bytes as usize);
        Layout { validity, codes, values, strings, end }
    }

    pub(crate) fn to_bytes(self) -> [u8; BLOCK_HEADER_BYTES] {
        let layout = self.layout();
        let mut bytes = [0; BLOCK_HEADER_BYTES];
        bytes[0..4].copy_from_slice(&BLOCK_MAGIC.to_le_bytes());
        bytes[4] = self.encoding as u8;
        bytes[5] = self.physical as u8;
        bytes[6] = self.code_bytes;
        bytes[7] = if self.has_validity() { FLAG_VALIDITY } else { 0 };
        let words = [
            self.rows,
            self.null_count,
            layout.end as u32,
            self.entry_count,
            layout.validity.start as u32,
            layout.codes.start as u32,
            layout.values.start as u32,
            layout.strings.start as u32,
            self.string_bytes,
            0,
        ];
        bytes[8..48].copy_from_slice(bytemuck::cast_slice(&words.map(u32::to_le_bytes)));
        bytes[48..64].copy_from_slice(&self.base.to_le_bytes());
        bytes
    }

    /// Reads and checks the header of a whole block: all its fields fit together, and all sections lie inside of `block`.
    pub(crate) fn read(block: &[u8]) -> Result<Self> {
        let wrong = |what: &str| Error::corrupt(format!("encoded block: {what}"));
        let bytes = block.first_chunk().ok_or_else(|| wrong("shorter than its header"))?;
        let header = Self::read_head(bytes)?;
        if header.layout().end != block.len() {
            return Err(wrong("its length is not the length of its sections"));
        }
        Ok(header)
    }

    /// Reads and checks a header by itself: all its fields fit together.
    pub(crate) fn read_head(bytes: &[u8; BLOCK_HEADER_BYTES]) -> Result<Self> {
        let wrong = |what: &str| Error::corrupt(format!("encoded block: {what}"));
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        if word(0) != BLOCK_MAGIC {
            return Err(wrong("does not start with its magic number"));
        }
        let mut base = [0; 16];
        base.copy_from_slice(&bytes[48..64]);
        let header = Self {
            encoding: Encoding::from_code(bytes[4]).ok_or_else(|| wrong("unknown encoding"))?,
            physical: PhysicalType::from_code(bytes[5]).ok_or_else(|| wrong("unknown physical type"))?,
            code_bytes: bytes[6],
            rows: word(8),
            null_count: word(12),
            entry_count: word(20),
            string_bytes: word(40),
            base: i128::from_le_bytes(base),
        };
        header.check().map_err(wrong)?;
        // Canonical layout: flags, offsets and the total length follow from the other fields.
        if header.to_bytes() != *bytes {
            return Err(wrong("flags, section offsets or reserved bytes are wrong"));
        }
        Ok(header)
    }

    fn check(&self) -> std::result::Result<(), &'static str> {
        if self.rows as usize > limits::BLOCK_ROWS || self.null_count > self.rows {
            return Err("too many rows or NULLs");
        }
        if self.string_bytes as usize > limits::CHUNK_MAX_BYTES {
            return Err("too many string bytes");
        }
        if self.is_all_null() && self.encoding != Encoding::SingleValue {
            return Err("without valid rows it must have the encoding SingleValue");
        }
        if self.string_bytes > 0 && (self.physical != PhysicalType::Bytes || self.is_all_null()) {
            return Err("string bytes in a block without strings");
        }
        self.encoding.check_header(self)
    }

    /// Checks that the width of codes is one of these.
    pub(crate) fn check_codes(&self, widths: &[u8]) -> std::result::Result<(), &'static str> {
        if widths.contains(&self.code_bytes) { Ok(()) } else { Err("code width does not match encoding and type") }
    }

    /// Checks the number of dictionary entries or runs: at least one where there may be any.
    pub(crate) fn check_entries(&self, largest: u32) -> std::result::Result<(), &'static str> {
        let fits = self.entry_count <= largest && (self.entry_count > 0) == (largest > 0);
        if fits { Ok(()) } else { Err("wrong number of dictionary entries or runs") }
    }

    /// Checks that the base is a value of the block's type, or 0 where the encoding has none.
    pub(crate) fn check_base(&self, has_base: bool) -> std::result::Result<(), &'static str> {
        let fits = match has_base {
            true => {
                crate::with_native!(self.physical, T => <T as crate::Native>::from_bits(self.base).is_some(), bytes => false)
            }
            false => self.base == 0,
        };
        if fits { Ok(()) } else { Err("base value out of the type's range") }
    }
}
