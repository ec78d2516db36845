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

/// Bits of a table in registers.
const TABLE_BITS: u64 = 256;

/// At most so many bits of a word are looked up one by one: about as many as take as long as all of them by vectors.
const FEW_BITS: u32 = 24;

/// The lanes that can be members, from `first` to `first + span`: all that a bitmap has bits of.
#[derive(Clone, Copy)]
struct Window<'a> {
    first: u32,
    span: u32,
    /// The bitmap from the word on that has the bit of `first`, bit `shift` of it.
    bits: &'a [u64],
    shift: u32,
}

impl<'a> Window<'a> {
    /// `None` where there is no such lane. See [`super::members`]; `most` is the greatest lane.
    fn new(low: u64, bits: &'a [u64], most: u32) -> Option<Self> {
        let low = i128::from(low as i64);
        let first = low.max(0);
        // Words of numbers that are fewer than a table has room for often have more.
        let last_word = bits.iter().rposition(|word| *word != 0)?;
        let last_number = last_word as i128 * WORD_ROWS as i128 + i128::from(bits[last_word].ilog2());
        let last = (low + last_number).min(most.into());
        if first > last {
            return None;
        }
        let number = (first - low) as u64;
        let bits = &bits[(number / 64) as usize..];
        Some(Self { first: first as u32, span: (last - first) as u32, bits, shift: (number % 64) as u32 })
    }

    /// Bit `lane - first` says whether a lane is a member; none is set behind those of the window.
    fn table(&self) -> [u64; 4] {
        let mut words = [0u64; 4];
        for (index, word) in words.iter_mut().enumerate() {
            let bits = |index: usize| self.bits.get(index).copied().unwrap_or(0);
            *word = bits(index) >> self.shift | bits(index + 1) << 1 << (63 - self.shift);
            let count = (u64::from(self.span) + 1).saturating_sub(index as u64 * 64);
            if count < 64 {
                *word &= (1 << count) - 1;
            }
        }
        words
    }
}

/// [`TABLE_BITS`] bits in registers, each half of them twice, since permutations stay in halves of vectors.
#[derive(Clone, Copy)]
struct Table {
    low: __m256i,
    high: __m256i,
    /// Bit i of byte i, for the lowest three bits of a number.
    single: __m256i,
}

impl Table {
    #[target_feature(enable = "avx2")]
    fn new([a, b, c, d]: [u64; 4]) -> Self {
        let single = _mm256_set1_epi64x(i64::from_le_bytes([1, 2, 4, 8, 16, 32, 64, 128]));
        let half = |low: u64, high: u64| _mm256_setr_epi64x(low as i64, high as i64, low as i64, high as i64);
        Self { low: half(a, b), high: half(c, d), single }
    }

    /// Which of 32 numbers of 8 bits have their bit set.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn holds(&self, numbers: __m256i) -> u64 {
        let byte = _mm256_and_si256(_mm256_srli_epi16::<3>(numbers), _mm256_set1_epi8(15));
        // The highest bit of a number says in which half its byte is.
        let (low, high) = (_mm256_shuffle_epi8(self.low, byte), _mm256_shuffle_epi8(self.high, byte));
        let found = _mm256_blendv_epi8(low, high, numbers);
        let wanted = _mm256_shuffle_epi8(self.single, _mm256_and_si256(numbers, _mm256_set1_epi8(7)));
        let is_set = _mm256_cmpeq_epi8(_mm256_and_si256(found, wanted), wanted);
        u64::from(_mm256_movemask_epi8(is_set) as u32)
    }
}

/// 32 lanes of 1 byte less `first`.
#[target_feature(enable = "avx2")]
#[inline]
fn numbers_u8(values: &[u8; WORD_ROWS], first: u32, half: usize) -> __m256i {
    _mm256_sub_epi8(load(values, half), _mm256_set1_epi8(first as i8))
}

/// 32 lanes of 2 bytes less `first`, those beyond 255 as 255.
#[target_feature(enable = "avx2")]
#[inline]
fn numbers_u16(values: &[u16; WORD_ROWS], first: u32, half: usize) -> __m256i {
    let number = |part: usize| {
        let number = _mm256_sub_epi16(load(values, half * 2 + part), _mm256_set1_epi16(first as i16));
        _mm256_min_epu16(number, _mm256_set1_epi16(255))
    };
    // Packing works within halves of vectors: the middle quarters must change places.
    _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_packus_epi16(number(0), number(1)))
}

