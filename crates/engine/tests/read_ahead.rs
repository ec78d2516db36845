//! Reads that run ahead: whatever fails on the way, a scan gives the right rows or an error that names the place, gives its
//! memory back, and leaves the database usable.

mod one_table;

use std::ops::Bound;
use std::sync::Arc;
use std::time::Instant;

use arrow::array::{ArrayRef, AsArray, Int64Array};
use arrow::datatypes::Int64Type;
use forebay_base::{LogicalType, Result, limits};
use forebay_disk::{FaultKind, Faults, ReadPath, SimulatedDisk};
use forebay_engine::timeline::{Recorder, SourceTimeline, SpanKind};
use forebay_engine::{AdaptivePredicate, CancelToken, Engine, Foreseen, LoadOptions, MemoryShares, Metrics, Scan};
use forebay_pipeline::predicate::{ColumnPredicate, Predicate};

use one_table::{load, table};

const GROUPS: i64 = 5;
const ROWS: i64 = GROUPS * (limits::BLOCK_ROWS * limits::GROUP_BLOCKS) as i64;

/// A database that keeps no chunk in memory.
fn open(disk: SimulatedDisk) -> Result<Arc<Engine>> {
    open_within(disk, MemoryShares::alone(1 << 30).keeping(0))
}

/// A database that keeps chunks in so much memory.
fn open_with_cache(disk: SimulatedDisk, cache_bytes: usize) -> Result<Arc<Engine>> {
    open_within(disk, MemoryShares::alone(4 << 30).keeping(cache_bytes))
}

fn open_within(disk: SimulatedDisk, memory: MemoryShares) -> Result<Arc<Engine>> {
    one_table::open(Arc::new(disk), memory)
}

/// Of row `i` column a is noise of `i` and column b is `i`.
fn noise(row: i64) -> i64 {
    one_table::noise(row) >> 4
}

/// A disk with a database of one table with several row groups.
fn database() -> SimulatedDisk {
    database_of(ROWS, noise)
}

/// A disk with a database of one table of so many rows, whole blocks, where column a has these values.
fn database_of(table_rows: i64, a: fn(i64) -> i64) -> SimulatedDisk {
    let disk = SimulatedDisk::new(7, Faults::default());
    let engine = open(disk.clone()).expect("a new database opens");
    let of_block = |first: i64| -> Vec<ArrayRef> {
        let rows = first..first + limits::BLOCK_ROWS as i64;
        vec![Arc::new(Int64Array::from_iter_values(rows.clone().map(a))), Arc::new(Int64Array::from_iter_values(rows))]
    };
    let columns = ["a", "b"].map(|name| (name, LogicalType::Int64));
    load(&engine, &columns, LoadOptions::default(), (0..table_rows).step_by(limits::BLOCK_ROWS).map(of_block));
    disk
}

/// a is at least 0.
fn test() -> AdaptivePredicate {
    let test = Predicate::Range { low: Bound::Included(forebay_base::Value::Int(0)), high: Bound::Unbounded };
    AdaptivePredicate::new(ColumnPredicate { column: 0, test }, false)
}

/// A scan that nobody has begun.
fn new_scan(engine: &Arc<Engine>) -> Result<Scan> {
    Scan::new(Arc::clone(engine), table(engine), vec![1], Arc::default(), CancelToken::default())
}

/// Rows and sum of b where a is at least 0, with the share of morsels that a worker takes before it stops.
fn scan(engine: &Arc<Engine>, morsels: usize) -> Result<(u64, i64)> {
    run(&Arc::new(new_scan(engine)?), morsels)
}

/// The same of all rows, which notes when it did what.
fn timed_scan(engine: &Arc<Engine>, metrics: Arc<Metrics>, timeline: SourceTimeline) -> Result<(u64, i64)> {
    let table = table(engine);
    let scan = Scan::new(Arc::clone(engine), table, vec![1], metrics, CancelToken::default())?;
    run(&Arc::new(scan.with_timeline(Some(timeline))), usize::MAX)
}

/// A table that is not kept at the first read, of several morsels.
fn large_table() -> SimulatedDisk {
    let whole = |row: i64| (row as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) as i64;
    database_of((limits::KEPT_AT_ONCE_BYTES / 8 / limits::BLOCK_ROWS + 2) as i64 * limits::BLOCK_ROWS as i64, whole)
}

