//! Runs `tests/pipelines/*.pipe` through the interpreter.

use std::path::{Path, PathBuf};

use forebay_pipeline::case::Case;
use forebay_pipeline::ir::{Program, Sink, Step};
use forebay_pipeline::{cut, verify};

fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/pipelines");
    let entries = std::fs::read_dir(&folder).expect("tests/pipelines lies beside the crates");
    let mut files: Vec<_> = entries.map(|entry| entry.expect("the folder is read").path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "pipe"));
    files.sort();
    files
}

fn cases() -> Vec<(PathBuf, Case)> {
    let of_file = |path: PathBuf| {
        let text = std::fs::read_to_string(&path).expect("a file of the repository is read");
        let cases = Case::read(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        cases.into_iter().map(move |case| (path.clone(), case))
    };
    files().into_iter().flat_map(of_file).collect()
}

#[test]
fn the_interpreter_gives_what_is_expected() {
    let mut failures = Vec::new();
    let cases = cases();
    assert!(cases.len() > 80, "only {} cases were found", cases.len());
    for (path, case) in cases {
        let outcome = verify(&case.program).and_then(|()| case.interpret());
        let difference = match (&case.expect, outcome) {
            (Ok(expected), Ok(rows)) if *expected == rows => continue,
            (Err(text), Err(error)) if error.to_string().contains(text.as_str()) => continue,
            (Ok(expected), Ok(rows)) => format!("expected\n{}got\n{}", listing(expected), listing(&rows)),
            (Ok(_), Err(error)) => error.to_string(),
            (Err(text), Err(error)) => format!("expected the error {text}, got {error}"),
            (Err(text), Ok(rows)) => format!("expected the error {text}, got\n{}", listing(&rows)),
        };
        failures.push(format!("{}: case {}: {difference}", path.display(), case.name));
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Every place where pipeline `number` can be cut.
fn look_ups(program: &Program, number: usize) -> Vec<usize> {
    let pipeline = &program.pipelines[number];
    let steps = (0..pipeline.steps.len()).filter(|step| matches!(pipeline.steps[*step], Step::Probe(_)));
    steps.chain(matches!(pipeline.sink, Sink::Mark { .. }).then_some(pipeline.steps.len())).collect()
}

#[test]
fn a_cut_program_gives_the_same() {
    let mut cuts = 0;
    for (path, mut case) in cases().into_iter().filter(|(_, case)| case.expect.is_ok()) {
        let whole = case.program.clone();
        let mut check = |program: Program| {
            verify(&program).unwrap_or_else(|error| panic!("{}: {}: {error}\n{program}", path.display(), case.name));
            case.program = program;
            let rows = case.interpret().unwrap_or_else(|error| panic!("{}: {}: {error}", path.display(), case.name));
            assert_eq!(case.expect.as_ref().ok(), Some(&rows), "{}: {}\n{}", path.display(), case.name, case.program);
            cuts += 1;
        };
        for number in 0..whole.pipelines.len() {
            for at in look_ups(&whole, number) {
                let halves = cut(&whole, number, at).expect("there is a look-up");
                // The second half begins with what was computed again and the look-up itself; cut once more behind it.
                for next in look_ups(&halves, number + 1).into_iter().skip(1) {
                    check(cut(&halves, number + 1, next).expect("there is another look-up"));
                }
                check(halves);
            }
        }
        assert!(cut(&whole, 0, whole.pipelines[0].steps.len() + 1).is_err());
    }
    assert!(cuts > 40, "only {cuts} cuts were tried");
}

#[test]
fn what_is_printed_is_read_again() {
    for (path, case) in cases() {
        let text = case.program.to_string();
        let again = Program::parse(&text).unwrap_or_else(|error| panic!("{}: {error}\n{text}", path.display()));
        assert_eq!(again.to_string(), text);
        // NaN is not equal to itself as a constant.
        assert_eq!(format!("{again:?}"), format!("{:?}", case.program), "{text}");
    }
}

fn listing(rows: &[Vec<forebay_pipeline::Scalar>]) -> String {
    let line = |row: &Vec<_>| {
        let values: Vec<String> = row.iter().map(ToString::to_string).collect();
        format!("  ({})\n", values.join(", "))
    };
    rows.iter().map(line).collect()
}
