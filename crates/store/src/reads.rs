//! What a serializable transaction has read: validated against what others have committed since it began, when it commits itself.
//!
//! A transaction that finds at its end what it has found before could have run whole at its end, so that transactions that are validated so
//! are serializable in the order of their commits (backward validation: Kung and Robinson 1981). Reads by key are kept as ranges of keys and
//! compared with changed hot rows as they were and as they are now (precision locking: Neumann et al. 2015, §3); any other read counts as one of the
//! whole table.
//!
//! Must not know: what has changed, SQL.

use std::collections::BTreeSet;
use std::sync::Mutex;

use forebay_base::TableId;

use crate::volume::locked;

/// So many ranges of keys are told apart in a table: more count as the whole table.
const MOST_RANGES: usize = 1 << 16;

/// What was read.
#[derive(Debug, Default)]
pub(crate) struct Reads {
    state: Mutex<ReadState>,
}

/// What a serializable transaction had read at some time: tables as wholes, and ranges of keys in others.
#[derive(Debug, Default, Clone)]
pub struct ReadState {
    pub(crate) tables: BTreeSet<TableId>,
    pub(crate) ranges: Vec<ReadRange>,
}

/// Keys of a table that were looked for: from the first one on, below the second if there is one.
#[derive(Debug, Clone)]
pub(crate) struct ReadRange {
    pub(crate) table: TableId,
    /// Positions of the columns that make the key.
    pub(crate) columns: Box<[usize]>,
    pub(crate) low: Vec<u8>,
    pub(crate) high: Option<Vec<u8>>,
}

impl ReadRange {
    /// Whether a key lies in it.
    pub(crate) fn has(&self, key: &[u8]) -> bool {
        self.low.as_slice() <= key && self.high.as_ref().is_none_or(|high| key < high.as_slice())
    }
}

impl Reads {
    /// Notes that a table was read.
    pub(crate) fn note(&self, table: TableId) {
        locked(&self.state).tables.insert(table);
    }

    /// Notes that keys were looked for.
    pub(crate) fn note_range(&self, range: impl FnOnce() -> ReadRange, table: TableId) {
        let mut state = locked(&self.state);
        if state.tables.contains(&table) {
            return;
        }
        if state.ranges.len() < MOST_RANGES {
            state.ranges.push(range());
            return;
        }
        let ReadState { tables, ranges } = &mut *state;
        tables.extend(ranges.drain(..).map(|range| range.table));
        tables.insert(table);
    }

    /// Makes it what it was.
    pub(crate) fn return_to(&self, before: &ReadState) {
        locked(&self.state).clone_from(before);
    }

    /// What was read so far.
    pub(crate) fn so_far(&self) -> ReadState {
        locked(&self.state).clone()
    }
}
