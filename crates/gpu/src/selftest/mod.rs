//! A device against the interpreter of the IR: the IR's test files, which the program carries, and programs made up from a
//! seed. What `forebay selftest` runs on a machine with a GPU, and the tests on the emulated device.
//!
//! Invariants: expected is what the interpreter gives; what the device cannot do is counted, and the interpreter does it.
//! Must not know: which device it is.

mod machine;
mod table;

use std::collections::BTreeMap;
use std::sync::Arc;

use forebay_base::{Error, Result};
use forebay_pipeline::case::{Case, compare, is_fault};
use forebay_pipeline::generate::{Generator, Reach};

use crate::DeviceChoice;
use crate::device::Device;
use machine::{Bench, Done, Execution};

/// The IR's test files.
pub const FILES: &[(&str, &str)] = &[
    ("conversions.pipe", include_str!("../../../../tests/pipelines/conversions.pipe")),
    ("floats.pipe", include_str!("../../../../tests/pipelines/floats.pipe")),
    ("groups.pipe", include_str!("../../../../tests/pipelines/groups.pipe")),
    ("guards.pipe", include_str!("../../../../tests/pipelines/guards.pipe")),
    ("integers.pipe", include_str!("../../../../tests/pipelines/integers.pipe")),
    ("logic.pipe", include_str!("../../../../tests/pipelines/logic.pipe")),
    ("probes.pipe", include_str!("../../../../tests/pipelines/probes.pipe")),
    ("scans.pipe", include_str!("../../../../tests/pipelines/scans.pipe")),
    ("stars.pipe", include_str!("../../../../tests/pipelines/stars.pipe")),
    ("texts.pipe", include_str!("../../../../tests/pipelines/texts.pipe")),
];

/// How each case of a file is run: rows of a block, which encodings, whether groups are counted in device memory.
const EXECUTIONS: [(usize, u64, bool); 4] = [(1000, 0, false), (1000, 2, true), (2, 1, false), (3, 3, false)];

/// Failures after which the rest is not run: a device that is lost fails in all of it.
const MOST_FAILURES: usize = 20;

/// What came of it.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Runs that gave what the interpreter gives.
    pub agreed: u64,
    /// Runs that did not, each with its program and how to run it again.
    pub failures: Vec<String>,
    /// Pipelines that ran on the device.
    pub pipelines: usize,
    /// How often the device left a pipeline to the interpreter, by reason.
    pub left: BTreeMap<String, usize>,
}

impl Outcome {
    /// The same with what came of other runs.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.agreed += other.agreed;
        self.failures.extend(other.failures);
        self.pipelines += other.pipelines;
        other.left.into_iter().for_each(|(reason, times)| *self.left.entry(reason).or_insert(0) += times);
        self
    }

    /// Counts a run, whose failure is described by `what`.
    fn add(&mut self, difference: std::result::Result<(), String>, done: Done, what: impl FnOnce() -> String) {
        match difference {
            Ok(()) => self.agreed += 1,
            Err(message) => self.failures.push(format!("{}\n{message}", what())),
        }
        self.pipelines += done.pipelines;
        done.reasons.into_iter().for_each(|reason| *self.left.entry(reason).or_insert(0) += 1);
    }
}

/// All of it on the device of a setting: the test files, and programs made up from a seed.
pub fn run(choice: DeviceChoice, seed: u64, programs: u64) -> Result<Outcome> {
    let Some(device) = choice.open()? else {
        return Err(Error::input("the CPU has no device to test").hint("Give gpu or emulated"));
    };
    Ok(run_files(&device)?.and(run_programs(&device, seed, programs)?))
}

/// Runs every case of the test files, in blocks of several lengths and encodings. An error where the device cannot begin.
pub fn run_files(device: &Arc<dyn Device>) -> Result<Outcome> {
    let bench = Bench::new(device)?;
    let mut outcome = Outcome::default();
    for (file, text) in FILES {
        for case in Case::read(text).map_err(|error| error.context(*file))? {
            let expected = case.interpret();
            for (block_rows, salt, global) in EXECUTIONS {
                let execution = Execution { block_rows, salt, global };
                let (found, done) = bench.run(&case, execution);
                let what = || format!("{file}: {}, {execution:?}\n{}", case.name, case.program);
                outcome.add(compare(&expected, &found), done, what);
                if outcome.failures.len() == MOST_FAILURES {
                    return Ok(outcome);
                }
            }
        }
    }
    Ok(outcome)
}

/// Runs programs made up from the seeds that begin at `seed`.
pub fn run_programs(device: &Arc<dyn Device>, seed: u64, programs: u64) -> Result<Outcome> {
    let bench = Bench::new(device)?;
    let mut outcome = Outcome::default();
    for number in seed..seed.saturating_add(programs) {
        if outcome.failures.len() == MOST_FAILURES {
            break;
        }
        let case = Generator::new(number, Reach::Device).case();
        let expected = case.interpret();
        // It was said that a result fits which does not: such a program means nothing.
        if expected.as_ref().is_err_and(|error| !is_fault(error.kind())) {
            continue;
        }
        let block_rows = if number % 2 == 0 { 7 } else { 100 };
        let execution = Execution { block_rows, salt: number, global: number % 3 == 0 };
        let (found, done) = bench.run(&case, execution);
        outcome.add(compare(&expected, &found), done, || format!("seed {number}, {execution:?}\n{}", case.program));
    }
    Ok(outcome)
}
