//! What stands behind DEFAULT: an expression without columns.

use std::sync::Arc;

use datafusion::arrow::array::{RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::Schema;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{ColumnarValue, Expr};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use forebay_base::{Error, LogicalType, Result, Value};
use forebay_changes::stored_expression;
use forebay_context::error::from_datafusion;
use forebay_engine::types::arrow_type;
use forebay_functions::casts;

use crate::catalog::Planner;

/// Whether a DEFAULT expression has another value for each row.
pub(crate) fn is_volatile(planner: &Arc<Planner>, text: &str) -> Result<bool> {
    Ok(planned(planner, text)?.is_volatile())
}

fn planned(planner: &Arc<Planner>, text: &str) -> Result<Expr> {
    let expr = stored_expression::planned(&planner.state(), text, &DFSchema::empty());
    expr.map_err(|error| error.context(format!("DEFAULT {text}")))
}

/// The present value of a DEFAULT expression, as a column of type `logical` stores it; none of one that has another value for each
/// row.
pub(crate) fn value(planner: &Arc<Planner>, text: &str, logical: &LogicalType) -> Result<Option<Value>> {
    if is_volatile(planner, text)? {
        return Ok(None);
    }
    let expr = planned(planner, text)?;
    let evaluate = || -> datafusion::common::Result<ScalarValue> {
        let state = planner.state();
        let empty = DFSchema::empty();
        let context = SimplifyContext::builder()
            .with_schema(Arc::new(empty.clone()))
            .with_config_options(Arc::clone(state.config_options()))
            .with_current_time()
            .build();
        let simplifier = ExprSimplifier::new(context);
        // `now()` is a function of the statement only.
        let expr = simplifier.simplify(simplifier.coerce(expr, &empty)?)?;
        let physical = state.create_physical_expr(expr, &empty)?;
        let one_row = RecordBatch::try_new_with_options(
            Arc::new(Schema::empty()),
            Vec::new(),
            &RecordBatchOptions::new().with_row_count(Some(1)),
        )?;
        let scalar = match physical.evaluate(&one_row)? {
            ColumnarValue::Scalar(scalar) => scalar,
            ColumnarValue::Array(array) => ScalarValue::try_from_array(&array, 0)?,
        };
        casts::cast_scalar(&scalar, &arrow_type(logical))
    };
    let scalar = evaluate().map_err(|error| from_datafusion(error).context(format!("DEFAULT {text}")))?;
    if scalar.is_null() {
        return Ok(None);
    }
    let value = forebay_tables::predicate::stored_value(&scalar, logical);
    value.map(Some).ok_or_else(|| Error::input(format!("DEFAULT {text} is not a {logical}")))
}
