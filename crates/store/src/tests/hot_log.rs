//! What the redo log tells of hot rows: of a changed row the columns that were changed.

use super::redo::copied;
use super::*;

/// Both values of every hot row of a table, in order.
fn values(store: &Store, id: TableId) -> Vec<(i64, Vec<u8>)> {
    let mut transaction = store.begin_on(store.catalog()).expect("begun");
    let ids = transaction.hot_row_ids(id).expect("rows");
    let mut rows = Vec::new();
    for row in ids {
        let row = transaction.hot_row(id, row).expect("read").expect("seen");
        let text = match row.cell(1) {
            Cell::Bytes(text) => text.to_vec(),
            other => panic!("{other:?} is no text"),
        };
        rows.push((row.cell(0).as_i64().expect("a number"), text));
    }
    rows
}

fn log_bytes(disk: &dyn Disk) -> usize {
    crate::redo_log::read_logs(disk).expect("sound logs").iter().map(|log| log.bytes.len()).sum()
}

/// Logs of the version before there were changes of columns are read, and those of a later one are not.
#[test]
fn older_logs_are_read() {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let store = Store::open(Arc::clone(&disk), OpenMode::ReadWrite, "test").expect("a database");
    let id = change(&store, |t| t.create_table(table("t"))).expect("a table");
    change(&store, |t| t.insert_hot(id, &[Cell::i64(1), Cell::Bytes(b"old")]).map(drop)).expect("a row");
    let opened = |version: u32| {
        let killed = copied(&*disk);
        let path = killed.list("").expect("listed").into_iter().find(|name| name.starts_with("redo-")).expect("a log");
        let log = killed.open(&path, FileMode::Write).expect("the log");
        let mut header = [0; 24];
        log.read_at(0, &mut header).expect("read");
        header[8..12].copy_from_slice(&version.to_le_bytes());
        let crc = forebay_base::checksum::crc32c(&header[..20]);
        header[20..].copy_from_slice(&crc.to_le_bytes());
        log.write_at(0, &header).expect("written");
        drop(log);
        Store::open(killed, OpenMode::ReadWrite, "test")
    };
    for version in redo_log::REDO_VERSION_OLDEST..=redo_log::REDO_VERSION {
        assert_eq!(values(&opened(version).expect("it opens"), id), [(1, b"old".to_vec())]);
    }
    for version in [redo_log::REDO_VERSION_OLDEST - 1, redo_log::REDO_VERSION + 1] {
        assert_eq!(opened(version).expect_err("another program's").kind(), ErrorKind::Version);
    }
}

/// A record that changes columns of a row that is not there is damage, wherever the row is missing.
#[test]
fn changes_of_rows_that_are_missing_are_damage() {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let store = Store::open(Arc::clone(&disk), OpenMode::ReadWrite, "test").expect("a database");
    let id = change(&store, |t| t.create_table(table("t"))).expect("a table");
    let row = change(&store, |t| t.insert_hot(id, &[Cell::i64(1), Cell::Bytes(b"text")])).expect("a row");
    store.checkpoint().expect("a checkpoint");
    change(&store, |t| t.update_hot(id, row, &[(0, Cell::i64(2))]).map(drop)).expect("changed");
    let killed = copied(&*disk);
    // The manifest of before the row, with the commit number of after: as if redb had lost it.
    let found = manifest::load(&*killed).expect("the manifest");
    let outcome = manifest::Manifest::new(Arc::clone(&killed)).commit(&found.rows, &found.rows, &[]);
    assert!(matches!(outcome, outcome::Outcome::Committed));
    let error = Store::open(killed, OpenMode::ReadWrite, "test").expect_err("a row is missing");
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.to_string().contains("which is not there"), "{error}");
}

