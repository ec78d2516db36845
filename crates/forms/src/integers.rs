//! Integers at the ends of their types. What stands behind a minus may be the least value of its type, `-(-128)::TINYINT`: it is of
//! the next wider type, as in DuckDB, since no value of its own is as great. Whole numbers that no BIGINT holds are HUGEINTs.

use datafusion::sql::sqlparser::ast::{CastKind, DataType, Expr, Ident, ObjectName, UnaryOperator, Value};

/// The least BIGINT without its sign.
const LEAST_BIGINT: u128 = 1 << 63;

/// A whole number that is too great for a BIGINT, as a HUGEINT, and the least BIGINT, which is a number with a minus in front of it,
/// as one value.
#[must_use]
pub fn wide(expr: &Expr) -> Option<Expr> {
    match expr {
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => {
            let digits = number(expr)?;
            (whole(digits)? == LEAST_BIGINT).then(|| Expr::Value(Value::Number(format!("-{digits}"), false).into()))
        }
        expr => {
            let digits = number(expr)?;
            (whole(digits)? >= LEAST_BIGINT).then(|| Expr::Cast {
                kind: CastKind::Cast,
                expr: Box::new(Expr::Value(Value::SingleQuotedString(digits.to_owned()).into())),
                data_type: DataType::Custom(ObjectName::from(vec![Ident::new("HUGEINT")]), Vec::new()),
                array: false,
                format: None,
            })
        }
    }
}

/// The value of digits that a HUGEINT holds.
fn whole(digits: &str) -> Option<u128> {
    let is_whole = digits.len() >= 19 && digits.bytes().all(|digit| digit.is_ascii_digit());
    let value = if is_whole { digits.parse().ok()? } else { return None };
    i128::try_from(value).is_ok().then_some(value)
}

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

    #[test]
    fn numbers_beyond_a_bigint_are_hugeints() {
        let written = |text: &str| {
            let parsed = Parser::new(&DuckDbDialect {}).try_with_sql(text).and_then(|mut parser| parser.parse_expr());
            wide(&parsed.expect("parses")).map(|expr| expr.to_string())
        };
        assert_eq!(written("9223372036854775807"), None);
        assert_eq!(written("9223372036854775808").as_deref(), Some("CAST('9223372036854775808' AS HUGEINT)"));
        assert_eq!(written("-9223372036854775808").as_deref(), Some("-9223372036854775808"));
        assert_eq!(written("-9223372036854775809"), None, "the number behind the minus is one");
        let greatest = i128::MAX.to_string();
        assert_eq!(written(&greatest), Some(format!("CAST('{greatest}' AS HUGEINT)")));
        assert_eq!(written("170141183460469231731687303715884105728"), None);
        assert_eq!(written("9223372036854775808.0"), None);
        assert_eq!(written("00000000000000000007"), None);
    }

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
