//! The demonstration and the benchmark from an empty directory to the last line, and again on what is there.

use std::num::NonZeroU64;
use std::path::Path;

use forebay::{Database, Options};
use forebay_workload::Benchmark;
use forebay_workload::blocks::bench_blocks;
use forebay_workload::caching::bench_cache;
use forebay_workload::datapath::bench_datapath;
use forebay_workload::demo::{DemoOptions, demo};
use forebay_workload::experiments::ExperimentOptions;
use forebay_workload::run::{BenchOptions, bench};
use forebay_workload::schema::tables;

fn shown(database: &Path, scale_factor: f64) -> String {
    let options = DemoOptions {
        scale_factor,
        database: database.to_owned(),
        threads: Some(2),
        memory_bytes: Some(1 << 30),
        program: "bin/forebay".to_owned(),
    };
    let mut out = Vec::new();
    demo(&options, &mut out).expect("the demonstration runs");
    String::from_utf8(out).expect("text")
}

#[test]
fn the_demonstration_runs_twice() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let database = folder.path().join("demo");
    let first = shown(&database, 0.01);
    assert!(first.contains("loaded"), "{first}");
    for expected in ["q1.1", "q4.3", "effective", "lo_shipmode", "total"] {
        assert!(first.contains(expected), "{expected} is missing in\n{first}");
    }
    // The path of a temporary folder may be long; everything else fits 100 columns.
    let place = database.display().to_string();
    for line in first.lines().filter(|line| !line.contains(&place)) {
        assert!(line.chars().count() <= 100, "too wide: {line}");
    }
    assert!(first.contains("  bin/forebay -c "), "{first}");
    let second = shown(&database, 0.01);
    assert!(second.contains("is there already") && !second.contains("loaded"), "{second}");

    let mut out = Vec::new();
    let other = DemoOptions { scale_factor: 0.02, database, ..DemoOptions::default() };
    let refused = demo(&other, &mut out).expect_err("another scale factor is there").to_string();
    assert!(refused.contains("holds other data") && refused.contains("300 rows"), "{refused}");
}

/// A run that was stopped after its first CREATE TABLE goes on from there.
#[test]
fn an_interrupted_load_goes_on() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let database = folder.path().join("demo");
    {
        let opened = Database::open(&database, &Options::default()).expect("a new database");
        let session = opened.session();
        let create = &tables(Benchmark::Ssb, 0.01)[0].create;
        for statement in session.statements(create).expect("valid SQL") {
            session.execute(&statement).expect("a new table");
        }
    }
    let text = shown(&database, 0.01);
    assert!(text.contains("2,557"), "{text}");
}

fn options(benchmark: Benchmark, database: &Path) -> BenchOptions {
    BenchOptions {
        benchmark,
        scale_factor: 0.01,
        database: database.to_owned(),
        runs: 2,
        cold: false,
        read_bytes_per_second: None,
        json: None,
        explain: false,
        queries: Vec::new(),
        settings: Vec::new(),
        device: None,
        threads: Some(2),
        memory_bytes: Some(1 << 30),
    }
}

#[test]
fn benchmarks_run_warm_and_cold() {
    for (benchmark, last, count) in
        [(Benchmark::Ssb, "q4.3", 13), (Benchmark::Tpch, "q22", 22), (Benchmark::Taxi, "q2.3", 6)]
    {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let database = folder.path().join("bench");
        let json = folder.path().join("figures.json");
        let mut out = Vec::new();
        let warm = BenchOptions { json: Some(json.clone()), ..options(benchmark, &database) };
        bench(&warm, &mut out).expect("the benchmark runs");
        let text = String::from_utf8(out).expect("text");
        assert!(text.contains(last) && text.contains("geomean"), "{text}");
        assert!(!database.join("forebay-generated").exists(), "generated files are gone after loading");
        let written = std::fs::read_to_string(&json).expect("the JSON file");
        let record: serde_json::Value = serde_json::from_str(&written).expect("JSON");
        assert_eq!(record["queries"].as_array().map(Vec::len), Some(count));
        assert_eq!(record["cold"], false);

        let mut out = Vec::new();
        let cold =
            BenchOptions { cold: true, explain: true, queries: vec![last.to_owned()], ..options(benchmark, &database) };
        bench(&cold, &mut out).expect("the benchmark runs");
        let text = String::from_utf8(out).expect("text");
        assert!(text.contains("cold") && text.contains(last) && text.contains("is there already"), "{text}");
        assert!(text.contains("from disk"), "{text}");
        assert!(text.contains("workers waited"), "{text}");
    }
}

