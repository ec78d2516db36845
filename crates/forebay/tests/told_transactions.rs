//! `forebay.transactions`, KILL TRANSACTION and idle transactions: sessions look at each other's transactions and end them.

mod failing;
mod texts;

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use forebay::{Database, ErrorKind, Options, Session, Statement};

use crate::failing::fails;
use crate::texts::{ok, run};

fn database() -> Database {
    let database = Database::in_memory(&Options { threads: Some(2), ..Options::default() }).expect("a database");
    let session = database.session();
    ok(&session, "CREATE TABLE t (k INTEGER PRIMARY KEY, v INTEGER); INSERT INTO t VALUES (1, 1), (2, 2)");
    database
}

/// The number of the transaction of another session that has run this statement last, once it does this.
fn number_of(session: &Session, statement: &str, state: &str) -> u64 {
    let text = format!(
        "SELECT transaction_id FROM forebay.transactions WHERE NOT is_own AND state = '{state}' AND statement = '{statement}'"
    );
    let begun = Instant::now();
    loop {
        if let [row] = &run(session, &text).expect("rows")[..] {
            return row[0].parse().expect("a number");
        }
        assert!(begun.elapsed() < Duration::from_secs(30), "nobody runs {statement}");
        thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn transactions_of_all_sessions_are_shown() {
    let database = database();
    let (looks, works) = (database.session(), database.session());
    let shown =
        "SELECT is_own, is_explicit, isolation, is_read_only, state, statement FROM forebay.transactions ORDER BY ALL";
    let own = |state| ["true", "false", "snapshot", "false", state, shown].map(str::to_owned).to_vec();
    assert_eq!(run(&looks, shown).expect("rows"), [own("running")]);
    ok(&works, "BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY; SELECT count(*) FROM t");
    let of_other = |state: &str, statement: &str| {
        ["false", "true", "read committed", "true", state, statement].map(str::to_owned).to_vec()
    };
    assert_eq!(run(&looks, shown).expect("rows"), [of_other("idle", "SELECT count(*) FROM t"), own("running")]);
    fails(&works, "SELECT nothing FROM t", ErrorKind::NotFound);
    assert_eq!(run(&looks, shown).expect("rows"), [of_other("aborted", "SELECT nothing FROM t"), own("running")]);
    ok(&works, "ROLLBACK");
    assert_eq!(run(&looks, shown).expect("rows"), [own("running")]);
    // Rows that nobody has read to the end are a statement that runs.
    let mut rows = works.execute(&Statement { text: "SELECT k FROM t".to_owned() }).expect("a query");
    number_of(&looks, "SELECT k FROM t", "running");
    while rows.next_batch().expect("rows").is_some() {}
    assert_eq!(run(&looks, shown).expect("rows"), [own("running")]);
    // Numbers stay, and later transactions have later ones.
    ok(&works, "BEGIN");
    let first = number_of(&looks, "BEGIN", "idle");
    assert_eq!(number_of(&looks, "BEGIN", "idle"), first);
    ok(&works, "COMMIT; BEGIN");
    assert!(number_of(&looks, "BEGIN", "idle") > first);
    drop(works);
    assert_eq!(run(&looks, shown).expect("rows"), [own("running")]);
}

#[test]
fn who_is_killed_keeps_nothing_and_lets_others_go_on() {
    let database = database();
    let (kills, works) = (database.session(), database.session());
    for (how, ends) in [("SET point_access = on", "ROLLBACK"), ("SET point_access = off", "COMMIT")] {
        let change = "UPDATE t SET v = 7 WHERE k = 1";
        ok(&works, &format!("{how}; BEGIN; SAVEPOINT s; {change}"));
        let number = number_of(&kills, change, "idle");
        ok(&kills, &format!("KILL TRANSACTION {number}"));
        assert!(fails(&kills, &format!("KILL TRANSACTION {number}"), ErrorKind::NotFound).contains("not open"));
        // The row is free, and nothing has come of the change.
        ok(&kills, "SET lock_timeout = 0; UPDATE t SET v = v + 10 WHERE k = 1");
        for text in ["SELECT 1", "UPDATE t SET v = 8 WHERE k = 2", "ROLLBACK TO s", "SAVEPOINT r"] {
            assert!(fails(&works, text, ErrorKind::Aborted).contains("KILL TRANSACTION"), "{text}");
        }
        assert!(works.prepare("SELECT v FROM t WHERE k = $1").is_err());
        match ends {
            "ROLLBACK" => ok(&works, ends),
            // Who has not met an error yet has to learn that nothing is kept.
            _ => assert!(fails(&works, ends, ErrorKind::Aborted).contains("nothing of it is kept")),
        }
        ok(&works, "BEGIN; SELECT 1; COMMIT");
    }
    assert_eq!(run(&works, "SELECT k, v FROM t ORDER BY k").expect("rows"), [["1", "21"], ["2", "2"]]);
}

#[test]
fn a_statement_that_waits_or_runs_is_cancelled() {
    let database = database();
    let (kills, holds) = (database.session(), database.session());
    ok(&holds, "BEGIN; UPDATE t SET v = 7 WHERE k = 1");
    let begun = Barrier::new(2);
    thread::scope(|scope| {
        let change = "UPDATE t SET v = 8 WHERE k = 1";
        let waits = scope.spawn(|| {
            let session = database.session();
            ok(&session, "SET lock_timeout = '1h'; BEGIN; UPDATE t SET v = 9 WHERE k = 2");
            begun.wait();
            let failed = run(&session, change).expect_err("killed").kind();
            (failed, run(&session, "COMMIT").expect_err("killed").kind())
        });
        begun.wait();
        let number = number_of(&kills, change, "waiting");
        ok(&kills, &format!("KILL TRANSACTION {number}"));
        assert_eq!(waits.join().expect("no panic"), (ErrorKind::Cancelled, ErrorKind::Aborted));
    });
    ok(&holds, "COMMIT");
    // A query that is no part of a transaction of several statements.
    let long = "SELECT sum(a.range * b.range % 7) FROM range(10000000) a, range(1000000) b";
    thread::scope(|scope| {
        let runs = scope.spawn(|| fails(&database.session(), long, ErrorKind::Cancelled));
        let number = number_of(&kills, long, "running");
        ok(&kills, &format!("KILL TRANSACTION {number}"));
        runs.join().expect("no panic");
    });
    assert_eq!(run(&kills, "SELECT k, v FROM t ORDER BY k").expect("rows"), [["1", "7"], ["2", "2"]]);
}

#[test]
fn who_asks_is_not_killed() {
    let session = database().session();
    ok(&session, "BEGIN");
    let text = "SELECT transaction_id FROM forebay.transactions";
    let number = run(&session, text).expect("a row")[0][0].clone();
    assert!(fails(&session, &format!("KILL TRANSACTION {number}"), ErrorKind::Input).contains("ROLLBACK"));
    for text in ["KILL TRANSACTION", "KILL TRANSACTION x", "KILL TRANSACTION -1", "KILL 1", "KILL TRANSACTION 1 2"] {
        fails(&session, text, ErrorKind::Input);
    }
    ok(&session, "ROLLBACK");
}

#[test]
fn idle_transactions_end() {
    let database = database();
    let (idles, looks) = (database.session(), database.session());
    ok(&idles, "SET idle_in_transaction_session_timeout = '60ms'");
    ok(&idles, "BEGIN; UPDATE t SET v = 7 WHERE k = 1");
    let begun = Instant::now();
    while !run(&looks, "FROM forebay.transactions WHERE NOT is_own").expect("rows").is_empty() {
        assert!(begun.elapsed() < Duration::from_secs(30), "it does not end");
        thread::sleep(Duration::from_millis(2));
    }
    ok(&looks, "SET lock_timeout = 0; UPDATE t SET v = v + 1 WHERE k = 1");
    assert!(fails(&idles, "SELECT 1", ErrorKind::Aborted).contains("idle_in_transaction_session_timeout"));
    ok(&idles, "ROLLBACK");
    // One that works for longer is not idle, and neither is a session without a transaction.
    ok(&idles, "SET idle_in_transaction_session_timeout = '2s'; BEGIN");
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_millis(2500) {
        ok(&idles, "UPDATE t SET v = v + 1 WHERE k = 2");
        thread::sleep(Duration::from_millis(20));
    }
    ok(&idles, "COMMIT");
    assert_eq!(run(&looks, "SELECT v FROM t WHERE k = 1").expect("rows"), [["2"]]);
    fails(&idles, "SET idle_in_transaction_session_timeout = 'soon'", ErrorKind::Input);
}
