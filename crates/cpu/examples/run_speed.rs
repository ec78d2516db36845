//! Prints what runs are worth: a filter and a sum over 100 M rows of sorted status columns, by runs and by codes, on one
//! thread. `cargo run --release -p forebay-cpu --example run_speed`.

use std::ops::Bound;
use std::sync::Arc;
use std::time::Instant;

use forebay_base::{PhysicalType, Value, limits::BLOCK_ROWS};
use forebay_block::{
    ChunkOptions, EncodeOptions, EncodedBlock, Encoding, Inflate, InflatedChunk, PlainColumn, PlainValues,
    encode_block, inflate_chunk, seal_chunk,
};
use forebay_cpu::fold::Fold;
use forebay_cpu::simd::SimdLevel;
use forebay_cpu::vector::{VECTOR_ROWS, Vector};
use forebay_cpu::{Matches, Selected, Selection, translate};
use forebay_pipeline::Predicate;
use forebay_pipeline::ir::{Register, SourceColumn, Typed};

const ROWS: usize = 100_000_000;
/// Different blocks, which are read over and over: together they are larger than the second-level cache.
const BLOCKS: usize = 64;

/// Two columns of a table that is sorted by many: a status that is tested, and a number that is summed.
struct Block {
    status: Arc<InflatedChunk>,
    number: Arc<InflatedChunk>,
}

fn chunk(values: &[i64], force: Option<Encoding>) -> (Arc<InflatedChunk>, Encoding) {
    let mut encoded = Vec::new();
    let plain = PlainValues::Fixed(bytemuck::cast_slice(values));
    let column = PlainColumn { physical: PhysicalType::I64, rows: values.len(), validity: None, values: plain };
    encode_block(&column, &EncodeOptions { force }, &mut encoded).expect("a valid column encodes");
    let encoding = EncodedBlock::parse(&encoded).expect("own blocks parse").encoding();
    let sealed = seal_chunk(&encoded, &[0], &ChunkOptions::default()).expect("valid blocks seal");
    (
        Arc::new(
            inflate_chunk(&sealed.directory, &sealed.bytes, PhysicalType::I64, &Inflate::default())
                .expect("own chunks inflate"),
        ),
        encoding,
    )
}

/// Blocks whose runs have so many rows: the status goes through eight values, the number through 200 within each.
fn blocks(run_rows: usize, force: Option<Encoding>) -> (Vec<Block>, Encoding) {
    let mut encoding = Encoding::SingleValue;
    let blocks = (0..BLOCKS).map(|block| {
        let run = |row: usize, rows: usize| ((block * BLOCK_ROWS + row) / rows) as i64;
        let status: Vec<i64> = (0..BLOCK_ROWS).map(|row| run(row, 4 * run_rows) % 8).collect();
        let number: Vec<i64> = (0..BLOCK_ROWS).map(|row| run(row, run_rows) * 7919 % 200).collect();
        let (number, _) = chunk(&number, force);
        let (status, chosen) = chunk(&status, force);
        encoding = chosen;
        Block { status, number }
    });
    (blocks.collect(), encoding)
}

fn selected(block: &Block, test: &Predicate) -> Selection {
    let view = block.status.block(0);
    let mut matches = Matches::new(Selection::Rows(0..BLOCK_ROWS as u32), BLOCK_ROWS, SimdLevel::best());
    translate(&view, test, SimdLevel::best()).select(&view, &mut matches);
    matches.finish()
}

fn column() -> SourceColumn {
    let typed = Typed::required(SourceColumn::widened(PhysicalType::I64));
    SourceColumn {
        column: 0,
        name: "number".into(),
        physical: PhysicalType::I64,
        typed,
        dictionary: None,
        to: Register(0),
    }
}

/// The sum of the selected rows' numbers, each loaded.
fn sum_of_rows(block: &Block, selection: &Selection, vector: &mut Vector) -> i64 {
    let mut sum = 0;
    for from in (0..selection.len()).step_by(VECTOR_ROWS) {
        let part = selection.part(from, VECTOR_ROWS.min(selection.len() - from));
        vector.load(&block.number, 0, &part, &column(), None).expect("numbers need no dictionary");
        sum += vector.values::<i64>().iter().sum::<i64>();
    }
    sum
}

/// The same, where one of equal rows is loaded and stands for all.
fn sum_of_kinds(block: &Block, selection: &Selection, vector: &mut Vector, fold: &mut Fold) -> i64 {
    let columns = [block.number.block(0)];
    if !Fold::pays(&columns, selection) {
        return sum_of_rows(block, selection, vector);
    }
    fold.fold(&columns, selection);
    let mut sum = 0;
    for (rows, multiplicities) in fold.rows().chunks(VECTOR_ROWS).zip(fold.multiplicities().chunks(VECTOR_ROWS)) {
        vector.load(&block.number, 0, &Selected::Positions(rows), &column(), None).expect("numbers need no dictionary");
        sum += vector
            .values::<i64>()
            .iter()
            .zip(multiplicities)
            .map(|(value, multiplicity)| value * *multiplicity as i64)
            .sum::<i64>();
    }
    sum
}

/// Milliseconds of the fastest of some runs over all rows, and the sum.
fn measure(blocks: &[Block], mut sum: impl FnMut(&Block) -> i64) -> (f64, i64) {
    (0..5).fold((f64::MAX, 0), |(best, _), _| {
        let start = Instant::now();
        let total = (0..ROWS.div_ceil(BLOCK_ROWS)).map(|number| sum(&blocks[number % BLOCKS])).sum();
        (best.min(start.elapsed().as_secs_f64() * 1e3), total)
    })
}

fn main() {
    println!(
        "{:>9} {:32}{:>12}{:>12}{:>12}{:>12}",
        "run rows", "encoding", "filter, ms", "+ sum, ms", "+ fold, ms", ""
    );
    for run_rows in [50, 200, 1000, 5000] {
        let one = Predicate::equal(Value::Int(3));
        let some = Predicate::Range { low: Bound::Included(Value::Int(2)), high: Bound::Included(Value::Int(5)) };
        for (name, test) in [("= 3", one), ("between 2 and 5", some)] {
            let mut by_codes = 0.0;
            for force in [Some(Encoding::Truncation), Some(Encoding::Dictionary), None] {
                let (blocks, encoding) = blocks(run_rows, force);
                let (mut vector, mut fold) = (Vector::default(), Fold::default());
                let (filter, _) = measure(&blocks, |block| selected(block, &test).len() as i64);
                let (rows, sum) = measure(&blocks, |block| sum_of_rows(block, &selected(block, &test), &mut vector));
                let by_kinds = |block: &Block| sum_of_kinds(block, &selected(block, &test), &mut vector, &mut fold);
                let (kinds, same) = measure(&blocks, by_kinds);
                assert_eq!(sum, same, "one way is as good as the other");
                let best = rows.min(kinds);
                let ratio = if force.is_some() { String::new() } else { format!("{:.1} times", by_codes / best) };
                by_codes = if by_codes == 0.0 { best } else { best.min(by_codes) };
                let name = format!("{encoding:?}, status {name}");
                println!("{run_rows:9} {name:32}{filter:12.1}{rows:12.1}{kinds:12.1}{ratio:>12}");
            }
        }
    }
}
