//! The rows of a query as COPY … TO writes them into files of text: values as CAST makes texts of them, rows of JSON files as objects.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::execution::SessionState;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, ScalarUDF, lit};
use datafusion::prelude::cast;
use forebay_base::{Error, Result};
use forebay_context::error::from_datafusion;
use forebay_context::functions::Functions;
use forebay_forms::file_options::Options;
use forebay_functions::blob_text::text_of_blob;

/// What the column of JSON objects is called.
const ROW: &str = "json";

/// The rows of `plan` with texts in the place of values that a CSV file has no other form for.
///
/// # Errors
/// Columns that cannot be cast, which would be a bug.
pub(crate) fn texts(state: &SessionState, plan: LogicalPlan, options: &Options) -> Result<LogicalPlan> {
    let formatted = |column: Expr, format: &str| {
        function(state, "strftime").map(|strftime| strftime.call(vec![column, lit(format)]))
    };
    let of = |column: Expr, field: &Field| -> Result<Option<Expr>> {
        Ok(Some(match (field.data_type(), &options.date_format, &options.timestamp_format) {
            (DataType::Date32, Some(format), _) | (DataType::Timestamp(..), _, Some(format)) => {
                formatted(column, format)?
            }
            (blob, ..) if is_blob(blob) => text_of_blob(cast(column, DataType::BinaryView)),
            (DataType::Timestamp(..) | DataType::Interval(_) | DataType::Float32 | DataType::Float64, ..) => {
                cast(column, DataType::Utf8View)
            }
            (nested, ..) if nested.is_nested() => cast(column, DataType::Utf8View),
            _ => return Ok(None),
        }))
    };
    let columns = plan.schema().iter().map(|(qualifier, field)| {
        let column = Expr::Column((qualifier, field).into());
        Ok(match of(column.clone(), field)? {
            Some(text) => text.alias_qualified(qualifier.cloned(), field.name()),
            None => column,
        })
    });
    let columns = columns.collect::<Result<Vec<_>>>()?;
    projected(plan, columns)
}

/// The rows of `plan` as one column of JSON objects.
///
/// # Errors
/// As [`texts`].
pub(crate) fn objects(state: &SessionState, plan: LogicalPlan) -> Result<LogicalPlan> {
    let members = plan.schema().iter().flat_map(|(qualifier, field)| {
        let column = Expr::Column((qualifier, field).into());
        let value = match is_blob(field.data_type()) {
            true => text_of_blob(cast(column, DataType::BinaryView)),
            false => column,
        };
        [lit(field.name().as_str()), value]
    });
    let row = function(state, "named_struct")?.call(members.collect());
    let row = function(state, "to_json")?.call(vec![row]).alias(ROW);
    projected(plan, vec![row])
}

fn projected(plan: LogicalPlan, columns: Vec<Expr>) -> Result<LogicalPlan> {
    LogicalPlanBuilder::from(plan).project(columns).and_then(LogicalPlanBuilder::build).map_err(from_datafusion)
}

fn function(state: &SessionState, name: &str) -> Result<Arc<ScalarUDF>> {
    let found = Functions::of(state.config()).scalar(name).cloned();
    found.ok_or_else(|| Error::internal(format!("there is no function {name}")))
}

fn is_blob(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_))
}
