//! Regions of memory that the kernel knows for a ring: it pins their pages once, instead of looking them up for every read.
//!
//! A region is registered as far as reads went into it, and only when twice as many bytes were read there: pages that
//! nobody has touched would have to be cleared first, which costs a short query more than it ever gains.
//! Invariants: a slot is found by its region, never by an address, which may have been mapped anew while the kernel still
//! knows the pages that were there before. What is refused here (locked memory is limited, a kernel is old) means plain reads
//! and nothing else; all is let go of then, since a user's limit is that of other rings, too. A region that is gone is
//! forgotten by the next read; so long its pages stay pinned.
//! Must not know: files, and who reads.

use std::io;
use std::sync::{Arc, Weak};

use io_uring::IoUring;

use super::pages::Region;

/// Regions that one ring can know: those of the pool for reads, and some more.
const SLOTS: u16 = 64;

/// Most bytes of one registered buffer, by the kernel's rules.
const SLOT_BYTES: usize = 1 << 30;

/// Bytes that are read into a region before it is registered, for each byte of it that reads went to.
const READS_PER_BYTE: usize = 2;

/// Part of a region.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub(super) region: Arc<Region>,
    /// Where the part ends, in bytes from the start of the region.
    pub(super) end: usize,
}

/// The regions that one ring knows.
pub(super) struct RegisteredRegions {
    ring: Arc<IoUring>,
    table: Table,
    known: Vec<Known>,
    /// Slots of no region.
    free: Vec<u16>,
}

/// Whether the kernel takes regions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Table {
    /// It was not asked for a table of them.
    Unmade,
    Made,
    /// It refused something, or is not to be asked: nothing is registered any more.
    Closed,
}

struct Known {
    region: Weak<Region>,
    slot: u16,
    /// How far reads went into it, in bytes.
    touched: usize,
    /// Bytes that were read into it since it was registered last.
    read_bytes: usize,
    /// How far the kernel knows it, in bytes.
    registered: usize,
}

impl RegisteredRegions {
    /// None yet, of `ring`. Without `registers` there will be none.
    pub(super) fn new(ring: Arc<IoUring>, registers: bool) -> Self {
        let table = if registers { Table::Unmade } else { Table::Closed };
        Self { ring, table, known: Vec::new(), free: (0..SLOTS).rev().collect() }
    }

    /// The slot of a region where the kernel knows this part of it, the last `len` bytes before its end; takes note that it is
    /// read into.
    pub(super) fn slot_of(&mut self, place: &Place, len: usize) -> Option<u16> {
        if self.table == Table::Closed {
            return None;
        }
        self.forget_dropped();
        let index = self.index_of(&place.region)?;
        let known = &mut self.known[index];
        known.touched = known.touched.max(place.end);
        known.read_bytes = known.read_bytes.saturating_add(len);
        if place.end > known.registered && known.read_bytes >= known.touched.saturating_mul(READS_PER_BYTE) {
            self.register(index, &place.region);
        }
        let known = self.known.get(index)?;
        (place.end <= known.registered).then_some(known.slot)
    }

    /// Bytes that the kernel knows.
    pub(super) fn bytes(&self) -> usize {
        self.known.iter().map(|known| known.registered).sum()
    }

    /// The entry of a region; a new one where it has none, unless all slots are taken.
    fn index_of(&mut self, region: &Arc<Region>) -> Option<usize> {
        // The entry's weak reference keeps the address from being that of another region.
        let found = self.known.iter().position(|known| known.region.as_ptr() == Arc::as_ptr(region));
        found.or_else(|| {
            let slot = self.free.pop()?;
            self.known.push(Known { region: Arc::downgrade(region), slot, touched: 0, read_bytes: 0, registered: 0 });
            Some(self.known.len() - 1)
        })
    }

    fn register(&mut self, index: usize, region: &Region) {
        if self.table == Table::Unmade {
            let made = self.ring.submitter().register_buffers_sparse(SLOTS.into());
            if made.is_err() {
                return self.close();
            }
            self.table = Table::Made;
        }
        let known = &mut self.known[index];
        let bytes = region.whole_pages(known.touched).min(SLOT_BYTES);
        known.read_bytes = 0;
        match set(&self.ring, known.slot, region.start(), bytes) {
            Ok(()) => known.registered = bytes,
            Err(_) => self.close(),
        }
    }

    /// Registers nothing any more and lets go of what was.
    pub(super) fn close(&mut self) {
        self.table = Table::Closed;
        for known in self.known.drain(..).filter(|known| known.registered > 0) {
            // Where it does not let go either, its pages stay pinned until the ring ends, and nobody names the slot.
            let _ = set(&self.ring, known.slot, std::ptr::null_mut(), 0);
        }
    }

    /// Has the kernel let go of regions that are not there any more.
    fn forget_dropped(&mut self) {
        let Self { ring, known, free, .. } = self;
        known.retain(|known| {
            let is_there = known.region.strong_count() > 0;
            // A slot that it does not let go of is never used again.
            if !is_there && (known.registered == 0 || set(ring, known.slot, std::ptr::null_mut(), 0).is_ok()) {
                free.push(known.slot);
            }
            is_there
        });
    }
}

/// Has the kernel know the `bytes` from `start` on by this slot, or nothing.
fn set(ring: &IoUring, slot: u16, start: *mut u8, bytes: usize) -> io::Result<()> {
    let buffer = [libc::iovec { iov_base: start.cast(), iov_len: bytes }];
    // SAFETY: the caller holds the region that the buffer is a part of, so its pages are there to be pinned, or gives none.
    // From then on the kernel has them for itself, and nobody names the slot but for reads into that region, which whoever
    // reads holds. So a slot whose region is gone is harmless.
    unsafe { ring.submitter().register_buffers_update(slot.into(), &buffer, None) }
}

#[cfg(test)]
impl RegisteredRegions {
    /// Has the kernel refuse the table: there is one already, and a ring has but one.
    pub(super) fn refuse(&mut self) {
        // Where it refuses this one there is nothing left to do.
        let _ = self.ring.submitter().register_buffers_sparse(1);
    }
}
