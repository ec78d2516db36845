//! 64-byte vectors: comparisons give masks at once, positions come from compressing lanes.

use std::arch::x86_64::*;

use super::{WORD_ROWS, avx2, portable};

/// At most so many bits of a word are looked up one by one rather than all by gathers.
const FEW_BITS: u32 = 12;

/// Words that are left out together where none of their bits is set. Where few bits are, nothing foresees which single
/// words have any, and mistaken branches cost more than they save.
const RUN_WORDS: usize = 4;

macro_rules! range {
    ($name:ident, $lane:ident, $signed:ident, $load:ident, $set:ident, $sub:ident, $compare:ident, $lanes:literal) => {
        /// See [`super::range`].
        #[target_feature(enable = "avx512f,avx512bw")]
        pub(super) fn $name(values: &[$lane], low: $lane, span: $lane, masks: &mut [u64]) {
            let (words, rest) = values.as_chunks::<WORD_ROWS>();
            let (lows, spans) = ($set(low as $signed), $set(span as $signed));
            let (full, tail) = masks.split_at_mut(words.len());
            for (values, mask) in words.iter().zip(full) {
                if *mask == 0 {
                    continue;
                }
                let mut bits = 0u64;
                for part in 0..WORD_ROWS / $lanes {
                    // SAFETY: `part * lanes + lanes` is at most 64, the length of `values`.
                    let lanes = unsafe { $load(values.as_ptr().add(part * $lanes).cast()) };
                    bits |= u64::from($compare($sub(lanes, lows), spans)) << (part * $lanes);
                }
                *mask &= bits;
            }
            portable::range(rest, low, span, tail);
        }
    };
}
range!(range_u8, u8, i8, _mm512_loadu_epi8, _mm512_set1_epi8, _mm512_sub_epi8, _mm512_cmple_epu8_mask, 64);
range!(range_u16, u16, i16, _mm512_loadu_epi16, _mm512_set1_epi16, _mm512_sub_epi16, _mm512_cmple_epu16_mask, 32);
range!(range_u32, u32, i32, _mm512_loadu_epi32, _mm512_set1_epi32, _mm512_sub_epi32, _mm512_cmple_epu32_mask, 16);
range!(range_u64, u64, i64, _mm512_loadu_epi64, _mm512_set1_epi64, _mm512_sub_epi64, _mm512_cmple_epu64_mask, 8);

/// See [`super::members`]: the bits of all 256 lanes fit one vector.
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
pub(super) fn members_u8(values: &[u8], low: u64, bits: &[u64], masks: &mut [u64]) {
    let mut table = [0u8; 64];
    for lane in 0..=u8::MAX {
        let number = u64::from(lane).wrapping_sub(low);
        let word = bits.get((number / 64) as usize).copied().unwrap_or(0);
        table[usize::from(lane / 8)] |= ((word >> (number % 64) & 1) as u8) << (lane % 8);
    }
    let single: [u8; 16] = [1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128];
    // SAFETY: the arrays have 64 and 16 bytes.
    let (table, single) =
        unsafe { (_mm512_loadu_epi8(table.as_ptr().cast()), _mm_loadu_si128(single.as_ptr().cast())) };
    let single = _mm512_broadcast_i32x4(single);
    let (words, rest) = values.as_chunks::<WORD_ROWS>();
    let (full, tail) = masks.split_at_mut(words.len());
    for (values, mask) in words.iter().zip(full) {
        // SAFETY: `values` has 64 bytes.
        let lanes = unsafe { _mm512_loadu_epi8(values.as_ptr().cast()) };
        let bytes = _mm512_and_si512(_mm512_srli_epi16::<3>(lanes), _mm512_set1_epi8(31));
        let found = _mm512_permutexvar_epi8(bytes, table);
        let wanted = _mm512_shuffle_epi8(single, _mm512_and_si512(lanes, _mm512_set1_epi8(7)));
        *mask &= _mm512_test_epi8_mask(found, wanted);
    }
    portable::members(rest, low, bits, tail);
}

/// 16 lanes of 32 bits: which of them are members. `limit` is the number of bits in `bits`.
#[target_feature(enable = "avx512f,avx512bw")]
#[inline]
fn members_of_16(lanes: __m512i, low: __m512i, limit: __m512i, bits: &[u64]) -> u64 {
    let numbers = _mm512_sub_epi32(lanes, low);
    let inside = _mm512_cmplt_epu32_mask(numbers, limit);
    let words = _mm512_srli_epi32::<5>(numbers);
    // SAFETY: lanes outside of `limit` are not read; the others lie in `bits`, seen as words of 32 bits.
    let found =
        unsafe { _mm512_mask_i32gather_epi32::<4>(_mm512_setzero_si512(), inside, words, bits.as_ptr().cast()) };
    let wanted = _mm512_sllv_epi32(_mm512_set1_epi32(1), _mm512_and_si512(numbers, _mm512_set1_epi32(31)));
    u64::from(_mm512_mask_test_epi32_mask(inside, found, wanted))
}

/// Words of bits that two pairs of vectors hold, for byte permutations to look up.
const TABLE_WORDS: usize = 32;

