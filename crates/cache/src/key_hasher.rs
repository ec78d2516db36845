//! A fast hash of keys that nobody chooses to collide: words are rotated, mixed in and multiplied, as FxHash does, and the high
//! bits folded down at the end.
//!
//! Must not know: what keys are.

use std::hash::{BuildHasherDefault, Hasher};

/// Odd, with as many ones as zeros.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// Makes [`KeyHasher`]s.
pub(crate) type BuildKeyHasher = BuildHasherDefault<KeyHasher>;

/// The hash so far.
#[derive(Debug, Default, Clone)]
pub(crate) struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn write(&mut self, bytes: &[u8]) {
        for part in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..part.len()].copy_from_slice(part);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u8(&mut self, value: u8) {
        self.write_u64(value.into());
    }

    fn write_u32(&mut self, value: u32) {
        self.write_u64(value.into());
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = (self.0.rotate_left(5) ^ value).wrapping_mul(FACTOR);
    }

    fn write_usize(&mut self, value: usize) {
        self.write_u64(value as u64);
    }

    fn write_isize(&mut self, value: isize) {
        self.write_u64(value as u64);
    }

    fn finish(&self) -> u64 {
        let mixed = (self.0 ^ (self.0 >> 32)).wrapping_mul(FACTOR);
        mixed ^ (mixed >> 29)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::hash::BuildHasher;

    use super::*;

    #[test]
    fn keys_like_those_of_chunks_are_spread() {
        let hasher = BuildKeyHasher::default();
        let (mut all, mut low) = (HashSet::new(), [0_u32; 16]);
        for column in 0..20_u32 {
            for group in 0..500_u32 {
                let hash = hasher.hash_one((7_u64, column, 3_u64, group, 0_u32));
                all.insert(hash);
                low[hash as usize % 16] += 1;
            }
        }
        assert_eq!(all.len(), 10_000);
        assert!(low.iter().all(|count| (400..900).contains(count)), "{low:?}");
        assert_ne!(hasher.hash_one("a"), hasher.hash_one("b"));
    }
}
