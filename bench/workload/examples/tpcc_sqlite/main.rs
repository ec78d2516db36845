//! TPC-C by Forebay and by SQLite, by turns: the same rows, and the same transactions from the same terminals by prepared statements.
//!
//! `cargo run --release -p forebay-workload --example tpcc_sqlite -- --db DIR --warehouses 4 --clients 1,2,4 --rounds 3`. Both
//! databases stay in the folder, and later runs go on with them. `--durability full` syncs every commit on both sides, otherwise
//! neither syncs any. The consistency conditions are checked on both at the end.
#![forbid(unsafe_code)]

mod arguments;
mod sqlite;

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use forebay::{Database, Error, Options, Result, Session};
use forebay_workload::tpcc::{self, Client, Connection, Outcome, Schedule};

use arguments::{Arguments, Durability};
use sqlite::Sqlite;

/// That of the program `forebay`.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Between two runs: what the first one left to do in the background ends before the second one begins.
const PAUSE: Duration = Duration::from_secs(2);

/// Syncs that are timed.
const SYNCS: usize = 101;

/// Bytes that are written before each of them.
const SYNCED_BYTES: usize = 4096;

fn main() -> ExitCode {
    let arguments = Arguments::parse(std::env::args().skip(1));
    match arguments.and_then(|arguments| Comparison::open(arguments)?.run(&mut io::stdout())) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Both databases.
struct Comparison {
    arguments: Arguments,
    forebay: Database,
    /// File of SQLite's database.
    sqlite: PathBuf,
}

/// Rates of runs with one number of clients.
struct Rates {
    clients: u32,
    forebay: Vec<f64>,
    sqlite: Vec<f64>,
}

impl Comparison {
    fn open(arguments: Arguments) -> Result<Self> {
        let directory = &arguments.directory;
        fs::create_dir_all(directory).map_err(|e| Error::io(format!("make {}", directory.display()), &e))?;
        let options = Options { owns_process: true, ..Options::default() };
        let forebay = Database::open(&directory.join("forebay"), &options)?;
        let sqlite = directory.join("tpcc.sqlite");
        Ok(Self { arguments, forebay, sqlite })
    }

    fn run(&self, out: &mut dyn Write) -> Result<()> {
        let Arguments { directory, warehouses, durability, rounds, .. } = &self.arguments;
        self.fill(out)?;
        say(out, &format!("SQLite {}, durability {}", rusqlite::version(), durability.name()))?;
        let sync = sync_seconds(directory)? * 1e3;
        say(out, &format!("fdatasync of {SYNCED_BYTES} bytes in {}: median {sync:.3} ms", directory.display()))?;
        let mut all = Vec::new();
        for clients in self.arguments.clients.iter().map(|clients| clients.get()) {
            let mut rates = Rates { clients, forebay: Vec::new(), sqlite: Vec::new() };
            for round in 1..=rounds.get() {
                let heading = |name| {
                    let warehouses = warehouses.get();
                    format!("\n{name}, round {round}: terminals {clients}, warehouses {warehouses}")
                };
                say(out, &heading("Forebay"))?;
                rates.forebay.push(self.turn(|| Client::new(self.session()?), clients, out)?);
                say(out, &heading("SQLite"))?;
                rates.sqlite.push(self.turn(|| Sqlite::open(&self.sqlite, *durability), clients, out)?);
            }
            all.push(rates);
        }
        report(&all, out)?;
        tpcc::check(&self.session()?)?;
        tpcc::check(&Sqlite::open(&self.sqlite, *durability)?)?;
        say(out, "The twelve consistency conditions hold in both.")
    }

    fn fill(&self, out: &mut dyn Write) -> Result<()> {
        let warehouses = self.arguments.warehouses;
        let sqlite = Sqlite::open(&self.sqlite, Durability::Off)?;
        let session = self.forebay.session();
        match sqlite.warehouses()? {
            Some(found) if found == u64::from(warehouses.get()) => tpcc::prepare(&session, warehouses, out),
            Some(found) => Err(Error::input(format!("SQLite's file holds {found} warehouses, not {warehouses}"))
                .hint("Use another folder, or --warehouses with its number")),
            None => {
                tpcc::prepare(&session, warehouses, out)?;
                let started = Instant::now();
                sqlite.fill(&session)?;
                say(out, &format!("Copied it to SQLite in {:.1} s.", started.elapsed().as_secs_f64()))
            }
        }
    }

    fn session(&self) -> Result<Session> {
        let session = self.forebay.session();
        for statement in session.statements(&format!("SET durability = {}", self.arguments.durability.name()))? {
            session.execute(&statement)?;
        }
        Ok(session)
    }

    /// One run of one database; its rate.
    fn turn<C>(&self, connect: impl Fn() -> Result<C>, clients: u32, out: &mut dyn Write) -> Result<f64>
    where
        C: Connection + Send,
        C::Statement: Send,
    {
        thread::sleep(PAUSE);
        let connections = (0..clients).map(|_| connect()).collect::<Result<_>>()?;
        let Arguments { warehouses, duration, warm_up, .. } = self.arguments;
        let schedule = Schedule { warm_up, duration: Some(duration) };
        let outcome: Outcome = tpcc::by_statements(connections, warehouses, &schedule)?;
        outcome.report(out)?;
        Ok(outcome.rate())
    }
}

/// Medians by number of clients, and the best of each database.
fn report(all: &[Rates], out: &mut dyn Write) -> Result<()> {
    let row = |clients: &str, forebay: f64, sqlite: f64| {
        format!("{clients:<10}{forebay:>14.1}{sqlite:>14.1}{:>10.2}", forebay / sqlite)
    };
    say(out, &format!("\n{:<10}{:>14}{:>14}{:>10}", "terminals", "Forebay tx/s", "SQLite tx/s", "ratio"))?;
    let medians: Vec<_> = all.iter().map(|rates| (median(&rates.forebay), median(&rates.sqlite))).collect();
    for (rates, (forebay, sqlite)) in all.iter().zip(&medians) {
        say(out, &row(&rates.clients.to_string(), *forebay, *sqlite))?;
    }
    let best = |of: fn(&(f64, f64)) -> f64| medians.iter().map(of).fold(0.0, f64::max);
    say(out, &row("best", best(|medians| medians.0), best(|medians| medians.1)))
}

/// The one in the middle, the lower one of two.
fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len().saturating_sub(1) / 2).copied().unwrap_or(f64::NAN)
}

/// Median seconds of a sync of what was appended to a file in this folder.
fn sync_seconds(directory: &Path) -> Result<f64> {
    let path = directory.join("sync-probe");
    let failed = |error: io::Error| Error::io(format!("sync {}", path.display()), &error);
    let mut file = File::create(&path).map_err(failed)?;
    let mut seconds = Vec::with_capacity(SYNCS);
    for _ in 0..SYNCS {
        file.write_all(&[1; SYNCED_BYTES]).map_err(failed)?;
        let started = Instant::now();
        file.sync_data().map_err(failed)?;
        seconds.push(started.elapsed().as_secs_f64());
    }
    fs::remove_file(&path).map_err(failed)?;
    Ok(median(&seconds))
}

/// Writes one line at once.
fn say(out: &mut dyn Write, text: &str) -> Result<()> {
    writeln!(out, "{text}").and_then(|()| out.flush()).map_err(|e| Error::io("write the report", &e))
}
