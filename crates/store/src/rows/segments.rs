//! Rows of segments and projections: whose rows they hold, and their place among these.

use std::collections::BTreeMap;
use std::sync::Arc;

use forebay_base::{ColumnId, DirectoryId, Error, PhysicalType, ProjectionId, Result, SegmentId, TableId};

use crate::catalog::Catalog;
use crate::deleted::DeletedRows;
use crate::footer::FooterLocation;
use crate::head::FORMAT_VERSION_OLDEST;
use crate::projection::Projection;
use crate::segment::{Segment, SegmentParts, SortColumn};
use crate::segment_list::SegmentList;
use crate::serial::{Reader, Writer};
use crate::volume::{DATABASE_DIRECTORY, Volume};

/// Where a segment is in the order of some rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Place {
    pub(super) table: TableId,
    pub(super) copy: ProjectionId,
    pub(super) position: u64,
}

/// Segments with their positions.
type Placed = Vec<(u64, Arc<Segment>)>;

/// The row of a segment whose file is in this directory.
pub(super) fn encode_segment(segment: &Segment, place: Place, directory: DirectoryId) -> Writer {
    let mut row = Writer::default();
    row.u64(place.table.0);
    row.u64(place.position);
    row.u64(segment.stored_rows());
    row.u64(segment.file_bytes());
    let footer = segment.footer();
    row.u64(footer.offset);
    row.u64(footer.bytes);
    row.u32(footer.crc);
    row.count(segment.columns().len());
    for (id, physical) in segment.columns() {
        row.u32(id.0);
        row.u8(*physical as u8);
    }
    row.u64(footer.metadata_offset);
    row.u32(directory.0);
    row.u32(place.copy.0);
    row.count(segment.sort_order().len());
    for sorted in segment.sort_order() {
        row.u32(sorted.column.0);
        row.u8(u8::from(sorted.descending));
    }
    row
}

/// The segment of a row, of which these rows are deleted, and where it is.
pub(super) fn decode_segment(
    reader: &mut Reader<'_>,
    (id, deleted): (SegmentId, DeletedRows),
    format: u32,
    volume: &Arc<Volume>,
) -> Result<(Place, Segment)> {
    let (table, position) = (TableId(reader.u64()?), reader.u64()?);
    let (rows, file_bytes) = (reader.u64()?, reader.u64()?);
    let (offset, bytes, crc) = (reader.u64()?, reader.u64()?, reader.u32()?);
    let mut columns = Vec::new();
    for _ in 0..reader.count(5)? {
        let id = ColumnId(reader.u32()?);
        let physical = PhysicalType::from_code(reader.u8()?).ok_or_else(|| reader.wrong("a column has no type"))?;
        columns.push((id, physical));
    }
    let (metadata_offset, (directory, copy, sort_order)) = match format {
        FORMAT_VERSION_OLDEST => (offset, (DATABASE_DIRECTORY, ProjectionId::TABLE, Vec::new())),
        _ => (reader.u64()?, decode_layout(reader, &columns)?),
    };
    if volume.directory(directory).is_none() {
        return Err(reader.wrong(&format!("the database has no data directory {directory}")));
    }
    if metadata_offset > offset || offset.checked_add(bytes).is_none_or(|end| end > file_bytes) {
        return Err(reader.wrong("its footer lies outside its file"));
    }
    if deleted.count() >= rows && !deleted.is_empty() {
        return Err(reader.wrong("all of its rows are deleted"));
    }
    let footer = FooterLocation { metadata_offset, offset, bytes, crc };
    let parts = SegmentParts { id, directory, columns, rows, file_bytes, footer, sort_order };
    Ok((Place { table, copy, position }, Segment::published(Arc::clone(volume), parts, deleted)))
}

/// Reads data directory, projection and sort order.
fn decode_layout(
    reader: &mut Reader<'_>,
    columns: &[(ColumnId, PhysicalType)],
) -> Result<(DirectoryId, ProjectionId, Vec<SortColumn>)> {
    let (directory, copy) = (DirectoryId(reader.u32()?), ProjectionId(reader.u32()?));
    let mut order: Vec<SortColumn> = Vec::new();
    for _ in 0..reader.count(5)? {
        let (column, descending) = (ColumnId(reader.u32()?), reader.flag()?);
        let is_there = columns.iter().any(|(id, _)| *id == column);
        if !is_there || order.iter().any(|earlier| earlier.column == column) {
            return Err(reader.wrong("its sort order names a column that it does not have, or one twice"));
        }
        order.push(SortColumn { column, descending });
    }
    Ok((directory, copy, order))
}

/// Gives tables their projections, still without segments.
pub(super) fn place_projections(catalog: &mut Catalog, projections: Vec<(TableId, Vec<Projection>)>) -> Result<()> {
    for (id, projections) in projections {
        let wrong = |what: String| Error::corrupt(format!("the manifest's row of projections of table {id}: {what}"));
        let table = catalog.table_by_id(id).ok_or_else(|| wrong("there is no such table".to_owned()))?;
        for projection in &projections {
            projection.definition.check(table, catalog).map_err(wrong)?;
        }
        catalog.objects_mut().edit_table(id)?.projections = projections;
    }
    Ok(())
}

/// Gives tables and projections their segments.
pub(super) fn place_segments(catalog: &mut Catalog, segments: BTreeMap<Place, Arc<Segment>>) -> Result<()> {
    let mut lists: BTreeMap<(TableId, ProjectionId), Placed> = BTreeMap::new();
    for (place, segment) in segments {
        lists.entry((place.table, place.copy)).or_default().push((place.position, segment));
    }
    for ((id, copy), list) in lists {
        let missing = || {
            let what = if copy == ProjectionId::TABLE { String::new() } else { format!("projection {copy} of ") };
            Error::corrupt(format!("the manifest has segments of {what}table {id}, which it does not have"))
        };
        let table = catalog.objects_mut().edit_table(id).map_err(|_| missing())?;
        let mut copies = table.projections.iter_mut();
        let place = match copy {
            ProjectionId::TABLE => &mut table.segments,
            _ => &mut copies.find(|other| other.definition.id == copy).ok_or_else(missing)?.segments,
        };
        *place = SegmentList::placed(list);
    }
    for table in catalog.objects.tables.values() {
        let has_others = |copy: &&Projection| copy.segments.rows() != table.rows();
        if let Some(copy) = table.projections.iter().find(has_others) {
            let (name, table) = (&copy.definition.name, table.full_name());
            return Err(Error::corrupt(format!("projection {name} of table {table} has other rows than the table")));
        }
    }
    Ok(())
}
