//! What a catalog sees of hot rows, and the tables that come of it: each with its hot rows as segments behind the others.
//!
//! Invariant: what was found of a table belongs to one catalog: copies of a catalog go on by themselves, and whoever changes tables of
//! one says so before ([`HotView::renew`]). Must not know: how rows are encoded.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use forebay_base::{Result, SegmentId, TableId};
use forebay_hot::{HotTable, Row, RowId, Snapshot, TransactionId, View};

use super::image::Images;
use super::row_bytes::push_row;
use super::rows::DeletedBySegment;
use super::{Deletions, HotRowId, HotRows, KnownTables};
use crate::serial::Writer;
use crate::table_snapshot::TableSnapshot;

/// Versions of tables with hot rows lie above those that commits give to tables: nobody takes one for the other. Behind this bit is
/// the number of the commit; all ones for what a transaction sees that has changed hot rows itself.
const HOT_VERSION: u64 = 1 << 62;
const OWN_VERSION: u64 = u64::MAX >> 1;

/// The hot rows that a catalog sees.
#[derive(Default)]
pub(crate) struct HotView {
    /// `None` of a catalog that was never visible.
    snapshot: Option<Arc<Snapshot>>,
    tables: Arc<KnownTables>,
    /// The transaction that sees its own changes, and the tables of which it has changed hot rows.
    own: Option<(TransactionId, Vec<TableId>)>,
    /// What was found of each table; made when somebody first asks for one.
    seen: OnceLock<BTreeMap<TableId, SeenTable>>,
}

/// The hot rows of one table at one snapshot, as far as somebody has asked.
#[derive(Default)]
struct SeenTable {
    images: OnceLock<Arc<Images>>,
    /// Deleted rows of segments.
    deleted: OnceLock<Arc<DeletedBySegment>>,
    table: OnceLock<Arc<TableSnapshot>>,
}

impl SeenTable {
    /// The same for another catalog.
    fn apart(&self) -> Self {
        Self { images: self.images.clone(), deleted: self.deleted.clone(), table: OnceLock::new() }
    }
}

impl Clone for HotView {
    fn clone(&self) -> Self {
        let seen = OnceLock::new();
        if let Some(known) = self.seen.get() {
            let apart: BTreeMap<_, _> = known.iter().map(|(id, table)| (*id, table.apart())).collect();
            seen.get_or_init(|| apart);
        }
        Self { snapshot: self.snapshot.clone(), tables: Arc::clone(&self.tables), own: self.own.clone(), seen }
    }
}

impl std::fmt::Debug for HotView {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.tables.keys()).finish()
    }
}

impl HotView {
    /// What a snapshot sees of these tables.
    pub(super) fn new(snapshot: Arc<Snapshot>, tables: Arc<KnownTables>) -> Self {
        Self { snapshot: Some(snapshot), tables, own: None, seen: OnceLock::new() }
    }

    /// The moment that it sees.
    pub(crate) fn snapshot(&self) -> Option<&Arc<Snapshot>> {
        self.snapshot.as_ref()
    }

    /// The table as the catalog sees it that has these segments of it.
    pub(crate) fn table<'t>(&'t self, frozen: &'t Arc<TableSnapshot>) -> &'t Arc<TableSnapshot> {
        let Some((rows, seen)) = self.seen(frozen.id) else { return frozen };
        seen.table.get_or_init(|| {
            if !rows.fits(frozen) {
                return Arc::clone(frozen);
            }
            let (images, deleted) = (self.images_of(rows, seen, frozen), self.deleted_of(rows, seen));
            if images.by_chunk().next().is_none() && deleted.is_empty() {
                return Arc::clone(frozen);
            }
            let mut table = TableSnapshot::clone(frozen);
            if !deleted.is_empty() {
                table.edit().segments.hide(deleted);
            }
            images.by_chunk().for_each(|(chunk, segment)| table.insert_of_chunk(chunk, vec![segment]));
            table.set_version(match self.is_own(frozen.id) {
                false => HOT_VERSION | self.number(),
                true => OWN_VERSION,
            });
            Arc::new(table)
        })
    }

    /// Whether it sees hot rows of a table.
    pub(crate) fn has_rows(&self, table: TableId) -> bool {
        self.hot_rows(table).zip(self.view()).is_some_and(|(rows, view)| rows.has_seen(view))
    }

    /// The hot rows of a table.
    pub(crate) fn rows(&self, table: TableId) -> Option<&HotTable> {
        self.hot_rows(table).map(|known| &known.rows)
    }

    /// The same with indexes and deletions.
    pub(crate) fn hot_rows(&self, table: TableId) -> Option<&Arc<HotRows>> {
        self.tables.get(&table)
    }

    /// Adds the bytes of a row; false where it does not see it.
    pub(crate) fn push(&self, (table, row): HotRowId, out: &mut Writer) -> bool {
        let (Some(known), Some(view)) = (self.hot_rows(table), self.view()) else { return false };
        let (hot, mut values) = (known.table_of(row), Row::default());
        let columns: Vec<usize> = (0..hot.types().len()).collect();
        let is_seen = hot.get_held(view, row, &columns, &mut values);
        if is_seen {
            push_row(out, values.cells());
        }
        is_seen
    }

    /// How many rows of these tables it sees, and deletions.
    pub(crate) fn count(&self, is_one: impl Fn(TableId) -> bool) -> usize {
        let Some(view) = self.view() else { return 0 };
        self.tables_of(is_one).map(|(_, rows)| rows.count(view)).sum()
    }

