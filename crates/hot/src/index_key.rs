//! Keys as an index keeps them: the first bytes as integers, so that most comparisons on the way down a map are of two integers.
//!
//! Invariant: they are ordered as their bytes are. Must not know: what the bytes say.

use smallvec::SmallVec;

/// Bytes that are compared as integers.
const PREFIX_BYTES: usize = 2 * size_of::<u64>();

/// Bytes that follow without memory of their own: with those before, four integers of 8 bytes, each with its byte in front.
const REST_BYTES: usize = 23;

/// Bytes of a key beside each other.
pub(crate) type KeyBytes = SmallVec<[u8; PREFIX_BYTES + REST_BYTES]>;

/// A key of an index. The fields are compared in this order.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct IndexKey {
    /// The first bytes, the most significant one first; zeros where there are fewer.
    high: u64,
    low: u64,
    rest: SmallVec<[u8; REST_BYTES]>,
    /// How many of the first bytes there are: of two keys of which one goes on with zeros the shorter one is less.
    prefix_bytes: u8,
}

impl IndexKey {
    /// The key of these bytes.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        let (first, rest) = bytes.split_at(bytes.len().min(PREFIX_BYTES));
        let mut prefix = [0; PREFIX_BYTES];
        prefix[..first.len()].copy_from_slice(first);
        let prefix = u128::from_be_bytes(prefix);
        let (high, low) = ((prefix >> u64::BITS) as u64, prefix as u64);
        Self { high, low, rest: SmallVec::from_slice(rest), prefix_bytes: first.len() as u8 }
    }

    /// Its bytes.
    pub(crate) fn bytes(&self) -> KeyBytes {
        let prefix = u128::from(self.high) << u64::BITS | u128::from(self.low);
        let mut bytes = KeyBytes::from_slice(&prefix.to_be_bytes()[..usize::from(self.prefix_bytes)]);
        bytes.extend_from_slice(&self.rest);
        bytes
    }

    /// Bytes of memory beside those of the key itself.
    pub(crate) fn heap_bytes(&self) -> usize {
        if self.rest.spilled() { self.rest.capacity() } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn keys_are_ordered_as_their_bytes(one in vec(0_u8..3, 0..48), other in vec(0_u8..3, 0..48), shared in 0_usize..48) {
            // Keys that begin likewise.
            let other: Vec<u8> = one.iter().take(shared).chain(&other).copied().collect();
            prop_assert_eq!(IndexKey::of(&one).cmp(&IndexKey::of(&other)), one.cmp(&other));
            prop_assert_eq!(IndexKey::of(&one).bytes().to_vec(), one);
        }
    }

    #[test]
    fn zeros_count() {
        let keys: [&[u8]; 7] = [&[], &[0], &[0; 15], &[0; 16], &[0; 17], &[0; 40], &[1]];
        assert!(keys.map(IndexKey::of).is_sorted_by(|one, other| one < other));
    }
}
