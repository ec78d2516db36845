//! What is told of expressions and of `*` by the syntax tree alone: options and neighbours of a `*`, names with groups, NULLs without a
//! type, integers at the ends of their types, ANY and ALL of a list, LIKE with ESCAPE, calls that differ from one to the next; names of
//! columns that are not the same, what ORDER BY may be; what a statement says of files; the sets that rows are grouped by; walks over
//! the syntax tree.
//!
//! Must not know: tables, names in scope, plans, the parser.

#![forbid(unsafe_code)]

pub mod alias_letters;
pub mod beside;
pub mod calls;
pub mod file_options;
pub mod frame_counts;
pub mod group_names;
pub mod groupings;
pub mod integers;
pub mod names_apart;
pub mod nothing;
pub mod orders;
pub mod patterns;
pub mod quantified;
pub mod slices;
pub mod star_options;
pub mod volatile;
pub mod walk;
