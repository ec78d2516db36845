//! Functions of lists, structs and maps that DataFusion lacks, or means otherwise: orders, choices, summaries, lambdas, fields,
//! entries, distances.
//!
//! Start with [`lists`]: how the lists of a column are read and made. Must not know: plans, rules, tables.
#![forbid(unsafe_code)]

use std::sync::Arc;

use datafusion::logical_expr::{HigherOrderUDF, ScalarUDF};
use forebay_functions::function::Function;

mod access;
mod choices;
mod contains;
mod distances;
mod folds;
mod json;
mod lambdas;
mod lists;
mod literals;
mod maps;
mod orders;
mod places;
mod series_lists;
mod structs;
mod summaries;
pub mod time_series;

pub use access::MapAccess;
pub use json::JsonOperators;

/// The functions that take values alone, by the names that SQL calls them.
pub fn functions() -> Vec<Arc<ScalarUDF>> {
    let defined =
        [orders::DEFINITIONS, choices::DEFINITIONS, places::DEFINITIONS, maps::DEFINITIONS, distances::DEFINITIONS];
    let defined =
        defined.into_iter().flatten().map(|definition| Arc::new(ScalarUDF::from(Function::new(definition, false))));
    let defined = defined.chain(structs::functions()).chain(summaries::functions());
    defined.chain(json::functions()).chain(series_lists::functions()).chain([contains::function()]).collect()
}

/// The functions that take lambdas.
pub fn higher_order_functions() -> Vec<Arc<HigherOrderUDF>> {
    lambdas::functions().into_iter().chain([folds::function()]).map(Arc::new).collect()
}
