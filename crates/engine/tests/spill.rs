//! Programs whose states do not fit their memory give what they give with memory: every case of `tests/pipelines` with so
//! little that each build side goes to disk, and larger joins and groups at several budgets.

use std::path::Path;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryViewArray, BooleanArray, Decimal128Array, Float32Array, Float64Array, Int8Array,
    Int16Array, Int32Array, Int64Array, RecordBatch, UInt8Array, UInt16Array, UInt32Array, UInt64Array,
};
use arrow::datatypes::{DataType, Decimal128Type, Field, Float64Type, Int64Type, Schema};
use forebay_base::{ErrorKind, LogicalType, PhysicalType, Result};
use forebay_disk::{Disk, FaultKind, Faults, MemoryDisk, SimulatedDisk};
use forebay_engine::query::{Execution, FactReports, Query, QueryOptions, QueryOutput, QueryTable, StepReport, run};
use forebay_engine::{CancelToken, DeviceChoice, Engine, LoadTarget, Loader, MemoryShares, Metrics, ScanSettings};
use forebay_pipeline::case::Case;
use forebay_pipeline::ir::{Program, Sink, Source, Step, ValueType};
use forebay_pipeline::{Scalar, register_types};
use forebay_store::{ColumnDefinition, DEFAULT_SCHEMA, OpenMode, Store, TableDefinition, TableSnapshot};

/// So little that a worker's first rows are more than its share.
const TINY: usize = 60_000;
/// More than any state here.
const PLENTY: usize = 1 << 32;

fn engine(temporary: Arc<dyn Disk>) -> Arc<Engine> {
    let store = Store::open(Arc::new(MemoryDisk::new()), OpenMode::ReadWrite, "test").expect("an empty disk");
    Arc::new(Engine::new(store, MemoryShares::alone(1 << 30), temporary))
}

/// A column: its type, whether it may be NULL, its values.
type Column = (LogicalType, bool, Vec<Scalar>);

fn load(engine: &Engine, name: &str, columns: &[Column]) -> Result<Arc<TableSnapshot>> {
    let definition = |(number, (logical, nullable, _)): (usize, &Column)| ColumnDefinition {
        name: format!("c{number}"),
        logical: logical.clone(),
        nullable: *nullable,
        default: None,
        missing: None,
    };
    let definitions = columns.iter().enumerate().map(definition).collect();
    let mut transaction = engine.store().begin()?;
    let id = transaction.create_table(TableDefinition {
        schema: DEFAULT_SCHEMA.into(),
        name: name.into(),
        columns: definitions,
        constraints: Vec::new(),
    })?;
    transaction.commit()?;
    let catalog = engine.store().catalog();
    let table = catalog.table_by_id(id).expect("it was just made");
    let arrays: Vec<ArrayRef> = columns.iter().map(|(logical, _, values)| array(logical, values)).collect();
    let fields = arrays.iter().zip(&table.columns);
    let fields: Vec<_> =
        fields.map(|(array, column)| Field::new(&column.name, array.data_type().clone(), true)).collect();
    let target = LoadTarget::new(engine.store(), &table.columns)?;
    let mut loader = Loader::new(Arc::clone(&target), 0);
    if !arrays.is_empty() {
        loader.push(&RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).expect("columns of one length"))?;
    }
    loader.finish()?;
    let segments = Arc::into_inner(target).expect("the loader is done").finish()?;
    let mut transaction = engine.store().begin()?;
    transaction.publish(id, segments)?;
    transaction.commit()?;
    Ok(Arc::clone(engine.store().catalog().table_by_id(id).expect("it was just filled")))
}

