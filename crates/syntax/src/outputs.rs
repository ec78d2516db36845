//! Names of the columns of a query in the FROM clause, as far as its text tells them: those of its SELECT list, where `*` stands
//! for the columns of tables that the statement names. What joins have in common is there once.
//!
//! Invariant: a list is whole and in the case of letters that the planner gives, or there is none.

use datafusion::sql::sqlparser::ast::{
    Expr, Ident, JoinConstraint, JoinOperator, OrderByKind, Query, Select, SelectItem, SelectItemQualifiedWildcardKind,
    SetExpr, SetQuantifier, TableAlias, TableAliasColumnDef, TableFactor, TableWithJoins, Value,
    WildcardAdditionalOptions, With,
};

use forebay_forms::names_apart::{apart, are_apart};
use forebay_forms::star_options::{excluded, renames};
use forebay_grammar::function_columns;
use forebay_grammar::letter_cases::kept;

use crate::scopes::{Named, Scopes};
use crate::sides::{self, constraint, shows_one_side};
use crate::stored_names::StoredNames;
use crate::{columns, select_list};

/// What subqueries without a name are called.
pub(crate) const UNNAMED_SUBQUERY: &str = "unnamed_subquery";

/// A table and its columns.
type Table = (Option<String>, Vec<String>);

/// The columns of a query within `scopes`.
pub fn of_query(scopes: &Scopes, query: &Query) -> Option<Vec<String>> {
    Outputs { scopes, named: Vec::new() }.of_query(query)
}

/// The columns of a table, query or join in the FROM clause, as the names of a table.
pub fn of_factor(scopes: &Scopes, table: &TableFactor) -> Option<StoredNames> {
    Outputs { scopes, named: Vec::new() }.of_factor(table).map(StoredNames::of)
}

/// The columns of the tables that the SELECT of a query reads; `None` where they are not known.
pub fn of_sources(scopes: &Scopes, with: Option<&With>, from: &[TableWithJoins]) -> Option<StoredNames> {
    let mut outputs = Outputs { scopes, named: Vec::new() };
    with.into_iter().for_each(|with| outputs.add(with));
    let tables = outputs.of_from(from, false)?;
    Some(StoredNames::of(tables.into_iter().flat_map(|(_, columns)| columns).collect()))
}

/// The tables in FROM with their columns; those that joins have in common are there once.
pub fn tables_of(scopes: &Scopes, select: &Select) -> Option<Vec<(Option<String>, Vec<String>)>> {
    Outputs { scopes, named: Vec::new() }.of_from(&select.from, true)
}

/// The tables in FROM, each with all of its columns.
pub fn whole_tables_of(scopes: &Scopes, select: &Select) -> Option<Vec<(Option<String>, Vec<String>)>> {
    Outputs { scopes, named: Vec::new() }.of_from(&select.from, false)
}

/// ORDER BY the name of a column of any part of a set operation becomes its position.
pub fn order_by_other_parts(scopes: &Scopes, query: &mut Query) {
    let Some(OrderByKind::Expressions(orders)) = query.order_by.as_mut().map(|order| &mut order.kind) else { return };
    let mut parts = Vec::new();
    add_parts(&query.body, &mut parts);
    if parts.len() < 2 {
        return;
    }
    let mut outputs = Outputs { scopes, named: Vec::new() };
    query.with.iter().for_each(|with| outputs.add(with));
    let Some(names) = parts.into_iter().map(|part| outputs.of_body(part)).collect::<Option<Vec<_>>>() else { return };
    for order in orders {
        let name = match &order.expr {
            Expr::Identifier(name) => Some(name),
            Expr::CompoundIdentifier(parts) => parts.last(),
            _ => None,
        };
        let Some(name) = name else { continue };
        let place = |names: &Vec<String>| names.iter().position(|other| other.eq_ignore_ascii_case(&name.value));
        if let Some(place) = names.iter().find_map(place) {
            order.expr = Expr::Value(Value::Number((place + 1).to_string(), false).into());
        }
    }
}

