//! Blocks that are read without the rest of their chunk: the right rows and few bytes, whatever is in the cache, whoever shares
//! the chunk, and whatever the other blocks hold.

mod one_table;

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array, StringViewArray};
use arrow::datatypes::Int64Type;
use forebay_base::{ErrorKind, LogicalType, Result, Value, limits};
use forebay_block::{BlockSet, EncodeOptions, Encoding, block_places};
use forebay_disk::{Disk, FaultKind, Faults, MemoryDisk, OpenMode as FileMode, ReadPath, SimulatedDisk};
use forebay_engine::metrics::MetricsSnapshot;
use forebay_engine::{
    AdaptivePredicate, CancelToken, Engine, LoadOptions, MemoryShares, Metrics, Morsel, Scan, ScanSettings,
};
use forebay_pipeline::predicate::{ColumnPredicate, Predicate};

use one_table::{noise, table};

const BLOCK: i64 = limits::BLOCK_ROWS as i64;

/// Columns of the table: k is the number of the row, v noise, s text, c the same in all rows of a block.
const COLUMNS: [&str; 4] = ["k", "v", "s", "c"];

/// NULL in some rows.
fn text(row: i64) -> Option<String> {
    (row % 7 != 0).then(|| format!("text {}", noise(row).rem_euclid(50_000)))
}

/// What is compared: number of rows, sums of k, v and c, and bytes of all strings.
type Sums = (u64, i64, i64, i64, u64);

fn sums(rows: impl Iterator<Item = i64>) -> Sums {
    rows.fold((0, 0, 0, 0, 0), |(count, k, v, c, bytes), row| {
        let text = text(row).map_or(0, |text| text.len() as u64);
        (count + 1, k + row, v + noise(row), c + row / BLOCK, bytes + text)
    })
}

fn open(disk: Arc<dyn Disk>, cache_bytes: usize) -> Result<Arc<Engine>> {
    one_table::open(disk, MemoryShares::alone(1 << 30).keeping(cache_bytes))
}

/// Makes the table with so many blocks on a disk.
fn load(disk: Arc<dyn Disk>, blocks: i64, options: LoadOptions) {
    let engine = open(disk, 0).expect("a new database opens");
    let logical = |name| if name == "s" { LogicalType::Varchar } else { LogicalType::Int64 };
    let of_block = |block: i64| -> Vec<ArrayRef> {
        let rows = block * BLOCK..(block + 1) * BLOCK;
        vec![
            Arc::new(Int64Array::from_iter_values(rows.clone())),
            Arc::new(Int64Array::from_iter_values(rows.clone().map(noise))),
            Arc::new(StringViewArray::from_iter(rows.clone().map(text))),
            Arc::new(Int64Array::from_iter_values(rows.map(|_| block))),
        ]
    };
    one_table::load(&engine, &COLUMNS.map(|name| (name, logical(name))), options, (0..blocks).map(of_block));
}

/// k is one of these.
fn among(keys: &[i64]) -> AdaptivePredicate {
    let mut keys: Vec<i64> = keys.to_vec();
    keys.sort_unstable();
    keys.dedup();
    let test = Predicate::one_of(keys.into_iter().map(|key| Value::Int(key.into())).collect());
    AdaptivePredicate::new(ColumnPredicate { column: 0, test }, false)
}

/// k is in this range.
fn within(keys: &Range<i64>) -> AdaptivePredicate {
    let (low, high) = (Value::Int(keys.start.into()), Value::Int(keys.end.into()));
    let test = Predicate::Range { low: std::ops::Bound::Included(low), high: std::ops::Bound::Excluded(high) };
    AdaptivePredicate::new(ColumnPredicate { column: 0, test }, false)
}

fn new_scan(engine: &Arc<Engine>, settings: ScanSettings) -> Result<(Arc<Scan>, Arc<Metrics>)> {
    let metrics = Arc::new(Metrics::default());
    let scan =
        Scan::new(Arc::clone(engine), table(engine), vec![0, 1, 2, 3], Arc::clone(&metrics), CancelToken::default())?;
    Ok((Arc::new(scan.with_settings(settings)), metrics))
}

/// The sums of the rows of one morsel that pass the tests.
fn run(scan: &Arc<Scan>, morsel: Morsel, tests: &mut [AdaptivePredicate]) -> Result<Sums> {
    let mut found = scan.run(morsel, tests, &mut [])?;
    let mut sums = Sums::default();
    while let Some(batches) = found.next_block()? {
        for batch in batches {
            let sum = |column: usize| batch.column(column).as_primitive::<Int64Type>().values().iter().sum::<i64>();
            let texts = batch.column(2).as_string_view().iter().flatten().map(|text| text.len() as u64);
            add(&mut sums, &(batch.num_rows() as u64, sum(0), sum(1), sum(3), texts.sum()));
        }
    }
    Ok(sums)
}

