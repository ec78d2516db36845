//! Transactions by key beside SQL: both see the same rows, whichever of them wrote them, hot or in segments.

use std::collections::BTreeMap;
use std::time::Duration;

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use forebay::keyed::{Cell, Row, Table, Transaction};
use forebay::{Database, ErrorKind, Options, Result, Session, arrow};

fn in_memory() -> Database {
    Database::in_memory(&Options { threads: Some(1), ..Options::default() }).expect("a database")
}

fn run(session: &Session, sql: &str) {
    for statement in session.statements(sql).expect("it parses") {
        let mut answer = session.execute(&statement).unwrap_or_else(|error| panic!("{sql}: {error}"));
        while answer.next_batch().expect("rows").is_some() {}
    }
}

/// The rows of a query of two columns of BIGINT.
fn pairs(session: &Session, sql: &str) -> Vec<(i64, i64)> {
    let statements = session.statements(sql).expect("it parses");
    let mut answer = session.execute(&statements[0]).unwrap_or_else(|error| panic!("{sql}: {error}"));
    let mut rows = Vec::new();
    while let Some(batch) = answer.next_batch().expect("rows") {
        let column = |at: usize| batch.column(at).as_primitive::<Int64Type>().clone();
        let (keys, values) = (column(0), column(1));
        rows.extend((0..batch.num_rows()).map(|row| (keys.value(row), values.value(row))));
    }
    rows
}

const T: &str = "CREATE TABLE t (k BIGINT PRIMARY KEY, v BIGINT NOT NULL, note VARCHAR)";
const ALL: &str = "SELECT k, v FROM t ORDER BY k";

fn value(t: &mut Transaction, table: &Table, key: i64) -> Option<i64> {
    let mut row = Row::default();
    let is_there = t.get(table, &[Cell::i64(key)], &[1], &mut row).expect("read");
    is_there.then(|| row.cell(0).as_i64().expect("a value"))
}

fn insert(t: &mut Transaction, table: &Table, key: i64, value: i64) -> Result<()> {
    t.insert(table, &[Cell::i64(key), Cell::i64(value), Cell::Bytes(b"by key")])
}

#[test]
fn statements_and_calls_see_the_same_rows() {
    let database = in_memory();
    let session = database.session();
    run(&session, T);
    run(
        &session,
        "INSERT INTO t SELECT n * 2, n, 'row ' || n FROM range(100000) r(n); INSERT INTO t VALUES (1, -1, NULL)",
    );
    let mut t = database.transaction().expect("begun");
    let table = t.table("t").expect("a table");
    assert_eq!((table.name(), table.key(), table.column("V").expect("a column")), ("main.t", &[0][..], 1));
    assert_eq!((value(&mut t, &table, 199_998), value(&mut t, &table, 1)), (Some(99_999), Some(-1)));
    assert_eq!((value(&mut t, &table, 3), value(&mut t, &table, i64::MIN)), (None, None));
    // Of a segment, of a small one, and a new one; texts come along.
    assert!(t.update(&table, &[Cell::i64(10)], &[(1, Cell::i64(50))]).expect("updated"));
    assert!(t.update(&table, &[Cell::i64(1)], &[(1, Cell::i64(7))]).expect("updated"));
    assert!(!t.update(&table, &[Cell::i64(3)], &[(1, Cell::i64(7))]).expect("no such row"));
    insert(&mut t, &table, 3, 33).expect("free");
    assert!(t.delete(&table, &[Cell::i64(12)]).expect("deleted") && !t.delete(&table, &[Cell::i64(12)]).expect("gone"));
    let mut row = Row::default();
    assert!(t.get(&table, &[Cell::i64(10)], &[2, 1], &mut row).expect("read"));
    assert!(row.cells().eq([Cell::Bytes(b"row 5"), Cell::i64(50)]));
    assert_eq!(pairs(&session, "SELECT k, v FROM t WHERE k IN (1, 3, 10, 12) ORDER BY k"), [(1, -1), (10, 5), (12, 6)]);
    t.commit().expect("committed");
    assert_eq!(pairs(&session, "SELECT k, v FROM t WHERE k IN (1, 3, 10, 12) ORDER BY k"), [(1, 7), (3, 33), (10, 50)]);
    assert_eq!(
        pairs(&session, "SELECT count(*), sum(v)::BIGINT FROM t"),
        [(100_001, 4_999_950_000 - 5 - 6 + 50 + 7 + 33)]
    );
    // Statements change hot rows, and calls find them again.
    run(&session, "UPDATE t SET v = v + 1 WHERE k < 12; DELETE FROM t WHERE k = 3; INSERT INTO t VALUES (5, 55, 'x')");
    let mut t = database.transaction().expect("begun");
    let found: Vec<Option<i64>> = [1, 3, 5, 10, 14].iter().map(|key| value(&mut t, &table, *key)).collect();
    assert_eq!(found, [Some(8), None, Some(55), Some(51), Some(7)]);
    let mut range = Vec::new();
    let each = |row: &Row| {
        range.push(row.cell(0).as_i64().expect("a key"));
        Ok(range.len() < 5)
    };
    t.range(&table, &[], &[0], each).expect("a range");
    assert_eq!(range, [0, 1, 2, 4, 5]);
    t.roll_back();
    run(&session, "ALTER TABLE t ADD COLUMN more INTEGER DEFAULT 9");
    let mut t = database.transaction().expect("begun");
    let table = t.table("main.t").expect("a table");
    assert!(t.get(&table, &[Cell::i64(5)], &[3], &mut row).expect("read") && row.cell(0) == Cell::Fixed(9));
}

