//! A GPU by the CUDA driver. Nothing of CUDA is needed to build: driver and compiler are looked for when a device is opened,
//! and what is missing is one sentence.
//!
//! Invariants: a device that was opened can compile and run kernels. An error of the driver that is not about memory loses
//! the device: its context is destroyed with the last that holds it, and a new one is opened.
//! Must not know: pipelines.

mod compiler;
mod images;
mod libraries;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use forebay_base::Result;

use crate::device::{Address, Counters, Device, Event, Function, Grid, Image, Limits, Memory, Stream};
use crate::driver::cuda::{Context, Description, describe, start};
use compiler::Compiler;
use images::Images;

/// The share of the free memory that stays with the driver: for modules, stacks, and what others start.
const DRIVER_SHARE: u64 = 16;

/// A GPU.
#[derive(Debug)]
pub struct CudaDevice {
    limits: Limits,
    facts: Facts,
    compiler: Compiler,
    images: Images,
    state: Mutex<State>,
}

/// A GPU that can be opened, as far as can be said without opening it.
#[derive(Debug)]
pub struct Found {
    gpu: Description,
    compiler: Compiler,
    /// What is known of it.
    pub facts: Facts,
}

/// What is known of a GPU and of what drives it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// Its name.
    pub name: String,
    /// Compute capability, major and minor.
    pub capability: (u32, u32),
    /// Bytes of its memory.
    pub total_bytes: u64,
    /// Multiprocessors.
    pub multiprocessors: u32,
    /// The newest CUDA that the driver knows, major and minor.
    pub driver: (u32, u32),
    /// The version of NVRTC.
    pub compiler: (u32, u32),
    /// Where NVRTC was found.
    pub compiler_path: PathBuf,
}

/// Looks for driver, GPU and compiler. The error says in one sentence what is missing, and what to install.
pub fn find() -> Result<Found> {
    let driver = start()?;
    let gpu = describe()?;
    let compiler = Compiler::find(gpu.capability, driver)?;
    let facts = Facts {
        name: gpu.name.clone(),
        capability: gpu.capability,
        total_bytes: gpu.total_bytes,
        multiprocessors: gpu.multiprocessors,
        driver,
        compiler: compiler.version(),
        compiler_path: compiler.path().to_owned(),
    };
    Ok(Found { gpu, compiler, facts })
}

#[derive(Debug)]
struct State {
    context: Context,
    counters: Counters,
}

/// The driver by itself: the newest CUDA that it knows. The error says in one sentence what is missing.
pub fn find_driver() -> Result<(u32, u32)> {
    start()
}

/// The first GPU by itself, by name.
pub fn find_gpu() -> Result<String> {
    start()?;
    Ok(describe()?.name)
}

/// Where NVIDIA's library for decompression on a GPU is.
pub fn find_nvcomp() -> Option<PathBuf> {
    libraries::first(
        &["libnvcomp.so.5", "libnvcomp.so.4"],
        &["nvidia/nvcomp/lib64", "nvidia/libnvcomp/lib64"],
        "libnvcomp.so",
    )
}

/// Where NVIDIA's library for reads from a drive into the memory of a GPU is.
pub fn find_cufile() -> Option<PathBuf> {
    libraries::first(&["libcufile.so.0"], &["nvidia/cufile/lib", "nvidia/cu13/lib"], "libcufile.so")
}

/// NVRTC by itself, for a machine whose GPU is not known: its version and where it is.
pub fn find_compiler() -> Result<((u32, u32), PathBuf)> {
    let compiler = Compiler::find((9, 0), (u32::MAX, 0))?;
    Ok((compiler.version(), compiler.path().to_owned()))
}

impl CudaDevice {
    /// Opens the first GPU. The error says in one sentence what is missing, and what to install.
    pub fn open() -> Result<Arc<Self>> {
        Self::of(find()?)
    }

    /// Opens a GPU that was found.
    pub fn of(found: Found) -> Result<Arc<Self>> {
        let Found { gpu, compiler, facts } = found;
        let context = Context::open(&gpu)?;
        let free_bytes = context.free_bytes()?;
        let limits = Limits {
            name: gpu.name,
            memory_bytes: free_bytes - free_bytes / DRIVER_SHARE,
            multiprocessors: gpu.multiprocessors,
            shared_bytes: gpu.shared_bytes,
        };
        let state = Mutex::new(State { context, counters: Counters::default() });
        Ok(Arc::new(Self { limits, facts, compiler, images: Images::new(Images::folder_of_user()), state }))
    }

