//! Calls in forms that the planner does not know, or reads in another way, as ones that mean the same to it; those that mean
//! nothing are refused.

use datafusion::sql::sqlparser::ast::{BinaryOperator, CastKind, DataType, DateTimeField, DictionaryField};
use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentClause, FunctionArgumentList, FunctionArguments,
    Ident, Interval, ObjectName, UnaryOperator, Value, ValueWithSpan,
};
use datafusion::sql::sqlparser::parser::Parser;
use forebay_base::{Error, Result};
use forebay_context::settings::Variables;
use forebay_forms::nothing::is_written_null;
use forebay_forms::{integers, patterns, quantified, slices};
use forebay_grammar::macros;

use crate::dialect::ForebayDialect;
use forebay_context::intervals;

/// Parts of dates that are functions of their own.
const DATE_PARTS: [&str; 27] = [
    "era",
    "millennium",
    "century",
    "decade",
    "year",
    "isoyear",
    "quarter",
    "month",
    "week",
    "weekofyear",
    "yearweek",
    "day",
    "dayofmonth",
    "dayofweek",
    "weekday",
    "isodow",
    "dayofyear",
    "julian",
    "hour",
    "minute",
    "second",
    "millisecond",
    "microsecond",
    "epoch",
    "timezone",
    "timezone_hour",
    "timezone_minute",
];

/// Functions under other names, and how the planner calls them.
const OTHER_NAMES: [(&str, &str); 16] = [
    ("approx_count_distinct", "approx_distinct"),
    ("arbitrary", "first_value"),
    ("array_value", "make_array"),
    ("ceiling", "ceil"),
    ("first", "first_value"),
    ("gen_random_uuid", "uuid"),
    ("greatest_common_divisor", "gcd"),
    ("grouping_id", "grouping"),
    ("ifnull", "coalesce"),
    ("last", "last_value"),
    ("least_common_multiple", "lcm"),
    ("list_pack", "make_array"),
    ("list_value", "make_array"),
    ("nvl", "coalesce"),
    ("rank_dense", "dense_rank"),
    ("variance", "var_samp"),
];

/// Puts the value of a variable in the place of `getvariable('name')`; NULL where there is none of that name.
pub(crate) fn put_variable(variables: &Variables, expr: &mut Expr) -> Result<()> {
    let Expr::Function(call) = expr else { return Ok(()) };
    if !call.name.to_string().eq_ignore_ascii_case("getvariable") {
        return Ok(());
    }
    let name = match &call.args {
        FunctionArguments::List(FunctionArgumentList { args, .. }) => match args.as_slice() {
            [
                FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(ValueWithSpan {
                    value: Value::SingleQuotedString(name),
                    ..
                }))),
            ] => name.to_lowercase(),
            _ => return Err(Error::input("getvariable takes the name of a variable as a text")),
        },
        _ => return Err(Error::input("getvariable takes the name of a variable as a text")),
    };
    let text = variables.0.get(&name).map_or("NULL", String::as_str);
    let parsed = Parser::new(&ForebayDialect).try_with_sql(text).and_then(|mut parser| parser.parse_expr());
    *expr = parsed.map_err(|error| Error::internal(format!("variable {name} is no value: {error}")))?;
    Ok(())
}

