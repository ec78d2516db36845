//! The CUDA driver, loaded at run time: a context on a GPU with everything that was made in it.
//!
//! Invariants: the library is looked for, and its functions are, before the first of them is called: without a driver, or
//! with an old one, there is an error and no panic. Handles are made here and live as long as the context; addresses are
//! checked against what was allocated before they are used.
//! Must not know: kernel texts, counters.

use std::ffi::{CString, c_int, c_void};
use std::ptr::{null_mut, slice_from_raw_parts_mut};

use cudarc::driver::result::{self, DriverError, event, module, stream};
use cudarc::driver::sys::{self, CUdevice_attribute as Attribute, CUresult};
use forebay_base::{Error, ErrorKind, Result};

use super::memory::{Allocation, Allocations, room_for};
use crate::device::{Address, Grid, Memory};

/// The oldest version of CUDA whose driver loads what today's compilers make: 12.0, as the driver writes it.
const OLDEST_VERSION: c_int = 12_000;

/// Every function that is called, but for those below, which newer bindings leave out.
const FUNCTIONS: [&str; 28] = [
    "cuInit",
    "cuDriverGetVersion",
    "cuGetErrorName",
    "cuGetErrorString",
    "cuDeviceGet",
    "cuDeviceGetCount",
    "cuDeviceGetName",
    "cuDeviceGetAttribute",
    "cuDeviceTotalMem_v2",
    "cuCtxSetCurrent",
    "cuCtxSynchronize",
    "cuCtxDestroy_v2",
    "cuMemGetInfo_v2",
    "cuMemAlloc_v2",
    "cuMemFree_v2",
    "cuMemHostAlloc",
    "cuMemFreeHost",
    "cuMemcpyAsync",
    "cuMemsetD8Async",
    "cuStreamCreate",
    "cuStreamSynchronize",
    "cuStreamWaitEvent",
    "cuEventCreate",
    "cuEventRecord",
    "cuModuleLoadData",
    "cuModuleGetFunction",
    "cuOccupancyMaxActiveBlocksPerMultiprocessor",
    "cuLaunchKernel",
];

/// Makes a context; as it is since CUDA 3.2.
const CREATE_CONTEXT: &str = "cuCtxCreate_v2";
type CreateContext = unsafe extern "C" fn(*mut sys::CUcontext, u32, sys::CUdevice) -> CUresult;

/// The milliseconds between two events; as it is since CUDA 2.0.
const ELAPSED_TIME: &str = "cuEventElapsedTime";
type ElapsedTime = unsafe extern "C" fn(*mut f32, sys::CUevent, sys::CUevent) -> CUresult;

/// What the driver says of a GPU that nobody opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Description {
    device: sys::CUdevice,
    pub(crate) name: String,
    /// Compute capability, major and minor.
    pub(crate) capability: (u32, u32),
    pub(crate) multiprocessors: u32,
    pub(crate) shared_bytes: u32,
    /// Its memory, used or not.
    pub(crate) total_bytes: u64,
}

/// A context, with what was made in it. Destroying it gives all of it back.
#[derive(Debug)]
pub(crate) struct Context {
    context: sys::CUcontext,
    name: String,
    pub(crate) allocations: Allocations,
    streams: Vec<sys::CUstream>,
    events: Vec<sys::CUevent>,
    functions: Vec<sys::CUfunction>,
    /// What was put into streams and not asked yet how long it took.
    timed: Vec<Timed>,
    /// Pairs of events that time nothing now.
    spare_events: Vec<[sys::CUevent; 2]>,
}

/// Work between two events.
#[derive(Debug, Clone, Copy)]
struct Timed {
    is_kernel: bool,
    events: [sys::CUevent; 2],
}

/// How long work took that is over, in ns.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Times {
    pub(crate) copy_ns: u64,
    pub(crate) kernel_ns: u64,
}

/// Some bytes of pinned memory that are alive.
#[derive(Debug)]
pub(crate) struct Pinned {
    at: u64,
    bytes: u64,
}

