//! What a kernel is told: descriptors of columns, tests and states, word by word as the structs of `kernels/*.cuh` have them.
//!
//! Must not know: the program that the kernel came from.

use forebay_base::{PhysicalType, Result};
use forebay_block::{Access, Codes, EncodedBlock, ValueRef, Values};

use crate::device::Address;
use crate::groups::KeyRange;

/// Words of a [`Column`] in device memory.
pub const COLUMN_WORDS: usize = 8;
/// Words of a [`Predicate`].
pub const TEST_WORDS: usize = 6;

/// The word of a [`Predicate`] that says where its table is.
pub const TABLE_WORD: usize = 0;

/// How the values of a column are read in one block: `Column` of `tile.cuh`. Places of 0 are none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    /// Codes, one per row.
    pub codes: Address,
    /// Values of a dictionary, or of every row.
    pub values: Address,
    /// The validity bitmap, where a row may be NULL.
    pub validity: Address,
    /// The constant or the base.
    pub base: i128,
    /// How it is read.
    pub form: Form,
    /// Bytes of a code.
    pub code_bytes: u32,
    /// The stored type.
    pub physical: PhysicalType,
}

/// The access forms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// No row is valid.
    AllNull = 0,
    /// Every valid row has the base.
    Constant = 1,
    /// Base and code.
    Frame = 2,
    /// A dictionary's value.
    Dictionary = 3,
    /// Values by row.
    Plain = 4,
}

/// Where something of a block lies on the device, given where the block does.
fn place<T>(block: &[u8], at: Address, part: &[T]) -> Address {
    at.offset((part.as_ptr() as u64).wrapping_sub(block.as_ptr() as u64))
}

impl Column {
    /// The descriptor of a block whose `bytes`, from which it was parsed, lie at `at` on the device. For strings it has no
    /// values: ids take their place ([`Column::with_ids`]). For runs it has no codes: the number of each row's run takes their
    /// place ([`Column::with_runs`]).
    pub fn of_block(block: &EncodedBlock, bytes: &[u8], at: Address) -> Self {
        let mut column = Self {
            codes: Address(0),
            values: Address(0),
            validity: block.validity().map_or(Address(0), |bitmap| place(bytes, at, bitmap)),
            base: 0,
            form: Form::AllNull,
            code_bytes: 0,
            physical: block.physical(),
        };
        let set_codes = |column: &mut Self, codes: Codes| {
            (column.codes, column.code_bytes) = match codes {
                Codes::U8(codes) => (place(bytes, at, codes), 1),
                Codes::U16(codes) => (place(bytes, at, codes), 2),
                Codes::U32(codes) => (place(bytes, at, codes), 4),
                Codes::U64(codes) => (place(bytes, at, codes), 8),
            };
        };
        let values = |values: Values| match values {
            Values::Fixed(values) => place(bytes, at, values.bytes()),
            Values::Strings(_) => Address(0),
        };
        match block.access() {
            Access::AllNull => {}
            Access::Constant(value) => {
                column.form = Form::Constant;
                column.base = match value {
                    ValueRef::Int(value) => value,
                    ValueRef::Float32(value) => value.to_bits().into(),
                    ValueRef::Float64(value) => value.to_bits().into(),
                    ValueRef::Bytes(_) => 0,
                };
            }
            Access::FrameOfReference { base, codes } => {
                column.form = Form::Frame;
                column.base = base;
                set_codes(&mut column, codes);
            }
            Access::Dictionary { values: dictionary, codes } => {
                column.form = Form::Dictionary;
                column.values = values(dictionary);
                set_codes(&mut column, codes);
            }
            Access::Plain(plain) => {
                column.form = Form::Plain;
                column.values = values(plain);
            }
            Access::RunLength { values: of_runs, .. } => {
                column.form = Form::Dictionary;
                column.values = values(of_runs);
            }
        }
        column
    }

    /// The descriptor of a block of runs, each row of which has the number of its run, of so many bytes, at `numbers`: a
    /// dictionary whose entries are those of the runs. Tests are on these numbers.
    #[must_use]
    pub fn with_runs(self, numbers: Address, number_bytes: usize) -> Self {
        Self { codes: numbers, code_bytes: number_bytes as u32, ..self }
    }

    /// The descriptor of a block of strings that are loaded as 4-byte ids: those of the dictionary or of every row at
    /// `ids`, or the one of a constant.
    #[must_use]
    pub fn with_ids(self, ids: Address, constant: u32) -> Self {
        Self { values: ids, base: constant.into(), physical: PhysicalType::U32, ..self }
    }

    /// As it lies in device memory, where plain integers of up to 8 bytes are a frame: their bytes are codes, and the sign of
    /// narrow ones is a flip of the highest bit and its opposite as the base.
    pub fn words(&self) -> [u64; COLUMN_WORDS] {
        let width = self.physical.width().unwrap_or(0) as u32;
        let is_plain = self.form == Form::Plain && width <= 8;
        let (codes, code_bytes) = if is_plain { (self.values, width) } else { (self.codes, self.code_bytes) };
        let is_float = matches!(self.physical, PhysicalType::F32 | PhysicalType::F64);
        let form = if is_plain && !is_float { Form::Frame } else { self.form };
        let is_dictionary = self.form == Form::Dictionary;
        let narrow = matches!(self.physical, PhysicalType::I8 | PhysicalType::I16 | PhysicalType::I32);
        let flip = if narrow && (is_plain || is_dictionary) { 1u32 << (8 * width - 1) } else { 0 };
        let base = if self.form == Form::AllNull { 0 } else { self.base - i128::from(flip) };
        [
            codes.0,
            self.values.0,
            self.validity.0,
            base as u64,
            (base >> 64) as u64,
            u64::from(form as u32) | u64::from(code_bytes) << 32,
            u64::from(if is_dictionary { width } else { 0 }) | u64::from(flip) << 32,
            0,
        ]
    }
}

