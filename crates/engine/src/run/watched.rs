//! How far a scan is, for a cache whose policy wants to know what is needed next.
//!
//! Invariant: a scan that was begun to be told of is told to be over, however it ends. Must not know: what the policy makes of it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use forebay_cache::ScanProgress;

use super::Scan;
use crate::chunks::Cache;
use crate::morsel::Morsel;

/// Scans that were told of.
static SCANS: AtomicU64 = AtomicU64::new(0);

/// What the cache was told of a scan, if it was.
#[derive(Debug, Default)]
pub(super) struct Watched(OnceLock<Told>);

#[derive(Debug)]
struct Told {
    cache: Arc<Cache>,
    started: Instant,
    /// As it is when the scan is over.
    end: ScanProgress,
}

impl Drop for Told {
    fn drop(&mut self) {
        self.cache.foresee(&self.end);
    }
}

impl Scan {
    /// Tells the cache that this morsel is being taken, where its policy wants to know.
    pub(super) fn tell_progress(&self, morsel: Morsel) {
        if self.is_ranged || !self.engine.cache().watches_scans() {
            return;
        }
        let told = self.watched.0.get_or_init(|| self.told());
        let position = self.layout.of_group((morsel.segment, morsel.group)).start + morsel.blocks().start;
        // The first one is told before anything is known: a block a millisecond.
        let seconds = told.started.elapsed().as_secs_f64().max(1e-6);
        let speed = if position == 0 { 1e3 } else { position as f64 / seconds };
        let progress = ScanProgress { position: position as u64, speed, is_over: false, ..told.end.clone() };
        self.engine.cache().foresee(&progress);
    }

    fn told(&self) -> Told {
        let columns = self.all_columns();
        let scan = SCANS.fetch_add(1, Ordering::Relaxed);
        let end = ScanProgress { scan, table: self.table.id, columns, position: 0, speed: 1.0, is_over: true };
        Told { cache: Arc::clone(self.engine.cache()), started: Instant::now(), end }
    }
}