/// A scan that begins where others are, and what it costs.
fn joined_scan(engine: &Arc<Engine>) -> (Arc<Scan>, Arc<Metrics>) {
    let metrics = Arc::new(Metrics::default());
    let scan = Scan::new(Arc::clone(engine), table(engine), vec![1], Arc::clone(&metrics), CancelToken::default());
    let foreseen = Foreseen { tests: vec![test()], ..Foreseen::default() };
    let scan = Arc::new(scan.expect("sound footers").before(foreseen, None));
    scan.join_others();
    (scan, metrics)
}

fn run(scan: &Arc<Scan>, morsels: usize) -> Result<(u64, i64)> {
    let mut tests = [test()];
    let (mut rows, mut sum) = (0, 0);
    for morsel in std::iter::from_fn(|| scan.next_morsel()).take(morsels) {
        let mut found = scan.run(morsel, &mut tests, &mut [])?;
        while let Some(batches) = found.next_block()? {
            for batch in batches {
                rows += batch.num_rows() as u64;
                sum += batch.column(0).as_primitive::<Int64Type>().values().iter().sum::<i64>();
            }
        }
    }
    Ok((rows, sum))
}

#[test]
fn a_fault_in_any_read_fails_the_scan_and_nothing_else() {
    let disk = database();
    let expected = (0..ROWS).filter(|row| noise(*row) >= 0).fold((0, 0), |(rows, sum), row| (rows + 1, sum + row));
    let quiet = disk.crash();
    let engine = open(quiet.clone()).expect("a sound database opens");
    let opened = quiet.calls();
    assert_eq!(scan(&engine, usize::MAX).expect("a sound disk"), expected);
    let calls = quiet.calls();
    drop(engine);
    let mut disk = quiet;
    let (mut failed, mut succeeded) = (0, 0);
    for call in opened + 1..=calls {
        for kind in [FaultKind::Eio, FaultKind::ShortRead, FaultKind::BitFlip] {
            disk = disk.crash_with(Faults { fail_call: Some((call, kind)), ..Faults::default() });
            let Ok(engine) = open(disk.clone()) else { continue };
            match scan(&engine, usize::MAX) {
                Ok(found) => {
                    assert_eq!(found, expected, "{kind:?} in call {call}");
                    succeeded += 1;
                }
                Err(error) => {
                    assert!(error.to_string().contains("segments/"), "{kind:?} in call {call}: {error}");
                    failed += 1;
                }
            }
            assert_eq!(engine.stored_bytes(), 0, "{kind:?} in call {call}: memory is kept");
            assert_eq!(scan(&engine, usize::MAX).expect("the fault is over"), expected, "{kind:?} in call {call}");
        }
    }
    assert!(failed > succeeded && failed > 20, "{failed} scans failed, {succeeded} did not");
}

#[test]
fn a_scan_that_stops_early_gives_up_what_it_began() {
    let engine = open(database()).expect("a sound database opens");
    for morsels in 0..GROUPS as usize {
        scan(&engine, morsels).expect("a sound disk");
        assert_eq!(engine.stored_bytes(), 0, "after {morsels} morsels");
    }
}

