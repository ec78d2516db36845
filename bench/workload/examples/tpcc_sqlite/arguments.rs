//! The command line of the comparison.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use forebay::{Error, Result};

/// What is shown where the command line is wrong.
const USAGE: &str = "tpcc_sqlite --db DIR [--warehouses N] [--clients N,N,…] [--seconds N] [--warm-up N] [--rounds N] [--durability off|full]";

/// When a commit is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Durability {
    /// When the operating system has it.
    Off,
    /// When it is synced.
    Full,
}

impl Durability {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Full => "full",
        }
    }
}

impl FromStr for Durability {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "off" => Ok(Self::Off),
            "full" => Ok(Self::Full),
            _ => Err(Error::input(format!("there is no durability {text:?}")).hint("Use off or full")),
        }
    }
}

/// What to run.
#[derive(Debug)]
pub(crate) struct Arguments {
    /// Folder of both databases.
    pub(crate) directory: PathBuf,
    pub(crate) warehouses: NonZeroU32,
    /// Numbers of clients, one after the other.
    pub(crate) clients: Vec<NonZeroU32>,
    /// How long each run is.
    pub(crate) duration: Duration,
    /// How long clients work before each run, which does not count.
    pub(crate) warm_up: Duration,
    /// Runs of each database with each number of clients.
    pub(crate) rounds: NonZeroU32,
    pub(crate) durability: Durability,
}

impl Arguments {
    /// Reads the words behind the program's name.
    ///
    /// # Errors
    /// Unknown options, and values that are none.
    pub(crate) fn parse(words: impl Iterator<Item = String>) -> Result<Self> {
        let mut directory = None;
        let mut own = Self {
            directory: PathBuf::new(),
            warehouses: NonZeroU32::MIN,
            clients: vec![NonZeroU32::MIN],
            duration: Duration::from_secs(10),
            warm_up: Duration::from_secs(1),
            rounds: NonZeroU32::MIN,
            durability: Durability::Off,
        };
        let mut words = words;
        while let Some(option) = words.next() {
            let value = words.next().ok_or_else(|| wrong(&option))?;
            match option.as_str() {
                "--db" => directory = Some(PathBuf::from(value)),
                "--warehouses" => own.warehouses = read(&option, &value)?,
                "--clients" => {
                    own.clients = value.split(',').map(|number| read(&option, number)).collect::<Result<_>>()?;
                }
                "--seconds" => own.duration = Duration::from_secs(read::<NonZeroU32>(&option, &value)?.get().into()),
                "--warm-up" => own.warm_up = Duration::from_secs(read::<u32>(&option, &value)?.into()),
                "--rounds" => own.rounds = read(&option, &value)?,
                "--durability" => own.durability = value.parse()?,
                _ => return Err(wrong(&option)),
            }
        }
        own.directory = directory.ok_or_else(|| wrong("the command line without --db"))?;
        Ok(own)
    }
}

fn read<T: FromStr>(option: &str, value: &str) -> Result<T> {
    value.parse().map_err(|_| wrong(&format!("{option} {value}")))
}

fn wrong(what: &str) -> Error {
    Error::input(format!("cannot understand {what}")).hint(format!("Usage: {USAGE}"))
}
