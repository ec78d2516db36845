//! Functions in FROM that stand for queries: `repeat(value, count)`, `repeat_row(values, num_rows = count)`, `query('text')` and
//! `query_table('t')`, `test_all_types()`. Each is written out as the query that it stands for.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, FunctionArgOperator, Ident, Query, Statement, TableAlias, TableFactor, Value,
    VisitorMut,
};
use datafusion::sql::sqlparser::dialect::Dialect;
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};
use forebay_base::{Error, Result};

use forebay_grammar::from_first::add_select;
use forebay_grammar::walk::Tree;
use forebay_grammar::{clauses, phrases};

use crate::all_types;

/// Writes out the calls of a statement.
///
/// # Errors
/// Arguments that the functions do not take, and texts that are no query.
pub fn write_out(statement: &mut Statement, dialect: &dyn Dialect) -> Result<()> {
    let mut calls = Calls { dialect, failed: None };
    let _ = statement.walk_mut(&mut calls);
    calls.failed.map_or(Ok(()), Err)
}

struct Calls<'a> {
    dialect: &'a dyn Dialect,
    failed: Option<Error>,
}

impl VisitorMut for Calls<'_> {
    type Break = ();

    fn pre_visit_table_factor(&mut self, table: &mut TableFactor) -> ControlFlow<()> {
        match self.written(table) {
            Ok(None) => ControlFlow::Continue(()),
            Ok(Some(query)) => {
                *table = query;
                ControlFlow::Continue(())
            }
            Err(error) => {
                self.failed = Some(error);
                ControlFlow::Break(())
            }
        }
    }
}

impl Calls<'_> {
    /// The query that a call stands for, as a table.
    fn written(&self, table: &TableFactor) -> Result<Option<TableFactor>> {
        let TableFactor::Table { name, alias, args: Some(arguments), .. } = table else { return Ok(None) };
        let function = name.to_string().to_lowercase();
        let text = match function.as_str() {
            "repeat" => repeated(&arguments.args)?,
            "repeat_row" => repeated_row(&arguments.args)?,
            "test_all_types" if arguments.args.is_empty() => all_types::query(),
            "query" => asked(&arguments.args)?,
            "query_table" => named(&arguments.args)?,
            _ => return Ok(None),
        };
        let subquery = Box::new(self.query(&text, &function)?);
        let own = || TableAlias { explicit: true, name: Ident::new(&function), columns: Vec::new(), at: None };
        let alias = Some(alias.clone().unwrap_or_else(own));
        Ok(Some(TableFactor::Derived { lateral: false, subquery, alias, sample: None }))
    }

    fn query(&self, text: &str, function: &str) -> Result<Query> {
        let wrong = |error: &dyn std::fmt::Display| Error::input(format!("{function} of {text}: {error}"));
        let tokens = Tokenizer::new(self.dialect, text).tokenize_with_location().map_err(|error| wrong(&error))?;
        let tokens = add_select(clauses::known(phrases::known(tokens)));
        let mut parser = Parser::new(self.dialect).with_tokens_with_locations(tokens);
        let query = parser.parse_query().map_err(|error| wrong(&error))?;
        match parser.peek_token().token {
            Token::EOF => Ok(*query),
            other => Err(wrong(&format!("{other} stands behind the query"))),
        }
    }
}

/// `repeat(value, count)`.
fn repeated(arguments: &[FunctionArg]) -> Result<String> {
    match arguments {
        [FunctionArg::Unnamed(FunctionArgExpr::Expr(value)), FunctionArg::Unnamed(FunctionArgExpr::Expr(count))] => {
            Ok(format!("SELECT {value} AS {} FROM range({count})", called(value)))
        }
        _ => Err(Error::input("repeat in FROM takes a value and how many rows there are of it")),
    }
}

/// `repeat_row(value, …, num_rows = count)`.
fn repeated_row(arguments: &[FunctionArg]) -> Result<String> {
    let (mut values, mut count) = (Vec::new(), None);
    for argument in arguments {
        match argument {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::BinaryOp { left, right, .. }))
                if left.to_string().eq_ignore_ascii_case("num_rows") =>
            {
                count = Some(right.to_string());
            }
            FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) => {
                values.push(format!("{value} AS column{}", values.len()));
            }
            FunctionArg::Named {
                name,
                arg: FunctionArgExpr::Expr(number),
                operator: FunctionArgOperator::Equals | FunctionArgOperator::Assignment,
            } if name.value.eq_ignore_ascii_case("num_rows") => count = Some(number.to_string()),
            _ => {}
        }
    }
    match count {
        Some(count) if !values.is_empty() => Ok(format!("SELECT {} FROM range({count})", values.join(", "))),
        _ => Err(Error::input("repeat_row takes the values of a row and num_rows = 3")),
    }
}

