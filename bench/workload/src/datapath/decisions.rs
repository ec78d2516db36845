//! How long it takes to decide which chunks of a table are read, in memory, by the number of chunks: by the bounds of their values,
//! by histograms and by Bloom filters (GOLAP §4.2: the lookup has to be cheap beside the reads that it saves).
//!
//! The chunks are made up, a block each: what is measured does not depend on what the values are.

use std::hint::black_box;
use std::io::Write;
use std::ops::Bound;
use std::time::Instant;

use forebay::Result;
use forebay_base::Value;
use forebay_block::{ColumnZones, Zone};
use forebay_pipeline::Predicate;
use forebay_prune::bins::{BinSet, apart_from};
use forebay_prune::blocks::BlockBits;
use forebay_prune::bloom::{FilterShape, LINE_BYTES, hash_of_integer};
use forebay_prune::zones::decide;

use super::{numbered, owned};
use crate::experiments::figure::Figure;
use crate::experiments::{Bench, median};

/// Numbers of chunks.
const CHUNKS: [usize; 3] = [1_000, 10_000, 100_000];

/// Times that each decision is made; the median counts.
const DECISIONS: usize = 101;

/// Bits of a Bloom filter for each value, and values of a chunk.
const FILTER: (u64, u32) = (65_536, 10);

/// Decides about so many chunks; gives microseconds, and how many are read.
type Way = fn(usize) -> (f64, usize);

/// Numbers without an order, the same in every run.
fn scattered(number: usize) -> u64 {
    (number as u64).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20
}

/// Microseconds of a decision, which gives the chunks that are read.
fn microseconds(decision: impl Fn() -> BlockBits) -> (f64, usize) {
    let mut read = 0;
    let mut times: Vec<f64> = (0..DECISIONS)
        .map(|_| {
            let begun = Instant::now();
            read = black_box(decision()).len();
            begun.elapsed().as_secs_f64() * 1e6
        })
        .collect();
    (median(&mut times), read)
}

fn by_bounds(chunks: usize) -> (f64, usize) {
    let zone = |chunk: usize| {
        let low = i128::from(scattered(chunk) % 1_000_000);
        Zone { rows: 65_536, null_count: 0, min: Some(Value::Int(low)), max: Some(Value::Int(low + 10_000)) }
    };
    let zones: Vec<Zone> = (0..chunks).map(zone).collect();
    let zones: ColumnZones = zones.iter().collect();
    let bound = |value| Bound::Included(Value::Int(value));
    let test = Predicate::Range { low: bound(500_000), high: bound(520_000) };
    microseconds(|| decide(black_box(&zones), &test).may)
}

fn by_histogram(chunks: usize) -> (f64, usize) {
    let set = |chunk: usize| {
        let mut set = BinSet::default();
        (0..8).for_each(|bin| set.insert((scattered(chunk * 8 + bin) % 254) as u8));
        set
    };
    let sets: Vec<BinSet> = (0..chunks).map(set).collect();
    let mut passing = BinSet::default();
    (100..110).for_each(|bin| passing.insert(bin));
    microseconds(|| apart_from(black_box(&sets), &passing).complement())
}

fn by_bloom_filter(chunks: usize) -> (f64, usize) {
    let shape = FilterShape::of(FILTER.0, FILTER.1);
    // Of each filter the one line that a value is in: that is what a run has.
    let lines: Vec<[u8; LINE_BYTES]> = (0..chunks)
        .map(|chunk| {
            let mut line = [0; LINE_BYTES];
            let bits = (0..170).map(|bit| scattered(chunk * 170 + bit) as usize % (8 * LINE_BYTES));
            bits.for_each(|bit| line[bit / 8] |= 1 << (bit % 8));
            line
        })
        .collect();
    let bits = shape.bits_of(hash_of_integer(4_711));
    microseconds(|| BlockBits::from_fn(lines.len(), |chunk| bits.are_in(&black_box(&lines)[chunk])))
}

pub(super) fn measure(_bench: &Bench<'_>, _out: &mut dyn Write) -> Result<Figure> {
    let ways: [(&str, Way); 3] =
        [("bounds", by_bounds), ("histograms", by_histogram), ("Bloom filters", by_bloom_filter)];
    let (mut rows, mut series) = (Vec::new(), Vec::new());
    for (name, way) in ways {
        let mut times = Vec::new();
        for chunks in CHUNKS {
            let (time, read) = way(chunks);
            rows.push(vec![
                format!("{name}, {chunks} chunks"),
                format!("{time:.1} µs"),
                format!("{:.2} ns", time * 1e3 / chunks as f64),
                read.to_string(),
            ]);
            times.push(time);
        }
        series.push((name.to_owned(), numbered(times)));
    }
    Ok(Figure {
        title: format!("Deciding which chunks are read, in memory, one thread, medians of {DECISIONS}"),
        paper: "GOLAP §4.2 keeps bounds and histograms in memory and asks them before any read; no times are given",
        headings: owned(["decided by", "time", "per chunk", "read"]),
        rows,
        axes: ("chunks", "µs"),
        ticks: CHUNKS.map(|chunks| chunks.to_string()).to_vec(),
        series,
    })
}
