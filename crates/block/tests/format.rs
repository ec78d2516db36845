//! `docs/format.md` against the constants, and golden bytes of every encoding.

use expect_test::{Expect, expect};
use forebay_base::{PhysicalType, limits};
use forebay_block::{
    ChunkOptions, Compression, EncodeOptions, Encoding, PlainColumn, PlainValues, Scheme, chunk, encode_block, header,
    seal_chunk,
};

/// The number in the second column of the first table row of `name`.
fn documented(name: &str) -> u64 {
    documented_from("", name)
}

/// The same from a heading on, for names that two lists have.
fn documented_from(heading: &str, name: &str) -> u64 {
    let text = include_str!("../../../docs/format.md");
    let start = text.find(heading).unwrap_or_else(|| panic!("there is no {heading:?}"));
    let row = text[start..].lines().find_map(|line| line.strip_prefix("| ")?.strip_prefix(name)?.strip_prefix(" | "));
    let number = row.and_then(|row| row.split(" |").next()).unwrap_or_else(|| panic!("{name} has no row"));
    let parsed = match number.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => number.parse(),
    };
    parsed.unwrap_or_else(|_| panic!("{name}: {number:?} is no number"))
}

#[test]
fn the_document_has_the_numbers_of_the_code() {
    let constants = [
        ("BLOCK_MAGIC", header::BLOCK_MAGIC.into()),
        ("BLOCK_HEADER_BYTES", header::BLOCK_HEADER_BYTES as u64),
        ("SECTION_ALIGN", header::SECTION_ALIGN as u64),
        ("FLAG_VALIDITY", header::FLAG_VALIDITY.into()),
        ("BLOCK_ROWS", limits::BLOCK_ROWS as u64),
        ("CHUNK_MAGIC", chunk::CHUNK_MAGIC.into()),
        ("CHUNK_VERSION", chunk::CHUNK_VERSION.into()),
        ("CHUNK_FIXED_BYTES", chunk::CHUNK_FIXED_BYTES as u64),
        ("BLOCK_ENTRY_BYTES", chunk::BLOCK_ENTRY_BYTES as u64),
        ("FRAME_ENTRY_BYTES", chunk::FRAME_ENTRY_BYTES as u64),
        ("DIRECTORY_FIXED_BYTES", chunk::DIRECTORY_FIXED_BYTES as u64),
        ("DIRECTORY_FRAME_BYTES", chunk::DIRECTORY_FRAME_BYTES as u64),
        ("FRAME_ALIGN", chunk::FRAME_ALIGN as u64),
        ("FRAME_BYTES", limits::FRAME_BYTES as u64),
        ("CHUNK_MAX_BYTES", limits::CHUNK_MAX_BYTES as u64),
        ("IO_ALIGN", limits::IO_ALIGN as u64),
    ];
    for (name, value) in constants {
        assert_eq!(documented(name), value, "{name}");
    }
    for encoding in Encoding::ALL {
        assert_eq!(documented_from("\n## Encoded block", &format!("{encoding:?}")), encoding as u64, "{encoding:?}");
    }
    for scheme in Scheme::ALL {
        assert_eq!(documented_from("\n## Frame schemes", &format!("{scheme:?}")), scheme as u64, "{scheme:?}");
    }
    for physical in PhysicalType::ALL {
        assert_eq!(documented(&format!("{physical:?}")), physical as u64, "{physical:?}");
    }
}

fn block(
    force: Encoding,
    physical: PhysicalType,
    validity: Option<&[u8]>,
    rows: usize,
    values: PlainValues,
) -> Vec<u8> {
    let mut out = vec![];
    let column = PlainColumn { physical, rows, validity, values };
    encode_block(&column, &EncodeOptions { force: Some(force) }, &mut out).expect("a valid column encodes");
    out
}

/// 16 bytes a line; lines of zeros are left out.
fn check(bytes: &[u8], expect: Expect) {
    let mut text = format!("{} bytes\n", bytes.len());
    for (index, line) in bytes.chunks(16).enumerate().filter(|(_, line)| line.iter().any(|byte| *byte != 0)) {
        let hex: Vec<String> = line.iter().map(|byte| format!("{byte:02x}")).collect();
        text += &format!("{:04x}: {}\n", index * 16, hex.join(" "));
    }
    expect.assert_eq(&text);
}

