//! The sums of an account: what each client holds and claims, and those above it.
//!
//! A client claims what it holds itself or what is set aside for it, whichever is more, and what those below it claim.
//! Must not know: who asks, locks.

use std::sync::Arc;

use super::{Backing, ClientFigures, Tier};

/// One client.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) tier: Tier,
    pub(super) name: Arc<str>,
    pub(super) backing: Backing,
    pub(super) limit_bytes: usize,
    set_aside_bytes: usize,
    /// Held by the client itself.
    own_bytes: usize,
    /// With those below it.
    pub(super) held_bytes: usize,
    /// With those below it.
    claimed_bytes: usize,
    peak_bytes: usize,
    overdrawn_bytes: usize,
    above: Option<usize>,
    /// Counts clients in the order in which they were made.
    number: u64,
}

impl Entry {
    pub(super) fn new(tier: Tier, name: &str, limit_bytes: usize, backing: Backing) -> Self {
        Self {
            tier,
            name: name.into(),
            backing,
            limit_bytes,
            set_aside_bytes: 0,
            own_bytes: 0,
            held_bytes: 0,
            claimed_bytes: 0,
            peak_bytes: 0,
            overdrawn_bytes: 0,
            above: None,
            number: 0,
        }
    }

    fn own_claim(&self) -> usize {
        self.own_bytes.max(self.set_aside_bytes)
    }
}

/// What is held of the heap, and was.
#[derive(Debug, Default)]
struct Heap {
    held_bytes: usize,
    /// The most of this while, and of the one before.
    peak_bytes: usize,
    peak_before_bytes: usize,
}

impl Heap {
    /// Bytes that the allocator has if so many are held.
    fn taken_bytes(&self, held_bytes: usize) -> usize {
        held_bytes.max(self.peak_bytes).max(self.peak_before_bytes)
    }
}

/// All clients.
#[derive(Debug, Default)]
pub(super) struct Accounts {
    entries: Vec<Option<Entry>>,
    vacant: Vec<usize>,
    made: u64,
    /// Of the system.
    system_bytes: usize,
    heap: Heap,
}

impl Accounts {
    /// Adds a client below another one.
    pub(super) fn open(&mut self, above: Option<usize>, entry: Entry) -> usize {
        self.made += 1;
        let entry = Some(Entry { above, number: self.made, ..entry });
        match self.vacant.pop() {
            Some(index) => {
                self.entries[index] = entry;
                index
            }
            None => {
                self.entries.push(entry);
                self.entries.len() - 1
            }
        }
    }

    /// Takes a client out that holds nothing.
    pub(super) fn close(&mut self, index: usize) {
        self.set_aside(index, 0);
        self.entries[index] = None;
        self.vacant.push(index);
    }

    pub(super) fn entry(&self, index: usize) -> &Entry {
        self.entries[index].as_ref().expect("a client is there as long as somebody has it")
    }

    fn entry_mut(&mut self, index: usize) -> &mut Entry {
        self.entries[index].as_mut().expect("a client is there as long as somebody has it")
    }

    /// A client, and those above it.
    fn path(&self, index: usize) -> impl Iterator<Item = usize> {
        std::iter::successors(Some(index), |index| self.entry(*index).above)
    }

    /// Bytes that all hold together.
    pub(super) fn held_bytes(&self) -> usize {
        self.system_bytes + self.heap.held_bytes
    }

    pub(super) fn kept_bytes(&self) -> usize {
        self.heap.taken_bytes(self.heap.held_bytes) - self.heap.held_bytes
    }

    pub(super) fn forget_kept(&mut self) -> usize {
        let before = self.kept_bytes();
        self.heap.peak_before_bytes = self.heap.peak_bytes;
        self.heap.peak_bytes = self.heap.held_bytes;
        before - self.kept_bytes()
    }

    /// Bytes of the process if a client holds so many more; `None` where that is more than can be counted.
    fn taken_bytes(&self, index: usize, bytes: usize) -> Option<usize> {
        let heap_bytes = self.heap.held_bytes;
        match self.entry(index).backing {
            Backing::System => self.system_bytes.checked_add(bytes)?.checked_add(self.heap.taken_bytes(heap_bytes)),
            Backing::Heap => self.system_bytes.checked_add(self.heap.taken_bytes(heap_bytes.checked_add(bytes)?)),
        }
    }

    /// The first one of a client and those above it that would claim more than it may if the client held so many bytes more.
    pub(super) fn narrowest(&self, index: usize, bytes: usize) -> Option<&Entry> {
        let entry = self.entry(index);
        let own = entry.own_bytes.saturating_add(bytes).max(entry.set_aside_bytes);
        let more = own - entry.own_claim();
        let mut path = self.path(index).map(|index| self.entry(index));
        path.find(|entry| more > 0 && entry.claimed_bytes.checked_add(more).is_none_or(|sum| sum > entry.limit_bytes))
    }

    /// Whether a client may hold `bytes` more. Nothing always fits.
    pub(super) fn fits(&self, total_bytes: usize, index: usize, bytes: usize) -> bool {
        let is_within_total = || self.taken_bytes(index, bytes).is_some_and(|taken| taken <= total_bytes);
        // What takes no more of the process than it has fits whatever was overdrawn.
        let takes_nothing = || self.taken_bytes(index, bytes) == self.taken_bytes(index, 0);
        bytes == 0 || (self.narrowest(index, bytes).is_none() && (is_within_total() || takes_nothing()))
    }

