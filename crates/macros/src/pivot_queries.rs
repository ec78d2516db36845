//! Queries that PIVOT and UNPIVOT stand for:
//!
//! ```text
//! PIVOT t ON a USING sum(b) GROUP BY c   →   SELECT c, sum(b) FILTER (WHERE CAST(a AS VARCHAR) = '1') AS "1", … FROM t GROUP BY c
//! UNPIVOT t ON a, b                      →   SELECT c, unnest(['a', 'b']) AS name, unnest([a, b]) AS value FROM t
//! ```

use std::collections::HashSet;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, Function, Ident, Value, ValueWithSpan};
use datafusion::sql::sqlparser::dialect::Dialect;
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};
use forebay_base::{Error, Result};

use forebay_grammar::pivots::{Key, Named, Pivot, Read, Unpivot, read};
use forebay_grammar::walk::{visit_expressions, visit_expressions_mut};

/// Columns that a PIVOT may make, as in DuckDB.
const COLUMNS: usize = 100_000;

/// What is asked of the tables.
pub trait Source {
    /// Names and types of the columns of a query.
    ///
    /// # Errors
    /// A query that cannot be planned.
    fn columns(&mut self, query: &str) -> Result<Vec<(String, String)>>;

    /// The texts of the rows of a query that names no table.
    ///
    /// # Errors
    /// A query that fails.
    fn texts(&mut self, query: &str) -> Result<Vec<String>>;

    /// As [`Source::texts`], for the values that a table has now.
    ///
    /// # Errors
    /// Also where these may be others when the answer is used.
    fn values(&mut self, query: &str) -> Result<Vec<String>>;

    /// Whether a function of this name in lower case is an aggregate.
    fn is_aggregate(&self, name: &str) -> bool;
}

/// The query that the text of a call stands for.
///
/// # Errors
/// Parts that are missing or of no use, and those of `source`.
pub fn written(text: &str, dialect: &dyn Dialect, source: &mut dyn Source) -> Result<String> {
    let tokens = Tokenizer::new(dialect, text).tokenize_with_location();
    let tokens = tokens.map_err(|error| Error::internal(format!("a PIVOT cannot be read again: {error}")))?;
    match read(&tokens)? {
        Read::Pivot(pivot) => Writer { dialect, source }.pivot(&pivot),
        Read::Unpivot(unpivot) => Writer { dialect, source }.unpivot(&unpivot),
    }
}

struct Writer<'a> {
    dialect: &'a dyn Dialect,
    source: &'a mut dyn Source,
}

/// A column of a PIVOT, without the aggregate.
#[derive(Clone, Default)]
struct Chosen {
    name: String,
    condition: String,
}

