//! Transactions of several statements: what sessions beside each other see, what is a conflict, and what an error leaves.

use std::path::Path;
use std::thread;

use forebay::arrow::array::AsArray;
use forebay::arrow::datatypes::{DataType, Int64Type};
use forebay::{Database, ErrorKind, Options, Params, Session, Statement};

fn database() -> Database {
    Database::in_memory(&Options { threads: Some(2), ..Options::default() }).expect("memory")
}

/// What a statement gives: the integers of its first column.
fn run(session: &Session, text: &str) -> forebay::Result<Vec<i64>> {
    let mut result = session.execute(&Statement { text: text.to_owned() })?;
    let mut values = Vec::new();
    while let Some(batch) = result.next_batch()? {
        let Some(column) = batch.columns().first() else { continue };
        let column = forebay::arrow::compute::cast(column, &DataType::Int64).expect("integers");
        let column = column.as_primitive::<Int64Type>();
        values.extend(column.values().iter().copied());
    }
    Ok(values)
}

#[track_caller]
fn ok(session: &Session, script: &str) {
    for statement in session.statements(script).expect(script) {
        run(session, &statement.text).unwrap_or_else(|error| panic!("{}: {error}", statement.text));
    }
}

#[track_caller]
fn check(session: &Session, text: &str, values: &[i64]) {
    assert_eq!(run(session, text).unwrap_or_else(|error| panic!("{text}: {error}")), values, "{text}");
}

#[track_caller]
fn fails(session: &Session, text: &str, kind: ErrorKind) {
    let error = run(session, text).expect_err(text);
    assert_eq!(error.kind(), kind, "{text}: {error}");
}

/// A session that changes rows by plans, as these tests have it; those of changes by key are in isolation.rs.
fn planned(database: &Database) -> Session {
    let session = database.session();
    ok(&session, "SET point_access = off; SET lock_timeout = 0");
    session
}

/// Two sessions of a database with a table `t` of the rows 1 and 2, in two segments.
fn two_sessions() -> (Session, Session) {
    let database = database();
    let (one, other) = (planned(&database), planned(&database));
    ok(&one, "CREATE TABLE t (a INTEGER, s VARCHAR); INSERT INTO t VALUES (1, 'a'); INSERT INTO t VALUES (2, 'b')");
    (one, other)
}

const ALL: &str = "SELECT a FROM t ORDER BY a";

#[test]
fn a_transaction_sees_its_first_statements_rows_and_its_own() {
    let (one, other) = two_sessions();
    ok(&one, "BEGIN");
    // The snapshot is that of the first statement.
    ok(&other, "INSERT INTO t VALUES (3, 'c')");
    check(&one, ALL, &[1, 2, 3]);
    ok(&other, "INSERT INTO t VALUES (4, 'd'); DELETE FROM t WHERE a = 1; CREATE TABLE u AS SELECT 1 AS a");
    check(&one, ALL, &[1, 2, 3]);
    fails(&one, "SELECT * FROM u", ErrorKind::NotFound);
    ok(&one, "ROLLBACK; BEGIN");
    check(&one, ALL, &[2, 3, 4]);
    ok(&one, "INSERT INTO t VALUES (10, 'x'); UPDATE t SET a = a + 100 WHERE a >= 4");
    check(&one, ALL, &[2, 3, 104, 110]);
    check(&one, "SELECT count(*) FROM t", &[4]);
    check(&other, ALL, &[2, 3, 4]);
    check(&other, "SELECT count(*) FROM t", &[3]);
    ok(&one, "COMMIT");
    check(&other, ALL, &[2, 3, 104, 110]);
}

#[test]
fn nothing_is_kept_of_what_is_rolled_back() {
    let (one, other) = two_sessions();
    ok(&one, "BEGIN; INSERT INTO t VALUES (3, 'c'); DELETE FROM t WHERE a = 1; CREATE TABLE u (b INTEGER)");
    ok(
        &one,
        "CREATE VIEW v AS SELECT a FROM t; CREATE MACRO m(x) AS x + 1; CREATE SCHEMA s; CREATE TEMP TABLE w (c INTEGER)",
    );
    check(&one, "SELECT m(a) FROM v ORDER BY 1", &[3, 4]);
    fails(&other, "SELECT * FROM v", ErrorKind::NotFound);
    ok(&one, "ROLLBACK");
    for gone in ["SELECT * FROM u", "SELECT * FROM v", "SELECT * FROM w", "CREATE TABLE s.t (a INTEGER)"] {
        fails(&one, gone, ErrorKind::NotFound);
    }
    assert!(run(&one, "SELECT m(1)").is_err());
    check(&one, ALL, &[1, 2]);
    check(&one, "SELECT count(DISTINCT segment_id) FROM forebay.segments WHERE table_name = 't'", &[2]);
    ok(&one, "CREATE TABLE u (b INTEGER)");
}

