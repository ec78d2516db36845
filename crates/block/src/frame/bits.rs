//! Bit packing: value i of a packed run occupies the bits [i × width, (i + 1) × width), least significant bit first, so
//! that values unpack in row order and a lane of a GPU reaches its value by two aligned words.
//!
//! Invariants: packed bytes are a multiple of 8; unpacking reads exactly [`packed_bytes`] and cannot fail.
//! Must not know: what the values are.

use crate::frame::word::Word;

/// Values that are unpacked at a time: as many words as a value has bits.
const GROUP: usize = 64;

/// Bytes of `count` values of `width` bits, padded to whole words.
pub(crate) fn packed_bytes(count: usize, width: u32) -> usize {
    (count * width as usize).div_ceil(u64::BITS as usize) * size_of::<u64>()
}

/// Appends `values`, each of which has at most `width` bits.
pub(crate) fn pack(values: impl Iterator<Item = u64>, width: u32, out: &mut Vec<u8>) {
    if width == 0 {
        return;
    }
    let (mut word, mut used) = (0u64, 0);
    for value in values {
        word |= value << used;
        used += width;
        if used >= u64::BITS {
            out.extend_from_slice(&word.to_le_bytes());
            used -= u64::BITS;
            // The bits of the value that the word had no room for; all of them are in it where none is left.
            word = if used == 0 { 0 } else { value >> (width - used) };
        }
    }
    if used > 0 {
        out.extend_from_slice(&word.to_le_bytes());
    }
}

/// Decodes packed integers with what a processor has for it. This crate does so with plain loops; others may know better.
pub trait Unpack: Sync {
    /// Fills the first values of `out`, of `element_bytes` bytes each (1, 2, 4 or 8), with `base` plus each value of `packed`,
    /// wrapping. `packed` holds all values of `out` in `width` bits each, from 1 to the bits of an element. Gives how many
    /// were done, a multiple of 64; the others are left as they are.
    fn unpack_some(&self, packed: &[u8], width: u32, base: u64, element_bytes: usize, out: &mut [u8]) -> usize;

    /// Undoes the steps of one vector of delta encoding: fills `out` with 16 lanes of 64 values each, one after the other, of
    /// `element_bytes` bytes each (1, 2, 4 or 8). Value i of a lane is the lane's one of `firsts` plus its steps 0 to i,
    /// wrapping; step i of lane j is number 16 i + j of `steps`. False, and nothing filled, where it cannot.
    fn sum_lanes(&self, _firsts: &[u8], _steps: &[u8], _element_bytes: usize, _out: &mut [u8]) -> bool {
        false
    }
}

/// Leaves everything to plain loops.
#[derive(Debug, Clone, Copy, Default)]
pub struct PortableUnpack;

impl Unpack for PortableUnpack {
    fn unpack_some(&self, _packed: &[u8], _width: u32, _base: u64, _element_bytes: usize, _out: &mut [u8]) -> usize {
        0
    }
}

/// Fills `out` with `base` plus each value of `packed`, wrapping. `packed` has [`packed_bytes`] of as many values.
///
/// # Panics
/// If `packed` has another length or `width` is larger than 64.
pub(crate) fn unpack<T: Word>(with: &dyn Unpack, packed: &[u8], width: u32, base: u64, out: &mut [T]) {
    assert_eq!(packed.len(), packed_bytes(out.len(), width), "packed bytes of another number of values");
    if width == 0 {
        out.fill(T::from_low_bits(base));
        return;
    }
    let done = with.unpack_some(packed, width, base, size_of::<T>(), bytemuck::cast_slice_mut(out));
    let group_bytes = GROUP / 8 * width as usize;
    let (packed, out) = (&packed[done / GROUP * group_bytes..], &mut out[done / GROUP * GROUP..]);
    let unpack_group = T::UNPACK[width as usize - 1];
    let (groups, rest) = out.as_chunks_mut::<GROUP>();
    for (group, packed) in groups.iter_mut().zip(packed.chunks_exact(group_bytes)) {
        unpack_group(packed, base, group);
    }
    if !rest.is_empty() {
        let mut padded = [0u8; GROUP * 8];
        let tail = &packed[groups.len() * group_bytes..];
        padded[..tail.len()].copy_from_slice(tail);
        let mut group = [T::zeroed(); GROUP];
        unpack_group(&padded[..group_bytes], base, &mut group);
        rest.copy_from_slice(&group[..rest.len()]);
    }
}

/// Unpacks 64 values of `WIDTH` bits: shifts and masks that the compiler knows.
pub(crate) fn unpack_group<T: Word, const WIDTH: usize>(packed: &[u8], base: u64, out: &mut [T; GROUP]) {
    let mut words = [0u64; WIDTH];
    for (word, bytes) in words.iter_mut().zip(packed.as_chunks::<8>().0) {
        *word = u64::from_le_bytes(*bytes);
    }
    let mask = u64::MAX >> (64 - WIDTH);
    let base = T::from_low_bits(base);
    macro_rules! values {
        ($($i:literal)*) => {$({
            const BIT: usize = $i;
            let (word, shift) = (BIT * WIDTH / 64, BIT * WIDTH % 64);
            let low = words[word] >> shift;
            let bits = if shift + WIDTH > 64 { low | words[word + 1] << (64 - shift) } else { low };
            out[BIT] = base.plus(T::from_low_bits(bits & mask));
        })*};
    }
    values!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31
        32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn round_trip<T: Word>(values: &[u64], width: u32, base: u64) {
        let mut packed = Vec::new();
        pack(values.iter().copied(), width, &mut packed);
        assert_eq!(packed.len(), packed_bytes(values.len(), width));
        let mut out = vec![T::zeroed(); values.len()];
        unpack(&PortableUnpack, &packed, width, base, &mut out);
        for (index, (found, value)) in out.iter().zip(values).enumerate() {
            assert_eq!(*found, T::from_low_bits(value.wrapping_add(base)), "value {index} of width {width}");
        }
    }

    proptest! {
        #[test]
        fn every_width_and_length_unpacks(width in 0..=64u32, count in 0..300usize, base: u64, seed: u64) {
            let mask = if width == 0 { 0 } else { u64::MAX >> (64 - width) };
            let mut state = seed | 1;
            let values: Vec<u64> = (0..count)
                .map(|_| {
                    state = state.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29);
                    state & mask
                })
                .collect();
            round_trip::<u64>(&values, width, base);
            if width <= 32 {
                round_trip::<u32>(&values, width, base);
            }
            if width <= 16 {
                round_trip::<u16>(&values, width, base);
            }
            if width <= 8 {
                round_trip::<u8>(&values, width, base);
            }
        }
    }
}
