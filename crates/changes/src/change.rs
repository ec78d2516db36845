//! UPDATE and DELETE: the rows that stand in the place of those of a part of a table.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{Delete, Expr, TableWithJoins, Update, UpdateTableFromKind, With};
use forebay_base::{Error, Result};
use forebay_store::TableSnapshot;

use crate::columns::{assigned, cast, quoted};
use crate::keys::Key;

/// What a column is called that tells whether a row is to be changed.
const CONCERNED: &str = "\" is concerned\"";

/// What the rows are called that an UPDATE … FROM finds.
const FOUND: &str = "\" found\"";

/// What the column of the places of rows is called, as in [`TableSnapshot::with_places`].
pub const PLACE: &str = "\" row\"";

/// What a statement does with the rows of a table.
#[derive(Debug)]
pub struct Change {
    /// The table.
    pub table: Arc<TableSnapshot>,
    /// What the statement calls the table.
    pub alias: String,
    /// The statement's WITH, if it has one.
    pub with: String,
    /// The condition of the rows that are concerned; `None` of all.
    pub concerned: Option<String>,
    /// The columns that get values, and these; `None` where rows go.
    pub values: Option<BTreeMap<usize, String>>,
    /// Where values come from, and what has to hold of it.
    pub from: Option<Source>,
}

/// Tables beside the one that is changed.
#[derive(Debug)]
pub struct Source {
    /// What stands in FROM.
    pub tables: String,
    /// The condition of the rows that are partners.
    pub condition: String,
}

impl Change {
    /// What a DELETE does with `table`, which it calls `alias`.
    ///
    /// # Errors
    /// Clauses that are not supported.
    pub fn of_delete(table: Arc<TableSnapshot>, alias: String, delete: &Delete, with: Option<&With>) -> Result<Self> {
        if delete.limit.is_some() || !delete.order_by.is_empty() || !delete.tables.is_empty() {
            return Err(Error::unsupported("DELETE with ORDER BY or LIMIT is not supported"));
        }
        let from = delete.using.as_deref().map(|tables| Source::of(tables, delete.selection.as_ref()));
        let concerned = match &from {
            Some(source) => Some(source.exists()),
            None => delete.selection.as_ref().map(ToString::to_string),
        };
        Ok(Self { table, alias, with: shown(with), concerned, values: None, from: None })
    }

    /// What an UPDATE does with `table`, which it calls `alias`.
    ///
    /// # Errors
    /// Clauses that are not supported, columns that are not there or set twice.
    pub fn of_update(table: Arc<TableSnapshot>, alias: String, update: &Update, with: Option<&With>) -> Result<Self> {
        if update.limit.is_some() || !update.order_by.is_empty() || update.or.is_some() {
            return Err(Error::unsupported("UPDATE with ORDER BY, LIMIT or OR is not supported"));
        }
        let from = update.from.as_ref().map(|from| {
            let (UpdateTableFromKind::BeforeSet(tables) | UpdateTableFromKind::AfterSet(tables)) = from;
            Source::of(tables, update.selection.as_ref())
        });
        let concerned = match &from {
            Some(source) => Some(source.exists()),
            None => update.selection.as_ref().map(ToString::to_string),
        };
        let values = assigned(&table, &update.assignments)?.into_iter();
        let values = Some(values.map(|(index, value)| (index, value.to_string())).collect());
        Ok(Self { table, alias, with: shown(with), concerned, values, from })
    }

    /// The keys of which rows may get other values.
    pub fn keys(&self) -> Vec<Key> {
        let Some(values) = &self.values else { return Vec::new() };
        let set: Vec<String> = values.keys().map(|place| quoted(&self.table.columns[*place].name)).collect();
        Key::of(&self.table).into_iter().filter(|key| key.names_any(&set)).collect()
    }

    /// The query that counts the rows of a part of the table that are concerned.
    pub fn count(&self, part: &str) -> String {
        let concerned = self.concerned.as_deref().unwrap_or("TRUE");
        format!("{}SELECT count(*) FROM {part} AS {} WHERE {concerned}", self.with, self.alias)
    }

