//! A device with what all queries on it share: compiled kernels, and the ring through which bytes reach it. One pipeline
//! has its turn at a time.
//!
//! Invariants: a kernel text is compiled once; what a turn places on the device is given back when the turn ends. The host
//! waits once for each [`Turn::fetch`], and where the ring is full.
//! Must not know: tables, chunks, what kernels compute.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use forebay_base::{ErrorKind, Result};

use crate::device::{Address, Buffer, Counters, Device, Function, Grid, Image, Memory, Stream};
use crate::emit::NAME;
use crate::kernels::{COMPACT, THREADS};
use crate::parameters::Parameters;
use crate::ring::Ring;

/// A kernel is worth to be launched behind so many bytes that are on their way: it takes some microseconds to launch one, and to
/// gather what several threads have described.
const WORTH_LAUNCHING_BYTES: u64 = 16 << 20;

/// Or behind this share of the device's memory, if that is less, but for the first of these bytes.
const WORTH_LAUNCHING_SHARE: u64 = 64;
const LEAST_WORTH_LAUNCHING_BYTES: u64 = 1 << 20;

/// A device that pipelines can run on.
#[derive(Debug)]
pub struct Processor {
    device: Arc<dyn Device>,
    shared: Mutex<Shared>,
    images: Arc<Mutex<Images>>,
    /// Threads that compile.
    compiling: Mutex<Vec<JoinHandle<()>>>,
}

impl Drop for Processor {
    fn drop(&mut self) {
        // A process must not end while a compiler works.
        let compiling = self.compiling.get_mut().unwrap_or_else(PoisonError::into_inner);
        compiling.drain(..).for_each(|thread| drop(thread.join()));
    }
}

/// By text: what was compiled beside queries; none where it is not done, or failed.
type Images = HashMap<String, Option<Image>>;

#[derive(Debug)]
struct Shared {
    ring: Ring,
    kernels: Stream,
    functions: HashMap<String, Function>,
}

impl Processor {
    /// Makes a device ready.
    pub fn new(device: Arc<dyn Device>) -> Result<Self> {
        let shared = Shared { ring: Ring::new(&device)?, kernels: device.stream()?, functions: HashMap::new() };
        Ok(Self { device, shared: Mutex::new(shared), images: Arc::default(), compiling: Mutex::default() })
    }

    /// The device.
    pub fn device(&self) -> &Arc<dyn Device> {
        &self.device
    }

    /// Compiles a text beside queries, once. Where that fails it is not tried again.
    fn compile_beside(&self, text: &str) {
        {
            let mut images = lock(&self.images);
            if images.contains_key(text) {
                return;
            }
            images.insert(text.to_owned(), None);
        }
        let (device, images, text) = (Arc::clone(&self.device), Arc::clone(&self.images), text.to_owned());
        let compile = move || {
            if let Ok(image) = device.compile(&text) {
                lock(&images).insert(text, Some(image));
            }
        };
        let mut compiling = self.compiling.lock().unwrap_or_else(PoisonError::into_inner);
        compiling.retain(|thread| !thread.is_finished());
        // Without a thread nothing is compiled, and the pipeline stays where it is.
        compiling.extend(std::thread::Builder::new().name("forebay-nvrtc".to_owned()).spawn(compile));
    }

    /// Waits for the turn of one pipeline.
    pub fn turn(&self) -> Result<Turn<'_>> {
        let shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        // What a turn that failed has left on its way.
        shared.ring.drain_all()?;
        let before = self.device.counters();
        let unlaunched_bytes = AtomicU64::new(0);
        Ok(Turn { processor: self, buffers: Vec::new(), before, compile_ns: 0, unlaunched_bytes, shared })
    }
}

/// The use of a device by one pipeline.
#[derive(Debug)]
pub struct Turn<'a> {
    processor: &'a Processor,
    /// Given back before anybody else's turn.
    buffers: Vec<Buffer>,
    before: Counters,
    compile_ns: u64,
    /// Bytes that were put on their way since the last launch.
    unlaunched_bytes: AtomicU64,
    shared: MutexGuard<'a, Shared>,
}

