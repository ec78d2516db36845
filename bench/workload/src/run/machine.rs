//! The machine a benchmark ran on, and the one thing the runner does to it: dropping the page cache.

use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use arrow::temporal_conversions::timestamp_s_to_datetime;
use serde_json::{Value, json};

/// Drops clean pages of the page cache; needs root.
pub(crate) fn drop_page_cache() -> std::io::Result<()> {
    fs::write("/proc/sys/vm/drop_caches", "1")
}

/// Processor, cores, memory and kernel; `null` where the system does not say.
pub(crate) fn machine() -> Value {
    let cores = std::thread::available_parallelism().map(|n| n.get()).ok();
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").ok();
    let memory_bytes = field("/proc/meminfo", "MemTotal")
        .and_then(|text| text.split(' ').next().and_then(|kib| kib.parse::<u64>().ok()))
        .map(|kib| kib * 1024);
    json!({
        "processor": field("/proc/cpuinfo", "model name"),
        "cores": cores,
        "memory_bytes": memory_bytes,
        "kernel": kernel.as_deref().map(str::trim),
    })
}

/// The value of the first line `name : value` of a file of the proc file system.
fn field(file: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim().to_owned())
    })
}

/// Now in UTC as `2026-01-31T12:34:56Z`.
pub(crate) fn date() -> Option<String> {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).ok()?.as_secs();
    timestamp_s_to_datetime(seconds as i64).map(|time| time.format("%Y-%m-%dT%H:%M:%SZ").to_string())
}
