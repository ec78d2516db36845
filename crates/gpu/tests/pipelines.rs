//! Kernels give what the interpreter gives: the IR's test files, and programs made up from a seed, on the emulated device
//! with all its checks, or on a GPU with `FOREBAY_DEVICE=gpu`.

use std::sync::Arc;

use forebay_gpu::cuda::CudaDevice;
use forebay_gpu::device::Device;
use forebay_gpu::emulated::{EmulatedDevice, Options};
use forebay_gpu::selftest::{FILES, Outcome, run_files, run_programs};

fn open(seed: u64) -> Arc<dyn Device> {
    match std::env::var("FOREBAY_DEVICE").as_deref() {
        Ok("gpu") => CudaDevice::open().expect("FOREBAY_DEVICE=gpu asks for one"),
        _ => EmulatedDevice::open(Options { seed, ..Options::default() }).expect("this machine has a C++ compiler"),
    }
}

/// Every run agreed, and all memory was given back.
fn check(device: &Arc<dyn Device>, outcome: &Outcome) {
    println!("{} runs agree; {} pipelines on the device; left: {:#?}", outcome.agreed, outcome.pipelines, outcome.left);
    assert!(outcome.failures.is_empty(), "{}", outcome.failures.join("\n\n"));
    let counters = device.counters();
    assert_eq!((counters.device_bytes, counters.pinned_bytes), (0, 0), "memory was not given back");
}

#[test]
fn every_test_file_is_carried() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/pipelines");
    let files = std::fs::read_dir(folder).expect("the folder is there").map(|file| file.expect("it is read").path());
    let mut names: Vec<String> = files
        .filter(|path| path.extension().is_some_and(|extension| extension == "pipe"))
        .filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned()))
        .collect();
    names.sort();
    assert_eq!(FILES.iter().map(|(name, _)| *name).collect::<Vec<_>>(), names);
}

#[test]
fn test_files_give_their_results() {
    let device = open(7);
    let outcome = run_files(&device).expect("it begins");
    check(&device, &outcome);
    assert!(outcome.pipelines > 200, "only {} pipelines ran on the device", outcome.pipelines);
}

#[test]
fn random_programs_give_what_the_interpreter_gives() {
    let given = |name: &str| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    let seed = given("FOREBAY_SEED").unwrap_or(20_261_121);
    let programs = given("FOREBAY_PROGRAMS").unwrap_or(40);
    println!("FOREBAY_SEED={seed}");
    let device = open(seed);
    let outcome = run_programs(&device, seed, programs).expect("it begins");
    check(&device, &outcome);
    assert!(outcome.pipelines as u64 > programs || programs < 10, "only {} pipelines ran there", outcome.pipelines);
}
