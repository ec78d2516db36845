//! Who merges the small segments of a table that gather while it is changed, and when again after that has failed.
//!
//! Whoever commits a change merges what has gathered. Where others change the same rows meanwhile, or hot rows lie between the segments, it was
//! in vain, and would be for the next commits, too: so it is tried again only when a pause has passed that is many times as long.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use forebay_base::TableId;

/// The pause after an attempt that failed, in times of its duration: of all time at most so small a part is wasted.
const PAUSE: u32 = 64;

/// The turns of a database's tables.
#[derive(Debug, Default)]
pub struct MergeTurns(Mutex<BTreeMap<TableId, Turn>>);

#[derive(Debug, Clone, Copy)]
enum Turn {
    /// Somebody merges its segments.
    Taken,
    /// It has failed.
    NotBefore(Instant),
}

/// The turn to merge a table's segments: what is dropped without [`MergeTurn::done`] has failed.
#[derive(Debug)]
pub struct MergeTurn<'t> {
    turns: &'t MergeTurns,
    table: TableId,
    began: Instant,
    is_done: bool,
}

impl MergeTurns {
    /// The turn of a table, where nobody has it and none has failed just before.
    pub fn take(&self, table: TableId) -> Option<MergeTurn<'_>> {
        let began = Instant::now();
        let mut turns = self.known();
        match turns.get(&table) {
            Some(Turn::Taken) => return None,
            Some(Turn::NotBefore(until)) if began < *until => return None,
            Some(Turn::NotBefore(_)) | None => {}
        }
        turns.insert(table, Turn::Taken);
        Some(MergeTurn { turns: self, table, began, is_done: false })
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<TableId, Turn>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self, table: TableId, pause: Option<Duration>) {
        let until = pause.and_then(|pause| Instant::now().checked_add(pause));
        match until {
            None => self.known().remove(&table),
            Some(until) => self.known().insert(table, Turn::NotBefore(until)),
        };
    }
}

impl MergeTurn<'_> {
    /// All is merged.
    pub fn done(mut self) {
        self.is_done = true;
    }
}

impl Drop for MergeTurn<'_> {
    fn drop(&mut self) {
        let pause = (!self.is_done).then(|| self.began.elapsed().saturating_mul(PAUSE));
        self.turns.end(self.table, pause);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_merges_at_a_time_and_pauses_after_a_failure() {
        let (turns, table, other) = (MergeTurns::default(), TableId(1), TableId(2));
        let turn = turns.take(table).expect("nobody has it");
        assert!(turns.take(table).is_none(), "somebody has it");
        turns.take(other).expect("each table has turns of its own").done();
        turn.done();
        let turn = turns.take(table).expect("it was given back");
        std::thread::sleep(Duration::from_millis(2));
        drop(turn);
        assert!(turns.take(table).is_none(), "it has failed just before");
        std::thread::sleep(Duration::from_millis(2) * PAUSE);
        let begun = Instant::now();
        while turns.take(table).map(MergeTurn::done).is_none() {
            assert!(begun.elapsed() < Duration::from_secs(60), "the pause ends");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
