//! Further functions of single values: digests, texts without accents, how alike texts are, parts of file names, numbers
//! rounded and without digits behind the point, sizes for people, what a UUID tells.
//!
//! Must not know: plans, rules, tables.
#![forbid(unsafe_code)]

use std::sync::Arc;

use datafusion::logical_expr::ScalarUDF;
use forebay_functions::function::Function;

mod accents;
mod decimal_digits;
mod digests;
mod distances;
mod hashing;
mod paths;
mod rounding;
mod sizes;
mod uuids;
mod visibility;
mod whole_numbers;

/// All of them, by the names that SQL calls them.
pub fn functions() -> Vec<Arc<ScalarUDF>> {
    let all = [
        accents::DEFINITIONS,
        digests::DEFINITIONS,
        distances::DEFINITIONS,
        hashing::DEFINITIONS,
        paths::DEFINITIONS,
        rounding::DEFINITIONS,
        sizes::DEFINITIONS,
        uuids::DEFINITIONS,
        visibility::DEFINITIONS,
    ];
    let defined =
        all.into_iter().flatten().map(|definition| Arc::new(ScalarUDF::from(Function::new(definition, false))));
    defined.chain(whole_numbers::functions()).chain([rounding::round_even()]).collect()
}
