//! Transactions over single rows by their keys, for procedures that are written in Rust: no text, no plan, no compiled code.
//!
//! ```text
//! KeyedTransaction     get, insert, update, delete, range; commit
//! KeyedRows            the same of any transaction of the store
//! KeyedTable           a table with its keys and indexes, as the transaction knows it
//!   hot rows           by the indexes of forebay_store's hot tables
//!   rows of segments   by forebay_engine::keyed
//! ```
//!
//! What is written are hot rows. A row of a segment that is changed is deleted there, and its new values are a hot row (*update = delete there +
//! insert hot*; Data Blocks, Lang et al. 2016, §1). Statements of other sessions see all of it as of any transaction.
//!
//! Invariant: a call that fails has changed nothing. Must not know: SQL.
#![forbid(unsafe_code)]

mod added;
mod known;
mod moved;
mod rows;
mod table;
mod transaction;

pub use added::check_added_segments;
pub use known::KnownTables;
pub use moved::{MOST_HOT_ROWS, NewValues, insert_rows};
pub use rows::{Beginning, KeyRange, KeyedRow, KeyedRows};
pub use table::KeyedTable;
pub use transaction::KeyedTransaction;
