//! Small segments that gather while a table is changed, where rows of them are deleted one by one.

mod texts;

use forebay::{Database, Options, Params, Session};

use crate::texts::{ok, run};

/// More rows than become hot.
const ROWS: u64 = 9_000;
/// So many segments of about one size are merged.
const SEGMENTS: u64 = 32;

fn database() -> Database {
    Database::in_memory(&Options { threads: Some(2), ..Options::default() }).expect("a database")
}

fn number(session: &Session, query: &str) -> u64 {
    run(session, query).expect(query)[0][0].parse().expect("a number")
}

fn insert(session: &Session, place: u64) {
    let (first, last) = (place * ROWS, (place + 1) * ROWS);
    ok(session, &format!("INSERT INTO t SELECT i, i FROM range({first}, {last}) AS r(i)"));
}

/// A segment for each INSERT, of which rows are then deleted one by one, and changed where `updates`, as those do who find them by key.
fn filled(session: &Session, updates: bool) {
    ok(session, "CREATE TABLE t (k BIGINT PRIMARY KEY, v BIGINT)");
    (0..SEGMENTS - 1).for_each(|place| insert(session, place));
    let delete = session.prepare("DELETE FROM t WHERE k = $1").expect("prepared");
    let update = session.prepare("UPDATE t SET v = 0 WHERE k = $1").expect("prepared");
    for place in 0..SEGMENTS - 1 {
        let row = i64::try_from(place * ROWS + place).expect("few rows");
        session.execute_prepared(&delete, &Params::new().push(row)).expect("deleted");
        if updates {
            session.execute_prepared(&update, &Params::new().push(row + 1)).expect("changed");
        }
    }
    assert!(delete.runs_by_key());
}

#[track_caller]
fn check(session: &Session, rows: u64, updates: bool) {
    let gone: u64 = (0..SEGMENTS - 1).map(|place| place * ROWS + place).sum();
    let zero: u64 = (0..SEGMENTS - 1).map(|place| place * ROWS + place + 1).filter(|_| updates).sum();
    let expected = [rows - (SEGMENTS - 1), (0..rows).sum::<u64>() - gone - zero];
    let query = "SELECT count(*), sum(v) FROM t";
    assert_eq!(run(session, query).expect(query), [expected.map(|number| number.to_string()).to_vec()]);
}

/// Segments that are files.
fn files(session: &Session) -> u64 {
    number(session, "SELECT count(*) FROM forebay.segments WHERE table_name = 't' AND segment_id < 500000000000")
}

#[test]
fn segments_with_rows_that_are_deleted_one_by_one_are_merged() {
    let session = database().session();
    filled(&session, false);
    check(&session, (SEGMENTS - 1) * ROWS, false);
    assert_eq!(files(&session), SEGMENTS - 1);
    insert(&session, SEGMENTS - 1);
    check(&session, SEGMENTS * ROWS, false);
    assert_eq!(files(&session), 1, "they were merged");
    ok(&session, "CHECKPOINT");
    check(&session, SEGMENTS * ROWS, false);
}

#[test]
fn segments_stay_in_front_of_hot_rows_that_lie_between() {
    let session = database().session();
    filled(&session, true);
    insert(&session, SEGMENTS - 1);
    assert_eq!(files(&session), SEGMENTS, "hot rows lie in front of the last one");
    check(&session, SEGMENTS * ROWS, true);
    ok(&session, "CHECKPOINT");
    assert!(files(&session) < 4, "they are frozen, and all are merged");
    check(&session, SEGMENTS * ROWS, true);
}

#[test]
fn segments_are_not_merged_while_a_transaction_is_open() {
    let database = database();
    let (session, other) = (database.session(), database.session());
    filled(&session, false);
    ok(&other, "BEGIN; DELETE FROM t WHERE k = 5; ROLLBACK; BEGIN; SELECT count(*) FROM t");
    insert(&session, SEGMENTS - 1);
    assert_eq!(files(&session), SEGMENTS, "another transaction may need them as they are");
    ok(&other, "COMMIT");
    insert(&session, SEGMENTS);
    assert_eq!(files(&session), 1, "the next commit merges them");
    check(&session, (SEGMENTS + 1) * ROWS, false);
}

#[test]
fn a_hot_row_keeps_the_segments_on_both_sides_apart() {
    let session = database().session();
    ok(&session, "CREATE TABLE t (k BIGINT PRIMARY KEY, v BIGINT)");
    (0..SEGMENTS - 1).for_each(|place| insert(&session, place));
    ok(&session, "INSERT INTO t VALUES (-1, 0)");
    insert(&session, SEGMENTS - 1);
    assert_eq!(files(&session), SEGMENTS, "no 32 of them are neighbours");
    // As many again behind it.
    (SEGMENTS..2 * SEGMENTS - 1).for_each(|place| insert(&session, place));
    assert_eq!(files(&session), SEGMENTS, "those behind it are merged");
    let rows = (2 * SEGMENTS - 1) * ROWS;
    let expected = [rows + 1, (0..rows).sum()].map(|number| number.to_string()).to_vec();
    assert_eq!(run(&session, "SELECT count(*), sum(v) FROM t").expect("rows"), [expected]);
}
