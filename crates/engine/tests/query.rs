//! Programs over stored tables: compiled code on several workers gives what the interpreter gives on one, and both what a
//! plain loop over the rows gives.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int32Array, Int64Array, RecordBatch, StringViewArray};
use arrow::datatypes::{DataType, Field, Int64Type, Schema};
use forebay_base::{ErrorKind, LogicalType, Result};
use forebay_disk::MemoryDisk;
use forebay_engine::query::{Execution, FactReports, Query, QueryOptions, QueryOutput, QueryTable, StepReport, run};
use forebay_engine::{
    CancelToken, DeviceChoice, Engine, LoadTarget, Loader, MemoryShares, Metrics, ScanSettings, SimdLevel,
};
use forebay_gpu::device::Device;
use forebay_gpu::emulated::{EmulatedDevice, Options};
use forebay_pipeline::ir::{DictionaryId, Program};
use forebay_store::{ColumnDefinition, DEFAULT_SCHEMA, OpenMode, Store, TableDefinition, TableSnapshot};

/// A fact row: date key, customer key, amount.
type Fact = (i32, Option<i32>, i64);
/// A customer: key, region, segment.
type Customer = (i32, String, String);

struct Star {
    engine: Arc<Engine>,
    facts: Vec<Fact>,
    customers: Vec<Customer>,
}

fn column(name: &str, logical: LogicalType, nullable: bool) -> ColumnDefinition {
    ColumnDefinition { name: name.into(), logical, nullable, default: None, missing: None }
}

fn add_table(engine: &Engine, name: &str, columns: Vec<ColumnDefinition>, arrays: Vec<ArrayRef>) -> Result<()> {
    let mut transaction = engine.store().begin()?;
    let definition =
        TableDefinition { schema: DEFAULT_SCHEMA.into(), name: name.into(), columns, constraints: Vec::new() };
    let id = transaction.create_table(definition)?;
    transaction.commit()?;
    let catalog = engine.store().catalog();
    let table = catalog.table_by_id(id).expect("it was just made");
    let target = LoadTarget::new(engine.store(), &table.columns)?;
    let mut loader = Loader::new(Arc::clone(&target), 0);
    let fields = arrays.iter().zip(&table.columns);
    let fields: Vec<_> =
        fields.map(|(array, column)| Field::new(&column.name, array.data_type().clone(), true)).collect();
    loader.push(&RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).expect("columns of one length"))?;
    loader.finish()?;
    let segments = Arc::into_inner(target).expect("the loader is done").finish()?;
    let mut transaction = engine.store().begin()?;
    transaction.publish(id, segments)?;
    transaction.commit()
}

