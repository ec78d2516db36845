//! Functions of DuckDB that DataFusion lacks, or means otherwise: scalar ones of dates, times and intervals, and of texts; casts;
//! the least and the greatest value; functions of floats; `nullif`.
//!
//! Start with [`function`]: what a function is. Then [`moments`] and [`texts`], a list of functions each. Must not know: plans,
//! rules, tables.
#![forbid(unsafe_code)]

use std::sync::Arc;

use datafusion::logical_expr::ScalarUDF;

use function::{Definition, Function};

mod bit_count;
pub mod blob_text;
pub mod casts;
pub mod extrema;
mod floating;
pub mod floats;
pub mod function;
pub mod interval_lengths;
pub mod moments;
pub mod null_if;
pub mod order_keys;
pub mod row_extrema;
pub mod strict;
pub mod texts;

/// The function of this name, which is one of [`functions`]; `None` where there is none.
pub fn function(name: &str) -> Option<Arc<ScalarUDF>> {
    definitions().find(|(definition, _)| definition.names[0] == name).map(called)
}

/// All functions, by the names that SQL calls them.
pub fn functions() -> Vec<Arc<ScalarUDF>> {
    let others = [Arc::new(ScalarUDF::from(moments::part::DatePart::default())), null_if::function()];
    definitions().map(called).chain(others).collect()
}

fn called((definition, is_strict): (&'static Definition, bool)) -> Arc<ScalarUDF> {
    Arc::new(ScalarUDF::from(Function::new(definition, is_strict)))
}

/// With each, whether it is NULL where an argument is: those of dates, times and intervals are.
fn definitions() -> impl Iterator<Item = (&'static Definition, bool)> {
    let others = [floating::UNARY, floating::BINARY, bit_count::DEFINITIONS];
    let others = texts::DEFINITIONS.iter().copied().chain(others).flatten();
    moments::DEFINITIONS.iter().copied().flatten().map(|one| (one, true)).chain(others.map(|one| (one, false)))
}
