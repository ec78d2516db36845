//! `current_setting('name')` and `current_schema()`: a call is replaced by the value, before a statement is planned.

use std::ops::ControlFlow;
use std::sync::atomic::Ordering;

use datafusion::execution::SessionState;
use datafusion::sql::parser::Statement as PlanStatement;
use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Statement, Value, ValueWithSpan,
};
use forebay_base::units::format_bytes;
use forebay_base::{Error, Result};
use forebay_context::error::suggestion;
use forebay_context::settings::{DescendingOrder, Execution, KeepsPlans, LogsQueries, copies, memory_limit};
use forebay_engine::CopyUse;
use forebay_grammar::walk::visit_expressions_mut;
use forebay_rules::arithmetic::division::Division;

use crate::search_path::SearchPath;

/// Settings that are told.
const NAMES: [&str; 17] = [
    "threads",
    "worker_threads",
    "memory_limit",
    "max_memory",
    "schema",
    "search_path",
    "timezone",
    "default_null_order",
    "null_order",
    "default_order",
    "integer_division",
    "error_on_division_by_zero",
    "ieee_floating_point_ops",
    "execution",
    "plan_cache",
    "projections",
    "query_log",
];

/// Puts values in place of the calls in a statement.
///
/// # Errors
/// Settings that are not there, and names that are no texts.
pub(crate) fn replace(state: &SessionState, path: &SearchPath, statement: &mut PlanStatement) -> Result<()> {
    match statement {
        PlanStatement::Statement(ast) => replace_in(state, path, ast),
        PlanStatement::Explain(explain) => replace(state, path, &mut explain.statement),
        PlanStatement::CreateExternalTable(_) | PlanStatement::CopyTo(_) | PlanStatement::Reset(_) => Ok(()),
    }
}

fn replace_in(state: &SessionState, path: &SearchPath, statement: &mut Statement) -> Result<()> {
    let flow = visit_expressions_mut(statement, |expr| {
        let Expr::Function(call) = expr else { return ControlFlow::Continue(()) };
        let name = call.name.to_string().to_lowercase();
        let asked = match name.as_str() {
            "current_setting" => text(&call.args),
            "current_schema" => Some("schema"),
            _ => return ControlFlow::Continue(()),
        };
        let found = match asked {
            Some(name) => value(state, path, name),
            None => Err(Error::input("current_setting takes the name of a setting as a text")
                .hint("Write current_setting('threads')")),
        };
        match found {
            Ok(value) => *expr = Expr::Value(ValueWithSpan::from(value)),
            Err(error) => return ControlFlow::Break(error),
        }
        ControlFlow::Continue(())
    });
    match flow {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

fn text(arguments: &FunctionArguments) -> Option<&str> {
    let FunctionArguments::List(list) = arguments else { return None };
    match list.args.as_slice() {
        [FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(value)))] => match &value.value {
            Value::SingleQuotedString(name) => Some(name),
            _ => None,
        },
        _ => None,
    }
}

/// The value of a setting.
fn value(state: &SessionState, path: &SearchPath, name: &str) -> Result<Value> {
    let config = state.config();
    let text = |text: &str| Value::SingleQuotedString(text.to_owned());
    Ok(match name.to_lowercase().as_str() {
        "threads" | "worker_threads" => Value::Number(config.target_partitions().to_string(), false),
        "memory_limit" | "max_memory" => match memory_limit(config) {
            usize::MAX => text("none"),
            bytes => text(&format_bytes(bytes as u64)),
        },
        "schema" => text(&path.schema),
        "search_path" => text(""),
        "timezone" => text(config.options().execution.time_zone.as_deref().unwrap_or("UTC")),
        "default_null_order" | "null_order" => {
            let order = &config.options().sql_parser.default_null_ordering;
            text(match order.as_str() {
                "nulls_first" => "NULLS_FIRST",
                "nulls_min" => "NULLS_FIRST_ON_ASC_LAST_ON_DESC",
                "nulls_max" => "NULLS_LAST_ON_ASC_FIRST_ON_DESC",
                _ => "NULLS_LAST",
            })
        }
        "default_order" => text(if DescendingOrder::of(config) { "DESC" } else { "ASCENDING" }),
        "execution" => {
            let own = Execution::of(config);
            text(Execution::ALL.iter().find(|(_, other)| *other == own).map_or("", |(name, _)| name))
        }
        "plan_cache" => Value::Boolean(KeepsPlans::of(config)),
        "projections" => match copies(config) {
            CopyUse::Cheapest => Value::Boolean(true),
            CopyUse::TableOnly => Value::Boolean(false),
            CopyUse::Named(name) => text(&name),
        },
        "query_log" => Value::Boolean(LogsQueries::of(config)),
        other => {
            let division = config.get_extension::<Division>();
            match division.as_ref().and_then(|division| division.switch(other)) {
                Some(flag) => Value::Boolean(flag.load(Ordering::Relaxed)),
                None => {
                    let error = Error::input(format!("current_setting knows no setting {name}"));
                    return Err(match suggestion(name, NAMES.into_iter()) {
                        Some(near) => error.hint(format!("Did you mean {near}?")),
                        None => error,
                    });
                }
            }
        }
    })
}
