//! What a transaction changes of one table: its columns and its segments.

use std::collections::BTreeSet;
use std::sync::Arc;

use forebay_base::{ColumnId, Error, ErrorKind, Result, SegmentId, limits};

use super::{constraint, not_found};
use crate::catalog::{Column, ColumnDefinition, Table, check_name};
use crate::segment::Segment;
use crate::writer::SealedSegment;

impl Table {
    pub(super) fn add_column(&mut self, definition: ColumnDefinition) -> Result<ColumnId> {
        let ColumnDefinition { name, logical, nullable, default, missing } = definition;
        check_name(&name)?;
        if self.column(&name).is_some() {
            return Err(self.duplicate(&name));
        }
        if self.columns.len() >= limits::TABLE_COLUMNS {
            return Err(Error::input(format!("a table has at most {} columns", limits::TABLE_COLUMNS)));
        }
        let id = ColumnId(self.next_column);
        self.next_column += 1;
        self.columns.push(Column { id, name, logical, nullable, default, missing });
        Ok(id)
    }

    pub(super) fn duplicate(&self, name: &str) -> Error {
        Error::new(ErrorKind::AlreadyExists, format!("table {} has a column {name} already", self.name))
    }

    /// The column with this id and its position.
    ///
    /// # Errors
    /// `NotFound` if it is not there.
    pub fn column_or_error(&self, id: ColumnId) -> Result<(usize, &Column)> {
        self.column_by_id(id).ok_or_else(|| not_found("column", &format!("number {id} of table {}", self.name)))
    }

    /// Segments of other types than the table's columns are a bug of the loader. NULLs are not: it knew the columns as they
    /// were when it began.
    pub(super) fn check_segments(&self, segments: &[SealedSegment]) -> Result<()> {
        for sealed in segments {
            for column in self.columns.iter().filter(|column| !column.nullable) {
                if column.has_nulls_in(&sealed.segment)? {
                    let name = format!("column {} of table {}", column.name, self.full_name());
                    let message = format!("{name} became NOT NULL meanwhile, and a new row is NULL there");
                    return Err(constraint(message).hint("Run the statement again"));
                }
            }
            for (id, physical) in sealed.segment.columns() {
                let fits = match self.column_by_id(*id) {
                    Some((_, column)) => column.logical.physical() == *physical,
                    // Dropped while the segment was written.
                    None => id.0 < self.next_column,
                };
                if !fits {
                    let message = format!("segment {} does not fit table {}", sealed.id(), self.full_name());
                    return Err(Error::internal(message));
                }
            }
        }
        Ok(())
    }

    pub(super) fn replace(&mut self, old: &[SegmentId], new: Vec<Arc<Segment>>) {
        let old: BTreeSet<SegmentId> = old.iter().copied().collect();
        let (segments, positions) = (std::mem::take(&mut self.segments), std::mem::take(&mut self.positions));
        let first = segments.iter().position(|segment| old.contains(&segment.id())).unwrap_or(segments.len());
        let mut places = Vec::with_capacity(segments.len() + new.len());
        let mut freed = Vec::new();
        let mut new = Some(new);
        for (index, (segment, position)) in segments.into_iter().zip(positions).enumerate() {
            if index == first {
                places.extend(new.take().into_iter().flatten().map(|segment| (segment, None)));
            }
            if old.contains(&segment.id()) {
                freed.push(position);
            } else {
                places.push((segment, Some(position)));
            }
        }
        places.extend(new.into_iter().flatten().map(|segment| (segment, None)));
        // Old positions are kept where they still ascend, and otherwise all are given anew.
        let mut freed = freed.into_iter();
        let kept: Option<Vec<u64>> = places.iter().map(|(_, position)| position.or_else(|| freed.next())).collect();
        self.positions = match kept {
            Some(kept) if kept.is_sorted_by(|a, b| a < b) => kept,
            _ => (0..places.len() as u64).collect(),
        };
        self.segments = places.into_iter().map(|(segment, _)| segment).collect();
    }
}
