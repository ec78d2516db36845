//! From DataFusion's optimised plan to pipelines: the largest subtrees that pipelines can run are cut out of the plan and
//! become one operator each; what is above and beside them stays with DataFusion.
//!
//! Reading order: [`planner`]; [`relation`] (what a subtree computes), [`carver`] with [`carver::expression`] and
//! [`carver::table`], [`order`] (in which order), [`emit`] (as which pipelines), [`operator`] (how they are run). Invariant:
//! trying to carve never fails a query; what is not understood completely is left to DataFusion, with a
//! [`Reason`](reason::Reason). Must not know: SQL text, files, rules.
#![forbid(unsafe_code)]

pub mod aggregates;
pub mod carver;
pub mod dictionaries;
pub mod display;
pub mod distinct;
pub mod eager;
pub mod early;
pub mod emit;
pub mod estimate;
pub mod facts;
mod having;
pub mod node;
pub mod number;
pub mod operator;
pub mod order;
pub mod planner;
pub mod reason;
pub mod registers;
pub mod relation;
pub mod scalar;
pub mod text;
pub mod time;

pub mod types;

pub use planner::{CarvingPlanner, carved, operators};
