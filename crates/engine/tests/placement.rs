//! Which pipelines run on a device where others run range by range of a key, which they do on the CPU.

mod one_table;

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array};
use arrow::datatypes::{DataType, Field, Int64Type, Schema};
use forebay_base::LogicalType;
use forebay_disk::MemoryDisk;
use forebay_engine::query::{self, Execution, FactReports, Query, QueryOptions, QueryOutput, QueryTable};
use forebay_engine::{CancelToken, Engine, LoadOptions, MemoryShares, Metrics, ScanSettings};
use forebay_gpu::DeviceChoice;
use forebay_gpu::emulated::{EmulatedDevice, Options};
use forebay_pipeline::ir::Program;

/// Rows of the table: more than those that a device is worth which nobody asked for.
const ROWS: i64 = 300_000;

/// A table that lies in the order of its first column, which is unique, with the rows' kind and a number.
fn ordered() -> Arc<Engine> {
    let engine = one_table::open(Arc::new(MemoryDisk::new()), MemoryShares::alone(1 << 30)).expect("an empty disk");
    let columns = [("key", LogicalType::Int64), ("kind", LogicalType::Int64), ("amount", LogicalType::Int64)];
    let numbers = |of: fn(i64) -> i64| Arc::new(Int64Array::from_iter_values((0..ROWS).map(of))) as ArrayRef;
    let arrays = vec![numbers(|row| row * 2), numbers(|row| row % 50), numbers(|row| one_table::noise(row) % 1000)];
    one_table::load(&engine, &columns, LoadOptions::default(), [arrays]);
    engine
}

/// Joins the table with itself by the key, and groups by `column`; the groups are expected to be so many.
fn joined(engine: &Engine, column: usize, expected_groups: f64) -> Query {
    let name = ["key", "kind"][column];
    let program = format!(
        "program 0 dictionaries
state j0: join (i64) -> (i64)
state a1: aggregate (i64) {{ rows, sum(i64) }}
pipeline
  scan 0 t (r0: i64 = column 0 key i64, r1: i64 = column 1 kind i64)
  build j0 (r0) -> (r1)
pipeline
  scan 1 t (r0: i64 = column 0 key i64, r1: i64 = column {column} {name} i64)
  probe inner j0 (r0) -> (0 r2)
  aggregate a1 (r1) {{ -, r2 }}
pipeline
  groups a1 (r0, r1, r2)
  collect (r0, r1, r2)
"
    );
    let bound = || QueryTable {
        table: one_table::table(engine),
        filters: Vec::new(),
        metrics: Arc::new(Metrics::default()),
        expected: None,
        facts: FactReports::default(),
        copies: None,
        fetched: Vec::new(),
    };
    let fields: Vec<_> = (0..3).map(|number| Field::new(format!("c{number}"), DataType::Int64, true)).collect();
    Query {
        program: Program::parse(&program).expect("the program is well formed"),
        expected_rows: vec![Some(ROWS as f64), Some(expected_groups)],
        tables: vec![bound(), bound()],
        schema: Arc::new(Schema::new(fields)),
        dictionaries: vec![None; 3],
        first: None,
    }
}

fn options(device: DeviceChoice) -> QueryOptions {
    QueryOptions {
        threads: 2,
        execution: Execution::Compiled,
        memory_bytes: 1 << 30,
        scan: ScanSettings { partition_wise_rows: 0, ..ScanSettings::default() },
        device,
        counted: true,
        timeline: None,
        account: None,
    }
}

fn run(engine: &Arc<Engine>, query: &Query, device: DeviceChoice) -> QueryOutput {
    query::run(engine, query, &options(device), &CancelToken::default()).expect("it runs")
}

/// Number of groups, of rows, and the sum of the kinds.
fn sums(output: &QueryOutput) -> (usize, i64, i64) {
    let sum = |column: usize| {
        let values = output.batches.iter().flat_map(|batch| batch.column(column).as_primitive::<Int64Type>().values());
        values.sum::<i64>()
    };
    (output.batches.iter().map(|batch| batch.column(0).len()).sum(), sum(1), sum(2))
}

/// By pipeline: it ran on the device. And whether pipelines ran range by range.
fn ran(output: &QueryOutput) -> (Vec<bool>, bool) {
    let has = |text: &str, notes: &[String]| notes.iter().any(|note| note.contains(text));
    let on_device = output.reports.iter().map(|report| has("on the emulated device", &report.notes)).collect();
    (on_device, output.reports.iter().any(|report| has("ranges, each through pipelines 0 and 1", &report.notes)))
}

#[test]
fn pipelines_run_range_by_range_where_no_device_has_them() {
    let engine = ordered();
    let few = joined(&engine, 1, 50.0);
    let many = joined(&engine, 0, ROWS as f64);
    let kinds = (0..ROWS).map(|row| row % 50).sum();
    let (few_sums, many_sums) = ((50, ROWS, kinds), (ROWS as usize, ROWS, kinds));
    let (none, both) = (vec![false; 3], vec![true, true, false]);
    let check = |query: &Query, device, expected_sums, expected: (&Vec<bool>, bool)| {
        let output = run(&engine, query, device);
        assert_eq!(sums(&output), expected_sums, "{device}");
        let (on_device, is_by_ranges) = ran(&output);
        assert_eq!((&on_device, is_by_ranges), expected, "{device}: {:?}", output.reports);
        // What is foreseen is what comes.
        let places = query::places(&engine, query, &options(device)).expect("there is a device, or none is asked for");
        let is_there = |place: &String| place.starts_with("to run on the emulated device");
        let foreseen: Vec<bool> = places.iter().map(is_there).collect();
        assert!(foreseen.is_empty() || foreseen == on_device, "{places:?}");
    };
    for device in [DeviceChoice::Cpu, DeviceChoice::Auto] {
        check(&few, device, few_sums, (&none, true));
        check(&many, device, many_sums, (&none, true));
    }
    // Who asks for the device has it run what it can.
    check(&few, DeviceChoice::Emulated, few_sums, (&both, false));
    check(&many, DeviceChoice::Emulated, many_sums, (&both, false));
    let device = EmulatedDevice::open(Options::default()).expect("there is a compiler");
    engine.accelerators().install(device).expect("streams and pinned memory");
    check(&many, DeviceChoice::Auto, many_sums, (&none, true));
    let places = query::places(&engine, &many, &options(DeviceChoice::Auto)).expect("there is a device");
    assert!(places[..2].iter().all(|place| place == "to run on the CPU: it runs range by range, with others"));
    // Kernels are compiled beside queries that nobody asked a device for.
    let pause = || std::thread::sleep(std::time::Duration::from_millis(50));
    let is_compiled = (0..2400).any(|_| ran(&run(&engine, &few, DeviceChoice::Auto)).0 == both || (pause(), false).1);
    assert!(is_compiled, "the kernels are not there in minutes");
    check(&few, DeviceChoice::Auto, few_sums, (&both, false));
}
