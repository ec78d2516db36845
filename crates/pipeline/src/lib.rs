//! What to compute: the tests that a scan applies to columns, and the pipeline IR with its text form, verifier and interpreter (DESIGN 4.4).
//!
//! Invariants: pure data and its meaning. Must not know: encodings, files, threads, Arrow.
#![forbid(unsafe_code)]

pub mod case;
pub mod cut;
pub mod fault;
pub mod generate;
pub mod interpret;
pub mod ir;
pub mod key_set;
pub mod like;
mod names;
pub mod parse;
pub mod scalar;
pub mod semantics;
pub mod test;
pub mod text;
mod tokens;
pub mod verify;

pub use cut::cut;
pub use fault::Fault;
pub use interpret::Machine;
pub use key_set::KeySet;
pub use like::LikePattern;
pub use scalar::Scalar;
pub use test::{ColumnTest, Test, merge_tests};
pub use verify::{register_types, verify};
