//! Prepared statements that find rows by key, with and without point access: the same answers, types, errors and tables.

use std::sync::Arc;

use arrow::array::{Date32Array, Decimal128Array, TimestampMicrosecondArray};
use arrow::util::display::array_value_to_string;
use forebay::{Database, ErrorKind, Options, Params, Prepared, Result, Session, Value, arrow};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

fn in_memory() -> Database {
    Database::in_memory(&Options { threads: Some(1), ..Options::default() }).expect("a database")
}

fn run(session: &Session, sql: &str) {
    for statement in session.statements(sql).expect("it parses") {
        let answer = session.execute(&statement).unwrap_or_else(|error| panic!("{sql}: {error}"));
        rows(answer).unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
}

/// Types of the columns, the rows as texts, and how many were changed.
type Shown = (Vec<String>, Vec<Vec<String>>, u64);

fn rows(mut result: forebay::QueryResult) -> Result<Shown> {
    let mut shown = Vec::new();
    let mut types: Vec<String> = Vec::new();
    while let Some(batch) = result.next_batch()? {
        types = batch.schema().fields().iter().map(|f| format!("{} {}", f.name(), f.data_type())).collect();
        for row in 0..batch.num_rows() {
            let value = |column: &arrow::array::ArrayRef| array_value_to_string(column, row).expect("a value");
            shown.push(batch.columns().iter().map(value).collect());
        }
    }
    let changed = match result.kind() {
        forebay::ResultKind::Changed(rows) => *rows,
        _ => 0,
    };
    // A plan gives no batch where there are no rows.
    if shown.is_empty() {
        types.clear();
    }
    Ok((types, shown, changed))
}

fn execute(session: &Session, prepared: &Prepared, params: &Params, is_ordered: bool) -> Result<Shown> {
    let (types, mut shown, changed) = rows(session.execute_prepared(prepared, params)?)?;
    if !is_ordered {
        shown.sort();
    }
    Ok((types, shown, changed))
}

const TABLES: &str = "
    CREATE TABLE wide (k INTEGER PRIMARY KEY, a TINYINT, b BIGINT, d DECIMAL(5, 2), s VARCHAR, x DATE, t TIMESTAMP,
        f DOUBLE, flag BOOLEAN NOT NULL, u UBIGINT, c VARCHAR COLLATE NOCASE);
    CREATE TABLE pair (p INTEGER, q VARCHAR, v INTEGER, w SMALLINT NOT NULL, PRIMARY KEY (p, q));
    CREATE INDEX by_v ON pair (v, w);
    CREATE TABLE bare (n BIGINT, at TIMESTAMP, note VARCHAR);
    CREATE TABLE uni (k BIGINT PRIMARY KEY, m INTEGER, n INTEGER, UNIQUE (m, n));";

/// Statements, whether they may be programs, and what their values are: i = integer, s = text, d = decimal, x = date, t = timestamp, b = boolean, f = float.
const STATEMENTS: &[(&str, &str)] = &[
    ("SELECT * FROM wide WHERE k = $1", "i"),
    ("SELECT s, d, k AS key FROM wide AS w WHERE w.k = $1 AND a < $2", "ii"),
    ("SELECT f, u, c, t FROM wide WHERE k = ?", "i"),
    ("SELECT b FROM wide WHERE k = $1 AND d = $2 AND s <> $3", "ids"),
    ("SELECT k FROM wide WHERE k >= $1 AND k < $2 ORDER BY k LIMIT 3", "ii"),
    ("SELECT k FROM wide WHERE k BETWEEN $1 AND $2 ORDER BY k DESC LIMIT $3", "iii"),
    ("SELECT count(*), count(a), min(k), max(d), sum(b), count(DISTINCT s) FROM wide WHERE k > $1", "i"),
    ("SELECT CAST(sum(d) AS DECIMAL(12, 2)) FROM wide WHERE k <= $1", "i"),
    ("SELECT min(s), max(x), min(t), max(flag) FROM wide WHERE k > $1 AND k < $2", "ii"),
    ("SELECT x FROM wide WHERE k = $1 AND x >= $2 AND flag = $3", "ixb"),
    ("INSERT INTO wide VALUES ($1, $2, $3, $4, $5, $6, $7, $10, $8, $9, $5)", "iiidsxtbif"),
    ("UPDATE wide SET f = $2 WHERE k = $1", "if"),
    ("UPDATE wide SET f = f, d = $2 WHERE k = $1", "ii"),
    ("INSERT INTO wide (k, s, flag) VALUES ($1, $2, true), ($1 + 1, $2 || '!', false)", "is"),
    ("UPDATE wide SET a = a + 1, b = b - $2 * 3, u = u + $2 WHERE k = $1", "ii"),
    ("UPDATE wide SET d = d + $2, s = left($3 || s, 5) WHERE k = $1", "ids"),
    ("UPDATE wide SET a = $2, d = $3 WHERE k = $1", "iid"),
    ("UPDATE wide SET flag = NULL WHERE k = $1", "i"),
    ("UPDATE wide SET s = NULL, x = $2, t = $3, b = a WHERE k > $1", "ixt"),
    ("DELETE FROM wide WHERE k = $1", "i"),
    ("DELETE FROM wide WHERE k > $1 AND k < $2 AND flag", "ii"),
    ("INSERT INTO pair VALUES ($1, $2, $3, $4)", "isii"),
    ("SELECT q, v, w FROM pair WHERE p = $1 ORDER BY q", "i"),
    ("SELECT min(q) FROM pair WHERE p = $1", "i"),
    ("SELECT p, q FROM pair WHERE v = $1 ORDER BY w, p, q", "i"),
    ("SELECT q, w FROM pair WHERE v = $1 AND w > $2", "ii"),
    ("UPDATE pair SET v = v + $2, w = w - 1 WHERE p = $1", "ii"),
    ("UPDATE pair SET q = $3 WHERE p = $1 AND q = $2", "iss"),
    ("DELETE FROM pair WHERE p = $1 AND q >= $2", "is"),
    ("INSERT INTO bare VALUES ($1, $2, $3)", "its"),
    ("SELECT count(DISTINCT k), count(*) FROM pair, wide WHERE p = $1 AND k = v AND b > $2", "ii"),
    ("SELECT k, q FROM pair JOIN wide ON k = p WHERE v = $1 ORDER BY k, q", "i"),
    ("INSERT INTO uni VALUES ($1, $2, $3)", "iii"),
    ("SELECT k FROM uni WHERE m = $1 AND n = $2", "ii"),
    ("UPDATE uni SET n = n + 1 WHERE k = $1", "i"),
    ("SELECT count(*) FROM uni WHERE m = $1", "i"),
];

/// What happens between them, in both databases.
const BETWEEN: [&str; 8] = [
    "BEGIN",
    "COMMIT",
    "ROLLBACK",
    "CHECKPOINT",
    "DELETE FROM wide WHERE k % 3 = 0",
    "UPDATE pair SET w = 1 WHERE v IS NULL",
    "INSERT INTO wide SELECT n + 20, n, n, n, 'bulk', NULL, NULL, n, true, n, 'B' FROM range(3) r(n) WHERE n + 20 NOT IN (SELECT k FROM wide)",
    "CREATE INDEX IF NOT EXISTS later ON wide (a)",
];

/// A value of a kind, of few different ones that meet each other, and of some that do not fit.
fn value(kind: char, drawn: u32) -> Value {
    let pick = drawn as usize;
    let small = i64::from(drawn % 12) - 2;
    match kind {
        _ if drawn % 23 == 22 && kind != 'b' => match kind {
            'i' => Value::from(None::<i64>),
            's' => Value::from(None::<&str>),
            _ => Value::null(),
        },
        'i' => match drawn % 19 {
            17 => Value::from([127, 200, 1 << 31, i64::MAX][pick / 19 % 4]),
            18 => Value::from(small as i32),
            16 => Value::from(small.unsigned_abs() as u16),
            _ => Value::from(small),
        },
        's' => Value::from(["", "a", "B", "b", "straße", "a\0b", "'"][pick % 7]),
        'd' => {
            let (digits, precision, scale) =
                [(150, 5, 2), (99_999, 5, 2), (1_005, 6, 3), (7, 1, 0), (-250, 5, 2)][pick % 5];
            let array = Decimal128Array::from(vec![digits]).with_precision_and_scale(precision, scale);
            Value::array(Arc::new(array.expect("a decimal"))).expect("one value")
        }
        'x' => Value::array(Arc::new(Date32Array::from(vec![9_000 + small as i32]))).expect("one value"),
        't' => Value::array(Arc::new(TimestampMicrosecondArray::from(vec![small * 1_000_003]))).expect("one value"),
        'f' => Value::from([0.5, -0.0, f64::NAN, 1e300][pick % 4]),
        _ => Value::from(drawn.is_multiple_of(2)),
    }
}

/// Statement or what comes between, and from what its values are drawn.
type Step = (usize, Vec<u32>);

fn table_rows(session: &Session) -> Vec<Vec<Vec<String>>> {
    let of = |table: &str| {
        let statements = session.statements(&format!("SELECT * FROM {table} ORDER BY ALL")).expect("it parses");
        rows(session.execute(&statements[0]).expect("it runs")).expect("rows").1
    };
    ["wide", "pair", "bare", "uni"].map(of).to_vec()
}

fn check(steps: &[Step]) {
    let databases = [in_memory(), in_memory()];
    let sessions = databases.each_ref().map(Database::session);
    run(&sessions[1], "SET point_access = off");
    for session in &sessions {
        run(session, TABLES);
    }
    let prepare =
        |session: &Session| STATEMENTS.iter().map(|(sql, _)| session.prepare(sql).expect(sql)).collect::<Vec<_>>();
    let prepared = sessions.each_ref().map(prepare);
    let is_open = |session: &Session| {
        let error = session.statements("SAVEPOINT probe").and_then(|all| session.execute(&all[0]).map(drop));
        !matches!(error, Err(error) if error.kind() == ErrorKind::Input)
    };
    for (number, draws) in steps {
        match number.checked_sub(STATEMENTS.len()) {
            None => {
                let (sql, kinds) = STATEMENTS[*number];
                let params =
                    kinds.chars().zip(draws).fold(Params::new(), |all, (kind, drawn)| all.push(value(kind, *drawn)));
                let is_ordered = sql.contains("ORDER BY");
                let [one, other] = [0, 1].map(|at| execute(&sessions[at], &prepared[at][*number], &params, is_ordered));
                match (&one, &other) {
                    (Ok(one), Ok(other)) => assert_eq!(one, other, "{sql} {params:?}"),
                    (one, other) => {
                        let kind = |result: &Result<Shown>| {
                            result.as_ref().map_err(|error| (error.kind(), error.to_string())).err()
                        };
                        assert_eq!(kind(one), kind(other), "{sql} {params:?}");
                    }
                }
            }
            Some(between) => {
                let outcome = |session: &Session| {
                    let statements = session.statements(BETWEEN[between]).expect("it parses");
                    session.execute(&statements[0]).and_then(rows).map_err(|error| error.kind()).map(|shown| shown.2)
                };
                let [one, other] = sessions.each_ref().map(outcome);
                assert_eq!(one, other, "{}", BETWEEN[between]);
            }
        }
    }
    for session in &sessions {
        if is_open(session) {
            run(session, "ROLLBACK");
        }
    }
    assert_eq!(table_rows(&sessions[0]), table_rows(&sessions[1]));
}

#[test]
fn random_statements_do_the_same_without_a_plan() {
    let step = (0..STATEMENTS.len() * 2 + BETWEEN.len(), prop::collection::vec(any::<u32>(), 10));
    let step = step.prop_map(|(number, draws)| {
        // Statements twice as often as what comes between.
        let number =
            if number >= STATEMENTS.len() + BETWEEN.len() { number - STATEMENTS.len() - BETWEEN.len() } else { number };
        (number, draws)
    });
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse::<u32>().ok()).unwrap_or(32) / 8;
    let mut runner = TestRunner::new(Config { cases: cases.max(4), ..Config::default() });
    runner
        .run(&prop::collection::vec(step, 60..160), |steps| {
            check(&steps);
            Ok(())
        })
        .expect("the same");
}

