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
use forebay::{Database, Error, ErrorKind, Options, Result, Session};

use crate::benchmark::{Benchmark, check_scale_factor};
use crate::generate::{self, DEFAULT_SEED, Format, GenerateOptions, GeneratedFile};
use crate::measure::run_sql;
use crate::report::{Columns, line};
use crate::schema::{self, TableDefinition};

/// Folder of generated files inside the database directory: a name that nobody else's files have.
pub(crate) const DATA_FOLDER: &str = "forebay-generated";

/// A fact table whose number of rows is drawn has the expected number, give or take this many times its square root: the
/// standard deviation is about that root.
const DEVIATIONS: f64 = 6.0;

/// What to make ready.
pub(crate) struct Wanted<'a> {
    pub(crate) benchmark: Benchmark,
    pub(crate) scale_factor: f64,
    /// Directory of the database.
    pub(crate) database: &'a Path,
    pub(crate) options: Options,
    /// Leave the generated files in [`DATA_FOLDER`] after they are loaded.
    pub(crate) keep_files: bool,
    /// Statements that the loading session runs first.
    pub(crate) settings: &'a [&'a str],
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
    for setting in wanted.settings {
        run_sql(&session, setting)?;
    }
    let missing = missing_tables(wanted, &session)?;
    if missing.is_empty() {
        let Wanted { benchmark, scale_factor, .. } = wanted;
        line(out, &format!("{benchmark} at scale factor {scale_factor} is there already; using it."))?;
        return Ok(database);
    }
    let folder = wanted.database.join(DATA_FOLDER);
    line(out, &format!("Making {} at scale factor {}, as Parquet files in", wanted.benchmark, wanted.scale_factor))?;
    line(out, &format!("{} and from there as tables:", folder.display()))?;
    line(out, "")?;
    let columns = Columns::new(&[10, 13, 10, 10, 10, 12]);
    line(out, &columns.row(&["table", "rows", "Parquet", "generated", "loaded", "rows/s"]))?;
    line(out, &columns.rule())?;
    for (definition, found) in &missing {
        let started = Instant::now();
        let file = generate_table(wanted, definition, &folder)?;
        let generated = started.elapsed().as_secs_f64();
        let started = Instant::now();
        load_table(&session, definition, found, &file)?;
        let loaded = started.elapsed().as_secs_f64();
        if !wanted.keep_files {
            fs::remove_file(&file.path).map_err(|e| Error::io(format!("remove {}", file.path.display()), &e))?;
        }
        let cells = [
            definition.name,
            &format_count(file.rows),
            &format_bytes(file.bytes),
            &format_seconds(generated),
            &format_seconds(loaded),
            &format_count((file.rows as f64 / loaded.max(1e-9)) as u64),
        ];
        line(out, &columns.row(&cells))?;
    }
    if !wanted.keep_files {
        // It stays where it holds something else.
        drop(fs::remove_dir(&folder));
    }
    Ok(database)
}

fn missing_tables(wanted: &Wanted<'_>, session: &Session) -> Result<Vec<(TableDefinition, Found)>> {
    let definitions = schema::tables(wanted.benchmark, wanted.scale_factor);
    let sources = generate::sources(wanted.benchmark, wanted.scale_factor, DEFAULT_SEED)?;
    let mut missing = Vec::new();
    for (definition, source) in definitions.into_iter().zip(sources) {
        // The number of rows of a fact table is drawn.
        let expected = source.expected_rows();
        let is_drawn = definition.name == schema::fact_table(wanted.benchmark);
        let tolerance = if is_drawn { (DEVIATIONS * (expected as f64).sqrt()) as u64 } else { 0 };
        let found = inspect(wanted, session, definition.name, expected, tolerance)?;
        if !matches!(found, Found::Complete) {
            missing.push((definition, found));
        }
    }
    Ok(missing)
}

fn inspect(wanted: &Wanted<'_>, session: &Session, table: &str, expected: u64, tolerance: u64) -> Result<Found> {
    let rows = match count(session, table) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Found::Missing),
        rows => rows?,
    };
    if rows == 0 {
        return Ok(Found::Empty);
    }
    if rows.abs_diff(expected) <= tolerance {
        return Ok(Found::Complete);
    }
    Err(Error::input(format!(
        "{} holds other data: table {table} has {} rows, {} at scale factor {} has {}{}",
        wanted.database.display(),
        format_count(rows),
        wanted.benchmark,
        wanted.scale_factor,
        if tolerance > 0 { "about " } else { "" },
        format_count(expected)
    ))
    .hint("Use another directory or the scale factor it was made with"))
}

/// Rows of a table.
pub(crate) fn count(session: &Session, table: &str) -> Result<u64> {
    let (_, batches) = run_sql(session, &format!("SELECT CAST(count(*) AS BIGINT) FROM {table}"))?;
    let counted = batches.iter().find(|batch| batch.num_rows() > 0);
    let column = counted.and_then(|batch| batch.column(0).as_primitive_opt::<Int64Type>().cloned());
    column.map(|column| column.value(0) as u64).ok_or_else(|| Error::internal(format!("no row count of {table}")))
}

fn generate_table(wanted: &Wanted<'_>, definition: &TableDefinition, folder: &Path) -> Result<GeneratedFile> {
    let options = GenerateOptions {
        scale_factor: wanted.scale_factor,
        out: folder.to_owned(),
        format: Format::Parquet,
        threads: wanted.options.threads.unwrap_or(0),
        seed: DEFAULT_SEED,
        tables: Some(vec![definition.name.to_owned()]),
    };
    let mut files = generate::generate(wanted.benchmark, &options, &|_| ())?;
    files.pop().ok_or_else(|| Error::internal(format!("table {} was not generated", definition.name)))
}

fn load_table(session: &Session, definition: &TableDefinition, found: &Found, file: &GeneratedFile) -> Result<()> {
    if matches!(found, Found::Missing) {
        run_sql(session, &definition.create)?;
    }
    let path = file.path.display().to_string().replace('\'', "''");
    run_sql(session, &format!("COPY {} FROM '{path}' (FORMAT parquet)", definition.name))?;
    let loaded = count(session, definition.name)?;
    if loaded == file.rows {
        return Ok(());
    }
    Err(Error::internal(format!(
        "table {} has {loaded} rows after loading {} from {}",
        definition.name,
        file.rows,
        file.path.display()
    )))
}
