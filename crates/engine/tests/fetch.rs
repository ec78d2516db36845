//! Rows that are fetched by their places are those that a scan gave the places of, whatever they are encoded as and whatever is in the
//! cache; and few bytes are read for them.

mod one_table;

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, StringViewArray};
use arrow::datatypes::Int64Type;
use forebay_base::{ErrorKind, LogicalType, Result, limits};
use forebay_block::{EncodeOptions, Encoding};
use forebay_disk::{Disk, FaultKind, Faults, MemoryDisk, SimulatedDisk};
use forebay_engine::ascending::is_ascending;
use forebay_engine::fetch::{FetchOptions, fetch};
use forebay_engine::unique::is_unique;
use forebay_engine::{CancelToken, Engine, LoadOptions, MemoryShares, Metrics, Scan, ScanSettings};

use one_table::{load, noise, open, table};

const BLOCK: i64 = limits::BLOCK_ROWS as i64;
const BLOCKS: i64 = 5;
const ROWS: i64 = BLOCKS * BLOCK - 1000;

/// Columns: k is the number of the row, v noise, s text, c the same in all rows of a block, n NULL in whole blocks.
const COLUMNS: [&str; 5] = ["k", "v", "s", "c", "n"];

/// NULL in some rows, and empty in some.
fn text(row: i64) -> Option<String> {
    let text = || format!("text {}", noise(row).rem_euclid(50_000)).repeat((row % 3) as usize);
    (row % 7 != 0).then(text)
}

fn number(row: i64) -> Option<i64> {
    ((row / BLOCK) % 2 == 0).then_some(row / 100)
}

fn loaded(disk: Arc<dyn Disk>, options: LoadOptions) {
    let engine = open(disk, MemoryShares::alone(1 << 30).keeping(0)).expect("a new database opens");
    let logical = |name| if name == "s" { LogicalType::Varchar } else { LogicalType::Int64 };
    let of_block = |block: i64| -> Vec<ArrayRef> {
        let rows = block * BLOCK..((block + 1) * BLOCK).min(ROWS);
        vec![
            Arc::new(Int64Array::from_iter_values(rows.clone())),
            Arc::new(Int64Array::from_iter_values(rows.clone().map(noise))),
            Arc::new(StringViewArray::from_iter(rows.clone().map(text))),
            Arc::new(Int64Array::from_iter_values(rows.clone().map(|_| block))),
            Arc::new(Int64Array::from_iter(rows.map(number))),
        ]
    };
    load(&engine, &COLUMNS.map(|name| (name, logical(name))), options, (0..BLOCKS).map(of_block));
}

/// The places of all rows, by k.
fn places(engine: &Arc<Engine>) -> HashMap<i64, i64> {
    let known = table(engine);
    let (columns, metrics) = (vec![0, COLUMNS.len()], Arc::default());
    let scan = Scan::new(Arc::clone(engine), Arc::clone(known.with_places()), columns, metrics, CancelToken::default());
    let scan = Arc::new(scan.expect("a scan"));
    let mut places = HashMap::new();
    while let Some(morsel) = scan.next_morsel() {
        let mut rows = scan.run(morsel, &mut [], &mut []).expect("rows");
        while let Some(batches) = rows.next_block().expect("a block") {
            for batch in batches {
                let column = |index: usize| batch.column(index).as_primitive::<Int64Type>().values().to_vec();
                places.extend(column(0).into_iter().zip(column(1)));
            }
        }
    }
    assert_eq!(places.len() as i64, ROWS, "each row once");
    places
}

fn fetched(engine: &Engine, places: &[Option<i64>], settings: ScanSettings) -> Result<(Vec<ArrayRef>, u64)> {
    let (metrics, cancel) = (Metrics::default(), CancelToken::default());
    let options = FetchOptions { settings, metrics: &metrics, cancel: &cancel };
    let arrays = fetch(engine, &table(engine), &[0, 1, 2, 3, 4], places, options)?;
    Ok((arrays, metrics.snapshot().read_bytes))
}

