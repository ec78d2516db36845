//! The subcommand `inspect`: how a table is stored, and what it would cost to store it otherwise.
//!
//! Must not know: how costs are found.

use std::io::Write;

use forebay::storage::{InspectedColumn, PlanCost, SampleInfo, TableStorage};
use forebay::units::{format_bytes, format_count, format_seconds};
use forebay::{Database, Error, Options, Result};
use serde_json::{Value, json};

use crate::args::{Inspect, ReportFormat};

pub(crate) fn run_inspect(arguments: &Inspect) -> Result<()> {
    let options = Options { read_only: true, threads: arguments.threads, ..Options::default() };
    let database = Database::open(&arguments.database, &options)?;
    let storage = database.inspect(&arguments.table, arguments.sample, arguments.fixed_rates)?;
    let text = match arguments.format {
        ReportFormat::Table => report(&storage),
        ReportFormat::Json => format!("{:#}\n", record(&storage)),
    };
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Error::io("write to standard output", &error))
        }
        _ => Ok(()),
    }
}

/// The report for people: how columns are stored, then the plans that meet the objectives.
fn report(storage: &TableStorage) -> String {
    let sum = |figure: fn(&InspectedColumn) -> u64| storage.columns.iter().map(figure).sum::<u64>();
    let (plain, stored) = (sum(|column| column.plain_bytes), sum(|column| column.stored_bytes));
    let asked = storage.compression.as_ref().map(|name| format!(", compression = {name}")).unwrap_or_default();
    let mut text = format!(
        "{}.{}: {} rows, {} plain, {} on disk{asked}\n\n",
        storage.schema,
        storage.table,
        format_count(storage.rows),
        format_bytes(plain),
        format_bytes(stored)
    );
    let mut rows = vec![
        ["column", "type", "plain", "on disk", "ratio", "chunks", "asked", "encodings", "schemes"].map(String::from),
    ];
    rows.extend(storage.columns.iter().map(stored_row));
    text += &aligned(&rows);
    text += &projections(storage);
    let Some(sample) = &storage.sample else { return text };
    text += &format!(
        "\nOther plans, by {} of {} row groups; times are modelled for a whole scan with a drive of {}/s and {}:\n\n",
        sample.groups,
        sample.of_groups,
        format_bytes(sample.disk_bytes_per_s as u64),
        if sample.cores == 1 { "1 core".to_owned() } else { format!("{} cores", sample.cores) }
    );
    let mut rows = vec![["column", "objective", "plan", "on disk", "read", "inflate", "scan"].map(String::from)];
    for column in &storage.columns {
        for (number, (objective, at)) in column.best.iter().enumerate() {
            let name = if number == 0 { column.column.clone() } else { String::new() };
            rows.push(plan_row(name, objective, &column.plans[*at]));
        }
    }
    text += &aligned(&rows);
    text + "\nbest_time takes the plan whose slower part, reading or inflating and scanning, is fastest, best_ratio the smallest;\n\
            balanced saves the most bytes per second of inflating, as long as that does not slow a scan of all columns down.\n\
            OPTIMIZE TABLE stores each column by what is asked of it: by its own option, else its table's, else SET compression.\n"
        + &kept_rates(sample)
}

/// The projections of the table.
fn projections(storage: &TableStorage) -> String {
    if storage.projections.is_empty() {
        return String::new();
    }
    let mut rows = vec![["projection", "ordered by", "on disk", "columns"].map(String::from)];
    rows.extend(storage.projections.iter().map(|projection| {
        let has_all = projection.columns.len() == storage.columns.len();
        let columns = if has_all { "all".to_owned() } else { projection.columns.join(", ") };
        [projection.name.clone(), projection.order.clone(), format_bytes(projection.file_bytes), columns]
    }));
    format!("\n{}", aligned(&rows))
}

/// Where the rates that times are modelled by come from.
fn kept_rates(sample: &SampleInfo) -> String {
    match &sample.rates_file {
        None => String::new(),
        Some(file) => format!(
            "Rates of this machine are kept in {}; OPTIMIZE TABLE measures them anew after SET compression_rates = remeasured.\n",
            file.display()
        ),
    }
}

