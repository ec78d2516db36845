//! What a transaction changes of one table: its columns and its segments.

use forebay_base::{ColumnId, Error, ErrorKind, Result, limits};

use super::{constraint, not_found};
use crate::catalog::{Column, ColumnDefinition, Table, check_name};
use crate::projection::ProjectionDefinition;
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
    /// were when it began. Segments of a projection need its columns only.
    pub(super) fn check_segments(
        &self,
        segments: &[SealedSegment],
        projection: Option<&ProjectionDefinition>,
    ) -> Result<()> {
        let is_here = |column: &&Column| projection.is_none_or(|projection| projection.has(column.id));
        for sealed in segments {
            for column in self.columns.iter().filter(is_here).filter(|column| !column.nullable) {
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
}
