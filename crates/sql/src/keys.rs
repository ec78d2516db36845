//! Rows that a statement writes have no key that another row has, and the rows that foreign keys lead to are there: looked at before
//! they are published.

use std::sync::Arc;

use datafusion::arrow::array::AsArray;
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::DataType;
use datafusion::sql::sqlparser::ast::{AlterTable, AlterTableOperation, Ident, TableConstraint};
use forebay_base::{ColumnId, Error, ErrorKind, Result};
use forebay_changes::columns::{quoted, whole_table};
use forebay_changes::keys::Key;
use forebay_changes::references::ForeignKey;
use forebay_store::{Constraint, Replaced, Segment, Table, TableSnapshot};

use crate::answer::Answer;
use crate::ddl::index_columns;
use crate::lookup::{find_name, find_table};
use crate::named::find_column;
use crate::run::Run;

impl Run<'_> {
    /// An error if these segments may not take the places of others of `table`: it would have one of `keys` twice, or a foreign key
    /// would lead nowhere.
    pub(crate) fn check_written(&self, keys: &[Key], table: &Table, replaced: &[Replaced]) -> Result<()> {
        self.check_keys(keys, table, replaced)?;
        self.check_references(table, replaced)
    }

    fn check_keys(&self, keys: &[Key], table: &Table, replaced: &[Replaced]) -> Result<()> {
        if keys.is_empty() || replaced.iter().all(|(_, new)| new.is_empty()) {
            return Ok(());
        }
        // Nobody else may add a row with one of these keys before this statement's rows, or those of its transaction, are there.
        let table = self.relied_on(table)?;
        let new: Vec<_> = replaced.iter().flat_map(|(_, new)| new).map(|sealed| sealed.segment()).collect();
        let stays = |id| replaced.iter().all(|(gone, _)| !gone.contains(&id));
        let others: Vec<_> = table.segments.iter().filter(|segment| stays(segment.id())).collect();
        let part = |segments: &[&Arc<Segment>]| {
            quoted(&self.planner.add_part(table.with_rows(segments.iter().map(|segment| Arc::clone(segment)))))
        };
        let (new_part, new_rows) = (part(&new), new.iter().map(|segment| segment.rows()).sum::<u64>());
        for key in keys {
            let near: Vec<_> = others.iter().copied().filter(|other| key.may_share(&table, &new, other)).collect();
            let shared = match near.is_empty() {
                true => None,
                false => self.first_text(&key.shared(&new_part, &part(&near)))?,
            };
            let found = match shared {
                None if new_rows > 1 => self.first_text(&key.twice(&new_part))?,
                shared => shared,
            };
            if let Some(shown) = found {
                return Err(Error::new(ErrorKind::Constraint, key.violated(&shown)).hint(format!(
                    "Write INSERT OR REPLACE, INSERT OR IGNORE or ON CONFLICT to change rows of {} that are there",
                    table.name
                )));
            }
        }
        Ok(())
    }

    /// A table as it is now. Nobody else may change its rows before those of this transaction are there.
    fn relied_on(&self, table: &Table) -> Result<Arc<TableSnapshot>> {
        self.planner.transaction().change(|changes| {
            changes.rely_on_rows(table.id);
            let now = changes.catalog().table_by_id(table.id).cloned();
            now.ok_or_else(|| Error::new(ErrorKind::Conflict, format!("table {} was dropped meanwhile", table.name)))
        })
    }

    /// An error if a row of these segments had a foreign key that leads nowhere, or one of another table led to a row that goes.
    fn check_references(&self, table: &Table, replaced: &[Replaced]) -> Result<()> {
        let catalog = self.planner.snapshot();
        let part =
            |table: &Table, segments: Vec<Arc<Segment>>| quoted(&self.planner.add_part(table.with_rows(segments)));
        let written = |(_, new): &Replaced| new.iter().map(|sealed| Arc::clone(sealed.segment())).collect::<Vec<_>>();
        let is_gone = |segment: &Arc<Segment>| replaced.iter().any(|(gone, _)| gone.contains(&segment.id()));
        let of = |table: &Table, is_meant: &dyn Fn(&Arc<Segment>) -> bool| {
            table.segments.iter().filter(|segment| is_meant(segment)).map(Arc::clone).collect::<Vec<_>>()
        };
        let has_new = replaced.iter().any(|(_, new)| !new.is_empty());
        let has_gone = replaced.iter().any(|(gone, _)| !gone.is_empty());
        for key in ForeignKey::of(catalog, |child, _| has_new && child.id == table.id) {
            let (child, parent) = (self.relied_on(&key.child)?, self.relied_on(&key.parent)?);
            // Of a table that leads to itself rows that come do not count.
            let parents = match child.id == parent.id {
                false => of(&parent, &|_| true),
                true => {
                    let changed = replaced.iter().filter(|(gone, _)| !gone.is_empty()).flat_map(written);
                    of(&parent, &|segment| !is_gone(segment)).into_iter().chain(changed).collect()
                }
            };
            let gone = has_gone.then(|| part(&child, of(&child, &|segment| is_gone(segment))));
            let new = part(&child, replaced.iter().flat_map(written).collect());
            let query = key.missing(&new, gone.as_deref(), &part(&parent, parents));
            if let Some(shown) = self.first_text(&query)? {
                let message = format!(
                    "violates foreign key constraint because key \"{shown}\" does not exist in the referenced table {}",
                    parent.name
                );
                return Err(Error::new(ErrorKind::Constraint, message));
            }
        }
        for key in ForeignKey::of(catalog, |_, parent| has_gone && parent.id == table.id) {
            let (child, parent) = (self.relied_on(&key.child)?, self.relied_on(&key.parent)?);
            let stays = of(&parent, &|segment| !is_gone(segment)).into_iter().chain(replaced.iter().flat_map(written));
            let stays: Vec<_> = stays.collect();
            let children = match child.id == parent.id {
                true => stays.clone(),
                false => of(&child, &|_| true),
            };
            let (children, gone) = (part(&child, children), part(&parent, of(&parent, &|segment| is_gone(segment))));
            let stays = (!stays.is_empty()).then(|| part(&parent, stays));
            if let Some(shown) = self.first_text(&key.orphaned(&children, &gone, stays.as_deref()))? {
                let message = format!(
                    "violates foreign key constraint because key \"{shown}\" is still referenced by a foreign key of table {}",
                    child.name
                );
                return Err(Error::new(ErrorKind::Constraint, message));
            }
        }
        Ok(())
    }

    /// ALTER TABLE … ADD PRIMARY KEY and ADD UNIQUE; `None` where a statement does something else.
    pub(crate) fn add_key(&self, alter: &AlterTable) -> Result<Option<Answer>> {
        let [AlterTableOperation::AddConstraint { constraint, .. }] = alter.operations.as_slice() else {
            return Ok(None);
        };
        let (columns, is_primary) = match constraint {
            TableConstraint::PrimaryKey(key) => (&key.columns, true),
            TableConstraint::Unique(key) => (&key.columns, false),
            _ => return Ok(None),
        };
        let table = match find_table(&self.planner, &find_name(&self.planner, &alter.name)?) {
            Err(error) if alter.if_exists && error.kind() == ErrorKind::NotFound => {
                return self.done("ALTER TABLE").map(Some);
            }
            found => found?,
        };
        let ids = index_columns(columns, &|name| find_column(&table, &Ident::with_quote('"', name)))?;
        let name = |id: &ColumnId| table.column_by_id(*id).map(|(_, column)| column.name.clone());
        let key = Key::of_names(ids.iter().filter_map(name).collect());
        let rows = whole_table(&table);
        let nulls: Vec<String> = key.parts.iter().map(|part| format!("{part} IS NULL")).collect();
        let count = format!("SELECT count(*) FROM {rows} WHERE {}", nulls.join(" OR "));
        if is_primary && self.number(&count)? > 0 {
            let message = format!("table {} has rows without {}", table.name, key.parts.join(", "));
            return Err(Error::new(ErrorKind::Constraint, message).hint("A primary key has no NULL"));
        }
        if let Some(shown) = self.first_text(&key.twice(&rows))? {
            return Err(Error::new(ErrorKind::Constraint, format!("table {} has key \"{shown}\" twice", table.name)));
        }
        self.planner.transaction().change(|changes| {
            changes.rely_on_rows(table.id);
            changes.add_key(table.id, if is_primary { Constraint::PrimaryKey(ids) } else { Constraint::Unique(ids) })
        })?;
        self.done("ALTER TABLE").map(Some)
    }

    /// The value of the one column of a query's first row, as a text.
    fn first_text(&self, query: &str) -> Result<Option<String>> {
        let state = self.state();
        let mut answer = self.stream(&state, self.plan_text(&state, query)?)?;
        let mut first = None;
        while let Some(batch) = answer.next_batch()? {
            let texts = cast(batch.column(0), &DataType::Utf8).map_err(|error| Error::internal(error.to_string()))?;
            first = first.or_else(|| texts.as_string::<i32>().iter().next().flatten().map(str::to_owned));
        }
        Ok(first)
    }
}
