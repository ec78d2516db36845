//! A transaction: changes to a private copy of the catalog, and the commit that makes them everyone's.
//!
//! Some have the writer's turn from their beginning, others take it to commit. What others of these have committed in between is merged with
//! what they changed, or is a conflict: the first to commit wins (snapshot isolation; Berenson et al. 1995).
//!
//! Invariants: nothing is visible to others before the commit, and then all of it is. A commit is durable before it is
//! visible; files of segments and facts are durable before the manifest names them, and go only after it stops naming them.

mod added;
mod commit;
mod freezing;
mod hot;
mod merge;
mod objects;
mod projections;
mod serializable;
mod table;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use forebay_base::{ColumnId, Durability, Error, ErrorKind, Result, TableId, limits};

use forebay_hot::Blocker;

use crate::catalog::{
    Catalog, Column, ColumnDefinition, Constraint, Named, Objects, Table, TableDefinition, check_name, full_name,
    names_equal,
};
use crate::data_directories::DataDirectories;
use crate::hot::HotRows;
use crate::options::TableOptions;
use crate::segment_list::SegmentList;
use crate::store::{Inner, WriterTurn};
use crate::table_snapshot::TableSnapshot;

pub use added::AddedSegments;
pub(crate) use commit::Files;
pub use hot::Moment;
pub use projections::{ChangedSegments, Replaced, ReplacedCopies, RowChanges};

/// An open transaction. Dropped without [`Transaction::commit`], it leaves no trace.
#[derive(Debug)]
pub struct Transaction {
    // Before `turn`: what is dropped here may remove files of the transaction.
    working: Arc<Catalog>,
    base: Arc<Catalog>,
    /// What it has written of hot rows. Dropped, that is taken back.
    hot: Option<forebay_hot::Transaction>,
    /// Hot rows of tables of its catalog that it has asked for.
    known_hot: Vec<Arc<HotRows>>,
    inner: Arc<Inner>,
    /// Tables of whose rows it depends whether its changes are right.
    relied_on: BTreeSet<TableId>,
    /// Tables in whose segments no row has a key that it gives to a hot row.
    relied_on_segments: BTreeSet<TableId>,
    /// Those whose rows others have changed in the meantime, until somebody has looked.
    unchecked: Option<Unchecked>,
    /// Whose change was in the way of one that it has taken back.
    blocker: Option<Blocker>,
    /// Where it has had the writer's turn from its beginning.
    turn: Option<WriterTurn>,
    /// How often commits had failed when it took a base that was not durable yet.
    failures: Option<u64>,
    /// When its commit is acknowledged.
    durability: Durability,
}

/// Tables whose rows a transaction relies on and others have changed.
#[derive(Debug)]
struct Unchecked {
    rows: BTreeSet<TableId>,
    /// Tables to which segments have come, in which there may be keys that the transaction gives to hot rows.
    segments: BTreeSet<TableId>,
    /// The catalog before that.
    before: Arc<Catalog>,
    /// Whether whoever commits was told.
    is_told: bool,
}

fn not_found(what: &str, name: &str) -> Error {
    Error::new(ErrorKind::NotFound, format!("{what} {name} does not exist"))
}

fn constraint(message: String) -> Error {
    Error::new(ErrorKind::Constraint, message)
}

impl Transaction {
    /// A transaction on the newest catalog, which may not be durable yet.
    pub(crate) fn alone(turn: WriterTurn) -> Self {
        let inner = Arc::clone(&turn.inner);
        let (base, failures) = inner.line.newest();
        let failures = (base.commit > inner.catalog().commit).then_some(failures);
        Self { turn: Some(turn), failures, ..Self::beside_others(inner, base) }
    }

    pub(crate) fn beside_others(inner: Arc<Inner>, base: Arc<Catalog>) -> Self {
        Self {
            working: Arc::clone(&base),
            base,
            hot: None,
            known_hot: Vec::new(),
            inner,
            relied_on: BTreeSet::new(),
            relied_on_segments: BTreeSet::new(),
            unchecked: None,
            blocker: None,
            turn: None,
            failures: None,
            durability: Durability::default(),
        }
    }

    /// The catalog with this transaction's changes.
    pub fn catalog(&self) -> &Arc<Catalog> {
        &self.working
    }

    /// Has its commit acknowledged as early as this says.
    pub fn set_durability(&mut self, durability: Durability) {
        self.durability = durability;
    }

    /// The catalog that its changes are made to.
    pub fn base(&self) -> &Arc<Catalog> {
        &self.base
    }

