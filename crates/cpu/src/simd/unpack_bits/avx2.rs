//! 32-byte vectors, two at a time. Each half of a vector is a lane with 16 packed bytes of its own, since permutations do not
//! cross lanes. Values of 4 and 8 bytes are shifted by variable shifts; those of 1 and 2 bytes, for which there are none, as
//! words of 2 bytes, by multiplying with powers of two: the upper half of a product is a shift to the right, the lower half
//! one to the left.

use std::arch::x86_64::*;

use super::{WIDTHS, repeated, width_index};

/// Bytes of a vector.
const VECTOR_BYTES: usize = 32;
/// Bytes of two vectors.
const STEP_BYTES: usize = 64;
/// Bytes of a lane.
const LANE_BYTES: usize = 16;
/// Lanes of two vectors.
const LANES: usize = STEP_BYTES / LANE_BYTES;
/// In place of the number of a byte, where it does not matter what comes there.
const NO_BYTE: u8 = 0x80;

/// Where the bits of 64 bytes of values are, and how they get to their place: in two parts, of which each has bits of a value
/// that the other lacks.
pub(super) struct Plan {
    /// Per part and byte of a step: which of its lane's packed bytes comes there. Values of 4 and 8 bytes have those of the
    /// first part in the second one, too, from one byte later on.
    bytes: [[u8; STEP_BYTES]; 2],
    /// Per part and word of values of 1 and 2 bytes: what it is multiplied with. Per part and value of 4 and 8 bytes: by how
    /// many bits it is shifted.
    factors: [[u8; STEP_BYTES]; 2],
    /// Per part: the bits that are taken from it, in every 8 bytes.
    masks: [u64; 2],
    /// Per lane: the first one of its packed bytes.
    starts: [u8; LANES],
    /// Whether the second part is needed for values of 4 and 8 bytes.
    in_two_parts: bool,
    /// Packed bytes of a step.
    packed_bytes: usize,
    element_bytes: usize,
}

/// By [`width_index`].
pub(super) static PLANS: [Plan; WIDTHS] = {
    let mut plans = [const { Plan::new(1, 1) }; WIDTHS];
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
    const fn new(width: usize, element_bytes: usize) -> Self {
        let mask = repeated(u64::MAX >> (64 - width), element_bytes);
        let mut plan = Self {
            bytes: [[NO_BYTE; STEP_BYTES]; 2],
            factors: [[0; STEP_BYTES]; 2],
            // The values of 1 byte at odd places are those of the second part.
            masks: if element_bytes == 1 {
                [mask & 0x00ff_00ff_00ff_00ff, mask & !0x00ff_00ff_00ff_00ff]
            } else {
                [mask; 2]
            },
            starts: [0; LANES],
            in_two_parts: false,
            packed_bytes: STEP_BYTES / 8 * width / element_bytes,
            element_bytes,
        };
        let mut at = 0;
        while at < STEP_BYTES {
            let first_bit = at / LANE_BYTES * LANE_BYTES / element_bytes * width;
            plan.starts[at / LANE_BYTES] = (first_bit / 8) as u8;
            let bit = first_bit % 8 + at % LANE_BYTES / element_bytes * width;
            match element_bytes {
                1 if at % 2 == 0 => plan.right(at, bit),
                1 => plan.left(at - 1, bit / 8, 8 - bit % 8),
                2 => {
                    plan.right(at, bit);
                    // From the byte behind that of `right` on, whose shift is 1 to 8.
                    let byte = bit.div_ceil(8);
                    plan.left(at, byte, byte * 8 - bit);
                }
                _ => plan.whole(at, bit, width),
            }
            at += element_bytes;
        }
        plan
    }

    /// The word at `at` is `bit` and those above it, by the upper half of a product. Its shift is 1 to 8, since there is no
    /// factor for 0.
    const fn right(&mut self, at: usize, bit: usize) {
        let behind = bit.div_ceil(8);
        self.bytes[0][at] = if behind == 0 { NO_BYTE } else { number(behind - 1) };
        self.bytes[0][at + 1] = number(behind);
        let shift = bit + 8 - behind * 8;
        self.factors[0][at + 1] = 1 << (8 - shift);
    }

    /// The word at `at` is that from `byte` on, moved `shift` bits up, 0 to 8, by the lower half of a product.
    const fn left(&mut self, at: usize, byte: usize, shift: usize) {
        self.bytes[1][at] = number(byte);
        self.bytes[1][at + 1] = number(byte + 1);
        self.factors[1][at + shift / 8] = 1 << (shift % 8);
    }

    /// The value at `at`, of 4 or 8 bytes, is `bit` and those above it.
    const fn whole(&mut self, at: usize, bit: usize, width: usize) {
        let mut byte = 0;
        while byte < self.element_bytes {
            self.bytes[0][at + byte] = number(bit / 8 + byte);
            byte += 1;
        }
        self.factors[0][at] = (bit % 8) as u8;
        self.factors[1][at] = (8 - bit % 8) as u8;
        self.in_two_parts |= bit % 8 + width > 8 * self.element_bytes;
    }

    /// Bytes behind the first one of a step that [`unpack`] loads.
    const fn loaded_bytes(&self) -> usize {
        self.starts[LANES - 1] as usize + LANE_BYTES + self.in_two_parts as usize
    }

    /// Bytes that [`unpack`] needs behind the packed ones of its last step.
    pub(super) const fn behind_bytes(&self) -> usize {
        self.loaded_bytes().saturating_sub(self.packed_bytes)
    }
}