#[test]
fn the_experiments_of_data_blocks_run() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (json, plots) = (folder.path().join("figures.json"), folder.path().join("plots"));
    let options = ExperimentOptions {
        scale_factor: 0.001,
        directory: folder.path().join("data"),
        runs: 1,
        experiments: Vec::new(),
        json: Some(json.clone()),
        plots: Some(plots.clone()),
        threads: Some(2),
        memory_bytes: Some(1 << 30),
        read_bytes_per_second: None,
    };
    let mut out = Vec::new();
    bench_blocks(&options, &mut out).expect("all experiments run");
    let text = String::from_utf8(out).expect("text");
    assert!(text.contains("Figure 13") && text.contains("Table 2"), "{text}");
    let written = std::fs::read_to_string(&json).expect("the JSON file");
    let record: serde_json::Value = serde_json::from_str(&written).expect("JSON");
    let experiments = record["experiments"].as_array().expect("a list");
    assert_eq!(experiments.len(), 8);
    for experiment in experiments {
        let name = experiment["experiment"].as_str().expect("a name");
        assert!(!experiment["series"][0]["points"].as_array().expect("points").is_empty(), "{name}");
        assert!(plots.join(format!("{name}.svg")).exists(), "{name}");
    }
    let mut again = Vec::new();
    bench_blocks(&ExperimentOptions { experiments: vec!["sorted".into()], ..options }, &mut again)
        .expect("on what is there");
    assert!(String::from_utf8(again).expect("text").contains("is there already"));
}

#[test]
fn the_experiments_of_the_data_path_run() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (json, plots) = (folder.path().join("figures.json"), folder.path().join("plots"));
    let options = ExperimentOptions {
        scale_factor: 0.01,
        directory: folder.path().join("data"),
        runs: 1,
        experiments: Vec::new(),
        json: Some(json.clone()),
        plots: Some(plots.clone()),
        threads: Some(2),
        memory_bytes: Some(1 << 30),
        read_bytes_per_second: None,
    };
    let mut out = Vec::new();
    bench_datapath(&options, &mut out).expect("all experiments run");
    let text = String::from_utf8(out).expect("text");
    for expected in ["Figure 4", "Figure 13", "Table 3", "lo_commitdate", "q4.3", "2c, 12 letters"] {
        assert!(text.contains(expected), "{expected} is missing in\n{text}");
    }
    let written = std::fs::read_to_string(&json).expect("the JSON file");
    let record: serde_json::Value = serde_json::from_str(&written).expect("JSON");
    assert_eq!(record["benchmark"], "datapath");
    for experiment in record["experiments"].as_array().expect("a list") {
        let name = experiment["experiment"].as_str().expect("a name");
        assert!(!experiment["series"][0]["points"].as_array().expect("points").is_empty(), "{name}");
        assert!(plots.join(format!("{name}.svg")).exists(), "{name}");
        // What is no number, or infinite, is null in JSON.
        assert!(!experiment["series"].to_string().contains("null"), "{name}: {}", experiment["series"]);
    }
    let mut again = Vec::new();
    bench_datapath(&ExperimentOptions { experiments: vec!["gap".into()], ..options }, &mut again)
        .expect("on what is there");
    assert!(String::from_utf8(again).expect("text").contains("is there already"));
}

