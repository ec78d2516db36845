//! INSERT … ON CONFLICT, INSERT OR REPLACE and INSERT OR IGNORE: a MERGE by the columns of a PRIMARY KEY, of UNIQUE or of a UNIQUE INDEX. Of
//! rows that would be added with the same values there, the first one counts. NULL is never the same.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{
    ConflictTarget, Expr, Ident, Insert, OnConflict, OnConflictAction, OnInsert, SqliteOnConflict,
};
use forebay_base::{Error, Result};
use forebay_grammar::walk::visit_expressions_mut;
use forebay_store::{Table, TableSnapshot, names_equal};

use crate::change::PLACE;
use crate::columns::{assigned, find, quoted};
use crate::keys::Key;
use crate::merge::{Action, Clause, Merge, When};

/// What rows are called that are to be added.
const EXCLUDED: &str = "excluded";

/// What an INSERT does with rows that are there already.
#[derive(Debug)]
pub struct Conflict {
    /// The columns of each constraint that is looked at.
    keys: Vec<Vec<String>>,
    /// What rows get that are there, and the condition under which they do; `None` where they stay.
    update: Option<(BTreeMap<usize, String>, Option<String>)>,
    alias: String,
}

impl Conflict {
    /// Takes such a clause out of an INSERT into `table`; `None` where it has none.
    ///
    /// # Errors
    /// Columns that no constraint has, several constraints where one is needed, and clauses that are not supported.
    pub fn taken(insert: &mut Insert, table: &Table) -> Result<Option<Self>> {
        if insert.replace_into {
            return Err(Error::input("REPLACE INTO is not possible").hint("Write INSERT OR REPLACE INTO"));
        }
        let last = table.name.clone();
        let alias = insert.table_alias.as_ref().map_or_else(|| quoted(&last), |alias| alias.alias.to_string());
        let keys = || keys_of(table);
        match (insert.or.take(), insert.on.take()) {
            (None, None) => Ok(None),
            (Some(SqliteOnConflict::Ignore), None) => Ok(Some(Self { keys: keys()?, update: None, alias })),
            (Some(SqliteOnConflict::Replace), None) => {
                let keys = vec![only(keys()?)?];
                let places: Vec<usize> = match insert.columns.is_empty() {
                    true => (0..table.columns.len()).collect(),
                    false => insert.columns.iter().map(|name| Ok(find(table, name)?.0)).collect::<Result<_>>()?,
                };
                let values = places
                    .into_iter()
                    .map(|place| (place, format!("{EXCLUDED}.{}", quoted(&table.columns[place].name))));
                Ok(Some(Self { keys, update: Some((values.collect(), None)), alias }))
            }
            (None, Some(OnInsert::OnConflict(OnConflict { conflict_target, action }))) => {
                let target = match conflict_target {
                    Some(ConflictTarget::Columns(names)) => Some(chosen(table, &names)?),
                    Some(ConflictTarget::OnConstraint(name)) => {
                        return Err(Error::unsupported(format!("ON CONFLICT ON CONSTRAINT {name} is not supported"))
                            .hint("Name the columns: ON CONFLICT (a, b)"));
                    }
                    None => None,
                };
                let (keys, update) = match action {
                    OnConflictAction::DoNothing => (target.map_or_else(keys, |key| Ok(vec![key]))?, None),
                    OnConflictAction::DoUpdate(update) => {
                        let key = target.map_or_else(|| only(keys()?), Ok)?;
                        let values = assigned(table, &update.assignments)?.into_iter();
                        let values = values.map(|(place, value)| Ok((place, of_table(value, table, &alias)?)));
                        let condition = update.selection.map(|test| of_table(test, table, &alias)).transpose()?;
                        (vec![key], Some((values.collect::<Result<_>>()?, condition)))
                    }
                };
                Ok(Some(Self { keys, update, alias }))
            }
            _ => Err(Error::unsupported("this form of INSERT is not supported")
                .hint("Write INSERT OR REPLACE, INSERT OR IGNORE or INSERT … ON CONFLICT")),
        }
    }

