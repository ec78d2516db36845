//! What to compute: today the tests that a scan applies to columns; the pipeline IR grows here (DESIGN 4.4).
//!
//! Invariants: pure data and its meaning. Must not know: encodings, files, threads, Arrow.
#![forbid(unsafe_code)]

pub mod key_set;
pub mod test;

pub use key_set::KeySet;
pub use test::{ColumnTest, Test};
