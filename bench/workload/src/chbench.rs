//! CH-benCHmark (Cole et al.: The mixed workload CH-benCHmark, DBTest 2011): the transactions of TPC-C and, beside them on the same rows, 22
//! queries in the manner of TPC-H.
//!
//! Terminals work alone, then beside the queries, then alone again. Afterwards the queries run without them: each once over rows that
//! terminals have just changed, then over the rows as they are, and once more when CHECKPOINT has frozen all of them. Must not know:
//! command lines.

mod freshness;
mod population;
mod report;
mod streams;

use std::io::Write;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use forebay::{Cores, Database, Error, Result, Session};

use crate::measure::run_sql;
use crate::queries::{Query, chbench_queries};
use crate::report::line;
use crate::tpcc::{self, Outcome, Progress, Schedule, TerminalOptions, by_statements_until};
use freshness::Freshness;
use report::{Figures, HotRows};
use streams::{Times, passes, stream};

/// What to run.
#[derive(Debug, Clone)]
pub struct ChbenchOptions {
    /// Who works where, alone and beside queries; beside these for the duration at least.
    pub terminals: TerminalOptions,
    /// Clients that run all queries one after the other, again and again.
    pub streams: usize,
    /// Timed runs of each query without terminals.
    pub runs: usize,
    /// Only these queries; all where empty.
    pub queries: Vec<String>,
    /// So many of the process's cores are for the terminals alone, and the others for queries; all for both where unset.
    pub transaction_cores: Option<usize>,
}

/// Fills the database if need be, runs transactions and queries, reports, and checks the consistency conditions of TPC-C.
///
/// # Errors
/// Cores of which one side would have none; other data in the database; names of queries that are none; a transaction that fails other than by a conflict; a query that fails; a
/// condition that does not hold.
pub fn bench_chbench(options: &ChbenchOptions, out: &mut dyn Write) -> Result<()> {
    let queries = chosen(&options.queries)?;
    let terminals = &options.terminals;
    let split = |transactions: usize| Cores::of_thread()?.split(transactions);
    let cores = options.transaction_cores.map(split).transpose()?;
    if let Some((_, for_queries)) = &cores {
        for_queries.confine_thread()?;
    }
    let database = terminals.open()?;
    let bench = Bench { options, queries, database, terminal_cores: cores.map(|(terminals, _)| terminals) };
    let session = bench.session()?;
    tpcc::prepare(&session, terminals.warehouses, out)?;
    population::prepare(&session, out)?;
    let figures = bench.measure(&session)?;
    report::report(&bench.queries, options, &figures, out)?;
    terminals.write_record(|| report::record(&bench.queries, options, &figures))?;
    tpcc::check(&session)?;
    line(out, "The twelve consistency conditions hold.")
}

/// The queries of these names, in the benchmark's order; all where there are no names.
fn chosen(names: &[String]) -> Result<Vec<Query>> {
    let all = chbench_queries();
    if let Some(unknown) = names.iter().find(|name| all.iter().all(|query| query.name != name.as_str())) {
        return Err(Error::input(format!("the CH-benCHmark has no query {unknown:?}")).hint("Use q1 to q22"));
    }
    let is_chosen = |query: &Query| names.is_empty() || names.iter().any(|name| name == query.name);
    Ok(all.into_iter().filter(is_chosen).collect())
}

/// How long terminals work before a query over rows that have just changed.
const CHANGES: Duration = Duration::from_millis(100);

struct Bench<'a> {
    options: &'a ChbenchOptions,
    queries: Vec<Query>,
    database: Database,
    terminal_cores: Option<Cores>,
}

impl Bench<'_> {
    fn session(&self) -> Result<Session> {
        self.options.terminals.session(&self.database)
    }

    fn measure(&self, session: &Session) -> Result<Figures> {
        // Plans are made and columns come to memory before anything is timed.
        passes(session, &self.queries, 1)?;
        let before = self.terminals(&Progress::default())?;
        let (beside, times, freshness) = self.beside()?;
        let hot_rows = HotRows::count(session)?;
        let after = self.terminals(&Progress::default())?;
        let changed = self.changed(session)?;
        passes(session, &self.queries, 1)?;
        let snapshot = passes(session, &self.queries, self.options.runs)?;
        run_sql(session, "CHECKPOINT")?;
        passes(session, &self.queries, 1)?;
        let frozen = passes(session, &self.queries, self.options.runs)?;
        Ok(Figures { before, beside, after, times, changed, snapshot, frozen, freshness, hot_rows })
    }

    /// Terminals alone.
    fn terminals(&self, progress: &Progress) -> Result<Outcome> {
        self.work(&Schedule { duration: Some(self.options.terminals.duration), ..Schedule::default() }, progress)
    }

    fn work(&self, schedule: &Schedule, progress: &Progress) -> Result<Outcome> {
        let connections = self.options.terminals.connections(&self.database)?;
        let work = || {
            if let Some(cores) = &self.terminal_cores {
                cores.confine_thread()?;
            }
            by_statements_until(connections, self.options.terminals.warehouses, schedule, progress)
        };
        // The terminals have the cores of the thread that starts them.
        thread::scope(|scope| scope.spawn(work).join()).unwrap_or_else(|_| Err(panicked()))
    }

    /// Each query once, without terminals, after these have worked for a moment: what they changed no query has seen yet.
    fn changed(&self, session: &Session) -> Result<Times> {
        let schedule = Schedule { duration: Some(CHANGES), ..Schedule::default() };
        let mut times = Times::of(&self.queries);
        for place in 0..self.queries.len() {
            self.work(&schedule, &Progress::default())?;
            times.run(session, &self.queries, place)?;
        }
        Ok(times)
    }

    /// Terminals beside streams of queries, until each stream has run all queries and the time is over.
    fn beside(&self) -> Result<(Outcome, Times, Freshness)> {
        let progress = Progress::default();
        let sessions = (0..self.options.streams).map(|_| self.session()).collect::<Result<Vec<_>>>()?;
        let orders = freshness::orders(&self.session()?)?;
        let until = Instant::now() + self.options.terminals.duration;
        thread::scope(|scope| {
            let (progress, queries) = (&progress, &self.queries);
            let terminals = scope.spawn(move || self.work(&Schedule::default(), progress));
            let streams: Vec<_> = sessions
                .into_iter()
                .map(|session| scope.spawn(move || stream(&session, queries, until, orders, progress)))
                .collect();
            let (mut times, mut freshness) = (Times::of(queries), Freshness::default());
            let mut outcome = Ok(());
            for stream in streams {
                match stream.join().unwrap_or_else(|_| Err(panicked())) {
                    Ok((own, seen)) => {
                        times.add(own);
                        freshness.add(seen);
                    }
                    Err(error) => outcome = Err(error),
                }
            }
            progress.is_over.store(true, Ordering::Relaxed);
            let terminals = terminals.join().unwrap_or_else(|_| Err(panicked()))?;
            outcome.map(|()| (terminals, times, freshness))
        })
    }
}

fn panicked() -> Error {
    Error::internal("a client panicked")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_chosen_by_name() {
        let names = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            chosen(&names).map(|queries| queries.iter().map(|query| query.name).collect::<Vec<_>>())
        };
        assert_eq!(names(&["q22", "q3"]).expect("two queries"), ["q3", "q22"]);
        assert_eq!(names(&[]).expect("all queries").len(), 22);
        assert!(names(&["q23"]).is_err());
    }
}
