//! Changes of a table's rows in all copies of them, and of which copies there are.
//!
//! Invariant: all copies of a table have as many rows as the table, and who changes its rows says for every copy how: a copy
//! that appeared meanwhile is an error, not a copy with other rows.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use forebay_base::{ColumnId, Error, ErrorKind, ProjectionId, Result, SegmentId, TableId, limits};

use forebay_hot::RowId;

use super::{Transaction, constraint, not_found};
use crate::catalog::{Table, names_equal};
use crate::deleted::DeletedRows;
use crate::projection::{OrderKey, Projection, ProjectionDefinition};
use crate::segment::{Deleted, Segment, SegmentVersion};
use crate::segment_list::SegmentList;
use crate::table_snapshot::TableSnapshot;
use crate::volume::FIRST_IMAGE;
use crate::writer::SealedSegment;

/// Segments that go, and those that take their place: at the first of them, or behind all others where none goes.
pub type Replaced = (Vec<SegmentVersion>, Vec<SealedSegment>);

/// What changes in each projection of a table.
pub type ReplacedCopies = BTreeMap<ProjectionId, Replaced>;

/// What changes of a table's rows.
#[derive(Debug, Default)]
pub struct RowChanges {
    /// Segments in the place of others.
    pub replaced: Vec<Replaced>,
    /// Rows that are deleted of segments which stay, and segments with those that come instead: behind all others.
    pub deleted: Vec<(Deleted, Vec<SealedSegment>)>,
}

/// The rows of a table before and after a change, as segments that have none but those.
#[derive(Debug, Default)]
pub struct ChangedSegments {
    /// Rows that stay.
    pub stay: Vec<Arc<Segment>>,
    /// Rows that go.
    pub gone: Vec<Arc<Segment>>,
    /// Rows that come.
    pub come: Vec<Arc<Segment>>,
    /// Those of them that may come in the place of rows that go.
    pub come_instead: Vec<Arc<Segment>>,
}

impl ChangedSegments {
    /// What has become of the rows of `before` in another version of the same table.
    ///
    /// # Errors
    /// Those of reading footers.
    pub fn between(before: &Table, after: &Table) -> Result<Self> {
        let ids = |table: &Table| -> BTreeSet<SegmentId> { table.segments.iter().map(|own| own.id()).collect() };
        let (old, new) = (ids(before), ids(after));
        let (stay, come): (Vec<_>, Vec<_>) = after.segments.iter().cloned().partition(|own| old.contains(&own.id()));
        let is_gone = |segment: &&Arc<Segment>| !new.contains(&segment.id());
        let mut gone: Vec<_> = before.segments.iter().filter(is_gone).cloned().collect();
        for Deleted { segment, rows } in before.segments.deleted_in(&after.segments) {
            gone.push(Arc::new(there(before, segment)?.only(&rows)?));
        }
        Ok(Self { stay, gone, come_instead: come.clone(), come })
    }
}

impl RowChanges {
    /// Whether nothing changes.
    pub fn is_empty(&self) -> bool {
        self.replaced.iter().all(changes_nothing) && self.deleted.is_empty()
    }

    /// The segments that come.
    pub fn come(&self) -> Vec<Arc<Segment>> {
        let replaced = self.replaced.iter().flat_map(|(_, new)| new);
        let instead = self.deleted.iter().flat_map(|(_, new)| new);
        replaced.chain(instead).map(|sealed| Arc::clone(&sealed.segment)).collect()
    }

    /// What changes of the rows of `table`.
    ///
    /// # Errors
    /// `Conflict` where the table has other rows than those that this was made for; those of reading footers.
    pub fn of(&self, table: &Table) -> Result<ChangedSegments> {
        let mut deleted = self.deleted_of(table)?;
        let versions = self.replaced.iter().flat_map(|(gone, _)| gone);
        let replaced: BTreeSet<SegmentId> = versions.clone().map(|version| version.id).collect();
        let mut gone = versions.map(|version| there(table, *version).map(Arc::clone)).collect::<Result<Vec<_>>>()?;
        for (segment, rows) in deleted.values() {
            gone.push(Arc::new(segment.only(rows)?));
        }
        let stays = table.segments.iter().filter(|segment| !replaced.contains(&segment.id()));
        let left = |segment: &Arc<Segment>| match deleted.remove(&segment.id()) {
            None => Ok(Arc::clone(segment)),
            Some((_, rows)) => segment.without(rows).map(Arc::new),
        };
        let stay = stays.map(left).filter(|left| left.as_ref().map_or(true, |left| left.rows() > 0));
        let stay = stay.collect::<Result<Vec<_>>>()?;
        let instead = self.replaced.iter().filter(|(gone, _)| !gone.is_empty()).flat_map(|(_, new)| new);
        let instead = instead.chain(self.deleted.iter().flat_map(|(_, new)| new));
        let come_instead = instead.map(|sealed| Arc::clone(&sealed.segment)).collect();
        Ok(ChangedSegments { stay, gone, come: self.come(), come_instead })
    }

