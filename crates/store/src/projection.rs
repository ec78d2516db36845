//! Projections: further copies of a table's rows, in orders of their own and perhaps with some of its columns only, so that
//! different queries each find the rows that they need close together (HippogriffDB §4.2).
//!
//! Invariant: all copies have the same rows, at every commit; [`crate::Transaction`] changes all of them or none. Must not
//! know: how rows are put into an order, who reads which copy.

use std::collections::BTreeSet;
use std::sync::Arc;

use forebay_base::{ColumnId, ProjectionId, Result, TableId, limits};

use crate::catalog::{Catalog, Table, check_name, names_equal};
use crate::segment::Segment;
use crate::segment_list::SegmentList;
use crate::serial::{Reader, Writer};

/// In the manifest the columns of a projection that has all of its table's.
pub(crate) const ALL_COLUMNS: u8 = 0;
/// In the manifest a projection that has the columns which are named.
pub(crate) const SOME_COLUMNS: u8 = 1;

/// Least bytes of a projection in the manifest.
const PROJECTION_LEAST_BYTES: usize = 14;
/// Bytes of a hop in the manifest.
const HOP_BYTES: usize = 16;

/// A step from the rows of a table to those of another that have the same key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Hop {
    /// The column of the table that one comes from.
    pub column: ColumnId,
    /// The other table.
    pub table: TableId,
    /// Its column that is equal.
    pub key: ColumnId,
}

/// A column of a table, or of one that hops lead to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrderKey {
    /// The way to the column's table; none to the table itself.
    pub hops: Vec<Hop>,
    /// The column.
    pub column: ColumnId,
}

/// What a projection is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProjectionDefinition {
    /// Unique among the projections that the table has.
    pub id: ProjectionId,
    /// Name, as given; found in any case.
    pub name: String,
    /// What its rows are ordered by, as far as every load orders its own.
    pub order: Vec<OrderKey>,
    /// The columns that it has; `None` for all that the table has, also those that come later.
    pub columns: Option<Vec<ColumnId>>,
}

/// A copy of a table's rows.
#[derive(Debug, Clone)]
pub struct Projection {
    /// What it is.
    pub definition: Arc<ProjectionDefinition>,
    /// Segments, in row order.
    pub segments: SegmentList,
}

impl OrderKey {
    /// The column of the table itself that it goes by: the column, or that of the first hop.
    pub fn own_column(&self) -> ColumnId {
        self.hops.first().map_or(self.column, |hop| hop.column)
    }

    /// The column as SQL writes it, with the columns of the foreign keys in front that lead to it; `of` is the table that the order is
    /// of. `None` where one of them is not there.
    pub fn text(&self, of: &Table, catalog: &Catalog) -> Option<String> {
        let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
        let (mut at, mut parts) = (of, Vec::new());
        for hop in &self.hops {
            parts.push(quoted(&at.column_by_id(hop.column)?.1.name));
            at = catalog.table_by_id(hop.table)?;
        }
        parts.push(quoted(&at.column_by_id(self.column)?.1.name));
        Some(parts.join("."))
    }

    /// Every column that it goes by, with its table; `of` is the table that the order is of.
    fn columns(&self, of: TableId) -> impl Iterator<Item = (TableId, ColumnId)> + '_ {
        let tables = std::iter::once(of).chain(self.hops.iter().map(|hop| hop.table));
        let left = tables.clone().zip(self.hops.iter().map(|hop| hop.column).chain([self.column]));
        left.chain(self.hops.iter().map(|hop| (hop.table, hop.key)))
    }

    /// Whether a column of a table is on its way or at its end; `of` is the table that the order is of.
    pub(crate) fn goes_by(&self, of: TableId, column: (TableId, ColumnId)) -> bool {
        self.columns(of).any(|own| own == column)
    }
}

impl ProjectionDefinition {
    /// Whether it has a column of its table.
    pub fn has(&self, column: ColumnId) -> bool {
        self.columns.as_ref().is_none_or(|columns| columns.contains(&column))
    }

    /// Its order as SQL writes it; `table` is the one that it is of.
    pub fn order_text(&self, table: &Table, catalog: &Catalog) -> String {
        let keys = self.order.iter().map(|key| key.text(table, catalog).unwrap_or_else(|| "?".to_owned()));
        keys.collect::<Vec<_>>().join(", ")
    }

    /// What is wrong with it as a projection of `table`, which need not be in the catalog yet.
    pub(crate) fn check(&self, table: &Table, catalog: &Catalog) -> std::result::Result<(), String> {
        check_name(&self.name).map_err(|error| error.message().to_owned())?;
        if self.order.is_empty() {
            return Err(format!("projection {} has no order", self.name));
        }
        let columns = self.columns.iter().flatten();
        let different: BTreeSet<ColumnId> = columns.clone().copied().collect();
        if self.columns.as_ref().is_some_and(|columns| columns.len() != different.len() || columns.is_empty()) {
            return Err(format!("projection {} has no columns, or one twice", self.name));
        }
        if let Some(gone) = columns.into_iter().find(|id| table.column_by_id(**id).is_none()) {
            return Err(format!("projection {} has column number {gone}, which its table lacks", self.name));
        }
        let is_there = |(of, column): (TableId, ColumnId)| match of == table.id {
            true => table.column_by_id(column).is_some(),
            false => catalog.table_by_id(of).is_some_and(|other| other.column_by_id(column).is_some()),
        };
        for key in &self.order {
            if !key.columns(table.id).all(is_there) {
                return Err(format!("projection {} is ordered by a column that is not there", self.name));
            }
            let own = key.own_column();
            if !self.has(own) {
                let name = table.column_by_id(own).map_or("", |(_, column)| column.name.as_str());
                return Err(format!("projection {} is ordered by column {name}, which it does not have", self.name));
            }
        }
        Ok(())
    }
}

