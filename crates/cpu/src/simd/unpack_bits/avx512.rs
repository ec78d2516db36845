//! 64-byte vectors: one permutation brings each 8 bytes of values the packed bits of theirs, and one multishift moves each
//! value's bits to its place.

use std::arch::x86_64::*;

use super::{WIDTHS, repeated, width_index};

/// Bytes of a vector.
const VECTOR_BYTES: usize = 64;

/// Where the bits of 64 bytes of values are.
pub(super) struct Plan {
    /// Per byte of a vector: which of the packed bytes comes there.
    bytes: [u8; VECTOR_BYTES],
    /// Per byte of a vector: from which bit of its 8 bytes on it is taken.
    shifts: [u8; VECTOR_BYTES],
    /// The bits of a value, in every 8 bytes.
    mask: u64,
    /// Packed bytes of a vector.
    packed_bytes: usize,
    element_bytes: usize,
}

/// By [`width_index`]; `None` where the bits of 8 bytes of values do not lie in 8 bytes.
pub(super) static PLANS: [Option<Plan>; WIDTHS] = {
    let mut plans = [const { None }; WIDTHS];
    let mut element_bytes = 1;
    while element_bytes <= 8 {
        let mut width = 1;
        while width <= 8 * element_bytes {
            plans[width_index(width, element_bytes)] = Plan::new(width, element_bytes);
            width += 1;
        }
        element_bytes *= 2;
    }
    plans
};

impl Plan {
    const fn new(width: usize, element_bytes: usize) -> Option<Self> {
        let values = 8 / element_bytes;
        let mut plan = Self {
            bytes: [0; VECTOR_BYTES],
            shifts: [0; VECTOR_BYTES],
            mask: repeated(u64::MAX >> (64 - width), element_bytes),
            packed_bytes: values * width,
            element_bytes,
        };
        let mut at = 0;
        while at < VECTOR_BYTES {
            let (eighth, byte) = (at / 8, at % 8);
            let first_bit = eighth * values * width;
            if first_bit % 8 + values * width > 64 {
                return None;
            }
            plan.bytes[at] = (first_bit / 8 + byte) as u8;
            let (value, part) = (byte / element_bytes, byte % element_bytes);
            plan.shifts[at] = ((first_bit % 8 + value * width + part * 8) % 64) as u8;
            at += 1;
        }
        Some(plan)
    }

    /// Bytes that [`unpack`] needs behind the packed ones of its last vector.
    pub(super) fn behind_bytes(&self) -> usize {
        VECTOR_BYTES - self.packed_bytes
    }
}

/// Fills `out`, whole vectors, with the values of `packed`, behind which as many bytes are needed as the plan says; `base` is
/// what is added to them, in every 8 bytes.
///
/// # Panics
/// If `packed` has too few bytes.
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
pub(super) fn unpack(plan: &Plan, packed: &[u8], base: u64, out: &mut [u8]) {
    let vectors = out.as_chunks_mut::<VECTOR_BYTES>().0;
    if vectors.is_empty() {
        return;
    }
    assert!(packed.len() >= (vectors.len() - 1) * plan.packed_bytes + VECTOR_BYTES, "a load for each vector");
    // SAFETY: both arrays have 64 bytes.
    let (bytes, shifts) =
        unsafe { (_mm512_loadu_epi8(plan.bytes.as_ptr().cast()), _mm512_loadu_epi8(plan.shifts.as_ptr().cast())) };
    let (mask, base) = (_mm512_set1_epi64(plan.mask as i64), _mm512_set1_epi64(base as i64));
    for (vector, out) in vectors.iter_mut().enumerate() {
        // SAFETY: `packed` has 64 bytes from each vector's on, as was made sure of, and `out` has 64.
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
            _mm512_storeu_epi8(out.as_mut_ptr().cast(), values);
        }
    }
}