    /// Whether it has changed nothing.
    pub fn is_unchanged(&self) -> bool {
        Arc::ptr_eq(&self.working, &self.base)
    }

    /// An error if the commit of another transaction is in the way of this one's.
    ///
    /// # Errors
    /// `Conflict`.
    pub fn check_conflicts(&self) -> Result<()> {
        let (now, _) = self.inner.line.newest();
        match now.commit == self.base.commit || Arc::ptr_eq(&self.working, &self.base) {
            true => Ok(()),
            false => self.merged((&self.base, &self.working), &now).map(drop),
        }
    }

    /// Says that it depends on the rows of this table whether its changes are right, as it does with keys: where another transaction
    /// changes them before this one commits, somebody has to look again ([`Transaction::try_commit`]).
    pub fn rely_on_rows(&mut self, id: TableId) {
        self.relied_on.insert(id);
    }

    /// Tables that it relies on and whose rows others have changed meanwhile, and the catalog before these changes.
    pub fn unchecked(&self) -> Option<(&BTreeSet<TableId>, &Arc<Catalog>)> {
        let unchecked = self.unchecked.as_ref().filter(|unchecked| !unchecked.rows.is_empty());
        unchecked.map(|unchecked| (&unchecked.rows, &unchecked.before))
    }

    /// The catalog `now`, of a later commit than the one that it began with, with what it has changed of that: from the first of two to the
    /// second.
    fn merged(&self, (before, after): (&Catalog, &Catalog), now: &Catalog) -> Result<Catalog> {
        let mut merged = merge::merged(before, after, now)?;
        merged.reads.clone_from(&after.reads);
        if let Some(writes) = &self.hot {
            merged.hot = merged.hot.with_own(writes.id(), &after.hot);
        }
        Ok(merged)
    }

    /// Makes a table.
    pub fn create_table(&mut self, definition: TableDefinition) -> Result<TableId> {
        let TableDefinition { schema, name, columns, constraints } = definition;
        let schema = self.working.objects.schema(&schema)?.name.clone();
        if columns.is_empty() || columns.len() > limits::TABLE_COLUMNS {
            return Err(Error::input(format!("a table has 1 to {} columns", limits::TABLE_COLUMNS)));
        }
        let id = TableId(self.next_object());
        let mut table = Table {
            id,
            schema,
            name,
            columns: Vec::with_capacity(columns.len()),
            constraints: Vec::new(),
            options: TableOptions::default(),
            segments: SegmentList::default(),
            projections: Vec::new(),
            version: 0,
            next_column: 0,
        };
        for column in columns {
            table.add_column(column)?;
        }
        for constraint in constraints {
            self.check_constraint(&table, &constraint)?;
            if let Constraint::PrimaryKey(key) = &constraint {
                table.columns.iter_mut().filter(|column| key.contains(&column.id)).for_each(|c| c.nullable = false);
            }
            table.constraints.push(constraint);
        }
        let catalog = self.change();
        catalog.bind(&table.schema, &table.name, Named::Table(id))?;
        catalog.tables.insert(id, Arc::new(table.into()));
        Ok(id)
    }

    /// Drops a table, and with it the facts that were made from it. Its segments stay readable for snapshots that have them.
    pub fn drop_table(&mut self, id: TableId) -> Result<()> {
        let table = Arc::clone(self.table(id)?);
        self.check_unreferenced(&table, |referrer| referrer.id == id)?;
        self.change().remove(&table);
        Ok(())
    }

    /// Renames a table within its schema.
    pub fn rename_table(&mut self, id: TableId, new_name: &str) -> Result<()> {
        let table = Arc::clone(self.table(id)?);
        let catalog = self.change();
        let old = catalog.unbind(&table.schema, &table.name);
        if let Err(error) = catalog.bind(&table.schema, new_name, Named::Table(id)) {
            if let Some(old) = old {
                catalog.bind(&table.schema, &table.name, old)?;
            }
            return Err(error);
        }
        self.table_mut(id)?.name = new_name.to_owned();
        let new_full_name = full_name(&table.schema, new_name);
        self.edit_references(&table.full_name(), |table, _| *table = new_full_name.clone());
        Ok(())
    }

    /// Adds a column behind the others. Rows that exist get `definition.missing`.
    pub fn add_column(&mut self, id: TableId, definition: ColumnDefinition) -> Result<ColumnId> {
        self.freeze_hot(id)?;
        let table = self.table_mut(id)?;
        if !definition.nullable && definition.missing.is_none() && table.rows() > 0 {
            let message =
                format!("column {} is NOT NULL, but the rows of {} would be NULL", definition.name, table.name);
            return Err(constraint(message).hint("Give it a DEFAULT"));
        }
        table.add_column(definition)
    }

