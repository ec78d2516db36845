//! One version of a table with what is known of its rows: how many there are, bounds and NULLs of columns, how values are
//! distributed, how much is stored. Everybody who asks such a question asks here, planners and engine alike.
//!
//! What is known is merged from the footers of segments when it is first asked for, once per version and column, and kept with
//! the version. A version that a commit makes by appending segments begins with what was known of the one before. Invariants:
//! what is kept is of exactly this version; no chunk is read; what a footer that cannot be read would have said is not
//! known, and not kept. Must not know: who asks.

use std::borrow::Cow;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use forebay_base::{ColumnId, LogicalType, ProjectionId, Result, Value};
use forebay_block::{ColumnZones, Zone};

use crate::block_layout::BlockLayout;
use crate::catalog::{Column, Table};
use crate::distribution::Distribution;
use crate::projection::{Projection, ProjectionDefinition};
use crate::segment::Segment;
use crate::segment_list::{SegmentList, place_of_chunk};

/// What the column of the places of rows is called; no name that SQL gives begins so.
pub const PLACES_NAME: &str = " row";

/// One version of a table, with what is known of its rows.
#[derive(Debug, Clone)]
pub struct TableSnapshot {
    table: Table,
    rows: OnceLock<u64>,
    /// By column. Clones share them, until one is edited.
    columns: OnceLock<Arc<[ColumnFacts]>>,
    /// Of an earlier version, whose segments are the first ones of this.
    earlier: Option<Earlier>,
    /// The projection that the rows are those of; `None` where they are the table's own.
    projection: Option<Arc<ProjectionDefinition>>,
    copies: OnceLock<Arc<[Arc<TableSnapshot>]>>,
    with_places: OnceLock<Arc<TableSnapshot>>,
    layout: OnceLock<Arc<BlockLayout>>,
}

/// What is known of a column so far; `None` within where there is nothing to know.
#[derive(Debug)]
struct ColumnFacts {
    id: ColumnId,
    bounds: OnceLock<Option<ColumnBounds>>,
    distribution: OnceLock<Distribution>,
    encoded_bytes: OnceLock<u64>,
    block_share: OnceLock<f64>,
    zones: OnceLock<ColumnZones>,
    is_unique: OnceLock<bool>,
}

/// What was known of a version that another one begins with.
#[derive(Debug, Clone)]
struct Earlier {
    columns: Arc<[ColumnFacts]>,
    segments: usize,
}

/// Rows, NULLs and bounds of a whole column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnBounds {
    /// Rows.
    pub rows: u64,
    /// NULL rows.
    pub nulls: u64,
    /// Lower bound; `None` where no row is valid, or some have no bound. Bounds of strings are cut, as those of [`Zone`] are.
    pub min: Option<Value>,
    /// Upper bound.
    pub max: Option<Value>,
}

impl From<Table> for TableSnapshot {
    fn from(table: Table) -> Self {
        let (rows, columns, copies) = (OnceLock::new(), OnceLock::new(), OnceLock::new());
        let (with_places, layout) = (OnceLock::new(), OnceLock::new());
        Self { table, rows, columns, earlier: None, projection: None, copies, with_places, layout }
    }
}

impl Deref for TableSnapshot {
    type Target = Table;

    fn deref(&self) -> &Table {
        &self.table
    }
}

impl TableSnapshot {
    /// Rows in all segments.
    pub fn rows(&self) -> u64 {
        *self.rows.get_or_init(|| self.table.rows())
    }

    /// NULLs and bounds of a column, `None` of a table without rows.
    ///
    /// # Errors
    /// If a footer cannot be read.
    pub fn read_bounds(&self, column: usize) -> Result<Option<&ColumnBounds>> {
        let kept = &self.facts(column).bounds;
        if kept.get().is_none() {
            // Who finds the same at the same time keeps one of both.
            let _ = kept.set(self.find_bounds(column, |_| true)?);
        }
        Ok(kept.get().and_then(Option::as_ref))
    }

    /// As [`TableSnapshot::read_bounds`]; `None` too where a footer cannot be read: who scans the table is told.
    pub fn bounds(&self, column: usize) -> Option<&ColumnBounds> {
        self.read_bounds(column).ok().flatten()
    }