/// Rows that look random, the same every time.
fn star(facts: usize, customers: usize) -> Star {
    let random = |row: usize, salt: u64| {
        let mixed = (row as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ salt;
        (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 24
    };
    let fact = |row| {
        let customer = (random(row, 1) % 97 != 0).then(|| (random(row, 2) % (customers as u64 + 9)) as i32);
        (19_920_101 + (random(row, 3) % 2500) as i32, customer, (random(row, 4) % 100_000) as i64)
    };
    let customer = |row| {
        let region = format!("REGION {}", random(row, 5) % 5);
        (row as i32, region, format!("segment number {}", random(row, 6) % 40))
    };
    let facts: Vec<Fact> = (0..facts).map(fact).collect();
    let customers: Vec<Customer> = (0..customers).map(customer).collect();
    let disk = Arc::new(MemoryDisk::new());
    let store = Store::open(disk.clone(), OpenMode::ReadWrite, "test").expect("an empty disk");
    let engine = Arc::new(Engine::new(store, MemoryShares::alone(1 << 30), disk));
    let fact_columns = vec![
        column("f_date", LogicalType::Int32, false),
        column("f_customer", LogicalType::Int32, true),
        column("f_amount", LogicalType::Int64, false),
    ];
    let arrays: Vec<ArrayRef> = vec![
        Arc::new(Int32Array::from_iter_values(facts.iter().map(|fact| fact.0))),
        Arc::new(Int32Array::from_iter(facts.iter().map(|fact| fact.1))),
        Arc::new(Int64Array::from_iter_values(facts.iter().map(|fact| fact.2))),
    ];
    add_table(&engine, "fact", fact_columns, arrays).expect("facts load");
    let customer_columns = vec![
        column("c_key", LogicalType::Int32, false),
        column("c_region", LogicalType::Varchar, false),
        column("c_segment", LogicalType::Varchar, false),
    ];
    let arrays: Vec<ArrayRef> = vec![
        Arc::new(Int32Array::from_iter_values(customers.iter().map(|customer| customer.0))),
        Arc::new(StringViewArray::from_iter_values(customers.iter().map(|customer| &customer.1))),
        Arc::new(StringViewArray::from_iter_values(customers.iter().map(|customer| &customer.2))),
    ];
    add_table(&engine, "customer", customer_columns, arrays).expect("customers load");
    Star { engine, facts, customers }
}

/// A query over tables by name.
fn query_of(engine: &Engine, names: &[&str], program: &str, types: &[(DataType, Option<u32>)]) -> Query {
    let table = |name: &str| -> Arc<TableSnapshot> {
        Arc::clone(engine.store().catalog().table(DEFAULT_SCHEMA, name).expect("it was loaded"))
    };
    let bound = |name: &&str| QueryTable {
        table: table(name),
        filters: Vec::new(),
        metrics: Arc::new(Metrics::default()),
        expected: None,
        facts: FactReports::default(),
        copies: None,
        fetched: Vec::new(),
    };
    let fields: Vec<_> = types
        .iter()
        .enumerate()
        .map(|(index, (data, _))| Field::new(format!("c{index}"), data.clone(), true))
        .collect();
    Query {
        program: Program::parse(program).expect("the program is well formed"),
        expected_rows: Vec::new(),
        tables: names.iter().map(bound).collect(),
        schema: Arc::new(Schema::new(fields)),
        dictionaries: types.iter().map(|(_, dictionary)| dictionary.map(DictionaryId)).collect(),
        first: None,
    }
}

/// Runs a query with a device.
fn run_on(engine: &Arc<Engine>, query: &Query, device: DeviceChoice) -> Result<QueryOutput> {
    let (execution, scan) = (Execution::Compiled, ScanSettings::default());
    let options = QueryOptions {
        threads: 2,
        execution,
        memory_bytes: 1 << 30,
        scan,
        device,
        counted: true,
        timeline: None,
        account: None,
    };
    run(engine, query, &options, &CancelToken::default())
}

impl Star {
    fn query(&self, program: &str, types: &[(DataType, Option<u32>)]) -> Query {
        query_of(&self.engine, &["fact", "customer"], program, types)
    }

    fn run(&self, query: &Query, execution: Execution, threads: usize, memory_bytes: usize) -> Result<QueryOutput> {
        run(
            &self.engine,
            query,
            &QueryOptions {
                threads,
                execution,
                memory_bytes,
                scan: ScanSettings::default(),
                device: DeviceChoice::Cpu,
                counted: true,
                timeline: None,
                account: None,
            },
            &CancelToken::default(),
        )
    }
}

/// The star join of the tests: facts of some dates with customers of a region, grouped by segment.
const BY_SEGMENT: &str = "program 1 dictionaries
state j0: join (i64) -> (i64)
state a1: aggregate (i64) { rows, sum(i64) }
pipeline
  scan 1 customer (r0: i64 = column 0 c_key i32, r1: i64 = column 2 c_segment bytes in d0) where column 1 = \"REGION 3\"
  build j0 (r0) -> (r1)
pipeline
  scan 0 fact (r0: i64? = column 1 f_customer i32, r1: i64 = column 2 f_amount i64) where column 0 >= 19920101 and <= 19920900
  probe inner j0 (r0) -> (0 r2)
  aggregate a1 (r2) { -, r1 }
pipeline
  groups a1 (r0, r1, r2)
  collect (r0, r1, r2)
";

fn grouped(output: &QueryOutput) -> BTreeMap<String, (i64, i64)> {
    let mut groups = BTreeMap::new();
    for batch in &output.batches {
        let names = batch.column(0).as_string_view();
        let number = |column: usize, row| batch.column(column).as_primitive::<Int64Type>().value(row);
        for row in 0..batch.num_rows() {
            let new = groups.insert(names.value(row).to_owned(), (number(1, row), number(2, row)));
            assert!(new.is_none(), "group {} came twice", names.value(row));
        }
    }
    groups
}

#[test]
fn a_star_join_gives_what_a_loop_gives() {
    let star = star(700_000, 5_000);
    let mut naive: BTreeMap<String, (i64, i64)> = BTreeMap::new();
    for (date, customer, amount) in &star.facts {
        let customer = customer.and_then(|key| star.customers.get(key as usize));
        if let Some((_, region, segment)) = customer
            && (19_920_101..=19_920_900).contains(date)
            && region == "REGION 3"
        {
            let group = naive.entry(segment.clone()).or_default();
            *group = (group.0 + 1, group.1 + amount);
        }
    }
    let types = [(DataType::Utf8View, Some(0)), (DataType::Int64, None), (DataType::Int64, None)];
    let query = star.query(BY_SEGMENT, &types);
    let joined = naive.values().map(|(rows, _)| *rows as u64).sum();
    for threads in [1, 2, 5] {
        let output = star.run(&query, Execution::Compiled, threads, 1 << 30).expect("it runs");
        assert_eq!(grouped(&output), naive, "{threads} threads");
        assert_eq!(output.reports.len(), 3);
        let scan = output.reports[1].scan.as_ref().expect("a table is scanned");
        let learned =
            scan.tests.last().and_then(|test| test.learned.as_ref()).expect("the keys are tested in the scan");
        assert!(learned.contains("keys of #0, before the probe"), "{learned}");
        assert_eq!(output.reports[1].steps, [StepReport::Ran(joined)]);
    }
    let output = star.run(&query, Execution::Interpreter, 1, 1 << 30).expect("it runs");
    assert_eq!(grouped(&output), naive);
    assert_eq!(output.reports[1].steps, [StepReport::Ran(joined)]);
}

impl Star {
    fn run_on(&self, query: &Query, device: DeviceChoice) -> Result<QueryOutput> {
        run_on(&self.engine, query, device)
    }
}

/// What ran on a device.
fn on_device(output: &QueryOutput) -> Vec<bool> {
    let is_on = |note: &String| note.starts_with("on the emulated device");
    output.reports.iter().map(|report| report.notes.iter().any(is_on)).collect()
}

#[test]
fn the_emulated_device_gives_what_the_cpu_gives() {
    let star = star(200_000, 3_000);
    let types = [(DataType::Utf8View, Some(0)), (DataType::Int64, None), (DataType::Int64, None)];
    let query = star.query(BY_SEGMENT, &types);
    let expected = grouped(&star.run_on(&query, DeviceChoice::Cpu).expect("it runs"));
    let counters = || {
        let accelerator = star.engine.accelerators().get(DeviceChoice::Emulated).expect("there is a compiler");
        accelerator.expect("it was asked for").processor.device().counters()
    };
    let before = counters();
    let output = star.run_on(&query, DeviceChoice::Emulated).expect("it runs");
    assert_eq!(grouped(&output), expected);
    assert_eq!(on_device(&output), [false, true, false], "{output:?}");
    let first = counters();
    let column_bytes = 200_000 * (2 + 2 + 4);
    let to_device = first.to_device_bytes - before.to_device_bytes;
    assert!((column_bytes..column_bytes + 200_000).contains(&to_device), "{to_device} bytes went to the device");
    // Groups of 3 words, and the faults.
    assert_eq!(first.to_host_bytes - before.to_host_bytes, expected.len() as u64 * 3 * 8 + 8);
    assert_eq!(grouped(&star.run_on(&query, DeviceChoice::Emulated).expect("it runs")), expected);
    let second = counters();
    assert!(second.to_device_bytes - first.to_device_bytes < 200_000, "chunks stay where they are");
    assert_eq!((second.compilations, second.synchronizations), (first.compilations, first.synchronizations + 1));
    assert_eq!(star.run_on(&query, DeviceChoice::Auto).expect("it runs").reports[1].notes.len(), 1, "there is no GPU");
}

/// A build side of a table of several blocks is made on the device and stays there: nothing of it crosses the link but the number
/// of its rows.
#[test]
fn build_sides_stay_on_the_device() {
    let star = star(200_000, 150_000);
    let types = [(DataType::Utf8View, Some(0)), (DataType::Int64, None), (DataType::Int64, None)];
    let query = star.query(BY_SEGMENT, &types);
    let expected = star.run_on(&query, DeviceChoice::Cpu).expect("it runs");
    assert!(grouped(&expected).len() > 30, "{expected:?}");
    for _ in 0..2 {
        let output = star.run_on(&query, DeviceChoice::Emulated).expect("it runs");
        assert_eq!(grouped(&output), grouped(&expected));
        assert_eq!(on_device(&output), [true, true, false], "{output:?}");
        let rows = |output: &QueryOutput| -> Vec<_> { output.reports.iter().map(|report| report.rows_out).collect() };
        assert_eq!(rows(&output)[0], rows(&expected)[0]);
    }
}

/// A pipeline finds out that it cannot run on the device when one of its build sides is there already: the CPU makes that one, too.
#[test]
fn a_build_side_on_the_device_is_made_again_where_the_cpu_needs_it() {
    let star = star(200_000, 150_000);
    let program = "program 0 dictionaries
state j0: join (i64) -> ()
state j1: join (i64) -> (i64)
state a2: aggregate () { rows, sum(i64) }
pipeline
  scan 1 customer (r0: i64 = column 0 c_key i32) where column 1 = \"REGION 3\"
  build j0 (r0) -> ()
pipeline
  scan 0 fact (r0: i64? = column 1 f_customer i32, r1: i64 = column 2 f_amount i64) where column 2 < 30000
  build j1 (r0) -> (r1)
pipeline
  scan 0 fact (r0: i64? = column 1 f_customer i32, r1: i64 = column 2 f_amount i64)
  probe semi j0 (r0) -> ()
  probe inner j1 (r0) -> (0 r2)
  aggregate a2 () { -, r2 }
pipeline
  groups a2 (r0, r1)
  collect (r0, r1)
";
    let query = star.query(program, &[(DataType::Int64, None), (DataType::Int64, None)]);
    let cells = |output: &QueryOutput| -> Vec<i64> {
        let cell = |column: usize| output.batches[0].column(column).as_primitive::<Int64Type>().value(0);
        vec![cell(0), cell(1)]
    };
    let expected = star.run_on(&query, DeviceChoice::Cpu).expect("it runs");
    let output = star.run_on(&query, DeviceChoice::Emulated).expect("it runs");
    assert_eq!(cells(&output), cells(&expected));
    assert!(cells(&output)[0] > 0);
    assert_eq!(on_device(&output), [true, false, false, false], "{output:?}");
    assert_eq!(output.reports.len(), 4);
    let note = |number: usize| output.reports[number].notes.join("; ");
    assert!(note(1).contains("a build side has several rows of one key"), "{}", note(1));
    assert!(note(2).contains("a build side lies in a hash table"), "{}", note(2));
}

/// Streams go on in any order that events allow, and threads of a block in any that barriers do: the answer is the same.
#[test]
fn no_order_of_streams_changes_an_answer() {
    let star = star(70_000, 300);
    let types = [(DataType::Utf8View, Some(0)), (DataType::Int64, None), (DataType::Int64, None)];
    let query = star.query(BY_SEGMENT, &types);
    let expected = grouped(&star.run_on(&query, DeviceChoice::Cpu).expect("it runs"));
    for seed in 0..50 {
        let device = EmulatedDevice::open(Options { seed, ..Options::default() }).expect("there is a compiler");
        star.engine.accelerators().install(device).expect("streams and pinned memory");
        assert_eq!(grouped(&star.run_on(&query, DeviceChoice::Gpu).expect("it runs")), expected, "seed {seed}");
    }
}

/// Rows that come back: those of a build side with keys of several rows and NULL, and more of the result than there was room for
/// at first.
#[test]
fn rows_come_back_from_the_device() {
    let star = star(200_000, 3_000);
    let program = "program 0 dictionaries
state j0: join (i64) -> ()
state j1: join (i64) -> (i64)
pipeline
  scan 1 customer (r0: i64 = column 0 c_key i32)
  build j0 (r0) -> ()
pipeline
  scan 0 fact (r0: i64? = column 1 f_customer i32, r1: i64 = column 2 f_amount i64) where column 2 < 5000
  probe semi j0 (r0) -> ()
  build j1 (r0) -> (r1)
pipeline
  scan 0 fact (r0: i64? = column 1 f_customer i32, r1: i64 = column 2 f_amount i64)
  probe semi j1 (r0) -> ()
  collect (r0, r1)
";
    let query = star.query(program, &[(DataType::Int64, None), (DataType::Int64, None)]);
    let rows = |device| {
        let output = star.run_on(&query, device).expect("it runs");
        let number =
            |batch: &RecordBatch, column: usize, row| batch.column(column).as_primitive::<Int64Type>().value(row);
        let of_batch = |batch: &RecordBatch| -> Vec<_> {
            (0..batch.num_rows()).map(|row| (number(batch, 0, row), number(batch, 1, row))).collect()
        };
        let mut rows: Vec<(i64, i64)> = output.batches.iter().flat_map(of_batch).collect();
        rows.sort_unstable();
        (rows, on_device(&output))
    };
    let (expected, _) = rows(DeviceChoice::Cpu);
    let (found, ran) = rows(DeviceChoice::Emulated);
    assert!(found == expected, "{} rows, not {}", found.len(), expected.len());
    assert!(found.len() > 100_000 && ran == [false, true, true], "{} rows, {ran:?}", found.len());
    // From a device that was not asked for, so many do not come back.
    let device = EmulatedDevice::open(Options::default()).expect("there is a compiler");
    star.engine.accelerators().install(device).expect("streams and pinned memory");
    let (found, ran) = rows(DeviceChoice::Auto);
    assert!(found == expected && ran == [false; 3], "{} rows, {ran:?}", found.len());
}

/// A table of so many rows in several row groups, ordered by day, of which each has a thousand rows.
fn events(rows: i32) -> Arc<Engine> {
    let disk = Arc::new(MemoryDisk::new());
    let store = Store::open(disk.clone(), OpenMode::ReadWrite, "test").expect("an empty disk");
    let engine = Arc::new(Engine::new(store, MemoryShares::alone(1 << 30), disk));
    let columns = vec![
        column("e_day", LogicalType::Int32, false),
        column("e_amount", LogicalType::Int64, false),
        column("e_kind", LogicalType::Int32, false),
        column("e_note", LogicalType::Int64, false),
    ];
    let amount = |row: i32| (i64::from(row) * 7_919_317) % 99_991;
    let arrays: Vec<ArrayRef> = vec![
        Arc::new(Int32Array::from_iter_values((0..rows).map(|row| row / 1000))),
        Arc::new(Int64Array::from_iter_values((0..rows).map(amount))),
        Arc::new(Int32Array::from_iter_values((0..rows).map(|row| row % 997 * 31 % 1009))),
        Arc::new(Int64Array::from_iter_values((0..rows).map(|row| i64::from(row) << 20))),
    ];
    add_table(&engine, "events", columns, arrays).expect("events load");
    engine
}

/// Counts events that pass a test and sums the last of some columns, by the first of two.
fn sums(test: &str, columns: &[usize]) -> String {
    let names = ["e_day i32", "e_amount i64", "e_kind i32", "e_note i64"];
    let read =
        columns.iter().enumerate().map(|(to, column)| format!("r{to}: i64 = column {column} {}", names[*column]));
    let read = read.collect::<Vec<_>>().join(", ");
    let (types, keys, argument, all) = match columns.len() {
        1 => ("", "", "r0", "r0, r1"),
        _ => ("i64", "r0", "r1", "r0, r1, r2"),
    };
    format!(
        "program 0 dictionaries
state a0: aggregate ({types}) {{ rows, sum(i64) }}
pipeline
  scan 0 events ({read}) where {test}
  aggregate a0 ({keys}) {{ -, {argument} }}
pipeline
  groups a0 ({all})
  collect ({all})
"
    )
}

/// The rows that [`sums`] give, ordered, and the bytes of the chunks that its scan looked at.
fn numbers(engine: &Arc<Engine>, program: &str, device: DeviceChoice) -> (Vec<Vec<Option<i64>>>, u64) {
    let columns = if program.contains("aggregate ()") { 2 } else { 3 };
    let query = query_of(engine, &["events"], program, &vec![(DataType::Int64, None); columns]);
    let output = run_on(engine, &query, device).expect("it runs");
    assert_eq!(on_device(&output)[0], device != DeviceChoice::Cpu, "{:?}", output.reports);
    let mut rows: Vec<Vec<Option<i64>>> = Vec::new();
    for batch in &output.batches {
        let own = batch.columns().iter().map(|column| column.as_primitive::<Int64Type>().iter().collect());
        let own: Vec<Vec<Option<i64>>> = own.collect();
        rows.extend((0..batch.num_rows()).map(|row| own.iter().map(|column| column[row]).collect()));
    }
    rows.sort_unstable();
    (rows, query.tables[0].metrics.snapshot().scanned_bytes)
}

/// What may cross the link beside chunks: descriptors of blocks, tests, addresses.
const SMALL_BYTES: u64 = 64 << 10;

/// What crosses behind the chunk of a column of runs, as the days are: for every row the number of its run.
const RUN_BYTES: u64 = 1;
const RUNS_OF_GROUP_BYTES: u64 = 8 * 65_536 * RUN_BYTES;

/// Chunks cross the link once and stay; those of blocks that zones rule out and of columns that are not asked for never do.
#[test]
fn only_what_a_query_needs_crosses_the_link() {
    let engine = events(1_200_000);
    let accelerator = engine.accelerators().get(DeviceChoice::Emulated).expect("a compiler").expect("a device");
    let device = accelerator.processor.device();
    let some_days = "column 0 >= 600 and <= 700";
    let mut crossed = 0;
    for (test, columns, brings) in [
        (some_days, &[1][..], true),
        (some_days, &[1], false),
        (some_days, &[2, 1], true),
        ("column 0 >= 0 and <= 5000", &[1], true),
        (some_days, &[2], false),
    ] {
        let program = sums(test, columns);
        let (expected, needed) = numbers(&engine, &program, DeviceChoice::Cpu);
        let before = (device.counters(), accelerator.chunks.held_bytes() as u64);
        let (found, _) = numbers(&engine, &program, DeviceChoice::Emulated);
        assert!(found == expected, "{program}");
        let (counted, held) = (device.counters(), accelerator.chunks.held_bytes() as u64);
        let to_device = counted.to_device_bytes - before.0.to_device_bytes;
        let new = held - before.1;
        assert_eq!(new > 0, brings, "{program}");
        assert!((new..new + SMALL_BYTES).contains(&to_device), "{to_device} bytes, {new} of chunks: {program}");
        if crossed == 0 {
            assert_eq!(new, needed + RUNS_OF_GROUP_BYTES, "the chunks that the CPU looks at, and runs row by row");
        }
        crossed += new;
        assert_eq!(crossed, held, "nothing crossed twice");
    }
    // The kinds of other days never crossed, nor did any note, which is the largest column.
    let (_, all) = numbers(&engine, &sums("column 0 >= 0 and <= 5000", &[2, 1]), DeviceChoice::Cpu);
    let all = all + 1_200_000 * RUN_BYTES;
    assert!(crossed < all, "{crossed} of {all} bytes");
}

/// Groups that have few of many slots come back without the empty ones.
#[test]
fn empty_slots_of_groups_stay_on_the_device() {
    let engine = events(1_200_000);
    let accelerator = engine.accelerators().get(DeviceChoice::Emulated).expect("a compiler").expect("a device");
    let device = accelerator.processor.device();
    for (test, most_groups) in [
        ("column 0 >= 600 and <= 600", 1_000),
        ("column 0 >= 600 and <= 700", 101_000),
        ("column 0 >= 7000 and <= 8000", 0),
        ("column 1 >= 100000 and <= 200000", 0),
        ("column 0 >= 5 and <= 5, column 2 = 17", 1),
    ] {
        let program = sums(test, &[1, 2]);
        let (expected, _) = numbers(&engine, &program, DeviceChoice::Cpu);
        assert!(expected.len() <= most_groups, "{} groups", expected.len());
        let before = device.counters();
        let (found, _) = numbers(&engine, &program, DeviceChoice::Emulated);
        assert!(found == expected, "{} groups, not {}: {program}", found.len(), expected.len());
        let counted = device.counters();
        // A slot's number, its rows, and a sum in two words.
        let kept_bytes = expected.len() as u64 * 4 * 8;
        let to_host = counted.to_host_bytes - before.to_host_bytes;
        assert!(to_host <= kept_bytes + (16 << 10) + 16, "{to_host} bytes for {} groups: {program}", expected.len());
        let waits = counted.synchronizations - before.synchronizations;
        assert!(waits <= 3, "the host waited {waits} times");
    }
}

/// Where zones rule out all blocks, no kernel runs, and what was cleared for its result comes back.
#[test]
fn a_table_without_blocks_that_matter_has_its_empty_result() {
    let engine = events(100_000);
    let collects = "program 0 dictionaries
pipeline
  scan 0 events (r0: i64 = column 0 e_day i32, r1: i64 = column 2 e_kind i32, r2: i64 = column 3 e_note i64) where column 0 > 5000
  collect (r0, r1, r2)
";
    for program in [sums("column 0 > 5000", &[1]), sums("column 0 > 5000", &[2, 1]), collects.to_owned()] {
        let (expected, _) = numbers(&engine, &program, DeviceChoice::Cpu);
        for seed in 0..8 {
            let device = EmulatedDevice::open(Options { seed, ..Options::default() }).expect("there is a compiler");
            engine.accelerators().install(device.clone()).expect("streams and pinned memory");
            let (found, _) = numbers(&engine, &program, DeviceChoice::Gpu);
            assert!(found == expected && device.counters().launches == 0, "seed {seed}: {found:?}, not {expected:?}");
        }
    }
}

/// A kernel is launched behind each share of the table that was put on its way, and runs while the next one is copied; what is
/// there already has one.
#[test]
fn kernels_run_while_the_rest_is_copied() {
    let engine = events(1_200_000);
    let program = sums("column 0 >= 1 and <= 5000", &[2, 3]);
    let (expected, _) = numbers(&engine, &program, DeviceChoice::Cpu);
    for seed in 0..8 {
        let options = Options { seed, memory_bytes: 128 << 20, ..Options::default() };
        let device = EmulatedDevice::open(options).expect("there is a compiler");
        engine.accelerators().install(device.clone()).expect("streams and pinned memory");
        for is_there in [false, true] {
            let before = device.counters();
            let (found, _) = numbers(&engine, &program, DeviceChoice::Gpu);
            assert!(found == expected, "seed {seed}");
            let counted = device.counters();
            let launches = counted.launches - before.launches;
            assert!(if is_there { launches == 1 } else { launches > 2 }, "{launches} launches, seed {seed}");
            assert!(counted.kernel_ns > before.kernel_ns && counted.copy_ns > before.copy_ns);
        }
    }
}

/// A table of more bytes than the device has: earlier pieces make room for later ones, and where the result had too little
/// room, all are read once more.
#[test]
fn a_table_may_be_larger_than_the_device() {
    let engine = events(1_200_000);
    let listing = "program 0 dictionaries
pipeline
  scan 0 events (r0: i64 = column 0 e_day i32, r1: i64 = column 2 e_kind i32, r2: i64 = column 3 e_note i64) where column 1 < 16600
  collect (r0, r1, r2)
";
    for (program, memory_bytes) in [(sums("column 0 >= 1", &[2, 3]), 12 << 20), (listing.to_owned(), 20 << 20)] {
        let (expected, needed_bytes) = numbers(&engine, &program, DeviceChoice::Cpu);
        for seed in 0..2 {
            let options = Options { seed, memory_bytes, ..Options::default() };
            let device = EmulatedDevice::open(options).expect("there is a compiler");
            engine.accelerators().install(device.clone()).expect("streams and pinned memory");
            let (found, _) = numbers(&engine, &program, DeviceChoice::Gpu);
            assert!(found == expected, "{} rows, not {}, seed {seed}: {program}", found.len(), expected.len());
            let counted = device.counters();
            assert!(counted.peak_device_bytes <= memory_bytes, "{counted:?}");
            // The rows of the listing are read twice, and what the cache has kept of the first time is there.
            let halves = if expected.len() > 10_000 { 3 } else { 2 };
            assert!(counted.to_device_bytes * 2 >= halves * needed_bytes, "{needed_bytes} bytes, {counted:?}");
        }
    }
}

/// Whatever fails on the device, `auto` answers on the CPU, and who asked for the device is told.
#[test]
fn what_fails_on_a_device_runs_on_the_cpu_or_is_an_error() {
    let star = star(270_000, 300);
    let types = [(DataType::Utf8View, Some(0)), (DataType::Int64, None), (DataType::Int64, None)];
    let query = star.query(BY_SEGMENT, &types);
    let expected = grouped(&star.run_on(&query, DeviceChoice::Cpu).expect("it runs"));
    match star.run_on(&query, DeviceChoice::Gpu) {
        Ok(output) => assert_eq!(grouped(&output), expected, "this machine has a GPU"),
        Err(error) => {
            assert!(error.kind() == ErrorKind::Io && error.to_string().contains("SET device = gpu"), "{error}")
        }
    }
    let options = Options { memory_bytes: 64 << 20, ..Options::default() };
    let mut failures = 0;
    for number in 0.. {
        let failing = [
            Options { fail_allocation: Some(number), ..options },
            Options { fail_launch: Some(number).filter(|number| *number < 3), memory_bytes: 32 << 20, ..options },
            Options { memory_bytes: 1 << (10 + number).min(27), ..options },
        ];
        let mut is_done = number > 24;
        for options in failing {
            let device = EmulatedDevice::open(options).expect("there is a compiler");
            if let Err(error) = star.engine.accelerators().install(device.clone()) {
                // The ring has 16 allocations.
                assert!(number < 16 && error.kind() == ErrorKind::OutOfMemory, "{options:?}: {error}");
                is_done = false;
                continue;
            }
            let output = star.run_on(&query, DeviceChoice::Auto).expect("the CPU can");
            assert_eq!(grouped(&output), expected, "{options:?}");
            let failed = !on_device(&output)[1];
            failures += u32::from(failed);
            is_done &= !failed;
            assert_eq!(grouped(&star.run_on(&query, DeviceChoice::Auto).expect("the next one runs")), expected);
            let counters = device.counters();
            assert!(counters.device_bytes <= 32 << 20, "{counters:?}");
            let device = EmulatedDevice::open(options).expect("there is a compiler");
            star.engine.accelerators().install(device).expect("streams and pinned memory");
            match star.run_on(&query, DeviceChoice::Gpu) {
                Ok(output) => assert_eq!(grouped(&output), expected),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Io, "of no kind that DataFusion takes over");
                    let text = error.to_string();
                    assert!(text.contains("SET device = gpu") && text.contains("emulated device"), "{text}");
                }
            }
        }
        if is_done {
            break;
        }
    }
    assert!(failures > 10, "only {failures} failures");
}