impl Pinned {
    /// Looks at the bytes.
    pub(crate) fn visit(self, visit: &mut dyn FnMut(&mut [u8])) {
        // SAFETY: these bytes were initialised when they were allocated. Who asks for them keeps the allocation meanwhile, has
        // waited for copies that touch them, and lets nobody else look (`Device::pinned`).
        visit(unsafe { &mut *slice_from_raw_parts_mut(self.at as *mut u8, self.bytes as usize) });
    }
}

// SAFETY: the driver's handles may be used by any thread to which the context is current, and each call makes it so.
unsafe impl Send for Context {}

/// An error of the driver: `what` failed on `name`.
fn failure(what: &str, name: &str, error: DriverError) -> Error {
    let text = match (error.error_name(), error.error_string()) {
        (Ok(name), Ok(text)) => format!("{} ({})", text.to_string_lossy(), name.to_string_lossy()),
        _ => format!("error {}", error.0 as u32),
    };
    let kind = match error.0 {
        CUresult::CUDA_ERROR_OUT_OF_MEMORY => ErrorKind::OutOfMemory,
        _ => ErrorKind::Io,
    };
    Error::new(kind, format!("the {name} cannot {what}: {text}"))
}

/// Looks for the driver and all that is needed of it, and starts it: the newest CUDA that it knows, major and minor. The error
/// is one sentence.
pub(crate) fn start() -> Result<(u32, u32)> {
    // SAFETY: loading the driver runs its initialisers only.
    if !unsafe { sys::is_culib_present() } {
        return Err(Error::unsupported("there is no NVIDIA driver (libcuda.so.1)")
            .hint("Install the driver of your system, version 525 or newer"));
    }
    for name in FUNCTIONS.into_iter().chain([CREATE_CONTEXT, ELAPSED_TIME]) {
        // SAFETY: the address is not called, only looked up.
        if unsafe { sys::culib().get::<*const c_void>(name.as_bytes()) }.is_err() {
            return Err(Error::unsupported(format!("the NVIDIA driver is too old or broken: it has no {name}"))
                .hint("Install version 525 or newer"));
        }
    }
    let broken = |error| {
        let text = failure("start", "NVIDIA driver", error).message().to_owned();
        Error::unsupported(text).hint("See whether nvidia-smi works")
    };
    result::init().map_err(broken)?;
    let mut version = 0;
    // SAFETY: it writes the number and nothing else.
    unsafe { sys::cuDriverGetVersion(&raw mut version) }.result().map_err(broken)?;
    let (major, minor) = split(version);
    if version < OLDEST_VERSION {
        return Err(Error::unsupported(format!("the NVIDIA driver is too old: it is of CUDA {major}.{minor}"))
            .hint("Install version 525 or newer"));
    }
    Ok((major, minor))
}

/// Major and minor of a version as the driver writes it.
fn split(version: c_int) -> (u32, u32) {
    let version = version.unsigned_abs();
    (version / 1000, version % 1000 / 10)
}

/// The first GPU of a driver that was started.
pub(crate) fn describe() -> Result<Description> {
    let of_driver = |error| failure("describe a GPU", "NVIDIA driver", error);
    if result::device::get_count().map_err(of_driver)? == 0 {
        return Err(Error::unsupported("the NVIDIA driver finds no GPU").hint("See whether nvidia-smi lists one"));
    }
    let device = result::device::get(0).map_err(of_driver)?;
    let attribute = |attribute| -> Result<u32> {
        // SAFETY: the device came from the driver.
        let value = unsafe { result::device::get_attribute(device, attribute) }.map_err(of_driver)?;
        Ok(value.unsigned_abs())
    };
    let capability = (
        attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
        attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
    );
    Ok(Description {
        device,
        name: result::device::get_name(device).map_err(of_driver)?,
        capability,
        multiprocessors: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
        shared_bytes: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK)?,
        // SAFETY: the device came from the driver.
        total_bytes: unsafe { result::device::total_mem(device) }.map_err(of_driver)? as u64,
    })
}

