//! Rules that plans are analysed and optimised by, in addition to DataFusion's or around them: what an answer means where
//! DataFusion's differs or is wrong, and work that is spared.
//!
//! Start with [`list`]: all rules in their order. Must not know: tables, files, pipelines.
#![forbid(unsafe_code)]

pub mod again;
pub mod arithmetic;
pub mod around;
mod boolean_cases;
mod coerced;
pub mod coercion;
mod conditions;
pub mod dates;
mod declared_digits;
pub mod dependencies;
pub mod derived_tables;
pub mod distinct_rows;
pub mod driver;
pub mod empty_inputs;
pub mod empty_scans;
pub mod expressions;
pub mod floats;
pub mod frames;
pub mod grouping_members;
pub mod interval_order;
pub mod list;
pub mod multisets;
pub mod nested_order;
pub mod null_equality;
mod operand_types;
pub mod operators;
pub mod optimize;
pub mod optimizer;
pub mod order_keys;
pub mod pushed_filters;
pub mod rounding;
pub mod set_operations;
pub mod sort_columns;
pub mod text_functions;
pub mod texts_beside;
pub mod typed;
mod unkeyed_windows;
pub mod volatile;
pub mod window_keys;
