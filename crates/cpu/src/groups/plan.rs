//! How groups lie: in slots by key, in tables by hash, or in partitions by hash.

use forebay_pipeline::ir::{AggregateState, ValueType};

use super::has_bytes;
use super::partitioned::FIRST_BYTES;
use crate::layout::{GroupRow, NEAR_BYTES, WORD};

/// Slots of dense groups that are never too many.
const DENSE_SLOTS: u128 = 1 << 20;
/// Bytes of dense groups, for each worker, that are never too many: they stay in its caches.
const DENSE_BYTES: u128 = 8 << 20;
/// Bytes of a directory that a hashed group takes, about.
const DIRECTORY_BYTES: u128 = 24;
/// The share of a worker's memory that groups which are only expected make room in.
const EXPECTED_SHARE: usize = 4;
/// Groups from which on a table of them is slower than partitions: it takes some megabytes.
pub(super) const PARTITIONED_GROUPS: usize = 1 << 16;
/// The least memory of a worker that has partitions: twice what the first pieces of all of them take.
const PARTITIONED_BYTES: usize = 2 * FIRST_BYTES;

/// What compiled code depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum GroupLayout {
    /// Rows found by the hash of their key.
    Hash,
    /// One slot for each possible key. Its row has only accumulators: the word of an accumulator is counted from the end of
    /// the key ([`GroupRow::key`]'s words).
    Dense {
        /// They do not fit a second-level cache.
        is_large: bool,
    },
    /// A row for each row that comes, in the partition of the hash of its key; they are combined partition by partition.
    Partitioned,
}

impl GroupLayout {
    /// Whether there is one slot for each possible key.
    pub fn is_dense(self) -> bool {
        matches!(self, Self::Dense { .. })
    }
}

/// The part of a key in dense groups. The slot of a row is the sum of its key parts' numbers times their strides; the
/// number of a value is `value - low`, that of NULL is `span`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DenseKey {
    /// The least value.
    pub low: i64,
    /// Values lie in `low..low + span`.
    pub span: u64,
    /// Slots from one value to the next.
    pub stride: u64,
}

/// How the groups of an aggregation are found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupPlan {
    pub(super) layout: GroupLayout,
    /// One for each key part where dense.
    pub(super) keys: Vec<DenseKey>,
    pub(super) slots: usize,
    /// Hashed groups that a part makes room for at once, so that its rows need not move: memory that is not written costs
    /// nothing.
    pub(super) expected: usize,
}

impl GroupPlan {
    /// Dense where the values of all key parts lie in a known range (`ranges`, one for each, both ends included; booleans
    /// need none) and there are few enough combinations: they stay in a worker's caches, or take no more memory than as
    /// many hashed groups as are `expected`, and no more than `most_bytes` for each worker. Without keys there is one slot.
    /// Else partitioned where so many are `expected` that a table of them would not fit a near cache, if partitions fit the memory.
    pub fn pick(state: &AggregateState, ranges: &[Option<(i64, i64)>], expected: usize, most_bytes: usize) -> Self {
        assert_eq!(ranges.len(), state.keys.len(), "one range for each key part");
        let row = GroupRow::new(state);
        let slot_bytes = ((row.words - row.key.words) * WORD + 1) as u128;
        // Hashed rows are copied once, when they are merged.
        let hashed_bytes = expected as u128 * (2 * (row.words * WORD) as u128 + DIRECTORY_BYTES);
        let fits = |slots: u128| {
            let bytes = slots.saturating_mul(slot_bytes);
            slots <= DENSE_SLOTS && bytes <= DENSE_BYTES || bytes <= hashed_bytes.min(most_bytes as u128)
        };
        let roomy = expected.min(most_bytes / EXPECTED_SHARE / (row.words * WORD + DIRECTORY_BYTES as usize));
        let hashed = match expected >= PARTITIONED_GROUPS && most_bytes >= PARTITIONED_BYTES {
            true => Self { expected: roomy, ..Self::partitioned(state) },
            false => Self { expected: roomy, ..Self::hash() },
        };
        let mut slots: u128 = 1;
        let mut keys = Vec::with_capacity(ranges.len());
        for (typed, range) in state.keys.iter().zip(ranges) {
            let range = match typed.value {
                ValueType::Bool => Some((0, 1)),
                ValueType::I64 => *range,
                ValueType::I128 | ValueType::F64 | ValueType::Bytes => None,
            };
            let Some((low, high)) = range.filter(|(low, high)| low <= high) else { return hashed };
            let span = (i128::from(high) - i128::from(low) + 1) as u128;
            let stride = slots;
            slots = slots.saturating_mul(span + u128::from(typed.nullable));
            if !fits(slots) {
                return hashed;
            }
            keys.push(DenseKey { low, span: span as u64, stride: stride as u64 });
        }
        let is_large = slots * slot_bytes > u128::from(NEAR_BYTES);
        Self { layout: GroupLayout::Dense { is_large }, keys, slots: slots as usize, expected: 0 }
    }

    /// By hash, whatever the keys are. Not for states without keys.
    pub fn hash() -> Self {
        Self { layout: GroupLayout::Hash, keys: Vec::new(), slots: 0, expected: 0 }
    }

    /// Partitioned where the keys and accumulators are numbers, else by hash. Not for states without keys.
    pub fn partitioned(state: &AggregateState) -> Self {
        let layout = match has_bytes(&GroupRow::new(state)) {
            true => GroupLayout::Hash,
            false => GroupLayout::Partitioned,
        };
        Self { layout, ..Self::hash() }
    }

    /// The same groups as if they did not fit a second-level cache; for tests.
    #[must_use]
    pub fn as_if_large(mut self) -> Self {
        if let GroupLayout::Dense { is_large } = &mut self.layout {
            *is_large = true;
        }
        self
    }

    /// Whether the groups of `state` are dense and few: they stay in a worker's caches.
    pub fn stays_in_caches(&self, state: &AggregateState) -> bool {
        let row = GroupRow::new(state);
        let slot_bytes = (row.words - row.key.words) * WORD + 1;
        self.layout.is_dense() && self.slots as u128 * slot_bytes as u128 <= DENSE_BYTES
    }

    /// What compiled code depends on.
    pub fn layout(&self) -> GroupLayout {
        self.layout
    }

    /// The key parts of dense groups.
    pub fn keys(&self) -> &[DenseKey] {
        &self.keys
    }
}