/// Brings bytes to the device of a [`Turn`], from several threads at a time.
#[derive(Debug, Clone, Copy)]
pub struct Uploader<'a> {
    device: &'a Arc<dyn Device>,
    ring: &'a Ring,
    unlaunched_bytes: &'a AtomicU64,
}

impl Uploader<'_> {
    /// Bytes on the device, as long as the buffer is kept.
    pub fn place(&self, bytes: &[u8]) -> Result<Buffer> {
        let buffer = Buffer::new(self.device, Memory::Device, bytes.len().max(8) as u64)?;
        self.ring.copy(buffer.address(), bytes)?;
        self.unlaunched_bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        Ok(buffer)
    }

    /// Whether so many bytes are on their way that a kernel is worth to be launched behind them: it runs while the next ones
    /// are copied.
    pub fn is_worth_launching(&self) -> bool {
        let share = self.device.limits().memory_bytes / WORTH_LAUNCHING_SHARE;
        let worth_it = share.clamp(LEAST_WORTH_LAUNCHING_BYTES, WORTH_LAUNCHING_BYTES);
        self.unlaunched_bytes.load(Ordering::Relaxed) >= worth_it
    }
}

impl Turn<'_> {
    /// Memory of the device, at least one word of it, until the turn ends.
    pub fn take(&mut self, bytes: u64) -> Result<Address> {
        let buffer = Buffer::new(&self.processor.device, Memory::Device, bytes.max(8))?;
        let address = buffer.address();
        self.buffers.push(buffer);
        Ok(address)
    }

    /// Memory of the device, as long as the buffer is kept.
    pub fn keep(&self, bytes: u64) -> Result<Buffer> {
        Buffer::new(&self.processor.device, Memory::Device, bytes.max(8))
    }

    /// Memory that holds zeros, as long as the buffer is kept.
    pub fn keep_zeros(&self, bytes: u64) -> Result<Buffer> {
        let buffer = self.keep(bytes)?;
        self.shared.ring.clear(buffer.address(), bytes.max(8))?;
        Ok(buffer)
    }

    /// Memory that holds zeros, until the turn ends.
    pub fn zeros(&mut self, bytes: u64) -> Result<Address> {
        let at = self.take(bytes)?;
        self.shared.ring.clear(at, bytes.max(8))?;
        Ok(at)
    }

    /// Bytes on the device, until the turn ends.
    pub fn place(&mut self, bytes: &[u8]) -> Result<Address> {
        let buffer = self.uploader().place(bytes)?;
        let address = buffer.address();
        self.buffers.push(buffer);
        Ok(address)
    }

    /// Brings bytes to memory of the device, which is kept until the turn ends.
    pub fn fill(&mut self, buffer: Buffer, bytes: &[u8]) -> Result<()> {
        self.unlaunched_bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        let copied = self.shared.ring.copy(buffer.address(), bytes);
        self.buffers.push(buffer);
        copied
    }

    /// What other threads bring bytes to the device by.
    pub fn uploader(&self) -> Uploader<'_> {
        let ring = &self.shared.ring;
        Uploader { device: &self.processor.device, ring, unlaunched_bytes: &self.unlaunched_bytes }
    }

    /// Whether the kernel of a text is at hand. Else it is compiled beside queries from now on.
    pub fn is_ready(&self, text: &str) -> bool {
        let is_here = self.shared.functions.contains_key(text)
            || matches!(lock(&self.processor.images).get(text), Some(Some(_)))
            || self.processor.device.has_image(text);
        if !is_here {
            self.processor.compile_beside(text);
        }
        is_here
    }

    /// The kernel of a text, compiled unless it is known.
    pub fn function(&mut self, text: &str) -> Result<Function> {
        if let Some(known) = self.shared.functions.get(text) {
            return Ok(*known);
        }
        let started = Instant::now();
        let known = lock(&self.processor.images).get(text).cloned().flatten();
        let image = match known {
            Some(image) => image,
            None => self.processor.device.compile(text)?,
        };
        let function = self.processor.device.load(&image, NAME)?;
        self.shared.functions.insert(text.to_owned(), function);
        self.compile_ns += started.elapsed().as_nanos() as u64;
        Ok(function)
    }

    /// Brings the groups together that are there, out of so many slots of so many words; gives where their number will be, and
    /// where they will lie, each behind the number of its slot.
    pub fn compact(&mut self, words: Address, slots: u64, slot_words: u64) -> Result<(Address, Address)> {
        let (count, kept) = (self.zeros(8)?, self.take(slots * (slot_words + 1) * 8)?);
        let function = self.function(COMPACT)?;
        let parameters = Parameters::compact(words, slots, slot_words, count, kept);
        self.launch(function, slots.div_ceil(u64::from(THREADS)), 0, &parameters)?;
        Ok((count, kept))
    }

    /// Runs a kernel over so many tiles, after all copies so far and the kernels before it.
    pub fn launch(&mut self, function: Function, tiles: u64, shared_bytes: u32, parameters: &Parameters) -> Result<()> {
        let device = &self.processor.device;
        self.shared.ring.precede(self.shared.kernels)?;
        let at_a_time = device.resident_blocks(function, THREADS, shared_bytes)?;
        let most = u64::from(device.limits().multiprocessors) * u64::from(at_a_time);
        let grid = Grid { blocks: tiles.clamp(1, most.max(1)) as u32, threads: THREADS, shared_bytes };
        self.unlaunched_bytes.store(0, Ordering::Relaxed);
        device.launch(self.shared.kernels, function, grid, &parameters.bytes())
    }

    /// Pieces of the device's memory as they are after all copies and kernels so far; waits for those.
    pub fn fetch(&mut self, pieces: &[(Address, u64)]) -> Result<Vec<Vec<u8>>> {
        let device = &self.processor.device;
        // No kernel may have been launched.
        self.shared.ring.precede(self.shared.kernels)?;
        let total = pieces.iter().map(|(_, bytes)| bytes).sum::<u64>();
        let pinned = Buffer::new(device, Memory::Pinned, total.max(8))?;
        let mut at = pinned.address();
        for (from, bytes) in pieces.iter().filter(|(_, bytes)| *bytes > 0) {
            device.copy(self.shared.kernels, at, *from, *bytes)?;
            at = at.offset(*bytes);
        }
        device.synchronize(self.shared.kernels)?;
        self.shared.ring.reset();
        let mut fetched = Vec::with_capacity(pieces.len());
        device.pinned(pinned.address(), total, &mut |all| {
            let mut rest = &all[..];
            for (_, bytes) in pieces {
                let (piece, after) = rest.split_at(*bytes as usize);
                fetched.push(piece.to_vec());
                rest = after;
            }
        })?;
        Ok(fetched)
    }

    /// What the turn has cost so far; times of what was fetched.
    pub fn cost(&self) -> Cost {
        let now = self.processor.device.counters();
        Cost {
            to_device_bytes: now.to_device_bytes - self.before.to_device_bytes,
            to_host_bytes: now.to_host_bytes - self.before.to_host_bytes,
            compile_ns: self.compile_ns,
            copy_ns: now.copy_ns - self.before.copy_ns,
            kernel_ns: now.kernel_ns - self.before.kernel_ns,
        }
    }
}

fn lock(images: &Mutex<Images>) -> MutexGuard<'_, Images> {
    images.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a turn has cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cost {
    /// Bytes that crossed the link to the device.
    pub to_device_bytes: u64,
    /// Bytes that crossed the link from the device.
    pub to_host_bytes: u64,
    /// Time to compile; 0 where the kernel was known.
    pub compile_ns: u64,
    /// Time of the copies, which overlap each other and kernels.
    pub copy_ns: u64,
    /// Time of the kernels.
    pub kernel_ns: u64,
}

/// Whether a device cannot go on after an error, so that it must be opened anew.
pub fn is_lost(kind: ErrorKind) -> bool {
    !matches!(
        kind,
        ErrorKind::OutOfMemory | ErrorKind::Unsupported | ErrorKind::Overflow | ErrorKind::Input | ErrorKind::Cancelled
    )
}