fn array(logical: &LogicalType, values: &[Scalar]) -> ArrayRef {
    fn integers<T: TryFrom<i128>>(values: &[Scalar]) -> impl Iterator<Item = Option<T>> {
        values.iter().map(|value| match value {
            Scalar::I64(value) => T::try_from(i128::from(*value)).ok(),
            Scalar::I128(value) => T::try_from(*value).ok(),
            Scalar::Bool(value) => T::try_from(i128::from(*value)).ok(),
            _ => None,
        })
    }
    let floats = || values.iter().map(|value| if let Scalar::F64(value) = value { Some(*value) } else { None });
    match logical {
        LogicalType::Bool => {
            let truth = |value: &Scalar| if let Scalar::Bool(value) = value { Some(*value) } else { None };
            Arc::new(values.iter().map(truth).collect::<BooleanArray>())
        }
        LogicalType::Int8 => Arc::new(integers(values).collect::<Int8Array>()),
        LogicalType::Int16 => Arc::new(integers(values).collect::<Int16Array>()),
        LogicalType::Int32 => Arc::new(integers(values).collect::<Int32Array>()),
        LogicalType::UInt8 => Arc::new(integers(values).collect::<UInt8Array>()),
        LogicalType::UInt16 => Arc::new(integers(values).collect::<UInt16Array>()),
        LogicalType::UInt32 => Arc::new(integers(values).collect::<UInt32Array>()),
        LogicalType::UInt64 => Arc::new(integers(values).collect::<UInt64Array>()),
        LogicalType::Float32 => {
            Arc::new(floats().map(|value| value.map(|value| value as f32)).collect::<Float32Array>())
        }
        LogicalType::Float64 => Arc::new(floats().collect::<Float64Array>()),
        LogicalType::Blob => {
            let bytes = |value: &Scalar| if let Scalar::Bytes(value) = value { Some(value.to_vec()) } else { None };
            Arc::new(values.iter().map(bytes).collect::<BinaryViewArray>())
        }
        LogicalType::Decimal { .. } => {
            let wide = integers(values).collect::<Decimal128Array>();
            Arc::new(wide.with_precision_and_scale(38, 0).expect("a precision that there is"))
        }
        _ => Arc::new(integers(values).collect::<Int64Array>()),
    }
}

/// How a column of a case is stored: as some pipeline loads it, or as its values are.
fn stored(program: &Program, table: usize, column: usize, values: &[Scalar]) -> (LogicalType, bool) {
    let sources = program.pipelines.iter().filter_map(|pipeline| match &pipeline.source {
        Source::Table(source) if source.table == table => Some(source),
        _ => None,
    });
    let loaded = sources.flat_map(|source| &source.columns).find(|loaded| loaded.column == column);
    let Some(loaded) = loaded else {
        let logical = match values.iter().find(|value| !value.is_null()) {
            Some(Scalar::Bytes(_)) => LogicalType::Blob,
            Some(Scalar::F64(_)) => LogicalType::Float64,
            _ => LogicalType::Int64,
        };
        return (logical, true);
    };
    let logical = match loaded.physical {
        PhysicalType::U8 if loaded.typed.value == ValueType::Bool => LogicalType::Bool,
        PhysicalType::I8 => LogicalType::Int8,
        PhysicalType::I16 => LogicalType::Int16,
        PhysicalType::I32 => LogicalType::Int32,
        PhysicalType::I64 => LogicalType::Int64,
        PhysicalType::I128 => LogicalType::Decimal { precision: 38, scale: 0 },
        PhysicalType::U8 => LogicalType::UInt8,
        PhysicalType::U16 => LogicalType::UInt16,
        PhysicalType::U32 => LogicalType::UInt32,
        PhysicalType::U64 => LogicalType::UInt64,
        PhysicalType::F32 => LogicalType::Float32,
        PhysicalType::F64 => LogicalType::Float64,
        PhysicalType::Bytes => LogicalType::Blob,
    };
    (logical, loaded.typed.nullable)
}

