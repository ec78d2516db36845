//! Further functions of single values: digests, texts without accents, numbers rounded to even digits, sizes for people, what a UUID tells.
//!
//! Must not know: plans, rules, tables.
#![forbid(unsafe_code)]

use std::sync::Arc;

use datafusion::logical_expr::ScalarUDF;
use forebay_functions::function::Function;

mod accents;
mod digests;
mod hashing;
mod rounding;
mod sizes;
mod uuids;

/// All of them, by the names that SQL calls them.
pub fn functions() -> Vec<Arc<ScalarUDF>> {
    let all = [
        accents::DEFINITIONS,
        digests::DEFINITIONS,
        hashing::DEFINITIONS,
        rounding::DEFINITIONS,
        sizes::DEFINITIONS,
        uuids::DEFINITIONS,
    ];
    all.into_iter().flatten().map(|definition| Arc::new(ScalarUDF::from(Function::new(definition)))).collect()
}
