//! JSON as texts: whether one is JSON, parts of it by a path, and what it is.
//!
//! Reading order: [`document`], [`path`], then [`tree`]. Must not know: columns, SQL.
#![forbid(unsafe_code)]

pub mod document;
pub mod path;
pub mod tree;

pub use document::{Document, Members, Value};
pub use path::Path;
