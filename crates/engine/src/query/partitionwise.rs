//! Partition-wise joins: pipelines that hang together by a key that their tables lie in the order of, as orders and their lines
//! do, run range by range of that key. The rows of a range find each other within it, so that build sides and groups hold a
//! range at a time: they stay in caches, take little memory, and a worker computes on a range while the next ones are read,
//! where the pipelines one after the other would each wait for all rows of the one before.
//!
//! ```text
//! build #0 by o_orderkey             range 1: build, mark, look through    ┐
//! mark #0 by l_orderkey         →    range 2: build, mark, look through    ├ aggregate #1
//! marked rows of #0, aggregate #1    …                                     ┘
//! ```
//!
//! Which pipelines these are is told here, from the program and the zones of the tables; `run` runs them.
//! Invariants: each row of a source is in one range, and whatever it looks up is filled by rows of the same range; a state of a
//! section is read by its pipelines alone. Must not know: how states lie.

mod run;

use std::collections::{BTreeMap, BTreeSet};

use forebay_base::Value;
use forebay_pipeline::ir::{Pipeline, Program, Register, Sink, Source, StateId, Step, ValueType};
use forebay_store::Table;

use super::runner::reads;
use super::{Query, QueryOptions};
use crate::morsel::Morsel;

/// Ranges that a section is cut into where its largest table has the blocks, and for each thread.
const RANGES: usize = 32;
const RANGES_PER_THREAD: usize = 4;
/// A table of fewer blocks is done before this could pay.
const FEWEST_BLOCKS: usize = 32;
/// A table lies in the order of a key where its blocks, one after the other, span its range at most so often.
const CLUSTERED_SPANS: f64 = 1.5;
/// The ranges of small tables, where whatever can be is run range by range.
const FORCED_RANGES: usize = 3;

/// Keys from the least to the greatest one, both included.
type KeyRange = (i64, i64);

/// Pipelines that run range by range.
#[derive(Debug)]
pub(super) struct Section {
    /// The numbers of its pipelines in the program.
    pub(super) pipelines: std::ops::Range<usize>,
    /// States that hold a range at a time.
    pub(super) states: BTreeSet<StateId>,
    /// Its ranges, from the least keys to the greatest.
    pub(super) ranges: Vec<KeyRange>,
    /// What its pipelines scan, by number.
    pub(super) scans: BTreeMap<usize, RangedScan>,
}

/// The scan of a table by ranges of a column.
#[derive(Debug)]
pub(super) struct RangedScan {
    /// The key, by position in the table's list of columns.
    pub(super) column: usize,
    /// What is scanned, range after range.
    pub(super) morsels: Vec<Morsel>,
    /// By range: where its morsels end.
    pub(super) ends: Vec<usize>,
}

impl RangedScan {
    /// The numbers of the morsels of a range.
    pub(super) fn of_range(&self, range: usize) -> std::ops::Range<usize> {
        range.checked_sub(1).map_or(0, |before| self.ends[before])..self.ends[range]
    }
}

/// A program whose sections are told.
#[derive(Debug)]
pub(super) struct Sectioned {
    /// The program, in which the pipelines of a section follow one another.
    pub(super) program: Program,
    /// Its sections, in order.
    pub(super) sections: Vec<Section>,
    /// By pipeline: its number in the query's program.
    pub(super) order: Vec<usize>,
}

/// The sections of a query's program.
pub(super) fn sectioned(query: &Query, options: &QueryOptions) -> Sectioned {
    let mut program = query.program.clone();
    let mut order: Vec<usize> = (0..program.pipelines.len()).collect();
    let mut sections = Vec::new();
    let mut start = 0;
    while start < program.pipelines.len() {
        let Some(members) = Members::from(&program, query, options, start) else {
            start += 1;
            continue;
        };
        let ranges = members.ranges(query, &program, options);
        if ranges.len() < 2 {
            start += 1;
            continue;
        }
        // What stands between the members needs nothing of them, and runs before.
        let (first, last) = (members.pipelines[0], members.pipelines[members.pipelines.len() - 1]);
        let others = (first..=last).filter(|number| !members.pipelines.contains(number));
        let moved: Vec<usize> = others.chain(members.pipelines.iter().copied()).collect();
        let pipelines = moved.iter().map(|number| program.pipelines[*number].clone()).collect::<Vec<_>>();
        program.pipelines.splice(first..=last, pipelines);
        let numbers = moved.iter().map(|number| order[*number]).collect::<Vec<_>>();
        order.splice(first..=last, numbers);
        let begin = last + 1 - members.pipelines.len();
        sections.push(members.section(query, &program, (begin, last + 1), ranges));
        start = last + 1;
    }
    Sectioned { program, sections, order }
}

