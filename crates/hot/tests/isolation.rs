//! Anomalies by their names (Adya 1999; Bailis et al. 2013), as steps of transactions on one thread: snapshot isolation prevents all of them but write skew.

use std::sync::Arc;

use forebay_base::{ErrorKind, PhysicalType};
use forebay_hot::{Batch, Cell, Commits, HotTable, Row, RowId, Transaction};

/// Rows of one value: 10 and 20.
struct Rows {
    commits: Arc<Commits>,
    table: HotTable,
    one: RowId,
    two: RowId,
}

fn rows() -> Rows {
    let commits = Commits::new(0);
    let table = HotTable::new(1, "t", vec![PhysicalType::I64], 0, &commits);
    let mut first = Transaction::begin(&commits);
    let [one, two] = [10, 20].map(|value| table.insert(&mut first, &[Cell::i64(value)]).expect("inserts do not fail"));
    first.commit();
    Rows { commits, table, one, two }
}

impl Rows {
    fn begin(&self) -> Transaction {
        Transaction::begin(&self.commits)
    }

    fn read(&self, transaction: &Transaction, row: RowId) -> Option<i64> {
        let mut out = Row::default();
        let is_seen = self.table.get(transaction.view(), row, &[0], &mut out).expect("held");
        is_seen.then(|| out.cell(0).as_i64().expect("not NULL"))
    }

    /// All values that are seen, in the order of rows: what a predicate reads.
    fn scan(&self, transaction: &Transaction) -> Vec<i64> {
        let mut batch = Batch::default();
        self.table.scan(transaction.view(), 0, 0..100, &[0], &mut batch).expect("held");
        let values = &batch.columns()[0];
        batch.visible().ones().map(|row| values.cell(row).as_i64().expect("not NULL")).collect()
    }

    fn write(&self, transaction: &mut Transaction, row: RowId, value: i64) {
        assert_eq!(self.try_write(transaction, row, value), Ok(true));
    }

    fn try_write(&self, transaction: &mut Transaction, row: RowId, value: i64) -> Result<bool, ErrorKind> {
        self.table.update(transaction, row, &[(0, Cell::i64(value))]).map_err(|error| error.kind())
    }

    fn conflicts(&self, transaction: &mut Transaction, row: RowId, value: i64) {
        assert_eq!(self.try_write(transaction, row, value), Err(ErrorKind::Conflict));
    }

    fn committed(&self) -> Vec<i64> {
        self.scan(&self.begin())
    }
}

#[test]
fn g0_writes_of_two_transactions_do_not_interleave() {
    let rows = rows();
    let (mut a, mut b) = (rows.begin(), rows.begin());
    rows.write(&mut a, rows.one, 11);
    rows.conflicts(&mut b, rows.one, 12);
    assert_eq!(rows.table.writer_of(rows.one), Some(a.id()));
    rows.write(&mut a, rows.two, 21);
    a.commit();
    assert_eq!(rows.table.writer_of(rows.one), None);
    rows.conflicts(&mut b, rows.two, 22);
    b.roll_back();
    assert_eq!(rows.committed(), [11, 21]);
}

#[test]
fn g1a_nobody_reads_what_is_rolled_back() {
    let rows = rows();
    let (mut a, b) = (rows.begin(), rows.begin());
    rows.write(&mut a, rows.one, 101);
    assert_eq!(rows.scan(&b), [10, 20]);
    a.roll_back();
    assert_eq!(rows.scan(&b), [10, 20]);
    assert_eq!(rows.committed(), [10, 20]);
}

#[test]
fn g1b_nobody_reads_what_its_transaction_overwrites() {
    let rows = rows();
    let (mut a, b) = (rows.begin(), rows.begin());
    rows.write(&mut a, rows.one, 101);
    assert_eq!(rows.scan(&b), [10, 20]);
    let _between = a.savepoint();
    rows.write(&mut a, rows.one, 11);
    a.commit();
    assert_eq!(rows.scan(&b), [10, 20]);
    assert_eq!(rows.committed(), [11, 20]);
}