/// Rewrites an expression whose parts are not rewritten yet. Errors: what means nothing.
pub fn rewrite(expr: &mut Expr) -> Result<()> {
    match expr {
        Expr::Function(call) => rewrite_call(call),
        Expr::Interval(interval) => match rewrite_interval(interval, false)? {
            Some(call) => {
                *expr = call;
                Ok(())
            }
            None => Ok(()),
        },
        Expr::UnaryOp { op: UnaryOperator::Minus, expr: inner } if matches!(**inner, Expr::Interval(_)) => {
            if let Expr::Interval(interval) = inner.as_mut()
                && rewrite_interval(interval, true)?.is_none()
                && interval.leading_field.is_none()
            {
                *expr = (**inner).clone();
            }
            Ok(())
        }
        Expr::UnaryOp { op: UnaryOperator::Minus, expr: inner } if let Some(text) = integers::negated(inner) => {
            *expr = parsed(text)?;
            Ok(())
        }
        Expr::UnaryOp { .. } | Expr::Value(_) if let Some(value) = integers::wide(expr) => {
            *expr = value;
            Ok(())
        }
        Expr::Like { .. } | Expr::ILike { .. } => {
            patterns::rewrite(expr);
            Ok(())
        }
        Expr::Dictionary(fields) => check_fields(fields),
        Expr::Identifier(name) => {
            if let Some(value) = macros::session_value(name) {
                *expr = value;
            }
            Ok(())
        }
        Expr::CompoundFieldAccess { access_chain, .. } => {
            access_chain.iter_mut().for_each(slices::close);
            Ok(())
        }
        // The planner forgets inside of a literal what names mean around it: tables of outer queries, names of WITH.
        Expr::Array(list) if !list.elem.iter().all(is_literal) => {
            let values: Vec<String> = list.elem.iter().map(ToString::to_string).collect();
            *expr = parsed(&format!("make_array({})", values.join(", ")))?;
            Ok(())
        }
        Expr::AnyOp { .. } => {
            quantified::write_any(expr);
            Ok(())
        }
        // As many characters are replaced as there are new ones.
        Expr::Overlay { overlay_for, .. } if overlay_for.as_deref().is_some_and(is_negative) => {
            *overlay_for = None;
            Ok(())
        }
        other => rewrite_value(other),
    }
}

/// Whether an expression is a value, perhaps with its type.
fn is_literal(expr: &Expr) -> bool {
    matches!(expr, Expr::Value(_) | Expr::TypedString(_) | Expr::Interval(_))
}

