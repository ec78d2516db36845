//! CHECK: a condition that no row of a table may make false. NULL is not false. And what generated columns have.

use std::ops::ControlFlow;

use datafusion::arrow::datatypes::DataType;
use datafusion::execution::SessionState;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, lit};
use datafusion::prelude::cast;
use datafusion::sql::sqlparser::ast::{Expr as SqlExpr, Ident};
use forebay_base::{ColumnId, Error, Result};
use forebay_context::error::from_datafusion;
use forebay_grammar::macros::session_value;
use forebay_grammar::walk::{visit_expressions, visit_expressions_mut};
use forebay_store::{ColumnDefinition, Constraint, Table, names_equal};
use forebay_tables::check_holds;
use forebay_tables::declared::generated_from;
use forebay_tables::nested_columns;

use crate::columns::unknown_column;
use crate::stored_expression;

/// The constraint that a CHECK over these columns is, which is enforced.
///
/// # Errors
/// Subqueries, window functions, and columns that are none of these.
pub fn constraint(condition: &SqlExpr, columns: &[ColumnDefinition]) -> Result<Constraint> {
    let mut condition = condition.clone();
    let mut named: Vec<ColumnId> = Vec::new();
    let (mut wrong, mut missing) = (None, None);
    // Names of parameters are known within the lambda only.
    let has_lambda = visit_expressions(&condition, |part| match part {
        SqlExpr::Lambda(_) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    })
    .is_break();
    let _ = visit_expressions_mut(&mut condition, |part| -> ControlFlow<()> {
        match part {
            SqlExpr::Identifier(name) => {
                if let Some(index) = columns.iter().position(|column| names_equal(&column.name, &name.value)) {
                    let stored = &columns[index].name;
                    let is_plain = name.quote_style.is_none() && *stored == stored.to_lowercase();
                    *name = if is_plain { Ident::new(stored) } else { Ident::with_quote('"', stored) };
                    let id = ColumnId(index as u32);
                    if !named.contains(&id) {
                        named.push(id);
                    }
                } else if !has_lambda && session_value(name).is_none() {
                    missing.get_or_insert_with(|| name.value.clone());
                }
            }
            SqlExpr::Function(call) if call.over.is_some() => wrong = Some("window functions"),
            SqlExpr::Subquery(_) | SqlExpr::Exists { .. } | SqlExpr::InSubquery { .. } => wrong = Some("subqueries"),
            SqlExpr::CompoundIdentifier(_) => wrong = Some("names with a table before them"),
            _ => {}
        }
        ControlFlow::Continue(())
    });
    if let Some(missing) = missing.filter(|_| wrong.is_none()) {
        return Err(unknown_column(&missing, columns.iter().map(|column| column.name.as_str())));
    }
    match wrong {
        Some(wrong) => Err(Error::unsupported(format!("CHECK with {wrong} is not supported"))),
        None => Ok(Constraint::Check { columns: named, condition: condition.to_string(), is_enforced: true }),
    }
}

/// The rows of `plan` with what their generated columns have.
fn generated(state: &SessionState, table: &Table, mut plan: LogicalPlan) -> Result<LogicalPlan> {
    for (index, column) in table.columns.iter().enumerate() {
        let Some(text) = generated_from(table, column) else { continue };
        let told = |error: Error| error.context(format!("column {} AS ({text})", column.name));
        let wrong = |error| told(from_datafusion(error));
        let value = stored_expression::planned(state, text, plan.schema()).map_err(told)?;
        let data_type = plan.schema().field(index).data_type().clone();
        let values = plan.schema().iter().enumerate().map(|(place, (qualifier, field))| match place == index {
            true => cast(value.clone(), data_type.clone()).alias_qualified(qualifier.cloned(), field.name()),
            false => Expr::Column((qualifier, field).into()),
        });
        let values: Vec<Expr> = values.collect();
        plan = LogicalPlanBuilder::from(plan).project(values).and_then(LogicalPlanBuilder::build).map_err(wrong)?;
    }
    Ok(plan)
}

/// The rows of `plan`, which are to be those of `table`: an error as soon as one makes a CHECK of it false, or has a value that the
/// type of its column does not have.
///
/// # Errors
/// Conditions that cannot be planned.
pub fn checked(state: &SessionState, table: &Table, plan: LogicalPlan) -> Result<LogicalPlan> {
    let plan = nested_columns::checked(table, plan).map_err(from_datafusion)?;
    let mut plan = generated(state, table, plan)?;
    for constraint in &table.constraints {
        let Constraint::Check { condition, is_enforced: true, .. } = constraint else { continue };
        let holds = stored_expression::planned(state, condition, plan.schema());
        let holds = holds.map_err(|error| error.context(format!("CHECK ({condition})")))?;
        let holds = cast(holds, DataType::Boolean);
        let shown = format!("CHECK ({condition}) of table {}", table.name);
        let test = check_holds::function();
        plan = LogicalPlanBuilder::from(plan)
            .filter(test.call(vec![holds, lit(shown)]))
            .and_then(LogicalPlanBuilder::build)
            .map_err(from_datafusion)?;
    }
    Ok(plan)
}
