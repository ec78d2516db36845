//! Whole tables through the write flow and the read flow, on disks in memory: sizes that hold, figures, and what errors name.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, StringViewBuilder};
use arrow::buffer::Buffer;
use arrow::datatypes::Int64Type;
use forebay_base::{ErrorKind, LogicalType, PhysicalType, Result, limits};
use forebay_block::{ChunkOptions, EncodeOptions, Encoding, PlainColumn, PlainValues, encode_block, seal_chunk};
use forebay_disk::{Disk, MemoryDisk, OpenMode as FileMode};
use forebay_engine::{CancelToken, Engine, LoadTarget, Loader, MemoryShares, Metrics, Scan};
use forebay_store::{
    ColumnDefinition, OpenMode, SealedColumn, SealedGroup, SealedSegment, Store, TableDefinition, TableSnapshot,
};

/// A database that keeps no chunk in memory, and its disk.
fn database() -> (Arc<Engine>, MemoryDisk) {
    let disk = MemoryDisk::new();
    let store = Store::open(Arc::new(disk.clone()), OpenMode::ReadWrite, "a test").expect("a new database opens");
    (Arc::new(Engine::new(store, MemoryShares::alone(512 << 20).keeping(0), Arc::new(disk.clone()))), disk)
}

/// A new table `main.t`.
fn create(engine: &Engine, columns: Vec<(String, LogicalType)>) -> Result<Arc<TableSnapshot>> {
    let columns = columns
        .into_iter()
        .map(|(name, logical)| ColumnDefinition { name, logical, nullable: true, default: None, missing: None })
        .collect();
    let mut transaction = engine.store().begin()?;
    transaction.create_table(TableDefinition {
        schema: "main".into(),
        name: "t".into(),
        columns,
        constraints: Vec::new(),
    })?;
    transaction.commit()?;
    Ok(table(engine))
}

fn table(engine: &Engine) -> Arc<TableSnapshot> {
    Arc::clone(engine.store().catalog().table("main", "t").expect("the table was made"))
}

fn publish(engine: &Engine, sealed: Vec<SealedSegment>) -> Result<Arc<TableSnapshot>> {
    let mut transaction = engine.store().begin()?;
    transaction.publish(table(engine).id, sealed)?;
    transaction.commit()?;
    Ok(table(engine))
}

/// Loads `batches` with one worker.
fn load(engine: &Engine, batches: impl Iterator<Item = RecordBatch>) -> Result<Arc<TableSnapshot>> {
    let target = LoadTarget::new(engine.store(), &table(engine).columns)?;
    let mut loader = Loader::new(Arc::clone(&target), 0);
    for batch in batches {
        loader.push(&batch)?;
    }
    loader.finish()?;
    let sealed = Arc::into_inner(target).expect("its loader is gone").finish()?;
    publish(engine, sealed)
}

/// Calls `visit` with every batch of all columns, in row order.
fn scan(engine: &Arc<Engine>, table: &Arc<TableSnapshot>, mut visit: impl FnMut(&RecordBatch)) -> Result<Arc<Metrics>> {
    let metrics = Arc::new(Metrics::default());
    let columns = (0..table.columns.len()).collect();
    let cancel = CancelToken::default();
    let scan = Arc::new(Scan::new(Arc::clone(engine), Arc::clone(table), columns, Arc::clone(&metrics), cancel)?);
    while let Some(morsel) = scan.next_morsel() {
        let mut rows = scan.run(morsel, &mut [], &mut [])?;
        while let Some(batches) = rows.next_block()? {
            batches.iter().for_each(&mut visit);
        }
    }
    Ok(metrics)
}

fn batch(columns: Vec<ArrayRef>) -> RecordBatch {
    let named = columns.into_iter().enumerate().map(|(index, array)| (format!("c{index}"), array));
    RecordBatch::try_from_iter_with_nullable(named.map(|(name, array)| (name, array, true))).expect("a valid batch")
}

