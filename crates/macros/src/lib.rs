//! Macros that users make: CREATE MACRO as text ([`definition`]), and what calls stand for, written in their place
//! ([`expansion`]).
//!
//! Must not know: where macros are kept, tables, plans.
#![forbid(unsafe_code)]

pub mod definition;
pub mod expansion;
