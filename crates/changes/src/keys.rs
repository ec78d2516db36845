//! Keys of a table: the columns of PRIMARY KEY and UNIQUE, and the expressions of a UNIQUE INDEX. No two rows have the same values
//! there, but for NULL, which is the same as nothing.

use std::sync::Arc;

use forebay_base::{ColumnId, Error, Result, limits};
use forebay_engine::ascending::is_ascending;
use forebay_engine::{CancelToken, Engine};
use forebay_store::{Constraint, Segment, Table, TableSnapshot};
use forebay_tables::declared::indexes;

use crate::columns::quoted;

/// An error if a unique index of a table names this column.
///
/// # Errors
/// That it does.
pub fn free_of_indexes(table: &Table, id: ColumnId) -> Result<()> {
    let column = table.columns.iter().find(|column| column.id == id);
    match column.filter(|column| indexes_name(table, &column.name)) {
        Some(column) => {
            Err(Error::input(format!("an index depends on column {}", column.name)).hint("DROP INDEX first"))
        }
        None => Ok(()),
    }
}

/// Whether a unique index of a table names this column.
fn indexes_name(table: &Table, column: &str) -> bool {
    let mut parts = indexes(table).filter(|index| index.is_unique).flat_map(|index| index.parts);
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    parts.any(|text| text.split(|c| !is_word(c)).any(|word| word.eq_ignore_ascii_case(column)))
}

/// What is unique in a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    /// Expressions over the columns of the table, most of which are columns in quotes.
    pub parts: Vec<String>,
    /// What messages call them.
    names: Vec<String>,
    is_primary: bool,
}

impl Key {
    /// All keys of a table.
    pub fn of(table: &Table) -> Vec<Self> {
        let of_columns = |ids: &[ColumnId], is_primary| {
            let name = |id: &ColumnId| table.columns.iter().find(|column| column.id == *id).map(|column| &column.name);
            let names: Vec<String> = ids.iter().filter_map(|id| name(id).cloned()).collect();
            (names.len() == ids.len()).then(|| Self { is_primary, ..Self::of_names(names) })
        };
        let declared = table.constraints.iter().filter_map(|constraint| match constraint {
            Constraint::PrimaryKey(ids) => of_columns(ids, true),
            Constraint::Unique(ids) => of_columns(ids, false),
            Constraint::ForeignKey { .. } | Constraint::Check { .. } => None,
        });
        let indexed = indexes(table).filter(|index| index.is_unique).map(|index| {
            let names: Vec<String> = index.parts.into_iter().map(str::to_owned).collect();
            let parts = names.iter().map(|part| match table.column(part.trim_matches('"')) {
                Some((_, column)) => quoted(&column.name),
                None => part.clone(),
            });
            Self { parts: parts.collect(), names, is_primary: false }
        });
        declared.chain(indexed).collect()
    }

    /// Columns of these names.
    pub fn of_names(names: Vec<String>) -> Self {
        Self { parts: names.iter().map(|name| quoted(name)).collect(), names, is_primary: false }
    }

    /// Whether a row of `other` may have the key of a row of `new`: not where the integers of some part of it lie apart.
    pub fn may_share(&self, table: &Table, new: &[Arc<Segment>], other: &Segment) -> bool {
        let lie_apart = |column: ColumnId| {
            let Some((least, greatest)) = other.integers(column) else { return false };
            new.iter().all(|new| new.integers(column).is_some_and(|(low, high)| high < least || greatest < low))
        };
        !self.columns(table).is_some_and(|columns| columns.into_iter().any(lie_apart))
    }

    /// Whether rows of `table` that were loaded together lie in the order of the key, no two the same: then none has to be looked for.
    /// Few are looked for as quickly.
    ///
    /// # Errors
    /// Those of reading.
    pub fn orders(
        &self,
        engine: &Arc<Engine>,
        table: &Table,
        rows: &[Arc<Segment>],
        (threads, cancel): (usize, &CancelToken),
    ) -> Result<bool> {
        let place = |id: ColumnId| table.column_by_id(id).map(|(place, _)| place);
        let places = self.columns(table).and_then(|ids| ids.into_iter().map(place).collect::<Option<Vec<_>>>());
        let part = Arc::new(TableSnapshot::from(table.with_rows(rows.iter().cloned())));
        match places.filter(|_| part.rows() > limits::BLOCK_ROWS as u64) {
            Some(places) => is_ascending(engine, &part, &places, (threads, &Arc::default()), cancel),
            None => Ok(false),
        }
    }

