//! Whether a lambda means a column by its name: `COLUMNS(lambda c: c LIKE '%_id' AND length(c) > 3)`. The test is computed before
//! the query is planned, of literals, comparisons, patterns and some functions of texts.

use std::cmp::Ordering;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, LambdaFunction,
    OneOrManyWithParens, UnaryOperator, Value,
};
use forebay_base::{Error, Result};
use regex::Regex;

use crate::phrases::of_like;

/// Which columns of these names are meant by what stands in COLUMNS: a regular expression, a list of names, or a lambda; `None` where
/// it is something else, or a lambda whose test cannot be told before planning.
///
/// # Errors
/// What is no regular expression, and names in the list that are not there.
pub fn are_meant(test: &Expr, names: &[&str]) -> Result<Option<Vec<bool>>> {
    Ok(match test {
        Expr::Array(list) => {
            let Some(wanted) = list.elem.iter().map(text).collect::<Option<Vec<&str>>>() else { return Ok(None) };
            let is_there = |name: &&&str| names.iter().any(|other| other.eq_ignore_ascii_case(name));
            if let Some(missing) = wanted.iter().find(|name| !is_there(name)) {
                return Err(Error::input(format!("column {missing} in COLUMNS does not exist")));
            }
            Some(names.iter().map(|name| wanted.iter().any(|other| other.eq_ignore_ascii_case(name))).collect())
        }
        Expr::Lambda(lambda) => names.iter().map(|name| is_meant(lambda, name)).collect(),
        other => {
            let Some(pattern) = text(other) else { return Ok(None) };
            let pattern = Regex::new(pattern).map_err(|error| {
                Error::input(format!("{pattern} is no regular expression: {error}")).hint("COLUMNS takes one")
            })?;
            Some(names.iter().map(|name| pattern.is_match(name)).collect())
        }
    })
}

/// The regular expression that stands in COLUMNS.
#[must_use]
pub fn pattern(test: &Expr) -> Option<&str> {
    text(test)
}

fn text(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => Some(text),
            _ => None,
        },
        _ => None,
    }
}

/// Whether `lambda` means a column of this name; `None` where that cannot be told before planning.
fn is_meant(lambda: &LambdaFunction, column: &str) -> Option<bool> {
    let parameter = match &lambda.params {
        OneOrManyWithParens::One(only) => only,
        OneOrManyWithParens::Many(several) => match several.as_slice() {
            [only] => only,
            _ => return None,
        },
    };
    Name { parameter: &parameter.name.value, column }.flag(&lambda.body)
}

/// What a part of the test is.
#[derive(Debug, Clone, PartialEq)]
enum Found {
    Text(String),
    Number(i64),
    Flag(bool),
}

/// The name of a column, and what it is called by in the test.
struct Name<'a> {
    parameter: &'a str,
    column: &'a str,
}