fn bytes_of<const N: usize>(values: [i32; N]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

const STRINGS: PlainValues = PlainValues::Bytes(&[b"pear", b"", b"fig", b"pear"]);

#[test]
fn golden_single_value() {
    let values = bytes_of([-2, 9, -2]);
    check(
        &block(Encoding::SingleValue, PhysicalType::I32, Some(&[0b101]), 3, PlainValues::Fixed(&values)),
        expect![[r#"
            128 bytes
            0000: 46 42 42 4b 00 03 00 01 03 00 00 00 01 00 00 00
            0010: 80 00 00 00 00 00 00 00 40 00 00 00 00 00 00 00
            0030: fe ff ff ff ff ff ff ff ff ff ff ff ff ff ff ff
            0040: 05 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
        "#]],
    );
    let text = PlainValues::Bytes(&[b"fig", b"fig"]);
    check(
        &block(Encoding::SingleValue, PhysicalType::Bytes, None, 2, text),
        expect![[r#"
        128 bytes
        0000: 46 42 42 4b 00 0c 00 00 02 00 00 00 00 00 00 00
        0010: 80 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
        0020: 00 00 00 00 40 00 00 00 03 00 00 00 00 00 00 00
        0040: 66 69 67 00 00 00 00 00 00 00 00 00 00 00 00 00
    "#]],
    );
    check(
        &block(Encoding::Dictionary, PhysicalType::Bytes, Some(&[0]), 2, text),
        expect![[r#"
        64 bytes
        0000: 46 42 42 4b 00 0c 00 00 02 00 00 00 02 00 00 00
        0010: 40 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
    "#]],
    );
}

#[test]
fn golden_truncation() {
    let values = bytes_of([1000, 1001, 7, 1300]);
    check(
        &block(Encoding::Truncation, PhysicalType::I32, Some(&[0b1011]), 4, PlainValues::Fixed(&values)),
        expect![[r#"
            192 bytes
            0000: 46 42 42 4b 01 03 02 01 04 00 00 00 01 00 00 00
            0010: c0 00 00 00 00 00 00 00 40 00 00 00 80 00 00 00
            0030: e8 03 00 00 00 00 00 00 00 00 00 00 00 00 00 00
            0040: 0b 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
            0080: 00 00 01 00 00 00 2c 01 00 00 00 00 00 00 00 00
        "#]],
    );
}

#[test]
fn golden_dictionary() {
    let values = bytes_of([70_000, -1, 70_000, 5]);
    check(
        &block(Encoding::Dictionary, PhysicalType::I32, None, 4, PlainValues::Fixed(&values)),
        expect![[r#"
        192 bytes
        0000: 46 42 42 4b 02 03 01 00 04 00 00 00 00 00 00 00
        0010: c0 00 00 00 03 00 00 00 00 00 00 00 40 00 00 00
        0020: 80 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
        0040: 02 00 02 01 00 00 00 00 00 00 00 00 00 00 00 00
        0080: ff ff ff ff 05 00 00 00 70 11 01 00 00 00 00 00
    "#]],
    );
    check(
        &block(Encoding::Dictionary, PhysicalType::Bytes, None, 4, STRINGS),
        expect![[r#"
        256 bytes
        0000: 46 42 42 4b 02 0c 01 00 04 00 00 00 00 00 00 00
        0010: 00 01 00 00 03 00 00 00 00 00 00 00 40 00 00 00
        0020: 80 00 00 00 c0 00 00 00 07 00 00 00 00 00 00 00
        0040: 02 00 01 02 00 00 00 00 00 00 00 00 00 00 00 00
        0080: 00 00 00 00 00 00 00 00 03 00 00 00 07 00 00 00
        00c0: 66 69 67 70 65 61 72 00 00 00 00 00 00 00 00 00
    "#]],
    );
}

#[test]
fn golden_dictionary_of_floats() {
    // Equal values keep their bits, in the order of these.
    let nan = |payload: u32| f32::from_bits(0x7fc0_0000 | payload);
    let values = [nan(2), 0.0, nan(1), -0.0, f32::INFINITY, -1.0, 0.0].map(f32::to_le_bytes).concat();
    check(
        &block(Encoding::Dictionary, PhysicalType::F32, None, 7, PlainValues::Fixed(&values)),
        expect![[r#"
        192 bytes
        0000: 46 42 42 4b 02 0a 01 00 07 00 00 00 00 00 00 00
        0010: c0 00 00 00 06 00 00 00 00 00 00 00 40 00 00 00
        0020: 80 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
        0040: 05 01 04 02 03 00 01 00 00 00 00 00 00 00 00 00
        0080: 00 00 80 bf 00 00 00 00 00 00 00 80 00 00 80 7f
        0090: 01 00 c0 7f 02 00 c0 7f 00 00 00 00 00 00 00 00
    "#]],
    );
}

#[test]
fn golden_uncompressed() {
    let values = [1.5f64, -0.0].map(f64::to_le_bytes).concat();
    check(
        &block(Encoding::Uncompressed, PhysicalType::F64, None, 2, PlainValues::Fixed(&values)),
        expect![[r#"
        128 bytes
        0000: 46 42 42 4b 03 0b 00 00 02 00 00 00 00 00 00 00
        0010: 80 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
        0020: 40 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
        0040: 00 00 00 00 00 00 f8 3f 00 00 00 00 00 00 00 80
    "#]],
    );
    check(
        &block(Encoding::Uncompressed, PhysicalType::Bytes, None, 4, STRINGS),
        expect![[r#"
        192 bytes
        0000: 46 42 42 4b 03 0c 00 00 04 00 00 00 00 00 00 00
        0010: c0 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
        0020: 40 00 00 00 80 00 00 00 0b 00 00 00 00 00 00 00
        0040: 00 00 00 00 04 00 00 00 04 00 00 00 07 00 00 00
        0050: 0b 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
        0080: 70 65 61 72 66 69 67 70 65 61 72 00 00 00 00 00
    "#]],
    );
}

#[test]
fn golden_run_length() {
    let values = bytes_of([7, 7, -1, 7, 7]);
    check(
        &block(Encoding::RunLength, PhysicalType::I32, Some(&[0b11101]), 5, PlainValues::Fixed(&values)),
        expect![[r#"
            256 bytes
            0000: 46 42 42 4b 04 03 02 01 05 00 00 00 01 00 00 00
            0010: 00 01 00 00 03 00 00 00 40 00 00 00 80 00 00 00
            0020: c0 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
            0040: 1d 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
            0080: 01 00 02 00 04 00 00 00 00 00 00 00 00 00 00 00
            00c0: 07 00 00 00 ff ff ff ff 07 00 00 00 00 00 00 00
        "#]],
    );
    check(
        &block(Encoding::RunLength, PhysicalType::Bytes, None, 4, STRINGS),
        expect![[r#"
        256 bytes
        0000: 46 42 42 4b 04 0c 02 00 04 00 00 00 00 00 00 00
        0010: 00 01 00 00 04 00 00 00 00 00 00 00 40 00 00 00
        0020: 80 00 00 00 c0 00 00 00 0b 00 00 00 00 00 00 00
        0040: 00 00 01 00 02 00 03 00 00 00 00 00 00 00 00 00
        0080: 00 00 00 00 04 00 00 00 04 00 00 00 07 00 00 00
        0090: 0b 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
        00c0: 70 65 61 72 66 69 67 70 65 61 72 00 00 00 00 00
    "#]],
    );
}

#[test]
fn golden_chunk() {
    let values: Vec<u8> = (0..512i32).flat_map(|value| (value * 300).to_le_bytes()).collect();
    let block = block(Encoding::Uncompressed, PhysicalType::I32, None, 512, PlainValues::Fixed(&values));
    let options = ChunkOptions { compression: Compression::Force(Scheme::Lz4) };
    let sealed = seal_chunk(&block.repeat(2), &[0, block.len() as u32], &options).expect("valid blocks seal");
    check(
        &sealed.directory,
        expect![[r#"
        160 bytes
        0000: 02 00 00 00 02 00 00 00 46 42 42 4b 03 03 00 00
        0010: 00 02 00 00 00 00 00 00 40 08 00 00 00 00 00 00
        0020: 00 00 00 00 00 00 00 00 40 00 00 00 00 00 00 00
        0040: 00 00 00 00 00 00 00 00 46 42 42 4b 03 03 00 00
        0050: 00 02 00 00 00 00 00 00 40 08 00 00 00 00 00 00
        0060: 00 00 00 00 00 00 00 00 40 00 00 00 00 00 00 00
        0080: 00 00 00 00 00 00 00 00 3a 02 00 00 85 8d ed 5f
        0090: 01 04 00 00 3a 02 00 00 85 8d ed 5f 01 04 00 00
    "#]],
    );
}

/// The first 96 bytes of a frame of these integers.
fn check_frame(scheme: Scheme, values: impl Iterator<Item = u32>, expect: Expect) {
    let values: Vec<u8> = values.flat_map(u32::to_le_bytes).collect();
    let rows = values.len() / 4;
    let block = block(Encoding::Uncompressed, PhysicalType::U32, None, rows, PlainValues::Fixed(&values));
    let options = ChunkOptions { compression: Compression::Force(scheme) };
    let sealed = seal_chunk(&block, &[0], &options).expect("valid blocks seal");
    assert_eq!(sealed.directory[8 + 64 + 8], scheme as u8);
    check(&sealed.bytes[..96], expect);
}

#[test]
fn golden_schemes() {
    check_frame(
        Scheme::BitPacked,
        (0..24).map(|value| 100 + value % 8),
        expect![[r#"
        96 bytes
        0000: 03 00 00 00 00 00 00 00 64 00 00 00 00 00 00 00
        0010: 88 c6 fa 88 c6 fa 88 c6 fa 00 00 00 00 00 00 00
    "#]],
    );
    let outliers = |value: u32| if value % 20 == 7 { 70_000 + value } else { value % 4 };
    check_frame(
        Scheme::Patched,
        (0..64).map(outliers),
        expect![[r#"
        96 bytes
        0000: 02 00 00 00 03 00 00 00 00 00 00 00 00 00 00 00
        0010: e4 e4 e4 e4 e4 e4 e4 e4 e4 e4 e4 e4 e4 e4 e4 e4
        0020: 07 00 1b 00 2f 00 00 00 77 11 01 00 8b 11 01 00
        0030: 9f 11 01 00 00 00 00 00 00 00 00 00 00 00 00 00
    "#]],
    );
    check_frame(
        Scheme::Delta,
        (0..2048).map(|value| 5000 - value * 2),
        expect![[r#"
        96 bytes
        0000: 02 00 00 00 0c 00 00 00 fe ff ff ff 00 00 00 00
        0010: 08 04 00 00 00 00 00 00 80 0f f0 80 0e e0 80 0d
        0020: d0 80 0c c0 80 0b b0 80 0a a0 80 09 90 80 08 80
        0030: 80 07 70 80 06 60 80 05 50 80 04 40 80 03 30 80
        0040: 02 20 80 01 10 80 00 00 aa aa aa aa 00 00 00 00
    "#]],
    );
    check_frame(
        Scheme::RunLength,
        (0..64).map(|value| value / 8 * 3 + 9),
        expect![[r#"
        96 bytes
        0000: 08 00 00 00 10 00 00 00 18 00 00 00 10 00 00 00
        0010: 05 00 00 00 00 00 00 00 09 00 00 00 00 00 00 00
        0020: 60 98 c4 9e ac 00 00 00 07 00 07 00 07 00 07 00
        0030: 07 00 07 00 07 00 07 00 00 00 00 00 00 00 00 00
    "#]],
    );
    // Deflate leaves to its programs how they find repetitions: what others stored is read in a test of its own.
    check_frame(
        Scheme::Snappy,
        (0..64).map(|value| value / 8 * 3 + 9),
        expect![[r#"
        96 bytes
        0000: 80 02 00 09 0d 01 00 0c 0d 01 00 0f 0d 01 00 12
        0010: 0d 01 00 15 0d 01 00 18 0d 01 00 1b 0d 01 00 1e
        0020: 0d 01 00 00 fe 01 00 fe 01 00 fa 01 00 00 00 00
    "#]],
    );
}
