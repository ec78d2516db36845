//! CHECK: a condition that no row of a table may make false. NULL is not false.

use std::ops::ControlFlow;

use datafusion::arrow::datatypes::DataType;
use datafusion::execution::SessionState;
use datafusion::logical_expr::{LogicalPlan, LogicalPlanBuilder, lit};
use datafusion::prelude::cast;
use datafusion::sql::sqlparser::ast::{Expr, Ident};
use forebay_base::{ColumnId, Error, Result};
use forebay_context::error::from_datafusion;
use forebay_grammar::walk::visit_expressions_mut;
use forebay_store::{ColumnDefinition, Constraint, Table, names_equal};
use forebay_tables::check_holds;
use forebay_tables::nested_columns;

/// The constraint that a CHECK over these columns is.
///
/// # Errors
/// Subqueries, and columns of other tables.
pub(crate) fn constraint(condition: &Expr, columns: &[ColumnDefinition]) -> Result<Constraint> {
    let mut condition = condition.clone();
    let mut named: Vec<ColumnId> = Vec::new();
    let mut wrong = None;
    let _ = visit_expressions_mut(&mut condition, |part| -> ControlFlow<()> {
        match part {
            Expr::Identifier(name) => {
                if let Some(index) = columns.iter().position(|column| names_equal(&column.name, &name.value)) {
                    let stored = &columns[index].name;
                    let is_plain = name.quote_style.is_none() && *stored == stored.to_lowercase();
                    *name = if is_plain { Ident::new(stored) } else { Ident::with_quote('"', stored) };
                    let id = ColumnId(index as u32);
                    if !named.contains(&id) {
                        named.push(id);
                    }
                }
            }
            Expr::Subquery(_) | Expr::Exists { .. } | Expr::InSubquery { .. } => wrong = Some("subqueries"),
            Expr::CompoundIdentifier(_) => wrong = Some("names with a table before them"),
            _ => {}
        }
        ControlFlow::Continue(())
    });
    match wrong {
        Some(wrong) => Err(Error::unsupported(format!("CHECK with {wrong} is not supported"))),
        None => Ok(Constraint::Check { columns: named, condition: condition.to_string() }),
    }
}

/// The rows of `plan`, which are to be those of `table`: an error as soon as one makes a CHECK of it false, or has a value that the
/// type of its column does not have.
///
/// # Errors
/// Conditions that cannot be planned.
pub(crate) fn checked(state: &SessionState, table: &Table, plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut plan = nested_columns::checked(table, plan).map_err(from_datafusion)?;
    for constraint in &table.constraints {
        let Constraint::Check { condition, .. } = constraint else { continue };
        let holds = state.create_logical_expr(condition, plan.schema());
        let holds = holds.map_err(|error| from_datafusion(error).context(format!("CHECK ({condition})")))?;
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