#[test]
fn the_first_to_commit_wins() {
    for (mine, theirs) in [
        ("UPDATE t SET a = 10 WHERE a = 1", "UPDATE t SET a = 20 WHERE a = 1"),
        ("UPDATE t SET a = 10 WHERE a = 1", "DELETE FROM t WHERE a = 1"),
        ("DELETE FROM t", "UPDATE t SET s = 'z' WHERE a = 2"),
        ("TRUNCATE t", "DELETE FROM t WHERE a = 2"),
        ("INSERT INTO t VALUES (3, 'c')", "DROP TABLE t"),
        ("INSERT INTO t VALUES (3, 'c')", "ALTER TABLE t ADD COLUMN b INTEGER"),
        ("ALTER TABLE t RENAME a TO b", "INSERT INTO t VALUES (3, 'c')"),
        ("DROP TABLE t", "INSERT INTO t VALUES (3, 'c')"),
        ("CREATE TABLE u (a INTEGER)", "CREATE TABLE u (b INTEGER)"),
        ("CREATE VIEW u AS SELECT 1 AS a", "CREATE TABLE u (b INTEGER)"),
        ("MERGE INTO t USING (SELECT 1 AS k) n ON a = k WHEN MATCHED THEN DELETE", "DELETE FROM t WHERE a = 1"),
    ] {
        // At the statement, where the other one has committed already.
        let (one, other) = two_sessions();
        ok(&one, "BEGIN; SELECT 1");
        ok(&other, theirs);
        fails(&one, mine, ErrorKind::Conflict);
        fails(&one, "SELECT 1", ErrorKind::Aborted);
        ok(&one, "ROLLBACK");
        // At COMMIT, where it commits in between; nothing is kept of either case.
        let (one, other) = two_sessions();
        ok(&one, "CREATE TABLE kept (a INTEGER); BEGIN; INSERT INTO kept VALUES (1)");
        ok(&one, mine);
        ok(&other, theirs);
        fails(&one, "COMMIT", ErrorKind::Conflict);
        check(&one, "SELECT count(*) FROM kept", &[0]);
        fails(&one, "ROLLBACK", ErrorKind::Input);
    }
}

#[test]
fn what_is_not_the_same_comes_together() {
    let (one, other) = two_sessions();
    ok(&one, "BEGIN; INSERT INTO t VALUES (3, 'c'); UPDATE t SET a = 10 WHERE a = 1; CREATE TABLE u AS SELECT 5 AS a");
    ok(&other, "BEGIN; INSERT INTO t VALUES (4, 'd'); DELETE FROM t WHERE a = 2; CREATE TABLE v AS SELECT 6 AS a");
    ok(&one, "COMMIT");
    check(&other, ALL, &[1, 4]);
    ok(&other, "COMMIT");
    for session in [&one, &other] {
        check(session, ALL, &[3, 4, 10]);
        check(session, "SELECT a FROM u UNION ALL SELECT a FROM v ORDER BY 1", &[5, 6]);
    }
    // Rows that were added are no reason that those before them cannot go.
    ok(&one, "BEGIN; DELETE FROM t");
    ok(&other, "INSERT INTO t VALUES (7, 'g')");
    ok(&one, "COMMIT");
    check(&one, ALL, &[7]);
}

#[test]
fn projections_have_the_rows_of_their_table_after_both() {
    let (one, other) = two_sessions();
    ok(&one, "ALTER TABLE t ADD PROJECTION p (ORDER BY s)");
    ok(&one, "BEGIN; INSERT INTO t VALUES (3, 'c'); SET projections = p");
    check(&one, ALL, &[1, 2, 3]);
    ok(&other, "INSERT INTO t VALUES (4, 'd')");
    check(&one, ALL, &[1, 2, 3]);
    ok(&one, "COMMIT");
    check(&one, ALL, &[1, 2, 3, 4]);
    ok(&one, "BEGIN; UPDATE t SET a = a + 10 WHERE a = 3; INSERT INTO t VALUES (5, 'e')");
    check(&one, ALL, &[1, 2, 4, 5, 13]);
    ok(&one, "ROLLBACK");
    check(&one, ALL, &[1, 2, 3, 4]);
}

