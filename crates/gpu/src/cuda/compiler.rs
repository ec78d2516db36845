//! Kernel texts to cubins for the architecture of a device, by NVRTC wherever it is installed.
//!
//! Must not know: what a text computes.

use std::path::{Path, PathBuf};

use forebay_base::{Error, Result};

use super::libraries::places;
use crate::driver::nvrtc::Nvrtc;
use crate::kernels::headers_of;

/// The file of NVRTC to use, if it is not to be looked for.
const VARIABLE: &str = "FOREBAY_NVRTC";

/// Names under which the system's loader may find it, newest first.
const NAMES: [&str; 3] = ["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"];

/// Folders of a Python environment's packages in which PyPI's `nvidia-cuda-nvrtc` keeps it.
const WHEEL_FOLDERS: [&str; 2] = ["nvidia/cu13/lib", "nvidia/cuda_nvrtc/lib"];

/// Options beside the architecture. A multiplication and an addition are rounded one by one, as on the CPU.
const OPTIONS: [&str; 4] = ["--std=c++17", "--fmad=false", "--device-int128", "--device-as-default-execution-space"];

/// NVRTC with the options for a device.
#[derive(Debug)]
pub(super) struct Compiler {
    nvrtc: Nvrtc,
    options: Vec<String>,
}

impl Compiler {
    /// The first NVRTC that is found and that makes what the driver loads.
    pub(super) fn find(capability: (u32, u32), driver: (u32, u32)) -> Result<Self> {
        let (mut newer, mut broken) = (None, None);
        for path in candidates() {
            match Nvrtc::load(&path) {
                Ok(nvrtc) if nvrtc.version.0 > driver.0 => newer = newer.or(Some(nvrtc.version)),
                Ok(nvrtc) => {
                    let options = options(capability);
                    return Ok(Self { nvrtc, options });
                }
                // A name that the loader does not know is none that is there.
                Err(error) if path.is_absolute() => broken = broken.or(Some(error)),
                Err(_) => {}
            }
        }
        // The package of CUDA 13 has no number in its name.
        let package = if driver.0 > 12 { "nvidia-cuda-nvrtc" } else { "nvidia-cuda-nvrtc-cu12" };
        let hint = format!("pip install {package}, or name libnvrtc.so in {VARIABLE}");
        let message = match (newer, broken) {
            (Some((major, minor)), _) => {
                format!("NVRTC {major}.{minor} is too new for this driver, which is of CUDA {}.{}", driver.0, driver.1)
            }
            (None, Some(error)) => format!("NVRTC, the compiler of kernels, cannot be loaded: {}", error.message()),
            (None, None) => "NVRTC, the compiler of kernels, is not installed".to_owned(),
        };
        Err(Error::unsupported(message).hint(hint))
    }

    pub(super) fn version(&self) -> (u32, u32) {
        self.nvrtc.version
    }

    pub(super) fn path(&self) -> &Path {
        &self.nvrtc.path
    }

    /// Everything that the image of a text depends on.
    pub(super) fn key(&self, text: &str) -> String {
        let (major, minor) = self.nvrtc.version;
        let mut key = format!("NVRTC {major}.{minor}\n{}\n", self.options.join(" "));
        for (name, body) in headers_of(text).into_iter().chain([("", text)]) {
            key += &format!("{name} {}\n{body}", body.len());
        }
        key
    }

    /// A text as a cubin.
    pub(super) fn compile(&self, text: &str) -> Result<Vec<u8>> {
        self.nvrtc.compile(text, &headers_of(text), &self.options)
    }
}

fn options((major, minor): (u32, u32)) -> Vec<String> {
    let architecture = format!("--gpu-architecture=sm_{major}{minor}");
    [architecture].into_iter().chain(OPTIONS.map(str::to_owned)).collect()
}

/// Where NVRTC may be, in the order in which it is tried.
fn candidates() -> Vec<PathBuf> {
    match std::env::var_os(VARIABLE).filter(|given| !given.is_empty()) {
        Some(given) => vec![PathBuf::from(given)],
        None => places(&NAMES, &WHEEL_FOLDERS, "libnvrtc.so"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_name_the_architecture() {
        assert_eq!(options((9, 0))[0], "--gpu-architecture=sm_90");
        assert_eq!(options((12, 0))[0], "--gpu-architecture=sm_120");
    }

    #[test]
    fn what_is_measured_is_what_is_run() {
        let script = include_str!("../../tests/nvrtc.py");
        let options = OPTIONS.map(|option| format!("\"{option}\"")).join(", ");
        assert!(script.contains(&format!("OPTIONS = [{options}]")), "tests/nvrtc.py has other options");
    }
}
