//! BACKUP TO: what a backup has, beside whom it is made, and where it cannot be.

mod failing;
mod texts;

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use forebay::{Database, ErrorKind, Options, Session, directories};
use tempfile::TempDir;

use crate::failing::fails;
use crate::texts::{ok, run};

fn options() -> Options {
    Options { threads: Some(2), ..Options::default() }
}

fn back_up(session: &Session, to: &Path) -> Vec<Vec<String>> {
    run(session, &format!("BACKUP TO '{}'", to.display())).expect("a backup")
}

/// Tables with segments that are large, small and have deleted rows, hot rows, a projection, and what else a database has.
const SCRIPT: &str = "
    CREATE TABLE big AS SELECT range AS k, range % 7 AS v, 'text ' || range AS t FROM range(200000);
    DELETE FROM big WHERE k % 1000 = 3;
    CREATE TABLE copied (a INTEGER, b INTEGER);
    INSERT INTO copied SELECT range, 1000 - range FROM range(1000);
    ALTER TABLE copied ADD PROJECTION by_b (ORDER BY b);
    CREATE TABLE keyed (k INTEGER PRIMARY KEY, v VARCHAR);
    INSERT INTO keyed SELECT range, 'value ' || range FROM range(20000);
    CHECKPOINT;
    SET point_access = on;
    UPDATE keyed SET v = 'changed' WHERE k = 17;
    DELETE FROM keyed WHERE k = 19000;
    INSERT INTO keyed VALUES (50000, 'new'), (50001, NULL);
    CREATE SCHEMA s;
    CREATE TYPE s.mood AS ENUM ('sad', 'ok');
    CREATE SEQUENCE ids START 5;
    CREATE VIEW sums AS SELECT v, sum(k) AS s FROM big GROUP BY v;
    CREATE MACRO twice(x) AS 2 * x;
    SELECT nextval('ids')";

/// What is asked of a database and of its backup.
const QUESTIONS: [&str; 8] = [
    "SELECT count(*), sum(k), min(t), max(t) FROM big",
    "SELECT count(*), sum(k), count(v), min(v), max(v) FROM keyed",
    "SELECT v FROM keyed WHERE k IN (17, 18, 19000, 50000, 50001) ORDER BY k",
    "SELECT * FROM sums ORDER BY v",
    "SELECT sum(a), sum(b) FROM copied WHERE b < 100",
    "SELECT twice(21), 'ok'::s.mood",
    "SELECT table_name, rows FROM forebay.tables ORDER BY 1",
    "SELECT projection_name, rows FROM forebay.projections",
];

fn answers(session: &Session) -> Vec<Vec<Vec<String>>> {
    QUESTIONS.iter().map(|text| run(session, text).unwrap_or_else(|error| panic!("{text}: {error}"))).collect()
}

#[test]
fn a_backup_is_the_database() {
    let folder = TempDir::new().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let drives = [at("one"), at("two")];
    directories::create(&at("drives"), &drives).expect("a database over drives");
    for database in [
        Database::open(&at("db"), &options()).expect("a database"),
        Database::open(&at("drives"), &options()).expect("a database"),
        Database::in_memory(&options()).expect("a database"),
    ] {
        let session = database.session();
        ok(&session, SCRIPT);
        let before = answers(&session);
        let to = at("backup");
        let report = back_up(&session, &to);
        assert!(report[0][1].parse::<u64>().expect("files") >= 3, "{report:?}");
        assert!(report[0][3].parse::<u64>().expect("hot rows") >= 4, "{report:?}");
        assert_eq!(answers(&session), before);
        ok(&session, "DELETE FROM big; DROP VIEW sums");
        drop((session, database));
        // It stands for itself: it is moved, read without being written to, and written.
        fs::rename(&to, at("moved")).expect("moved");
        let reader = Database::open(&at("moved"), &Options { read_only: true, ..options() }).expect("it opens");
        assert_eq!(answers(&reader.session()), before);
        drop(reader);
        let copy = Database::open(&at("moved"), &options()).expect("it opens");
        let session = copy.session();
        assert_eq!(answers(&session), before);
        assert_eq!(run(&session, "SELECT nextval('ids')").expect("a number"), [["6"]]);
        let checked = run(&session, "CHECK DATABASE").expect("it is sound");
        assert_eq!(checked[0][4..], ["0", "0"]);
        ok(&session, "UPDATE keyed SET v = 'again' WHERE k = 17; INSERT INTO big SELECT * FROM big; CHECKPOINT");
        drop((session, copy));
        fs::remove_dir_all(at("moved")).expect("removed");
    }
}

