//! The command line: what it says, not what is done.
//!
//! Invariants: wrong usage ends with status 2 and a message. Must not know: databases.

use std::num::{NonZeroU32, NonZeroU64};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::error::ErrorKind;
use clap::{ArgMatches, Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};

use forebay_workload::Benchmark;
use forebay_workload::generate::DEFAULT_SEED;

use crate::format::Kind;

const EXAMPLES: &str = "\
Examples:
  forebay                                       a database in memory, at a prompt
  forebay mydb                                  open or make the database in the folder mydb
  forebay mydb -c \"SELECT count(*) FROM t\"      run one statement
  forebay mydb -f load.sql                      run a script
  forebay -c \"SELECT * FROM 'data.parquet'\" --format csv > data.csv
  forebay init mydb --data-dirs /a/my,/b/my     make a database whose tables lie on two drives
  forebay demo                                  see what it does, on generated data
  forebay gen tpch --sf 1 --out tpch            write the tables of TPC-H as Parquet

A database called like a command is opened as ./demo.";

/// Forebay: a SQL database for data that does not fit in memory.
#[derive(Debug, Parser)]
#[command(name = "forebay", version, about, after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub(crate) struct Arguments {
    /// What to do instead of opening a database.
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    /// How to open a database and show results.
    #[command(flatten)]
    pub(crate) run: Run,
}

#[derive(Debug, Args)]
pub(crate) struct Run {
    /// Folder of the database, made if it does not exist [default: in memory]
    #[arg(value_name = "DB")]
    pub(crate) database: Option<PathBuf>,
    /// Run SQL (or a meta command) and leave; may be repeated
    #[arg(short = 'c', long = "command", value_name = "SQL", allow_hyphen_values = true)]
    pub(crate) commands: Vec<String>,
    /// Run a script and leave, - for standard input; may be repeated
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    pub(crate) files: Vec<String>,
    /// How rows are written: table, csv, json, jsonl, markdown or line
    #[arg(long, value_enum, default_value = "table", hide_possible_values = true)]
    pub(crate) format: Kind,
    /// Change nothing: for a database that exists
    #[arg(long)]
    pub(crate) read_only: bool,
    /// Memory to use, for example 8GiB [default: three quarters of the machine's]
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    pub(crate) memory: Option<u64>,
    /// Threads to use [default: one per core]
    #[arg(long, value_name = "N", value_parser = parse_count)]
    pub(crate) threads: Option<usize>,
    /// What runs pipelines: auto, cpu, gpu or emulated (SET device) [default: auto]
    #[arg(long, value_name = "DEVICE")]
    pub(crate) device: Option<String>,
    /// Write no column names
    #[arg(long)]
    pub(crate) no_header: bool,
    /// Text for NULL
    #[arg(long, value_name = "TEXT")]
    pub(crate) null: Option<String>,
    /// Nothing but results and errors
    #[arg(short, long)]
    pub(crate) quiet: bool,
    /// Show time, bytes read and pruning after each statement
    #[arg(long)]
    pub(crate) timing: bool,
    /// Write a page that shows when each statement read, waited, inflated and computed; a browser opens it
    #[arg(long, value_name = "FILE")]
    pub(crate) timeline: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Make an empty database, with its tables on several drives if wanted
    Init(Init),
    /// Show, add or move the data directories of a database
    #[command(subcommand)]
    DataDirs(DataDirs),
    /// Generate the tables of a benchmark as files
    Gen(Gen),
    /// Generate a star schema, load it, query it and show what Forebay did
    Demo(Demo),
    /// Run a benchmark's queries and measure them
    Bench(Bench),
    /// Say how a table is stored, and what it would cost to store it otherwise
    Inspect(Inspect),
    /// Say what this machine has for Forebay: ways to its drive, a GPU and what drives it
    Doctor(Doctor),
    /// Run the differential suite on a device
    Selftest(Selftest),
    /// Print the version
    Version,
}

