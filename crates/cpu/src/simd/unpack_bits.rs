//! Unpacking bits with byte permutations: one brings the packed bits of each value to its bytes, variable shifts move them to
//! their place. And what comes behind unpacking: the sums of steps.
//!
//! Invariants: nothing outside of the packed bytes is read; what comes out is what plain loops give. Must not know: frames.

use forebay_block::Unpack;

use super::SimdLevel;

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
mod lane_sums;

/// Values that are unpacked together: they begin and end at whole words of packed bits, whatever their width.
const GROUP: usize = 64;
/// Most packed bytes of a group.
const GROUP_MAX_BYTES: usize = GROUP * 8;
/// Most bytes of a vector.
const VECTOR_MAX_BYTES: usize = 64;
/// Widths of elements of 1, 2, 4 and 8 bytes, from 1 bit on.
const WIDTHS: usize = 8 + 16 + 32 + 64;

/// What unpacks bits with the vector instructions of `level`.
pub fn unpacking(level: SimdLevel) -> &'static dyn Unpack {
    match level.or_portable() {
        #[cfg(target_arch = "x86_64")]
        SimdLevel::Avx512 => &Avx512,
        #[cfg(target_arch = "x86_64")]
        SimdLevel::Avx2 => &Avx2,
        _ => &forebay_block::PortableUnpack,
    }
}

/// The number of a width among [`WIDTHS`].
const fn width_index(width: usize, element_bytes: usize) -> usize {
    8 * element_bytes - 8 + width - 1
}

/// `element`, of so many bytes, as often as it fits.
const fn repeated(element: u64, element_bytes: usize) -> u64 {
    let element = element & (u64::MAX >> (64 - 8 * element_bytes));
    let (mut all, mut byte) = (0, 0);
    while byte < 8 {
        all |= element << (8 * byte);
        byte += element_bytes;
    }
    all
}

/// For processors with byte permutations of whole vectors (VBMI).
#[cfg(target_arch = "x86_64")]
struct Avx512;

#[cfg(target_arch = "x86_64")]
impl Unpack for Avx512 {
    fn unpack_some(&self, packed: &[u8], width: u32, base: u64, element_bytes: usize, out: &mut [u8]) -> usize {
        let width = width as usize;
        match &avx512::PLANS[width_index(width, element_bytes)] {
            Some(plan) if SimdLevel::Avx512.is_available() => {
                let base = repeated(base, element_bytes);
                by_groups((packed, width), (out, element_bytes), plan.behind_bytes(), |packed, out| {
                    // SAFETY: the processor has the instructions.
                    unsafe { avx512::unpack(plan, packed, base, out) };
                })
            }
            _ => Avx2.unpack_some(packed, width as u32, base, element_bytes, out),
        }
    }

    fn sum_lanes(&self, firsts: &[u8], steps: &[u8], element_bytes: usize, out: &mut [u8]) -> bool {
        Avx2.sum_lanes(firsts, steps, element_bytes, out)
    }
}

/// For processors whose byte permutations stay in halves of vectors.
#[cfg(target_arch = "x86_64")]
struct Avx2;

#[cfg(target_arch = "x86_64")]
impl Unpack for Avx2 {
    fn unpack_some(&self, packed: &[u8], width: u32, base: u64, element_bytes: usize, out: &mut [u8]) -> usize {
        if !SimdLevel::Avx2.is_available() {
            return 0;
        }
        let width = width as usize;
        let plan = &avx2::PLANS[width_index(width, element_bytes)];
        let base = repeated(base, element_bytes);
        by_groups((packed, width), (out, element_bytes), plan.behind_bytes(), |packed, out| {
            // SAFETY: the processor has the instructions.
            unsafe { avx2::unpack(plan, packed, base, out) };
        })
    }

    fn sum_lanes(&self, firsts: &[u8], steps: &[u8], element_bytes: usize, out: &mut [u8]) -> bool {
        if !SimdLevel::Avx2.is_available() {
            return false;
        }
        // SAFETY: the processor has the instructions.
        unsafe { lane_sums::sum_lanes(firsts, steps, element_bytes, out) };
        true
    }
}