    /// What others have to give back before a client may hold `bytes` more; `None` where that does not help.
    pub(super) fn missing(&self, total_bytes: usize, index: usize, bytes: usize) -> Option<usize> {
        if self.narrowest(index, bytes).is_some() {
            return None;
        }
        // Nobody can give back more than there is.
        let missing = self.taken_bytes(index, bytes)?.saturating_sub(total_bytes);
        (bytes <= total_bytes).then_some(missing)
    }

    pub(super) fn add(&mut self, index: usize, bytes: usize) {
        self.change(index, |entry| entry.own_bytes += bytes);
        match self.entry(index).backing {
            Backing::System => self.system_bytes += bytes,
            Backing::Heap => {
                self.heap.held_bytes += bytes;
                self.heap.peak_bytes = self.heap.peak_bytes.max(self.heap.held_bytes);
            }
        }
    }

    pub(super) fn overdraw(&mut self, index: usize, bytes: usize) {
        self.add(index, bytes);
        self.entry_mut(index).overdrawn_bytes += bytes;
    }

    pub(super) fn give_back(&mut self, index: usize, bytes: usize, overdrawn_bytes: usize) {
        self.change(index, |entry| entry.own_bytes -= bytes);
        self.entry_mut(index).overdrawn_bytes -= overdrawn_bytes;
        match self.entry(index).backing {
            Backing::System => self.system_bytes -= bytes,
            Backing::Heap => self.heap.held_bytes -= bytes,
        }
    }

    pub(super) fn set_aside(&mut self, index: usize, bytes: usize) {
        self.change(index, |entry| entry.set_aside_bytes = bytes);
    }

    /// Changes what a client holds itself or has set aside; those above it are told.
    fn change(&mut self, index: usize, change: impl FnOnce(&mut Entry)) {
        let entry = self.entry_mut(index);
        let (own, claim) = (entry.own_bytes, entry.own_claim());
        change(entry);
        let (own_after, claim_after) = (entry.own_bytes, entry.own_claim());
        let mut next = Some(index);
        while let Some(index) = next {
            let entry = self.entry_mut(index);
            entry.held_bytes = entry.held_bytes - own + own_after;
            entry.claimed_bytes = entry.claimed_bytes - claim + claim_after;
            entry.peak_bytes = entry.peak_bytes.max(entry.held_bytes);
            next = entry.above;
        }
    }

    pub(super) fn share_bytes(&self, index: usize) -> usize {
        let Some(top) = self.path(index).last() else { return 0 };
        let statement = self.path(index).find(|index| self.entry(*index).tier == Tier::Query);
        let others = self.entries.iter().enumerate().filter(|(other, entry)| {
            let Some(entry) = entry else { return false };
            entry.tier == Tier::Query
                && entry.above == Some(top)
                && entry.claimed_bytes > 0
                && Some(*other) != statement
        });
        let statements = others.count() + 1;
        let top = self.entry(top);
        let free_bytes =
            (top.limit_bytes.saturating_sub(top.claimed_bytes)).saturating_add(self.entry(index).own_claim());
        let two_thirds = |bytes: usize| (bytes as u128 * 2 / 3) as usize;
        two_thirds(top.limit_bytes / statements).min(two_thirds(free_bytes))
    }

    pub(super) fn set_share_aside(&mut self, index: usize, least_bytes: usize, most_bytes: usize) -> usize {
        let bytes = self.share_bytes(index).max(least_bytes).min(most_bytes);
        self.set_aside(index, bytes);
        self.entry_mut(index).limit_bytes = bytes;
        bytes
    }

    /// Who holds most, the statements instead of the client that they are part of.
    pub(super) fn holders(&self) -> impl Iterator<Item = (&str, usize)> {
        let has_parts = |index: usize| self.entries.iter().flatten().any(|entry| entry.above == Some(index));
        let entries = self.entries.iter().enumerate();
        let entries = entries.filter_map(|(index, entry)| Some((index, entry.as_ref()?)));
        let holds = move |(index, entry): &(usize, &Entry)| {
            let is_shown = match entry.tier {
                Tier::Process => !has_parts(*index),
                Tier::Query => true,
                Tier::Operator => false,
            };
            is_shown && entry.held_bytes > 0
        };
        let mut holders: Vec<_> = entries.filter(holds).map(|(_, entry)| entry).collect();
        holders.sort_by_key(|entry| (std::cmp::Reverse(entry.held_bytes), entry.number));
        holders.into_iter().map(|entry| (&*entry.name, entry.held_bytes))
    }

    pub(super) fn figures(&self) -> Vec<ClientFigures> {
        let mut indexes: Vec<usize> = (0..self.entries.len()).filter(|index| self.entries[*index].is_some()).collect();
        // By the numbers on the way down to each.
        indexes.sort_by_cached_key(|index| {
            let mut path: Vec<u64> = self.path(*index).map(|index| self.entry(index).number).collect();
            path.reverse();
            path
        });
        let figures = |index: usize| {
            let entry = self.entry(index);
            ClientFigures {
                tier: entry.tier,
                name: Arc::clone(&entry.name),
                part_of: entry.above.map(|above| Arc::clone(&self.entry(above).name)),
                limit_bytes: entry.limit_bytes,
                set_aside_bytes: entry.set_aside_bytes,
                held_bytes: entry.held_bytes,
                peak_bytes: entry.peak_bytes,
                overdrawn_bytes: entry.overdrawn_bytes,
            }
        };
        indexes.into_iter().map(figures).collect()
    }
}
