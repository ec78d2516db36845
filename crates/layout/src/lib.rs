//! How tables lie on disk, and what is known of their blocks: statements that change these and nothing that queries see.
//!
//! Invariant: a statement that fails or is cancelled leaves the table as it was. Must not know: plans, sessions.
#![forbid(unsafe_code)]

mod facts;
mod maintain;
mod maintenance;
mod order;
mod projections;
pub mod statements;
pub mod table_options;
mod turns;

pub use maintain::CLUSTER_OPTION;
pub use maintenance::Maintenance;
pub use projections::ShownSuggestion;
pub use turns::MergeTurns;