/// Four columns of 2,000 bytes a row: windows of the same letters, so that the input is small and all values differ.
#[test]
fn wide_rows_end_blocks_and_groups_early() {
    const ROWS: usize = 20_000;
    const WINDOW: usize = 2_000;
    let letters: Vec<u8> = (0..WINDOW as u64 + 65_536)
        .map(|index| b'a' + (index.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as u8 % 26)
        .collect();
    let start = |row: usize, column: usize| (row * 3 + column) % 65_536;
    let (engine, _) = database();
    create(&engine, (0..4).map(|column| (format!("c{column}"), LogicalType::Varchar)).collect()).expect("a table");
    let shared = Buffer::from_vec(letters.clone());
    let batches = (0..ROWS).step_by(1000).map(|first| {
        let column = |column: usize| {
            let mut views = StringViewBuilder::new();
            let block = views.append_block(shared.clone());
            for row in first..first + 1000 {
                views
                    .try_append_view(block, start(row, column) as u32, WINDOW as u32)
                    .expect("a window of the letters");
            }
            Arc::new(views.finish()) as ArrayRef
        };
        batch((0..4).map(column).collect())
    });
    let table = load(&engine, batches).expect("the rows load");

    let groups = table.segments[0].groups().expect("a sound footer");
    assert!(groups.len() > 1, "{} row groups", groups.len());
    for group in groups {
        for rows in &group.block_rows {
            assert!(*rows as usize * 4 * WINDOW <= limits::BLOCK_BYTES, "a block of {rows} rows");
        }
        let encoded: u64 = group.columns.iter().flat_map(|c| &c.chunks).map(|chunk| chunk.encoded_bytes).sum();
        // The block that reaches the limit is the last one.
        assert!((encoded as usize) < limits::GROUP_BYTES + limits::BLOCK_BYTES * 11 / 10, "{encoded} encoded bytes");
    }
    let mut row = 0;
    scan(&engine, &table, |batch| {
        for index in 0..batch.num_rows() {
            for column in 0..4 {
                let start = start(row, column);
                let expected = &letters[start..start + WINDOW];
                assert!(batch.column(column).as_string_view().value(index).as_bytes() == expected, "row {row}");
            }
            row += 1;
        }
    })
    .expect("the rows are read");
    assert_eq!(row, ROWS);
}

#[test]
fn many_columns_end_blocks_early() {
    const COLUMNS: usize = 600;
    let (engine, _) = database();
    create(&engine, (0..COLUMNS).map(|column| (format!("c{column}"), LogicalType::Int64)).collect()).expect("a table");
    let numbers = |first: i64| Arc::new(Int64Array::from_iter_values(first..first + 5000)) as ArrayRef;
    let batches = [0, 5000].into_iter().map(|first| batch(vec![numbers(first); COLUMNS]));
    let table = load(&engine, batches).expect("the rows load");
    let fitting = limits::BLOCK_BYTES / (8 * COLUMNS);
    let groups = table.segments[0].groups().expect("a sound footer");
    assert_eq!(groups[0].block_rows, [fitting as u32, (10_000 - fitting) as u32]);
    let mut found = Vec::new();
    let metrics = scan(&engine, &table, |batch| {
        assert_eq!(batch.column(0), batch.column(COLUMNS - 1));
        found.extend_from_slice(batch.column(0).as_primitive::<Int64Type>().values());
    });
    assert_eq!(found, (0..10_000).collect::<Vec<i64>>());
    let encoded: u64 = groups[0].columns.iter().flat_map(|c| &c.chunks).map(|chunk| chunk.encoded_bytes).sum();
    assert_eq!(metrics.expect("the rows are read").snapshot().scanned_bytes, encoded);
}

/// A segment of one text column whose only block holds `values`, which need not be text.
fn strings(engine: &Engine, values: &[&[u8]], force: Encoding) -> Result<SealedSegment> {
    let plain = PlainColumn {
        physical: PhysicalType::Bytes,
        rows: values.len(),
        validity: None,
        values: PlainValues::Bytes(values),
    };
    let mut encoded = Vec::new();
    let zone = encode_block(&plain, &EncodeOptions { force: Some(force) }, &mut encoded)?;
    let chunk = seal_chunk(&encoded, &[0], &ChunkOptions::default())?;
    let column = SealedColumn {
        chunks: vec![chunk],
        blocks_log2: 0,
        plain_bytes: 9,
        zones: vec![zone],
        statistics: Default::default(),
    };
    let writer = engine.store().segment_writer(vec![(table(engine).columns[0].id, PhysicalType::Bytes)])?;
    writer.append_group(0, SealedGroup { block_rows: vec![values.len() as u32], columns: vec![column] })?;
    writer.finish()
}

#[test]
fn text_that_is_not_utf8_is_named() {
    let cases: [(&[&[u8]], Encoding); 5] = [
        (&[b"a", b"\xff", b"a"], Encoding::Dictionary),
        (&[b"a", b"\xff", b"c"], Encoding::Uncompressed),
        (&[b"a long enough text", b"another one that is no \xc3( text"], Encoding::Dictionary),
        (&[b"\xff", b"\xff"], Encoding::SingleValue),
        (&[b"a", b"a", b"\xff"], Encoding::RunLength),
    ];
    for (values, force) in cases {
        let (engine, _) = database();
        create(&engine, vec![("note".into(), LogicalType::Varchar)]).expect("a table");
        let sealed = strings(&engine, values, force).expect("bytes are written as they are");
        let table = publish(&engine, vec![sealed]).expect("the segment is published");
        let error = scan(&engine, &table, |_| ()).expect_err("the text is checked");
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        let message = error.to_string();
        assert!(
            message.starts_with("a text is not UTF-8 (table main.t, column note, row group 0, chunk 0,"),
            "{message}"
        );
    }
}

#[test]
fn a_failed_read_names_the_chunk_that_failed() {
    let (engine, disk) = database();
    create(&engine, vec![("a".into(), LogicalType::Int64), ("b".into(), LogicalType::Int64)]).expect("a table");
    // Numbers that no encoding makes small: small segments have no file yet.
    let mixed = |number: i64| number.wrapping_mul(0x1e37_79b9_7f4a_7c15);
    let numbers = || Arc::new(Int64Array::from_iter_values((0..20_000).map(mixed))) as ArrayRef;
    let table = load(&engine, std::iter::once(batch(vec![numbers(), numbers()]))).expect("the rows load");
    let segment = &table.segments[0];
    let groups = segment.groups().expect("a sound footer");
    // So that the directories behind the chunks are in memory when the file is cut.
    scan(&engine, &table, |_| ()).expect("a sound file");
    for (column, name) in [(1, "column b"), (0, "column a")] {
        let file = disk.open(&segment.path(), FileMode::Write).expect("the segment's file");
        file.set_len(groups[0].columns[column].chunks[0].offset).expect("a shorter file");
        let error = scan(&engine, &table, |_| ()).expect_err("the file is too short");
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert!(error.to_string().contains(name), "{error}");
    }
}
