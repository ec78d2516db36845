//! Functions of DuckDB that DataFusion lacks, or means otherwise: scalar ones of dates, times and intervals, and of texts; casts;
//! the least and the greatest value; functions of floats; `nullif`.
//!
//! Start with [`function`]: what a function is. Then [`moments`] and [`texts`], a list of functions each. Must not know: plans,
//! rules, tables.
#![forbid(unsafe_code)]

use std::sync::Arc;

use datafusion::logical_expr::ScalarUDF;

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
    let definition = definitions().find(|definition| definition.names[0] == name)?;
    Some(Arc::new(ScalarUDF::from(function::Function::new(definition))))
}

/// All functions, by the names that SQL calls them.
pub fn functions() -> Vec<Arc<ScalarUDF>> {
    let defined = definitions().map(|definition| Arc::new(ScalarUDF::from(function::Function::new(definition))));
    defined.chain([Arc::new(ScalarUDF::from(moments::part::DatePart::default())), null_if::function()]).collect()
}

fn definitions() -> impl Iterator<Item = &'static function::Definition> {
    let of_numbers = [floating::UNARY, floating::BINARY, bit_count::DEFINITIONS];
    moments::DEFINITIONS.iter().chain(texts::DEFINITIONS).copied().chain(of_numbers).flatten()
}
