//! Names that a statement gives itself, found in any case: `SELECT "X" FROM (SELECT 1 AS x)`, `WITH "C" AS (…) SELECT … FROM c`. What
//! refers to such a name gets its letters. Where several names differ by case alone, a reference means the one that is as it is written.

use std::collections::HashMap;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Ident, ObjectName, ObjectNamePart, Query, Select, SelectItem, SelectItemQualifiedWildcardKind, Statement,
    TableAlias, TableFactor, Visitor, VisitorMut,
};

use crate::walk::Tree;

/// The names that a statement gives.
#[derive(Debug, Default)]
pub struct Given {
    /// What qualifies columns.
    relations: Names,
    /// Tables of WITH.
    tables: Names,
    columns: Names,
    /// Columns that lists show under the names that they have.
    shown: Vec<Ident>,
    is_quoted: bool,
}

/// Names as they are kept, by their lower-case form; `None` where there are several.
type Names = HashMap<String, Option<String>>;

/// A name as it is kept: in lower case, unless it is in quotes.
pub fn kept(name: &Ident) -> String {
    match name.quote_style {
        Some(_) => name.value.clone(),
        None => name.value.to_lowercase(),
    }
}

fn add(names: &mut Names, name: &Ident) {
    let kept = kept(name);
    let known = names.entry(kept.to_lowercase()).or_insert_with(|| Some(kept.clone()));
    if known.as_ref() != Some(&kept) {
        *known = None;
    }
}

/// Gives a reference the letters of the name that it means. False where no name is meant.
fn found(names: &Names, name: &mut Ident) -> bool {
    let Some(Some(known)) = names.get(&name.value.to_lowercase()) else { return false };
    if kept(name) != *known {
        *name = Ident { value: known.clone(), quote_style: Some('"'), span: name.span };
    }
    true
}

impl Given {
    /// Those of a statement.
    pub fn of(statement: &Statement) -> Self {
        let mut given = Self::default();
        let _ = statement.walk(&mut given);
        // Those that nothing else is called by are called so.
        for name in std::mem::take(&mut given.shown).iter().filter(|name| name.quote_style.is_none()) {
            let name = kept(name);
            given.columns.entry(name.clone()).or_insert(Some(name));
        }
        given
    }

    /// Whether there is nothing to do: no name is in quotes.
    pub fn is_plain(&self) -> bool {
        !self.is_quoted
    }

    /// Gives names of tables and what stands in front of columns the letters of what they mean; functions have small ones.
    pub fn name_tables(&self, statement: &mut Statement) {
        let _ = statement.walk_mut(&mut TableNames(self));
    }

    /// Gives names of columns the letters of what they mean, but for those without quotes that a table of the database has.
    pub fn name_columns(&self, statement: &mut Statement, is_stored: &dyn Fn(&str) -> bool) {
        let _ = statement.walk_mut(&mut ColumnNames { given: self, is_stored });
    }

    fn alias(&mut self, alias: &TableAlias) {
        self.note(&alias.name);
        add(&mut self.relations, &alias.name);
        for column in &alias.columns {
            self.note(&column.name);
            add(&mut self.columns, &column.name);
        }
    }

    fn note(&mut self, name: &Ident) {
        self.is_quoted |= name.quote_style.is_some();
    }
}

