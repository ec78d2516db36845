//! Devices beside the CPU: opened when a query first asks for one, each with the chunks that lie on it.
//!
//! Invariants: a chunk crosses the link once and stays until others need its place; a device that failed is forgotten with
//! all that was on it, and opened anew when it is asked for again.
//! Must not know: pipelines.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use forebay_base::{Error, Result};
use forebay_cache::ChunkCache;
use forebay_gpu::device::{Buffer, Device};
use forebay_gpu::emulated::{EmulatedDevice, Options};
use forebay_gpu::{DeviceChoice, Processor};

use crate::ChunkKey;

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
}

impl Accelerator {
    fn new(device: Arc<dyn Device>) -> Result<Arc<Self>> {
        let bytes = device.limits().memory_bytes / CHUNK_SHARE;
        let chunks = ChunkCache::new(usize::try_from(bytes).unwrap_or(usize::MAX));
        Ok(Arc::new(Self { processor: Processor::new(device)?, chunks }))
    }
}

/// The devices of a database.
#[derive(Debug, Default)]
pub struct Accelerators {
    gpu: Mutex<Option<Arc<Accelerator>>>,
    emulated: Mutex<Option<Arc<Accelerator>>>,
}

fn lock(slot: &Mutex<Option<Arc<Accelerator>>>) -> MutexGuard<'_, Option<Arc<Accelerator>>> {
    slot.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Accelerators {
    /// Takes a device for a GPU.
    pub fn install(&self, device: Arc<dyn Device>) -> Result<()> {
        *lock(&self.gpu) = Some(Accelerator::new(device)?);
        Ok(())
    }

    /// The device that a query runs on besides the CPU, if any.
    pub fn get(&self, choice: DeviceChoice) -> Result<Option<Arc<Accelerator>>> {
        match choice {
            DeviceChoice::Cpu => Ok(None),
            DeviceChoice::Auto => Ok(lock(&self.gpu).clone()),
            DeviceChoice::Gpu => match &*lock(&self.gpu) {
                Some(known) => Ok(Some(Arc::clone(known))),
                None => Err(Error::unsupported("there is no GPU").hint("SET device = auto")),
            },
            DeviceChoice::Emulated => {
                let mut slot = lock(&self.emulated);
                if slot.is_none() {
                    *slot = Some(Accelerator::new(EmulatedDevice::open(Options::default())?)?);
                }
                Ok(slot.clone())
            }
        }
    }

    /// Forgets a device that failed.
    pub fn forget(&self, lost: &Arc<Accelerator>) {
        for slot in [&self.gpu, &self.emulated] {
            lock(slot).take_if(|known| Arc::ptr_eq(known, lost));
        }
    }
}
