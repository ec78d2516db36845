//! Hashes of values: for tables in memory, and for the sketches of distinct values that segments hold.
//!
//! Invariants: all bits of a hash may be used; it is part of the format (`docs/format.md`), since sketches of several segments
//! are merged: it does not change.

const MULTIPLIERS: [u64; 2] = [0x9e37_79b9_7f4a_7c15, 0xd6e8_feb8_6659_fd93];

/// Multiplies to 128 bits and folds the halves: every input bit reaches the upper half of the result.
#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

/// Hash of a fixed-width value's bits.
#[inline]
pub fn hash_bits(bits: i128) -> u64 {
    fold(bits as u64 ^ MULTIPLIERS[1], MULTIPLIERS[0] ^ (bits >> 64) as u64)
}

/// Hash of a string: 16 bytes at a time, the last ones perhaps twice, so that no byte is copied.
#[inline]
pub fn hash_bytes(bytes: &[u8]) -> u64 {
    let word = |at: usize| {
        let mut word = [0; 8];
        word.copy_from_slice(&bytes[at..at + 8]);
        u64::from_le_bytes(word)
    };
    let length = bytes.len();
    let mut state = MULTIPLIERS[0] ^ length as u64;
    let (first, second) = match length {
        0 => (0, 0),
        // First, middle and last byte name all bytes of up to three.
        1..4 => (u64::from(bytes[0]) << 16 | u64::from(bytes[length / 2]) << 8 | u64::from(bytes[length - 1]), 0),
        4..8 => {
            let half = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
            (u64::from(half(0)), u64::from(half(length - 4)))
        }
        8..=16 => (word(0), word(length - 8)),
        _ => {
            let mut at = 0;
            while at + 16 < length {
                state = fold(word(at) ^ state, word(at + 8) ^ MULTIPLIERS[1]);
                at += 16;
            }
            (word(length - 16), word(length - 8))
        }
    };
    fold(first ^ state, second ^ MULTIPLIERS[1])
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn hashes_stay_what_they_are() {
        let texts = ["", "a", "abcd", "abcdefgh", "abcdefghijklmnop", "abcdefghijklmnopqrstuvwxyz0123456789"];
        let hashes = texts.map(|text| hash_bytes(text.as_bytes()));
        let expected = [
            14_544_503_408_999_129_173,
            1_251_017_145_137_692_828,
            1_630_546_693_577_283_826,
            13_844_237_815_429_414_719,
            10_960_361_952_383_710_532,
            7_752_491_798_892_548_563,
        ];
        assert_eq!(hashes, expected);
        assert_eq!(
            [0, 1, -1].map(hash_bits),
            [14_544_503_408_999_129_173, 3_026_680_018_442_020_259, 14_815_509_282_930_367_753]
        );
    }

    #[test]
    fn string_hashes_see_every_byte() {
        for length in 1..70 {
            let base = vec![b'x'; length];
            for at in 0..length {
                let mut other = base.clone();
                other[at] = b'y';
                assert_ne!(hash_bytes(&base) >> 32, hash_bytes(&other) >> 32, "length {length} byte {at}");
            }
        }
    }

    #[test]
    fn numbered_strings_spread_over_any_bits_of_their_hashes() {
        let hashes: Vec<u64> =
            (0..65_536).map(|number| hash_bytes(format!("Customer#{number:09}").as_bytes())).collect();
        assert_eq!(hashes.iter().collect::<HashSet<_>>().len(), hashes.len());
        for shift in [0, 16, 32, 48] {
            let parts: HashSet<u64> = hashes.iter().map(|hash| hash >> shift & 0xffff).collect();
            // Of random numbers, 63 % of all there are would be seen.
            assert!((40_000..43_000).contains(&parts.len()), "bits from {shift} on: {}", parts.len());
        }
    }
}
