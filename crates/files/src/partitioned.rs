//! COPY … TO a folder with a folder for each value of some columns: `year=2024/….parquet`. All of it is written beside the wanted
//! place, and moved there when it is whole.

use std::fs;
use std::path::{Path, PathBuf};

use datafusion::arrow::datatypes::DataType;
use datafusion::common::parsers::CompressionTypeVariant;
use datafusion::dataframe::DataFrameWriteOptions;
use datafusion::execution::SessionState;
use datafusion::functions::core::expr_fn::coalesce;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, lit};
use datafusion::prelude::{DataFrame, cast};
use forebay_base::{Error, ErrorKind, Result};
use forebay_context::error::{from_datafusion, suggestion};
use forebay_forms::file_options::Options;

use crate::each_file::NO_VALUE;
use crate::files;
use crate::parquet_output::{parquet_options, written_rows};

/// Writes the rows of `plan` into a folder and returns their number.
pub(crate) async fn write(state: SessionState, plan: LogicalPlan, path: &str, options: &Options) -> Result<u64> {
    let target = PathBuf::from(path.trim_end_matches('/'));
    check(&target, options)?;
    let plan = with_texts(plan, &options.partition_by)?;
    let unfinished = Unfinished::create(&target)?;
    let url = files::url(&format!("{}/", unfinished.0.display()))?;
    let compression = options.compression.unwrap_or(CompressionTypeVariant::UNCOMPRESSED);
    let write = DataFrameWriteOptions::new().with_partition_by(options.partition_by.clone());
    let parquet = parquet_options(compression, options);
    let written = DataFrame::new(state, plan).write_parquet(&url, write, Some(parquet)).await;
    let rows = written_rows(&written.map_err(|error| from_datafusion(error).context(format!("folder {path}")))?);
    match target.exists() {
        false => fs::rename(&unfinished.0, &target).map_err(|error| failed(&target, &error))?,
        true => move_files(&unfinished.0, &target)?,
    }
    Ok(rows)
}

/// The folder is not there, or empty, or may have other files.
fn check(target: &Path, options: &Options) -> Result<()> {
    let parent = target.parent().filter(|parent| !parent.as_os_str().is_empty());
    if let Some(missing) = parent.filter(|parent| !parent.is_dir()) {
        return Err(Error::new(ErrorKind::NotFound, format!("directory {} does not exist", missing.display())));
    }
    if !target.exists() {
        return Ok(());
    }
    let mut files = fs::read_dir(target).map_err(|error| failed(target, &error))?;
    match files.next().is_some() && !options.overwrites {
        true => Err(Error::new(ErrorKind::AlreadyExists, format!("directory {} is not empty", target.display()))
            .hint("Name another one, or say OVERWRITE_OR_IGNORE")),
        false => Ok(()),
    }
}

/// The rows with the columns that folders are called by as texts: NULL has a name of its own there.
fn with_texts(plan: LogicalPlan, partition_by: &[String]) -> Result<LogicalPlan> {
    let fields: Vec<String> = plan.schema().fields().iter().map(|field| field.name().clone()).collect();
    if let Some(missing) = partition_by.iter().find(|name| !fields.contains(name)) {
        let error = Error::new(ErrorKind::NotFound, format!("column {missing} does not exist"));
        return Err(match suggestion(missing, fields.iter().map(String::as_str)) {
            Some(other) => error.hint(format!("Did you mean {other}?")),
            None => error.hint("PARTITION_BY names columns of the query"),
        });
    }
    if partition_by.len() == fields.len() {
        return Err(Error::input("PARTITION_BY leaves no column for the files"));
    }
    let columns = plan.schema().iter().map(|(qualifier, field)| {
        let column = Expr::Column((qualifier, field).into());
        match partition_by.contains(field.name()) {
            true => {
                let text = cast(column, DataType::Utf8);
                coalesce(vec![text, lit(NO_VALUE)]).alias(field.name())
            }
            false => column,
        }
    });
    let columns: Vec<Expr> = columns.collect();
    LogicalPlanBuilder::from(plan).project(columns).and_then(LogicalPlanBuilder::build).map_err(from_datafusion)
}

/// A folder beside the wanted one. Dropped, it is gone with what is in it.
struct Unfinished(PathBuf);

impl Unfinished {
    fn create(target: &Path) -> Result<Self> {
        let mut name = target.as_os_str().to_owned();
        name.push(".part");
        let path = PathBuf::from(name);
        // One of another program stays what it is.
        fs::create_dir(&path).map_err(|error| failed(&path, &error))?;
        Ok(Self(path))
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Moves all files into the folders of the same names.
fn move_files(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).map_err(|error| failed(to, &error))?;
    for entry in fs::read_dir(from).map_err(|error| failed(from, &error))? {
        let entry = entry.map_err(|error| failed(from, &error))?;
        let target = to.join(entry.file_name());
        match entry.path().is_dir() {
            true => move_files(&entry.path(), &target)?,
            false => fs::rename(entry.path(), &target).map_err(|error| failed(&target, &error))?,
        }
    }
    Ok(())
}

fn failed(path: &Path, error: &std::io::Error) -> Error {
    Error::io(format!("write {}", path.display()), error)
}
