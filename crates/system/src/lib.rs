//! What the database tells of itself, as tables of schemas that nobody made: `information_schema`, and `forebay`, which tells how
//! tables are stored and which statements were run.
//!
//! Reading order: [`schema`] has the tables of `forebay`; a `Listing` makes rows of one while they are asked for. Invariant:
//! nothing here changes anything. Must not know: sessions, statements other than what they see.
#![forbid(unsafe_code)]

pub mod answers;
mod arrays;
mod bounds;
mod cache_columns;
mod chunks;
mod columns;
mod constraints;
mod definitions;
pub mod information_schema;
mod listing;
pub mod memory;
mod names;
mod projections;
mod query_log;
pub mod schema;
mod seen;
mod segments;
mod shown;
pub mod summary;
mod system_views;
mod table_columns;
mod told_tables;
mod told_transactions;

pub use information_schema::functions_of;
pub use names::name_text;
pub use seen::Seen;

pub use system_views::{ALL_TABLES, SCHEMAS, TABLES, tables_of};

/// The name of the one catalog.
pub const CATALOG: &str = "forebay";
