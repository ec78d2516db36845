//! What is only known while a query runs, and makes its next pipeline cheaper: keys of finished build sides become tests
//! of the scan (early probing, Data Blocks Appendix E; join filters), probes that those tests answer fall away, ranges of
//! group keys make dense groups.

use std::ops::Bound;
use std::sync::Arc;

use forebay_base::Value;
use forebay_cpu::compile::Finished;
use forebay_cpu::dictionary::Dictionary;
use forebay_cpu::groups::{GroupLayout, GroupPlan};
use forebay_cpu::join::JoinTable;
use forebay_pipeline::ir::{
    Pipeline, Probe, ProbeKind, Program, Register, Sink, Source, State, StateId, Step, ValueType,
};
use forebay_pipeline::{ColumnPredicate, Predicate};

use super::Query;
use crate::{AdaptivePredicate, RuntimeFilter};

/// Ids that a column of strings is taken to have at most, until it shows more: groups by few short codes stay dense.
pub(super) const FEW_IDS: usize = 32;

/// Dense groups that do not stay in caches take at most one in so many bytes of the budget.
const DENSE_BUDGET_SHARE: usize = 4;

/// The parts of a key of several, and keys that no bitmap holds, are looked for where a build side has at most one row for so
/// many of the table: making a filter of them takes longer for a row than asking it.
const KEYS_SHARE: u64 = 8;

/// A program with one pipeline as it is compiled now.
pub(super) struct Specialised {
    /// The program; the pipeline is without the probes that its scan answers.
    pub(super) program: Program,
    /// The tests of its scan.
    pub(super) tests: Vec<AdaptivePredicate>,
    /// By predicate: what it looks for, where it is a runtime filter.
    pub(super) learned: Vec<Option<String>>,
    /// Keys that its scan looks for besides, each with words for people.
    pub(super) keys: Vec<(RuntimeFilter, String)>,
    /// What became of each step but computations.
    pub(super) steps: Vec<StepPlace>,
    /// How its groups lie.
    pub(super) groups: Option<GroupPlan>,
    /// Dense groups hold only as long as each of these dictionaries has at most [`FEW_IDS`] strings.
    pub(super) assumed_small_dictionaries: Vec<usize>,
    /// What was chosen, for EXPLAIN ANALYZE.
    pub(super) notes: Vec<String>,
}

impl Specialised {
    /// Finds the groups by hash, whatever was chosen.
    pub(super) fn hash_groups(&mut self) {
        self.groups = Some(GroupPlan::hash());
        self.assumed_small_dictionaries.clear();
        self.notes = vec!["hashed groups".to_owned()];
    }
}

/// Who does a step of the pipeline.
#[derive(Debug, Clone, Copy)]
pub(super) enum StepPlace {
    /// The step of this number of the pipeline that is compiled.
    Pipeline(usize),
    /// The scan, by the test of this number.
    Scan(usize),
}

/// What is known besides the program.
pub(super) struct Known<'a> {
    pub(super) program: &'a Program,
    pub(super) query: &'a Query,
    pub(super) finished: &'a [Option<Arc<Finished>>],
    pub(super) dictionaries: &'a [Arc<Dictionary>],
    /// Bytes that states may still take together, and the workers that share them.
    pub(super) budget_bytes: usize,
    pub(super) threads: usize,
    /// Whether dictionaries of columns that the pipeline itself reads may be taken to stay small.
    pub(super) assumes_small_dictionaries: bool,
}

