//! TPC-C (revision 5.11): an order-entry database that terminals change, each through a connection and prepared statements as a program
//! would, or by calls of procedures in Rust. Nobody waits between transactions, and nobody audits: rates are transactions a second, never tpmC.
//!
//! The data of clause 4.3, the five transactions of clause 2 in their shares, and the twelve consistency conditions of clause 3.3.2,
//! which are checked when the terminals are done. Other databases than Forebay run the same transactions where they implement
//! [`Connection`]. Must not know: command lines, which other databases there are.

mod calls;
mod connection;
mod delivery;
mod new_order;
mod order_status;
mod payment;
mod population;
mod procedure;
mod random;
mod statements;
mod stock_level;
mod tally;
mod terminal;

use std::fs;
use std::io::Write;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use forebay::units::format_count;
use forebay::{Database, Error, Options, Result, Session};
use serde_json::json;

use crate::measure::run_sql;
use crate::report::line;
use calls::Calls;
use statements::Statements;
use terminal::Terminal;

pub use connection::{Access, Client, Connection, Param, RowCounts, Rows};
pub use population::{SCHEMA, TABLES, prepare};
pub use tally::Outcome;
pub(crate) use terminal::Progress;
pub use terminal::Schedule;

/// One query for each of the clauses 3.3.2.1 to 3.3.2.12: the rows that break it.
const CONDITIONS: &str = include_str!("../queries/tpcc/conditions.sql");

/// Terminals, and the database that they work on.
#[derive(Debug, Clone)]
pub struct TerminalOptions {
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
}

impl TerminalOptions {
    pub(crate) fn open(&self) -> Result<Database> {
        let open = Options {
            threads: self.threads,
            memory_bytes: self.memory_bytes,
            owns_process: true,
            ..Options::default()
        };
        Database::open(&self.database, &open)
    }

    /// A session under the settings.
    pub(crate) fn session(&self, database: &Database) -> Result<Session> {
        let session = database.session();
        for setting in &self.settings {
            run_sql(&session, &format!("SET {setting}"))?;
        }
        Ok(session)
    }

    /// A connection for each terminal.
    pub(crate) fn connections(&self, database: &Database) -> Result<Vec<Client>> {
        (0..self.clients).map(|_| Client::new(self.session(database)?)).collect()
    }

    /// Writes what was measured, if that is asked for.
    pub(crate) fn write_record(&self, record: impl FnOnce() -> serde_json::Value) -> Result<()> {
        let Some(path) = &self.json else { return Ok(()) };
        let text = format!("{:#}\n", record());
        fs::write(path, text).map_err(|e| Error::io(format!("write {}", path.display()), &e))
    }
}

/// What to run.
#[derive(Debug, Clone)]
pub struct TpccOptions {
    /// Who works where.
    pub terminals: TerminalOptions,
    /// Transactions are procedures in Rust instead of statements.
    pub procedures: bool,
}

/// Fills the database if need be, has the terminals work, reports, and checks the consistency conditions.
///
/// # Errors
/// Other data in the database; a transaction that fails other than by a conflict; a condition that does not hold.
pub fn bench_tpcc(options: &TpccOptions, out: &mut dyn Write) -> Result<()> {
    let terminals = &options.terminals;
    let database = terminals.open()?;
    let session = terminals.session(&database)?;
    prepare(&session, terminals.warehouses, out)?;
    line(out, &options.work())?;
    let schedule = Schedule { duration: Some(terminals.duration), ..Schedule::default() };
    let outcome = match options.procedures {
        true => by_calls(&database, terminals, &schedule)?,
        false => by_statements(terminals.connections(&database)?, terminals.warehouses, &schedule)?,
    };
    outcome.report(out)?;
    terminals.write_record(|| record(options, &outcome))?;
    check(&session)?;
    line(out, "The twelve consistency conditions hold.")
}

impl TpccOptions {
    /// What the terminals do, before a table of what they did.
    fn work(&self) -> String {
        format!(
            "{} over {} for {} s, by {}:",
            counted(self.terminals.clients as u64, "terminal"),
            counted(self.terminals.warehouses.get().into(), "warehouse"),
            self.terminals.duration.as_secs_f64(),
            if self.procedures { "procedures in Rust" } else { "prepared statements" }
        )
    }
}

/// A number of things, in words.
pub(crate) fn counted(count: u64, of_what: &str) -> String {
    format!("{} {of_what}{}", format_count(count), if count == 1 { "" } else { "s" })
}

/// Terminals that run procedures in Rust.
fn by_calls(database: &Database, options: &TerminalOptions, schedule: &Schedule) -> Result<Outcome> {
    let durability = options.session(database)?.durability();
    let terminal = |client| Ok(Terminal::new(Calls::new(database, durability)?, client, options.warehouses));
    let terminals = (0..options.clients).map(terminal).collect::<Result<_>>()?;
    terminal::work(terminals, schedule, &Progress::default())
}

/// Has terminals work at once by prepared statements, each through a connection of its own.
///
/// # Errors
/// A transaction that fails other than by a conflict.
pub fn by_statements<C>(connections: Vec<C>, warehouses: NonZeroU32, schedule: &Schedule) -> Result<Outcome>
where
    C: Connection + Send,
    C::Statement: Send,
{
    by_statements_until(connections, warehouses, schedule, &Progress::default())
}

/// As [`by_statements`], but no longer than until somebody says that it is over.
pub(crate) fn by_statements_until<C>(
    connections: Vec<C>,
    warehouses: NonZeroU32,
    schedule: &Schedule,
    progress: &Progress,
) -> Result<Outcome>
where
    C: Connection + Send,
    C::Statement: Send,
{
    let prepared = connections.into_iter().map(Statements::prepare).collect::<Result<Vec<_>>>()?;
    let terminals = prepared.into_iter().enumerate();
    let terminals = terminals.map(|(client, own)| Terminal::new(own, client, warehouses)).collect();
    terminal::work(terminals, schedule, progress)
}

fn record(options: &TpccOptions, outcome: &Outcome) -> serde_json::Value {
    json!({
        "benchmark": "tpcc",
        "warehouses": options.terminals.warehouses,
        "clients": options.terminals.clients,
        "procedures": options.procedures,
        "settings": options.terminals.settings,
        "seconds": outcome.seconds,
        "transactions_per_second": outcome.rate(),
        "rolled_back": outcome.tally.rolled_back,
        "transactions": outcome.transactions(),
    })
}

/// Asks the twelve consistency conditions.
///
/// # Errors
/// The first condition that some rows break: its clause, and how many.
pub fn check<C: RowCounts>(connection: &C) -> Result<()> {
    for (place, condition) in CONDITIONS.split_inclusive(';').filter(|text| text.contains(';')).enumerate() {
        let found = connection.count_rows(condition)?;
        if found > 0 {
            let clause = place + 1;
            return Err(Error::internal(format!(
                "consistency condition {clause} of TPC-C (clause 3.3.2.{clause}) does not hold: {} break it",
                counted(found, "row")
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
