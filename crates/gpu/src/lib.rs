//! The second way to compute: pipelines on a graphics processor, or on an emulated one where there is none.
//!
//! A pipeline of the IR becomes the text of one kernel in CUDA C++ (`emit`), which calls the headers in `kernels/`. A
//! [`device::Device`] compiles and runs it: a GPU by the CUDA driver and NVRTC (`cuda`), or the emulated one (`emulated`),
//! which compiles the same text by the host's C++ compiler.
//! Invariants: nothing of CUDA at build time; the driver, the kernel compiler and the decoders are loaded at run time
//! where they are installed. Results are those of `forebay-cpu`, bit for bit on integers and decimals.
//! Must not know: tables, files of the database, SQL, how the CPU's states lie.
#![deny(unsafe_code)]

pub mod columns;
pub mod cuda;
pub mod device;
pub mod doctor;
#[allow(unsafe_code)]
mod driver;
pub mod emit;
pub mod emulated;
pub mod groups;
pub mod kernels;
pub mod parameters;
pub mod processor;
mod ring;
pub mod selftest;
mod setting;

pub use processor::Processor;
pub use setting::DeviceChoice;
