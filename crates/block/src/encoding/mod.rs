//! The encodings of blocks (Data Blocks §3.3), one file each: what a header of it must say, how large a column becomes, and
//! how it is written, validated and read.
//!
//! Invariants: [`with_encoding`] is the only place that knows all files; candidates compete by their bytes in
//! [`encode_values`] alone. The bytes depend on the column and the options alone.
//! Must not know: chunks, and of each other's layouts.

mod dictionary;
mod run_length;
mod single_value;
mod truncation;
mod uncompressed;

use forebay_base::{Error, Result, Value};

use crate::access::Access;
use crate::column::{FixedColumn, PlainColumn, PlainValues, StringColumn};
use crate::encode::BlockWriter;
use crate::header::Header;
use crate::native::Native;
use crate::parse::EncodedBlock;

/// How the values of a block are encoded (Data Blocks §3.3). The codes are on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Encoding {
    /// One value for all valid rows, or no valid row at all.
    SingleValue = 0,
    /// Integers as their distance from the smallest one, in 1, 2, 4 or 8 bytes.
    Truncation = 1,
    /// Positions in a sorted dictionary, in 1 or 2 bytes.
    Dictionary = 2,
    /// Values as they are; strings as offsets and bytes.
    Uncompressed = 3,
    /// One value for each run of rows that have it.
    RunLength = 4,
}

/// Runs `$body` with `$implementation` bound to the [`BlockEncoding`] of an encoding.
macro_rules! with_encoding {
    ($encoding:expr, $implementation:ident => $body:expr) => {
        with_encoding!(@match $encoding, $implementation, $body;
            SingleValue single_value, Truncation truncation, Dictionary dictionary, Uncompressed uncompressed,
            RunLength run_length)
    };
    (@match $encoding:expr, $implementation:ident, $body:expr; $($name:ident $file:ident),*) => {
        match $encoding {
            $(Encoding::$name => {
                type $implementation = $file::$name;
                $body
            })*
        }
    };
}

/// Lower and upper bound of a block's valid values.
pub(crate) type Bounds = (Option<Value>, Option<Value>);

/// What the file of an encoding provides.
trait BlockEncoding {
    /// Its name in settings.
    const NAME: &'static str;

    /// Checks that the fields of a header fit together, beyond what all encodings ask for; says what is wrong.
    fn check_header(header: &Header) -> std::result::Result<(), &'static str>;

    /// Numbers in the codes section: one per row where they are codes.
    fn codes(header: &Header) -> usize {
        header.rows as usize
    }

    /// Values in the values section.
    fn entries(header: &Header) -> usize;

    /// Width of the numbers that most of the block's bytes are; 1 for strings.
    fn element_bytes(header: &Header) -> usize;

    /// Bytes that lie next to each other for every row; 0 where rows do not lie one by one.
    fn row_bytes(header: &Header) -> usize;

    /// Checks the content of the sections, of which bitmap and offsets of strings are right already.
    fn validate(block: &EncodedBlock<'_>) -> std::result::Result<(), &'static str>;

    /// How to read a validated block.
    fn access<'a>(block: &EncodedBlock<'a>) -> Access<'a>;

    /// About how many bytes the sections of `column` will have in memory, and about how many on disk (packed in as many bits as the numbers need),
    /// together; `None` where the encoding cannot represent it, or surely comes to `budget` bytes or more.
    fn estimate_fixed<T: Native>(column: &FixedColumn<'_, T>, budget: usize) -> Option<usize>;

    /// Writes the block. False, and nothing written, where the encoding cannot represent it, or turns out not to be smaller
    /// than `budget` bytes.
    fn encode_fixed<T: Native>(column: &FixedColumn<'_, T>, budget: usize, block: &mut BlockWriter<'_>)
    -> Result<bool>;

    /// The same of strings as [`BlockEncoding::estimate_fixed`], in memory alone: no encoding of strings packs better than it
    /// is small.
    fn estimate_strings(column: &StringColumn<'_>, budget: usize) -> Option<usize>;

    /// The same of strings as [`BlockEncoding::encode_fixed`]; gives their bounds.
    fn encode_strings(column: &StringColumn<'_>, budget: usize, block: &mut BlockWriter<'_>) -> Result<Option<Bounds>>;
}

impl Encoding {
    /// All encodings, in code order.
    pub const ALL: [Self; 5] =
        [Self::SingleValue, Self::Truncation, Self::Dictionary, Self::Uncompressed, Self::RunLength];

    /// Its name in settings.
    pub fn name(self) -> &'static str {
        with_encoding!(self, S => S::NAME)
    }

    /// The encoding with this code on disk.
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|encoding| *encoding as u8 == code)
    }

    /// Checks what a header says of this encoding.
    pub(crate) fn check_header(self, header: &Header) -> std::result::Result<(), &'static str> {
        with_encoding!(self, S => S::check_header(header))
    }

    /// Numbers in the codes section.
    pub(crate) fn codes(self, header: &Header) -> usize {
        with_encoding!(self, S => S::codes(header))
    }

    /// Values in the values section.
    pub(crate) fn entries(self, header: &Header) -> usize {
        with_encoding!(self, S => S::entries(header))
    }

    /// Width of the numbers that most of the block's bytes are.
    pub(crate) fn element_bytes(self, header: &Header) -> usize {
        with_encoding!(self, S => S::element_bytes(header))
    }

    /// Bytes that lie next to each other for every row.
    pub(crate) fn row_bytes(self, header: &Header) -> usize {
        with_encoding!(self, S => S::row_bytes(header))
    }

    /// Checks the content of a block's sections.
    pub(crate) fn validate(self, block: &EncodedBlock<'_>) -> std::result::Result<(), &'static str> {
        with_encoding!(self, S => S::validate(block))
    }

    /// How to read a block.
    pub(crate) fn access<'a>(self, block: &EncodedBlock<'a>) -> Access<'a> {
        with_encoding!(self, S => S::access(block))
    }
}

