//! The calls that the compiler cannot check: libraries loaded at run time, memory by address, the emulated processor, CUDA.
//!
//! Invariants: an address is read or written only within a [`Block`] that is alive; what was loaded stays loaded.
//! Must not know: streams, pipelines.

pub(crate) mod cuda;
mod memory;
pub(crate) mod nvrtc;

use std::alloc::{Layout, alloc, dealloc};
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use forebay_base::{Error, ErrorKind, Result};

const NOW: c_int = 2;
const GLOBAL: c_int = 0x100;

unsafe extern "C" {
    fn dlopen(name: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
    fn dlerror() -> *const c_char;
}

/// A shared object, which stays loaded.
#[derive(Debug)]
pub(crate) struct Library(NonNull<c_void>);

// SAFETY: the handle is only given to dlsym, which any thread may call.
unsafe impl Send for Library {}
// SAFETY: as above.
unsafe impl Sync for Library {}

impl Library {
    /// Loads a shared object. `global` lets those that are loaded later refer to its functions.
    pub(crate) fn open(path: &Path, global: bool) -> Result<Self> {
        let name = c_string(&path.to_string_lossy())?;
        // SAFETY: the name ends in 0. What the object does when it is loaded is ours, since we compiled it, or its
        // vendor's.
        let handle = unsafe { dlopen(name.as_ptr(), if global { NOW | GLOBAL } else { NOW }) };
        NonNull::new(handle).map(Self).ok_or_else(|| Error::internal(format!("cannot load a library: {}", reason())))
    }

    /// The address of a function.
    pub(crate) fn function(&self, name: &str) -> Result<NonNull<c_void>> {
        let text = c_string(name)?;
        // SAFETY: the handle came from dlopen and the name ends in 0.
        let address = unsafe { dlsym(self.0.as_ptr(), text.as_ptr()) };
        NonNull::new(address).ok_or_else(|| Error::internal(format!("a library has no function {name}")))
    }
}

fn c_string(text: &str) -> Result<CString> {
    CString::new(text).map_err(|_| Error::internal("a name with a zero byte"))
}

fn reason() -> String {
    // SAFETY: dlerror gives null, or a text that ends in 0 and lives until this thread's next call.
    unsafe {
        let text = dlerror();
        if text.is_null() { "no reason given".to_owned() } else { CStr::from_ptr(text).to_string_lossy().into_owned() }
    }
}

/// Bytes on the heap that kernels reach by address.
#[derive(Debug)]
pub(crate) struct Block {
    pointer: NonNull<u8>,
    layout: Layout,
}

// SAFETY: a block owns its memory as a box does.
unsafe impl Send for Block {}

impl Block {
    /// Memory that holds one byte everywhere.
    pub(crate) fn new(bytes: usize, align: usize, byte: u8) -> Result<Self> {
        let too_large = || Error::new(ErrorKind::OutOfMemory, format!("cannot allocate {bytes} bytes"));
        let layout = Layout::from_size_align(bytes.max(1), align).map_err(|_| too_large())?;
        // SAFETY: the layout is of at least one byte.
        let pointer = NonNull::new(unsafe { alloc(layout) }).ok_or_else(too_large)?;
        // SAFETY: these bytes were just allocated.
        unsafe { pointer.as_ptr().write_bytes(byte, layout.size()) };
        Ok(Self { pointer, layout })
    }

    /// Where it begins.
    pub(crate) fn address(&self) -> u64 {
        self.pointer.as_ptr() as u64
    }

    /// All its bytes.
    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: they are alive and initialised; no kernel runs while the caller, which owns the device's lock, has them.
        unsafe { std::slice::from_raw_parts_mut(self.pointer.as_ptr(), self.layout.size()) }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: it was allocated with this layout.
        unsafe { dealloc(self.pointer.as_ptr(), self.layout) };
    }
}

