//! Blocked Bloom filters of the values that some blocks have: each value has its bits in one line of 64 bytes (Putze, Sanders and
//! Singler, *Cache-, Hash- and Space-Efficient Bloom Filters*, 2007). Filters of one shape, side by side, answer a test by the
//! same line of each of them.
//!
//! Invariant: a filter never denies a value that was put into it. Pure. Must not know: where filters lie.

use forebay_base::Value;

/// Words of a line.
pub const LINE_WORDS: usize = 8;

/// Bytes of a line.
pub const LINE_BYTES: usize = LINE_WORDS * size_of::<u64>();

/// Bits of a line.
const LINE_BITS: u64 = 8 * LINE_BYTES as u64;

/// Bits that a value sets at most.
pub const MOST_HASHES: u8 = 16;

/// The hash of a value starts with this.
const SEED: u64 = 0x5bd1_e995_7b7d_159b;

/// Factor of every step of hashing: odd, half of its bits are set.
const FACTOR: u64 = 0xa076_1d64_78bd_642f;

/// How large filters are, and how many bits of it a value sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FilterShape {
    /// Lines, at least one.
    pub lines: u32,
    /// Bits for each value: 1 to [`MOST_HASHES`].
    pub hashes: u8,
}

/// Where a value is in filters of a shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FilterBits {
    /// The line.
    pub line: u32,
    /// Its bits.
    pub words: [u64; LINE_WORDS],
}

impl FilterShape {
    /// Filters of so many different values with so many bits for each of them.
    pub fn of(values: u64, bits: u32) -> Self {
        let lines = values.saturating_mul(bits.into()).div_ceil(LINE_BITS).clamp(1, u32::MAX.into());
        // Fewer than ln 2 of the bits, which were best if lines were equally full.
        let hashes = (bits * 13 / 20).clamp(1, MOST_HASHES.into());
        Self { lines: lines as u32, hashes: hashes as u8 }
    }

    /// Bytes of a filter.
    pub fn bytes(self) -> u64 {
        u64::from(self.lines) * LINE_BYTES as u64
    }

    /// Where a value of this hash is.
    pub fn bits_of(self, hash: u64) -> FilterBits {
        let line = ((hash >> 32) * u64::from(self.lines)) >> 32;
        let mut words = [0; LINE_WORDS];
        let mut rest = step(hash, SEED);
        for number in 0..u32::from(self.hashes) {
            // Nine bits tell a bit of a line; seven of them are in a word.
            if number > 0 && number % 7 == 0 {
                rest = step(rest, hash);
            }
            let bit = rest >> (64 - 9 * (number % 7 + 1)) & (LINE_BITS - 1);
            words[(bit / 64) as usize] |= 1 << (bit % 64);
        }
        FilterBits { line: line as u32, words }
    }
}

impl FilterBits {
    /// Whether a filter with this line may have the value.
    pub fn are_in(&self, line: &[u8; LINE_BYTES]) -> bool {
        let (words, _) = line.as_chunks::<8>();
        words.iter().zip(&self.words).fold(0, |missing, (word, bits)| missing | (bits & !u64::from_le_bytes(*word)))
            == 0
    }
}

/// The hash of an integer.
#[inline]
pub fn hash_of_integer(value: i128) -> u64 {
    let low = step(SEED, value as u64);
    // Of integers of 8 bytes, the high half is their sign.
    let high = (value >> 64) as u64;
    finish(if high == ((value as i64) >> 63) as u64 { low } else { step(low, high) })
}

/// The hash of a text or blob.
pub fn hash_of_bytes(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let mut hash = words.iter().fold(bytes.len() as u64, |hash, word| step(hash, u64::from_le_bytes(*word)));
    if !rest.is_empty() {
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        hash = step(hash, u64::from_le_bytes(last));
    }
    finish(hash)
}

