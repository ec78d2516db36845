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
        t.return_to(&moment);
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