/// 32 lanes of 4 bytes less `first`, those beyond 255 as 255.
#[target_feature(enable = "avx2")]
#[inline]
fn numbers_u32(values: &[u32; WORD_ROWS], first: u32, half: usize) -> __m256i {
    let number = |part: usize| {
        let number = _mm256_sub_epi32(load(values, half * 4 + part), _mm256_set1_epi32(first as i32));
        _mm256_min_epu32(number, _mm256_set1_epi32(255))
    };
    let (low, high) = (_mm256_packus_epi32(number(0), number(1)), _mm256_packus_epi32(number(2), number(3)));
    // As above, twice.
    _mm256_permutevar8x32_epi32(_mm256_packus_epi16(low, high), _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7))
}

/// Bits of 64 numbers, 8 to a vector. `numbers` gives those of a vector, and ones in all bits for those that have a bit, of
/// which they are the number, and zeros for others, which have none.
///
/// Words are loaded one by one: that takes no longer than gathers where these are fast, and on many processors they are slow,
/// or were made slow so as not to leak what they load (CVE-2022-40982).
///
/// # Safety
/// `bits` is not empty, and has those that `numbers` says it has.
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn bits_of(bits: &[u64], numbers: impl Fn(usize) -> (__m256i, __m256i)) -> u64 {
    let bits: &[u32] = bytemuck::cast_slice(bits);
    let (mut words, mut found) = ([0u32; WORD_ROWS], [0u32; WORD_ROWS]);
    let mut shifts = [_mm256_setzero_si256(); WORD_ROWS / 8];
    for (part, shift) in shifts.iter_mut().enumerate() {
        let (numbers, is_bit) = numbers(part);
        // So many bits to the left a number's bit is the highest. Where it has none, all bits are shifted out.
        let own = _mm256_andnot_si256(numbers, _mm256_set1_epi32(31));
        *shift = _mm256_or_si256(own, _mm256_andnot_si256(is_bit, _mm256_set1_epi32(-1)));
        let word = _mm256_and_si256(_mm256_srli_epi32::<5>(numbers), is_bit);
        // SAFETY: `words` has as many vectors as `shifts`.
        unsafe { _mm256_storeu_si256(words.as_mut_ptr().cast::<__m256i>().add(part), word) };
    }
    for (found, word) in found.iter_mut().zip(words) {
        // SAFETY: the word of a bit that there is, or the first one.
        *found = unsafe { *bits.get_unchecked(word as usize) };
    }
    let mut mask = 0;
    for (part, shift) in shifts.into_iter().enumerate() {
        // SAFETY: as above, for `found`.
        let found = unsafe { _mm256_loadu_si256(found.as_ptr().cast::<__m256i>().add(part)) };
        let highest = _mm256_movemask_ps(_mm256_castsi256_ps(_mm256_sllv_epi32(found, shift)));
        mask |= u64::from(highest as u8) << (part * 8);
    }
    mask
}

/// See [`super::members`].
#[target_feature(enable = "avx2")]
pub(super) fn members_u8(values: &[u8], low: u64, bits: &[u64], masks: &mut [u64]) {
    let Some(window) = Window::new(low, bits, u8::MAX.into()) else {
        return none(masks, values.len());
    };
    let table = Table::new(window.table());
    let (words, rest) = values.as_chunks::<WORD_ROWS>();
    let (full, tail) = masks.split_at_mut(words.len());
    for (values, mask) in words.iter().zip(full) {
        let holds = |half| table.holds(numbers_u8(values, window.first, half));
        *mask &= holds(0) | holds(1) << 32;
    }
    portable::members(rest, low, bits, tail);
}

