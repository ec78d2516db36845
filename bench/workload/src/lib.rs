//! The workloads Forebay is measured with: generators for SSB, TPC-H, a wide table and taxi trips, their queries and tables, the
//! transactions of TPC-C, alone and beside queries, the demonstration and the benchmark runner. Programs call it; it calls
//! nothing but the public API of Forebay, and the CPU's kernels where those are measured by themselves ([`blocks`]).
//!
//! Invariants: what is generated depends on benchmark, scale factor and seed alone, never on threads or time; queries
//! are run through the facade as a user would run them. Must not know: command lines, terminals.
#![forbid(unsafe_code)]

mod benchmark;
pub mod blocks;
pub mod caching;
pub mod chbench;
pub mod datapath;
pub mod demo;
pub mod experiments;
pub mod generate;
mod load;
mod measure;
pub mod queries;
mod random;
mod report;
pub mod run;
pub mod schema;
mod sessions;
mod ssb;
mod table_source;
mod taxi;
pub mod tpcc;
mod tpch;
mod wide;

pub use benchmark::Benchmark;
