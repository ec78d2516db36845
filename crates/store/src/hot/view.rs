//! What a catalog sees of hot rows, and the tables that come of it: each with its hot rows as segments behind the others.
//!
//! Invariant: a part belongs to one catalog, and is asked for one table of it: copies of a catalog have parts of their own, and whoever
//! changes tables of one says so before ([`HotView::renew`]). Must not know: how rows are encoded.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, OnceLock};

use forebay_base::{SegmentId, TableId};
use forebay_hot::{HotTable, RowId, Snapshot, TransactionId, View};

use super::image::Images;
use super::{Deletions, HotRows};
use crate::deleted::DeletedRows;
use crate::table_snapshot::TableSnapshot;
use crate::volume::{Volume, locked};

/// Versions of tables with hot rows lie above those that commits give to tables: nobody takes one for the other. Behind this bit is
/// the number of the commit; all ones for what a transaction sees that has changed hot rows itself.
const HOT_VERSION: u64 = 1 << 62;
const OWN_VERSION: u64 = u64::MAX >> 1;

/// The hot rows that a catalog sees.
#[derive(Default)]
pub(crate) struct HotView {
    /// `None` of a catalog that was never visible.
    snapshot: Option<Arc<Snapshot>>,
    parts: BTreeMap<TableId, HotPart>,
}

/// The hot rows of one table.
#[derive(Debug)]
struct HotPart {
    rows: Arc<SeenRows>,
    table: OnceLock<Arc<TableSnapshot>>,
}

/// Hot rows of a table at a snapshot.
#[derive(Debug)]
struct SeenRows {
    rows: HotRows,
    snapshot: Arc<Snapshot>,
    own: Option<TransactionId>,
    volume: Arc<Volume>,
    /// Shared by snapshots between which no row has changed.
    images: Arc<OnceLock<Images>>,
    /// Those of an older snapshot, until these are made.
    earlier: Mutex<Option<Arc<OnceLock<Images>>>>,
    /// Deleted rows of segments.
    deleted: Arc<OnceLock<BTreeMap<SegmentId, DeletedRows>>>,
}

impl SeenRows {
    fn view(&self) -> View<'_> {
        match self.own {
            None => self.snapshot.view(),
            Some(own) => self.snapshot.view_of(own),
        }
    }

    /// The same, but that what is found out from now on is not shared.
    fn apart(&self) -> Self {
        fn known<T>(shared: &Arc<OnceLock<T>>) -> Arc<OnceLock<T>> {
            if shared.get().is_some() { Arc::clone(shared) } else { Arc::default() }
        }
        Self { images: known(&self.images), deleted: known(&self.deleted), ..self.same_images() }
    }

    /// The same hot rows, of whose deletions nothing is known.
    fn same_images(&self) -> Self {
        let Self { rows, snapshot, own, volume, images, earlier, .. } = self;
        Self {
            rows: rows.clone(),
            snapshot: Arc::clone(snapshot),
            own: *own,
            volume: Arc::clone(volume),
            images: Arc::clone(images),
            earlier: Mutex::new(locked(earlier).clone()),
            deleted: Arc::default(),
        }
    }

    /// Rows of segments that are not there any more.
    fn deleted(&self) -> &BTreeMap<SegmentId, DeletedRows> {
        self.deleted.get_or_init(|| {
            let (deleted, _) = self.rows.deletions.seen(self.view()).expect("deletions in memory can be read");
            deleted
        })
    }

    /// The last images that were made of this snapshot or of older ones.
    fn last_images(&self) -> Option<Arc<OnceLock<Images>>> {
        match self.images.get() {
            Some(_) => Some(Arc::clone(&self.images)),
            None => locked(&self.earlier).clone(),
        }
    }
}

impl HotPart {
    /// Those that a snapshot or its transaction sees, which `before` saw as they were at the same time or before.
    fn new(
        rows: HotRows,
        snapshot: &Arc<Snapshot>,
        own: Option<TransactionId>,
        volume: &Arc<Volume>,
        before: Option<&Self>,
    ) -> Self {
        let (snapshot, volume, images) = (Arc::clone(snapshot), Arc::clone(volume), Arc::default());
        let earlier = Mutex::new(before.and_then(|before| before.rows.last_images()));
        Self::of(Arc::new(SeenRows { rows, snapshot, own, volume, images, earlier, deleted: Arc::default() }))
    }

    /// The same rows at another snapshot, between which and this one none has changed.
    fn unchanged(&self, snapshot: &Arc<Snapshot>) -> Self {
        Self::of(Arc::new(SeenRows {
            snapshot: Arc::clone(snapshot),
            deleted: Arc::clone(&self.rows.deleted),
            ..self.rows.same_images()
        }))
    }

    fn of(rows: Arc<SeenRows>) -> Self {
        Self { rows, table: OnceLock::new() }
    }

    /// The segments of the rows that it sees; made when they are first asked for.
    fn images(&self, frozen: &TableSnapshot) -> &Images {
        let SeenRows { rows, volume, images, earlier, .. } = &*self.rows;
        images.get_or_init(|| {
            let earlier = locked(earlier).take();
            let earlier = earlier.as_ref().and_then(|images| images.get());
            Images::of(&rows.rows, self.rows.view(), frozen, volume, earlier)
                .expect("rows that were taken in can be encoded in memory")
        })
    }
}

