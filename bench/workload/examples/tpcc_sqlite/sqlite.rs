//! SQLite as a database that runs TPC-C: a write-ahead log, tables without row ids, `BEGIN IMMEDIATE`, cached statements and a large cache.
//!
//! Amounts of money are integers of their last digit, since SQLite has no decimals. Must not know: what transactions do.

use std::borrow::Cow;
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use forebay::arrow::array::{Array, ArrayRef, AsArray};
use forebay::arrow::datatypes::{DataType, Decimal128Type, Int32Type, TimeUnit, TimestampMicrosecondType};
use forebay::{Error, ErrorKind, Result, Session};
use forebay_workload::tpcc::{Access, Connection, Param, RowCounts, Rows, SCHEMA, TABLES};
use rusqlite::types::ValueRef;
use rusqlite::{Statement, params_from_iter};

use crate::arguments::Durability;

/// Pages that each connection keeps, in KiB.
const CACHE_KIB: u32 = 1 << 20;

/// How long a connection waits for the lock of another one before its transaction counts as a conflict.
const BUSY_TIMEOUT: Duration = Duration::from_secs(60);

/// More than all statements of the five transactions.
const CACHED_STATEMENTS: usize = 128;

/// Forms of Forebay's SQL, and what stands for them in SQLite's: parameters by number, the time in microseconds.
const FORMS: [(&str, &str); 3] = [
    ("CAST(now() AS TIMESTAMP)", "CAST(unixepoch('subsec') * 1000000 AS INTEGER)"),
    ("left($5 || c_data, 500)", "substr($5 || c_data, 1, 500)"),
    ("$", "?"),
];

/// One connection.
pub(crate) struct Sqlite(rusqlite::Connection);

impl Sqlite {
    /// Opens the file, and makes it if it is not there.
    pub(crate) fn open(path: &Path, durability: Durability) -> Result<Self> {
        let connection = rusqlite::Connection::open(path).map_err(error)?;
        connection.busy_timeout(BUSY_TIMEOUT).map_err(error)?;
        connection.set_prepared_statement_cache_capacity(CACHED_STATEMENTS);
        let synchronous = match durability {
            Durability::Off => "OFF",
            Durability::Full => "FULL",
        };
        let settings =
            format!("PRAGMA journal_mode = WAL; PRAGMA synchronous = {synchronous}; PRAGMA cache_size = -{CACHE_KIB};");
        connection.execute_batch(&settings).map_err(error)?;
        Ok(Self(connection))
    }

    /// Warehouses that the file holds; `None` where it holds no TPC-C.
    pub(crate) fn warehouses(&self) -> Result<Option<u64>> {
        let tables = self.count_rows("SELECT name FROM sqlite_schema WHERE type = 'table' AND name = 'warehouse'")?;
        if tables == 0 {
            return Ok(None);
        }
        self.count_rows("SELECT w_id FROM warehouse").map(Some)
    }

    /// Makes the tables, and copies every row that Forebay holds. Without statistics the last order of a customer would not be found by its
    /// index.
    pub(crate) fn fill(&self, from: &Session) -> Result<()> {
        self.0.execute_batch("BEGIN IMMEDIATE").map_err(error)?;
        for statement in SCHEMA.split_terminator(';').filter(|statement| !statement.trim().is_empty()) {
            self.0.execute_batch(&definition(statement)).map_err(error)?;
        }
        for (table, order) in TABLES {
            self.copy(from, table, order)?;
        }
        self.0.execute_batch("COMMIT; ANALYZE; PRAGMA wal_checkpoint(TRUNCATE);").map_err(error)
    }

    fn copy(&self, from: &Session, table: &str, order: &str) -> Result<()> {
        for query in from.statements(&format!("SELECT * FROM {table} ORDER BY {order}"))? {
            let mut rows = from.execute(&query)?;
            let places = vec!["?"; rows.schema().fields().len()].join(", ");
            let insert = format!("INSERT INTO {table} VALUES ({places})");
            let mut insert = self.0.prepare(&insert).map_err(error)?;
            while let Some(batch) = rows.next_batch()? {
                for row in 0..batch.num_rows() {
                    let values = batch.columns().iter().map(|column| value(column, row));
                    let values = values.collect::<Result<Vec<_>>>()?;
                    insert.execute(params_from_iter(values)).map_err(error)?;
                }
            }
        }
        Ok(())
    }

    fn end(&self, word: &str) -> Result<()> {
        self.0.prepare_cached(word).and_then(|mut statement| statement.raw_execute()).map(drop).map_err(error)
    }
}

impl Connection for Sqlite {
    /// The statement's text, by which the connection finds it in its cache.
    type Statement = String;
    type Rows = SqliteRows;

    fn prepare(&self, sql: &str) -> Result<String> {
        let sql = FORMS.iter().fold(sql.to_owned(), |sql, (form, own)| sql.replace(form, own));
        self.0.prepare_cached(&sql).map_err(error)?;
        Ok(sql)
    }

