//! What functions of lists, maps and structs give for a NULL that has no type: NULL of the type that they would give.

use datafusion::sql::sqlparser::ast::{Expr, Value};

const LIST: &str = "CASE WHEN false THEN [] END";
const ENTRIES: &str = "CASE WHEN false THEN [{'key': NULL, 'value': NULL}] END";
const FLAG: &str = "CAST(NULL AS BOOLEAN)";
const TEXT: &str = "CAST(NULL AS VARCHAR)";

/// What a call with such arguments stands for; `None` where it is a call like others.
#[must_use]
pub fn of_null(name: &str, arguments: &[&Expr]) -> Option<&'static str> {
    let is_null = |place: usize| arguments.get(place).is_some_and(|argument| is_written_null(argument));
    let others = arguments.len().checked_sub(1)?;
    Some(match name {
        "list_sort" | "array_sort" | "list_reverse_sort" | "array_reverse_sort" if (1..=others).any(is_null) => "NULL",
        "list_has_any" | "array_has_any" | "list_has_all" | "array_has_all"
            if others == 1 && (is_null(0) || is_null(1)) =>
        {
            FLAG
        }
        "map_from_entries" if matches!(arguments, [Expr::Array(list)] if list.elem.is_empty()) => "map([], [])",
        "map_concat" if others > 0 && (0..=others).all(is_null) => "NULL",
        _ if !is_null(0) => return None,
        "map_keys" | "map_values" if others == 0 => LIST,
        "map_entries" if others == 0 => ENTRIES,
        "element_at" | "map_extract" if others == 1 => LIST,
        "map_contains" | "map_contains_value" if others == 1 => FLAG,
        "map_contains_entry" if others == 2 => FLAG,
        "array_length" if others < 2 => "CAST(NULL AS BIGINT)",
        "list_position" | "list_indexof" | "array_position" | "array_indexof" if others == 1 => "CAST(NULL AS INTEGER)",
        "array_to_string" if others == 1 => TEXT,
        "struct_keys" if others == 0 => "CAST(NULL AS VARCHAR[])",
        "map_from_entries" | "array_pop_back" | "array_pop_front" | "struct_values" | "union_tag" | "list_bit_and"
        | "list_bit_or" | "list_bit_xor"
            if others == 0 =>
        {
            "NULL"
        }
        "map_extract_value" | "struct_extract" | "struct_extract_at" if others == 1 => "NULL",
        "list_slice" | "array_slice" if (2..4).contains(&others) => "NULL",
        "list_aggregate" | "list_aggr" | "array_aggregate" | "array_aggr" | "aggregate" if others > 0 => "NULL",
        _ => return None,
    })
}

/// Whether an expression is NULL as it is written.
#[must_use]
pub fn is_written_null(expr: &Expr) -> bool {
    match expr {
        Expr::Nested(inner) => is_written_null(inner),
        Expr::Value(value) => value.value == Value::Null,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::ast::{FunctionArg, FunctionArgExpr, FunctionArguments};
    use datafusion::sql::sqlparser::dialect::DuckDbDialect;
    use datafusion::sql::sqlparser::parser::Parser;

    #[track_caller]
    fn check(text: &str, expect: Option<&str>) {
        let parsed = Parser::new(&DuckDbDialect {}).try_with_sql(text).and_then(|mut parser| parser.parse_expr());
        let Expr::Function(call) = parsed.expect("a call") else { panic!("{text} is a call") };
        let FunctionArguments::List(list) = &call.args else { panic!("{text} has arguments") };
        let plain = |argument| match argument {
            &FunctionArg::Unnamed(FunctionArgExpr::Expr(ref expr)) => expr,
            _ => panic!("{text} has plain arguments"),
        };
        let arguments: Vec<&Expr> = list.args.iter().map(plain).collect();
        assert_eq!(of_null(&call.name.to_string(), &arguments), expect, "{text}");
    }

    #[test]
    fn calls_of_null_are_null_of_a_type() {
        check("map_keys(NULL)", Some(LIST));
        check("map_keys((NULL))", Some(LIST));
        check("map_keys(m)", None);
        check("element_at(NULL, 1)", Some(LIST));
        check("element_at(m, NULL)", None);
        check("list_has_all([1], NULL)", Some(FLAG));
        check("list_sort(l, 'ASC', NULL)", Some("NULL"));
        check("list_sort(NULL)", None);
        check("map_concat(NULL, NULL)", Some("NULL"));
        check("map_concat(m, NULL)", None);
        check("map_from_entries([])", Some("map([], [])"));
        check("list_slice(NULL, 1, 2)", Some("NULL"));
    }
}