/// Up to 2,048 bits in registers, and how far they go.
#[derive(Clone, Copy)]
struct BitTable {
    vectors: [__m512i; 4],
    limit: __m512i,
}

impl BitTable {
    #[target_feature(enable = "avx512f,avx512bw")]
    fn new(bits: &[u64]) -> Self {
        let mut words = [0u64; TABLE_WORDS];
        words[..bits.len()].copy_from_slice(bits);
        let mut vectors = [_mm512_setzero_si512(); 4];
        for (part, vector) in vectors.iter_mut().enumerate() {
            // SAFETY: four vectors of 8 words are the 32 of `words`.
            *vector = unsafe { _mm512_loadu_epi64(words.as_ptr().add(part * 8).cast()) };
        }
        Self { vectors, limit: _mm512_set1_epi16((bits.len() * WORD_ROWS) as i16) }
    }

    /// Which of 32 numbers of 16 bits have their bit set.
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    #[inline]
    fn holds(&self, numbers: __m512i) -> u32 {
        let inside = _mm512_cmplt_epu16_mask(numbers, self.limit);
        // The byte of each number is that of its lane's lower byte; upper bytes find something that nobody looks at.
        let bytes = _mm512_srli_epi16::<3>(numbers);
        let [a, b, c, d] = self.vectors;
        let (low, high) = (_mm512_permutex2var_epi8(a, bytes, b), _mm512_permutex2var_epi8(c, bytes, d));
        let is_high = _mm512_test_epi16_mask(bytes, _mm512_set1_epi16(128));
        let found = _mm512_mask_blend_epi16(is_high, low, high);
        let wanted = _mm512_sllv_epi16(_mm512_set1_epi16(1), _mm512_and_si512(numbers, _mm512_set1_epi16(7)));
        _mm512_mask_test_epi16_mask(inside, found, wanted)
    }
}

macro_rules! members {
    ($name:ident, $lane:ident, $few:ident, $widen:expr) => {
        /// See [`super::members`].
        #[target_feature(enable = "avx512f,avx512bw,avx512vbmi,popcnt")]
        pub(super) fn $name(values: &[$lane], low: u64, bits: &[u64], masks: &mut [u64]) {
            // Numbers below `low` wrap to large ones, which must lie above all bits; none may wrap to a small one.
            let limit = bits.len() as u64 * 64;
            let fits_lanes = low.checked_add(limit).is_some_and(|end| end <= $lane::MAX.into());
            if bits.len() <= TABLE_WORDS && fits_lanes {
                return $few(values, low as $lane, bits, masks);
            }
            // Differences must be the same modulo 2^32 as modulo 2^64 for all that can be members.
            let is_narrow = low as i64 >= -(1 << 31) && (low as i64) < (1 << 31) && bits.len() < (1 << 25);
            if !is_narrow {
                return portable::members(values, low, bits, masks);
            }
            let wraps = (low as i64) < 0 && $lane::BITS == 32 || limit.wrapping_add(low) > 1 << 32 && (low as i64) >= 0;
            if wraps {
                return portable::members(values, low, bits, masks);
            }
            let (lows, limit) = (_mm512_set1_epi32(low as i32), _mm512_set1_epi32(limit as i32));
            let (words, rest) = values.as_chunks::<WORD_ROWS>();
            let (full, tail) = masks.split_at_mut(words.len());
            for (values, mask) in words.iter().zip(full) {
                if mask.count_ones() <= FEW_BITS {
                    *mask = portable::members_of_word(values, low, bits, *mask);
                    continue;
                }
                let mut found = 0u64;
                for part in 0..4 {
                    // SAFETY: `part * 16 + 16` is at most 64, the length of `values`.
                    let lanes = unsafe { $widen(values.as_ptr().add(part * 16).cast()) };
                    found |= members_of_16(lanes, lows, limit, bits) << (part * 16);
                }
                *mask &= found;
            }
            portable::members(rest, low, bits, tail);
        }
    };
}
members!(members_u16, u16, few_members_u16, |from| _mm512_cvtepu16_epi32(_mm256_loadu_si256(from)));
members!(members_u32, u32, few_members_u32, |from| _mm512_loadu_epi32(from));

macro_rules! few_members {
    ($name:ident, $lane:ident, $found:expr) => {
        /// See [`super::members`], for bits that fit a [`BitTable`] and none of which is beyond the lanes.
        #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
        fn $name(values: &[$lane], low: $lane, bits: &[u64], masks: &mut [u64]) {
            let table = BitTable::new(bits);
            let (words, rest) = values.as_chunks::<WORD_ROWS>();
            let (full, tail) = masks.split_at_mut(words.len());
            for (values, mask) in words.iter().zip(full) {
                if *mask != 0 {
                    *mask &= $found(values, low, &table);
                }
            }
            portable::members(rest, low.into(), bits, tail);
        }
    };
}
few_members!(few_members_u16, u16, found_u16);
few_members!(few_members_u32, u32, found_u32);

