//! Transactions over single rows by their keys, for procedures in Rust: no SQL is parsed or planned.
//!
//! ```
//! use forebay::keyed::{Cell, Row};
//! use forebay::{Database, Options};
//!
//! # fn main() -> forebay::Result<()> {
//! let database = Database::in_memory(&Options { threads: Some(1), ..Options::default() })?;
//! let session = database.session();
//! for statement in session.statements("CREATE TABLE account (id BIGINT PRIMARY KEY, balance BIGINT)")? {
//!     session.execute(&statement)?;
//! }
//! let mut transaction = database.transaction()?;
//! let account = transaction.table("account")?;
//! let balance = account.column("balance")?;
//! transaction.insert(&account, &[Cell::i64(1), Cell::i64(100)])?;
//! let mut row = Row::default();
//! assert!(transaction.get(&account, &[Cell::i64(1)], &[balance], &mut row)?);
//! let paid = row.cell(0).as_i64().unwrap_or(0) - 30;
//! transaction.update(&account, &[Cell::i64(1)], &[(balance, Cell::i64(paid))])?;
//! transaction.commit()?;
//! # Ok(())
//! # }
//! ```
//!
//! A value is a [`Cell`] as its column stores it: integers, dates (days since 1970), timestamps (in the unit of their type) and decimals (without
//! their point) are the bits of an integer of the column's width, floats their bits, texts and blobs their bytes.
//! [`Cell::of`] makes one of a [`Value`](forebay_base::Value).

pub use forebay_base::{LogicalType, PhysicalType, Value};
pub use forebay_keyed::{KeyedTable as Table, KeyedTransaction as Transaction};
pub use forebay_store::{Cell, HotRow as Row};