macro_rules! members {
    ($name:ident, $lane:ident, $numbers:ident, $eight:expr) => {
        /// See [`super::members`].
        #[target_feature(enable = "avx2,popcnt")]
        pub(super) fn $name(values: &[$lane], low: u64, bits: &[u64], masks: &mut [u64]) {
            let Some(window) = Window::new(low, bits, $lane::MAX.into()) else {
                return none(masks, values.len());
            };
            // So that numbers have 32 bits.
            if window.span > u32::MAX - u64::BITS {
                return portable::members(values, low, bits, masks);
            }
            let (words, rest) = values.as_chunks::<WORD_ROWS>();
            let (full, tail) = masks.split_at_mut(words.len());
            portable::members(rest, low, bits, tail);
            // 255 stands for all that is beyond a table.
            if u64::from(window.span) < TABLE_BITS - 1 {
                let table = Table::new(window.table());
                for (values, mask) in words.iter().zip(full).filter(|(_, mask)| **mask != 0) {
                    let holds = |half| table.holds($numbers(values, window.first, half));
                    *mask &= holds(0) | holds(1) << 32;
                }
                return;
            }
            let (first, span) = (_mm256_set1_epi32(window.first as i32), _mm256_set1_epi32(window.span as i32));
            let shift = _mm256_set1_epi32(window.shift as i32);
            for (values, mask) in words.iter().zip(full) {
                if mask.count_ones() <= FEW_BITS {
                    *mask = portable::members_of_word(values, low, bits, *mask);
                    continue;
                }
                let numbers = |part| {
                    let above = _mm256_sub_epi32($eight(values, part), first);
                    let is_inside = _mm256_cmpeq_epi32(_mm256_min_epu32(above, span), above);
                    (_mm256_add_epi32(above, shift), is_inside)
                };
                // SAFETY: a window has at least one bit, and those of all lanes inside of it.
                *mask &= unsafe { bits_of(window.bits, numbers) };
            }
        }
    };
}
members!(members_u16, u16, numbers_u16, |values: &[u16; WORD_ROWS], part: usize| {
    let lanes = load(values, part / 2);
    let halves = [_mm256_castsi256_si128(lanes), _mm256_extracti128_si256::<1>(lanes)];
    _mm256_cvtepu16_epi32(halves[part % 2])
});
members!(members_u32, u32, numbers_u32, load);

/// See [`super::members`].
#[target_feature(enable = "avx2,popcnt")]
pub(super) fn members_u64(values: &[u64], low: u64, bits: &[u64], masks: &mut [u64]) {
    let Some(last_word) = bits.len().checked_sub(1) else { return none(masks, values.len()) };
    let Ok(last) = u32::try_from(last_word * WORD_ROWS + WORD_ROWS - 1) else {
        return portable::members(values, low, bits, masks);
    };
    let (words, rest) = values.as_chunks::<WORD_ROWS>();
    let (full, tail) = masks.split_at_mut(words.len());
    portable::members(rest, low, bits, tail);
    let (low_lanes, last) = (_mm256_set1_epi64x(low as i64), _mm256_set1_epi32(last as i32));
    for (values, mask) in words.iter().zip(full) {
        if mask.count_ones() <= FEW_BITS {
            *mask = portable::members_of_word(values, low, bits, *mask);
            continue;
        }
        let numbers = |part| {
            let four = |part| _mm256_castsi256_ps(_mm256_sub_epi64(load(values, part), low_lanes));
            let (first, second) = (four(part * 2), four(part * 2 + 1));
            // Shuffles stay in halves of vectors: the middle quarters must change places.
            let ordered = |words| _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_castps_si256(words));
            let lower = ordered(_mm256_shuffle_ps::<0b10_00_10_00>(first, second));
            let upper = ordered(_mm256_shuffle_ps::<0b11_01_11_01>(first, second));
            let is_narrow = _mm256_cmpeq_epi32(upper, _mm256_setzero_si256());
            let is_inside = _mm256_cmpeq_epi32(_mm256_min_epu32(lower, last), lower);
            (lower, _mm256_and_si256(is_narrow, is_inside))
        };
        // SAFETY: there are bits, and those of all numbers up to the last one.
        *mask &= unsafe { bits_of(bits, numbers) };
    }
}

/// Takes away the bits of all `rows` lanes.
fn none(masks: &mut [u64], rows: usize) {
    masks[..rows / WORD_ROWS].fill(0);
    if let Some(last) = masks.get_mut(rows / WORD_ROWS) {
        *last &= u64::MAX << (rows % WORD_ROWS);
    }
}

/// See [`super::positions`].
#[target_feature(enable = "avx2,popcnt")]
pub(super) fn positions(masks: &[u64], out: &mut Vec<u16>) {
    let count = count(masks);
    let mut filled = out.len();
    let end = filled + count;
    out.reserve(count + 8);
    for (word, mask) in masks.iter().enumerate() {
        if *mask == 0 {
            continue;
        }
        let mut first = _mm_set1_epi16((word * WORD_ROWS) as i16);
        for bits in mask.to_le_bytes() {
            let positions = &portable::BIT_POSITIONS[usize::from(bits)];
            // SAFETY: an entry has 16 bytes; at most `count` positions are filled before this store, and 8 more are reserved.
            unsafe {
                let positions = _mm_loadu_si128(positions.as_ptr().cast());
                _mm_storeu_si128(out.as_mut_ptr().add(filled).cast(), _mm_add_epi16(positions, first));
            }
            filled += bits.count_ones() as usize;
            first = _mm_add_epi16(first, _mm_set1_epi16(8));
        }
    }
    assert_eq!(filled, end, "as many positions as bits");
    // SAFETY: all positions up to `filled` were stored.
    unsafe { out.set_len(filled) };
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