#[derive(Debug, Args)]
pub(crate) struct Init {
    /// Folder of the database; new or empty
    #[arg(value_name = "DB")]
    pub(crate) database: PathBuf,
    /// Folders for its tables, each on a drive of its own, new or empty; separated by commas, or repeated
    /// [default: the database's own folder]
    #[arg(long, value_name = "DIR", value_delimiter = ',')]
    pub(crate) data_dirs: Vec<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum DataDirs {
    /// Show the directories with their numbers and what is in them
    List {
        /// Folder of the database
        #[arg(value_name = "DB")]
        database: PathBuf,
    },
    /// Add new or empty folders, which take their part of what is loaded from now on
    Add {
        /// Folder of the database
        #[arg(value_name = "DB")]
        database: PathBuf,
        /// Folders, each on a drive of its own
        #[arg(value_name = "DIR", required = true)]
        directories: Vec<PathBuf>,
    },
    /// Tell a database where a directory is now, when its files were moved or its drive is mounted elsewhere
    Move {
        /// Folder of the database
        #[arg(value_name = "DB")]
        database: PathBuf,
        /// The directory's number (forebay data-dirs list) and its new place; may be repeated
        #[arg(value_name = "N=DIR", required = true)]
        moved: Vec<MovedDirectory>,
    },
}

/// A data directory by its number, and where it is now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MovedDirectory {
    pub(crate) number: u32,
    pub(crate) directory: PathBuf,
}

impl FromStr for MovedDirectory {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once('=').filter(|(_, directory)| !directory.is_empty());
        let found = parts.and_then(|(number, directory)| Some((number.parse().ok()?, directory.into())));
        let (number, directory) = found.ok_or("a number and a folder are needed, as in 2=/mnt/drive")?;
        Ok(Self { number, directory })
    }
}

/// How a report is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReportFormat {
    /// Tables for people.
    Table,
    /// JSON with every figure.
    Json,
}

#[derive(Debug, Args)]
pub(crate) struct Inspect {
    /// Folder of the database
    #[arg(value_name = "DB")]
    pub(crate) database: PathBuf,
    /// The table, perhaps with its schema: name or schema.name
    #[arg(value_name = "TABLE")]
    pub(crate) table: String,
    /// How the report is written: table, or json with every figure
    #[arg(long, value_enum, default_value = "table", hide_possible_values = true)]
    pub(crate) format: ReportFormat,
    /// Percent of the row groups that plans are compared on, 1 to 100 [default: 10, of at most eight]
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) sample: Option<u32>,
    /// Model times by the rates of a common machine instead of those measured on this one
    #[arg(long)]
    pub(crate) fixed_rates: bool,
    /// Threads to use [default: one per core]
    #[arg(long, value_name = "N", value_parser = parse_count)]
    pub(crate) threads: Option<usize>,
}

#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// Folder whose drive is looked at [default: the current one]
    #[arg(value_name = "DIR")]
    pub(crate) directory: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Selftest {
    /// gpu or emulated
    #[arg(long, value_name = "DEVICE", default_value = "gpu")]
    pub(crate) device: String,
    /// Programs made up beside those of the test files
    #[arg(long, value_name = "N", default_value_t = 200)]
    pub(crate) programs: u64,
    /// The seed that they are made up from
    #[arg(long, value_name = "N", default_value_t = DEFAULT_SEED)]
    pub(crate) seed: u64,
}

/// Formats of generated files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FileFormat {
    /// Parquet
    Parquet,
    /// Text with | between values, as dbgen writes it
    Tbl,
}

#[derive(Debug, Args)]
pub(crate) struct Gen {
    /// ssb (Star Schema Benchmark), tpch (TPC-H), wide (100 columns of web analytics) or taxi (trips of New York's cabs)
    pub(crate) benchmark: Benchmark,
    /// Scale factor: 1 is about six million rows of the largest table; one million of the wide one, ten million trips
    #[arg(long = "sf", value_name = "N", default_value_t = 1.0, allow_negative_numbers = true)]
    pub(crate) scale_factor: f64,
    /// Rows of the table instead of a scale factor (wide and taxi)
    #[arg(long, value_name = "N", conflicts_with = "scale_factor")]
    pub(crate) rows: Option<u64>,
    /// Folder for the files
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
    /// Format of the files: parquet or tbl (text as dbgen writes it)
    #[arg(long, value_enum, default_value = "parquet", hide_possible_values = true)]
    pub(crate) format: FileFormat,
    /// Threads to use [default: one per core]
    #[arg(long, value_name = "N", value_parser = parse_count)]
    pub(crate) threads: Option<usize>,
    /// Another seed gives other data of the same kind (not tpch)
    #[arg(long, value_name = "N", default_value_t = DEFAULT_SEED)]
    pub(crate) seed: u64,
    /// Only these tables, separated by commas
    #[arg(long, value_name = "TABLES", value_delimiter = ',')]
    pub(crate) tables: Option<Vec<String>>,
}