    /// The query of the rows that stand in the place of a part.
    pub fn rows(&self, part: &str) -> String {
        let (alias, with) = (&self.alias, &self.with);
        let concerned = self.concerned.as_deref().unwrap_or("TRUE");
        let Some(values) = &self.values else {
            return format!(
                "{with}SELECT {} FROM {part} AS {alias} WHERE CASE WHEN {concerned} THEN FALSE ELSE TRUE END",
                self.items(&|_, old| old)
            );
        };
        let Some(source) = &self.from else {
            let items = self.items(&|index, old| match values.get(&index) {
                Some(value) => self.chosen(&format!("{alias}.{CONCERNED}"), value, index, &old),
                None => old,
            });
            let marked = format!("SELECT {alias}.*, ({concerned}) AS {CONCERNED} FROM {part} AS {alias}");
            return format!("{with}SELECT {items} FROM ({marked}) AS {alias}");
        };
        let items = self.items(&|index, old| match values.contains_key(&index) {
            true => self.chosen(&format!("{FOUND}.{CONCERNED}"), &format!("{FOUND}.{}", new(index)), index, &old),
            false => old,
        });
        let found = self.found(values, source);
        // A join leaves no order.
        let placed = format!("(SELECT *, row_number() OVER () AS {PLACE} FROM {part})");
        format!(
            "{with}SELECT {items} FROM {placed} AS {alias} LEFT JOIN LATERAL ({found}) AS {FOUND} ON TRUE ORDER BY {alias}.{PLACE}"
        )
    }

    /// The query of the places of the rows of a part that are concerned, which has a column of places ([`PLACE`]).
    pub fn places(&self, part: &str) -> String {
        let (alias, with) = (&self.alias, &self.with);
        let concerned = self.concerned.as_deref().unwrap_or("TRUE");
        format!("{with}SELECT {alias}.{PLACE} FROM {part} AS {alias} WHERE {concerned}")
    }

    /// The query of the rows of such a part that get new values, with these, and their places.
    pub fn new_rows(&self, part: &str) -> String {
        let (alias, with) = (&self.alias, &self.with);
        let no_values = BTreeMap::new();
        let values = self.values.as_ref().unwrap_or(&no_values);
        let items = |value: &dyn Fn(usize) -> Option<String>| {
            let items = self.items(&|index, old| match value(index) {
                Some(value) => cast(&self.table, &self.table.columns[index], &value),
                None => old,
            });
            format!("{items}, {alias}.{PLACE} AS {PLACE}")
        };
        let Some(source) = &self.from else {
            let concerned = self.concerned.as_deref().unwrap_or("TRUE");
            let items = items(&|index| values.get(&index).cloned());
            return format!("{with}SELECT {items} FROM {part} AS {alias} WHERE {concerned}");
        };
        let items = items(&|index| values.contains_key(&index).then(|| format!("{FOUND}.{}", new(index))));
        let found = self.found(values, source);
        format!(
            "{with}SELECT {items} FROM {part} AS {alias} LEFT JOIN LATERAL ({found}) AS {FOUND} ON TRUE \
             WHERE {FOUND}.{CONCERNED} ORDER BY {alias}.{PLACE}"
        )
    }

    /// The query of the new values that an UPDATE … FROM finds for a row.
    fn found(&self, values: &BTreeMap<usize, String>, source: &Source) -> String {
        let found: Vec<String> = values.iter().map(|(index, value)| format!("({value}) AS {}", new(*index))).collect();
        let (found, tables, condition) = (found.join(", "), &source.tables, &source.condition);
        format!("SELECT {found}, TRUE AS {CONCERNED} FROM {tables} WHERE {condition} LIMIT 1")
    }

    /// A SELECT list of what is made of each column, by its place and its old value.
    pub fn items(&self, made: &dyn Fn(usize, String) -> String) -> String {
        let item = |(index, column): (usize, &forebay_store::Column)| {
            let name = quoted(&column.name);
            format!("{} AS {name}", made(index, format!("{}.{name}", self.alias)))
        };
        self.table.columns.iter().enumerate().map(item).collect::<Vec<_>>().join(", ")
    }

    /// The new value of a column where a condition holds, else the old one.
    fn chosen(&self, condition: &str, value: &str, index: usize, old: &str) -> String {
        let column = &self.table.columns[index];
        let cast = cast(&self.table, column, value);
        format!("CASE WHEN {condition} THEN {cast} ELSE {old} END")
    }
}

impl Source {
    fn of(tables: &[TableWithJoins], condition: Option<&Expr>) -> Self {
        let tables: Vec<String> = tables.iter().map(ToString::to_string).collect();
        Self { tables: tables.join(", "), condition: condition.map_or("TRUE".to_owned(), ToString::to_string) }
    }

    /// The condition that a row has a partner there.
    pub(crate) fn exists(&self) -> String {
        format!("EXISTS (SELECT 1 FROM {} WHERE {})", self.tables, self.condition)
    }
}

/// The text of a WITH before a query.
fn shown(with: Option<&With>) -> String {
    with.map(|with| format!("{with} ")).unwrap_or_default()
}

/// What the new value of a column is called.
fn new(index: usize) -> String {
    format!("\" new {index}\"")
}
