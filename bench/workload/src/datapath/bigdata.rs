//! The Berkeley Big Data Benchmark, queries 1 and 2 (HippogriffDB §6.2, §7.1): a scan that filters by page rank, and an
//! aggregation by a prefix of an address, from the drive and from memory.

mod tables;

use std::fs;
use std::io::Write;

use forebay::units::format_count;
use forebay::{Database, Error, Result};

use super::{UNCOMPRESSED, cold, make_table, milliseconds, numbered, owned, rate, stored, warm};
use crate::experiments::Bench;
use crate::experiments::figure::Figure;
use crate::generate::{DEFAULT_SEED, write_parquet};
use crate::table_source::TableSource;

/// Folder of generated files inside the database's: they are removed once they are loaded.
const FILES: &str = "forebay-generated";

/// Name, table, and text with the table's place in braces.
const QUERIES: [(&str, &str, &str); 6] = [
    ("1a, rank > 1000", "rankings", "SELECT page_url, page_rank FROM {} WHERE page_rank > 1000"),
    ("1b, rank > 100", "rankings", "SELECT page_url, page_rank FROM {} WHERE page_rank > 100"),
    ("1c, rank > 10", "rankings", "SELECT page_url, page_rank FROM {} WHERE page_rank > 10"),
    (
        "2a, 8 letters",
        "uservisits",
        "SELECT substr(source_ip, 1, 8) AS prefix, sum(ad_revenue) FROM {} GROUP BY substr(source_ip, 1, 8)",
    ),
    (
        "2b, 10 letters",
        "uservisits",
        "SELECT substr(source_ip, 1, 10) AS prefix, sum(ad_revenue) FROM {} GROUP BY substr(source_ip, 1, 10)",
    ),
    (
        "2c, 12 letters",
        "uservisits",
        "SELECT substr(source_ip, 1, 12) AS prefix, sum(ad_revenue) FROM {} GROUP BY substr(source_ip, 1, 12)",
    ),
];

/// The tables, generated and loaded where they are missing, stored in both ways.
fn make(bench: &Bench<'_>) -> Result<Database> {
    let folder = bench.options.directory.join("bigdata");
    let database = Database::open(&folder, &bench.open_options())?;
    let files = folder.join(FILES);
    for source in tables::all(bench.options.scale_factor, DEFAULT_SEED) {
        make_source(&database, source.as_ref(), &files, bench.options.threads)?;
        stored(&database, source.name(), &UNCOMPRESSED)?;
    }
    Ok(database)
}

fn make_source(
    database: &Database,
    source: &dyn TableSource,
    files: &std::path::Path,
    threads: Option<usize>,
) -> Result<()> {
    if database.session().names().tables.iter().any(|known| known == source.name()) {
        return Ok(());
    }
    let path = write_parquet(source, files, threads)?.path;
    let quoted = path.display().to_string().replace('\'', "''");
    make_table(database, source.name(), &[], &format!("SELECT * FROM '{quoted}'"))?;
    fs::remove_file(&path).map_err(|e| Error::io(format!("remove {}", path.display()), &e))?;
    // It stays where it holds something else.
    drop(fs::remove_dir(files));
    Ok(())
}

pub(super) fn measure(bench: &Bench<'_>, _out: &mut dyn Write) -> Result<Figure> {
    let database = make(bench)?;
    let session = database.session();
    let (mut rows, mut series) = (Vec::new(), [Vec::new(), Vec::new(), Vec::new()]);
    for (name, table, text) in QUERIES {
        let over = |table: &str| text.replace("{}", table);
        let uncompressed = cold(bench, &database, &session, &over(&stored(&database, table, &UNCOMPRESSED)?))?;
        let balanced = cold(bench, &database, &session, &over(table))?;
        let in_memory = warm(bench, &session, &over(table))?;
        let all_timed = [&uncompressed, &balanced, &in_memory];
        let mut row = vec![name.to_owned(), format_count(balanced.metrics.rows)];
        row.extend(all_timed.iter().flat_map(|timed| [milliseconds(timed.seconds), rate(timed.effective())]));
        row.push(format!("{:.2} ×", uncompressed.seconds / balanced.seconds));
        rows.push(row);
        for (points, timed) in series.iter_mut().zip(all_timed) {
            points.push(timed.effective() / 1e9);
        }
    }
    let names = ["uncompressed, cold", "balanced, cold", "balanced, warm"];
    Ok(Figure {
        title: format!(
            "Big Data Benchmark, {} rankings and {} visits",
            format_count(tables::pages(bench.options.scale_factor)),
            format_count(tables::visits(bench.options.scale_factor))
        ),
        paper: "HippogriffDB, Figure 10(b) (1.2 GB in memory): 4.2 times as fast as MonetDB without compression and \
                pipelining, 11.8 times with both, so 2.8 times as fast by them; its times are not printed",
        headings: owned([
            "query",
            "rows",
            "uncompressed, cold",
            "effective",
            "balanced, cold",
            "effective",
            "balanced, warm",
            "effective",
            "by compression",
        ]),
        rows,
        axes: ("query", "GB/s of plain values"),
        ticks: QUERIES.map(|(name, ..)| name.split(',').next().unwrap_or(name).to_owned()).to_vec(),
        series: names.iter().zip(series).map(|(name, points)| ((*name).to_owned(), numbered(points))).collect(),
    })
}