    fn deleted_of<'d>(&'d self, table: &'d Table) -> Result<BTreeMap<SegmentId, (&'d Arc<Segment>, &'d DeletedRows)>> {
        let of = |(Deleted { segment, rows }, _): &'d (Deleted, Vec<SealedSegment>)| {
            Ok((segment.id, (there(table, *segment)?, rows)))
        };
        self.deleted.iter().map(of).collect()
    }
}

impl From<Vec<Replaced>> for RowChanges {
    fn from(replaced: Vec<Replaced>) -> Self {
        Self { replaced, deleted: Vec::new() }
    }
}

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
    pub fn replace(&mut self, id: TableId, old: &[SegmentVersion], new: Vec<SealedSegment>) -> Result<()> {
        self.change_rows(id, vec![(old.to_vec(), new)], ReplacedCopies::new())
    }

    /// Changes the rows of a table, here and there, and those of all of its projections alike.
    ///
    /// # Errors
    /// `Conflict` if a segment that goes or has deleted rows is no longer there as it was read, or a projection, or if there is a projection that nothing is
    /// said of: another transaction changed the table meanwhile. `Constraint` if new segments hold NULLs in a column that
    /// became NOT NULL while they were written.
    pub fn change_rows(&mut self, id: TableId, changes: impl Into<RowChanges>, copies: ReplacedCopies) -> Result<()> {
        let changes = changes.into();
        if changes.is_empty() && copies.values().all(changes_nothing) {
            return Ok(());
        }
        // Who changes segments says so in the catalog, as of rows that were deleted one by one before.
        if changes.replaced.iter().any(|(old, _)| !old.is_empty()) || !changes.deleted.is_empty() {
            self.mark_deletions(id)?;
        }
        self.check_nobody_deletes(id, &changes)?;
        let versions = changes.replaced.iter().flat_map(|(old, _)| old).copied();
        let known = self.table_with(id, versions.chain(changes.deleted.iter().map(|(deleted, _)| deleted.segment)))?;
        let ids = known.projections.iter().map(|projection| projection.definition.id);
        if !ids.eq(copies.keys().copied()) {
            return Err(changed_meanwhile(&known, "it has other projections now"));
        }
        let mut behind = Vec::new();
        let RowChanges { replaced, deleted } = changes;
        let (hot, deleted): (Vec<_>, Vec<_>) = deleted.into_iter().partition(|(deleted, _)| is_image(deleted.segment));
        let mut hot_rows = Vec::new();
        for (Deleted { segment, rows }, instead) in hot {
            hot_rows.extend(self.rows_of_image(id, there(&known, segment)?, Some(&rows))?);
            behind.extend(instead);
        }
        let mut replaced = replaced
            .into_iter()
            .map(|(old, new)| {
                let place = first_place(&known.segments, &old);
                Ok((place, self.without_images(id, &known, old, &mut hot_rows)?, new))
            })
            .collect::<Result<Vec<_>>>()?;
        self.delete_seen(id, &hot_rows)?;
        // The last ones first: those behind make room, and so have other places then.
        replaced.sort_by_key(|(place, ..)| std::cmp::Reverse(place.unwrap_or(u64::MAX)));
        let adds_more = |(place, _, new): &(Option<u64>, _, Vec<SealedSegment>)| place.is_none() && !new.is_empty();
        let has_instead = |(_, instead): &(Deleted, Vec<SealedSegment>)| !instead.is_empty();
        let adds = !behind.is_empty() || replaced.iter().any(adds_more) || deleted.iter().any(has_instead);
        let least = if adds { self.place_behind_hot(id) } else { 0 };
        let snapshot = self.snapshot_mut(id)?;
        for (Deleted { segment, rows }, instead) in deleted {
            there(&known, segment)?;
            snapshot.edit().segments.delete(segment.id, &rows)?;
            behind.extend(instead);
        }
        for (place, old, new) in replaced.into_iter().chain([(None, Vec::new(), behind)]) {
            check_there(&known, &known.segments, &old)?;
            known.check_segments(&new, None)?;
            let new = new.into_iter().map(|sealed| sealed.segment);
            match place {
                None => snapshot.append(least, new),
                Some(place) => {
                    snapshot.edit().segments.remove(&old);
                    snapshot.insert(place, new.collect());
                }
            }
        }
        for (projection, (old, new)) in snapshot.projections_mut().iter_mut().zip(copies.into_values()) {
            check_there(&known, &projection.segments, &old)?;
            known.check_segments(&new, Some(&projection.definition))?;
            projection.segments.replace(&old, new.into_iter().map(|sealed| sealed.segment).collect());
        }
        check_rows(self.stored_table(id)?)
    }

    /// The table that has these segments. Whoever asks for none of hot rows gets it without them, so that none has to be made.
    fn table_with(
        &self,
        id: TableId,
        mut versions: impl Iterator<Item = SegmentVersion>,
    ) -> Result<Arc<TableSnapshot>> {
        Ok(Arc::clone(if versions.any(is_image) { self.table(id)? } else { self.stored_table(id)? }))
    }

    /// These segments but for those of hot rows, whose numbers are added to `hot_rows`.
    fn without_images(
        &self,
        id: TableId,
        known: &Table,
        segments: Vec<SegmentVersion>,
        hot_rows: &mut Vec<RowId>,
    ) -> Result<Vec<SegmentVersion>> {
        let (images, others): (Vec<_>, Vec<_>) = segments.into_iter().partition(|version| is_image(*version));
        for version in images {
            hot_rows.extend(self.rows_of_image(id, there(known, version)?, None)?);
        }
        Ok(others)
    }

    /// Puts the same rows otherwise: in the table, or in one of its projections.
    ///
    /// # Errors
    /// As [`Transaction::replace`]; `Internal` if they are not as many.
    pub fn lay_out(
        &mut self,
        id: TableId,
        copy: ProjectionId,
        old: &[SegmentVersion],
        new: Vec<SealedSegment>,
    ) -> Result<()> {
        self.mark_deletions(id)?;
        let known = self.table_with(id, old.iter().copied())?;
        let new_segments = || new.iter().map(|sealed| Arc::clone(&sealed.segment)).collect::<Vec<_>>();
        if copy == ProjectionId::TABLE {
            check_there(&known, &known.segments, old)?;
            known.check_segments(&new, None)?;
            let (mut hot_rows, place) = (Vec::new(), first_place(&known.segments, old));
            let old = self.without_images(id, &known, old.to_vec(), &mut hot_rows)?;
            self.delete_seen(id, &hot_rows)?;
            let segments = &mut self.table_mut(id)?.segments;
            segments.remove(&old);
            match place {
                Some(place) => segments.insert(place, new_segments()),
                None => segments.append(0, new_segments()),
            }
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
        let changed = self.table_with(id, old.iter().copied())?;
        match rows(&changed) == rows(&known) {
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
        of: &[SegmentVersion],
        segments: Vec<SealedSegment>,
    ) -> Result<ProjectionId> {
        let known = Arc::clone(self.table(id)?);
        if known.segments.iter().any(|segment| segment.is_hot()) {
            let message = format!("table {} has rows that lie in no segment yet", known.full_name());
            return Err(constraint(message).hint("Run CHECKPOINT first"));
        }
        let definition = self.checked_projection(id, definition)?;
        if known.segments.versions() != of {
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
        for of in self.catalog().schema_tables() {
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

/// The place of the first of these segments of a table as it is seen, with its hot rows.
fn first_place(segments: &SegmentList, of: &[SegmentVersion]) -> Option<u64> {
    of.iter().filter_map(|version| segments.place_of(version.id)).min()
}

/// Whether a segment is one of hot rows, which no catalog has.
fn is_image(version: SegmentVersion) -> bool {
    version.id.0 >= FIRST_IMAGE
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

/// The segment of a table of which somebody has read this version.
pub(super) fn there(table: &Table, version: SegmentVersion) -> Result<&Arc<Segment>> {
    check_there(table, &table.segments, &[version])?;
    table.segments.find(version.id).ok_or_else(|| Error::internal("a segment is there and not"))
}

fn changes_nothing((old, new): &Replaced) -> bool {
    old.is_empty() && new.is_empty()
}

fn check_there(table: &Table, segments: &SegmentList, old: &[SegmentVersion]) -> Result<()> {
    match old.iter().find(|version| segments.find_version(**version).is_none()) {
        None => Ok(()),
        Some(gone) => Err(changed_meanwhile(table, &format!("segment {} is gone, or has fewer rows", gone.id))),
    }
}

pub(super) fn changed_meanwhile(table: &Table, what: &str) -> Error {
    let message = format!("table {} was changed meanwhile ({what})", table.full_name());
    Error::new(ErrorKind::Conflict, message).hint("Run the statement again")
}
