//! Projections: making and dropping them, and what they become when rows of their table are added or changed.
//!
//! Invariant: what is written here has the rows of the table, whatever can be ordered by. Must not know: who changes rows.

use std::sync::Arc;

use forebay_base::{ColumnId, Error, ErrorKind, ProjectionId, Result, limits};
use forebay_engine::analyze::{Suggestion, Unordered, suggest};
use forebay_engine::cluster::TableOrder;
use forebay_engine::compact::{self, Merging};
use forebay_engine::follow::ChangedRows;
use forebay_store::{ProjectionDefinition, Replaced, ReplacedCopies, SealedSegment, Table, TableSnapshot};

use crate::facts::MadeAnew;
use crate::maintenance::Maintenance;
use crate::order::{order_key, shown, unknown_column};
use crate::statements::{AlterProjection, ProjectionChange};

/// A projection that a table is worth.
#[derive(Debug)]
pub struct ShownSuggestion {
    /// The order, and what is predicted.
    pub suggestion: Suggestion,
    /// The order as SQL writes it.
    pub order: String,
    /// Bytes that the queries so far read of the table as it lies.
    pub read_bytes_now: u64,
    /// The statement that makes the projection.
    pub statement: String,
}

impl Maintenance<'_> {
    /// Makes or drops a projection of a table.
    ///
    /// # Errors
    /// Those of reading and writing; `NotFound` where a column or the projection is not there, `AlreadyExists` where it is; `Input`
    /// and `Unsupported` where its order is not possible.
    pub fn alter_projection(&self, table: &Arc<TableSnapshot>, statement: &AlterProjection) -> Result<()> {
        let AlterProjection { name, change, .. } = statement;
        match change {
            ProjectionChange::Add { if_not_exists: true, .. } if table.projection_named(name).is_some() => Ok(()),
            ProjectionChange::Add { order, columns, .. } => {
                let keys = order.iter().map(|column| order_key(self.catalog, table, column)).collect::<Result<_>>()?;
                let columns = columns.as_ref().map(|columns| self.columns_of(table, columns)).transpose()?;
                let id = ProjectionId::TABLE;
                self.add_projection(table, ProjectionDefinition { id, name: name.clone(), order: keys, columns })
            }
            ProjectionChange::Drop { if_exists: true } if table.projection_named(name).is_none() => Ok(()),
            ProjectionChange::Drop { .. } => {
                let mut transaction = self.engine.store().begin()?;
                transaction.drop_projection(table.id, name)?;
                Self::drop_idle_facts(&mut transaction, table.id)?;
                transaction.commit()
            }
        }
    }

    /// Projections that the table is worth for the queries so far, each with what it would take and how it is made.
    ///
    /// # Errors
    /// Those of reading.
    pub fn suggest(&self, table: &Arc<TableSnapshot>) -> Result<Vec<ShownSuggestion>> {
        let (read_bytes_now, suggested) = suggest(self.engine, self.catalog, table, (self.threads, self.cancel))?;
        let shown = |(number, suggestion): (usize, Suggestion)| {
            let order =
                suggestion.order.iter().map(|key| shown(self.catalog, table, key)).collect::<Result<Vec<_>>>()?;
            let order = order.join(", ");
            let name = format!("suggested_{}", number + 1);
            let statement =
                format!("ALTER TABLE \"{}\" ADD PROJECTION {name} (ORDER BY {order})", table.name.replace('"', "\"\""));
            Ok(ShownSuggestion { suggestion, order, read_bytes_now, statement })
        };
        suggested.into_iter().enumerate().map(shown).collect()
    }

    fn columns_of(&self, table: &TableSnapshot, names: &[String]) -> Result<Vec<ColumnId>> {
        let known = || table.columns.iter().map(|column| column.name.as_str());
        let id = |name: &String| match table.column(name) {
            Some((_, column)) => Ok(column.id),
            None => Err(unknown_column(name, known()).context(format!("table {}", table.name))),
        };
        names.iter().map(id).collect()
    }

    fn add_projection(&self, table: &Arc<TableSnapshot>, definition: ProjectionDefinition) -> Result<()> {
        // Before all rows are sorted.
        let definition = self.engine.store().begin()?.checked_projection(table.id, definition)?;
        Self::check_keys(&definition.order)?;
        let segments = self.sorted(table, &definition, Unordered::Refused)?;
        let mut transaction = self.engine.store().begin()?;
        let id = transaction.add_projection(table.id, definition, &table.segments.versions(), segments)?;
        transaction.commit()?;
        self.make_facts_of(table.id, MadeAnew::OfCopy(id))
    }

    /// The rows of a load in the order of their table, where it has one: in new segments, of which the rows of a block are ruled out together
    /// in whatever order. An order whose columns are not there any more is none.
    ///
    /// # Errors
    /// Those of reading and writing.
    pub fn in_order(&self, table: &Table, new: Vec<SealedSegment>) -> Result<Vec<SealedSegment>> {
        let part: TableSnapshot = table.with_rows(new.iter().map(|sealed| Arc::clone(sealed.segment()))).into();
        match self.known_order(&part) {
            Some(order) if part.rows() > limits::BLOCK_ROWS as u64 => {
                match self.in_order_of_table(&Arc::new(part), &order) {
                    // There was room for the rows as they came.
                    Err(error) if error.kind() == ErrorKind::OutOfSpace => Ok(new),
                    sorted => sorted,
                }
            }
            _ => Ok(new),
        }
    }

    /// What each projection of a table becomes when these segments are added to it.
    ///
    /// # Errors
    /// Those of reading and writing.
    pub fn copies_of_new(&self, table: &Table, new: &[SealedSegment]) -> Result<ReplacedCopies> {
        if table.projections.is_empty() {
            return Ok(ReplacedCopies::new());
        }
        let part = Arc::new(table.with_rows(new.iter().map(|sealed| Arc::clone(sealed.segment()))).into());
        self.copies(table, |definition| Ok((Vec::new(), self.sorted_load(&part, definition)?)))
    }

    /// What each projection of a table becomes when segments of the table are replaced: it is written anew where its rows that go or come lie,
    /// or all of it where these are many.
    ///
    /// # Errors
    /// Those of reading and writing.
    pub fn copies_of_changed(&self, table: &TableSnapshot, replaced: &[Replaced]) -> Result<ReplacedCopies> {
        if table.projections.is_empty() {
            return Ok(ReplacedCopies::new());
        }
        let (sorter, mut now) = (self.sorter(), Vec::new());
        for segment in &table.segments {
            match replaced.iter().find(|(old, _)| old.contains(&segment.as_version())) {
                Some((_, new)) => now.extend(new.iter().map(|sealed| Arc::clone(sealed.segment()))),
                None => now.push(Arc::clone(segment)),
            }
        }
        // Rows that take the place of none.
        let added = replaced.iter().filter(|(old, _)| old.is_empty()).flat_map(|(_, new)| new);
        now.extend(added.map(|sealed| Arc::clone(sealed.segment())));
        let (whole, changed) = (Arc::new(table.with_rows(now).into()), ChangedRows::of(&sorter, table, replaced)?);
        self.copies(table, |definition| {
            let copy = table.copies().iter().find(|copy| copy.copy_id() == definition.id);
            let copy = copy.ok_or_else(|| Error::internal("a projection without a copy"))?;
            if let Some(changed) = &changed {
                let replaced = changed.replaced_in(&sorter, copy, &positions(table, definition), &order_of(definition));
                if let Some(replaced) = replaced.map_err(|error| in_projection(error, definition, table))? {
                    return Ok(replaced);
                }
            }
            Ok((copy.segments.versions(), self.sorted(&whole, definition, Unordered::LeftOut)?))
        })
    }

    fn copies(
        &self,
        table: &Table,
        replaced: impl Fn(&ProjectionDefinition) -> Result<Replaced>,
    ) -> Result<ReplacedCopies> {
        let definitions = table.projections.iter().map(|projection| &projection.definition);
        definitions.map(|definition| Ok((definition.id, replaced(definition)?))).collect()
    }

    /// The small segments of each projection of a table that follow one another, and what takes their place.
    pub(crate) fn merged_copies(
        &self,
        table: &TableSnapshot,
        merging: Merging,
    ) -> Result<Vec<(ProjectionId, Replaced)>> {
        let mut merged = Vec::new();
        for copy in table.copies() {
            let Some(definition) = copy.projection() else { continue };
            for run in compact::small_runs(copy, merging) {
                let old = run.iter().map(|segment| segment.as_version()).collect();
                let part = Arc::new(copy.with_rows(run.iter().cloned()).into());
                merged.push((definition.id, (old, self.sorted(&part, definition, Unordered::LeftOut)?)));
            }
        }
        Ok(merged)
    }

    /// Every projection of a table in its order, with the segments that it had.
    pub(crate) fn resorted_copies(&self, table: &TableSnapshot) -> Result<Vec<(ProjectionId, Replaced)>> {
        let resorted = |copy: &Arc<TableSnapshot>| {
            let definition = copy.projection().ok_or_else(|| Error::internal("a copy that is no projection"))?;
            Ok((definition.id, (copy.segments.versions(), self.sorted(copy, definition, Unordered::LeftOut)?)))
        };
        table.copies().iter().map(resorted).collect()
    }

    /// The rows of a load for a projection. Those of a block are ruled out together, in whatever order.
    fn sorted_load(&self, rows: &Arc<TableSnapshot>, definition: &ProjectionDefinition) -> Result<Vec<SealedSegment>> {
        if rows.rows() > limits::BLOCK_ROWS as u64 {
            return self.sorted(rows, definition, Unordered::LeftOut);
        }
        if rows.rows() == 0 {
            return Ok(Vec::new());
        }
        compact::copy_rows(self.engine, rows, &positions(rows, definition), self.options, self.cancel)
    }

    /// These rows as a projection has them.
    fn sorted(
        &self,
        rows: &Arc<TableSnapshot>,
        definition: &ProjectionDefinition,
        unordered: Unordered,
    ) -> Result<Vec<SealedSegment>> {
        let sorted = self.sorter().sort(rows, &order_of(definition), &positions(rows, definition), unordered);
        sorted.map_err(|error| in_projection(error, definition, rows))
    }
}

fn order_of(definition: &ProjectionDefinition) -> TableOrder {
    TableOrder { keys: definition.order.clone(), curve: Default::default() }
}

fn in_projection(error: Error, definition: &ProjectionDefinition, table: &Table) -> Error {
    error.context(format!("projection {} of table {}", definition.name, table.name))
}

/// The positions of a projection's columns in its table's list.
fn positions(table: &Table, definition: &ProjectionDefinition) -> Vec<usize> {
    let columns = table.columns.iter().enumerate();
    columns.filter(|(_, column)| definition.has(column.id)).map(|(position, _)| position).collect()
}