impl Visitor for Given {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        for table in query.with.iter().flat_map(|with| &with.cte_tables) {
            self.alias(&table.alias);
            add(&mut self.tables, &table.alias.name);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
        for item in &select.projection {
            match item {
                SelectItem::ExprWithAlias { alias, .. } => {
                    self.note(alias);
                    add(&mut self.columns, alias);
                }
                SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) => {
                    name.0.iter().filter_map(ObjectNamePart::as_ident).for_each(|part| self.note(part));
                }
                SelectItem::UnnamedExpr(Expr::Identifier(name)) => self.shown.push(name.clone()),
                SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts)) => self.shown.extend(parts.last().cloned()),
                _ => {}
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        match factor {
            TableFactor::Table { alias: Some(alias), .. }
            | TableFactor::Derived { alias: Some(alias), .. }
            | TableFactor::Function { alias: Some(alias), .. }
            | TableFactor::TableFunction { alias: Some(alias), .. }
            | TableFactor::UNNEST { alias: Some(alias), .. }
            | TableFactor::NestedJoin { alias: Some(alias), .. } => self.alias(alias),
            TableFactor::Table { name, alias: None, .. } => {
                if let Some(last) = name.0.last().and_then(ObjectNamePart::as_ident) {
                    self.note(last);
                    let mut meant = last.clone();
                    let _ = name.0.len() == 1 && found(&self.tables, &mut meant);
                    add(&mut self.relations, &meant);
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        match expr {
            Expr::Identifier(name) => self.note(name),
            Expr::CompoundIdentifier(parts) => parts.iter().for_each(|part| self.note(part)),
            Expr::Function(call) => {
                call.name.0.iter().filter_map(ObjectNamePart::as_ident).for_each(|part| self.note(part));
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

struct TableNames<'a>(&'a Given);

impl TableNames<'_> {
    /// What stands in front of `*` or of a column.
    fn qualifier(&self, name: &mut ObjectName) {
        if let [ObjectNamePart::Identifier(only)] = name.0.as_mut_slice() {
            let _ = found(&self.0.relations, only);
        }
    }
}

impl VisitorMut for TableNames<'_> {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        for item in &mut select.projection {
            if let SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) = item {
                self.qualifier(name);
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if let TableFactor::Table { name, args: None, .. } = factor
            && let [ObjectNamePart::Identifier(only)] = name.0.as_mut_slice()
        {
            let _ = found(&self.0.tables, only);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match expr {
            Expr::CompoundIdentifier(parts) => {
                let _ = found(&self.0.relations, &mut parts[0]);
            }
            Expr::Function(call) => {
                if let [ObjectNamePart::Identifier(only)] = call.name.0.as_mut_slice()
                    && only.quote_style.is_some()
                    && only.value.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
                {
                    *only = Ident { value: only.value.to_lowercase(), quote_style: None, span: only.span };
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

struct ColumnNames<'a> {
    given: &'a Given,
    is_stored: &'a dyn Fn(&str) -> bool,
}

impl ColumnNames<'_> {
    fn column(&self, name: &mut Ident) {
        if name.quote_style.is_some() || !(self.is_stored)(&name.value.to_lowercase()) {
            let _ = found(&self.given.columns, name);
        }
    }
}

impl VisitorMut for ColumnNames<'_> {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match expr {
            Expr::Identifier(name) => self.column(name),
            // Of a field of a column nothing is known.
            Expr::CompoundIdentifier(parts)
                if parts.len() == 2 && self.given.relations.contains_key(&parts[0].value.to_lowercase()) =>
            {
                self.column(&mut parts[1]);
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::dialect::DuckDbDialect;
    use datafusion::sql::sqlparser::parser::Parser;

    fn check(text: &str, stored: &[&str], expect: &str) {
        let mut parsed = Parser::parse_sql(&DuckDbDialect {}, text).expect("parses");
        let given = Given::of(&parsed[0]);
        given.name_tables(&mut parsed[0]);
        given.name_columns(&mut parsed[0], &|name| stored.contains(&name));
        assert_eq!(parsed[0].to_string(), expect);
    }

    #[test]
    fn references_have_the_letters_of_what_they_mean() {
        check("SELECT \"X\" FROM (SELECT 1 AS x)", &[], "SELECT \"x\" FROM (SELECT 1 AS x)");
        check("SELECT aa FROM (SELECT 1 AS \"Aa\") q", &[], "SELECT \"Aa\" FROM (SELECT 1 AS \"Aa\") q");
        check("WITH \"C\" AS (SELECT 1) SELECT c.* FROM c", &[], "WITH \"C\" AS (SELECT 1) SELECT \"C\".* FROM \"C\"");
        check("SELECT \"T\".a, T.b FROM t", &[], "SELECT \"t\".a, T.b FROM t");
        check("SELECT \"COUNT\"(*) FROM t", &[], "SELECT count(*) FROM t");
    }

    #[test]
    fn columns_of_tables_and_several_names_stay() {
        check("SELECT i + 1 AS \"I\" FROM t WHERE i = 1", &["i"], "SELECT i + 1 AS \"I\" FROM t WHERE i = 1");
        let several = "SELECT \"A\", a FROM (SELECT 1 AS a), (SELECT 2 AS \"A\")";
        check(several, &[], several);
    }
}
