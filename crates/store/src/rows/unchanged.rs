//! What two catalogs share, so that a commit writes what it has changed only.
//!
//! Must not know: how rows are encoded.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use forebay_base::{ProjectionId, SegmentId, TableId};

use super::segments::Place;
use crate::catalog::{Catalog, Table};
use crate::deleted::RowBits;
use crate::segment::Segment;

/// What two catalogs share, and whose rows are therefore the same.
#[derive(Debug, Default)]
pub(super) struct Unchanged {
    pub(super) tables: HashSet<TableId>,
    /// By copy of another table's rows: so many segments at the beginning of its list.
    prefixes: HashMap<(TableId, ProjectionId), usize>,
    /// Segments behind these, with their places.
    pub(super) segments: HashSet<(Place, *const Segment)>,
    /// Blocks of other segments of which the same rows are deleted.
    pub(super) blocks: HashSet<(SegmentId, u32)>,
}

impl Unchanged {
    pub(super) fn between(before: &Catalog, now: &Catalog) -> Self {
        let mut unchanged = Self::default();
        for (id, table) in &now.objects.tables {
            match before.objects.tables.get(id) {
                Some(other) if Arc::ptr_eq(table, other) => drop(unchanged.tables.insert(*id)),
                Some(other) => {
                    let copies = table.segment_lists().map(|(copy, _)| copy);
                    unchanged.prefixes.extend(copies.map(|copy| ((*id, copy), table.common_prefix(copy, other))));
                    let segments = |table| placed(table, &unchanged).map(|(place, own)| (place, Arc::as_ptr(own)));
                    let old: HashSet<_> = segments(other).collect();
                    let both: Vec<_> = segments(table).filter(|segment| old.contains(segment)).collect();
                    let changed: Vec<_> = placed(table, &unchanged).map(|(_, own)| own).collect();
                    let others: HashMap<SegmentId, &Arc<Segment>> =
                        placed(other, &unchanged).map(|(_, own)| (own.id(), own)).collect();
                    let same = changed.into_iter().filter_map(|own| Some((own, *others.get(&own.id())?)));
                    let blocks = same.flat_map(|(own, other)| {
                        let deleted = own.deleted().blocks();
                        let is_same = |(block, rows): &(u32, &Arc<RowBits>)| {
                            other.deleted().of_block(*block).is_some_and(|before| Arc::ptr_eq(rows, before))
                        };
                        deleted.filter(is_same).map(|(block, _)| (own.id(), block)).collect::<Vec<_>>()
                    });
                    let blocks: Vec<_> = blocks.collect();
                    unchanged.blocks.extend(blocks);
                    unchanged.segments.extend(both);
                }
                None => {}
            }
        }
        unchanged
    }
}

/// Segments of all copies of a table but the unchanged ones at their beginning, with their places.
pub(super) fn placed<'t>(table: &'t Table, unchanged: &Unchanged) -> impl Iterator<Item = (Place, &'t Arc<Segment>)> {
    let id = table.id;
    table.segment_lists().flat_map(move |(copy, segments)| {
        let prefix = unchanged.prefixes.get(&(id, copy)).copied().unwrap_or(0);
        let place = move |position| Place { table: id, copy, position };
        segments.places().skip(prefix).map(move |(position, segment)| (place(position), segment))
    })
}