/// Has `unpack` fill all whole groups of `out`, the last ones from a copy, where its loads would reach behind `packed`: by at
/// most so many bytes behind those of the groups. Gives the number of values.
#[cfg(target_arch = "x86_64")]
fn by_groups(
    (packed, width): (&[u8], usize),
    (out, element_bytes): (&mut [u8], usize),
    behind_bytes: usize,
    unpack: impl Fn(&[u8], &mut [u8]),
) -> usize {
    let (from, to) = (GROUP / 8 * width, GROUP * element_bytes);
    let groups = out.len() / to;
    let whole = groups.min(packed.len().saturating_sub(behind_bytes) / from);
    unpack(packed, &mut out[..whole * to]);
    if whole < groups {
        let rest = &packed[whole * from..groups * from];
        let mut padded = [0; GROUP_MAX_BYTES + 2 * VECTOR_MAX_BYTES];
        padded[..rest.len()].copy_from_slice(rest);
        unpack(&padded, &mut out[whole * to..groups * to]);
    }
    groups * GROUP
}

#[cfg(test)]
mod tests {
    use super::*;

    fn available() -> impl Iterator<Item = SimdLevel> {
        SimdLevel::ALL.into_iter().filter(|level| level.is_available())
    }

    fn noise(count: usize) -> Vec<u8> {
        (0..count as u64).map(|i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 37) as u8).collect()
    }

    /// The element number `index`, zero-extended.
    fn element(bytes: &[u8], element_bytes: usize, index: usize) -> u64 {
        let mut word = [0; 8];
        word[..element_bytes].copy_from_slice(&bytes[index * element_bytes..][..element_bytes]);
        u64::from_le_bytes(word)
    }

    /// Bit by bit.
    fn naive(packed: &[u8], width: usize, base: u64, element_bytes: usize, index: usize) -> u64 {
        let bit = |bit: usize| u64::from(packed[bit / 8] >> (bit % 8) & 1);
        let value = (0..width).fold(0, |value, place| value | bit(index * width + place) << place);
        value.wrapping_add(base) & (u64::MAX >> (64 - 8 * element_bytes))
    }

    /// Packed bytes begin on any boundary and end with their allocation; values lie on any boundary, between guards.
    fn check(level: SimdLevel, noise: &[u8], count: usize, width: usize, element_bytes: usize) {
        let base = 0x0123_4567_89ab_cdef_u64.rotate_left(width as u32);
        let before = (width + count) % 9;
        let (bytes, out_bytes) = ((count * width).div_ceil(64) * 8, count * element_bytes);
        let allocation: Box<[u8]> = noise[..before + bytes].into();
        let packed = &allocation[before..];
        let mut memory = vec![0xa5; before + out_bytes + VECTOR_MAX_BYTES].into_boxed_slice();
        let out = &mut memory[before..before + out_bytes];
        let done = unpacking(level).unpack_some(packed, width as u32, base, element_bytes, out);
        let expected = if level == SimdLevel::Portable { 0 } else { count / GROUP * GROUP };
        assert_eq!(done, expected, "{level:?} width {width} of {element_bytes} bytes, {count} values");
        for index in 0..done {
            let expected = naive(packed, width, base, element_bytes, index);
            let found = element(&memory[before..], element_bytes, index);
            assert_eq!(found, expected, "{level:?} width {width} of {element_bytes} bytes, value {index} of {count}");
        }
        let others = memory[..before].iter().chain(&memory[before + done * element_bytes..]);
        assert!(others.into_iter().all(|byte| *byte == 0xa5), "{level:?} width {width} of {element_bytes} bytes");
    }

    #[test]
    fn every_width_unpacks_as_bit_by_bit() {
        let noise = noise(9 * 1024);
        for level in available() {
            for element_bytes in [1, 2, 4, 8] {
                for width in 1..=8 * element_bytes {
                    for count in [0, 1, 63, 64, 65, 127, 128, 129, 191, 192, 320, 511, 512, 513, 1000, 1024] {
                        check(level, &noise, count, width, element_bytes);
                    }
                }
            }
        }
    }

    #[test]
    fn every_simd_level_adds_steps_in_the_same_way() {
        let noise = noise(9 * 1024);
        for level in available() {
            for element_bytes in [1, 2, 4, 8] {
                let (firsts, steps) = noise[3..].split_at(16 * element_bytes);
                let steps = &steps[..1024 * element_bytes];
                let mut out = vec![0; 1024 * element_bytes];
                let done = unpacking(level).sum_lanes(firsts, steps, element_bytes, &mut out);
                assert_eq!(done, level != SimdLevel::Portable, "{level:?}");
                for lane in (0..16).filter(|_| done) {
                    let mut sum = element(firsts, element_bytes, lane);
                    for step in 0..64 {
                        sum = sum.wrapping_add(element(steps, element_bytes, step * 16 + lane));
                        let expected = sum & (u64::MAX >> (64 - 8 * element_bytes));
                        assert_eq!(
                            element(&out, element_bytes, lane * 64 + step),
                            expected,
                            "{level:?}, {lane}, {step}"
                        );
                    }
                }
            }
        }
    }
}
