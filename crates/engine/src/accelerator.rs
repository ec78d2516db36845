//! Devices beside the CPU: opened when a query first asks for one, each with the chunks that lie on it.
//!
//! Invariants: a chunk crosses the link once and stays until others need its place; a device that failed is forgotten with
//! all that was on it, and opened anew when it is asked for again.
//! Must not know: pipelines.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use forebay_base::Result;
use forebay_cache::ChunkCache;
use forebay_gpu::cuda::CudaDevice;
use forebay_gpu::device::{Buffer, Device};
use forebay_gpu::emulated::{EmulatedDevice, Options};
use forebay_gpu::{DeviceChoice, Processor};

use crate::ChunkKey;
use crate::described::DescribedColumns;

/// The share of a device's memory that chunks may take; the rest is for states and results.
const CHUNK_SHARE: u64 = 2;

/// A device and what lies on it.
#[derive(Debug)]
pub struct Accelerator {
    /// The device.
    pub processor: Processor,
    /// Chunks, as they lie in the host's memory once inflated. Least recently used for now; the proportional policy
    /// (HPCache §4) takes its place behind the same calls.
    pub chunks: ChunkCache<ChunkKey, Buffer>,
    /// How blocks lie there.
    pub(crate) described: DescribedColumns,
}

impl Accelerator {
    fn new(device: Arc<dyn Device>) -> Result<Arc<Self>> {
        let bytes = device.limits().memory_bytes / CHUNK_SHARE;
        let chunks = ChunkCache::new(usize::try_from(bytes).unwrap_or(usize::MAX));
        let described = DescribedColumns::default();
        Ok(Arc::new(Self { processor: Processor::new(device)?, chunks, described }))
    }
}

/// Rows of a table from which on a query opens a GPU unasked: that takes some tenths of a second, in which a CPU has such a
/// table done. A guess until it is measured.
const ROWS_WORTH_OPENING: u64 = 32 << 20;

/// The devices of a database.
#[derive(Debug, Default)]
pub struct Accelerators {
    gpu: Mutex<Option<Arc<Accelerator>>>,
    emulated: Mutex<Option<Arc<Accelerator>>>,
    /// There is no GPU, or it failed when nobody had asked for it: it is not tried again unasked.
    has_no_gpu: AtomicBool,
}

fn lock(slot: &Mutex<Option<Arc<Accelerator>>>) -> MutexGuard<'_, Option<Arc<Accelerator>>> {
    slot.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The device of a slot, opened if there is none yet.
fn opened<D: Device + 'static>(
    slot: &Mutex<Option<Arc<Accelerator>>>,
    open: impl FnOnce() -> Result<Arc<D>>,
) -> Result<Option<Arc<Accelerator>>> {
    let mut slot = lock(slot);
    if slot.is_none() {
        *slot = Some(Accelerator::new(open()?)?);
    }
    Ok(slot.clone())
}

impl Accelerators {
    /// Takes a device for a GPU.
    pub fn install(&self, device: Arc<dyn Device>) -> Result<()> {
        *lock(&self.gpu) = Some(Accelerator::new(device)?);
        Ok(())
    }

    /// Whether a query asked for with this setting can run here now; the error says what is missing and what to do.
    pub fn check_available(&self, choice: DeviceChoice) -> Result<()> {
        match choice {
            DeviceChoice::Gpu if lock(&self.gpu).is_some() => Ok(()),
            _ => choice.check_available(),
        }
    }

    /// Forgets all chunks on devices, so that the next query brings them there again.
    pub fn clear_chunks(&self) {
        for slot in [&self.gpu, &self.emulated] {
            if let Some(known) = &*lock(slot) {
                known.chunks.clear();
                known.described.clear();
            }
        }
    }

    /// Opens a GPU for a table of so many rows, if there is one and they are worth it.
    pub fn open_for(&self, rows: u64) {
        if rows < ROWS_WORTH_OPENING || self.has_no_gpu.load(Ordering::Relaxed) {
            return;
        }
        if opened(&self.gpu, CudaDevice::open).is_err() {
            self.has_no_gpu.store(true, Ordering::Relaxed);
        }
    }

    /// The device that a query runs on besides the CPU, if any: with `auto` a GPU that is open.
    pub fn get(&self, choice: DeviceChoice) -> Result<Option<Arc<Accelerator>>> {
        match choice {
            DeviceChoice::Cpu => Ok(None),
            DeviceChoice::Auto => Ok(lock(&self.gpu).clone()),
            DeviceChoice::Gpu => opened(&self.gpu, CudaDevice::open),
            DeviceChoice::Emulated => opened(&self.emulated, || EmulatedDevice::open(Options::default())),
        }
    }

    /// Forgets a device that failed.
    pub fn forget(&self, lost: &Arc<Accelerator>) {
        for slot in [&self.gpu, &self.emulated] {
            lock(slot).take_if(|known| Arc::ptr_eq(known, lost));
        }
    }
}
