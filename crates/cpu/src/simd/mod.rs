//! Finding matches with the processor's vector units (Data Blocks §4.2, Appendix C): one bit for each row, 64 rows to a
//! word, and from the bits to positions.
//!
//! Callers say which SIMD level; the portable one is what the others are tested against. Callers see safe functions;
//! `unsafe` stays in this module. Must not know: encodings, NULLs, what a test means.

use std::sync::OnceLock;

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod portable;
mod unpack_bits;

pub use unpack_bits::unpacking;

/// Asks for the memory of `slice[index]`, which is read soon, without waiting for it: into the second cache, which has more
/// room for what is under way than the first.
#[inline]
pub(crate) fn prefetch<T>(slice: &[T], index: usize) {
    let place = slice.as_ptr().wrapping_add(index);
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        // SAFETY: a hint, which may name any address and never faults; SSE is on every x86-64.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(place.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}

/// Rows of a word of bits.
pub const WORD_ROWS: usize = 64;

/// The vector instructions that are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SimdLevel {
    /// Whatever the compiler makes of plain loops.
    Portable,
    /// 32-byte vectors.
    Avx2,
    /// 64-byte vectors with masks, byte permutations (VBMI), compression of 16-bit lanes (VBMI2) and counts of bits.
    Avx512,
}

impl SimdLevel {
    /// All of them, from the plainest.
    pub const ALL: [Self; 3] = [Self::Portable, Self::Avx2, Self::Avx512];

    /// Its name in settings.
    pub fn name(self) -> &'static str {
        match self {
            Self::Portable => "portable",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
        }
    }

    /// Whether this processor has it.
    pub fn is_available(self) -> bool {
        match self {
            Self::Portable => true,
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => is_x86_feature_detected!("avx2") && is_x86_feature_detected!("popcnt"),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => {
                is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512vbmi")
                    && is_x86_feature_detected!("avx512vbmi2")
                    && is_x86_feature_detected!("avx512vpopcntdq")
            }
            #[cfg(not(target_arch = "x86_64"))]
            _ => false,
        }
    }

    /// The best one that this processor has.
    pub fn best() -> Self {
        static BEST: OnceLock<SimdLevel> = OnceLock::new();
        let find = || Self::ALL.into_iter().rev().find(|level| level.is_available()).unwrap_or(Self::Portable);
        *BEST.get_or_init(find)
    }

    /// Itself where this processor has it: no one can make it run what it has not.
    fn or_portable(self) -> Self {
        if self.is_available() { self } else { Self::Portable }
    }
}

/// An unsigned lane that vectors hold.
pub trait Lane: Copy + Ord + bytemuck::Pod {
    /// Bits of `masks` for lanes `v` of `values` with `v - low <= span` (modulo the lane's width); see [`range`].
    #[doc(hidden)]
    fn range(level: SimdLevel, values: &[Self], low: Self, span: Self, masks: &mut [u64]);
    /// Bits of `masks` for lanes whose number less `low` is a bit of `bits`; see [`members`].
    #[doc(hidden)]
    fn members(level: SimdLevel, values: &[Self], low: u64, bits: &[u64], masks: &mut [u64]);
    /// `self - low`, wrapping, in the lane's width.
    #[doc(hidden)]
    fn above(self, low: Self) -> Self;
    /// Zero-extended.
    #[doc(hidden)]
    fn wide(self) -> u64;
}

macro_rules! lane {
    ($($lane:ident $range:ident $members:ident),*) => {$(
        impl Lane for $lane {
            fn range(level: SimdLevel, values: &[Self], low: Self, span: Self, masks: &mut [u64]) {
                match level {
                    #[cfg(target_arch = "x86_64")]
                    // SAFETY: the functions that call this let a SIMD level pass only where the processor has its instructions.
                    SimdLevel::Avx512 => unsafe { avx512::$range(values, low, span, masks) },
                    #[cfg(target_arch = "x86_64")]
                    // SAFETY: as above.
                    SimdLevel::Avx2 => unsafe { avx2::$range(values, low, span, masks) },
                    _ => portable::range(values, low, span, masks),
                }
            }

            fn members(level: SimdLevel, values: &[Self], low: u64, bits: &[u64], masks: &mut [u64]) {
                match level {
                    #[cfg(target_arch = "x86_64")]
                    // SAFETY: the functions that call this let a SIMD level pass only where the processor has its instructions.
                    SimdLevel::Avx512 => unsafe { avx512::$members(values, low, bits, masks) },
                    #[cfg(target_arch = "x86_64")]
                    // SAFETY: as above.
                    SimdLevel::Avx2 => unsafe { avx2::$members(values, low, bits, masks) },
                    _ => portable::members(values, low, bits, masks),
                }
            }

            #[inline]
            fn above(self, low: Self) -> Self {
                self.wrapping_sub(low)
            }

            #[inline]
            fn wide(self) -> u64 {
                self.into()
            }
        }
    )*};
}
lane!(u8 range_u8 members_u8, u16 range_u16 members_u16, u32 range_u32 members_u32, u64 range_u64 members_u64);

