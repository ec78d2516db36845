//! Kernels give what the interpreter gives: the IR's test files, and programs made up from a seed, on the emulated device
//! with all its checks.

mod machine;
mod table;

use std::path::PathBuf;

use forebay_pipeline::case::{Case, compare, is_fault};
use forebay_pipeline::generate::{Generator, Reach};
use forebay_pipeline::verify;

use machine::{Bench, Execution};

fn cases() -> Vec<(PathBuf, Case)> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/pipelines");
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder).expect("the folder is there").map(|file| file.expect("it is read").path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "pipe"));
    files.sort();
    let read = |path: PathBuf| {
        let text = std::fs::read_to_string(&path).expect("the file can be read");
        let cases = Case::read(&text).expect("the file is right");
        cases.into_iter().map(move |case| (path.clone(), case))
    };
    files.into_iter().flat_map(read).collect()
}

#[test]
fn test_files_give_their_results() {
    let bench = Bench::new(7);
    let (mut pipelines, mut reasons) = (0, std::collections::BTreeMap::new());
    for (path, case) in cases() {
        let expected = case.interpret();
        for (block_rows, salt, global) in [(1000, 0, false), (1000, 2, true), (2, 1, false), (3, 3, false)] {
            let (found, done) = bench.run(&case, Execution { block_rows, salt, global });
            if let Err(message) = compare(&expected, &found) {
                panic!("{} {} salt {salt}:\n{}\n{message}", path.display(), case.name, case.program);
            }
            pipelines += done.pipelines;
            done.reasons.into_iter().for_each(|reason| *reasons.entry(reason).or_insert(0) += 1);
        }
    }
    println!("{pipelines} pipelines on the device; left to the CPU: {reasons:#?}");
    assert!(pipelines > 200, "only {pipelines} pipelines ran on the device");
    let counters = bench.device().counters();
    assert_eq!((counters.device_bytes, counters.pinned_bytes), (0, 0), "memory was not given back");
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

#[test]
fn random_programs_give_what_the_interpreter_gives() {
    let given = |name: &str| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    let seed = given("FOREBAY_SEED").unwrap_or(20_261_121);
    let programs = given("FOREBAY_PROGRAMS").unwrap_or(40);
    let bench = Bench::new(seed);
    let (mut results, mut faults, mut pipelines, mut left) = (0, 0, 0, 0);
    for number in seed..seed + programs {
        let case = Generator::new(number, Reach::Device).case();
        let _shown = Shown(number, &case);
        verify(&case.program).expect("it has a meaning");
        let expected = case.interpret();
        match &expected {
            Ok(_) => results += 1,
            Err(error) if is_fault(error.kind()) => faults += 1,
            // It was said that a result fits which does not.
            Err(_) => continue,
        }
        let execution = Execution { block_rows: [7, 100][number as usize % 2], salt: number, global: number % 3 == 0 };
        let (found, done) = bench.run(&case, execution);
        if let Err(message) = compare(&expected, &found) {
            panic!("{execution:?}\n{message}");
        }
        pipelines += done.pipelines;
        left += done.reasons.len();
    }
    println!(
        "FOREBAY_SEED={seed}: {results} results, {faults} faults; {pipelines} pipelines on the device, {left} not"
    );
    assert!(pipelines as u64 > programs || programs < 10, "only {pipelines} pipelines ran on the device");
}