/// Bits of the distances of a column's values from the smallest; those of the whole value where that makes no sense.
fn range_bits<T: Native>(column: &FixedColumn<'_, T>) -> u32 {
    let range = if T::INTEGER { column.high.checked_sub(column.low) } else { None };
    range.map_or(8 * T::WIDTH as u32, |range| i128::BITS - range.leading_zeros())
}

/// Writes a block of at least one valid row with the encoding `force` where that can represent it, else with the smallest
/// one.
pub(crate) fn encode_values(
    column: &PlainColumn<'_>,
    force: Option<Encoding>,
    block: &mut BlockWriter<'_>,
) -> Result<Bounds> {
    match column.values {
        PlainValues::Fixed(bytes) => crate::with_native!(
            column.physical,
            T => encode_fixed(&FixedColumn::<T>::new(bytes, block.validity), force, block),
            bytes => Err(Error::internal("cannot encode a block: strings without offsets"))
        ),
        PlainValues::Bytes(values) => encode_strings(&StringColumn::new(values, block.validity), force, block),
    }
}

fn encode_fixed<T: Native>(
    column: &FixedColumn<'_, T>,
    force: Option<Encoding>,
    block: &mut BlockWriter<'_>,
) -> Result<Bounds> {
    let written = compete(
        force,
        |encoding, budget| with_encoding!(encoding, S => S::estimate_fixed(column, budget)),
        |encoding, budget| {
            let is_written = with_encoding!(encoding, S => S::encode_fixed(column, budget, block))?;
            Ok(is_written.then_some(()))
        },
    );
    written.map(|()| (Some(T::value_of_key(column.low)), Some(T::value_of_key(column.high))))
}

fn encode_strings(column: &StringColumn<'_>, force: Option<Encoding>, block: &mut BlockWriter<'_>) -> Result<Bounds> {
    compete(
        force,
        |encoding, budget| with_encoding!(encoding, S => S::estimate_strings(column, budget)),
        |encoding, budget| with_encoding!(encoding, S => S::encode_strings(column, budget, block)),
    )
}

/// Writes what is forced, or else what is estimated to have the fewest bytes: those that a scan looks at and, for numbers,
/// those that it reads from disk count alike. Plain values can represent everything and are
/// what all others must beat; who is not as small as it was estimated leaves the place to the next smallest.
fn compete<R>(
    force: Option<Encoding>,
    estimate: impl Fn(Encoding, usize) -> Option<usize>,
    mut encode: impl FnMut(Encoding, usize) -> Result<Option<R>>,
) -> Result<R> {
    const BASELINE: Encoding = Encoding::Uncompressed;
    if let Some(forced) = force
        && let Some(written) = encode(forced, usize::MAX)?
    {
        return Ok(written);
    }
    // Each one is smaller than those before it.
    let mut candidates: Vec<(Encoding, usize)> = Vec::with_capacity(Encoding::ALL.len());
    let mut budget = estimate(BASELINE, usize::MAX).unwrap_or(usize::MAX);
    candidates.push((BASELINE, budget));
    for encoding in Encoding::ALL.into_iter().filter(|encoding| *encoding != BASELINE) {
        if let Some(bytes) = estimate(encoding, budget).filter(|bytes| *bytes < budget) {
            candidates.push((encoding, bytes));
            budget = bytes;
        }
    }
    while let Some((encoding, _)) = candidates.pop() {
        let next_bytes = candidates.last().map_or(usize::MAX, |(_, bytes)| *bytes);
        if let Some(written) = encode(encoding, next_bytes)? {
            return Ok(written);
        }
    }
    Err(Error::internal("cannot encode a block: no encoding represents its values"))
}

#[cfg(test)]
mod tests;
