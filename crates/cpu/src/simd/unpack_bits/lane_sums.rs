//! Sums of the steps of delta encoding: 16 lanes add at once, and blocks of as many sums as a vector has lanes are transposed
//! in registers, so that each lane's sums are stored next to each other.

use std::arch::x86_64::*;

/// Lanes of a vector of delta encoding, and steps of a lane (`block/src/frame/delta.rs`).
const LANES: usize = 16;
const STEPS: usize = 64;
/// Bytes of a vector of the processor.
const VECTOR_BYTES: usize = 16;

/// See [`forebay_block::Unpack::sum_lanes`].
///
/// # Panics
/// If there are not 16 first values, 1,024 steps and room for as many sums.
#[target_feature(enable = "avx2")]
pub(super) fn sum_lanes(firsts: &[u8], steps: &[u8], element_bytes: usize, out: &mut [u8]) {
    match element_bytes {
        1 => sum_lanes_u8(firsts, steps, out),
        2 => sum_lanes_u16(firsts, steps, out),
        4 => sum_lanes_u32(firsts, steps, out),
        _ => sum_lanes_u64(firsts, steps, out),
    }
}

macro_rules! sum_lanes {
    ($name:ident, $bytes:literal, $add:ident, $low:ident, $high:ident) => {
        #[target_feature(enable = "avx2")]
        fn $name(firsts: &[u8], steps: &[u8], out: &mut [u8]) {
            /// Rows and columns of what is transposed.
            const SIDE: usize = VECTOR_BYTES / $bytes;
            let lengths = [firsts.len(), steps.len(), out.len()];
            assert_eq!(lengths, [LANES * $bytes, LANES * STEPS * $bytes, LANES * STEPS * $bytes], "one vector");
            for first_lane in (0..LANES).step_by(SIDE) {
                let mut sums = load(firsts, first_lane * $bytes);
                for first_step in (0..STEPS).step_by(SIDE) {
                    let mut rows = [sums; SIDE];
                    for (step, row) in rows.iter_mut().enumerate() {
                        sums = $add(sums, load(steps, ((first_step + step) * LANES + first_lane) * $bytes));
                        *row = sums;
                    }
                    // Interleaving the upper half of the rows with the lower half moves one bit of a row's number to that of its
                    // column, and one the other way.
                    for _ in 0..SIDE.ilog2() {
                        let before = rows;
                        for pair in 0..SIDE / 2 {
                            rows[2 * pair] = $low(before[pair], before[pair + SIDE / 2]);
                            rows[2 * pair + 1] = $high(before[pair], before[pair + SIDE / 2]);
                        }
                    }
                    for (lane, row) in rows.into_iter().enumerate() {
                        let at = ((first_lane + lane) * STEPS + first_step) * $bytes;
                        let slot = &mut out[at..at + VECTOR_BYTES];
                        // SAFETY: `slot` has 16 bytes.
                        unsafe { _mm_storeu_si128(slot.as_mut_ptr().cast(), row) };
                    }
                }
            }
        }
    };
}
sum_lanes!(sum_lanes_u8, 1, _mm_add_epi8, _mm_unpacklo_epi8, _mm_unpackhi_epi8);
sum_lanes!(sum_lanes_u16, 2, _mm_add_epi16, _mm_unpacklo_epi16, _mm_unpackhi_epi16);
sum_lanes!(sum_lanes_u32, 4, _mm_add_epi32, _mm_unpacklo_epi32, _mm_unpackhi_epi32);
sum_lanes!(sum_lanes_u64, 8, _mm_add_epi64, _mm_unpacklo_epi64, _mm_unpackhi_epi64);

#[target_feature(enable = "avx2")]
#[inline]
fn load(bytes: &[u8], at: usize) -> __m128i {
    let bytes = &bytes[at..at + VECTOR_BYTES];
    // SAFETY: `bytes` has 16 bytes.
    unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) }
}
