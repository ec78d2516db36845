//! The scans that run: another one of the same rows may begin where one of them is, so that what is read serves both (cooperative
//! scans).
//!
//! Invariants: a scan that begins elsewhere takes every morsel once; who takes morsels sees the same start. Must not know: what is
//! made of rows (whoever scans says that their order does not matter).

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use forebay_base::ColumnId;
use forebay_cache::ColumnKey;
use forebay_store::BlockLayout;

use super::Scan;
use crate::chunks::is_small;
use crate::morsel::Morsel;

/// A scan that has fewer than one in so many of its morsels left is not joined.
const LEAST_LEFT: usize = 8;

/// The scans that run.
#[derive(Debug, Default)]
pub(crate) struct RunningScans {
    scans: Mutex<Vec<Weak<Running>>>,
    /// Whether there is more than one.
    are_several: AtomicBool,
}

/// A scan that runs.
#[derive(Debug)]
struct Running {
    /// The table's rows: those of one snapshot have the same.
    layout: Arc<BlockLayout>,
    columns: Vec<ColumnKey>,
    /// The number of its first morsel.
    start: usize,
    /// Its morsels.
    count: usize,
    /// How many it has taken.
    taken: AtomicUsize,
    all: Arc<RunningScans>,
}

/// What a scan is among those that run, once it does.
#[derive(Debug, Default)]
pub(super) struct Place(OnceLock<Option<Arc<Running>>>);

impl RunningScans {
    /// Whether another scan than this one will read this chunk of a column, as far as is known: it reads the column.
    pub(crate) fn are_several_of(&self, column: ColumnKey) -> bool {
        let reads = |scan: &Arc<Running>| scan.columns.contains(&column) && scan.left() > 0;
        self.are_several.load(Ordering::Relaxed) && self.running().iter().filter(|scan| reads(scan)).count() > 1
    }

    fn running(&self) -> Vec<Arc<Running>> {
        self.lock().iter().filter_map(Weak::upgrade).collect()
    }

    fn add(&self, scan: &Arc<Running>) {
        let mut scans = self.lock();
        scans.push(Arc::downgrade(scan));
        self.are_several.store(scans.len() > 1, Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Weak<Running>>> {
        // Every change leaves the list whole.
        self.scans.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Running {
    fn left(&self) -> usize {
        self.count.saturating_sub(self.taken.load(Ordering::Relaxed))
    }

    /// The number of the morsel that it takes next.
    fn next(&self) -> usize {
        (self.start + self.taken.load(Ordering::Relaxed)) % self.count.max(1)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let mut scans = self.all.lock();
        // This one has gone already.
        scans.retain(|scan| scan.strong_count() > 0);
        self.all.are_several.store(scans.len() > 1, Ordering::Relaxed);
    }
}

impl Scan {
    /// Has the scan begin where another one of the same rows is that reads some of its columns, if there is one. The order of its
    /// rows does not matter to whoever says this, before any morsel is taken.
    pub fn join_others(&self) {
        self.place.0.get_or_init(|| self.enter(true));
    }

    fn enter(&self, joins: bool) -> Option<Arc<Running>> {
        // Of a small table all is kept at its first read.
        if self.is_ranged || is_small(&self.table) {
            return None;
        }
        let scans = self.engine.running_scans();
        let columns = self.all_columns().into_iter().map(|column| ColumnKey { table: self.table.id, column }).collect();
        let count = self.morsels.len();
        let mut running = Running {
            layout: Arc::clone(&self.layout),
            columns,
            start: 0,
            count,
            taken: AtomicUsize::new(0),
            all: Arc::clone(scans),
        };
        let is_met = |other: &Arc<Running>| {
            Arc::ptr_eq(&other.layout, &running.layout)
                && other.count == count
                && other.left() >= count / LEAST_LEFT
                && other.columns.iter().any(|column| running.columns.contains(column))
        };
        let met = if joins { scans.running().into_iter().find(is_met) } else { None };
        running.start = met.map_or(0, |other| other.next());
        let running = Arc::new(running);
        scans.add(&running);
        Some(running)
    }

    /// The columns that it reads or may read, in their order.
    pub(super) fn all_columns(&self) -> Vec<ColumnId> {
        let foreseen = self.reads.foreseen_columns();
        let id = |column: usize| self.table.columns[column].id;
        let mut columns: Vec<ColumnId> = self.columns.iter().copied().chain(foreseen).map(id).collect();
        columns.sort_unstable();
        columns.dedup();
        columns
    }

    /// The number of morsels.
    pub fn morsels(&self) -> usize {
        self.morsels.len()
    }

    /// The morsel with this number.
    pub(crate) fn morsel(&self, number: usize) -> Morsel {
        self.morsels[number]
    }

    /// The morsel that is taken as the one with this number, from 0 on.
    pub(super) fn morsel_taken(&self, number: usize) -> Option<Morsel> {
        let start = self.place.0.get().and_then(Option::as_ref).map_or(0, |running| running.start);
        let count = self.morsels.len();
        (number < count).then(|| self.morsels[(start + number) % count])
    }

    /// The next morsel that no worker has taken.
    pub fn next_morsel(&self) -> Option<Morsel> {
        let number = self.cursor.fetch_add(1, Ordering::Relaxed);
        if number == 0 {
            self.account_ruled_out_morsels();
        }
        if let Some(running) = self.place.0.get_or_init(|| self.enter(false)) {
            running.taken.fetch_max(number + 1, Ordering::Relaxed);
        }
        let morsel = self.morsel_taken(number)?;
        self.tell_progress(morsel);
        Some(morsel)
    }
}
