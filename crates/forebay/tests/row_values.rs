//! Rows read value by value: those of statements by key and of plans are the same.

mod texts;

use forebay::{Database, Decimal, ErrorKind, FromValue, Options, Params, Prepared, Rows, Session};

use crate::texts::ok;

const TABLE: &str = "CREATE TABLE t (
        k INTEGER PRIMARY KEY, a TINYINT, b SMALLINT, c BIGINT, d UTINYINT, e UBIGINT, f DECIMAL(9, 2), g DOUBLE, h FLOAT, i BOOLEAN,
        j VARCHAR, l BLOB, m DATE, n TIMESTAMP, o TIME, p DECIMAL(38, 0));
    INSERT INTO t VALUES
        (1, -128, -5, 1234567890123, 255, 18446744073709551615, -12.34, 1.5, 0.25, true, 'grüße', '\\x00\\xFF', '1970-01-03',
            '1970-01-01 00:00:01', '00:00:00.000005', -99999999999999999999999999999999999999),
        (2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)";

fn session() -> Session {
    let database = Database::in_memory(&Options { threads: Some(2), ..Options::default() }).expect("a database");
    let session = database.session();
    ok(&session, TABLE);
    session
}

/// The rows of a result, found by key or by a plan, if there are any.
fn part(session: &Session, prepared: &Prepared, key: i32, by_key: bool) -> Option<Rows> {
    ok(session, if by_key { "SET point_access = on" } else { "SET point_access = off" });
    let mut result = session.execute_prepared(prepared, &Params::new().push(key)).expect("a query");
    let rows = result.next_rows().expect("rows").filter(|rows| !rows.is_empty());
    assert!(result.next_rows().expect("no more").is_none());
    rows
}

#[track_caller]
fn refused<'r, T: FromValue<'r> + std::fmt::Debug>(rows: &'r Rows, column: usize, said: &str) {
    let error = rows.get::<T>(0, column).expect_err(said);
    assert!(error.kind() == ErrorKind::Input && error.to_string().contains(said), "{error}");
}

#[test]
fn values_are_read_as_what_they_are() {
    let session = session();
    let prepared = session.prepare("SELECT * FROM t WHERE k = $1").expect("prepared");
    for by_key in [true, false] {
        let rows = part(&session, &prepared, 1, by_key).expect("a row");
        assert!(prepared.runs_by_key());
        assert_eq!((rows.len(), rows.is_empty(), rows.schema().fields().len()), (1, false, 16));
        assert_eq!(rows.get::<i32>(0, 0).expect("an integer"), 1);
        assert_eq!(rows.get::<i8>(0, 1).expect("an integer"), -128);
        assert_eq!(rows.get::<i128>(0, 2).expect("an integer"), -5);
        assert_eq!(rows.get::<i64>(0, 3).expect("an integer"), 1_234_567_890_123);
        assert_eq!(rows.get::<Option<u8>>(0, 4).expect("an integer"), Some(255));
        assert_eq!(rows.get::<u64>(0, 5).expect("an integer"), u64::MAX);
        assert_eq!(rows.get::<Decimal>(0, 6).expect("a decimal"), Decimal { unscaled: -1234, scale: 2 });
        assert!((rows.get::<f64>(0, 7).expect("a float") - 1.5).abs() < f64::EPSILON);
        assert!((rows.get::<f64>(0, 8).expect("a float") - 0.25).abs() < f64::EPSILON);
        assert!(rows.get::<bool>(0, 9).expect("a Boolean"));
        assert_eq!(rows.get::<&str>(0, 10).expect("a text"), "grüße");
        assert_eq!(rows.get::<String>(0, 10).expect("a text"), "grüße");
        assert_eq!(rows.get::<&[u8]>(0, 11).expect("a blob"), [0, 255]);
        assert_eq!(rows.get::<Vec<u8>>(0, 11).expect("a blob"), [0, 255]);
        assert_eq!(rows.get::<i32>(0, 12).expect("days"), 2);
        assert_eq!(rows.get::<i64>(0, 13).expect("microseconds"), 1_000_000);
        assert_eq!(rows.get::<i64>(0, 14).expect("microseconds"), 5);
        let greatest = Decimal { unscaled: 1 - 10_i128.pow(38), scale: 0 };
        assert_eq!(rows.get::<Decimal>(0, 15).expect("a decimal"), greatest);

        refused::<i8>(&rows, 3, "1234567890123 of column c, a BIGINT, is not an 8-bit integer");
        refused::<i64>(&rows, 5, "not a 64-bit integer");
        refused::<u32>(&rows, 1, "-128 of column a");
        refused::<i64>(&rows, 6, "column f is a DECIMAL(9,2), which is not read as a 64-bit integer");
        refused::<&str>(&rows, 0, "not a text");
        refused::<&str>(&rows, 11, "not read as a text");
        refused::<f64>(&rows, 16, "row 0, column 16: there are 1 rows of 16 columns");
        assert_eq!(rows.get::<i32>(1, 0).expect_err("one row").kind(), ErrorKind::Input);

        let nulls = part(&session, &prepared, 2, by_key).expect("a row");
        assert_eq!(nulls.get::<Option<i32>>(0, 0).expect("no NULL"), Some(2));
        for column in 1..16 {
            // Whatever it would be read as.
            assert_eq!(nulls.get::<Option<Decimal>>(0, column).expect("NULL"), None);
            assert_eq!(nulls.get::<Option<&str>>(0, column).expect("NULL"), None);
        }
        refused::<i64>(&nulls, 3, "column c of row 0 is NULL");
        assert!(part(&session, &prepared, 3, by_key).is_none());
    }
}

