//! The closed set of access forms (ARCHITECTURE.md, Encodings): how the values of any encoded block are read. Backends implement these
//! and nothing else.

use std::borrow::Cow;
use std::ops::Range;

use forebay_base::Value;

use crate::native::Native;

/// How to read a block's values. NULL rows carry any valid code or value.
#[derive(Debug, Clone, Copy)]
pub enum Access<'a> {
    /// No valid row.
    AllNull,
    /// Every valid row has this value.
    Constant(ValueRef<'a>),
    /// Row `i` is `base + codes[i]`.
    FrameOfReference {
        /// Smallest value.
        base: i128,
        /// One code per row.
        codes: Codes<'a>,
    },
    /// Row `i` is `values.get(codes[i])`; values are sorted and distinct, so code order is value order.
    Dictionary {
        /// The dictionary.
        values: DictionaryValues<'a>,
        /// One code per row, [`Codes::U8`] or [`Codes::U16`], each below the number of values.
        codes: Codes<'a>,
    },
    /// Row `i` is `get(i)`.
    Plain(PlainAccess<'a>),
    /// Row `i` is `values.get(ends.run_of(i))`.
    RunLength {
        /// Where the runs end.
        ends: RunEnds<'a>,
        /// One value per run, in any order; neighbours may be equal.
        values: RunValues<'a>,
    },
}

/// Codes in the width that they are stored in.
#[derive(Debug, Clone, Copy)]
pub enum Codes<'a> {
    /// One byte.
    U8(&'a [u8]),
    /// Two bytes.
    U16(&'a [u16]),
    /// Four bytes.
    U32(&'a [u32]),
    /// Eight bytes.
    U64(&'a [u64]),
}

/// One value inside of a block.
#[derive(Debug, Clone, Copy)]
pub enum ValueRef<'a> {
    /// Integers of every width.
    Int(i128),
    /// A binary32 with all its bits.
    Float32(f32),
    /// A binary64 with all its bits.
    Float64(f64),
    /// Text or blob.
    Bytes(&'a [u8]),
}

/// Values of fixed width, or strings.
#[derive(Debug, Clone, Copy)]
pub enum Values<'a> {
    /// Fixed width.
    Fixed(FixedValues<'a>),
    /// Any length.
    Strings(StringValues<'a>),
}

/// The sorted values of a dictionary block.
pub type DictionaryValues<'a> = Values<'a>;
/// The values of a block of runs, one per run.
pub type RunValues<'a> = Values<'a>;
/// The values of an uncompressed block, one per row.
pub type PlainAccess<'a> = Values<'a>;

/// The rows of each run of a block: at least one run, none of them empty, all rows covered.
#[derive(Debug, Clone, Copy)]
pub struct RunEnds<'a> {
    /// The last row of each run; checked to ascend to the last row of the block.
    pub(crate) last_rows: &'a [u16],
}

/// Little-endian values of one width.
#[derive(Debug, Clone, Copy)]
pub struct FixedValues<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) width: usize,
}

/// Strings as offsets into bytes.
#[derive(Debug, Clone, Copy)]
pub struct StringValues<'a> {
    /// One more than there are strings; checked to be monotone and in bounds.
    pub(crate) offsets: &'a [u32],
    pub(crate) bytes: &'a [u8],
}

impl Codes<'_> {
    /// Number of codes.
    pub fn len(&self) -> usize {
        match self {
            Self::U8(codes) => codes.len(),
            Self::U16(codes) => codes.len(),
            Self::U32(codes) => codes.len(),
            Self::U64(codes) => codes.len(),
        }
    }

    /// True where there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The code of `row`.
    #[inline]
    pub fn get(&self, row: usize) -> u64 {
        match self {
            Self::U8(codes) => u64::from(codes[row]),
            Self::U16(codes) => u64::from(codes[row]),
            Self::U32(codes) => u64::from(codes[row]),
            Self::U64(codes) => codes[row],
        }
    }
}

impl<'a> RunEnds<'a> {
    /// Number of runs.
    #[inline]
    pub fn len(&self) -> usize {
        self.last_rows.len()
    }

    /// True where there is none, which no block has.
    pub fn is_empty(&self) -> bool {
        self.last_rows.is_empty()
    }

    /// The last row of each run, ascending.
    pub fn last_rows(&self) -> &'a [u16] {
        self.last_rows
    }

    /// The rows of a run.
    #[inline]
    pub fn rows(&self, run: usize) -> Range<u32> {
        let start = if run == 0 { 0 } else { u32::from(self.last_rows[run - 1]) + 1 };
        start..u32::from(self.last_rows[run]) + 1
    }

    /// The run of a row, which must be one of the block.
    #[inline]
    pub fn run_of(&self, row: usize) -> usize {
        self.last_rows.partition_point(|last| usize::from(*last) < row)
    }

    /// Bytes that the number of a run takes: 1 or 2.
    pub fn number_bytes(&self) -> usize {
        if self.len() <= 1 << u8::BITS { 1 } else { 2 }
    }

    /// Appends the number of every row's run, each of [`RunEnds::number_bytes`] bytes: the codes of a dictionary of runs.
    pub fn append_numbers(&self, out: &mut Vec<u8>) {
        for run in 0..self.len() {
            let rows = self.rows(run).len();
            match self.number_bytes() {
                1 => out.resize(out.len() + rows, run as u8),
                _ => out.extend(std::iter::repeat_n((run as u16).to_le_bytes(), rows).flatten()),
            }
        }
    }
}

impl ValueRef<'_> {
    /// The value in its widest form.
    pub fn to_value(&self) -> Value {
        match self {
            Self::Int(value) => Value::Int(*value),
            Self::Float32(value) => Value::Float(f64::from(*value)),
            Self::Float64(value) => Value::Float(*value),
            Self::Bytes(value) => Value::Bytes(value.to_vec()),
        }
    }
}

impl Values<'_> {
    /// Number of values.
    pub fn len(&self) -> usize {
        match self {
            Self::Fixed(values) => values.len(),
            Self::Strings(values) => values.len(),
        }
    }

    /// True where there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<'a> FixedValues<'a> {
    /// Number of values.
    pub fn len(&self) -> usize {
        self.bytes.len() / self.width
    }

    /// True where there is none.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Bytes per value.
    pub fn width(&self) -> usize {
        self.width
    }

    /// The little-endian bytes of all values.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The little-endian bytes of value `index`.
    #[inline]
    pub fn get(&self, index: usize) -> &'a [u8] {
        &self.bytes[index * self.width..][..self.width]
    }

    /// Value `index` as a native. `T` must have this width.
    #[inline]
    pub fn native<T: Native>(&self, index: usize) -> T {
        bytemuck::pod_read_unaligned(self.get(index))
    }

    /// All values as natives, copied only where the memory is not aligned for `T`. `T` must have this width.
    pub fn natives<T: Native>(&self) -> Cow<'a, [T]> {
        match bytemuck::try_cast_slice(self.bytes) {
            Ok(values) => Cow::Borrowed(values),
            Err(_) => (0..self.len()).map(|index| self.native(index)).collect(),
        }
    }
}

impl<'a> StringValues<'a> {
    /// Number of strings.
    #[inline]
    pub fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// True where there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// String `index`.
    #[inline]
    pub fn get(&self, index: usize) -> &'a [u8] {
        &self.bytes[self.offsets[index] as usize..self.offsets[index + 1] as usize]
    }

    /// Where each string starts in [`StringValues::bytes`], and where the last one ends.
    pub fn offsets(&self) -> &'a [u32] {
        self.offsets
    }

    /// All strings, one after the other.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }
}
