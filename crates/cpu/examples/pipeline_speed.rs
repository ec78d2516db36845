//! Prints how fast one core runs compiled pipelines on this machine, and what compiling them takes:
//! `cargo run --release -p forebay-cpu --example pipeline_speed [name] [text]`; `text` prints the machine code.

use std::sync::Arc;
use std::time::Instant;

use forebay_base::{Result, Value};
use forebay_cpu::compile::{Compiled, Finished, Part, StateLayouts, Worker, compile, compile_with_text, finish};
use forebay_cpu::groups::GroupPlan;
use forebay_cpu::vector::{VECTOR_ROWS, Vector, physical_of_column};
use forebay_pipeline::ir::{Pipeline, Program, Sink, Source};

/// A value of a column of a table, by table, column and row.
type Values = fn(usize, usize, u64) -> i128;

/// One measurement: all pipelines run, all are timed.
struct Case {
    name: &'static str,
    program: &'static str,
    /// Rows of each table.
    rows: &'static [usize],
    values: Values,
    /// Ranges of the keys of groups.
    ranges: &'static [Option<(i64, i64)>],
    /// Groups that are expected.
    expected: usize,
}

/// Few integers of many groups each.
const MANY_GROUPS: &str = "program 0 dictionaries
state a0: aggregate (i64) { sum_fitting(i64), rows }
pipeline
  scan 0 lineitem (r0: i64 = column 0 key i64, r1: i64 = column 1 quantity i32)
  aggregate a0 (r0) { r1, - }
pipeline
  groups a0 (r0, r1, r2)
  collect (r0)
";

