//! Calls that stand for other expressions, as macros do: `if(a, b, c)`, `struct_pack(a := 1)`, `fdiv(a, b)`; and what is looked up or
//! called behind a point: `{'a': 1}.a`, `'abc'.upper()`.

use std::num::NonZeroU8;

use datafusion::sql::sqlparser::ast::{
    AccessExpr, BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, Subscript,
    Value,
};

use crate::expressions::call;
use crate::json_types;

/// The user that all sessions are of.
const USER: &str = "'duckdb'";
/// The schema that tables are in.
const SCHEMA: &str = "'main'";

/// The time at which the statement began.
const NOW: &str = "arrow_cast(now(), 'Timestamp(Microsecond, Some(\"UTC\"))')";

/// What all databases are called in SQL.
const DATABASE: &str = "'forebay'";

/// The expression that a call stands for, as text; `None` where it is one itself. `Err` tells what is missing.
pub fn meant(call: &Function) -> Result<Option<String>, &'static str> {
    let name = call.name.to_string().to_lowercase();
    let arguments = match &call.args {
        FunctionArguments::List(list) if list.clauses.is_empty() => list.args.as_slice(),
        FunctionArguments::None => &[],
        _ => return Ok(None),
    };
    let plain: Option<Vec<&Expr>> = arguments.iter().map(value).collect();
    Ok(match (name.as_str(), plain.as_deref()) {
        ("if", Some([condition, then, other])) => Some(format!("CASE WHEN {condition} THEN {then} ELSE {other} END")),
        ("constant_or_null", Some([value, others @ ..])) if !others.is_empty() => {
            let known: Vec<String> = others.iter().map(|other| format!("({other}) IS NOT NULL")).collect();
            Some(format!("CASE WHEN {} THEN {value} END", known.join(" AND ")))
        }
        ("json_group_array", Some([value])) if is_alone(call) => Some(format!("json_list(array_agg({value}))")),
        ("json_group_object", Some([name, value])) if is_alone(call) => {
            Some(format!("json_members(array_agg({{'k': {name}, 'v': {value}}}))"))
        }
        ("fdiv", Some([left, right])) => Some(format!("floor(CAST({left} AS DOUBLE) / ({right}))")),
        ("fmod", Some([left, right])) => Some(format!("(({left}) - ({right}) * floor(({left}) / ({right})))")),
        ("regexp_extract", Some([text, pattern, Expr::Array(names), options @ ..])) => {
            Some(named_groups(text, pattern, &names.elem, options))
        }
        ("count_star", Some([])) if is_alone(call) => Some("count(*)".to_owned()),
        ("array_to_string_comma_default", Some([list])) => Some(format!("array_to_string({list}, ',')")),
        ("age", Some([moment])) => Some(format!("age(CAST(current_date AS TIMESTAMP), {moment})")),
        ("alias", Some([named])) => Some(format!("'{}'", shown(named).replace('\'', "''"))),
        ("pg_typeof", Some([typed])) => Some(format!("lower(typeof({typed}))")),
        ("current_user" | "session_user" | "user" | "current_role", Some([])) => Some(USER.to_owned()),
        ("current_schema", Some([])) => Some(SCHEMA.to_owned()),
        ("current_database" | "current_catalog", Some([])) => Some(DATABASE.to_owned()),
        ("setseed", Some([seed])) => Some(format!("CASE WHEN ({seed}) IS NULL THEN NULL END")),
        ("regexp_split_to_table", Some([_, ..])) => {
            Some(format!("unnest(regexp_split_to_array({}))", listed(arguments)))
        }
        ("generate_subscripts", Some([list, _])) => Some(format!("unnest(range(1, length({list}) + 1))")),
        ("date", Some([value])) => Some(format!("CAST({value} AS DATE)")),
        ("version", Some([])) => Some(format!("'v{}'", env!("CARGO_PKG_VERSION"))),
        ("timezone", Some([zone, moment])) => Some(format!("(({moment}) AT TIME ZONE {zone})")),
        ("json_transform" | "from_json", Some([text, structure])) => {
            let structure = json_types::of_structure(structure)?;
            Some(structure.map_or("NULL".to_owned(), |kind| format!("TRY_CAST(CAST({text} AS JSON) AS {kind})")))
        }
        ("json_transform_strict" | "from_json_strict", Some([text, structure])) => {
            let structure = json_types::of_structure(structure)?;
            Some(structure.map_or("NULL".to_owned(), |kind| format!("CAST(CAST({text} AS JSON) AS {kind})")))
        }
        ("map", Some([])) => Some("map([], [])".to_owned()),
        ("struct_pack", _) => Some(pack(arguments)?),
        ("struct_insert" | "struct_update", _) => inserted(&name, arguments)?,
        ("unnest", None) => unnested(arguments)?,
        ("unnest", Some([Expr::Value(only)])) if only.value == Value::Null => {
            Some("unnest(CAST([] AS INTEGER[]))".to_owned())
        }
        ("try", Some([only])) => match tried(&name, &[only]) {
            None => return Err("Write a cast or a quotient: try(a // b). try of other expressions is not supported"),
            tried => tried,
        },
        (name, Some(plain)) => {
            forebay_forms::nothing::of_null(name, plain).map(str::to_owned).or_else(|| of_time(name, plain))
        }
        _ => None,
    })
}

