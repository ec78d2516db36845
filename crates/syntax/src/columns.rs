//! `COLUMNS(…)` in a SELECT list and in WHERE: an expression once for each column of the tables in FROM that is meant, by `*`, by a
//! regular expression or by a list of names. In WHERE all of them must hold. It is written out before planning.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, Query, Select, SelectItem,
    Value, VisitMut, VisitorMut,
};
use forebay_base::{Error, Result};
use regex::Regex;

use crate::outputs;
use crate::scopes::Scopes;

/// Writes out the calls of a SELECT. Errors: what chooses no column, and tables whose columns are not known.
pub(crate) fn write_out(scopes: &Scopes, select: &mut Select) -> Result<()> {
    if !has_calls(select) {
        return Ok(());
    }
    let Some(tables) = outputs::tables_of(scopes, select) else {
        return Err(Error::unsupported(
            "COLUMNS over tables whose columns are known when they are read is not supported",
        )
        .hint("Name the columns"));
    };
    let all = columns(tables);
    let mut written = Vec::with_capacity(select.projection.len());
    for item in std::mem::take(&mut select.projection) {
        let (mut expr, alias) = match &item {
            SelectItem::UnnamedExpr(expr) => (expr.clone(), None),
            SelectItem::ExprWithAlias { expr, alias } => (expr.clone(), Some(alias)),
            _ => {
                written.push(item);
                continue;
            }
        };
        match Calls::of(&mut expr, &all)? {
            None => written.push(item),
            Some(chosen) => written.extend(chosen.into_iter().map(|column| {
                let alias = alias.cloned().unwrap_or_else(|| Ident::with_quote('"', column.name.clone()));
                SelectItem::ExprWithAlias { expr: Calls::replaced(&expr, &column), alias }
            })),
        }
    }
    select.projection = written;
    if let Some(test) = &mut select.selection
        && let Some(chosen) = Calls::of(test, &all)?
    {
        let tests = chosen.iter().map(|column| Expr::Nested(Box::new(Calls::replaced(test, column))));
        let both =
            |left, right| Expr::BinaryOp { left: Box::new(left), op: BinaryOperator::And, right: Box::new(right) };
        select.selection = tests.reduce(both);
    }
    Ok(())
}

/// Whether there are calls, outside of subqueries.
fn has_calls(select: &mut Select) -> bool {
    let mut calls = Calls::default();
    for item in &mut select.projection {
        if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
            let _ = expr.visit(&mut calls);
        }
    }
    if let Some(test) = &mut select.selection {
        let _ = test.visit(&mut calls);
    }
    !calls.found.is_empty()
}

/// A column of a table in FROM.
#[derive(Debug, Clone, PartialEq)]
struct Column {
    /// What qualifies it, in lower case.
    table: Option<String>,
    name: String,
    /// How it is named where it is meant.
    reference: Expr,
}

fn columns(tables: Vec<(Option<String>, Vec<String>)>) -> Vec<Column> {
    let count = |name: &str| {
        let same = |other: &&String| other.eq_ignore_ascii_case(name);
        tables.iter().flat_map(|(_, columns)| columns).filter(same).count()
    };
    let mut all = Vec::new();
    for (table, names) in &tables {
        for name in names {
            let own = Ident::with_quote('"', name.clone());
            let reference = match table {
                Some(table) if count(name) > 1 => {
                    Expr::CompoundIdentifier(vec![Ident::with_quote('"', table.clone()), own])
                }
                _ => Expr::Identifier(own),
            };
            all.push(Column { table: table.clone(), name: name.clone(), reference });
        }
    }
    all
}

/// Goes to the calls in an expression.
#[derive(Default)]
struct Calls {
    found: Vec<Function>,
    /// What stands in their place; nothing where they are only looked for.
    replacement: Option<Expr>,
    /// Subqueries around the place, whose calls are their own.
    inside: usize,
}

