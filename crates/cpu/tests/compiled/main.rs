//! Compiled pipelines give what the interpreter gives: the IR's test files, and programs made up from a seed.

mod machine;

use forebay_base::{ErrorKind, PhysicalType, Result, Value};
use forebay_cpu::compile::{CompileCache, StateLayouts, Worker, compile};
use forebay_cpu::groups::{GroupLayout, GroupPlan};
use forebay_cpu::join::JoinKind;
use forebay_cpu::vector::Vector;
use forebay_pipeline::case::{self, Case, is_fault};
use forebay_pipeline::generate::{Generator, Random, Reach};
use forebay_pipeline::ir::{Aggregate, AggregateFunction, Program, State};
use forebay_pipeline::{Scalar, verify};

use machine::{Execution, Groups, Outcome, run};

/// Layouts of build sides; `None` is the one that is picked.
const JOINS: [Option<JoinKind>; 4] = [None, Some(JoinKind::Set), Some(JoinKind::Dense), Some(JoinKind::Hash)];

/// Ways to run every test file.
fn executions() -> Vec<Execution> {
    let mut list = Vec::new();
    for joins in JOINS {
        for groups in Groups::ALL {
            for (vector_rows, workers) in [(1, 3), (2, 1), (1000, 1)] {
                let counted = workers > 1 || vector_rows > 2;
                list.push(Execution { vector_rows, workers, joins, groups, counted, counts_duplicates: false });
            }
            let counted = groups != Groups::Hashed;
            let (vector_rows, workers) = if counted { (3, 2) } else { (1000, 1) };
            list.push(Execution { vector_rows, workers, joins, groups, counted, counts_duplicates: true });
        }
    }
    list
}

/// What the interpreter gives.
fn interpreted(case: &Case) -> Result<Outcome> {
    let (rows, counts) = case.interpret_counted()?;
    Ok(Outcome { rows, passed: Some(counts.into_iter().map(|counts| counts.steps).collect()) })
}

/// What was expected, or why the outcome is another.
fn compare(expected: &Result<Outcome>, found: &Result<Outcome>) -> std::result::Result<(), String> {
    let rows = |outcome: &Result<Outcome>| outcome.as_ref().map(|outcome| outcome.rows.clone()).map_err(Clone::clone);
    case::compare(&rows(expected), &rows(found))?;
    match (expected, found) {
        (Ok(expected), Ok(found)) if found.passed.is_some() && found.passed != expected.passed => {
            Err(format!("counts {:?}, not {:?}", found.passed, expected.passed))
        }
        _ => Ok(()),
    }
}

/// Some ways to run a case.
fn random_executions(random: &mut Random) -> [Execution; 2] {
    [(); 2].map(|()| Execution {
        vector_rows: *random.pick(&[1, 3, 17, 1000]),
        workers: *random.pick(&[1, 1, 2, 3]),
        joins: *random.pick(&JOINS),
        groups: *random.pick(&Groups::ALL),
        counted: random.percent(50),
        counts_duplicates: random.percent(30),
    })
}

#[test]
fn test_files_give_their_results() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/pipelines");
    let mut files: Vec<_> = std::fs::read_dir(folder).expect("the folder is there").collect();
    files.sort_by_key(|file| file.as_ref().map(|file| file.path()).ok());
    let mut cases = 0;
    for file in files {
        let path = file.expect("the folder can be read").path();
        if path.extension().is_none_or(|extension| extension != "pipe") {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("the file can be read");
        for case in Case::read(&text).expect("the file is right") {
            cases += 1;
            let expected = interpreted(&case);
            let fits = |execution: &Execution| {
                (execution.workers == 1 && !execution.counts_duplicates) || !depends_on_order(&case)
            };
            for execution in executions().into_iter().filter(fits) {
                let found = run(&case.program, &|source| case.rows(source), &execution);
                if let Err(message) = compare(&expected, &found) {
                    panic!("{} {}: {execution:?}\n{}\n{message}", path.display(), case.name, case.program);
                }
            }
        }
    }
    assert!(cases > 20, "only {cases} cases");
}

/// Whether the result is another where rows come in another order.
fn depends_on_order(case: &Case) -> bool {
    let is_first = |aggregate: &Aggregate| aggregate.function == AggregateFunction::First;
    case.program.states.iter().any(|state| match state {
        State::Aggregate(groups) => groups.aggregates.iter().any(is_first),
        State::Join(_) => false,
    })
}

/// Prints its program where the thread panics.
struct Shown<'a>(u64, &'a Case);

impl Drop for Shown<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("FOREBAY_SEED={} FOREBAY_PROGRAMS=1\n{}", self.0, self.1.program);
        }
    }
}

