//! Every call of the store, on disks in memory: what it does, what it refuses, and what is there after a reopen.

use std::sync::Arc;

use forebay_base::{ColumnId, ErrorKind, LogicalType, PhysicalType, Result, TableId, Value};
use forebay_block::{
    ChunkOptions, ColumnStatistics, EncodeOptions, Inflate, PlainColumn, PlainValues, encode_block, inflate_chunk,
    seal_chunk,
};
use forebay_disk::{Disk, FaultKind, Faults, IoMode, LocalDisk, MemoryDisk, OpenMode as FileMode, SimulatedDisk};

use crate::footer::directory;
use crate::{data_directories, fact, footer, head, manifest, projection, rows, store, volume, *};

const INT: (ColumnId, PhysicalType) = (ColumnId(0), PhysicalType::I64);

pub(crate) fn open(disk: &MemoryDisk) -> Result<Store> {
    Store::open(Arc::new(disk.clone()), OpenMode::ReadWrite, "process 1 (test)")
}

pub(crate) fn column(name: &str, logical: LogicalType) -> ColumnDefinition {
    ColumnDefinition { name: name.into(), logical, nullable: true, default: None, missing: None }
}

pub(crate) fn table(name: &str) -> TableDefinition {
    let columns = vec![column("Id", LogicalType::Int64), column("note", LogicalType::Varchar)];
    TableDefinition { schema: "main".into(), name: name.into(), columns, constraints: vec![] }
}

pub(crate) fn change<T>(store: &Store, edit: impl FnOnce(&mut Transaction) -> Result<T>) -> Result<T> {
    let mut transaction = store.begin()?;
    let value = edit(&mut transaction)?;
    transaction.commit()?;
    Ok(value)
}

/// A group of one column: one chunk per block.
fn group(blocks: &[&[i64]]) -> SealedGroup {
    let mut sealed = SealedColumn {
        chunks: vec![],
        blocks_log2: 0,
        plain_bytes: 0,
        zones: vec![],
        statistics: ColumnStatistics::default(),
    };
    for values in blocks {
        sealed.plain_bytes += size_of_val(*values) as u64;
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let plain = PlainColumn {
            physical: PhysicalType::I64,
            rows: values.len(),
            validity: None,
            values: PlainValues::Fixed(&bytes),
        };
        let mut encoded = Vec::new();
        sealed.statistics.add(&plain);
        sealed.zones.push(encode_block(&plain, &EncodeOptions::default(), &mut encoded).expect("plain values encode"));
        let chunk = seal_chunk(&encoded, &[0], &ChunkOptions::default()).expect("one block seals");
        sealed.chunks.push(chunk);
    }
    SealedGroup { block_rows: blocks.iter().map(|block| block.len() as u32).collect(), columns: vec![sealed] }
}

pub(crate) fn segment(store: &Store, values: &[i64]) -> Result<SealedSegment> {
    let writer = store.segment_writer(vec![INT])?;
    writer.append_group(0, group(&[values]))?;
    writer.finish()
}

/// First value and number of rows of every block of the first column.
fn blocks(segment: &Segment) -> Vec<(Option<Value>, usize)> {
    let mut found = Vec::new();
    for (index, group) in segment.groups().expect("a sound footer").iter().enumerate() {
        for (chunk, _) in group.columns[0].chunks.iter().enumerate() {
            let stored = segment.read_chunk((index, 0, chunk)).expect("a chunk");
            let directory = segment.directory(index, 0, chunk).expect("a directory");
            let inflated =
                inflate_chunk(directory, &stored, PhysicalType::I64, &Inflate::default()).expect("a sound chunk");
            for block in 0..inflated.blocks() {
                let zone = &group.columns[0].zones[found.len() % group.block_rows.len()];
                found.push((zone.min.clone(), inflated.block(block).rows()));
            }
        }
    }
    found
}

pub(crate) fn kind<T: std::fmt::Debug>(result: Result<T>) -> ErrorKind {
    result.expect_err("this must fail").kind()
}

pub(crate) fn segment_files(disk: &MemoryDisk) -> usize {
    disk.list("segments").expect("the folder is there").len()
}

#[test]
fn tables_with_rows_are_there_after_a_reopen() {
    let disk = MemoryDisk::new();
    let store = open(&disk).expect("an empty disk becomes a database");
    let id = change(&store, |t| t.create_table(table("Orders"))).expect("a table");
    let writer = store.segment_writer(vec![INT]).expect("a writer");
    writer.append_group(7, group(&[&[30, 31], &[32]])).expect("a group");
    writer.append_group(2, group(&[&[10, 11, 12]])).expect("a group before it");
    let sealed = writer.finish().expect("a segment");
    assert_eq!(sealed.rows(), 6);
    change(&store, |t| t.publish(id, vec![sealed])).expect("publish");
    let check = |store: &Store| {
        let catalog = store.catalog();
        let table = catalog.table("MAIN", "orders").expect("found in any case");
        assert_eq!((table.id, table.name.as_str(), table.rows()), (id, "Orders", 6));
        assert_eq!(table.column("ID").expect("found in any case").1.name, "Id");
        let expected = [(10, 3), (30, 2), (32, 1)].map(|(min, rows)| (Some(Value::Int(min)), rows));
        let segment = &table.segments[0];
        let groups = segment.groups().expect("groups");
        assert_eq!(groups.iter().map(|g| (g.first_row, g.rows)).collect::<Vec<_>>(), [(0, 3), (3, 3)]);
        assert_eq!(groups[0].columns[0].zones[0].min, expected[0].0);
        assert_eq!(groups[1].columns[0].plain_bytes, 24);
        assert_eq!(blocks(segment).iter().map(|b| b.1).collect::<Vec<_>>(), [3, 2, 1]);
        assert_eq!(segment.column_index(ColumnId(1)), None);
        let report = store.check(&mut |_, _| Ok(())).expect("a check");
        assert!(report.error_count == 0 && report.orphans.is_empty(), "{report:?}");
        assert_eq!((report.tables, report.segments, report.chunks), (1, 1, 3));
        assert_eq!(report.bytes, segment.file_bytes());
    };
    check(&store);
    drop(store);
    check(&open(&disk).expect("reopen"));
    let reader = Store::open(Arc::new(disk.clone()), OpenMode::ReadOnly, "reader").expect("read-only");
    check(&reader);
    assert_eq!(kind(reader.begin()), ErrorKind::Locked);
    assert_eq!(kind(reader.segment_writer(vec![INT])), ErrorKind::Locked);
}