/// The parts of a set operation that goes by places, from the first one on.
fn add_parts<'a>(body: &'a SetExpr, parts: &mut Vec<&'a SetExpr>) {
    match body {
        SetExpr::SetOperation {
            set_quantifier: SetQuantifier::ByName | SetQuantifier::AllByName | SetQuantifier::DistinctByName,
            ..
        } => {}
        SetExpr::SetOperation { left, right, .. } => {
            add_parts(left, parts);
            add_parts(right, parts);
        }
        other => parts.push(other),
    }
}

/// Gives an alias that names the first columns of a table those of the others, and a subquery names where it needs them: where it
/// has columns of one name, or the planner would take its columns for those of the joins in it.
pub fn name_others(scopes: &Scopes, table: &mut TableFactor) {
    let own = Outputs { scopes, named: Vec::new() }.of_factor(table);
    if let TableFactor::Derived { subquery, alias, .. } = table {
        let has_same = of_query(scopes, subquery).is_some_and(|names| are_apart(&names).is_some());
        if has_same || (alias.is_none() && shares_columns(&subquery.body)) {
            let unnamed =
                || TableAlias { explicit: true, name: Ident::new(UNNAMED_SUBQUERY), columns: vec![], at: None };
            let alias = alias.get_or_insert_with(unnamed);
            if has_same && alias.columns.is_empty() {
                alias.columns = named_columns(own.as_deref().unwrap_or_default()).collect();
            }
        }
    }
    if let TableFactor::Table { alias: Some(alias), args: None, .. } | TableFactor::Derived { alias: Some(alias), .. } =
        table
    {
        add_names(alias, own.as_deref());
    }
}

/// Adds to the columns of an alias, if it has some, those of its table that follow.
fn add_names(alias: &mut TableAlias, own: Option<&[String]>) {
    if !alias.columns.is_empty() {
        let more = own.unwrap_or_default().get(alias.columns.len()..);
        alias.columns.extend(named_columns(more.unwrap_or_default()));
    }
}

fn named_columns(names: &[String]) -> impl Iterator<Item = TableAliasColumnDef> {
    names.iter().map(|name| TableAliasColumnDef { name: Ident::with_quote('"', name), data_type: None })
}

/// Whether a query joins tables by columns that they have in common.
fn shares_columns(body: &SetExpr) -> bool {
    match body {
        SetExpr::Select(select) => sides::shares_columns(select),
        SetExpr::Query(query) => shares_columns(&query.body),
        SetExpr::SetOperation { left, right, .. } => shares_columns(left) || shares_columns(right),
        _ => false,
    }
}

/// The tables that `with` names. Their columns get names where the planner would not find those that they have.
pub fn name_with(scopes: &Scopes, with: &mut With) -> Named {
    let mut outputs = Outputs { scopes, named: Vec::new() };
    outputs.add(with);
    let tables = with.cte_tables.iter_mut().enumerate();
    for (place, table) in tables {
        let own = outputs.named[place].1.clone();
        // More names than columns are ignored, in WITH alone.
        table.alias.columns.truncate(own.as_ref().map_or(usize::MAX, Vec::len));
        let before = outputs.named.split_off(place);
        let has_same = outputs.of_query(&table.query).is_some_and(|names| are_apart(&names).is_some());
        outputs.named.extend(before);
        match own.as_deref() {
            Some(own) if has_same && table.alias.columns.is_empty() => {
                table.alias.columns = named_columns(own).collect();
            }
            own => add_names(&mut table.alias, own),
        }
    }
    outputs.named
}

struct Outputs<'a> {
    scopes: &'a Scopes,
    /// By queries within the one that is looked at.
    named: Named,
}

