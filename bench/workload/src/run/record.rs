//! Everything a benchmark measured as one JSON document.

use serde_json::{Value, json};

use super::machine::{date, machine};
use super::roof::Roof;
use super::{BenchOptions, PageCacheDropped, QueryRuns, Spread, Summary};
use crate::measure::Measured;

/// Times of single runs are integers in nanoseconds (`_ns`), summaries seconds (`_s`), sizes bytes (`_bytes`).
pub(super) fn record(
    options: &BenchOptions,
    dropped: PageCacheDropped,
    all: &[QueryRuns],
    summary: &Summary,
    roof: &Roof,
) -> Value {
    json!({
        "program": "forebay",
        "version": env!("CARGO_PKG_VERSION"),
        "date": date(),
        "machine": machine(),
        "benchmark": options.benchmark.name(),
        "scale_factor": options.scale_factor,
        "threads": options.threads,
        "memory_limit_bytes": options.memory_bytes,
        "settings": options.settings,
        "cold": options.cold,
        "page_cache_dropped": dropped,
        "disk_bytes_per_s_at_most": options.read_bytes_per_second,
        "memory_bytes_per_s": roof.memory.round(),
        "device": options.device,
        "device_memory_bytes_per_s": roof.device.map(|device| device.measured.within_device.round()),
        "link_bytes_per_s": roof.device.map(|device| device.measured.to_device.round()),
        "queries": all.iter().map(|runs| query(runs, roof)).collect::<Vec<_>>(),
        "total": spread(&summary.total),
        "geometric_mean": spread(&summary.geometric_mean),
        "plan": spread(&summary.plan),
        "compile": spread(&summary.compile),
    })
}

fn spread(spread: &Spread) -> Value {
    json!({ "min_s": spread.min, "median_s": spread.median, "max_s": spread.max })
}

fn query(runs: &QueryRuns, roof: &Roof) -> Value {
    let mut value = spread(&runs.spread());
    value["name"] = json!(runs.name);
    value["times_floor"] = json!(roof.times(runs.last().metrics.code_bytes, runs.spread().median));
    let (read_bytes, seconds) = (runs.last().metrics.read_bytes, runs.spread().median);
    value["read_bytes"] = json!(read_bytes);
    value["read_bytes_per_s"] = json!((seconds > 0.0).then(|| (read_bytes as f64 / seconds).round()));
    if let Some(bound) = &runs.bound {
        value["bound"] = json!({
            "read_s": bound.read,
            "read_bytes": bound.bytes,
            "warm_s": bound.warm,
            "inflate_s": bound.inflate,
            "times": seconds / bound.seconds().max(1e-9),
        });
    }
    value["plan"] = spread(&runs.planning());
    value["compile_ns"] = json!(runs.compile.as_nanos() as u64);
    value["runs"] = runs.runs.iter().map(run).collect();
    value
}

fn run(run: &Measured) -> Value {
    let metrics = &run.metrics;
    json!({
        "elapsed_ns": run.elapsed.as_nanos() as u64,
        "plan_ns": metrics.plan.as_nanos() as u64,
        "rows": run.rows,
        "read_bytes": metrics.read_bytes,
        "scanned_bytes": metrics.scanned_bytes,
        "code_bytes": metrics.code_bytes,
        "plain_bytes": metrics.plain_bytes,
        "chunks": metrics.chunks,
        "chunks_pruned": metrics.chunks_pruned,
    })
}