/// `query('SELECT 1')`.
fn asked(arguments: &[FunctionArg]) -> Result<String> {
    match arguments {
        [only] => text(only).map(str::to_owned),
        _ => None,
    }
    .ok_or_else(|| Error::input("query takes the text of one query").hint("Write FROM query('SELECT 1')"))
}

/// `query_table('t')` and `query_table(['t', 'u'], by_name)`.
fn named(arguments: &[FunctionArg]) -> Result<String> {
    let wrong = || {
        Error::input("query_table takes the name of a table, or a list of names").hint("Write FROM query_table('t')")
    };
    let by_name = match arguments.get(1) {
        None => false,
        Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(value)))) => {
            matches!(value.value, Value::Boolean(true))
        }
        Some(_) => return Err(wrong()),
    };
    let first = arguments.first().ok_or_else(wrong)?;
    let names: Vec<&str> = match (text(first), first) {
        (Some(name), _) => vec![name],
        (None, FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Array(list)))) => {
            list.elem.iter().map(of_literal).collect::<Option<_>>().ok_or_else(wrong)?
        }
        _ => return Err(wrong()),
    };
    let union = if by_name { " UNION ALL BY NAME " } else { " UNION ALL " };
    let tables: Vec<String> = names.iter().map(|name| format!("SELECT * FROM {}", quoted(name))).collect();
    match tables.is_empty() {
        true => Err(wrong()),
        false => Ok(tables.join(union)),
    }
}

/// The text that an argument is.
fn text(argument: &FunctionArg) -> Option<&str> {
    match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => of_literal(expr),
        _ => None,
    }
}

fn of_literal(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => Some(text),
            _ => None,
        },
        _ => None,
    }
}

/// A name with its schema, each part in quotes unless it has some.
fn quoted(name: &str) -> String {
    let part = |part: &str| match part.starts_with('"') {
        true => part.to_owned(),
        false => format!("\"{}\"", part.replace('"', "\"\"")),
    };
    name.split('.').map(part).collect::<Vec<_>>().join(".")
}

/// What the column of a value is called.
fn called(value: &Expr) -> String {
    format!("\"{}\"", value.to_string().replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::dialect::DuckDbDialect;

    fn check(text: &str, expect: &str) {
        let mut parsed = Parser::parse_sql(&DuckDbDialect {}, text).expect("parses");
        write_out(&mut parsed[0], &DuckDbDialect {}).expect("written");
        assert_eq!(parsed[0].to_string(), expect);
    }

    #[test]
    fn calls_are_queries() {
        check("SELECT * FROM repeat(1 + 1, 3)", "SELECT * FROM (SELECT 1 + 1 AS \"1 + 1\" FROM range(3)) AS repeat");
        check("SELECT x FROM repeat('a', 2) r(x)", "SELECT x FROM (SELECT 'a' AS \"'a'\" FROM range(2)) r (x)");
        check("SELECT * FROM query('FROM t')", "SELECT * FROM (SELECT * FROM t) AS query");
        check("SELECT * FROM query_table('s.t') q", "SELECT * FROM (SELECT * FROM \"s\".\"t\") q");
        check(
            "SELECT * FROM query_table(['t', 'u'], true)",
            "SELECT * FROM (SELECT * FROM \"t\" UNION ALL BY NAME SELECT * FROM \"u\") AS query_table",
        );
    }

    #[test]
    fn wrong_arguments_are_errors() {
        for text in ["SELECT * FROM repeat(1)", "SELECT * FROM query('SELECT')", "SELECT * FROM query_table([])"] {
            let mut parsed = Parser::parse_sql(&DuckDbDialect {}, text).expect("parses");
            assert!(write_out(&mut parsed[0], &DuckDbDialect {}).is_err(), "{text}");
        }
    }
}
