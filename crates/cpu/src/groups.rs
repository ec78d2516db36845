//! Group tables: what an aggregation leaves behind, first one part for each worker, then all of them merged.
//!
//! A part with many groups begins anew when it has outgrown the caches: what it has so far is a *generation* that is merged
//! in the end, by partitions that fit a cache, as the parts of other workers are (thread-local pre-aggregation). Where
//! generations turn out to have the same keys again and again, and would take much more memory than the groups, the part goes
//! on as one large table.
//!
//! Where many groups are expected from the beginning, no table is filled: each row goes to the partition of its hash, and
//! partitions are combined one by one.
//!
//! Where a table lies in the order of a key, or nearly so, its owner knows keys that no row to come has: these groups are
//! taken out as soon as they are finished ([`GroupPart::take_finished`]), so that a part stays small.
//!
//! Invariants: no two rows of a generation have the same key; a part's rows and directory move only in
//! [`GroupPart::insert`] and [`GroupPart::take_finished`].

mod generations;
mod merge;
mod partitioned;
mod plan;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use forebay_pipeline::ir::{Aggregate, AggregateState, Typed, ValueType};
use forebay_pipeline::{Fault, Scalar};

use self::generations::Generations;
pub(crate) use self::generations::PARTITION_BITS;
use self::partitioned::PartitionedRows;
pub use self::plan::{DenseKey, GroupLayout, GroupPlan};
use crate::arena::Arena;
use crate::layout::{GroupRow, RowLayout, SLOT_ROW_BITS, WORD, group_tag};
use crate::partition::Chunks;
use crate::rows::{Field, RowBuffer, RowSet, Valid};
use crate::runs::{Partitions, RunLayout, WriteRun, scatter};

/// Groups of a generation: with their directory, some megabytes, which fit the third-level cache and the TLB.
const GENERATION_GROUPS: usize = 1 << 17;
/// Bytes of earlier generations at most that have the same keys.
const EARLIER_BYTES: usize = 128 << 20;
/// A directory of fewer slots for each group is freed as a whole, a larger one group by group.
const SLOTS_PER_WALK: usize = 16;
/// Slots of a part's first directory.
const FIRST_SLOTS: usize = 1 << 10;

/// Where a part lies. What its layout does not have is 0 or empty.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GroupAddresses {
    /// Row or slot 0.
    pub rows: u64,
    /// Dense: one byte a slot, 1 once it has seen a row.
    pub touched: u64,
    /// Hash: the directory (`layout.rs`), searched from slot `hash >> shift` on, behind the last one comes the first.
    pub directory: u64,
    /// At most 63.
    pub shift: u32,
    /// Number of slots of the directory, a power of two.
    pub slots: u64,
    /// Partitioned: for each partition where its next row goes, and where the memory for its rows ends; both 0 at first.
    pub cursors: u64,
    /// The key parts of dense groups.
    pub keys: Vec<DenseKey>,
}

/// The groups of one worker.
#[derive(Debug)]
pub struct GroupPart {
    plan: GroupPlan,
    row: GroupRow,
    /// Words of a row here: without the key where dense.
    words: usize,
    rows: Vec<u64>,
    earlier: Generations,
    /// Where partitioned.
    partitioned: PartitionedRows,
    touched: Vec<u8>,
    directory: Vec<u64>,
    /// Bytes that rows refer to.
    arena: Arena,
    /// Since groups were taken out the last time, some were put aside or written out, which may come again.
    divided: bool,
}