impl Context {
    /// A context on a GPU.
    pub(crate) fn open(gpu: &Description) -> Result<Self> {
        let mut context = null_mut();
        // SAFETY: `start` found the function, which has this type; it writes one handle.
        unsafe {
            match sys::culib().get::<CreateContext>(CREATE_CONTEXT.as_bytes()) {
                Ok(create) => create(&raw mut context, 0, gpu.device).result(),
                Err(_) => Err(DriverError(CUresult::CUDA_ERROR_NOT_FOUND)),
            }
        }
        .map_err(|error| failure("be opened", &gpu.name, error))?;
        Ok(Self {
            context,
            name: gpu.name.clone(),
            allocations: Allocations::default(),
            streams: Vec::new(),
            events: Vec::new(),
            functions: Vec::new(),
            timed: Vec::new(),
            spare_events: Vec::new(),
        })
    }

    /// Bytes of memory that nobody has.
    pub(crate) fn free_bytes(&self) -> Result<u64> {
        self.call("say what memory it has", result::mem_get_info).map(|(free, _)| free as u64)
    }

    /// A call of the driver with this context current to the thread.
    fn call<T>(&self, what: &str, call: impl FnOnce() -> std::result::Result<T, DriverError>) -> Result<T> {
        // SAFETY: the context is alive as long as this.
        let entered = unsafe { result::ctx::set_current(self.context) };
        entered.and_then(|()| call()).map_err(|error| failure(what, &self.name, error))
    }

    /// Memory, aligned to 256 bytes: what was given back before, if it has this room. Where the driver has too little, what is
    /// spare goes back to it first.
    pub(crate) fn allocate(&mut self, memory: Memory, bytes: u64) -> Result<Address> {
        let room = room_for(bytes);
        let spare = match self.allocations.take_spare(memory, room) {
            None if self.allocations.is_worth_waiting_for(memory, room) => {
                self.settle()?;
                self.allocations.take_spare(memory, room)
            }
            taken => taken,
        };
        let address = match spare {
            Some(address) => Ok(address),
            None => match self.ask(memory, room) {
                Err(error) if error.kind() == ErrorKind::OutOfMemory && self.trim() => self.ask(memory, room),
                asked => asked,
            },
        };
        let address = address.map_err(|error| error.context(format!("{bytes} bytes of {memory}")))?;
        self.allocations.give(address, Allocation { memory, bytes, room });
        Ok(Address(address))
    }

    fn ask(&self, memory: Memory, room: u64) -> Result<u64> {
        let length = usize::try_from(room).unwrap_or(usize::MAX);
        match memory {
            // SAFETY: nothing uses the memory before it is in the table.
            Memory::Device => self.call("give memory", || unsafe { result::malloc_sync(length) }),
            Memory::Pinned => {
                // SAFETY: as above.
                let pointer = self.call("pin memory", || unsafe { result::malloc_host(length, 0) })?;
                // SAFETY: these bytes were just allocated on the host.
                unsafe { pointer.cast::<u8>().write_bytes(0, length) };
                Ok(pointer as u64)
            }
        }
    }

    /// Gives what is spare back to the driver, and what was given back; whether there was any.
    fn trim(&mut self) -> bool {
        let had_any = self.allocations.holds_any();
        // A context that has failed takes its memory with it.
        drop(self.settle());
        let spare = self.allocations.take_all_spare();
        spare.into_iter().for_each(|(memory, address)| drop(self.give_back(memory, address)));
        had_any
    }

    /// Waits for all work; what was given back is spare from then on, or the driver's.
    fn settle(&mut self) -> Result<()> {
        self.call("finish its work", result::ctx::synchronize)?;
        let too_large = self.allocations.settle();
        too_large.into_iter().try_for_each(|(memory, address)| self.give_back(memory, address))
    }

    fn give_back(&self, memory: Memory, address: u64) -> Result<()> {
        // SAFETY: the address came from the same kind of allocation; it is neither in the table nor spare any more.
        self.call("take memory back", || unsafe {
            match memory {
                Memory::Device => result::free_sync(address),
                Memory::Pinned => result::free_host(address as *mut c_void),
            }
        })
    }

    /// Takes memory back, which others get once all work so far is over. It is forgotten also where the context has failed.
    pub(crate) fn free(&mut self, at: Address) -> Result<Allocation> {
        let Some(allocation) = self.allocations.free(at.0) else { return Err(no_such("allocation")) };
        if self.allocations.has_freed_much() {
            self.settle()?;
        }
        Ok(allocation)
    }