    /// What becomes of `table` and of the rows of `new`, a table in FROM with the same columns.
    pub fn merge(self, table: Arc<TableSnapshot>, new: &str) -> Merge {
        let first = |key: &Vec<String>| {
            let has_null: Vec<String> = key.iter().map(|name| format!("{name} IS NULL")).collect();
            let (has_null, key) = (has_null.join(" OR "), key.join(", "));
            format!("({has_null} OR row_number() OVER (PARTITION BY {key} ORDER BY {PLACE}) = 1)")
        };
        let first: Vec<String> = self.keys.iter().map(first).collect();
        let columns: Vec<String> = table.columns.iter().map(|column| quoted(&column.name)).collect();
        let factor = format!(
            "(SELECT {} FROM (SELECT *, row_number() OVER () AS {PLACE} FROM {new}) QUALIFY {} ORDER BY {PLACE})",
            columns.join(", "),
            first.join(" AND ")
        );
        let alias = self.alias;
        let condition = |key: &Vec<String>| {
            let equal: Vec<String> = key.iter().map(|name| format!("{alias}.{name} = {EXCLUDED}.{name}")).collect();
            equal.join(" AND ")
        };
        let conditions = self.keys.iter().map(condition).collect();
        let values = columns.iter().map(|name| format!("{EXCLUDED}.{name}")).collect();
        let mut clauses = vec![Clause { when: When::NotByTarget, condition: None, action: Action::Insert(values) }];
        if let Some((values, condition)) = self.update {
            clauses.push(Clause { when: When::Matched, condition, action: Action::Update(values) });
        }
        Merge { table, alias, source: (factor, EXCLUDED.to_owned()), conditions, clauses }
    }
}

/// The columns of the keys of a table, in quotes.
fn keys_of(table: &Table) -> Result<Vec<Vec<String>>> {
    let keys = Key::of(table).into_iter().filter(|key| key.columns(table).is_some());
    let keys: Vec<Vec<String>> = keys.map(|key| key.parts).collect();
    match keys.is_empty() {
        true => Err(Error::input(format!("table {} has no PRIMARY KEY and no UNIQUE constraint", table.name))
            .hint("Declare one in CREATE TABLE, or write MERGE INTO")),
        false => Ok(keys),
    }
}

fn only(mut keys: Vec<Vec<String>>) -> Result<Vec<String>> {
    match (keys.pop(), keys.is_empty()) {
        (Some(key), true) => Ok(key),
        _ => Err(Error::input("the table has several PRIMARY KEY and UNIQUE constraints")
            .hint("Name the columns of one: ON CONFLICT (a, b) DO UPDATE SET …")),
    }
}

/// The constraint over these columns.
fn chosen(table: &Table, names: &[Ident]) -> Result<Vec<String>> {
    for name in names {
        find(table, &vec![name.clone()].into())?;
    }
    let is_it = |key: &Vec<String>| {
        let plain = |column: &str| names.iter().any(|name| names_equal(&quoted(&name.value), column));
        key.len() == names.len() && key.iter().all(|column| plain(column))
    };
    keys_of(table)?.into_iter().find(is_it).ok_or_else(|| {
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        Error::input(format!("no PRIMARY KEY or UNIQUE constraint is on ({})", names.join(", ")))
            .hint("ON CONFLICT takes the columns of one, or none")
    })
}

/// An expression in which names without a table are columns of the table that is changed.
fn of_table(mut expr: Expr, table: &Table, alias: &str) -> Result<String> {
    let mut has_query = false;
    let _ = visit_expressions_mut(&mut expr, |part| -> ControlFlow<()> {
        match part {
            Expr::Identifier(name) if table.column(&name.value).is_some() => {
                *part = Expr::CompoundIdentifier(vec![Ident::new(alias), name.clone()]);
            }
            Expr::Subquery(_) | Expr::Exists { .. } | Expr::InSubquery { .. } => has_query = true,
            _ => {}
        }
        ControlFlow::Continue(())
    });
    match has_query {
        true => Err(Error::unsupported("subqueries in DO UPDATE are not supported").hint("Write MERGE INTO")),
        false => Ok(expr.to_string()),
    }
}