#[test]
fn statements_by_key_have_no_plan() {
    let database = in_memory();
    let session = database.session();
    run(&session, TABLES);
    run(&session, "INSERT INTO wide (k, flag) SELECT n, true FROM range(10) r(n)");
    let mut not = Vec::new();
    for (sql, kinds) in STATEMENTS {
        let prepared = session.prepare(sql).expect(sql);
        // Of values that are there and fit.
        let params = kinds.chars().fold(Params::new(), |all, kind| all.push(value(kind, 4)));
        let _any_answer = execute(&session, &prepared, &params, false);
        if !prepared.runs_by_key() {
            not.push(*sql);
        }
    }
    // A condition that is a column alone, and a key that changes.
    let planned = [
        "DELETE FROM wide WHERE k > $1 AND k < $2 AND flag",
        "UPDATE pair SET q = $3 WHERE p = $1 AND q = $2",
        "UPDATE uni SET n = n + 1 WHERE k = $1",
    ];
    assert_eq!(not, planned);
    let others = [
        "SELECT k FROM wide WHERE a = $1",
        "SELECT k FROM wide WHERE k = $1 OR a = 2",
        "SELECT k + 1 FROM wide WHERE k = $1",
        "SELECT DISTINCT k FROM wide WHERE k = $1",
        "SELECT k, count(*) FROM wide WHERE k = $1 GROUP BY k",
        "SELECT k FROM wide WHERE k = $1 AND c = 'b'",
        "SELECT k FROM wide WHERE k = $1 OFFSET 1",
        "SELECT row_number() OVER () FROM wide WHERE k = $1",
        "DELETE FROM wide WHERE k = $1 RETURNING k",
        "INSERT OR REPLACE INTO wide (k, flag) VALUES ($1, true)",
        "WITH w AS (SELECT 1) SELECT k FROM wide WHERE k = $1",
    ];
    for sql in others {
        let prepared = session.prepare(sql).expect(sql);
        let _any_answer = execute(&session, &prepared, &Params::new().push(4), false);
        assert!(!prepared.runs_by_key(), "{sql}");
    }
}