#[test]
fn a_scan_begins_reads_of_the_next_one() {
    let engine = open(database()).expect("a sound database opens");
    let expected = scan(&engine, usize::MAX).expect("a sound disk");
    let foreseen = || Foreseen { tests: vec![test()], ..Foreseen::default() };
    let pair = || -> Result<(Arc<Scan>, Arc<Scan>)> {
        let second = Arc::new(new_scan(&engine)?.before(foreseen(), None));
        Ok((Arc::new(new_scan(&engine)?.before(foreseen(), Some(Arc::clone(&second)))), second))
    };
    let column_bytes = |column: usize| -> usize {
        let table = table(&engine);
        let groups = table.segments[0].groups().expect("a footer");
        groups.iter().flat_map(|group| &group.columns[column].chunks).map(|chunk| chunk.stored_bytes as usize).sum()
    };

    // Both need the tested column for sure; what is allowed ends it.
    let (first, second) = pair().expect("sound footers");
    first.begin(usize::MAX);
    assert_eq!(engine.stored_bytes(), 2 * column_bytes(0));
    assert_eq!(run(&first, usize::MAX).expect("a sound disk"), expected);
    assert_eq!(engine.stored_bytes(), column_bytes(0), "the second one's reads stay");
    assert_eq!(run(&second, usize::MAX).expect("a sound disk"), expected);
    assert_eq!(engine.stored_bytes(), 0);

    // The last morsels of a scan begin them, too.
    let (first, second) = pair().expect("sound footers");
    assert_eq!(run(&first, usize::MAX).expect("a sound disk"), expected);
    // But for one, which the first one needed itself, and took over.
    let table_now = table(&engine);
    let mut chunks =
        table_now.segments[0].groups().expect("a footer").iter().flat_map(|group| &group.columns[0].chunks);
    let taken_over = column_bytes(0) - engine.stored_bytes();
    assert!(chunks.any(|chunk| chunk.stored_bytes as usize == taken_over), "{taken_over} bytes are no chunk");
    drop((first, second));
    assert_eq!(engine.stored_bytes(), 0, "nobody takes them");

    // What the first one reads is in memory for the second one; what is likely to be needed is read, too.
    let read_before = Foreseen { read_before: vec![0], ..foreseen() };
    let second = Arc::new(new_scan(&engine).expect("sound footers").before(read_before, None));
    let likely = Foreseen { likely: vec![1], ..foreseen() };
    let first = Arc::new(new_scan(&engine).expect("sound footers").before(likely, Some(Arc::clone(&second))));
    first.begin(usize::MAX);
    assert_eq!(engine.stored_bytes(), column_bytes(0) + column_bytes(1));
    assert_eq!(run(&first, usize::MAX).expect("a sound disk"), expected);
    assert_eq!(engine.stored_bytes(), 0, "nothing was begun for the second one");
    drop((first, second));

    let (first, second) = pair().expect("sound footers");
    first.begin(1);
    let one = engine.stored_bytes();
    assert!(one > 0 && one < column_bytes(0), "{one} bytes where one was allowed");
    assert_eq!(run(&first, usize::MAX).expect("a sound disk"), expected);
    assert_eq!(run(&second, usize::MAX).expect("a sound disk"), expected);
}

/// Whatever the memory: two scans that need more of it than there is do not wait for each other, chunks that are kept make room,
/// and all that was taken beyond a limit is given back.
#[test]
fn little_memory_changes_no_row() {
    let mut disk = database();
    let expected = scan(&open(disk.crash()).expect("a sound database opens"), usize::MAX).expect("a sound disk");
    for memory_bytes in [0, 2 << 20, 12 << 20, 36 << 20, 512 << 20] {
        for threads in [1, 3] {
            disk = disk.crash();
            let engine = open_within(disk.clone(), MemoryShares::alone(memory_bytes)).expect("a sound database opens");
            // From the second time on chunks are kept.
            for _ in 0..4 {
                let scan = Arc::new(new_scan(&engine).expect("sound footers"));
                let found: Vec<(u64, i64)> = std::thread::scope(|scope| {
                    let workers: Vec<_> = (0..threads).map(|_| scope.spawn(|| run(&scan, usize::MAX))).collect();
                    workers.into_iter().map(|worker| worker.join().expect("no panic").expect("a sound disk")).collect()
                });
                let sum = found.iter().fold((0, 0), |sum, part| (sum.0 + part.0, sum.1 + part.1));
                assert_eq!(sum, expected, "{memory_bytes} bytes, {threads} threads");
            }
            let clients: Vec<_> = engine.memory_use().into_iter().filter(|part| part.used_bytes.is_some()).collect();
            let holders: Vec<_> = clients.iter().map(|part| &*part.holder).collect();
            assert_eq!(holders, ["read buffers", "inflated chunks"]);
            assert!(clients.iter().all(|part| part.held_bytes <= part.limit_bytes), "overdrawn: {clients:?}");
            assert_eq!(clients[0].used_bytes, Some(0), "{clients:?}");
            let keeps = engine.cache().held_bytes() > 0;
            assert!(keeps || memory_bytes < 36 << 20, "{memory_bytes} bytes");
            assert!(!keeps || memory_bytes > 2 << 20, "what is beyond the limit is not kept");
            if memory_bytes >= 36 << 20 && threads == 1 {
                assert!(clients.iter().all(|part| part.peak_bytes <= Some(part.limit_bytes)), "{clients:?}");
            }
            engine.cache().clear();
            assert_eq!(engine.memory_use()[1].used_bytes, Some(0));
        }
    }
}

