//! Memory for the bytes that rows of states refer to by address and length.
//!
//! Invariants: what was kept stays where it is until the arena is dropped; an address is read back only after it was found
//! to lie in the arena, so that this needs no `unsafe`. Address 0 is never given.

use std::ptr::NonNull;

/// Bytes of an arena's first chunk; each following one is twice as large.
const FIRST_CHUNK_BYTES: usize = 4 << 10;
/// Bytes of its largest chunks, but for longer strings.
const LARGEST_CHUNK_BYTES: usize = 4 << 20;

/// Byte strings that do not move.
#[derive(Debug, Default)]
pub struct Arena {
    /// By address. None ever grows over its capacity, so that its memory stays.
    chunks: Vec<Chunk>,
    /// The chunk that takes the next bytes.
    open: usize,
    /// Sum of the chunks' sizes.
    memory_bytes: usize,
}

#[derive(Debug)]
struct Chunk {
    /// Exposed, because compiled code reads what it was given an address of.
    address: u64,
    bytes: Vec<u8>,
}

impl Chunk {
    fn new(capacity: usize) -> Self {
        let mut bytes = Vec::<u8>::with_capacity(capacity);
        Self { address: bytes.as_mut_ptr().expose_provenance() as u64, bytes }
    }

    fn room(&self) -> usize {
        self.bytes.capacity() - self.bytes.len()
    }
}

impl Arena {
    /// The address of a copy of `bytes`.
    pub fn keep(&mut self, bytes: &[u8]) -> u64 {
        if bytes.is_empty() {
            return empty_address();
        }
        if self.chunks.get(self.open).is_none_or(|chunk| chunk.room() < bytes.len()) {
            self.grow(bytes.len());
        }
        let chunk = &mut self.chunks[self.open];
        let address = chunk.address + chunk.bytes.len() as u64;
        chunk.bytes.extend_from_slice(bytes);
        address
    }

    /// The address of a copy of `bytes`, which takes the place of `length` bytes at `address` where it fits there. Those
    /// must not be read any more. Length 0 is nothing to replace.
    pub fn replace(&mut self, address: u64, length: usize, bytes: &[u8]) -> u64 {
        if bytes.is_empty() || length < bytes.len() {
            return self.keep(bytes);
        }
        let (chunk, offset) = self.find(address, length);
        self.chunks[chunk].bytes[offset..offset + bytes.len()].copy_from_slice(bytes);
        address
    }

    /// The bytes that were kept at `address`. Panics where this arena has none there.
    pub fn get(&self, address: u64, length: usize) -> &[u8] {
        if length == 0 {
            return &[];
        }
        let (chunk, offset) = self.find(address, length);
        &self.chunks[chunk].bytes[offset..offset + length]
    }

    /// Takes over all that `others` kept; their addresses stay.
    pub fn append(&mut self, others: impl Iterator<Item = Arena>) {
        for other in others {
            self.memory_bytes += other.memory_bytes;
            self.chunks.extend(other.chunks);
        }
        self.chunks.sort_by_key(|chunk| chunk.address);
        // No chunk is open: the next bytes get a new one.
        self.open = usize::MAX;
    }

    /// Bytes of memory that the arena holds.
    pub fn memory_bytes(&self) -> usize {
        self.memory_bytes + self.chunks.capacity() * size_of::<Chunk>()
    }

    fn grow(&mut self, needed: usize) {
        let twice = self.memory_bytes.clamp(FIRST_CHUNK_BYTES, LARGEST_CHUNK_BYTES);
        let chunk = Chunk::new(twice.max(needed));
        self.memory_bytes += chunk.bytes.capacity();
        self.open = self.chunks.partition_point(|other| other.address < chunk.address);
        self.chunks.insert(self.open, chunk);
    }

    /// The chunk and the offset in it where `length` bytes, at least one, lie at `address`.
    fn find(&self, address: u64, length: usize) -> (usize, usize) {
        let chunk = self.chunks.partition_point(|chunk| chunk.address <= address).checked_sub(1);
        let place = chunk.map(|chunk| (chunk, (address - self.chunks[chunk].address) as usize));
        let is_inside = |(chunk, offset): &(usize, usize)| {
            let bytes: &Vec<u8> = &self.chunks[*chunk].bytes;
            *offset <= bytes.len() && length <= bytes.len() - *offset
        };
        place.filter(is_inside).expect("addresses of bytes come from the arena that is asked")
    }
}

/// The address of no bytes.
pub(crate) fn empty_address() -> u64 {
    NonNull::<u8>::dangling().addr().get() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gives_back_what_it_kept() {
        let mut arenas: Vec<Arena> = (0..3).map(|_| Arena::default()).collect();
        let text = |number: usize| -> Vec<u8> {
            let length = if number.is_multiple_of(97) { 10_000 * (number % 5) } else { number % 40 };
            (0..length).map(|byte| (byte * 31 + number) as u8).collect()
        };
        let kept: Vec<u64> = (0..3000).map(|number| arenas[number % 3].keep(&text(number))).collect();
        let check = |arena: &Arena, number: usize| {
            assert_eq!(arena.get(kept[number], text(number).len()), text(number), "{number}");
        };
        (0..3000).for_each(|number| check(&arenas[number % 3], number));
        let mut all = Arena::default();
        all.append(arenas.into_iter());
        (0..3000).for_each(|number| check(&all, number));
        let address = all.keep(b"more");
        assert_eq!(all.get(address, 4), b"more");
        (0..3000).for_each(|number| check(&all, number));
        assert!(all.memory_bytes() > kept.len() * 20);
    }

    #[test]
    fn replacing_reuses_what_is_long_enough() {
        let mut arena = Arena::default();
        let (first, other) = (arena.keep(b"abcdef"), arena.keep(b"other"));
        assert_eq!(arena.replace(first, 6, b"xyz"), first);
        assert_eq!(arena.get(first, 3), b"xyz");
        let longer = arena.replace(first, 3, b"long enough");
        assert_eq!((arena.get(longer, 11), arena.get(other, 5)), (&b"long enough"[..], &b"other"[..]));
        assert_ne!(arena.replace(0, 0, b"new"), 0);
        assert_ne!(arena.replace(other, 5, b""), 0);
    }

    #[test]
    #[should_panic(expected = "addresses of bytes come from the arena")]
    fn knows_its_own_addresses() {
        let mut arena = Arena::default();
        let address = arena.keep(b"abc");
        arena.get(address, 4);
    }
}