#[test]
fn programs_follow_what_the_table_becomes() {
    let database = in_memory();
    let session = database.session();
    run(&session, TABLES);
    let insert = session.prepare("INSERT INTO uni VALUES ($1, $2, $3)").expect("an insert");
    let find = session.prepare("SELECT * FROM uni WHERE k = $1").expect("a query");
    let key = |key: i64| Params::new().push(key);
    let row = |a: i64, b: i64, c: i64| key(a).push(b).push(c);
    assert_eq!(execute(&session, &insert, &row(1, 1, 1), true).expect("inserted").2, 1);
    assert_eq!(execute(&session, &find, &key(1), true).expect("found").1, [["1", "1", "1"]]);
    run(&session, "ALTER TABLE uni ADD COLUMN o INTEGER DEFAULT 7");
    assert_eq!(execute(&session, &find, &key(1), true).expect("found").1, [["1", "1", "1", "7"]]);
    assert!(execute(&session, &insert, &row(2, 2, 2), true).is_err(), "it has a column more");
    run(&session, "ALTER TABLE uni DROP COLUMN o; CREATE UNIQUE INDEX of_n ON uni (n)");
    assert_eq!(
        execute(&session, &insert, &row(3, 3, 1), true).expect_err("there is one").kind(),
        ErrorKind::Constraint
    );
    run(&session, "BEGIN; DROP TABLE uni; CREATE TABLE uni (k VARCHAR, z INTEGER); INSERT INTO uni VALUES ('1', 2)");
    assert_eq!(execute(&session, &find, &key(1), true).expect("found").1, [["1", "2"]]);
    run(&session, "ROLLBACK");
    assert_eq!(execute(&session, &find, &key(1), true).expect("found").1, [["1", "1", "1"]]);
    run(&session, "CREATE SCHEMA s; CREATE TABLE s.uni (k BIGINT PRIMARY KEY); INSERT INTO s.uni VALUES (1); USE s");
    assert_eq!(execute(&session, &find, &key(1), true).expect("found").1, [["1"]]);
}

