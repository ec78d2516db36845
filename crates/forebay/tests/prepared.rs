//! Prepared statements, and calls from tasks of an asynchronous program.

use std::sync::Arc;

use forebay::arrow::array::types::{Int64Type, IntervalMonthDayNano};
use forebay::arrow::array::{
    ArrayRef, AsArray, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array, Int8Array,
    Int16Array, Int32Array, Int64Array, IntervalMonthDayNanoArray, StringArray, Time64MicrosecondArray,
    TimestampMicrosecondArray, TimestampNanosecondArray, TimestampSecondArray, UInt8Array, UInt16Array, UInt32Array,
    UInt64Array,
};
use forebay::arrow::datatypes::DataType;
use forebay::render::value::{Notation, cells};
use forebay::{Database, ErrorKind, Options, Params, QueryResult, Result, Session, Statement, Value};

fn database() -> Database {
    Database::in_memory(&Options { threads: Some(2), ..Options::default() }).expect("memory")
}

fn run(session: &Session, sql: &str) {
    for statement in session.statements(sql).expect("a script") {
        rows(session.execute(&statement)).expect(sql);
    }
}

/// The rows as text, values separated by `|`.
fn rows(result: Result<QueryResult>) -> Result<Vec<String>> {
    let mut result = result?;
    let mut rows = Vec::new();
    while let Some(batch) = result.next_batch()? {
        let columns: Vec<_> = batch.columns().iter().map(|column| cells(column, Notation::Text)).collect();
        for row in 0..batch.num_rows() {
            let text = |write: &forebay::render::value::Cells<'_>| {
                let mut text = String::new();
                if write(row, &mut text) { text } else { "NULL".to_owned() }
            };
            rows.push(columns.iter().map(text).collect::<Vec<_>>().join("|"));
        }
    }
    Ok(rows)
}

fn ask(session: &Session, sql: &str, params: Params) -> Result<Vec<String>> {
    rows(session.execute_prepared(&session.prepare(sql)?, &params))
}

#[test]
fn values_of_every_type_come_back() {
    let session = database().session();
    let seconds = 1_600_000_000;
    let all: Vec<(ArrayRef, &str, &str)> = vec![
        (Arc::new(BooleanArray::from(vec![true])), "BOOLEAN", "true"),
        (Arc::new(Int8Array::from(vec![i8::MIN])), "TINYINT", "-128"),
        (Arc::new(Int16Array::from(vec![i16::MIN])), "SMALLINT", "-32768"),
        (Arc::new(Int32Array::from(vec![i32::MAX])), "INTEGER", "2147483647"),
        (Arc::new(Int64Array::from(vec![i64::MIN])), "BIGINT", "-9223372036854775808"),
        (Arc::new(UInt8Array::from(vec![255])), "UTINYINT", "255"),
        (Arc::new(UInt16Array::from(vec![65_535])), "USMALLINT", "65535"),
        (Arc::new(UInt32Array::from(vec![u32::MAX])), "UINTEGER", "4294967295"),
        (Arc::new(UInt64Array::from(vec![u64::MAX])), "UBIGINT", "18446744073709551615"),
        (Arc::new(Float32Array::from(vec![0.1])), "FLOAT", "0.1"),
        (Arc::new(Float64Array::from(vec![-1e300])), "DOUBLE", "-1e300"),
        (Arc::new(Float64Array::from(vec![f64::NEG_INFINITY])), "DOUBLE", "-Infinity"),
        (Arc::new(StringArray::from(vec!["it's \\ \n ? $1"])), "VARCHAR", "it's \\ \n ? $1"),
        (Arc::new(BinaryArray::from(vec![&b"\x00a'\xff"[..]])), "BLOB", "\\x0061"),
        (Arc::new(Date32Array::from(vec![-1])), "DATE", "1969-12-31"),
        (Arc::new(Time64MicrosecondArray::from(vec![1])), "TIME", "00:00:00.000001"),
        (Arc::new(TimestampMicrosecondArray::from(vec![-1])), "TIMESTAMP", "1969-12-31 23:59:59.999999"),
        (Arc::new(TimestampSecondArray::from(vec![seconds])), "TIMESTAMP_S", "2020-09-13 12:26:40"),
        (Arc::new(TimestampNanosecondArray::from(vec![1])), "TIMESTAMP_NS", "1970-01-01 00:00:00.000000001"),
        (
            Arc::new(IntervalMonthDayNanoArray::from(vec![IntervalMonthDayNano::new(14, -3, 1_000_000)])),
            "INTERVAL",
            "1 year 2 months -3 days 00:00:00.001",
        ),
        (
            Arc::new(Decimal128Array::from(vec![-12_345]).with_precision_and_scale(9, 2).expect("it fits")),
            "DECIMAL(9,2)",
            "-123.45",
        ),
    ];
    for (array, name, expected) in all {
        let value = Value::array(Arc::clone(&array)).expect("one row");
        let got = ask(&session, "SELECT $1", Params::new().push(value)).expect(name);
        assert!(got[0].starts_with(expected), "{name}: {got:?}");
        // The value is what it was, in a column of its type and beside it.
        let table = name.replace(['(', ',', ')'], "_");
        run(&session, &format!("CREATE OR REPLACE TABLE t_{table} (x {name})"));
        for insert in [array, forebay::arrow::array::new_null_array(&DataType::Null, 1)] {
            let params = Params::new().push(Value::array(insert).expect("one row"));
            ask(&session, &format!("INSERT INTO t_{table} VALUES (?)"), params).expect(name);
        }
        let found = format!("SELECT count(*), count(x) FROM t_{table} WHERE x = $1 OR $1 IS NULL");
        let again = Value::array(session_value(&session, &table)).expect("one row");
        assert_eq!(ask(&session, &found, Params::new().push(again)).expect(name), ["1|1"], "{name}");
        assert_eq!(ask(&session, &found, Params::new().push(Value::null())).expect(name), ["2|1"], "{name}");
    }
}