/// Pipelines that hang together by a key.
#[derive(Debug)]
struct Members {
    pipelines: Vec<usize>,
    /// States that a range fills and reads, each with the part of its key that is the one of the section.
    states: BTreeMap<StateId, usize>,
    /// By pipeline that scans a table: the key's column.
    columns: BTreeMap<usize, usize>,
}

/// What a pipeline is to a section.
enum Place {
    /// One of it; the register that has the key.
    Member(Register),
    /// It needs nothing of it.
    Independent,
    /// It needs what is only there behind it.
    Behind,
}

impl Members {
    /// The pipelines that hang together from the pipeline `start` on, if that pays.
    fn from(program: &Program, query: &Query, options: &QueryOptions, start: usize) -> Option<Self> {
        let Source::Table(source) = &program.pipelines[start].source else { return None };
        let is_forced = options.scan.partition_wise_rows == 0;
        let keys = match &program.pipelines[start].sink {
            Sink::Build { keys, .. } => keys,
            // Groups that nobody but the pipeline behind reads go on with their block (`early`), which is better.
            Sink::Aggregate { keys, .. } if is_forced => keys,
            Sink::Aggregate { .. } | Sink::Mark { .. } | Sink::Collect { .. } => return None,
        };
        let candidates = source.columns.iter().filter(|column| keys.contains(&column.to));
        candidates.map(|column| (column.to, column.column)).find_map(|(key, column)| {
            let mut members = Self::of(start, (key, column), program, query, is_forced)?;
            for number in start + 1..program.pipelines.len() {
                match members.place(number, program, query, is_forced) {
                    Place::Member(key) => members.push(number, key, program),
                    Place::Independent => {}
                    Place::Behind => break,
                }
            }
            members.close(program);
            members.pays(program, query, options).then_some(members)
        })
    }

    /// The first pipeline.
    fn of(
        start: usize,
        (key, column): (Register, usize),
        program: &Program,
        query: &Query,
        is_forced: bool,
    ) -> Option<Self> {
        let mut members = Self { pipelines: Vec::new(), states: BTreeMap::new(), columns: BTreeMap::new() };
        members.key_column(start, key, program, query, is_forced).filter(|known| *known == column)?;
        members.push(start, key, program);
        Some(members)
    }

    fn push(&mut self, number: usize, key: Register, program: &Program) {
        let pipeline = &program.pipelines[number];
        self.pipelines.push(number);
        if let Source::Table(source) = &pipeline.source
            && let Some(column) = source.columns.iter().find(|column| column.to == key)
        {
            self.columns.insert(number, column.column);
        }
        if let Sink::Build { state, keys, .. } | Sink::Aggregate { state, keys, .. } = &pipeline.sink
            && let Some(part) = keys.iter().position(|own| *own == key)
        {
            self.states.insert(*state, part);
        }
    }

    /// The column that a register of a pipeline has from its table, if the rows can be told by its ranges.
    fn key_column(
        &self,
        number: usize,
        key: Register,
        program: &Program,
        query: &Query,
        is_forced: bool,
    ) -> Option<usize> {
        let Source::Table(source) = &program.pipelines[number].source else { return None };
        let column = source.columns.iter().find(|column| column.to == key)?;
        let is_integer = column.typed.value == ValueType::I64 && column.dictionary.is_none();
        let blocks = is_integer.then(|| key_blocks(&query.tables[source.table].table, column.column)).flatten()?;
        (is_forced || is_clustered(&blocks)).then_some(column.column)
    }