/// What tells the time, and several parts of a time at once.
fn of_time(name: &str, arguments: &[&Expr]) -> Option<String> {
    Some(match (name, arguments) {
        ("now" | "current_timestamp" | "get_current_timestamp" | "transaction_timestamp", []) => NOW.to_owned(),
        ("localtimestamp" | "current_localtimestamp", []) => format!("CAST({NOW} AS TIMESTAMP)"),
        ("localtime" | "current_localtime" | "get_current_time", []) => {
            format!("CAST(CAST({NOW} AS TIMESTAMP) AS TIME)")
        }
        ("ago", [interval]) => format!("({NOW} - ({interval}))"),
        ("date_part" | "datepart", [Expr::Array(parts), moment]) => {
            let field = |part: &Expr| format!("{part}: date_part({part}, {moment})");
            format!("{{{}}}", parts.elem.iter().map(field).collect::<Vec<_>>().join(", "))
        }
        _ => return None,
    })
}

/// `try(x)`, which is NULL where `x` fails.
fn tried(name: &str, arguments: &[&Expr]) -> Option<String> {
    match (name, arguments) {
        ("try", [Expr::Cast { expr, data_type, .. }]) => Some(format!("TRY_CAST({expr} AS {data_type})")),
        ("try", [Expr::BinaryOp { left, op, right }])
            if matches!(op, BinaryOperator::Modulo | BinaryOperator::DuckIntegerDivide) =>
        {
            Some(format!("(({left}) {op} nullif({right}, 0))"))
        }
        ("try", [Expr::BinaryOp { left, op: op @ BinaryOperator::Divide, right }]) => {
            Some(format!("(({left}) {op} ({right}))"))
        }
        _ => None,
    }
}

/// A struct of the groups of the first match of a pattern, by these names; of NULL there is none.
fn named_groups(text: &Expr, pattern: &Expr, names: &[Expr], options: &[&Expr]) -> String {
    let options: String = options.iter().map(|option| format!(", {option}")).collect();
    let field =
        |(index, name): (usize, &Expr)| format!("{name}: regexp_extract({text}, {pattern}, {}{options})", index + 1);
    let fields: Vec<String> = names.iter().enumerate().map(field).collect();
    format!("CASE WHEN ({text}) IS NOT NULL THEN {{{}}} END", fields.join(", "))
}

/// Whether a call has nothing behind its arguments.
fn is_alone(call: &Function) -> bool {
    call.filter.is_none() && call.over.is_none() && call.within_group.is_empty()
}

/// What a name stands for that is written without parentheses, where no column is called so.
pub fn session_value(name: &Ident) -> Option<Expr> {
    if name.quote_style.is_some() {
        return None;
    }
    let text = match name.value.to_lowercase().as_str() {
        "current_user" | "session_user" | "current_role" | "user" => USER,
        "current_schema" => SCHEMA,
        "current_catalog" => DATABASE,
        "localtimestamp" | "localtime" => return Some(call(&name.value.to_lowercase(), Vec::new())),
        _ => return None,
    };
    Some(Expr::Value(Value::SingleQuotedString(text.trim_matches('\'').to_owned()).into()))
}

fn value(argument: &FunctionArg) -> Option<&Expr> {
    match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
        _ => None,
    }
}

/// The name and the value of `name := value`.
fn named(argument: &FunctionArg) -> Option<(&str, &Expr)> {
    match argument {
        FunctionArg::Named { name, arg: FunctionArgExpr::Expr(expr), .. } => Some((&name.value, expr)),
        FunctionArg::ExprNamed { name: Expr::Identifier(name), arg: FunctionArgExpr::Expr(expr), .. } => {
            Some((&name.value, expr))
        }
        _ => None,
    }
}

fn listed(arguments: &[FunctionArg]) -> String {
    arguments.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// What a column of this expression is called.
fn shown(expr: &Expr) -> String {
    match expr {
        Expr::Identifier(name) => name.value.clone(),
        Expr::CompoundIdentifier(parts) => parts.last().map(|name| name.value.clone()).unwrap_or_default(),
        other => other.to_string(),
    }
}

fn quoted(name: &str) -> String {
    format!("'{}'", name.replace('\'', "''"))
}

/// `{'a': 1}` of `struct_pack(a := 1)`; a column without a name has its own.
fn pack(arguments: &[FunctionArg]) -> Result<String, &'static str> {
    let field = |argument: &FunctionArg| match (named(argument), value(argument)) {
        (Some((name, value)), _) => Some(format!("{}: {value}", quoted(name))),
        (_, Some(column @ (Expr::Identifier(_) | Expr::CompoundIdentifier(_)))) => {
            Some(format!("{}: {column}", quoted(&shown(column))))
        }
        _ => None,
    };
    let fields: Option<Vec<String>> = arguments.iter().map(field).collect();
    let fields = fields.filter(|fields| !fields.is_empty());
    fields.map(|fields| format!("{{{}}}", fields.join(", "))).ok_or("Write struct_pack(a := 1)")
}

