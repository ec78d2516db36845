//! From a syntax tree to DataFusion's plan ([`trees`]), over tables with the columns alone that the tree names ([`mentioned`]), and
//! without casts that are called as what they cast ([`named_casts`]); which thread does that ([`short`]); and what the plan tells of
//! parameters ([`parameters`]).
//!
//! Must not know: SQL text, catalogs, what is in plans.
#![forbid(unsafe_code)]

pub mod mentioned;
pub mod named_casts;
pub mod parameters;
pub mod short;
pub mod trees;
