//! Changes of a table's rows in all copies of them, and of which copies there are.
//!
//! Invariant: all copies of a table have as many rows as the table, and who changes its rows says for every copy how: a copy
//! that appeared meanwhile is an error, not a copy with other rows.

use std::collections::BTreeMap;
use std::sync::Arc;

use forebay_base::{ColumnId, Error, ErrorKind, ProjectionId, Result, SegmentId, TableId, limits};

use super::{Transaction, constraint, not_found};
use crate::catalog::{Table, names_equal};
use crate::projection::{OrderKey, Projection, ProjectionDefinition};
use crate::segment_list::SegmentList;
use crate::writer::SealedSegment;

/// Segments that go, and those that take their place: at the first of them, or behind all others where none goes.
pub type Replaced = (Vec<SegmentId>, Vec<SealedSegment>);

/// What changes in each projection of a table.
pub type ReplacedCopies = BTreeMap<ProjectionId, Replaced>;

impl Transaction {
    /// Appends segments to a table without projections; see [`Transaction::change_rows`].
    ///
    /// # Errors
    /// `Constraint` if they hold NULLs in a column that became NOT NULL while they were written.
    pub fn publish(&mut self, id: TableId, segments: Vec<SealedSegment>) -> Result<()> {
        self.change_rows(id, vec![(Vec::new(), segments)], ReplacedCopies::new())
    }

    /// Puts `new` segments where the `old` ones of a table without projections are (at the first of them); see
    /// [`Transaction::change_rows`].
    ///
    /// # Errors
    /// `Conflict` if an old one is no longer there: another transaction changed the table meanwhile.
    pub fn replace(&mut self, id: TableId, old: &[SegmentId], new: Vec<SealedSegment>) -> Result<()> {
        self.change_rows(id, vec![(old.to_vec(), new)], ReplacedCopies::new())
    }

    /// Changes the rows of a table, here and there, and those of all of its projections alike.
    ///
    /// # Errors
    /// `Conflict` if a segment that goes, or a projection, is no longer there, or if there is a projection that nothing is
    /// said of: another transaction changed the table meanwhile. `Constraint` if new segments hold NULLs in a column that
    /// became NOT NULL while they were written.
    pub fn change_rows(&mut self, id: TableId, table: Vec<Replaced>, copies: ReplacedCopies) -> Result<()> {
        let changes_nothing = |(old, new): &Replaced| old.is_empty() && new.is_empty();
        if table.iter().chain(copies.values()).all(changes_nothing) {
            return Ok(());
        }
        let known = Arc::clone(self.table(id)?);
        let ids = known.projections.iter().map(|projection| projection.definition.id);
        if !ids.eq(copies.keys().copied()) {
            return Err(changed_meanwhile(&known, "it has other projections now"));
        }
        let snapshot = self.snapshot_mut(id)?;
        for (old, new) in table {
            check_there(&known, &known.segments, &old)?;
            known.check_segments(&new, None)?;
            let new = new.into_iter().map(|sealed| sealed.segment);
            match old.is_empty() {
                true => snapshot.append(new),
                false => snapshot.edit().segments.replace(&old, new.collect()),
            }
        }
        for (projection, (old, new)) in snapshot.projections_mut().iter_mut().zip(copies.into_values()) {
            check_there(&known, &projection.segments, &old)?;
            known.check_segments(&new, Some(&projection.definition))?;
            projection.segments.replace(&old, new.into_iter().map(|sealed| sealed.segment).collect());
        }
        check_rows(self.table(id)?)
    }

    /// Puts the same rows otherwise: in the table, or in one of its projections.
    ///
    /// # Errors
    /// As [`Transaction::replace`]; `Internal` if they are not as many.
    pub fn lay_out(
        &mut self,
        id: TableId,
        copy: ProjectionId,
        old: &[SegmentId],
        new: Vec<SealedSegment>,
    ) -> Result<()> {
        let known = Arc::clone(self.table(id)?);
        let new_segments = || new.iter().map(|sealed| Arc::clone(&sealed.segment)).collect::<Vec<_>>();
        if copy == ProjectionId::TABLE {
            check_there(&known, &known.segments, old)?;
            known.check_segments(&new, None)?;
            self.table_mut(id)?.segments.replace(old, new_segments());
        } else {
            let projections = self.snapshot_mut(id)?.projections_mut();
            let found = projections.iter_mut().find(|projection| projection.definition.id == copy);
            let projection = found.ok_or_else(|| changed_meanwhile(&known, "a projection is gone"))?;
            check_there(&known, &projection.segments, old)?;
            known.check_segments(&new, Some(&projection.definition))?;
            projection.segments.replace(old, new_segments());
        }
        let rows = |table: &Table| {
            let found = table.projection_by_id(copy).map(|projection| projection.segments.rows());
            found.unwrap_or_else(|| table.rows())
        };
        match rows(self.table(id)?) == rows(&known) {
            true => Ok(()),
            false => Err(Error::internal(format!("table {} would have other rows", known.full_name()))),
        }
    }

