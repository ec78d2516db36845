//! Segments that come to a table while a transaction gives keys to its rows: frozen rows, merged segments, rows of others.

mod failing;
mod texts;

use forebay::keyed::Cell;
use forebay::{Database, ErrorKind, Options, Params};

use crate::failing::fails;
use crate::texts::{ok, run};

/// Segments that come while a transaction is open hold rows that were there before, or keys that it gives away, too.
#[test]
fn keys_are_looked_for_in_segments_that_others_add() {
    let database = Database::in_memory(&Options { threads: Some(2), ..Options::default() }).expect("a database");
    let (session, other) = (database.session(), database.session());
    ok(
        &other,
        "CREATE TABLE t (k INTEGER PRIMARY KEY, v INTEGER); INSERT INTO t SELECT i, i FROM range(100, 200) AS r(i)",
    );
    let insert = session.prepare("INSERT INTO t VALUES ($1, 0)").expect("prepared");
    let inserts = |key: i32| session.execute_prepared(&insert, &Params::new().push(key)).map(drop);
    let rows = || run(&other, "SELECT count(*), count(DISTINCT k) FROM t").expect("rows").remove(0);

    // What was frozen was there before.
    ok(&session, "BEGIN");
    inserts(1).expect("a new key");
    ok(&other, "CHECKPOINT");
    inserts(2).expect("a new key");
    ok(&session, "COMMIT");
    let mut transaction = database.transaction().expect("begun");
    let table = transaction.table("t").expect("the table");
    transaction.insert(&table, &[Cell::Fixed(3), Cell::Fixed(0)]).expect("a new key");
    ok(&other, "CHECKPOINT");
    transaction.commit().expect("no conflict");
    assert!(insert.runs_by_key());
    assert_eq!(rows(), ["103", "103"]);

    // Many rows come as a segment, with a key that is given away here; and a hot row with one that is frozen before it is given away.
    let adds =
        ["INSERT INTO t SELECT i, i FROM range(1000, 12000) AS r(i)", "INSERT INTO t VALUES (20000, 0); CHECKPOINT"];
    for (add, key, count) in [(adds[0], 1_500, "11103"), (adds[1], 20_000, "11104")] {
        ok(&session, "BEGIN; SELECT count(*) FROM t");
        let is_before = key == 1_500;
        if is_before {
            inserts(key).expect("nobody else is seen to have it");
        }
        ok(&other, add);
        let given = if is_before { Ok(()) } else { inserts(key) };
        let ended = given.and_then(|()| run(&session, "COMMIT").map(drop));
        let error = ended.expect_err("another row has the key");
        assert!(matches!(error.kind(), ErrorKind::Conflict | ErrorKind::Constraint), "{error}");
        // The error has ended it, or has to be answered with this.
        let _ended = run(&session, "ROLLBACK");
        assert_eq!(rows(), [count, count]);
        inserts(key).expect_err("it is seen now");
    }

    // The same by calls.
    let mut transaction = database.transaction().expect("begun");
    transaction.insert(&table, &[Cell::Fixed(30_000), Cell::Fixed(0)]).expect("a new key");
    ok(&other, "INSERT INTO t SELECT i, i FROM range(25000, 35000) AS r(i)");
    assert_eq!(transaction.commit().expect_err("another row has the key").kind(), ErrorKind::Conflict);
    assert_eq!(rows(), ["21104", "21104"]);
    ok(&other, "CHECK DATABASE");
}

/// NULL is no key, and a key is free whose row was deleted one by one where it was frozen.
#[test]
fn nulls_and_deleted_rows_of_added_segments_are_in_nobodys_way() {
    let database = Database::in_memory(&Options { threads: Some(2), ..Options::default() }).expect("a database");
    let (session, other) = (database.session(), database.session());
    ok(&other, "CREATE TABLE t (k INTEGER PRIMARY KEY, u INTEGER UNIQUE); INSERT INTO t VALUES (1, 1), (2, NULL)");
    let insert = session.prepare("INSERT INTO t VALUES ($1, $2)").expect("prepared");
    let inserts = |key: i32, unique: Option<i32>| {
        session.execute_prepared(&insert, &Params::new().push(key).push(unique)).map(drop)
    };
    ok(&session, "BEGIN; DELETE FROM t WHERE k = 1");
    inserts(3, None).expect("a new key");
    inserts(4, Some(1)).expect("its row is deleted here");
    // Rows of segments come, some with NULL; what is deleted above stays where it is.
    ok(&other, "INSERT INTO t SELECT i, CASE WHEN i % 2 = 0 THEN i END FROM range(1000, 12000) AS r(i)");
    ok(&session, "COMMIT");
    assert!(insert.runs_by_key());
    let query = "SELECT count(*), count(u), count(DISTINCT k), count(DISTINCT u) FROM t";
    assert_eq!(run(&other, query).expect("rows"), [["11003", "5501", "11003", "5501"]]);
    // The key of a column that is not the primary one is looked for, too.
    ok(&session, "BEGIN");
    inserts(5, Some(20_000)).expect("nobody has it yet");
    ok(&other, "INSERT INTO t SELECT i, i FROM range(15000, 25000) AS r(i)");
    fails(&session, "COMMIT", ErrorKind::Conflict);
    assert_eq!(run(&other, "SELECT count(*), count(DISTINCT k) FROM t").expect("rows"), [["21003", "21003"]]);
    ok(&other, "CHECK DATABASE");
}