#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
#[inline]
fn found_u16(values: &[u16; WORD_ROWS], low: u16, table: &BitTable) -> u64 {
    let low = _mm512_set1_epi16(low as i16);
    let mut found = 0;
    for part in 0..2 {
        // SAFETY: two vectors of 32 lanes are the 64 of `values`.
        let lanes = unsafe { _mm512_loadu_epi16(values.as_ptr().add(part * 32).cast()) };
        found |= u64::from(table.holds(_mm512_sub_epi16(lanes, low))) << (part * 32);
    }
    found
}

#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
#[inline]
fn found_u32(values: &[u32; WORD_ROWS], low: u32, table: &BitTable) -> u64 {
    let low = _mm512_set1_epi32(low as i32);
    let mut found = 0;
    for part in 0..2 {
        // SAFETY: four vectors of 16 lanes are the 64 of `values`.
        let (first, second) = unsafe {
            let lanes = values.as_ptr().add(part * 32);
            (_mm512_loadu_epi32(lanes.cast()), _mm512_loadu_epi32(lanes.add(16).cast()))
        };
        // What needs more than 16 bits becomes the greatest number of 16 bits, which no table reaches.
        let first = _mm512_castsi256_si512(_mm512_cvtusepi32_epi16(_mm512_sub_epi32(first, low)));
        let second = _mm512_cvtusepi32_epi16(_mm512_sub_epi32(second, low));
        found |= u64::from(table.holds(_mm512_inserti64x4::<1>(first, second))) << (part * 32);
    }
    found
}

/// See [`super::members`]. Eight-byte lanes are rare: no gathers for them.
#[target_feature(enable = "avx512f,popcnt")]
pub(super) fn members_u64(values: &[u64], low: u64, bits: &[u64], masks: &mut [u64]) {
    avx2::members_u64(values, low, bits, masks);
}

/// See [`super::count`].
#[target_feature(enable = "avx512f,avx512vpopcntdq,popcnt")]
pub(super) fn count(masks: &[u64]) -> usize {
    portable::count(masks)
}

/// See [`super::positions`].
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi2,avx512vpopcntdq,popcnt")]
pub(super) fn positions(masks: &[u64], out: &mut Vec<u16>) {
    const LANES: usize = 32;
    let count = count(masks);
    let start = out.len();
    out.reserve(count + LANES);
    let mut first = [0u16; LANES];
    for (lane, number) in first.iter_mut().enumerate() {
        *number = lane as u16;
    }
    // SAFETY: `first` has 64 bytes.
    let mut numbers = unsafe { _mm512_loadu_epi16(first.as_ptr().cast()) };
    let step = _mm512_set1_epi16(LANES as i16);
    let mut filled = start;
    for run in masks.chunks(RUN_WORDS) {
        if run.iter().all(|mask| *mask == 0) {
            numbers = _mm512_add_epi16(numbers, _mm512_set1_epi16((run.len() * WORD_ROWS) as i16));
            continue;
        }
        for mask in run {
            for half in [*mask as u32, (*mask >> 32) as u32] {
                let packed = _mm512_maskz_compress_epi16(half, numbers);
                // SAFETY: at most `count` positions are filled before this store, and a whole vector more is reserved.
                unsafe { _mm512_storeu_epi16(out.as_mut_ptr().add(filled).cast(), packed) };
                filled += half.count_ones() as usize;
                numbers = _mm512_add_epi16(numbers, step);
            }
        }
    }
    // SAFETY: `filled - start` is `count`, all of which was stored.
    unsafe { out.set_len(filled) };
}

/// See [`super::bloom`].
///
/// # Safety
/// Every hash shifted by `shift` is the number of a word.
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn bloom(hashes: &[u64], words: &[u64], shift: u32, masks: &mut [u64]) {
    let (full, rest) = hashes.as_chunks::<WORD_ROWS>();
    let (masks, tail) = masks.split_at_mut(full.len());
    let (one, six) = (_mm512_set1_epi64(1), _mm512_set1_epi64(63));
    for (hashes, mask) in full.iter().zip(masks) {
        let mut bits = 0u64;
        for part in 0..WORD_ROWS / 8 {
            // SAFETY: `hashes` has 64 lanes.
            let lanes = unsafe { _mm512_loadu_epi64(hashes.as_ptr().add(part * 8).cast()) };
            let numbers = _mm512_srl_epi64(lanes, _mm_cvtsi32_si128(shift as i32));
            // SAFETY: the caller says that there are such words.
            let found = unsafe { _mm512_i64gather_epi64::<8>(numbers, words.as_ptr().cast()) };
            let bit = |lanes| _mm512_sllv_epi64(one, _mm512_and_si512(lanes, six));
            let wanted = _mm512_or_si512(
                _mm512_or_si512(bit(_mm512_srli_epi64::<8>(lanes)), bit(_mm512_srli_epi64::<14>(lanes))),
                _mm512_or_si512(bit(_mm512_srli_epi64::<20>(lanes)), bit(_mm512_srli_epi64::<26>(lanes))),
            );
            let is_there = _mm512_cmpeq_epi64_mask(_mm512_and_si512(found, wanted), wanted);
            bits |= u64::from(is_there) << (part * 8);
        }
        *mask &= bits;
    }
    portable::bloom(rest, words, shift, tail);
}
