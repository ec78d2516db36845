//! Serializable transactions: histories of random transactions of several sessions, played again one after the other in the order of their commits,
//! find the same and leave the same.

mod answers;

use std::collections::BTreeMap;

use answers::{integers, run};
use forebay::{Database, ErrorKind, Options, Params, Prepared, Result, Session, Statement};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

fn in_memory() -> Database {
    Database::in_memory(&Options { threads: Some(1), ..Options::default() }).expect("a database")
}

#[track_caller]
fn ok(session: &Session, script: &str) {
    for statement in session.statements(script).expect(script) {
        run(session, &statement.text).unwrap_or_else(|error| panic!("{}: {error}", statement.text));
    }
}

#[track_caller]
fn conflict(session: &Session, text: &str) {
    let error = run(session, text).expect_err(text);
    assert_eq!(error.kind(), ErrorKind::Conflict, "{text}: {error}");
}

/// A session whose statements wait for nobody, since one thread runs those of all sessions, and whose texts are planned.
fn impatient(database: &Database) -> Session {
    let session = database.session();
    ok(&session, "SET lock_timeout = 0; SET point_access = prepared");
    session
}

const BEGIN: &str = "BEGIN ISOLATION LEVEL SERIALIZABLE";

fn sessions() -> (Database, [Session; 2]) {
    let database = in_memory();
    let both = [impatient(&database), impatient(&database)];
    ok(
        &both[0],
        "CREATE TABLE t (k INTEGER PRIMARY KEY, v INTEGER); INSERT INTO t VALUES (1, 10), (2, 20);
         CREATE TABLE bare (n INTEGER)",
    );
    (database, both)
}

#[test]
fn write_skew_is_a_conflict_of_serializable_transactions_only() {
    for (begin, is_serializable) in [("BEGIN", false), (BEGIN, true)] {
        let (_database, [one, other]) = sessions();
        for (session, key) in [(&one, 1), (&other, 2)] {
            ok(session, begin);
            assert_eq!(run(session, "SELECT sum(v) FROM t").expect("a sum"), [30]);
            ok(session, &format!("INSERT INTO bare SELECT v FROM t WHERE k = {key}"));
        }
        ok(&one, "UPDATE t SET v = 0 WHERE k = 1");
        ok(&one, "COMMIT");
        match is_serializable {
            true => conflict(&other, "COMMIT"),
            false => ok(&other, "COMMIT"),
        }
        // It can be run again.
        ok(&other, "BEGIN; INSERT INTO bare VALUES (1); COMMIT");
    }
}

#[test]
fn what_is_looked_for_and_not_there_counts() {
    let (_database, [one, other]) = sessions();
    for session in [&one, &other] {
        ok(session, BEGIN);
        assert_eq!(run(session, "SELECT count(*) FROM bare").expect("a count"), [0]);
    }
    ok(&one, "INSERT INTO bare VALUES (1)");
    ok(&other, "INSERT INTO bare VALUES (2)");
    ok(&one, "COMMIT");
    conflict(&other, "COMMIT");
    assert_eq!(run(&other, "SELECT n FROM bare").expect("rows"), [1]);
}

#[test]
fn who_only_reads_or_only_adds_has_no_conflict() {
    let (_database, [one, other]) = sessions();
    ok(&one, BEGIN);
    ok(&one, "SELECT sum(v) FROM t");
    ok(&other, "UPDATE t SET v = 11 WHERE k = 1");
    assert_eq!(run(&one, "SELECT sum(v) FROM t").expect("a sum"), [30]);
    ok(&one, "COMMIT");
    for session in [&one, &other] {
        ok(session, BEGIN);
        ok(session, "INSERT INTO bare VALUES (1), (2)");
    }
    ok(&one, "INSERT INTO t VALUES (3, 30)");
    ok(&other, "INSERT INTO t VALUES (4, 40)");
    ok(&one, "COMMIT");
    ok(&other, "COMMIT");
    assert_eq!(run(&one, "SELECT count(*) FROM bare").expect("a count"), [4]);
}

