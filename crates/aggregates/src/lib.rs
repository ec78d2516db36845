//! Aggregates as DuckDB means them: `avg` of exact numbers, and those whose frames DataFusion cannot slide.
//!
//! Start with [`sliding`]: which aggregates are computed anew for each frame. Must not know: plans, rules, tables.
#![forbid(unsafe_code)]

pub mod averages;
pub mod float_frames;
pub mod sliding;