fn stored_row(column: &InspectedColumn) -> [String; 9] {
    let encodings = column.encodings.iter().map(|(name, blocks)| share(name, *blocks, column.blocks));
    let frames_bytes = column.schemes.iter().map(|scheme| scheme.plain_bytes).sum();
    let schemes = column.schemes.iter().map(|scheme| share(scheme.scheme, scheme.plain_bytes, frames_bytes));
    [
        column.column.clone(),
        column.sql_type.clone(),
        format_bytes(column.plain_bytes),
        format_bytes(column.stored_bytes),
        format!("{:.1}", column.plain_bytes as f64 / column.stored_bytes.max(1) as f64),
        format_count(column.chunks),
        column.compression.clone().unwrap_or_else(|| "-".to_owned()),
        encodings.collect::<Vec<_>>().join(", "),
        schemes.collect::<Vec<_>>().join(", "),
    ]
}

fn plan_row(column: String, objective: &str, plan: &PlanCost) -> [String; 7] {
    [
        column,
        objective.to_owned(),
        format!("{} x {}", plan.compression, plan.chunk_blocks),
        format_bytes(plan.stored_bytes),
        format_seconds(plan.read_seconds),
        format_seconds(plan.inflate_seconds),
        format_seconds(plan.scan_seconds),
    ]
}

/// A name, with the part of a whole that has it where others have some.
fn share(name: &str, part: u64, whole: u64) -> String {
    if part == whole { name.to_owned() } else { format!("{name} {:.0}%", part as f64 * 100.0 / whole.max(1) as f64) }
}

/// Rows of cells as text, each column as wide as its widest cell.
pub(crate) fn aligned<const N: usize>(rows: &[[String; N]]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..N).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let cells: Vec<String> = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        text += cells.join("  ").trim_end();
        text.push('\n');
    }
    text
}

/// Everything that was found.
fn record(storage: &TableStorage) -> Value {
    let column = |column: &InspectedColumn| {
        json!({
            "column": column.column,
            "type": column.sql_type,
            "compression": column.compression,
            "plain_bytes": column.plain_bytes,
            "encoded_bytes": column.encoded_bytes,
            "stored_bytes": column.stored_bytes,
            "chunks": column.chunks,
            "blocks": column.blocks,
            "encodings": column.encodings.iter().map(|(name, blocks)| json!({ "encoding": name, "blocks": blocks }))
                .collect::<Vec<_>>(),
            "schemes": column.schemes.iter().map(|scheme| json!({
                "scheme": scheme.scheme,
                "frames": scheme.frames,
                "plain_bytes": scheme.plain_bytes,
                "stored_bytes": scheme.stored_bytes,
            })).collect::<Vec<_>>(),
            "plans": column.plans.iter().map(|plan| json!({
                "compression": plan.compression,
                "chunk_blocks": plan.chunk_blocks,
                "stored_bytes": plan.stored_bytes,
                "read_s": plan.read_seconds,
                "inflate_s": plan.inflate_seconds,
                "scan_s": plan.scan_seconds,
                "total_s": plan.seconds(),
            })).collect::<Vec<_>>(),
            "best": column.best.iter().map(|(objective, at)| ((*objective).to_owned(), json!(at)))
                .collect::<serde_json::Map<_, _>>(),
        })
    };
    json!({
        "schema": storage.schema,
        "table": storage.table,
        "rows": storage.rows,
        "compression": storage.compression,
        "columns": storage.columns.iter().map(column).collect::<Vec<_>>(),
        "projections": storage.projections.iter().map(|projection| json!({
            "name": projection.name,
            "order": projection.order,
            "columns": projection.columns,
            "file_bytes": projection.file_bytes,
        })).collect::<Vec<_>>(),
        "sample": storage.sample.as_ref().map(|sample| json!({
            "groups": sample.groups,
            "of_groups": sample.of_groups,
            "disk_bytes_per_s": sample.disk_bytes_per_s,
            "cores": sample.cores,
            "rates_file": sample.rates_file,
        })),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_told_where_there_are_several() {
        assert_eq!(share("lz4", 7, 7), "lz4");
        assert_eq!(share("lz4", 1, 4), "lz4 25%");
    }

    #[test]
    fn cells_are_aligned() {
        let rows = [["a", "bb"], ["ccc", "d"]].map(|row| row.map(String::from));
        assert_eq!(aligned(&rows), "a    bb\nccc  d\n");
    }
}