/// A live buffer, and which of its bytes a launch touched: `EmulatedBuffer` of `emulator/runtime.cpp`.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct TouchedBuffer {
    pub(crate) from: u64,
    pub(crate) to: u64,
    read_from: AtomicU64,
    read_to: AtomicU64,
    written_from: AtomicU64,
    written_to: AtomicU64,
}

impl TouchedBuffer {
    pub(crate) fn new(from: u64, to: u64) -> Self {
        let none = || (AtomicU64::new(u64::MAX), AtomicU64::new(0));
        let ((read_from, read_to), (written_from, written_to)) = (none(), none());
        Self { from, to, read_from, read_to, written_from, written_to }
    }

    /// The bytes that were read and those that were written, from the first to behind the last one.
    pub(crate) fn touched(&self) -> [Option<(u64, u64)>; 2] {
        let range = |from: &AtomicU64, to: &AtomicU64| {
            let (from, to) = (from.load(Ordering::Relaxed), to.load(Ordering::Relaxed));
            (from < to).then_some((from, to))
        };
        [range(&self.read_from, &self.read_to), range(&self.written_from, &self.written_to)]
    }
}

/// `EmulatedLaunch` of `emulator/runtime.cpp`.
#[repr(C)]
struct EmulatedLaunch {
    kernel: *const c_void,
    parameters: *const u8,
    parameter_bytes: u64,
    buffers: *mut TouchedBuffer,
    buffer_count: u64,
    blocks: u32,
    threads: u32,
    shared_bytes: u32,
    workers: u32,
    seed: u64,
    message: *mut u8,
    message_bytes: u64,
}

/// A kernel to run on the emulated processor.
#[derive(Debug)]
pub(crate) struct KernelRun<'a> {
    pub(crate) kernel: NonNull<c_void>,
    pub(crate) parameters: &'a [u64],
    pub(crate) buffers: &'a mut [TouchedBuffer],
    pub(crate) blocks: u32,
    pub(crate) threads: u32,
    pub(crate) shared_bytes: u32,
    pub(crate) workers: u32,
    pub(crate) seed: u64,
}

// SAFETY: the address of a function in a library that stays loaded may be called by any thread.
unsafe impl Send for KernelRun<'_> {}

/// The address of a kernel in a library that stays loaded.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KernelAddress(pub(crate) NonNull<c_void>);

// SAFETY: as above.
unsafe impl Send for KernelAddress {}

/// Runs a kernel; a check that failed is the message.
pub(crate) fn run_kernel(runtime: &Library, run: &mut KernelRun<'_>) -> Result<()> {
    let entry = runtime.function("emulated_launch")?;
    let mut message = vec![0u8; 512];
    let mut launch = EmulatedLaunch {
        kernel: run.kernel.as_ptr(),
        parameters: run.parameters.as_ptr().cast(),
        parameter_bytes: size_of_val(run.parameters) as u64,
        buffers: run.buffers.as_mut_ptr(),
        buffer_count: run.buffers.len() as u64,
        blocks: run.blocks,
        threads: run.threads,
        shared_bytes: run.shared_bytes,
        workers: run.workers,
        seed: run.seed,
        message: message.as_mut_ptr(),
        message_bytes: message.len() as u64 - 1,
    };
    // SAFETY: the function has this type in runtime.cpp.
    let function: unsafe extern "C" fn(*mut EmulatedLaunch) -> c_int = unsafe { std::mem::transmute(entry.as_ptr()) };
    // SAFETY: everything that the launch points to outlives the call. The kernel touches what its parameters point to; an
    // address outside of the device's buffers ends the launch with a message before it is used.
    let failed = unsafe { function(&raw mut launch) } != 0;
    if !failed {
        return Ok(());
    }
    let end = message.iter().position(|byte| *byte == 0).unwrap_or(0);
    Err(Error::internal(format!("a kernel failed a check: {}", String::from_utf8_lossy(&message[..end]))))
}
