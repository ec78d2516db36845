//! What the memory of a database is for, and how much of it is taken, as it is shown.
//!
//! Must not know: how that is decided.

use std::collections::BTreeMap;
use std::sync::Arc;

use forebay_base::budget::{ClientFigures, Tier};

use super::ChunkPools;
use crate::Engine;

pub(super) const READ_BUFFERS: &str = "read buffers";
pub(super) const INFLATED_CHUNKS: &str = "inflated chunks";
pub(super) const QUERIES: &str = "queries";
pub(super) const HOT_ROWS: &str = "hot rows";
pub(super) const REST: &str = "rest of the process";

/// What a part of a database's memory is for, and how much of it is taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryUse {
    /// What it is a part of.
    pub tier: Tier,
    /// Who holds it: a part of the program, or the text of a statement, or what that does.
    pub holder: Arc<str>,
    /// The holder that this one is a part of.
    pub part_of: Option<Arc<str>>,
    /// Bytes that it may have.
    pub limit_bytes: usize,
    /// Bytes that it has.
    pub held_bytes: usize,
    /// Of these, bytes that hold something at the moment, where that is known; the rest is there to be used again.
    pub used_bytes: Option<usize>,
    /// The most bytes that it ever had, where that is known.
    pub peak_bytes: Option<usize>,
}

impl MemoryUse {
    fn of_process(holder: &str, limit_bytes: usize, held_bytes: usize) -> Self {
        Self {
            tier: Tier::Process,
            holder: holder.into(),
            part_of: None,
            limit_bytes,
            held_bytes,
            used_bytes: None,
            peak_bytes: None,
        }
    }
}

impl Engine {
    /// The account that the database's memory comes from: its parts, what the cache has of the inflated chunks, what the allocator
    /// has of what queries gave back, and all together; then the statements that hold something or have something set aside, each
    /// before its operators.
    pub fn memory_use(&self) -> Vec<MemoryUse> {
        let ChunkPools { budget, stored, inflated, cache, .. } = &*self.memory().chunks;
        let total_bytes = budget.total_bytes();
        let used = BTreeMap::from([(READ_BUFFERS, stored), (INFLATED_CHUNKS, inflated)]);
        let of_client = |client: ClientFigures| {
            let pool = used.get(&*client.name).filter(|_| client.tier == Tier::Process);
            MemoryUse {
                tier: client.tier,
                part_of: client.part_of,
                limit_bytes: client.limit_bytes.min(total_bytes),
                held_bytes: client.held_bytes,
                used_bytes: pool.map(|pool| pool.in_use_bytes() + client.overdrawn_bytes),
                peak_bytes: Some(client.peak_bytes),
                holder: client.name,
            }
        };
        let is_shown = |client: &ClientFigures| {
            client.tier == Tier::Process || client.held_bytes > 0 || client.set_aside_bytes > 0
        };
        let clients: Vec<_> = budget.figures().into_iter().filter(is_shown).map(of_client).collect();
        let (mut all, statements): (Vec<_>, Vec<_>) =
            clients.into_iter().partition(|client| client.tier == Tier::Process);
        let kept_bytes = budget.kept_bytes();
        // Of what was seen, whatever became of it meanwhile.
        let held_bytes: usize = all.iter().map(|client| client.held_bytes).sum();
        let mut cached = MemoryUse::of_process("chunks that are kept", cache.budget_bytes(), cache.held_bytes());
        cached.part_of = Some(INFLATED_CHUNKS.into());
        all.push(cached);
        all.push(MemoryUse::of_process("freed by queries", total_bytes, kept_bytes));
        all.push(MemoryUse::of_process("all", total_bytes, held_bytes + kept_bytes));
        all.extend(statements);
        all
    }
}
