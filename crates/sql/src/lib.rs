//! SQL: DataFusion parses, plans and runs what pipelines do not run yet; catalog, DDL, loading and scans are ours.
//! DataFusion stops here: nothing above or below knows it.
//!
//! Reading order: a statement's life is [`session`]; a query's scan is [`table`] → [`scan`] → `forebay_engine::run`.
//! Must not know: file layouts, encodings, terminals.
#![forbid(unsafe_code)]

pub mod answer;
pub mod arithmetic;
pub mod blob_text;
mod build_sides;
pub(crate) mod cancel;
pub mod carve;
pub mod casts;
pub mod catalog;
pub mod coercion;
pub mod copy;
pub mod copy_to;
pub mod correlation;
pub mod ddl;
pub mod delimited;
mod dependencies;
pub(crate) mod depth;
pub mod dialect;
pub(crate) mod distribution;
pub mod environment;
pub mod error;
pub mod explain;
mod explain_plan;
pub mod extrema;
pub mod files;
pub mod filter;
pub mod floats;
pub mod from_first;
pub mod insert;
pub mod json;
pub mod load;
mod maintenance;
pub mod membership;
pub mod multisets;
mod named_rules;
pub mod names;
pub(crate) mod null_equality;
pub(crate) mod optimizer;
pub mod options;
pub mod parse;
pub(crate) mod plan_cache;
pub mod predicate;
pub(crate) mod pushdown;
pub mod read_functions;
pub mod records;
pub(crate) mod run;
pub mod scan;
pub mod scopes;
pub mod select_list;
pub mod session;
pub(crate) mod settings;
pub mod show;
pub(crate) mod single_column;
pub mod statement;
pub mod statistics;
pub mod table;
mod timeline;
pub(crate) mod typed;
pub mod types;
pub mod using;

pub use answer::{Answer, ResultKind};
pub use environment::environment;
pub use plan_cache::PlanCache;
pub use session::{Canceller, Session, Shared, Workers};
