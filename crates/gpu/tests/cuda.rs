//! The CUDA device without a GPU: a stand-in for the driver (`driver/driver.cpp`) that fails as it is told, each time in a
//! process of its own, whose loader finds the stand-in before any real driver. NVRTC is real where `FOREBAY_NVRTC` names it.
//!
//! On a machine with a GPU, `FOREBAY_DEVICE=gpu` has the tests of `pipelines` run there.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use forebay_base::ErrorKind;
use forebay_gpu::cuda::CudaDevice;
use forebay_gpu::device::{Buffer, Device, Grid, Memory};
use forebay_gpu::processor::{Processor, is_lost};

/// Set in the processes that have the stand-in.
const INSIDE: &str = "FOREBAY_STAND_IN";

/// A stand-in for NVRTC, where there is none: its version is 12.9, and a cubin is the text behind four bytes.
const COMPILER: &str = r#"
#include <cstring>
#include <string>
extern "C" {
int nvrtcVersion(int* major, int* minor) { *major = 12; *minor = 9; return 0; }
int nvrtcCreateProgram(std::string** program, const char* text, const char*, int count, const char* const* bodies,
                       const char* const* names) {
    *program = new std::string(text);
    for (int at = 0; at < count; at++) (*program)->append(names[at]).append(bodies[at]);
    return 0;
}
int nvrtcCompileProgram(std::string* program, int count, const char* const* options) {
    if (count != 5 || std::strcmp(options[0], "--gpu-architecture=sm_90") != 0) return 5;
    return program->find("not C++") == std::string::npos ? 0 : 6;
}
int nvrtcDestroyProgram(std::string** program) { delete *program; return 0; }
int nvrtcGetProgramLogSize(std::string*, size_t* bytes) { *bytes = 64; return 0; }
int nvrtcGetProgramLog(std::string*, char* log) { std::strcpy(log, "pipeline.cu(1): error: not C++\n"); return 0; }
int nvrtcGetCUBINSize(std::string* program, size_t* bytes) { *bytes = program->size() + 4; return 0; }
int nvrtcGetCUBIN(std::string* program, char* cubin) {
    std::memcpy(cubin, "\x7f" "ELF", 4);
    std::memcpy(cubin + 4, program->data(), program->size());
    return 0;
}
const char* nvrtcGetErrorString(int code) { return code == 6 ? "NVRTC_ERROR_COMPILATION" : "NVRTC_ERROR"; }
}
"#;

/// A text that compiles to a kernel.
const TEXT: &str = "#include \"tile.cuh\"\nstruct Parameters { u64 at; };\nKERNEL(pipeline, Parameters) {}\n";

fn compile(folder: &Path, source: &Path, name: &str, flags: &[&str]) {
    let compiler = std::env::var("CXX").unwrap_or_else(|_| "c++".to_owned());
    let mut command = Command::new(compiler);
    command.args(["-std=c++17", "-O1", "-fPIC", "-shared", "-w"]).args(flags).arg(source);
    let status = command.arg("-o").arg(folder.join(name)).status().expect("this machine has a C++ compiler");
    assert!(status.success(), "{} does not compile", source.display());
}

/// Runs a test of this file again, with a stand-in that fails in a way.
fn with_driver(test: &str, mode: &str, flags: &[&str]) {
    let folder = tempfile::tempdir().expect("a folder");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/driver/driver.cpp");
    compile(folder.path(), &source, "libcuda.so", flags);
    let text = folder.path().join("nvrtc.cpp");
    std::fs::write(&text, COMPILER).expect("there is space");
    compile(folder.path(), &text, "libnvrtc.so", &[]);
    let nvrtc = std::env::var_os("FOREBAY_NVRTC").unwrap_or_else(|| folder.path().join("libnvrtc.so").into());
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["--exact", test, "--ignored", "--nocapture"]);
    command.env("LD_LIBRARY_PATH", folder.path()).env("FAKE_DRIVER", mode).env(INSIDE, "1");
    command.env("FOREBAY_NVRTC", nvrtc).env("XDG_CACHE_HOME", folder.path());
    let output = command.output().expect("this program runs");
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

/// The sentence with which a device does not open.
fn refusal() -> String {
    assert!(std::env::var_os(INSIDE).is_some(), "other tests run this one");
    let error = CudaDevice::open().expect_err("the stand-in fails");
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    error.to_string()
}

