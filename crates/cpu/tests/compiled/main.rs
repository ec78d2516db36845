//! Compiled pipelines give what the interpreter gives: the IR's test files, and programs made up from a seed.

mod generator;
mod machine;

use forebay_base::{ErrorKind, Result};
use forebay_cpu::join::JoinKind;
use forebay_pipeline::case::Case;
use forebay_pipeline::ir::{Aggregate, AggregateFunction, State};
use forebay_pipeline::{Scalar, verify};

use generator::Generator;
use machine::{Execution, run};

/// Ways to run every test file.
fn executions() -> Vec<Execution> {
    let mut list = Vec::new();
    for joins in [None, Some(JoinKind::Set), Some(JoinKind::Dense), Some(JoinKind::Hash)] {
        for dense in [false, true] {
            for (vector_rows, workers) in [(1, 3), (2, 1), (1000, 1)] {
                list.push(Execution { vector_rows, workers, joins, dense });
            }
        }
    }
    list
}

/// Whether both have the same rows. Sums of floats may differ in their last digits.
fn same(a: &[Vec<Scalar>], b: &[Vec<Scalar>]) -> bool {
    let close = |a: &Scalar, b: &Scalar| match (a, b) {
        (Scalar::F64(x), Scalar::F64(y)) => a == b || (x - y).abs() <= 1e-9 * x.abs().max(y.abs()),
        _ => a == b,
    };
    let alike = |a: &Vec<Scalar>, b: &Vec<Scalar>| a.len() == b.len() && a.iter().zip(b).all(|(a, b)| close(a, b));
    if a.len() != b.len() {
        return false;
    }
    if a == b {
        return true;
    }
    // Rows that are only close may be sorted otherwise.
    let mut left: Vec<&Vec<Scalar>> = b.iter().collect();
    a.iter().all(|row| match left.iter().position(|other| alike(row, other)) {
        Some(at) => {
            left.swap_remove(at);
            true
        }
        None => false,
    })
}

/// What was expected, or why the outcome is another.
fn compare(expected: &Result<Vec<Vec<Scalar>>>, found: &Result<Vec<Vec<Scalar>>>) -> std::result::Result<(), String> {
    match (expected, found) {
        (Ok(expected), Ok(found)) if same(expected, found) => Ok(()),
        (Ok(expected), Ok(found)) => {
            let show =
                |rows: &[Vec<Scalar>]| rows.iter().take(40).map(|row| format!("  {row:?}\n")).collect::<String>();
            Err(format!("{} rows\n{}not {}\n{}", found.len(), show(found), expected.len(), show(expected)))
        }
        // Which of several rows fails first is not said.
        (Err(expected), Err(found)) if is_fault(expected.kind()) && is_fault(found.kind()) => Ok(()),
        (Ok(_), Err(error)) => Err(format!("fails: {error}")),
        (Err(expected), Ok(rows)) => Err(format!("gives {} rows, but should fail: {expected}", rows.len())),
        (Err(expected), Err(found)) => Err(format!("fails: {found}, but should: {expected}")),
    }
}

fn is_fault(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::Overflow | ErrorKind::Input)
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
            let expected = case.interpret();
            for execution in
                executions().into_iter().filter(|execution| !depends_on_order(&case) || execution.workers == 1)
            {
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
        let mut generator = Generator::new(seed.wrapping_add(number));
        let case = generator.case();
        let _shown = Shown(seed.wrapping_add(number), &case);
        verify(&case.program).unwrap_or_else(|error| panic!("{error}\n{}", case.program));
        let expected = case.interpret();
        match &expected {
            Ok(_) => results += 1,
            Err(error) if is_fault(error.kind()) => faults += 1,
            // It was said that a result fits which does not.
            Err(_) => continue,
        }
        for execution in generator.executions() {
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