#[test]
fn an_error_aborts_the_transaction() {
    for wrong in [
        "SELECT nothing FROM t",
        "SELECT * FROM nowhere",
        "SELEC 1",
        "SELECT CAST(s AS INTEGER) FROM t",
        "INSERT INTO t VALUES ('x', 'y')",
        "CREATE TABLE t (a INTEGER)",
        "DROP TABLE nowhere",
        "BEGIN",
        "CHECKPOINT",
        "OPTIMIZE TABLE t",
        "ANALYZE t",
        "ALTER TABLE t CLUSTER BY (a)",
        "ALTER TABLE t ADD PROJECTION p (ORDER BY a)",
        "SET nothing = 1",
        "ROLLBACK TO nowhere",
        "RELEASE nowhere",
        "EXECUTE nothing",
    ] {
        let (one, _) = two_sessions();
        ok(&one, "BEGIN; INSERT INTO t VALUES (3, 'c')");
        let error = run(&one, wrong).expect_err(wrong);
        assert_ne!(error.kind(), ErrorKind::Aborted, "{wrong}");
        for refused in [
            ALL,
            "SELECT 1",
            "INSERT INTO t VALUES (4, 'd')",
            "SET threads = 1",
            "BEGIN",
            "SAVEPOINT s",
            "EXPLAIN SELECT 1",
        ] {
            fails(&one, refused, ErrorKind::Aborted);
        }
        assert_eq!(one.prepare("SELECT 1").expect_err("refused").kind(), ErrorKind::Aborted);
        // As in DuckDB and PostgreSQL, COMMIT ends it and keeps nothing.
        ok(&one, "COMMIT");
        check(&one, ALL, &[1, 2]);
    }
}

#[test]
fn a_row_that_fails_while_rows_are_read_aborts_the_transaction() {
    let (one, _) = two_sessions();
    ok(&one, "INSERT INTO t SELECT i, CASE WHEN i < 30000 THEN '1' ELSE 'x' END FROM range(40000) r(i); BEGIN");
    let mut result = one.execute(&Statement { text: "SELECT CAST(s AS INTEGER) FROM t".into() });
    let failed = loop {
        match result.as_mut().map(|result| result.next_batch()) {
            Ok(Ok(Some(_))) => {}
            Ok(Ok(None)) => break false,
            _ => break true,
        }
    };
    assert!(failed);
    fails(&one, "SELECT 1", ErrorKind::Aborted);
    ok(&one, "ROLLBACK");
    // A result that nobody reads to the end is no error.
    ok(&one, "BEGIN; INSERT INTO t VALUES (3, 'c')");
    drop(one.execute(&Statement { text: ALL.into() }).expect("it begins"));
    ok(&one, "COMMIT");
}

#[test]
fn statements_of_transactions_belong_where_they_are() {
    let session = planned(&database());
    for outside in ["COMMIT", "END", "ROLLBACK", "ABORT", "SAVEPOINT s", "ROLLBACK TO s", "RELEASE s"] {
        fails(&session, outside, ErrorKind::Input);
    }
    fails(&session, "BEGIN ISOLATION LEVEL CHAOS", ErrorKind::Input);
    fails(&session, "ROLLBACK", ErrorKind::Input);
    for (begin, end) in [
        ("BEGIN TRANSACTION", "COMMIT TRANSACTION"),
        ("BEGIN WORK", "END WORK"),
        ("START TRANSACTION READ WRITE", "END"),
        ("BEGIN ISOLATION LEVEL READ COMMITTED", "ABORT"),
        ("BEGIN ISOLATION LEVEL SERIALIZABLE", "COMMIT"),
        ("begin transaction isolation level repeatable read, read only", "rollback work"),
    ] {
        ok(&session, begin);
        ok(&session, end);
    }
}

#[test]
fn read_only_transactions_change_nothing() {
    let (one, other) = two_sessions();
    ok(&one, "CREATE SEQUENCE s");
    for change in [
        "INSERT INTO t VALUES (3, 'c')",
        "UPDATE t SET a = 1",
        "DELETE FROM t",
        "CREATE TABLE u (a INTEGER)",
        "DROP TABLE t",
        "ALTER TABLE t ADD COLUMN b INTEGER",
        "CREATE VIEW v AS SELECT 1",
        "SELECT nextval('s')",
    ] {
        ok(&one, "BEGIN READ ONLY");
        check(&one, ALL, &[1, 2]);
        let error = run(&one, change).expect_err(change).to_string();
        assert!(error.contains("read-only"), "{change}: {error}");
        ok(&one, "ROLLBACK");
    }
    ok(&one, "BEGIN READ ONLY");
    check(&one, ALL, &[1, 2]);
    ok(&other, "INSERT INTO t VALUES (3, 'c')");
    check(&one, ALL, &[1, 2]);
    ok(&one, "COMMIT");
    check(&one, ALL, &[1, 2, 3]);
}

