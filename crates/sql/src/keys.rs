//! Rows that a statement writes have no key that another row has, and the rows that foreign keys lead to are there: looked at before
//! they are published.

use std::sync::Arc;

use datafusion::arrow::array::AsArray;
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::DataType;
use datafusion::sql::sqlparser::ast::{AlterColumnOperation, AlterTable, AlterTableOperation, Ident, TableConstraint};
use forebay_base::{ColumnId, Error, ErrorKind, Result, TableId, limits};
use forebay_changes::columns::{quoted, whole_table};
use forebay_changes::keys::Key;
use forebay_changes::references::ForeignKey;
use forebay_keyed::check_added_segments;
use forebay_names::named::find_column;
use forebay_store::{ChangedSegments, Constraint, RowChanges, Segment, Table, TableSnapshot, Transaction};

use crate::answer::Answer;
use crate::ddl::{holds_nulls, index_columns};
use crate::lookup::{find_name, find_table};
use crate::run::Run;

/// How a table is found whose rows are looked at.
type Found<'f> = &'f dyn Fn(&Arc<TableSnapshot>) -> Result<Arc<TableSnapshot>>;

impl Run<'_> {
    /// An error if the rows of `table` may not change like this: it would have one of `keys` twice, or a foreign key would lead
    /// nowhere. The transaction relies on the tables that this depends on.
    pub(crate) fn check_written(&self, keys: &[Key], table: &Table, changes: &RowChanges) -> Result<()> {
        let transaction = self.planner.transaction();
        let new = changes.come();
        if !keys.is_empty() && !new.is_empty() {
            let table = transaction.rely_on_rows(table)?;
            if let Some((key, shown)) = self.key_twice(keys, &table, &new, &changes.of(&table)?.stay)? {
                let error = Error::new(ErrorKind::Constraint, key.violated(&shown)).hint(format!(
                    "Write INSERT OR REPLACE, INSERT OR IGNORE or ON CONFLICT to change rows of {} that are there",
                    table.name
                ));
                return Err(match self.row_of_key(key, &table, &new, (changes, &shown))? {
                    Some(row) => error.context(format!("row {row} of those to be added; none was")),
                    None => error,
                });
            }
        }
        let rely_on = |table: &Arc<TableSnapshot>| transaction.rely_on_rows(table);
        let catalog = self.planner.snapshot();
        let foreign = ForeignKey::of(catalog, |child, parent| child.id == table.id || parent.id == table.id);
        if foreign.is_empty() {
            return Ok(());
        }
        let now = transaction.catalog();
        let table = now.table_by_id(table.id).cloned().unwrap_or_else(|| Arc::new(table.clone().into()));
        self.check_references(&foreign, table.id, &changes.of(&table)?, &rely_on)
    }

    /// Looks whether what a transaction has changed is right beside what others have committed since it began: no key is there twice, and
    /// foreign keys lead somewhere, as if all of it were one statement of now.
    ///
    /// # Errors
    /// `Conflict` where it is not.
    pub(crate) fn check_again(&self, transaction: &Transaction) -> Result<()> {
        check_added_segments(&self.session.shared.engine, transaction)?;
        let Some((unchecked, before)) = transaction.unchecked() else { return Ok(()) };
        let conflict = |error: Error| {
            let message = format!("{}, as another transaction has committed", error.message());
            Error::new(ErrorKind::Conflict, message).hint("Run the transaction again")
        };
        let own = |table: &Table| transaction.catalog().table_by_id(table.id);
        for id in transaction.changed_tables() {
            let (Some(now), Some(after)) = (transaction.base().table_by_id(id), transaction.catalog().table_by_id(id))
            else {
                continue;
            };
            let changed = ChangedSegments::between(now, after)?;
            if unchecked.contains(&id) {
                let nothing = now.with_rows(std::iter::empty());
                let known: &Table = match before.table_by_id(id) {
                    Some(known) => known,
                    None => &nothing,
                };
                let theirs = ChangedSegments::between(known, now)?.come;
                let stay = theirs.into_iter().filter_map(|own| after.segments.find(own.id()).cloned());
                if let Some((key, shown)) =
                    self.key_twice(&Key::of(after), after, &changed.come, &stay.collect::<Vec<_>>())?
                {
                    return Err(conflict(Error::new(ErrorKind::Constraint, key.violated(&shown))));
                }
            }
            let is_unchecked = |child: &Table, parent: &Table| {
                (child.id == id || parent.id == id) && (unchecked.contains(&child.id) || unchecked.contains(&parent.id))
            };
            let foreign = ForeignKey::of(transaction.catalog(), is_unchecked);
            let found = |table: &Arc<TableSnapshot>| Ok(own(table).map_or_else(|| Arc::clone(table), Arc::clone));
            self.check_references(&foreign, id, &changed, &found).map_err(|error| match error.kind() {
                ErrorKind::Constraint => conflict(error),
                _ => error,
            })?;
        }
        Ok(())
    }

    /// Which of several rows that are added has this key.
    fn row_of_key(
        &self,
        key: &Key,
        table: &Table,
        new: &[Arc<Segment>],
        (changes, shown): (&RowChanges, &str),
    ) -> Result<Option<String>> {
        let adds_only = changes.deleted.is_empty() && changes.replaced.iter().all(|(gone, _)| gone.is_empty());
        // More rows come from several threads, in no order that their source has.
        let rows = new.iter().map(|segment| segment.rows()).sum::<u64>();
        match adds_only && (2..=limits::SMALL_SEGMENT_ROWS).contains(&rows) {
            true => self.first_text(&key.row_with(&self.part(table, new.to_vec()), shown)),
            false => Ok(None),
        }
    }

    fn part(&self, table: &Table, segments: Vec<Arc<Segment>>) -> String {
        quoted(&self.planner.add_part(table.with_rows(segments)))
    }

    /// A key, as messages show it, that a row of `new` has and another one of these or of `others`.
    fn key_twice<'k>(
        &self,
        keys: &'k [Key],
        table: &Table,
        new: &[Arc<Segment>],
        others: &[Arc<Segment>],
    ) -> Result<Option<(&'k Key, String)>> {
        if new.is_empty() {
            return Ok(None);
        }
        let (new_part, new_rows) =
            (self.part(table, new.to_vec()), new.iter().map(|segment| segment.rows()).sum::<u64>());
        let threads = self.state().config().target_partitions();
        for key in keys {
            let is_ordered = || key.orders(self.planner.engine(), table, new, (threads, &self.statement.cancel));
            let near: Vec<_> = others.iter().filter(|other| key.may_share(table, new, other)).cloned().collect();
            let shared = match near.is_empty() {
                true => None,
                false => self.first_text(&key.shared(&new_part, &self.part(table, near)))?,
            };
            let found = match shared {
                None if new_rows > 1 && !is_ordered()? => self.first_text(&key.twice(&new_part))?,
                shared => shared,
            };
            if let Some(shown) = found {
                return Ok(Some((key, shown)));
            }
        }
        Ok(None)
    }

    /// An error if a row that comes to the table with this number had one of these foreign keys that leads nowhere, or one of another
    /// table led to a row that goes.
    fn check_references(
        &self,
        foreign: &[ForeignKey],
        id: TableId,
        changed: &ChangedSegments,
        found: Found<'_>,
    ) -> Result<()> {
        let all = |table: &Table| table.segments.iter().map(Arc::clone).collect::<Vec<_>>();
        let ChangedSegments { stay, gone, come, come_instead } = changed;
        for key in foreign.iter().filter(|key| key.child.id == id && !come.is_empty()) {
            let (child, parent) = (found(&key.child)?, found(&key.parent)?);
            // Of a table that leads to itself rows that come do not count.
            let parents = match child.id == parent.id {
                false => all(&parent),
                true => [&stay[..], come_instead].concat(),
            };
            let gone = (!gone.is_empty()).then(|| self.part(&child, gone.clone()));
            let new = self.part(&child, come.clone());
            let query = key.missing(&new, gone.as_deref(), &self.part(&parent, parents));
            if let Some(shown) = self.first_text(&query)? {
                let message = format!(
                    "violates foreign key constraint because key \"{shown}\" does not exist in the referenced table {}",
                    parent.name
                );
                return Err(Error::new(ErrorKind::Constraint, message));
            }
        }
        for key in foreign.iter().filter(|key| key.parent.id == id && !gone.is_empty()) {
            let (child, parent) = (found(&key.child)?, found(&key.parent)?);
            let left = [&stay[..], come].concat();
            let children = if child.id == parent.id { left.clone() } else { all(&child) };
            let (children, gone) = (self.part(&child, children), self.part(&parent, gone.clone()));
            let left = (!left.is_empty()).then(|| self.part(&parent, left));
            if let Some(shown) = self.first_text(&key.orphaned(&children, &gone, left.as_deref()))? {
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

    /// An error where a column is to be NOT NULL that has NULLs in rows which are not deleted, in a table that has deleted ones.
    pub(crate) fn check_not_null(&self, alter: &AlterTable) -> Result<()> {
        for operation in &alter.operations {
            let AlterTableOperation::AlterColumn { column_name, op: AlterColumnOperation::SetNotNull } = operation
            else {
                continue;
            };
            let Ok(table) = find_table(&self.planner, &find_name(&self.planner, &alter.name)?) else { continue };
            let Ok(column) = find_column(&table, column_name) else { continue };
            let Some((_, column)) = table.column_by_id(column).filter(|_| table.has_deleted_rows()) else { continue };
            self.planner.transaction().rely_on_rows(&table)?;
            let nulls = format!("SELECT count(*) FROM {} WHERE {} IS NULL", whole_table(&table), quoted(&column.name));
            if self.number(&nulls)? > 0 {
                return Err(holds_nulls(&table.name, &column.name));
            }
        }
        Ok(())
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