impl Table {
    /// The projection of this name.
    pub fn projection_named(&self, name: &str) -> Option<&Projection> {
        self.projections.iter().find(|projection| names_equal(&projection.definition.name, name))
    }

    /// The projection with this id.
    pub fn projection_by_id(&self, id: ProjectionId) -> Option<&Projection> {
        self.projections.iter().find(|projection| projection.definition.id == id)
    }

    /// The lists of segments of the table and of all its projections.
    pub(crate) fn segment_lists(&self) -> impl Iterator<Item = (ProjectionId, &SegmentList)> {
        let copies = self.projections.iter().map(|copy| (copy.definition.id, &copy.segments));
        std::iter::once((ProjectionId::TABLE, &self.segments)).chain(copies)
    }

    /// The list of segments of a copy of the table's rows.
    fn segment_list(&self, copy: ProjectionId) -> Option<&SegmentList> {
        self.segment_lists().find(|(own, _)| *own == copy).map(|(_, list)| list)
    }

    /// How many segments a copy's list has at its beginning in common with that of `other`, which is the table at another time.
    pub(crate) fn common_prefix(&self, copy: ProjectionId, other: &Self) -> usize {
        let lists = self.segment_list(copy).zip(other.segment_list(copy));
        lists.map_or(0, |(own, others)| own.common_prefix(others))
    }

    /// The segments of all copies, but for those at the beginning of their lists that `other`, the table at another time, has there, too.
    pub(crate) fn segments_apart<'t>(&'t self, other: &'t Self) -> impl Iterator<Item = &'t Arc<Segment>> {
        self.segment_lists().flat_map(|(copy, list)| list.iter().skip(self.common_prefix(copy, other)))
    }

    /// The segments of the table and of all its projections.
    pub fn all_segments(&self) -> impl Iterator<Item = &Arc<Segment>> {
        let copies = self.projections.iter().flat_map(|projection| &projection.segments);
        self.segments.iter().chain(copies)
    }
}

/// The row of a table's projections, of which there are some.
pub(crate) fn encode(projections: &[Projection]) -> Writer {
    let mut row = Writer::default();
    row.count(projections.len());
    for Projection { definition, .. } in projections {
        row.u32(definition.id.0);
        row.blob(definition.name.as_bytes());
        row.count(definition.order.len());
        for key in &definition.order {
            row.count(key.hops.len());
            for hop in &key.hops {
                row.u32(hop.column.0);
                row.u64(hop.table.0);
                row.u32(hop.key.0);
            }
            row.u32(key.column.0);
        }
        row.u8(if definition.columns.is_none() { ALL_COLUMNS } else { SOME_COLUMNS });
        if let Some(columns) = &definition.columns {
            row.count(columns.len());
            columns.iter().for_each(|column| row.u32(column.0));
        }
    }
    row
}

/// The projections of such a row, without segments. Whether they fit their table is for the caller to check.
pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Vec<Projection>> {
    let count = reader.count(PROJECTION_LEAST_BYTES)?;
    let mut projections: Vec<Projection> = Vec::with_capacity(count);
    for _ in 0..count {
        let (id, name) = (ProjectionId(reader.u32()?), reader.text()?);
        let order = (0..reader.count(8)?).map(|_| decode_key(reader)).collect::<Result<_>>()?;
        let columns = match reader.u8()? {
            ALL_COLUMNS => None,
            SOME_COLUMNS => {
                Some((0..reader.count(4)?).map(|_| reader.u32().map(ColumnId)).collect::<Result<Vec<_>>>()?)
            }
            _ => return Err(reader.wrong("the columns of a projection are of an unknown kind")),
        };
        let is_known = projections.iter().any(|known| {
            let known = &known.definition;
            known.id >= id || names_equal(&known.name, &name)
        });
        if is_known || id == ProjectionId::TABLE {
            return Err(reader.wrong("its projections are not in order, or two have the same name"));
        }
        let definition = Arc::new(ProjectionDefinition { id, name, order, columns });
        projections.push(Projection { definition, segments: SegmentList::default() });
    }
    match (1..=limits::TABLE_PROJECTIONS).contains(&count) {
        true => Ok(projections),
        false => Err(reader.wrong("it has no projections, or too many")),
    }
}

fn decode_key(reader: &mut Reader<'_>) -> Result<OrderKey> {
    let hop = |reader: &mut Reader<'_>| {
        Ok(Hop { column: ColumnId(reader.u32()?), table: TableId(reader.u64()?), key: ColumnId(reader.u32()?) })
    };
    let hops = (0..reader.count(HOP_BYTES)?).map(|_| hop(reader)).collect::<Result<_>>()?;
    Ok(OrderKey { hops, column: ColumnId(reader.u32()?) })
}

#[cfg(test)]
mod tests;