/// The value of a table of one value and NULL.
fn session_value(session: &Session, table: &str) -> ArrayRef {
    let text = format!("SELECT x FROM t_{table} WHERE x IS NOT NULL");
    let mut result = session.execute(&Statement { text }).expect("a query");
    let batch = result.next_batch().expect("rows").expect("a row");
    Arc::clone(batch.column(0))
}

#[test]
fn rust_values_are_parameters() {
    let session = database().session();
    let params = Params::new().push(5).push("x").push(None::<i64>).push(true).push(2.5).push(String::from("y"));
    let got = ask(&session, "SELECT $1, $2, $3, $4, $5, $6", params).expect("six values");
    assert_eq!(got, ["5|x|NULL|true|2.5|y"]);
    let decimal = Value::decimal(150, 5, 2).expect("it fits");
    assert_eq!(ask(&session, "SELECT $d * 2", Params::new().bind("$D", decimal)).expect("named"), ["3.00"]);
    assert!(Value::decimal(1, 90, 2).is_err());
    assert!(Value::array(Arc::new(Int64Array::from(vec![1, 2]))).is_err());
}

#[test]
fn wrong_parameters_are_told() {
    let session = database().session();
    for (sql, params, said) in [
        ("SELECT $1, $2", Params::new().push(1), "no value is given for $2"),
        ("SELECT ?", Params::new().push(1).push(2), "no parameter $2"),
        ("SELECT 1", Params::new().push(1), "no parameter $1"),
        ("SELECT $day", Params::new().bind("dya", 1), "no parameter $dya"),
        ("SELECT $day", Params::new().bind("day", 1).bind("Day", 2), "two values"),
        ("SELECT $1, $day", Params::new(), "do not go together"),
        ("SELECT $0", Params::new(), "numbered from 1"),
    ] {
        let error = ask(&session, sql, params).expect_err(sql).to_string();
        assert!(error.contains(said), "{sql}: {error}");
    }
    let error = rows(session.execute(&Statement { text: "SELECT $1".into() })).expect_err("no value");
    assert_eq!(error.kind(), ErrorKind::Input, "{error}");
}