#[test]
fn what_was_read_is_read_and_inflated_again() {
    let engine = open(database().crash()).expect("a sound database opens");
    engine.record_reads();
    scan(&engine, usize::MAX).expect("a sound disk");
    let reads = engine.recorded_reads();
    let (_, bytes) = reads.read(&engine, ReadPath::Direct).expect("a sound disk");
    reads.inflate(&engine, ReadPath::Direct, 2).expect("sound chunks");
    let groups =
        engine.store().catalog().table("main", "t").expect("a table").segments[0].groups().expect("a footer").to_vec();
    let chunks = || groups.iter().flat_map(|group| group.columns.iter()).flat_map(|column| &column.chunks);
    assert_eq!(reads.len(), chunks().count(), "each chunk once");
    assert_eq!(bytes, chunks().map(|chunk| chunk.stored_bytes).sum::<u64>());
    assert_eq!(engine.stored_bytes(), 0);
    scan(&engine, usize::MAX).expect("a sound disk");
    assert!(engine.recorded_reads().is_empty(), "nobody recorded");
}

#[test]
fn a_scan_that_is_timed_gives_the_same_rows_and_notes_every_chunk() {
    let engine = open(database().crash()).expect("a sound database opens");
    let expected = scan(&engine, usize::MAX).expect("a sound disk");
    let recorder = Arc::new(Recorder::new(Instant::now()));
    let (metrics, source) = (Arc::new(Metrics::default()), recorder.scan_of(&table(&engine)));
    let found = timed_scan(&engine, Arc::clone(&metrics), source.clone()).expect("a sound disk");
    assert_eq!(found, expected);
    let (timeline, times, counted) = (recorder.timeline(), source.times(), metrics.snapshot());
    assert_eq!((times.name.as_str(), times.columns.join(" ").as_str()), ("main.t", "a b"));
    assert_eq!((times.chunks, times.read_bytes), (counted.chunks - counted.chunks_pruned, counted.read_bytes));
    assert_eq!(times.inflate_ns, counted.inflate_ns);
    assert!(times.compute_ns > 0);
    for kind in [SpanKind::Read, SpanKind::Inflate] {
        let mut places: Vec<_> = timeline.spans.iter().filter(|span| span.kind == kind).collect();
        places.sort_by_key(|span| (span.column, span.row_group, span.chunk));
        places.dedup_by_key(|span| (span.column, span.row_group, span.chunk));
        assert_eq!(places.len() as u64, times.chunks, "each chunk once: {kind:?}");
        assert!(places.iter().all(|span| span.thread.is_none() == (kind == SpanKind::Read) && span.bytes > 0));
    }
    let mut ended_ns = 0;
    let mut mine: Vec<_> = timeline.spans.iter().filter(|span| span.thread == Some(0)).collect();
    mine.sort_by_key(|span| span.start_ns);
    for span in mine {
        assert!(ended_ns <= span.start_ns && span.start_ns < span.end_ns, "a thread does one thing at a time");
        ended_ns = span.end_ns;
    }
    assert!(ended_ns <= timeline.elapsed_ns && timeline.threads == 1 && timeline.left_out == 0);
}

