//! Prints how fast one core finds, reduces and unpacks on this machine:
//! `cargo run --release -p forebay-cpu --example kernel_speed`.

use std::ops::Bound;
use std::time::Instant;

use forebay_base::{PhysicalType, Value, limits::BLOCK_ROWS};
use forebay_block::{EncodeOptions, EncodedBlock, Encoding, PlainColumn, PlainValues, encode_block};
use forebay_cpu::simd::SimdLevel;
use forebay_cpu::{Matches, Selection, translate, unpack_codes, unpack_fixed};
use forebay_pipeline::{KeySet, Predicate};

/// Seconds of the fastest of some runs.
fn fastest(mut work: impl FnMut()) -> f64 {
    (0..200).fold(f64::MAX, |best, _| {
        let start = Instant::now();
        work();
        best.min(start.elapsed().as_secs_f64())
    })
}

fn random(row: usize) -> u64 {
    let mixed = (row as u64).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 20
}

fn all_rows() -> Selection {
    Selection::Rows(0..BLOCK_ROWS as u32)
}

fn main() {
    println!("{:44}{:>12}{:>10}{:>10}", "one block of 65,536 rows", "selected", "G rows/s", "GB/s");
    for (name, range, width) in [("u8", 1u64 << 8, 1), ("u16", 1 << 16, 2), ("u32", 1 << 32, 4), ("u64", 1 << 40, 8)] {
        let bytes = encode(PhysicalType::I64, &|row| random(row) % range, Encoding::Truncation);
        let block = EncodedBlock::parse(&bytes).expect("own blocks parse");
        for percent in [0, 1, 10, 50, 90, 100] {
            let high = Bound::Excluded(Value::Int(i128::from(range) * percent / 100));
            let test = Predicate::Range { low: Bound::Included(Value::Int(i128::from(percent == 0))), high };
            measure_test(&format!("find a range, {name} codes"), &block, &test, &all_rows(), width);
        }
        let list = Predicate::one_of((0..100).map(|index| Value::Int(i128::from(range / 101 * index))).collect());
        measure_test(&format!("find 100 values, {name} codes"), &block, &list, &all_rows(), width);
        let keys = KeySet::new((0..i128::from(range.min(1 << 20))).step_by(7)).expect("keys lie close");
        let keys = Predicate::Keys(keys.into());
        measure_test(&format!("find keys, {name} codes"), &block, &keys, &all_rows(), width);
        let tenth = Selection::Positions(
            (0..BLOCK_ROWS).filter(|row| random(*row) >> 9 & 7 == 0).map(|row| row as u16).collect(),
        );
        let half = Predicate::Range { low: Bound::Unbounded, high: Bound::Excluded(Value::Int(i128::from(range / 2))) };
        measure_test(&format!("reduce 1/8 of the rows, {name} codes"), &block, &half, &tenth, width);
        let positions: Vec<u16> = (0..BLOCK_ROWS).step_by(3).map(|row| row as u16).collect();
        measure_unpack::<i64>(&format!("unpack i64 from {name} codes, all rows"), &block, &all_rows());
        measure_unpack::<i64>(
            &format!("unpack i64 from {name} codes, positions"),
            &block,
            &Selection::Positions(positions),
        );
    }
    let mut with_nulls = Vec::new();
    let values: Vec<u8> = (0..BLOCK_ROWS).map(|row| random(row) as u8).collect();
    let bitmap: Vec<u8> = (0..BLOCK_ROWS / 8).map(|byte| (random(byte) | 0x11) as u8).collect();
    let column = PlainColumn {
        physical: PhysicalType::U8,
        rows: BLOCK_ROWS,
        validity: Some(&bitmap),
        values: PlainValues::Fixed(&values),
    };
    encode_block(&column, &EncodeOptions::default(), &mut with_nulls).expect("a valid column encodes");
    let block = EncodedBlock::parse(&with_nulls).expect("own blocks parse");
    let tenth = Predicate::Range { low: Bound::Unbounded, high: Bound::Excluded(Value::Int(25)) };
    measure_test("find a range, plain u8 with NULLs", &block, &tenth, &all_rows(), 1);
    let bytes = encode(PhysicalType::I32, &|row| random(row) % 50_000, Encoding::Truncation);
    let block = EncodedBlock::parse(&bytes).expect("own blocks parse");
    measure_unpack::<i32>("unpack i32 from u16 codes, all rows", &block, &all_rows());
    let bytes = encode(PhysicalType::I64, &|row| random(row) % 2000, Encoding::Dictionary);
    let block = EncodedBlock::parse(&bytes).expect("own blocks parse");
    measure_unpack::<i64>("unpack i64 from a dictionary, all rows", &block, &all_rows());
    let mut codes: Vec<u32> = Vec::new();
    let seconds = fastest(|| {
        codes.clear();
        unpack_codes(&block, &all_rows(), &mut codes);
    });
    print("unpack u16 codes to u32, all rows", codes.len(), BLOCK_ROWS, seconds, 4);
    let bytes = encode(PhysicalType::F64, &|row| (random(row) as f64).to_bits(), Encoding::Uncompressed);
    let block = EncodedBlock::parse(&bytes).expect("own blocks parse");
    let test = Predicate::Range { low: Bound::Unbounded, high: Bound::Excluded(Value::Float(1e12)) };
    measure_test("find a range, plain f64", &block, &test, &all_rows(), 8);
}

/// A block of values of `physical` made from bits.
fn encode(physical: PhysicalType, bits: &dyn Fn(usize) -> u64, force: Encoding) -> Vec<u8> {
    let width = physical.width().expect("a fixed-width type");
    let values: Vec<u8> = (0..BLOCK_ROWS).flat_map(|row| bits(row).to_le_bytes()[..width].to_vec()).collect();
    let column = PlainColumn { physical, rows: BLOCK_ROWS, validity: None, values: PlainValues::Fixed(&values) };
    let mut out = Vec::new();
    encode_block(&column, &EncodeOptions { force: Some(force) }, &mut out).expect("a valid column encodes");
    out
}

fn measure_test(name: &str, block: &EncodedBlock, test: &Predicate, from: &Selection, width: usize) {
    let test = translate(block, test, SimdLevel::best());
    let begin = || Matches::new(from.clone(), block.rows(), SimdLevel::best());
    let beginning = fastest(|| drop(std::hint::black_box(begin())));
    let mut selected = 0;
    let seconds = fastest(|| {
        let mut matches = begin();
        test.select(block, &mut matches);
        selected = matches.finish().len();
    });
    print(name, selected, from.len(), seconds - beginning, width);
}

fn measure_unpack<T: forebay_block::Native>(name: &str, block: &EncodedBlock, selection: &Selection) {
    let mut out: Vec<T> = Vec::new();
    let seconds = fastest(|| {
        out.clear();
        unpack_fixed(block, selection, &mut out);
    });
    print(name, out.len(), selection.len(), seconds, size_of::<T>());
}

fn print(name: &str, selected: usize, rows: usize, seconds: f64, width: usize) {
    let rate = rows as f64 / seconds / 1e9;
    println!("{name:44}{selected:12}{rate:10.2}{:10.2}", rate * width as f64);
}