#[test]
fn definitions_are_there_after_a_reopen() {
    let disk = MemoryDisk::new();
    let store = open(&disk).expect("a database");
    change(&store, |t| {
        t.create_schema("Sales")?;
        let mut parent = table("parent");
        parent.constraints.push(Constraint::PrimaryKey(vec![ColumnId(0)]));
        let parent = t.create_table(parent)?;
        let mut child = TableDefinition { schema: "sales".into(), ..table("child") };
        child.columns[1].default = Some("'x'".into());
        child.constraints.push(Constraint::Unique(vec![ColumnId(0), ColumnId(1)]));
        child.constraints.push(Constraint::Check { columns: vec![ColumnId(0)], condition: "\"Id\" > 0".into() });
        child.constraints.push(Constraint::ForeignKey {
            columns: vec![ColumnId(0)],
            table: "main.PARENT".into(),
            references: vec!["ID".into()],
        });
        t.create_table(child)?;
        t.add_column(
            parent,
            ColumnDefinition {
                missing: Some(Value::Int(7)),
                nullable: false,
                ..column("price", LogicalType::Decimal { precision: 12, scale: 2 })
            },
        )?;
        let definitions = vec!["(a) AS a + 1".to_owned(), "(a, b) AS a + b".to_owned()];
        t.create_macro(MacroKind::Value, "sales", "Sum", definitions, false)?;
        let range = SequenceRange { start: 3, increment: -2, least: -9, greatest: 3, cycles: true };
        t.create_sequence("sales", "Numbers", range)?;
        assert_eq!(t.take_numbers("Sales", "numbers", 2)?, [3, 1]);
        t.create_type("sales", "Mood", "ENUM('sad')".to_owned(), false)?;
        assert!(t.create_type("Sales", "mood", "INTEGER".to_owned(), false).is_err());
        t.create_type("Sales", "mooD", "ENUM('sad', 'ok')".to_owned(), true)?;
        t.create_macro(MacroKind::Table, "main", "sum", vec!["(n) AS TABLE SELECT n".to_owned()], false)?;
        t.create_view("SALES", "Recent", "select 1", false)
    })
    .expect("definitions");
    let before = store.catalog();
    drop(store);
    let store = open(&disk).expect("reopen");
    let after = store.catalog();
    assert_eq!(format!("{before:?}"), format!("{after:?}"));
    let parent = after.table("main", "parent").expect("a table");
    assert!(!parent.columns[0].nullable, "a primary key is NOT NULL");
    assert_eq!(after.view("sales", "RECENT").expect("a view").sql, "select 1");
    assert_eq!(after.macro_of(MacroKind::Value, "SALES", "sum").expect("a macro").definitions[1], "(a, b) AS a + b");
    assert!(after.macro_of(MacroKind::Table, "sales", "sum").is_none());
    assert_eq!(after.named_type("sales", "mood").expect("a type").definition, "ENUM('sad', 'ok')");
    assert_eq!(after.sequence("sales", "NUMBERS").expect("a sequence").range.increment, -2);
    assert_eq!(change(&store, |t| t.take_numbers("sales", "numbers", 1)).expect("a number"), [-1]);
    assert_eq!(after.schemas().collect::<Vec<_>>(), ["main", "Sales"]);
    assert_eq!((after.tables().count(), after.views().count()), (2, 1));
}

#[test]
fn alterations_and_their_limits() {
    let disk = MemoryDisk::new();
    let store = open(&disk).expect("a database");
    let mut t = store.begin().expect("a transaction");
    let parent = t.create_table(table("parent")).expect("a table");
    let mut definition = table("child");
    let references = vec!["id".to_owned()];
    definition.constraints = vec![
        Constraint::PrimaryKey(vec![ColumnId(0)]),
        Constraint::ForeignKey { columns: vec![ColumnId(0)], table: "main.parent".into(), references },
    ];
    let child = t.create_table(definition).expect("a table");
    assert_eq!(kind(t.create_table(table("PARENT"))), ErrorKind::AlreadyExists);
    assert_eq!(kind(t.create_table(TableDefinition { columns: vec![], ..table("e") })), ErrorKind::Input);
    assert_eq!(kind(t.create_table(TableDefinition { schema: "no".into(), ..table("e") })), ErrorKind::NotFound);
    assert_eq!(kind(t.create_table(table(&"n".repeat(300)))), ErrorKind::Input);
    assert_eq!(kind(t.drop_table(parent)), ErrorKind::Constraint);
    assert_eq!(kind(t.drop_column(parent, ColumnId(0))), ErrorKind::Constraint);
    assert_eq!(kind(t.drop_column(child, ColumnId(0))), ErrorKind::Constraint);
    assert_eq!(kind(t.set_nullable(child, ColumnId(0), true)), ErrorKind::Constraint);
    assert_eq!(kind(t.rename_table(parent, "Child")), ErrorKind::AlreadyExists);
    assert_eq!(kind(t.rename_column(parent, ColumnId(1), "ID")), ErrorKind::AlreadyExists);
    assert_eq!(kind(t.add_column(parent, column("NOTE", LogicalType::Date))), ErrorKind::AlreadyExists);
    assert_eq!(kind(t.drop_table(TableId(99))), ErrorKind::NotFound);

    t.rename_table(parent, "Ancestor").expect("rename");
    t.rename_column(parent, ColumnId(0), "key").expect("rename");
    t.rename_table(parent, "ANCESTOR").expect("another case of its own name");
    t.drop_column(parent, ColumnId(1)).expect("drop a column");
    assert_eq!(kind(t.drop_column(parent, ColumnId(0))), ErrorKind::Constraint);
    assert_eq!(t.add_column(parent, column("note", LogicalType::Date)).expect("add"), ColumnId(2));
    t.set_default(parent, ColumnId(2), Some("now()".into())).expect("default");
    t.set_nullable(parent, ColumnId(2), false).expect("not null");
    let catalog = t.catalog();
    assert!(catalog.table("main", "parent").is_none());
    let altered = catalog.table("main", "ancestor").expect("the new name");
    assert_eq!((altered.columns[1].nullable, altered.columns[1].default.as_deref()), (false, Some("now()")));
    let foreign = &catalog.table_by_id(child).expect("the child").constraints[1];
    let expected = Constraint::ForeignKey {
        columns: vec![ColumnId(0)],
        table: "main.ANCESTOR".into(),
        references: vec!["key".into()],
    };
    assert_eq!(foreign, &expected);

    t.create_view("main", "v", "select 1", false).expect("a view");
    assert_eq!(kind(t.create_view("main", "V", "select 2", false)), ErrorKind::AlreadyExists);
    assert_eq!(kind(t.create_view("main", "ancestor", "select 2", true)), ErrorKind::AlreadyExists);
    t.create_view("main", "V", "select 2", true).expect("replaced");
    t.create_schema("s").expect("a schema");
    assert_eq!(kind(t.create_schema("S")), ErrorKind::AlreadyExists);
    t.create_table(TableDefinition { schema: "s".into(), ..table("inner") }).expect("a table");
    assert_eq!(kind(t.drop_schema("s", false)), ErrorKind::Constraint);
    assert_eq!(kind(t.drop_schema("main", true)), ErrorKind::Input);
    t.drop_schema("s", true).expect("cascade");
    t.drop_table(child).expect("drop");
    t.drop_table(parent).expect("nobody refers to it any more");
    let one = || vec!["() AS 1".to_owned()];
    t.create_macro(MacroKind::Value, "main", "m", one(), false).expect("a macro");
    assert_eq!(kind(t.create_macro(MacroKind::Value, "main", "M", one(), false)), ErrorKind::AlreadyExists);
    t.create_macro(MacroKind::Value, "main", "M", one(), true).expect("replaced");
    t.create_schema("s").expect("a schema");
    t.create_macro(MacroKind::Table, "s", "m", one(), false).expect("of another kind");
    assert_eq!(kind(t.drop_schema("s", false)), ErrorKind::Constraint);
    t.drop_schema("s", true).expect("cascade");
    assert_eq!(kind(t.drop_macro(MacroKind::Table, "s", "m")), ErrorKind::NotFound);
    t.drop_macro(MacroKind::Value, "main", "m").expect("drop");
    t.drop_view("main", "v").expect("drop");
    assert_eq!(kind(t.drop_view("main", "v")), ErrorKind::NotFound);
    assert_eq!(store.catalog().commit_number(), 0, "nothing was committed");
    t.commit().expect("commit");
    assert_eq!(store.catalog().tables().count(), 0);
}

