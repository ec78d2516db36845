//! 32-byte vectors: an unsigned comparison is a minimum and an equality, its bits are gathered from the lanes' signs.

use std::arch::x86_64::*;

use super::{WORD_ROWS, portable};

macro_rules! range {
    ($name:ident, $lane:ident, $bits:expr) => {
        /// See [`super::range`].
        #[target_feature(enable = "avx2")]
        pub(super) fn $name(values: &[$lane], low: $lane, span: $lane, masks: &mut [u64]) {
            let (words, rest) = values.as_chunks::<WORD_ROWS>();
            let (full, tail) = masks.split_at_mut(words.len());
            for (values, mask) in words.iter().zip(full) {
                if *mask != 0 {
                    *mask &= $bits(values, low, span);
                }
            }
            portable::range(rest, low, span, tail);
        }
    };
}
range!(range_u8, u8, bits_u8);
range!(range_u16, u16, bits_u16);
range!(range_u32, u32, bits_u32);
range!(range_u64, u64, bits_u64);

/// See [`super::count`].
#[target_feature(enable = "popcnt")]
pub(super) fn count(masks: &[u64]) -> usize {
    portable::count(masks)
}

/// Vector `part` of a word of values.
#[target_feature(enable = "avx2")]
#[inline]
fn load<L: super::Lane>(values: &[L; WORD_ROWS], part: usize) -> __m256i {
    let bytes: &[u8] = bytemuck::cast_slice(values);
    let bytes = &bytes[part * 32..part * 32 + 32];
    // SAFETY: `bytes` has 32 bytes.
    unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) }
}

#[target_feature(enable = "avx2")]
#[inline]
fn bits_u8(values: &[u8; WORD_ROWS], low: u8, span: u8) -> u64 {
    let (low, span) = (_mm256_set1_epi8(low as i8), _mm256_set1_epi8(span as i8));
    (0..2).fold(0, |mask, part| {
        let above = _mm256_sub_epi8(load(values, part), low);
        let inside = _mm256_cmpeq_epi8(_mm256_min_epu8(above, span), above);
        mask | u64::from(_mm256_movemask_epi8(inside) as u32) << (part * 32)
    })
}

#[target_feature(enable = "avx2")]
#[inline]
fn bits_u16(values: &[u16; WORD_ROWS], low: u16, span: u16) -> u64 {
    let (low, span) = (_mm256_set1_epi16(low as i16), _mm256_set1_epi16(span as i16));
    let inside = |part: usize| {
        let above = _mm256_sub_epi16(load(values, part), low);
        _mm256_cmpeq_epi16(_mm256_min_epu16(above, span), above)
    };
    (0..2).fold(0, |mask, part| {
        // Packing works within halves of vectors: the middle quarters must change places.
        let packed = _mm256_packs_epi16(inside(part * 2), inside(part * 2 + 1));
        let ordered = _mm256_permute4x64_epi64::<0b11_01_10_00>(packed);
        mask | u64::from(_mm256_movemask_epi8(ordered) as u32) << (part * 32)
    })
}

#[target_feature(enable = "avx2")]
#[inline]
fn bits_u32(values: &[u32; WORD_ROWS], low: u32, span: u32) -> u64 {
    let (low, span) = (_mm256_set1_epi32(low as i32), _mm256_set1_epi32(span as i32));
    (0..8).fold(0, |mask, part| {
        let above = _mm256_sub_epi32(load(values, part), low);
        let inside = _mm256_cmpeq_epi32(_mm256_min_epu32(above, span), above);
        mask | u64::from(_mm256_movemask_ps(_mm256_castsi256_ps(inside)) as u8) << (part * 8)
    })
}

#[target_feature(enable = "avx2")]
#[inline]
fn bits_u64(values: &[u64; WORD_ROWS], low: u64, span: u64) -> u64 {
    // There is no unsigned comparison of eight bytes: with the sign bit turned, the signed one is it.
    let (low, turn) = (_mm256_set1_epi64x(low as i64), _mm256_set1_epi64x(i64::MIN));
    let span = _mm256_xor_si256(_mm256_set1_epi64x(span as i64), turn);
    (0..16).fold(0, |mask, part| {
        let above = _mm256_xor_si256(_mm256_sub_epi64(load(values, part), low), turn);
        let outside = _mm256_movemask_pd(_mm256_castsi256_pd(_mm256_cmpgt_epi64(above, span))) as u64;
        mask | (!outside & 15) << (part * 4)
    })
}

/// See [`super::bloom`].
///
/// # Safety
/// Every hash shifted by `shift` is the number of a word.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn bloom(hashes: &[u64], words: &[u64], shift: u32, masks: &mut [u64]) {
    let (full, rest) = hashes.as_chunks::<WORD_ROWS>();
    let (masks, tail) = masks.split_at_mut(full.len());
    let (one, six) = (_mm256_set1_epi64x(1), _mm256_set1_epi64x(63));
    for (hashes, mask) in full.iter().zip(masks) {
        let mut bits = 0u64;
        for part in 0..WORD_ROWS / 4 {
            let lanes = load(hashes, part);
            let numbers = _mm256_srl_epi64(lanes, _mm_cvtsi32_si128(shift as i32));
            // SAFETY: the caller says that there are such words.
            let found = unsafe { _mm256_i64gather_epi64::<8>(words.as_ptr().cast(), numbers) };
            let bit = |lanes| _mm256_sllv_epi64(one, _mm256_and_si256(lanes, six));
            let wanted = _mm256_or_si256(
                _mm256_or_si256(bit(_mm256_srli_epi64::<8>(lanes)), bit(_mm256_srli_epi64::<14>(lanes))),
                _mm256_or_si256(bit(_mm256_srli_epi64::<20>(lanes)), bit(_mm256_srli_epi64::<26>(lanes))),
            );
            let is_there = _mm256_cmpeq_epi64(_mm256_and_si256(found, wanted), wanted);
            bits |= (_mm256_movemask_pd(_mm256_castsi256_pd(is_there)) as u64) << (part * 4);
        }
        *mask &= bits;
    }
    portable::bloom(rest, words, shift, tail);
}
