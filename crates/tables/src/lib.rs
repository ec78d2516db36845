//! Tables of the database as DataFusion sees them: what it may know of a table, which predicates the engine tests, and the scan.
//!
//! Reading order: [`table`] → [`scan`] → `forebay_engine::run`; [`predicate`] and [`filter`] divide what is asked into tests and the
//! rest. [`nested_columns`] are those of lists and the like. Must not know: file layouts, encodings, statements.
#![forbid(unsafe_code)]

pub mod check_holds;
pub mod distribution;
pub mod explain;
pub mod filter;
pub mod known;
pub mod nested_columns;
pub mod predicate;
pub mod scan;
pub mod statistics;
pub mod table;
pub mod zones;