#[test]
fn changed_columns_are_there_after_a_kill() {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let store = Store::open(Arc::clone(&disk), OpenMode::ReadWrite, "test").expect("a database");
    let id = change(&store, |t| t.create_table(table("t"))).expect("a table");
    let long = vec![b'x'; 5000];
    let add = |row: i64| change(&store, |t| t.insert_hot(id, &[Cell::i64(row), Cell::Bytes(&long)]));
    let (one, two) = (add(1).expect("a row"), add(2).expect("a row"));
    let mut expected = vec![(1, long.clone()), (2, long.clone())];
    let check = |expected: &[(i64, Vec<u8>)]| {
        let killed = Store::open(copied(&*disk), OpenMode::ReadWrite, "test").expect("it opens");
        assert_eq!((values(&store, id), values(&killed, id)), (expected.to_vec(), expected.to_vec()));
    };
    check(&expected);
    // Not the text, which is long.
    let before = log_bytes(&*disk);
    change(&store, |t| t.update_hot(id, one, &[(0, Cell::i64(11))]).map(drop)).expect("changed");
    assert!(log_bytes(&*disk) - before < 400);
    expected[0].0 = 11;
    check(&expected);
    store.checkpoint().expect("a checkpoint");
    check(&expected);
    // The row itself is in the manifest now.
    change(&store, |t| t.update_hot(id, one, &[(1, Cell::Bytes(b"short"))]).map(drop)).expect("changed");
    change(&store, |t| t.update_hot(id, two, &[(0, Cell::i64(i64::MIN))]).map(drop)).expect("changed");
    expected = vec![(11, b"short".to_vec()), (i64::MIN, long)];
    check(&expected);
    // Column by column with a savepoint between, of which one change is taken back.
    change(&store, |t| {
        t.update_hot(id, two, &[(1, Cell::Bytes(b""))])?;
        let moment = t.moment();
        t.update_hot(id, two, &[(0, Cell::i64(3))])?;
        t.update_hot(id, one, &[(0, Cell::i64(3))])?;
        t.return_to(&moment).expect("nothing is in the way");
        t.update_hot(id, two, &[(0, Cell::i64(4))])?;
        t.insert_hot(id, &[Cell::i64(5), Cell::Bytes(b"new")]).map(drop)
    })
    .expect("changed");
    expected[1] = (4, Vec::new());
    expected.push((5, b"new".to_vec()));
    check(&expected);
    change(&store, |t| {
        t.update_hot(id, one, &[(0, Cell::i64(7))])?;
        t.delete_hot(id, one).map(drop)
    })
    .expect("deleted");
    expected.remove(0);
    check(&expected);
    drop(store);
    let store = Store::open(disk, OpenMode::ReadWrite, "test").expect("it opens");
    assert_eq!(values(&store, id), expected);
}

/// The manifest's file, as programs have written to it that had hot rows there.
#[derive(Debug)]
struct Backend(Arc<dyn forebay_disk::DiskFile>);