    /// Bytes of pinned memory.
    pub(crate) fn pinned(&self, at: Address, bytes: u64) -> Result<Pinned> {
        match self.allocations.memory(at, bytes, "an access by the host")? {
            Memory::Pinned => Ok(Pinned { at: at.0, bytes }),
            Memory::Device => Err(Error::internal("the host looks at memory of the device")),
        }
    }

    /// A stream, by number.
    pub(crate) fn stream(&mut self) -> Result<u64> {
        let made = self.call("make a stream", || stream::create(stream::StreamKind::NonBlocking))?;
        self.streams.push(made);
        Ok(self.streams.len() as u64 - 1)
    }

    /// An event, by number.
    pub(crate) fn event(&mut self) -> Result<u64> {
        let made = self.call("make an event", || event::create(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING))?;
        self.events.push(made);
        Ok(self.events.len() as u64 - 1)
    }

    pub(crate) fn record(&self, event: u64, stream: u64) -> Result<()> {
        let (event, stream) = (known(&self.events, event, "event")?, known(&self.streams, stream, "stream")?);
        // SAFETY: both handles live as long as the context.
        self.call("record an event", || unsafe { event::record(event, stream) })
    }

    pub(crate) fn wait(&self, stream: u64, event: u64) -> Result<()> {
        let (event, stream) = (known(&self.events, event, "event")?, known(&self.streams, stream, "stream")?);
        let flags = sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT;
        // SAFETY: both handles live as long as the context.
        self.call("wait for an event", || unsafe { stream::wait_event(stream, event, flags) })
    }

    pub(crate) fn copy(&mut self, stream: u64, to: Address, from: Address, bytes: u64) -> Result<()> {
        self.allocations.memory(to, bytes, "a copy")?;
        self.allocations.memory(from, bytes, "a copy")?;
        let stream = known(&self.streams, stream, "stream")?;
        if bytes == 0 {
            return Ok(());
        }
        // SAFETY: both ranges were given out, on the device or pinned, where one address space holds for both; giving them back
        // waits for the copy.
        self.timed("copy", false, stream, || unsafe {
            sys::cuMemcpyAsync(to.0, from.0, bytes as usize, stream).result()
        })
    }

    /// Puts work into a stream, between two events that time it.
    fn timed(
        &mut self,
        what: &str,
        is_kernel: bool,
        stream: sys::CUstream,
        work: impl FnOnce() -> std::result::Result<(), DriverError>,
    ) -> Result<()> {
        let events = match self.spare_events.pop() {
            Some(spare) => spare,
            None => self.call("make an event", || {
                let make = || event::create(sys::CUevent_flags::CU_EVENT_DEFAULT);
                Ok([make()?, make()?])
            })?,
        };
        let [begin, end] = events;
        let outcome = self.call(what, || {
            // SAFETY: the events and the stream live as long as the context.
            unsafe { event::record(begin, stream) }?;
            work()?;
            // SAFETY: as above.
            unsafe { event::record(end, stream) }
        });
        self.timed.push(Timed { is_kernel, events });
        outcome
    }

    /// How long the work took that is over and was not asked for before.
    pub(crate) fn times(&mut self) -> Times {
        let mut times = Times::default();
        let mut left = Vec::new();
        for timed in std::mem::take(&mut self.timed) {
            let [begin, end] = timed.events;
            let mut milliseconds = 0.0;
            let elapsed = self.call("say how long its work took", || {
                // SAFETY: `start` found the function, which has this type; it writes one number, and both events live as long
                // as the context.
                unsafe {
                    match sys::culib().get::<ElapsedTime>(ELAPSED_TIME.as_bytes()) {
                        Ok(elapsed) => elapsed(&raw mut milliseconds, begin, end).result(),
                        Err(_) => Err(DriverError(CUresult::CUDA_ERROR_NOT_FOUND)),
                    }
                }
            });
            if elapsed.is_err() {
                // It is not over yet, or the context has failed.
                left.push(timed);
                continue;
            }
            let total = if timed.is_kernel { &mut times.kernel_ns } else { &mut times.copy_ns };
            *total += (f64::from(milliseconds) * 1e6) as u64;
            self.spare_events.push(timed.events);
        }
        self.timed = left;
        times
    }

