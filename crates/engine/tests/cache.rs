//! What stays in memory, by every policy and in both forms: the right rows, whatever the budget is and however it changes.

mod one_table;

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array, StringViewArray};
use arrow::datatypes::Int64Type;
use forebay_base::{LogicalType, Value, limits};
use forebay_cache::{Goal, Goals};
use forebay_disk::{Disk, MemoryDisk};
use forebay_engine::metrics::MetricsSnapshot;
use forebay_engine::{
    AdaptivePredicate, CancelToken, ColumnKey, Engine, LoadOptions, MemoryShares, Metrics, PolicyKind, Scan,
    ScanSettings,
};
use forebay_pipeline::predicate::{ColumnPredicate, Predicate};

use one_table::{noise, table};

const BLOCK: i64 = limits::BLOCK_ROWS as i64;
const BLOCKS: i64 = 64;
const ROWS: i64 = BLOCKS * BLOCK;

/// Rows, sums of k and v, bytes of all strings.
type Sums = (u64, i64, i64, u64);

fn text(row: i64) -> String {
    format!("text {}", noise(row).rem_euclid(5_000))
}

/// The sums of these rows.
fn sums(rows: std::ops::Range<i64>) -> Sums {
    rows.fold((0, 0, 0, 0), |(count, k, v, bytes), row| {
        (count + 1, k + row, v + noise(row), bytes + text(row).len() as u64)
    })
}

/// A disk with the table: k is the number of the row, v noise, s text.
fn loaded() -> Arc<MemoryDisk> {
    let disk = Arc::new(MemoryDisk::default());
    let engine = open(&disk);
    let columns = [("k", LogicalType::Int64), ("v", LogicalType::Int64), ("s", LogicalType::Varchar)];
    let of_block = |block: i64| -> Vec<ArrayRef> {
        let rows = block * BLOCK..(block + 1) * BLOCK;
        vec![
            Arc::new(Int64Array::from_iter_values(rows.clone())),
            Arc::new(Int64Array::from_iter_values(rows.clone().map(noise))),
            Arc::new(StringViewArray::from_iter_values(rows.map(text))),
        ]
    };
    let options = LoadOptions { chunk_blocks: Some(2), ..LoadOptions::default() };
    one_table::load(&engine, &columns, options, (0..BLOCKS).map(of_block));
    disk
}

fn open(disk: &Arc<MemoryDisk>) -> Arc<Engine> {
    let disk: Arc<dyn Disk> = Arc::<MemoryDisk>::clone(disk);
    one_table::open(disk, MemoryShares::alone(512 << 20)).expect("the database opens")
}

/// The sums of the rows whose k is in a range, by so many workers, and what they cost.
fn scan(engine: &Arc<Engine>, rows: &std::ops::Range<i64>, workers: usize) -> (Sums, MetricsSnapshot) {
    let metrics = Arc::new(Metrics::default());
    let (of, cancel) = (Arc::clone(&metrics), CancelToken::default());
    let scan = Scan::new(Arc::clone(engine), table(engine), vec![0, 1, 2], of, cancel).expect("a scan");
    let scan = Arc::new(scan.with_settings(ScanSettings::default()));
    let [low, high] = [rows.start, rows.end].map(|row| Value::Int(row.into()));
    let test = Predicate::Range { low: std::ops::Bound::Included(low), high: std::ops::Bound::Excluded(high) };
    let test = AdaptivePredicate::new(ColumnPredicate { column: 0, test }, false);
    let work = || {
        let mut all = Sums::default();
        while let Some(morsel) = scan.next_morsel() {
            let mut found = scan.run(morsel, &mut [test.clone()], &mut []).expect("it is read");
            while let Some(batches) = found.next_block().expect("it is there") {
                for batch in batches {
                    let sum =
                        |column: usize| batch.column(column).as_primitive::<Int64Type>().values().iter().sum::<i64>();
                    let bytes =
                        batch.column(2).as_string_view().iter().flatten().map(|text| text.len() as u64).sum::<u64>();
                    all = (all.0 + batch.num_rows() as u64, all.1 + sum(0), all.2 + sum(1), all.3 + bytes);
                }
            }
        }
        all
    };
    let parts = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        workers.into_iter().map(|worker| worker.join().expect("no panic")).collect::<Vec<_>>()
    });
    let add = |a: Sums, b: Sums| (a.0 + b.0, a.1 + b.1, a.2 + b.2, a.3 + b.3);
    (parts.into_iter().fold(Sums::default(), add), metrics.snapshot())
}

/// The same shares for all columns.
fn goals(engine: &Engine, inflated: f64, stored: f64) -> Goals {
    let table = table(engine);
    let goal = Goal { inflated, stored, bytes: 1e6 };
    table.columns.iter().map(|column| (ColumnKey { table: table.id, column: column.id }, goal)).collect()
}

