//! The words of the context that compiled code gets: where its vectors, states and scratch words lie.
//!
//! One place says which word is what; the lowering reads words by these numbers and [`super::run`] fills them.

use std::ops::Range;

use forebay_pipeline::ir::{Pipeline, Program, Sink, Source, State, StateId, Step};

use super::StateLayouts;
use crate::groups::DenseKey;
use crate::join::{JoinAddresses, JoinLayout};
use crate::layout;

/// Number of rows of this run.
pub(super) const ROWS: usize = 0;
/// Address of the sink, for runtime functions.
pub(super) const SINK: usize = 1;
/// Address where the next row of a build side or result begins.
pub(super) const CURSOR: usize = 2;
/// End of the memory for such rows.
pub(super) const LIMIT: usize = 3;
/// Two words for what a runtime function gives back besides a fault.
pub(super) const RESULT: usize = 4;
/// The address of the groups' rows.
pub(super) const GROUP_ROWS: usize = 6;
/// One byte per group: whether it has seen a row. Dense groups only.
pub(super) const GROUP_TOUCHED: usize = 7;
/// The groups' directory.
pub(super) const GROUP_DIRECTORY: usize = 8;
/// A hash shifted by this is its slot in the directory.
pub(super) const GROUP_SHIFT: usize = 9;
/// Where the rows of partitioned groups go, and where their memory ends, for each partition.
pub(super) const GROUP_CURSORS: usize = 10;
/// The address of the columns between stages.
pub(super) const STAGES: usize = 11;
/// The address of a byte that is not 0 once the run should stop.
pub(super) const STOP: usize = 12;
/// The address of a word for each row: how many equal ones it stands for. Only read by code that counts duplicates.
pub(super) const MULTIPLICITIES: usize = 13;
/// First word of what depends on the pipeline.
const FIRST: usize = 14;

/// Words of a dense group key.
const DENSE_KEY_WORDS: usize = 3;

/// Where the parts of a join state's addresses lie behind its first word.
#[derive(Clone, Copy)]
pub(super) enum JoinWord {
    /// The least key.
    Low = 0,
    /// Keys are below `low + span`.
    Span = 1,
    /// One bit per key.
    Bits = 2,
    /// Rows.
    Rows = 3,
    /// Directory.
    Directory = 4,
    /// A hash shifted by this is its slot.
    Shift = 5,
    /// One byte per row.
    Matched = 6,
}

/// Words before a join state's columns.
const JOIN_WORDS: usize = 7;
/// Words of a payload column in the dense layout: data, validity, base.
const JOIN_COLUMN_WORDS: usize = 3;

/// Which word of the context is what, for one pipeline.
#[derive(Debug, Clone)]
pub(super) struct Context {
    columns: usize,
    joins: Vec<(StateId, usize)>,
    keys: usize,
    scratch: usize,
    counts: usize,
    /// Number of words.
    pub(super) words: usize,
}

impl Context {
    /// The context of `pipeline`; with a word for each step where the rows that leave it are `counted`.
    pub(super) fn new(program: &Program, pipeline: &Pipeline, counted: bool) -> Self {
        let columns = FIRST;
        let mut next = columns + 2 * source_columns(pipeline);
        let mut joins: Vec<(StateId, usize)> = Vec::new();
        for state in probed(pipeline) {
            if joins.iter().all(|(known, _)| *known != state) {
                joins.push((state, next));
                let payload = match program.states.get(state.0 as usize) {
                    Some(State::Join(join)) => join.payload.len(),
                    _ => 0,
                };
                next += JOIN_WORDS + JOIN_COLUMN_WORDS * payload;
            }
        }
        let keys = next;
        let mut scratch = keys;
        if let Sink::Aggregate { state, keys: registers, .. } = &pipeline.sink {
            scratch += DENSE_KEY_WORDS * registers.len();
            next = scratch;
            if let Some(State::Aggregate(aggregate)) = program.states.get(state.0 as usize) {
                next += layout::GroupRow::new(aggregate).key.words;
            }
        }
        let counts = next;
        next += if counted { pipeline.steps.len() } else { 0 };
        Self { columns, joins, keys, scratch, counts, words: next }
    }

