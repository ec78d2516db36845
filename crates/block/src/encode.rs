//! Encoding a block (Data Blocks §3.3): what all encodings share when they write one.
//!
//! Invariants: the bytes depend on the column and the options alone. NULL rows get the code or value of the first valid
//! row, plain strings the empty string, so that later passes need not look at validity.

use forebay_base::{Error, Result, limits};

use crate::column::PlainColumn;
use crate::encoding::{Bounds, Encoding, encode_values};
use crate::header::{BLOCK_HEADER_BYTES, Header, SECTION_ALIGN};
use crate::native::Native;
use crate::validity;
use crate::zone::{Zone, string_max, string_min};

/// How to encode.
#[derive(Debug, Clone, Copy, Default)]
pub struct EncodeOptions {
    /// Use this encoding, so that tests reach all of them; where it cannot represent the data, the best one is used.
    pub force: Option<Encoding>,
}

/// Appends one encoded block to `out`, padded to 64 bytes, and returns what is known of its values. `out.len()` must be
/// a multiple of 64. On an error `out` is as it was.
pub fn encode_block(column: &PlainColumn, options: &EncodeOptions, out: &mut Vec<u8>) -> Result<Zone> {
    column.check()?;
    let start = out.len();
    if !start.is_multiple_of(SECTION_ALIGN) {
        return Err(Error::internal(format!(
            "cannot encode a block at byte {start}, not a multiple of {SECTION_ALIGN}"
        )));
    }
    let null_count = column.validity.map_or(0, |bitmap| column.rows - validity::count_valid(bitmap, column.rows));
    let mut block = BlockWriter {
        header: Header {
            encoding: Encoding::SingleValue,
            physical: column.physical,
            code_bytes: 0,
            rows: column.rows as u32,
            null_count: null_count as u32,
            entry_count: 0,
            string_bytes: 0,
            base: 0,
        },
        validity: column.validity.filter(|_| 0 < null_count && null_count < column.rows),
        start,
        out,
    };
    let bounds = match null_count == column.rows {
        true => block.begin(block.header).map(|()| (None, None)),
        false => encode_values(column, options.force, &mut block),
    };
    if bounds.is_err() {
        out.truncate(start);
    }
    let (min, max) = bounds?;
    Ok(Zone { rows: column.rows as u32, null_count: null_count as u32, min, max })
}

/// The bounds of strings whose smallest and largest are these.
pub(crate) fn string_bounds(min: &[u8], max: &[u8]) -> Bounds {
    (Some(string_min(min)), string_max(max))
}

/// The length of a strings section for its header, if it is not too large.
pub(crate) fn string_bytes(bytes: usize) -> Result<u32> {
    u32::try_from(bytes).ok().filter(|_| bytes <= limits::CHUNK_MAX_BYTES).ok_or_else(|| {
        Error::input(format!("the strings of one block have {bytes} bytes, more than {}", limits::CHUNK_MAX_BYTES))
            .hint("Store fewer bytes per string, or fewer strings at a time")
    })
}

/// Writes one block: first [`BlockWriter::begin`], then the sections in order, each closed with
/// [`BlockWriter::pad`].
pub(crate) struct BlockWriter<'a> {
    /// Rows, NULLs and type; the encodings fill in the rest.
    pub(crate) header: Header,
    /// Only where there are both NULLs and valid rows.
    pub(crate) validity: Option<&'a [u8]>,
    start: usize,
    pub(crate) out: &'a mut Vec<u8>,
}

impl BlockWriter<'_> {
    /// Writes header and validity.
    pub(crate) fn begin(&mut self, header: Header) -> Result<()> {
        let bytes = header.layout().end;
        if bytes > limits::CHUNK_MAX_BYTES {
            return Err(Error::input(format!(
                "a block of {bytes} bytes is larger than the limit of {}",
                limits::CHUNK_MAX_BYTES
            ))
            .hint("Store fewer bytes per string, or fewer strings at a time"));
        }
        self.out.reserve(bytes);
        self.out.extend_from_slice(&header.to_bytes());
        debug_assert_eq!(self.out.len() - self.start, BLOCK_HEADER_BYTES);
        if let Some(bitmap) = self.validity {
            let rows = header.rows as usize;
            self.out.extend_from_slice(&bitmap[..rows.div_ceil(8)]);
            if let (false, Some(last)) = (rows.is_multiple_of(8), self.out.last_mut()) {
                *last &= (1 << (rows % 8)) - 1;
            }
            self.pad();
        }
        Ok(())
    }

    /// Ends a section.
    pub(crate) fn pad(&mut self) {
        self.out.resize(self.out.len().next_multiple_of(SECTION_ALIGN), 0);
    }

    /// Writes a section of these bytes.
    pub(crate) fn write_section(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
        self.pad();
    }

    /// Writes a codes section: `code(value)` for every value of the pieces that `pieces` visits.
    pub(crate) fn write_codes<S: Copy>(
        &mut self,
        code_bytes: usize,
        pieces: impl FnOnce(&mut dyn FnMut(&[S])),
        code: impl Fn(S) -> u64 + Copy,
    ) {
        let out = &mut *self.out;
        match code_bytes {
            1 => pieces(&mut |piece| extend::<u8, S>(out, piece, code, |code| code as u8)),
            2 => pieces(&mut |piece| extend::<u16, S>(out, piece, code, |code| code as u16)),
            4 => pieces(&mut |piece| extend::<u32, S>(out, piece, code, |code| code as u32)),
            _ => pieces(&mut |piece| extend::<u64, S>(out, piece, code, |code| code)),
        }
        self.pad();
    }

    /// Writes an offsets section and a string section. `header.string_bytes` is their sum, checked by `begin`.
    pub(crate) fn write_strings<'s>(&mut self, strings: impl Iterator<Item = &'s [u8]> + Clone) {
        let mut end = 0u32;
        self.out.extend_from_slice(&end.to_le_bytes());
        for string in strings.clone() {
            end += string.len() as u32;
            self.out.extend_from_slice(&end.to_le_bytes());
        }
        self.pad();
        for string in strings {
            self.out.extend_from_slice(string);
        }
        self.pad();
    }
}

/// Values that are turned into codes at a time.
const STEP: usize = 256;

#[inline]
fn extend<C: Native, S: Copy>(out: &mut Vec<u8>, piece: &[S], code: impl Fn(S) -> u64, narrow: impl Fn(u64) -> C) {
    let mut codes = [C::zeroed(); STEP];
    for values in piece.chunks(STEP) {
        for (slot, value) in codes.iter_mut().zip(values) {
            *slot = narrow(code(*value));
        }
        out.extend_from_slice(bytemuck::cast_slice(&codes[..values.len()]));
    }
}
