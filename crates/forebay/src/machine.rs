//! What this machine has for Forebay, how fast its drives are, and whether its devices compute right: `forebay doctor`,
//! `forebay selftest`.
//!
//! Must not know: databases that are open.

mod drive;

use std::path::Path;

use forebay_base::Result;
use forebay_disk::{IoMode, LocalDisk};
pub use forebay_engine::Device;
pub use forebay_engine::doctor::{Bandwidths, Finding};
use forebay_engine::selftest;
pub use forebay_engine::selftest::Outcome;

pub use drive::{DriveProbe, Reader};

/// What was found, part by part: ways to the drive of a folder, then what there is for GPUs.
pub fn doctor(folder: &Path) -> Vec<Finding> {
    let described = LocalDisk::open(folder, IoMode::Auto).map(|disk| disk.io_description());
    let text = described.unwrap_or_else(|error| error.to_string());
    let uring = LocalDisk::open(folder, IoMode::Uring).map(drop);
    let is_direct = text.contains("O_DIRECT");
    let mut findings = vec![
        Finding {
            part: "io_uring",
            is_there: uring.is_ok(),
            text: uring.map_or_else(|error| error.to_string(), |()| "works".to_owned()),
            brings: "many reads in flight without a thread for each; without it, a few threads read",
        },
        Finding {
            part: "O_DIRECT",
            is_there: is_direct,
            text: format!("{text}, in {}", folder.display()),
            brings: "reads that pass by the page cache; without it, each byte is copied once more",
        },
    ];
    findings.extend(forebay_engine::doctor::findings());
    findings
}

/// How fast bytes move to the device of a setting, measured by copies; nothing for the CPU, and where `auto` finds no GPU.
pub fn bandwidths(device: &str) -> Result<Option<Bandwidths>> {
    forebay_engine::doctor::bandwidths(device.parse()?)
}

/// Runs the differential suite on a device, `gpu` or `emulated`: the test files of the pipeline IR, and so many programs
/// made up from a seed, against the interpreter.
pub fn selftest(device: &str, seed: u64, programs: u64) -> Result<Outcome> {
    selftest::run(device.parse()?, seed, programs)
}
