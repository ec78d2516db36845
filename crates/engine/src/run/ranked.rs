//! Tests with what they were seen to do, so that those which rule out most rows for their cost go first.

use forebay_base::limits;
use forebay_pipeline::ColumnPredicate;

use super::decided::DecidedTest;

/// A test with what it has been seen to do, so that the one that rules out most rows for its cost goes first.
#[derive(Debug, Clone)]
pub struct AdaptivePredicate {
    /// The test.
    pub test: ColumnPredicate,
    /// Whoever gave it checks again, so that it may be left out where it does not pay.
    pub optional: bool,
    /// It asks for the rows that the morsel is for: nothing follows from it for other morsels of the row group.
    pub(super) is_of_morsel: bool,
    /// Which test of the scan it is that zones have answered before.
    pub(super) decided: Option<DecidedTest>,
    pub(super) rows_in: u64,
    pub(super) rows_out: u64,
    /// Rows of the blocks where it was evaluated, and what it would have cost if each of them had been looked at.
    pub(super) block_rows: u64,
    pub(super) cost: f64,
}

/// What a test is thought to cost for a row as long as nothing is known.
const TRIAL_COST: f64 = 0.3;

/// After this many rows a test's share of passing rows is believed.
pub(super) const TRIAL_ROWS: u64 = limits::BLOCK_ROWS as u64;

/// An optional test that lets more than this share of rows pass costs more than it saves.
const PAYING_SHARE: f64 = 0.9;

impl AdaptivePredicate {
    /// A test that has not been seen yet.
    pub fn new(test: ColumnPredicate, optional: bool) -> Self {
        Self { test, optional, is_of_morsel: false, decided: None, rows_in: 0, rows_out: 0, block_rows: 0, cost: 0.0 }
    }

    /// The same test, which only says which rows of its blocks a morsel is for.
    #[must_use]
    pub fn of_morsel(self) -> Self {
        Self { is_of_morsel: true, ..self }
    }

    /// Rows that came to the test, those included that its positional aggregate left out, and those of them that passed.
    /// Rows whose zones decided are in neither.
    pub fn rows(&self) -> (u64, u64) {
        (self.rows_in, self.rows_out)
    }

    /// Share of rows that passed; a half as long as nothing is known.
    fn share(&self) -> f64 {
        match self.rows_in < TRIAL_ROWS {
            true => 0.5,
            false => self.rows_out as f64 / self.rows_in as f64,
        }
    }

    /// Rows ruled out for what looking at a row costs.
    pub(super) fn rank(&self) -> f64 {
        let cost = match self.block_rows < TRIAL_ROWS {
            true => TRIAL_COST,
            false => self.cost / self.block_rows as f64,
        };
        (1.0 - self.share()) / cost.max(f64::MIN_POSITIVE)
    }

    /// Whether evaluating it is thought to save more than it costs.
    pub(super) fn pays(&self) -> bool {
        !self.optional || self.share() < PAYING_SHARE
    }
}
