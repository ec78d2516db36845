//! Changes of the schema beside transactions that go on: these see what they saw, over hot rows, rows of segments, and both, and what they change of
//! such a table is a conflict.

mod answers;

use answers::{integers, run};
use forebay::{Database, ErrorKind, Options, Params, Prepared, Session};

/// Where the rows of the table lie when a change comes.
const PLACES: [&str; 4] = ["hot", "frozen", "mixed", "never hot"];

/// What others do to the table, and what the table then gives for the first query.
const CHANGES: [(&str, Option<&str>); 10] = [
    ("ALTER TABLE t ADD COLUMN w BIGINT DEFAULT 7", Some("SELECT sum(w) FROM t")),
    ("ALTER TABLE t DROP COLUMN v", Some("SELECT count(*) FROM t")),
    ("ALTER TABLE t RENAME COLUMN v TO w", Some("SELECT sum(w) FROM t")),
    ("ALTER TABLE t ALTER COLUMN v TYPE DOUBLE", Some("SELECT sum(v) FROM t")),
    ("ALTER TABLE t ALTER COLUMN v SET NOT NULL", Some("SELECT sum(v) FROM t")),
    ("ALTER TABLE t RENAME TO u", Some("SELECT sum(v) FROM u")),
    ("CREATE UNIQUE INDEX by_v ON t (v)", Some("SELECT sum(v) FROM t")),
    ("TRUNCATE t", Some("SELECT count(*) FROM t")),
    ("DROP TABLE t", None),
    ("CHECKPOINT", Some("SELECT sum(v) FROM t")),
];

const ROWS: i64 = 3000;

fn database(place: &str) -> Database {
    let database = Database::in_memory(&Options { threads: Some(2), ..Options::default() }).expect("a database");
    let session = database.session();
    must(&session, "CREATE TABLE t (k BIGINT PRIMARY KEY, v BIGINT, s VARCHAR)");
    let insert = |from: i64, to: i64| {
        let text = format!("INSERT INTO t SELECT k, k * 3, 'row ' || k FROM range({from}, {to}) AS r(k)");
        must(&session, &text);
    };
    if place == "never hot" {
        must(&session, "SET point_access = off");
    }
    insert(0, ROWS / 2);
    if place == "mixed" {
        must(&session, "CHECKPOINT");
    }
    insert(ROWS / 2, ROWS);
    if place == "frozen" {
        must(&session, "CHECKPOINT");
    }
    database
}

#[track_caller]
fn must(session: &Session, text: &str) -> Vec<i64> {
    run(session, text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// What a prepared statement that takes a key gives.
#[track_caller]
fn by_key(session: &Session, prepared: &Prepared, key: i64) -> Vec<i64> {
    session.execute_prepared(prepared, &Params::new().push(key)).and_then(integers).expect("an answer")
}

#[test]
fn who_has_begun_sees_what_there_was() {
    for (place, (change, query)) in PLACES.iter().flat_map(|place| CHANGES.iter().map(move |change| (place, change))) {
        let about = format!("{change}, {place} rows");
        let database = database(place);
        let (reader, other) = (database.session(), database.session());
        let find = reader.prepare("SELECT v FROM t WHERE k = $1").expect("a query");
        must(&reader, "BEGIN");
        // It has looked at one column; the others are read when the table is another one already.
        assert_eq!(must(&reader, "SELECT count(k) FROM t"), [ROWS], "{about}");
        must(&other, change);
        let sum = ROWS * (ROWS - 1) / 2 * 3;
        assert_eq!(must(&reader, "SELECT sum(v) FROM t"), [sum], "{about}");
        assert_eq!(must(&reader, "SELECT count(DISTINCT s) FROM t WHERE s LIKE 'row %'"), [ROWS], "{about}");
        assert_eq!(must(&reader, "SELECT v FROM t WHERE k = 1700"), [5100], "{about}");
        assert_eq!(by_key(&reader, &find, 1701), [5103], "{about}");
        assert!(by_key(&reader, &find, ROWS).is_empty(), "{about}");
        must(&reader, "COMMIT");
        match query {
            Some(query) => assert_eq!(must(&reader, query), must(&other, query), "{about}"),
            None => assert_eq!(run(&reader, "SELECT 1 FROM t").expect_err("it is gone").kind(), ErrorKind::NotFound),
        }
    }
}

#[test]
fn changes_of_a_table_that_is_another_one_by_now_conflict() {
    for place in PLACES {
        for (change, _) in
            CHANGES.iter().filter(|(change, _)| change.starts_with("ALTER") || change.starts_with("DROP"))
        {
            for write in [
                "UPDATE t SET s = 'new' WHERE k = 1700",
                "DELETE FROM t WHERE k < 100",
                "INSERT INTO t VALUES (-1, 1, 'new')",
            ] {
                let about = format!("{change}, then {write}, {place} rows");
                let database = database(place);
                let (writer, other) = (database.session(), database.session());
                must(&writer, "BEGIN");
                must(&writer, "SELECT count(*) FROM t");
                must(&other, change);
                let written = run(&writer, write).and_then(|_| run(&writer, "COMMIT"));
                if let Err(error) = written {
                    assert_eq!(error.kind(), ErrorKind::Conflict, "{about}: {error}");
                    run(&writer, "ROLLBACK").map(drop).unwrap_or_default();
                    continue;
                }
                // What does not collide is there, in the table as it is now.
                assert!(!change.starts_with("DROP"), "{about}");
                let name = if change.contains("RENAME TO") { "u" } else { "t" };
                let changed = match write.split(' ').next() {
                    Some("UPDATE") => must(&other, &format!("SELECT count(*) FROM {name} WHERE s = 'new'")) == [1],
                    Some("DELETE") => must(&other, &format!("SELECT count(*) FROM {name}")) == [ROWS - 100],
                    _ => must(&other, &format!("SELECT count(*) FROM {name} WHERE k = -1")) == [1],
                };
                assert!(changed, "{about}");
            }
        }
    }
}