#[test]
fn a_driver_that_cannot_be_used_is_one_sentence() {
    with_driver("refused_none", "none", &[]);
    with_driver("refused_empty", "empty", &[]);
    with_driver("refused_old", "old", &[]);
    with_driver("refused_broken", "broken", &[]);
    with_driver("refused_incomplete", "", &["-DINCOMPLETE"]);
}

#[test]
#[ignore = "run by the test above"]
fn refused_none() {
    assert_eq!(
        refusal(),
        "the NVIDIA driver cannot start: no CUDA-capable device is detected (CUDA_ERROR). See whether nvidia-smi works"
    );
}

#[test]
#[ignore = "run by a test above"]
fn refused_empty() {
    assert_eq!(refusal(), "the NVIDIA driver finds no GPU. See whether nvidia-smi lists one");
}

#[test]
#[ignore = "run by a test above"]
fn refused_old() {
    assert_eq!(refusal(), "the NVIDIA driver is too old: it is of CUDA 11.4. Install version 525 or newer");
}

#[test]
#[ignore = "run by a test above"]
fn refused_broken() {
    assert_eq!(refusal(), "the NVIDIA driver cannot start: an error (CUDA_ERROR). See whether nvidia-smi works");
}

#[test]
#[ignore = "run by a test above"]
fn refused_incomplete() {
    assert_eq!(
        refusal(),
        "the NVIDIA driver is too old or broken: it has no cuLaunchKernel. Install version 525 or newer"
    );
}

#[test]
fn a_machine_without_a_driver_is_one_sentence() {
    // Where there is a driver, its answers are tested on a GPU.
    if let Err(error) = CudaDevice::open() {
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        println!("skipped on this machine: {error}");
        assert!(std::env::var_os("REQUIRE_GPU").is_none(), "REQUIRE_GPU is set, but {error}");
    }
}

#[test]
fn the_device_does_what_it_is_told() {
    with_driver("copies_kernels_and_memory", "", &[]);
}

#[test]
#[ignore = "run by the test above"]
fn copies_kernels_and_memory() {
    let opened = CudaDevice::open().expect("the stand-in works");
    assert_eq!((opened.facts().capability, opened.facts().driver), ((9, 0), (12, 8)));
    assert_eq!((opened.limits().name.as_str(), opened.limits().multiprocessors), ("Stand-in", 4));
    let device: Arc<dyn Device> = opened.clone();
    let buffer = |memory, bytes| Buffer::new(&device, memory, bytes).expect("there is memory");
    let (host, on_device) = (buffer(Memory::Pinned, 100), buffer(Memory::Device, 100));
    let (stream, event) = (device.stream().expect("a stream"), device.event().expect("an event"));
    device.pinned(host.address(), 100, &mut |bytes| bytes.fill(7)).expect("it is pinned");
    device.copy(stream, on_device.address(), host.address(), 100).expect("both are there");
    device.fill(stream, on_device.address().offset(10), 9, 5).expect("it is there");
    device.copy(stream, host.address(), on_device.address(), 50).expect("both are there");
    device.record(event, stream).expect("both are known");
    device.wait(stream, event).expect("both are known");
    device.synchronize(stream).expect("nothing failed");
    let mut seen = Vec::new();
    device.pinned(host.address(), 20, &mut |bytes| seen = bytes.to_vec()).expect("it is pinned");
    assert_eq!(seen, [&[7; 10][..], &[9; 5], &[7; 5]].concat());
    let counted = device.counters();
    assert_eq!((counted.to_device_bytes, counted.to_host_bytes, counted.within_device_bytes), (100, 50, 5));

    let image = device.compile(TEXT).expect("it is right");
    assert!(device.load(&image, "no such kernel").is_err());
    let kernel = device.load(&image, "pipeline").expect("it has it");
    let parameters = on_device.address().0.to_ne_bytes();
    device.launch(stream, kernel, Grid { blocks: 3, threads: 128, shared_bytes: 0 }, &parameters).expect("it runs");
    device.copy(stream, host.address(), on_device.address(), 4).expect("both are there");
    device.synchronize(stream).expect("nothing failed");
    device.pinned(host.address(), 4, &mut |bytes| seen = bytes.to_vec()).expect("it is pinned");
    assert_eq!(seen, 3u32.to_ne_bytes());

    let counted = device.counters();
    // Each of the stand-in's copies and kernels takes a quarter of a millisecond.
    assert_eq!((counted.copy_ns, counted.kernel_ns), (3 * 250_000, 250_000));

    let wrong = device.compile("this is not C++").expect_err("it is wrong");
    assert!(wrong.to_string().contains("NVRTC_ERROR_COMPILATION") && wrong.to_string().contains("error"), "{wrong}");
    assert_eq!(device.counters().compilations, 2);
    let again = CudaDevice::open().expect("the stand-in works");
    assert!(again.compile(TEXT).is_ok_and(|known| known == image), "the image on disk is another one");
    assert_eq!(again.counters().compilations, 0);

    let full = device.allocate(Memory::Device, 1 << 30).expect_err("there is too little");
    assert_eq!(full.kind(), ErrorKind::OutOfMemory, "{full}");
    assert!(!is_lost(full.kind()));
    for bytes in [101, u64::MAX] {
        let outside = device.copy(stream, on_device.address(), host.address(), bytes).expect_err("it is outside");
        assert_eq!(outside.kind(), ErrorKind::Internal);
        assert!(device.pinned(host.address(), bytes, &mut |_| ()).is_err());
        assert!(device.fill(stream, on_device.address(), 0, bytes).is_err());
    }
    assert!(device.pinned(on_device.address(), 1, &mut |_| ()).is_err(), "memory of the device");
    drop((host, on_device));

    // Memory that was given back is there for the next who asks, and for the driver when it has no more.
    let again = device.allocate(Memory::Device, 90).expect("there is memory");
    device.free(again).expect("it was given out");
    assert_eq!(device.allocate(Memory::Device, 90).expect("there is memory"), again);
    assert!(device.copy(stream, again, again.offset(50), 41).is_err(), "more room than was asked for is nobody's");
    device.free(again).expect("it was given out");
    assert!(device.free(again).is_err(), "it was given back");
    for mib in [40, 48, 56] {
        device.free(device.allocate(Memory::Device, mib << 20).expect("what is spare goes back")).expect("it is known");
    }
    assert_eq!((device.counters().device_bytes, device.counters().pinned_bytes), (0, 0));
}

