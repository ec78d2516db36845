//! What the process has of memory beside the account: plans, code, batches on their way, what the allocator holds on to.
//!
//! Nobody reserves that. Where the process does nothing but the database's work it is measured instead, and held in the account
//! like the rest, so that chunks that are kept make room for it. Invariant: it takes no more of the account than queries leave to
//! others, so that no query fails for it. Must not know: how memory is measured, and when.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use forebay_base::Budget;
use forebay_base::budget::{Backing, Reservation};

use super::{CHUNKS_PART, ChunkPools, figures};
use crate::Engine;

/// What is held for the rest of the process, once that was measured.
#[derive(Debug, Default)]
pub(super) struct Rest(Mutex<Option<Reservation>>);

impl Rest {
    /// The process has so many bytes, those of the account among them; gives whether the rest is another than before.
    fn measured(&self, budget: &Budget, process_bytes: usize) -> bool {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let most_bytes = budget.total_bytes() / CHUNKS_PART;
        let held = held.get_or_insert_with(|| budget.client(figures::REST, most_bytes, Backing::System).nothing());
        let before = held.bytes();
        let others = (budget.held_bytes() + budget.kept_bytes()).saturating_sub(before);
        held.follow_in_any_case(process_bytes.saturating_sub(others).min(most_bytes));
        held.bytes() != before
    }
}

impl ChunkPools {
    fn measured(&self, process_bytes: usize) {
        if self.rest.measured(&self.budget, process_bytes) {
            self.keep_what_is_left();
        }
    }
}

/// Takes note of what the process has, as long as there is a database. It keeps nothing of that open.
#[derive(Debug)]
pub struct ProcessCounter(Weak<ChunkPools>);

impl ProcessCounter {
    /// The process, which does nothing but this database's work, has so many bytes of memory at the moment: what is not in the
    /// database's account counts there from now on, until it is measured again. False where there is no database any more.
    pub fn count(&self, process_bytes: usize) -> bool {
        let pools = self.0.upgrade();
        pools.is_some_and(|pools| {
            pools.measured(process_bytes);
            true
        })
    }
}

impl Engine {
    /// Who is told what the process has.
    pub fn process_counter(&self) -> ProcessCounter {
        ProcessCounter(Arc::downgrade(&self.memory().chunks))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryShares;
    use crate::memory::Memory;

    const MB: usize = 1 << 20;

    #[test]
    fn what_nobody_reserves_is_held_for_the_process() {
        let memory = Memory::new(MemoryShares::alone(256 * MB));
        let budget = &memory.chunks.budget;
        assert_eq!(memory.cache().budget_bytes(), 224 * MB);
        let statement = memory.open_account("SELECT 1");
        let held = statement.reserve(50 * MB).expect("in budget");
        memory.chunks.measured(90 * MB);
        let rest = || budget.figures().iter().find(|client| &*client.name == figures::REST).map(|one| one.held_bytes);
        assert!(rest().is_some_and(|bytes| (40 * MB..44 * MB).contains(&bytes)), "{:?}", rest());
        assert!(memory.cache().budget_bytes() <= 166 * MB, "chunks make room");
        // Memory that was given back may still be there.
        drop(held);
        memory.chunks.measured(90 * MB);
        assert!(rest().is_some_and(|bytes| (40 * MB..44 * MB).contains(&bytes)), "{:?}", rest());
        // However much it is, queries have theirs.
        memory.chunks.measured(1000 * MB);
        assert_eq!(rest(), Some(64 * MB));
        drop(statement.reserve(192 * MB).expect("three quarters"));
        memory.chunks.measured(0);
        assert_eq!(rest(), Some(0));
    }
}