    fn execute(&self, statement: &String, params: &[Param<'_>]) -> Result<SqliteRows> {
        let mut statement = self.0.prepare_cached(statement).map_err(error)?;
        for (place, param) in params.iter().enumerate() {
            let bound = match *param {
                Param::Integer(value) => statement.raw_bind_parameter(place + 1, value),
                Param::Amount { cents, .. } => statement.raw_bind_parameter(place + 1, cents),
                Param::Text(text) => statement.raw_bind_parameter(place + 1, text),
            };
            bound.map_err(error)?;
        }
        SqliteRows::of(&mut statement)
    }

    fn begin(&self, access: Access) -> Result<()> {
        self.end(match access {
            // Takes no lock: it reads a snapshot.
            Access::Reads => "BEGIN",
            Access::Writes => "BEGIN IMMEDIATE",
        })
    }

    fn commit(&self) -> Result<()> {
        self.end("COMMIT")
    }

    fn roll_back(&self) -> Result<()> {
        // Some errors have ended the transaction.
        if self.0.is_autocommit() { Ok(()) } else { self.end("ROLLBACK") }
    }
}

impl RowCounts for Sqlite {
    fn count_rows(&self, sql: &str) -> Result<u64> {
        let mut statement = self.0.prepare(sql).map_err(error)?;
        let mut rows = statement.raw_query();
        let mut count = 0;
        while rows.next().map_err(error)?.is_some() {
            count += 1;
        }
        Ok(count)
    }
}

/// Rows of a statement, row by row. Texts lie one behind the other.
pub(crate) struct SqliteRows {
    columns: usize,
    cells: Vec<Cell>,
    texts: String,
}

enum Cell {
    Null,
    Integer(i64),
    Text(Range<usize>),
}

impl SqliteRows {
    /// Runs a statement to its end.
    fn of(statement: &mut Statement<'_>) -> Result<Self> {
        let columns = statement.column_count();
        let mut own = Self { columns, cells: Vec::new(), texts: String::new() };
        let mut rows = statement.raw_query();
        while let Some(row) = rows.next().map_err(error)? {
            for column in 0..columns {
                let cell = match row.get_ref(column).map_err(error)? {
                    ValueRef::Null => Cell::Null,
                    ValueRef::Integer(value) => Cell::Integer(value),
                    ValueRef::Text(text) => {
                        let begin = own.texts.len();
                        own.texts.push_str(std::str::from_utf8(text).map_err(|e| Error::internal(e.to_string()))?);
                        Cell::Text(begin..own.texts.len())
                    }
                    other => return Err(Error::internal(format!("SQLite gives {other:?}"))),
                };
                own.cells.push(cell);
            }
        }
        Ok(own)
    }

    fn cell(&self, row: usize, column: usize) -> Result<&Cell> {
        let cell = self.cells.get(row * self.columns + column).filter(|_| column < self.columns);
        cell.ok_or_else(|| Error::internal("TPC-C misses a row"))
    }
}

impl Rows for SqliteRows {
    fn len(&self) -> usize {
        self.cells.len().checked_div(self.columns).unwrap_or(0)
    }

    fn integer_or_null(&self, row: usize, column: usize) -> Result<Option<i64>> {
        match self.cell(row, column)? {
            Cell::Null => Ok(None),
            Cell::Integer(value) => Ok(Some(*value)),
            Cell::Text(_) => Err(Error::internal("a text where TPC-C has an integer")),
        }
    }

    fn unscaled(&self, row: usize, column: usize) -> Result<i64> {
        self.integer(row, column)
    }

    fn text(&self, row: usize, column: usize) -> Result<Cow<'_, str>> {
        match self.cell(row, column)? {
            Cell::Text(range) => Ok(self.texts[range.clone()].into()),
            Cell::Null | Cell::Integer(_) => Err(Error::internal("no text where TPC-C has one")),
        }
    }
}

/// A statement of Forebay's schema as one of SQLite's: decimals are integers, and tables with a key have no row ids.
fn definition(statement: &str) -> String {
    let mut parts = statement.split("DECIMAL(");
    let mut own = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        own.push_str("INTEGER");
        own.push_str(part.split_once(')').map_or(part, |(_, rest)| rest));
    }
    if own.contains("PRIMARY KEY") {
        own.push_str(" WITHOUT ROWID");
    }
    own
}

/// A value of Forebay as one of SQLite.
fn value(column: &ArrayRef, row: usize) -> Result<rusqlite::types::Value> {
    if column.is_null(row) {
        return Ok(rusqlite::types::Value::Null);
    }
    let value = match column.data_type() {
        DataType::Int32 => column.as_primitive::<Int32Type>().value(row).into(),
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            column.as_primitive::<TimestampMicrosecondType>().value(row).into()
        }
        DataType::Decimal128(..) => {
            let unscaled = column.as_primitive::<Decimal128Type>().value(row);
            i64::try_from(unscaled).map_err(|e| Error::internal(e.to_string()))?.into()
        }
        DataType::Utf8View => column.as_string_view().value(row).to_owned().into(),
        DataType::Utf8 => column.as_string::<i32>().value(row).to_owned().into(),
        other => return Err(Error::internal(format!("TPC-C has no column of type {other}"))),
    };
    Ok(value)
}

/// SQLite's error as Forebay's. Who waited for a lock in vain may try again.
fn error(error: rusqlite::Error) -> Error {
    let is_busy = matches!(
        error.sqlite_error_code(),
        Some(rusqlite::ErrorCode::DatabaseBusy | rusqlite::ErrorCode::DatabaseLocked)
    );
    Error::new(if is_busy { ErrorKind::Conflict } else { ErrorKind::Internal }, format!("SQLite: {error}"))
}