#[test]
fn many_rows_and_aggregates_are_the_same_by_key_and_by_plan() {
    let session = session();
    ok(&session, "CREATE TABLE u (k INTEGER, l INTEGER, v VARCHAR, PRIMARY KEY (k, l))");
    ok(&session, "INSERT INTO u SELECT i % 3, i, CASE WHEN i % 5 > 0 THEN 'row ' || i END FROM range(30) AS r(i)");
    for (query, is_numbers) in [
        ("SELECT l, v FROM u WHERE k = $1 ORDER BY l", false),
        ("SELECT l, v FROM u WHERE k = $1 ORDER BY l DESC LIMIT 4", false),
        ("SELECT v, l, v FROM u WHERE k = $1 ORDER BY l LIMIT 0", false),
        ("SELECT count(*), min(l), max(l), count(DISTINCT v) FROM u WHERE k = $1", true),
    ] {
        let prepared = session.prepare(query).expect(query);
        let mut seen: Vec<Vec<String>> = Vec::new();
        for by_key in [true, false] {
            ok(&session, if by_key { "SET point_access = on" } else { "SET point_access = off" });
            for key in [1, 7] {
                let mut values = Vec::new();
                let mut result = session.execute_prepared(&prepared, &Params::new().push(key)).expect(query);
                while let Some(rows) = result.next_rows().expect(query) {
                    for row in 0..rows.len() {
                        for column in 0..rows.schema().fields().len() {
                            let is_text = rows.schema().field(column).name() == "v" && !is_numbers;
                            values.push(match is_text {
                                true => format!("{:?}", rows.get::<Option<&str>>(row, column).expect("a text")),
                                false => format!("{:?}", rows.get::<Option<i64>>(row, column).expect("a number")),
                            });
                        }
                    }
                }
                // The same as arrays.
                let mut result = session.execute_prepared(&prepared, &Params::new().push(key)).expect(query);
                let mut count = 0;
                while let Some(batch) = result.next_batch().expect(query) {
                    count += batch.num_rows() * batch.num_columns();
                }
                assert_eq!(count, values.len(), "{query}");
                seen.push(values);
            }
            assert!(prepared.runs_by_key(), "{query}");
        }
        assert_eq!(seen[..2], seen[2..], "{query}");
    }
}

#[test]
fn types_without_values_are_told() {
    let session = session();
    let prepared = session.prepare("SELECT [1, 2] AS list, INTERVAL 1 DAY AS days").expect("prepared");
    let mut result = session.execute_prepared(&prepared, &Params::new()).expect("a query");
    let rows = result.next_rows().expect("rows").expect("one");
    for column in [0, 1] {
        let error = rows.get::<i64>(0, column).expect_err("no integer");
        assert!(
            error.kind() == ErrorKind::Unsupported && error.to_string().contains("not read value by value"),
            "{error}"
        );
    }
}