    /// Adds a projection: `segments` hold the rows of the segments `of`, which are all that the table has. Gives its id; that
    /// in `definition` does not matter.
    ///
    /// # Errors
    /// `AlreadyExists` if there is one of this name. `Conflict` if the table has other segments than `of`: another
    /// transaction changed it meanwhile.
    pub fn add_projection(
        &mut self,
        id: TableId,
        definition: ProjectionDefinition,
        of: &[SegmentId],
        segments: Vec<SealedSegment>,
    ) -> Result<ProjectionId> {
        let known = Arc::clone(self.table(id)?);
        let definition = self.checked_projection(id, definition)?;
        if known.segments.ids() != of {
            return Err(changed_meanwhile(&known, "it has other rows now"));
        }
        known.check_segments(&segments, Some(&definition))?;
        let (number, definition) = (definition.id, Arc::new(definition));
        let segments: SegmentList = segments.into_iter().map(|sealed| sealed.segment).collect();
        self.snapshot_mut(id)?.projections_mut().push(Projection { definition, segments });
        check_rows(self.table(id)?)?;
        Ok(number)
    }

    /// What a table can get as a projection, with the id that it will have; that in `definition` does not matter.
    ///
    /// # Errors
    /// `AlreadyExists` if there is one of this name, `Input` if its order or columns are not possible.
    pub fn checked_projection(&self, id: TableId, definition: ProjectionDefinition) -> Result<ProjectionDefinition> {
        let known = self.table(id)?;
        if known.projection_named(&definition.name).is_some() {
            let message = format!("table {} has a projection {} already", known.name, definition.name);
            return Err(
                Error::new(ErrorKind::AlreadyExists, message).hint("Choose another name, or drop that one first")
            );
        }
        if known.projections.len() >= limits::TABLE_PROJECTIONS {
            return Err(Error::input(format!("a table has at most {} projections", limits::TABLE_PROJECTIONS)));
        }
        let last = known.projections.last().map_or(ProjectionId::TABLE, |last| last.definition.id);
        let definition = ProjectionDefinition { id: ProjectionId(last.0 + 1), ..definition };
        definition.check(known, self.catalog()).map_err(Error::input)?;
        Ok(definition)
    }

    /// Drops a projection. Its segments stay readable for snapshots that have them.
    ///
    /// # Errors
    /// `NotFound` if there is none of this name.
    pub fn drop_projection(&mut self, id: TableId, name: &str) -> Result<()> {
        let table = Arc::clone(self.table(id)?);
        if table.projection_named(name).is_none() {
            return Err(not_found("projection", &format!("{name} of table {}", table.full_name())));
        }
        let projections = self.snapshot_mut(id)?.projections_mut();
        projections.retain(|projection| !names_equal(&projection.definition.name, name));
        Ok(())
    }

    /// An error if a projection, of whatever table, is ordered by a column that is to be dropped.
    pub(super) fn check_orders_no_projection(&self, table: &Table, column: (ColumnId, &str)) -> Result<()> {
        let (id, name) = column;
        for of in self.catalog().tables() {
            let goes_by = |key: &OrderKey| key.goes_by(of.id, (table.id, id));
            let ordered = of.projections.iter().find(|projection| projection.definition.order.iter().any(goes_by));
            if let Some(ordered) = ordered {
                let projection = &ordered.definition.name;
                let message = format!(
                    "projection {projection} of table {} is ordered by column {name} of table {}",
                    of.full_name(),
                    table.full_name()
                );
                let hint = format!("ALTER TABLE {} DROP PROJECTION {projection} first", of.name);
                return Err(constraint(message).hint(hint));
            }
        }
        Ok(())
    }

    /// Takes a column that is dropped, and that no projection is ordered by, out of projections.
    pub(super) fn forget_in_projections(&mut self, id: TableId, column: ColumnId) -> Result<()> {
        if self.table(id)?.projections.is_empty() {
            return Ok(());
        }
        for projection in self.snapshot_mut(id)?.projections_mut() {
            if let Some(columns) = &mut Arc::make_mut(&mut projection.definition).columns {
                columns.retain(|own| *own != column);
            }
        }
        Ok(())
    }
}

/// An error unless all copies have as many rows.
pub(super) fn check_rows(table: &Table) -> Result<()> {
    let rows = table.rows();
    match table.projections.iter().find(|projection| projection.segments.rows() != rows) {
        None => Ok(()),
        Some(projection) => {
            let (name, own) = (&projection.definition.name, projection.segments.rows());
            let message = format!("projection {name} of table {} has {own} rows instead of {rows}", table.full_name());
            Err(Error::internal(message))
        }
    }
}

fn check_there(table: &Table, segments: &SegmentList, old: &[SegmentId]) -> Result<()> {
    match old.iter().find(|id| segments.find(**id).is_none()) {
        None => Ok(()),
        Some(gone) => Err(changed_meanwhile(table, &format!("segment {gone} is gone"))),
    }
}

pub(super) fn changed_meanwhile(table: &Table, what: &str) -> Error {
    let message = format!("table {} was changed meanwhile ({what})", table.full_name());
    Error::new(ErrorKind::Conflict, message).hint("Run the statement again")
}
