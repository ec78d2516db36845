//! COPY … TO: a query's rows into one file, which is there under its name when it is whole, and not before.

use std::fs::{File, OpenOptions};
use std::io::ErrorKind as IoErrorKind;
use std::path::Path;

use datafusion::common::parsers::CompressionTypeVariant;
use datafusion::dataframe::DataFrameWriteOptions;
use datafusion::execution::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::prelude::DataFrame;
use forebay_base::{Error, ErrorKind, Result};
use forebay_context::error::from_datafusion;
use forebay_forms::file_options::{Format, Options, split_compression};

use crate::delimited::{self, Style};
use crate::parquet_output::{parquet_options, written_rows};
use crate::written_rows::{objects, texts};
use crate::{files, partitioned};

/// Names that are tried for the unfinished file.
const MOST_NAMES: usize = 1000;

/// Writes the rows of `plan` into one file and returns their number.
pub async fn write(state: SessionState, plan: LogicalPlan, path: &str, options: &Options) -> Result<u64> {
    let Some(format) = options.format.or_else(|| Format::of_path(path)) else {
        return Err(Error::input(format!("the format of {path} is not clear from its name"))
            .hint("Name it *.csv, *.tbl, *.parquet or *.json, or say COPY … TO … (FORMAT csv)"));
    };
    if !options.partition_by.is_empty() {
        return match format {
            Format::Parquet => partitioned::write(state, plan, path, options).await,
            _ => Err(Error::unsupported("PARTITION_BY writes Parquet files").hint("Say FORMAT parquet")),
        };
    }
    check_folder(path)?;
    let compression = options.compression.unwrap_or_else(|| split_compression(&path.to_ascii_lowercase()).1);
    let (plan, style) = match format {
        Format::Csv | Format::Tbl => {
            let style = Style::new(format, path, options)?;
            style.check_forced(plan.schema().as_arrow())?;
            (texts(&state, plan, options)?, Some(style))
        }
        Format::Json => (objects(&state, plan)?, Some(Style::of_json(options.is_array))),
        Format::Parquet => (plan, None),
    };
    let (unfinished, file) = Unfinished::create(path)?;
    let frame = DataFrame::new(state, plan);
    let rows = match style {
        Some(style) => delimited::write(frame, file, compression, style).await,
        None => write_parquet(frame, &unfinished.name, compression, options).await,
    };
    let rows = rows.map_err(|error| error.context(format!("file {path}")))?;
    std::fs::rename(&unfinished.name, path).map_err(|error| Error::io(format!("write {path}"), &error))?;
    Ok(rows)
}

fn check_folder(path: &str) -> Result<()> {
    let target = Path::new(path);
    let parent = target.parent().filter(|parent| !parent.as_os_str().is_empty());
    if let Some(missing) = parent.filter(|parent| !parent.is_dir()) {
        return Err(Error::new(ErrorKind::NotFound, format!("directory {} does not exist", missing.display())));
    }
    match target.is_dir() {
        true => Err(Error::input(format!("{path} is a directory"))),
        false => Ok(()),
    }
}

/// A file under a name of its own beside the wanted one. Dropped, it is gone: half a file must not be left, under any name.
struct Unfinished {
    name: String,
}

impl Unfinished {
    /// Makes the file. One of another program stays what it is.
    fn create(path: &str) -> Result<(Self, File)> {
        for number in 0..MOST_NAMES {
            let suffix = if number == 0 { String::new() } else { format!("-{number}") };
            let name = format!("{path}.part{suffix}");
            if Path::new(&staged(&name)).exists() {
                continue;
            }
            match OpenOptions::new().write(true).create_new(true).open(&name) {
                Ok(file) => return Ok((Self { name }, file)),
                Err(error) if error.kind() == IoErrorKind::AlreadyExists => {}
                Err(error) => return Err(Error::io(format!("write {path}"), &error)),
            }
        }
        Err(Error::input(format!("there are {MOST_NAMES} unfinished files {path}.part")).hint("Remove them"))
    }
}

/// Where DataFusion's writer collects what it writes.
fn staged(name: &str) -> String {
    format!("{name}#1")
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        // A finished file has its own name by now; that nothing can be removed is no news beside the error.
        let _ = std::fs::remove_file(&self.name);
        let _ = std::fs::remove_file(staged(&self.name));
    }
}

async fn write_parquet(
    frame: DataFrame,
    name: &str,
    compression: CompressionTypeVariant,
    options: &Options,
) -> Result<u64> {
    let url = files::url(name)?;
    let write = DataFrameWriteOptions::new().with_single_file_output(true);
    let written = frame.write_parquet(&url, write, Some(parquet_options(compression, options))).await;
    Ok(written_rows(&written.map_err(from_datafusion)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unfinished_files_are_removed_and_other_peoples_files_stay() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("x.csv").to_string_lossy().into_owned();
        let other = format!("{path}.part");
        std::fs::write(&other, "precious").expect("written");
        let (unfinished, _file) = Unfinished::create(&path).expect("created");
        std::fs::write(staged(&unfinished.name), "half").expect("written");
        drop(unfinished);
        let left: Vec<_> = std::fs::read_dir(folder.path()).expect("a folder").flatten().collect();
        assert_eq!(left.len(), 1, "{left:?}");
        assert_eq!(std::fs::read_to_string(other).expect("still there"), "precious");
    }
}
