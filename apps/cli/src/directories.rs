//! The subcommands `init` and `data-dirs`: databases whose tables lie on several drives.
//!
//! Must not know: how directories are told apart.

use std::io::Write;
use std::path::PathBuf;

use forebay::units::{format_bytes, format_count};
use forebay::{Error, Result, directories};

use crate::args::{DataDirs, Init};
use crate::inspect::aligned;

pub(crate) fn run_init(arguments: &Init) -> Result<()> {
    directories::create(&arguments.database, &arguments.data_dirs)?;
    let place = arguments.database.display();
    write(&match arguments.data_dirs.len() {
        0 => format!("made the database {place}\n"),
        1 => format!("made the database {place} with 1 data directory\n"),
        count => format!("made the database {place} with {count} data directories\n"),
    })
}

pub(crate) fn run_data_dirs(arguments: &DataDirs) -> Result<()> {
    match arguments {
        DataDirs::List { database } => {
            let mut rows = vec![["number", "files", "size", "directory"].map(String::from)];
            rows.extend(directories::list(database)?.into_iter().map(|found| {
                [found.number.to_string(), format_count(found.files), format_bytes(found.bytes), found.path]
            }));
            write(&aligned(&rows))
        }
        DataDirs::Add { database, directories } => directories::add(database, directories),
        DataDirs::Move { database, moved } => {
            let moved: Vec<(u32, &PathBuf)> = moved.iter().map(|moved| (moved.number, &moved.directory)).collect();
            directories::move_to(database, &moved)
        }
    }
}

fn write(text: &str) -> Result<()> {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Error::io("write to standard output", &error))
        }
        _ => Ok(()),
    }
}
