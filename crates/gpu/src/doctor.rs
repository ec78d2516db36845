//! What this machine has for pipelines on a GPU, part by part: what was found, what a missing part would bring, and how to
//! install it; and how fast bytes move there, measured.
//!
//! Must not know: databases, terminals.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use forebay_base::{Error, Result, units};

use crate::DeviceChoice;
use crate::cuda::{self, CudaDevice, Facts};
use crate::device::{Address, Buffer, Device, Memory, Stream};
use crate::emulated;

/// Bytes that one copy moves when bandwidths are measured: more than caches hold.
const COPY_BYTES: u64 = 256 << 20;
/// Copies of each kind, after one that is not counted.
const COPIES: u32 = 8;

/// One part of the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What it is.
    pub part: &'static str,
    /// Whether it is there and can be used.
    pub is_there: bool,
    /// What was found, or what is missing and what to do about it.
    pub text: String,
    /// What it is for.
    pub brings: &'static str,
}

/// How many bytes per second move, as seen by the host over some copies.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bandwidths {
    /// From pinned memory of the host to the device.
    pub to_device: f64,
    /// The way back.
    pub to_host: f64,
    /// Within the device's memory; each byte counted twice, since it is read and written.
    pub within_device: f64,
}

/// What there is for GPUs, in the order in which one part needs the other.
pub fn findings() -> Vec<Finding> {
    let mut findings = match cuda::find() {
        Ok(found) => of_gpu(&found.facts),
        Err(error) => without_gpu(&error),
    };
    findings.push(library("nvCOMP", cuda::find_nvcomp(), "nvidia-nvcomp-cu12"));
    findings.push(library("cuFile", cuda::find_cufile(), "nvidia-cufile-cu12"));
    let compiler = emulated::compiler_name();
    findings.push(finding("C++ compiler", compiler.is_ok(), compiler.unwrap_or_else(|error| error.to_string())));
    findings
}

fn finding(part: &'static str, is_there: bool, text: String) -> Finding {
    let brings = match part {
        "NVRTC" => "kernels compiled for this GPU",
        "nvCOMP" => "chunks decompressed on the GPU, which Forebay does not do yet",
        "cuFile" => "reads from the drive straight to the GPU, which Forebay does not do yet",
        "bandwidth" => "an idea of how fast a query can be",
        "C++ compiler" => "the emulated device (SET device = emulated), which checks kernels without a GPU",
        _ => "pipelines on a GPU (SET device = gpu)",
    };
    Finding { part, is_there, text, brings }
}

/// A library that is found as a file, or not.
fn library(part: &'static str, found: Option<PathBuf>, package: &str) -> Finding {
    let missing = || format!("{part} is not installed. pip install {package}");
    finding(part, found.is_some(), found.map_or_else(missing, |path| path.display().to_string()))
}

fn version((major, minor): (u32, u32)) -> String {
    format!("{major}.{minor}")
}

fn driver(known: (u32, u32)) -> Finding {
    finding("NVIDIA driver", true, format!("for CUDA {}", version(known)))
}

fn compiler(known: (u32, u32), path: &Path) -> Finding {
    finding("NVRTC", true, format!("{}, {}", version(known), path.display()))
}

fn of_gpu(facts: &Facts) -> Vec<Finding> {
    let gpu = format!(
        "{}, compute capability {}, {} of memory, {} multiprocessors",
        facts.name,
        version(facts.capability),
        units::format_bytes(facts.total_bytes),
        facts.multiprocessors,
    );
    let bandwidth = match CudaDevice::open().and_then(|device| measure(&(device as Arc<dyn Device>), COPY_BYTES)) {
        Ok(measured) => finding("bandwidth", true, measured.to_string()),
        Err(error) => finding("bandwidth", false, error.to_string()),
    };
    let compiler = compiler(facts.compiler, &facts.compiler_path);
    vec![driver(facts.driver), finding("GPU", true, gpu), compiler, bandwidth]
}

/// Each part by itself, where they are not all there; `error` says what is missing first.
fn without_gpu(error: &Error) -> Vec<Finding> {
    let driver = match cuda::find_driver() {
        Ok(known) => driver(known),
        Err(missing) => finding("NVIDIA driver", false, missing.to_string()),
    };
    let gpu = match cuda::find_gpu() {
        Ok(name) => finding("GPU", true, name),
        Err(_) if !driver.is_there => finding("GPU", false, "none is seen without a driver".to_owned()),
        Err(missing) => finding("GPU", false, missing.to_string()),
    };
    let compiler = match cuda::find_compiler() {
        // It is the compiler that does not fit the driver or the GPU.
        _ if gpu.is_there => finding("NVRTC", false, error.to_string()),
        Ok((version, path)) => compiler(version, &path),
        Err(missing) => finding("NVRTC", false, missing.to_string()),
    };
    vec![driver, gpu, compiler]
}

