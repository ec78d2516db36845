//! Macros that users make: CREATE MACRO as text ([`definition`]), and what calls stand for, written in their place
//! ([`expansion`]); the queries that PIVOT and UNPIVOT stand for ([`pivot_queries`]).
//!
//! Must not know: where macros are kept, tables, plans.
#![forbid(unsafe_code)]

pub mod definition;
pub mod expansion;
pub mod pivot_queries;