#[test]
fn keys_are_unique_and_conflicts_are_told() {
    let database = in_memory();
    let session = database.session();
    run(&session, T);
    run(&session, "INSERT INTO t VALUES (1, 10, NULL), (2, 20, NULL)");
    // Nobody waits: one thread runs all of them. Texts are planned.
    run(&session, "SET point_access = off");
    let begin = || {
        let mut transaction = database.transaction().expect("begun");
        transaction.set_lock_timeout(Duration::ZERO);
        transaction
    };
    let table = begin().table("t").expect("a table");
    let kind = |result: Result<()>| result.expect_err("it must fail").kind();
    let mut t = begin();
    assert_eq!(kind(insert(&mut t, &table, 1, 0)), ErrorKind::Constraint, "in a segment");
    insert(&mut t, &table, 3, 30).expect("free");
    assert_eq!(kind(insert(&mut t, &table, 3, 0)), ErrorKind::Constraint, "hot");
    assert_eq!(kind(t.update(&table, &[Cell::i64(1)], &[(0, Cell::i64(3))]).map(drop)), ErrorKind::Constraint);
    assert_eq!(kind(t.update(&table, &[Cell::i64(3)], &[(0, Cell::i64(2))]).map(drop)), ErrorKind::Constraint);
    assert_eq!(kind(t.insert(&table, &[Cell::i64(9), Cell::Null, Cell::Null])), ErrorKind::Constraint);
    assert_eq!(kind(t.insert(&table, &[Cell::i64(9)])), ErrorKind::Input);
    assert_eq!(kind(t.get(&table, &[], &[0], &mut Row::default()).map(drop)), ErrorKind::Input);
    assert!(t.update(&table, &[Cell::i64(2)], &[(0, Cell::i64(2))]).expect("its own"));
    assert!(t.update(&table, &[Cell::i64(2)], &[(0, Cell::i64(2))]).expect("its own"));
    assert!(t.update(&table, &[Cell::i64(1)], &[(0, Cell::i64(4))]).expect("free"));
    t.commit().expect("what failed has left nothing");
    assert_eq!(pairs(&session, ALL), [(2, 20), (3, 30), (4, 10)]);
    // Two change the same row, or give the same key; statements among them.
    let set = |t: &mut Transaction, key: i64, value: i64| t.update(&table, &[Cell::i64(key)], &[(1, Cell::i64(value))]);
    for key in [2, 3] {
        let (mut one, mut other) = (begin(), begin());
        assert!(set(&mut one, key, 1).expect("the first one"));
        let second = set(&mut other, key, 2);
        one.commit().expect("the first one commits");
        assert_eq!(kind(second.and_then(|_| other.commit())), ErrorKind::Conflict, "{key}");
    }
    let mut beside = begin();
    insert(&mut beside, &table, 8, 0).expect("free");
    run(&session, "INSERT INTO t VALUES (8, 80, NULL)");
    assert_eq!(kind(beside.commit()), ErrorKind::Conflict);
    let mut beside = begin();
    insert(&mut beside, &table, 9, 90).expect("free");
    run(&session, "BEGIN; INSERT INTO t VALUES (9, 99, NULL)");
    beside.commit().expect("it was first");
    let commit = session.statements("COMMIT").expect("it parses");
    assert_eq!(session.execute(&commit[0]).map(drop).expect_err("the key is taken").kind(), ErrorKind::Conflict);
    assert_eq!(pairs(&session, ALL), [(2, 1), (3, 1), (4, 10), (8, 80), (9, 90)]);
}