/// What an INSERT reads for its rows counts, and so does what it reads for the rows that it gives.
#[test]
fn what_an_insert_reads_counts() {
    for insert in [
        "INSERT INTO bare SELECT count(*) FROM t",
        "INSERT INTO bare VALUES ((SELECT count(*) FROM t))",
        "INSERT INTO bare VALUES (1) RETURNING (SELECT max(v) FROM t)",
    ] {
        let (_database, [one, other]) = sessions();
        ok(&one, BEGIN);
        ok(&one, insert);
        ok(&other, "UPDATE t SET v = 99 WHERE k = 1");
        conflict(&one, "COMMIT");
    }
}

#[test]
fn tables_and_their_definitions_count() {
    for change in ["DROP TABLE t", "ALTER TABLE t ADD COLUMN w INTEGER", "TRUNCATE t", "DELETE FROM t WHERE k = 2"] {
        let (_database, [one, other]) = sessions();
        ok(&one, BEGIN);
        ok(&one, "SELECT v FROM t WHERE k = 1");
        ok(&one, "INSERT INTO bare VALUES (1)");
        ok(&other, change);
        conflict(&one, "COMMIT");
    }
}

/// Rows by key: another key is no conflict, the same one is, and so is one that comes into a range.
#[test]
fn keys_are_told_apart_where_rows_are_hot() {
    let add = |session: &Session, key: i64| {
        let insert = session.prepare("INSERT INTO t VALUES ($1, $2)").expect("it parses");
        integers(session.execute_prepared(&insert, &Params::new().push(key).push(0))?).map(drop)
    };
    let look = |session: &Session, sql: &str, key: i64| {
        let select = session.prepare(sql).expect("it parses");
        let found = integers(session.execute_prepared(&select, &Params::new().push(key)).expect("run")).expect("read");
        assert!(select.runs_by_key(), "{sql}");
        found
    };
    let cases = [
        ("SELECT v FROM t WHERE k = $1", 7, 8, false),
        ("SELECT v FROM t WHERE k = $1", 7, 7, true),
        ("SELECT count(*) FROM t WHERE k > $1", 100, 99, false),
        ("SELECT count(*) FROM t WHERE k > $1", 100, 101, true),
    ];
    for (sql, looked_for, added, is_conflict) in cases {
        let (_database, [one, other]) = sessions();
        add(&one, 50).expect("a hot row");
        ok(&one, BEGIN);
        look(&one, sql, looked_for);
        add(&other, added).expect("added");
        let kept = add(&one, 60).and_then(|()| run(&one, "COMMIT").map(drop));
        match kept {
            Err(error) if is_conflict => assert_eq!(error.kind(), ErrorKind::Conflict, "{sql}: {error}"),
            other => assert!(other.is_ok() && !is_conflict, "{sql} of {looked_for} beside {added}: {other:?}"),
        }
    }
}

#[test]
fn transactions_by_key_are_serializable_on_request() {
    use forebay::keyed::{Cell, Row};
    for is_serializable in [false, true] {
        let (database, [one, _]) = sessions();
        let begin = || {
            let mut transaction = database.transaction().expect("begun");
            if is_serializable {
                transaction.make_serializable();
            }
            transaction
        };
        let mut both = [begin(), begin()];
        let mut row = Row::default();
        for (transaction, key) in both.iter_mut().zip([1, 2]) {
            let table = transaction.table("t").expect("the table");
            let other = 3 - key;
            assert!(transaction.get(&table, &[Cell::Fixed(other)], &[1], &mut row).expect("read"));
            let change = [(1, Cell::Fixed(5))];
            assert!(transaction.update(&table, &[Cell::Fixed(key)], &change).expect("changed"));
        }
        let [first, second] = both;
        first.commit().expect("the first one commits");
        assert_eq!(second.commit().map_err(|error| error.kind()).err(), is_serializable.then_some(ErrorKind::Conflict));
        let sum = run(&one, "SELECT sum(v) FROM t").expect("a sum");
        assert_eq!(sum, [if is_serializable { 25 } else { 10 }]);
    }
}

/// One operation of a transaction.
#[derive(Debug, Clone, Copy)]
enum Step {
    Get(i64),
    GetPlanned(i64),
    CountFrom(i64),
    Sum,
    /// Values that are written depend on all that was read.
    Put(i64),
    Add(i64),
    Delete(i64),
    DeletePlanned(i64),
    /// CHECKPOINT by somebody else.
    Checkpoint,
}