#[test]
fn savepoints_are_gone_back_to() {
    let (one, other) = two_sessions();
    ok(
        &one,
        "BEGIN; INSERT INTO t VALUES (3, 'c'); SAVEPOINT a; INSERT INTO t VALUES (4, 'd'); CREATE TABLE u (b INTEGER)",
    );
    ok(&one, "SAVEPOINT b; DELETE FROM t");
    check(&one, ALL, &[]);
    ok(&one, "ROLLBACK TO b");
    check(&one, ALL, &[1, 2, 3, 4]);
    assert!(run(&one, "SELECT nothing FROM t").is_err());
    fails(&one, ALL, ErrorKind::Aborted);
    ok(&one, "ROLLBACK TO SAVEPOINT A");
    check(&one, ALL, &[1, 2, 3]);
    fails(&one, "SELECT * FROM u", ErrorKind::NotFound);
    fails(&one, "ROLLBACK TO b", ErrorKind::NotFound);
    ok(&one, "ROLLBACK TO a; INSERT INTO t VALUES (5, 'e'); RELEASE SAVEPOINT a");
    fails(&one, "ROLLBACK TO a", ErrorKind::NotFound);
    check(&other, ALL, &[1, 2]);
    ok(
        &one,
        "ROLLBACK; BEGIN; SAVEPOINT a; INSERT INTO t VALUES (6, 'f'); ROLLBACK TO a; SAVEPOINT a; INSERT INTO t VALUES (7, 'g'); RELEASE a; COMMIT",
    );
    check(&other, ALL, &[1, 2, 7]);
}

#[test]
fn the_time_is_that_of_the_transaction() {
    let (one, _) = two_sessions();
    ok(&one, "BEGIN; CREATE TABLE n AS SELECT now() AS n");
    thread::sleep(std::time::Duration::from_millis(5));
    let same = "SELECT count(*) FROM n WHERE n = now() AND n = current_timestamp";
    check(&one, same, &[1]);
    thread::sleep(std::time::Duration::from_millis(5));
    check(&one, same, &[1]);
    ok(&one, "COMMIT");
    check(&one, same, &[0]);
    check(&one, "SELECT count(*) FROM n WHERE n < now()", &[1]);
}

#[test]
fn numbers_of_sequences_are_given_once() {
    let (one, other) = two_sessions();
    ok(&one, "CREATE SEQUENCE s; BEGIN");
    check(&one, "SELECT nextval('s')", &[1]);
    check(&other, "SELECT nextval('s')", &[2]);
    check(&one, "SELECT nextval('s')", &[3]);
    check(&one, "SELECT currval('s')", &[3]);
    ok(&one, "CREATE SEQUENCE own START 5; CREATE TABLE u (a BIGINT DEFAULT nextval('own'), b INTEGER)");
    ok(&one, "INSERT INTO u (b) VALUES (1); INSERT INTO u (b) VALUES (2)");
    check(&one, "SELECT a FROM u ORDER BY a", &[5, 6]);
    ok(&one, "ROLLBACK");
    check(&one, "SELECT nextval('s')", &[4]);
    assert!(run(&one, "SELECT nextval('own')").is_err());
    ok(&one, "BEGIN; CREATE SEQUENCE own");
    check(&one, "SELECT nextval('own')", &[1]);
    ok(&one, "COMMIT");
    check(&other, "SELECT nextval('own')", &[2]);
    // Dropped meanwhile by another session: the transaction sees it still.
    ok(&one, "BEGIN; SELECT 1");
    ok(&other, "DROP SEQUENCE s");
    fails(&one, "SELECT nextval('s')", ErrorKind::Conflict);
    ok(&one, "ROLLBACK");
}

#[test]
fn kept_plans_and_prepared_statements_see_the_transaction() {
    let (one, other) = two_sessions();
    let sums = "SELECT sum(a) FROM t";
    let prepared = one.prepare("SELECT a FROM t WHERE a >= $1 ORDER BY a").expect("prepared");
    let asked = |session: &Session, least: i32| -> Vec<i64> {
        let mut result = session.execute_prepared(&prepared, &Params::new().push(least)).expect("runs");
        let mut values = Vec::new();
        while let Some(batch) = result.next_batch().expect("rows") {
            let column = forebay::arrow::compute::cast(batch.column(0), &DataType::Int64).expect("integers");
            values.extend(column.as_primitive::<Int64Type>().iter().flatten());
        }
        values
    };
    for session in [&one, &other] {
        check(session, sums, &[3]);
        check(session, sums, &[3]);
    }
    ok(&one, "BEGIN; INSERT INTO t VALUES (10, 'x')");
    check(&one, sums, &[13]);
    assert_eq!((asked(&one, 2), asked(&other, 2)), (vec![2, 10], vec![2]));
    check(&other, sums, &[3]);
    // The same name is another table in one session.
    ok(&one, "DROP TABLE t; CREATE TABLE t AS SELECT 100 AS a UNION ALL SELECT 200");
    check(&one, sums, &[300]);
    check(&other, sums, &[3]);
    check(&one, sums, &[300]);
    assert_eq!((asked(&one, 2), asked(&other, 2)), (vec![100, 200], vec![2]));
    ok(&one, "ALTER TABLE t RENAME a TO b; ALTER TABLE t ADD COLUMN a INTEGER DEFAULT 7");
    check(&one, sums, &[14]);
    check(&other, sums, &[3]);
    ok(&one, "ROLLBACK");
    check(&one, sums, &[3]);
    ok(&one, "BEGIN; ALTER TABLE t RENAME a TO b; ALTER TABLE t ADD COLUMN a INTEGER DEFAULT 7");
    check(&one, sums, &[14]);
    ok(&one, "COMMIT");
    check(&one, sums, &[14]);
    check(&other, sums, &[14]);
    ok(&one, "PREPARE p AS SELECT b FROM t WHERE b > $1 ORDER BY b; BEGIN; DELETE FROM t WHERE b = 2");
    check(&one, "EXECUTE p(0)", &[1]);
    assert!(run(&one, "EXECUTE p('x')").is_err());
    fails(&one, "EXECUTE p(0)", ErrorKind::Aborted);
    ok(&one, "ROLLBACK");
    check(&one, "EXECUTE p(0)", &[1, 2]);
}