/// How fast bytes move to the device of a setting; nothing for the CPU, and where `auto` finds no GPU.
pub fn bandwidths(choice: DeviceChoice) -> Result<Option<Bandwidths>> {
    let (device, copy_bytes) = match choice {
        DeviceChoice::Cpu => return Ok(None),
        DeviceChoice::Auto => (CudaDevice::open().ok().map(|device| device as Arc<dyn Device>), COPY_BYTES),
        DeviceChoice::Gpu => (choice.open()?, COPY_BYTES),
        // It copies as the host does, and slower.
        DeviceChoice::Emulated => (choice.open()?, COPY_BYTES / 16),
    };
    device.map(|device| measure(&device, copy_bytes)).transpose()
}

/// Measures how fast bytes move, with copies of so many bytes, or fewer where the device has less memory.
pub fn measure(device: &Arc<dyn Device>, copy_bytes: u64) -> Result<Bandwidths> {
    let bytes = copy_bytes.min(device.limits().memory_bytes / 4);
    let host = Buffer::new(device, Memory::Pinned, bytes)?;
    let one = Buffer::new(device, Memory::Device, bytes)?;
    let other = Buffer::new(device, Memory::Device, bytes)?;
    // Bytes that no memory keeps shorter than they are.
    device.pinned(host.address(), bytes, &mut |all| {
        all.iter_mut().enumerate().for_each(|(at, byte)| *byte = (at.wrapping_mul(0x9E37_79B1) >> 16) as u8);
    })?;
    let stream = device.stream()?;
    let rate = |to: &Buffer, from: &Buffer| copy_rate(device, stream, to.address(), from.address(), bytes);
    let to_device = rate(&one, &host)?;
    let within_device = 2.0 * rate(&other, &one)?;
    Ok(Bandwidths { to_device, to_host: rate(&host, &other)?, within_device })
}

/// Bytes per second of some copies one after the other.
fn copy_rate(device: &Arc<dyn Device>, stream: Stream, to: Address, from: Address, bytes: u64) -> Result<f64> {
    device.copy(stream, to, from, bytes)?;
    device.synchronize(stream)?;
    let started = Instant::now();
    for _ in 0..COPIES {
        device.copy(stream, to, from, bytes)?;
    }
    device.synchronize(stream)?;
    Ok(bytes as f64 * f64::from(COPIES) / started.elapsed().as_secs_f64().max(1e-9))
}

impl std::fmt::Display for Bandwidths {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let rate = |bytes: f64| units::format_bytes(bytes as u64) + "/s";
        let (to, back, within) = (rate(self.to_device), rate(self.to_host), rate(self.within_device));
        write!(f, "{to} to the device, {back} back, {within} within its memory")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::emulated::{EmulatedDevice, Options};

    #[test]
    fn a_measurement_moves_what_it_says_and_gives_it_back() {
        let device: Arc<dyn Device> = EmulatedDevice::open(Options::default()).expect("there is a C++ compiler");
        let measured = measure(&device, 1 << 20).expect("it has memory");
        assert!([measured.to_device, measured.to_host, measured.within_device].iter().all(|rate| *rate > 0.0));
        let counted = device.counters();
        let moved = u64::from(COPIES + 1) << 20;
        assert_eq!(
            (counted.to_device_bytes, counted.to_host_bytes, counted.within_device_bytes),
            (moved, moved, moved)
        );
        assert_eq!((counted.device_bytes, counted.pinned_bytes), (0, 0));
    }

    #[test]
    fn each_part_is_named_once() {
        let found = findings();
        let parts: Vec<&str> = found.iter().map(|finding| finding.part).collect();
        for part in ["NVIDIA driver", "GPU", "NVRTC", "nvCOMP", "cuFile", "C++ compiler"] {
            assert!(parts.contains(&part), "{parts:?} without {part}");
        }
        assert!(parts.iter().enumerate().all(|(at, part)| !parts[..at].contains(part)), "{parts:?}");
        assert!(found.iter().all(|finding| !finding.text.is_empty()));
    }
}
