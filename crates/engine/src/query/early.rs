//! Groups that are finished before all rows have come. Where a table lies in the order of a key, or nearly so, as loads in the
//! order of time or of a number leave it, most keys are in one block only, as its zones tell. Once a worker has taken the last
//! row of such a block, the groups of these keys are complete: the worker takes them on through the pipeline that reads the
//! groups, and forgets them. So they are neither merged nor kept, and a HAVING that lets few pass leaves few.
//!
//! Invariants: a group is passed on once, with all of its rows; what may have rows elsewhere waits for the end, as all groups
//! do of other tables. Must not know: how groups lie.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use forebay_base::{Result, Value};
use forebay_cpu::compile::{Part, Worker};
use forebay_cpu::groups::GroupPart;
use forebay_cpu::vector::Vector;
use forebay_pipeline::ir::{Pipeline, Sink, Source, State, StateId, Step};
use forebay_store::Table;

use super::runner::{Runner, reads};
use super::specialise::Specialised;
use super::task::Task;
use crate::morsel::Morsel;

/// A table of fewer blocks is done before this could pay.
const FEWEST_BLOCKS: usize = 4;

/// Keys that no other block has, both ends included, by (segment, row group, block); nothing for blocks without such keys.
type OwnKeys = HashMap<BlockPlace, KeyRange>;
/// Segment, row group and block.
type BlockPlace = (usize, usize, usize);
/// The least key and the greatest one.
type KeyRange = (i64, i64);

/// Groups that can be finished early.
pub(super) struct Finishing {
    state: StateId,
    /// The part of the groups' key that tells which are finished.
    part: usize,
    keys: OwnKeys,
    /// The pipeline that reads the groups.
    reader: usize,
}

/// What becomes of groups that are finished early, shared by the workers that make them.
pub(super) struct EarlyGroups {
    state: StateId,
    /// The part of the groups' key that tells which are finished.
    part: usize,
    keys: OwnKeys,
    /// The pipeline that reads the groups.
    reader: Task,
    groups: AtomicU64,
    /// What its workers made so far that have ended.
    parts: Mutex<Vec<Part>>,
}

/// A pipeline that has taken some groups of a state before the state was finished.
pub(super) struct Begun {
    pub(super) task: Task,
    /// What it made of them.
    pub(super) parts: Vec<Part>,
    /// How many these were.
    groups: u64,
}

/// One worker's share of the pipeline that reads the groups.
pub(super) struct EarlyWorker<'a> {
    shared: &'a EarlyGroups,
    worker: Worker,
    vectors: Vec<Vector>,
    known_bytes: usize,
}

impl<'a> EarlyWorker<'a> {
    pub(super) fn new(runner: &Runner<'_>, shared: &'a EarlyGroups) -> Result<Self> {
        let worker = runner.worker(&shared.reader)?;
        Ok(Self { shared, worker, vectors: Vec::new(), known_bytes: 0 })
    }

    /// Passes on the groups of `maker` that are finished now that it has taken all rows of a block of a morsel.
    pub(super) fn pass_on(
        &mut self,
        runner: &Runner<'_>,
        maker: &mut Worker,
        (morsel, block): (Morsel, usize),
    ) -> Result<()> {
        let Some(keys) = self.shared.keys.get(&(morsel.segment, morsel.group, block)) else { return Ok(()) };
        let finished = maker.groups().and_then(|groups| groups.take_finished(self.shared.part, *keys));
        let Some(groups) = finished else { return Ok(()) };
        self.shared.groups.fetch_add(groups.len() as u64, Ordering::Relaxed);
        let read = |range: std::ops::Range<usize>, vectors: &mut Vec<Vector>| {
            let rows = range.len();
            groups.rows().read(range, vectors);
            rows
        };
        let own = (&mut self.worker, &mut self.known_bytes);
        runner.feed(0..groups.len(), read, &mut self.vectors, &self.shared.reader, own)
    }

    /// Leaves what was made.
    pub(super) fn end(self) {
        let part = self.shared.reader.end(self.worker);
        // It is put in whole.
        self.shared.parts.lock().unwrap_or_else(PoisonError::into_inner).push(part);
    }
}