#[test]
fn explain_and_system_tables_see_the_transaction() {
    let (one, other) = two_sessions();
    ok(&one, "BEGIN; CREATE TABLE u AS SELECT * FROM range(10) r(a); INSERT INTO t VALUES (3, 'c')");
    let tables = "SELECT count(*) FROM information_schema.tables WHERE table_schema = 'main'";
    check(&one, tables, &[2]);
    check(&other, tables, &[1]);
    let segments = "SELECT count(DISTINCT segment_id) FROM forebay.segments";
    check(&one, segments, &[4]);
    check(&other, segments, &[2]);
    ok(&one, "EXPLAIN SELECT a FROM u; EXPLAIN ANALYZE SELECT a FROM u; DESCRIBE u; SUMMARIZE u; SHOW STATS u");
    assert!(one.names().tables.contains(&"u".to_owned()));
    assert!(!other.names().tables.contains(&"u".to_owned()));
    ok(&one, "COMMIT");
    check(&other, tables, &[2]);
}

#[test]
fn facts_and_bounds_are_right_for_rows_that_are_not_committed() {
    let (one, other) = two_sessions();
    ok(
        &one,
        "CREATE TABLE f AS SELECT i AS k, i % 1000 AS v FROM range(200000) r(i); CREATE TABLE d AS SELECT i AS v, i % 7 AS g FROM range(1000) r(i)",
    );
    ok(&one, "CREATE TABLE key_of_d AS SELECT 1 AS x; ANALYZE f; ANALYZE d");
    let joined = "SELECT count(*) FROM f JOIN d ON f.v = d.v WHERE d.g = 3 AND f.k < 1000";
    let before = run(&one, joined).expect("joined");
    ok(&one, "BEGIN; UPDATE d SET g = 3; INSERT INTO f VALUES (-5, 999), (500000, 12)");
    check(&one, joined, &[1001]);
    check(&one, "SELECT min(k) FROM f", &[-5]);
    check(&one, "SELECT max(k) FROM f", &[500_000]);
    check(&other, joined, &before);
    check(&other, "SELECT max(k) FROM f", &[199_999]);
    ok(&one, "DELETE FROM f WHERE k BETWEEN 0 AND 199998");
    check(&one, "SELECT count(*) FROM f", &[3]);
    check(&one, "SELECT k FROM f ORDER BY k", &[-5, 199_999, 500_000]);
    ok(&one, "ROLLBACK");
    check(&one, joined, &before);
}

#[test]
fn a_session_that_ends_rolls_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = folder.path().join("db");
    let open = || Database::open(&place, &Options::default()).expect("open");
    let files = |place: &Path| std::fs::read_dir(place.join("segments")).expect("a folder").count();
    let database = open();
    let session = planned(&database);
    // Segments of few rows have no file before a checkpoint, temporary ones among them.
    ok(&session, "CREATE TABLE t AS SELECT 1 AS a; CHECKPOINT");
    assert_eq!(files(&place), 1);
    let many = "SELECT i * 7919 % 999983 AS a FROM range(100000) r(i)";
    ok(&session, &format!("BEGIN; INSERT INTO t {many}; CREATE TABLE u AS {many}; CREATE TEMP TABLE w AS {many}"));
    assert_eq!(files(&place), 4);
    drop(session);
    assert_eq!(files(&place), 1, "what was written is removed");
    let session = planned(&database);
    check(&session, "SELECT a FROM t", &[1]);
    // Rolled back, with a result that is still being read.
    ok(&session, "BEGIN; INSERT INTO t SELECT i FROM range(100000) r(i)");
    let mut result = session.execute(&Statement { text: "SELECT a FROM t".into() }).expect("it begins");
    ok(&session, "ROLLBACK");
    let mut rows = 0;
    while let Some(batch) = result.next_batch().expect("rows") {
        rows += batch.num_rows();
    }
    assert_eq!(rows, 100_001);
    drop(result);
    check(&session, "SELECT a FROM t", &[1]);
    drop(session);
    drop(database);
    assert_eq!(files(&place), 1);
    check(&planned(&open()), "SELECT a FROM t", &[1]);
}

