//! What versions, strings and snapshots cost in memory.

use forebay_base::PhysicalType;
use forebay_hot::{Batch, Cell, Commits, HotTable, RowId, Transaction};

const ROWS: usize = 1000;

/// Bytes of an undo record with one value of 8 bytes: what issue and documents promise is 64 and the changed values.
const BEFORE_IMAGE_BYTES: usize = 64 + 8;

fn table_of(types: &[PhysicalType], cells: &[Cell<'_>]) -> (std::sync::Arc<Commits>, HotTable) {
    let commits = Commits::new(0);
    let table = HotTable::new(1, "t", types.to_vec(), 0, &commits);
    let mut first = Transaction::begin(&commits);
    for _ in 0..ROWS {
        table.insert(&mut first, cells).expect("inserts do not fail");
    }
    first.commit();
    (commits, table)
}

fn sum(table: &HotTable, view: forebay_hot::View<'_>) -> i64 {
    let mut batch = Batch::default();
    table.scan(view, 0, 0..ROWS, &[0], &mut batch).expect("held");
    batch.visible().ones().map(|row| batch.columns()[0].cell(row).as_i64().expect("not NULL")).sum()
}

#[test]
fn a_million_updates_beside_an_old_snapshot_keep_one_before_image_a_row() {
    let (commits, table) = table_of(&[PhysicalType::I64], &[Cell::i64(1)]);
    let mut snapshots = vec![commits.snapshot()];
    let mut most = 0;
    for round in 0..100_000_usize {
        let mut transaction = Transaction::begin(&commits);
        for change in 0..10 {
            let row = RowId::new(0, ((round * 10 + change) * 7919 % ROWS) as u16);
            assert!(table.update(&mut transaction, row, &[(0, Cell::i64(2))]).expect("nobody else writes"));
        }
        transaction.commit();
        if round == 50_000 {
            snapshots.push(commits.snapshot());
        }
        if round.is_multiple_of(1000) {
            most = most.max(table.memory_bytes().undo);
        }
    }
    // Twice as many before the next pruning, in arrays that may be half empty; pending ones beside them.
    let images = snapshots.len() * ROWS;
    assert!(most <= 4 * images * BEFORE_IMAGE_BYTES, "{most} bytes");
    table.prune();
    let pruned = table.memory_bytes();
    assert!(pruned.undo <= 2 * images * BEFORE_IMAGE_BYTES, "{pruned:?}");
    assert_eq!(sum(&table, snapshots[0].view()), ROWS as i64);
    assert_eq!(sum(&table, snapshots[1].view()), 2 * ROWS as i64);
    drop(snapshots.remove(0));
    table.prune();
    assert!(table.memory_bytes().undo < pruned.undo);
    drop(snapshots);
    table.prune();
    let memory = table.memory_bytes();
    assert_eq!((memory.undo, memory.marks), (0, 0));
    assert!(memory.rows > ROWS * 8 && memory.total() == memory.rows);
}

#[test]
fn a_transaction_that_writes_a_row_again_and_again_keeps_one_before_image() {
    let (commits, table) = table_of(
        &[PhysicalType::I64, PhysicalType::Bytes],
        &[Cell::i64(1), Cell::Bytes(b"a first string of some length")],
    );
    table.prune();
    let mut transaction = Transaction::begin(&commits);
    for round in 0..10_000_i64 {
        let string = format!("string number {round}, of some length");
        let change = if round % 2 == 0 { (0, Cell::i64(round)) } else { (1, Cell::Bytes(string.as_bytes())) };
        assert!(table.update(&mut transaction, RowId::new(0, 3), &[change]).expect("nobody else writes"));
    }
    let memory = table.memory_bytes();
    assert!(memory.undo < 1000, "{memory:?}");
    assert!(memory.strings < 400_000, "{memory:?}");
    transaction.roll_back();
    assert_eq!(sum(&table, commits.snapshot().view()), ROWS as i64);
}

#[test]
fn strings_that_nobody_reads_give_back_their_memory() {
    let long = vec![b'x'; 1000];
    let (commits, table) = table_of(&[PhysicalType::I64, PhysicalType::Bytes], &[Cell::i64(1), Cell::Bytes(&long)]);
    let full = table.memory_bytes().strings;
    assert!(full >= ROWS * long.len());
    for round in 0..20 {
        let mut transaction = Transaction::begin(&commits);
        for row in 0..ROWS {
            let string = vec![b'a' + round; 1000];
            table.update(&mut transaction, RowId::new(0, row as u16), &[(1, Cell::Bytes(&string))]).expect("alone");
        }
        match round % 3 {
            0 => transaction.roll_back(),
            _ => drop(transaction.commit()),
        }
    }
    let memory = table.memory_bytes();
    assert!(memory.strings <= 3 * full, "{memory:?}");
    let mut transaction = Transaction::begin(&commits);
    for row in 0..ROWS {
        assert!(table.delete(&mut transaction, RowId::new(0, row as u16)).expect("alone"));
    }
    transaction.commit();
    table.prune();
    let memory = table.memory_bytes();
    assert!(memory.strings <= full / 5, "{memory:?}");
    assert_eq!((memory.undo, table.count(commits.snapshot().view())), (0, 0));
}

#[test]
fn chunks_end_where_blocks_do() {
    let commits = Commits::new(0);
    let table = HotTable::new(1, "t", vec![PhysicalType::U8], 5, &commits);
    let mut transaction = Transaction::begin(&commits);
    let rows: Vec<RowId> =
        (0..65_537).map(|_| table.insert(&mut transaction, &[Cell::Fixed(1)]).expect("alone")).collect();
    assert_eq!((rows[65_535], rows[65_536]), (RowId::new(5, 65_535), RowId::new(6, 0)));
    let strings = HotTable::new(1, "s", vec![PhysicalType::Bytes], 0, &commits);
    let long = vec![7; 8 << 20];
    let rows: Vec<RowId> =
        (0..9).map(|_| strings.insert(&mut transaction, &[Cell::Bytes(&long)]).expect("alone")).collect();
    assert_eq!(rows.iter().map(|row| row.chunk()).collect::<Vec<_>>(), [0, 0, 0, 0, 1, 1, 1, 1, 2]);
    transaction.roll_back();
    assert_eq!(table.count(commits.snapshot().view()), 0);
    assert!(strings.memory_bytes().strings < 100 << 20);
}

#[test]
fn chunks_without_rows_give_their_memory_back() {
    let commits = Commits::new(0);
    let table = HotTable::new(1, "t", vec![PhysicalType::I64], 3, &commits);
    let mut t = Transaction::begin(&commits);
    let rows: Vec<_> = (0..140_000).map(|row| table.insert(&mut t, &[Cell::i64(row)]).expect("a row")).collect();
    t.commit();
    let old = commits.snapshot();
    let mut t = Transaction::begin(&commits);
    assert!(rows.iter().all(|row| table.delete(&mut t, *row).expect("deleted")));
    assert!(!table.is_empty(), "somebody may take it back");
    t.commit();
    assert!(table.is_empty());
    let full = table.memory_bytes().total();
    table.prune();
    table.release_empty();
    assert_eq!(table.count(old.view()), rows.len(), "a snapshot needs them");
    drop(old);
    table.prune();
    table.release_empty();
    assert!(table.memory_bytes().total() < full / 4);
    assert_eq!((table.count(commits.snapshot().view()), table.chunks()), (0, 3..6));
    // New rows come behind, and rows that are put where they were lie there.
    let mut t = Transaction::begin(&commits);
    let row = table.insert(&mut t, &[Cell::i64(7)]).expect("a row");
    t.commit();
    assert_eq!((row.chunk(), table.count(commits.snapshot().view())), (5, 1));
    let again = HotTable::new(1, "t", vec![PhysicalType::I64], 3, &commits);
    for (at, value) in [(RowId::new(4, 2), 8), (RowId::new(3, 5), 9), (row, 7)] {
        again.put(at, &[Cell::i64(value)]).expect("put");
    }
    assert!(again.put(RowId::new(2, 0), &[Cell::i64(1)]).is_err(), "before all chunks");
    assert_eq!((again.count(commits.snapshot().view()), again.chunks()), (3, 3..6));
    let (mut found, now) = (forebay_hot::Row::default(), commits.snapshot());
    assert!(again.get(now.view(), RowId::new(3, 5), &[0], &mut found).expect("held") && found.cell(0) == Cell::i64(9));
    assert!(!again.get(now.view(), RowId::new(3, 4), &[0], &mut found).expect("held"));
}
