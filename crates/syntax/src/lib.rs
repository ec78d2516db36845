//! SQL as text and as a syntax tree: scripts to statements, DuckDB's dialect, and what is written anew in a statement before
//! DataFusion plans it.
//!
//! Reading order: [`parse`], with `depth` on tokens and [`dialect`] in the parser, then [`names`], which goes
//! through the tree with [`scopes`], [`outputs`], [`using`] and [`select_list`]. Must not know: catalogs, plans, files.
#![forbid(unsafe_code)]

mod aliases;
mod backup;
pub mod call_forms;
mod columns;
mod depth;
pub mod dialect;
mod function_calls;
pub mod names;
pub mod outputs;
pub mod parameters;
pub mod parse;
mod read_options;
pub mod row_types;
mod rows;
pub mod scopes;
pub mod select_list;
mod sides;
pub mod stored_names;
pub mod syntax_error;
mod table_forms;
pub mod table_options;
pub mod tokens;
pub mod types;
pub mod using;
mod wildcards;
