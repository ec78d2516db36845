//! Devices beside the CPU: opened when a query first asks for one, each with the chunks that lie on it.
//!
//! Invariants: a chunk crosses the link once and stays until others need its place; a device that failed is forgotten with
//! all that was on it, and opened anew when it is asked for again.
//! Must not know: pipelines.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

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

/// Rows of a table from which on queries have a GPU opened unasked: opening takes 0.4 seconds (H200), in which a CPU has such a table
/// done.
const ROWS_WORTH_OPENING: u64 = 32 << 20;

/// How long a database is open before that: a process that runs one short query is done by then.
const OPEN_FOR_LONG: Duration = Duration::from_secs(1);

/// The devices of a database.
#[derive(Debug)]
pub struct Accelerators {
    gpu: Arc<Mutex<Option<Arc<Accelerator>>>>,
    emulated: Mutex<Option<Arc<Accelerator>>>,
    /// When the database was opened.
    since: Instant,
    /// A GPU was opened unasked, or it was tried.
    was_opened_unasked: AtomicBool,
    /// The thread that opens a GPU unasked, which is done once.
    opening: Mutex<Option<JoinHandle<()>>>,
}

impl Default for Accelerators {
    fn default() -> Self {
        Self {
            gpu: Arc::default(),
            emulated: Mutex::default(),
            since: Instant::now(),
            was_opened_unasked: AtomicBool::new(false),
            opening: Mutex::default(),
        }
    }
}

impl Drop for Accelerators {
    fn drop(&mut self) {
        // A process must not end while the driver starts.
        if let Some(opening) = self.opening.get_mut().unwrap_or_else(PoisonError::into_inner).take() {
            drop(opening.join());
        }
    }
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

    /// Has a GPU opened for queries over tables of so many rows, if there is one and they are worth it. Nobody waits for that.
    pub fn open_for(&self, rows: u64) {
        let is_time = rows >= ROWS_WORTH_OPENING && self.since.elapsed() >= OPEN_FOR_LONG;
        if !is_time || self.was_opened_unasked.swap(true, Ordering::Relaxed) {
            return;
        }
        let slot = Arc::clone(&self.gpu);
        let open = move || {
            if lock(&slot).is_none()
                && let Ok(opened) = CudaDevice::open().and_then(|device| Accelerator::new(device))
            {
                lock(&slot).get_or_insert(opened);
            }
        };
        // Without a thread queries stay on the CPU.
        let opening = std::thread::Builder::new().name("forebay-gpu".to_owned()).spawn(open).ok();
        *self.opening.lock().unwrap_or_else(PoisonError::into_inner) = opening;
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
