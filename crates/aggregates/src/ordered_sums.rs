//! Sums and averages of floats whose call has an order: added up one after the other in this order, since it decides what is rounded
//! away. Exact numbers have the same sum in any order.

use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{ArrayRef, AsArray};
use datafusion::arrow::datatypes::{DataType, Float64Type};
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::logical_expr::AggregateUDF;

use crate::collected;
use crate::definitions::Definition;

static DEFINITIONS: [Definition; 2] = [
    Definition {
        name: "ordered_sum",
        aliases: &[],
        needed: 1,
        coerced: float,
        result: |_| Ok(DataType::Float64),
        value: |rows, _| Ok(ScalarValue::Float64(Some(sum(&rows[0])))),
        of_nothing: None,
    },
    Definition {
        name: "ordered_avg",
        aliases: &[],
        needed: 1,
        coerced: float,
        result: |_| Ok(DataType::Float64),
        value: |rows, _| Ok(ScalarValue::Float64(Some(sum(&rows[0]) / rows[0].len() as f64))),
        of_nothing: None,
    },
];

/// What computes `sum` or `avg` of values of this type in the order of a call, where the order may change the result.
pub fn in_order(name: &str, of: &DataType) -> Option<Arc<AggregateUDF>> {
    static FUNCTIONS: LazyLock<[Arc<AggregateUDF>; 2]> =
        LazyLock::new(|| [collected::function(&DEFINITIONS[0]), collected::function(&DEFINITIONS[1])]);
    let index = ["sum", "avg"].iter().position(|known| *known == name)?;
    of.is_floating().then(|| Arc::clone(&FUNCTIONS[index]))
}

fn float(types: &[DataType]) -> Result<Vec<DataType>> {
    match types {
        [only] if only.is_floating() => Ok(vec![DataType::Float64]),
        _ => plan_err!("sums in an order are those of one DOUBLE"),
    }
}

/// From 0 on: the sum of negative zeros is 0.
fn sum(values: &ArrayRef) -> f64 {
    values.as_primitive::<Float64Type>().iter().flatten().fold(0.0, |sum, value| sum + value)
}
