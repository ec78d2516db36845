//! Forms of DuckDB's SQL that the parser does not know, in words, expressions and trees that it does.
//!
//! Reading order: [`statements`], [`filled_tables`], [`from_first`], [`layout_words`], [`phrases`] and [`clauses`] work on tokens, before a statement is parsed;
//! [`expressions`] is what the dialect asks while it is parsed; [`access`], [`collations`], [`conditions`],
//! [`function_columns`], [`macros`], [`outer_aggregates`] and [`row_ids`] change the parsed tree, [`samples`] both. Must not know:
//! tables, names, plans.
#![forbid(unsafe_code)]

pub mod access;
mod aliases;
pub mod arrows;
pub mod clauses;
pub mod collations;
pub mod conditions;
pub mod distinct_on;
pub mod expressions;
pub mod fields;
pub mod filled_tables;
pub mod from_first;
pub mod function_columns;
pub mod given_names;
mod grouping_elements;
pub mod inner_statements;
pub mod joins;
pub mod json_rows;
mod json_types;
pub mod lateral;
pub mod layout_words;
pub mod letter_cases;
pub mod limits;
pub mod macros;
pub mod named_columns;
mod nested_joins;
pub mod outer_aggregates;
pub mod phrases;
pub mod pivots;
pub mod recursions;
pub mod row_ids;
pub mod row_predicates;
pub mod samples;
mod sequence_options;
pub mod statements;
pub mod whole_names;
pub mod windows;
pub mod with_names;
mod words;

pub use forebay_forms::{groupings, walk};