impl GroupPart {
    /// No groups yet.
    pub fn new(state: &AggregateState, plan: &GroupPlan) -> Self {
        assert!(plan.layout.is_dense() || !state.keys.is_empty(), "without keys there is one slot");
        let row = GroupRow::new(state);
        let (words, directory) = match plan.layout {
            GroupLayout::Hash => (row.words, vec![0; FIRST_SLOTS]),
            GroupLayout::Dense { .. } => (row.words - row.key.words, Vec::new()),
            GroupLayout::Partitioned => (row.words, Vec::new()),
        };
        let touched = vec![0; plan.slots];
        let (earlier, arena) = (Generations::default(), Arena::default());
        let (rows, partitioned, divided) = (Vec::new(), PartitionedRows::default(), false);
        let plan = plan.clone();
        let mut part = Self { plan, row, words, rows, earlier, partitioned, touched, directory, arena, divided };
        let (expected, slots) = (part.plan.expected, part.plan.slots);
        match part.plan.layout {
            GroupLayout::Hash if part.has_bytes() => part.rows.reserve_exact(expected * words),
            GroupLayout::Hash => part.rows.reserve_exact(expected.min(GENERATION_GROUPS) * words),
            GroupLayout::Dense { .. } => part.rows = vec![0; slots * words],
            GroupLayout::Partitioned => part.partitioned = PartitionedRows::new(words),
        }
        part
    }

    /// How its groups are found.
    pub fn plan(&self) -> &GroupPlan {
        &self.plan
    }

    /// Where its parts lie, until the next [`GroupPart::insert`].
    pub fn addresses(&mut self) -> GroupAddresses {
        let of_words = |words: &mut Vec<u64>| words.as_mut_ptr().expose_provenance() as u64;
        let keys = self.plan.keys.clone();
        let rows = of_words(&mut self.rows);
        match self.plan.layout {
            GroupLayout::Dense { .. } => {
                let touched = self.touched.as_mut_ptr().expose_provenance() as u64;
                GroupAddresses { rows, touched, keys, ..GroupAddresses::default() }
            }
            GroupLayout::Hash => {
                let (directory, slots) = (of_words(&mut self.directory), self.directory.len() as u64);
                GroupAddresses { rows, directory, shift: self.shift(), slots, ..GroupAddresses::default() }
            }
            GroupLayout::Partitioned => {
                GroupAddresses { cursors: self.partitioned.cursors(), ..GroupAddresses::default() }
            }
        }
    }

    /// Adds a group whose key is not there yet; gives the address of its row, and whether [`GroupPart::addresses`] are
    /// others now. `key` are the words of the key behind the hash: validity if any, then the values, whose bytes were kept
    /// by [`GroupPart::keep_bytes`].
    pub fn insert(&mut self, hash: u64, key: &[u64]) -> (u64, bool) {
        let before = (self.rows.as_ptr(), self.directory.as_ptr());
        assert_eq!(self.plan.layout, GroupLayout::Hash, "dense groups are all there");
        assert_eq!(key.len(), self.row.key.words - 1, "the words of a key without its hash");
        if self.rows.len() / self.words == GENERATION_GROUPS && self.begins_anew() {
            self.earlier.put_aside(&self.rows, self.words);
            self.rows.clear();
            self.directory.fill(0);
            self.divided = true;
        }
        let group = self.rows.len() / self.words;
        if (group + 1) * 2 > self.directory.len() {
            self.grow();
        }
        self.take_slot(hash, group);
        self.rows.push(hash);
        self.rows.extend_from_slice(key);
        self.rows.resize((group + 1) * self.words, 0);
        let row = (self.rows.as_mut_ptr().expose_provenance() + group * self.words * WORD) as u64;
        (row, before != (self.rows.as_ptr(), self.directory.as_ptr()))
    }

    /// Makes room for at least one more row of a partition that has none: its cursor is at its end.
    pub fn grow_partition(&mut self, partition: usize) -> Result<(), Fault> {
        let row = &self.row;
        self.partitioned.grow(partition, |pieces| merge::combine_one(row, &pieces))
    }

    /// The address of a copy of bytes that a row refers to.
    pub fn keep_bytes(&mut self, bytes: &[u8]) -> u64 {
        self.arena.keep(bytes)
    }

    /// The address of a copy of bytes, which take the place of `length` bytes at `address`, an accumulator's: those must not
    /// be read any more. Length 0 is nothing to replace.
    pub fn replace_bytes(&mut self, address: u64, length: usize, bytes: &[u8]) -> u64 {
        self.arena.replace(address, length, bytes)
    }

