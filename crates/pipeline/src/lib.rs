//! What to compute: the predicates that a scan applies to columns, and the pipeline IR with its text form, verifier and interpreter.
//!
//! Invariants: pure data and its meaning. Must not know: encodings, files, threads, Arrow.
#![forbid(unsafe_code)]

pub mod case;
pub mod cut;
pub mod fault;
pub mod generate;
pub mod interpret;
pub mod interval;
pub mod ir;
pub mod key_set;
pub mod like;
mod names;
pub mod numbering;
mod operands;
pub mod parse;
pub mod predicate;
pub mod scalar;
pub mod semantics;
pub mod text;
mod tokens;
pub mod verify;

pub use cut::cut;
pub use fault::Fault;
pub use interpret::Machine;
pub use key_set::KeySet;
pub use like::LikePattern;
pub use predicate::{ColumnPredicate, Predicate, merge_tests};
pub use scalar::Scalar;
pub use verify::{register_types, verify};
