//! Which commits leave the plans of queries, and which have them planned anew. A statement whose plan was kept took no time to
//! plan.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use forebay::arrow::array::AsArray;
use forebay::arrow::array::types::Int64Type;
use forebay::{Database, Options, Params, Session, Statement};

/// A query whose arithmetic needs no checks for the values of `t`: their products fit eight bytes.
const SUMS: &str = "SELECT CAST(sum(a * b) AS BIGINT) FROM t WHERE g >= 0 GROUP BY g >= 0";

fn session() -> Session {
    Database::in_memory(&Options { threads: Some(2), ..Options::default() }).expect("memory").session()
}

fn run(session: &Session, text: &str) -> (Vec<i64>, bool) {
    let mut result = session.execute(&Statement { text: text.to_owned() }).expect(text);
    let mut values = Vec::new();
    while let Some(batch) = result.next_batch().expect(text) {
        if let Some(column) = batch.columns().first().and_then(|column| column.as_primitive_opt::<Int64Type>()) {
            values.extend(column.iter().flatten());
        }
    }
    (values, result.metrics().plan == Duration::ZERO)
}

/// Runs `text`, which gives `value`; whether its plan was kept is `kept`.
#[track_caller]
fn check(session: &Session, text: &str, value: i64, kept: bool) {
    assert_eq!(run(session, text), (vec![value], kept), "{text}");
}

/// `t` has 100 rows of two numbers up to 99, and their query is planned.
fn with_table() -> Session {
    let session = session();
    run(&session, "CREATE TABLE t AS SELECT n AS a, n % 10 AS b, n % 3 AS g, 'x' || n AS s FROM range(100) AS r(n)");
    run(&session, "CREATE TABLE other AS SELECT 1 AS x");
    check(&session, SUMS, 23_100, false);
    check(&session, SUMS, 23_100, true);
    session
}

#[test]
fn commits_to_other_tables_leave_a_plan() {
    let session = with_table();
    for change in ["INSERT INTO other VALUES (2)", "UPDATE other SET x = 3", "DELETE FROM other", "TRUNCATE other"] {
        run(&session, change);
        check(&session, SUMS, 23_100, true);
    }
}

#[test]
fn commits_that_keep_what_a_plan_assumes_leave_it_and_it_sees_their_rows() {
    let session = with_table();
    run(&session, "INSERT INTO t VALUES (7, 2, 1, 'y')");
    check(&session, SUMS, 23_114, true);
    run(&session, "DELETE FROM t WHERE a = 99");
    check(&session, SUMS, 23_114 - 891, true);
    run(&session, "UPDATE t SET b = 9 WHERE a = 10");
    check(&session, SUMS, 23_114 - 891 + 90, true);
    run(&session, "CHECKPOINT");
    check(&session, SUMS, 23_114 - 891 + 90, true);
}

#[test]
fn what_breaks_an_assumption_has_the_query_planned_anew() {
    let session = with_table();
    // Beyond the bounds: the product would not fit.
    run(&session, "INSERT INTO t VALUES (3037000500, 3037000499, 1, 'y')");
    check(&session, SUMS, 23_100 + 3_037_000_500 * 3_037_000_499, false);
    check(&session, SUMS, 23_100 + 3_037_000_500 * 3_037_000_499, true);
    // A NULL where there was none.
    run(&session, "DELETE FROM t WHERE a > 99");
    run(&session, "INSERT INTO t VALUES (1, NULL, 1, 'y')");
    check(&session, SUMS, 23_100, false);
    check(&session, SUMS, 23_100, true);
}

#[test]
fn a_plan_that_was_broken_once_leaves_room() {
    let session = with_table();
    run(&session, "INSERT INTO t VALUES (100, 1, 1, 'y')");
    check(&session, SUMS, 23_200, false);
    // A key that grows does not break it with each commit.
    for key in 101..150 {
        run(&session, &format!("INSERT INTO t VALUES ({key}, 0, 1, 'y')"));
        check(&session, SUMS, 23_200, true);
    }
}

#[test]
fn estimates_go_stale_by_a_factor() {
    let session = with_table();
    run(&session, "INSERT INTO t SELECT 1, 1, 1, 'y' FROM range(1500)");
    check(&session, SUMS, 24_600, true);
    run(&session, "INSERT INTO t SELECT 1, 1, 1, 'y' FROM range(1500)");
    check(&session, SUMS, 26_100, false);
    run(&session, "INSERT INTO t SELECT 1, 1, 1, 'y' FROM range(1500)");
    check(&session, SUMS, 27_600, true);
    run(&session, "DELETE FROM t WHERE s = 'y'");
    check(&session, SUMS, 23_100, false);
}

#[test]
fn a_change_of_the_schema_has_everything_planned_anew() {
    let session = with_table();
    let changes = [
        "CREATE VIEW v AS SELECT 1 AS one",
        "CREATE OR REPLACE VIEW v AS SELECT 2 AS one",
        "DROP VIEW v",
        "CREATE MACRO m(x) AS x + 1",
        "ALTER TABLE other ADD COLUMN y BIGINT",
        "ALTER TABLE t ALTER COLUMN a SET NOT NULL",
        "ALTER TABLE t ALTER COLUMN a DROP NOT NULL",
        "ALTER TABLE t ADD COLUMN more BIGINT DEFAULT 7",
        "CREATE TABLE another AS SELECT 1 AS x",
        "DROP TABLE another",
        "CREATE SCHEMA s2",
    ];
    for change in changes {
        run(&session, change);
        check(&session, SUMS, 23_100, false);
        check(&session, SUMS, 23_100, true);
    }
    run(&session, "CREATE OR REPLACE TABLE t AS SELECT 2 AS a, 3 AS b, 1 AS g, 'x' AS s");
    check(&session, SUMS, 6, false);
}