/// A program over these tables.
fn query(program: &Program, tables: Vec<Arc<TableSnapshot>>) -> Query {
    let last = program.pipelines.last().expect("programs have pipelines");
    let Sink::Collect { columns } = &last.sink else { panic!("the last pipeline collects") };
    let types = register_types(program, last).expect("the program is verified");
    let field = |(number, register): (usize, &forebay_pipeline::ir::Register)| {
        let data = match types[register.0 as usize].expect("it was written").value {
            ValueType::Bool => DataType::Boolean,
            ValueType::I64 => DataType::Int64,
            ValueType::I128 => DataType::Decimal128(38, 0),
            ValueType::F64 => DataType::Float64,
            ValueType::Bytes => DataType::BinaryView,
        };
        Field::new(format!("c{number}"), data, true)
    };
    let fields: Vec<Field> = columns.iter().enumerate().map(field).collect();
    let bound = |table| QueryTable {
        table,
        filters: Vec::new(),
        metrics: Arc::new(Metrics::default()),
        expected: None,
        facts: FactReports::default(),
        copies: None,
        fetched: Vec::new(),
    };
    Query {
        program: program.clone(),
        expected_rows: Vec::new(),
        tables: tables.into_iter().map(bound).collect(),
        first: None,
        dictionaries: vec![None; fields.len()],
        schema: Arc::new(Schema::new(fields)),
    }
}

fn options(threads: usize, memory_bytes: usize) -> QueryOptions {
    QueryOptions {
        threads,
        execution: Execution::Compiled,
        memory_bytes,
        scan: ScanSettings::default(),
        device: DeviceChoice::Cpu,
        counted: true,
        timeline: None,
        account: None,
    }
}

/// All rows, in ascending order. Those on disk are read once.
fn rows(output: &mut QueryOutput) -> Vec<Vec<Scalar>> {
    try_rows(output).expect("rows are read back")
}

fn try_rows(output: &mut QueryOutput) -> Result<Vec<Vec<Scalar>>> {
    let on_disk = output.on_disk.take().into_iter().flatten().collect::<Result<Vec<_>>>();
    output.batches.extend(on_disk?);
    let value = |array: &ArrayRef, row: usize| match array.data_type() {
        _ if array.is_null(row) => Scalar::Null,
        DataType::Boolean => Scalar::Bool(array.as_boolean().value(row)),
        DataType::Int64 => Scalar::I64(array.as_primitive::<Int64Type>().value(row)),
        DataType::Decimal128(..) => Scalar::I128(array.as_primitive::<Decimal128Type>().value(row)),
        DataType::Float64 => Scalar::F64(array.as_primitive::<Float64Type>().value(row)),
        _ => Scalar::Bytes(array.as_binary_view().value(row).into()),
    };
    let row = |batch: &RecordBatch, row| batch.columns().iter().map(|array| value(array, row)).collect();
    let mut rows: Vec<Vec<Scalar>> =
        output.batches.iter().flat_map(|batch| (0..batch.num_rows()).map(|number| row(batch, number))).collect();
    rows.sort();
    Ok(rows)
}

fn written(output: &QueryOutput) -> u64 {
    output.reports.iter().map(|report| report.spill_write_bytes).sum()
}

fn cases() -> Vec<Case> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/pipelines");
    let entries = std::fs::read_dir(&folder).expect("tests/pipelines lies beside the crates");
    let texts = entries.map(|entry| std::fs::read_to_string(entry.expect("it is listed").path()).expect("it is read"));
    texts.flat_map(|text| Case::read(&text).expect("the files are well formed")).collect()
}

