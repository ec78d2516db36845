//! Narrowing blocks by their positional aggregates before any predicate looks at their codes (Data Blocks §3.2), and leaving
//! out blocks for which narrowing by another predicate of the morsel left no row.
//!
//! Invariant: no row is left out that passes all tests.

use forebay_cpu::{BlockPredicate, Selection, translate};

use super::{AdaptivePredicate, MorselRows};

/// A test that zones did not decide, and where.
#[derive(Debug)]
pub(super) struct Pending {
    /// Its number.
    pub(super) test: usize,
    /// The blocks that it must be evaluated on, each with the translated test where narrowing needed it.
    pub(super) blocks: Vec<(usize, Option<BlockPredicate>)>,
}

impl MorselRows {
    /// Leaves out the blocks to come in which no row can pass `tests`.
    pub fn leave_out(&mut self, tests: &[AdaptivePredicate]) {
        if !self.scan.settings.sma {
            return;
        }
        for AdaptivePredicate { test, .. } in tests {
            let Some(column) = self.group_column(test.column) else { continue };
            let blocks = column.zones.iter().enumerate().skip(self.next);
            let lost: Vec<usize> =
                blocks.filter(|(_, zone)| !forebay_prune::may_pass(zone, &test.test)).map(|(block, _)| block).collect();
            lost.into_iter().for_each(|block| self.selections[block] = Selection::Rows(0..0));
        }
    }

    /// Leaves out rows of each block that some test rules out; what several tests leave is intersected. The columns of the
    /// tests must be loaded.
    pub(super) fn narrow(&mut self, tests: &mut [AdaptivePredicate], pending: &mut [Pending]) {
        if !self.scan.settings.psma {
            return;
        }
        let mut left_out = 0;
        for Pending { test, blocks } in pending {
            let ranked = &mut tests[*test];
            for (block, translated) in blocks {
                let Selection::Rows(rows) = self.selections[*block].clone() else { continue };
                let Some((chunk, index)) = self.chunk_of(ranked.test.column, *block).filter(|_| !rows.is_empty())
                else {
                    continue;
                };
                let Some(psma) = chunk.psma(index) else { continue };
                let test =
                    translated.insert(translate(&chunk.block(index), &ranked.test.test, self.scan.settings.simd));
                let Some(range) = test.rows(psma) else { continue };
                let start = rows.start.max(range.start);
                let narrowed = start..rows.end.min(range.end).max(start);
                let fewer = (rows.len() - narrowed.len()) as u64;
                // They count as rows that did not pass, so that a test that narrows well is not taken for one that does
                // nothing.
                ranked.rows_in += fewer;
                left_out += fewer;
                self.selections[*block] = Selection::Rows(narrowed);
            }
        }
        self.scan.metrics.psma_rows.add(left_out);
    }
}