#[test]
fn what_is_not_published_leaves_no_file() {
    let disk = MemoryDisk::new();
    let store = open(&disk).expect("a database");
    let id = change(&store, |t| t.create_table(table("t"))).expect("a table");
    drop(store.segment_writer(vec![INT]).expect("a writer"));
    drop(segment(&store, &[1]).expect("a segment"));
    assert_eq!(segment_files(&disk), 0);
    let mut transaction = store.begin().expect("a transaction");
    transaction.publish(id, vec![segment(&store, &[1]).expect("a segment")]).expect("publish");
    assert_eq!(transaction.catalog().table("main", "t").expect("t").rows(), 1);
    assert_eq!(store.catalog().table("main", "t").expect("t").rows(), 0);
    drop(transaction);
    assert_eq!(segment_files(&disk), 0);
    let wrong = store.segment_writer(vec![(ColumnId(1), PhysicalType::I8)]).expect("a writer").finish().expect("empty");
    assert_eq!(kind(change(&store, |t| t.publish(id, vec![wrong]))), ErrorKind::Internal);
    assert_eq!(segment_files(&disk), 0);
}

#[test]
fn dropped_segments_stay_readable_for_old_snapshots_and_then_go() {
    let disk = MemoryDisk::new();
    let store = open(&disk).expect("a database");
    let id = change(&store, |t| t.create_table(table("t"))).expect("a table");
    let sealed = segment(&store, &[5, 6]).expect("a segment");
    change(&store, |t| t.publish(id, vec![sealed])).expect("publish");
    drop(store);
    // Reopened, so that no file handle is open yet when the table goes.
    let store = open(&disk).expect("reopen");
    let snapshot = store.catalog();
    change(&store, |t| t.drop_table(id)).expect("drop");
    assert_eq!(store.catalog().tables().count(), 0);
    assert_eq!(blocks(&snapshot.table("main", "t").expect("t").segments[0]), [(Some(Value::Int(5)), 2)]);
    assert!(store.check(&mut |_, _| Ok(())).expect("a check").orphans.is_empty());
    assert_eq!(segment_files(&disk), 1);
    drop(snapshot);
    assert_eq!(segment_files(&disk), 0);
}

#[test]
fn many_segments_need_few_open_files() {
    let directory = tempfile::tempdir().expect("a directory");
    let disk = Arc::new(LocalDisk::open(directory.path(), IoMode::Auto).expect("a disk"));
    let store = Store::open(disk, OpenMode::ReadWrite, "test").expect("a database");
    let open_files = || {
        let all = std::fs::read_dir("/proc/self/fd").expect("listed").filter_map(|entry| entry.ok());
        let targets = all.filter_map(|entry| std::fs::read_link(entry.path()).ok());
        targets.filter(|target| target.starts_with(directory.path())).count()
    };
    let id = change(&store, |t| t.create_table(table("t"))).expect("a table");
    let limit = 2 * forebay_base::limits::OPEN_SEGMENTS + 8;
    let sealed: Vec<_> = (0..limit as i64).map(|n| segment(&store, &[n]).expect("a segment")).collect();
    assert!(open_files() < 8, "sealed segments are closed: {}", open_files());
    change(&store, |t| t.publish(id, sealed)).expect("publish");
    let catalog = store.catalog();
    let segments = &catalog.table("main", "t").expect("t").segments;
    for _ in 0..2 {
        for (n, segment) in segments.iter().enumerate() {
            assert_eq!(blocks(segment), [(Some(Value::Int(n as i128)), 1)]);
        }
    }
    assert!(open_files() < limit, "{} files are open", open_files());
    drop(catalog);
    change(&store, |t| t.drop_table(id)).expect("drop");
    assert!(open_files() < 8, "files of segments that are gone are closed: {}", open_files());
}

#[test]
fn nulls_do_not_slip_into_a_column_that_became_not_null() {
    let store = open(&MemoryDisk::new()).expect("a database");
    let id = change(&store, |t| t.create_table(table("t"))).expect("a table");
    let with_null = |store: &Store| {
        let mut group = group(&[&[1, 2]]);
        group.columns[0].zones[0].null_count = 1;
        let writer = store.segment_writer(vec![INT])?;
        writer.append_group(0, group)?;
        writer.finish()
    };
    let loaded = with_null(&store).expect("a segment");
    change(&store, |t| t.publish(id, vec![loaded])).expect("NULLs are allowed");
    // Two loads begin; then another session changes the columns.
    let (early, late) = (with_null(&store).expect("a segment"), with_null(&store).expect("a segment"));
    change(&store, |t| t.set_nullable(id, ColumnId(0), false)).expect("not null");
    let error = change(&store, |t| t.publish(id, vec![early])).expect_err("a NULL in it");
    assert_eq!(error.kind(), ErrorKind::Constraint);
    assert!(error.to_string().contains("Run the statement again"), "{error}");
    // The file of the other one lacks the column `note`, whose missing rows are NULL.
    change(&store, |t| t.set_nullable(id, ColumnId(0), true).and_then(|()| t.set_nullable(id, ColumnId(1), false)))
        .expect("the other one");
    assert_eq!(kind(change(&store, |t| t.publish(id, vec![late]))), ErrorKind::Constraint);
    assert_eq!(store.catalog().table("main", "t").expect("t").rows(), 2);
}

#[test]
fn names_with_dots_are_not_confused() {
    assert_eq!(full_name("main", "t"), "main.t");
    assert_eq!(full_name("a.b", "c\"d"), "\"a.b\".\"c\"\"d\"");
    let store = open(&MemoryDisk::new()).expect("a database");
    let mut t = store.begin().expect("a transaction");
    for schema in ["a", "a.b"] {
        t.create_schema(schema).expect("a schema");
    }
    let target = t.create_table(TableDefinition { schema: "a".into(), ..table("b.c") }).expect("a table");
    let other = t.create_table(TableDefinition { schema: "a.b".into(), ..table("c") }).expect("a table");
    let references = vec!["id".to_owned()];
    let key = Constraint::ForeignKey { columns: vec![ColumnId(0)], table: full_name("A", "B.c"), references };
    let child = t.create_table(TableDefinition { constraints: vec![key], ..table("child") }).expect("a table");
    t.drop_column(other, ColumnId(0)).expect("nothing refers to it");
    t.drop_table(other).expect("nothing refers to it");
    assert_eq!(kind(t.drop_table(target)), ErrorKind::Constraint);
    t.rename_table(target, "d.e").expect("rename");
    let child = t.catalog().table_by_id(child).expect("the child");
    assert!(child.constraints[0].refers_to("a.\"d.e\""), "{:?}", child.constraints);
}

