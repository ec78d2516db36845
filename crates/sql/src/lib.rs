//! Statements: from a text to an answer. DataFusion plans and runs what pipelines do not run; catalog, DDL and loading are ours.
//! DataFusion stops here: nothing above knows it.
//!
//! Reading order: a statement's life is `execute`, `run` and [`answer`], in a [`session`]. Must not know: file layouts,
//! encodings, terminals.
#![forbid(unsafe_code)]

pub mod answer;
mod called_macros;
pub mod catalog;
mod changes;
mod comments;
mod controlling;
pub mod copy;
mod copying;
pub mod ddl;
mod default_expressions;
mod described;
mod execute;
mod explained;
mod hot_changes;
mod indexes;
mod inner_statements;
mod inserting;
mod keys;
mod locking;
pub mod lookup;
mod macros;
mod made_sequences;
mod made_types;
mod maintenance;
mod merging;
mod named_types;
pub mod options;
mod points;
pub mod pragma;
mod prepared;
mod preparing;
mod returning;
mod retyping;
pub(crate) mod run;
pub mod running;
mod sequences;
pub mod session;
mod state;

pub use answer::{Answer, AnswerRows, ResultKind};
pub use forebay_context::environment::environment;
pub use forebay_context::panics::hide_caught;
pub use forebay_context::workers::Workers;
pub use forebay_names::search_path::drop_left as drop_temporary;
pub use forebay_plans::kept::PlanCache;
pub use forebay_point::{Named, ParameterValue, PointRows};
pub use forebay_syntax::parameters::Argument;
pub use forebay_syntax::parse::{is_complete, split};
pub use prepared::{Parameter, Prepared};
pub use running::Canceller;
pub use session::{Session, Shared};