/// The number of a byte for a permutation.
const fn number(byte: usize) -> u8 {
    if byte < LANE_BYTES { byte as u8 } else { NO_BYTE }
}

/// Fills `out`, whole steps, with the values of `packed`, behind which as many bytes are needed as the plan says; `base` is
/// what is added to them, in every 8 bytes.
///
/// # Panics
/// If `packed` has too few bytes.
#[target_feature(enable = "avx2")]
pub(super) fn unpack(plan: &Plan, packed: &[u8], base: u64, out: &mut [u8]) {
    let base = _mm256_set1_epi64x(base as i64);
    let bytes = plan.bytes.map(|part| vectors(&part));
    let factors = plan.factors.map(|part| vectors(&part));
    let masks = plan.masks.map(|mask| _mm256_set1_epi64x(mask as i64));
    let words = |vector: usize, bits: __m256i| {
        let right = _mm256_mulhi_epu16(_mm256_shuffle_epi8(bits, bytes[0][vector]), factors[0][vector]);
        let left = _mm256_mullo_epi16(_mm256_shuffle_epi8(bits, bytes[1][vector]), factors[1][vector]);
        _mm256_or_si256(_mm256_and_si256(right, masks[0]), _mm256_and_si256(left, masks[1]))
    };
    macro_rules! whole {
        ($right:ident, $left:ident, $add:ident) => {{
            let right = |vector: usize, bits| $right(_mm256_shuffle_epi8(bits, bytes[0][vector]), factors[0][vector]);
            let left = |vector: usize, bits| $left(_mm256_shuffle_epi8(bits, bytes[0][vector]), factors[1][vector]);
            if plan.in_two_parts {
                each_vector(plan, packed, out, |vector, [bits, later]| {
                    let values = _mm256_or_si256(right(vector, bits), left(vector, later));
                    $add(_mm256_and_si256(values, masks[0]), base)
                });
            } else {
                each_vector(plan, packed, out, |vector, [bits]| {
                    $add(_mm256_and_si256(right(vector, bits), masks[0]), base)
                });
            }
        }};
    }
    match plan.element_bytes {
        1 => each_vector(plan, packed, out, |vector, [bits]| _mm256_add_epi8(words(vector, bits), base)),
        2 => each_vector(plan, packed, out, |vector, [bits]| _mm256_add_epi16(words(vector, bits), base)),
        4 => whole!(_mm256_srlv_epi32, _mm256_sllv_epi32, _mm256_add_epi32),
        _ => whole!(_mm256_srlv_epi64, _mm256_sllv_epi64, _mm256_add_epi64),
    }
}

/// The two vectors of a step.
#[target_feature(enable = "avx2")]
#[inline]
fn vectors(step: &[u8; STEP_BYTES]) -> [__m256i; 2] {
    // SAFETY: a step has twice 32 bytes.
    unsafe { [_mm256_loadu_si256(step.as_ptr().cast()), _mm256_loadu_si256(step.as_ptr().add(VECTOR_BYTES).cast())] }
}

/// Fills `out` with what `values` makes of the number of a vector within its step and of its lanes' packed bytes: those from
/// the start of each lane on and, where it wants more, those from one byte later on.
#[target_feature(enable = "avx2")]
#[inline]
fn each_vector<const LOADS: usize>(
    plan: &Plan,
    packed: &[u8],
    out: &mut [u8],
    values: impl Fn(usize, [__m256i; LOADS]) -> __m256i,
) {
    let steps = out.as_chunks_mut::<STEP_BYTES>().0;
    let starts = plan.starts.map(usize::from);
    let Some(last) = steps.len().checked_sub(1) else { return };
    let loaded = starts.into_iter().fold(0, usize::max) + LANE_BYTES + LOADS - 1;
    assert!(packed.len() >= last * plan.packed_bytes + loaded, "loads for each step");
    for (step, out) in steps.iter_mut().enumerate() {
        for (vector, out) in out.as_chunks_mut::<VECTOR_BYTES>().0.iter_mut().enumerate() {
            let bits = std::array::from_fn(|later| {
                let lane = |lane: usize| {
                    // SAFETY: `packed` has as many bytes behind the start of each step as loads reach, as was made sure of.
                    unsafe {
                        _mm_loadu_si128(packed.as_ptr().add(step * plan.packed_bytes + starts[lane] + later).cast())
                    }
                };
                _mm256_set_m128i(lane(vector * 2 + 1), lane(vector * 2))
            });
            // SAFETY: `out` has 32 bytes.
            unsafe { _mm256_storeu_si256(out.as_mut_ptr().cast(), values(vector, bits)) };
        }
    }
}