impl Name<'_> {
    fn flag(&self, expr: &Expr) -> Option<bool> {
        match self.value(expr)? {
            Found::Flag(flag) => Some(flag),
            _ => None,
        }
    }

    fn text(&self, expr: &Expr) -> Option<String> {
        match self.value(expr)? {
            Found::Text(text) => Some(text),
            _ => None,
        }
    }

    fn value(&self, expr: &Expr) -> Option<Found> {
        Some(match expr {
            Expr::Nested(inner) => self.value(inner)?,
            Expr::Identifier(name) if name.value.eq_ignore_ascii_case(self.parameter) => {
                Found::Text(self.column.to_owned())
            }
            Expr::Value(literal) => match &literal.value {
                Value::SingleQuotedString(text) => Found::Text(text.clone()),
                Value::Number(digits, _) => Found::Number(digits.parse().ok()?),
                Value::Boolean(flag) => Found::Flag(*flag),
                _ => return None,
            },
            Expr::UnaryOp { op: UnaryOperator::Not, expr } => Found::Flag(!self.flag(expr)?),
            Expr::BinaryOp { left, op, right } => self.operation(left, op, right)?,
            Expr::Like { negated, any: false, expr, pattern, escape_char: None } => {
                self.matched(&format!("(?s)^{}$", of_like(&self.text(pattern)?)), expr, *negated)?
            }
            Expr::ILike { negated, any: false, expr, pattern, escape_char: None } => {
                self.matched(&format!("(?is)^{}$", of_like(&self.text(pattern)?)), expr, *negated)?
            }
            Expr::SimilarTo { negated, expr, pattern, escape_char: None } => {
                self.matched(&format!("(?s)^(?:{})$", self.text(pattern)?), expr, *negated)?
            }
            Expr::InList { expr, list, negated } => {
                let value = self.value(expr)?;
                let list = list.iter().map(|one| self.value(one)).collect::<Option<Vec<_>>>()?;
                Found::Flag(list.contains(&value) != *negated)
            }
            Expr::Function(call) => self.call(call)?,
            _ => return None,
        })
    }

    fn operation(&self, left: &Expr, op: &BinaryOperator, right: &Expr) -> Option<Found> {
        use BinaryOperator as B;
        let ordering = || match (self.value(left)?, self.value(right)?) {
            (Found::Text(left), Found::Text(right)) => Some(left.cmp(&right)),
            (Found::Number(left), Found::Number(right)) => Some(left.cmp(&right)),
            (Found::Flag(left), Found::Flag(right)) => Some(left.cmp(&right)),
            _ => None,
        };
        Some(Found::Flag(match op {
            B::And => self.flag(left)? & self.flag(right)?,
            B::Or => self.flag(left)? | self.flag(right)?,
            B::Eq => ordering()? == Ordering::Equal,
            B::NotEq => ordering()? != Ordering::Equal,
            B::Lt => ordering()? == Ordering::Less,
            B::LtEq => ordering()? != Ordering::Greater,
            B::Gt => ordering()? == Ordering::Greater,
            B::GtEq => ordering()? != Ordering::Less,
            B::StringConcat => return Some(Found::Text(self.text(left)? + &self.text(right)?)),
            _ => return None,
        }))
    }

    fn matched(&self, pattern: &str, expr: &Expr, is_negated: bool) -> Option<Found> {
        let text = self.text(expr)?;
        Some(Found::Flag(Regex::new(pattern).ok()?.is_match(&text) != is_negated))
    }

    fn call(&self, call: &Function) -> Option<Found> {
        let FunctionArguments::List(list) = &call.args else { return None };
        let arguments = list.args.iter().map(|argument| match argument {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => self.text(expr),
            _ => None,
        });
        let arguments = arguments.collect::<Option<Vec<_>>>()?;
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        Some(match (call.name.to_string().to_lowercase().as_str(), arguments.as_slice()) {
            ("lower" | "lcase", [text]) => Found::Text(text.to_lowercase()),
            ("upper" | "ucase", [text]) => Found::Text(text.to_uppercase()),
            ("length" | "len", [text]) => Found::Number(i64::try_from(text.chars().count()).ok()?),
            ("starts_with" | "prefix", [text, part]) => Found::Flag(text.starts_with(part)),
            ("ends_with" | "suffix", [text, part]) => Found::Flag(text.ends_with(part)),
            ("contains", [text, part]) => Found::Flag(text.contains(part)),
            ("regexp_matches", [text, pattern]) => Found::Flag(Regex::new(pattern).ok()?.is_match(text)),
            ("regexp_full_match", [text, pattern]) => {
                Found::Flag(Regex::new(&format!("^(?:{pattern})$")).ok()?.is_match(text))
            }
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::dialect::DuckDbDialect;
    use datafusion::sql::sqlparser::parser::Parser;

    #[track_caller]
    fn check(test: &str, column: &str, expected: Option<bool>) {
        let text = format!("f(c -> {test})");
        let parsed = Parser::new(&DuckDbDialect {}).try_with_sql(&text).and_then(|mut parser| parser.parse_expr());
        let Expr::Function(call) = parsed.expect("a call") else { panic!("{text} is a call") };
        let FunctionArguments::List(list) = call.args else { panic!("{text} has arguments") };
        let [FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Lambda(lambda)))] = list.args.as_slice() else {
            panic!("{text} has a lambda")
        };
        assert_eq!(is_meant(lambda, column), expected, "{test} of {column}");
    }

    #[test]
    fn columns_are_meant_by_their_names() {
        check("c LIKE '%_id'", "user_id", Some(true));
        check("c NOT LIKE '%id' OR C ILIKE 'USER%'", "user_id", Some(true));
        check("c LIKE 'a.c'", "abc", Some(false));
        check("NOT (c IN ('a', 'b')) AND length(c) >= 2", "ab", Some(true));
        check("upper(c) = 'AB' AND c <> 'Ab'", "aB", Some(true));
        check("starts_with(c, 'a') AND NOT ends_with(c, 'a')", "aba", Some(false));
        check("regexp_matches(c, '^[a-c]+$') AND c SIMILAR TO 'a.*'", "abc", Some(true));
        check("other = 'a'", "a", None);
        check("c", "a", None);
        check("c > 1", "a", None);
    }
}
