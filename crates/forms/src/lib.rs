//! Short forms of SQL that stand for longer ones: [`macros`] such as `if(a, b, c)`, list [`comprehensions`] and [`collations`]. Works
//! on tokens and on syntax trees. Must not know: names, scopes, the dialect, catalogs, plans.
#![forbid(unsafe_code)]

pub mod collations;
pub mod comprehensions;
pub mod macros;
