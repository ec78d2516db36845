//! `current_setting('name')`, `current_schema()` and `current_schemas(…)`: a call is replaced by the value, before a statement is planned.

use std::ops::ControlFlow;

use datafusion::sql::parser::Statement as PlanStatement;
use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, ObjectName, Select, SelectItem, Statement,
    Value, ValueWithSpan, VisitorMut,
};
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::Token;
use forebay_base::{Error, Result};
use forebay_context::error::suggestion;
use forebay_context::told_settings::Setting;
use forebay_grammar::walk::{Tree, any_expression, visit_expressions_mut};
use forebay_syntax::dialect::ForebayDialect;

/// Puts values in place of the calls in a statement.
///
/// # Errors
/// Settings that are not there, and names that are no texts.
pub fn replace(told: &dyn Fn() -> Vec<Setting>, statement: &mut PlanStatement) -> Result<()> {
    match statement {
        PlanStatement::Statement(ast) => replace_in(told, ast),
        PlanStatement::Explain(explain) => replace(told, &mut explain.statement),
        PlanStatement::CreateExternalTable(_) | PlanStatement::CopyTo(_) | PlanStatement::Reset(_) => Ok(()),
    }
}

/// Whether a call is one of these.
fn is_asked(call: &Function) -> bool {
    matches!(call.name.to_string().to_lowercase().as_str(), "current_setting" | "current_schema" | "current_schemas")
}

fn asks(expr: &Expr) -> bool {
    matches!(expr, Expr::Function(call) if is_asked(call))
}

/// Has columns be called as they are written, whatever takes the places of calls.
struct Named;

impl VisitorMut for Named {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        for item in &mut select.projection {
            let SelectItem::UnnamedExpr(expr) = item else { continue };
            if any_expression(&*expr, asks) {
                let alias = Ident::with_quote('"', expr.to_string());
                *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
            }
        }
        ControlFlow::Continue(())
    }
}

fn replace_in(told: &dyn Fn() -> Vec<Setting>, statement: &mut Statement) -> Result<()> {
    if !any_expression(&*statement, asks) {
        return Ok(());
    }
    let _ = statement.walk_mut(&mut Named);
    let flow = visit_expressions_mut(statement, |expr| {
        let Expr::Function(call) = expr else { return ControlFlow::Continue(()) };
        let name = call.name.to_string().to_lowercase();
        if name == "current_schemas" {
            return match schemas(&told(), call) {
                Ok(list) => {
                    *expr = list;
                    ControlFlow::Continue(())
                }
                Err(error) => ControlFlow::Break(error),
            };
        }
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

/// What `current_schemas(…)` stands for: the schemas of the search path and, where it is called with true, those around them.
fn schemas(told: &[Setting], call: &Function) -> Result<Expr> {
    let FunctionArguments::List(list) = &call.args else { return Err(without_flag()) };
    let [FunctionArg::Unnamed(FunctionArgExpr::Expr(with_others))] = list.args.as_slice() else {
        return Err(without_flag());
    };
    let path = told.iter().find(|setting| setting.name == "search_path").and_then(|setting| setting.value.as_deref());
    let own: Vec<String> = match path {
        None | Some("") => Vec::new(),
        Some(path) => {
            let names = schemas_of(path)?.into_iter().filter_map(|name| name.0.last()?.as_ident().cloned());
            names.map(|name| format!("'{}'", name.value.replace('\'', "''"))).collect()
        }
    };
    let own = own.join(", ");
    let comma = if own.is_empty() { "" } else { ", " };
    let text = format!(
        "CASE WHEN ({with_others}) THEN ['main', {own}{comma}'main', 'main', 'pg_catalog'] \
         WHEN NOT ({with_others}) THEN CAST([{own}] AS VARCHAR[]) END"
    );
    let parsed = Parser::new(&ForebayDialect).try_with_sql(&text).and_then(|mut parser| parser.parse_expr());
    parsed.map_err(|error| Error::internal(error.to_string()))
}

/// The names of the schemas in a list of names: `a, "b c"`.
///
/// # Errors
/// What is no such list.
pub fn schemas_of(text: &str) -> Result<Vec<ObjectName>> {
    let wrong = |_| {
        let error = Error::input(format!("search_path = {text} is no list of schemas"));
        error.hint("Write SET search_path = 'a, b'; a name with other signs stands in quotes")
    };
    let mut parser = Parser::new(&ForebayDialect).try_with_sql(text).map_err(wrong)?;
    let names = parser.parse_comma_separated(|parser| parser.parse_object_name(false)).map_err(wrong)?;
    parser.expect_token(&Token::EOF).map_err(wrong)?;
    Ok(names)
}

fn without_flag() -> Error {
    Error::input("current_schemas takes true or false").hint("Write current_schemas(true)")
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