#[test]
fn replace_keeps_row_order_and_notices_changes() {
    let disk = MemoryDisk::new();
    let store = open(&disk).expect("a database");
    let id = change(&store, |t| t.create_table(table("t"))).expect("a table");
    let sealed: Vec<_> = (0..4).map(|n| segment(&store, &[n]).expect("a segment")).collect();
    let ids: Vec<_> = sealed.iter().map(SealedSegment::id).collect();
    change(&store, |t| t.publish(id, sealed)).expect("publish");
    let minima = |store: &Store| -> Vec<Option<Value>> {
        let catalog = store.catalog();
        catalog.table("main", "t").expect("t").segments.iter().map(|s| blocks(s)[0].0.clone()).collect()
    };
    let ints = |values: &[i128]| values.iter().map(|v| Some(Value::Int(*v))).collect::<Vec<_>>();
    let one = segment(&store, &[10]).expect("a segment");
    change(&store, |t| t.replace(id, &ids[1..3], vec![one])).expect("two by one");
    assert_eq!(minima(&store), ints(&[0, 10, 3]));
    let many: Vec<_> = (20..24).map(|n| segment(&store, &[n]).expect("a segment")).collect();
    change(&store, |t| t.replace(id, &ids[..1], many)).expect("one by four");
    let expected = ints(&[20, 21, 22, 23, 10, 3]);
    assert_eq!(minima(&store), expected);
    let late = segment(&store, &[99]).expect("a segment");
    assert_eq!(kind(change(&store, |t| t.replace(id, &ids[1..2], vec![late]))), ErrorKind::NotFound);
    drop(store);
    let store = open(&disk).expect("reopen");
    assert_eq!(minima(&store), expected);
    assert_eq!(segment_files(&disk), 6);
}

#[test]
fn two_holders_and_what_they_are_told() {
    let disk = MemoryDisk::new();
    let store = open(&disk).expect("a database");
    let error = open(&disk).expect_err("it is held");
    assert_eq!(error.kind(), ErrorKind::Locked);
    assert!(error.to_string().contains("process 1 (test)"), "{error}");
    drop(store);
    let reader = |holder: &str| Store::open(Arc::new(disk.clone()), OpenMode::ReadOnly, holder);
    let _two = (reader("a").expect("a reader"), reader("b").expect("another"));
    assert_eq!(kind(open(&disk)), ErrorKind::Locked);
}

#[test]
fn directories_that_are_no_database() {
    let empty: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    assert_eq!(kind(Store::open(Arc::clone(&empty), OpenMode::ReadOnly, "r")), ErrorKind::NotFound);
    assert!(empty.list("").expect("the root").is_empty(), "nothing was made");
    empty.open("notes.txt", FileMode::Create).expect("a file");
    let error = Store::open(Arc::clone(&empty), OpenMode::ReadWrite, "r").expect_err("not ours");
    assert_eq!(error.kind(), ErrorKind::Input);
    assert!(error.to_string().contains("notes.txt"), "{error}");
    assert_eq!(empty.list("").expect("the root"), ["notes.txt"]);
    empty.remove("notes.txt").expect("removed");
    empty.create_directory("photos").expect("a folder");
    let error = Store::open(Arc::clone(&empty), OpenMode::ReadWrite, "r").expect_err("not ours either");
    assert!(error.kind() == ErrorKind::Input && error.to_string().contains("photos"), "{error}");
    let begun = MemoryDisk::new();
    begun.create_directory("segments").expect("what a crash leaves");
    open(&begun).expect("a database");

    let disk = MemoryDisk::new();
    let store = open(&disk).expect("a database");
    change(&store, |t| t.create_view("main", "v", "select 1", false)).expect("a view");
    drop(store);
    disk.remove("HEAD").expect("it is there");
    assert_eq!(kind(open(&disk)), ErrorKind::Corrupt, "a lost HEAD is not an empty directory");
}

/// A manifest that cannot be read just now is not one that may be made anew.
#[test]
fn a_lost_head_and_a_failing_read() {
    let sound = SimulatedDisk::new(1, Faults::default());
    let open = |disk: &SimulatedDisk| Store::open(Arc::new(disk.clone()), OpenMode::ReadWrite, "test");
    let store = open(&sound).expect("a database");
    change(&store, |t| t.create_view("main", "v", "select 1", false)).expect("a view");
    drop(store);
    sound.remove("HEAD").expect("it is there");
    sound.sync_directory("").expect("synced");
    for call in 1..40 {
        let disk = sound.crash_with(Faults { fail_call: Some((call, FaultKind::Eio)), crash_at_call: None });
        open(&disk).expect_err("damaged, or not readable");
        assert_eq!(kind(open(&disk.crash())), ErrorKind::Corrupt, "call {call}");
    }
}

/// What is damaged is counted; what could not be looked at ends the check.
#[test]
fn a_check_that_cannot_read() {
    let sound = SimulatedDisk::new(1, Faults::default());
    let open = |disk: &SimulatedDisk| Store::open(Arc::new(disk.clone()), OpenMode::ReadWrite, "test");
    let store = open(&sound).expect("a database");
    let id = change(&store, |t| t.create_table(table("t"))).expect("a table");
    let sealed = segment(&store, &[5, 6]).expect("a segment");
    change(&store, |t| t.publish(id, vec![sealed])).expect("publish");
    drop(store);
    let mut failed = 0;
    for call in 1..80 {
        let disk = sound.crash_with(Faults { fail_call: Some((call, FaultKind::Eio)), crash_at_call: None });
        let Ok(store) = open(&disk) else { continue };
        match store.check(&mut |_, _| Ok(())) {
            Ok(report) => assert_eq!(report.error_count, 0, "call {call}: {report:?}"),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Io, "call {call}: {error}");
                failed += 1;
            }
        }
    }
    assert!(failed > 8, "{failed} calls of the check failed");
}

#[test]
fn other_format_versions_are_named() {
    for (version, word) in [(FORMAT_VERSION + 1, "newer"), (FORMAT_VERSION_OLDEST - 1, "older")] {
        let disk = MemoryDisk::new();
        drop(open(&disk).expect("a database"));
        let head = disk.open("HEAD", FileMode::Write).expect("HEAD");
        for slot in [0, 4096] {
            let mut record = [0; 24];
            head.read_at(slot, &mut record).expect("a record");
            record[8..12].copy_from_slice(&version.to_le_bytes());
            let crc = forebay_base::checksum::crc32c(&record[..20]);
            record[20..].copy_from_slice(&crc.to_le_bytes());
            head.write_at(slot, &record).expect("write");
        }
        for mode in [OpenMode::ReadWrite, OpenMode::ReadOnly] {
            let error = Store::open(Arc::new(disk.clone()), mode, "x").expect_err("another format");
            assert_eq!(error.kind(), ErrorKind::Version);
            let text = error.to_string();
            let versions = format!("format {version}, this program reads {FORMAT_VERSION_OLDEST} to {FORMAT_VERSION}");
            assert!(text.contains(word) && text.contains(&versions), "{text}");
        }
    }
}