#[test]
fn g1c_two_transactions_do_not_read_each_other() {
    let rows = rows();
    let (mut a, mut b) = (rows.begin(), rows.begin());
    rows.write(&mut a, rows.one, 11);
    rows.write(&mut b, rows.two, 22);
    assert_eq!((rows.read(&a, rows.two), rows.read(&b, rows.one)), (Some(20), Some(10)));
    a.commit();
    assert_eq!(rows.read(&b, rows.one), Some(10));
    b.commit();
    assert_eq!(rows.committed(), [11, 22]);
}

#[test]
fn otv_what_is_observed_does_not_vanish() {
    let rows = rows();
    let (mut a, mut b) = (rows.begin(), rows.begin());
    rows.write(&mut a, rows.one, 11);
    rows.write(&mut a, rows.two, 19);
    rows.conflicts(&mut b, rows.one, 12);
    a.commit();
    let reader = rows.begin();
    assert_eq!(rows.read(&reader, rows.one), Some(11));
    let mut b = rows.begin();
    rows.write(&mut b, rows.one, 12);
    rows.write(&mut b, rows.two, 18);
    assert_eq!(rows.read(&reader, rows.two), Some(19));
    b.commit();
    assert_eq!(rows.scan(&reader), [11, 19]);
}

#[test]
fn pmp_a_predicate_finds_the_same_rows_again() {
    let rows = rows();
    let (a, mut b) = (rows.begin(), rows.begin());
    assert_eq!(rows.scan(&a), [10, 20]);
    rows.table.insert(&mut b, &[Cell::i64(30)]).expect("inserts do not fail");
    b.commit();
    assert_eq!(rows.scan(&a), [10, 20]);
    assert_eq!((rows.table.count(a.view()), rows.committed()), (2, vec![10, 20, 30]));
}

#[test]
fn pmp_a_write_by_a_predicate_meets_rows_that_were_changed() {
    let rows = rows();
    let (mut a, mut b) = (rows.begin(), rows.begin());
    rows.write(&mut a, rows.one, 20);
    rows.write(&mut a, rows.two, 30);
    a.commit();
    // DELETE … WHERE value = 20 by its own snapshot means row two.
    assert_eq!(rows.scan(&b), [10, 20]);
    assert_eq!(rows.table.delete(&mut b, rows.two).map_err(|error| error.kind()), Err(ErrorKind::Conflict));
    b.roll_back();
    assert_eq!(rows.committed(), [20, 30]);
}

#[test]
fn p4_no_update_is_lost() {
    let rows = rows();
    let (mut a, mut b) = (rows.begin(), rows.begin());
    assert_eq!((rows.read(&a, rows.one), rows.read(&b, rows.one)), (Some(10), Some(10)));
    rows.write(&mut a, rows.one, 11);
    a.commit();
    rows.conflicts(&mut b, rows.one, 11);
    let error = rows.table.update(&mut b, rows.one, &[(0, Cell::Null)]).expect_err("it conflicts again").to_string();
    assert!(error.contains("row 0 of chunk 0") && error.contains("table t"), "{error}");
    drop(b);
    assert_eq!(rows.committed(), [11, 20]);
}

#[test]
fn g_single_all_reads_are_of_one_moment() {
    let rows = rows();
    let (mut a, mut b) = (rows.begin(), rows.begin());
    assert_eq!(rows.read(&a, rows.one), Some(10));
    rows.write(&mut b, rows.one, 12);
    rows.write(&mut b, rows.two, 18);
    b.commit();
    assert_eq!(rows.read(&a, rows.two), Some(20));
    // Nor does a write that depends on it go through.
    rows.conflicts(&mut a, rows.two, 0);
}

#[test]
fn g_single_deleted_rows_are_still_read() {
    let rows = rows();
    let (a, mut b) = (rows.begin(), rows.begin());
    assert_eq!(rows.table.delete(&mut b, rows.two).map_err(|error| error.kind()), Ok(true));
    assert_eq!((rows.read(&b, rows.two), rows.table.count(b.view())), (None, 1));
    b.commit();
    rows.table.prune();
    assert_eq!((rows.scan(&a), rows.table.count(a.view())), (vec![10, 20], 2));
    drop(a);
    assert_eq!(rows.committed(), [10]);
}

