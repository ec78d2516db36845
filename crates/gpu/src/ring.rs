//! Bytes on their way to a device: a ring of pinned memory in two halves, each with a stream of its own, so that the host
//! fills one while the other one is copied.
//!
//! Invariants: a half is written again only when the host has waited for its copies. Must not know: what the bytes mean.

use std::sync::Arc;

use forebay_base::Result;

use crate::device::{Address, Buffer, Device, Event, Memory, Stream};

/// Bytes of a half: copies of this size reach the link's bandwidth.
pub(crate) const HALF_BYTES: u64 = 4 << 20;

/// The ring of a device.
#[derive(Debug)]
pub(crate) struct Ring {
    device: Arc<dyn Device>,
    halves: [Half; 2],
    /// The half that is filled.
    at: usize,
}

#[derive(Debug)]
struct Half {
    memory: Buffer,
    stream: Stream,
    copied: Event,
    /// Bytes that copies read which nobody has waited for.
    used: u64,
}

impl Ring {
    pub(crate) fn new(device: &Arc<dyn Device>) -> Result<Self> {
        let half = || -> Result<Half> {
            let memory = Buffer::new(device, Memory::Pinned, HALF_BYTES)?;
            Ok(Half { memory, stream: device.stream()?, copied: device.event()?, used: 0 })
        };
        Ok(Self { device: Arc::clone(device), halves: [half()?, half()?], at: 0 })
    }

    /// Puts a copy of bytes to device memory into a stream of the ring. Waits only where both halves are on their way.
    pub(crate) fn copy(&mut self, to: Address, bytes: &[u8]) -> Result<()> {
        let mut done = 0;
        while done < bytes.len() {
            if self.halves[self.at].used == HALF_BYTES {
                self.at = 1 - self.at;
                self.drain(self.at)?;
            }
            let half = &mut self.halves[self.at];
            let piece = &bytes[done..bytes.len().min(done + (HALF_BYTES - half.used) as usize)];
            let from = half.memory.address().offset(half.used);
            self.device.pinned(from, piece.len() as u64, &mut |pinned| pinned.copy_from_slice(piece))?;
            // Also where the copy fails: whoever goes on waits for the half.
            half.used += piece.len() as u64;
            self.device.copy(half.stream, to.offset(done as u64), from, piece.len() as u64)?;
            done += piece.len();
        }
        Ok(())
    }

    /// Puts the filling of fresh device memory with zeros into a stream of the ring.
    pub(crate) fn clear(&mut self, to: Address, bytes: u64) -> Result<()> {
        self.device.fill(self.halves[0].stream, to, 0, bytes)
    }

    /// What is put into `stream` from now on comes after all that the ring was asked for.
    pub(crate) fn precede(&self, stream: Stream) -> Result<()> {
        for half in &self.halves {
            self.device.record(half.copied, half.stream)?;
            self.device.wait(stream, half.copied)?;
        }
        Ok(())
    }

    /// The host has waited for a stream that came after all copies.
    pub(crate) fn reset(&mut self) {
        self.halves.iter_mut().for_each(|half| half.used = 0);
        self.at = 0;
    }

    /// Waits for all copies.
    pub(crate) fn drain_all(&mut self) -> Result<()> {
        (0..2)
            .filter(|half| self.halves[*half].used > 0)
            .collect::<Vec<_>>()
            .into_iter()
            .try_for_each(|half| self.drain(half))
    }

    fn drain(&mut self, half: usize) -> Result<()> {
        let half = &mut self.halves[half];
        if half.used > 0 {
            self.device.synchronize(half.stream)?;
            half.used = 0;
        }
        Ok(())
    }
}