    /// Gives all groups as runs, no key twice in one, and is empty then. Not where dense: those stay within their limit.
    pub fn take_runs(
        &mut self,
        layout: &RunLayout,
        partitions: &Partitions,
        write: &mut WriteRun<'_>,
    ) -> forebay_base::Result<()> {
        assert!(!self.plan.layout.is_dense(), "dense groups are few");
        if self.plan.layout == GroupLayout::Partitioned {
            let combined = merge::combine_each(&self.row, self.partitioned.take())?;
            return scatter(layout, partitions, combined.iter().map(Vec::as_slice), &self.arena, write);
        }
        let earlier = std::mem::take(&mut self.earlier);
        for generation in earlier.each() {
            scatter(layout, partitions, generation, &self.arena, write)?;
        }
        scatter(layout, partitions, std::iter::once(self.rows.as_slice()), &self.arena, write)?;
        self.rows.clear();
        self.directory.fill(0);
        self.arena = Arena::default();
        self.divided = true;
        Ok(())
    }

    /// Takes out the groups for which part `part` of the key, an integer, is in `low..=high`. The caller knows that all rows with
    /// these keys have come since this was called the last time, and to this part. `None` where there are no such groups, or
    /// where others of these keys may have been put aside: those that are here are merged with them in the end.
    pub fn take_finished(&mut self, part: usize, (low, high): (i64, i64)) -> Option<GroupTable> {
        assert!(self.plan.layout == GroupLayout::Hash && !self.has_bytes(), "hashed groups of numbers");
        let key = Field::of_place(&self.row.key.places[part], self.row.key.validity);
        assert_eq!(key.value, ValueType::I64, "the key part is an integer");
        if std::mem::take(&mut self.divided) {
            return None;
        }
        let is_finished = |row: &[u64]| key.is_valid(row) && (low..=high).contains(&(row[key.word] as i64));
        if !self.rows.chunks_exact(self.words).any(is_finished) {
            return None;
        }
        self.empty_directory();
        let mut finished = Vec::with_capacity(self.rows.len());
        let mut kept = 0;
        for start in (0..self.rows.len()).step_by(self.words) {
            let row = start..start + self.words;
            if is_finished(&self.rows[row.clone()]) {
                finished.extend_from_slice(&self.rows[row]);
            } else {
                self.rows.copy_within(row, kept);
                kept += self.words;
            }
        }
        self.rows.truncate(kept);
        for group in 0..kept / self.words {
            self.take_slot(self.rows[group * self.words], group);
        }
        Some(GroupTable::of_rows(&self.row, vec![finished], Arc::default()))
    }

    /// Whether [`GroupPart::take_finished`] can take out hashed groups of `state`, by this part of their key.
    pub fn can_finish(state: &AggregateState, part: usize) -> bool {
        state.keys[part].value == ValueType::I64 && !has_bytes(&GroupRow::new(state))
    }

    /// Frees all slots of the directory. Slots in use that follow one another begin at the slot of a hash.
    fn empty_directory(&mut self) {
        if self.rows.len() / self.words * SLOTS_PER_WALK >= self.directory.len() {
            self.directory.fill(0);
            return;
        }
        for row in self.rows.chunks_exact(self.words) {
            let mut slot = (row[0] >> self.shift()) as usize;
            while self.directory[slot] != 0 {
                self.directory[slot] = 0;
                slot = (slot + 1) & (self.directory.len() - 1);
            }
        }
    }

    /// Number of groups; one in several generations, or that is not combined yet, counts as often. Takes time where dense.
    pub fn len(&self) -> usize {
        match self.plan.layout {
            GroupLayout::Hash => (self.rows.len() + self.earlier.word_count()) / self.words,
            GroupLayout::Partitioned => self.partitioned.word_count() / self.words,
            GroupLayout::Dense { .. } => self.touched.iter().filter(|touched| **touched != 0).count(),
        }
    }

    /// True where there is no group.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of memory that the part has filled: room for rows to come is not counted.
    pub fn memory_bytes(&self) -> usize {
        let words = self.rows.len() + self.directory.len() + self.earlier.word_count();
        words * WORD + self.partitioned.memory_bytes() + self.touched.len() + self.arena.memory_bytes()
    }

