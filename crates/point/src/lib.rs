//! Point access: prepared statements that find their rows by key, run as small programs of look-ups instead of plans.
//!
//! ```text
//! recognize    the parsed statement and the types of its values → Program, where it is one of these:
//!                SELECT columns or aggregates FROM tables WHERE keys [ORDER BY columns] [LIMIT n]
//!                UPDATE t SET columns WHERE keys;  DELETE FROM t WHERE keys;  INSERT INTO t VALUES (…)
//! Program      steps, one for each table: which key or index, its values, what else has to hold
//!   run        look-ups, one inside the other (index nested-loop join), over forebay_keyed
//! ```
//!
//! A WHERE clause gives values for all columns of a PRIMARY KEY or UNIQUE constraint, or for the first columns of one or of an index; values are
//! parameters, literals, sums and the like, and columns of tables that come before.
//!
//! Whatever is not plain stops a program before it has changed anything, and the statement is planned as any other: values out of range, a
//! key that is taken, more rows than a few thousand, NULL where there may be none. So errors and rounding are those of every statement, and
//! nothing here needs to say them again.
//!
//! Invariant: a program gives what the plan of its statement would give, or nothing. Must not know: sessions, transactions' beginnings and ends.
#![forbid(unsafe_code)]

mod access;
mod expression;
mod kept;
mod names;
mod output;
mod parameter_value;
mod program;
mod recognize;
mod rows;
mod run;
mod values;

pub use kept::KeptProgram;
pub use names::TableFinder;
pub use parameter_value::{Named, ParameterValue, ordered};
pub use program::Program;
pub use recognize::recognize;
pub use rows::PointRows;
pub use run::{Outcome, Scope};
pub use values::Parameters;