/// Says that it is over, also where a test fails.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn transactions_go_on_beside_it_and_are_in_it_or_not() {
    let folder = TempDir::new().expect("a folder");
    let database = Database::open(&folder.path().join("db"), &options()).expect("a database");
    let session = database.session();
    ok(
        &session,
        "CREATE TABLE account (k INTEGER PRIMARY KEY, v INTEGER);
         INSERT INTO account SELECT range, 100 FROM range(2000); CHECKPOINT",
    );
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for worker in 0..2 {
            let (database, is_over) = (&database, &is_over);
            scope.spawn(move || {
                let session = database.session();
                let mut number = worker;
                while !is_over.load(Ordering::Relaxed) {
                    number += 2;
                    let (from, to) = (number * 7 % 2000, (number * 13 + 1) % 2000);
                    let moved = format!(
                        "BEGIN; UPDATE account SET v = v - 5 WHERE k = {from}; UPDATE account SET v = v + 5 WHERE k = {to}; COMMIT"
                    );
                    for statement in session.statements(&moved).expect("a script") {
                        if run(&session, &statement.text).is_err() {
                            let _none_may_be_open = run(&session, "ROLLBACK");
                            break;
                        }
                    }
                }
            });
        }
        // Hot rows become segments, and segments others, while they are copied.
        scope.spawn(|| {
            let session = database.session();
            while !is_over.load(Ordering::Relaxed) {
                if let Err(error) = run(&session, "CHECKPOINT") {
                    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
                }
            }
        });
        let _ends_them = Ends(&is_over);
        for number in 0..12 {
            let to = folder.path().join(format!("backup {number}"));
            back_up(&session, &to);
            let copy = Database::open(&to, &options()).expect("it opens");
            let sums = run(&copy.session(), "SELECT count(*), sum(v) FROM account").expect("a sum");
            assert_eq!(sums, [["2000", "200000"]], "backup {number}");
        }
    });
}

#[test]
fn where_it_cannot_be_nothing_is_left() {
    let folder = TempDir::new().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let database = Database::open(&at("db"), &options()).expect("a database");
    let session = database.session();
    ok(&session, "CREATE TABLE t AS SELECT range AS k FROM range(1000)");
    let to = |name: &str| format!("BACKUP DATABASE TO '{}'", at(name).display());
    fs::create_dir(at("full")).expect("a folder");
    fs::write(at("full").join("mine.txt"), "mine").expect("a file");
    assert!(fails(&session, &to("full"), ErrorKind::Input).contains("mine.txt"));
    assert!(fails(&session, &to("db"), ErrorKind::Input).contains("not empty"));
    fs::write(at("file"), "a file").expect("a file");
    fails(&session, &to("file"), ErrorKind::AlreadyExists);
    for text in ["BACKUP", "BACKUP TO", "BACKUP TO x", "BACKUP TO 'x' 'y'", "BACKUP t TO 'x'"] {
        fails(&session, text, ErrorKind::Input);
    }
    assert!(!Path::new("x").exists(), "a statement that is wrong makes nothing");
    ok(&session, "BEGIN");
    fails(&session, &to("within"), ErrorKind::Input);
    ok(&session, "ROLLBACK");
    assert_eq!(fs::read_dir(at("full")).expect("a folder").count(), 1);
    // An empty folder will do, and a second backup does not overwrite the first.
    fs::create_dir(at("empty")).expect("a folder");
    ok(&session, &to("empty"));
    fails(&session, &to("empty"), ErrorKind::Input);
    drop((session, database));
    // Who may only read may make one.
    let reader = Database::open(&at("db"), &Options { read_only: true, ..options() }).expect("it opens");
    ok(&reader.session(), &to("by a reader"));
    let copy = Database::open(&at("by a reader"), &options()).expect("it opens");
    assert_eq!(run(&copy.session(), "SELECT count(*) FROM t").expect("a count"), [["1000"]]);
}