/// As many rows leave each step as the interpreter says, but for those that the scan left out before a later step could.
fn check_steps(case: &Case, output: &QueryOutput) {
    let (_, counts) = case.interpret_counted().expect("it has a result");
    assert_eq!(output.reports.len(), counts.len(), "{}", case.name);
    for ((report, counts), pipeline) in output.reports.iter().zip(counts).zip(&case.program.pipelines) {
        let steps = pipeline.steps.iter().zip(counts.steps).filter(|(step, _)| !matches!(step, Step::Compute(_)));
        let expected: Vec<u64> = steps.map(|(_, rows)| rows).collect();
        assert_eq!(report.steps.len(), expected.len(), "{}", case.name);
        for (step, rows) in report.steps.iter().zip(&expected) {
            assert!(!matches!(step, StepReport::Ran(ran) if ran > rows), "{}: {report:?}", case.name);
        }
        if let (Some(StepReport::Ran(rows)), false) = (report.steps.last(), matches!(pipeline.sink, Sink::Mark { .. }))
        {
            assert_eq!(Some(rows), expected.last(), "{}: {report:?}", case.name);
        }
        if matches!(pipeline.sink, Sink::Collect { .. }) {
            assert_eq!(report.rows_out, counts.filled, "{}: {report:?}", case.name);
        }
    }
}

#[test]
fn every_case_gives_the_same_from_disk() {
    let mut from_disk = 0;
    let has_strings = |case: &Case| case.program.dictionaries == 0 && case.expect.is_ok();
    for case in cases().into_iter().filter(has_strings) {
        let engine = engine(Arc::new(MemoryDisk::new()));
        let tables = case.tables.iter().enumerate().map(|(table, rows)| {
            let width = rows.first().map_or(8, Vec::len);
            let column = |column: usize| {
                let values: Vec<Scalar> = rows.iter().map(|row| row[column].clone()).collect();
                let (logical, nullable) = stored(&case.program, table, column, &values);
                (logical, nullable, values)
            };
            let mut columns: Vec<Column> = (0..width).map(column).collect();
            if columns.is_empty() {
                // A table has a column at least, though nobody reads it.
                columns.push((LogicalType::Int64, true, vec![Scalar::Null; rows.len()]));
            }
            load(&engine, &format!("t{table}"), &columns)
        });
        let tables = tables.collect::<Result<Vec<_>>>().unwrap_or_else(|error| panic!("{}: {error}", case.name));
        let query = query(&case.program, tables);
        for memory in [PLENTY, TINY] {
            match run(&engine, &query, &options(4, memory), &CancelToken::default()) {
                Ok(mut output) => {
                    assert_eq!(
                        Some(&rows(&mut output)),
                        case.expect.as_ref().ok(),
                        "{}: {memory}\n{}",
                        case.name,
                        case.program
                    );
                    check_steps(&case, &output);
                    from_disk += usize::from(written(&output) > 0);
                }
                // Groups by slot are the one thing that stays in memory.
                Err(error) => {
                    assert_eq!((error.kind(), memory), (ErrorKind::OutOfMemory, TINY), "{}: {error}", case.name)
                }
            }
        }
    }
    assert!(from_disk > 30, "only {from_disk} cases went to disk");
}

/// Facts (key?, text, amount, id) and a smaller table (key?, text, number): NULL keys, duplicates, one key with a tenth of
/// all rows, long strings.
struct Data {
    engine: Arc<Engine>,
    tables: Vec<Arc<TableSnapshot>>,
}

const FACTS: usize = 120_000;
const OTHERS: usize = 60_000;