impl Clone for HotView {
    fn clone(&self) -> Self {
        let part = |(id, part): (&TableId, &HotPart)| {
            // What a transaction has changed it may change again: what nobody has looked at yet is not what the copy will see.
            let is_open = part.rows.own.is_some();
            (*id, HotPart::of(if is_open { Arc::new(part.rows.apart()) } else { Arc::clone(&part.rows) }))
        };
        Self { snapshot: self.snapshot.clone(), parts: self.parts.iter().map(part).collect() }
    }
}

impl std::fmt::Debug for HotView {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.parts.keys()).finish()
    }
}

impl HotView {
    /// What a snapshot sees of these tables. Of those that are not `changed` since `before`, what was found out stays.
    pub(super) fn new(
        snapshot: Arc<Snapshot>,
        tables: impl Iterator<Item = (TableId, HotRows)>,
        before: &Self,
        changed: &BTreeSet<TableId>,
        volume: &Arc<Volume>,
    ) -> Self {
        let part = |(id, rows): (TableId, HotRows)| {
            let known = before.parts.get(&id).filter(|known| known.rows.own.is_none());
            let part = match known.filter(|_| !changed.contains(&id)) {
                Some(known) => known.unchanged(&snapshot),
                None => HotPart::new(rows, &snapshot, None, volume, known),
            };
            (id, part)
        };
        let parts = tables.map(part).collect();
        Self { snapshot: Some(snapshot), parts }
    }

    /// The moment that it sees.
    pub(crate) fn snapshot(&self) -> Option<&Arc<Snapshot>> {
        self.snapshot.as_ref()
    }

    /// The table as the catalog sees it that has these segments of it.
    pub(crate) fn table<'t>(&'t self, frozen: &'t Arc<TableSnapshot>) -> &'t Arc<TableSnapshot> {
        let Some(part) = self.parts.get(&frozen.id) else { return frozen };
        part.table.get_or_init(|| {
            let (images, deleted) = (part.images(frozen), part.rows.deleted());
            if images.segments().next().is_none() && deleted.is_empty() {
                return Arc::clone(frozen);
            }
            let mut seen = TableSnapshot::clone(frozen);
            if !deleted.is_empty() {
                seen.edit().segments.hide(deleted);
            }
            seen.append(images.segments());
            seen.set_version(match part.rows.own {
                None => HOT_VERSION | part.rows.snapshot.number(),
                Some(_) => OWN_VERSION,
            });
            Arc::new(seen)
        })
    }

    /// Whether it sees hot rows of a table.
    pub(crate) fn has_rows(&self, table: TableId) -> bool {
        self.parts.get(&table).is_some_and(|part| {
            let HotRows { rows, deletions, .. } = &part.rows.rows;
            [rows, &deletions.rows].iter().any(|rows| rows.count(part.rows.view()) > 0)
        })
    }

    /// The hot rows of a table.
    pub(crate) fn rows(&self, table: TableId) -> Option<&HotTable> {
        self.parts.get(&table).map(|part| &part.rows.rows.rows)
    }

    /// The same with indexes and deletions.
    pub(crate) fn hot_rows(&self, table: TableId) -> Option<&HotRows> {
        self.parts.get(&table).map(|part| &part.rows.rows)
    }

    /// Rows of a table's segments that transactions have deleted one by one.
    pub(crate) fn deletions(&self, table: TableId) -> Option<&Deletions> {
        self.parts.get(&table).map(|part| &part.rows.rows.deletions)
    }

    /// The segments of a table's hot rows, and which rows those are, in their order.
    pub(crate) fn images(&self, frozen: &TableSnapshot) -> impl Iterator<Item = (SegmentId, &[RowId])> {
        let images = self.parts.get(&frozen.id).map(|part| part.images(frozen));
        images.into_iter().flat_map(Images::rows)
    }

    /// From now on sees what a transaction has made of a table's hot rows, too, which it has just changed.
    pub(crate) fn see_own(&mut self, id: TableId, rows: &HotRows, own: TransactionId, volume: &Arc<Volume>) {
        let is_new = |part: &mut HotPart| {
            let is_own = part.rows.own == Some(own);
            is_own && part.rows.images.get().is_none() && part.table.get().is_none()
        };
        if self.parts.get_mut(&id).is_some_and(is_new) {
            return;
        }
        let Some(snapshot) = &self.snapshot else { return };
        let part = HotPart::new(rows.clone(), snapshot, Some(own), volume, self.parts.get(&id));
        self.parts.insert(id, part);
    }

    /// The same where it has changed nothing but which rows of segments are deleted.
    pub(crate) fn see_own_deletions(&mut self, id: TableId, rows: &HotRows, own: TransactionId, volume: &Arc<Volume>) {
        let Some(part) = self.parts.get_mut(&id) else { return self.see_own(id, rows, own, volume) };
        let is_known = part.rows.own != Some(own) || part.rows.deleted.get().is_some() || part.table.get().is_some();
        if is_known {
            *part = HotPart::of(Arc::new(SeenRows { own: Some(own), ..part.rows.same_images() }));
        }
    }

    /// The same moment, as a transaction sees it that has changed these tables' hot rows.
    pub(crate) fn with_own(
        &self,
        own: TransactionId,
        of: &Self,
        tables: &BTreeSet<TableId>,
        volume: &Arc<Volume>,
    ) -> Self {
        let mut view = self.clone();
        for id in tables {
            if let Some(part) = of.parts.get(id) {
                view.see_own(*id, &part.rows.rows, own, volume);
            }
        }
        view
    }

    /// Tables of the catalog are about to change.
    pub(crate) fn renew(&mut self) {
        self.parts.values_mut().for_each(|part| part.table = OnceLock::new());
    }
}