#[test]
fn numbers_of_sequences_are_no_change_of_the_schema() {
    let session = with_table();
    run(&session, "CREATE SEQUENCE numbers");
    check(&session, SUMS, 23_100, false);
    run(&session, "INSERT INTO other SELECT nextval('numbers')");
    check(&session, SUMS, 23_100, true);
}

#[test]
fn answers_from_metadata_are_those_of_the_rows_of_now() {
    let session = with_table();
    for text in ["SELECT count(*) FROM t", "SELECT max(a) FROM t", "SELECT min(a) FROM t", "SELECT count(s) FROM t"] {
        run(&session, text);
    }
    run(&session, "INSERT INTO t VALUES (-5, 1, 1, NULL), (500, 1, 1, 'y')");
    check(&session, "SELECT count(*) FROM t", 102, true);
    check(&session, "SELECT max(a) FROM t", 500, true);
    check(&session, "SELECT min(a) FROM t", -5, true);
    check(&session, "SELECT count(s) FROM t", 101, true);
}

#[test]
fn prepared_statements_survive_commits() {
    let session = with_table();
    let prepared = session.prepare("SELECT CAST(sum(a) AS BIGINT) FROM t WHERE g = $1 GROUP BY g").expect("it");
    let ask = |g: i64| {
        let params = Params::new().push(g);
        let mut result = session.execute_prepared(&prepared, &params).expect("it runs");
        let batch = result.next_batch().expect("it runs").expect("a row");
        while result.next_batch().expect("it runs").is_some() {}
        (batch.column(0).as_primitive::<Int64Type>().value(0), result.metrics().plan == Duration::ZERO)
    };
    assert_eq!(ask(1), (1617, false));
    run(&session, "INSERT INTO t VALUES (50, 1, 1, 'y')");
    assert_eq!(ask(1), (1667, true));
    run(&session, "INSERT INTO t VALUES (5000, 1, 1, 'y')");
    assert_eq!(ask(1), (6667, false));
    assert_eq!(ask(1), (6667, true));
}

#[test]
fn a_sum_that_fits_the_rows_of_now_alone_is_planned_anew_with_more() {
    let session = session();
    run(&session, "CREATE TABLE many AS SELECT 3 AS b, n % 2 AS g FROM range(300) AS r(n)");
    // Of 300 rows it fits eight bytes, of as many as may come it does not.
    let sums = "SELECT CAST(sum(b * 3000000000000000) - 9000000000000000000 AS BIGINT) FROM many GROUP BY b";
    let sum = |rows: i128| i64::try_from(rows * 9_000_000_000_000_000 - 9_000_000_000_000_000_000).expect("it fits");
    check(&session, sums, sum(300), false);
    check(&session, sums, sum(300), true);
    run(&session, "INSERT INTO many VALUES (3, 1)");
    check(&session, sums, sum(301), false);
    run(&session, "INSERT INTO many SELECT 3, 1 FROM range(1500)");
    check(&session, sums, sum(1801), false);
    check(&session, sums, sum(1801), true);
}

#[test]
fn temporary_tables_of_sessions_are_told_apart() {
    let database = Database::in_memory(&Options { threads: Some(2), ..Options::default() }).expect("memory");
    let (first, second) = (database.session(), database.session());
    let sums = "SELECT CAST(sum(x) AS BIGINT) FROM own WHERE x > 0 GROUP BY x > 0";
    run(&first, "CREATE TABLE own AS SELECT 1 AS x");
    check(&first, sums, 1, false);
    check(&second, sums, 1, true);
    run(&second, "CREATE TEMP TABLE own AS SELECT 10 AS x");
    check(&second, sums, 10, false);
    check(&first, sums, 1, false);
    run(&second, "INSERT INTO own VALUES (20), (NULL)");
    check(&second, sums, 30, false);
    check(&first, sums, 1, true);
    run(&first, "INSERT INTO own VALUES (2)");
    check(&second, sums, 30, true);
    check(&first, sums, 3, false);
}

#[test]
fn plans_of_one_session_fit_the_rows_that_another_one_commits_meanwhile() {
    let database = Database::in_memory(&Options { threads: Some(2), ..Options::default() }).expect("memory");
    let writer = database.session();
    run(&writer, "CREATE TABLE t AS SELECT n AS a, n % 10 AS b, n % 3 AS g FROM range(100) AS r(n)");
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..2 {
            let (reader, is_done) = (database.session(), &is_done);
            scope.spawn(move || {
                while !is_done.load(Ordering::Relaxed) {
                    assert_eq!(run(&reader, SUMS).0, [23_100]);
                    let nulls = "SELECT count(*) - count(b), count(*) FROM t WHERE a > 4 GROUP BY a > 4";
                    assert_eq!(run(&reader, nulls).0.len(), 1);
                    assert_eq!(run(&reader, "SELECT count(*) FROM t WHERE b IS NULL AND b = 3").0, [0]);
                }
            });
        }
        for round in 0..60_u32 {
            // Both or none of them: the sum stays.
            let far = 3_i64.pow(1 + round % 37);
            run(&writer, &format!("INSERT INTO t VALUES ({far}, 1, {round}), ({}, 1, {round}), (5, NULL, 0)", -far));
            match round % 10 {
                4 => drop(run(&writer, "DELETE FROM t WHERE b IS NULL OR g > 2")),
                7 => drop(run(&writer, &format!("CREATE OR REPLACE VIEW v AS SELECT {round} AS x"))),
                9 => drop(run(&writer, "CHECKPOINT")),
                _ => {}
            }
        }
        is_done.store(true, Ordering::Relaxed);
    });
}
