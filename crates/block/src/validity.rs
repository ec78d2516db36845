//! Validity bitmaps: least significant bit first, 1 = valid, bit 0 = row 0.

/// Whether `row` is valid. Panics where the bitmap is too short.
#[inline]
pub fn is_valid(bitmap: &[u8], row: usize) -> bool {
    bitmap[row >> 3] >> (row & 7) & 1 != 0
}

/// 64 bits of the bitmap from bit `row` on, in any alignment; bits past its end are 0.
#[inline]
pub fn word(bitmap: &[u8], row: usize) -> u64 {
    let (rest, shift) = (bitmap.get(row >> 3..).unwrap_or_default(), row & 7);
    match (rest.first_chunk(), rest.get(8)) {
        (Some(low), _) if shift == 0 => u64::from_le_bytes(*low),
        (Some(low), Some(high)) => u64::from_le_bytes(*low) >> shift | u64::from(*high) << (64 - shift),
        _ => rest.iter().take(8).rev().fold(0, |word, byte| word << 8 | u64::from(*byte)) >> shift,
    }
}

/// Valid rows among the first `rows`.
pub fn count_valid(bitmap: &[u8], rows: usize) -> usize {
    let whole: usize = bitmap[..rows / 8].iter().map(|byte| byte.count_ones() as usize).sum();
    whole + (rows / 8 * 8..rows).filter(|row| is_valid(bitmap, *row)).count()
}

/// Whether the first `rows` rows are all valid.
pub(crate) fn all_valid(bitmap: &[u8], rows: usize) -> bool {
    bitmap[..rows / 8].iter().all(|byte| *byte == 0xff) && (rows / 8 * 8..rows).all(|row| is_valid(bitmap, row))
}

/// The first valid row.
pub(crate) fn first_valid(bitmap: &[u8]) -> Option<usize> {
    let byte = bitmap.iter().position(|byte| *byte != 0)?;
    Some(byte * 8 + bitmap[byte].trailing_zeros() as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_counts_agree_with_single_bits() {
        let bitmap: Vec<u8> = (0..40u8).map(|i| i.wrapping_mul(37) ^ 0x5a).collect();
        for rows in 0..=320 {
            let naive = (0..rows).filter(|row| is_valid(&bitmap, *row)).count();
            assert_eq!(count_valid(&bitmap, rows), naive);
            let expected =
                (0..64).filter(|i| rows + i < 320 && is_valid(&bitmap, rows + i)).fold(0, |w, i| w | 1u64 << i);
            assert_eq!(word(&bitmap, rows), expected);
        }
        assert_eq!(first_valid(&[0, 0, 8]), Some(19));
        assert_eq!(first_valid(&[0]), None);
    }
}
