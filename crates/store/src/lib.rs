//! Which rows exist: catalog, manifest, immutable segment and fact files, the lock, and what survives a crash.
//!
//! A database is a directory (`docs/format.md`, "Database directory"): `HEAD`, `forebay.redb`, `segments/` and `LOCK`, and a log that nothing depends on; its
//! segments may lie in other directories, on drives of their own ("Data directories").
//! Readers hold an immutable [`Catalog`]; one [`Transaction`] at a time builds the next one, and a commit is one redb
//! transaction after the files it names are durable. What the manifest does not name does not exist.
//!
//! Invariants: a segment or fact file never changes after it is published, and outlives the last snapshot that names it; every
//! byte that is read back is checked before it is used. Must not know: SQL, Arrow, what a query asks.
#![forbid(unsafe_code)]

mod backup;
mod block_layout;
mod catalog;
mod check;
mod checkpoint;
mod commit_log;
mod data_directories;
mod data_file;
mod deleted;
mod distribution;
mod fact;
mod footer;
mod group_columns;
mod head;
mod held;
mod hot;
mod hot_files;
mod leftovers;
mod log_limits;
mod maintenance;
mod manifest;
mod options;
mod outcome;
mod projection;
mod reads;
mod record_log;
mod recovery;
mod redo_log;
mod redo_record;
mod rows;
mod segment;
mod segment_list;
mod sequence;
pub mod serial;
mod side_file;
mod signal;
mod small_file;
mod store;
mod striped;
mod syncer;
mod table_snapshot;
mod transaction;
mod volume;
mod waiting;
mod writer;

#[cfg(test)]
mod tests;

pub use backup::BackupReport;
pub use block_layout::BlockLayout;
pub use catalog::{
    Catalog, Column, ColumnDefinition, Constraint, DEFAULT_SCHEMA, Macro, MacroKind, NamedType, Table, TableDefinition,
    View, full_name, names_equal,
};
pub use check::{CHECK_ERRORS, CheckReport};
pub use data_directories::{DataDirectory, DatabaseId};
pub use deleted::{DeletedRows, RowBits};
pub use distribution::Distribution;
pub use fact::{BIN_SETS, BLOOM_FILTERS, Fact, FactDefinition, FactSource, SealedFact};
pub use footer::Group;
pub use forebay_block::{ColumnStatistics, Zone};
pub use forebay_hot::{Blocker, Cell, Row as HotRow, RowId, TransactionId, end_of_prefix, push_key};
pub use group_columns::{ChunkLocation, GroupColumn, GroupColumns};
pub use head::{FORMAT_VERSION, FORMAT_VERSION_OLDEST};
pub use held::Held;
pub use hot::HotChange;
pub use log_limits::LogLimits;
pub use options::TableOptions;
pub use projection::{Hop, OrderKey, Projection, ProjectionDefinition};
pub use reads::ReadState;
pub use record_log::RecordLog;
pub use recovery::Recovery;
pub use redo_log::CutTail;
pub use segment::{Deleted, Segment, SegmentFile, SegmentVersion, SortColumn};
pub use segment_list::{SegmentList, place_of_chunk};
pub use sequence::{Sequence, SequenceRange};
pub use side_file::SideFile;
pub use store::{OpenMode, Store};
pub use striped::StripedWriter;
pub use table_snapshot::{ColumnBounds, PLACES_NAME, TableSnapshot};
pub use transaction::{AddedSegments, ChangedSegments, Moment, Replaced, ReplacedCopies, RowChanges, Transaction};
pub use waiting::{LOCK_TIMEOUT, wait_for_writer};
pub use writer::{SealedColumn, SealedGroup, SealedSegment, SegmentWriter};
