//! `rowid`: the place of a row in its table, counted from 0. A table whose places a SELECT names becomes the query that numbers its
//! rows; `*` does not show them.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    ExcludeSelectItem, Expr, Ident, ObjectName, ObjectNamePart, Query, Select, SelectItem,
    SelectItemQualifiedWildcardKind, SetExpr, Statement, TableAlias, TableFactor, VisitorMut,
    WildcardAdditionalOptions,
};
use datafusion::sql::sqlparser::dialect::Dialect;
use datafusion::sql::sqlparser::parser::Parser;

use crate::walk::Tree;

/// What the place of a row is called.
pub const ROW_ID: &str = "rowid";

/// Numbers the rows of tables where a statement names their places. `is_table` tells tables, which have places, from views and the
/// like, and from tables that have such a column of their own.
pub fn write_out(statement: &mut Statement, is_table: &dyn Fn(&ObjectName) -> bool, dialect: &dyn Dialect) {
    let mut found = Found { counts_within: true, ..Found::default() };
    let _ = statement.walk_mut(&mut found);
    if found.here || !found.qualified.is_empty() {
        let _ = statement.walk_mut(&mut Tables { is_table, dialect, named: Vec::new() });
    }
}

/// Looks for names of places.
#[derive(Default)]
struct Found {
    /// Those without a table count in queries within, too.
    counts_within: bool,
    /// Queries around the place.
    depth: usize,
    /// There is one without a table.
    here: bool,
    /// The tables that they are of, in lower case.
    qualified: Vec<String>,
}

impl VisitorMut for Found {
    type Break = ();

    fn pre_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match expr {
            Expr::Identifier(name) if is_row_id(name) => self.here |= self.counts_within || self.depth == 0,
            Expr::CompoundIdentifier(parts) => {
                if let [.., table, last] = parts.as_slice()
                    && is_row_id(last)
                {
                    self.qualified.push(table.value.to_lowercase());
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

fn is_row_id(name: &Ident) -> bool {
    name.value.eq_ignore_ascii_case(ROW_ID)
}

struct Tables<'a> {
    is_table: &'a dyn Fn(&ObjectName) -> bool,
    dialect: &'a dyn Dialect,
    /// What WITH of the queries around names, in lower case.
    named: Vec<Vec<String>>,
}

impl VisitorMut for Tables<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let tables = query.with.iter().flat_map(|with| &with.cte_tables);
        self.named.push(tables.map(|table| table.alias.name.value.to_lowercase()).collect());
        let mut found = Found::default();
        let _ = query.order_by.walk_mut(&mut found);
        if let SetExpr::Select(select) = query.body.as_mut() {
            let _ = select.walk_mut(&mut found);
            self.number(select, &found);
        }
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.named.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        let mut found = Found::default();
        let _ = select.walk_mut(&mut found);
        self.number(select, &found);
        ControlFlow::Continue(())
    }
}

impl Tables<'_> {
    /// Numbers the rows of the tables that `found` is about.
    fn number(&self, select: &mut Select, found: &Found) {
        if !found.here && found.qualified.is_empty() {
            return;
        }
        let mut numbered = Vec::new();
        let is_only = select.from.len() == 1 && select.from.iter().all(|table| table.joins.is_empty());
        for table in &mut select.from {
            let factors =
                std::iter::once(&mut table.relation).chain(table.joins.iter_mut().map(|join| &mut join.relation));
            for factor in factors {
                numbered.extend(self.number_table(factor, found, is_only));
            }
        }
        if numbered.is_empty() {
            return;
        }
        for item in &mut select.projection {
            match item {
                SelectItem::Wildcard(options) => numbered.iter().for_each(|table| hide(options, table, is_only)),
                SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), options) => {
                    let table = name.0.last().and_then(ObjectNamePart::as_ident);
                    if table.is_some_and(|table| numbered.contains(&table.value.to_lowercase())) {
                        hide(options, "", true);
                    }
                }
                _ => {}
            }
        }
    }

    /// Numbers the rows of a table, if they are asked for. Returns what qualifies its columns, in lower case.
    fn number_table(&self, factor: &mut TableFactor, found: &Found, is_only: bool) -> Option<String> {
        let TableFactor::Table { name, alias, args: None, .. } = factor else { return None };
        let last = name.0.last().and_then(ObjectNamePart::as_ident)?;
        let qualifier = alias.as_ref().map_or(last, |alias| &alias.name).clone();
        let lower = qualifier.value.to_lowercase();
        let is_named =
            name.0.len() == 1 && self.named.iter().flatten().any(|named| *named == last.value.to_lowercase());
        let is_meant = found.qualified.contains(&lower) || (found.here && is_only);
        if !is_meant || is_named || !(self.is_table)(name) {
            return None;
        }
        let text = format!("SELECT *, row_number() OVER () - 1 AS {ROW_ID} FROM {name}");
        let parsed = Parser::new(self.dialect).try_with_sql(&text).and_then(|mut parser| parser.parse_query());
        let subquery = parsed.ok()?;
        let own = || TableAlias { explicit: true, name: qualifier.clone(), columns: Vec::new(), at: None };
        let alias = Some(alias.clone().unwrap_or_else(own));
        *factor = TableFactor::Derived { lateral: false, subquery, alias, sample: None };
        Some(lower)
    }
}

/// Leaves the places out of what `*` shows.
fn hide(options: &mut WildcardAdditionalOptions, table: &str, is_only: bool) {
    let mut parts = vec![Ident::new(ROW_ID)];
    if !is_only {
        parts.insert(0, Ident::with_quote('"', table));
    }
    let name: ObjectName = parts.into();
    options.opt_exclude = Some(match options.opt_exclude.take() {
        None => ExcludeSelectItem::Multiple(vec![name]),
        Some(ExcludeSelectItem::Single(other)) => ExcludeSelectItem::Multiple(vec![other, name]),
        Some(ExcludeSelectItem::Multiple(mut names)) => {
            names.push(name);
            ExcludeSelectItem::Multiple(names)
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::dialect::DuckDbDialect;

    fn check(text: &str, expect: &str) {
        let mut parsed = Parser::parse_sql(&DuckDbDialect {}, text).expect("parses");
        write_out(&mut parsed[0], &|_| true, &DuckDbDialect {});
        assert_eq!(parsed[0].to_string(), expect);
    }

    #[test]
    fn rows_are_numbered_where_their_places_are_named() {
        let numbered = |table: &str| format!("(SELECT *, row_number() OVER () - 1 AS rowid FROM {table})");
        check("SELECT a FROM t", "SELECT a FROM t");
        check("SELECT *, rowid FROM t", &format!("SELECT * EXCLUDE (rowid), rowid FROM {} AS t", numbered("t")));
        check("SELECT a FROM t ORDER BY rowid", &format!("SELECT a FROM {} AS t ORDER BY rowid", numbered("t")));
        check(
            "SELECT x.rowid FROM t x JOIN u ON x.a = u.a",
            &format!("SELECT x.rowid FROM {} x JOIN u ON x.a = u.a", numbered("t")),
        );
        check("WITH t AS (SELECT 1) SELECT rowid FROM t", "WITH t AS (SELECT 1) SELECT rowid FROM t");
    }
}
