//! SSB's queries, and Q1 and Q6 of TPC-H, on an emulated device in the place of the GPU: answers are those of the CPU, in
//! whatever order its streams go on, and whatever fails there.
//!
//! `FOREBAY_TEXTS=folder` leaves the texts of the queries' kernels in a folder, for `crates/gpu/tests/nvrtc.py`.
//! `FOREBAY_DEVICE_SEEDS` is the number of orders, and one in so many failures as `FOREBAY_DEVICE_STEP` says is tried: 1 for
//! all of them.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use forebay::{Database, ErrorKind, Options, Result, Session};
use forebay_gpu::device::Device;
use forebay_gpu::emulated::{EmulatedDevice, Options as Behaviour, compiled_texts};
use forebay_workload::Benchmark;
use forebay_workload::generate::{DEFAULT_SEED, Format, GenerateOptions, generate};
use forebay_workload::queries::queries;
use forebay_workload::schema::tables;

/// Scale factor of the data that streams are reordered over: several row groups.
const ORDERED_SCALE: f64 = 0.1;

/// Scale factor of the data that devices fail over: the least at which each query of SSB asks the device.
const FAILING_SCALE: f64 = 0.02;

/// A query with the CPU's rows.
struct Asked {
    name: &'static str,
    sql: String,
    expected: Vec<String>,
}

/// A benchmark in memory.
struct Loaded {
    database: Database,
    session: Session,
    queries: Vec<Asked>,
}

fn given<T: std::str::FromStr>(name: &str, default: T) -> T {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn rows(session: &Session, sql: &str) -> Result<Vec<String>> {
    let mut rows = Vec::new();
    for statement in session.statements(sql)? {
        let mut result = session.execute(&statement)?;
        while let Some(batch) = result.next_batch()? {
            rows.extend((0..batch.num_rows()).map(|row| text(&batch, row)));
        }
    }
    // Those that ORDER BY leaves tied come in any order.
    rows.sort_unstable();
    Ok(rows)
}

fn text(batch: &RecordBatch, row: usize) -> String {
    let options = FormatOptions::default().with_null("NULL");
    let cell = |column| ArrayFormatter::try_new(column, &options).expect("it has a text").value(row).to_string();
    batch.columns().iter().map(|column| cell(column.as_ref())).collect::<Vec<_>>().join("|")
}

impl Loaded {
    fn new(benchmark: Benchmark, names: &[&str], scale_factor: f64) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let options = GenerateOptions {
            scale_factor,
            out: folder.path().to_owned(),
            format: Format::Parquet,
            threads: 2,
            seed: DEFAULT_SEED,
            tables: None,
        };
        generate(benchmark, &options, &|_| ()).expect("it is generated");
        let options = Options { memory_bytes: Some(2 << 30), threads: Some(2), ..Options::default() };
        let database = Database::in_memory(&options).expect("a database");
        let session = database.session();
        for table in tables(benchmark, scale_factor) {
            let file = folder.path().join(format!("{}.parquet", table.name));
            rows(&session, &table.create).expect("a new table");
            rows(&session, &format!("COPY {} FROM '{}'", table.name, file.display())).expect("it is loaded");
        }
        rows(&session, "SET device = cpu").expect("a setting");
        let asked = queries(benchmark, scale_factor).into_iter();
        let asked = asked.filter(|query| names.is_empty() || names.contains(&query.name)).map(|query| {
            let expected = rows(&session, &query.sql).expect("the CPU has an answer");
            Asked { name: query.name, sql: query.sql.into_owned(), expected }
        });
        let queries = asked.collect();
        Self { database, session, queries }
    }

    fn install(&self, behaviour: Behaviour) -> Result<Arc<EmulatedDevice>> {
        let device = EmulatedDevice::open(behaviour).expect("there is a C++ compiler");
        self.database.install_gpu(device.clone()).map(|()| device)
    }

    fn set(&self, device: &str) {
        rows(&self.session, &format!("SET device = {device}")).expect("there is one");
    }

    /// What a query gives, compared with the CPU's rows.
    fn ask(&self, query: &Asked, how: &dyn std::fmt::Debug) -> Result<()> {
        let found = rows(&self.session, &query.sql)?;
        assert!(found == query.expected, "{}, {how:?}: {found:#?}\nnot {:#?}", query.name, query.expected);
        Ok(())
    }
}

#[test]
fn no_order_of_streams_changes_an_answer() {
    let seeds = given("FOREBAY_DEVICE_SEEDS", 3);
    for (benchmark, names) in [(Benchmark::Ssb, &[][..]), (Benchmark::Tpch, &["q1", "q6"])] {
        let loaded = Loaded::new(benchmark, names, ORDERED_SCALE);
        for seed in 0..seeds {
            let device = loaded.install(Behaviour { seed, ..Behaviour::default() }).expect("it opens");
            loaded.set("gpu");
            for query in &loaded.queries {
                let before = device.counters().launches;
                loaded.ask(query, &seed).expect("it runs");
                assert!(device.counters().launches > before, "{} did not run on the device", query.name);
            }
        }
    }
}

