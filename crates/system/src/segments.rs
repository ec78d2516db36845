//! `forebay.segments`: the files of rows of every table, and of its projections.

use std::sync::Arc;

use forebay_base::Result;
use forebay_store::{Group, Segment};

use crate::columns::{Column, Of, known, read};
use crate::listing::{Batches, Passes, Rows};
use crate::seen::Seen;
use crate::shown::{ShownTable, copies};

/// The segments of all tables.
#[derive(Debug)]
pub(crate) struct Segments(pub(crate) Arc<dyn Seen>);

/// A segment.
pub(crate) struct SegmentRow {
    of: Arc<ShownTable>,
    place: usize,
}

impl SegmentRow {
    fn segment(&self) -> &Segment {
        &self.of.table.segments[self.place]
    }

    fn sum(&self, of: impl Fn(&Group) -> usize) -> Result<Option<u64>> {
        Ok(Some(self.segment().groups()?.iter().map(|group| of(group) as u64).sum()))
    }

    /// The directory that the file is in.
    fn directory(&self) -> Option<String> {
        let id = self.segment().data_directory();
        let all = self.of.seen.engine().store().directories();
        all.into_iter().find(|directory| directory.id == id).map(|directory| directory.path)
    }
}

/// Columns that a copy of a table's rows alone tells.
const OF_TABLES: usize = 3;

impl Rows for Segments {
    type Row = SegmentRow;

    const COLUMNS: &'static [Column<SegmentRow>] = &[
        known("schema_name", Of::Text(|row| Ok(Some(row.of.schema.clone())))),
        known("table_name", Of::Text(|row| Ok(Some(row.of.table.name.clone())))),
        known("projection_name", Of::Text(|row| Ok(row.of.projection()))),
        known("segment_id", Of::Count(|row| Ok(Some(row.segment().id().0)))),
        known("directory", Of::Text(|row| Ok(row.directory()))),
        known("file", Of::Text(|row| Ok(Some(row.segment().path())))),
        known("file_bytes", Of::Count(|row| Ok(Some(row.segment().file_bytes())))),
        known("rows", Of::Count(|row| Ok(Some(row.segment().rows())))),
        known("deleted_rows", Of::Count(|row| Ok(Some(row.segment().deleted().count())))),
        known("columns", Of::Count(|row| Ok(Some(row.segment().columns().len() as u64)))),
        read("row_groups", Of::Count(|row| row.sum(|_| 1))),
        read("blocks", Of::Count(|row| row.sum(|group| group.block_rows.len()))),
        read("chunks", Of::Count(|row| row.sum(|group| group.columns.iter().map(|column| column.chunks.len()).sum()))),
        read("format_version", Of::Count(|row| Ok(Some(u64::from(row.segment().version()?))))),
    ];

    fn batches(&self, passes: Passes<SegmentRow>) -> Batches<SegmentRow> {
        let all = copies(&self.0).into_iter().map(|of| SegmentRow { of, place: 0 });
        match passes.of_first(OF_TABLES, all.collect()) {
            Err(error) => Box::new(std::iter::once(Err(error))),
            Ok(wanted) => Box::new(wanted.into_iter().map(|SegmentRow { of, .. }| {
                let places = 0..of.table.segments.len();
                Ok(places.map(|place| SegmentRow { of: Arc::clone(&of), place }).collect())
            })),
        }
    }
}