impl Writer<'_> {
    fn pivot(&mut self, pivot: &Pivot) -> Result<String> {
        let groups = match &pivot.groups {
            Some(groups) => groups.clone(),
            None if pivot.keys.is_empty() => Vec::new(),
            None => {
                let keys = pivot.keys.iter().map(|key| key.expr.as_str());
                self.others(&pivot.source, keys.chain(pivot.aggregates.iter().map(|named| named.expr.as_str())))?
            }
        };
        let mut chosen = vec![Chosen::default()];
        for key in &pivot.keys {
            let values = self.values(&pivot.source, key)?;
            if chosen.len() * values.len() * pivot.aggregates.len() > COLUMNS {
                return Err(Error::input(format!("PIVOT would make more than {COLUMNS} columns"))
                    .hint("List values: PIVOT … ON a IN (1, 2)"));
            }
            let both = |before: &Chosen, value: &Chosen| match before.name.is_empty() && before.condition.is_empty() {
                true => value.clone(),
                false => Chosen {
                    name: format!("{}_{}", before.name, value.name),
                    condition: format!("{} AND {}", before.condition, value.condition),
                },
            };
            chosen = chosen.iter().flat_map(|before| values.iter().map(move |value| both(before, value))).collect();
        }
        let mut columns = groups.clone();
        for Chosen { name, condition } in &chosen {
            for aggregate in &pivot.aggregates {
                let (value, shown) = self.filtered(aggregate, condition)?;
                let is_named = pivot.aggregates.len() > 1 || aggregate.name.is_some();
                let name = match (pivot.keys.is_empty(), is_named) {
                    (true, _) => shown,
                    (false, true) => format!("{name}_{shown}"),
                    (false, false) => name.clone(),
                };
                columns.push(format!("{value} AS {}", quoted(&name)));
            }
        }
        let by = if groups.is_empty() { String::new() } else { format!(" GROUP BY {}", groups.join(", ")) };
        if columns.is_empty() {
            return Err(Error::input("PIVOT finds no values, and nothing to group by"));
        }
        Ok(format!("SELECT {} FROM {}{by}", columns.join(", "), pivot.source))
    }

    /// The names of the columns of a table that none of these texts names.
    fn others<'t>(&mut self, source: &str, texts: impl Iterator<Item = &'t str>) -> Result<Vec<String>> {
        let mut named = HashSet::new();
        for text in texts {
            let tokens = Tokenizer::new(self.dialect, text).tokenize();
            for token in tokens.map_err(|error| Error::input(format!("{text} cannot be read: {error}")))? {
                if let Token::Word(word) = token {
                    named.insert(word.value.to_lowercase());
                }
            }
        }
        let columns = self.source.columns(&format!("SELECT * FROM {source}"))?;
        let others = columns.into_iter().map(|(name, _)| name).filter(|name| !named.contains(&name.to_lowercase()));
        Ok(others.map(|name| quoted(&name)).collect())
    }

    /// What the values of a key are called, and when a row has them.
    fn values(&mut self, source: &str, key: &Key) -> Result<Vec<Chosen>> {
        let Key { expr, values } = key;
        let Some(values) = values else {
            let query = format!(
                "SELECT DISTINCT CAST({expr} AS VARCHAR) AS v FROM {source} WHERE ({expr}) IS NOT NULL ORDER BY 1"
            );
            let texts = self.source.values(&query)?;
            let chosen = |text: String| {
                let condition = format!("CAST({expr} AS VARCHAR) = '{}'", text.replace('\'', "''"));
                Chosen { name: text, condition }
            };
            return Ok(texts.into_iter().map(chosen).collect());
        };
        let condition = |value: &Named| format!("({expr}) IS NOT DISTINCT FROM ({})", value.expr);
        let mut chosen = Vec::new();
        for value in values {
            let name = match &value.name {
                Some(name) => name.clone(),
                None => {
                    let query = format!("SELECT coalesce(CAST({} AS VARCHAR), 'NULL')", value.expr);
                    self.source.texts(&query)?.pop().unwrap_or_default()
                }
            };
            chosen.push(Chosen { name, condition: condition(value) });
        }
        Ok(chosen)
    }

    /// An expression whose aggregates take only rows of which a condition holds, and what it is called.
    fn filtered(&self, aggregate: &Named, condition: &str) -> Result<(String, String)> {
        let mut expr = self.parsed(&aggregate.expr)?;
        let shown = aggregate.name.clone().unwrap_or_else(|| expr.to_string());
        let condition = (!condition.is_empty()).then(|| self.parsed(condition)).transpose()?;
        let mut has_some = false;
        let _ = visit_expressions_mut(&mut expr, |part| -> ControlFlow<()> {
            if let Expr::Function(call) = part
                && call.over.is_none()
                && self.source.is_aggregate(&call.name.to_string().to_lowercase())
            {
                has_some = true;
                if let Some(condition) = &condition {
                    add_filter(call, condition);
                }
            }
            ControlFlow::Continue(())
        });
        match has_some {
            true => Ok((expr.to_string(), shown)),
            false => Err(Error::input(format!("PIVOT … USING takes aggregates, which {expr} has none of"))
                .hint("Write USING sum(a), or first(a)")),
        }
    }

    fn parsed(&self, text: &str) -> Result<Expr> {
        let parsed = Parser::new(self.dialect).try_with_sql(text).and_then(|mut parser| parser.parse_expr());
        parsed.map_err(|error| Error::input(format!("{text} in PIVOT cannot be read: {error}")))
    }

    fn unpivot(&mut self, unpivot: &Unpivot) -> Result<String> {
        let Unpivot { source, name, values, has_nulls, .. } = unpivot;
        let items = self.items(unpivot)?;
        if let Some((wrong, _)) = items.iter().find(|(exprs, _)| exprs.len() != values.len()) {
            return Err(Error::input(format!(
                "UNPIVOT makes {} columns, but ({}) has {} values",
                values.len(),
                wrong.join(", "),
                wrong.len()
            )));
        }
        let named = items.iter().flat_map(|(exprs, _)| exprs.iter().map(String::as_str));
        let others = self.others(source, named)?;
        let list = |texts: Vec<String>| format!("unnest([{}])", texts.join(", "));
        let names = items.iter().map(|(_, name)| format!("'{}'", name.replace('\'', "''"))).collect();
        let mut columns = others;
        columns.push(format!("{} AS {name}", list(names)));
        for (place, value) in values.iter().enumerate() {
            let exprs: Vec<String> = items.iter().map(|(exprs, _)| exprs[place].clone()).collect();
            self.check_types(source, &exprs)?;
            columns.push(format!("{} AS {value}", list(exprs)));
        }
        let query = format!("SELECT {} FROM {source}", columns.join(", "));
        if *has_nulls {
            return Ok(query);
        }
        let known: Vec<String> = values.iter().map(|value| format!("{value} IS NOT NULL")).collect();
        Ok(format!("SELECT * FROM ({query}) WHERE {}", known.join(" AND ")))
    }

    /// The values of each row and what it is called, with `*` and COLUMNS written out.
    fn items(&mut self, unpivot: &Unpivot) -> Result<Vec<(Vec<String>, String)>> {
        let mut items = Vec::new();
        for (exprs, name) in &unpivot.items {
            match exprs.as_slice() {
                [star] if star.starts_with('*') => {
                    let columns = self.source.columns(&format!("SELECT {star} FROM {}", unpivot.source))?;
                    items.extend(columns.into_iter().map(|(name, _)| (vec![quoted(&name)], name)));
                }
                [chosen] if with_column(&self.parsed(chosen)?, "").is_some() => {
                    let chosen = self.parsed(chosen)?;
                    let columns = self.source.columns(&format!("SELECT {chosen} FROM {}", unpivot.source))?;
                    for (name, _) in columns {
                        let expr = with_column(&chosen, &name).unwrap_or_default();
                        items.push((vec![expr], name));
                    }
                }
                exprs => {
                    // A text is the name of a column, too.
                    let exprs: Vec<String> = match exprs {
                        [only] => vec![match self.parsed(only)? {
                            Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(name), .. }) => quoted(&name),
                            _ => only.clone(),
                        }],
                        several => several.to_vec(),
                    };
                    let shown = || -> Result<String> {
                        let parts = exprs.iter().map(|part| self.parsed(part).map(|part| shown(&part)));
                        Ok(parts.collect::<Result<Vec<_>>>()?.join("_"))
                    };
                    let name = name.clone().map_or_else(shown, Ok)?;
                    items.push((exprs, name));
                }
            }
        }
        match items.is_empty() {
            true => Err(Error::input("UNPIVOT needs columns").hint("Write UNPIVOT t ON a, b")),
            false => Ok(items),
        }
    }

    /// Texts and other values do not become one column.
    fn check_types(&mut self, source: &str, exprs: &[String]) -> Result<()> {
        let columns = self.source.columns(&format!("SELECT {} FROM {source}", exprs.join(", ")))?;
        let text = columns.iter().find(|(_, data_type)| data_type == "VARCHAR");
        let other = columns.iter().find(|(_, data_type)| data_type != "VARCHAR" && !data_type.contains("NULL"));
        match (text, other) {
            (Some((text, _)), Some((other, data_type))) => Err(Error::input(format!(
                "UNPIVOT cannot put {text} of type VARCHAR and {other} of type {data_type} in one column"
            ))
            .hint(format!("Cast one of them, as in {other}::VARCHAR"))),
            _ => Ok(()),
        }
    }
}

