//! Figure 5: the time to compile a query over 8 columns, by the number of different layouts of the blocks that it reads.

use std::io::Write;

use arrow::array::AsArray;
use arrow::datatypes::DataType;
use forebay::{Database, Error, Result, Session};

use crate::experiments::figure::Figure;
use crate::experiments::{Bench, median};
use crate::measure::run_sql;

const LAYOUTS: [usize; 4] = [1, 10, 100, 500];

/// Columns of the table.
const COLUMNS: u32 = 8;

/// Rows of a block: enough for each of [`VALUES`] to be encoded as it should be.
const ROWS: usize = 64;

/// Values of a column by `x` from 0 to 63 that are a single value, codes of 1, 2 and 4 bytes, a dictionary, and
/// uncompressed.
const VALUES: [&str; 6] =
    ["7", "x", "x * 1000", "x * 1000000", "x % 2 * 1000000000000000000", "x * 100000000000000000"];

/// A table of blocks with so many different combinations of layouts, each in an INSERT of its own.
fn make(session: &Session, layouts: usize) -> Result<()> {
    let columns: Vec<String> = (0..COLUMNS).map(|column| format!("c{column} BIGINT")).collect();
    run_sql(session, &format!("CREATE TABLE t ({})", columns.join(", ")))?;
    for layout in 0..layouts {
        let value = |column: u32| VALUES[layout / VALUES.len().pow(column) % VALUES.len()];
        let values: Vec<&str> = (0..COLUMNS).map(value).collect();
        run_sql(session, &format!("INSERT INTO t SELECT {} FROM range({ROWS}) AS r(x)", values.join(", ")))?;
    }
    Ok(())
}

/// The sum of what `EXPLAIN ANALYZE` says of compilation, in milliseconds.
fn compile_ms(session: &Session, sql: &str) -> Result<f64> {
    let (_, batches) = run_sql(session, &format!("EXPLAIN ANALYZE {sql}"))?;
    let mut found = Vec::new();
    for column in batches.iter().flat_map(|batch| batch.columns()) {
        let Ok(texts) = arrow::compute::cast(column, &DataType::Utf8) else { continue };
        for text in texts.as_string::<i32>().iter().flatten() {
            let after = text.split("compiled in ").skip(1).filter_map(|rest| rest.split(' ').next());
            found.extend(after.filter_map(|number| number.parse::<f64>().ok()));
        }
    }
    match found.is_empty() {
        true => Err(Error::internal("EXPLAIN ANALYZE says nothing of compilation")),
        false => Ok(found.iter().sum()),
    }
}

pub(super) fn measure(bench: &Bench<'_>, _out: &mut dyn Write) -> Result<Figure> {
    let mut rows = Vec::new();
    let mut points = Vec::new();
    for (number, layouts) in LAYOUTS.into_iter().enumerate() {
        let database = Database::in_memory(&bench.open_options())?;
        let session = database.session();
        make(&session, layouts)?;
        let mut times = Vec::new();
        for run in 0..=bench.options.runs {
            // Another constant each time, since code that is there is not compiled again.
            let sums: Vec<String> = (0..COLUMNS).map(|column| format!("sum(c{column} % {})", 1000 + run)).collect();
            times.push(compile_ms(&session, &format!("SELECT {} FROM t WHERE c0 >= 0", sums.join(", ")))?);
        }
        times.remove(0);
        let middle = median(&mut times);
        rows.push(vec![layouts.to_string(), format!("{middle:.2} ms")]);
        points.push((number as f64, middle));
    }
    Ok(Figure {
        title: "Compiling a query over 8 columns, by layouts of its blocks".to_owned(),
        paper: "Figure 5: compile times of scans unrolled for each layout grow to seconds, those of vectorised scans stay the \
                same however many layouts there are",
        headings: ["layouts", "compiled in"].map(str::to_owned).to_vec(),
        rows,
        axes: ("layouts", "compile time, ms"),
        ticks: LAYOUTS.map(|layouts| layouts.to_string()).to_vec(),
        series: vec![("interpreted scan".to_owned(), points)],
    })
}