impl Calls {
    /// The columns that the calls in an expression choose; `None` where there are no calls.
    fn of(expr: &mut Expr, all: &[Column]) -> Result<Option<Vec<Column>>> {
        let mut calls = Self::default();
        let _ = expr.visit(&mut calls);
        let mut lists = calls.found.iter().map(|call| chosen(call, all));
        let Some(first) = lists.next().transpose()? else { return Ok(None) };
        for other in lists {
            if other? != first {
                return Err(Error::input("the COLUMNS of one expression choose different columns")
                    .hint("Choose the same in all of them"));
            }
        }
        Ok(Some(first))
    }

    /// The expression with a column in the place of its calls.
    fn replaced(expr: &Expr, column: &Column) -> Expr {
        let mut calls = Self { replacement: Some(column.reference.clone()), ..Self::default() };
        let mut expr = expr.clone();
        let _ = expr.visit(&mut calls);
        expr
    }
}

impl VisitorMut for Calls {
    type Break = ();

    fn pre_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.inside += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.inside -= 1;
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Function(call) = expr
            && self.inside == 0
            && call.name.to_string().eq_ignore_ascii_case("columns")
        {
            match &self.replacement {
                Some(replacement) => *expr = replacement.clone(),
                None => self.found.push(call.clone()),
            }
        }
        ControlFlow::Continue(())
    }
}

/// The columns that a call chooses.
fn chosen(call: &Function, all: &[Column]) -> Result<Vec<Column>> {
    let argument = match &call.args {
        FunctionArguments::List(list) => match list.args.as_slice() {
            [FunctionArg::Unnamed(argument)] => Some(argument),
            _ => None,
        },
        _ => None,
    };
    let picked = |is_meant: &dyn Fn(&Column) -> bool| all.iter().filter(|column| is_meant(column)).cloned().collect();
    let found: Vec<Column> = match argument {
        Some(FunctionArgExpr::Wildcard) => all.to_vec(),
        Some(FunctionArgExpr::WildcardWithOptions(options)) if options.opt_replace.is_none() => {
            let excluded = outputs::excluded(options).ok_or_else(refused)?;
            picked(&|column| !excluded.contains(&column.name.to_lowercase()))
        }
        Some(FunctionArgExpr::QualifiedWildcard(table)) => {
            let table = table.to_string().trim_matches('"').to_lowercase();
            picked(&|column| column.table.as_ref() == Some(&table))
        }
        Some(FunctionArgExpr::Expr(Expr::Value(value))) => match &value.value {
            Value::SingleQuotedString(pattern) => {
                let pattern = Regex::new(pattern).map_err(|error| {
                    Error::input(format!("{pattern} is no regular expression: {error}")).hint("COLUMNS takes one")
                })?;
                picked(&|column| pattern.is_match(&column.name))
            }
            _ => return Err(refused()),
        },
        Some(FunctionArgExpr::Expr(Expr::Array(list))) => {
            let names: Vec<String> = list.elem.iter().map(text).collect::<Option<_>>().ok_or_else(refused)?;
            let is_there = |name: &&String| all.iter().any(|column| column.name.eq_ignore_ascii_case(name));
            if let Some(missing) = names.iter().find(|name| !is_there(name)) {
                return Err(Error::input(format!("column {missing} in COLUMNS does not exist")));
            }
            picked(&|column| names.iter().any(|name| name.eq_ignore_ascii_case(&column.name)))
        }
        _ => return Err(refused()),
    };
    match found.is_empty() {
        true => Err(Error::input(format!("{call} chooses no column")).hint("Its text is a regular expression")),
        false => Ok(found),
    }
}

fn refused() -> Error {
    Error::unsupported("COLUMNS takes *, a text with a regular expression, or a list of names")
        .hint("Write COLUMNS('^a'), or COLUMNS(['a', 'b'])")
}

fn text(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => Some(text.clone()),
            _ => None,
        },
        _ => None,
    }
}