/// Groups by a column of strings that has more values than dense groups were made for: the pipeline runs again.
#[test]
fn many_strings_outgrow_dense_groups() {
    let star = star(10, 300_000);
    let program = "program 1 dictionaries
state a0: aggregate (i64) { rows }
pipeline
  scan 1 customer (r0: i64 = column 2 c_segment bytes in d0)
  aggregate a0 (r0) { - }
pipeline
  groups a0 (r0, r1)
  collect (r0, r1)
";
    let query = star.query(program, &[(DataType::Utf8View, Some(0)), (DataType::Int64, None)]);
    let output = star.run(&query, Execution::Compiled, 2, 1 << 30).expect("it runs");
    let counts: Vec<i64> =
        output.batches.iter().flat_map(|batch| batch.column(1).as_primitive::<Int64Type>().values().to_vec()).collect();
    assert_eq!((counts.len(), counts.iter().sum::<i64>()), (40, 300_000));
}

/// Groups that outgrow the caches, so that workers begin anew, of rows that each kind of vector instructions has chosen.
#[test]
fn generations_of_groups_are_merged_on_every_simd_level() {
    let star = star(700_000, 5_000);
    let program = "program 0 dictionaries
state a0: aggregate (i64, i64?) { rows }
pipeline
  scan 0 fact (r0: i64? = column 1 f_customer i32, r1: i64 = column 2 f_amount i64) where column 0 >= 19920201 and <= 19922400
  aggregate a0 (r1, r0) { - }
pipeline
  groups a0 (r0, r1, r2)
  collect (r0, r1, r2)
";
    let mut naive: BTreeMap<(i64, Option<i64>), i64> = BTreeMap::new();
    for (date, customer, amount) in &star.facts {
        if (19_920_201..=19_922_400).contains(date) {
            *naive.entry((*amount, customer.map(i64::from))).or_default() += 1;
        }
    }
    assert!(naive.len() > 500_000, "{} groups", naive.len());
    let query = star.query(program, &[(DataType::Int64, None), (DataType::Int64, None), (DataType::Int64, None)]);
    for simd in SimdLevel::ALL.into_iter().filter(|simd| simd.is_available()) {
        for threads in [1, 2] {
            let scan = ScanSettings { simd, ..ScanSettings::default() };
            let execution = Execution::Compiled;
            let device = DeviceChoice::Cpu;
            let options = QueryOptions {
                threads,
                execution,
                memory_bytes: 1 << 30,
                scan,
                device,
                counted: false,
                timeline: None,
                account: None,
            };
            let output = run(&star.engine, &query, &options, &CancelToken::default()).expect("it runs");
            assert!(output.reports[0].notes.iter().any(|note| note == "hashed groups"), "{:?}", output.reports);
            let mut groups = BTreeMap::new();
            for batch in &output.batches {
                let column = |column: usize| batch.column(column).as_primitive::<Int64Type>();
                for ((amount, customer), rows) in column(0).iter().zip(column(1)).zip(column(2)) {
                    let key = (amount.expect("amounts are not NULL"), customer);
                    assert_eq!(groups.insert(key, rows.expect("counts are not NULL")), None, "{key:?} came twice");
                }
            }
            assert!(groups == naive, "{simd:?}, {threads} threads");
        }
    }
}

#[test]
fn states_beyond_the_budget_and_cancelled_queries_are_errors() {
    let star = star(10_000, 200_000);
    let types = [(DataType::Utf8View, Some(0)), (DataType::Int64, None), (DataType::Int64, None)];
    let query = star.query(BY_SEGMENT, &types);
    let error = star.run(&query, Execution::Compiled, 2, 1000).expect_err("the dictionary alone is larger");
    assert_eq!(error.kind(), ErrorKind::OutOfMemory);
    let cancel = CancelToken::default();
    cancel.cancel();
    for execution in [Execution::Compiled, Execution::Interpreter] {
        let scan = ScanSettings::default();
        let options = QueryOptions {
            threads: 2,
            execution,
            memory_bytes: 1 << 30,
            scan,
            device: DeviceChoice::Cpu,
            counted: false,
            timeline: None,
            account: None,
        };
        let error = run(&star.engine, &query, &options, &cancel).expect_err("it was cancelled before");
        assert_eq!(error.kind(), ErrorKind::Cancelled);
    }
    assert!(star.run(&query, Execution::Compiled, 2, 1 << 30).is_ok(), "the next query works");
}