#[test]
fn an_older_manifest_than_head_is_noticed() {
    let disk = MemoryDisk::new();
    let store = open(&disk).expect("a database");
    drop(store);
    let read = |disk: &MemoryDisk| {
        let file = disk.open("forebay.redb", FileMode::Read).expect("the manifest");
        let mut bytes = vec![0; file.len().expect("its length") as usize];
        file.read_at(0, &mut bytes).expect("its bytes");
        bytes
    };
    let old = read(&disk);
    let store = open(&disk).expect("a database");
    change(&store, |t| t.create_table(table("t"))).expect("a table");
    drop(store);
    let file = disk.open("forebay.redb", FileMode::Write).expect("the manifest");
    file.set_len(old.len() as u64).expect("cut");
    file.write_at(0, &old).expect("put back");
    let error = open(&disk).expect_err("a commit is missing");
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.to_string().contains("commit 0"), "{error}");
}

#[test]
fn writers_take_turns() {
    let store = open(&MemoryDisk::new()).expect("a database");
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let store = store.clone();
            scope.spawn(move || {
                for n in 0..5 {
                    change(&store, |t| t.create_table(table(&format!("t{thread}_{n}")))).expect("a table");
                }
            });
        }
    });
    assert_eq!(store.catalog().tables().count(), 20);
    assert_eq!(store.catalog().commit_number(), 20);
}

#[test]
fn groups_from_many_threads_land_in_order() {
    let store = open(&MemoryDisk::new()).expect("a database");
    let writer = store.segment_writer(vec![INT]).expect("a writer");
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let writer = &writer;
            scope.spawn(move || {
                for n in 0..8 {
                    let index = n * 4 + thread;
                    writer.append_group(index, group(&[&[index as i64]])).expect("a group");
                }
            });
        }
    });
    assert_eq!(kind(writer.append_group(3, group(&[&[1]]))), ErrorKind::Internal);
    let sealed = writer.finish().expect("a segment");
    assert_eq!(sealed.rows(), 32);
}

#[test]
fn the_format_document_has_these_constants() {
    let text = include_str!("../../../docs/format.md");
    let constants = [
        ("FORMAT_VERSION", u64::from(FORMAT_VERSION)),
        ("FORMAT_VERSION_OLDEST", u64::from(FORMAT_VERSION_OLDEST)),
        ("HEAD_RECORD_BYTES", head::HEAD_RECORD_BYTES as u64),
        ("HEAD_RECORD_STRIDE", head::HEAD_RECORD_STRIDE),
        ("HEAD_BYTES", head::HEAD_BYTES),
        ("SEGMENT_VERSION", u64::from(footer::SEGMENT_VERSION)),
        ("SKETCH_REGISTERS", forebay_base::limits::SKETCH_REGISTERS as u64),
        ("SPARSE_REGISTERS", footer::sections::SPARSE_REGISTERS as u64),
        ("REGISTER_LIMIT", u64::from(forebay_block::statistics::REGISTER_LIMIT)),
        ("SAMPLE_VALUES", forebay_base::limits::SAMPLE_VALUES as u64),
        ("HEADER_BYTES", footer::HEADER_BYTES),
        ("GROUP_BLOCKS_MAX", forebay_base::limits::GROUP_BLOCKS_MAX as u64),
        ("SEGMENT_VERSION_OLDEST", u64::from(footer::SEGMENT_VERSION_OLDEST)),
        ("SECTION_ENTRY_BYTES", directory::SECTION_ENTRY_BYTES as u64),
        ("SECTION_VERSION", u64::from(directory::SECTION_VERSION)),
        ("SECTION_OPTIONAL", u64::from(directory::SECTION_OPTIONAL)),
        ("SECTION_NO_COLUMN", u64::from(directory::SECTION_NO_COLUMN)),
        ("KEY_BYTES", rows::KEY_BYTES as u64),
        ("ROW_ROOT", u64::from(rows::ROW_ROOT)),
        ("ROW_SCHEMA", u64::from(rows::ROW_SCHEMA)),
        ("ROW_TABLE", u64::from(rows::ROW_TABLE)),
        ("ROW_VIEW", u64::from(rows::ROW_VIEW)),
        ("ROW_SEGMENT", u64::from(rows::ROW_SEGMENT)),
        ("DATABASE_DIRECTORY", u64::from(volume::DATABASE_DIRECTORY.0)),
        ("ROW_DATA_DIRECTORIES", u64::from(rows::ROW_DATA_DIRECTORIES)),
        ("ROW_FACT", u64::from(rows::ROW_FACT)),
        ("ROW_MACRO", u64::from(rows::ROW_MACRO)),
        ("ROW_SEQUENCE", u64::from(rows::ROW_SEQUENCE)),
        ("ROW_TYPE", u64::from(rows::ROW_TYPE)),
        ("ROW_PROJECTIONS", u64::from(rows::ROW_PROJECTIONS)),
        ("ALL_COLUMNS", u64::from(projection::ALL_COLUMNS)),
        ("SOME_COLUMNS", u64::from(projection::SOME_COLUMNS)),
        ("FACT_VERSION", u64::from(fact::FACT_VERSION)),
        ("FACT_HEADER_BYTES", fact::FACT_HEADER_BYTES),
        ("FACT_OPTIONAL", u64::from(fact::FACT_OPTIONAL)),
        ("BIN_SETS_KIND", u64::from(fact::BIN_SETS.0)),
        ("BIN_SETS_VERSION", u64::from(fact::BIN_SETS.1)),
        ("BLOOM_FILTERS_KIND", u64::from(fact::BLOOM_FILTERS.0)),
        ("BLOOM_FILTERS_VERSION", u64::from(fact::BLOOM_FILTERS.1)),
        ("LOG_VERSION", u64::from(record_log::LOG_VERSION)),
        ("LOG_HEADER_BYTES", record_log::LOG_HEADER_BYTES as u64),
        ("RECORD_HEADER_BYTES", record_log::RECORD_HEADER_BYTES as u64),
        ("LOG_FILE_BYTES", forebay_base::limits::LOG_FILE_BYTES as u64),
        ("LOG_RECORD_BYTES", forebay_base::limits::LOG_RECORD_BYTES as u64),
        ("MARKER_VERSION", u64::from(data_directories::MARKER_VERSION)),
        ("NO_PROJECTION", u64::from(forebay_base::ProjectionId::TABLE.0)),
        ("OPTION_NO_COLUMN", u64::from(options::OPTION_NO_COLUMN)),
        ("CONSTRAINT_PRIMARY_KEY", u64::from(rows::CONSTRAINT_PRIMARY_KEY)),
        ("CONSTRAINT_UNIQUE", u64::from(rows::CONSTRAINT_UNIQUE)),
        ("CONSTRAINT_FOREIGN_KEY", u64::from(rows::CONSTRAINT_FOREIGN_KEY)),
        ("CONSTRAINT_CHECK", u64::from(rows::CONSTRAINT_CHECK)),
        ("MACRO_OF_VALUES", u64::from(rows::MACRO_OF_VALUES)),
        ("MACRO_OF_TABLES", u64::from(rows::MACRO_OF_TABLES)),
    ];
    for (name, value) in constants {
        let row = format!("\n| {name} | {value} |\n");
        assert_eq!(text.matches(&row).count(), 1, "docs/format.md lacks {}", row.trim());
    }
    let kinds = [
        ("SECTION_GROUPS", directory::SECTION_GROUPS),
        ("SECTION_CHUNKS", directory::SECTION_CHUNKS),
        ("SECTION_ZONES", directory::SECTION_ZONES),
        ("SECTION_STATISTICS", directory::SECTION_STATISTICS),
        ("SECTION_FRAMES", directory::SECTION_FRAMES),
    ];
    for (name, code) in kinds {
        let row = format!("\n| {name} | {code} |");
        assert_eq!(text.matches(&row).count(), 1, "docs/format.md lacks {}", row.trim());
    }
    let magics = [&head::HEAD_MAGIC, &footer::FOOTER_MAGIC, &footer::HEADER_MAGIC, &data_directories::MARKER_MAGIC];
    for magic in magics.into_iter().chain([&fact::FACT_MAGIC, &record_log::LOG_MAGIC]) {
        let magic = format!("the characters `{}`", std::str::from_utf8(magic).expect("letters"));
        assert!(text.contains(&magic), "docs/format.md lacks {magic}");
    }
    let logs = [record_log::LOG_PATH, record_log::LOG_OLD_PATH];
    let markers = [data_directories::MARKER_PATH, data_directories::MARKER_DRAFT_PATH];
    let paths = [head::HEAD_PATH, head::HEAD_DRAFT_PATH, manifest::MANIFEST_PATH, store::LOCK_PATH];
    for path in paths.into_iter().chain(markers).chain(logs) {
        assert!(text.contains(&format!("`{path}`")), "docs/format.md lacks {path}");
    }
}

