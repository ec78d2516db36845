//! Leaving out blocks of a morsel: those of which was decided before the scan ran that no row is needed, and those that zones
//! rule out by tests that came later.
//!
//! Invariant: no block is left out that has a row which passes all tests.

use forebay_block::BlockSet;
use forebay_cpu::Selection;

use super::narrow::Pending;
use super::{AdaptivePredicate, MorselRows};

impl MorselRows {
    /// Rules out whole blocks by their zones. Returns the tests that remain, in this order, each with the blocks where it
    /// must be evaluated on codes.
    pub(super) fn prune(&mut self, tests: &[AdaptivePredicate], order: &[usize]) -> Vec<Pending> {
        let sma = self.scan.settings.sma;
        let mut pending = Vec::new();
        let first = self.scan.layout.of_group((self.morsel.segment, self.morsel.group)).start;
        for block in self.morsel.blocks().filter(|block| self.scan.is_ruled_out(first + block)) {
            self.selections[block] = Selection::Rows(0..0);
        }
        self.others.retain(|block| !self.scan.is_ruled_out(first + block));
        for &position in order {
            let ranked = &tests[position];
            let test = &ranked.test;
            let decided = self.scan.zone_decisions.find(test, ranked.decided);
            if let Some(passed) = self.scan.zone_decisions.passed_by(decided) {
                let is_undecided =
                    |block: &usize| !self.selections[*block].is_empty() && !passed.contains(first + block);
                let undecided: Vec<_> = self.morsel.blocks().filter(is_undecided).map(|block| (block, None)).collect();
                if !undecided.is_empty() && ranked.pays() {
                    pending.push(Pending { test: position, blocks: undecided });
                }
                continue;
            }
            let Some(index) = self.segment.column_index(self.scan.table.columns[test.column].id) else {
                if !test.test.passes(self.scan.table.columns[test.column].missing.as_ref()) {
                    self.selections.fill(Selection::Rows(0..0));
                    if !ranked.is_of_morsel {
                        self.others = BlockSet::default();
                    }
                }
                continue;
            };
            let mut undecided = Vec::new();
            let zones = &self.morsel.group_of(&self.segment).columns[index].zones;
            if sma && !ranked.is_of_morsel {
                self.others.retain(|block| forebay_prune::may_pass(&zones[block], &test.test));
            }
            for block in self.morsel.blocks() {
                let zone = &zones[block];
                if self.selections[block].is_empty() {
                    continue;
                }
                if sma && !forebay_prune::may_pass(zone, &test.test) {
                    self.selections[block] = Selection::Rows(0..0);
                } else if !(sma && forebay_prune::must_pass(zone, &test.test)) {
                    undecided.push((block, None));
                }
            }
            if !undecided.is_empty() && ranked.pays() {
                pending.push(Pending { test: position, blocks: undecided });
            }
        }
        let metrics = &self.scan.metrics;
        let mine = &self.selections[self.morsel.blocks()];
        let pruned = mine.iter().filter(|selection| selection.is_empty()).count();
        metrics.blocks.add(mine.len() as u64);
        metrics.blocks_pruned.add(pruned as u64);
        metrics.rows_in.add(self.selections.iter().map(|selection| selection.len() as u64).sum());
        pending
    }
}