#[test]
fn statements_are_described_before_they_run() {
    let session = database().session();
    run(&session, "CREATE TABLE t (i INTEGER, b BIGINT, s VARCHAR, d DATE, m DECIMAL(9,2))");
    let described = |sql: &str| {
        let prepared = session.prepare(sql).expect(sql);
        let parameters: Vec<(String, Option<DataType>)> =
            prepared.parameters().iter().map(|it| (it.name.clone(), it.data_type.clone())).collect();
        let columns = prepared.columns().map(|schema| {
            schema.fields().iter().map(|field| (field.name().clone(), field.data_type().clone())).collect::<Vec<_>>()
        });
        (parameters, columns)
    };
    let named = |name: &str, data_type: &DataType| (name.to_owned(), data_type.clone());
    let typed = |name: &str, data_type: DataType| (name.to_owned(), Some(data_type));

    let (parameters, columns) = described("SELECT i, sum(b) AS total FROM t WHERE s = $1 AND d > $2 GROUP BY i");
    assert_eq!(parameters, [typed("1", DataType::Utf8View), typed("2", DataType::Date32)]);
    let columns = columns.expect("a query");
    assert_eq!(columns[0], named("i", &DataType::Int32));
    let run = ask_schema(&session, "SELECT i, sum(b) AS total FROM t GROUP BY i");
    assert_eq!(columns[1], named("total", &run[1]));

    assert_eq!(described("SELECT $1 + 1").0, [typed("1", DataType::Int64)]);
    assert_eq!(described("SELECT i FROM t WHERE m < $least").0, [typed("least", DataType::Decimal128(9, 2))]);
    assert_eq!(described("SELECT i FROM t LIMIT $1").0, [typed("1", DataType::Int64)]);
    assert_eq!(described("SELECT $1").0, [("1".to_owned(), None)]);
    assert_eq!(described("SELECT 1 AS a").1, Some(vec![named("a", &DataType::Int64)]));
    let (parameters, columns) = described("INSERT INTO t (i, s) VALUES (?, ?)");
    assert_eq!(parameters, [typed("1", DataType::Int32), typed("2", DataType::Utf8View)]);
    assert_eq!(columns, Some(Vec::new()));
    assert_eq!(described("DROP TABLE t").1, Some(Vec::new()));
    assert_eq!(described("SHOW TABLES").1, None);
    assert!(session.prepare("SELECT nothing FROM t").is_err());
    assert!(session.prepare("SELECT FROM WHERE").is_err());
    // Nothing was run.
    assert_eq!(ask(&session, "SELECT count(*) FROM t", Params::new()).expect("it is there"), ["0"]);
}

fn ask_schema(session: &Session, sql: &str) -> Vec<DataType> {
    let result = session.execute(&Statement { text: sql.to_owned() }).expect(sql);
    result.schema().fields().iter().map(|field| field.data_type().clone()).collect()
}

#[test]
fn columns_have_the_names_that_were_described() {
    let session = database().session();
    let prepared = session.prepare("SELECT $1 + 1, $1").expect("a query");
    let mut result = session.execute_prepared(&prepared, &Params::new().push(4_i64)).expect("a value");
    let names = |schema: &forebay::arrow::datatypes::Schema| {
        schema.fields().iter().map(|field| field.name().clone()).collect::<Vec<_>>()
    };
    assert_eq!(names(&result.schema()), names(prepared.columns().expect("a query")));
    let batch = result.next_batch().expect("rows").expect("a row");
    assert_eq!(names(&batch.schema()), names(&result.schema()));
    assert_eq!(batch.column(0).as_primitive::<Int64Type>().value(0), 5);
}

#[test]
fn prepared_statements_survive_commits_and_ddl() {
    let database = database();
    let session = database.session();
    run(&session, "CREATE TABLE t (k INTEGER, v VARCHAR); INSERT INTO t VALUES (1, 'one')");
    let prepared = session.prepare("SELECT v FROM t WHERE k = ?").expect("a query");
    let insert = session.prepare("INSERT INTO t VALUES ($k, $v)").expect("an insert");
    let find = |k: i32| rows(session.execute_prepared(&prepared, &Params::new().push(k)));
    assert_eq!(find(1).expect("there"), ["one"]);
    assert!(find(2).expect("not there").is_empty());
    let params = Params::new().bind("v", "two").bind("k", 2);
    rows(session.execute_prepared(&insert, &params)).expect("a row");
    assert_eq!(find(2).expect("there"), ["two"]);
    run(&session, "DROP TABLE t");
    assert_eq!(find(1).expect_err("gone").kind(), ErrorKind::NotFound);
    run(&session, "CREATE TABLE t AS SELECT 3 AS k, DATE '1996-01-01' AS v");
    assert_eq!(find(3).expect("another table"), ["1996-01-01"]);
    // Another session of the database may run it, too.
    let other = database.session();
    assert_eq!(rows(other.execute_prepared(&prepared, &Params::new().push(3))).expect("there"), ["1996-01-01"]);
}

