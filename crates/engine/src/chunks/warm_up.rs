//! Fills the memory for chunks while the disk has nothing else to do, with what the last process found worth keeping.
//!
//! Chunks are read one by one, and only while no query has reads on their way. Invariants: no answer depends on it; whatever fails
//! here is left to the queries that need it; the thread ends with the database. Must not know: how goals are found.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use forebay_base::Result;
use forebay_block::BlockSet;
use forebay_cache::{Goals, PolicyKind};
use forebay_store::Table;

use super::{Costs, Engine, Place, WantedChunk};
use crate::read_ahead::ReadAhead;
use crate::{Metrics, ScanSettings};

/// How long it waits before it looks again whether the disk is idle.
const LOOK: Duration = Duration::from_millis(5);

/// Threads that an engine has in the background.
#[derive(Debug, Default)]
pub(crate) struct Threads {
    are_over: AtomicBool,
    running: Mutex<Vec<JoinHandle<()>>>,
}

/// What an engine does in the background. Dropped, it ends, and then nothing of it has the database any more, which may be opened
/// again.
#[derive(Debug)]
pub struct Background(Arc<Threads>);

impl Drop for Background {
    fn drop(&mut self) {
        self.0.are_over.store(true, Ordering::Relaxed);
        let running = std::mem::take(&mut *self.0.running.lock().unwrap_or_else(PoisonError::into_inner));
        // One that panicked has ended, too.
        running.into_iter().for_each(|thread| drop(thread.join()));
    }
}

impl Engine {
    /// What it does in the background.
    pub fn background(&self) -> Background {
        Background(Arc::clone(&self.threads))
    }
}

/// An engine, as long as it may be used in the background.
struct Borrowed {
    engine: Weak<Engine>,
    threads: Arc<Threads>,
}

impl Borrowed {
    fn get(&self) -> Option<Arc<Engine>> {
        self.engine.upgrade().filter(|_| !self.threads.are_over.load(Ordering::Relaxed))
    }
}

/// Begins to fill the memory for these goals in the background.
pub(super) fn begin(engine: &Arc<Engine>, goals: Goals) {
    if goals.is_empty() {
        return;
    }
    let borrowed = Borrowed { engine: Arc::downgrade(engine), threads: Arc::clone(&engine.threads) };
    let thread = thread::Builder::new().name("warm-up".to_owned()).spawn(move || fill(&borrowed, &goals));
    // Where there can be no thread the queries read what they need.
    if let Ok(thread) = thread {
        let mut running = engine.threads.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.retain(|thread| !thread.is_finished());
        running.push(thread);
    }
}

fn fill(engine: &Borrowed, goals: &Goals) {
    let Some(catalog) = engine.get().map(|engine| engine.store().catalog()) else { return };
    let mut tables: Vec<_> = goals.keys().map(|key| key.table).collect();
    tables.dedup();
    for table in tables.into_iter().filter_map(|id| catalog.table_by_id(id)) {
        if fill_table(engine, table, goals).is_err() {
            return;
        }
    }
}

/// Reads what is to stay of a table. Row group by row group, since scans read all their columns of one. An error where it cannot go on.
fn fill_table(engine: &Borrowed, table: &Table, goals: &Goals) -> Result<()> {
    let wanted: Vec<usize> = (0..table.columns.len())
        .filter(|column| goals.keys().any(|key| key.table == table.id && key.column == table.columns[*column].id))
        .collect();
    let mut first_block = 0;
    for (number, segment) in table.segments.iter().enumerate() {
        for (group, layout) in segment.groups()?.iter().enumerate() {
            let mut blocks = 0;
            for column in &wanted {
                let Some(index) = segment.column_index(table.columns[*column].id) else { continue };
                let column_layout = &layout.columns[index];
                for chunk in 0..column_layout.chunks.len() {
                    let in_chunk = column_layout.blocks_of(chunk);
                    let blocks = BlockSet::first(in_chunk.len());
                    let place = Place::new(table, *column, (number, group), (index, chunk), blocks);
                    let (source, ordinal) = (&table.columns[*column], first_block + in_chunk.start);
                    let (physical, name) = (source.logical.physical(), source.name.as_str());
                    let wanted = WantedChunk { place, physical, name, kept_at_once_bytes: 0, ordinal };
                    let Some(engine) = while_idle(engine) else { return Ok(()) };
                    engine.warm(segment, &wanted, &table.full_name())?;
                }
                blocks = column_layout.zones.len();
            }
            first_block += blocks;
        }
    }
    Ok(())
}

/// The engine, once no query has reads on their way; `None` where it is gone, or has no use for this any more.
fn while_idle(engine: &Borrowed) -> Option<Arc<Engine>> {
    loop {
        let engine = engine.get()?;
        if engine.cache().policy_kind() != PolicyKind::Proportional {
            return None;
        }
        if engine.memory().stored_bytes() == 0 {
            return Some(engine);
        }
        drop(engine);
        thread::sleep(LOOK);
    }
}

impl Engine {
    /// Reads a chunk if it is to stay and is not there.
    fn warm(&self, segment: &forebay_store::Segment, wanted: &WantedChunk<'_>, table: &str) -> Result<()> {
        if self.goal_of(wanted).is_none() || self.is_cached(&wanted.place) {
            return Ok(());
        }
        let (metrics, settings) = (Metrics::default(), ScanSettings::default());
        let costs = Costs { metrics: &metrics, timeline: None };
        let how = (table, &settings);
        self.chunks(segment, std::slice::from_ref(wanted), &ReadAhead::default(), how, costs).map(drop)
    }
}
