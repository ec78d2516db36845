//! A database that holds a benchmark at a scale factor: opened when it is there, else generated and loaded with
//! `CREATE TABLE` and `COPY` as a user would.
//!
//! Invariant: a table is either absent, empty, or complete, because a COPY is one transaction. So work that was
//! interrupted goes on where it stopped.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::time::Instant;

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use forebay::units::{format_bytes, format_count, format_seconds};
use forebay::{Database, Error, Options, Result, Session};

use crate::benchmark::{Benchmark, check_scale_factor};
use crate::generate::{self, DEFAULT_SEED, Format, GenerateOptions, GeneratedFile};
use crate::measure::run_sql;
use crate::report::line;
use crate::schema::{self, TableDefinition};

/// Folder of generated files inside the database directory.
pub(crate) const DATA_FOLDER: &str = "data";

/// What to make ready.
pub(crate) struct Wanted<'a> {
    pub(crate) benchmark: Benchmark,
    pub(crate) scale_factor: f64,
    /// Directory of the database.
    pub(crate) database: &'a Path,
    pub(crate) options: Options,
    /// Leave the generated files in [`DATA_FOLDER`] after they are loaded.
    pub(crate) keep_files: bool,
}

/// What is in the database for one table.
enum Found {
    Missing,
    Empty,
    Complete,
}

/// Opens the database and fills what is missing. Says on `out` what it does.
pub(crate) fn prepare(wanted: &Wanted<'_>, out: &mut dyn Write) -> Result<Database> {
    check_scale_factor(wanted.scale_factor)?;
    let database = Database::open(wanted.database, &wanted.options)?;
    let session = database.session();
    let missing = missing_tables(wanted, &session)?;
    if missing.is_empty() {
        line(out, &format!("{} is there already; using it as it is.", wanted.database.display()))?;
        return Ok(database);
    }
    let folder = wanted.database.join(DATA_FOLDER);
    let files = generate_files(wanted, &missing, &folder, out)?;
    for ((definition, found), file) in missing.iter().zip(&files) {
        load_table(&session, definition, found, file, out)?;
    }
    if !wanted.keep_files {
        for file in &files {
            fs::remove_file(&file.path).map_err(|e| Error::io(format!("remove {}", file.path.display()), &e))?;
        }
    }
    Ok(database)
}

fn missing_tables(wanted: &Wanted<'_>, session: &Session) -> Result<Vec<(TableDefinition, Found)>> {
    let definitions = schema::tables(wanted.benchmark, wanted.scale_factor);
    let sources = generate::sources(wanted.benchmark, wanted.scale_factor, DEFAULT_SEED)?;
    let names = session.names().tables;
    let mut missing = Vec::new();
    for (definition, source) in definitions.into_iter().zip(sources) {
        let exists = names.iter().any(|name| name.eq_ignore_ascii_case(definition.name));
        // The number of rows of a fact table is drawn; its dimensions tell the scale factor.
        let expected = (definition.name != schema::fact_table(wanted.benchmark)).then(|| source.expected_rows());
        let found = if exists { inspect(wanted, session, definition.name, expected)? } else { Found::Missing };
        if !matches!(found, Found::Complete) {
            missing.push((definition, found));
        }
    }
    Ok(missing)
}

fn inspect(wanted: &Wanted<'_>, session: &Session, table: &str, expected: Option<u64>) -> Result<Found> {
    let rows = count(session, table)?;
    match expected {
        _ if rows == 0 => Ok(Found::Empty),
        Some(expected) if expected != rows => Err(Error::input(format!(
            "{} holds other data: table {table} has {} rows, {} at scale factor {} has {}",
            wanted.database.display(),
            format_count(rows),
            wanted.benchmark,
            wanted.scale_factor,
            format_count(expected)
        ))
        .hint("Use another directory or the scale factor it was made with")),
        _ => Ok(Found::Complete),
    }
}

fn count(session: &Session, table: &str) -> Result<u64> {
    let (_, batches) = run_sql(session, &format!("SELECT CAST(count(*) AS BIGINT) FROM {table}"))?;
    let counted = batches.iter().find(|batch| batch.num_rows() > 0);
    let column = counted.and_then(|batch| batch.column(0).as_primitive_opt::<Int64Type>().cloned());
    column.map(|column| column.value(0) as u64).ok_or_else(|| Error::internal(format!("no row count of {table}")))
}

fn generate_files(
    wanted: &Wanted<'_>,
    missing: &[(TableDefinition, Found)],
    folder: &Path,
    out: &mut dyn Write,
) -> Result<Vec<GeneratedFile>> {
    line(
        out,
        &format!("Generating {} at scale factor {} into {}", wanted.benchmark, wanted.scale_factor, folder.display()),
    )?;
    let started = Instant::now();
    let options = GenerateOptions {
        scale_factor: wanted.scale_factor,
        out: folder.to_owned(),
        format: Format::Parquet,
        threads: wanted.options.threads.unwrap_or(0),
        seed: DEFAULT_SEED,
        tables: Some(missing.iter().map(|(definition, _)| definition.name.to_owned()).collect()),
    };
    let files = generate::generate(wanted.benchmark, &options, &|_| ())?;
    let rows = files.iter().map(|file| file.rows).sum();
    let bytes = files.iter().map(|file| file.bytes).sum();
    let seconds = format_seconds(started.elapsed().as_secs_f64());
    line(out, &format!("  {} rows, {} of Parquet in {seconds}", format_count(rows), format_bytes(bytes)))?;
    Ok(files)
}

fn load_table(
    session: &Session,
    definition: &TableDefinition,
    found: &Found,
    file: &GeneratedFile,
    out: &mut dyn Write,
) -> Result<()> {
    let started = Instant::now();
    if matches!(found, Found::Missing) {
        run_sql(session, &definition.create)?;
    }
    let path = file.path.display().to_string().replace('\'', "''");
    run_sql(session, &format!("COPY {} FROM '{path}' (FORMAT parquet)", definition.name))?;
    let loaded = count(session, definition.name)?;
    if loaded != file.rows {
        return Err(Error::internal(format!(
            "table {} has {loaded} rows after loading {} from {}",
            definition.name,
            file.rows,
            file.path.display()
        )));
    }
    let seconds = started.elapsed().as_secs_f64();
    let rate = format_count((file.rows as f64 / seconds.max(1e-9)) as u64);
    let name = definition.name;
    let rows = format_count(file.rows);
    line(out, &format!("Loaded {name:<10} {rows:>14} rows in {:>9}  {rate:>12} rows/s", format_seconds(seconds)))
}