fn steps() -> impl Strategy<Value = Step> {
    let key = || 0_i64..6;
    prop_oneof![
        3 => key().prop_map(Step::Get),
        1 => key().prop_map(Step::GetPlanned),
        2 => key().prop_map(Step::CountFrom),
        1 => Just(Step::Sum),
        3 => key().prop_map(Step::Put),
        2 => key().prop_map(Step::Add),
        1 => key().prop_map(Step::Delete),
        1 => key().prop_map(Step::DeletePlanned),
        1 => Just(Step::Checkpoint),
    ]
}

type Model = BTreeMap<i64, i64>;

/// A transaction that is open: what it has done and found.
struct Open {
    steps: Vec<Step>,
    found: Vec<Vec<i64>>,
    /// Commits that it sees.
    begun: usize,
    has_written: bool,
}

impl Open {
    fn value(&self) -> i64 {
        self.found.iter().flatten().fold(17, |hash: i64, value| (hash * 31 + value) % 1_000_003)
    }
}

/// What a step finds in a model, and does to it.
fn played(model: &mut Model, step: Step, value: i64) -> Vec<i64> {
    match step {
        Step::Get(key) | Step::GetPlanned(key) => model.get(&key).copied().into_iter().collect(),
        Step::CountFrom(key) => vec![model.range(key..).count() as i64],
        Step::Sum => vec![model.values().sum()],
        Step::Put(key) => {
            model.entry(key).and_modify(|known| *known = value);
            Vec::new()
        }
        Step::Add(key) => {
            model.entry(key).or_insert(value);
            Vec::new()
        }
        Step::Delete(key) | Step::DeletePlanned(key) => {
            model.remove(&key);
            Vec::new()
        }
        Step::Checkpoint => Vec::new(),
    }
}

struct Worker {
    session: Session,
    prepared: [Prepared; 5],
    open: Option<Open>,
}

impl Worker {
    fn new(database: &Database) -> Self {
        let session = impatient(database);
        let prepare = |sql: &str| session.prepare(sql).expect("it parses");
        let prepared = [
            prepare("SELECT v FROM t WHERE k = $1"),
            prepare("SELECT count(*) FROM t WHERE k >= $1"),
            prepare("UPDATE t SET v = $2 WHERE k = $1"),
            prepare("INSERT INTO t VALUES ($1, $2)"),
            prepare("DELETE FROM t WHERE k = $1"),
        ];
        Self { session, prepared, open: None }
    }

    /// What a step finds, and whether it changes anything.
    fn step(&self, open: &Open, step: Step, other: &Session) -> Result<(Vec<i64>, bool)> {
        let by_key = |which: usize, values: &[i64]| {
            let params = values.iter().fold(Params::new(), |params, value| params.push(*value));
            integers(self.session.execute_prepared(&self.prepared[which], &params)?)
        };
        let changed = |result: forebay::QueryResult| match result.kind() {
            forebay::ResultKind::Changed(rows) => (Vec::new(), *rows > 0),
            other => panic!("{other:?}"),
        };
        let change = |which: usize, values: &[i64]| {
            let params = values.iter().fold(Params::new(), |params, value| params.push(*value));
            self.session.execute_prepared(&self.prepared[which], &params).map(changed)
        };
        let found = match step {
            Step::Get(key) => by_key(0, &[key]),
            Step::GetPlanned(key) => run(&self.session, &format!("SELECT v FROM t WHERE k = {key}")),
            Step::CountFrom(key) => by_key(1, &[key]),
            Step::Sum => run(&self.session, "SELECT CAST(coalesce(sum(v), 0) AS BIGINT) FROM t"),
            Step::Put(key) => return change(2, &[key, open.value()]),
            // Adds only where there is none, as the model does.
            Step::Add(key) => match by_key(0, &[key])?.is_empty() {
                true => return change(3, &[key, open.value()]),
                false => Ok(Vec::new()),
            },
            Step::Delete(key) => return change(4, &[key]),
            Step::DeletePlanned(key) => {
                let text = format!("DELETE FROM t WHERE k = {key}");
                return self.session.execute(&Statement { text }).map(changed);
            }
            Step::Checkpoint => run(other, "CHECKPOINT").map(|_| Vec::new()),
        };
        found.map(|found| (found, false))
    }
}

