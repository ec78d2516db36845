//! From a syntax tree to DataFusion's plan ([`trees`]), over tables with the columns alone that the tree names ([`mentioned`]), and
//! without casts that are called as what they cast ([`named_casts`]).
//!
//! Must not know: SQL text, catalogs, what is in plans.
#![forbid(unsafe_code)]

pub mod mentioned;
pub mod named_casts;
pub mod trees;