    /// About NULLs and bounds of a column: those of its segments in files where it has some, for whoever does not need to know about hot rows as well, all
    /// of whose values have to be encoded for that.
    pub fn bounds_about(&self, column: usize) -> Option<Cow<'_, ColumnBounds>> {
        let is_file = |segment: &Segment| !segment.is_hot();
        let is_known = self.facts(column).bounds.get().is_some() || self.table.segments.iter().all(|own| is_file(own));
        let of_files = if is_known { None } else { self.find_bounds(column, is_file).ok().flatten() };
        of_files.map(Cow::Owned).or_else(|| self.bounds(column).map(Cow::Borrowed))
    }

    /// Least and greatest integer of a column; `None` where it has none or they are not known.
    pub fn integers(&self, column: usize) -> Option<(i128, i128)> {
        self.bounds(column)?.integers()
    }

    /// The values of a column; `None` where a footer cannot be read.
    pub fn distribution(&self, column: usize) -> Option<&Distribution> {
        let definition = &self.table.columns[column];
        if definition.id == ColumnId::PLACES {
            return found(&self.facts(column).distribution, || Some(Distribution::of_distinct(self.rows())));
        }
        let find =
            || Distribution::of(&self.table.segments, (definition.id, &definition.missing), self.integers(column));
        found(&self.facts(column).distribution, find)
    }

    /// Encoded bytes of a column per row; `None` where the footers cannot tell.
    pub fn encoded_row_bytes(&self, column: usize) -> Option<f64> {
        let bytes = found(&self.facts(column).encoded_bytes, || self.find_encoded_bytes(column))?;
        Some(*bytes as f64 / self.rows().max(1) as f64)
    }

    /// The share of a column's range between its least and greatest integer that a block has, in the mean over its blocks: 1
    /// where they lie in no order, little where the table is sorted by it. 1 too where it is not known.
    pub fn block_share(&self, column: usize) -> f64 {
        found(&self.facts(column).block_share, || self.find_block_share(column)).copied().unwrap_or(1.0)
    }

    /// The zones of a column's blocks, in the order of [`TableSnapshot::layout`]; as of rows without values where a segment is
    /// older than the column. `None` where a footer cannot be read.
    pub fn zones(&self, column: usize) -> Option<&ColumnZones> {
        found(&self.facts(column).zones, || self.find_zones(column))
    }

    /// Whether no two rows have the same value of a column, as `find` tells, which is asked once.
    ///
    /// # Errors
    /// Those of `find`.
    pub fn is_unique_by(&self, column: usize, find: impl FnOnce() -> Result<bool>) -> Result<bool> {
        let kept = &self.facts(column).is_unique;
        if kept.get().is_none() {
            let _ = kept.set(find()?);
        }
        Ok(kept.get().copied().unwrap_or(false))
    }

    /// Where the blocks of each row group are among all; `None` where a footer cannot be read.
    pub fn layout(&self) -> Option<&Arc<BlockLayout>> {
        found(&self.layout, || BlockLayout::of(&self.table.segments).map(Arc::new))
    }

    /// The projections, each as this table with the segments that it has: whoever reads one in the place of the table reads the
    /// same rows, otherwise ordered. Columns are at the same positions; those that it lacks must not be read
    /// ([`TableSnapshot::has_column`]).
    pub fn copies(&self) -> &[Arc<Self>] {
        self.copies
            .get_or_init(|| self.table.projections.iter().map(|projection| Arc::new(self.copy(projection))).collect())
    }

    /// The same rows with one column more behind all others, [`ColumnId::PLACES`]: where each of them is, as whoever scans them
    /// numbers them. No segment has it. It is made once.
    pub fn with_places(&self) -> &Arc<Self> {
        self.with_places.get_or_init(|| {
            let mut table = self.table.clone();
            table.columns.push(Column {
                id: ColumnId::PLACES,
                name: PLACES_NAME.to_owned(),
                logical: LogicalType::Int64,
                nullable: false,
                default: None,
                missing: None,
            });
            Arc::new(Self { projection: self.projection.clone(), ..Self::from(table) })
        })
    }

    /// The projection that the rows are read of; `None` where they are the table's own.
    pub fn projection(&self) -> Option<&ProjectionDefinition> {
        self.projection.as_deref()
    }

    /// The copy whose rows these are.
    pub fn copy_id(&self) -> ProjectionId {
        self.projection.as_ref().map_or(ProjectionId::TABLE, |projection| projection.id)
    }

    /// Whether the copy has the column at this position.
    pub fn has_column(&self, column: usize) -> bool {
        let id = self.table.columns[column].id;
        self.projection.as_ref().is_none_or(|projection| id == ColumnId::PLACES || projection.has(id))
    }

    /// Whether these are the rows of `table`, in whichever of its copies.
    pub fn has_rows_of(&self, table: &Self) -> bool {
        let of_copy = match &self.projection {
            None => Some(&table.table.segments),
            Some(projection) => table.projection_by_id(projection.id).map(|copy| &copy.segments),
        };
        let versions = |segments: &SegmentList| segments.versions();
        self.table.id == table.table.id
            && self.table.version == table.table.version
            && of_copy.is_some_and(|segments| versions(segments) == versions(&self.table.segments))
    }

    fn copy(&self, projection: &Projection) -> Self {
        let table = Table { segments: projection.segments.clone(), projections: Vec::new(), ..self.table.clone() };
        Self { projection: Some(Arc::clone(&projection.definition)), ..Self::from(table) }
    }

    /// The table, to be changed: nothing is known of it any more.
    pub(crate) fn edit(&mut self) -> &mut Table {
        (self.rows, self.columns, self.earlier) = (OnceLock::new(), OnceLock::new(), None);
        (self.copies, self.with_places, self.layout) = (OnceLock::new(), OnceLock::new(), OnceLock::new());
        &mut self.table
    }

    /// The projections, to be changed: what is known of the table's own rows stays so.
    pub(crate) fn projections_mut(&mut self) -> &mut Vec<Projection> {
        (self.copies, self.with_places) = (OnceLock::new(), OnceLock::new());
        &mut self.table.projections
    }

    /// Puts segments behind all others, from this place on if that is behind them. What is known of those before is not found out again.
    pub(crate) fn append(&mut self, least: u64, segments: impl IntoIterator<Item = Arc<Segment>>) {
        self.extend(|own| own.append(least, segments));
    }

    /// Puts segments at a place, behind those that are there.
    pub(crate) fn insert(&mut self, place: u64, segments: Vec<Arc<Segment>>) {
        match self.table.segments.last_place().is_none_or(|last| last <= place) {
            true => self.extend(|own| own.insert(place, segments)),
            false => self.edit().segments.insert(place, segments),
        }
    }

    /// Puts segments with rows of a hot chunk where these rows are.
    pub(crate) fn insert_of_chunk(&mut self, chunk: u32, segments: Vec<Arc<Segment>>) {
        match self.table.segments.last_place().is_none_or(|last| last <= place_of_chunk(chunk)) {
            true => self.extend(|own| own.insert_of_chunk(chunk, segments)),
            false => self.edit().segments.insert_of_chunk(chunk, segments),
        }
    }

    /// Adds segments behind all others.
    fn extend(&mut self, add: impl FnOnce(&mut SegmentList)) {
        let count = self.table.segments.len();
        let known = self.columns.get().cloned().map(|columns| Earlier { columns, segments: count });
        let earlier = known.or_else(|| self.earlier.clone());
        add(&mut self.edit().segments);
        self.earlier = earlier;
    }

    /// Sets the number of the version, which says nothing of its rows.
    pub(crate) fn raise_version(&mut self) {
        (self.copies, self.with_places) = (OnceLock::new(), OnceLock::new());
        self.table.version += 1;
    }

    /// Sets the number of a version that no commit has made.
    pub(crate) fn set_version(&mut self, version: u64) {
        (self.copies, self.with_places) = (OnceLock::new(), OnceLock::new());
        self.table.version = version;
    }

    fn facts(&self, column: usize) -> &ColumnFacts {
        let new = || self.table.columns.iter().map(|column| ColumnFacts::of(column.id)).collect();
        &self.columns.get_or_init(new)[column]
    }

    /// What is known of a column of an earlier version, and how many segments that had.
    fn known_before(&self, column: usize) -> Option<(&ColumnFacts, usize)> {
        let earlier = self.earlier.as_ref()?;
        let id = self.table.columns[column].id;
        earlier.columns.iter().find(|facts| facts.id == id).map(|facts| (facts, earlier.segments))
    }

    /// Those of the segments for which `counts` holds.
    fn find_bounds(&self, column: usize, counts: impl Fn(&Segment) -> bool) -> Result<Option<ColumnBounds>> {
        if self.table.columns[column].id == ColumnId::PLACES {
            let rows = self.rows();
            return Ok((rows > 0).then_some(ColumnBounds { rows, nulls: 0, min: None, max: None }));
        }
        let all_count = |segments: &usize| self.table.segments[..*segments].iter().all(|own| counts(own));
        let before = self.known_before(column).filter(|(_, segments)| all_count(segments));
        let before = before.and_then(|(facts, segments)| Some((facts.bounds.get()?.clone(), segments)));
        let (mut whole, merged) = before.unwrap_or((None, 0));
        let definition = &self.table.columns[column];
        let mut add = |bounds: ColumnBounds| match &mut whole {
            None => whole = Some(bounds),
            Some(whole) => whole.add(&bounds),
        };
        for segment in self.table.segments[merged..].iter().filter(|own| counts(own)) {
            let Some(index) = segment.column_index(definition.id) else {
                add(ColumnBounds::of_missing(segment.stored_rows(), definition.missing.as_ref()));
                continue;
            };
            segment.groups()?.iter().flat_map(|group| &group.columns[index].zones).for_each(|zone| add(zone.into()));
        }
        Ok(whole)
    }

    fn find_encoded_bytes(&self, column: usize) -> Option<u64> {
        let known =
            self.known_before(column).and_then(|(facts, segments)| Some((*facts.encoded_bytes.get()?, segments)));
        let (mut bytes, merged) = known.unwrap_or((0, 0));
        for segment in &self.table.segments[merged..] {
            let index = segment.column_index(self.table.columns[column].id)?;
            let chunks = segment.groups().ok()?.iter().flat_map(|group| &group.columns[index].chunks);
            bytes += chunks.map(|chunk| chunk.encoded_bytes).sum::<u64>();
        }
        Some(bytes)
    }

    fn find_zones(&self, column: usize) -> Option<ColumnZones> {
        let id = self.table.columns[column].id;
        if id == ColumnId::PLACES {
            return None;
        }
        let without_values = |rows: &u32| Zone { rows: *rows, null_count: *rows, min: None, max: None };
        let mut zones: Vec<Cow<'_, Zone>> = Vec::new();
        for segment in &self.table.segments {
            let groups = segment.groups().ok()?.iter();
            match segment.column_index(id) {
                Some(index) => zones.extend(groups.flat_map(|group| &group.columns[index].zones).map(Cow::Borrowed)),
                None => zones.extend(groups.flat_map(|group| &group.block_rows).map(without_values).map(Cow::Owned)),
            }
        }
        Some(zones.iter().map(Cow::as_ref).collect())
    }

    fn find_block_share(&self, column: usize) -> Option<f64> {
        let (low, high) = self.integers(column)?;
        let span = |low: i128, high: i128| (high.saturating_sub(low) as f64) + 1.0;
        let (mut sum, mut blocks) = (0.0, 0_usize);
        for segment in &self.table.segments {
            let Some(index) = segment.column_index(self.table.columns[column].id) else { continue };
            for zone in segment.groups().into_iter().flatten().flat_map(|group| &group.columns[index].zones) {
                if let (Some(Value::Int(min)), Some(Value::Int(max))) = (&zone.min, &zone.max) {
                    sum += span(*min, *max);
                    blocks += 1;
                }
            }
        }
        Some(if blocks == 0 { 1.0 } else { sum / blocks as f64 / span(low, high) })
    }
}