#[test]
fn no_answer_depends_on_what_stays() {
    let disk = loaded();
    let engine = open(&disk);
    let ranges = [0..ROWS, 5 * BLOCK + 7..9 * BLOCK + 3, ROWS / 2..ROWS, 17..18];
    let expected = ranges.clone().map(sums);
    let mut random = 88_172_645_463_325_252_u64;
    let mut next = |below: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random >> 11) % below
    };
    for kind in PolicyKind::ALL {
        engine.set_cache_policy(kind);
        for step in 0..16 {
            engine.set_cache_bytes([None, Some(0), Some(300 << 10), Some(3 << 20)][next(4) as usize]);
            if kind == PolicyKind::Proportional {
                let inflated = next(5) as f64 / 4.0;
                engine.cache().aim(&goals(&engine, inflated, (1.0 - inflated) * next(3) as f64 / 2.0));
            }
            let at = next(4) as usize;
            let (found, _) = scan(&engine, &ranges[at], 1 + next(3) as usize);
            assert_eq!(found, expected[at], "{kind:?}, step {step}");
            assert!(engine.cache().held_bytes() <= engine.cache().budget_bytes(), "{kind:?}, step {step}");
        }
    }
}

#[test]
fn shares_stay_in_their_forms() {
    let disk = loaded();
    let engine = open(&disk);
    engine.set_cache_policy(PolicyKind::Proportional);
    let all = 0..ROWS;
    let (expected, cold) = scan(&engine, &all, 2);
    let inflated_bytes = engine.cache().held_bytes() as f64;
    assert_eq!(scan(&engine, &all, 2).1.read_bytes, 0, "all of a small table stays at once");
    engine.cache().clear();
    // Two fifths of the row groups stay inflated, three tenths stored; there is memory for that and a little more.
    engine.cache().aim(&goals(&engine, 0.4, 0.3));
    engine.set_cache_bytes(Some((inflated_bytes * 0.43 + cold.read_bytes as f64 * 0.33) as usize));
    scan(&engine, &all, 2);
    let columns = engine.cache().columns();
    assert_eq!(columns.len(), 3);
    let counts = columns.values().map(|column| (column.inflated_chunks, column.stored_chunks));
    let (inflated, stored) = counts.min().expect("a column");
    let chunks = BLOCKS as usize / 2;
    // What is beyond the shares is not there yet: it was read once only.
    assert!(
        (chunks / 4..=chunks / 2).contains(&inflated) && (chunks / 8..=chunks / 2).contains(&stored),
        "{columns:?}"
    );
    assert!(columns.values().all(|column| column.stored_bytes < column.inflated_bytes * 3 && column.make_ns > 0));
    let (found, warm) = scan(&engine, &all, 2);
    assert_eq!(found, expected);
    let on_disk = (chunks - inflated - stored) as f64 / chunks as f64;
    let read = warm.read_bytes as f64 / cold.read_bytes as f64;
    assert!((read - on_disk).abs() < 0.15, "{read} of the bytes were read, {on_disk} are on disk");
    // All of it stored: what was inflated goes when there is no room, and nothing is read again once all is kept.
    engine.cache().aim(&goals(&engine, 0.0, 1.0));
    let stored_bytes = cold.read_bytes as usize;
    engine.set_cache_bytes(Some(stored_bytes + stored_bytes / 8));
    for _ in 0..3 {
        assert_eq!(scan(&engine, &all, 2).0, expected);
    }
    let (found, stored) = scan(&engine, &all, 2);
    assert_eq!((found, stored.read_bytes), (expected, 0));
    assert!(stored.inflate_ns > 0);
    // All of it inflated, from its stored bytes.
    engine.set_cache_bytes(None);
    engine.cache().aim(&goals(&engine, 1.0, 0.0));
    assert_eq!(scan(&engine, &all, 2).1.read_bytes, 0);
    let (found, inflated) = scan(&engine, &all, 2);
    assert_eq!((found, inflated.read_bytes, inflated.inflate_ns), (expected, 0, 0));
}

/// Closes it as a database does.
fn closed(engine: Arc<Engine>) {
    let (open_engine, background) = (Arc::downgrade(&engine), engine.background());
    drop((engine, background));
    assert!(open_engine.upgrade().is_none(), "nobody has it any more");
}

/// What the last process found worth keeping is read after a start, though nobody asks for it.
#[test]
fn what_was_to_stay_is_read_after_a_start() {
    let disk = loaded();
    let engine = open(&disk);
    let goals = goals(&engine, 0.5, 0.25);
    engine.column_shares().keep(goals.clone());
    drop(engine);
    let engine = open(&disk);
    engine.set_cache_policy(PolicyKind::Proportional);
    let is_filled = || {
        let columns = engine.cache().columns();
        columns.len() == 3 && columns.values().all(|column| column.inflated_chunks > 0 && column.stored_chunks > 0)
    };
    let mut looks = 0;
    while !is_filled() {
        looks += 1;
        assert!(looks < 5000, "{:?}", engine.cache().columns());
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    let (found, cost) = scan(&engine, &(0..ROWS), 2);
    assert_eq!(found, sums(0..ROWS));
    assert!(cost.read_bytes > 0, "a quarter has no goal");
    // Who has another policy has no goals, and who lost the file neither.
    engine.set_cache_policy(PolicyKind::Lru);
    closed(engine);
    // It ends at any moment of that.
    for _ in 0..20 {
        let engine = open(&disk);
        engine.set_cache_policy(PolicyKind::Proportional);
        std::thread::yield_now();
        closed(engine);
    }
    disk.remove("cache.plan").expect("it is there");
    let engine = open(&disk);
    engine.set_cache_policy(PolicyKind::Proportional);
    assert!(engine.column_shares().columns().is_empty());
    assert_eq!(scan(&engine, &(0..ROWS), 2).0, sums(0..ROWS));
}
