//! What transactions beside each other see at each isolation level, by the anomalies of Adya's thesis and of Berenson et al. 1995, and who waits for
//! whom: over hot rows, rows of segments, and both.

mod answers;

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use answers::run;
use forebay::keyed::Cell;
use forebay::{Database, Error, ErrorKind, Options, Result, Session};

const LEVELS: [&str; 3] = ["READ COMMITTED", "SNAPSHOT", "SERIALIZABLE"];

/// Where the rows of the table lie when a test begins.
const PLACES: [&str; 3] = ["hot", "frozen", "mixed"];

/// How long a statement is watched that has to wait.
const A_WHILE: Duration = Duration::from_millis(60);

/// A session on a thread of its own, so that a statement of it may wait.
struct Client {
    asks: Option<Sender<String>>,
    answers: Receiver<Result<Vec<i64>>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Client {
    fn new(session: Session) -> Self {
        let (asks, asked) = channel::<String>();
        let (answer, answers) = channel();
        let thread = thread::spawn(move || {
            while let Ok(text) = asked.recv() {
                answer.send(run(&session, &text)).expect("somebody listens");
            }
        });
        Self { asks: Some(asks), answers, thread: Some(thread) }
    }

    fn begin(&self, text: &str) {
        self.asks.as_ref().and_then(|asks| asks.send(text.to_owned()).ok()).expect("the thread runs");
    }

    #[track_caller]
    fn end(&self) -> Result<Vec<i64>> {
        self.answers.recv_timeout(Duration::from_secs(60)).expect("no statement hangs")
    }

    /// The answer of a statement that waits for nobody.
    #[track_caller]
    fn run(&self, text: &str) -> Result<Vec<i64>> {
        self.begin(text);
        self.end()
    }

    #[track_caller]
    fn ok(&self, script: &[&str]) {
        for text in script {
            self.run(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        }
    }

    #[track_caller]
    fn finds(&self, text: &str, values: &[i64]) {
        assert_eq!(self.run(text).unwrap_or_else(|error| panic!("{text}: {error}")), values, "{text}");
    }

    /// Begins a statement that has to wait.
    #[track_caller]
    fn waits(&self, text: &str) {
        self.begin(text);
        let ended = self.answers.recv_timeout(A_WHILE);
        assert!(ended.is_err(), "{text} did not wait: {ended:?}");
    }

    #[track_caller]
    fn conflicts(&self, answer: Result<Vec<i64>>) -> Error {
        let error = answer.expect_err("a conflict");
        assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
        error
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.asks = None;
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(ended.is_ok() || thread::panicking(), "the session's thread panicked");
        }
    }
}

/// Two sessions, between which transactions are begun at a level, and a third one that looks.
struct Scene {
    clients: [Client; 2],
    beside: Session,
    database: Database,
}

/// The rows 1 with 10 and 2 with 20.
fn scene(level: &str, place: &str) -> Scene {
    let database = Database::in_memory(&Options { threads: Some(1), ..Options::default() }).expect("a database");
    let session = || {
        let session = database.session();
        for setting in
            ["point_access = on", &format!("default_transaction_isolation = '{level}'"), "lock_timeout = '1min'"]
        {
            run(&session, &format!("SET {setting}")).expect(setting);
        }
        session
    };
    let beside = session();
    for text in match place {
        "hot" => vec!["CREATE TABLE t (k BIGINT PRIMARY KEY, v BIGINT)", "INSERT INTO t VALUES (1, 10), (2, 20)"],
        "frozen" => vec![
            "CREATE TABLE t (k BIGINT PRIMARY KEY, v BIGINT)",
            "INSERT INTO t VALUES (1, 10), (2, 20)",
            "CHECKPOINT",
        ],
        _ => vec![
            "CREATE TABLE t (k BIGINT PRIMARY KEY, v BIGINT)",
            "INSERT INTO t VALUES (1, 10)",
            "CHECKPOINT",
            "INSERT INTO t VALUES (2, 20)",
        ],
    } {
        run(&beside, text).expect(text);
    }
    Scene { clients: [session(), session()].map(Client::new), beside, database }
}

fn everywhere(levels: &[&str], test: impl Fn(&Scene, &str)) {
    for level in levels {
        for place in PLACES {
            let scene = scene(level, place);
            test(&scene, level);
        }
    }
}

impl Scene {
    #[track_caller]
    fn has(&self, values: &[i64]) {
        assert_eq!(run(&self.beside, "SELECT v FROM t ORDER BY k").expect("rows"), values);
    }
}

/// Dirty writes (G0): the second writer of a row waits, and neither's changes are mixed with the other's.
#[test]
fn nobody_writes_over_what_is_not_committed() {
    everywhere(&LEVELS, |scene, level| {
        let [one, other] = &scene.clients;
        one.ok(&["BEGIN", "UPDATE t SET v = 11 WHERE k = 1"]);
        other.ok(&["BEGIN"]);
        other.waits("UPDATE t SET v = 12 WHERE k = 1");
        one.ok(&["UPDATE t SET v = 21 WHERE k = 2", "COMMIT"]);
        match level {
            "READ COMMITTED" => {
                assert!(other.end().expect("changed").is_empty());
                other.ok(&["UPDATE t SET v = 22 WHERE k = 2", "COMMIT"]);
                scene.has(&[12, 22]);
            }
            _ => {
                other.conflicts(other.end());
                other.ok(&["ROLLBACK"]);
                scene.has(&[11, 21]);
            }
        }
    });
}

/// Aborted and intermediate reads (G1a, G1b), and circular information flow (G1c).
#[test]
fn nobody_reads_what_is_not_committed() {
    everywhere(&LEVELS, |scene, _| {
        let [one, other] = &scene.clients;
        one.ok(&["BEGIN", "UPDATE t SET v = 101 WHERE k = 1"]);
        other.ok(&["BEGIN"]);
        other.finds("SELECT v FROM t ORDER BY k", &[10, 20]);
        one.ok(&["ROLLBACK"]);
        other.finds("SELECT v FROM t ORDER BY k", &[10, 20]);
        other.ok(&["COMMIT"]);
        one.ok(&["BEGIN", "UPDATE t SET v = 101 WHERE k = 1"]);
        other.ok(&["BEGIN", "UPDATE t SET v = 22 WHERE k = 2"]);
        one.finds("SELECT v FROM t WHERE k = 2", &[20]);
        other.finds("SELECT v FROM t WHERE k = 1", &[10]);
        one.ok(&["UPDATE t SET v = 11 WHERE k = 1", "COMMIT"]);
        let _either = other.run("COMMIT");
        other.finds("SELECT v FROM t WHERE k = 1", &[11]);
    });
}

/// Observed transaction vanishes (OTV): what a transaction has changed is seen as a whole.
#[test]
fn changes_appear_together() {
    everywhere(&LEVELS, |scene, level| {
        let [one, other] = &scene.clients;
        one.ok(&["BEGIN", "UPDATE t SET v = 11 WHERE k = 1", "UPDATE t SET v = 19 WHERE k = 2"]);
        other.ok(&["BEGIN"]);
        other.finds("SELECT sum(v) FROM t", &[30]);
        one.ok(&["COMMIT"]);
        let sees = if level == "READ COMMITTED" { [11, 19] } else { [10, 20] };
        other.finds("SELECT v FROM t ORDER BY k", &sees);
        other.ok(&["COMMIT"]);
        other.finds("SELECT v FROM t ORDER BY k", &[11, 19]);
    });
}

/// Predicates that see rows come (PMP), and read skew (G-single).
#[test]
fn a_snapshot_stays_as_it_is() {
    everywhere(&LEVELS, |scene, level| {
        let [one, other] = &scene.clients;
        one.ok(&["BEGIN"]);
        one.finds("SELECT k FROM t WHERE v = 30", &[]);
        one.finds("SELECT v FROM t WHERE k = 1", &[10]);
        other.ok(&[
            "INSERT INTO t VALUES (3, 30)",
            "UPDATE t SET v = 12 WHERE k = 1",
            "UPDATE t SET v = 18 WHERE k = 2",
        ]);
        let (found, sees): (&[i64], _) = if level == "READ COMMITTED" { (&[3], 18) } else { (&[], 20) };
        one.finds("SELECT k FROM t WHERE v = 30", found);
        one.finds("SELECT v FROM t WHERE k = 2", &[sees]);
        one.ok(&["COMMIT"]);
    });
}

/// Lost update (P4): both read, both write what they have read and something more.
#[test]
fn no_update_is_lost() {
    everywhere(&LEVELS, |scene, level| {
        let [one, other] = &scene.clients;
        for client in [one, other] {
            client.ok(&["BEGIN"]);
            client.finds("SELECT v FROM t WHERE k = 1", &[10]);
        }
        one.ok(&["UPDATE t SET v = v + 1 WHERE k = 1"]);
        other.waits("UPDATE t SET v = v + 5 WHERE k = 1");
        one.ok(&["COMMIT"]);
        match level {
            // The row as it is by then is changed.
            "READ COMMITTED" => {
                other.end().expect("changed");
                other.ok(&["COMMIT"]);
                scene.has(&[16, 20]);
            }
            _ => {
                other.conflicts(other.end());
                assert_eq!(other.run("SELECT 1").expect_err("it is aborted").kind(), ErrorKind::Aborted);
                other.ok(&["ROLLBACK"]);
                scene.has(&[11, 20]);
            }
        }
    });
}

/// Write skew (G2-item): only serializable transactions have a conflict.
/// Rows that FOR UPDATE gives are changed by nobody else until their reader has ended.
#[test]
fn rows_that_are_locked_wait_for_their_reader() {
    everywhere(&LEVELS, |scene, level| {
        let [one, other] = &scene.clients;
        let locked = "SELECT v FROM t WHERE k = 1 FOR UPDATE";
        for ends_with in ["ROLLBACK", "COMMIT"] {
            one.ok(&["BEGIN"]);
            one.finds(locked, &[10]);
            one.finds(locked, &[10]);
            other.ok(&["BEGIN"]);
            other.finds("SELECT v FROM t WHERE k = 1", &[10]);
            other.finds("SELECT v FROM t WHERE k = 2 FOR UPDATE", &[20]);
            other.waits("UPDATE t SET v = v + 5 WHERE k = 1");
            one.ok(&["UPDATE t SET v = v + 1 WHERE k = 1", ends_with]);
            match other.end() {
                Ok(_) => other.ok(&["COMMIT"]),
                error => {
                    assert!(ends_with == "COMMIT" && level != "READ COMMITTED", "{level} {ends_with}");
                    other.conflicts(error);
                    other.ok(&["ROLLBACK"]);
                }
            }
            let left = match (ends_with, level) {
                ("ROLLBACK", _) => 15,
                (_, "READ COMMITTED") => 16,
                _ => 11,
            };
            assert_eq!(run(&scene.beside, "SELECT v FROM t WHERE k = 1").expect("a row"), [left]);
            one.ok(&["UPDATE t SET v = 10 WHERE k = 1"]);
        }
        // Of two readers that lock, the second one sees what the first one has made of it.
        one.ok(&["BEGIN"]);
        one.finds(locked, &[10]);
        other.ok(&["BEGIN"]);
        other.waits(locked);
        one.ok(&["UPDATE t SET v = 12 WHERE k = 1", "COMMIT"]);
        let answer = other.end();
        match level == "READ COMMITTED" {
            true => assert_eq!(answer.expect("it goes on"), [12]),
            false => drop(other.conflicts(answer)),
        }
        other.ok(&["ROLLBACK"]);
    });
}

#[test]
fn who_does_not_want_to_wait_for_locked_rows_is_told() {
    everywhere(&LEVELS, |scene, _| {
        let [one, other] = &scene.clients;
        one.ok(&["BEGIN", "SAVEPOINT before"]);
        one.finds("SELECT v FROM t WHERE k = 2 FOR SHARE", &[20]);
        other.ok(&["BEGIN"]);
        let error = other.run("SELECT v FROM t WHERE k = 2 FOR UPDATE NOWAIT").expect_err("it is locked");
        assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
        other.ok(&["ROLLBACK"]);
        // Outside of a transaction nothing is locked, and nobody waits.
        other.finds("SELECT v FROM t WHERE k = 2 FOR UPDATE", &[20]);
        one.ok(&["ROLLBACK TO before"]);
        other.ok(&["BEGIN"]);
        other.finds("SELECT v FROM t WHERE k = 2 FOR UPDATE NOWAIT", &[20]);
        other.ok(&["COMMIT"]);
        one.ok(&["ROLLBACK"]);
    });
}

#[test]
fn write_skew() {
    everywhere(&LEVELS, |scene, level| {
        let [one, other] = &scene.clients;
        for client in [one, other] {
            client.ok(&["BEGIN"]);
            client.finds("SELECT sum(v) FROM t", &[30]);
        }
        one.ok(&["UPDATE t SET v = 11 WHERE k = 1"]);
        other.ok(&["UPDATE t SET v = 21 WHERE k = 2"]);
        one.ok(&["COMMIT"]);
        match level {
            "SERIALIZABLE" => drop(other.conflicts(other.run("COMMIT"))),
            _ => other.ok(&["COMMIT"]),
        }
        scene.has(if level == "SERIALIZABLE" { &[11, 20] } else { &[11, 21] });
    });
}

/// Where the writer rolls back, wholly or to a savepoint, whoever has waited for it goes on.
#[test]
fn who_waits_goes_on_after_a_rollback() {
    everywhere(&LEVELS, |scene, _| {
        let [one, other] = &scene.clients;
        for give_up in ["ROLLBACK", "ROLLBACK TO before"] {
            one.ok(&["BEGIN", "SAVEPOINT before", "UPDATE t SET v = 11 WHERE k = 1"]);
            other.ok(&["BEGIN"]);
            other.waits("UPDATE t SET v = 12 WHERE k = 1");
            one.ok(&[give_up]);
            other.end().expect("changed");
            other.ok(&["COMMIT"]);
            let _ended = one.run("ROLLBACK");
            scene.has(&[12, 20]);
        }
    });
}

/// New keys are waited for as changed rows are.
#[test]
fn who_adds_the_same_key_waits() {
    everywhere(&LEVELS, |scene, _| {
        let [one, other] = &scene.clients;
        for is_kept in [false, true] {
            one.ok(&["BEGIN", "INSERT INTO t VALUES (3, 30)"]);
            other.waits("INSERT INTO t VALUES (3, 31)");
            one.ok(&[if is_kept { "COMMIT" } else { "ROLLBACK" }]);
            match is_kept {
                true => assert_eq!(other.end().expect_err("it is taken").kind(), ErrorKind::Constraint),
                false => {
                    other.end().expect("added");
                    other.ok(&["DELETE FROM t WHERE k = 3"]);
                }
            }
        }
        scene.has(&[10, 20, 30]);
    });
}

/// A statement that is a transaction of its own waits and then changes what there is.
#[test]
fn statements_of_their_own_wait_and_go_on() {
    everywhere(&["SNAPSHOT"], |scene, _| {
        let [one, other] = &scene.clients;
        one.ok(&["BEGIN", "UPDATE t SET v = v + 1 WHERE k = 1", "DELETE FROM t WHERE k = 2"]);
        other.waits("UPDATE t SET v = v + 100 WHERE k = 1");
        one.ok(&["COMMIT", "BEGIN"]);
        // The other one has changed the row by now, or changes it meanwhile, or waits for the next transaction.
        let _changed_or_a_conflict = one.run("UPDATE t SET v = v + 1000 WHERE k = 1");
        one.ok(&["ROLLBACK"]);
        other.end().expect("changed");
        scene.has(&[111]);
    });
}

/// Each of two transactions waits for the other: the one that would be the second to wait is told. That is either of them, as a statement that waits
/// looks again now and then.
#[test]
fn deadlocks_are_found() {
    everywhere(&LEVELS, |scene, _| {
        let [one, other] = &scene.clients;
        one.ok(&["BEGIN", "UPDATE t SET v = 11 WHERE k = 1"]);
        other.ok(&["BEGIN", "UPDATE t SET v = 22 WHERE k = 2"]);
        one.waits("UPDATE t SET v = 21 WHERE k = 2");
        other.begin("UPDATE t SET v = 12 WHERE k = 1");
        let (told, goes_on, answer, rows) = loop {
            if let Ok(answer) = other.answers.recv_timeout(A_WHILE) {
                break (other, one, answer, [11, 21]);
            }
            if let Ok(answer) = one.answers.try_recv() {
                break (one, other, answer, [12, 22]);
            }
        };
        let error = told.conflicts(answer);
        assert!(error.to_string().contains("deadlock"), "{error}");
        told.ok(&["ROLLBACK"]);
        goes_on.end().expect("changed");
        goes_on.ok(&["COMMIT"]);
        scene.has(&rows);
    });
}

#[test]
fn waiting_ends_with_its_time_or_when_nobody_wants_to_any_more() {
    everywhere(&["SNAPSHOT"], |scene, _| {
        let [one, _] = &scene.clients;
        one.ok(&["BEGIN", "UPDATE t SET v = 11 WHERE k = 1"]);
        let waiting = scene.database.session();
        let change = "UPDATE t SET v = 12 WHERE k = 1";
        for (timeout, kind) in [("0", ErrorKind::Conflict), ("20ms", ErrorKind::Busy)] {
            for text in ["SET point_access = on", &format!("SET lock_timeout = '{timeout}'")] {
                run(&waiting, text).expect(text);
            }
            let error = run(&waiting, change).expect_err("it is being changed");
            assert_eq!(error.kind(), kind, "{error}");
            assert!(
                error.to_string().contains("table main.t") || error.to_string().contains("another transaction"),
                "{error}"
            );
        }
        run(&waiting, "SET lock_timeout = '1h'").expect("set");
        let canceller = waiting.canceller();
        thread::scope(|scope| {
            let waits = scope.spawn(|| run(&waiting, change));
            while !waits.is_finished() {
                thread::sleep(Duration::from_millis(5));
                canceller.cancel();
            }
            let error = waits.join().expect("no panic").expect_err("cancelled");
            assert_eq!(error.kind(), ErrorKind::Cancelled, "{error}");
        });
        one.ok(&["COMMIT"]);
        scene.has(&[11, 20]);
    });
}

/// Procedures wait as statements do.
#[test]
fn transactions_by_calls_wait() {
    everywhere(&["SNAPSHOT"], |scene, _| {
        let [one, _] = &scene.clients;
        for is_kept in [false, true] {
            one.ok(&["BEGIN", "UPDATE t SET v = 11 WHERE k = 1"]);
            let mut transaction = scene.database.transaction().expect("begun");
            let table = transaction.table("t").expect("a table");
            thread::scope(|scope| {
                let waits = scope.spawn(|| transaction.update(&table, &[Cell::i64(1)], &[(1, Cell::i64(12))]));
                thread::sleep(A_WHILE);
                assert!(!waits.is_finished());
                one.ok(&[if is_kept { "COMMIT" } else { "ROLLBACK" }]);
                let changed = waits.join().expect("no panic");
                assert_eq!(changed.is_err(), is_kept, "{changed:?}");
            });
            drop(transaction);
        }
        one.ok(&["BEGIN", "UPDATE t SET v = 12 WHERE k = 1"]);
        let mut transaction = scene.database.transaction().expect("begun");
        let table = transaction.table("t").expect("a table");
        for (timeout, kind) in [(0, ErrorKind::Conflict), (10, ErrorKind::Busy)] {
            transaction.set_lock_timeout(Duration::from_millis(timeout));
            let error =
                transaction.update(&table, &[Cell::i64(1)], &[(1, Cell::i64(13))]).expect_err("it is being changed");
            assert_eq!(error.kind(), kind, "{error}");
        }
        // A call that fails has changed nothing, and the transaction goes on.
        assert!(transaction.update(&table, &[Cell::i64(2)], &[(1, Cell::i64(22))]).expect("changed"));
        transaction.commit().expect("committed");
        one.ok(&["COMMIT"]);
        scene.has(&[12, 22]);
    });
}

/// At READ COMMITTED each statement sees what is committed, what the transaction has changed itself stays, and savepoints go back to that.
#[test]
fn read_committed_goes_back_to_savepoints_beside_others() {
    everywhere(&["READ COMMITTED"], |scene, _| {
        let [one, other] = &scene.clients;
        one.ok(&[
            "BEGIN",
            "SAVEPOINT empty",
            "INSERT INTO t VALUES (3, 30)",
            "SAVEPOINT three",
            "CREATE TABLE own (a INTEGER)",
        ]);
        other.ok(&[
            "UPDATE t SET v = 11 WHERE k = 1",
            "CREATE TABLE others (a INTEGER)",
            "INSERT INTO others VALUES (7)",
        ]);
        one.finds("SELECT v FROM t ORDER BY k", &[11, 20, 30]);
        one.finds("SELECT a FROM others", &[7]);
        one.ok(&["INSERT INTO own SELECT a FROM others", "ROLLBACK TO three"]);
        assert_eq!(one.run("SELECT * FROM own").expect_err("gone").kind(), ErrorKind::NotFound);
        one.ok(&["ROLLBACK TO three"]);
        one.finds("SELECT v FROM t ORDER BY k", &[11, 20, 30]);
        other.ok(&["DELETE FROM t WHERE k = 2", "INSERT INTO t SELECT 5, 50", "CHECKPOINT"]);
        one.finds("SELECT v FROM t ORDER BY k", &[11, 30, 50]);
        one.ok(&["ROLLBACK TO empty"]);
        one.finds("SELECT v FROM t ORDER BY k", &[11, 50]);
        one.ok(&["INSERT INTO t VALUES (6, 60)", "UPDATE t SET v = v + 1 WHERE k = 5", "COMMIT"]);
        scene.has(&[11, 51, 60]);
    });
}

/// Keys are unique, whatever a transaction at READ COMMITTED has seen when it added them.
#[test]
fn read_committed_keeps_keys() {
    everywhere(&["READ COMMITTED"], |scene, _| {
        let [one, other] = &scene.clients;
        // So many that they do not become hot rows, whose writers would wait for each other.
        let many = |value: i64| format!("INSERT INTO t SELECT range + 3, {value} FROM range(10000)");
        one.ok(&["BEGIN", &many(30)]);
        other.ok(&[&many(31)]);
        // It sees the other one's row now, and both have the key.
        let ended = one.run("SELECT count(*) FROM t").and_then(|_| one.run("COMMIT"));
        assert!(ended.is_err(), "two rows have a key");
        let _ended = one.run("ROLLBACK");
        other.ok(&["DELETE FROM t WHERE k > 3"]);
        scene.has(&[10, 20, 31]);
    });
}