impl ColumnFacts {
    fn of(id: ColumnId) -> Self {
        let (bounds, distribution) = (OnceLock::new(), OnceLock::new());
        let (encoded_bytes, block_share, zones) = (OnceLock::new(), OnceLock::new(), OnceLock::new());
        Self { id, bounds, distribution, encoded_bytes, block_share, zones, is_unique: OnceLock::new() }
    }
}

impl ColumnBounds {
    /// Of the rows of some blocks; `None` of no blocks.
    pub fn of_zones(zones: &[Zone]) -> Option<Self> {
        let mut blocks = zones.iter().map(Self::from);
        let first = blocks.next()?;
        Some(blocks.fold(first, |mut all, block| {
            all.add(&block);
            all
        }))
    }

    /// Least and greatest integer; `None` where there is none or they are not known.
    pub fn integers(&self) -> Option<(i128, i128)> {
        match (&self.min, &self.max) {
            (Some(Value::Int(min)), Some(Value::Int(max))) => Some((*min, *max)),
            _ => None,
        }
    }

    /// Of rows that are older than their column. What is known of others than integers is left to scans.
    fn of_missing(rows: u64, value: Option<&Value>) -> Self {
        let nulls = if value.is_none() { rows } else { 0 };
        let bound = value.filter(|value| matches!(value, Value::Int(_))).cloned();
        Self { rows, nulls, min: bound.clone(), max: bound }
    }

