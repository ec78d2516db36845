//! What a cold query cannot be faster than: reading its chunks, and having them inflated and then running from memory.
//! A query that overlaps all of these takes as long as the longer one.
//!
//! Must not know: how a report looks beyond its own cells.

use forebay::units::format_seconds;
use forebay::{Database, Result, Session};

use super::{QueryRuns, Spread, WARMING_RUNS, machine};
use crate::measure::run_sql;
use crate::queries::Query;

/// What the cells of a cold benchmark mean.
pub(super) const EXPLANATION: &str = "\
from disk: bytes read from the database's files over the median. reads: the same chunks read once more, and nothing else.
warm: the query with its chunks in the cache. inflate: its chunks inflated from memory, on all threads, and nothing else.
× bound: the median over the larger of reads and (warm + inflate)";

/// Medians, in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Bound {
    /// Reading the chunks that the query read, and nothing else.
    pub(crate) read: f64,
    /// The query from memory.
    pub(crate) warm: f64,
    /// Inflating the chunks that the query read, and nothing else.
    pub(crate) inflate: f64,
    /// Bytes that were read.
    pub(crate) bytes: u64,
}

impl Bound {
    /// Runs the query cold once more, its reads and its inflating by themselves, and the query warm, each so many times.
    pub(super) fn measure(runs: usize, database: &Database, session: &Session, query: &Query) -> Result<Self> {
        let (mut read, mut inflate, mut warm, mut bytes) = (Vec::new(), Vec::new(), Vec::new(), 0);
        for _ in 0..runs {
            database.clear_cache();
            drop(machine::drop_page_cache());
            database.record_reads();
            run_sql(session, &query.sql)?;
            let floors = database.read_floors()?;
            read.push(floors.read.as_secs_f64());
            inflate.push(floors.inflate.as_secs_f64());
            bytes = floors.bytes;
        }
        for run in 0..WARMING_RUNS + runs {
            let seconds = run_sql(session, &query.sql)?.0.seconds();
            if run >= WARMING_RUNS {
                warm.push(seconds);
            }
        }
        let [read, inflate, warm] = [read, inflate, warm].map(|seconds| Spread::of(seconds).median);
        Ok(Self { read, warm, inflate, bytes })
    }

    /// Seconds below which nothing can come.
    pub(super) fn seconds(&self) -> f64 {
        self.read.max(self.warm + self.inflate)
    }

    /// The cells of a query that took so many seconds.
    pub(super) fn cells(&self, seconds: f64) -> [String; 4] {
        let [read, warm, inflate] = [self.read, self.warm, self.inflate].map(format_seconds);
        [read, warm, inflate, format!("{:.2}", seconds / self.seconds().max(1e-9))]
    }

    /// The cells of all queries together.
    pub(super) fn total(all: &[QueryRuns]) -> Vec<String> {
        let sum = |figure: fn(&Self) -> f64| all.iter().filter_map(|runs| runs.bound.as_ref()).map(figure).sum::<f64>();
        let cold: f64 = all.iter().map(|runs| runs.spread().median).sum();
        let [read, warm, inflate] = [sum(|b| b.read), sum(|b| b.warm), sum(|b| b.inflate)].map(format_seconds);
        vec![read, warm, inflate, format!("{:.2}", cold / sum(Self::seconds).max(1e-9))]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longer_way_bounds() {
        let bound = Bound { read: 0.2, warm: 0.05, inflate: 0.1, bytes: 1 };
        assert_eq!(bound.seconds(), 0.2);
        assert_eq!(bound.cells(0.25)[3], "1.25");
        let computing = Bound { warm: 0.15, ..bound };
        assert_eq!(computing.seconds(), 0.25);
    }
}