impl redb::StorageBackend for Backend {
    fn len(&self) -> std::io::Result<u64> {
        self.0.len().map_err(std::io::Error::other)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> std::io::Result<()> {
        self.0.read_at(offset, out).map_err(std::io::Error::other)
    }

    fn set_len(&self, bytes: u64) -> std::io::Result<()> {
        self.0.set_len(bytes).map_err(std::io::Error::other)
    }

    fn sync_data(&self) -> std::io::Result<()> {
        self.0.sync().map_err(std::io::Error::other)
    }

    fn write(&self, offset: u64, data: &[u8]) -> std::io::Result<()> {
        self.0.write_at(offset, data).map_err(std::io::Error::other)
    }
}

/// Gives a manifest format 4, and no files of hot rows.
fn make_format_4(disk: &Arc<dyn Disk>) {
    let now = manifest::load(&**disk).expect("sound").rows;
    let (mut older, root) = (now.clone(), rows::key(rows::ROW_ROOT, 0));
    let mut payload = now[&root][..now[&root].len() - 4].to_vec();
    payload[..4].copy_from_slice(&4_u32.to_le_bytes());
    rows::seal_again(&mut older, root, payload);
    let written = manifest::Manifest::new(Arc::clone(disk)).commit(&now, &older, &[]);
    assert!(matches!(written, outcome::Outcome::Committed));
}

/// A copy of a database whose hot rows are in the manifest instead of files, as in format 4.
fn with_hot_rows_in_manifest(disk: &dyn Disk) -> Arc<dyn Disk> {
    let copy = copied(disk);
    let found = recovery::load(&*copy).expect("sound");
    make_format_4(&copy);
    let file = copy.open(manifest::MANIFEST_PATH, FileMode::Write).expect("the manifest");
    let database = redb::Builder::new().create_with_backend(Backend(file)).expect("a redb file");
    let transaction = database.begin_write().expect("a transaction");
    let table = redb::TableDefinition::<&[u8], &[u8]>::new("manifest");
    let mut rows = transaction.open_table(table).expect("the table");
    for ((table, row), values) in &found.hot_rows {
        let key = [&[rows::ROW_HOT][..], &table.0.to_be_bytes(), &row.0.to_be_bytes()].concat();
        let crc = forebay_base::checksum::crc32c(&[&key[..], values].concat());
        rows.insert(key.as_slice(), [&values[..], &crc.to_le_bytes()].concat().as_slice()).expect("added");
    }
    drop(rows);
    transaction.commit().expect("committed");
    drop(database);
    let names = copy.list("").expect("listed");
    names.iter().filter(|name| hot_files::is_hot_file(name)).for_each(|name| copy.remove(name).expect("removed"));
    copy
}

/// Hot rows of format 4 are read, and the next checkpoint takes them out of the manifest.
#[test]
fn hot_rows_in_the_manifest_go_to_a_file() {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let store = Store::open(Arc::clone(&disk), OpenMode::ReadWrite, "test").expect("a database");
    let id = change(&store, |t| t.create_table(table("t"))).expect("a table");
    let add = |row: i64| change(&store, |t| t.insert_hot(id, &[Cell::i64(row), Cell::Bytes(b"text")])).expect("a row");
    for row in 0..300 {
        add(row);
    }
    store.checkpoint().expect("a checkpoint");
    let older = with_hot_rows_in_manifest(&*disk);
    assert_eq!(manifest::load(&*older).expect("sound").hot.len(), 300);
    let expected = values(&store, id);
    assert_eq!(expected.len(), 300);
    for is_changed in [false, true] {
        let older = copied(&*older);
        let read_only = Store::open(Arc::clone(&older), OpenMode::ReadOnly, "test").expect("it opens");
        assert_eq!(read_only.catalog().table_by_id(id).expect("there").rows(), 300);
        drop(read_only);
        let opened = Store::open(Arc::clone(&older), OpenMode::ReadWrite, "test").expect("it opens");
        assert_eq!(values(&opened, id), expected);
        let mut expected = expected.clone();
        if is_changed {
            change(&opened, |t| t.insert_hot(id, &[Cell::i64(300), Cell::Bytes(b"text")])).expect("a row");
            expected.push((300, b"text".to_vec()));
            opened.checkpoint().expect("a checkpoint");
            let found = manifest::load(&*older).expect("sound");
            // All of them before the first commit, and what that has changed.
            assert_eq!((found.hot.len(), found.hot_files.len()), (0, 2));
        }
        let again = Store::open(copied(&*older), OpenMode::ReadWrite, "test").expect("it opens");
        assert_eq!(values(&again, id), expected);
    }
}

/// Checkpoints write what has changed, and now and then all; what is found is the same.
#[test]
fn files_of_hot_rows_stay_few() {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let store = Store::open(Arc::clone(&disk), OpenMode::ReadWrite, "test").expect("a database");
    let id = change(&store, |t| t.create_table(table("t"))).expect("a table");
    let rows: Vec<RowId> = (0..200)
        .map(|row| change(&store, |t| t.insert_hot(id, &[Cell::i64(row), Cell::Bytes(b"text")])).expect("a row"))
        .collect();
    let files = || manifest::load(&*disk).expect("sound").hot_files;
    let mut most = 0;
    for round in 0..150_i64 {
        let row = rows[round as usize];
        match round % 3 {
            0 => change(&store, |t| t.delete_hot(id, row).map(drop)).expect("deleted"),
            _ => change(&store, |t| t.update_hot(id, row, &[(0, Cell::i64(-round))]).map(drop)).expect("changed"),
        }
        store.checkpoint().expect("a checkpoint");
        most = most.max(files().len());
        let on_disk = disk.list("").expect("listed").iter().filter(|name| hot_files::is_hot_file(name)).count();
        assert_eq!(on_disk, files().len(), "others are removed");
        if round % 10 == 0 {
            let killed = Store::open(copied(&*disk), OpenMode::ReadWrite, "test").expect("it opens");
            assert_eq!(values(&killed, id), values(&store, id));
        }
    }
    assert!((2..=64).contains(&most), "{most}");
    // Without hot rows there is no file.
    store.freeze().expect("frozen");
    store.checkpoint().expect("a checkpoint");
    assert_eq!(files(), []);
}

/// Hot rows of a log of format 4 are there after the first commit, also where there was no room for a checkpoint when it was opened.
#[test]
fn hot_rows_that_only_a_log_of_format_4_has_outlive_a_commit() {
    let machine = SimulatedDisk::new(11, Faults::default());
    let disk: Arc<dyn Disk> = machine.elsewhere("/db").expect("a path");
    disk.create_directory("").expect("made");
    let store = Store::open(disk, OpenMode::ReadWrite, "test").expect("a database");
    let id = change(&store, |t| t.create_table(table("t"))).expect("a table");
    store.checkpoint().expect("a checkpoint");
    let add = |store: &Store, row: i64| {
        change(store, |t| t.insert_hot(id, &[Cell::i64(row), Cell::Bytes(b"text")])).expect("a row");
    };
    (0..5).for_each(|row| add(&store, row));
    let later = machine.crash();
    make_format_4(&later.elsewhere("/db").expect("a path"));
    let mut without_checkpoint = 0;
    for call in 0.. {
        let full = later.crash_with(Faults { fail_call: Some((call, FaultKind::Enospc)), ..Faults::default() });
        let disk: Arc<dyn Disk> = full.elsewhere("/db").expect("a path");
        let Ok(store) = Store::open(Arc::clone(&disk), OpenMode::ReadWrite, "test") else { continue };
        let is_over = full.calls() <= call;
        assert_eq!(values(&store, id).len(), 5);
        let found = manifest::load(&*disk).expect("sound");
        without_checkpoint += usize::from(rows::verify(&found.rows).expect("sound").version == 4);
        add(&store, 5);
        let expected = values(&store, id);
        assert_eq!(expected.len(), 6);
        let last: Arc<dyn Disk> = full.crash().elsewhere("/db").expect("a path");
        let store = Store::open(last, OpenMode::ReadWrite, "test").expect("it opens");
        assert_eq!(values(&store, id), expected, "no room at call {call}");
        if is_over {
            break;
        }
    }
    assert!(without_checkpoint > 0, "each open has made a checkpoint");
}