#[test]
fn the_experiments_of_caching_run() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let json = folder.path().join("figures.json");
    let options = ExperimentOptions {
        scale_factor: 0.01,
        directory: folder.path().join("data"),
        runs: 1,
        // The two other ones do as these do, with more queries.
        experiments: ["prediction", "alternating", "forms", "goals", "sessions"].map(str::to_owned).to_vec(),
        json: Some(json.clone()),
        plots: None,
        threads: Some(2),
        memory_bytes: Some(1 << 30),
        read_bytes_per_second: NonZeroU64::new(4 << 30),
    };
    let mut out = Vec::new();
    bench_cache(&options, &mut out).expect("all experiments run");
    let text = String::from_utf8(out).expect("text");
    assert!(["Figure 8", "Figures 5 to 7", "proportional"].iter().all(|expected| text.contains(expected)), "{text}");
    let written = std::fs::read_to_string(&json).expect("the JSON file");
    let record: serde_json::Value = serde_json::from_str(&written).expect("JSON");
    let experiments = record["experiments"].as_array().expect("a list");
    let series = |experiment: &str| {
        let found = experiments.iter().find(|one| one["experiment"] == experiment);
        let named = found.and_then(|one| one["series"].as_array());
        named.unwrap_or_else(|| panic!("{experiment} in {written}")).clone()
    };
    let points = |one: &serde_json::Value| one["points"].as_array().map(Vec::len);
    for (experiment, lines) in [("alternating", 13), ("forms", 6), ("goals", 2)] {
        let series = series(experiment);
        assert!(series.len() == lines && series.iter().all(|one| points(one) == Some(5)), "{experiment}");
    }
    // Of so few rows every pipeline is too short to be predicted.
    assert_eq!(series("prediction").len(), 2);
    // Sessions beside each other: their answers are compared by the experiment itself, their account is kept.
    let sessions = series("sessions");
    let bytes = |name: &str| {
        let named = sessions.iter().find(|one| one["name"] == name).expect("a series of this name");
        named["points"][0][1].as_f64().expect("a number of bytes")
    };
    assert!(bytes("account") > 0.0 && bytes("account") <= bytes("budget"), "{sessions:?}");
}

/// What is there is neither overwritten nor removed, and a run that fails keeps the figures of an earlier one.
#[test]
fn files_of_others_are_left_alone() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let write = |path: &Path, text: &str| {
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(path, text).expect("a file");
    };
    let database = folder.path().join("bench");
    drop(Database::open(&database, &Options::default()).expect("a new database"));
    let own = database.join("data").join("region.parquet");
    write(&own, "mine");
    let options = BenchOptions { queries: vec!["q6".to_owned()], ..options(Benchmark::Tpch, &database) };
    bench(&options, &mut Vec::new()).expect("the benchmark runs");
    assert_eq!(std::fs::read_to_string(&own).expect("still there"), "mine");

    let photos = folder.path().join("photos");
    write(&photos.join("cat.jpg"), "cat");
    let json = folder.path().join("figures.json");
    write(&json, "earlier");
    let foreign = BenchOptions { database: photos.clone(), json: Some(json.clone()), ..options };
    bench(&foreign, &mut Vec::new()).expect_err("this is no database");
    let refused = demo(&DemoOptions { database: photos.clone(), ..DemoOptions::default() }, &mut Vec::new());
    refused.expect_err("this is no database");
    assert_eq!(std::fs::read_dir(&photos).expect("still there").count(), 1);
    assert_eq!(std::fs::read_to_string(&json).expect("still there"), "earlier");
}

/// A fact table of a few rows is not the benchmark's.
#[test]
fn another_fact_table_is_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let database = folder.path().join("bench");
    {
        let opened = Database::open(&database, &Options::default()).expect("a new database");
        let session = opened.session();
        for statement in session.statements("CREATE TABLE lineorder AS SELECT 1 AS lo_orderkey").expect("valid SQL") {
            session.execute(&statement).expect("a new table");
        }
    }
    let refused = bench(&options(Benchmark::Ssb, &database), &mut Vec::new()).expect_err("one row is not all");
    let text = refused.to_string();
    assert!(text.contains("lineorder has 1 rows") && text.contains("has about 60,000"), "{text}");
}

#[test]
fn mistakes_are_found_before_work_begins() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let database = folder.path().join("bench");
    let failure = |changed: BenchOptions| bench(&changed, &mut Vec::new()).expect_err("a mistake").to_string();
    let base = || options(Benchmark::Ssb, &database);
    assert!(failure(BenchOptions { runs: 0, ..base() }).contains("at least one run"));
    assert!(failure(BenchOptions { queries: vec!["q9.9".into()], ..base() }).contains("q9.9"));
    assert!(failure(BenchOptions { scale_factor: -1.0, ..base() }).contains("out of range"));
    let json = Some(folder.path().join("missing").join("figures.json"));
    assert!(failure(BenchOptions { json, ..base() }).contains("cannot write"));
    assert!(!database.exists(), "nothing was made");
}