    /// The columns that it is made of; `None` where some parts are no columns.
    pub fn columns(&self, table: &Table) -> Option<Vec<ColumnId>> {
        let column = |part: &String| table.columns.iter().find(|column| quoted(&column.name) == *part);
        self.parts.iter().map(|part| column(part).map(|column| column.id)).collect()
    }

    /// Whether one of these columns, in quotes, is named in it.
    pub fn names_any(&self, columns: &[String]) -> bool {
        let is_plain = |part: &String| part.starts_with('"') && part.ends_with('"');
        self.parts.iter().any(|part| !is_plain(part) || columns.contains(part))
    }

    /// The query of a key, as messages show it, that several rows of `rows` have, a table in FROM.
    pub fn twice(&self, rows: &str) -> String {
        let keys: Vec<String> = (0..self.parts.len()).map(|index| self.alias(index)).collect();
        format!(
            "SELECT {} FROM {} GROUP BY {} HAVING count(*) > 1 LIMIT 1",
            self.shown(),
            self.given(rows),
            keys.join(", ")
        )
    }

    /// The query of a key, as messages show it, that a row of `rows` has and one of `others`, too.
    pub fn shared(&self, rows: &str, others: &str) -> String {
        let found = self.found_in(&self.given(others));
        format!("SELECT {} FROM {} AS n WHERE {found} LIMIT 1", self.shown(), self.given(rows))
    }

    /// The condition that the key of a row of `n` is one of these, as [`Key::given`] has them.
    pub(crate) fn found_in(&self, keys: &str) -> String {
        let equal: Vec<String> =
            (0..self.parts.len()).map(|index| format!("o.{0} = n.{0}", self.alias(index))).collect();
        format!("EXISTS (SELECT 1 FROM {keys} AS o WHERE {})", equal.join(" AND "))
    }

    /// The query of the number of a row of `rows` that has a key, as messages show it, counted from 1: the second one, if there are several.
    pub fn row_with(&self, rows: &str, shown: &str) -> String {
        let numbered = format!("(SELECT *, row_number() OVER () AS \" row\" FROM {rows})");
        let keys = self.parts.iter().enumerate().map(|(index, part)| format!("{part} AS {}", self.alias(index)));
        let keys = keys.collect::<Vec<_>>().join(", ");
        format!(
            "SELECT CAST(max(\" row\") AS VARCHAR) FROM (SELECT \" row\" FROM (SELECT {keys}, \" row\" FROM {numbered}) \
             WHERE {} = '{}' ORDER BY \" row\" LIMIT 2)",
            self.shown(),
            shown.replace('\'', "''")
        )
    }

    /// What is wrong where two rows have this key.
    pub fn violated(&self, shown: &str) -> String {
        let kind = if self.is_primary { "primary key" } else { "unique" };
        format!("duplicate key \"{shown}\" violates {kind} constraint")
    }

    fn alias(&self, index: usize) -> String {
        format!("\" key {index}\"")
    }

    /// The keys without NULL of a table in FROM.
    pub(crate) fn given(&self, rows: &str) -> String {
        let keys: Vec<String> =
            self.parts.iter().enumerate().map(|(index, part)| format!("{part} AS {}", self.alias(index))).collect();
        let given: Vec<String> =
            (0..self.parts.len()).map(|index| format!("{} IS NOT NULL", self.alias(index))).collect();
        format!("(SELECT * FROM (SELECT {} FROM {rows}) WHERE {})", keys.join(", "), given.join(" AND "))
    }

    /// Names and values, as messages show them.
    pub(crate) fn shown(&self) -> String {
        let part = |(index, name): (usize, &String)| {
            let before = if index == 0 { "" } else { ", " };
            format!("'{before}{}: ' || CAST({} AS VARCHAR)", name.replace('\'', "''"), self.alias(index))
        };
        self.names.iter().enumerate().map(part).collect::<Vec<_>>().join(" || ")
    }
}