/// Rewrites values that are put together of others.
fn rewrite_value(expr: &mut Expr) -> Result<()> {
    match expr {
        Expr::Cast { kind: CastKind::Cast | CastKind::DoubleColon, expr: value, data_type: DataType::JSON, .. }
            if matches!(**value, Expr::Array(_) | Expr::Dictionary(_) | Expr::Map(_) | Expr::Struct { .. }) =>
        {
            *expr = parsed(&format!("to_json({value})"))?;
            Ok(())
        }
        // The planner knows rows of columns and literals alone.
        Expr::Tuple(values) if !values.iter().all(|value| matches!(value, Expr::Value(_) | Expr::Identifier(_))) => {
            let values: Vec<String> = values.iter().map(ToString::to_string).collect();
            *expr = parsed(&format!("row({})", values.join(", ")))?;
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Rewrites an expression whose parts are rewritten.
pub fn rewrite_behind(expr: &mut Expr) -> Result<()> {
    if let Expr::UnaryOp { op: UnaryOperator::BitwiseNot, expr: inner } = &*expr {
        *expr = parsed(&format!("bitwise_not({inner})"))?;
        return Ok(());
    }
    quantified::write_behind(expr);
    // The planner takes a plus of numbers only, and NULL is none.
    if let Expr::UnaryOp { op: UnaryOperator::Plus, expr: inner } = &*expr
        && is_written_null(inner)
    {
        *expr = inner.as_ref().clone();
        return Ok(());
    }
    if let Expr::CompoundFieldAccess { root, access_chain } = &*expr {
        if let Some(written) = macros::behind_points(root, access_chain) {
            *expr = parsed(&written)?;
        }
        return Ok(());
    }
    let Expr::Function(call) = &*expr else { return Ok(()) };
    if let Some(written) = meant(call)? {
        *expr = parsed(&written)?;
        return Ok(());
    }
    let named = |name: &str| {
        let mut other = call.clone();
        other.name = ObjectName::from(vec![Ident::new(name)]);
        other
    };
    match call.name.to_string().to_lowercase().as_str() {
        // Of pairs that do not differ they are not a number, and NULL of no pairs alone.
        "corr" | "regr_slope" => {
            let count = named("regr_count");
            *expr = parsed(&format!("CASE WHEN {count} > 0 THEN coalesce({call}, CAST('nan' AS DOUBLE)) END"))?;
        }
        // Where what is to be explained does not differ, all of it is explained; nothing where its squares are too large.
        "regr_r2" => {
            let (sxx, syy) = (named("regr_sxx"), named("regr_syy"));
            let inf = "CAST('inf' AS DOUBLE)";
            *expr = parsed(&format!(
                "CASE WHEN {sxx} > 0 AND {syy} = 0 THEN CAST(1 AS DOUBLE) \
                 WHEN ({syy} >= {inf} OR isnan({syy})) AND {sxx} < {inf} THEN CAST(0 AS DOUBLE) ELSE {call} END"
            ))?;
        }
        // Counts are signed.
        "row_number" | "rank" | "dense_rank" | "ntile" if call.over.is_some() => {
            *expr = Expr::Cast {
                kind: CastKind::Cast,
                expr: Box::new(expr.clone()),
                data_type: DataType::BigInt(None),
                array: false,
                format: None,
            };
        }
        "mod" | "add" | "subtract" | "multiply" | "divide" => {
            if let Some(operation) = operation(call) {
                *expr = parsed(&operation)?;
            }
        }
        "map" => {
            if let Some(lists) = whole_lists(call) {
                *expr = parsed(&lists)?;
            }
        }
        _ => {}
    }
    Ok(())
}

/// What a call stands for that is a macro.
fn meant(call: &Function) -> Result<Option<String>> {
    macros::meant(call).map_err(|hint| Error::input(format!("{call} is not what {} takes", call.name)).hint(hint))
}

/// What the planner calls a function of this name in lower case.
pub fn planned_name(name: &str) -> &str {
    OTHER_NAMES.iter().find(|(known, _)| *known == name).map_or(name, |(_, planned)| planned)
}

fn rewrite_call(call: &mut Function) -> Result<()> {
    let name = call.name.to_string().to_lowercase();
    let rename = |call: &mut Function, name: &str| call.name = ObjectName::from(vec![Ident::new(name)]);
    let is_window = call.over.is_some();
    if planned_name(&name) != name {
        rename(call, planned_name(&name));
    }
    let Some(list) = arguments(call) else { return Ok(()) };
    match (name.as_str(), list.args.len()) {
        ("count", 2..) => {
            return Err(Error::input("count takes one argument")
                .hint("Count rows by count(*), pairs by count(DISTINCT {'a': x, 'b': y})"));
        }
        (part, 1) if DATE_PARTS.contains(&part) => {
            list.args.insert(0, argument(parsed(&format!("'{part}'"))?));
            rename(call, "date_part");
        }
        ("sha256", 1) => {
            if let Some(text) = plain(&list.args[0]).cloned() {
                list.args = vec![argument(parsed(&format!("to_hex(digest({text}, 'sha256'))"))?)];
                rename(call, "lower");
            }
        }
        ("encode", 1) => rename(call, "blob_of_text"),
        ("decode", 1) => rename(call, "text_of_bytes"),
        ("len", 1) => rename(call, "length"),
        ("list", 1) => rename(call, "array_agg"),
        ("count_if" | "countif", 1) => {
            if let Some(condition) = plain(&list.args[0]).cloned() {
                // NULL where no row tells.
                let one = format!("CASE WHEN {condition} THEN 1 WHEN NOT ({condition}) THEN 0 END");
                list.args = vec![argument(parsed(&one)?)];
                rename(call, "sum");
            }
        }
        ("fsum" | "sumkahan" | "kahan_sum" | "favg", 1) => {
            if let Some(value) = plain(&list.args[0]).cloned() {
                list.args = vec![argument(parsed(&format!("arrow_cast({value}, 'Float64')"))?)];
                rename(call, if name == "favg" { "avg" } else { "sum" });
            }
        }
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
        ("listagg" | "group_concat", 2) => rename(call, "string_agg"),
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

/// A function of two numbers that is an operator.
fn operation(call: &Function) -> Option<String> {
    let FunctionArguments::List(list) = &call.args else { return None };
    let [left, right] = list.args.as_slice() else { return None };
    let operator = match call.name.to_string().to_lowercase().as_str() {
        "add" => "+",
        "subtract" => "-",
        "multiply" => "*",
        "divide" => "//",
        _ => "%",
    };
    Some(format!("(({}) {operator} ({}))", plain(left)?, plain(right)?))
}

/// `map(keys, values)` that is NULL where one of the lists is; `None` where both are written out.
fn whole_lists(call: &Function) -> Option<String> {
    let FunctionArguments::List(list) = &call.args else { return None };
    let [keys, values] = list.args.as_slice() else { return None };
    if is_null(keys) || is_null(values) {
        return Some("NULL".to_owned());
    }
    let maybe_null: Vec<String> = [keys, values]
        .into_iter()
        .filter(|list| !matches!(plain(list), Some(Expr::Array(_))))
        .map(|list| format!("({list}) IS NULL"))
        .collect();
    let test = maybe_null.join(" OR ");
    (!test.is_empty()).then(|| format!("CASE WHEN NOT ({test}) THEN {call} END"))
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

/// `to_days` of `DAY`, and the like.
fn unit_function(unit: &DateTimeField) -> Option<&'static str> {
    let unit = unit.to_string().to_ascii_lowercase();
    Some(match unit.trim_end_matches('s') {
        "millennium" | "millennia" => "to_millennia",
        "century" | "centurie" => "to_centuries",
        "decade" => "to_decades",
        "year" => "to_years",
        "quarter" => "to_quarters",
        "month" => "to_months",
        "week" => "to_weeks",
        "day" => "to_days",
        "hour" => "to_hours",
        "minute" => "to_minutes",
        "second" => "to_seconds",
        "millisecond" => "to_milliseconds",
        "microsecond" => "to_microseconds",
        _ => return None,
    })
}

/// Units of which there are parts: others have whole numbers alone.
fn has_parts(function: &str) -> bool {
    matches!(function, "to_seconds" | "to_milliseconds")
}

/// A literal interval in months, days and microseconds, which every reader takes for the same. What is no literal becomes a
/// call, which is given back.
fn rewrite_interval(interval: &mut Interval, negated: bool) -> Result<Option<Expr>> {
    if interval.leading_precision.is_some() || interval.last_field.is_some() {
        return Ok(None);
    }
    let function = interval.leading_field.as_ref().and_then(unit_function);
    let Some(value) = literal(&interval.value) else {
        let Some(function) = function.filter(|_| !negated) else { return Ok(None) };
        let number = format!("CAST({} AS DOUBLE)", interval.value);
        return match has_parts(function) {
            true => parsed(&format!("{function}({number})")).map(Some),
            false => parsed(&format!("{function}(CAST(trunc({number}) AS BIGINT))")).map(Some),
        };
    };
    let text = match &interval.leading_field {
        Some(unit) => {
            let whole = value.split('.').next().unwrap_or_default();
            format!("{} {unit}", if function.is_some_and(has_parts) { value.trim() } else { whole.trim() })
        }
        None => value,
    };
    let Some(parsed) = intervals::parse(&text) else {
        return Err(
            Error::input(format!("cannot read {text:?} as INTERVAL")).hint("Write INTERVAL '1 year 2 days 03:04:05'")
        );
    };
    let sign = |part: i64| if negated { -i128::from(part) } else { i128::from(part) };
    let (months, days) = (sign(parsed.months.into()), sign(parsed.days.into()));
    let text = format!("{months} months {days} days {} microseconds", sign(parsed.nanoseconds / 1_000));
    *interval.value = Expr::Value(Value::SingleQuotedString(text).into());
    interval.leading_field = None;
    Ok(None)
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