impl Runner<'_> {
    /// Where groups of a pipeline are finished before all rows have come, and where they go then.
    pub(super) fn early_groups(&self, finishing: Finishing) -> Result<Box<EarlyGroups>> {
        let Finishing { state, part, keys, reader } = finishing;
        let reader = self.task(reader, true)?;
        let (groups, parts) = (AtomicU64::new(0), Mutex::default());
        Ok(Box::new(EarlyGroups { state, part, keys, reader, groups, parts }))
    }

    /// Whether groups of a pipeline are finished early: where most blocks of its table have most values of a column for
    /// themselves that is a part of the key, the groups are too many for caches, and another pipeline waits for them.
    pub(super) fn finishing(&self, index: usize, special: &Specialised) -> Option<Finishing> {
        let pipeline = &special.program.pipelines[index];
        let (Source::Table(source), Sink::Aggregate { state, keys, .. }) = (&pipeline.source, &pipeline.sink) else {
            return None;
        };
        let State::Aggregate(aggregate) = &self.program.states[state.0 as usize] else { return None };
        if special.groups.as_ref()?.stays_in_caches(aggregate) {
            return None;
        }
        let reader = self.reader_of(*state, index)?;
        let table = &self.query.tables[source.table].table;
        keys.iter().enumerate().find_map(|(part, key)| {
            let column = source.columns.iter().find(|column| column.to == *key && column.dictionary.is_none())?;
            let keys = GroupPart::can_finish(aggregate, part).then(|| own_keys(table, column.column))??;
            Some(Finishing { state: *state, part, keys, reader })
        })
    }

    /// The pipeline that reads a state of groups, if it is the only one, runs behind pipeline `index`, and looks up only states
    /// that are there by now. What reads groups runs on the CPU, as pipeline `index` does.
    fn reader_of(&self, state: StateId, index: usize) -> Option<usize> {
        let mut readers =
            (0..self.program.pipelines.len()).filter(|other| reads(&self.program.pipelines[*other], state));
        let (reader, other) = (readers.next()?, readers.next());
        let pipeline = &self.program.pipelines[reader];
        let is_there = |state: StateId| self.finished[state.0 as usize].is_some();
        let has_states = pipeline.steps.iter().all(|step| match step {
            Step::Probe(probe) => is_there(probe.state),
            Step::Compute(_) | Step::Filter(_) => true,
        });
        let has_marked = match &pipeline.sink {
            Sink::Mark { state, .. } => is_there(*state),
            _ => true,
        };
        let of_groups = matches!(pipeline.source, Source::Groups { .. });
        (other.is_none() && reader > index && of_groups && has_states && has_marked).then_some(reader)
    }

    /// Keeps what was made of the groups that were passed on; gives a note of it.
    pub(super) fn keep_begun(&mut self, early: Box<EarlyGroups>) -> Option<String> {
        let EarlyGroups { state, reader, groups, parts, .. } = *early;
        let (groups, parts) = (groups.into_inner(), parts.into_inner().unwrap_or_else(PoisonError::into_inner));
        self.begun.insert(state, Begun { task: reader, parts, groups });
        (groups > 0).then(|| format!("{groups} groups passed on with their block"))
    }

    /// Groups that the pipeline with this number passed on before its state was finished.
    pub(super) fn early_groups_of(&self, index: usize) -> u64 {
        let state = self.program.pipelines[index].sink.fills();
        state.and_then(|state| self.begun.get(&state)).map_or(0, |begun| begun.groups)
    }

    /// Whether a pipeline has taken some rows before.
    pub(super) fn is_begun(&self, index: usize) -> bool {
        read_groups(&self.program.pipelines[index]).is_some_and(|state| self.begun.contains_key(&state))
    }

    /// What a pipeline has made of the rows that it took before.
    pub(super) fn take_begun(&mut self, index: usize) -> Option<Begun> {
        self.begun.remove(&read_groups(&self.program.pipelines[index])?)
    }
}

fn read_groups(pipeline: &Pipeline) -> Option<StateId> {
    match &pipeline.source {
        Source::Groups { state, .. } => Some(*state),
        Source::Table(_) | Source::BuildRows { .. } => None,
    }
}

/// The keys that each block of a table has for itself, as the zones of this column tell. `None` where they do not, or where
/// most blocks share most of their keys.
fn own_keys(table: &Table, column: usize) -> Option<OwnKeys> {
    let mut blocks: Vec<(KeyRange, BlockPlace)> = Vec::new();
    for (segment, stored) in table.segments.iter().enumerate() {
        let index = stored.column_index(table.columns[column].id)?;
        for (group, layout) in stored.groups().ok()?.iter().enumerate() {
            for (block, zone) in layout.columns[index].zones.iter().enumerate() {
                match (&zone.min, &zone.max) {
                    (Some(Value::Int(min)), Some(Value::Int(max))) => {
                        let range = (i64::try_from(*min).ok()?, i64::try_from(*max).ok()?);
                        blocks.push((range, (segment, group, block)));
                    }
                    _ if zone.null_count == zone.rows => {}
                    _ => return None,
                }
            }
        }
    }
    if blocks.len() < FEWEST_BLOCKS {
        return None;
    }
    blocks.sort_unstable();
    let mut own = OwnKeys::new();
    let mut most = 0;
    let mut before: Option<i64> = None;
    for (number, ((low, high), place)) in blocks.iter().enumerate() {
        let from = before.map_or(Some(*low), |before| before.checked_add(1).map(|next| next.max(*low)));
        let to = match blocks.get(number + 1) {
            Some(((next, _), _)) => next.checked_sub(1).map(|last| last.min(*high)),
            None => Some(*high),
        };
        if let (Some(from), Some(to)) = (from, to)
            && from <= to
        {
            own.insert(*place, (from, to));
            most += usize::from(high.abs_diff(*low) / 2 <= to.abs_diff(from));
        }
        before = before.max(Some(*high));
    }
    (most * 2 >= blocks.len()).then_some(own)
}
