//! Macros that users make: CREATE MACRO as text ([`definition`]), and what calls stand for, written in their place
//! ([`expansion`]); the queries that PIVOT and UNPIVOT stand for ([`pivot_queries`]), calls in FROM ([`table_calls`]), and columns that depend on types ([`parts`]);
//! what calls tell of the session ([`current_settings`]).
//!
//! Must not know: where macros are kept, tables, plans.
#![forbid(unsafe_code)]

mod all_types;
mod capture;
pub mod current_settings;
pub mod definition;
pub mod expansion;
pub mod parts;
pub mod pivot_queries;
pub mod table_calls;