fn data(temporary: Arc<dyn Disk>) -> Data {
    let random = |row: usize, salt: u64| {
        let mixed = (row as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ salt.wrapping_mul(0xd6e8_feb8_6659_fd93);
        (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 24
    };
    let key = |row: usize, salt: u64, keys: u64| match random(row, salt) % 40 {
        0 => Scalar::Null,
        // Far apart, so that no bitmap or array holds them.
        1 => Scalar::I64(7_000_000_007),
        _ => Scalar::I64((random(row, salt + 1) % keys) as i64 * 1_000_003),
    };
    let text = |number: u64| -> Scalar {
        let long = if number.is_multiple_of(50) { "x".repeat(3000) } else { String::new() };
        Scalar::Bytes(format!("text number {number} {long}").into_bytes().into())
    };
    let column = |logical, nullable, rows: usize, value: &dyn Fn(usize) -> Scalar| -> Column {
        (logical, nullable, (0..rows).map(value).collect())
    };
    let facts = [
        column(LogicalType::Int64, true, FACTS, &|row| key(row, 1, 50_000)),
        column(LogicalType::Blob, false, FACTS, &|row| text(random(row, 3) % 20_000)),
        column(LogicalType::Int64, false, FACTS, &|row| Scalar::I64((random(row, 4) % 1000) as i64)),
        column(LogicalType::Int64, false, FACTS, &|row| Scalar::I64(row as i64)),
    ];
    let others = [
        column(LogicalType::Int64, true, OTHERS, &|row| match row % 1000 {
            // The many facts with one key meet few rows.
            0 => Scalar::I64(7_000_000_007),
            _ => key(row, 5, 70_000),
        }),
        column(LogicalType::Blob, false, OTHERS, &|row| text(random(row, 6) % 20_000)),
        column(LogicalType::Int64, false, OTHERS, &|row| Scalar::I64((random(row, 7) % 1000) as i64)),
    ];
    let engine = engine(temporary);
    let tables = vec![
        load(&engine, "facts", &facts).expect("facts load"),
        load(&engine, "others", &others).expect("others load"),
    ];
    Data { engine, tables }
}

impl Data {
    fn run(&self, program: &str, threads: usize, memory_bytes: usize) -> Result<QueryOutput> {
        let program = Program::parse(program).unwrap_or_else(|error| panic!("{error}\n{program}"));
        forebay_pipeline::verify(&program).unwrap_or_else(|error| panic!("{error}\n{program}"));
        let query = query(&program, self.tables.clone());
        run(&self.engine, &query, &options(threads, memory_bytes), &CancelToken::default())
    }
}

/// The tail of a program: everything that came, by number and sums, so that little is collected.
fn summed(state: usize) -> String {
    format!(
        "pipeline
  groups a{state} (r0, r1, r2)
  collect (r0, r1, r2)
"
    )
}

/// Many groups by a text, in two columns.
const BY_TEXT: &str = "program 0 dictionaries
state a0: aggregate (bytes, i64?) { rows, sum(i64), min(bytes), max(bytes) }
state a1: aggregate (i64?) { rows, sum(i64), max(bytes?) }
pipeline
  scan 0 facts (r0: i64? = column 0 c0 i64, r1: bytes = column 1 c1 bytes, r2: i64 = column 2 c2 i64)
  aggregate a0 (r1, r0) { -, r2, r1, r1 }
pipeline
  groups a0 (r0, r1, r2, r3, r4, r5)
  aggregate a1 (r1) { -, r2, r5 }
pipeline
  groups a1 (r0, r1, r2, r3)
  collect (r0, r1, r2, r3)
";

#[test]
fn groups_and_results_give_the_same_from_disk() {
    let data = data(Arc::new(MemoryDisk::new()));
    let mut expected = data.run(BY_TEXT, 2, PLENTY).expect("it runs");
    assert_eq!(written(&expected), 0);
    let expected = rows(&mut expected);
    assert!(expected.len() > 30_000, "{} groups", expected.len());
    for (threads, memory_bytes) in [(1, 32 << 20), (2, 8 << 20), (3, 2 << 20)] {
        let mut output = data.run(BY_TEXT, threads, memory_bytes).expect("it runs from disk");
        assert!(written(&output) > memory_bytes as u64 / 2, "{output:?}");
        assert!(output.on_disk.is_some() || memory_bytes > 2 << 20, "{output:?}");
        assert!(rows(&mut output) == expected, "{threads} threads, {memory_bytes} bytes");
    }
}

#[test]
fn a_full_disk_is_one_clear_error() {
    let (_, program) = programs().remove(0);
    for call in [1, 4, 300] {
        let faults = Faults { fail_call: Some((call, FaultKind::Enospc)), crash_at_call: None };
        let data = data(Arc::new(SimulatedDisk::new(call, faults)));
        let error = data.run(&program, 2, 8 << 20).expect_err("the disk is full");
        assert_eq!(error.kind(), ErrorKind::OutOfSpace, "{error}");
        let mut after = data.run(&program, 2, 8 << 20).expect("there is room again");
        assert!(written(&after) > 0 && !rows(&mut after).is_empty());
    }
}

#[test]
fn a_temporary_file_that_cannot_be_made_is_one_clear_error() {
    let (_, program) = programs().remove(0);
    let faults = Faults { fail_call: Some((1, FaultKind::Eio)), crash_at_call: None };
    let data = data(Arc::new(SimulatedDisk::new(1, faults)));
    let error = data.run(&program, 2, 8 << 20).expect_err("the drive fails");
    // Not enough memory, so that somebody else may know a way.
    assert_eq!(error.kind(), ErrorKind::OutOfMemory, "{error}");
    assert!(error.to_string().contains("need a temporary file"), "{error}");
    let mut after = data.run(&program, 2, 8 << 20).expect("the drive works again");
    assert!(written(&after) > 0 && !rows(&mut after).is_empty());
}

/// Rows that are read back wrong, or only in part, are an error that says so; the next query has all of them.
#[test]
fn rows_that_are_read_back_wrong_are_an_error() {
    let (_, program) = programs().remove(0);
    let disk = SimulatedDisk::new(1, Faults::default());
    let whole = data(Arc::new(disk.clone()));
    let mut expected = whole.run(&program, 1, 8 << 20).expect("it runs from disk");
    // One thread makes the same calls again: writes first, reads last.
    let (expected, calls) = (rows(&mut expected), disk.calls());
    for (kind, text) in [(FaultKind::BitFlip, "not what was written"), (FaultKind::ShortRead, "shorter than expected")]
    {
        let mut errors = 0;
        for from_end in [0, 1, 2, 30, 31] {
            let faults = Faults { fail_call: Some((calls - from_end, kind)), crash_at_call: None };
            let data = data(Arc::new(SimulatedDisk::new(from_end, faults)));
            match data.run(&program, 1, 8 << 20).and_then(|mut output| try_rows(&mut output)) {
                Err(error) => {
                    errors += 1;
                    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
                    assert!(error.to_string().contains(text), "{error}");
                }
                // A call that reads nothing, or no read at all.
                Ok(rows) => assert!(rows == expected, "{kind:?}, {from_end} calls before the end"),
            }
            let mut after = data.run(&program, 1, 8 << 20).expect("the drive works again");
            assert!(written(&after) > 0 && rows(&mut after) == expected, "{kind:?}, {from_end} calls before the end");
        }
        assert!(errors > 0, "no {kind:?} met a read");
    }
}

#[test]
fn nothing_is_left_behind_by_queries_that_end_early() {
    let disk = MemoryDisk::new();
    let data = data(Arc::new(disk.clone()));
    for (name, program) in programs() {
        for delay_us in [0, 500, 3_000, 10_000, 30_000] {
            let cancel = CancelToken::default();
            let query = query(&Program::parse(&program).expect("well formed"), data.tables.clone());
            let outcome = std::thread::scope(|scope| {
                scope.spawn(|| {
                    std::thread::sleep(std::time::Duration::from_micros(delay_us));
                    cancel.cancel();
                });
                run(&data.engine, &query, &options(2, 8 << 20), &cancel)
            });
            if let Err(error) = outcome {
                assert_eq!(error.kind(), ErrorKind::Cancelled, "{name}: {error}");
            }
            assert_eq!(disk.list("").expect("it is listed"), [""; 0], "{name}");
        }
    }
}

/// Programs of every kind of look-up over the two tables.
fn programs() -> Vec<(&'static str, String)> {
    let build = "pipeline
  scan 1 others (r0: i64? = column 0 c0 i64, r1: bytes = column 1 c1 bytes, r2: i64 = column 2 c2 i64)
  build j0 (r0) -> (r1, r2)
pipeline
  scan 0 facts (r0: i64? = column 0 c0 i64, r1: bytes = column 1 c1 bytes, r2: i64 = column 2 c2 i64, r3: i64 = column 3 c3 i64)
";
    let head = "program 0 dictionaries
state j0: join (i64) -> (bytes, i64)
state a1: aggregate (i64) { rows, sum(i64?) }
";
    let probe = |line: &str, key: &str, sum: &str| {
        format!("{head}{build}  {line}\n  aggregate a1 ({key}) {{ -, {sum} }}\n{}", summed(1))
    };
    let kept = "program 0 dictionaries
state j0: join (i64?) -> (bytes, i64) keeps all
state a1: aggregate (bytes, i64) { rows }
state a2: aggregate (i64) { rows, sum(i64) }
";
    let rows_of = |steps: &str, matched: &str| {
        format!(
            "{kept}{build}{steps}pipeline
  build rows j0 {matched} (r0, r1, r2)
  aggregate a1 (r1, r2) {{ - }}
pipeline
  groups a1 (r0, r1, r2)
  aggregate a2 (r1) {{ -, r2 }}
{}",
            summed(2)
        )
    };
    let marks = "  mark j0 (r0) -> (1 r4) when { r5: bool = lt r4, r2; r5 }\n";
    vec![
        ("inner", probe("probe inner j0 (r0) -> (0 r4, 1 r5)", "r3", "r5")),
        ("inner by payload", probe("probe inner j0 (r0) -> (0 r4, 1 r5)", "r5", "r3")),
        ("left", probe("probe left j0 (r0) -> (0 r4, 1 r5)", "r3", "r5")),
        ("semi", probe("probe semi j0 (r0) -> ()", "r3", "r2")),
        ("anti", probe("probe anti j0 (r0) -> ()", "r3", "r2")),
        ("conditions", probe("probe anti j0 (r0) -> (0 r4) when { r5: bool = eq r4, r1; r5 }", "r3", "r2")),
        (
            "inner with a condition",
            probe("probe inner j0 (r0) -> (0 r4, 1 r5) when { r6: bool = lt r5, r2; r6 }", "r3", "r5"),
        ),
        ("twice", probe("probe inner j0 (r0) -> (0 r4)\n  probe left j0 (r2) -> (1 r5)", "r3", "r5")),
        (
            "computed before",
            probe(
                "r6: i64 = const 3\n  r7: i64 = add r2, r6\n  r8: bool = gt r2, r6\n  r9: i64 = add r7, r6 if r8\n  \
                 r10: i64 = select r8, r9, r7\n  probe left j0 (r0) -> (1 r5)\n  r11: i64? = select r8, r9, r5",
                "r3",
                "r11",
            ),
        ),
        ("met", rows_of(marks, "matched")),
        ("not met", rows_of(marks, "unmatched")),
    ]
}

#[test]
fn look_ups_of_every_kind_give_the_same_from_disk() {
    let data = data(Arc::new(MemoryDisk::new()));
    for (name, program) in programs() {
        let mut expected = data.run(&program, 2, PLENTY).unwrap_or_else(|error| panic!("{name}: {error}\n{program}"));
        assert_eq!(written(&expected), 0, "{name}");
        let expected = rows(&mut expected);
        assert!(expected.len() > 300, "{name}: {} rows", expected.len());
        for (threads, memory_bytes) in [(1, 24 << 20), (2, 24 << 20), (3, 12 << 20)] {
            let output = data.run(&program, threads, memory_bytes);
            let mut output = output.unwrap_or_else(|error| panic!("{name}: {error}"));
            assert!(written(&output) > 0, "{name}: {output:?}");
            assert!(rows(&mut output) == expected, "{name}: {threads} threads, {memory_bytes} bytes");
        }
    }
}