#[test]
fn kernels_that_nobody_waits_for_are_compiled_beside() {
    with_driver("compiled_beside", "", &[]);
}

#[test]
#[ignore = "run by the test above"]
fn compiled_beside() {
    let device: Arc<dyn Device> = CudaDevice::open().expect("the stand-in works");
    let processor = Processor::new(Arc::clone(&device)).expect("streams and pinned memory");
    let is_ready = |text: &str| processor.turn().expect("nobody has it").is_ready(text);
    let wrong = "this is not C++";
    assert!(!is_ready(TEXT) && !is_ready(wrong), "nothing was compiled yet");
    let is_done = || device.counters().compilations == 2 && is_ready(TEXT);
    assert!(
        (0..6_000).any(|_| is_done() || {
            std::thread::sleep(Duration::from_millis(10));
            false
        }),
        "it ends"
    );
    processor.turn().expect("nobody has it").function(TEXT).expect("it is there");
    // What cannot be compiled is not tried again.
    assert!(!is_ready(wrong));
    drop(processor);
    assert_eq!(device.counters().compilations, 2);
}

#[test]
fn a_device_that_is_lost_says_so_and_a_new_one_opens() {
    with_driver("lost_after_a_launch", "lost", &[]);
}

#[test]
#[ignore = "run by the test above"]
fn lost_after_a_launch() {
    let device: Arc<dyn Device> = CudaDevice::open().expect("the stand-in works");
    let buffer = Buffer::new(&device, Memory::Device, 8).expect("there is memory");
    let stream = device.stream().expect("a stream");
    let kernel = device.load(&device.compile(TEXT).expect("it is right"), "pipeline").expect("it has it");
    let parameters = buffer.address().0.to_ne_bytes();
    device.launch(stream, kernel, Grid { blocks: 1, threads: 128, shared_bytes: 0 }, &parameters).expect("it starts");
    let lost = device.synchronize(stream).expect_err("the kernel failed");
    assert!(is_lost(lost.kind()) && lost.to_string().contains("CUDA_ERROR_ILLEGAL_ADDRESS"), "{lost}");
    assert!(lost.to_string().starts_with("the Stand-in cannot finish its work"), "{lost}");
    assert!(device.allocate(Memory::Device, 8).is_err_and(|error| is_lost(error.kind())));
    drop((buffer, device));
    let anew = CudaDevice::open().expect("a new context works");
    assert!(anew.allocate(Memory::Device, 8).is_ok());
}
