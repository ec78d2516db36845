//! `sha1` and `md5`, and the halves of an MD5 digest as numbers.

use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::datatypes::{DataType, UInt64Type};
use datafusion::common::Result;
use forebay_functions::function::{Call, Definition, Shape, TEXT, is_text};

pub(crate) const DEFINITIONS: &[Definition] = &[
    Definition { names: &["sha1"], shape: |types| shape(types, TEXT), compute: |call| hex_texts(call, sha1) },
    Definition { names: &["md5"], shape: |types| shape(types, TEXT), compute: |call| hex_texts(call, md5) },
    Definition {
        names: &["md5_number_lower"],
        shape: |types| shape(types, DataType::UInt64),
        compute: |call| md5_halves(call, 8),
    },
    Definition {
        names: &["md5_number_upper"],
        shape: |types| shape(types, DataType::UInt64),
        compute: |call| md5_halves(call, 0),
    },
];

/// Bytes that both digests take at a time.
const BLOCK: usize = 64;

fn shape(types: &[DataType], result: DataType) -> Option<Shape> {
    let [value] = types else { return None };
    let argument = match value {
        _ if is_text(value) => TEXT,
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => DataType::BinaryView,
        _ => return None,
    };
    Some(Shape { arguments: vec![argument], result })
}

/// The bytes of a value of a text or blob.
fn bytes(array: &ArrayRef, row: usize) -> Option<&[u8]> {
    array.is_valid(row).then(|| match array.data_type() {
        DataType::BinaryView => array.as_binary_view().value(row),
        _ => array.as_string_view().value(row).as_bytes(),
    })
}

/// Digests by their digits.
fn hex_texts<const BYTES: usize>(call: &Call<'_>, digest: fn(&[u8]) -> [u8; BYTES]) -> Result<ArrayRef> {
    let array = &call.arguments[0];
    let hex = |bytes: &[u8]| digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    call.texts_of(|row| Ok(bytes(array, row).map(hex)))
}

fn md5_halves(call: &Call<'_>, at: usize) -> Result<ArrayRef> {
    let array = &call.arguments[0];
    call.values_of::<UInt64Type>(|row| {
        Ok(bytes(array, row).map(|bytes| {
            let digest = md5(bytes);
            (0..8).fold(0, |number, index| number | u64::from(digest[at + index]) << (8 * index))
        }))
    })
}

/// A message in blocks: a bit behind it, zeros, and its length in bits as `length` writes it.
fn blocks(message: &[u8], length: fn(u64) -> [u8; 8]) -> Vec<u8> {
    let mut padded = message.to_vec();
    padded.push(0x80);
    padded.resize(padded.len().next_multiple_of(8), 0);
    while padded.len() % BLOCK != BLOCK - 8 {
        padded.push(0);
    }
    padded.extend(length(8 * message.len() as u64));
    padded
}

/// SHA-1 (FIPS 180-4, section 6.1).
fn sha1(message: &[u8]) -> [u8; 20] {
    let mut state: [u32; 5] = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476, 0xc3d2_e1f0];
    for block in blocks(message, u64::to_be_bytes).chunks_exact(BLOCK) {
        let mut words = [0_u32; 80];
        for (word, bytes) in words.iter_mut().zip(block.chunks_exact(4)) {
            *word = u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        }
        for at in 16..80 {
            words[at] = (words[at - 3] ^ words[at - 8] ^ words[at - 14] ^ words[at - 16]).rotate_left(1);
        }
        let [mut a, mut b, mut c, mut d, mut e] = state;
        for (at, word) in words.iter().enumerate() {
            let (mixed, constant) = match at / 20 {
                0 => ((b & c) | (!b & d), 0x5a82_7999),
                1 => (b ^ c ^ d, 0x6ed9_eba1),
                2 => ((b & c) | (b & d) | (c & d), 0x8f1b_bcdc),
                _ => (b ^ c ^ d, 0xca62_c1d6_u32),
            };
            let next = a.rotate_left(5).wrapping_add(mixed).wrapping_add(e).wrapping_add(constant).wrapping_add(*word);
            (a, b, c, d, e) = (next, a, b.rotate_left(30), c, d);
        }
        for (sum, part) in state.iter_mut().zip([a, b, c, d, e]) {
            *sum = sum.wrapping_add(part);
        }
    }
    let mut digest = [0; 20];
    digest.iter_mut().zip(state.iter().flat_map(|word| word.to_be_bytes())).for_each(|(byte, part)| *byte = part);
    digest
}

/// By how many bits each step of a round of MD5 turns.
const TURNS: [[u32; 4]; 4] = [[7, 12, 17, 22], [5, 9, 14, 20], [4, 11, 16, 23], [6, 10, 15, 21]];

/// MD5 (RFC 1321, section 3).
fn md5(message: &[u8]) -> [u8; 16] {
    // The whole part of 2^32 times the sine of each step's number.
    let constants: Vec<u32> = (1..=64).map(|step| ((f64::from(step)).sin().abs() * 4_294_967_296.0) as u32).collect();
    let mut state: [u32; 4] = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];
    for block in blocks(message, u64::to_le_bytes).chunks_exact(BLOCK) {
        let word = |at: usize| {
            let bytes = &block[4 * at..4 * at + 4];
            u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
        };
        let [mut a, mut b, mut c, mut d] = state;
        for step in 0..64 {
            let (mixed, at) = match step / 16 {
                0 => ((b & c) | (!b & d), step),
                1 => ((d & b) | (!d & c), (5 * step + 1) % 16),
                2 => (b ^ c ^ d, (3 * step + 5) % 16),
                _ => (c ^ (b | !d), 7 * step % 16),
            };
            let sum = a.wrapping_add(mixed).wrapping_add(constants[step]).wrapping_add(word(at));
            (a, d, c, b) = (d, c, b, b.wrapping_add(sum.rotate_left(TURNS[step / 16][step % 4])));
        }
        for (sum, part) in state.iter_mut().zip([a, b, c, d]) {
            *sum = sum.wrapping_add(part);
        }
    }
    let mut digest = [0; 16];
    digest.iter_mut().zip(state.iter().flat_map(|word| word.to_le_bytes())).for_each(|(byte, part)| *byte = part);
    digest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(digest: &[u8]) -> String {
        digest.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn digests_are_those_of_the_standards() {
        assert_eq!(hex(&sha1(b"")), "da39a3ee5e6b4b0d3255bfef95601890afd80709");
        assert_eq!(hex(&sha1(b"abc")), "a9993e364706816aba3e25717850c26c9cd0d89d");
        assert_eq!(hex(&sha1(&[b'a'; 200])), "e61cfffe0d9195a525fc6cf06ca2d77119c24a40");
        assert_eq!(hex(&md5(b"")), "d41d8cd98f00b204e9800998ecf8427e");
        assert_eq!(hex(&md5(b"message digest")), "f96b697d7cb7938d525a2f31aaf161d0");
        assert_eq!(hex(&md5(&[b'a'; 56])), "3b0c8ac703f828b04c6c197006d17218");
    }
}