fn add(sums: &mut Sums, other: &Sums) {
    *sums = (sums.0 + other.0, sums.1 + other.1, sums.2 + other.2, sums.3 + other.3, sums.4 + other.4);
}

/// The sums of all rows that pass the test, by so many workers, and what it cost.
fn scan(
    engine: &Arc<Engine>,
    test: &AdaptivePredicate,
    settings: ScanSettings,
    workers: usize,
) -> Result<(Sums, MetricsSnapshot)> {
    let (scan, metrics) = new_scan(engine, settings)?;
    let work = || -> Result<Sums> {
        let mut all = Sums::default();
        while let Some(morsel) = scan.next_morsel() {
            add(&mut all, &run(&scan, morsel, &mut [test.clone()])?);
        }
        Ok(all)
    };
    let parts = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        workers.into_iter().map(|worker| worker.join().expect("no panic")).collect::<Result<Vec<_>>>()
    })?;
    let mut all = Sums::default();
    parts.iter().for_each(|part| add(&mut all, part));
    Ok((all, metrics.snapshot()))
}

/// Stored bytes of all chunks.
fn stored_bytes(engine: &Engine) -> u64 {
    let table = table(engine);
    let groups = table.segments.iter().flat_map(|segment| segment.groups().expect("a footer"));
    groups
        .flat_map(|group| group.columns.iter())
        .flat_map(|column| &column.chunks)
        .map(|chunk| chunk.stored_bytes)
        .sum()
}

fn chunks_of(blocks: usize) -> LoadOptions {
    LoadOptions { chunk_blocks: Some(blocks), ..LoadOptions::default() }
}

fn whole() -> ScanSettings {
    ScanSettings { read_blocks: false, ..ScanSettings::default() }
}

#[test]
fn few_bytes_are_read_for_few_rows() {
    for (chunk_blocks, blocks) in [(8, 24), (64, 70)] {
        let disk = Arc::new(MemoryDisk::new());
        load(disk.clone(), blocks, chunks_of(chunk_blocks));
        let engine = open(disk, 0).expect("a sound database opens");
        let all = stored_bytes(&engine);
        let cases = [
            (3 * BLOCK + 5..3 * BLOCK + 6, 1),
            (9 * BLOCK..9 * BLOCK + 900, 1),
            (10 * BLOCK - 7..10 * BLOCK + 7, 2),
            ((blocks - 1) * BLOCK + 3..i64::MAX, 1),
            (-5..1, 1),
        ];
        for (keys, needed) in cases {
            let expected = sums(keys.start.max(0)..keys.end.min(blocks * BLOCK));
            let mut part_bytes = 0;
            for (read_ahead_bytes, workers) in [(limits::READ_AHEAD_BYTES, 1), (limits::READ_AHEAD_BYTES, 3), (0, 2)] {
                let settings = ScanSettings { read_ahead_bytes, ..ScanSettings::default() };
                let (found, cost) = scan(&engine, &within(&keys), settings, workers).expect("a sound disk");
                assert_eq!(found, expected, "{keys:?} in chunks of {chunk_blocks}");
                // Whole pages of each column, and a block may be larger than another.
                let most = all * needed / blocks as u64 * 5 / 4 + 4 * 2 * limits::IO_ALIGN as u64;
                assert!(cost.read_bytes <= most, "{} bytes of {all} for {keys:?}, at most {most}", cost.read_bytes);
                assert!(cost.chunks_in_part >= 3, "{cost:?}");
                part_bytes = cost.read_bytes;
                let inflated = all * needed / blocks as u64 * 8;
                assert!(cost.scanned_bytes <= inflated, "{} of {inflated} bytes were inflated", cost.scanned_bytes);
            }
            let (found, cost) = scan(&engine, &within(&keys), whole(), 2).expect("a sound disk");
            assert_eq!((found, cost.chunks_in_part), (expected, 0));
            assert!(cost.read_bytes > 2 * part_bytes, "{} bytes, {part_bytes} in part", cost.read_bytes);
        }
        let (found, cost) = scan(&engine, &within(&(0..i64::MAX)), ScanSettings::default(), 3).expect("a sound disk");
        assert_eq!(found, sums(0..blocks * BLOCK));
        assert_eq!((cost.read_bytes, cost.chunks_in_part), (all, 0), "all blocks are needed");
        assert_eq!(engine.stored_bytes(), 0);
    }
}

