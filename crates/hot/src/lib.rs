//! The hot row store: rows in memory with versions, changed in place by transactions while others read them at their snapshots.
//!
//! ```text
//! Commits            commit numbers, transaction ids, live snapshots
//! Transaction        what it has written; savepoints; commit, rollback
//! HotTable           chunks of 65,536 rows, a latch for each
//!   chunk            newest values in columns, which rows are there, bounds that only widen
//!     marks          per 1,024 rows which positions have versions, and their newest undo records
//!     undo           before-images, newest first
//! UniqueIndex        rows by keys that no two of them have, by hash
//! KeyIndex           rows by the values of some columns, in their order
//! Batch, Row         what a scan and a read of one row give
//! ```
//!
//! After *Fast Serializable Multi-Version Concurrency Control for Main-Memory Database Systems* (Neumann, Mühlbauer, Kemper 2015), with
//! the pruning of *Scalable Garbage Collection for In-Memory MVCC Systems* (Böttcher et al. 2019), and chunks as *Data Blocks* (Lang et al. 2016, §1)
//! freezes them.
//!
//! Invariants: a view sees the same rows however often it looks. Readers never wait for a transaction, writers neither: they conflict, and may wait
//! for the other one afterwards ([`Blocker`]). A chunk
//! without versions is read without a test per row. Must not know: SQL, logs, files, blocks, what a query asks.
#![forbid(unsafe_code)]

mod batch;
mod bits;
mod bounds;
mod cell;
mod changes;
mod chunk;
mod chunk_list;
mod column;
mod commits;
mod fixed;
mod heap;
mod index;
mod index_key;
mod indexed_columns;
mod key;
mod marks;
mod row_id;
mod stamp;
mod sync;
mod table;
mod transaction;
mod undo;
mod unique_index;
mod waiting;

pub use batch::{Batch, BatchColumn};
pub use bits::Bits;
pub use cell::{Cell, Row};
pub use changes::{ChangedRow, Changes};
pub use chunk::{Change, ColumnBounds, MemoryBytes, Newest, OwnChange};
pub use commits::{CommitNumber, Commits, Snapshot, View};
pub use fixed::Fixed;
pub use index::KeyIndex;
pub use indexed_columns::IndexedColumns;
pub use key::{end_of_prefix, push_key};
pub use marks::RANGE_ROWS;
pub use row_id::RowId;
pub use stamp::TransactionId;
pub use table::{CleanRows, HotTable};
pub use transaction::{Savepoint, Transaction};
pub use unique_index::UniqueIndex;
pub use waiting::{Blocker, Waited};
