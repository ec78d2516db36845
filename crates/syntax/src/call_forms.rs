//! Calls in forms that the planner does not know, or reads in another way, as ones that mean the same to it; those that mean
//! nothing are refused.

use datafusion::sql::sqlparser::ast::{BinaryOperator, DictionaryField};
use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentClause, FunctionArgumentList, FunctionArguments,
    Ident, Interval, ObjectName, UnaryOperator, Value, ValueWithSpan,
};
use datafusion::sql::sqlparser::parser::Parser;
use forebay_base::{Error, Result};

use crate::dialect::ForebayDialect;
use crate::intervals;

/// Rewrites an expression whose parts are not rewritten yet. Errors: what means nothing.
pub fn rewrite(expr: &mut Expr) -> Result<()> {
    match expr {
        Expr::Function(call) => rewrite_call(call),
        Expr::Interval(interval) => rewrite_interval(interval),
        Expr::Dictionary(fields) => check_fields(fields),
        // The planner forgets that a list with NULL may hold the value.
        Expr::AnyOp { left, compare_op: BinaryOperator::Eq, right, .. } if !matches!(**right, Expr::Subquery(_)) => {
            let all = Expr::AllOp { left: left.clone(), compare_op: BinaryOperator::NotEq, right: right.clone() };
            *expr = Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(Expr::Nested(Box::new(all))) };
            Ok(())
        }
        // As many characters are replaced as there are new ones.
        Expr::Overlay { overlay_for, .. } if overlay_for.as_deref().is_some_and(is_negative) => {
            *overlay_for = None;
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Rewrites an expression whose parts are rewritten.
pub fn rewrite_behind(expr: &mut Expr) -> Result<()> {
    let Expr::Function(call) = &*expr else { return Ok(()) };
    // Of pairs that do not differ they are not a number, and NULL of no pairs alone.
    if !matches!(call.name.to_string().to_lowercase().as_str(), "corr" | "regr_slope") {
        return Ok(());
    }
    let mut count = call.clone();
    count.name = ObjectName::from(vec![Ident::new("regr_count")]);
    *expr = parsed(&format!("CASE WHEN {count} > 0 THEN coalesce({call}, CAST('nan' AS DOUBLE)) END"))?;
    Ok(())
}

fn rewrite_call(call: &mut Function) -> Result<()> {
    let name = call.name.to_string().to_lowercase();
    let rename = |call: &mut Function, name: &str| call.name = ObjectName::from(vec![Ident::new(name)]);
    let is_window = call.over.is_some();
    let Some(list) = arguments(call) else { return Ok(()) };
    match (name.as_str(), list.args.len()) {
        ("count", 2..) => {
            return Err(Error::input("count takes one argument")
                .hint("Count rows by count(*), pairs by count(DISTINCT {'a': x, 'b': y})"));
        }
        ("len", 1) => rename(call, "length"),
        ("list", 1) => rename(call, "array_agg"),
        ("first", 1) => rename(call, "first_value"),
        ("last", 1) => rename(call, "last_value"),
        ("any_value", 1) if !is_window && is_ordered(list) => {
            if let Some(value) = plain(&list.args[0]).cloned() {
                rename(call, "first_value");
                only_where(call, parsed(&format!("({value}) IS NOT NULL"))?);
            }
        }
        ("string_agg" | "listagg" | "group_concat", 1) => {
            list.args.push(argument(parsed("','")?));
            rename(call, "string_agg");
        }
        ("string_agg" | "listagg" | "group_concat", 2) if is_null(&list.args[1]) => {
            list.args[1] = argument(parsed("','")?);
            rename(call, "string_agg");
            only_where(call, parsed("false")?);
        }
        // There is no row before the first one.
        ("nth_value", 2) if plain(&list.args[1]).is_some_and(is_negative) => {
            if let Some(value) = plain(&list.args[0]).cloned() {
                list.args =
                    vec![argument(parsed(&format!("CASE WHEN false THEN {value} END"))?), argument(parsed("1")?)];
            }
        }
        _ => {}
    }
    Ok(())
}

fn arguments(call: &mut Function) -> Option<&mut FunctionArgumentList> {
    match &mut call.args {
        FunctionArguments::List(list) => Some(list),
        _ => None,
    }
}

fn is_ordered(list: &FunctionArgumentList) -> bool {
    list.clauses.iter().any(|clause| matches!(clause, FunctionArgumentClause::OrderBy(_)))
}

fn plain(argument: &FunctionArg) -> Option<&Expr> {
    match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
        _ => None,
    }
}

fn argument(expr: Expr) -> FunctionArg {
    FunctionArg::Unnamed(FunctionArgExpr::Expr(expr))
}

fn is_null(argument: &FunctionArg) -> bool {
    matches!(plain(argument), Some(Expr::Value(ValueWithSpan { value: Value::Null, .. })))
}

fn is_negative(expr: &Expr) -> bool {
    matches!(expr, Expr::UnaryOp { op: UnaryOperator::Minus, expr } if matches!(**expr, Expr::Value(_)))
}

/// Adds a condition to a call's FILTER.
fn only_where(call: &mut Function, condition: Expr) {
    let both = match call.filter.take() {
        None => condition,
        Some(filter) => {
            Expr::BinaryOp { left: Box::new(Expr::Nested(filter)), op: BinaryOperator::And, right: Box::new(condition) }
        }
    };
    call.filter = Some(Box::new(both));
}

fn parsed(text: &str) -> Result<Expr> {
    let parsed = Parser::new(&ForebayDialect).try_with_sql(text).and_then(|mut parser| parser.parse_expr());
    parsed.map_err(|error| Error::internal(format!("{text} could not be written out: {error}")))
}

/// A literal interval in months, days and microseconds, which every reader takes for the same.
fn rewrite_interval(interval: &mut Interval) -> Result<()> {
    if interval.leading_precision.is_some() || interval.last_field.is_some() {
        return Ok(());
    }
    let Some(value) = literal(&interval.value) else { return Ok(()) };
    let text = match &interval.leading_field {
        Some(unit) => format!("{value} {unit}"),
        None => value,
    };
    let Some(parsed) = intervals::parse(&text) else {
        return Err(
            Error::input(format!("cannot read {text:?} as INTERVAL")).hint("Write INTERVAL '1 year 2 days 03:04:05'")
        );
    };
    let microseconds = parsed.nanoseconds / 1_000;
    let text = format!("{} months {} days {microseconds} microseconds", parsed.months, parsed.days);
    *interval.value = Expr::Value(Value::SingleQuotedString(text).into());
    interval.leading_field = None;
    Ok(())
}

/// The text of a literal number or text.
fn literal(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(text) | Value::Number(text, _), .. }) => {
            Some(text.clone())
        }
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => match literal(expr)? {
            text if text.starts_with('-') => Some(text[1..].to_owned()),
            text => Some(format!("-{text}")),
        },
        Expr::Nested(inner) => literal(inner),
        _ => None,
    }
}

fn check_fields(fields: &[DictionaryField]) -> Result<()> {
    let names: Vec<String> = fields.iter().map(|field| field.key.value.to_lowercase()).collect();
    match names.iter().enumerate().find(|(index, name)| names[..*index].contains(name)) {
        Some((index, _)) => Err(Error::input(format!("field {} is there twice", fields[index].key))),
        None => Ok(()),
    }
}