/// Runs programs of a seed; gives how many had a result and how many a fault.
fn random(seed: u64, programs: usize) -> (usize, usize) {
    let (mut results, mut faults) = (0, 0);
    for number in 0..programs as u64 {
        let mut generator = Generator::new(seed.wrapping_add(number), Reach::All);
        let case = generator.case();
        let _shown = Shown(seed.wrapping_add(number), &case);
        verify(&case.program).unwrap_or_else(|error| panic!("{error}\n{}", case.program));
        let expected = interpreted(&case);
        match &expected {
            Ok(_) => results += 1,
            Err(error) if is_fault(error.kind()) => faults += 1,
            // It was said that a result fits which does not.
            Err(_) => continue,
        }
        for execution in random_executions(generator.random()) {
            let found = run(&case.program, &|source| case.rows(source), &execution);
            if let Err(message) = compare(&expected, &found) {
                panic!("{execution:?}\n{message}");
            }
        }
    }
    (results, faults)
}

#[test]
fn random_programs_give_what_the_interpreter_gives() {
    let given = |name: &str| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    let seed = given("FOREBAY_SEED").unwrap_or(20_260_728);
    let programs = given("FOREBAY_PROGRAMS").unwrap_or(2_000) as usize;
    let (results, faults) = random(seed, programs);
    println!("FOREBAY_SEED={seed}: {results} results, {faults} faults of {programs} programs");
    assert!(results * 2 > programs || programs < 10, "too few programs have a result: {results}");
}

const GROUPED: &str = "program 0 dictionaries
state a0: aggregate (i64) { sum(i64) }
pipeline
  scan 0 t (r0: i64 = column 0 a i64, r1: i64 = column 1 b i64)
  aggregate a0 (r0) { r1 }
pipeline
  groups a0 (r0, r1)
  collect (r0, r1)
";

/// A worker for [`GROUPED`] whose groups have keys from 1 to 3, over these rows.
fn run_dense(rows: &[(i64, i64)]) -> Result<()> {
    let program = Program::parse(GROUPED)?;
    let State::Aggregate(groups) = &program.states[0] else { unreachable!() };
    let plan = GroupPlan::pick(groups, &[Some((1, 3))], 0, 0);
    assert!(plan.layout().is_dense());
    let layouts =
        StateLayouts { joins: vec![None], groups: Some(plan.layout()), counted: false, counts_duplicates: false };
    let compiled = compile(&program, 0, &layouts)?;
    let mut worker = Worker::new(&compiled, &[None], Some(&plan))?;
    let column = |number: fn(&(i64, i64)) -> i64| {
        let values: Vec<Value> = rows.iter().map(|row| Value::Int(number(row).into())).collect();
        let mut vector = Vector::default();
        vector.load_values(PhysicalType::I64, &values.iter().map(Some).collect::<Vec<_>>());
        vector
    };
    worker.run(&[column(|row| row.0), column(|row| row.1)], rows.len())
}

#[test]
fn keys_out_of_their_range_are_no_write_elsewhere() {
    assert!(run_dense(&[(1, 1), (3, 1)]).is_ok());
    for key in [0, 4, -1, i64::MIN, i64::MAX] {
        let error = run_dense(&[(1, 1), (key, 1)]).expect_err("the key has no slot");
        assert_eq!(error.kind(), ErrorKind::Internal, "{error}");
    }
}

#[test]
fn workers_refuse_what_they_were_not_compiled_for() {
    let program = Program::parse(GROUPED).expect("the text is right");
    assert!(compile(&program, 0, &StateLayouts::default()).is_err(), "without the layout of groups");
    let layouts =
        StateLayouts { joins: vec![None], groups: Some(GroupLayout::Hash), counted: false, counts_duplicates: false };
    let compiled = compile(&program, 0, &layouts).expect("it compiles");
    let State::Aggregate(groups) = &program.states[0] else { unreachable!() };
    assert!(Worker::new(&compiled, &[None], None).is_err(), "without a plan");
    assert!(
        Worker::new(&compiled, &[None], Some(&GroupPlan::pick(groups, &[Some((1, 3))], 0, 0))).is_err(),
        "another plan"
    );
    let mut worker = Worker::new(&compiled, &[None], Some(&GroupPlan::hash())).expect("the plan fits");
    let mut narrow = Vector::default();
    narrow.load_values(PhysicalType::I32, &[Some(&Value::Int(1))]);
    let mut null = Vector::default();
    null.load_values(PhysicalType::I64, &[None]);
    let again = || {
        let mut vector = Vector::default();
        vector.load_values(PhysicalType::I64, &[Some(&Value::Int(1))]);
        vector
    };
    assert!(worker.run(&[again()], 1).is_err(), "too few vectors");
    assert!(worker.run(&[again(), narrow], 1).is_err(), "another type");
    assert!(worker.run(&[again(), null], 1).is_err(), "NULL in a column without");
    assert!(worker.run(&[again(), again()], 2).is_err(), "more rows than there are");
    assert!(worker.run(&[again(), again()], 1).is_ok());
}