/// Panics unless these are the rows.
#[track_caller]
fn check(arrays: &[ArrayRef], rows: &[Option<i64>]) {
    let integer = |column: usize, index: usize| {
        let array = arrays[column].as_primitive::<Int64Type>();
        array.is_valid(index).then(|| array.value(index))
    };
    for (index, row) in rows.iter().enumerate() {
        let texts = arrays[2].as_string_view();
        let found = texts.is_valid(index).then(|| texts.value(index).to_owned());
        assert_eq!(found, row.and_then(text), "text of {row:?}");
        let found = [0, 1, 3, 4].map(|column| integer(column, index));
        let wanted = [*row, row.map(noise), row.map(|row| row / BLOCK), row.and_then(number)];
        assert_eq!(found, wanted, "{row:?}");
    }
    assert!(arrays.iter().all(|array| array.len() == rows.len()));
}

/// Rows out of order, twice, at the ends of blocks, and none.
fn some_rows(count: i64) -> Vec<Option<i64>> {
    let ends = [0, 1, BLOCK - 1, BLOCK, 2 * BLOCK - 1, ROWS - 1, 0].map(Some);
    let any = (0..count).map(|number| Some((number * 7_919_317) % ROWS));
    ends.into_iter().chain([None]).chain(any).collect()
}

#[test]
fn fetched_rows_are_those_of_the_scan_in_every_encoding() {
    for force in [None].into_iter().chain(Encoding::ALL.map(Some)) {
        for chunk_blocks in [1, 4] {
            let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::default());
            let options = LoadOptions {
                chunk_blocks: Some(chunk_blocks),
                encode: EncodeOptions { force },
                ..LoadOptions::default()
            };
            loaded(Arc::clone(&disk), options);
            let engine = open(disk, MemoryShares::alone(1 << 30)).expect("it opens again");
            let places = places(&engine);
            for count in [0, 3, 400] {
                let rows = some_rows(count);
                let wanted: Vec<_> = rows.iter().map(|row| row.map(|row| places[&row])).collect();
                let (arrays, _) = fetched(&engine, &wanted, ScanSettings::default()).expect("fetched");
                check(&arrays, &rows);
            }
            let (arrays, read) = fetched(&engine, &[], ScanSettings::default()).expect("nothing");
            check(&arrays, &[]);
            assert_eq!(read, 0);
        }
    }
}

#[test]
fn few_bytes_are_read_and_none_of_what_is_in_memory() {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::default());
    loaded(Arc::clone(&disk), LoadOptions::default());
    let rows = [Some(70_000), Some(ROWS - 5)];
    let wanted = {
        let engine = open(Arc::clone(&disk), MemoryShares::alone(1 << 30).keeping(0)).expect("it opens");
        let places = places(&engine);
        let wanted = rows.map(|row| row.map(|row| places[&row]));
        let (arrays, read) = fetched(&engine, &wanted, ScanSettings::default()).expect("fetched");
        check(&arrays, &rows);
        let known = table(&engine);
        let groups = known.segments.iter().flat_map(|segment| segment.groups().expect("a footer"));
        let chunks = groups.flat_map(|group| group.columns.iter()).flat_map(|column| &column.chunks);
        let stored: u64 = chunks.map(|chunk| chunk.stored_bytes).sum();
        assert!(read > 0 && read * 4 < stored, "{read} of {stored}");
        wanted
    };
    let engine = open(disk, MemoryShares::alone(1 << 30)).expect("it opens");
    let known = table(&engine);
    for _ in 0..2 {
        let scan = Scan::new(
            Arc::clone(&engine),
            Arc::clone(&known),
            vec![0, 1, 2, 3, 4],
            Arc::default(),
            CancelToken::default(),
        );
        let scan = Arc::new(scan.expect("a scan"));
        while let Some(morsel) = scan.next_morsel() {
            scan.run(morsel, &mut [], &mut []).expect("rows");
        }
    }
    let (arrays, read) = fetched(&engine, &wanted, ScanSettings::default()).expect("fetched");
    check(&arrays, &rows);
    assert_eq!(read, 0, "all of it is in the cache");
}