    /// Drops a column; not the last one, nor one that a constraint or the order of a projection needs.
    pub fn drop_column(&mut self, id: TableId, column: ColumnId) -> Result<()> {
        self.freeze_hot(id)?;
        let table = Arc::clone(self.table(id)?);
        let (position, dropped) = table.column_or_error(column)?;
        if table.columns.len() == 1 {
            return Err(constraint(format!("column {} is the last of table {}", dropped.name, table.name)));
        }
        if table.constraints.iter().any(|constraint| constraint.columns().contains(&column)) {
            return Err(constraint(format!("column {} is part of a constraint of table {}", dropped.name, table.name)));
        }
        self.check_column_unreferenced(&table, &dropped.name)?;
        self.check_orders_no_projection(&table, (column, &dropped.name))?;
        self.forget_in_projections(id, column)?;
        let table = self.table_mut(id)?;
        table.columns.remove(position);
        table.options.forget(column);
        self.change().forget_facts_of_column(id, column);
        Ok(())
    }

    /// Renames a column.
    pub fn rename_column(&mut self, id: TableId, column: ColumnId, new_name: &str) -> Result<()> {
        check_name(new_name)?;
        let table = Arc::clone(self.table(id)?);
        let (position, renamed) = table.column_or_error(column)?;
        if table.column(new_name).is_some_and(|(_, other)| other.id != column) {
            return Err(table.duplicate(new_name));
        }
        let names_it = |c: &&Constraint| matches!(c, Constraint::Check { columns, .. } if columns.contains(&column));
        if let Some(Constraint::Check { condition, .. }) = table.constraints.iter().find(names_it) {
            let message = format!("CHECK ({condition}) of table {} names column {}", table.name, renamed.name);
            return Err(constraint(message));
        }
        self.table_mut(id)?.columns[position].name = new_name.to_owned();
        self.edit_references(&table.full_name(), |_, references| {
            for reference in references.iter_mut().filter(|reference| names_equal(reference, &renamed.name)) {
                *reference = new_name.to_owned();
            }
        });
        Ok(())
    }

    /// Sets or drops the DEFAULT of new rows.
    pub fn set_default(&mut self, id: TableId, column: ColumnId, default: Option<String>) -> Result<()> {
        self.column_mut(id, column)?.default = default;
        Ok(())
    }

    /// Drops or sets NOT NULL. That no row is NULL when it is set is for the caller to know.
    pub fn set_nullable(&mut self, id: TableId, column: ColumnId, nullable: bool) -> Result<()> {
        let table = self.table(id)?;
        let in_key = |c: &Constraint| matches!(c, Constraint::PrimaryKey(key) if key.contains(&column));
        if nullable && table.constraints.iter().any(in_key) {
            return Err(constraint(format!("a column of the primary key of table {} stays NOT NULL", table.name)));
        }
        self.column_mut(id, column)?.nullable = nullable;
        Ok(())
    }

    /// Adds a key. That the rows of the table have it is for the caller to know.
    pub fn add_key(&mut self, id: TableId, key: Constraint) -> Result<()> {
        self.freeze_hot(id)?;
        let table = Arc::clone(self.table(id)?);
        let has_primary = table.constraints.iter().any(|known| matches!(known, Constraint::PrimaryKey(_)));
        if let Constraint::PrimaryKey(columns) = &key {
            if has_primary {
                return Err(constraint(format!("table {} has a primary key already", table.name)));
            }
            columns.iter().try_for_each(|column| self.set_nullable(id, *column, false))?;
        }
        self.table_mut(id)?.constraints.push(key);
        Ok(())
    }

    /// Says where the data directories are. Directories that are new take segments when the database is opened next.
    pub(crate) fn set_data_directories(&mut self, directories: DataDirectories) {
        self.change().directories = Arc::new(directories);
    }

    /// The tables that it has changed or made.
    pub fn changed_tables(&self) -> Vec<TableId> {
        if self.working.has_objects_of(&self.base) {
            return self.hot.iter().flat_map(forebay_hot::Transaction::written_tables).map(TableId).collect();
        }
        let hot = self.hot_tables();
        let is_changed = |table: &&Arc<TableSnapshot>| {
            let before = self.base.objects.tables.get(&table.id);
            before.is_none_or(|before| !Arc::ptr_eq(before, table)) || hot.contains(&table.id)
        };
        self.working.objects.tables.values().filter(is_changed).map(|table| table.id).collect()
    }