/// Rows of the manifest with one payload changed by `edit` and all checksums right.
fn edited(store: &Store, kind: u8, edit: impl Fn(&mut Vec<u8>)) -> rows::Rows {
    let mut all = rows::encode(&store.catalog(), 100);
    let key = *all.keys().find(|key| key[0] == kind).expect("a row of this kind");
    let mut payload = all[&key].clone();
    payload.truncate(payload.len() - 4);
    edit(&mut payload);
    rows::seal_again(&mut all, key, payload);
    all
}

#[test]
fn where_segments_lie_and_how_they_are_sorted() {
    let store = open(&MemoryDisk::new()).expect("a database");
    let id = change(&store, |t| t.create_table(table("t"))).expect("a table");
    let sealed = segment(&store, &[5, 6]).expect("a segment");
    change(&store, |t| t.publish(id, vec![sealed])).expect("publish");
    let load = |edit: &dyn Fn(&mut Vec<u8>)| {
        store::load_catalog(&edited(&store, rows::ROW_SEGMENT, edit), store.volume()).map(|(_, catalog)| catalog)
    };
    // The row ends in data directory, projection, and a sort order without columns.
    let at = |row: &Vec<u8>, from_end: usize| row.len() - from_end;
    let segment_of = |catalog: Catalog| Arc::clone(&catalog.tables().next().expect("a table").segments[0]);
    let sound = segment_of(load(&|_| {}).expect("as it was"));
    assert!(sound.sort_order().is_empty());
    assert_eq!(sound.version().expect("a footer"), footer::SEGMENT_VERSION);
    for (from_end, what) in [(12, "data directory 3"), (8, "projection 3")] {
        let error = load(&|row| {
            let place = at(row, from_end);
            row[place] = 3;
        });
        let error = error.expect_err("unknown");
        assert!(error.kind() == ErrorKind::Corrupt && error.to_string().contains(what), "{error}");
    }
    let sorted_by = |columns: &[(u32, u8)]| {
        load(&|row| {
            let count = at(row, 4);
            row[count] = columns.len() as u8;
            for (column, descending) in columns {
                row.extend_from_slice(&column.to_le_bytes());
                row.push(*descending);
            }
        })
    };
    let sorted = segment_of(sorted_by(&[(0, 1)]).expect("a sort order"));
    assert_eq!(sorted.sort_order(), [SortColumn { column: ColumnId(0), descending: true }]);
    for wrong in [&[(0, 2)][..], &[(1, 0)], &[(0, 0), (0, 1)]] {
        assert_eq!(kind(sorted_by(wrong)), ErrorKind::Corrupt, "{wrong:?}");
    }
    let outside = load(&|row| {
        let place = at(row, 20);
        row[place..place + 8].copy_from_slice(&(sound.footer().offset + 1).to_le_bytes());
    });
    assert_eq!(kind(outside), ErrorKind::Corrupt, "sections behind the footer");
}

/// Options follow their table and columns through every change, and the database through reopening.
#[test]
fn options_are_kept_with_their_table() {
    let disk = MemoryDisk::new();
    let store = open(&disk).expect("a database");
    let id = change(&store, |t| t.create_table(table("t"))).expect("a table");
    let (a, b) =
        (ColumnId(0), change(&store, |t| t.add_column(id, column("b", LogicalType::Int64))).expect("a column"));
    let of = |store: &Store| store.catalog().table_by_id(id).expect("the table").options.clone();
    assert_eq!(of(&store), TableOptions::default());
    let version = |store: &Store| store.catalog().table_by_id(id).expect("the table").version;
    let before = version(&store);
    change(&store, |t| {
        t.set_option(id, Some(b), "compression", Some("zstd"))?;
        t.set_option(id, None, "compression", Some("best_ratio"))
    })
    .expect("options");
    assert_eq!(version(&store), before + 1);
    change(&store, |t| t.rename_column(id, b, "c")).expect("renamed");
    change(&store, |t| t.rename_table(id, "u")).expect("renamed");
    drop(store);

    let store = open(&disk).expect("it opens again");
    let options = of(&store);
    assert_eq!([a, b].map(|id| options.of_column(id, "compression")), [Some("best_ratio"), Some("zstd")]);
    assert_eq!([None, Some(a)].map(|of| options.get(of, "compression")), [Some("best_ratio"), None]);
    assert_eq!(options.of_column(b, "other"), None);
    change(&store, |t| t.drop_column(id, b)).expect("dropped");
    assert_eq!(of(&store).iter().collect::<Vec<_>>(), [(None, "compression", "best_ratio")]);
    change(&store, |t| t.set_option(id, None, "compression", None)).expect("taken back");
    drop(store);
    assert_eq!(of(&open(&disk).expect("it opens again")), TableOptions::default());
}

#[test]
fn options_of_what_is_not_there_are_refused() {
    let store = open(&MemoryDisk::new()).expect("a database");
    let id = change(&store, |t| t.create_table(table("t"))).expect("a table");
    let set = |id, column, name: &str, value| kind(change(&store, |t| t.set_option(id, column, name, Some(value))));
    assert_eq!(set(id, Some(ColumnId(7)), "compression", "zstd"), ErrorKind::NotFound);
    assert_eq!(set(TableId(77), None, "compression", "zstd"), ErrorKind::NotFound);
    assert_eq!(set(id, None, "", "zstd"), ErrorKind::Input);
    assert_eq!(set(id, None, "compression", ""), ErrorKind::Input);
    assert_eq!(set(id, None, "compression", &"x".repeat(100_000)), ErrorKind::Input);
}

