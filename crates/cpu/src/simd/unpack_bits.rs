//! Unpacking bits with byte permutations: for 64 bytes of values one permutation brings each 8 bytes the packed bits of
//! their values, and one multishift moves each value's bits to its place.

use forebay_block::Unpack;

use super::Flavour;

/// Bytes of a vector.
const VECTOR_BYTES: usize = 64;

/// What unpacks bits with the vector instructions of `flavour`.
pub fn unpacking(flavour: Flavour) -> &'static dyn Unpack {
    match flavour.or_portable() {
        Flavour::Avx512 => &Avx512,
        Flavour::Avx2 | Flavour::Portable => &forebay_block::PortableUnpack,
    }
}

/// For processors with VBMI.
struct Avx512;

impl Unpack for Avx512 {
    fn unpack_some(&self, packed: &[u8], width: u32, base: u64, element_bytes: usize, out: &mut [u8]) -> usize {
        let Some(plan) = Plan::new(width as usize, base, element_bytes) else { return 0 };
        #[cfg(target_arch = "x86_64")]
        if Flavour::Avx512.is_available() {
            // SAFETY: the processor has the instructions.
            return unsafe { x86::unpack(&plan, packed, out) };
        }
        let _ = (&plan, packed, out);
        0
    }
}

/// Where the bits of 64 bytes of values are.
struct Plan {
    /// Per byte of a vector: which of the packed bytes comes there.
    bytes: [u8; VECTOR_BYTES],
    /// Per byte of a vector: from which bit of its 8 bytes on it is taken.
    shifts: [u8; VECTOR_BYTES],
    /// The bits of a value, and what is added to it, in every 8 bytes.
    mask: u64,
    base: u64,
    /// Packed bytes of a vector.
    packed_bytes: usize,
    element_bytes: usize,
}

impl Plan {
    /// `None` where the bits of 8 bytes of values do not lie in 8 bytes.
    fn new(width: usize, base: u64, element_bytes: usize) -> Option<Self> {
        let values = 8 / element_bytes;
        let mut plan = Self {
            bytes: [0; VECTOR_BYTES],
            shifts: [0; VECTOR_BYTES],
            mask: 0,
            base: 0,
            packed_bytes: 8 * values * width / 8,
            element_bytes,
        };
        for eighth in 0..8 {
            let first_bit = eighth * values * width;
            if first_bit % 8 + values * width > 64 {
                return None;
            }
            for byte in 0..8 {
                let at = eighth * 8 + byte;
                plan.bytes[at] = (first_bit / 8 + byte) as u8;
                let (value, part) = (byte / element_bytes, byte % element_bytes);
                plan.shifts[at] = ((first_bit % 8 + value * width + part * 8) % 64) as u8;
            }
        }
        let element_bits = 8 * element_bytes as u32;
        let repeat = |element: u64| {
            let element = element & (u64::MAX >> (64 - element_bits));
            (0..values).fold(0, |all, value| all | element << (value as u32 * element_bits))
        };
        plan.mask = repeat(u64::MAX >> (64 - width));
        plan.base = repeat(base);
        Some(plan)
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::{Plan, VECTOR_BYTES};

    /// Fills `out` as far as whole vectors of packed bytes can be loaded; gives the number of values, a multiple of 64.
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    pub(super) fn unpack(plan: &Plan, packed: &[u8], out: &mut [u8]) -> usize {
        // SAFETY: both arrays have 64 bytes.
        let (bytes, shifts) =
            unsafe { (_mm512_loadu_epi8(plan.bytes.as_ptr().cast()), _mm512_loadu_epi8(plan.shifts.as_ptr().cast())) };
        let (mask, base) = (_mm512_set1_epi64(plan.mask as i64), _mm512_set1_epi64(plan.base as i64));
        let loadable = (packed.len() + plan.packed_bytes).saturating_sub(VECTOR_BYTES) / plan.packed_bytes;
        let vectors = (out.len() / VECTOR_BYTES).min(loadable);
        // So that what is left begins at a whole word of packed bits.
        let vectors = vectors / plan.element_bytes * plan.element_bytes;
        for vector in 0..vectors {
            // SAFETY: `vector` is below the number of vectors whose 64 packed bytes lie in `packed` and whose 64 bytes of
            // values lie in `out`.
            unsafe {
                let bits = _mm512_loadu_epi8(packed.as_ptr().add(vector * plan.packed_bytes).cast());
                let bits = _mm512_permutexvar_epi8(bytes, bits);
                let values = _mm512_and_si512(_mm512_multishift_epi64_epi8(shifts, bits), mask);
                let values = match plan.element_bytes {
                    1 => _mm512_add_epi8(values, base),
                    2 => _mm512_add_epi16(values, base),
                    4 => _mm512_add_epi32(values, base),
                    _ => _mm512_add_epi64(values, base),
                };
                _mm512_storeu_epi8(out.as_mut_ptr().add(vector * VECTOR_BYTES).cast(), values);
            }
        }
        vectors * VECTOR_BYTES / plan.element_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bit by bit.
    fn naive(packed: &[u8], width: usize, base: u64, element_bytes: usize, index: usize) -> u64 {
        let bit = |bit: usize| u64::from(packed[bit / 8] >> (bit % 8) & 1);
        let value = (0..width).fold(0, |value, place| value | bit(index * width + place) << place);
        value.wrapping_add(base) & (u64::MAX >> (64 - 8 * element_bytes))
    }

    #[test]
    fn every_width_unpacks_as_bit_by_bit() {
        let packed: Vec<u8> = (0..64 * 1024u64).map(|i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 37) as u8).collect();
        for flavour in Flavour::ALL.into_iter().filter(|flavour| flavour.is_available()) {
            for element_bytes in [1, 2, 4, 8] {
                for width in 1..=8 * element_bytes {
                    for count in [0, 1, 63, 64, 65, 512, 1000, 1024, 4096] {
                        let base = 0x0123_4567_89ab_cdef_u64.rotate_left(width as u32);
                        let mut out = vec![0u8; count * element_bytes];
                        let packed = &packed[..(count * width).div_ceil(64) * 8];
                        let done = unpacking(flavour).unpack_some(packed, width as u32, base, element_bytes, &mut out);
                        assert!(done <= count && done.is_multiple_of(64));
                        for (index, value) in out.chunks(element_bytes).enumerate().take(done) {
                            let mut bytes = [0; 8];
                            bytes[..element_bytes].copy_from_slice(value);
                            let expected = naive(packed, width, base, element_bytes, index);
                            assert_eq!(u64::from_le_bytes(bytes), expected, "{flavour:?} width {width} value {index}");
                        }
                    }
                }
            }
        }
    }
}
