//! The strings of one column of a chunk: slots of 16 bytes that hold up to 12 bytes themselves, and a heap for longer ones.
//!
//! A slot is length (4 bytes) and 12 bytes of the string, or length, 4 bytes that are 0, and the place in the heap (8 bytes); as in
//! Umbra (Neumann and Freitag 2020), but for the prefix. Only newest versions lie here: older ones are in undo records, so that bytes that
//! a change leaves are dead at once. When more than half of the heap is dead, it is written anew.
//!
//! Must not know: versions, NULL.

/// Bytes that a slot holds itself.
const INLINE_BYTES: usize = 12;

/// Dead bytes below which a heap is left as it is.
const DEAD_BYTES: usize = 64 << 10;

/// Long strings one after the other.
#[derive(Debug, Default)]
pub(crate) struct Heap {
    bytes: Vec<u8>,
    dead: usize,
}

impl Heap {
    /// The slot of a string, which is kept.
    pub(crate) fn keep(&mut self, string: &[u8]) -> u128 {
        let length = string.len() as u128;
        if string.len() <= INLINE_BYTES {
            let mut slot = [0; 16];
            slot[4..4 + string.len()].copy_from_slice(string);
            return u128::from_le_bytes(slot) | length;
        }
        let start = self.bytes.len();
        self.bytes.extend_from_slice(string);
        length | (start as u128) << 64
    }

    /// Gives a slot's string to `read`.
    #[inline]
    pub(crate) fn with<R>(&self, slot: u128, read: impl FnOnce(&[u8]) -> R) -> R {
        let length = slot as u32 as usize;
        if length <= INLINE_BYTES {
            return read(&slot.to_le_bytes()[4..4 + length]);
        }
        let start = (slot >> 64) as usize;
        read(&self.bytes[start..start + length])
    }

    /// The bytes of this slot are dead.
    pub(crate) fn forget(&mut self, slot: u128) {
        let length = slot as u32 as usize;
        if length > INLINE_BYTES {
            self.dead += length;
        }
    }

    /// Whether it is time for [`Heap::rewrite`].
    pub(crate) fn is_wasteful(&self) -> bool {
        self.dead > DEAD_BYTES && self.dead * 2 > self.bytes.len()
    }

    /// Writes the strings of all slots anew; these are all that are not dead.
    pub(crate) fn rewrite(&mut self, slots: &mut [u128]) {
        let mut new = Self { bytes: Vec::with_capacity(self.bytes.len() - self.dead), dead: 0 };
        for slot in slots {
            *slot = self.with(*slot, |string| new.keep(string));
        }
        *self = new;
    }

    /// Bytes of strings that are not dead.
    pub(crate) fn live_bytes(&self) -> usize {
        self.bytes.len() - self.dead
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes.capacity()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_of_all_lengths_survive_a_rewrite() {
        let mut heap = Heap::default();
        let strings: Vec<Vec<u8>> = (0..600).map(|length| vec![(length % 251) as u8; length]).collect();
        let mut slots: Vec<u128> = strings.iter().map(|string| heap.keep(string)).collect();
        for slot in &mut slots[..500] {
            heap.forget(*slot);
            *slot = heap.keep(b"");
        }
        assert!(heap.is_wasteful());
        let before = heap.bytes();
        heap.rewrite(&mut slots);
        assert!(heap.bytes() < before && !heap.is_wasteful());
        for (at, slot) in slots.iter().enumerate() {
            let expected = if at < 500 { &[][..] } else { &strings[at][..] };
            heap.with(*slot, |string| assert_eq!(string, expected));
        }
        assert_eq!(heap.live_bytes(), (500..600).sum::<usize>());
    }
}