    /// Whether a full generation is put aside: a group may be in each of them, which must not take much memory.
    fn begins_anew(&self) -> bool {
        let bytes = (self.earlier.word_count() + self.rows.len()) * WORD;
        !self.has_bytes() && (bytes <= EARLIER_BYTES || self.earlier.are_disjoint())
    }

    /// Whether rows refer to bytes, which each generation would have again, and which merging would compare.
    fn has_bytes(&self) -> bool {
        has_bytes(&self.row)
    }

    fn shift(&self) -> u32 {
        u64::BITS - self.directory.len().ilog2()
    }

    fn grow(&mut self) {
        let twice = self.directory.len() * 2;
        // A table that has outgrown the caches is believed to come to what is expected.
        let expected = if twice > 2 * GENERATION_GROUPS { self.plan.expected * 2 } else { 0 };
        self.directory = vec![0; expected.next_power_of_two().max(twice)];
        for group in 0..self.rows.len() / self.words {
            self.take_slot(self.rows[group * self.words], group);
        }
    }

    /// Puts a group into the first free slot for its hash.
    fn take_slot(&mut self, hash: u64, group: usize) {
        let mut slot = (hash >> self.shift()) as usize;
        while self.directory[slot] != 0 {
            slot = (slot + 1) & (self.directory.len() - 1);
        }
        self.directory[slot] = (group as u64 + 1) | group_tag(hash);
    }
}

fn has_bytes(row: &GroupRow) -> bool {
    row.key.places.iter().any(|place| place.typed.value == ValueType::Bytes)
        || row.accumulators.iter().any(|accumulator| accumulator.value == ValueType::Bytes)
}

const _: () = assert!(SLOT_ROW_BITS == 48, "a group's number and its tag share a word");

/// Finished groups.
#[derive(Debug)]
pub struct GroupTable {
    rows: RowSet,
}

impl GroupTable {
    /// The groups of runs, which have no key twice each; on one thread.
    pub fn of_runs(state: &AggregateState, runs: Vec<RowBuffer>) -> Result<Self, Fault> {
        let row = GroupRow::new(state);
        let (chunks, arena) = merge::merge_runs(&row, runs)?;
        Ok(Self::of_rows(&row, chunks, arena))
    }

    /// The groups of all workers, which found them by this plan: accumulators of equal keys are combined.
    pub fn merge(
        state: &AggregateState,
        plan: &GroupPlan,
        parts: Vec<GroupPart>,
        threads: usize,
    ) -> Result<Self, Fault> {
        let row = GroupRow::new(state);
        let (chunks, arena) = merge::merge(&row, plan, parts, threads)?;
        Ok(Self::of_rows(&row, chunks, arena))
    }

    /// Groups that somebody else has found: keys, then results, all of them numbers and truths.
    pub fn of_values(state: &AggregateState, groups: &[Vec<Scalar>]) -> Self {
        let results = state.aggregates.iter().map(Aggregate::result);
        let types: Vec<Typed> = state.keys.iter().copied().chain(results).collect();
        let layout = RowLayout::new(0, types.iter().copied());
        let mut buffer = RowBuffer::new(layout.words);
        groups.iter().for_each(|group| buffer.push_values(&layout, &[], group));
        Self { rows: RowSet::of_buffers(&layout, vec![buffer]) }
    }

    fn of_rows(row: &GroupRow, chunks: Chunks, arena: Arc<Arena>) -> Self {
        let mut fields = Field::of_row(&row.key);
        fields.extend(row.accumulators.iter().map(|accumulator| Field {
            value: accumulator.aggregate.result().value,
            word: accumulator.word,
            valid: accumulator.seen.map_or(Valid::Always, Valid::Word),
        }));
        Self { rows: RowSet::new(row.words, chunks, fields, arena) }
    }

    /// The groups: keys, then aggregates.
    pub fn rows(&self) -> &RowSet {
        &self.rows
    }

    /// Only the groups with these numbers, which ascend.
    #[must_use]
    pub fn of_numbers(&self, numbers: &[usize]) -> Self {
        Self { rows: self.rows.of_numbers(numbers) }
    }

    /// Number of groups.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// True where there is no group.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Bytes of memory that the table holds.
    pub fn memory_bytes(&self) -> usize {
        self.rows.memory_bytes()
    }
}