#[test]
fn sessions_that_write_at_once_lose_nothing() {
    let database = database();
    ok(&planned(&database), "CREATE TABLE t (w INTEGER, n INTEGER); CREATE SEQUENCE s");
    thread::scope(|scope| {
        for writer in 0..4 {
            let session = planned(&database);
            scope.spawn(move || {
                for n in 0..10 {
                    if n % 2 == 0 {
                        ok(&session, &format!("INSERT INTO t VALUES ({writer}, {n})"));
                    } else {
                        ok(
                            &session,
                            &format!("BEGIN; INSERT INTO t VALUES ({writer}, {n}); SELECT nextval('s'); COMMIT"),
                        );
                    }
                }
            });
        }
    });
    let session = planned(&database);
    check(&session, "SELECT count(*) FROM (SELECT DISTINCT w, n FROM t)", &[40]);
    check(&session, "SELECT nextval('s')", &[21]);
}

const SEGMENTS: &str = "SELECT count(DISTINCT segment_id) FROM forebay.segments WHERE table_name = 't'";

#[test]
fn small_segments_are_merged_as_they_gather() {
    let database = database();
    let (one, other) = (planned(&database), planned(&database));
    ok(&one, "CREATE TABLE t (a INTEGER PRIMARY KEY, s VARCHAR)");
    let add = |rows: std::ops::Range<i64>| {
        rows.for_each(|row| ok(&one, &format!("INSERT INTO t VALUES ({row}, 'row {row}')")));
    };
    add(0..31);
    check(&one, SEGMENTS, &[31]);
    add(31..32);
    check(&one, SEGMENTS, &[1]);
    add(32..70);
    check(&one, SEGMENTS, &[8]);
    check(&one, "SELECT count(*) FROM t WHERE s = 'row ' || a", &[70]);
    fails(&one, "INSERT INTO t VALUES (3, 'twice')", ErrorKind::Constraint);
    // Not while that could conflict with what another transaction changes.
    ok(&other, "BEGIN; UPDATE t SET s = 'other' WHERE a = 65");
    let before = run(&one, SEGMENTS).expect("counted")[0];
    one.execute(&Statement { text: "CREATE TABLE u (a INTEGER)".to_owned() }).expect("made");
    (0..40).for_each(|row| ok(&one, &format!("INSERT INTO u VALUES ({row})")));
    check(&one, "SELECT count(DISTINCT segment_id) FROM forebay.segments WHERE table_name = 'u'", &[40]);
    ok(&other, "COMMIT");
    check(&one, "SELECT a FROM t WHERE s = 'other'", &[65]);
    check(&one, SEGMENTS, &[before]);
    ok(&one, "INSERT INTO u VALUES (40)");
    check(&one, "SELECT count(DISTINCT segment_id) FROM forebay.segments WHERE table_name = 'u'", &[1]);
    check(&one, "SELECT sum(a) FROM u", &[820]);
    // Larger ones gather by themselves, and smaller ones behind them.
    ok(&one, "CREATE TABLE v (a INTEGER)");
    let of_v = "SELECT count(DISTINCT segment_id) FROM forebay.segments WHERE table_name = 'v'";
    (0..31).for_each(|n| ok(&one, &format!("INSERT INTO v SELECT * FROM range({n} * 40, {n} * 40 + 40)")));
    check(&one, of_v, &[31]);
    (1240..1260).for_each(|row| ok(&one, &format!("INSERT INTO v VALUES ({row})")));
    check(&one, of_v, &[51]);
    ok(&one, "INSERT INTO v SELECT * FROM range(1260, 1300)");
    check(&one, of_v, &[1]);
    check(&one, "SELECT sum(a) FROM v", &[1299 * 1300 / 2]);
}

/// Every copy of the rows has all of them in its own order, and few segments.
#[test]
fn projections_and_ordered_tables_are_merged_as_they_gather() {
    let session = planned(&database());
    ok(&session, "CREATE TABLE t (a INTEGER, b INTEGER); INSERT INTO t VALUES (0, 0)");
    ok(&session, "ALTER TABLE t CLUSTER BY (b); ALTER TABLE t ADD PROJECTION p (ORDER BY a)");
    (1..70).for_each(|row| ok(&session, &format!("INSERT INTO t VALUES ({row}, {row} * 37 % 70)")));
    ok(&session, "INSERT INTO t VALUES (NULL, NULL)");
    for copy in ["off", "p"] {
        ok(&session, &format!("SET projections = '{copy}'"));
        check(&session, "SELECT a FROM t WHERE a IS NOT NULL ORDER BY a", &(0..70).collect::<Vec<_>>());
        check(&session, "SELECT count(*) FROM t WHERE b = a * 37 % 70", &[70]);
    }
    let of_copy = |is_own: &str| {
        let condition = format!("table_name = 't' AND projection_name IS {is_own}");
        run(&session, &format!("SELECT count(*) FROM forebay.segments WHERE {condition}")).expect("counted")[0]
    };
    assert!(of_copy("NULL") < 32 && of_copy("NOT NULL") < 32);
}

