//! Scans of pipelines that have not begun: their first reads are on their way while those in front of them run (GOLAP §3.3,
//! from one pipeline to the next).
//!
//! Invariants: what is read early is what a scan needs whatever the pipelines in front of it find; together it stays within
//! what the session allows. Must not know: rows.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use forebay_base::Result;
use forebay_pipeline::ir::{Pipeline, Probe, ProbeKind, Register, Sink, Source, Step, TableSource};

use super::device::Place;
use super::partitionwise::RangedScan;
use super::partner_tests::ruled_out;
use super::report::timeline_of;
use super::runner::Runner;
use super::{FactReport, QueryTable};
use crate::facts::FactUse;
use crate::timeline::SourceTimeline;
use crate::{AdaptivePredicate, Foreseen, Scan};

/// Rows of a morsel of which, where so many are expected to go on, some will be in nearly every chunk, although estimates are
/// often wrong by a factor of ten.
const MANY_ROWS: f64 = 256.0;

/// The share of blocks from which on, where it is likely to be left out, a scan waits for the keys of its joins. As these lie
/// more closely together than is assumed, it will be more.
const LEFT_OUT_SHARE: f64 = 0.2;

/// More keys than these are in every block of most tables: whose blocks they are in is not looked at.
const FEW_KEYS: f64 = 4096.0;

/// Scans by table of the query.
#[derive(Debug, Default)]
pub(super) struct Coming(Mutex<BTreeMap<usize, Arc<Scan>>>);

impl Coming {
    /// Every change leaves the map whole, whoever panics.
    fn lock(&self) -> MutexGuard<'_, BTreeMap<usize, Arc<Scan>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Runner<'_> {
    /// Makes the scans of all pipelines and begins their first reads.
    pub(super) fn foresee(&self) -> Result<()> {
        let most_bytes = self.options.scan.read_ahead_bytes;
        if most_bytes == 0 {
            return Ok(());
        }
        let mut coming = Vec::new();
        for (number, pipeline) in self.program.pipelines.iter().enumerate() {
            let Source::Table(source) = &pipeline.source else { continue };
            if self.places.get(number) == Some(&Place::Device) {
                // A device reads for itself.
                continue;
            }
            let timeline = timeline_of(self.options, self.query, &pipeline.source);
            coming.push((pipeline, source, self.new_scan(source)?.with_timeline(timeline)));
        }
        let mut next: Option<Arc<Scan>> = None;
        let mut scans = BTreeMap::new();
        for (pipeline, source, scan) in coming.into_iter().rev() {
            let foreseen = match self.awaits_keys(pipeline, source) {
                true => Foreseen::default(),
                false => foreseen(pipeline, source, &self.query.tables[source.table], scan.morsels()),
            };
            let foreseen = Foreseen { read_before: self.read_before(source), ..foreseen };
            let behind = next.take();
            let scan = next.insert(Arc::new(scan.before(foreseen, behind)));
            scans.insert(source.table, Arc::clone(scan));
        }
        if let Some(first) = next {
            first.begin(most_bytes);
        }
        *self.coming.lock() = scans;
        Ok(())
    }

    /// Whether most blocks of a source are likely to be left out once the keys of a join are known: few of them, in a table that
    /// lies in their order, as that of a month's days in a table of sales. What is read before would be read for nothing.
    fn awaits_keys(&self, pipeline: &Pipeline, source: &TableSource) -> bool {
        let table = &self.query.tables[source.table].table;
        let leaves_out = |step: &Step| {
            let Step::Probe(Probe { kind: ProbeKind::Inner | ProbeKind::Semi, state, keys, .. }) = step else {
                return false;
            };
            let Some(rows) = self.query.expected_rows(*state) else { return false };
            let column = |key: &Register| source.columns.iter().find(|column| column.to == *key).map(|own| own.column);
            // Of keys that lie anywhere in the range. Those of one range are in fewer blocks.
            let is_left_out = |column: usize| (1.0 - table.block_share(column)).powf(rows) > LEFT_OUT_SHARE;
            rows <= FEW_KEYS && keys.iter().filter_map(column).any(is_left_out)
        };
        pipeline.steps.iter().any(leaves_out)
    }

    /// Where the foreseen scan of `source` notes when it does what.
    pub(super) fn foreseen_timeline(&self, source: &Source) -> Option<SourceTimeline> {
        let Source::Table(source) = source else { return None };
        self.coming.lock().get(&source.table)?.timeline().cloned()
    }

    /// The scan of a pipeline that begins: the one that was foreseen, where it has not been taken.
    pub(super) fn scan_of(&self, source: &TableSource) -> Result<Arc<Scan>> {
        let foreseen = self.coming.lock().remove(&source.table);
        let new = || Ok(Arc::new(self.new_scan(source)?.with_timeline(self.timeline.clone())));
        foreseen.map_or_else(new, Ok)
    }

    fn new_scan(&self, source: &TableSource) -> Result<Scan> {
        let bound = &self.query.tables[source.table];
        let columns = source.columns.iter().map(|column| column.column).collect();
        let (table, metrics) = (Arc::clone(&bound.table), Arc::clone(&bound.metrics));
        let mut scan = Scan::new(Arc::clone(self.engine), table, columns, metrics, self.cancel.clone())?;
        if let Some(ranged) = self.ranged_scan(source) {
            scan = scan.of_morsels(ranged.morsels.clone());
        }
        let scan = scan.with_settings(self.options.scan).reading_again(self.read_again(source));
        let scan = scan.decided_by_zones(&source.tests);
        let scan = match self.options.scan.facts {
            FactUse::None => scan,
            facts => {
                let ruled_out = ruled_out(self.engine, self.query, &self.program, (source, facts));
                let report = FactReport { blocks: ruled_out.blocks.len(), by: ruled_out.by.clone() };
                // A section that is given up makes its scans anew, which are told the same.
                bound.facts.begin(report);
                scan.without(ruled_out)
            }
        };
        Ok(match self.ranged_scan(source) {
            // Its morsels go by their numbers among those of their ranges.
            Some(_) => scan,
            None => scan.without_ruled_out_morsels(),
        })
    }

    /// By what ranges a source is scanned, where its pipeline runs range by range.
    fn ranged_scan(&self, source: &TableSource) -> Option<&RangedScan> {
        let scans = self.sections.iter().flat_map(|section| &section.scans);
        let is_of = |number: usize| match &self.program.pipelines[number].source {
            Source::Table(other) => other.table == source.table,
            Source::Groups { .. } | Source::BuildRows { .. } => false,
        };
        scans.filter(|(number, _)| is_of(**number)).map(|(_, scan)| scan).next()
    }

    /// The columns of a source's table that a later pipeline reads, too.
    fn read_again(&self, source: &TableSource) -> Vec<usize> {
        self.read_by(self.sources().skip_while(|other| other.table != source.table).skip(1), source)
    }

    /// The columns of a source's table that an earlier pipeline reads.
    fn read_before(&self, source: &TableSource) -> Vec<usize> {
        self.read_by(self.sources().take_while(|other| other.table != source.table), source)
    }

    /// The tables that pipelines scan, in the order in which they run.
    fn sources(&self) -> impl Iterator<Item = &TableSource> {
        self.program.pipelines.iter().filter_map(|pipeline| match &pipeline.source {
            Source::Table(source) => Some(source),
            _ => None,
        })
    }

    /// The columns of the table of `source` that `others` read.
    fn read_by<'a>(&self, others: impl Iterator<Item = &'a TableSource>, source: &TableSource) -> Vec<usize> {
        let copy = |source: &TableSource| {
            let table = &self.query.tables[source.table].table;
            (table.id, table.copy_id())
        };
        let of_table = others.filter(|other| copy(other) == copy(source));
        let loaded = |other: &TableSource| other.columns.iter().map(|column| column.column).collect::<Vec<_>>();
        let tested = |other: &TableSource| other.tests.iter().map(|test| test.column).collect::<Vec<_>>();
        of_table.flat_map(|other| [loaded(other), tested(other)]).flatten().collect()
    }
}