/// What SQL could not read again is refused, and nothing is there of it.
#[test]
fn values_that_a_column_cannot_have_are_refused() {
    let database = in_memory();
    let session = database.session();
    run(&session, "CREATE TABLE v (k BIGINT PRIMARY KEY, s VARCHAR, b BOOLEAN, d DECIMAL(3, 1), i INTEGER)");
    let mut t = database.transaction().expect("begun");
    let table = t.table("v").expect("a table");
    let row = |column: usize, cell: Cell<'static>| {
        let mut row = [Cell::i64(1), Cell::Bytes(b"s"), Cell::Fixed(1), Cell::Fixed(999), Cell::Null];
        row[column] = cell;
        row
    };
    let wrong = [
        (1, Cell::Bytes(b"\xff")),
        (1, Cell::Fixed(0)),
        (2, Cell::Fixed(2)),
        (3, Cell::Fixed(1000)),
        (4, Cell::Fixed(1 << 32)),
    ];
    for (column, cell) in wrong {
        assert_eq!(t.insert(&table, &row(column, cell)).expect_err("refused").kind(), ErrorKind::Input, "{cell:?}");
    }
    t.insert(&table, &row(4, Cell::Fixed(7))).expect("all fit");
    for (column, cell) in wrong.into_iter().chain([(5, Cell::Null)]) {
        let updated = t.update(&table, &[Cell::i64(1)], &[(column, cell)]);
        assert_eq!(updated.expect_err("refused").kind(), ErrorKind::Input, "{cell:?}");
    }
    t.commit().expect("committed");
    assert_eq!(pairs(&session, "SELECT k, i::BIGINT FROM v WHERE s = 's' AND b AND d = 99.9"), [(1, 7)]);
}

#[test]
fn tables_whose_rows_need_more_are_refused() {
    let database = in_memory();
    let session = database.session();
    run(
        &session,
        "CREATE TABLE a (k INTEGER PRIMARY KEY); CREATE TABLE b (k INTEGER PRIMARY KEY, a INTEGER REFERENCES a (k))",
    );
    run(&session, "CREATE TABLE c (k INTEGER PRIMARY KEY CHECK (k > 0)); CREATE TABLE d (k INTEGER, l INTEGER[])");
    run(&session, "CREATE TABLE e (k INTEGER PRIMARY KEY, v INTEGER); CREATE UNIQUE INDEX e_v ON e (v)");
    let t = database.transaction().expect("begun");
    for name in ["a", "b", "c", "d", "e"] {
        let error = t.table(name).expect_err("it needs more");
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{name}: {error}");
    }
    assert_eq!(t.table("nothing").expect_err("it is not there").kind(), ErrorKind::NotFound);
}

/// Calls by key, statements and what they should have done, step by step, over composite keys with a text.
#[test]
fn random_calls_and_statements_do_what_a_map_does() {
    for seed in 0..12_u64 {
        let database = in_memory();
        let session = database.session();
        run(&session, "CREATE TABLE t (a INTEGER, b VARCHAR, v BIGINT, w INTEGER UNIQUE, PRIMARY KEY (b, a))");
        let mut expected: BTreeMap<(String, i64), i64> = BTreeMap::new();
        let mut state = seed;
        let mut below = |bound: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % bound
        };
        for step in 0..60 {
            let (a, b) = (below(6) as i64, ["", "x", "y\0", "y"][below(4) as usize]);
            let key = (b.to_owned(), a);
            match below(8) {
                0 => {
                    run(&session, "INSERT INTO t SELECT n, 'x', n, NULL FROM range(6) r(n) ON CONFLICT DO NOTHING");
                    for n in 0..6 {
                        expected.entry(("x".to_owned(), n)).or_insert(n);
                    }
                }
                1 => {
                    run(&session, &format!("UPDATE t SET v = v + 100 WHERE a = {a}"));
                    expected.iter_mut().filter(|((_, own), _)| *own == a).for_each(|(_, v)| *v += 100);
                }
                2 => {
                    run(&session, &format!("DELETE FROM t WHERE a = {a} AND b = 'x'"));
                    expected.remove(&("x".to_owned(), a));
                }
                3 if below(3) == 0 => run(&session, "CHECKPOINT"),
                _ => {
                    let mut t = database.transaction().expect("begun");
                    let table = t.table("t").expect("a table");
                    let mut after = expected.clone();
                    for _ in 0..1 + below(4) {
                        let (a, b) = (below(6) as i64, ["", "x", "y\0", "y"][below(4) as usize]);
                        let (key, cells) = ((b.to_owned(), a), [Cell::Bytes(b.as_bytes()), Cell::Fixed(a as u128)]);
                        match below(3) {
                            0 => {
                                let row = [Cell::Fixed(a as u128), cells[0], Cell::i64(step), Cell::Null];
                                let inserted = t.insert(&table, &row);
                                assert_eq!(inserted.is_ok(), !after.contains_key(&key), "{seed} {step}");
                                after.entry(key).or_insert(step);
                            }
                            1 => {
                                let is_there = t.update(&table, &cells, &[(2, Cell::i64(-step))]).expect("updated");
                                assert_eq!(is_there, after.contains_key(&key), "{seed} {step}");
                                after.entry(key).and_modify(|v| *v = -step);
                            }
                            _ => {
                                let is_there = t.delete(&table, &cells).expect("deleted");
                                assert_eq!(is_there, after.remove(&key).is_some(), "{seed} {step}");
                            }
                        }
                    }
                    match below(4) {
                        0 => t.roll_back(),
                        _ => {
                            t.commit().expect("nobody is beside it");
                            expected = after;
                        }
                    }
                }
            }
            let mut t = database.transaction().expect("begun");
            let table = t.table("t").expect("a table");
            let mut row = Row::default();
            let cells = [Cell::Bytes(key.0.as_bytes()), Cell::Fixed(a as u128)];
            let found = t.get(&table, &cells, &[2], &mut row).expect("read").then(|| row.cell(0).as_i64());
            assert_eq!(found.flatten(), expected.get(&key).copied(), "{seed} {step} {key:?}");
            let mut range = Vec::new();
            let each = |row: &Row| {
                range.push((row.cell(0).as_i64().expect("a key"), row.cell(1).as_i64().expect("a value")));
                Ok(true)
            };
            t.range(&table, &cells[..1], &[0, 2], each).expect("a range");
            let within: Vec<(i64, i64)> =
                expected.iter().filter(|((b, _), _)| *b == key.0).map(|((_, a), v)| (*a, *v)).collect();
            assert_eq!(range, within, "{seed} {step}");
            let all = pairs(&session, "SELECT count(*), coalesce(sum(v), 0)::BIGINT FROM t");
            assert_eq!(all, [(expected.len() as i64, expected.values().sum::<i64>())], "{seed} {step}");
        }
    }
}