const CASES: &[Case] = &[
    Case {
        name: "filter-sum",
        program: "program 0 dictionaries
state a0: aggregate () { sum_fitting(i64) }
pipeline
  scan 0 lineorder (r0: i64 = column 0 discount i8, r1: i64 = column 1 quantity i8, r2: i64 = column 2 price i32)
  r3: i64 = const 5
  r4: bool = lt r0, r3
  filter r4
  r5: i64 = const 25
  r6: bool = lt r1, r5
  filter r6
  r7: i64 = mul r2, r0 fits
  aggregate a0 () { r7 }
pipeline
  groups a0 (r0)
  collect (r0)
",
        rows: &[64 * VECTOR_ROWS],
        values: |_, column, row| (random(row * 4 + column as u64) % [10, 50, 100_000][column]).into(),
        ranges: &[],
        expected: 0,
    },
    Case {
        name: "group-8",
        program: "program 0 dictionaries
state a0: aggregate (i64, i64) { sum_fitting(i64), sum_fitting(i64), sum_wide(i64), sum(i128), sum_fitting(i64), \
                  rows, min(i64), max(i64) }
pipeline
  scan 0 lineitem (r0: i64 = column 0 flag i8, r1: i64 = column 1 status i8, r2: i64 = column 2 quantity i64, \
                  r3: i64 = column 3 price i64, r4: i64 = column 4 discount i64, r5: i64 = column 5 tax i64)
  r6: i64 = const 100
  r7: i64 = sub r6, r4 fits
  r8: i64 = mul r3, r7 fits
  r9: i64 = add r6, r5 fits
  r10: i128 = convert r8
  r11: i128 = convert r9
  r12: i128 = mul r10, r11
  aggregate a0 (r0, r1) { r2, r3, r8, r12, r4, -, r3, r3 }
pipeline
  groups a0 (r0, r1, r2, r3, r4, r5, r6, r7, r8, r9)
  collect (r0)
",
        rows: &[64 * VECTOR_ROWS],
        values: |_, column, row| (random(row * 8 + column as u64) % [3, 2, 50, 100_000, 10, 8][column]).into(),
        ranges: &[Some((0, 2)), Some((0, 1))],
        expected: 0,
    },
    Case {
        name: "star-3",
        program: "program 0 dictionaries
state j0: join (i64) -> (i64)
state j1: join (i64) -> (i64)
state j2: join (i64) -> ()
state a3: aggregate (i64, i64) { sum_fitting(i64) }
pipeline
  scan 0 date (r0: i64 = column 0 key i32, r1: i64 = column 1 year i16)
  build j0 (r0) -> (r1)
pipeline
  scan 1 part (r0: i64 = column 0 key i32, r1: i64 = column 1 brand i16)
  r2: i64 = const 40
  r3: bool = lt r1, r2
  filter r3
  build j1 (r0) -> (r1)
pipeline
  scan 2 supplier (r0: i64 = column 0 key i32, r1: i64 = column 1 region i16)
  r2: i64 = const 200
  r3: bool = lt r1, r2
  filter r3
  build j2 (r0) -> ()
pipeline
  scan 3 lineorder (r0: i64 = column 0 part i32, r1: i64 = column 1 supplier i32, r2: i64 = column 2 date i32, \
                  r3: i64 = column 3 revenue i32)
  probe inner j1 (r0) -> (0 r4)
  probe semi j2 (r1) -> ()
  probe inner j0 (r2) -> (0 r5)
  aggregate a3 (r5, r4) { r3 }
pipeline
  groups a3 (r0, r1, r2)
  collect (r0, r1, r2)
",
        rows: &[2556, 800_000, 20_000, 128 * VECTOR_ROWS],
        values: |table, column, row| match (table, column) {
            (3, 3) => (random(row) % 100_000).into(),
            (3, column) => (random(row * 3 + column as u64) % [800_000, 20_000, 2556][column]).into(),
            (_, 0) => row.into(),
            (0, _) => i128::from(1992 + row / 366),
            (_, _) => (random(row) % 1000).into(),
        },
        ranges: &[Some((1992, 1999)), Some((0, 1000))],
        expected: 0,
    },
    Case {
        name: "hash-probe",
        program: "program 0 dictionaries
state j0: join (i64, i64) -> (i64)
state a1: aggregate () { sum_fitting(i64) }
pipeline
  scan 0 orders (r0: i64 = column 0 key i64, r1: i64 = column 1 line i32)
  build j0 (r0, r1) -> (r0)
pipeline
  scan 1 lineitem (r0: i64 = column 0 key i64, r1: i64 = column 1 line i32)
  probe inner j0 (r0, r1) -> (0 r2)
  aggregate a1 () { r2 }
pipeline
  groups a1 (r0)
  collect (r0)
",
        rows: &[512 * VECTOR_ROWS, 256 * VECTOR_ROWS],
        values: |table, column, row| match (table, column) {
            (0, 0) => (row * 8).into(),
            (_, 0) => (random(row) % (512 * VECTOR_ROWS as u64) * 8).into(),
            (_, _) => 7,
        },
        ranges: &[],
        expected: 0,
    },
    Case {
        name: "hash-group",
        program: MANY_GROUPS,
        rows: &[512 * VECTOR_ROWS],
        values: |_, column, row| if column == 0 { (random(row) % 1_000_000 * 1000).into() } else { 3 },
        ranges: &[None],
        expected: 0,
    },
    Case {
        name: "partition-group",
        program: MANY_GROUPS,
        rows: &[512 * VECTOR_ROWS],
        values: |_, column, row| if column == 0 { (random(row) % 1_000_000 * 1000).into() } else { 3 },
        ranges: &[None],
        expected: 1_000_000,
    },
    Case {
        name: "large-star",
        program: "program 0 dictionaries
state j0: join (i64) -> (i64)
state a1: aggregate (i64) { sum_fitting(i64), rows }
pipeline
  scan 0 orders (r0: i64 = column 0 key i64, r1: i64 = column 1 customer i32)
  r2: i64 = const 500000
  r3: bool = lt r1, r2
  filter r3
  build j0 (r0) -> (r1)
pipeline
  scan 1 lineitem (r0: i64 = column 0 key i64, r1: i64 = column 1 quantity i32)
  probe inner j0 (r0) -> (0 r2)
  aggregate a1 (r2) { r1, - }
pipeline
  groups a1 (r0, r1, r2)
  collect (r0)
",
        rows: &[128 * VECTOR_ROWS, 256 * VECTOR_ROWS],
        values: |table, column, row| match (table, column) {
            (0, 0) => (row * 3).into(),
            (0, _) => (random(row) % 1_000_000).into(),
            (_, 0) => (random(row) % (128 * VECTOR_ROWS as u64) * 3).into(),
            (_, _) => 7,
        },
        ranges: &[Some((0, 499_999))],
        expected: 500_000,
    },
];

fn random(row: u64) -> u64 {
    let mixed = row.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 20
}

fn main() -> Result<()> {
    let name = std::env::args().nth(1);
    let text = std::env::args().nth(2).is_some();
    for case in CASES {
        if name.as_deref().is_none_or(|name| case.name == name) {
            measure(case, text)?;
        }
    }
    Ok(())
}