    fn place(&self, number: usize, program: &Program, query: &Query, is_forced: bool) -> Place {
        let pipeline = &program.pipelines[number];
        let is_made_here =
            |state: StateId| self.pipelines.iter().any(|member| program.pipelines[*member].sink.fills() == Some(state));
        let looked_up = lookups(pipeline);
        let made_here: Vec<_> = looked_up.iter().filter(|(state, _)| is_made_here(*state)).collect();
        // The registers that have the key where it is looked up; `None` where it is none of the section's.
        let keys: Option<Vec<Register>> =
            made_here.iter().map(|(state, keys)| keys.get(*self.states.get(state)?).copied()).collect();
        let Some(keys) = keys else { return Place::Behind };
        let key = match &pipeline.source {
            Source::Table(_) => match keys.first() {
                None => return Place::Independent,
                Some(key) if self.key_column(number, *key, program, query, is_forced).is_some() => *key,
                Some(_) => return Place::Behind,
            },
            Source::Groups { state, columns } | Source::BuildRows { state, columns, .. } => {
                match (self.states.get(state), is_made_here(*state)) {
                    (Some(part), _) => columns[*part],
                    (None, true) => return Place::Behind,
                    (None, false) if keys.is_empty() => return Place::Independent,
                    (None, false) => return Place::Behind,
                }
            }
        };
        if keys.iter().all(|other| *other == key) { Place::Member(key) } else { Place::Behind }
    }

    /// Leaves out what reads states that pipelines behind the section read, too; a state that nobody reads within it holds the
    /// rows of all ranges.
    fn close(&mut self, program: &Program) {
        loop {
            let readers = |state: &StateId| {
                let state = *state;
                (0..program.pipelines.len()).filter(move |number| reads(&program.pipelines[*number], state))
            };
            let members = &self.pipelines;
            self.states.retain(|state, _| readers(state).any(|reader| members.contains(&reader)));
            let is_within = |state: &StateId| readers(state).all(|reader| members.contains(&reader));
            let Some(state) = self.states.keys().find(|state| !is_within(state)).copied() else { return };
            let first = readers(&state).find(|reader| members.contains(reader));
            let kept = members.iter().take_while(|member| Some(**member) != first).count();
            for left_out in self.pipelines.split_off(kept) {
                self.columns.remove(&left_out);
                program.pipelines[left_out].sink.fills().and_then(|state| self.states.remove(&state));
            }
        }
    }

    /// Whether the states of all ranges together are large, and a table is.
    fn pays(&self, program: &Program, query: &Query, options: &QueryOptions) -> bool {
        if self.states.is_empty() || self.pipelines.len() < 2 {
            return false;
        }
        let expected = |state: &StateId| query.expected_rows(*state);
        let rows: f64 = self.states.keys().filter_map(expected).sum();
        let blocks = self.blocks(query, program).into_iter().map(|blocks| blocks.len()).max().unwrap_or(0);
        let least_rows = options.scan.partition_wise_rows;
        least_rows == 0 || (rows >= least_rows as f64 && blocks >= FEWEST_BLOCKS)
    }

    /// The blocks of each table by the key.
    fn blocks(&self, query: &Query, program: &Program) -> Vec<Vec<KeyBlock>> {
        let of = |(number, column): (&usize, &usize)| match &program.pipelines[*number].source {
            Source::Table(source) => key_blocks(&query.tables[source.table].table, *column).unwrap_or_default(),
            Source::Groups { .. } | Source::BuildRows { .. } => Vec::new(),
        };
        self.columns.iter().map(of).collect()
    }

    /// Ranges with about as many blocks each of the table that has the most; all keys are in one.
    fn ranges(&self, query: &Query, program: &Program, options: &QueryOptions) -> Vec<KeyRange> {
        let tables = self.blocks(query, program);
        let Some(largest) = tables.iter().max_by_key(|blocks| blocks.len()) else { return Vec::new() };
        let wanted = RANGES.max(RANGES_PER_THREAD * options.threads);
        let mut starts: Vec<i64> = if largest.len() < FEWEST_BLOCKS {
            let (low, high) = (largest.first().map_or(0, |block| block.keys.0), largest.iter().map(|b| b.keys.1).max());
            let width = high.unwrap_or(low).abs_diff(low) / FORCED_RANGES as u64;
            (1..FORCED_RANGES as u64).filter_map(|range| low.checked_add_unsigned(range * width)).collect()
        } else {
            let step = largest.len().div_ceil(wanted).max(1);
            largest.iter().step_by(step).skip(1).map(|block| block.keys.0).collect()
        };
        starts.dedup();
        starts.retain(|start| *start > i64::MIN);
        let ends = starts.iter().map(|next| next - 1).chain([i64::MAX]);
        [i64::MIN].into_iter().chain(starts.iter().copied()).zip(ends.collect::<Vec<_>>()).collect()
    }