    /// What its catalog has but for hot rows, to be changed.
    pub(crate) fn change(&mut self) -> &mut Objects {
        let catalog = Arc::make_mut(&mut self.working);
        catalog.hot.renew();
        self.known_hot.clear();
        catalog.objects_mut()
    }

    fn next_object(&self) -> u64 {
        self.inner.next_object.fetch_add(1, Ordering::Relaxed)
    }

    /// The table without hot rows.
    fn stored_table(&self, id: TableId) -> Result<&Arc<TableSnapshot>> {
        self.working.objects.tables.get(&id).ok_or_else(|| not_found("table", &format!("number {id}")))
    }

    fn table(&self, id: TableId) -> Result<&Arc<TableSnapshot>> {
        self.working.table_by_id(id).ok_or_else(|| not_found("table", &format!("number {id}")))
    }

    pub(crate) fn table_mut(&mut self, id: TableId) -> Result<&mut Table> {
        Ok(self.snapshot_mut(id)?.edit())
    }

    fn snapshot_mut(&mut self, id: TableId) -> Result<&mut TableSnapshot> {
        if !self.working.objects.tables.contains_key(&id) {
            return Err(not_found("table", &format!("number {id}")));
        }
        Ok(Arc::make_mut(self.change().tables.get_mut(&id).expect("it was there a line ago")))
    }

    fn column_mut(&mut self, id: TableId, column: ColumnId) -> Result<&mut Column> {
        let table = self.table_mut(id)?;
        let (position, _) = table.column_or_error(column)?;
        Ok(&mut table.columns[position])
    }

    /// An error if a table for which `dropped_too` is false has a foreign key to `table`.
    fn check_unreferenced(&self, table: &Table, dropped_too: impl Fn(&Table) -> bool) -> Result<()> {
        let name = table.full_name();
        let refers =
            |other: &&Arc<TableSnapshot>| other.constraints.iter().any(|constraint| constraint.refers_to(&name));
        match self.working.schema_tables().filter(|other| !dropped_too(other)).find(refers) {
            None => Ok(()),
            Some(other) => {
                let message = format!("table {name} is referenced by a foreign key of table {}", other.full_name());
                Err(constraint(message).hint("Drop that table first"))
            }
        }
    }

    fn check_column_unreferenced(&self, table: &Table, column: &str) -> Result<()> {
        let name = table.full_name();
        let refers = |constraint: &Constraint| {
            constraint.refers_to(&name)
                && matches!(constraint, Constraint::ForeignKey { references, .. }
                    if references.iter().any(|reference| names_equal(reference, column)))
        };
        match self.working.schema_tables().find(|other| other.constraints.iter().any(refers)) {
            None => Ok(()),
            Some(other) => Err(constraint(format!(
                "column {column} of table {name} is referenced by a foreign key of table {}",
                other.full_name()
            ))),
        }
    }

    fn check_constraint(&self, table: &Table, declared: &Constraint) -> Result<()> {
        for column in declared.columns() {
            table.column_or_error(*column)?;
        }
        let Constraint::ForeignKey { columns, table: target, references, .. } = declared else {
            let second_key =
                |c: &Constraint| matches!((c, declared), (Constraint::PrimaryKey(_), Constraint::PrimaryKey(_)));
            if table.constraints.iter().any(second_key) {
                return Err(Error::input(format!("table {} has two primary keys", table.name)));
            }
            return Ok(());
        };
        if columns.len() != references.len() {
            return Err(Error::input("a foreign key has as many columns as it references"));
        }
        let found = self.working.schema_tables().find(|other| names_equal(&other.full_name(), target));
        let target = match found {
            Some(found) => &**found,
            None if names_equal(&table.full_name(), target) => table,
            None => return Err(not_found("table", target)),
        };
        match references.iter().find(|name| target.column(name).is_none()) {
            None => Ok(()),
            Some(name) => Err(not_found("column", &format!("{name} of table {}", target.full_name()))),
        }
    }

    /// Applies `edit` to the target and the referenced names of every foreign key to the table `full_name`.
    fn edit_references(&mut self, full_name: &str, edit: impl Fn(&mut String, &mut Vec<String>)) {
        let refers = |table: &Table| table.constraints.iter().any(|constraint| constraint.refers_to(full_name));
        for table in self.change().tables.values_mut().filter(|table| refers(table)) {
            for constraint in &mut Arc::make_mut(table).edit().constraints {
                let hit = constraint.refers_to(full_name);
                if let (true, Constraint::ForeignKey { table, references, .. }) = (hit, constraint) {
                    edit(table, references);
                }
            }
        }
    }
}
