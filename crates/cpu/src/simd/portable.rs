//! The plain SIMD level: loops that a compiler vectorises where it can. All others are tested against it.

use super::{Lane, WORD_ROWS};

/// See [`super::range`].
pub(super) fn range<L: Lane>(values: &[L], low: L, span: L, masks: &mut [u64]) {
    each_word(values, masks, |values| fold(values, |value| value.above(low) <= span));
}

/// See [`super::count`].
#[inline]
pub(super) fn count(masks: &[u64]) -> usize {
    masks.iter().map(|mask| mask.count_ones() as usize).sum()
}

/// See [`super::members`].
pub(super) fn members<L: Lane>(values: &[L], low: u64, bits: &[u64], masks: &mut [u64]) {
    for (values, mask) in values.chunks(WORD_ROWS).zip(masks) {
        *mask = members_of_word(values, low, bits, *mask);
    }
}

/// The bits of one word that are members: all rows at a time where many are wanted, else one by one.
#[inline]
pub(super) fn members_of_word<L: Lane>(values: &[L], low: u64, bits: &[u64], mask: u64) -> u64 {
    let is_member = |value: L| {
        let number = value.wide().wrapping_sub(low);
        let word = bits.get((number / 64) as usize).copied().unwrap_or(0);
        word >> (number % 64) & 1 == 1
    };
    let (mut rest, mut kept) = (mask, 0);
    while rest != 0 {
        let row = rest.trailing_zeros() as usize;
        // Bits behind the last value stay as they are.
        kept |= u64::from(values.get(row).is_none_or(|value| is_member(*value))) << row;
        rest &= rest - 1;
    }
    kept
}

/// `masks` and what `bits_of` says of each word of values; words of zeros are not looked at.
#[inline]
pub(super) fn each_word<L: Lane>(values: &[L], masks: &mut [u64], bits_of: impl Fn(&[L]) -> u64) {
    for (values, mask) in values.chunks(WORD_ROWS).zip(masks) {
        if *mask != 0 {
            let behind = if values.len() == WORD_ROWS { 0 } else { u64::MAX << values.len() };
            *mask &= bits_of(values) | behind;
        }
    }
}

/// One bit for each value that passes.
#[inline]
pub(super) fn fold<L: Lane>(values: &[L], passes: impl Fn(L) -> bool) -> u64 {
    match values.first_chunk::<WORD_ROWS>() {
        Some(values) => {
            let mut flags = [0u8; WORD_ROWS];
            for (flag, value) in flags.iter_mut().zip(values) {
                *flag = u8::from(passes(*value));
            }
            pack(&flags)
        }
        None => values.iter().rev().fold(0, |mask, value| mask << 1 | u64::from(passes(*value))),
    }
}

/// One bit for each byte that is 1.
#[inline]
fn pack(flags: &[u8; WORD_ROWS]) -> u64 {
    let mut bytes = [0; 8];
    for (byte, flags) in bytes.iter_mut().zip(flags.as_chunks::<8>().0) {
        // The product moves the lowest bit of byte i to bit 56 + i; no two bits meet.
        *byte = (u64::from_le_bytes(*flags).wrapping_mul(0x0102_0408_1020_4080) >> 56) as u8;
    }
    u64::from_le_bytes(bytes)
}

/// Positions of the bits of every byte: the position table of Data Blocks, Appendix C.
pub(super) static BIT_POSITIONS: [[u16; 8]; 256] = {
    let mut table = [[0; 8]; 256];
    let mut byte = 0;
    while byte < 256 {
        let (mut bit, mut next) = (0, 0);
        while bit < 8 {
            if byte >> bit & 1 == 1 {
                table[byte][next] = bit;
                next += 1;
            }
            bit += 1;
        }
        byte += 1;
    }
    table
};

/// See [`super::positions`].
pub(super) fn positions(masks: &[u64], out: &mut Vec<u16>) {
    for (word, mask) in masks.iter().enumerate().filter(|(_, mask)| **mask != 0) {
        let mut slots = [0u16; WORD_ROWS + 8];
        let mut filled = 0;
        for (byte, bits) in mask.to_le_bytes().into_iter().enumerate() {
            let base = (word * WORD_ROWS + byte * 8) as u16;
            for (slot, bit) in slots[filled..filled + 8].iter_mut().zip(BIT_POSITIONS[usize::from(bits)]) {
                *slot = base.wrapping_add(bit);
            }
            filled += bits.count_ones() as usize;
        }
        out.extend_from_slice(&slots[..filled]);
    }
}

/// See [`super::bloom`].
pub(super) fn bloom(hashes: &[u64], words: &[u64], shift: u32, masks: &mut [u64]) {
    for (hashes, mask) in hashes.chunks(WORD_ROWS).zip(masks) {
        let found = |hash: u64| {
            let bits = super::bloom_bits(hash);
            words[(hash >> shift) as usize] & bits == bits
        };
        *mask &= fold(hashes, found);
    }
}
