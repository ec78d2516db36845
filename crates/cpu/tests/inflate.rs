//! Frames inflate to the same bytes with all vector instructions: those of plain loops.

use forebay_base::PhysicalType;
use forebay_block::{
    ChunkOptions, Compression, EncodeOptions, Encoding, Inflate, PlainColumn, PlainValues, Scheme, encode_block,
    inflate_chunk, seal_chunk,
};
use forebay_cpu::simd::{SimdLevel, unpacking};

const SCHEMES: [Scheme; 4] = [Scheme::BitPacked, Scheme::Patched, Scheme::Delta, Scheme::RunLength];

fn random(row: usize) -> u64 {
    let mixed = (row as u64).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 7
}

/// Values of several shapes: noise of a width, rising with a fall now and then, runs, mostly small.
fn value(shape: usize, row: usize) -> u64 {
    match shape {
        0 => random(row) % 11,
        1 => (row as u64 * 3 + random(row) % 5) % 60_000,
        2 => random(row / 7) % 100,
        3 => random(row) % if row % 97 == 3 { 1 << 40 } else { 30 },
        _ => random(row) % 100_000 + (1 << 33),
    }
}

#[test]
fn frames_inflate_to_the_same_bytes_by_every_simd_level() {
    let types = [PhysicalType::U8, PhysicalType::I16, PhysicalType::I32, PhysicalType::I64];
    for (physical, shape) in types.into_iter().flat_map(|physical| (0..5).map(move |shape| (physical, shape))) {
        let width = physical.width().expect("it is a number");
        for rows in [1, 63, 64, 65, 1000, 1023, 1024, 1025, 2048, 4097, 20_000] {
            let values: Vec<u8> = (0..rows).flat_map(|row| value(shape, row).to_le_bytes()[..width].to_vec()).collect();
            let column = PlainColumn { physical, rows, validity: None, values: PlainValues::Fixed(&values) };
            let mut block = Vec::new();
            let force = Some(Encoding::Uncompressed);
            encode_block(&column, &EncodeOptions { force }, &mut block).expect("a valid column encodes");
            for scheme in SCHEMES {
                let compression = Compression::Force(scheme);
                let sealed = seal_chunk(&block, &[0], &ChunkOptions { compression }).expect("own blocks seal");
                let inflate = |level| {
                    let inflate = Inflate { unpack: unpacking(level), ..Inflate::default() };
                    let chunk = inflate_chunk(&sealed.directory, &sealed.bytes, physical, &inflate);
                    chunk.expect("own chunks inflate").as_bytes().to_vec()
                };
                for level in SimdLevel::ALL.into_iter().filter(|level| level.is_available()) {
                    assert!(inflate(level) == block, "{level:?}, {scheme:?}, {physical:?}, shape {shape}, {rows} rows");
                }
            }
        }
    }
}