impl Outputs<'_> {
    fn add(&mut self, with: &With) {
        for table in &with.cte_tables {
            let own = self.of_query(&table.query).map(apart);
            self.named.push((table.alias.name.value.to_lowercase(), renamed(own, &table.alias)));
        }
    }

    fn of_query(&mut self, query: &Query) -> Option<Vec<String>> {
        let before = self.named.len();
        query.with.iter().for_each(|with| self.add(with));
        let names = self.of_body(&query.body);
        self.named.truncate(before);
        names
    }

    fn of_body(&mut self, body: &SetExpr) -> Option<Vec<String>> {
        match body {
            SetExpr::Select(select) => self.of_select(select),
            SetExpr::Query(query) => self.of_query(query),
            SetExpr::SetOperation {
                left,
                right,
                set_quantifier: SetQuantifier::ByName | SetQuantifier::AllByName | SetQuantifier::DistinctByName,
                ..
            } => {
                let mut names = self.of_body(left)?;
                let has = |name: &String| names.iter().any(|known| known.eq_ignore_ascii_case(name));
                let more: Vec<String> = self.of_body(right)?.into_iter().filter(|name| !has(name)).collect();
                names.extend(more);
                Some(names)
            }
            SetExpr::SetOperation { left, .. } => self.of_body(left),
            SetExpr::Values(values) => Some(value_names(values.rows.first()?.len())),
            _ => None,
        }
    }

    fn of_select(&mut self, select: &Select) -> Option<Vec<String>> {
        let mut named = select.clone();
        columns::write_out(&mut named, |select, once| self.of_from(&select.from, once)).ok()?;
        select_list::name_columns(&mut named);
        let mut tables: Option<Vec<Table>> = None;
        // Once for all columns: each would ask the queries within anew.
        let is_named = |item: &SelectItem| {
            matches!(item, SelectItem::UnnamedExpr(Expr::Identifier(_) | Expr::CompoundIdentifier(_)))
        };
        let is_asked = self.scopes.tells_letters && named.projection.iter().any(is_named);
        let sources = if is_asked { self.of_from(&select.from, false) } else { None };
        let mut names = Vec::new();
        for item in &named.projection {
            let wanted = match item {
                SelectItem::UnnamedExpr(Expr::Identifier(name)) => {
                    names.push(self.shown(&sources, None, name));
                    continue;
                }
                SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts)) => {
                    let (name, before) = parts.split_last()?;
                    names.push(self.shown(&sources, before.last(), name));
                    continue;
                }
                SelectItem::ExprWithAlias { alias, .. } => {
                    names.push(kept(alias));
                    continue;
                }
                SelectItem::Wildcard(options) => (None, options),
                SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), options) => {
                    (Some(name.0.last()?.as_ident()?.value.to_lowercase()), options)
                }
                _ => return None,
            };
            let (table, options) = wanted;
            // Columns that are replaced keep their names.
            if options.opt_except.is_some() {
                return None;
            }
            let excluded = excluded(options)?;
            let mut replaced = replaced(options);
            if tables.is_none() {
                tables = Some(self.of_from(&select.from, table.is_none())?);
            }
            // The fields of a column that holds structs are not known.
            let is_meant = |(qualifier, _): &Table| *qualifier == table;
            if table.is_some() && !tables.iter().flatten().any(is_meant) {
                return None;
            }
            for (qualifier, columns) in tables.iter().flatten() {
                if table.is_none() || table == *qualifier {
                    // Of columns of one name that are replaced only the first is shown.
                    let mut is_shown = |column: &&String| {
                        let lower = column.to_lowercase();
                        let seen = replaced.iter_mut().find(|(name, _)| *name == lower).map(|(_, seen)| seen);
                        !excluded.contains(&lower) && !seen.is_some_and(|seen| std::mem::replace(seen, true))
                    };
                    let called = |column: &String| {
                        let mut all = renames(options).iter();
                        let rename = all.find(|rename| rename.ident.value.eq_ignore_ascii_case(column));
                        rename.map_or_else(|| column.clone(), |rename| self.stored(&rename.alias))
                    };
                    names.extend(columns.iter().filter(&mut is_shown).map(called));
                }
            }
        }
        Some(names)
    }

    /// The tables of a FROM clause; with `once`, columns that joins have in common are there once.
    fn of_from(&mut self, from: &[TableWithJoins], once: bool) -> Option<Vec<Table>> {
        let mut all = Vec::new();
        for table in from {
            all.extend(self.of_joins(table, once)?);
        }
        Some(all)
    }

    fn of_joins(&mut self, table: &TableWithJoins, once: bool) -> Option<Vec<Table>> {
        let mut all = self.of_side(&table.relation, once)?;
        for join in &table.joins {
            if shows_one_side(&join.join_operator) {
                continue;
            }
            let mut right = self.of_side(&join.relation, once)?;
            let has = |tables: &[Table], name: &str| {
                tables.iter().any(|(_, columns)| columns.iter().any(|column| column.eq_ignore_ascii_case(name)))
            };
            match constraint(&mut join.join_operator.clone()) {
                Some(JoinConstraint::Natural) if once => {
                    right.iter_mut().for_each(|(_, columns)| columns.retain(|column| !has(&all, column)));
                }
                Some(JoinConstraint::Using(shared)) if once => {
                    let is_shared = |column: &String| {
                        let names = shared.iter().filter_map(|name| name.0.last()?.as_ident());
                        names.into_iter().any(|name| name.value.eq_ignore_ascii_case(column))
                    };
                    right.iter_mut().for_each(|(_, columns)| columns.retain(|column| !is_shared(column)));
                }
                _ if matches!(join.join_operator, JoinOperator::OuterApply) => return None,
                _ => {}
            }
            all.extend(right);
        }
        Some(all)
    }

    fn of_side(&mut self, table: &TableFactor, once: bool) -> Option<Vec<Table>> {
        match table {
            TableFactor::NestedJoin { table_with_joins, alias: None } => self.of_joins(table_with_joins, once),
            TableFactor::Table { name, alias: None, .. } => {
                let qualifier = name.0.last()?.as_ident()?.value.to_lowercase();
                Some(vec![(Some(qualifier), self.of_factor(table)?)])
            }
            TableFactor::Table { alias, .. } | TableFactor::Derived { alias, .. } => {
                let qualifier = alias.as_ref().map(|alias| alias.name.value.to_lowercase());
                Some(vec![(qualifier, self.of_factor(table)?)])
            }
            _ => None,
        }
    }

    fn of_factor(&mut self, table: &TableFactor) -> Option<Vec<String>> {
        let (own, alias) = match table {
            TableFactor::Table { name, alias, args: None, .. } => {
                let plain = match name.0.as_slice() {
                    [only] => only.as_ident().map(|only| only.value.to_lowercase()),
                    _ => None,
                };
                let is_meant = |(named, _): &&(String, Option<Vec<String>>)| Some(named) == plain.as_ref();
                let own = match self.named.iter().rev().find(is_meant) {
                    Some((_, names)) => names.clone(),
                    None => self.scopes.columns(name),
                };
                (own, alias)
            }
            // The columns of a call are those that its alias names, of which functions give a table of one column.
            TableFactor::Table { alias: Some(alias), args: Some(_), .. } if alias.columns.len() == 1 => {
                return Some(vec![self.stored(&alias.columns[0].name)]);
            }
            TableFactor::Table { args: Some(_), .. } => {
                return Some(function_columns::of_call(table)?.iter().map(|name| self.stored(name)).collect());
            }
            TableFactor::Derived { subquery, alias, .. } => (self.of_query(subquery).map(apart), alias),
            _ => return None,
        };
        match alias {
            Some(alias) => renamed(own, alias),
            None => own,
        }
    }

    /// As the planner would call what this name means in a SELECT of these tables.
    fn shown(&self, tables: &Option<Vec<Table>>, table: Option<&Ident>, name: &Ident) -> String {
        let is_meant = |qualifier: &Option<String>| {
            table.is_none_or(|table| qualifier.as_ref().is_some_and(|own| own.eq_ignore_ascii_case(&table.value)))
        };
        let found = tables.iter().flatten().filter(|(qualifier, _)| is_meant(qualifier));
        let columns = StoredNames::of(found.flat_map(|(_, columns)| columns.iter().cloned()).collect());
        match columns.stored(&name.value.to_lowercase()) {
            Some(_) if name.quote_style.is_some() && columns.has_as_written(&name.value) => name.value.clone(),
            Some(stored) => stored.to_owned(),
            None => self.stored(name),
        }
    }

    /// As the planner would call a column of this name.
    fn stored(&self, name: &Ident) -> String {
        let mut name = name.clone();
        self.scopes.all().replace(&mut name);
        match name.quote_style {
            Some(_) => name.value,
            None => name.value.to_lowercase(),
        }
    }
}