/// Runs a history; how many transactions it took to be serializable wrongly, and how many committed.
fn history(begin: &str, script: &[(usize, Option<Step>)]) -> std::result::Result<usize, String> {
    let database = in_memory();
    let setup = impatient(&database);
    ok(&setup, "CREATE TABLE t (k BIGINT PRIMARY KEY, v BIGINT); INSERT INTO t VALUES (0, 1), (2, 3), (4, 5)");
    let mut workers: Vec<Worker> = (0..3).map(|_| Worker::new(&database)).collect();
    let mut committed: Vec<Open> = Vec::new();
    // Those that have only read, at the number of commits that they saw.
    let mut readers: Vec<Open> = Vec::new();
    for (number, step) in script {
        let worker = &mut workers[*number];
        match step {
            Some(step) => {
                let mut open = worker.open.take().unwrap_or_else(|| {
                    ok(&worker.session, begin);
                    // The snapshot is that of the first statement.
                    ok(&worker.session, "SELECT 1");
                    let (steps, found) = (Vec::new(), Vec::new());
                    Open { steps, found, begun: committed.len(), has_written: false }
                });
                match worker.step(&open, *step, &setup) {
                    Ok((found, has_written)) => {
                        open.steps.push(*step);
                        open.found.push(found);
                        open.has_written |= has_written;
                        worker.open = Some(open);
                    }
                    Err(error) if error.kind() == ErrorKind::Conflict => ok(&worker.session, "ROLLBACK"),
                    Err(error) => return Err(format!("{step:?}: {error}")),
                }
            }
            None => {
                let Some(open) = worker.open.take() else { continue };
                match run(&worker.session, "COMMIT") {
                    Ok(_) if open.has_written => committed.push(open),
                    Ok(_) => readers.push(open),
                    Err(error) if error.kind() == ErrorKind::Conflict => {}
                    Err(error) => return Err(format!("COMMIT: {error}")),
                }
            }
        }
    }
    drop(workers);
    let mut model = Model::from([(0, 1), (2, 3), (4, 5)]);
    let replay = |model: &mut Model, open: &Open| {
        let mut again = Open { steps: Vec::new(), found: Vec::new(), begun: 0, has_written: false };
        for (step, found) in open.steps.iter().zip(&open.found) {
            let value = again.value();
            let expected = played(model, *step, value);
            if expected != *found {
                return Err(format!("{step:?} of {:?} found {found:?}, serially {expected:?}", open.steps));
            }
            again.found.push(expected);
        }
        Ok(())
    };
    for (number, open) in committed.iter().enumerate() {
        readers.iter().filter(|reader| reader.begun == number).try_for_each(|own| replay(&mut model.clone(), own))?;
        replay(&mut model, open)?;
    }
    let left = run(&setup, "SELECT v FROM t ORDER BY k").map_err(|error| error.to_string())?;
    match left.iter().eq(model.values()) {
        true => Ok(committed.len()),
        false => Err(format!("{left:?} is left, serially {:?}", model.values())),
    }
}

fn script() -> impl Strategy<Value = Vec<(usize, Option<Step>)>> {
    let step = prop_oneof![4 => steps().prop_map(Some), 1 => Just(None)];
    prop::collection::vec((0_usize..3, step), 10..50)
}

#[test]
fn histories_are_those_of_one_transaction_after_the_other() {
    let cases = std::env::var("FOREBAY_HISTORIES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(60);
    let mut runner = TestRunner::new(Config { cases, max_shrink_iters: 200, ..Config::default() });
    let commits = std::cell::Cell::new(0);
    let found = runner.run(&script(), |script| {
        commits.set(commits.get() + history(BEGIN, &script).map_err(TestCaseError::fail)?);
        Ok(())
    });
    found.unwrap_or_else(|error| panic!("{error}"));
    let commits = commits.get();
    assert!(commits > cases as usize, "{commits} transactions of {cases} histories were committed");
}

/// Snapshots alone let anomalies through, which this way of telling finds.
#[test]
fn histories_at_snapshots_are_not() {
    let mut runner =
        TestRunner::new(Config { cases: 400, max_shrink_iters: 0, failure_persistence: None, ..Config::default() });
    assert!(runner.run(&script(), |script| history("BEGIN", &script).map(drop).map_err(TestCaseError::fail)).is_err());
}
