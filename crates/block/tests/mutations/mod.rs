//! Damage to stored bytes: what a broken drive, or somebody who means harm, could leave of them. Shared by the tests of
//! frames and those of chunks, which bring random numbers of their own.
//!
//! Must not know: any layout.
#![allow(unreachable_pub, reason = "part of test binaries, and of the crate's own tests")]

/// So many bytes at the beginning are changed more often than others: headers lie there.
const HEAD_BYTES: usize = 64;

/// How many mutations a test makes, by the environment variable `FOREBAY_MUTATIONS`.
pub fn count() -> u64 {
    let given = std::env::var("FOREBAY_MUTATIONS").ok();
    given.map_or(10_000, |text| text.parse().expect("FOREBAY_MUTATIONS is a number"))
}

/// `stored` with one to three changes, for which there may be pieces of `other`. `below` gives random numbers below its
/// argument, which is never 0.
pub fn mutated(stored: &[u8], other: &[u8], below: &mut dyn FnMut(u64) -> u64) -> Vec<u8> {
    let mut bytes = stored.to_vec();
    for _ in 0..=below(3) {
        if bytes.is_empty() {
            return bytes;
        }
        match below(12) {
            0..3 => flip_bits(&mut bytes, below),
            3..5 => change_bytes(&mut bytes, below),
            5..8 => change_field(&mut bytes, below),
            8 => bytes.truncate(below(bytes.len() as u64) as usize),
            9 => extend(&mut bytes, below),
            10 => drop(bytes.drain(range(bytes.len(), below))),
            _ => splice(&mut bytes, other, below),
        }
    }
    bytes
}

/// A place, in two of three cases near the beginning.
fn place(bytes: usize, below: &mut dyn FnMut(u64) -> u64) -> usize {
    let end = if below(3) > 0 { bytes.min(HEAD_BYTES) } else { bytes };
    below(end as u64) as usize
}

/// A piece of up to 256 bytes.
fn range(bytes: usize, below: &mut dyn FnMut(u64) -> u64) -> std::ops::Range<usize> {
    let start = place(bytes, below);
    start..start + below((bytes - start).min(256) as u64 + 1) as usize
}

fn flip_bits(bytes: &mut [u8], below: &mut dyn FnMut(u64) -> u64) {
    for _ in 0..=below(3) {
        let at = place(bytes.len(), below);
        bytes[at] ^= 1 << below(8);
    }
}

fn change_bytes(bytes: &mut [u8], below: &mut dyn FnMut(u64) -> u64) {
    for _ in 0..=below(3) {
        let at = place(bytes.len(), below);
        bytes[at] = [0, 0xff, bytes[at].wrapping_add(1), below(256) as u8][below(4) as usize];
    }
}

/// Puts a number that is at the edge of something where a number may be.
fn change_field(bytes: &mut [u8], below: &mut dyn FnMut(u64) -> u64) {
    let width = 1 << below(4);
    let at = place(bytes.len(), below) / width * width;
    let length = bytes.len() as u64;
    let Some(field) = bytes.get_mut(at..at + width) else { return };
    let mut before = [0; 8];
    before[..width].copy_from_slice(field);
    let before = u64::from_le_bytes(before);
    let numbers = [
        0,
        1,
        u64::MAX,
        u64::MAX >> 1,
        1 << (8 * width - 1),
        before.wrapping_add(1),
        before.wrapping_sub(1),
        before.wrapping_mul(2),
        length,
        length - at as u64,
        (1 << 16) - below(3),
        1 << below(64),
        below(u64::MAX),
    ];
    let number = numbers[below(numbers.len() as u64) as usize];
    field.copy_from_slice(&number.to_le_bytes()[..width]);
}

/// Appends zeros, noise, or what is there already.
fn extend(bytes: &mut Vec<u8>, below: &mut dyn FnMut(u64) -> u64) {
    match below(3) {
        0 => bytes.resize(bytes.len() + 1 + below(64) as usize, 0),
        1 => bytes.extend((0..=below(64)).map(|_| below(256) as u8)),
        _ => bytes.extend_from_within(range(bytes.len(), below)),
    }
}

/// Puts a piece of `other` somewhere: in place of as many bytes, or between them.
fn splice(bytes: &mut Vec<u8>, other: &[u8], below: &mut dyn FnMut(u64) -> u64) {
    if other.is_empty() {
        return;
    }
    let piece = &other[range(other.len(), below)];
    let at = place(bytes.len(), below);
    let end = if below(2) == 0 { at } else { (at + piece.len()).min(bytes.len()) };
    bytes.splice(at..end, piece.iter().copied());
}