impl Known<'_> {
    /// Pipeline `index` with all that is known.
    pub(super) fn specialise(&self, index: usize) -> Specialised {
        let mut program = self.program.clone();
        let (mut tests, mut learned, mut places) = (Vec::new(), Vec::new(), Vec::new());
        let mut filters = Vec::new();
        if let Source::Table(source) = &program.pipelines[index].source {
            tests.extend(source.tests.iter().map(|test| AdaptivePredicate::new(test.clone(), false)));
            learned.resize(tests.len(), None);
        }
        let steps = std::mem::take(&mut program.pipelines[index].steps);
        let mut kept = Vec::with_capacity(steps.len());
        for step in steps {
            let (found, answered) = match &step {
                Step::Probe(probe) => self.learn(&program.pipelines[index].source, probe),
                Step::Compute(_) | Step::Filter(_) => (Vec::new(), false),
            };
            if !matches!(step, Step::Compute(_)) {
                places.push(if answered { StepPlace::Scan(tests.len()) } else { StepPlace::Pipeline(kept.len()) });
            }
            if let Step::Probe(probe) = &step {
                let role = if answered { "in place of the probe" } else { "before the probe" };
                learned.extend(found.iter().map(|test| Some(runtime_filter_text(test, probe.state, role))));
                tests.extend(found.into_iter().map(|test| AdaptivePredicate::new(test, !answered)));
                if matches!(probe.kind, ProbeKind::Inner | ProbeKind::Semi) {
                    filters.extend(self.runtime_filter(&program.pipelines[index].source, probe.state, &probe.keys));
                }
            }
            if !answered {
                kept.push(step);
            }
        }
        program.pipelines[index].steps = kept;
        // Rows without a join partner set no mark, so the scan may drop them.
        if let Sink::Mark { state, keys, .. } = &program.pipelines[index].sink {
            let found = self.key_tests(&program.pipelines[index].source, *state, keys);
            learned.extend(found.iter().map(|test| Some(runtime_filter_text(test, *state, "before they mark"))));
            tests.extend(found.into_iter().map(|test| AdaptivePredicate::new(test, true)));
            filters.extend(self.runtime_filter(&program.pipelines[index].source, *state, keys));
        }
        let (mut assumed_small_dictionaries, mut notes) = (Vec::new(), Vec::new());
        let groups = self.groups(
            &program.pipelines[index],
            &self.program.pipelines[index].steps,
            &mut assumed_small_dictionaries,
        );
        match groups.as_ref().map(GroupPlan::layout) {
            Some(GroupLayout::Dense { .. }) => notes.push("dense groups".to_owned()),
            Some(GroupLayout::Hash) => {
                assumed_small_dictionaries.clear();
                notes.push("hashed groups".to_owned());
            }
            Some(GroupLayout::Partitioned) => {
                assumed_small_dictionaries.clear();
                notes.push("partitioned groups".to_owned());
            }
            None => {}
        }
        Specialised { program, tests, learned, keys: filters, steps: places, groups, assumed_small_dictionaries, notes }
    }

    fn joined(&self, state: StateId) -> Option<&JoinTable> {
        match self.finished[state.0 as usize].as_deref() {
            Some(Finished::Join(table)) => Some(table),
            _ => None,
        }
    }

    /// The tests that a scan of `source` can do for `probe`, and whether they say all that the probe says.
    fn learn(&self, source: &Source, probe: &Probe) -> (Vec<ColumnPredicate>, bool) {
        // Only where rows without a match are lost may the scan leave them out.
        if !matches!(probe.kind, ProbeKind::Inner | ProbeKind::Semi) {
            return (Vec::new(), false);
        }
        let tests = self.key_tests(source, probe.state, &probe.keys);
        // One match at most, and nothing of it is read: being a key is all that there is to know.
        let once = probe.kind == ProbeKind::Semi || self.joined(probe.state).is_some_and(|table| table.is_unique());
        let is_key =
            matches!(tests.as_slice(), [ColumnPredicate { test: Predicate::Keys(_), .. }]) && probe.keys.len() == 1;
        (tests, once && is_key && probe.condition.is_none() && probe.columns.is_empty())
    }

    /// The tests that a scan of `source` can do for rows that are of no use without one of the keys of `state`: one for
    /// each part of the key that is a column of integers.
    fn key_tests(&self, source: &Source, state: StateId, keys: &[Register]) -> Vec<ColumnPredicate> {
        let (Source::Table(source), Some(table)) = (source, self.joined(state)) else { return Vec::new() };
        let rows = self.query.tables[source.table].table.rows();
        let is_small = table.len() as u64 <= rows / KEYS_SHARE;
        let test = |(part, key): (usize, &Register)| {
            let column = source.columns.iter().find(|column| column.to == *key)?;
            if column.typed.value != ValueType::I64 || column.dictionary.is_some() {
                return None;
            }
            let test = if table.is_empty() {
                Predicate::Never
            } else if let Some(values) = (keys.len() == 1 || is_small).then(|| table.part_set(part)).flatten() {
                Predicate::Keys(values)
            } else {
                let (low, high) = table.part_range(part)?;
                let bound = |value: i64| Bound::Included(Value::Int(value.into()));
                Predicate::Range { low: bound(low), high: bound(high) }
            };
            Some(ColumnPredicate { column: column.column, test })
        };
        keys.iter().enumerate().filter_map(test).collect()
    }

    /// A filter for a scan of `source`, where the keys of `state` are more than one bitmap holds and few.
    fn runtime_filter(&self, source: &Source, state: StateId, keys: &[Register]) -> Option<(RuntimeFilter, String)> {
        let (Source::Table(source), Some(table)) = (source, self.joined(state)) else { return None };
        let rows = self.query.tables[source.table].table.rows();
        if table.is_empty() || table.len() as u64 > rows / KEYS_SHARE || table.key_set().is_some() {
            return None;
        }
        let column = |key: &Register| {
            let column = source.columns.iter().find(|column| column.to == *key)?;
            let is_hashed_alike = matches!(column.typed.value, ValueType::I64 | ValueType::Bytes);
            (is_hashed_alike && column.dictionary.is_none()).then(|| column.clone())
        };
        let columns = keys.iter().map(column).collect::<Option<Vec<_>>>()?;
        let bloom = table.bloom()?;
        let text = format!("perhaps one of {} keys of #{}, by a Bloom filter", bloom.keys(), state.0);
        Some((RuntimeFilter::new(columns, bloom), text))
    }

    /// How the groups of a pipeline lie, whose steps were `steps` before scans took some over.
    fn groups(
        &self,
        pipeline: &Pipeline,
        steps: &[Step],
        assumed_small_dictionaries: &mut Vec<usize>,
    ) -> Option<GroupPlan> {
        let Sink::Aggregate { state, keys, .. } = &pipeline.sink else { return None };
        let State::Aggregate(aggregate) = &self.program.states[state.0 as usize] else { return None };
        let ranges: Vec<_> =
            keys.iter().map(|key| self.key_range(pipeline, *key, assumed_small_dictionaries)).collect();
        let guessed = self.query.expected_rows(*state);
        let expected = guessed.map_or(0, |rows| (rows as u64).min(self.most_groups(steps, keys, &ranges)));
        let most_bytes = self.budget_bytes / DENSE_BUDGET_SHARE / self.threads.max(1);
        Some(GroupPlan::pick(aggregate, &ranges, usize::try_from(expected).unwrap_or(usize::MAX), most_bytes))
    }

    /// About how many groups there are at most: keys come from finished build sides, have partners in them, or lie in a range.
    /// A guess where one build side is probed twice, by different keys.
    fn most_groups(&self, steps: &[Step], keys: &[Register], ranges: &[Option<(i64, i64)>]) -> u64 {
        // Keys that are bounded by one state are at most as many together as it has rows, and NULL of a left join.
        let mut states: Vec<(StateId, u64)> = Vec::new();
        let mut spans: u64 = 1;
        for (key, range) in keys.iter().zip(ranges) {
            let bounds = steps.iter().filter_map(|step| match step {
                Step::Probe(probe) if bounds_values(probe, *key) => {
                    Some((probe.state, self.joined(probe.state)?.len() as u64 + 1))
                }
                _ => None,
            });
            let bound = bounds.min_by_key(|(_, rows)| *rows);
            let span = range.map_or(u64::MAX, |(low, high)| high.abs_diff(low).saturating_add(2));
            match bound.filter(|(_, rows)| *rows < span) {
                Some(bound) if states.contains(&bound) => {}
                Some(bound) => states.push(bound),
                None => spans = spans.saturating_mul(span),
            }
        }
        states.iter().fold(spans, |all, (_, rows)| all.saturating_mul(*rows))
    }

    /// Least and greatest value of a group key, where something tells them before the pipeline runs.
    fn key_range(
        &self,
        pipeline: &Pipeline,
        key: Register,
        assumed_small_dictionaries: &mut Vec<usize>,
    ) -> Option<(i64, i64)> {
        if let Source::Table(source) = &pipeline.source
            && let Some(column) = source.columns.iter().find(|column| column.to == key)
        {
            if let Some(dictionary) = column.dictionary {
                let number = dictionary.0 as usize;
                assumed_small_dictionaries.push(number);
                let trusted = self.assumes_small_dictionaries && self.dictionaries[number].len() <= FEW_IDS;
                return trusted.then_some((0, FEW_IDS as i64 - 1));
            }
            return match column.typed.value {
                ValueType::Bool => Some((0, 1)),
                ValueType::I64 => {
                    let (low, high) = self.query.tables[source.table].table.integers(column.column)?;
                    Some((i64::try_from(low).ok()?, i64::try_from(high).ok()?))
                }
                _ => None,
            };
        }
        pipeline.steps.iter().find_map(|step| {
            let Step::Probe(probe) = step else { return None };
            let (payload, _) = probe.columns.iter().find(|(_, to)| *to == key)?;
            self.joined(probe.state)?.payload_range(*payload)
        })
    }
}

/// Whether `register` has no more values behind a probe than the probed state has rows, but for NULL.
fn bounds_values(probe: &Probe, register: Register) -> bool {
    let loses = matches!(probe.kind, ProbeKind::Inner | ProbeKind::Semi);
    loses && probe.keys.contains(&register) || probe.columns.iter().any(|(_, to)| *to == register)
}

/// How people read what a scan looks for because of a build side.
fn runtime_filter_text(test: &ColumnPredicate, state: StateId, role: &str) -> String {
    let StateId(number) = state;
    match &test.test {
        Predicate::Keys(keys) => format!("one of {} keys of #{number}, {role}", keys.count()),
        Predicate::Never => format!("a key of #{number}, which is empty, {role}"),
        _ => format!("within the keys of #{number}, {role}"),
    }
}
