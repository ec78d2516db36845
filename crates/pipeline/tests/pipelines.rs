//! Runs `tests/pipelines/*.pipe` through the interpreter.

use std::path::{Path, PathBuf};

use forebay_pipeline::case::Case;
use forebay_pipeline::ir::Program;
use forebay_pipeline::verify;

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