fn measure(case: &Case, text: bool) -> Result<()> {
    let program = Program::parse(case.program)?;
    let mut finished: Vec<Option<Arc<Finished>>> = program.states.iter().map(|_| None).collect();
    for (number, pipeline) in program.pipelines.iter().enumerate() {
        let Source::Table(source) = &pipeline.source else { break };
        let columns: Vec<_> = source.columns.iter().map(physical_of_column).collect();
        let rows = case.rows[source.table];
        let batches: Vec<Vec<Vector>> = (0..rows)
            .step_by(VECTOR_ROWS)
            .map(|from| {
                let vector = |column: usize| {
                    let value = |row| Value::Int((case.values)(source.table, column, row as u64));
                    let values: Vec<Value> = (from..rows.min(from + VECTOR_ROWS)).map(value).collect();
                    let mut vector = Vector::default();
                    vector.load_values(columns[column], &values.iter().map(Some).collect::<Vec<_>>());
                    vector
                };
                (0..columns.len()).map(vector).collect()
            })
            .collect();
        let plan = plan(&program, pipeline, case);
        let layouts = layouts(&finished, plan.as_ref());
        let compiled = compiled(&program, number, &layouts, text)?;
        let parts = timed(case.name, number, &compiled, &finished, plan.as_ref(), &batches)?;
        if let Sink::Build { state, .. } | Sink::Aggregate { state, .. } = pipeline.sink {
            let start = Instant::now();
            finished[state.0 as usize] = Some(Arc::new(finish(&program, state, parts, 1)?));
            println!("{:34}{:>10.1} ms to finish", "", start.elapsed().as_secs_f64() * 1e3);
        }
    }
    Ok(())
}

fn plan(program: &Program, pipeline: &Pipeline, case: &Case) -> Option<GroupPlan> {
    let Sink::Aggregate { state, .. } = pipeline.sink else { return None };
    match &program.states[state.0 as usize] {
        forebay_pipeline::ir::State::Aggregate(state) => {
            Some(GroupPlan::pick(state, case.ranges, case.expected, 1 << 30))
        }
        forebay_pipeline::ir::State::Join(_) => None,
    }
}

fn layouts(finished: &[Option<Arc<Finished>>], plan: Option<&GroupPlan>) -> StateLayouts {
    let joins = finished.iter().map(|finished| match finished.as_deref() {
        Some(Finished::Join(table)) => Some(table.layout()),
        _ => None,
    });
    StateLayouts {
        joins: joins.collect(),
        groups: plan.map(GroupPlan::layout),
        counted: false,
        counts_duplicates: false,
    }
}

/// The quickest of some compilations.
fn compiled(program: &Program, number: usize, layouts: &StateLayouts, text: bool) -> Result<Arc<Compiled>> {
    if text {
        let compiled = compile_with_text(program, number, layouts)?;
        println!("{}", compiled.text().unwrap_or_default());
    }
    let mut best = compile(program, number, layouts)?;
    for _ in 0..20 {
        let again = compile(program, number, layouts)?;
        if again.compile_ns() < best.compile_ns() {
            best = again;
        }
    }
    Ok(best)
}

/// Runs all vectors some times; prints the sum of each one's least time, which other work on the machine disturbs little.
fn timed(
    name: &str,
    number: usize,
    compiled: &Arc<Compiled>,
    finished: &[Option<Arc<Finished>>],
    plan: Option<&GroupPlan>,
    batches: &[Vec<Vector>],
) -> Result<Vec<Part>> {
    let rows: usize = batches.iter().map(|batch| batch[0].rows()).sum();
    let mut least = vec![f64::MAX; batches.len()];
    let mut parts = Vec::new();
    for _ in 0..7 {
        let mut worker = Worker::new(compiled, finished, plan)?;
        for (batch, least) in batches.iter().zip(&mut least) {
            let start = Instant::now();
            worker.run(batch, batch[0].rows())?;
            *least = least.min(start.elapsed().as_secs_f64());
        }
        parts = vec![worker.finish()];
    }
    let best: f64 = least.iter().sum();
    println!(
        "{name:16}pipeline {number:<9}{:>10.1} M rows/s {:>8.2} ns/row, compiled in {:>6.0} us",
        rows as f64 / best / 1e6,
        best * 1e9 / rows as f64,
        compiled.compile_ns() as f64 / 1e3,
    );
    Ok(parts)
}