    /// What is known of it.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Device for CudaDevice {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn counters(&self) -> Counters {
        self.state().counters
    }

    fn allocate(&self, memory: Memory, bytes: u64) -> Result<Address> {
        let mut state = self.state();
        let address = state.context.allocate(memory, bytes)?;
        let counters = &mut state.counters;
        match memory {
            Memory::Device => counters.device_bytes += bytes,
            Memory::Pinned => counters.pinned_bytes += bytes,
        }
        counters.peak_device_bytes = counters.peak_device_bytes.max(counters.device_bytes);
        Ok(address)
    }

    fn free(&self, address: Address) -> Result<()> {
        let mut state = self.state();
        let freed = state.context.free(address)?;
        match freed.memory {
            Memory::Device => state.counters.device_bytes -= freed.bytes,
            Memory::Pinned => state.counters.pinned_bytes -= freed.bytes,
        }
        Ok(())
    }

    fn pinned(&self, at: Address, bytes: u64, visit: &mut dyn FnMut(&mut [u8])) -> Result<()> {
        // The lock is given back before the bytes are looked at: several threads fill pinned memory at a time.
        let pinned = self.state().context.pinned(at, bytes)?;
        pinned.visit(visit);
        Ok(())
    }

    fn stream(&self) -> Result<Stream> {
        self.state().context.stream().map(Stream)
    }

    fn event(&self) -> Result<Event> {
        self.state().context.event().map(Event)
    }

    fn record(&self, event: Event, stream: Stream) -> Result<()> {
        self.state().context.record(event.0, stream.0)
    }

    fn wait(&self, stream: Stream, event: Event) -> Result<()> {
        self.state().context.wait(stream.0, event.0)
    }

    fn copy(&self, stream: Stream, to: Address, from: Address, bytes: u64) -> Result<()> {
        let mut state = self.state();
        let between = [from, to].map(|at| state.context.allocations.memory(at, bytes, "a copy"));
        state.context.copy(stream.0, to, from, bytes)?;
        let [from, to] = between;
        let counters = &mut state.counters;
        match (from?, to?) {
            (Memory::Pinned, Memory::Device) => counters.to_device_bytes += bytes,
            (Memory::Device, Memory::Pinned) => counters.to_host_bytes += bytes,
            (Memory::Device, Memory::Device) => counters.within_device_bytes += bytes,
            (Memory::Pinned, Memory::Pinned) => {}
        }
        Ok(())
    }

    fn fill(&self, stream: Stream, to: Address, byte: u8, bytes: u64) -> Result<()> {
        let mut state = self.state();
        state.context.fill(stream.0, to, byte, bytes)?;
        state.counters.within_device_bytes += bytes;
        Ok(())
    }

    fn compile(&self, text: &str) -> Result<Image> {
        let key = self.compiler.key(text);
        if let Some(known) = self.images.get(&key) {
            return Ok(Image(known.into()));
        }
        self.state().counters.compilations += 1;
        let image = self.compiler.compile(text)?;
        self.images.put(&key, &image);
        Ok(Image(image.into()))
    }

    fn has_image(&self, text: &str) -> bool {
        self.images.get(&self.compiler.key(text)).is_some()
    }

    fn load(&self, image: &Image, name: &str) -> Result<Function> {
        self.state().context.load(&image.0, name).map(Function)
    }

    fn resident_blocks(&self, function: Function, threads: u32, shared_bytes: u32) -> Result<u32> {
        self.state().context.resident_blocks(function.0, threads, shared_bytes)
    }

    fn launch(&self, stream: Stream, function: Function, grid: Grid, parameters: &[u8]) -> Result<()> {
        let mut state = self.state();
        state.counters.launches += 1;
        state.context.launch(stream.0, function.0, grid, parameters)
    }

    fn synchronize(&self, stream: Stream) -> Result<()> {
        let mut state = self.state();
        state.counters.synchronizations += 1;
        state.context.synchronize(stream.0)?;
        let times = state.context.times();
        state.counters.copy_ns += times.copy_ns;
        state.counters.kernel_ns += times.kernel_ns;
        Ok(())
    }
}