#[test]
fn the_cache_knows_what_code_depends_on() {
    let program = Program::parse(GROUPED).expect("the text is right");
    let cache = CompileCache::default();
    let is_there = |program: &Program, pipeline, groups| {
        let layouts = StateLayouts { joins: vec![None], groups, counted: false, counts_duplicates: false };
        cache.compile(program, pipeline, &layouts).expect("it compiles").1
    };
    assert!(!is_there(&program, 0, Some(GroupLayout::Hash)));
    assert!(is_there(&program, 0, Some(GroupLayout::Hash)));
    assert!(!is_there(&program, 0, Some(GroupLayout::Dense { is_large: false })), "another layout");
    assert!(!is_there(&program, 1, None), "another pipeline");
    let other = Program::parse(&GROUPED.replace("sum(i64)", "sum_wide(i64)")).expect("the text is right");
    assert!(!is_there(&other, 0, Some(GroupLayout::Hash)), "another state");
    assert!(!is_there(&other, 1, None), "a source of other types");
    assert!(is_there(&program, 1, None));
    let counted = StateLayouts { joins: vec![None], groups: None, counted: true, counts_duplicates: false };
    assert!(!cache.compile(&program, 1, &counted).expect("it compiles").1, "code that counts");
}

/// Rows that fill many chunks and vectors, and states that do not fit the second-level cache.
fn many_rows(count: u64, salt: u64) -> Vec<Vec<Scalar>> {
    let row = |number: u64| {
        let mixed = (number ^ salt << 40).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 16;
        let text = |number: u64| Scalar::bytes(format!("{number} and something behind it").as_bytes());
        let null_or = |of: u64, value| if mixed.is_multiple_of(of) { Scalar::Null } else { value };
        vec![
            Scalar::I64((mixed % 60_000) as i64),
            null_or(50, text(mixed % 60_000 % 7)),
            null_or(20, Scalar::I64((mixed >> 20) as i64 % 1000)),
            Scalar::I128(i128::from(mixed >> 30) << 40),
            Scalar::F64((mixed % 97) as f64),
        ]
    };
    (0..count).map(row).collect()
}

#[test]
fn large_states_give_what_the_interpreter_gives() {
    let text = "program 0 dictionaries
state j0: join (KEYS) -> (i64?, bytes?)
state a1: aggregate (GROUP) { rows, sum(i64?), sum(i128), max(f64), min(bytes?) }
pipeline
  scan 0 t (r0: i64 = column 0 a i64, r1: bytes? = column 1 b bytes, r2: i64? = column 2 c i64)
  build j0 (ON) -> (r2, r1)
pipeline
  scan 1 u (r0: i64 = column 0 a i64, r1: bytes? = column 1 b bytes, r2: i64? = column 2 c i64, \
     r3: i128 = column 3 d i128, r4: f64 = column 4 e f64)
  r5: i64 = const 900
  r6: bool? = lt r2, r5
  filter r6
  PROBE
  aggregate a1 (BY) { -, r2, r3, r4, r1 }
pipeline
  groups a1 (COLUMNS, r10, r11, r12, r13, r14)
  collect (COLUMNS, r10, r11, r12, r13, r14)
";
    let tables = [many_rows(60_000, 1), many_rows(20_000, 2)];
    let probes = [
        ("probe inner j0 (ON) -> (0 r7, 1 r8)", "r7"),
        ("probe left j0 (ON) -> (0 r7, 1 r8) when { r9: bool? = lt r7, r2; r9 }", "r8"),
        ("probe semi j0 (ON) -> ()", "r0"),
        ("probe anti j0 (ON) -> (0 r7) when { r9: bool? = ge r7, r2; r9 }", "r1"),
        ("probe mark r7 j0 (ON) -> ()", "r7"),
    ];
    for (keys, on) in [("i64, bytes?", "r0, r1"), ("i64", "r0"), ("i64, i64?", "r0, r2")] {
        for (probe, by) in probes {
            let by_type = match by {
                "r0" => "i64",
                "r7" if probe.contains("mark") => "bool",
                "r7" => "i64?",
                _ => "bytes?",
            };
            let text = text.replace("PROBE", probe).replace("KEYS", keys).replace("ON", on);
            let text = text.replace("GROUP", &format!("{by_type}, i64")).replace("BY", &format!("{by}, r0"));
            let program = Program::parse(&text.replace("COLUMNS", "r0, r1")).expect("the text is right");
            let case = Case { name: String::new(), program, tables: tables.to_vec(), expect: Ok(Vec::new()) };
            verify(&case.program).expect("it has a meaning");
            let expected = interpreted(&case);
            assert!(expected.as_ref().is_ok_and(|outcome| !outcome.rows.is_empty()));
            for (vector_rows, workers, joins) in [(8192, 1, None), (5000, 2, Some(JoinKind::Hash))] {
                let execution = Execution {
                    vector_rows,
                    workers,
                    joins,
                    groups: if workers == 1 { Groups::Hashed } else { Groups::Partitioned },
                    counted: vector_rows == 5000,
                    counts_duplicates: false,
                };
                let found = run(&case.program, &|source| case.rows(source), &execution);
                if let Err(message) = compare(&expected, &found) {
                    panic!("{execution:?}\n{}\n{}", case.program, &message[..message.len().min(2000)]);
                }
            }
        }
    }
}
