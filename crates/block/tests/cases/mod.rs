//! Random columns of every physical type, and the naive reading of a block that fast code is compared with.
#![allow(dead_code, unreachable_pub, reason = "shared by test binaries, each of which uses its part")]

use forebay_base::{PhysicalType, Result, Value};
use forebay_block::{
    Access, EncodeOptions, EncodedBlock, Encoding, Inflate, InflatedChunk, Native, PlainColumn, PlainValues,
    SealedChunk, ValueRef, Values, Zone, encode_block, inflate_chunk, validity, with_native,
};
use proptest::prelude::*;

/// One value with all its bits.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Cell {
    Bits(i128),
    Bytes(Vec<u8>),
}

/// A column.
#[derive(Clone)]
pub struct Case {
    pub physical: PhysicalType,
    pub cells: Vec<Option<Cell>>,
}

impl std::fmt::Debug for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let start = &self.cells[..self.cells.len().min(8)];
        write!(f, "{} rows of {:?}, {start:?} …", self.cells.len(), self.physical)
    }
}

/// SplitMix64.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

/// Any bits as a value of `physical`.
fn cell_of_bits(physical: PhysicalType, bits: i128) -> Cell {
    with_native!(
        physical,
        T => Cell::Bits(Native::bits(bytemuck::pod_read_unaligned::<T>(&bits.to_le_bytes()[..size_of::<T>()]))),
        bytes => Cell::Bytes(bits.to_le_bytes()[..(bits & 15) as usize].to_vec())
    )
}

/// Values that are at the edge of something.
fn edge(physical: PhysicalType, random: &mut Random) -> Cell {
    let floats32: [u32; 9] =
        [0, 1 << 31, 0x7f80_0000, 0xff80_0000, 0x7fc0_0000, 0x7f80_0001, 0xffc0_1234, 1, 0x3f80_0000];
    let floats64: [u64; 9] =
        [0, 1 << 63, 0x7ff0 << 48, 0xfff0 << 48, 0x7ff8 << 48, (0x7ff0 << 48) | 1, u64::MAX, 1, 0x3ff0 << 48];
    let integers = [
        0,
        -1,
        1,
        i128::MAX,
        i128::MIN,
        127,
        128,
        255,
        256,
        65_535,
        65_536,
        i128::from(i64::MAX),
        i128::from(i64::MIN),
    ];
    let strings: [&[u8]; 7] =
        [b"", b"\xff", b"a", b"a\0", b"\0", &[0xff; 40], b"0123456789012345678901234567890123456789"];
    match physical {
        PhysicalType::F32 => Cell::Bits(floats32[random.below(9) as usize].into()),
        PhysicalType::F64 => Cell::Bits(floats64[random.below(9) as usize].into()),
        PhysicalType::Bytes => Cell::Bytes(strings[random.below(7) as usize].to_vec()),
        _ => with_native!(physical, T => {
            let (low, high) = T::KEYS;
            let value = integers[random.below(13) as usize];
            Cell::Bits(if value < 0 { value.max(low) } else { value.min(high) })
        }, bytes => unreachable!("strings are above")),
    }
}