#[test]
fn g2_item_write_skew_is_possible() {
    let rows = rows();
    let (mut a, mut b) = (rows.begin(), rows.begin());
    assert_eq!((rows.scan(&a), rows.scan(&b)), (vec![10, 20], vec![10, 20]));
    rows.write(&mut a, rows.one, 11);
    rows.write(&mut b, rows.two, 21);
    a.commit();
    // What a serializable transaction would ask before its commit: what was changed since it read?
    let changes: Vec<_> = rows.table.changes_since(b.view()).collect();
    assert_eq!(changes.iter().map(|change| change.row).collect::<Vec<_>>(), [rows.one]);
    let value = |row: &Option<Row>| row.as_ref().and_then(|row| row.cell(0).as_i64());
    assert_eq!((value(&changes[0].before), value(&changes[0].after), changes[0].commit), (Some(10), Some(11), 2));
    b.commit();
    assert_eq!(rows.committed(), [11, 21]);
}

#[test]
fn a_transaction_sees_itself_and_goes_back() {
    let rows = rows();
    let mut a = rows.begin();
    rows.write(&mut a, rows.one, 1);
    let first = a.savepoint();
    rows.write(&mut a, rows.one, 2);
    let second = a.savepoint();
    let new = rows.table.insert(&mut a, &[Cell::i64(3)]).expect("inserts do not fail");
    rows.write(&mut a, new, 4);
    assert!(rows.table.delete(&mut a, rows.two).expect("nobody else writes"));
    assert_eq!(rows.try_write(&mut a, rows.two, 0), Ok(false));
    assert_eq!(rows.scan(&a), [2, 4]);
    a.roll_back_to(second);
    assert_eq!(rows.scan(&a), [2, 20]);
    rows.write(&mut a, rows.two, 5);
    a.roll_back_to(first);
    assert_eq!(rows.scan(&a), [1, 20]);
    a.commit();
    assert_eq!(rows.committed(), [1, 20]);
}

#[test]
fn a_commit_that_cannot_be_recorded_changes_nothing() {
    let rows = rows();
    let mut a = rows.begin();
    rows.write(&mut a, rows.one, 1);
    let failed = a.commit_with(|number| Err(forebay_base::Error::input(format!("no room for {number}"))));
    assert_eq!(failed.expect_err("the record fails").message(), "no room for 2");
    assert_eq!((rows.committed(), rows.commits.last()), (vec![10, 20], 1));
    let mut b = rows.begin();
    rows.write(&mut b, rows.one, 2);
    assert_eq!(b.commit(), 2);
}

#[test]
fn bad_calls_are_errors() {
    let rows = rows();
    let mut a = rows.begin();
    let strings = HotTable::new(1, "s", vec![PhysicalType::Bytes], 0, &rows.commits);
    assert!(strings.insert(&mut a, &[]).is_err() && strings.insert(&mut a, &[Cell::i64(1)]).is_err());
    assert!(rows.table.update(&mut a, rows.one, &[(1, Cell::Null)]).is_err());
    assert_eq!(rows.try_write(&mut a, RowId::new(9, 0), 1), Ok(false));
    assert_eq!(rows.try_write(&mut a, RowId::new(0, 999), 1), Ok(false));
    let missing = rows.table.scan(a.view(), 9, 0..1, &[0], &mut Batch::default()).expect_err("no such chunk");
    assert_eq!((missing.kind(), rows.table.bounds(9, 0).is_err()), (ErrorKind::NotFound, true));
    drop(a);
    rows.table.prune();
    let clean = rows.table.freeze(0).expect("held").expect("no versions");
    let mut writer = rows.begin();
    rows.write(&mut writer, rows.one, 3);
    assert!(!rows.table.release(&clean), "it is being changed");
    writer.commit();
    assert!(!rows.table.release(&clean), "it was changed");
    let clean = rows.table.freeze(0).expect("held").expect("no versions");
    assert!(rows.table.release(&clean));
    assert!(rows.table.get(rows.begin().view(), rows.one, &[0], &mut Row::default()).is_err());
    // New rows get a chunk of their own.
    let mut a = rows.begin();
    let row = rows.table.insert(&mut a, &[Cell::i64(7)]).expect("inserts do not fail");
    assert_eq!((row.chunk(), rows.table.chunks()), (1, 0..2));
}