/// Threads that pay from one account to another by key, beside one that does so by SQL, one that looks at all of them, and one that freezes them.
#[test]
fn the_sum_stays_the_same_whoever_looks() {
    const ACCOUNTS: i64 = 200;
    let database = in_memory();
    let session = database.session();
    run(&session, "CREATE TABLE account (id BIGINT PRIMARY KEY, balance BIGINT)");
    run(&session, &format!("INSERT INTO account SELECT n, 1000 FROM range({ACCOUNTS}) r(n)"));
    let pay = |from: i64, to: i64, amount: i64| -> Result<()> {
        let mut t = database.transaction()?;
        let table = t.table("account")?;
        let mut row = Row::default();
        for (id, amount) in [(from, -amount), (to, amount)] {
            assert!(t.get(&table, &[Cell::i64(id)], &[1], &mut row)?, "nobody deletes accounts");
            let balance = row.cell(0).as_i64().expect("a balance") + amount;
            assert!(t.update(&table, &[Cell::i64(id)], &[(1, Cell::i64(balance))])?);
        }
        t.commit()
    };
    let is_conflict = |done: Result<()>| match done {
        Ok(()) => false,
        Err(error) if error.kind() == ErrorKind::Conflict => true,
        Err(error) => panic!("{error}"),
    };
    std::thread::scope(|scope| {
        for seed in 0..2_i64 {
            scope.spawn(move || {
                for step in 0..400 {
                    let (from, to) = ((step * 37 + seed * 11) % ACCOUNTS, (step * 53 + seed * 29 + 1) % ACCOUNTS);
                    while from != to && is_conflict(pay(from, to, 1 + step % 7)) {}
                }
            });
        }
        let others = [
            ("UPDATE account SET balance = balance + CASE id WHEN 3 THEN 5 ELSE -5 END WHERE id IN (3, 4)", 30),
            ("CHECKPOINT", 10),
        ];
        for (sql, times) in others {
            let session = database.session();
            scope.spawn(move || {
                let statement = &session.statements(sql).expect("it parses")[0];
                for _ in 0..times {
                    let mut is_done = false;
                    while !is_done {
                        is_done = !is_conflict(session.execute(statement).map(drop));
                    }
                }
            });
        }
        let session = database.session();
        scope.spawn(move || {
            for _ in 0..60 {
                let seen = pairs(&session, "SELECT count(*), sum(balance)::BIGINT FROM account");
                assert_eq!(seen, [(ACCOUNTS, ACCOUNTS * 1000)]);
            }
        });
    });
    let seen = pairs(&session, "SELECT count(DISTINCT id), sum(balance)::BIGINT FROM account");
    assert_eq!(seen, [(ACCOUNTS, ACCOUNTS * 1000)]);
}