/// The bytes of options (docs/format.md, "Manifest"); without any, a row ends as before there were options.
#[test]
fn options_end_the_row_of_a_table() {
    let store = open(&MemoryDisk::new()).expect("a database");
    let id = change(&store, |t| t.create_table(table("t"))).expect("a table");
    let plain = edited(&store, rows::ROW_TABLE, |row| assert!(row.ends_with(&1_u64.to_le_bytes()), "the version"));
    let options: [&[u8]; 8] = [
        &2_u32.to_le_bytes(),
        &[0xff; 4],
        &[1, 0, 0, 0, b'n'],
        &[2, 0, 0, 0, b'v', b'w'],
        &[0; 4],
        &[1, 0, 0, 0, b'm'],
        &[1, 0, 0, 0, b'x'],
        &[],
    ];
    let with = |bytes: &[u8]| edited(&store, rows::ROW_TABLE, |row| row.extend_from_slice(bytes));
    let load = |all: &rows::Rows| store::load_catalog(all, store.volume());
    let (root, catalog) = load(&with(&options.concat())).expect("sound rows");
    let read = &catalog.table_by_id(id).expect("the table").options;
    assert_eq!(read.iter().collect::<Vec<_>>(), [(None, "n", "vw"), (Some(ColumnId(0)), "m", "x")]);
    assert_eq!(rows::encode(&catalog, root.next_file), with(&options.concat()));
    assert_eq!(rows::encode(&load(&plain).expect("sound rows").1, 100), plain);

    let one = [&1_u32.to_le_bytes(), options[4], options[5], options[6]].concat();
    assert!(load(&with(&one)).is_ok());
    let twice = [&2_u32.to_le_bytes(), &one[4..], &one[4..]].concat();
    let backwards = [options[0], &one[4..], options[1], options[2], options[3]].concat();
    let mut of_no_column = one.clone();
    of_no_column[4] = 9;
    let left_over = [one.as_slice(), &[0]].concat();
    for wrong in [&[0; 4][..], &one[..one.len() - 1], &twice, &backwards, &of_no_column, &left_over, &[5]] {
        assert_eq!(kind(load(&with(wrong))), ErrorKind::Corrupt, "{wrong:?}");
    }
}

/// A sort order that was read is written again, byte for byte.
#[test]
fn rows_are_written_as_they_were_read() {
    let store = open(&MemoryDisk::new()).expect("a database");
    let id = change(&store, |t| t.create_table(table("t"))).expect("a table");
    let sealed = segment(&store, &[5, 6]).expect("a segment");
    change(&store, |t| t.publish(id, vec![sealed])).expect("publish");
    let edited = edited(&store, rows::ROW_SEGMENT, |row| {
        let count = row.len() - 4;
        row[count] = 1;
        row.extend_from_slice(&[0, 0, 0, 0, 1]);
    });
    let (root, catalog) = store::load_catalog(&edited, store.volume()).expect("sound rows");
    assert_eq!(rows::encode(&catalog, root.next_file), edited);
}

#[test]
fn commits_raise_the_versions_of_the_tables_that_they_change() {
    let disk = MemoryDisk::new();
    let store = open(&disk).expect("a database");
    let first = change(&store, |t| t.create_table(table("first"))).expect("a table");
    let second = change(&store, |t| t.create_table(table("second"))).expect("a table");
    let versions = |store: &Store| [first, second].map(|id| store.catalog().table_by_id(id).expect("a table").version);
    assert_eq!(versions(&store), [1, 1]);
    let sealed = segment(&store, &[1]).expect("a segment");
    change(&store, |t| t.publish(first, vec![sealed])).expect("publish");
    assert_eq!(versions(&store), [2, 1]);
    change(&store, |t| t.create_view("main", "v", "select 1", false)).expect("a view");
    assert_eq!(versions(&store), [2, 1]);
    change(&store, |t| t.rename_column(second, ColumnId(1), "text").and_then(|()| t.rename_table(second, "third")))
        .expect("two changes, one commit");
    assert_eq!(versions(&store), [2, 2]);
    drop(store);
    assert_eq!(versions(&open(&disk).expect("reopen")), [2, 2]);
}

/// A segment of two groups of two blocks, whose chunks have directories of frames.
fn segment_with_directories(store: &Store) -> SealedSegment {
    let writer = store.segment_writer(vec![INT]).expect("a writer");
    for index in [1, 0] {
        let mut group = group(&[&[1, 2], &[3]]);
        for (number, chunk) in group.columns[0].chunks.iter_mut().enumerate() {
            chunk.directory = vec![(10 * index + number as u64) as u8; 1 + number];
        }
        writer.append_group(index, group).expect("a group");
    }
    writer.finish().expect("a segment")
}

#[test]
fn directories_of_frames_are_read_by_chunk() {
    let disk = MemoryDisk::new();
    let store = open(&disk).expect("a database");
    let id = change(&store, |t| t.create_table(table("t"))).expect("a table");
    let sealed = segment_with_directories(&store);
    change(&store, |t| t.publish(id, vec![sealed])).expect("publish");
    let check = |store: &Store| {
        let catalog = store.catalog();
        let segment = &catalog.table_by_id(id).expect("a table").segments[0];
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for (group, chunk, expected) in
                        [(0, 0, &[0u8][..]), (0, 1, &[1, 1]), (1, 0, &[10]), (1, 1, &[11, 11])]
                    {
                        assert_eq!(segment.directory(group, 0, chunk).expect("a sound section"), expected);
                    }
                });
            }
        });
    };
    check(&store);
    drop(store);
    let store = open(&disk).expect("reopen");
    check(&store);
}

/// Every byte behind the chunks is looked at by a check, and a query's error names file and section.
#[test]
fn damaged_sections_are_found() {
    let disk = MemoryDisk::new();
    let store = open(&disk).expect("a database");
    let id = change(&store, |t| t.create_table(table("t"))).expect("a table");
    let sealed = segment_with_directories(&store);
    let (path, location) = (sealed.segment.path(), sealed.segment.footer());
    let chunks_end = sealed.segment.groups().expect("groups").iter().flat_map(|group| &group.columns[0].chunks);
    let chunks_end = chunks_end.map(|chunk| chunk.offset + chunk.stored_bytes).max().expect("chunks");
    change(&store, |t| t.publish(id, vec![sealed])).expect("publish");
    drop(store);
    let file = disk.open(&path, FileMode::Write).expect("the file");
    for at in chunks_end..location.offset + location.bytes {
        let mut byte = [0];
        file.read_at(at, &mut byte).expect("a byte");
        file.write_at(at, &[byte[0] ^ 0x10]).expect("flip");
        let store = open(&disk).expect("the manifest is sound");
        let report = store.check(&mut |_, _| Ok(())).expect("a check");
        assert_eq!(report.error_count, 1, "byte {at}");
        let catalog = store.catalog();
        let segment = &catalog.table_by_id(id).expect("a table").segments[0];
        let error = segment.directory(0, 0, 0).expect_err("damaged");
        let text = error.to_string();
        assert!(error.kind() == ErrorKind::Corrupt && text.contains(&path), "{text}");
        let place = if at >= location.offset { "in the footer" } else { "in the section" };
        assert!(text.contains(place), "{text}");
        if at < location.metadata_offset {
            assert!(text.contains("FRAMES of column 0"), "{text}");
            assert_eq!(segment.groups().expect("read apart").len(), 2);
        }
        drop((catalog, store));
        file.write_at(at, &byte).expect("flip back");
    }
}

