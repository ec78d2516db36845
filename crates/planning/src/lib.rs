//! From a syntax tree to DataFusion's plan ([`trees`]), over tables with the columns alone that the tree names ([`mentioned`]).
//!
//! Must not know: SQL text, catalogs, what is in plans.
#![forbid(unsafe_code)]

pub mod mentioned;
pub mod trees;
