//! Suites of experiments (`forebay bench blocks`, `datapath` and `cache`): what a paper measured, measured again, each as a
//! table beside what the paper reports, a plot, and JSON.
//!
//! Here is what suites share: [`figure`] (what an experiment gives), the options, and the runner. Must not know: what is
//! measured, command lines.

pub(crate) mod figure;
mod plot;

use std::fs;
use std::io::Write;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};

use forebay::{Error, Options, Result, Session};
use serde_json::json;

use crate::measure::run_sql;
use crate::report::line;
use crate::run::machine::{date, machine};
use figure::Figure;

/// What to measure, and how.
#[derive(Debug, Clone)]
pub struct ExperimentOptions {
    /// Scale factor of the data.
    pub scale_factor: f64,
    /// Folder of the databases, generated and loaded when missing.
    pub directory: PathBuf,
    /// Measured runs of each query; the median counts.
    pub runs: usize,
    /// Names of the experiments; empty means all.
    pub experiments: Vec<String>,
    /// File for all figures.
    pub json: Option<PathBuf>,
    /// Folder for plots, one SVG each.
    pub plots: Option<PathBuf>,
    /// Threads; by default one per core.
    pub threads: Option<usize>,
    /// Memory budget in bytes; by default that of [`forebay::Options`].
    pub memory_bytes: Option<u64>,
    /// Bytes that the experiments of caching read from disk in a second at most.
    pub read_bytes_per_second: Option<NonZeroU64>,
}

/// An experiment by name.
pub(crate) type Experiment = (&'static str, fn(&Bench<'_>, &mut dyn Write) -> Result<Figure>);

/// What experiments share.
pub(crate) struct Bench<'a> {
    pub(crate) options: &'a ExperimentOptions,
}

impl Bench<'_> {
    pub(crate) fn open_options(&self) -> Options {
        Options {
            memory_bytes: self.options.memory_bytes,
            threads: self.options.threads,
            owns_process: true,
            ..Options::default()
        }
    }

    /// The median time of a query in seconds, after one run that is not measured.
    pub(crate) fn median(&self, session: &Session, sql: &str) -> Result<f64> {
        run_sql(session, sql)?;
        let runs = (0..self.options.runs).map(|_| Ok(run_sql(session, sql)?.0.seconds()));
        let mut seconds: Vec<f64> = runs.collect::<Result<_>>()?;
        Ok(median(&mut seconds))
    }
}

/// Runs statements for what they do.
pub(crate) fn all(session: &Session, statements: &[&str]) -> Result<()> {
    statements.iter().try_for_each(|sql| run_sql(session, sql).map(drop))
}

/// The middle of at least one number; sorts them.
pub(crate) fn median(numbers: &mut [f64]) -> f64 {
    numbers.sort_by(f64::total_cmp);
    let middle = numbers.len() / 2;
    if numbers.len() % 2 == 1 { numbers[middle] } else { f64::midpoint(numbers[middle - 1], numbers[middle]) }
}

pub(crate) fn geometric_mean(numbers: &[f64]) -> f64 {
    (numbers.iter().map(|number| number.ln()).sum::<f64>() / numbers.len().max(1) as f64).exp()
}

/// Runs a suite's experiments, reports on `out`, and writes JSON and plots where they are asked for.
///
/// Errors: unknown experiments, unusable folders or files, and whatever the database reports.
pub(crate) fn run_suite(
    suite: &str,
    experiments: &[Experiment],
    options: &ExperimentOptions,
    out: &mut dyn Write,
) -> Result<()> {
    if options.runs == 0 {
        return Err(Error::input("a benchmark needs at least one run").hint("Use --runs 1 or more"));
    }
    let chosen = chosen(experiments, &options.experiments)?;
    for folder in options.plots.iter().chain([&options.directory]) {
        fs::create_dir_all(folder).map_err(|e| Error::io(format!("make {}", folder.display()), &e))?;
    }
    let bench = Bench { options };
    let mut figures = Vec::new();
    for (name, measure) in chosen {
        let figure = measure(&bench, out).map_err(|e| e.context(format!("experiment {name}")))?;
        line(out, &figure.text())?;
        if let Some(folder) = &options.plots {
            write(&folder.join(format!("{name}.svg")), &figure.svg())?;
        }
        let mut record = figure.json();
        record["experiment"] = json!(name);
        figures.push(record);
    }
    if let Some(path) = &options.json {
        let record = json!({
            "program": "forebay",
            "version": env!("CARGO_PKG_VERSION"),
            "date": date(),
            "machine": machine(),
            "benchmark": suite,
            "scale_factor": options.scale_factor,
            "runs": options.runs,
            "experiments": figures,
        });
        write(path, &format!("{record:#}\n"))?;
        line(out, &format!("Everything measured is in {}", path.display()))?;
    }
    Ok(())
}

fn chosen(experiments: &[Experiment], names: &[String]) -> Result<Vec<Experiment>> {
    if names.is_empty() {
        return Ok(experiments.to_vec());
    }
    let known = |wanted: &String| {
        experiments.iter().find(|(name, _)| name.eq_ignore_ascii_case(wanted)).copied().ok_or_else(|| {
            let names: Vec<_> = experiments.iter().map(|(name, _)| *name).collect();
            Error::input(format!("there is no experiment {wanted:?}"))
                .hint(format!("Experiments are {}", names.join(", ")))
        })
    };
    names.iter().map(known).collect()
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).map_err(|e| Error::io(format!("write {}", path.display()), &e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn experiments_are_known_by_name() {
        fn none(_: &Bench<'_>, _: &mut dyn Write) -> Result<Figure> {
            Err(Error::internal("never measured"))
        }
        let experiments: [Experiment; 2] = [("layouts", none), ("packed", none)];
        assert_eq!(chosen(&experiments, &[]).expect("all").len(), 2);
        assert_eq!(chosen(&experiments, &["Packed".to_owned()]).expect("one")[0].0, "packed");
        let unknown = chosen(&experiments, &["fig5".to_owned()]).map(drop).expect_err("unknown").to_string();
        assert!(unknown.contains("layouts"), "{unknown}");
    }

    #[test]
    fn middles() {
        assert_eq!(median(&mut [3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&mut [4.0, 1.0]), 2.5);
        assert!((geometric_mean(&[1.0, 100.0]) - 10.0).abs() < 1e-9);
    }
}