    /// About how many words a run reads that do not change.
    pub(super) fn steady_words(&self, layouts: &StateLayouts) -> usize {
        let of_join = |(state, _): &(StateId, usize)| match layouts.join(*state) {
            JoinLayout::Set | JoinLayout::Hash { .. } => 3,
            JoinLayout::Dense { payload } => 3 + 2 * payload.len(),
        };
        let columns = self.joins.first().map_or(self.keys, |(_, first)| *first) - self.columns;
        columns / 2 + self.joins.iter().map(of_join).sum::<usize>() + (self.scratch - self.keys)
    }

    /// The word with the address of a source column's values; its validity follows.
    pub(super) fn column(&self, column: usize) -> usize {
        self.columns + 2 * column
    }

    /// The join states that are read, each with its first word.
    pub(super) fn joins(&self) -> &[(StateId, usize)] {
        &self.joins
    }

    /// A word of a join state that the pipeline probes or marks.
    pub(super) fn join(&self, state: StateId, word: JoinWord) -> usize {
        self.first_of(state) + word as usize
    }

    /// The word with the address of a payload column's values; validity and base follow.
    pub(super) fn join_column(&self, state: StateId, column: usize) -> usize {
        self.first_of(state) + JOIN_WORDS + JOIN_COLUMN_WORDS * column
    }

    /// The word with the least value of a dense group key; its span and its stride in bytes follow.
    pub(super) fn dense_key(&self, key: usize) -> usize {
        self.keys + DENSE_KEY_WORDS * key
    }

    /// The first of the words for the key of a new group.
    pub(super) fn new_key(&self) -> usize {
        self.scratch
    }

    /// The words that count the rows that leave each step; none where nobody counts.
    pub(super) fn counts(&self) -> Range<usize> {
        self.counts..self.words
    }

    /// Writes where a finished build side lies.
    pub(super) fn write_join(&self, words: &mut [u64], state: StateId, addresses: &JoinAddresses) {
        let values = [
            (JoinWord::Low, addresses.low as u64),
            (JoinWord::Span, addresses.span),
            (JoinWord::Bits, addresses.bits),
            (JoinWord::Rows, addresses.rows),
            (JoinWord::Directory, addresses.directory),
            (JoinWord::Shift, u64::from(addresses.shift)),
            (JoinWord::Matched, addresses.matched),
        ];
        for (word, value) in values {
            words[self.join(state, word)] = value;
        }
        for (number, (data, validity, base)) in addresses.columns.iter().enumerate() {
            let word = self.join_column(state, number);
            words[word..word + JOIN_COLUMN_WORDS].copy_from_slice(&[*data, *validity, *base as u64]);
        }
    }

    /// Writes how dense groups are numbered.
    pub(super) fn write_dense_keys(&self, words: &mut [u64], keys: &[DenseKey]) {
        for (number, key) in keys.iter().enumerate() {
            let word = self.dense_key(number);
            words[word..word + DENSE_KEY_WORDS].copy_from_slice(&[key.low as u64, key.span, key.stride]);
        }
    }

    fn first_of(&self, state: StateId) -> usize {
        let known = self.joins.iter().find(|(known, _)| *known == state);
        known.expect("every probed state was given its words").1
    }
}

/// Number of the source's columns.
pub(super) fn source_columns(pipeline: &Pipeline) -> usize {
    match &pipeline.source {
        Source::Table(table) => table.columns.len(),
        Source::Groups { columns, .. } | Source::BuildRows { columns, .. } => columns.len(),
    }
}

/// The join states that a pipeline reads, in order.
fn probed(pipeline: &Pipeline) -> impl Iterator<Item = StateId> {
    let probes = pipeline.steps.iter().filter_map(|step| match step {
        Step::Probe(probe) => Some(probe.state),
        _ => None,
    });
    let marked = match &pipeline.sink {
        Sink::Mark { state, .. } => Some(*state),
        _ => None,
    };
    probes.chain(marked)
}