#[test]
fn chunks_of_large_tables_are_kept_where_the_query_reads_them_again() {
    let disk = large_table();
    let file_bytes: u64 = {
        let engine = open(disk.clone()).expect("a sound database opens");
        table(&engine).segments.iter().map(|segment| segment.file_bytes()).sum()
    };
    assert!(file_bytes > limits::KEPT_AT_ONCE_BYTES as u64, "the table is a large one");
    // Bytes that an engine with so much cache keeps after each of several scans, by the columns that will be read again.
    let held = |cache_bytes: usize, scans: &[&[usize]]| -> Vec<usize> {
        let engine = open_with_cache(disk.clone(), cache_bytes).expect("a sound database opens");
        let kept = scans.iter().map(|again| {
            let scan = new_scan(&engine).expect("sound footers").reading_again(again.to_vec());
            run(&Arc::new(scan), usize::MAX).expect("a sound disk");
            engine.cache().held_bytes()
        });
        kept.collect()
    };

    let unknown = held(1 << 30, &[&[], &[]]);
    assert_eq!(unknown[0], 0, "nobody reads it again, as far as is known");
    assert!(unknown[1] > limits::KEPT_AT_ONCE_BYTES, "the second scan keeps both columns: {unknown:?}");

    let known = held(1 << 30, &[&[0]]);
    assert!(
        limits::KEPT_AT_ONCE_BYTES < known[0] && known[0] < unknown[1],
        "column a is kept: {known:?} of {unknown:?}"
    );

    let small = 32 << 20;
    let known = held(small, &[&[0, 1]]);
    assert!(0 < known[0] && known[0] <= small / 2, "half of the cache is left to others: {known:?}");
}

/// A scan that begins while another one is under way begins where that is: what one reads serves both.
#[test]
fn scans_of_a_table_share_reads() {
    let disk = large_table();
    let expected = run(&joined_scan(&open(disk.clone()).expect("it opens")).0, usize::MAX).expect("a sound disk");
    let engine = open_with_cache(disk, 1 << 30).expect("a sound database opens");
    let add = |sum: &mut (u64, i64), part: (u64, i64)| *sum = (sum.0 + part.0, sum.1 + part.1);
    let (first, first_metrics) = joined_scan(&engine);
    let half = first.morsels() / 2;
    assert!(half > 8, "the table has many morsels: {half}");
    let mut first_sum = run(&first, half).expect("a sound disk");
    let (second, second_metrics) = joined_scan(&engine);
    let mut second_sum = (0, 0);
    for _ in 0..first.morsels() {
        add(&mut first_sum, run(&first, 1).expect("a sound disk"));
        add(&mut second_sum, run(&second, 1).expect("a sound disk"));
    }
    assert_eq!((first_sum, second_sum), (expected, expected), "every row once");
    let [first_bytes, second_bytes] = [&first_metrics, &second_metrics].map(|metrics| metrics.snapshot().read_bytes);
    assert!(second_bytes * 10 < first_bytes * 6, "{second_bytes} bytes beside {first_bytes}");
    // Alone again, a scan begins at the first row.
    drop((first, second));
    let (third, _) = joined_scan(&engine);
    let all = forebay_engine::morsels(&table(&engine)).expect("sound footers");
    assert_eq!(third.next_morsel(), all.first().copied());
}

/// Whoever takes over whose reads: each scan has each row once, however little is kept, and no memory stays taken.
#[test]
fn scans_side_by_side_take_over_reads() {
    let disk = database();
    let expected = scan(&open(disk.clone()).expect("it opens"), usize::MAX).expect("a sound disk");
    for cache_bytes in [0, 4 << 20, 256 << 20] {
        for _ in 0..5 {
            let engine = open_with_cache(disk.clone(), cache_bytes).expect("a sound database opens");
            let scans: Vec<_> = (0..3).map(|_| joined_scan(&engine).0).collect();
            let found: Vec<Vec<(u64, i64)>> = std::thread::scope(|scope| {
                let worker = |scan| scope.spawn(move || run(scan, usize::MAX).expect("a sound disk"));
                let workers: Vec<Vec<_>> = scans.iter().map(|scan| vec![worker(scan), worker(scan)]).collect();
                let end = |of: Vec<std::thread::ScopedJoinHandle<'_, (u64, i64)>>| {
                    of.into_iter().map(|worker| worker.join().expect("no panic")).collect()
                };
                workers.into_iter().map(end).collect()
            });
            for parts in found {
                assert_eq!(parts.iter().fold((0, 0), |sum, part| (sum.0 + part.0, sum.1 + part.1)), expected);
            }
            drop(scans);
            assert_eq!(engine.stored_bytes(), 0, "with {cache_bytes} bytes");
        }
    }
}