#[test]
fn row_groups_of_many_blocks() {
    let disk = MemoryDisk::new();
    let store = open(&disk).expect("a database");
    let id = change(&store, |t| t.create_table(table("t"))).expect("a table");
    let values: Vec<[i64; 1]> = (0..forebay_base::limits::GROUP_BLOCKS_MAX as i64 + 1).map(|n| [n]).collect();
    let blocks_of: Vec<&[i64]> = values.iter().map(|value| value.as_slice()).collect();
    let writer = store.segment_writer(vec![INT]).expect("a writer");
    assert_eq!(kind(writer.append_group(0, group(&blocks_of))), ErrorKind::Internal, "one block too many");
    writer.append_group(0, group(&blocks_of[1..])).expect("as many as there may be");
    let sealed = writer.finish().expect("a segment");
    change(&store, |t| t.publish(id, vec![sealed])).expect("publish");
    drop(store);
    let catalog = open(&disk).expect("reopen").catalog();
    let expected: Vec<_> = values[1..].iter().map(|value| (Some(Value::Int(value[0].into())), 1)).collect();
    assert_eq!(blocks(&catalog.table_by_id(id).expect("a table").segments[0]), expected);
}

#[test]
fn on_the_machines_disk() {
    let directory = tempfile::tempdir().expect("a directory");
    let disk = |path: &std::path::Path| LocalDisk::open(path, IoMode::Auto).expect("a disk");
    let local = |path, mode| Store::open(Arc::new(disk(path)), mode, "process 7 (test)");
    let store = local(directory.path(), OpenMode::ReadWrite).expect("a database");
    let id = change(&store, |t| t.create_table(table("t"))).expect("a table");
    let sealed = segment(&store, &[5, 6]).expect("a segment");
    change(&store, |t| t.publish(id, vec![sealed])).expect("publish");
    let error = local(directory.path(), OpenMode::ReadOnly).expect_err("it is held");
    assert!(error.kind() == ErrorKind::Locked && error.to_string().contains("process 7 (test)"), "{error}");

    // A copy of the files of a database that is open: what a killed process leaves.
    let killed = tempfile::tempdir().expect("a directory");
    std::fs::create_dir(killed.path().join("segments")).expect("a folder");
    for file in ["HEAD", "forebay.redb", "segments/0000000001.seg"] {
        std::fs::copy(directory.path().join(file), killed.path().join(file)).expect("a copy");
    }
    let before = std::fs::read(killed.path().join("forebay.redb")).expect("the manifest");
    drop(store);
    for place in [directory.path(), killed.path()] {
        let store = local(place, OpenMode::ReadOnly).expect("read-only");
        let catalog = store.catalog();
        assert_eq!(blocks(&catalog.table("main", "t").expect("t").segments[0]), [(Some(Value::Int(5)), 2)]);
        assert_eq!(store.check(&mut |_, _| Ok(())).expect("a check").error_count, 0);
    }
    assert_eq!(std::fs::read(killed.path().join("forebay.redb")).expect("the manifest"), before, "left as it was");
    let store = local(killed.path(), OpenMode::ReadWrite).expect("read-write");
    change(&store, |t| t.drop_table(id)).expect("drop");
    assert!(!killed.path().join("segments/0000000001.seg").exists());
}

#[test]
fn rows_and_numbers_of_sequences_leave_the_schema_as_it_is() {
    let disk = MemoryDisk::new();
    let store = open(&disk).expect("a database");
    let number = || store.catalog().schema_number();
    let id = change(&store, |t| t.create_table(table("t"))).expect("a table");
    let made = number();
    let sealed = segment(&store, &[1]).expect("a segment");
    change(&store, |t| t.publish(id, vec![sealed])).expect("publish");
    assert_eq!(number(), made);
    let range = SequenceRange { start: 1, increment: 1, least: 1, greatest: 9, cycles: false };
    change(&store, |t| t.create_sequence("main", "s", range)).expect("a sequence");
    let with_sequence = number();
    assert!(with_sequence > made);
    change(&store, |t| t.take_numbers("main", "s", 2)).expect("numbers");
    assert_eq!(number(), with_sequence);
    let mut last = with_sequence;
    let mut check = |what: &str| {
        assert!(number() > last, "{what}");
        last = number();
    };
    change(&store, |t| t.create_view("main", "v", "select 1", false)).expect("a view");
    check("a view");
    change(&store, |t| t.create_view("main", "v", "select 2", true)).expect("another one");
    check("a view in the place of one");
    change(&store, |t| t.set_nullable(id, ColumnId(1), false)).expect("NOT NULL");
    check("NOT NULL");
    change(&store, |t| t.set_default(id, ColumnId(0), Some("7".to_owned()))).expect("a default");
    check("a default");
    change(&store, |t| t.rename_table(id, "u")).expect("a name");
    check("a name");
    change(&store, |t| t.create_schema("more")).expect("a schema");
    check("a schema");
    change(&store, |t| t.drop_table(id)).expect("dropped");
    check("a dropped table");
}

#[test]
fn what_is_known_of_a_version_goes_on_to_one_with_more_segments() {
    let disk = MemoryDisk::new();
    let store = open(&disk).expect("a database");
    let id = change(&store, |t| t.create_table(table("t"))).expect("a table");
    let now = || Arc::clone(store.catalog().table_by_id(id).expect("the table"));
    assert_eq!((now().rows(), now().bounds(0)), (0, None));
    let publish = |values: &[i64]| {
        let sealed = segment(&store, values).expect("a segment");
        change(&store, |t| t.publish(id, vec![sealed])).expect("publish");
    };
    publish(&[1, 5]);
    let first = now();
    assert_eq!((first.rows(), first.integers(0)), (2, Some((1, 5))));
    publish(&[-3, 4]);
    // Asked of the one after it only.
    publish(&[9]);
    let last = now();
    assert_eq!((last.rows(), last.integers(0)), (5, Some((-3, 9))));
    assert_eq!((first.rows(), first.integers(0)), (2, Some((1, 5))));
    // In the place of others nothing goes on.
    let old: Vec<_> = last.segments.iter().map(|segment| segment.id()).collect();
    let sealed = segment(&store, &[2]).expect("a segment");
    change(&store, |t| t.replace(id, &old[..2], vec![sealed])).expect("replaced");
    assert_eq!((now().rows(), now().integers(0)), (2, Some((2, 9))));
    assert_eq!(now().bounds(0).map(|bounds| bounds.nulls), Some(0));
}
