//! GOLAP, Table 1, as `OPTIMIZE TABLE` does it: plans of the chooser's grid (compression and blocks per chunk) that a sample of
//! the row groups chooses, against the best ones for all of them. Times are modelled, by rates measured anew for each sample;
//! what a choice costs is told by the model of the whole.

use std::io::Write;

use forebay::storage::{InspectedColumn, TableStorage};
use forebay::{Database, Result};

use super::{numbered, owned, ssb};
use crate::benchmark::Benchmark;
use crate::experiments::Bench;
use crate::experiments::figure::Figure;
use crate::load::{Wanted, prepare};

/// Shares of the row groups that choose, in percent.
const PERCENTS: [u32; 3] = [1, 5, 10];

/// What plans are chosen for, with what a plan is then judged by.
const OBJECTIVES: [&str; 2] = ["best_time", "best_ratio"];

/// Trips of New York's cabs as loads store them.
fn taxi(bench: &Bench<'_>, out: &mut dyn Write) -> Result<Database> {
    let path = bench.options.directory.join("taxi");
    let wanted = Wanted {
        benchmark: Benchmark::Taxi,
        scale_factor: bench.options.scale_factor,
        database: &path,
        options: bench.open_options(),
        keep_files: false,
        settings: &[],
    };
    prepare(&wanted, out)
}

/// What the plan at `index` costs in all of a column, by what the objective wants little of.
fn cost(column: &InspectedColumn, objective: &str, index: usize) -> f64 {
    let plan = &column.plans[index];
    match objective {
        "best_time" => plan.seconds(),
        _ => plan.stored_bytes as f64,
    }
}

/// How many times the best plan of the whole column the one is that the sample chose; `None` for a column that nothing was
/// chosen for.
fn deviation(objective: &str, sample: &InspectedColumn, whole: &InspectedColumn) -> Option<f64> {
    let best_of = |column: &InspectedColumn| column.best.iter().find(|(name, _)| *name == objective).map(|(_, at)| *at);
    let (chosen, best) = (best_of(sample)?, best_of(whole)?);
    // Both have the plans of the same grid.
    let best = cost(whole, objective, best);
    (best > 0.0).then(|| cost(whole, objective, chosen) / best)
}

/// The deviations of all columns, in one list per percentage.
fn of_table(objective: &str, samples: &[TableStorage], whole: &TableStorage) -> Vec<Vec<f64>> {
    let columns = |sample: &TableStorage| {
        let pairs = sample.columns.iter().zip(&whole.columns);
        pairs.filter_map(|(sample, whole)| deviation(objective, sample, whole)).collect()
    };
    samples.iter().map(columns).collect()
}

pub(super) fn measure(bench: &Bench<'_>, out: &mut dyn Write) -> Result<Figure> {
    let tables = [("lineorder", ssb(bench, bench.options.scale_factor, out)?), ("trips", taxi(bench, out)?)];
    let (mut rows, mut series) = (Vec::new(), Vec::new());
    for (table, database) in &tables {
        let whole = database.inspect(table, Some(100), false)?;
        let samples = PERCENTS
            .iter()
            .map(|percent| database.inspect(table, Some(*percent), false))
            .collect::<Result<Vec<_>>>()?;
        for objective in OBJECTIVES {
            let deviations = of_table(objective, &samples, &whole);
            let mean = |numbers: &Vec<f64>| numbers.iter().sum::<f64>() / numbers.len().max(1) as f64;
            let most = |numbers: &Vec<f64>| numbers.iter().copied().fold(1.0, f64::max);
            let cells = deviations.iter().flat_map(|numbers| [mean(numbers), most(numbers)]);
            let names = [(*table).to_owned(), objective.to_owned(), whole.columns.len().to_string()];
            rows.push(names.into_iter().chain(cells.map(|cell| format!("{cell:.3}"))).collect());
            series.push((format!("{table}, {objective}"), numbered(deviations.iter().map(mean))));
        }
    }
    let mut headings = owned(["table", "objective", "columns"]);
    headings.extend(PERCENTS.iter().flat_map(|percent| [format!("AVG, {percent} %"), format!("MAX, {percent} %")]));
    Ok(Figure {
        title: format!(
            "Plans chosen on samples, scale factor {}: times the best of the whole column (1.00 is the best)",
            bench.options.scale_factor
        ),
        paper: "GOLAP, Table 1 (samples of 1, 5, 10 %): SSB, time AVG 1.26, 1.13, 1.06, ratio AVG 1.01, 1.0, 1.0; its taxi data, \
                time AVG up to 1.44",
        headings,
        rows,
        axes: ("sample", "times the best"),
        ticks: PERCENTS.map(|percent| format!("{percent} %")).to_vec(),
        series,
    })
}

#[cfg(test)]
mod tests {
    use forebay::storage::PlanCost;

    use super::*;

    fn column(costs: &[(u64, f64)], best: usize) -> InspectedColumn {
        let plan = |(stored_bytes, read_seconds): &(u64, f64)| PlanCost {
            compression: "lz4".into(),
            chunk_blocks: 1,
            stored_bytes: *stored_bytes,
            read_seconds: *read_seconds,
            inflate_seconds: 0.0,
            scan_seconds: 0.0,
        };
        InspectedColumn {
            column: "c".into(),
            compression: None,
            sql_type: "INTEGER".into(),
            plain_bytes: 1,
            encoded_bytes: 1,
            stored_bytes: 1,
            chunks: 1,
            blocks: 1,
            encodings: Vec::new(),
            schemes: Vec::new(),
            plans: costs.iter().map(plan).collect(),
            best: OBJECTIVES.map(|objective| (objective, best)).to_vec(),
        }
    }

    #[test]
    fn choices_are_judged_by_the_whole() {
        let (sample, whole) = (column(&[(1, 1.0), (2, 2.0)], 0), column(&[(30, 5.0), (20, 4.0)], 1));
        assert_eq!(deviation("best_time", &sample, &whole), Some(1.25));
        assert_eq!(deviation("best_ratio", &sample, &whole), Some(1.5));
    }
}
