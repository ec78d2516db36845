//! Bytes on their way to a device: a ring of slots of pinned memory, each with a stream of its own, so that several threads
//! fill slots while others are copied.
//!
//! Invariants: a slot is written again only when the host has waited for its copies; one thread has a slot at a time. Must not
//! know: what the bytes mean.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use forebay_base::Result;

use crate::device::{Address, Buffer, Device, Event, Memory, Stream};

/// Bytes of a slot: copies of this size, one behind the other, reach the link's bandwidth.
pub(crate) const SLOT_BYTES: u64 = 1 << 20;

/// Slots: as many as threads fill at a time, and some on their way.
const SLOTS: usize = 16;

/// The ring of a device.
#[derive(Debug)]
pub(crate) struct Ring {
    device: Arc<dyn Device>,
    slots: Vec<Mutex<Slot>>,
    /// The slot that is waited for next where none has room.
    next: AtomicUsize,
}

#[derive(Debug)]
struct Slot {
    memory: Buffer,
    stream: Stream,
    copied: Event,
    /// Bytes that copies read which nobody has waited for.
    used: u64,
    /// Something was put into the stream that no kernel was told to come after.
    is_ahead: bool,
}

impl Ring {
    pub(crate) fn new(device: &Arc<dyn Device>) -> Result<Self> {
        let slot = |_| -> Result<Mutex<Slot>> {
            let memory = Buffer::new(device, Memory::Pinned, SLOT_BYTES)?;
            let (stream, copied) = (device.stream()?, device.event()?);
            Ok(Mutex::new(Slot { memory, stream, copied, used: 0, is_ahead: false }))
        };
        let slots = (0..SLOTS).map(slot).collect::<Result<_>>()?;
        Ok(Self { device: Arc::clone(device), slots, next: AtomicUsize::new(0) })
    }

    /// Puts a copy of bytes to device memory into a stream of the ring. Waits only where all slots are on their way.
    pub(crate) fn copy(&self, to: Address, bytes: &[u8]) -> Result<()> {
        for (number, piece) in bytes.chunks(SLOT_BYTES as usize).enumerate() {
            let length = piece.len() as u64;
            let mut slot = self.with_room(length)?;
            let from = slot.memory.address().offset(slot.used);
            self.device.pinned(from, length, &mut |pinned| pinned.copy_from_slice(piece))?;
            // Also where the copy fails: whoever goes on waits for the slot.
            slot.used += length;
            slot.is_ahead = true;
            self.device.copy(slot.stream, to.offset(number as u64 * SLOT_BYTES), from, length)?;
        }
        Ok(())
    }

    /// A slot for so many bytes: the first one that has room and that no other thread fills, else the next one in turn.
    fn with_room(&self, bytes: u64) -> Result<MutexGuard<'_, Slot>> {
        let free = self.slots.iter().filter_map(|slot| slot.try_lock().ok());
        if let Some(slot) = free.into_iter().find(|slot| slot.used + bytes <= SLOT_BYTES) {
            return Ok(slot);
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed) % self.slots.len();
        let mut slot = lock(&self.slots[number]);
        if slot.used + bytes > SLOT_BYTES {
            self.device.synchronize(slot.stream)?;
            slot.used = 0;
        }
        Ok(slot)
    }

    /// Puts the filling of fresh device memory with zeros into a stream of the ring.
    pub(crate) fn clear(&self, to: Address, bytes: u64) -> Result<()> {
        let mut slot = lock(&self.slots[0]);
        slot.is_ahead = true;
        self.device.fill(slot.stream, to, 0, bytes)
    }

    /// What is put into `stream` from now on comes after all that the ring was asked for.
    pub(crate) fn precede(&self, stream: Stream) -> Result<()> {
        for slot in &self.slots {
            let mut slot = lock(slot);
            if slot.is_ahead {
                self.device.record(slot.copied, slot.stream)?;
                self.device.wait(stream, slot.copied)?;
                slot.is_ahead = false;
            }
        }
        Ok(())
    }

    /// The host has waited for a stream that came after all copies.
    pub(crate) fn reset(&self) {
        self.slots.iter().for_each(|slot| lock(slot).used = 0);
    }

    /// Waits for all copies.
    pub(crate) fn drain_all(&self) -> Result<()> {
        for slot in &self.slots {
            let mut slot = lock(slot);
            if slot.used > 0 {
                self.device.synchronize(slot.stream)?;
                slot.used = 0;
            }
        }
        Ok(())
    }
}

fn lock(slot: &Mutex<Slot>) -> MutexGuard<'_, Slot> {
    slot.lock().unwrap_or_else(PoisonError::into_inner)
}