/// One value of a column of `shape`.
fn cell(physical: PhysicalType, shape: u8, base: u64, random: &mut Random) -> Cell {
    let small = |offset: u64| match physical {
        PhysicalType::Bytes => Cell::Bytes(format!("common prefix {base} {offset}").into_bytes()),
        PhysicalType::F32 => Cell::Bits((offset as f32 / 4.0 - 3.0).to_bits().into()),
        PhysicalType::F64 => Cell::Bits((offset as f64 / 4.0 - 3.0).to_bits().into()),
        _ => cell_of_bits(physical, i128::from(base as i64 >> 4) + i128::from(offset)),
    };
    let wide = |bits: u64| {
        cell_of_bits(physical, i128::from(bits) << 64 | i128::from(bits.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
    };
    match shape {
        0 => small(7),
        1 => small(random.below(200)),
        2 => small(random.below(60_000)),
        3 => small(random.below(1 << 24)),
        4 => wide(base.wrapping_add(random.below(5)).wrapping_mul(0xd6e8_feb8_6659_fd93)),
        5 => wide(base.wrapping_add(random.below(700)).wrapping_mul(0xd6e8_feb8_6659_fd93)),
        6 => wide(random.next()),
        _ => edge(physical, random),
    }
}

fn runs(physical: PhysicalType, rows: usize, null_percent: u64, base: u64, random: &mut Random) -> Vec<Option<Cell>> {
    let (shape, longest) = (random.below(u64::from(RUNS)) as u8, [3, 50, 200][random.below(3) as usize]);
    let mut cells = Vec::with_capacity(rows);
    while cells.len() < rows {
        let value = cell(physical, shape, base, random);
        let length = (1 + random.below(longest) as usize).min(rows - cells.len());
        cells.extend(vec![(random.below(100) >= null_percent).then_some(value); length]);
    }
    cells
}

/// The shape of a column of runs, of some length between 1 and 200 rows; NULLs come in runs as well.
pub const RUNS: u8 = 8;

impl Case {
    pub fn generate(physical: PhysicalType, shape: u8, rows: usize, null_percent: u64, seed: u64) -> Self {
        let mut random = Random(seed);
        let base = random.next();
        if shape == RUNS {
            return Self { physical, cells: runs(physical, rows, null_percent, base, &mut random) };
        }
        let cells = (0..rows)
            .map(|_| {
                let value = cell(physical, shape, base, &mut random);
                (random.below(100) >= null_percent).then_some(value)
            })
            .collect();
        Self { physical, cells }
    }

    /// Encodes, as `force` says where it says something.
    pub fn encode(&self, force: Option<Encoding>) -> (Aligned, Zone) {
        let rows = self.cells.len();
        let mut bitmap = vec![0u8; rows.div_ceil(8)];
        for row in (0..rows).filter(|row| self.cells[*row].is_some()) {
            bitmap[row / 8] |= 1 << (row % 8);
        }
        // Noise behind the bitmap's end and in NULL rows must not matter.
        if !rows.is_multiple_of(8) {
            bitmap[rows / 8] |= 0xff << (rows % 8);
        }
        let has_null = self.cells.iter().any(Option::is_none);
        let mut fixed = vec![];
        let mut slices: Vec<&[u8]> = vec![];
        for cell in &self.cells {
            match (cell, self.physical.width()) {
                (Some(Cell::Bits(bits)), Some(width)) => fixed.extend_from_slice(&bits.to_le_bytes()[..width]),
                (None, Some(width)) => fixed.extend(std::iter::repeat_n(0x5a, width)),
                (Some(Cell::Bytes(bytes)), None) => slices.push(bytes),
                (None, None) => slices.push(b"noise in a NULL row"),
                _ => unreachable!("cells match their type"),
            }
        }
        let values = match self.physical {
            PhysicalType::Bytes => PlainValues::Bytes(&slices),
            _ => PlainValues::Fixed(&fixed),
        };
        let validity = (has_null || rows.is_multiple_of(2)).then_some(bitmap.as_slice());
        let column = PlainColumn { physical: self.physical, rows, validity, values };
        let mut out = vec![7; 64];
        let zone = encode_block(&column, &EncodeOptions { force }, &mut out).expect("a valid column encodes");
        assert_eq!(out[..64], [7; 64], "a block is appended");
        (Aligned::new(&out[64..]), zone)
    }

    pub fn value(&self, row: usize) -> Option<Value> {
        self.cells[row].as_ref().map(|cell| value_of(self.physical, cell))
    }
}

pub fn value_of(physical: PhysicalType, cell: &Cell) -> Value {
    match (cell, physical) {
        (Cell::Bits(bits), PhysicalType::F32) => Value::Float(f32::from_bits(*bits as u32).into()),
        (Cell::Bits(bits), PhysicalType::F64) => Value::Float(f64::from_bits(*bits as u64)),
        (Cell::Bits(bits), _) => Value::Int(*bits),
        (Cell::Bytes(bytes), _) => Value::Bytes(bytes.clone()),
    }
}

/// Bytes in memory aligned to 8.
#[derive(Clone)]
pub struct Aligned {
    words: Vec<u64>,
    len: usize,
}

impl Aligned {
    pub fn new(bytes: &[u8]) -> Self {
        let mut words = vec![0u64; bytes.len().div_ceil(8)];
        bytemuck::cast_slice_mut(&mut words)[..bytes.len()].copy_from_slice(bytes);
        Self { words, len: bytes.len() }
    }

    pub fn bytes(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.words)[..self.len]
    }
}

/// The naive reading of one row.
pub fn read(block: &EncodedBlock, row: usize) -> Option<Cell> {
    if block.validity().is_some_and(|bitmap| !validity::is_valid(bitmap, row)) {
        return None;
    }
    let pick = |values: Values, index: usize| match values {
        Values::Fixed(values) => with_native!(
            block.physical(),
            T => Cell::Bits(Native::bits(values.native::<T>(index))),
            bytes => unreachable!("strings are not fixed")
        ),
        Values::Strings(values) => Cell::Bytes(values.get(index).to_vec()),
    };
    match block.access() {
        Access::AllNull => None,
        Access::Constant(ValueRef::Int(value)) => Some(Cell::Bits(value)),
        Access::Constant(ValueRef::Float32(value)) => Some(Cell::Bits(value.to_bits().into())),
        Access::Constant(ValueRef::Float64(value)) => Some(Cell::Bits(value.to_bits().into())),
        Access::Constant(ValueRef::Bytes(value)) => Some(Cell::Bytes(value.to_vec())),
        Access::FrameOfReference { base, codes } => Some(Cell::Bits(base.wrapping_add(codes.get(row).into()))),
        Access::Dictionary { values, codes } => Some(pick(values, codes.get(row) as usize)),
        Access::Plain(values) => Some(pick(values, row)),
        Access::RunLength { ends, values } => {
            let run = ends.last_rows().iter().position(|last| row <= usize::from(*last)).expect("runs cover all rows");
            Some(pick(values, run))
        }
    }
}

pub fn any_case() -> impl Strategy<Value = Case> {
    let rows = prop_oneof![0usize..10, 60usize..70, 1000usize..1100, 2000usize..5000];
    let nulls = prop_oneof![Just(0), Just(3), Just(60), Just(100)];
    (0..12usize, 0..=RUNS, rows, nulls, any::<u64>()).prop_map(|(physical, shape, rows, nulls, seed)| {
        Case::generate(PhysicalType::ALL[physical], shape, rows, nulls, seed)
    })
}

pub fn any_encoding() -> impl Strategy<Value = Option<Encoding>> {
    prop_oneof![Just(None), (0..Encoding::ALL.len()).prop_map(|code| Some(Encoding::ALL[code]))]
}

/// Inflates a chunk into memory from the heap.
pub fn inflate(sealed: &SealedChunk, physical: PhysicalType) -> Result<InflatedChunk> {
    inflate_chunk(&sealed.directory, &sealed.bytes, physical, &Inflate::default())
}
