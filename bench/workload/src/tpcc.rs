//! TPC-C (revision 5.11): an order-entry database that terminals change, each through a session and prepared statements as a program
//! would, or by calls of procedures in Rust. Nobody waits between transactions, and nobody audits: rates are transactions a second, never tpmC.
//!
//! The data of clause 4.3, the five transactions of clause 2 in their shares, and the twelve consistency conditions of clause 3.3.2,
//! which are checked when the terminals are done. Must not know: command lines.

mod calls;
mod delivery;
mod new_order;
mod order_status;
mod payment;
mod population;
mod procedure;
mod random;
mod rows;
mod stock_level;
mod terminal;

use std::fs;
use std::io::Write;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use forebay::units::format_count;
use forebay::{Database, Error, Options, Result, Session};
use serde_json::json;

use crate::measure::run_sql;
use crate::report::{Columns, line};
use terminal::{Kind, Tally, Terminal};

/// One query for each of the clauses 3.3.2.1 to 3.3.2.12.
const CONDITIONS: &str = include_str!("../queries/tpcc/conditions.sql");

/// What to run.
#[derive(Debug, Clone)]
pub struct TpccOptions {
    /// Size of the database: 100,000 rows of stock, 30,000 customers and as many orders each.
    pub warehouses: NonZeroU32,
    /// Directory of the database, filled if it is not there.
    pub database: PathBuf,
    /// Terminals that work at once.
    pub clients: usize,
    /// How long they work.
    pub duration: Duration,
    /// `NAME=VALUE` of settings of each session.
    pub settings: Vec<String>,
    /// File for everything that was measured.
    pub json: Option<PathBuf>,
    /// Threads of the database; as many as cores where unset.
    pub threads: Option<usize>,
    /// Memory budget of the database.
    pub memory_bytes: Option<u64>,
    /// Transactions are procedures in Rust instead of statements.
    pub procedures: bool,
}

/// Fills the database if need be, has the terminals work, reports, and checks the consistency conditions.
///
/// # Errors
/// Other data in the database; a transaction that fails other than by a conflict; a condition that does not hold.
pub fn bench_tpcc(options: &TpccOptions, out: &mut dyn Write) -> Result<()> {
    let open = Options {
        threads: options.threads,
        memory_bytes: options.memory_bytes,
        owns_process: true,
        ..Options::default()
    };
    let database = Database::open(&options.database, &open)?;
    population::prepare(&session(&database, options)?, options.warehouses, out)?;
    let terminals = format!(
        "{} over {} for {} s, by {}:",
        counted(options.clients as u64, "terminal"),
        counted(options.warehouses.get().into(), "warehouse"),
        options.duration.as_secs_f64(),
        if options.procedures { "procedures in Rust" } else { "prepared statements" }
    );
    line(out, &terminals)?;
    let (tally, seconds) = work(&database, options)?;
    report(&tally, seconds, out)?;
    if let Some(path) = &options.json {
        let text = format!("{:#}\n", record(options, &tally, seconds));
        fs::write(path, text).map_err(|e| Error::io(format!("write {}", path.display()), &e))?;
    }
    check(&database.session())?;
    line(out, "The twelve consistency conditions hold.")
}

fn counted(count: u64, of_what: &str) -> String {
    format!("{} {of_what}{}", format_count(count), if count == 1 { "" } else { "s" })
}

/// A session under the settings.
fn session(database: &Database, options: &TpccOptions) -> Result<Session> {
    let session = database.session();
    for setting in &options.settings {
        run_sql(&session, &format!("SET {setting}"))?;
    }
    Ok(session)
}

/// All terminals at once; what they did, and the seconds that it took.
fn work(database: &Database, options: &TpccOptions) -> Result<(Tally, f64)> {
    let is_over = AtomicBool::new(false);
    let terminals = (0..options.clients)
        .map(|client| {
            let session = session(database, options)?;
            match options.procedures {
                true => Terminal::calling(database, session.durability(), client, options.warehouses),
                false => Terminal::new(session, client, options.warehouses),
            }
        })
        .collect::<Result<Vec<_>>>()?;
    let started = Instant::now();
    let tally = thread::scope(|scope| {
        let is_over = &is_over;
        let workers: Vec<_> = terminals
            .into_iter()
            .map(|terminal| {
                scope.spawn(move || {
                    let tally = terminal.work(started + options.duration, is_over);
                    // One that fails ends all.
                    if tally.is_err() {
                        is_over.store(true, Ordering::Relaxed);
                    }
                    tally
                })
            })
            .collect();
        let mut all = Tally::default();
        for worker in workers {
            all.add(worker.join().unwrap_or_else(|_| Err(Error::internal("a terminal panicked")))?);
        }
        Ok::<_, Error>(all)
    })?;
    Ok((tally, started.elapsed().as_secs_f64()))
}

fn report(tally: &Tally, seconds: f64, out: &mut dyn Write) -> Result<()> {
    let columns = Columns::new(&[14, 12, 12, 12, 12, 12, 12]);
    line(out, "")?;
    line(out, &columns.row(&["transaction", "done", "conflicts", "median", "90 %", "99 %", "slowest"]))?;
    line(out, &columns.rule())?;
    for kind in Kind::ALL {
        let done = tally.of(kind);
        let at =
            |share: f64| done.quantile(share).map_or_else(String::new, |seconds| format!("{:.3} ms", seconds * 1e3));
        let (count, conflicts) = (format_count(done.count()), format_count(done.conflicts));
        line(out, &columns.row(&[kind.name(), &count, &conflicts, &at(0.5), &at(0.9), &at(0.99), &at(1.0)]))?;
    }
    let all = tally.count();
    let rate = all as f64 / seconds;
    let rolled_back = format_count(tally.rolled_back);
    line(out, "")?;
    line(
        out,
        &format!(
            "{} transactions, {rate:.1} tx/s, unaudited; {rolled_back} rolled back as they should be",
            format_count(all)
        ),
    )
}

fn record(options: &TpccOptions, tally: &Tally, seconds: f64) -> serde_json::Value {
    let of = |kind: Kind| {
        let done = tally.of(kind);
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
    json!({
        "benchmark": "tpcc",
        "warehouses": options.warehouses,
        "clients": options.clients,
        "procedures": options.procedures,
        "settings": options.settings,
        "seconds": seconds,
        "transactions_per_second": tally.count() as f64 / seconds,
        "rolled_back": tally.rolled_back,
        "transactions": Kind::ALL.map(of),
    })
}

/// Asks every condition.
///
/// # Errors
/// The first condition that some rows break: its clause, and how many.
fn check(session: &Session) -> Result<()> {
    for (place, condition) in session.statements(CONDITIONS)?.iter().enumerate() {
        let (found, _) = run_sql(session, &condition.text)?;
        if found.rows > 0 {
            let clause = place + 1;
            return Err(Error::internal(format!(
                "consistency condition {clause} of TPC-C (clause 3.3.2.{clause}) does not hold: {} break it",
                counted(found.rows, "row")
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