/// Who declares a key may have loaded values twice with an earlier program, and what is loaded in order has none twice.
#[test]
fn keys_are_told_from_columns_with_values_twice() {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::default());
    loaded(Arc::clone(&disk), LoadOptions::default());
    let engine = open(disk, MemoryShares::alone(1 << 30)).expect("it opens");
    let (known, cancel) = (table(&engine), CancelToken::default());
    let unique = |column| is_unique(&engine, &known, column, (2, &Arc::default()), &cancel).expect("readable");
    // Numbers of rows; text, the same in each block, NULL in some.
    assert_eq!([0, 2, 3, 4].map(unique), [true, false, false, false]);
    let orders = |columns: &[usize]| is_ascending(&engine, &known, columns, (2, &Arc::default()), &cancel);
    for (columns, expected) in [
        (&[0][..], true),
        (&[3, 0], true),
        (&[0, 1], true),
        (&[1], false),
        (&[2], false),
        (&[3], false),
        (&[4, 0], false),
        (&[], false),
    ] {
        assert_eq!(orders(columns).expect("readable"), expected, "{columns:?}");
    }
}

#[test]
fn wrong_places_are_mistakes() {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::default());
    loaded(Arc::clone(&disk), LoadOptions::default());
    let engine = open(disk, MemoryShares::alone(1 << 30).keeping(0)).expect("it opens");
    let places = places(&engine);
    let (last, first) = (places[&(ROWS - 1)], places[&0]);
    for wrong in [last + 1, first - 1, first | 3 << 40] {
        let error = fetched(&engine, &[Some(wrong)], ScanSettings::default()).expect_err("there is no such row");
        assert_eq!(error.kind(), ErrorKind::Internal, "{error}");
    }
}

#[test]
fn a_fault_in_any_read_is_an_error_or_harmless() {
    let disk = SimulatedDisk::new(7, Faults::default());
    loaded(Arc::new(disk.clone()), LoadOptions::default());
    let quiet = disk.crash();
    let engine = open(Arc::new(quiet.clone()), MemoryShares::alone(1 << 30).keeping(0)).expect("it opens");
    let opened = quiet.calls();
    let by_row = places(&engine);
    drop(engine);
    let rows = [Some(70_000), Some(ROWS - 5)];
    let wanted = rows.map(|row| row.map(|row| by_row[&row]));
    let mut disk = quiet.crash();
    let engine = open(Arc::new(disk.clone()), MemoryShares::alone(1 << 30).keeping(0)).expect("it opens");
    let from = disk.calls();
    check(&fetched(&engine, &wanted, ScanSettings::default()).expect("a sound disk").0, &rows);
    let calls = disk.calls() - from;
    drop(engine);
    assert!(calls >= 5 && opened > 0, "{calls} calls");
    let mut failed = 0;
    for call in 1..=calls {
        for kind in [FaultKind::Eio, FaultKind::ShortRead, FaultKind::BitFlip] {
            disk = disk.crash_with(Faults { fail_call: Some((from + call, kind)), ..Faults::default() });
            let Ok(engine) = open(Arc::new(disk.clone()), MemoryShares::alone(1 << 30).keeping(0)) else { continue };
            match fetched(&engine, &wanted, ScanSettings::default()) {
                Ok((arrays, _)) => check(&arrays, &rows),
                Err(error) => {
                    assert!(matches!(error.kind(), ErrorKind::Io | ErrorKind::Corrupt), "{error}");
                    failed += 1;
                }
            }
        }
    }
    assert!(failed > 0, "some calls are reads of frames");
}
