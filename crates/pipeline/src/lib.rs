//! What to compute: the tests that a scan applies to columns, and the pipeline IR with its text form, verifier and interpreter (DESIGN 4.4).
//!
//! Invariants: pure data and its meaning. Must not know: encodings, files, threads, Arrow.
#![forbid(unsafe_code)]

pub mod ir;
pub mod key_set;
pub mod test;

pub use key_set::KeySet;
pub use test::{ColumnTest, Test};