/// Two blocks far from each other are read by two requests, and without what lies between them where that is much.
#[test]
fn what_lies_between_is_left_where_it_is() {
    let disk = Arc::new(MemoryDisk::new());
    load(disk.clone(), 64, chunks_of(64));
    let engine = open(disk, 0).expect("a sound database opens");
    let all = stored_bytes(&engine);
    let keys = [5, 63 * BLOCK + 9];
    engine.record_reads();
    let (found, cost) = scan(&engine, &among(&keys), ScanSettings::default(), 2).expect("a sound disk");
    assert_eq!(found, sums(keys.into_iter()));
    assert!(cost.read_bytes < all / 16 && cost.chunks_in_part >= 3, "{cost:?} of {all} bytes");
    let reads = engine.recorded_reads();
    let (_, bytes) = reads.read(&engine, ReadPath::Direct).expect("a sound disk");
    assert_eq!(bytes, cost.read_bytes, "the same is read again");
    reads.inflate(&engine, ReadPath::Direct, 2).expect("sound blocks");
}

/// A part that is kept serves who needs no more of it; else the whole chunk takes its place.
#[test]
fn parts_and_whole_chunks_in_the_cache() {
    let disk = Arc::new(MemoryDisk::new());
    load(disk.clone(), 8, chunks_of(8));
    let engine = open(disk, 1 << 30).expect("a sound database opens");
    let all = stored_bytes(&engine);
    let look = |keys: Range<i64>| {
        let expected = sums(keys.clone());
        let (found, cost) = scan(&engine, &within(&keys), ScanSettings::default(), 1).expect("a sound disk");
        assert_eq!(found, expected);
        (cost.read_bytes, cost.chunks_in_part)
    };
    let (first, in_part) = look(2 * BLOCK..3 * BLOCK);
    assert!(first > 0 && first < all / 4 && in_part >= 3, "{first} of {all} bytes, {in_part} chunks in part");
    assert_eq!(look(2 * BLOCK + 8..2 * BLOCK + 9), (0, 0), "the part has it");
    let held = engine.cache().held_bytes();
    let (second, in_part) = look(5 * BLOCK..5 * BLOCK + 9);
    assert!(second > all / 2 && in_part == 0, "{second} of {all} bytes");
    assert!(engine.cache().held_bytes() > 2 * held, "whole chunks have taken the place of the parts");
    assert_eq!(look(0..8 * BLOCK), (0, 0), "and have all blocks");
}

#[test]
fn all_encodings_are_read_block_by_block() {
    for encoding in Encoding::ALL {
        let disk = Arc::new(MemoryDisk::new());
        let encode = EncodeOptions { force: Some(encoding) };
        load(disk.clone(), 8, LoadOptions { encode, ..chunks_of(8) });
        let engine = open(disk, 0).expect("a sound database opens");
        for block in [0, 3, 7] {
            let keys = block * BLOCK + 11..block * BLOCK + 4000;
            let (found, cost) = scan(&engine, &within(&keys), ScanSettings::default(), 1).expect("a sound disk");
            assert_eq!(found, sums(keys), "{encoding:?}");
            assert!(cost.read_bytes < stored_bytes(&engine) / 4, "{encoding:?}: {cost:?}");
        }
    }
}

/// Whatever was read before, and however little is kept.
#[test]
fn any_rows_in_any_order() {
    let disk = Arc::new(MemoryDisk::new());
    load(disk.clone(), 19, chunks_of(8));
    for cache_bytes in [0, 3 << 20, 1 << 30] {
        let engine = open(disk.clone(), cache_bytes).expect("a sound database opens");
        let mut state = 7_u64;
        let mut random = |below: i64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as i64 % below
        };
        for round in 0..60 {
            let mut keys: Vec<i64> = (0..=random(5)).map(|_| random(19 * BLOCK)).collect();
            let (found, _) =
                scan(&engine, &among(&keys), ScanSettings::default(), 1 + round % 3).expect("a sound disk");
            keys.sort_unstable();
            keys.dedup();
            assert_eq!(found, sums(keys.iter().copied()), "{keys:?}");
        }
    }
}

