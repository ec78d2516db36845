//! How much of each column is worth memory: what pipelines would take with other shares of their columns in memory, and the
//! shares with which they take least (HPCache, DaMoN 2022, §4.1-4.2).
//!
//! Reading order: [`model`] tells times from shares, [`program`] finds shares by a linear program.
//! Invariants: pure; shares that are found never take more memory than there is.
//! Must not know: what columns are, where their sizes and rates were measured, how shares are kept.
#![forbid(unsafe_code)]

pub mod model;
pub mod program;

pub use model::{Column, Forms, Machine, Model, Need, Pipeline, Shares, Workload};
pub use program::{least_memory, least_time};