/// Each of them changes rows of the one segment: what has read too early is done again.
#[test]
fn statements_of_their_own_are_run_again_after_a_conflict() {
    let database = database();
    ok(&planned(&database), "CREATE TABLE t AS SELECT i AS a, 0 AS n FROM range(4) t(i); CREATE SEQUENCE s");
    thread::scope(|scope| {
        for writer in 0..4 {
            let session = planned(&database);
            scope.spawn(move || {
                for _ in 0..15 {
                    ok(&session, "UPDATE t SET n = n + 1 + 0 * nextval('s')");
                    ok(&session, &format!("DELETE FROM t WHERE a = {writer} + 100"));
                    ok(&session, &format!("INSERT INTO t VALUES ({writer} + 100, nextval('s'))"));
                }
            });
        }
    });
    let session = planned(&database);
    check(&session, "SELECT DISTINCT n FROM t WHERE a < 100", &[60]);
    check(&session, "SELECT count(*) FROM t WHERE a >= 100", &[4]);
    check(&session, "SELECT nextval('s') > 60 * 4 + 60", &[1]);
}

/// Two sessions of a database with a table `t` of 20,000 rows in one segment.
fn two_sessions_of_a_large_table() -> (Session, Session) {
    let database = database();
    let (one, other) = (planned(&database), planned(&database));
    ok(&one, "CREATE TABLE t AS SELECT i AS a, 'row ' || i AS s FROM range(20000) r(i)");
    (one, other)
}

#[test]
fn transactions_that_change_different_rows_of_a_large_segment_both_commit() {
    let (one, other) = two_sessions_of_a_large_table();
    ok(&one, "BEGIN; UPDATE t SET s = 'one' WHERE a BETWEEN 10 AND 12; DELETE FROM t WHERE a = 15");
    ok(&other, "BEGIN; UPDATE t SET s = 'other' WHERE a BETWEEN 13 AND 14; DELETE FROM t WHERE a = 16");
    check(&one, "SELECT a FROM t WHERE a BETWEEN 10 AND 16 ORDER BY a", &[10, 11, 12, 13, 14, 16]);
    ok(&one, "COMMIT");
    // It still sees what it has seen.
    check(&other, "SELECT count(*) FROM t WHERE s = 'one'", &[0]);
    check(&other, "SELECT a FROM t WHERE a BETWEEN 10 AND 16 ORDER BY a", &[10, 11, 12, 13, 14, 15]);
    ok(&other, "COMMIT");
    for session in [&one, &other] {
        check(session, "SELECT a FROM t WHERE a BETWEEN 10 AND 16 ORDER BY a", &[10, 11, 12, 13, 14]);
        check(session, "SELECT count(*) FROM t WHERE s IN ('one', 'other')", &[5]);
        check(session, "SELECT count(*) FROM t", &[19_998]);
    }
    // The same row.
    for (mine, theirs) in [
        ("UPDATE t SET s = 'mine' WHERE a = 20", "UPDATE t SET s = 'theirs' WHERE a = 20"),
        ("DELETE FROM t WHERE a IN (20, 21)", "DELETE FROM t WHERE a IN (21, 22)"),
        ("UPDATE t SET s = 'mine' WHERE a = 23", "DELETE FROM t WHERE a = 23"),
        ("UPDATE t SET s = 'mine'", "DELETE FROM t WHERE a = 24"),
    ] {
        ok(&one, "BEGIN; SELECT 1");
        ok(&other, theirs);
        fails(&one, mine, ErrorKind::Conflict);
        ok(&one, "ROLLBACK");
        check(&one, "SELECT count(*) FROM t WHERE s = 'mine'", &[0]);
    }
}