/// What the scan of a pipeline, of so many morsels, needs whatever comes before it: columns of its own tests, and where these
/// have nothing to look at, the key that is looked up first, or without any all that the pipeline reads. And what it is likely
/// to need, where many rows of each morsel are expected to go on.
fn foreseen(pipeline: &Pipeline, source: &TableSource, table: &QueryTable, morsels: usize) -> Foreseen {
    let tests = source.tests.iter().map(|test| AdaptivePredicate::new(test.clone(), false)).collect();
    let column = |register| source.columns.iter().find(|column| column.to == register).map(|column| column.column);
    let looks_up = |step: &Step| match step {
        Step::Probe(Probe { kind: ProbeKind::Inner | ProbeKind::Semi, keys, .. }) => Some(keys.clone()),
        _ => None,
    };
    let keys = pipeline.steps.iter().find_map(looks_up).or_else(|| match &pipeline.sink {
        Sink::Mark { keys, .. } => Some(keys.clone()),
        _ => None,
    });
    let all = || source.columns.iter().map(|column| column.column).collect::<Vec<_>>();
    let looked_up = keys.map(|keys| keys.into_iter().filter_map(column).collect::<Vec<_>>());
    let likely = match table.expected {
        // All of a small table is soon read.
        _ if morsels <= 1 => all(),
        Some(expected) if expected.kept >= MANY_ROWS * morsels as f64 => all(),
        Some(expected) if expected.tested >= MANY_ROWS * morsels as f64 => looked_up.clone().unwrap_or_default(),
        _ => Vec::new(),
    };
    let columns = match looked_up {
        Some(keys) => keys,
        None if !table.filters.is_empty() => Vec::new(),
        None => all(),
    };
    Foreseen { tests, columns, likely, read_before: Vec::new() }
}