/// What a value of UNPIVOT is called: by the column that it is computed from, if it is one alone.
fn shown(expr: &Expr) -> String {
    let mut names: Vec<String> = Vec::new();
    let _ = visit_expressions(expr, |part| -> ControlFlow<()> {
        match part {
            Expr::Identifier(name) => names.push(name.value.clone()),
            Expr::CompoundIdentifier(parts) => names.extend(parts.last().map(|name| name.value.clone())),
            _ => {}
        }
        ControlFlow::Continue(())
    });
    match names.as_slice() {
        [only] => only.clone(),
        _ => expr.to_string(),
    }
}

/// An expression with a column in the place of its COLUMNS; `None` where there is none.
fn with_column(expr: &Expr, name: &str) -> Option<String> {
    let (mut expr, mut has_some) = (expr.clone(), false);
    let _ = visit_expressions_mut(&mut expr, |part| -> ControlFlow<()> {
        if matches!(part, Expr::Function(call) if call.name.to_string().eq_ignore_ascii_case("columns")) {
            has_some = true;
            *part = Expr::Identifier(Ident::with_quote('"', name));
        }
        ControlFlow::Continue(())
    });
    has_some.then(|| expr.to_string())
}

fn add_filter(call: &mut Function, condition: &Expr) {
    let nested = |expr: Expr| Box::new(Expr::Nested(Box::new(expr)));
    call.filter = Some(match call.filter.take() {
        None => Box::new(condition.clone()),
        Some(before) => Box::new(Expr::BinaryOp {
            left: nested(*before),
            op: BinaryOperator::And,
            right: nested(condition.clone()),
        }),
    });
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::dialect::DuckDbDialect;

    struct Known;

    impl Source for Known {
        fn columns(&mut self, query: &str) -> Result<Vec<(String, String)>> {
            let names: &[&str] = match query {
                "SELECT COLUMNS('x|y') FROM t" => &["x", "y"],
                "SELECT x, y FROM t" | "SELECT \"x\", \"y\" FROM t" => &["x", "y"],
                _ => &["A", "b", "x", "y"],
            };
            Ok(names.iter().map(|name| ((*name).to_owned(), "INTEGER".to_owned())).collect())
        }

        fn texts(&mut self, query: &str) -> Result<Vec<String>> {
            let one = query.strip_prefix("SELECT coalesce(CAST(").and_then(|rest| rest.split_once(" AS VARCHAR"));
            Ok(match one {
                Some((value, _)) => vec![value.to_owned()],
                None => Vec::new(),
            })
        }

        fn values(&mut self, _query: &str) -> Result<Vec<String>> {
            Ok(vec!["1".to_owned(), "it's".to_owned()])
        }

        fn is_aggregate(&self, name: &str) -> bool {
            matches!(name, "sum" | "max" | "count")
        }
    }

    #[track_caller]
    fn check(text: &str, expect: &str) {
        assert_eq!(written(text, &DuckDbDialect {}, &mut Known).expect("a query"), expect);
    }

    #[test]
    fn pivots_are_groups_with_filters() {
        check(
            "PIVOT t ON b USING sum(x) GROUP BY a",
            "SELECT a, sum(x) FILTER (WHERE CAST(b AS VARCHAR) = '1') AS \"1\", \
             sum(x) FILTER (WHERE CAST(b AS VARCHAR) = 'it''s') AS \"it's\" FROM t GROUP BY a",
        );
        check(
            "t PIVOT (sum(x) + 1 AS s, max(x) FOR b IN (2 AS two))",
            "SELECT \"A\", \"y\", sum(x) FILTER (WHERE (b) IS NOT DISTINCT FROM (2)) + 1 AS \"two_s\", \
             max(x) FILTER (WHERE (b) IS NOT DISTINCT FROM (2)) AS \"two_max(x)\" FROM t GROUP BY \"A\", \"y\"",
        );
        check(
            "t PIVOT (count(*) FOR b IN (1) a IN (3) GROUP BY x)",
            "SELECT x, count(*) FILTER (WHERE (b) IS NOT DISTINCT FROM (1) AND (a) IS NOT DISTINCT FROM (3)) AS \"1_3\" \
             FROM t GROUP BY x",
        );
        assert!(written("PIVOT t ON b USING x", &DuckDbDialect {}, &mut Known).is_err());
    }

    #[test]
    fn unpivots_are_lists_of_rows() {
        let expect = "SELECT * FROM (SELECT \"A\", \"b\", unnest(['x', 'y']) AS name, unnest([x, y]) AS value FROM t) \
                      WHERE value IS NOT NULL";
        check("UNPIVOT t ON x, y", expect);
        check("UNPIVOT t ON COLUMNS('x|y')", &expect.replace("[x, y]", "[\"x\", \"y\"]"));
        check("UNPIVOT t ON 'x', y", &expect.replace("[x, y]", "[\"x\", y]"));
        check("UNPIVOT t ON x + 1, y", &expect.replace("[x, y]", "[x + 1, y]"));
        check(
            "t UNPIVOT INCLUDE NULLS (v FOR n IN (x, y AS z))",
            "SELECT \"A\", \"b\", unnest(['x', 'z']) AS n, unnest([x, y]) AS v FROM t",
        );
    }
}