    pub(crate) fn fill(&self, stream: u64, to: Address, byte: u8, bytes: u64) -> Result<()> {
        if self.allocations.memory(to, bytes, "a fill")? != Memory::Device {
            return Err(Error::internal("a fill of memory of the host"));
        }
        let stream = known(&self.streams, stream, "stream")?;
        if bytes == 0 {
            return Ok(());
        }
        // SAFETY: the range was given out; giving it back waits for the fill.
        self.call("fill memory", || unsafe { result::memset_d8_async(to.0, byte, bytes as usize, stream) })
    }

    /// Loads an image, which must be a whole cubin, and gives a kernel of it by number.
    pub(crate) fn load(&mut self, image: &[u8], name: &str) -> Result<u64> {
        let name = CString::new(name).map_err(|_| Error::internal("a name with a zero byte"))?;
        if !image.starts_with(b"\x7fELF") {
            return Err(Error::internal("an image that is no cubin"));
        }
        let loaded = self.call("load a kernel", || {
            // SAFETY: a cubin says its own length, which the compiler wrote and the cache checked. The module lives as long as
            // the context.
            unsafe { module::get_function(module::load_data(image.as_ptr().cast())?, name) }
        })?;
        self.functions.push(loaded);
        Ok(self.functions.len() as u64 - 1)
    }

    /// How many blocks of a kernel a multiprocessor runs at a time, at least one.
    pub(crate) fn resident_blocks(&self, function: u64, threads: u32, shared_bytes: u32) -> Result<u32> {
        let function = known(&self.functions, function, "kernel")?;
        let mut blocks = 0;
        let (threads, shared) = (threads as c_int, shared_bytes as usize);
        self.call("say how many blocks it runs", || {
            // SAFETY: it writes one number, and the function lives as long as the context.
            unsafe {
                sys::cuOccupancyMaxActiveBlocksPerMultiprocessor(&raw mut blocks, function, threads, shared).result()
            }
        })?;
        Ok(blocks.unsigned_abs().max(1))
    }

    pub(crate) fn launch(&mut self, stream: u64, function: u64, grid: Grid, parameters: &[u8]) -> Result<()> {
        let (function, stream) = (known(&self.functions, function, "kernel")?, known(&self.streams, stream, "stream")?);
        let mut bytes = parameters.len();
        let mut extra = [
            sys::CU_LAUNCH_PARAM_BUFFER_POINTER_AS_INT as usize as *mut c_void,
            parameters.as_ptr().cast_mut().cast(),
            sys::CU_LAUNCH_PARAM_BUFFER_SIZE_AS_INT as usize as *mut c_void,
            (&raw mut bytes).cast(),
            sys::CU_LAUNCH_PARAM_END_AS_INT as usize as *mut c_void,
        ];
        let (blocks, threads, shared) = (grid.blocks, grid.threads, grid.shared_bytes);
        // SAFETY: the driver copies the parameters, whose length it is told, before it returns. The kernel is of our own text,
        // which runs on the emulated device with every access checked.
        self.timed("launch a kernel", true, stream, || unsafe {
            let extra = extra.as_mut_ptr();
            sys::cuLaunchKernel(function, blocks, 1, 1, threads, 1, 1, shared, stream, null_mut(), extra).result()
        })
    }

    pub(crate) fn synchronize(&self, stream: u64) -> Result<()> {
        let stream = known(&self.streams, stream, "stream")?;
        // SAFETY: the stream lives as long as the context.
        self.call("finish its work", || unsafe { stream::synchronize(stream) })
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // Memory, pinned memory too, streams, events and modules go with it; a context that has failed goes, too.
        // SAFETY: nobody has a handle of the context any more.
        let _ = unsafe { sys::cuCtxDestroy_v2(self.context) };
    }
}

fn known<T: Copy>(table: &[T], number: u64, what: &str) -> Result<T> {
    usize::try_from(number).ok().and_then(|number| table.get(number).copied()).ok_or_else(|| no_such(what))
}

fn no_such(what: &str) -> Error {
    Error::internal(format!("the device has no such {what}"))
}