    /// The section, whose pipelines are those from `begin` to `end` of the program by now.
    fn section(self, query: &Query, program: &Program, (begin, end): (usize, usize), ranges: Vec<KeyRange>) -> Section {
        let mut scans = BTreeMap::new();
        for (number, before) in (begin..end).zip(&self.pipelines) {
            let (Some(column), Source::Table(source)) =
                (self.columns.get(before).copied(), &program.pipelines[number].source)
            else {
                continue;
            };
            let blocks = key_blocks(&query.tables[source.table].table, column).unwrap_or_default();
            scans.insert(number, ranged_scan(column, &blocks, &ranges));
        }
        Section { pipelines: begin..end, states: self.states.into_keys().collect(), ranges, scans }
    }
}

/// The states that a pipeline looks up, each with the registers of the key.
fn lookups(pipeline: &Pipeline) -> Vec<(StateId, &Vec<Register>)> {
    let probes = pipeline.steps.iter().filter_map(|step| match step {
        Step::Probe(probe) => Some((probe.state, &probe.keys)),
        Step::Compute(_) | Step::Filter(_) => None,
    });
    let marked = match &pipeline.sink {
        Sink::Mark { state, keys, .. } => Some((*state, keys)),
        Sink::Build { .. } | Sink::Aggregate { .. } | Sink::Collect { .. } => None,
    };
    probes.chain(marked).collect()
}

/// A block and the keys that it has.
#[derive(Debug, Clone, Copy)]
struct KeyBlock {
    keys: KeyRange,
    group: (usize, usize),
    block: usize,
}

/// The blocks of a table by their least key. `None` where a key may be NULL or no integer, or there are none.
fn key_blocks(table: &Table, column: usize) -> Option<Vec<KeyBlock>> {
    let mut blocks = Vec::new();
    for (segment, stored) in table.segments.iter().enumerate() {
        let index = stored.column_index(table.columns[column].id)?;
        for (group, layout) in stored.groups().ok()?.iter().enumerate() {
            for (block, zone) in layout.columns[index].zones.iter().enumerate() {
                let (Some(Value::Int(low)), Some(Value::Int(high)), 0) = (&zone.min, &zone.max, zone.null_count) else {
                    return None;
                };
                let keys = (i64::try_from(*low).ok()?, i64::try_from(*high).ok()?);
                blocks.push(KeyBlock { keys, group: (segment, group), block });
            }
        }
    }
    blocks.sort_by_key(|block| block.keys);
    (!blocks.is_empty()).then_some(blocks)
}

fn is_clustered(blocks: &[KeyBlock]) -> bool {
    let span = |(low, high): KeyRange| high.abs_diff(low) as f64 + 1.0;
    let all = blocks.iter().map(|block| block.keys).reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
    let sum: f64 = blocks.iter().map(|block| span(block.keys)).sum();
    all.is_some_and(|all| sum <= CLUSTERED_SPANS * span(all))
}

/// The scan of a table with these blocks, range by range. A block that has keys of several ranges is in a morsel of each.
fn ranged_scan(column: usize, blocks: &[KeyBlock], ranges: &[KeyRange]) -> RangedScan {
    let (mut morsels, mut ends) = (Vec::new(), Vec::with_capacity(ranges.len()));
    for (low, high) in ranges {
        let within = blocks.iter().filter(|block| block.keys.0 <= *high && block.keys.1 >= *low);
        let mut groups: BTreeMap<(usize, usize), (usize, usize)> = BTreeMap::new();
        for KeyBlock { group, block, .. } in within {
            let (from, to) = groups.entry(*group).or_insert((*block, *block));
            (*from, *to) = ((*from).min(*block), (*to).max(*block));
        }
        morsels.extend(groups.into_iter().map(|(group, (from, to))| Morsel::new(group, from..to + 1)));
        ends.push(morsels.len());
    }
    RangedScan { column, morsels, ends }
}