/// The columns that `*` replaces, in lower case, none of which is seen yet.
fn replaced(options: &WildcardAdditionalOptions) -> Vec<(String, bool)> {
    let items = options.opt_replace.iter().flat_map(|replace| &replace.items);
    items.map(|item| (item.column_name.value.to_lowercase(), false)).collect()
}

/// Names of the columns of VALUES.
pub fn value_names(width: usize) -> Vec<String> {
    (0..width).map(|index| format!("col{index}")).collect()
}

/// Columns under the names that an alias gives the first of them.
fn renamed(own: Option<Vec<String>>, alias: &TableAlias) -> Option<Vec<String>> {
    let mut own = own?;
    for (column, new) in own.iter_mut().zip(&alias.columns) {
        *column = match new.name.quote_style {
            Some(_) => new.name.value.clone(),
            None => new.name.value.to_lowercase(),
        };
    }
    Some(own)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::parse_plan;
    use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
    use datafusion::sql::parser::Statement as PlanStatement;
    use datafusion::sql::sqlparser::ast::Statement;

    fn check(text: &str, expect: Option<&[&str]>) {
        let schema = |names: &[&str]| {
            let fields: Vec<_> = names.iter().map(|name| Field::new(*name, DataType::Int32, true)).collect();
            SchemaRef::new(Schema::new(fields))
        };
        let mut scopes = Scopes::default();
        scopes.add_table(&"t".into(), schema(&["a", "Total"]));
        scopes.add_table(&"u".into(), schema(&["a", "c"]));
        let PlanStatement::Statement(statement) = parse_plan(text).expect("parses") else { panic!("{text}") };
        let Statement::Query(query) = *statement else { panic!("{text}") };
        let names = of_query(&scopes, &query);
        let expect = expect.map(|names| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
        assert_eq!(names, expect, "{text}");
    }

    #[test]
    fn names_of_a_select_list() {
        check("SELECT a, t.total, a + 1, 1 AS \"X\" FROM t", Some(&["a", "Total", "a + 1", "X"]));
        check("SELECT * FROM t JOIN u USING (a)", Some(&["a", "Total", "c"]));
        check("SELECT u.*, 1 AS b FROM t NATURAL JOIN u", Some(&["a", "c", "b"]));
        check("SELECT * FROM t NATURAL JOIN u", Some(&["a", "Total", "c"]));
        check("SELECT * FROM t SEMI JOIN u USING (a)", Some(&["a", "Total"]));
    }

    #[test]
    fn names_of_subqueries_and_of_with() {
        check("WITH q(x) AS (SELECT * FROM t) SELECT * FROM q", Some(&["x", "Total"]));
        check("SELECT * FROM (SELECT c FROM u) AS q(y), (VALUES (1, 2))", Some(&["y", "col0", "col1"]));
        check("SELECT * FROM u UNION SELECT a, a FROM t", Some(&["a", "c"]));
        check("SELECT * FROM u UNION BY NAME SELECT * FROM t", Some(&["a", "c", "Total"]));
        check("SELECT * FROM unknown", None);
        check("SELECT * EXCLUDE (A) FROM t", Some(&["Total"]));
        check("SELECT * EXCLUDE (t.a) FROM t", None);
    }
}
