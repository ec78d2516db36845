//! SELECT … FOR UPDATE: which rows others may not change before the transaction ends. Its rows are locked by an UPDATE that gives them the values
//! that they have.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    GroupByExpr, LockClause, NonBlock, ObjectName, Query, Select, SetExpr, TableFactor, Visitor,
};
use forebay_base::{Error, Result};
use forebay_grammar::walk::Tree;
use forebay_store::{Constraint, Table, names_equal};
use forebay_tables::declared::{generated_from, indexes};

use crate::columns::quoted;

/// What a SELECT … FOR UPDATE or FOR SHARE locks.
#[derive(Debug)]
pub struct Locking {
    /// The query without these clauses.
    pub query: Query,
    /// Whether it waits for nobody.
    pub is_nowait: bool,
    table: ObjectName,
    alias: Option<String>,
    selection: Option<String>,
}

impl Locking {
    /// Whether a query locks rows, or one within it.
    pub fn is_of(query: &Query) -> bool {
        Clauses::of(query) > 0
    }

    /// That of a query that does.
    ///
    /// # Errors
    /// `Unsupported` of what is no query of the rows of one table, and of SKIP LOCKED.
    pub fn of(query: &Query) -> Result<Self> {
        let refused = |what: &str| Error::unsupported(format!("FOR UPDATE is not supported {what}"));
        let hint = "Lock the rows of each table by a SELECT of its own: SELECT … FROM t WHERE … FOR UPDATE";
        if Clauses::of(query) > query.locks.len() {
            return Err(refused("in subqueries").hint(hint));
        }
        if query.locks.iter().any(|lock| lock.nonblock == Some(NonBlock::SkipLocked)) {
            return Err(Error::unsupported("SKIP LOCKED is not supported")
                .hint("NOWAIT, and SET lock_timeout, limit how long a statement waits"));
        }
        let Some((table, alias, select)) = of_one_table(query) else {
            return Err(refused("with joins, groups, DISTINCT, WITH, UNION and the like").hint(hint));
        };
        let named = alias.as_ref().map_or_else(|| table.0.last().map(ToString::to_string), |alias| Some(alias.clone()));
        let named = named.unwrap_or_default();
        let is_it = |lock: &LockClause| lock.of.as_ref().is_none_or(|of| names_equal(&of.to_string(), &named));
        if let Some(other) = query.locks.iter().find(|lock| !is_it(lock)) {
            return Err(Error::input(format!("{other} names no table of FROM")));
        }
        let is_nowait = query.locks.iter().any(|lock| lock.nonblock == Some(NonBlock::Nowait));
        let selection = select.selection.as_ref().map(ToString::to_string);
        let mut unlocked = query.clone();
        unlocked.locks.clear();
        Ok(Self { query: unlocked, is_nowait, table, alias, selection })
    }

    /// The table whose rows it locks.
    pub fn table(&self) -> &ObjectName {
        &self.table
    }

    /// The UPDATE that locks them.
    ///
    /// # Errors
    /// `Unsupported` where only some rows are wanted and the table has no key that tells them from others.
    pub fn update(&self, table: &Table) -> Result<String> {
        let keys = table.constraints.iter().flat_map(Constraint::columns);
        let in_keys: Vec<&str> = keys.filter_map(|id| Some(table.column_by_id(*id)?.1.name.as_str())).collect();
        let is_indexed = |name: &str| {
            indexes(table).any(|index| index.parts.iter().any(|part| names_equal(part.trim_matches('"'), name)))
        };
        let given = || table.columns.iter().filter(|column| generated_from(table, column).is_none());
        let is_plain = |name: &str| !in_keys.iter().any(|key| names_equal(key, name)) && !is_indexed(name);
        let column = given().find(|column| is_plain(&column.name)).or_else(|| given().next());
        let column = column.ok_or_else(|| Error::internal("a table whose columns are all generated"))?;
        let (column, alias) = (quoted(&column.name), self.alias.as_deref().unwrap_or_default());
        let condition = match (&self.selection, self.query.limit_clause.is_some() || self.query.fetch.is_some()) {
            (None, false) => String::new(),
            (Some(selection), false) => format!(" WHERE {selection}"),
            (_, true) => format!(" WHERE {}", self.first_rows(table)?),
        };
        Ok(format!("UPDATE {} {alias} SET {column} = {column}{condition}", self.table))
    }

    /// The condition that the rows have which a LIMIT leaves.
    fn first_rows(&self, table: &Table) -> Result<String> {
        let primary = table.constraints.iter().find_map(|constraint| match constraint {
            Constraint::PrimaryKey(columns) => Some(columns),
            _ => None,
        });
        let names = primary.into_iter().flatten().filter_map(|id| table.column_by_id(*id));
        let names: Vec<String> = names.map(|(_, column)| quoted(&column.name)).collect();
        let [name] = names.as_slice() else {
            let message = "FOR UPDATE with LIMIT needs a table with a PRIMARY KEY of one column";
            return Err(Error::unsupported(message).hint("Leave LIMIT out"));
        };
        let mut rows = self.query.clone();
        if let SetExpr::Select(select) = rows.body.as_mut() {
            select.projection.clear();
        }
        // As it is written, with the key for what it gives.
        let text = rows.to_string();
        let rest = text.trim_start().strip_prefix("SELECT").unwrap_or_default();
        Ok(format!("{name} IN (SELECT {name} {rest})"))
    }
}

/// The table of a query of rows of one, what it is called there, and the query's SELECT.
fn of_one_table(query: &Query) -> Option<(ObjectName, Option<String>, &Select)> {
    let SetExpr::Select(select) = query.body.as_ref() else { return None };
    let [from] = select.from.as_slice() else { return None };
    let TableFactor::Table { name, alias, args: None, .. } = &from.relation else { return None };
    let is_grouped = match &select.group_by {
        GroupByExpr::Expressions(by, modifiers) => !by.is_empty() || !modifiers.is_empty(),
        GroupByExpr::All(_) => true,
    };
    let is_other = query.with.is_some()
        || is_grouped
        || !from.joins.is_empty()
        || select.distinct.is_some()
        || select.having.is_some()
        || select.qualify.is_some()
        || alias.as_ref().is_some_and(|alias| !alias.columns.is_empty());
    let alias = alias.as_ref().map(|alias| alias.name.to_string());
    (!is_other).then(|| (name.clone(), alias, select.as_ref()))
}

/// How many locking clauses a query has, with those of its subqueries.
#[derive(Default)]
struct Clauses(usize);

impl Clauses {
    fn of(query: &Query) -> usize {
        let mut clauses = Self::default();
        let _ = query.walk(&mut clauses);
        clauses.0
    }
}

impl Visitor for Clauses {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        self.0 += query.locks.len();
        ControlFlow::Continue(())
    }
}
