//! Whatever is encoded is read back bit by bit, in every encoding and through chunks of every codec.

mod cases;
mod version_1;

use cases::{Aligned, Case, Cell, any_case, any_encoding, inflate, read};
use forebay_base::{PhysicalType, Value, limits};
use forebay_block::{
    Access, BlockSet, ChunkOptions, ChunkPart, Codes, Compression, EncodeOptions, EncodedBlock, Encoding, Inflate,
    PlainColumn, PlainValues, Scheme, Zone, block_places, encode_block, inflate_blocks, inflate_chunk, seal_chunk,
};
use proptest::prelude::*;
use version_1::seal_v1;

fn check(case: &Case, block: &EncodedBlock, zone: &Zone) {
    assert_eq!(block.rows(), case.cells.len());
    assert_eq!(block.physical(), case.physical);
    let nulls = case.cells.iter().filter(|cell| cell.is_none()).count();
    assert_eq!((block.null_count(), zone.null_count as usize, zone.rows as usize), (nulls, nulls, case.cells.len()));
    for (row, cell) in case.cells.iter().enumerate() {
        assert_eq!(read(block, row), *cell, "row {row} of {:?} {:?}", block.physical(), block.encoding());
    }
    let values: Vec<Value> = (0..case.cells.len()).filter_map(|row| case.value(row)).collect();
    match (values.iter().min(), &zone.min, values.iter().max(), &zone.max) {
        (None, None, None, None) => {}
        (Some(Value::Bytes(low)), Some(Value::Bytes(min)), Some(Value::Bytes(high)), max) => {
            assert!(low.starts_with(min) && min.len() == low.len().min(limits::ZONE_STRING_BYTES));
            match max {
                Some(Value::Bytes(max)) => {
                    assert!(max >= high && max.len() <= limits::ZONE_STRING_BYTES);
                    assert!(max == high || high.len() > limits::ZONE_STRING_BYTES);
                }
                _ => assert!(high.len() > limits::ZONE_STRING_BYTES),
            }
        }
        (low, min, high, max) => assert_eq!((low, high), (min.as_ref(), max.as_ref())),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn blocks_read_back(case in any_case(), force in any_encoding()) {
        let (bytes, zone) = case.encode(force);
        let block = EncodedBlock::parse(bytes.bytes()).expect("own blocks parse");
        check(&case, &block, &zone);
        let has_value = case.cells.iter().any(Option::is_some);
        if let Some(force @ (Encoding::Dictionary | Encoding::Uncompressed | Encoding::RunLength)) = force && has_value {
            prop_assert_eq!(block.encoding(), force);
        }
    }

    #[test]
    fn chunks_read_back(
        physical in 0..12usize,
        shapes in prop::collection::vec((0..=cases::RUNS, 0usize..9000, any_encoding()), 1..5),
        compression in any_compression(),
        seed: u64,
    ) {
        let physical = PhysicalType::ALL[physical];
        let (mut encoded, mut offsets, mut cases) = (vec![], vec![], vec![]);
        for (shape, rows, force) in shapes {
            let case = Case::generate(physical, shape, rows, 5, seed);
            let (bytes, zone) = case.encode(force);
            offsets.push(encoded.len() as u32);
            encoded.extend_from_slice(bytes.bytes());
            cases.push((case, zone));
        }
        let sealed = seal_chunk(&encoded, &offsets, &ChunkOptions { compression }).expect("valid blocks seal");
        prop_assert!(sealed.bytes.len().is_multiple_of(limits::IO_ALIGN));
        prop_assert_eq!(sealed.encoded_bytes, encoded.len() as u64);
        // Once where frames are aligned in memory and once where they are not; and as the version before stored them.
        let mut shifted = vec![0];
        shifted.extend_from_slice(&sealed.bytes);
        let codec = [Scheme::Plain, Scheme::Lz4, Scheme::Zstd][cases.len() % 3];
        let inflated = [
            inflate_chunk(&sealed.directory, &sealed.bytes, physical, &Inflate::default()),
            inflate_chunk(&sealed.directory, &shifted[1..], physical, &Inflate::default()),
            inflate_chunk(&[], &seal_v1(&encoded, &offsets, codec), physical, &Inflate::default()),
        ];
        for inflated in inflated {
            let inflated = inflated.expect("own chunks inflate");
            prop_assert_eq!(inflated.blocks(), cases.len());
            prop_assert_eq!(inflated.as_bytes(), &encoded[..]);
            prop_assert!(inflated.memory_bytes() >= encoded.len());
            for (index, (case, zone)) in cases.iter().enumerate() {
                check(case, &inflated.block(index), zone);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(150) })]

    /// Blocks are read from the bytes of their own frames, whatever the other bytes are; and none of their own bytes may be
    /// wrong or missing.
    #[test]
    fn some_blocks_read_back_without_the_others(
        physical in 0..12usize,
        shapes in prop::collection::vec((0..=cases::RUNS, 0usize..9000, any_encoding(), any::<bool>()), 1..7),
        compression in any_compression(),
        seed: u64,
    ) {
        let physical = PhysicalType::ALL[physical];
        let (mut encoded, mut offsets, mut cases) = (vec![], vec![], vec![]);
        let wanted: BlockSet = (0..).zip(&shapes).filter(|(_, shape)| shape.3).map(|(block, _)| block).collect();
        for (shape, rows, force, _) in shapes {
            let case = Case::generate(physical, shape, rows, 5, seed);
            let (bytes, zone) = case.encode(force);
            offsets.push(encoded.len() as u32);
            encoded.extend_from_slice(bytes.bytes());
            cases.push((case, zone));
        }
        let sealed = seal_chunk(&encoded, &offsets, &ChunkOptions { compression }).expect("valid blocks seal");
        let places = block_places(&sealed.directory, physical, &wanted).expect("own directories are read");
        prop_assert!(places.windows(2).all(|pair| pair[0].end <= pair[1].start) && places.len() <= wanted.len());
        let parts: Vec<Aligned> = places.iter().map(|place| Aligned::new(&sealed.bytes[place.clone()])).collect();
        let inflate = |parts: &[Aligned]| {
            let parts = places.iter().zip(parts);
            let parts: Vec<_> =
                parts.map(|(place, bytes)| ChunkPart { start: place.start, bytes: bytes.bytes() }).collect();
            inflate_blocks(&sealed.directory, &parts, &wanted, physical, &Inflate::default())
        };
        let inflated = inflate(&parts).expect("own blocks inflate");
        prop_assert_eq!((inflated.blocks(), inflated.is_whole()), (cases.len(), wanted.len() == cases.len()));
        prop_assert!(inflated.block_rows().eq(cases.iter().map(|(case, _)| case.cells.len() as u32)));
        prop_assert!(inflated.has_all(&wanted));
        for (index, (case, zone)) in cases.iter().enumerate() {
            prop_assert_eq!(inflated.has(index), wanted.contains(index));
            if inflated.has(index) {
                check(case, &inflated.block(index), zone);
            }
        }
        let sizes = cases.iter().enumerate().map(|(index, _)| {
            let end = offsets.get(index + 1).map_or(encoded.len(), |next| *next as usize);
            if wanted.contains(index) { end - offsets[index] as usize } else { 0 }
        });
        prop_assert_eq!(inflated.as_bytes().len(), sizes.sum::<usize>());
        for damaged in 0..parts.len() {
            let mut flipped = parts.clone();
            let mut bytes = flipped[damaged].bytes().to_vec();
            bytes[0] ^= 1;
            flipped[damaged] = Aligned::new(&bytes);
            prop_assert!(inflate(&flipped).is_err(), "a flipped byte");
            flipped[damaged] = Aligned::new(&[]);
            prop_assert!(inflate(&flipped).is_err(), "a part that is cut off");
        }
    }
}

fn any_compression() -> impl Strategy<Value = Compression> {
    let forced = prop::sample::select(&Scheme::ALL[..]).prop_map(Compression::Force);
    prop_oneof![Just(Compression::Balanced), Just(Compression::BestRatio), forced]
}

#[test]
fn the_smallest_encoding_is_chosen() {
    let encoding = |physical, shape, rows| {
        let (bytes, _) = Case::generate(physical, shape, rows, 0, 3).encode(None);
        EncodedBlock::parse(bytes.bytes()).expect("own blocks parse").encoding()
    };
    let full = limits::BLOCK_ROWS;
    assert_eq!(encoding(PhysicalType::I64, 0, full), Encoding::SingleValue);
    assert_eq!(encoding(PhysicalType::I64, 1, full), Encoding::Truncation);
    assert_eq!(encoding(PhysicalType::I64, 3, full), Encoding::Truncation);
    assert_eq!(encoding(PhysicalType::I64, 5, full), Encoding::Dictionary);
    assert_eq!(encoding(PhysicalType::I64, 6, full), Encoding::Uncompressed);
    assert_eq!(encoding(PhysicalType::F64, 1, full), Encoding::Dictionary);
    assert_eq!(encoding(PhysicalType::F64, 6, full), Encoding::Uncompressed);
    assert_eq!(encoding(PhysicalType::Bytes, 1, full), Encoding::Dictionary);
    assert_eq!(encoding(PhysicalType::Bytes, 3, full), Encoding::Uncompressed);
    assert_eq!(encoding(PhysicalType::I8, 6, full), Encoding::Uncompressed);
}

#[test]
fn a_full_block_of_distinct_strings_fits_two_byte_codes() {
    let cells = (0..limits::BLOCK_ROWS).map(|row| Some(Cell::Bytes(format!("{row}").into_bytes()))).collect();
    let case = Case { physical: PhysicalType::Bytes, cells };
    let (bytes, zone) = case.encode(Some(Encoding::Dictionary));
    let block = EncodedBlock::parse(bytes.bytes()).expect("own blocks parse");
    let Access::Dictionary { values, codes: Codes::U16(_) } = block.access() else {
        panic!("{:?}", block.access());
    };
    assert_eq!(values.len(), limits::BLOCK_ROWS);
    check(&case, &block, &zone);
}

#[test]
fn long_strings_and_their_neighbours_read_back() {
    let long = |byte: u8, length: usize| Some(Cell::Bytes(vec![byte; length]));
    let cells = vec![long(b'x', 5 << 20), None, long(b'y', 0), long(b'x', 5 << 20), long(b'z', 1)];
    let case = Case { physical: PhysicalType::Bytes, cells };
    for force in [None, Some(Encoding::Uncompressed), Some(Encoding::Dictionary)] {
        let (bytes, zone) = case.encode(force);
        let block = EncodedBlock::parse(bytes.bytes()).expect("own blocks parse");
        check(&case, &block, &zone);
        let sealed = seal_chunk(bytes.bytes(), &[0], &ChunkOptions::default()).expect("valid blocks seal");
        assert!(sealed.bytes.len() < 64 << 10, "repeated bytes compress");
        let inflated = inflate(&sealed, PhysicalType::Bytes).expect("own chunks inflate");
        check(&case, &inflated.block(0), &zone);
    }
}

#[test]
fn wrong_columns_are_errors_and_leave_the_output_alone() {
    let encode = |column: PlainColumn, out: &mut Vec<u8>| encode_block(&column, &EncodeOptions::default(), out);
    let fixed = |rows, values| PlainColumn { physical: PhysicalType::I32, rows, validity: None, values };
    let (mut out, many) = (vec![0; 64], vec![0; 65_537 * 4]);
    assert!(encode(fixed(2, PlainValues::Fixed(&[0; 7])), &mut out).is_err());
    assert!(encode(fixed(1, PlainValues::Bytes(&[b"x"])), &mut out).is_err());
    assert!(encode(fixed(65_537, PlainValues::Fixed(&many)), &mut out).is_err());
    let short = PlainColumn { validity: Some(&[1]), ..fixed(9, PlainValues::Fixed(&[0; 36])) };
    assert!(encode(short, &mut out).is_err());
    assert_eq!(out.len(), 64);
    out.push(0);
    assert!(encode(fixed(1, PlainValues::Fixed(&[0; 4])), &mut out).is_err());
}

/// Bytes of a chunk of one full block of integers.
fn stored_bytes(compression: Compression, value: impl Fn(u64) -> u64) -> usize {
    let values: Vec<u8> = (0..limits::BLOCK_ROWS as u64).flat_map(|row| (value(row) as u32).to_le_bytes()).collect();
    let column = PlainColumn {
        physical: PhysicalType::U32,
        rows: limits::BLOCK_ROWS,
        validity: None,
        values: PlainValues::Fixed(&values),
    };
    let mut encoded = vec![];
    encode_block(&column, &EncodeOptions::default(), &mut encoded).expect("a valid column encodes");
    let encoded = Aligned::new(&encoded);
    let sealed = seal_chunk(encoded.bytes(), &[0], &ChunkOptions { compression }).expect("valid blocks seal");
    let inflated = inflate(&sealed, PhysicalType::U32).expect("own chunks inflate");
    assert_eq!(inflated.as_bytes(), encoded.bytes());
    sealed.bytes.len()
}

#[test]
fn integers_take_the_bits_that_they_need() {
    let noise = |row: u64| cases::Random(row).next();
    let bits = |compression, value: &dyn Fn(u64) -> u64| stored_bytes(compression, value) * 8 / limits::BLOCK_ROWS;
    for compression in [Compression::Balanced, Compression::BestRatio] {
        assert_eq!(bits(compression, &|row| noise(row) % (1 << 18)), 18);
        assert!(bits(compression, &|row| row * 3 + noise(row) % 4) <= 4, "steps");
        assert!(bits(compression, &|row| noise(row / 8) % (1 << 20)) <= 3, "runs");
    }
    let skewed = |row: u64| (noise(row) % (1 << 18)) >> (noise(row + 1) % 18);
    assert!(bits(Compression::BestRatio, &skewed) < bits(Compression::Balanced, &skewed), "entropy");
}