fn work() {
    let database = database();
    let session = database.session();
    run(&session, "CREATE TABLE t AS SELECT x AS k FROM range(100000) AS r(x)");
    let got = ask(&session, "SELECT count(*), sum(k) FROM t WHERE k < $1", Params::new().push(1000));
    assert_eq!(got.expect("rows"), ["1000|499500"]);
    let sorted = ask(&session, "SELECT k FROM t ORDER BY k DESC LIMIT $1", Params::new().push(1));
    assert_eq!(sorted.expect("rows"), ["99999"]);
    // More rows than wait for a slow reader.
    assert_eq!(ask(&session, "SELECT k FROM t", Params::new()).expect("rows").len(), 100_000);
    assert!(ask(&session, "SELECT CAST('x' AS INTEGER) FROM t", Params::new()).is_err());
    drop(session);
    // Closed where nobody may wait for a runtime to end.
    drop(database);
}

#[test]
fn calls_from_tasks_do_not_panic() {
    let several = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("threads");
    several.block_on(async {
        work();
        tokio::spawn(async { work() }).await.expect("no panic");
        tokio::task::spawn_blocking(work).await.expect("no panic");
    });
    let one = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    one.block_on(async { work() });
}

#[test]
fn transactions_begin_and_end_by_prepared_statements() {
    let database = database();
    let (session, other) = (database.session(), database.session());
    run(&session, "CREATE TABLE t (k INTEGER PRIMARY KEY, v INTEGER); INSERT INTO t VALUES (1, 0)");
    let prepare = |text| session.prepare(text).expect(text);
    let [begin, commit, roll_back] = ["BEGIN", "COMMIT", "ROLLBACK"].map(prepare);
    let [savepoint, back, release] = ["SAVEPOINT s", "ROLLBACK TO s", "RELEASE s"].map(prepare);
    let add = prepare("UPDATE t SET v = v + $1 WHERE k = 1");
    assert!(begin.parameters().is_empty() && begin.columns().is_some_and(|columns| columns.fields().is_empty()));
    let done = |prepared: &forebay::Prepared| {
        session.execute_prepared(prepared, &Params::new()).map(|done| done.kind().clone())
    };
    let told = |text: &str| forebay::ResultKind::Done(text.to_owned());
    let adds = |number: i32| session.execute_prepared(&add, &Params::new().push(number)).map(drop);
    let value = |session: &Session| ask(session, "SELECT v FROM t", Params::new()).expect("rows").remove(0);
    for (round, last, expected) in [(1, &commit, "11"), (2, &roll_back, "11"), (3, &commit, "22")] {
        assert_eq!(done(&begin).expect("begun"), told("BEGIN"), "{round}");
        adds(1).expect("changed");
        assert_eq!(done(&savepoint).expect("set"), told("SAVEPOINT"));
        adds(100).expect("changed");
        assert_eq!(done(&back).expect("gone back"), told("ROLLBACK TO"));
        adds(10).expect("changed");
        assert_eq!(done(&release).expect("forgotten"), told("RELEASE"));
        assert!(done(last).is_ok());
        assert_eq!((value(&session), value(&other)), (expected.to_owned(), expected.to_owned()), "{round}");
    }
    // What does not go says so, as a text does.
    for (prepared, kind) in
        [(&commit, ErrorKind::Input), (&roll_back, ErrorKind::Input), (&savepoint, ErrorKind::Input)]
    {
        assert_eq!(done(prepared).expect_err("none is open").kind(), kind);
    }
    done(&begin).expect("begun");
    adds(1).expect("changed");
    assert_eq!(done(&begin).expect_err("within another one").kind(), ErrorKind::Input);
    assert_eq!(adds(1).expect_err("aborted").kind(), ErrorKind::Aborted);
    assert_eq!(done(&commit).expect("ended"), told("ROLLBACK"));
    assert_eq!(value(&session), "22");
    assert!(session.execute_prepared(&begin, &Params::new().push(1)).is_err(), "it takes no value");
    // Durability and isolation are those of now.
    run(&session, "SET durability = off; SET default_transaction_isolation = 'read committed'");
    done(&begin).expect("begun");
    assert_eq!(value(&session), "22");
    run(&other, "UPDATE t SET v = 5");
    assert_eq!(value(&session), "5");
    done(&commit).expect("nothing to keep");
    let read_only = prepare("BEGIN READ ONLY");
    done(&read_only).expect("begun");
    assert_eq!(adds(1).expect_err("read-only").kind(), ErrorKind::Input);
    done(&roll_back).expect("ended");
    assert_eq!(value(&other), "5");
}
