//! The ground floor: types, values, ids, units, limits, checksums, the calendar, the account of memory and the one error type.
//!
//! Invariants: pure code. Nothing here reads a clock, a file, the environment or a thread.
//! Must not know: how bytes lie in a block, on disk or in a query.
#![forbid(unsafe_code)]

pub mod budget;
pub mod calendar;
pub mod checksum;
pub mod durability;
pub mod error;
pub mod hash;
pub mod ids;
pub mod limits;
pub mod types;
pub mod units;
pub mod value;

pub use budget::Budget;
pub use durability::Durability;
pub use error::{Context, Error, ErrorKind, Position, Result};
pub use ids::{ColumnId, DirectoryId, FactId, ProjectionId, SegmentId, TableId};
pub use types::{LogicalType, PhysicalType, TimeUnit};
pub use value::{Value, canonical_f32, canonical_f64, compare_floats};
