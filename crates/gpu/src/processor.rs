//! A device with what all queries on it share: compiled kernels, and the ring through which bytes reach it. One pipeline
//! has its turn at a time.
//!
//! Invariants: a kernel text is compiled once; what a turn places on the device is given back when the turn ends. The host
//! waits once for each [`Turn::fetch`], and where the ring is full.
//! Must not know: tables, chunks, what kernels compute.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use forebay_base::{ErrorKind, Result};

use crate::device::{Address, Buffer, Counters, Device, Function, Grid, Memory, Stream};
use crate::emit::{Kernel, NAME};
use crate::kernels::THREADS;
use crate::parameters::Parameters;
use crate::ring::Ring;

/// Blocks of a grid for each multiprocessor: as many as usually run at a time.
const BLOCKS_PER_MULTIPROCESSOR: u64 = 4;

/// A device that pipelines can run on.
#[derive(Debug)]
pub struct Processor {
    device: Arc<dyn Device>,
    shared: Mutex<Shared>,
}

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
        Ok(Self { device, shared: Mutex::new(shared) })
    }

    /// The device.
    pub fn device(&self) -> &Arc<dyn Device> {
        &self.device
    }

    /// Waits for the turn of one pipeline.
    pub fn turn(&self) -> Result<Turn<'_>> {
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        // What a turn that failed has left on its way.
        shared.ring.drain_all()?;
        let before = self.device.counters();
        Ok(Turn { processor: self, buffers: Vec::new(), before, compile_ns: 0, shared })
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
    shared: MutexGuard<'a, Shared>,
}

impl Turn<'_> {
    /// Memory of the device, at least one word of it, until the turn ends.
    pub fn take(&mut self, bytes: u64) -> Result<Address> {
        let buffer = Buffer::new(&self.processor.device, Memory::Device, bytes.max(8))?;
        let address = buffer.address();
        self.buffers.push(buffer);
        Ok(address)
    }

    /// Memory that holds zeros.
    pub fn zeros(&mut self, bytes: u64) -> Result<Address> {
        let at = self.take(bytes)?;
        self.shared.ring.clear(at, bytes.max(8))?;
        Ok(at)
    }

    /// Bytes on the device, until the turn ends.
    pub fn place(&mut self, bytes: &[u8]) -> Result<Address> {
        let at = self.take(bytes.len() as u64)?;
        self.shared.ring.copy(at, bytes)?;
        Ok(at)
    }

    /// Bytes on the device, as long as the buffer is kept.
    pub fn place_kept(&mut self, bytes: &[u8]) -> Result<Buffer> {
        let buffer = Buffer::new(&self.processor.device, Memory::Device, bytes.len().max(8) as u64)?;
        self.shared.ring.copy(buffer.address(), bytes)?;
        Ok(buffer)
    }

    /// The kernel, compiled unless it is known.
    pub fn function(&mut self, kernel: &Kernel) -> Result<Function> {
        if let Some(known) = self.shared.functions.get(&kernel.text) {
            return Ok(*known);
        }
        let started = Instant::now();
        let image = self.processor.device.compile(&kernel.text)?;
        let function = self.processor.device.load(&image, NAME)?;
        self.shared.functions.insert(kernel.text.clone(), function);
        self.compile_ns += started.elapsed().as_nanos() as u64;
        Ok(function)
    }

    /// Runs a kernel over so many tiles, after all copies.
    pub fn launch(&mut self, function: Function, tiles: u64, shared_bytes: u32, parameters: &Parameters) -> Result<()> {
        let device = &self.processor.device;
        self.shared.ring.precede(self.shared.kernels)?;
        let most = u64::from(device.limits().multiprocessors) * BLOCKS_PER_MULTIPROCESSOR;
        let grid = Grid { blocks: tiles.clamp(1, most.max(1)) as u32, threads: THREADS, shared_bytes };
        device.launch(self.shared.kernels, function, grid, &parameters.bytes())
    }

    /// Pieces of the device's memory as they are after the kernel; waits for it.
    pub fn fetch(&mut self, pieces: &[(Address, u64)]) -> Result<Vec<Vec<u8>>> {
        let device = &self.processor.device;
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

    /// What the turn has cost: bytes to the device and back, and the time to compile in ns.
    pub fn cost(&self) -> Cost {
        let now = self.processor.device.counters();
        Cost {
            to_device_bytes: now.to_device_bytes - self.before.to_device_bytes,
            to_host_bytes: now.to_host_bytes - self.before.to_host_bytes,
            compile_ns: self.compile_ns,
        }
    }
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
}

/// Whether a device cannot go on after an error, so that it must be opened anew.
pub fn is_lost(kind: ErrorKind) -> bool {
    !matches!(
        kind,
        ErrorKind::OutOfMemory | ErrorKind::Unsupported | ErrorKind::Overflow | ErrorKind::Input | ErrorKind::Cancelled
    )
}
