//! Prints how fast this machine finishes build sides, merges groups and loads vectors:
//! `cargo run --release -p forebay-cpu --example state_speed [threads [words of what is measured]]`.

use std::time::Instant;

use forebay_base::PhysicalType;
use forebay_block::{
    ChunkOptions, EncodeOptions, Encoding, Inflate, PlainColumn, PlainValues, encode_block, inflate_chunk, seal_chunk,
};
use forebay_cpu::Selection;
use forebay_cpu::dictionary::Dictionary;
use forebay_cpu::groups::{GroupPart, GroupPlan, GroupTable};
use forebay_cpu::join::{JoinKind, JoinOptions, JoinTable};
use forebay_cpu::layout::{GroupRow, HASH_SEED, build_row, hash_end, hash_word};
use forebay_cpu::rows::RowBuffer;
use forebay_cpu::vector::{BlockIds, VECTOR_ROWS, Vector};
use forebay_pipeline::ir::{
    Aggregate, AggregateFunction, AggregateState, DictionaryId, JoinState, Register, SourceColumn, Typed, ValueType,
};

const INTEGER: Typed = Typed::required(ValueType::I64);

fn random(row: u64) -> u64 {
    let mixed = row.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 20
}

/// The best of three runs of `work` on what `prepare` makes.
fn report<P, R>(what: &str, rows: usize, prepare: impl Fn() -> P, work: impl Fn(P) -> R) {
    if std::env::args().nth(2).is_some_and(|wanted| !what.contains(&wanted)) {
        return;
    }
    let seconds = (0..3).fold(f64::MAX, |best, _| {
        let prepared = prepare();
        let start = Instant::now();
        let result = work(prepared);
        let seconds = start.elapsed().as_secs_f64();
        drop(result);
        best.min(seconds)
    });
    println!("{what:60}{:>10.1} ms{:>10.1} M rows/s", seconds * 1e3, rows as f64 / seconds / 1e6);
}

fn main() {
    let threads = std::env::args().nth(1).and_then(|threads| threads.parse().ok()).unwrap_or(1);
    println!("{threads} threads");
    joins(threads);
    groups(threads);
    vectors();
}

fn joins(threads: usize) {
    const ROWS: u64 = 6_000_000;
    let build = |state: &JoinState, spread: u64| {
        let layout = build_row(state);
        let mut parts: Vec<RowBuffer> = (0..threads).map(|_| RowBuffer::new(layout.words)).collect();
        let mut row = vec![0; layout.words];
        for number in 0..ROWS {
            // Distinct keys in no order: an odd factor permutes the numbers below a power of two.
            let key = number * 0x9e37_79b1 % (1 << 23) * spread;
            row[1] = hash_end(hash_word(HASH_SEED, key));
            row[layout.places[0].word] = key;
            layout.places[1..].iter().for_each(|place| row[place.word] = number & 0xfff);
            parts[number as usize % threads].push(&row);
        }
        parts
    };
    for (name, payload, spread, force) in [
        ("bitmap of 6 M keys", 0, 1, None),
        ("arrays by key, 6 M rows, 2 columns", 2, 1, None),
        ("hash, 6 M rows, no payload", 0, 1, Some(JoinKind::Hash)),
        ("hash, 6 M rows, 2 columns", 2, 1000, None),
    ] {
        let state = JoinState { keys: vec![INTEGER], payload: vec![INTEGER; payload], keeps_all: false };
        let options = JoinOptions { counts_matches: true, force, threads };
        let finish = |parts| JoinTable::finish(&state, parts, &options);
        report(name, ROWS as usize, || build(&state, spread), finish);
    }
}

fn groups(threads: usize) {
    const GROUPS: u64 = 1_000_000;
    let aggregate = |function| Aggregate { function, argument: Some(INTEGER) };
    let aggregates = vec![aggregate(AggregateFunction::SumWide), aggregate(AggregateFunction::Min)];
    let state = AggregateState { keys: vec![INTEGER], aggregates };
    let fill = |workers: usize| {
        let mut parts: Vec<GroupPart> = (0..workers).map(|_| GroupPart::new(&state, &GroupPlan::hash())).collect();
        for part in &mut parts {
            for key in 0..GROUPS {
                part.insert(hash_end(hash_word(HASH_SEED, key)), &[key]);
            }
        }
        parts
    };
    report("insert 1 M groups", GROUPS as usize, || (), |()| fill(1));
    for workers in [1, 2, 8] {
        let merge = |parts| GroupTable::merge(&state, &GroupPlan::hash(), parts, threads).expect("nothing is summed");
        let what = format!("merge 1 M groups of {workers} workers, {} words", GroupRow::new(&state).words);
        report(&what, GROUPS as usize * workers, || fill(workers), merge);
    }
}

fn vectors() {
    const ROWS: usize = 1 << 16;
    let integers: Vec<u8> = (0..ROWS as u64).flat_map(|row| (random(row) % 50_000).to_le_bytes()).collect();
    let texts: Vec<String> = (0..ROWS as u64).map(|row| format!("text number {}", random(row) % 1000)).collect();
    let texts: Vec<&[u8]> = texts.iter().map(String::as_bytes).collect();
    let positions: Vec<u16> = (0..ROWS).step_by(3).map(|row| row as u16).collect();
    for (physical, with_dictionary) in
        [(PhysicalType::I64, false), (PhysicalType::Bytes, false), (PhysicalType::Bytes, true)]
    {
        for encoding in [Encoding::Truncation, Encoding::Dictionary, Encoding::Uncompressed] {
            let values = match physical {
                PhysicalType::Bytes => PlainValues::Bytes(&texts),
                _ => PlainValues::Fixed(&integers),
            };
            let column = PlainColumn { physical, rows: ROWS, validity: None, values };
            let mut encoded = Vec::new();
            let options = EncodeOptions { force: Some(encoding) };
            if encode_block(&column, &options, &mut encoded).is_err() || !encoded.len().is_multiple_of(64) {
                continue;
            }
            let sealed = seal_chunk(&encoded, &[0], &ChunkOptions::default()).expect("own blocks make a chunk");
            let chunk = std::sync::Arc::new(
                inflate_chunk(&sealed.directory, &sealed.bytes, physical, &Inflate::default())
                    .expect("own chunks inflate"),
            );
            let column = SourceColumn {
                column: 0,
                name: "c".into(),
                physical,
                typed: INTEGER,
                dictionary: with_dictionary.then_some(DictionaryId(0)),
                to: Register(0),
            };
            let dictionary = Dictionary::default();
            for selection in [Selection::Rows(0..ROWS as u32), Selection::Positions(positions.clone())] {
                let rows = selection.len();
                let load = |(mut vector, mut ids): (Vector, BlockIds)| {
                    // Several times over the block, so that there is something to measure.
                    for from in (0..rows * 20).step_by(VECTOR_ROWS) {
                        let from = from % rows;
                        let part = selection.part(from, VECTOR_ROWS.min(rows - from));
                        vector.load(&chunk, 0, &part, &column, Some((&dictionary, &mut ids))).expect("few strings");
                    }
                };
                let ids = if with_dictionary { " as ids" } else { "" };
                let encoding = chunk.block(0).encoding();
                let what = format!("load {physical:?}{ids}, {encoding:?}, {rows} of {ROWS} rows");
                report(&what, rows * 20, Default::default, load);
            }
        }
    }
}
