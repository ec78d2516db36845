//! What zones tell of all blocks of a scan before it runs, test by test, once; and morsels of which nothing is left.
//!
//! Invariants: a block that is out has no row that passes all tests; a test that is decided for a block passes all of its rows. Must
//! not know: facts.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};

use forebay_pipeline::ColumnPredicate;
use forebay_prune::blocks::BlockBits;
use forebay_prune::zones::{Decision, decide};
use forebay_store::{BlockLayout, TableSnapshot};

use super::{AdaptivePredicate, Scan};
use crate::morsel::{Chunks, Morsel};

/// What zones tell of the blocks of a scan.
#[derive(Debug, Default)]
pub(super) struct ZoneDecisions {
    /// Unique among all scans that have decided tests; 0 of one without.
    scan: u64,
    /// The tests, each with the blocks of which it passes all rows.
    tests: Vec<(ColumnPredicate, BlockBits)>,
    /// Blocks in which some test passes no row.
    pub(super) out: BlockBits,
}

/// Which of the decided tests of a scan a test is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DecidedTest {
    scan: u64,
    test: Option<usize>,
}

/// The scan that decides next.
static NEXT_SCAN: AtomicU64 = AtomicU64::new(1);

impl ZoneDecisions {
    /// Which of the tests it is, if any; `known` is what was found for it before, perhaps by another scan.
    pub(super) fn find(&self, test: &ColumnPredicate, known: Option<DecidedTest>) -> DecidedTest {
        match known {
            Some(known) if known.scan == self.scan => known,
            _ => {
                let place = self.tests.iter().position(|(other, _)| other == test);
                DecidedTest { scan: self.scan, test: place }
            }
        }
    }

    /// The blocks of which a test passes all rows; `None` where zones were not asked.
    pub(super) fn passed_by(&self, test: DecidedTest) -> Option<&BlockBits> {
        debug_assert_eq!(test.scan, self.scan, "found for another scan");
        test.test.map(|test| &self.tests[test].1)
    }
}

impl Scan {
    /// The same scan, whose zones have answered these tests.
    #[must_use]
    pub(crate) fn decided_by_zones(self, tests: &[ColumnPredicate]) -> Self {
        if !self.settings.sma || tests.is_empty() {
            return self;
        }
        let scan = NEXT_SCAN.fetch_add(1, Ordering::Relaxed);
        let mut decisions = ZoneDecisions { scan, tests: Vec::new(), out: BlockBits::none(self.layout.blocks()) };
        for test in tests {
            let Some(Decision { may, must }) = decision(&self.table, &self.layout, test) else { continue };
            decisions.out.add_at(0, &may.complement());
            decisions.tests.push((test.clone(), must));
        }
        Self { zone_decisions: decisions, ..self }
    }

    /// The same scan, without the morsels that have no block that rows are needed of.
    #[must_use]
    pub(crate) fn without_ruled_out_morsels(mut self) -> Self {
        let is_out = |morsel: &Morsel| {
            let first = self.layout.of_group((morsel.segment, morsel.group)).start;
            morsel.blocks().all(|block| self.is_ruled_out(first + block))
        };
        let (out, left): (Vec<Morsel>, Vec<Morsel>) = self.morsels.iter().partition(|morsel| is_out(morsel));
        if out.is_empty() {
            return self;
        }
        for morsel in &out {
            let group = (morsel.segment, morsel.group);
            let blocks = self.visits.entry(group).or_insert_with(|| self.layout.of_group(group).len());
            *blocks -= morsel.blocks().len();
        }
        (self.morsels, self.ruled_out_morsels) = (left, out);
        self
    }

    /// Counts the morsels that are left out; those of a row group of which nothing is left touch no chunk.
    pub(super) fn account_ruled_out_morsels(&self) {
        let tested = self.zone_decisions.tests.iter().map(|(test, _)| test.column);
        let columns: Vec<usize> = self.columns.iter().copied().chain(tested).collect();
        let mut groups = BTreeSet::new();
        for morsel in &self.ruled_out_morsels {
            let (group, blocks) = ((morsel.segment, morsel.group), morsel.blocks().len() as u64);
            self.metrics.blocks.add(blocks);
            self.metrics.blocks_pruned.add(blocks);
            if self.visits.get(&group) == Some(&0) && groups.insert(group) {
                self.account_group(group, columns.clone(), &Chunks::new());
            }
        }
        self.metrics.morsels_done.add(self.ruled_out_morsels.len() as u64);
    }
}

/// What the zones of all blocks of a table tell of a test; `None` where a footer cannot be read.
pub(crate) fn decision(table: &TableSnapshot, layout: &BlockLayout, test: &ColumnPredicate) -> Option<Decision> {
    let mut decision = decide(table.zones(test.column)?, &test.test);
    let column = &table.columns[test.column];
    let is_older = |segment: &usize| table.segments[*segment].column_index(column.id).is_none();
    for segment in (0..table.segments.len()).filter(is_older) {
        let passes = test.test.passes(column.missing.as_ref());
        decision.may.fill(layout.of_segment(segment), passes);
        decision.must.fill(layout.of_segment(segment), passes);
    }
    Some(decision)
}

impl AdaptivePredicate {
    /// Finds it among the tests that zones have answered for the scan.
    pub(super) fn find_in(&mut self, scan: &Scan) {
        self.decided = Some(scan.zone_decisions.find(&self.test, self.decided));
    }
}
