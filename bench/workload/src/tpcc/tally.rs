//! What terminals did: how many transactions of each kind, and how long each took.

use std::io::Write;

use forebay::Result;
use forebay::units::format_count;
use serde_json::{Value, json};

use crate::random::RowRandom;
use crate::report::{Columns, line};

/// The five transactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    NewOrder,
    Payment,
    OrderStatus,
    Delivery,
    StockLevel,
}

impl Kind {
    pub(super) const ALL: [Self; 5] =
        [Self::NewOrder, Self::Payment, Self::OrderStatus, Self::Delivery, Self::StockLevel];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::NewOrder => "new order",
            Self::Payment => "payment",
            Self::OrderStatus => "order status",
            Self::Delivery => "delivery",
            Self::StockLevel => "stock level",
        }
    }

    /// 45, 43, 4, 4 and 4 of a hundred.
    pub(super) fn draw(random: &mut RowRandom) -> Self {
        match random.below(100) {
            0..45 => Self::NewOrder,
            45..88 => Self::Payment,
            88..92 => Self::OrderStatus,
            92..96 => Self::Delivery,
            _ => Self::StockLevel,
        }
    }
}

/// What was done of one kind.
#[derive(Debug, Default)]
pub(super) struct Done {
    /// Seconds of each transaction, from the first statement of its first try to its end.
    pub(super) seconds: Vec<f64>,
    /// Tries that another transaction made vain.
    pub(super) conflicts: u64,
}

impl Done {
    pub(super) fn count(&self) -> u64 {
        self.seconds.len() as u64
    }

    /// So many of all were as fast or faster; `None` where there are none.
    pub(super) fn quantile(&self, share: f64) -> Option<f64> {
        let mut sorted = self.seconds.clone();
        sorted.sort_by(f64::total_cmp);
        let last = sorted.len().checked_sub(1)?;
        sorted.get((last as f64 * share).round() as usize).copied()
    }
}

/// What terminals did.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) done: [Done; 5],
    /// Transactions whose input has them rolled back.
    pub(super) rolled_back: u64,
}

impl Tally {
    pub(super) fn of(&self, kind: Kind) -> &Done {
        &self.done[kind as usize]
    }

    pub(super) fn count(&self) -> u64 {
        self.done.iter().map(Done::count).sum()
    }

    pub(super) fn add(&mut self, other: Self) {
        for (own, other) in self.done.iter_mut().zip(other.done) {
            own.seconds.extend(other.seconds);
            own.conflicts += other.conflicts;
        }
        self.rolled_back += other.rolled_back;
    }
}

/// What all terminals did in one run.
#[derive(Debug)]
pub struct Outcome {
    pub(super) tally: Tally,
    /// Seconds that the run took.
    pub(super) seconds: f64,
}

impl Outcome {
    /// Transactions a second, those included that were rolled back as they should be.
    pub fn rate(&self) -> f64 {
        self.tally.count() as f64 / self.seconds.max(f64::EPSILON)
    }

    /// Writes a table of the transactions, and their rate.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn report(&self, out: &mut dyn Write) -> Result<()> {
        let columns = Columns::new(&[14, 12, 12, 12, 12, 12, 12]);
        line(out, "")?;
        line(out, &columns.row(&["transaction", "done", "conflicts", "median", "90 %", "99 %", "slowest"]))?;
        line(out, &columns.rule())?;
        for kind in Kind::ALL {
            let done = self.tally.of(kind);
            let at = |share: f64| {
                done.quantile(share).map_or_else(String::new, |seconds| format!("{:.3} ms", seconds * 1e3))
            };
            let (count, conflicts) = (format_count(done.count()), format_count(done.conflicts));
            line(out, &columns.row(&[kind.name(), &count, &conflicts, &at(0.5), &at(0.9), &at(0.99), &at(1.0)]))?;
        }
        line(out, "")?;
        line(
            out,
            &format!(
                "{} transactions, {:.1} tx/s, unaudited; {} rolled back as they should be",
                format_count(self.tally.count()),
                self.rate(),
                format_count(self.tally.rolled_back)
            ),
        )
    }

    /// The transactions for a file.
    pub(crate) fn transactions(&self) -> Value {
        let of = |kind: Kind| {
            let done = self.tally.of(kind);
            json!({
                "name": kind.name(),
                "count": done.count(),
                "conflicts": done.conflicts,
                "median_s": done.quantile(0.5),
                "p90_s": done.quantile(0.9),
                "p99_s": done.quantile(0.99),
                "max_s": done.quantile(1.0),
            })
        };
        json!(Kind::ALL.map(of))
    }
}