/// The hash of a value; none of a float, of which filters say nothing.
pub fn hash_of(value: &Value) -> Option<u64> {
    match value {
        Value::Int(value) => Some(hash_of_integer(*value)),
        Value::Bytes(bytes) => Some(hash_of_bytes(bytes)),
        Value::Float(_) => None,
    }
}

#[inline]
fn step(hash: u64, word: u64) -> u64 {
    let product = u128::from(hash ^ word ^ SEED) * u128::from(FACTOR);
    (product as u64) ^ (product >> 64) as u64
}

#[inline]
fn finish(hash: u64) -> u64 {
    step(hash ^ (hash >> 29), FACTOR)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Filters by line, of some hashes.
    fn filter(shape: FilterShape, hashes: impl Iterator<Item = u64>) -> Vec<[u8; LINE_BYTES]> {
        let mut lines = vec![[0_u64; LINE_WORDS]; shape.lines as usize];
        for hash in hashes {
            let bits = shape.bits_of(hash);
            lines[bits.line as usize].iter_mut().zip(bits.words).for_each(|(word, bits)| *word |= bits);
        }
        let bytes = |line: [u64; LINE_WORDS]| {
            let mut bytes = [0; LINE_BYTES];
            bytes.as_chunks_mut::<8>().0.iter_mut().zip(line).for_each(|(to, word)| *to = word.to_le_bytes());
            bytes
        };
        lines.into_iter().map(bytes).collect()
    }

    #[test]
    fn values_that_were_put_in_are_never_denied() {
        for bits in [1, 6, 10, 30] {
            let shape = FilterShape::of(5_000, bits);
            let hashes = || (0..5_000).map(|value| hash_of_integer(value * value - 7_777));
            let lines = filter(shape, hashes());
            for hash in hashes() {
                let bits = shape.bits_of(hash);
                assert!(bits.are_in(&lines[bits.line as usize]));
            }
        }
    }

    /// At 10 bits a value about one in a hundred others passes, whatever the values look like.
    #[test]
    fn few_other_values_pass() {
        let close = |value: i128| hash_of_integer(value);
        let apart = |value: i128| hash_of_integer(value * 4_294_967_296);
        let wide = |value: i128| hash_of_integer(value << 70);
        let text = |value: i128| hash_of_bytes(format!("Customer#{value:09}").as_bytes());
        let kinds: [&dyn Fn(i128) -> u64; 4] = [&close, &apart, &wide, &text];
        for (number, hash) in kinds.into_iter().enumerate() {
            let shape = FilterShape::of(65_536, 10);
            assert_eq!(shape.bytes(), 1_280 * 64);
            let lines = filter(shape, (0..65_536).map(hash));
            let others = 65_536..165_536;
            let passed =
                others.map(hash).map(|hash| shape.bits_of(hash)).filter(|bits| bits.are_in(&lines[bits.line as usize]));
            let passed = passed.count();
            assert!((600..1_600).contains(&passed), "{passed} of 100,000 of kind {number}");
        }
    }

    #[test]
    fn shapes_are_possible() {
        assert_eq!(FilterShape::of(0, 10), FilterShape { lines: 1, hashes: 6 });
        assert_eq!(FilterShape::of(u64::MAX, 64), FilterShape { lines: u32::MAX, hashes: 16 });
        assert_eq!(FilterShape::of(100, 0).hashes, 1);
        let bits = FilterShape { lines: 3, hashes: 16 }.bits_of(u64::MAX);
        assert!(bits.line < 3 && bits.words.iter().map(|word| word.count_ones()).sum::<u32>() > 8);
    }

    #[test]
    fn equal_values_have_one_hash() {
        assert_eq!(hash_of(&Value::Int(-5)), Some(hash_of_integer(-5)));
        assert_eq!(hash_of(&Value::Float(1.0)), None);
        assert_ne!(hash_of_integer(1), hash_of_integer(1 << 64 | 1));
        assert_ne!(hash_of_bytes(b"a"), hash_of_bytes(b"a\0"));
    }
}