#[test]
fn changes_by_key_of_two_sessions_conflict_or_are_tried_again() {
    let database = in_memory();
    let (one, other) = (database.session(), database.session());
    run(&other, "SET lock_timeout = 0");
    run(&one, "CREATE TABLE n (k INTEGER PRIMARY KEY, v BIGINT NOT NULL); INSERT INTO n VALUES (1, 0), (2, 0)");
    let add = one.prepare("UPDATE n SET v = v + 1 WHERE k = $1").expect("an update");
    let of = |key: i64| Params::new().push(key);
    run(&one, "BEGIN");
    execute(&one, &add, &of(1), true).expect("updated");
    run(&other, "BEGIN");
    assert_eq!(execute(&other, &add, &of(1), true).expect_err("taken").kind(), ErrorKind::Conflict);
    assert_eq!(execute(&other, &add, &of(2), true).expect_err("it has failed").kind(), ErrorKind::Aborted);
    run(&other, "ROLLBACK");
    run(&one, "COMMIT");
    // Statements by themselves wait, and are tried again.
    run(&other, "SET lock_timeout = '30s'");
    std::thread::scope(|scope| {
        for session in [&one, &other] {
            scope.spawn(|| (0..200).for_each(|_| drop(execute(session, &add, &of(2), true).expect("in the end"))));
        }
    });
    let read = one.prepare("SELECT v FROM n WHERE k = $1").expect("a query");
    assert_eq!(execute(&other, &read, &of(2), true).expect("read").1, [["400"]]);
    run(&one, "BEGIN READ ONLY");
    assert_eq!(execute(&one, &read, &of(1), true).expect("read").1, [["1"]]);
    assert!(execute(&one, &add, &of(1), true).is_err());
    run(&one, "ROLLBACK");
}
