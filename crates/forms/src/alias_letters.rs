//! The letters of aliases without quotes: `SELECT 1 AS Total` shows `Total`. The planner would make them small.

use std::collections::HashSet;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Ident, Query, Select, SelectItem, SetExpr, SetQuantifier, Statement, TableAlias, TableFactor, VisitorMut,
};

use crate::walk::Tree;

/// Puts aliases of columns that have capitals into quotes, as `letters` has them. Those that UNION BY NAME puts together get the letters
/// of the first.
pub fn keep(statement: &mut Statement, letters: fn(&str) -> String) {
    let _ = statement.walk_mut(&mut Aliases { letters });
}

/// Gives columns that a UNION BY NAME puts together the letters of the first of them.
fn put_together(body: &mut SetExpr) {
    let mut known = Vec::new();
    each_part(body, false, &mut |item| {
        if let Some((name, is_alias)) = named(item) {
            match known.iter_mut().find(|(other, _)| is_same(other, &name)) {
                Some((_, has_alias)) => *has_alias |= is_alias,
                None => known.push((name, is_alias)),
            }
        }
    });
    // Columns that are columns in all parts are called as their tables have them.
    known.retain(|(_, has_alias)| *has_alias);
    each_part(body, false, &mut |item| {
        let Some((name, _)) = named(item) else { return };
        let Some((first, _)) = known.iter().find(|(other, _)| is_same(other, &name)) else { return };
        if let SelectItem::ExprWithAlias { expr, .. } | SelectItem::UnnamedExpr(expr) = item {
            *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias: first.clone() };
        }
    });
}

/// What a column is called, and whether by an alias.
fn named(item: &SelectItem) -> Option<(Ident, bool)> {
    match item {
        SelectItem::ExprWithAlias { alias, .. } => Some((alias.clone(), true)),
        SelectItem::UnnamedExpr(Expr::Identifier(name)) => Some((name.clone(), false)),
        _ => None,
    }
}

fn is_same(name: &Ident, other: &Ident) -> bool {
    name.value.to_lowercase() == other.value.to_lowercase()
}

/// Calls `work` for the columns of the parts of a UNION BY NAME.
fn each_part(body: &mut SetExpr, is_by_name: bool, work: &mut dyn FnMut(&mut SelectItem)) {
    use SetQuantifier::{AllByName, ByName, DistinctByName};
    match body {
        SetExpr::SetOperation { left, set_quantifier, right, .. } => {
            let is_by_name = is_by_name || matches!(set_quantifier, ByName | AllByName | DistinctByName);
            each_part(left, is_by_name, work);
            each_part(right, is_by_name, work);
        }
        SetExpr::Select(select) if is_by_name => select.projection.iter_mut().for_each(work),
        _ => {}
    }
}

/// The aliases of a SELECT list.
pub fn of(select: &Select) -> HashSet<Ident> {
    let alias = |item: &SelectItem| match item {
        SelectItem::ExprWithAlias { alias, .. } => Some(alias.clone()),
        _ => None,
    };
    select.projection.iter().filter_map(alias).collect()
}

struct Aliases {
    letters: fn(&str) -> String,
}

impl Aliases {
    fn keep(&self, name: &mut Ident) {
        if name.quote_style.is_none() {
            let kept = (self.letters)(&name.value);
            if kept != kept.to_lowercase() {
                *name = Ident { value: kept, quote_style: Some('"'), span: name.span };
            }
        }
    }

    fn keep_columns(&self, alias: &mut TableAlias) {
        alias.columns.iter_mut().for_each(|column| self.keep(&mut column.name));
    }
}

impl VisitorMut for Aliases {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        if matches!(*query.body, SetExpr::SetOperation { .. }) {
            put_together(&mut query.body);
        }
        let tables = query.with.iter_mut().flat_map(|with| with.cte_tables.iter_mut());
        tables.for_each(|table| self.keep_columns(&mut table.alias));
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        for item in &mut select.projection {
            if let SelectItem::ExprWithAlias { alias, .. } = item {
                self.keep(alias);
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, table: &mut TableFactor) -> ControlFlow<()> {
        if let TableFactor::Table { alias: Some(alias), .. }
        | TableFactor::Derived { alias: Some(alias), .. }
        | TableFactor::Function { alias: Some(alias), .. }
        | TableFactor::TableFunction { alias: Some(alias), .. }
        | TableFactor::UNNEST { alias: Some(alias), .. } = table
        {
            self.keep_columns(alias);
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::dialect::DuckDbDialect;
    use datafusion::sql::sqlparser::parser::Parser;

    #[test]
    fn aliases_with_capitals_get_quotes() {
        let check = |letters: fn(&str) -> String, text: &str, expect: &str| {
            let mut parsed = Parser::parse_sql(&DuckDbDialect {}, text).expect("parses");
            keep(&mut parsed[0], letters);
            assert_eq!(parsed[0].to_string(), expect);
        };
        let text = "WITH q(X, y) AS (SELECT A AS Total, b AS n FROM T) SELECT (SELECT 1 AS One) FROM q AS R(P)";
        let kept = "WITH q (\"X\", y) AS (SELECT A AS \"Total\", b AS n FROM T) SELECT (SELECT 1 AS \"One\") FROM q AS R (\"P\")";
        check(str::to_owned, text, kept);
        check(str::to_lowercase, "SELECT 1 AS Total", "SELECT 1 AS Total");
        let union = "SELECT 1 AS A, 2 AS b UNION BY NAME SELECT 2 AS a, 3 AS B";
        check(str::to_owned, union, "SELECT 1 AS \"A\", 2 AS b UNION BY NAME SELECT 2 AS \"A\", 3 AS b");
        check(str::to_uppercase, "SELECT 1 AS total", "SELECT 1 AS \"TOTAL\"");
    }
}
