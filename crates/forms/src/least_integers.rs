//! What stands behind a minus is the least value of its type: `-(-128)::TINYINT`. It is of the next wider type, as in DuckDB, since no
//! value of its own is as great.

use datafusion::sql::sqlparser::ast::{DataType, Expr, UnaryOperator, Value};

/// `-expr`, where the type of `expr` has no such value, as text.
#[must_use]
pub fn negated(expr: &Expr) -> Option<&'static str> {
    let (value, data_type) = match plain(expr) {
        Expr::Cast { expr, data_type, .. } => (plain(expr), Some(data_type)),
        other => (other, None),
    };
    let digits = match value {
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => number(plain(expr))?,
        Expr::Value(text) => match &text.value {
            Value::SingleQuotedString(text) if data_type.is_some() => text.trim().strip_prefix('-')?,
            _ => return None,
        },
        _ => return None,
    };
    Some(match (digits, data_type) {
        ("128", Some(DataType::TinyInt(None))) => "CAST(128 AS SMALLINT)",
        ("32768", Some(DataType::SmallInt(None))) => "CAST(32768 AS INTEGER)",
        ("2147483648", Some(DataType::Int(None) | DataType::Integer(None))) => "CAST(2147483648 AS BIGINT)",
        ("9223372036854775808", Some(DataType::BigInt(None)) | None) => "CAST(9223372036854775808 AS HUGEINT)",
        _ => return None,
    })
}

fn plain(expr: &Expr) -> &Expr {
    match expr {
        Expr::Nested(inner) => plain(inner),
        other => other,
    }
}

fn number(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::Number(digits, _) => Some(digits),
            _ => None,
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::dialect::DuckDbDialect;
    use datafusion::sql::sqlparser::parser::Parser;

    #[track_caller]
    fn check(text: &str, expect: Option<&str>) {
        let parsed = Parser::new(&DuckDbDialect {}).try_with_sql(text).and_then(|mut parser| parser.parse_expr());
        let Expr::UnaryOp { op: UnaryOperator::Minus, expr } = parsed.expect("parses") else {
            panic!("{text} is a minus")
        };
        assert_eq!(negated(&expr), expect, "{text}");
    }

    #[test]
    fn the_least_integers_become_wider() {
        check("-(-128)::TINYINT", Some("CAST(128 AS SMALLINT)"));
        check("-CAST(-32768 AS SMALLINT)", Some("CAST(32768 AS INTEGER)"));
        check("-'-2147483648'::INTEGER", Some("CAST(2147483648 AS BIGINT)"));
        check("-(-9223372036854775808)", Some("CAST(9223372036854775808 AS HUGEINT)"));
        check("-(-127)::TINYINT", None);
        check("-(-128)", None);
        check("-x::TINYINT", None);
    }
}
