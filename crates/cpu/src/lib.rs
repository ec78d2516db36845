//! Tests on codes and unpacking on the CPU: the interpreted, vectorised scan of one encoded block (Data Blocks §3.4,
//! §4.2).
//!
//! Invariants: a test selects the rows that `forebay_pipeline::Predicate::passes` says, whatever the encoding; all forms are
//! read through `forebay_block::Access`. Must not know: tables, files, chunks, what happens to selected rows.
#![deny(unsafe_code)]

pub mod arena;
pub mod bloom;
pub mod compile;
pub mod dictionary;
pub mod fold;
pub mod groups;
pub mod join;
mod keys;
mod lane_values;
mod lanes;
pub mod layout;
pub mod like;
pub mod matches;
mod parallel;
mod partition;
pub mod plain_rows;
#[allow(unsafe_code)]
pub mod pool;
mod predicates;
pub mod rows;
pub mod runs;
#[cfg(test)]
mod scalars;
pub mod selection;
#[allow(unsafe_code)]
pub mod simd;
pub mod translate;
pub mod unpack;
pub mod vector;

pub use lanes::{LanePredicate, WideLanes};
pub use matches::Matches;
pub use selection::{Selected, Selection};
pub use translate::{BlockPredicate, translate};
pub use unpack::{unpack_codes, unpack_fixed, unpack_validity};