/// All queries of both benchmarks: what of them the device cannot run stays on the CPU.
#[test]
fn texts_of_queries_are_left_for_a_compiler() {
    let Ok(folder) = std::env::var("FOREBAY_TEXTS") else { return };
    std::fs::create_dir_all(&folder).expect("the folder can be made");
    for benchmark in [Benchmark::Ssb, Benchmark::Tpch] {
        let loaded = Loaded::new(benchmark, &[], ORDERED_SCALE);
        loaded.install(Behaviour::default()).expect("it opens");
        loaded.set("gpu");
        for query in &loaded.queries {
            loaded.ask(query, &"for its texts").expect("it runs");
        }
    }
    let texts = compiled_texts();
    assert!(texts.len() > 20, "only {} texts", texts.len());
    for (number, text) in texts.iter().enumerate() {
        std::fs::write(format!("{folder}/query-{number}.cu"), text).expect("the text can be written");
    }
}

/// How a device may fail, by the number of what fails, and how many of that a healthy device does for a query.
type Failure = (fn(u64) -> Behaviour, fn(&EmulatedDevice) -> u64);

const FAILURES: [Failure; 4] = [
    (|number| Behaviour { fail_allocation: Some(number), ..Behaviour::default() }, EmulatedDevice::allocations),
    (
        |number| Behaviour { fail_allocation: Some(number), stays_full: true, ..Behaviour::default() },
        EmulatedDevice::allocations,
    ),
    (|number| Behaviour { fail_launch: Some(number), ..Behaviour::default() }, |device| device.counters().launches),
    (|number| Behaviour { lose_at_call: Some(number), ..Behaviour::default() }, EmulatedDevice::calls),
];

/// Whatever fails on the device: `auto` answers on the CPU, who asked for the device is told in one sentence, the next query
/// works, and all memory comes back.
#[test]
fn whatever_fails_on_the_device_the_answer_is_right_or_there_is_one_error() {
    let step = given("FOREBAY_DEVICE_STEP", 9);
    let loaded = Loaded::new(Benchmark::Ssb, &[], FAILING_SCALE);
    let (mut tried, mut refused) = (0, 0);
    for (place, query) in loaded.queries.iter().enumerate() {
        for (behaviour, count) in FAILURES {
            let healthy = loaded.install(Behaviour::default()).expect("it opens");
            loaded.set("gpu");
            loaded.ask(query, &"healthy").expect("it runs");
            for number in (0..count(&healthy)).skip(place % step).step_by(step) {
                tried += 1;
                refused += u32::from(loaded.fails(query, behaviour(number)));
            }
        }
    }
    println!("{tried} failures, {refused} of them errors of queries that asked for the device");
    assert!(tried > 60 && refused > 20, "only {tried} failures, {refused} errors");
}

impl Loaded {
    /// Runs a query on a device that fails; whether that was an error where the device was asked for.
    fn fails(&self, query: &Asked, behaviour: Behaviour) -> bool {
        let device = match self.install(behaviour) {
            Ok(device) => device,
            Err(error) => {
                // It fails when it is opened.
                self.check_error(&error.to_string(), behaviour);
                return false;
            }
        };
        self.set("auto");
        for _ in 0..2 {
            self.ask(query, &behaviour).expect("the CPU can");
        }
        self.check_memory(device, behaviour);

        let device = self.install(behaviour).expect("it opened before");
        self.set("gpu");
        let refused = match self.ask(query, &behaviour) {
            Ok(()) => false,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Io, "of no kind that others take over: {error}");
                let text = error.to_string();
                let (starts, ends) = ("SET device = gpu cannot be kept: ", ". SET device = auto or cpu");
                assert!(text.starts_with(starts) && text.ends_with(ends), "{behaviour:?}: {text}");
                self.check_error(&text, behaviour);
                true
            }
        };
        self.check_memory(device, behaviour);
        // A device that was lost is opened anew.
        self.install(Behaviour::default()).expect("it opens");
        self.ask(query, &"healthy again").expect("the next query works");
        refused
    }

    /// An error names the device, and what there is too little of.
    fn check_error(&self, text: &str, behaviour: Behaviour) {
        assert!(text.contains("the emulated device"), "{behaviour:?}: {text}");
        if behaviour.fail_allocation.is_some() {
            let names_memory = text.contains("bytes of device memory") || text.contains("bytes of pinned memory");
            assert!(names_memory && text.contains(|c: char| c.is_ascii_digit()), "{behaviour:?}: {text}");
        }
    }

    /// Everything comes back from a device that nobody has any more.
    fn check_memory(&self, device: Arc<EmulatedDevice>, behaviour: Behaviour) {
        self.database.clear_cache();
        let counted = device.counters();
        assert_eq!(counted.device_bytes, 0, "{behaviour:?}");
        self.install(Behaviour::default()).expect("it opens");
        let counted = device.counters();
        assert_eq!((counted.device_bytes, counted.pinned_bytes), (0, 0), "{behaviour:?}");
        assert_eq!(Arc::strong_count(&device), 1, "{behaviour:?}");
    }
}