#[derive(Debug, Args)]
pub(crate) struct Demo {
    /// Scale factor: 1 is six million rows, half a gigabyte of plain values
    #[arg(long = "sf", value_name = "N", default_value_t = 1.0, allow_negative_numbers = true)]
    pub(crate) scale_factor: f64,
    /// Folder for data and database; a second run uses them again
    #[arg(long = "db", value_name = "DIR", default_value = "forebay-demo")]
    pub(crate) directory: PathBuf,
    /// Memory to use, for example 8GiB [default: three quarters of the machine's]
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    pub(crate) memory: Option<u64>,
    /// Threads to use [default: one per core]
    #[arg(long, value_name = "N", value_parser = parse_count)]
    pub(crate) threads: Option<usize>,
}

/// What `bench` measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Measured {
    /// The queries of a benchmark.
    Queries(Benchmark),
    /// The experiments of Data Blocks.
    Blocks,
    /// The experiments of HPCache.
    Cache,
    /// The experiments of GOLAP and HippogriffDB.
    Datapath,
    /// The transactions of TPC-C.
    Tpcc,
    /// The transactions of TPC-C, with queries beside them.
    Chbench,
}

impl FromStr for Measured {
    type Err = forebay::Error;

    fn from_str(text: &str) -> forebay::Result<Self> {
        match text.to_ascii_lowercase().as_str() {
            "blocks" => Ok(Self::Blocks),
            "cache" => Ok(Self::Cache),
            "datapath" => Ok(Self::Datapath),
            "tpcc" | "tpc-c" => Ok(Self::Tpcc),
            "chbench" | "ch-benchmark" => Ok(Self::Chbench),
            _ => text.parse().map(Self::Queries),
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct Bench {
    /// ssb (Star Schema Benchmark), tpch (TPC-H), wide (100 columns of web analytics), taxi (trips of New York's cabs),
    /// blocks (the experiments of Data Blocks), datapath (those of GOLAP and HippogriffDB), cache (those of HPCache), tpcc
    /// (the transactions of TPC-C) or chbench (CH-benCHmark: these transactions and queries beside them)
    pub(crate) benchmark: Measured,
    /// Scale factor [default: 1]
    #[arg(long = "sf", value_name = "N", allow_negative_numbers = true)]
    pub(crate) scale_factor: Option<f64>,
    /// Folder of the database, generated and loaded if it does not exist
    #[arg(long = "db", value_name = "DIR")]
    pub(crate) directory: PathBuf,
    /// Timed runs of each query [default: 5]
    #[arg(long, value_name = "N", value_parser = parse_count)]
    pub(crate) runs: Option<usize>,
    /// Empty all caches before each run
    #[arg(long)]
    pub(crate) cold: bool,
    /// Read at most so many bytes in a second from disk, for example 500MB
    #[arg(long, value_name = "SIZE", value_parser = parse_rate)]
    pub(crate) throttle: Option<NonZeroU64>,
    /// Write all figures to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Show what EXPLAIN ANALYZE says of one more run of each query
    #[arg(long)]
    pub(crate) explain: bool,
    /// Only this query, for example q1.1; may be repeated
    #[arg(long = "query", value_name = "NAME")]
    pub(crate) queries: Vec<String>,
    /// Only this experiment of blocks, datapath or cache, for example packed; may be repeated
    #[arg(long = "experiment", value_name = "NAME")]
    pub(crate) experiments: Vec<String>,
    /// Write the plots of blocks, datapath or cache to this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) plots: Option<PathBuf>,
    /// Warehouses of tpcc and chbench, which say how large it is [default: 1]
    #[arg(long, value_name = "N")]
    pub(crate) warehouses: Option<NonZeroU32>,
    /// Terminals of tpcc and chbench that work at once [default: 1]
    #[arg(long, value_name = "N", value_parser = parse_count)]
    pub(crate) clients: Option<usize>,
    /// How long the terminals of tpcc work; those of chbench alone, and beside queries at least [default: 10]
    #[arg(long, value_name = "SECONDS")]
    pub(crate) seconds: Option<NonZeroU32>,
    /// Run the transactions of tpcc as procedures in Rust, not as prepared statements
    #[arg(long)]
    pub(crate) procedures: bool,
    /// Clients of chbench that run its queries again and again [default: 1]
    #[arg(long, value_name = "N", value_parser = parse_count)]
    pub(crate) streams: Option<usize>,
    /// Have so many cores for the terminals of chbench alone, and the others for its queries
    #[arg(long, value_name = "N", value_parser = parse_count)]
    pub(crate) transaction_cores: Option<usize>,
    /// What runs pipelines besides the CPU: auto, cpu, gpu or emulated; floors are those of its memory and its link
    #[arg(long, value_name = "DEVICE")]
    pub(crate) device: Option<String>,
    /// A setting under which queries run, for example memory_limit=100MB; may be repeated
    #[arg(long = "set", value_name = "NAME=VALUE")]
    pub(crate) settings: Vec<String>,
    /// Memory to use, for example 8GiB [default: three quarters of the machine's]
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    pub(crate) memory: Option<u64>,
    /// Threads to use [default: one per core]
    #[arg(long, value_name = "N", value_parser = parse_count)]
    pub(crate) threads: Option<usize>,
}

impl Bench {
    pub(crate) fn scale_factor(&self) -> f64 {
        self.scale_factor.unwrap_or(1.0)
    }

    pub(crate) fn runs(&self) -> usize {
        self.runs.unwrap_or(5)
    }

    /// Refuses options that say nothing together.
    fn check(&self) -> Result<(), clap::Error> {
        let measures_queries = matches!(self.benchmark, Measured::Queries(_));
        let has_terminals = self.warehouses.is_some() || self.clients.is_some() || self.seconds.is_some();
        let has_experiments = self.plots.is_some() || !self.experiments.is_empty();
        let conflict = match self.benchmark {
            Measured::Tpcc | Measured::Chbench if self.cold || self.throttle.is_some() => {
                "--cold and --throttle measure what is read from disk, and tpcc and chbench have transactions"
            }
            Measured::Tpcc if self.explain || !self.queries.is_empty() || self.device.is_some() => {
                "--explain, --query and --device are about queries, and tpcc has transactions"
            }
            Measured::Tpcc if self.scale_factor.is_some() || self.runs.is_some() => {
                "--sf and --runs are about queries: tpcc has --warehouses and --seconds"
            }
            Measured::Chbench if self.explain || self.device.is_some() => {
                "--explain and --device are for queries without transactions beside them"
            }
            Measured::Chbench if self.scale_factor.is_some() => "chbench has --warehouses instead of --sf",
            Measured::Chbench if self.procedures => "--procedures is for bench tpcc",
            Measured::Tpcc | Measured::Chbench if has_experiments => {
                "--experiment and --plots are for bench blocks, datapath and cache"
            }
            Measured::Chbench => return Ok(()),
            _ if self.streams.is_some() => "--streams is for bench chbench",
            _ if self.transaction_cores.is_some() => "--transaction-cores is for bench chbench",
            Measured::Tpcc => return Ok(()),
            _ if self.procedures => "--procedures is for bench tpcc",
            _ if has_terminals => "--warehouses, --clients and --seconds are for bench tpcc and chbench",
            Measured::Blocks if self.cold => "--cold measures queries, and blocks has experiments on data in memory",
            Measured::Datapath if self.cold => "--cold measures queries, and datapath chooses what is cold itself",
            Measured::Cache if self.cold => "--cold measures queries, and cache measures what stays in memory",
            _ if self.throttle.is_some() && !self.cold && self.benchmark != Measured::Cache => {
                "--throttle is for what is read from disk: add --cold"
            }
            _ if measures_queries => match has_experiments {
                true => "--experiment and --plots are for bench blocks, bench datapath and bench cache",
                false => return Ok(()),
            },
            _ if self.device.is_some() => {
                "--device measures queries, and blocks, datapath and cache have experiments of the CPU"
            }
            _ if !self.settings.is_empty() => {
                "the experiments of blocks, datapath and cache choose their settings themselves"
            }
            _ if !self.queries.is_empty() => "blocks, datapath and cache have no queries to choose: use --experiment",
            _ if self.explain => "--explain shows the plans of queries, and blocks, datapath and cache have none",
            _ => return Ok(()),
        };
        Err(Arguments::command().error(ErrorKind::ArgumentConflict, conflict))
    }
}

impl Run {
    /// Where the database lies; `None` in memory.
    pub(crate) fn place(&self) -> Option<&Path> {
        self.database.as_deref().filter(|path| *path != Path::new(":memory:"))
    }

    /// Refuses options that say nothing together.
    fn check(&self) -> Result<(), clap::Error> {
        if self.read_only && self.place().is_none() {
            let message = "--read-only needs the folder of a database: one in memory is empty";
            return Err(Arguments::command().error(ErrorKind::MissingRequiredArgument, message));
        }
        Ok(())
    }
}

/// What the command line says.
pub(crate) fn parse(matches: &ArgMatches) -> Result<Arguments, clap::Error> {
    let arguments = Arguments::from_arg_matches(matches)?;
    arguments.run.check()?;
    if let Some(Command::Bench(bench)) = &arguments.command {
        bench.check()?;
    }
    Ok(arguments)
}

/// One `-c` or `-f`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Script {
    /// The text itself.
    Sql(String),
    /// A file's name, `-` for standard input.
    File(String),
}

/// All `-c` and `-f` in the order in which they were given.
pub(crate) fn scripts(run: &Run, matches: &ArgMatches) -> Vec<Script> {
    let indices = |id| matches.indices_of(id).into_iter().flatten();
    let commands = indices("commands").zip(run.commands.iter().cloned().map(Script::Sql));
    let files = indices("files").zip(run.files.iter().cloned().map(Script::File));
    let mut all: Vec<(usize, Script)> = commands.chain(files).collect();
    all.sort_by_key(|(index, _)| *index);
    all.into_iter().map(|(_, script)| script).collect()
}

fn parse_bytes(text: &str) -> Result<u64, String> {
    match forebay::units::parse_bytes(text) {
        Ok(0) => Err("memory must be more than nothing".into()),
        Ok(bytes) => Ok(bytes),
        Err(error) => Err(error.to_string()),
    }
}

/// Bytes per second.
fn parse_rate(text: &str) -> Result<NonZeroU64, String> {
    let bytes = forebay::units::parse_bytes(text).map_err(|error| error.to_string())?;
    NonZeroU64::new(bytes).ok_or_else(|| "a disk that gives nothing is no disk".into())
}

/// A number of threads or runs.
fn parse_count(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("at least 1 is needed".into()),
        Ok(count) if count <= 1024 => Ok(count),
        Ok(_) => Err("at most 1024 are possible".into()),
        Err(_) => Err("this is not a count".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<(Arguments, Vec<Script>), clap::Error> {
        parse_words(line.split(' '))
    }

    fn parse_words<'a>(words: impl Iterator<Item = &'a str>) -> Result<(Arguments, Vec<Script>), clap::Error> {
        let matches = Arguments::command().try_get_matches_from(words)?;
        let arguments = super::parse(&matches)?;
        let scripts = scripts(&arguments.run, &matches);
        Ok((arguments, scripts))
    }

    #[test]
    fn the_definition_is_sound() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn scripts_keep_their_order() {
        let (arguments, scripts) = parse("forebay db -c a -f b -c c --memory 2GiB").expect("valid");
        assert_eq!(arguments.run.database, Some(PathBuf::from("db")));
        assert_eq!(arguments.run.memory, Some(2 << 30));
        let sql = |text: &str| Script::Sql(text.into());
        assert_eq!(scripts, [sql("a"), Script::File("b".into()), sql("c")]);
    }

    #[test]
    fn commands_and_databases_are_told_apart() {
        assert!(parse("forebay demo --sf 0.1").expect("valid").0.command.is_some());
        let (arguments, _) = parse("forebay ./demo --timeline x.html").expect("valid");
        assert_eq!(arguments.run.timeline, Some(PathBuf::from("x.html")));
        assert!(arguments.command.is_none());
        assert_eq!(arguments.run.database, Some(PathBuf::from("./demo")));
        for wrong in [
            "forebay --threads 0",
            "forebay --threads 1025",
            "forebay --memory lots",
            "forebay --format xml",
            "forebay gen ssb --sf 1",
            "forebay gen taxi --sf 1 --rows 20000 --out x",
            "forebay --read-only",
            "forebay :memory: --read-only",
            "forebay bench blocks --db d --cold",
            "forebay bench datapath --db d --cold",
            "forebay bench datapath --db d --throttle 1GB",
            "forebay bench cache --db d --cold",
            "forebay bench cache --db d --set cache_policy=lru",
            "forebay bench datapath --db d --query q1",
            "forebay bench blocks --db d --query q1",
            "forebay bench ssb --db d --experiment packed",
            "forebay bench ssb --db d --throttle 1GB",
            "forebay bench ssb --db d --warehouses 2",
            "forebay bench blocks --db d --clients 2",
            "forebay bench ssb --db d --procedures",
            "forebay bench tpcc --db d --warehouses 0",
            "forebay bench tpcc --db d --cold",
            "forebay bench tpcc --db d --query q1",
            "forebay bench tpcc --db d --sf 2",
            "forebay bench tpcc --db d --runs 3",
            "forebay bench tpcc --db d --experiment packed",
            "forebay bench tpcc --db d --streams 2",
            "forebay bench tpcc --db d --transaction-cores 1",
            "forebay bench chbench --db d --cold",
            "forebay bench chbench --db d --sf 2",
            "forebay bench chbench --db d --procedures",
            "forebay bench chbench --db d --streams 0",
            "forebay bench chbench --db d --explain",
            "forebay bench chbench --db d --experiment packed",
            "forebay bench ssb --db d --streams 2",
            "forebay inspect d",
            "forebay inspect d t --sample 0",
            "forebay init",
            "forebay data-dirs d",
            "forebay data-dirs add d",
            "forebay data-dirs move d /mnt",
            "forebay data-dirs move d x=/mnt",
            "forebay data-dirs move d 1=",
        ] {
            assert_eq!(parse(wrong).expect_err("wrong usage").exit_code(), 2, "{wrong}");
        }
        assert!(parse("forebay db --read-only").is_ok());
    }

    #[test]
    fn data_directories_are_listed_or_repeated() {
        let (arguments, _) = parse("forebay init d --data-dirs a,/b/c --data-dirs x").expect("valid");
        let Some(Command::Init(init)) = arguments.command else { panic!("another command") };
        assert_eq!(init.data_dirs, ["a", "/b/c", "x"].map(PathBuf::from));
        let (arguments, _) = parse("forebay data-dirs move d 2=/mnt/a=b 10=c").expect("valid");
        let Some(Command::DataDirs(DataDirs::Move { moved, .. })) = arguments.command else { panic!("another") };
        let place = |number, directory: &str| MovedDirectory { number, directory: directory.into() };
        assert_eq!(moved, [place(2, "/mnt/a=b"), place(10, "c")]);
    }

    #[test]
    fn values_may_begin_with_a_hyphen() {
        let words = ["forebay", "-c", "-- a comment\nSELECT 1", "-c", "-1", "db"];
        let (arguments, scripts) = parse_words(words.into_iter()).expect("valid");
        assert_eq!(scripts, [Script::Sql("-- a comment\nSELECT 1".into()), Script::Sql("-1".into())]);
        assert_eq!(arguments.run.database, Some(PathBuf::from("db")));
        let (arguments, _) = parse("forebay gen ssb --sf -1 --out x").expect("a number, if a useless one");
        assert!(matches!(arguments.command, Some(Command::Gen(Gen { scale_factor: -1.0, .. }))));
    }
}