    /// Takes in more rows.
    fn add(&mut self, other: &Self) {
        let (self_nulls, other_nulls) = (self.nulls == self.rows, other.nulls == other.rows);
        let bound = |own: &mut Option<Value>, new: &Option<Value>, is_beyond: fn(&Value, &Value) -> bool| {
            match (own.as_ref(), new) {
                (Some(value), Some(new)) if is_beyond(new, value) => *own = Some(new.clone()),
                (Some(_), Some(_)) => {}
                // No bound because there is no value, or because none could be kept.
                (Some(_), None) if other_nulls => {}
                (None, Some(new)) if self_nulls => *own = Some(new.clone()),
                _ => *own = None,
            }
        };
        bound(&mut self.min, &other.min, |new, value| new < value);
        bound(&mut self.max, &other.max, |new, value| new > value);
        self.rows += other.rows;
        self.nulls += other.nulls;
    }
}

impl From<&Zone> for ColumnBounds {
    fn from(zone: &Zone) -> Self {
        let (rows, nulls) = (u64::from(zone.rows), u64::from(zone.null_count));
        Self { rows, nulls, min: zone.min.clone(), max: zone.max.clone() }
    }
}

/// What `cell` holds, or else what is found, which it keeps.
fn found<T>(cell: &OnceLock<T>, find: impl FnOnce() -> Option<T>) -> Option<&T> {
    if cell.get().is_none() {
        // Who finds the same at the same time keeps one of both.
        let _ = cell.set(find()?);
    }
    cell.get()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bounds(rows: u64, nulls: u64, min: Option<i128>, max: Option<i128>) -> ColumnBounds {
        ColumnBounds { rows, nulls, min: min.map(Value::Int), max: max.map(Value::Int) }
    }

    fn joined(a: &ColumnBounds, b: &ColumnBounds) -> ColumnBounds {
        let mut both = a.clone();
        both.add(b);
        both
    }

    #[test]
    fn rows_without_values_do_not_hide_bounds() {
        let (some, nulls) = (bounds(2, 0, Some(1), Some(2)), bounds(2, 2, None, None));
        assert_eq!(joined(&some, &nulls), bounds(4, 2, Some(1), Some(2)));
        assert_eq!(joined(&nulls, &some), bounds(4, 2, Some(1), Some(2)));
        let cut = bounds(2, 0, Some(0), None);
        assert_eq!(joined(&some, &cut), bounds(4, 0, Some(0), None));
        assert_eq!(joined(&joined(&cut, &some), &nulls), bounds(6, 2, Some(0), None));
    }

    #[test]
    fn rows_older_than_a_column_have_its_value() {
        assert_eq!(ColumnBounds::of_missing(3, None), bounds(3, 3, None, None));
        let seven = ColumnBounds::of_missing(3, Some(&Value::Int(7)));
        assert_eq!(joined(&bounds(2, 0, Some(1), Some(2)), &seven), bounds(5, 0, Some(1), Some(7)));
        let text = ColumnBounds::of_missing(3, Some(&Value::Bytes(b"a".to_vec())));
        assert_eq!(joined(&bounds(2, 0, Some(1), Some(2)), &text), bounds(5, 0, None, None));
    }
}