/// `struct_insert(s, 'a', 1)` of `struct_insert(s, a := 1)`.
fn inserted(function: &str, arguments: &[FunctionArg]) -> Result<Option<String>, &'static str> {
    let Some((whole, fields)) = arguments.split_first() else { return Ok(None) };
    if fields.iter().all(|field| named(field).is_none()) {
        return Ok(None);
    }
    let fields: Option<Vec<String>> =
        fields.iter().map(|field| named(field).map(|(name, value)| format!("{}, {value}", quoted(name)))).collect();
    let fields = fields.ok_or("Write struct_insert(s, a := 1)")?;
    Ok(Some(format!("{function}({whole}, {})", fields.join(", "))))
}

/// `unnest(list, recursive := true)` and `unnest(list, max_depth := 2)`, as lists of all that is to become rows.
fn unnested(arguments: &[FunctionArg]) -> Result<Option<String>, &'static str> {
    let Some((Some(list), options)) = arguments.split_first().map(|(list, options)| (value(list), options)) else {
        return Ok(None);
    };
    let mut list = list.to_string();
    for option in options {
        match named(option).map(|(name, value)| (name.to_lowercase(), value.to_string())) {
            Some((name, value)) if value.eq_ignore_ascii_case("null") && name != "keep_parent_names" => {
                return Err("an option of unnest is not NULL");
            }
            Some((name, value)) if name == "recursive" => {
                if value.eq_ignore_ascii_case("true") {
                    list = format!("list_flattened({list})");
                }
            }
            Some((name, value)) if name == "max_depth" => {
                let depth: NonZeroU8 = value.parse().map_err(|_| "max_depth is a whole number from 1 to 255")?;
                for _ in 1..depth.get() {
                    list = format!("flatten({list})");
                }
            }
            Some((name, _)) if name == "keep_parent_names" => {}
            _ => return Err("unnest takes recursive := true and max_depth := 2"),
        }
    }
    Ok(Some(format!("unnest({list})")))
}

/// Fields and calls behind a point, as a subscript and a call: `{'a': 1}['a']`, `upper('abc')`. Returns the whole as text.
pub fn behind_points(root: &Expr, accesses: &[AccessExpr]) -> Option<String> {
    if !accesses.iter().any(|access| matches!(access, AccessExpr::Dot(Expr::Identifier(_) | Expr::Function(_)))) {
        return None;
    }
    let mut whole = match root {
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) | Expr::Function(_) | Expr::Value(_) | Expr::Nested(_) => {
            root.to_string()
        }
        other => format!("({other})"),
    };
    for access in accesses {
        whole = match access {
            AccessExpr::Dot(Expr::Identifier(name)) => format!("{whole}[{}]", quoted(&name.value)),
            AccessExpr::Dot(Expr::Function(call)) => {
                let mut call = call.clone();
                // `a.upper()` of a value is a call of what its field holds.
                let fields = call.name.0.len().saturating_sub(1);
                for field in call.name.0.drain(..fields) {
                    whole = format!("{whole}[{}]", quoted(&field.as_ident()?.value));
                }
                let FunctionArguments::List(list) = &mut call.args else { return None };
                let first = Expr::Nested(Box::new(Expr::Value(Value::Null.into())));
                list.args.insert(0, FunctionArg::Unnamed(FunctionArgExpr::Expr(first)));
                call.to_string().replacen("(NULL)", &whole, 1)
            }
            AccessExpr::Subscript(Subscript::Index { index }) => format!("{whole}[{index}]"),
            other => format!("{whole}{other}"),
        };
    }
    Some(whole)
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::dialect::DuckDbDialect;
    use datafusion::sql::sqlparser::parser::Parser;

    fn check(text: &str, expect: Option<&str>) {
        let parsed = Parser::new(&DuckDbDialect {}).try_with_sql(text).and_then(|mut parser| parser.parse_expr());
        let written = match parsed.expect("parses") {
            Expr::Function(call) => meant(&call).expect("named"),
            Expr::CompoundFieldAccess { root, access_chain } => behind_points(&root, &access_chain),
            other => panic!("{other} is no call"),
        };
        assert_eq!(written.as_deref(), expect);
    }

    #[test]
    fn calls_stand_for_expressions() {
        check("if(a, 1, 2)", Some("CASE WHEN a THEN 1 ELSE 2 END"));
        check("struct_pack(a := 1, b)", Some("{'a': 1, 'b': b}"));
        check("struct_update(s, a := 1)", Some("struct_update(s, 'a', 1)"));
        check("unnest(l, recursive := true)", Some("unnest(list_flattened(l))"));
        check("unnest(l, max_depth := 2)", Some("unnest(flatten(l))"));
        check("unnest(l)", None);
    }

    #[test]
    fn what_stands_behind_a_point() {
        check("{'a': 1}.a", Some("({'a': 1})['a']"));
        check("{'a': 'x'}.a.upper()", Some("upper(({'a': 'x'})['a'])"));
    }
}
