//! Finds out from a table's rows what [facts](crate::facts) tell of them, and numbers rows in the order of some columns, over joins with
//! other tables too.
//!
//! Must not know: SQL; what is done with it.

mod bloom;
mod build;
mod codes;
mod columns;
mod curve;
mod filters;
mod keys;
mod order;
mod partners;
mod referencing;
mod suggest;
mod worth;

/// Morsels that a sample is taken from, at most: a table in the order of a column has few of its values in each, and they must
/// tell as many bins apart as there are.
const SAMPLED_MORSELS: usize = 2 * forebay_prune::bins::MOST_BINS;

pub use bloom::{WantedFilter, build_filters};
pub(crate) use build::Builder;
pub use build::{Wanted, build};
pub(crate) use codes::RowCodes;
pub use codes::{MOST_KEYS, Unordered};
pub use curve::Curve;
pub(crate) use curve::Places;
pub use filters::{BLOOM_OPTION, FilterChoice, worth_filtering};
pub use order::order_of_queries;
pub use suggest::{Method, Suggestion, suggest};
pub use worth::{hops_of, worth_making, worth_making_of_referencing};
