//! The memory that a context has of its driver: what is given out, what was given back and may still be used by work, and what
//! is spare.
//!
//! Invariants: an address is in one of the three. Must not know: the driver.

use std::collections::BTreeMap;

use forebay_base::{Error, Result};

use crate::device::{Address, Memory};

/// Memory that was given out.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Allocation {
    pub(crate) memory: Memory,
    pub(crate) bytes: u64,
    /// What the driver gave.
    pub(crate) room: u64,
}

/// The memory of a context.
#[derive(Debug, Default)]
pub(crate) struct Allocations {
    given_out: BTreeMap<u64, Allocation>,
    /// Memory that was given back and not yet to the driver, by kind and room: the driver takes tens of microseconds for each.
    spare: BTreeMap<(Memory, u64), Vec<u64>>,
    /// Memory that was given back and that work may still use: spare once the context was waited for.
    freed: Vec<(u64, Allocation)>,
    /// The bytes of it.
    freed_bytes: u64,
}

/// Memory is asked for in steps of so many bytes, or of an eighth of what is needed, so that later queries find it.
const ROOM_STEP: u64 = 256;
/// Allocations above this size are exact, and go back to the driver at once.
pub(crate) const MOST_SPARE_BYTES: u64 = 64 << 20;
/// Memory of up to this size is waited for rather than asked of the driver.
const SMALL_ROOM: u64 = 256 << 10;
/// More than so many bytes that were given back are waited for.
const MOST_FREED_BYTES: u64 = 256 << 20;

/// The room for so many bytes.
pub(crate) fn room_for(bytes: u64) -> u64 {
    if bytes > MOST_SPARE_BYTES {
        return bytes;
    }
    let step = 1 << (bytes / 8).max(ROOM_STEP).ilog2();
    bytes.max(1).next_multiple_of(step)
}

impl Allocations {
    /// Notes what is given out.
    pub(crate) fn give(&mut self, address: u64, allocation: Allocation) {
        self.given_out.insert(address, allocation);
    }

    /// Spare memory of this room.
    pub(crate) fn take_spare(&mut self, memory: Memory, room: u64) -> Option<u64> {
        self.spare.get_mut(&(memory, room)).and_then(Vec::pop)
    }

    /// Whether to wait for all work, so that what was given back is spare: small pieces are those of a query that has ended;
    /// large ones may be chunks that gave way to others while those are copied.
    pub(crate) fn is_worth_waiting_for(&self, memory: Memory, room: u64) -> bool {
        let is_such = |(_, freed): &(u64, Allocation)| freed.memory == memory && freed.room == room;
        (room <= SMALL_ROOM || self.has_freed_much()) && self.freed.iter().any(is_such)
    }

    /// Takes what was given out back. It may be used by work.
    pub(crate) fn free(&mut self, address: u64) -> Option<Allocation> {
        let allocation = self.given_out.remove(&address)?;
        self.freed.push((address, allocation));
        self.freed_bytes += allocation.room;
        Some(allocation)
    }

    /// Whether what was given back is so much that it is worth waiting for.
    pub(crate) fn has_freed_much(&self) -> bool {
        self.freed_bytes > MOST_FREED_BYTES
    }

    /// All work is over: what was given back is spare. Gives what is too large for that.
    pub(crate) fn settle(&mut self) -> Vec<(Memory, u64)> {
        self.freed_bytes = 0;
        let mut too_large = Vec::new();
        for (at, freed) in std::mem::take(&mut self.freed) {
            if freed.room > MOST_SPARE_BYTES {
                too_large.push((freed.memory, at));
            } else {
                self.spare.entry((freed.memory, freed.room)).or_default().push(at);
            }
        }
        too_large
    }

    /// Whether anything is here that nobody has.
    pub(crate) fn holds_any(&self) -> bool {
        !self.freed.is_empty() || self.spare.values().any(|addresses| !addresses.is_empty())
    }

    /// All that is spare, which it is no more.
    pub(crate) fn take_all_spare(&mut self) -> Vec<(Memory, u64)> {
        let of_kind =
            |((memory, _), addresses): ((Memory, u64), Vec<u64>)| addresses.into_iter().map(move |at| (memory, at));
        std::mem::take(&mut self.spare).into_iter().flat_map(of_kind).collect()
    }

    /// Where memory lies that holds all these bytes.
    pub(crate) fn memory(&self, at: Address, bytes: u64, what: &str) -> Result<Memory> {
        let found = self.given_out.range(..=at.0).next_back();
        let inside = |(from, known): &(&u64, &Allocation)| {
            at.0.checked_add(bytes).is_some_and(|end| end <= **from + known.bytes)
        };
        match found.filter(inside) {
            Some((_, known)) => Ok(known.memory),
            None => Err(Error::internal(format!("{what} of {bytes} bytes leaves the device's buffers"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_enough_and_little_more() {
        for bytes in (0..5_000).chain((1..=64).flat_map(|mib| [(mib << 20) - 1, mib << 20, (mib << 20) + 1])) {
            let room = room_for(bytes);
            assert!(room >= bytes.max(1) && room <= bytes + (bytes / 8).max(ROOM_STEP), "{bytes} bytes have {room}");
            assert!(room == bytes || room <= MOST_SPARE_BYTES, "{bytes} bytes have {room}");
            assert_eq!(room_for(room), room, "{bytes}");
        }
        assert_eq!(room_for(u64::MAX), u64::MAX);
    }

    #[test]
    fn what_was_given_back_is_spare_once_all_work_is_over() {
        let mut known = Allocations::default();
        let device = |bytes| Allocation { memory: Memory::Device, bytes, room: room_for(bytes) };
        let (small, large) = (device(1_000), device(MOST_SPARE_BYTES + 1));
        known.give(4_096, small);
        known.give(8_192, large);
        assert_eq!(known.memory(Address(4_096 + 10), 990, "a copy").expect("inside"), Memory::Device);
        assert!(known.memory(Address(4_096 + 10), 991, "a copy").is_err());
        assert!(known.free(4_096).is_some() && known.free(8_192).is_some());
        assert!(known.free(4_096).is_none(), "it was given back already");
        assert_eq!(known.take_spare(Memory::Device, small.room), None, "work may still use it");
        assert!(known.is_worth_waiting_for(Memory::Device, small.room));
        assert!(!known.is_worth_waiting_for(Memory::Pinned, small.room));
        assert!(!known.is_worth_waiting_for(Memory::Device, large.room), "it is large, and little was given back");
        assert_eq!(known.settle(), [(Memory::Device, 8_192)]);
        assert_eq!(known.take_spare(Memory::Device, small.room), Some(4_096));
        assert_eq!(known.take_spare(Memory::Device, small.room), None);
        known.give(4_096, small);
        known.free(4_096);
        assert!(known.holds_any());
        assert_eq!(known.settle(), []);
        assert_eq!(known.take_all_spare(), [(Memory::Device, 4_096)]);
        assert!(!known.holds_any());
    }
}
