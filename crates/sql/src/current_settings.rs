//! `current_setting('name')` and `current_schema()`: a call is replaced by the value, before a statement is planned.

use std::ops::ControlFlow;

use datafusion::sql::parser::Statement as PlanStatement;
use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Statement, Value, ValueWithSpan,
};
use forebay_base::{Error, Result};
use forebay_context::error::suggestion;
use forebay_context::told_settings::Setting;
use forebay_grammar::walk::visit_expressions_mut;

/// Puts values in place of the calls in a statement.
///
/// # Errors
/// Settings that are not there, and names that are no texts.
pub(crate) fn replace(told: &dyn Fn() -> Vec<Setting>, statement: &mut PlanStatement) -> Result<()> {
    match statement {
        PlanStatement::Statement(ast) => replace_in(told, ast),
        PlanStatement::Explain(explain) => replace(told, &mut explain.statement),
        PlanStatement::CreateExternalTable(_) | PlanStatement::CopyTo(_) | PlanStatement::Reset(_) => Ok(()),
    }
}

fn replace_in(told: &dyn Fn() -> Vec<Setting>, statement: &mut Statement) -> Result<()> {
    let flow = visit_expressions_mut(statement, |expr| {
        let Expr::Function(call) = expr else { return ControlFlow::Continue(()) };
        let name = call.name.to_string().to_lowercase();
        let asked = match name.as_str() {
            "current_setting" => text(&call.args),
            "current_schema" => Some("schema"),
            _ => return ControlFlow::Continue(()),
        };
        let found = match asked {
            Some(name) => value(&told(), name),
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
fn value(told: &[Setting], name: &str) -> Result<Value> {
    let Some(setting) = told.iter().find(|setting| setting.name.eq_ignore_ascii_case(name)) else {
        let error = Error::input(format!("there is no setting {name}"));
        return Err(match suggestion(name, told.iter().map(|setting| setting.name.as_str())) {
            Some(near) => error.hint(format!("Did you mean {near}?")),
            None => error.hint("duckdb_settings() has all of them"),
        });
    };
    Ok(match (&setting.value, setting.input_type) {
        (None, _) => Value::Null,
        (Some(value), "BOOLEAN") => {
            Value::Boolean(matches!(value.to_lowercase().as_str(), "true" | "on" | "1" | "yes"))
        }
        (Some(value), "BIGINT" | "UBIGINT" | "DOUBLE") if value.parse::<f64>().is_ok() => {
            Value::Number(value.clone(), false)
        }
        (Some(value), _) => Value::SingleQuotedString(value.clone()),
    })
}