#[test]
fn transactions_that_write_different_keys_both_commit() {
    let database = database();
    let (one, other) = (planned(&database), planned(&database));
    ok(&one, "CREATE TABLE t (a INTEGER PRIMARY KEY, u INTEGER UNIQUE); INSERT INTO t VALUES (1, 1), (2, 2)");
    ok(&one, "BEGIN; INSERT INTO t VALUES (3, 3); INSERT INTO t VALUES (5, 5)");
    ok(&other, "BEGIN; INSERT INTO t VALUES (4, 4)");
    ok(&one, "COMMIT");
    fails(&one, "INSERT INTO t VALUES (5, 6)", ErrorKind::Constraint);
    ok(&other, "INSERT INTO t VALUES (6, 6); COMMIT");
    check(&one, ALL, &[1, 2, 3, 4, 5, 6]);
    // The same key, or the same in another column.
    for (mine, theirs) in [
        ("INSERT INTO t VALUES (10, 10)", "INSERT INTO t VALUES (10, 11)"),
        ("INSERT INTO t VALUES (12, 12)", "INSERT INTO t VALUES (13, 12)"),
        ("INSERT INTO t VALUES (14, 14) ON CONFLICT DO NOTHING", "INSERT INTO t VALUES (14, 15)"),
        ("UPDATE t SET a = 16 WHERE a = 1", "INSERT INTO t VALUES (16, 16)"),
    ] {
        ok(&one, "BEGIN");
        ok(&one, mine);
        ok(&other, theirs);
        fails(&one, "COMMIT", ErrorKind::Conflict);
    }
    check(&one, "SELECT u FROM t WHERE a >= 10 ORDER BY a", &[11, 12, 15, 16]);
    // A key that another one gives up is not free before that is seen.
    ok(&one, "BEGIN; SELECT 1");
    ok(&other, "DELETE FROM t WHERE a = 2");
    fails(&one, "INSERT INTO t VALUES (2, 2)", ErrorKind::Constraint);
    ok(&one, "ROLLBACK; INSERT INTO t VALUES (2, 2)");
    check(&one, "SELECT count(*) FROM t WHERE a = 2", &[1]);
}

#[test]
fn foreign_keys_lead_to_rows_whoever_commits_first() {
    // What sessions add that find rows by key is hot.
    for (is_large, is_hot) in [(false, false), (true, false), (false, true), (true, true)] {
        let rows = if is_large { 20_000 } else { 3 };
        let sessions = || {
            let database = database();
            let open = || {
                let session = planned(&database);
                ok(&session, if is_hot { "SET point_access = on" } else { "SELECT 1" });
                session
            };
            let (one, other) = (open(), open());
            ok(&one, "CREATE TABLE p (k INTEGER PRIMARY KEY, s INTEGER); CREATE TABLE c (k INTEGER REFERENCES p (k))");
            ok(&one, &format!("INSERT INTO p SELECT i, 0 FROM range({rows}) r(i)"));
            (one, other)
        };
        let insert = "INSERT INTO c VALUES (1)";
        for (first, second) in [("DELETE FROM p WHERE k = 1", insert), (insert, "DELETE FROM p WHERE k = 1")] {
            let (one, other) = sessions();
            ok(&one, "BEGIN");
            ok(&one, second);
            ok(&other, first);
            fails(&one, "COMMIT", ErrorKind::Conflict);
            check(&one, "SELECT count(*) FROM c WHERE k NOT IN (SELECT k FROM p)", &[0]);
        }
        // Other rows, and other columns of the same one.
        for theirs in
            ["DELETE FROM p WHERE k = 2", "UPDATE p SET s = s + 1 WHERE k = 1", "INSERT INTO p VALUES (-1, 0)"]
        {
            let (one, other) = sessions();
            ok(&one, "BEGIN");
            ok(&one, insert);
            ok(&other, theirs);
            ok(&one, "COMMIT");
            check(&one, "SELECT count(*) FROM c JOIN p ON c.k = p.k", &[1]);
        }
        // Both sides in one transaction.
        let (one, other) = sessions();
        ok(&one, "BEGIN; INSERT INTO p VALUES (-5, 0); INSERT INTO c VALUES (-5)");
        ok(&other, "INSERT INTO p VALUES (-6, 0); INSERT INTO c VALUES (-6)");
        ok(&one, "COMMIT");
        check(&one, "SELECT count(*) FROM c JOIN p ON c.k = p.k", &[2]);
    }
}

#[test]
fn sessions_that_write_keys_at_once_lose_none_and_have_none_twice() {
    let database = database();
    ok(&planned(&database), "CREATE TABLE t (k INTEGER PRIMARY KEY, w INTEGER); CREATE SEQUENCE s");
    let written: Vec<i64> = thread::scope(|scope| {
        let writers: Vec<_> = (0..4)
            .map(|writer| {
                let session = planned(&database);
                scope.spawn(move || {
                    let mut written = 0;
                    for n in 0..20 {
                        // Its own, and one that all writers want.
                        ok(&session, &format!("BEGIN; INSERT INTO t VALUES ({writer} * 1000 + {n}, {writer}); COMMIT"));
                        let wanted = run(&session, &format!("INSERT INTO t VALUES (-{n} - 1, nextval('s'))"));
                        written += match wanted {
                            Ok(_) => 1,
                            Err(error) => {
                                assert_eq!(error.kind(), ErrorKind::Constraint, "{error}");
                                0
                            }
                        };
                    }
                    written
                })
            })
            .collect();
        writers.into_iter().map(|writer| writer.join().expect("no panic")).collect()
    });
    assert_eq!(written.iter().sum::<i64>(), 20, "each key went to one of them");
    let session = planned(&database);
    check(&session, "SELECT count(*) FROM t", &[100]);
    check(&session, "SELECT count(DISTINCT k) FROM t", &[100]);
}
