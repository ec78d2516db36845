//! What a transaction needs of a database: prepared statements, and how transactions begin and end.
//!
//! Transactions are written for [`Connection`], so that the same code runs on any database that implements it. [`Client`] does for Forebay.
//! Must not know: what transactions do.

use std::borrow::Cow;

use forebay::{Decimal, Error, FromValue, Params, Prepared, Result, Session, Value};

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
}

/// Counts rows, which is what conditions of consistency ask for.
pub trait RowCounts {
    /// Runs a query that is not prepared, and counts its rows.
    ///
    /// # Errors
    /// A query that fails.
    fn count_rows(&self, sql: &str) -> Result<u64>;
}

impl RowCounts for Session {
    fn count_rows(&self, sql: &str) -> Result<u64> {
        Ok(run_sql(self, sql)?.0.rows)
    }
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

/// A session of Forebay with what it prepares for every transaction.
pub struct Client {
    session: Session,
    begin: Prepared,
    commit: Prepared,
    roll_back: Prepared,
}

impl Client {
    /// Prepares what transactions begin and end with.
    ///
    /// # Errors
    /// Those of preparing.
    pub fn new(session: Session) -> Result<Self> {
        let (begin, commit) = (session.prepare("BEGIN")?, session.prepare("COMMIT")?);
        Ok(Self { begin, commit, roll_back: session.prepare("ROLLBACK")?, session })
    }

    fn control(&self, statement: &Prepared) -> Result<()> {
        self.session.execute_prepared(statement, &Params::new()).map(drop)
    }
}

/// All rows of a statement, in the parts in which they came: mostly one.
pub struct Parts(Vec<forebay::Rows>);

impl Connection for Client {
    type Statement = Prepared;
    type Rows = Parts;

    fn prepare(&self, sql: &str) -> Result<Prepared> {
        self.session.prepare(sql)
    }

    fn execute(&self, statement: &Prepared, params: &[Param<'_>]) -> Result<Parts> {
        let mut values = Params::with_capacity(params.len());
        for param in params {
            values = match *param {
                Param::Integer(value) => values.push(value),
                Param::Amount { cents, digits } => values.push(Value::decimal(cents.into(), digits, AMOUNT_SCALE)?),
                Param::Text(text) => values.push(text),
            };
        }
        let mut result = self.session.execute_prepared(statement, &values)?;
        let mut parts = Vec::new();
        while let Some(rows) = result.next_rows()? {
            parts.push(rows);
        }
        Ok(Parts(parts))
    }

    fn begin(&self, _access: Access) -> Result<()> {
        self.control(&self.begin)
    }

    fn commit(&self) -> Result<()> {
        self.control(&self.commit)
    }

    fn roll_back(&self) -> Result<()> {
        self.control(&self.roll_back)
    }
}

impl Parts {
    fn get<'r, T: FromValue<'r>>(&'r self, mut row: usize, column: usize) -> Result<T> {
        for part in &self.0 {
            match row.checked_sub(part.len()) {
                None => return part.get(row, column),
                Some(left) => row = left,
            }
        }
        Err(missing())
    }
}

impl Rows for Parts {
    fn len(&self) -> usize {
        self.0.iter().map(forebay::Rows::len).sum()
    }

    fn integer_or_null(&self, row: usize, column: usize) -> Result<Option<i64>> {
        self.get(row, column)
    }

    fn unscaled(&self, row: usize, column: usize) -> Result<i64> {
        let decimal: Decimal = self.get(row, column)?;
        i64::try_from(decimal.unscaled).map_err(|_| Error::internal("TPC-C has no such decimal"))
    }

    fn text(&self, row: usize, column: usize) -> Result<Cow<'_, str>> {
        self.get::<&str>(row, column).map(Cow::from)
    }
}
