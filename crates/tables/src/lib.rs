//! Tables of the database as DataFusion sees them: what it may know of a table, which predicates the engine tests, and the scan.
//!
//! Reading order: [`table`] → [`scan`] → `forebay_engine::run`; [`predicate`] and [`filter`] divide what is asked into tests and the
//! rest; [`nested_columns`] are those of lists and the like; [`narrow`] has tables with few of their columns while they are planned; [`read_copy`] chooses among projections; [`fetched`] has columns fetched behind limits; [`rows`] and [`assumptions`] are what plans that are kept have of
//! tables. Must not know: file layouts, encodings, statements.
#![forbid(unsafe_code)]

pub mod assumptions;
pub mod check_holds;
pub mod declared;
pub mod explain;
pub mod explain_plan;
pub mod fetched;
pub mod filter;
pub mod load;
pub mod narrow;
pub mod nested_columns;
mod origins;
pub mod predicate;
pub mod read_copy;
pub mod rows;
pub mod scan;
pub mod scan_times;
pub mod statistics;
pub mod table;
pub mod tree;