/// Keeps those bits of `masks` whose lanes lie in `low..=low + span` (modulo the lane's width). Bit `i % 64` of word
/// `i / 64` stands for `values[i]`; bits behind the last value stay as they are, words of zeros are not looked at.
pub fn range<L: Lane>(level: SimdLevel, values: &[L], low: L, span: L, masks: &mut [u64]) {
    L::range(level.or_portable(), values, low, span, &mut masks[..values.len().div_ceil(WORD_ROWS)]);
}

/// Keeps those bits of `masks` whose lanes, less `low`, are set in `bits`; `low` may be "negative" (modulo 2^64). The
/// rest is as with [`range`].
pub fn members<L: Lane>(level: SimdLevel, values: &[L], low: u64, bits: &[u64], masks: &mut [u64]) {
    L::members(level.or_portable(), values, low, bits, &mut masks[..values.len().div_ceil(WORD_ROWS)]);
}

/// The bits that a hash sets in its word of a Bloom filter, up to four of them; not those of the hash that choose the word.
#[inline]
pub fn bloom_bits(hash: u64) -> u64 {
    1 << (hash >> 8 & 63) | 1 << (hash >> 14 & 63) | 1 << (hash >> 20 & 63) | 1 << (hash >> 26 & 63)
}

/// Keeps those bits of `masks` whose hashes have all of their [`bloom_bits`] in word `hash >> shift` of `words`. Bit
/// `i % 64` of word `i / 64` stands for `hashes[i]`.
pub fn bloom(level: SimdLevel, hashes: &[u64], words: &[u64], shift: u32, masks: &mut [u64]) {
    assert!((1..64).contains(&shift) && words.len() == 1 << (u64::BITS - shift), "every hash has a word");
    let masks = &mut masks[..hashes.len().div_ceil(WORD_ROWS)];
    match level.or_portable() {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: only SIMD levels of this processor come here, and every hash shifted so is the number of a word.
        SimdLevel::Avx512 => unsafe { avx512::bloom(hashes, words, shift, masks) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        SimdLevel::Avx2 => unsafe { avx2::bloom(hashes, words, shift, masks) },
        _ => portable::bloom(hashes, words, shift, masks),
    }
}

/// The number of bits of `masks` that are 1.
pub fn count(level: SimdLevel, masks: &[u64]) -> usize {
    match level.or_portable() {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the functions that call this let a SIMD level pass only where the processor has its instructions.
        SimdLevel::Avx512 => unsafe { avx512::count(masks) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        SimdLevel::Avx2 => unsafe { avx2::count(masks) },
        _ => portable::count(masks),
    }
}

/// Appends the positions of all bits of `masks`, ascending; at most 65,536 bits.
pub fn positions(level: SimdLevel, masks: &[u64], out: &mut Vec<u16>) {
    assert!(masks.len() <= (1 << 16) / WORD_ROWS, "positions have 16 bits");
    match level.or_portable() {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the functions that call this let a SIMD level pass only where the processor has its instructions.
        SimdLevel::Avx512 => unsafe { avx512::positions(masks, out) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        SimdLevel::Avx2 => unsafe { avx2::positions(masks, out) },
        _ => portable::positions(masks, out),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers that look random, the same every time.
    fn noise(seed: u64) -> impl FnMut() -> u64 {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        }
    }

    fn masks_of(rows: usize, next: &mut impl FnMut() -> u64, kind: u64) -> Vec<u64> {
        let word = |next: &mut dyn FnMut() -> u64| match kind % 4 {
            0 => u64::MAX,
            1 => next(),
            2 => next() & next() & next() & next() & next(),
            _ => {
                if next().is_multiple_of(3) {
                    next()
                } else {
                    0
                }
            }
        };
        (0..rows.div_ceil(WORD_ROWS)).map(|_| word(next)).collect()
    }

    fn check<L: Lane>(from: impl Fn(u64) -> L) {
        let mut next = noise(7);
        for case in 0..400 {
            let rows = [0, 1, 63, 64, 65, 127, 128, 1000, 4096, 65_536][case % 10];
            let small = case % 3 == 0;
            let values: Vec<L> = (0..rows).map(|_| from(if small { next() % 40 } else { next() })).collect();
            let (low, span) = match small {
                true => (from(next() % 40), from(next() % 20)),
                false => (from(next()), from(next() >> (next() % 64))),
            };
            let given = masks_of(rows, &mut next, case as u64);
            let bits: Vec<u64> = (0..next() % 70).map(|_| next()).collect();
            // Near nothing, below it, and near the top of the lanes.
            let start = match case % 4 {
                0 | 2 => next() % 100,
                1 => (next() % 100).wrapping_neg(),
                _ => from(u64::MAX).wide() - next() % 5000 % from(u64::MAX).wide(),
            };
            for level in SimdLevel::ALL.into_iter().filter(|level| level.is_available()) {
                let naive = |passes: &dyn Fn(L) -> bool| -> Vec<u64> {
                    let mut masks = given.clone();
                    for (row, value) in values.iter().enumerate().filter(|(_, value)| !passes(**value)) {
                        let _ = value;
                        masks[row / 64] &= !(1 << (row % 64));
                    }
                    masks
                };
                let mut masks = given.clone();
                L::range(level, &values, low, span, &mut masks);
                assert_eq!(masks, naive(&|value| value.above(low) <= span), "range, {level:?}, case {case}");
                let mut masks = given.clone();
                L::members(level, &values, start, &bits, &mut masks);
                let member = |value: L| {
                    let number = value.wide().wrapping_sub(start);
                    bits.get((number / 64) as usize).is_some_and(|word| word >> (number % 64) & 1 == 1)
                };
                assert_eq!(masks, naive(&member), "members, {level:?}, case {case}");
                let ones = (0..masks.len() * 64).filter(|bit| masks[bit / 64] >> (bit % 64) & 1 == 1).count();
                assert_eq!(count(level, &masks), ones, "count, {level:?}, case {case}");
            }
        }
    }

    #[test]
    fn every_simd_level_keeps_the_same_bits() {
        check(|bits| bits as u8);
        check(|bits| bits as u16);
        check(|bits| bits as u32);
        check(|bits| bits);
    }

    /// Around the most that registers hold, at both ends of the lanes, and beyond them.
    fn check_members<L: Lane>(most: L, from: impl Fn(u64) -> L) {
        let mut next = noise(11);
        let spans =
            [0, 1, 63, 64, 65, 127, 128, 200, 253, 254, 255, 256, 257, 300, 1000, 2046, 2047, 2048, 2049, 70_000];
        let most = most.wide();
        let starts = [0, 1, 63, 64, 100, 1 << 15, 1 << 31, (1 << 31) + 7, most.saturating_sub(300), most - 40, most]
            .into_iter()
            .chain([1, 64, 100, 1 << 20, 1 << 40].map(u64::wrapping_neg));
        for (case, (start, span)) in starts.flat_map(|start| spans.map(|span| (start, span))).enumerate() {
            let density = case % 3;
            let word = |next: &mut dyn FnMut() -> u64| (0..density).fold(next(), |word, _| word | next());
            let mut bits: Vec<u64> = (0..=span / 64).map(|_| word(&mut next)).collect();
            // The last bit is set, none is behind it; often there are words without any.
            let last = &mut bits[(span / 64) as usize];
            *last = *last & (u64::MAX >> (63 - span % 64)) | 1 << (span % 64);
            bits.resize(bits.len() + [0, 1, 5][case % 3], 0);
            if case % 11 == 10 {
                bits.fill(0);
            }
            let near = |next: u64| from(start.wrapping_add(next % (span + 20)).wrapping_sub(10));
            let rows = [64, 65, 130, 1000][case % 4];
            let values: Vec<L> = (0..rows).map(|row| if row % 5 == 0 { from(next()) } else { near(next()) }).collect();
            let given = masks_of(rows, &mut next, case as u64);
            let mut expected = given.clone();
            portable::members(&values, start, &bits, &mut expected);
            for level in SimdLevel::ALL {
                let mut masks = given.clone();
                members(level, &values, start, &bits, &mut masks);
                assert_eq!(masks, expected, "{level:?}, {span} bits from {start} on");
                let mut masks = given.clone();
                members(level, &values, start, &[], &mut masks);
                let behind = masks.last().filter(|_| rows % 64 != 0).map_or(0, |last| last >> (rows % 64));
                assert_eq!(masks.iter().map(|mask| mask.count_ones()).sum::<u32>(), behind.count_ones(), "{level:?}");
            }
        }
    }

    #[test]
    fn every_simd_level_looks_up_the_same_members() {
        check_members(u8::MAX, |bits| bits as u8);
        check_members(u16::MAX, |bits| bits as u16);
        check_members(u32::MAX, |bits| bits as u32);
        check_members(u64::MAX, |bits| bits);
    }

    #[test]
    fn every_simd_level_gives_the_same_positions() {
        let mut next = noise(3);
        for case in 0..200 {
            let masks = masks_of([0, 64, 128, 6400, 65_536][case as usize % 5], &mut next, case);
            let naive: Vec<u16> = (0..masks.len() * 64)
                .filter(|row| masks[row / 64] >> (row % 64) & 1 == 1)
                .map(|row| row as u16)
                .collect();
            let mut plain = vec![9];
            portable::positions(&masks, &mut plain);
            assert_eq!(plain[1..], naive, "portable, case {case}");
            for level in SimdLevel::ALL {
                let mut fast = vec![9];
                positions(level, &masks, &mut fast);
                assert_eq!(fast, plain, "{level:?}, case {case}");
            }
        }
    }
}
