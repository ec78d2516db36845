//! What a transaction needs of a database: prepared statements, and how transactions begin and end.
//!
//! Transactions are written for [`Connection`], so that the same code runs on any database that implements it. A session of Forebay does.
//! Must not know: what transactions do.

use std::borrow::Cow;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::compute::{cast, concat_batches};
use arrow::datatypes::{DataType, Decimal128Type, Int32Type, Int64Type};
use arrow::util::display::array_value_to_string;
use forebay::{Error, Params, Prepared, Result, Session, Value};

use crate::measure::run_sql;

/// Digits of an amount of money behind its point.
const AMOUNT_SCALE: u8 = 2;

/// A connection of one client to a database that holds TPC-C.
///
/// Statements are written in Forebay's SQL, with parameters `$1`, `$2` and so on. A transaction that another one makes vain fails with
/// [`ErrorKind::Conflict`](forebay::ErrorKind::Conflict): it is rolled back and run again.
pub trait Connection {
    /// A prepared statement.
    type Statement;
    /// The rows of a statement.
    type Rows: Rows;

    /// Prepares one statement.
    ///
    /// # Errors
    /// A statement that the database refuses.
    fn prepare(&self, sql: &str) -> Result<Self::Statement>;

    /// Runs a prepared statement with these values, and gives all of its rows.
    ///
    /// # Errors
    /// A statement that fails.
    fn execute(&self, statement: &Self::Statement, params: &[Param<'_>]) -> Result<Self::Rows>;

    /// Begins a transaction.
    ///
    /// # Errors
    /// Those of the database.
    fn begin(&self, access: Access) -> Result<()>;

    /// Ends the transaction and keeps what it changed.
    ///
    /// # Errors
    /// A transaction that cannot commit.
    fn commit(&self) -> Result<()>;

    /// Ends the transaction and keeps nothing.
    ///
    /// # Errors
    /// Those of the database.
    fn roll_back(&self) -> Result<()>;

    /// Runs a query that is not prepared, and counts its rows.
    ///
    /// # Errors
    /// A query that fails.
    fn count_rows(&self, sql: &str) -> Result<u64>;
}

/// What a transaction does with rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// It only reads them.
    Reads,
    /// It also writes them.
    Writes,
}

/// A value for a parameter.
#[derive(Debug, Clone, Copy)]
pub enum Param<'a> {
    /// An integer.
    Integer(i64),
    /// An amount of money with two digits behind the point.
    Amount {
        /// The amount as a number of its last digit.
        cents: i64,
        /// All digits that its column has.
        digits: u8,
    },
    /// A text.
    Text(&'a str),
}

/// An integer as a parameter.
pub(super) fn integer(value: impl Into<i64>) -> Param<'static> {
    Param::Integer(value.into())
}

/// Rows of a statement, value by value.
pub trait Rows {
    /// How many there are.
    fn len(&self) -> usize;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// An integer, or `None` for NULL.
    ///
    /// # Errors
    /// A row that is not there; another type.
    fn integer_or_null(&self, row: usize, column: usize) -> Result<Option<i64>>;

    /// An amount of money as a number of its last digit.
    ///
    /// # Errors
    /// A row that is not there; another type; NULL.
    fn unscaled(&self, row: usize, column: usize) -> Result<i64>;

    /// A text.
    ///
    /// # Errors
    /// A row that is not there.
    fn text(&self, row: usize, column: usize) -> Result<Cow<'_, str>>;

    /// An integer.
    ///
    /// # Errors
    /// A row that is not there; another type; NULL.
    fn integer(&self, row: usize, column: usize) -> Result<i64> {
        self.integer_or_null(row, column)?.ok_or_else(|| Error::internal("a NULL where TPC-C has none"))
    }
}

/// The error where a transaction finds no row.
pub(super) fn missing() -> Error {
    Error::internal("TPC-C misses a row")
}

impl Connection for Session {
    type Statement = Prepared;
    type Rows = RecordBatch;

    fn prepare(&self, sql: &str) -> Result<Prepared> {
        Session::prepare(self, sql)
    }

    fn execute(&self, statement: &Prepared, params: &[Param<'_>]) -> Result<RecordBatch> {
        let mut values = Params::new();
        for param in params {
            values = match *param {
                Param::Integer(value) => values.push(value),
                Param::Amount { cents, digits } => values.push(Value::decimal(cents.into(), digits, AMOUNT_SCALE)?),
                Param::Text(text) => values.push(text),
            };
        }
        let mut result = self.execute_prepared(statement, &values)?;
        let mut batches = Vec::new();
        while let Some(batch) = result.next_batch()? {
            batches.push(batch);
        }
        if let [_] = batches.as_slice() {
            return Ok(batches.remove(0));
        }
        // Batches know their columns better than a result that has not run.
        let schema = batches.first().map_or_else(|| result.schema(), RecordBatch::schema);
        concat_batches(&schema, &batches).map_err(|error| Error::internal(error.to_string()))
    }

    fn begin(&self, _access: Access) -> Result<()> {
        run_sql(self, "BEGIN").map(drop)
    }

    fn commit(&self) -> Result<()> {
        run_sql(self, "COMMIT").map(drop)
    }

    fn roll_back(&self) -> Result<()> {
        run_sql(self, "ROLLBACK").map(drop)
    }

    fn count_rows(&self, sql: &str) -> Result<u64> {
        Ok(run_sql(self, sql)?.0.rows)
    }
}

impl Rows for RecordBatch {
    fn len(&self) -> usize {
        self.num_rows()
    }

    fn integer_or_null(&self, row: usize, column: usize) -> Result<Option<i64>> {
        let column = self.column(column);
        if row >= column.len() {
            return Err(missing());
        }
        if let Some(integers) = column.as_primitive_opt::<Int32Type>() {
            return Ok((!integers.is_null(row)).then(|| integers.value(row).into()));
        }
        let integers = cast(&column.slice(row, 1), &DataType::Int64).map_err(|e| Error::internal(e.to_string()))?;
        let integers = integers.as_primitive::<Int64Type>();
        Ok((!integers.is_null(0)).then(|| integers.value(0)))
    }

    fn unscaled(&self, row: usize, column: usize) -> Result<i64> {
        let decimals = self.column(column).as_primitive_opt::<Decimal128Type>();
        let decimals = decimals.filter(|decimals| row < decimals.len() && decimals.is_valid(row));
        let decimal = decimals.map(|decimals| decimals.value(row));
        decimal.and_then(|value| i64::try_from(value).ok()).ok_or_else(|| Error::internal("TPC-C misses a decimal"))
    }

    fn text(&self, row: usize, column: usize) -> Result<Cow<'_, str>> {
        if row >= self.num_rows() {
            return Err(missing());
        }
        let column = self.column(column);
        if let Some(texts) = column.as_string_view_opt() {
            return Ok(texts.value(row).into());
        }
        array_value_to_string(column, row).map(Cow::from).map_err(|error| Error::internal(error.to_string()))
    }
}
