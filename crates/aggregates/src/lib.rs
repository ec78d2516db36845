//! Aggregates as DuckDB means them: `avg` of exact numbers, and those whose frames DataFusion cannot slide. And calls over frames
//! that DataFusion does not know, whatever they compute; `lag` and `lead`.
//!
//! Start with [`sliding`]: which aggregates are computed anew for each frame; and with [`written_frames`]: which frames are our own.
//! Must not know: rules, tables.
#![forbid(unsafe_code)]

pub mod averages;
pub mod float_frames;
pub mod sliding;

pub mod approximate_counts;
pub mod best_rows;
pub mod collected;
pub mod definitions;
pub mod distinct_lists;
pub mod frequencies;
pub mod grouping_sets;
pub mod moments;
pub mod neighbours;
pub mod ordered_sums;
pub mod quantiles;
pub mod written_calls;

pub mod frame_aggregates;
pub mod frame_fill;
pub mod frame_partition;
pub mod frame_rows;
pub mod frame_text;
pub mod frame_values;
pub mod framed;
pub mod written_frames;