/// Workers that know more tests than others: what one left out of a chunk, another one reads.
#[test]
fn morsels_of_a_row_group_with_different_tests() {
    let disk = Arc::new(MemoryDisk::new());
    load(disk.clone(), 64, chunks_of(64));
    let engine = open(disk, 0).expect("a sound database opens");
    for read_ahead_bytes in [0, limits::READ_AHEAD_BYTES] {
        let settings = ScanSettings { read_ahead_bytes, ..ScanSettings::default() };
        let (scan, _) = new_scan(&engine, settings).expect("a footer");
        let mut found = Sums::default();
        let mut number = 0;
        let keys = |number: i64| {
            // Of every other morsel its first rows only, and the tests say that nothing else is needed anywhere.
            let start = number * 4 * BLOCK;
            start..start + if number % 2 == 0 { 100 } else { 4 * BLOCK }
        };
        while let Some(morsel) = scan.next_morsel() {
            add(&mut found, &run(&scan, morsel, &mut [within(&keys(number))]).expect("a sound disk"));
            number += 1;
        }
        assert_eq!(number, 16, "morsels of one row group");
        let wanted = (0..number).flat_map(keys);
        assert_eq!(found, sums(wanted));
    }
}

/// Damage in a frame is told by who reads its block, and by nobody else.
#[test]
fn damaged_frames() {
    let disk = Arc::new(MemoryDisk::new());
    load(disk.clone(), 8, chunks_of(8));
    let (path, at) = {
        let engine = open(disk.clone(), 0).expect("a sound database opens");
        let segment = Arc::clone(&table(&engine).segments[0]);
        let fifth: BlockSet = [5].into_iter().collect();
        let directory = segment.directory(0, 1, 0).expect("a directory");
        let places = block_places(directory, segment.columns()[1].1, &fifth).expect("a sound directory");
        let chunk = segment.groups().expect("a footer")[0].columns[1].chunks[0];
        (segment.path(), chunk.offset + places[0].start as u64 + 100)
    };
    let file = disk.open(&path, FileMode::Write).expect("it is there");
    let mut byte = [0];
    file.read_at(at, &mut byte).expect("its bytes");
    file.write_at(at, &[byte[0] ^ 1]).expect("flip");
    let engine = open(disk, 0).expect("metadata are sound");
    for block in 0..8 {
        let keys = block * BLOCK + 70..block * BLOCK + 90;
        let found = scan(&engine, &within(&keys), ScanSettings::default(), 1);
        if block != 5 {
            assert_eq!(found.expect("sound blocks").0, sums(keys), "block {block}");
            continue;
        }
        let error = found.expect_err("a damaged block");
        let text = error.to_string();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        for part in ["checksum mismatch", "table main.t", "column v", "row group 0", "chunk 0", "file segments/"] {
            assert!(text.contains(part), "{text}");
        }
    }
    assert!(scan(&engine, &within(&(0..9)), whole(), 1).is_err(), "of a whole chunk all frames are verified");
    assert_eq!(engine.stored_bytes(), 0);
}

#[test]
fn a_fault_in_any_read_of_a_part() {
    let disk = SimulatedDisk::new(7, Faults::default());
    load(Arc::new(disk.clone()), 17, chunks_of(8));
    let keys = [3 * BLOCK + 5, 9 * BLOCK, 16 * BLOCK + 1];
    let (test, expected) = (among(&keys), sums(keys.into_iter()));
    let look = |engine: &Arc<Engine>| scan(engine, &test, ScanSettings::default(), 1);
    let quiet = disk.crash();
    let engine = open(Arc::new(quiet.clone()), 0).expect("a sound database opens");
    let opened = quiet.calls();
    let (found, cost) = look(&engine).expect("a sound disk");
    assert!(found == expected && cost.chunks_in_part >= 6, "{cost:?}");
    let calls = quiet.calls();
    drop(engine);
    let mut disk = quiet;
    let (mut failed, mut succeeded) = (0, 0);
    for call in opened + 1..=calls {
        for kind in [FaultKind::Eio, FaultKind::ShortRead, FaultKind::BitFlip] {
            disk = disk.crash_with(Faults { fail_call: Some((call, kind)), ..Faults::default() });
            let Ok(engine) = open(Arc::new(disk.clone()), 0) else { continue };
            match look(&engine) {
                Ok((found, _)) => {
                    assert_eq!(found, expected, "{kind:?} in call {call}");
                    succeeded += 1;
                }
                Err(error) => {
                    assert!(error.to_string().contains("segments/"), "{kind:?} in call {call}: {error}");
                    failed += 1;
                }
            }
            assert_eq!(engine.stored_bytes(), 0, "{kind:?} in call {call}: memory is kept");
            assert_eq!(look(&engine).expect("the fault is over").0, expected, "{kind:?} in call {call}");
        }
    }
    assert!(failed > 10, "{failed} scans failed, {succeeded} did not");
}