/// A test in the terms of one block: `Test` of `filter.cuh`. Lanes are codes, or plain integers sign-extended, or the keys
/// that order plain floats.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Predicate {
    /// No row passes.
    Never,
    /// Every row passes.
    Always,
    /// Rows that are not NULL pass.
    Valid,
    /// Rows that are NULL pass.
    Nulls,
    /// Lanes in one of these ranges pass, both ends included, or those in none. At least one range.
    Ranges {
        /// Least and greatest lanes.
        ranges: Vec<(u64, u64)>,
        /// Those in none.
        negated: bool,
    },
    /// Lanes whose bit `lane - low` is set pass; `span` is the greatest lane less `low`.
    Members {
        /// The first lane.
        low: u64,
        /// How far they go.
        span: u64,
        /// Bits.
        words: Vec<u64>,
    },
}

impl Predicate {
    /// What it needs in device memory besides its descriptor.
    pub fn table(&self) -> Vec<u64> {
        match self {
            Self::Ranges { ranges, .. } if ranges.len() > 1 => {
                ranges.iter().flat_map(|(low, high)| [*low, high.wrapping_sub(*low)]).collect()
            }
            Self::Members { words, .. } => words.clone(),
            _ => Vec::new(),
        }
    }

    /// As it lies in device memory, with its table at `table`.
    pub fn words(&self, table: Address) -> [u64; TEST_WORDS] {
        let kind = |kind: u64| [0, 0, 0, kind, 0, 0];
        match self {
            Self::Never => kind(0),
            Self::Always => kind(1),
            Self::Valid => kind(2),
            Self::Nulls => kind(3),
            Self::Ranges { ranges, negated } => {
                let (low, high) = ranges[0];
                [table.0, low, high.wrapping_sub(low), 4 | (ranges.len() as u64) << 32, u64::from(*negated), 0]
            }
            Self::Members { low, span, .. } => [table.0, *low, *span, 5, 0, 0],
        }
    }
}

/// A build side on the device: `Build` of `probe.cuh`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Build {
    /// Bits, in 4-byte words.
    pub present: Address,
    /// The least key.
    pub low: i64,
    /// How many keys there is room for.
    pub span: u64,
    /// Its payload columns.
    pub payload: Vec<Payload>,
}

/// A payload column of a build side, by key: `Payload` of `probe.cuh`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Payload {
    /// Its entries.
    pub values: Address,
    /// Bits of those that are not NULL, in 4-byte words; nowhere where all are.
    pub valid: Address,
    /// Added to the entries of 8-byte integers.
    pub base: i64,
    /// Bytes of an entry: 1, 2, 4 or 8 for 8-byte integers, else those of the type.
    pub entry_bytes: u64,
}

/// The parameters of a kernel, as bytes in the order of its struct.
#[derive(Debug, Clone, Default)]
pub struct Parameters(Vec<u64>);

impl Parameters {
    /// Begins with the task.
    pub fn new(tiles: u64, rows: Address, columns: Address, tests: Address, faults: Address) -> Self {
        Self(vec![tiles, rows.0, columns.0, tests.0, faults.0])
    }

    /// Those of [`crate::kernels::COMPACT`]: groups in slots of so many words, where to count those that are there, and where to
    /// put them.
    pub fn compact(words: Address, slots: u64, slot_words: u64, count: Address, kept: Address) -> Self {
        Self(vec![words.0, slots, slot_words, count.0, kept.0])
    }

    /// More of them, behind these.
    pub fn append(&mut self, more: &Self) {
        self.0.extend(&more.0);
    }

    /// A build side without its payload.
    pub fn build(&mut self, build: &Build) {
        self.0.extend([build.present.0, build.low as u64, build.span]);
    }

    /// A build side that a kernel fills, without its payload, and where it counts the rows that it keeps.
    pub fn target(&mut self, build: &Build, entered: Address) {
        self.build(build);
        self.0.push(entered.0);
    }

    /// One payload column.
    pub fn payload(&mut self, payload: &Payload) {
        self.0.extend([payload.values.0, payload.valid.0, payload.base as u64, payload.entry_bytes]);
    }

    /// A part of the groups' keys.
    pub fn key(&mut self, key: &KeyRange) {
        self.0.extend([key.low as u64, key.count, key.stride]);
    }

    /// The groups' words and the number of slots.
    pub fn groups(&mut self, words: Address, slots: u64) {
        self.0.extend([words.0, slots]);
    }

    /// Room for a result.
    pub fn room(&mut self, rows: Address, capacity: u64) {
        self.0.extend([rows.0, capacity]);
    }

    /// A column of a result.
    pub fn output(&mut self, values: Address, nulls: Address) {
        self.0.extend([values.0, nulls.0]);
    }

    /// All of them.
    pub fn bytes(&self) -> Vec<u8> {
        self.0.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }
}

/// The stored type that a column is loaded as: strings as the ids of a dictionary.
pub fn loaded_as(physical: PhysicalType, has_dictionary: bool) -> Result<PhysicalType> {
    match (physical, has_dictionary) {
        (PhysicalType::Bytes, true) => Ok(PhysicalType::U32),
        (PhysicalType::Bytes, false) => Err(forebay_base::Error::unsupported("text is not read on the device")),
        _ => Ok(physical),
    }
}