    /// Calls `each` with every row of these tables that it sees, and every deletion, in the order of their numbers.
    ///
    /// # Errors
    /// Those of `each`.
    pub(crate) fn each(
        &self,
        is_one: impl Fn(TableId) -> bool,
        mut each: impl FnMut(HotRowId) -> Result<()>,
    ) -> Result<()> {
        let Some(view) = self.view() else { return Ok(()) };
        for (id, rows) in self.tables_of(is_one) {
            for chunk in rows.chunks() {
                let seen = rows.visible(view, chunk);
                seen.ones().try_for_each(|position| each((id, RowId::new(chunk, position as u16))))?;
            }
        }
        Ok(())
    }

    fn tables_of(&self, is_one: impl Fn(TableId) -> bool) -> impl Iterator<Item = (TableId, &HotTable)> {
        let tables = self.tables.iter().filter(move |(id, _)| is_one(**id));
        tables.flat_map(|(id, known)| [&known.rows, known.deletions.rows()].map(|rows| (*id, rows)))
    }

    /// Rows of a table's segments that transactions have deleted one by one.
    pub(crate) fn deletions(&self, table: TableId) -> Option<&Deletions> {
        self.hot_rows(table).map(|known| &known.deletions)
    }

    /// The segments of a table's hot rows, and which rows those are, in their order.
    pub(crate) fn images(
        &self,
        frozen: &Arc<TableSnapshot>,
    ) -> impl Iterator<Item = (SegmentId, impl Iterator<Item = RowId>)> {
        let seen = self.seen(frozen.id).filter(|(rows, _)| rows.fits(frozen));
        let images = seen.map(|(rows, seen)| self.images_of(rows, seen, frozen));
        images.into_iter().flat_map(Images::rows)
    }

    /// From now on sees what a transaction has made of a table's hot rows, too, which it has just changed.
    pub(crate) fn see_own(&mut self, rows: &Arc<HotRows>, own: TransactionId) {
        if let Some(seen) = self.own_table(rows, own)
            && (seen.images.get().is_some() || seen.deleted.get().is_some() || seen.table.get().is_some())
        {
            *seen = SeenTable::default();
        }
    }

    /// The same where it has changed nothing but which rows of segments are deleted.
    pub(crate) fn see_own_deletions(&mut self, rows: &Arc<HotRows>, own: TransactionId) {
        if let Some(seen) = self.own_table(rows, own) {
            (seen.deleted, seen.table) = (OnceLock::new(), OnceLock::new());
        }
    }

    /// What was found of a table that is one of those from now on of which a transaction sees its own changes; `None` where nobody has asked.
    fn own_table(&mut self, rows: &Arc<HotRows>, own: TransactionId) -> Option<&mut SeenTable> {
        let id = rows.id();
        let (of, tables) = self.own.get_or_insert_with(|| (own, Vec::new()));
        if *of != own {
            (*of, *tables) = (own, Vec::new());
        }
        if !tables.contains(&id) {
            tables.push(id);
            if !self.tables.get(&id).is_some_and(|known| Arc::ptr_eq(known, rows)) {
                Arc::make_mut(&mut self.tables).insert(id, Arc::clone(rows));
            }
        }
        let seen = self.seen.get_mut()?;
        Some(seen.entry(id).or_default())
    }

    /// The same moment, as a transaction sees it that has changed the hot rows of those tables of which `of` sees its own changes.
    pub(crate) fn with_own(&self, own: TransactionId, of: &Self) -> Self {
        let mut view = self.clone();
        for id in of.own.iter().flat_map(|(_, tables)| tables) {
            if let Some(rows) = of.tables.get(id) {
                view.see_own(rows, own);
            }
        }
        view
    }

    /// Tables of the catalog are about to change.
    pub(crate) fn renew(&mut self) {
        for seen in self.seen.get_mut().into_iter().flat_map(BTreeMap::values_mut) {
            seen.table = OnceLock::new();
        }
    }

    fn is_own(&self, table: TableId) -> bool {
        self.own.as_ref().is_some_and(|(_, tables)| tables.contains(&table))
    }

    fn number(&self) -> u64 {
        self.snapshot.as_ref().map_or(0, |snapshot| snapshot.number())
    }

    fn view(&self) -> Option<View<'_>> {
        let snapshot = self.snapshot.as_ref()?;
        Some(match &self.own {
            None => snapshot.view(),
            Some((own, _)) => snapshot.view_of(*own),
        })
    }

    fn seen(&self, table: TableId) -> Option<(&Arc<HotRows>, &SeenTable)> {
        let rows = self.tables.get(&table)?;
        self.snapshot.as_ref()?;
        let new = || self.tables.keys().map(|id| (*id, SeenTable::default())).collect();
        Some((rows, self.seen.get_or_init(new).get(&table)?))
    }

    /// The segments of the rows that it sees; made when they are first asked for.
    fn images_of<'t>(&self, rows: &HotRows, seen: &'t SeenTable, frozen: &TableSnapshot) -> &'t Images {
        seen.images.get_or_init(|| {
            let snapshot = self.snapshot.as_ref().expect("there is a snapshot of what is seen");
            let own = self.own.as_ref().map(|(own, _)| *own).filter(|_| self.is_own(frozen.id));
            Arc::new(rows.images((snapshot, own), frozen).expect("rows of a snapshot that is held can be read"))
        })
    }

    /// Rows of segments that are not there any more.
    fn deleted_of<'t>(&self, rows: &HotRows, seen: &'t SeenTable) -> &'t DeletedBySegment {
        seen.deleted.get_or_init(|| {
            let view = self.view().expect("there is a snapshot of what is seen");
            let deleted = rows.deleted(view, self.number(), self.is_own(rows.id()));
            deleted.expect("deletions in memory can be read")
        })
    }
}
