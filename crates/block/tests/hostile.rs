//! Bytes that are not what was written: an error of kind `Corrupt`, or values, but never a panic or an over-read.

mod cases;
mod mutations;
mod version_1;

use cases::{Aligned, Case, Cell, Random, any_case, any_encoding, inflate, read};
use forebay_base::{ErrorKind, PhysicalType, checksum::crc32c};
use forebay_block::{
    BlockRows, ChunkOptions, ChunkPart, Compression, EncodedBlock, Encoding, Inflate, InflatedChunk, PortableUnpack,
    Scheme, SealedChunk, directory_summary, inflate_chunk, seal_chunk,
};
use proptest::prelude::*;
use version_1::seal_v1;

fn read_all(block: &EncodedBlock) {
    for row in 0..block.rows() {
        std::hint::black_box(read(block, row));
    }
}

/// `stored` with changes, perhaps pieces of `other` among them.
fn damage(stored: &[u8], other: &[u8], random: &mut Random) -> Vec<u8> {
    mutations::mutated(stored, other, &mut |limit| random.below(limit))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn damaged_blocks_never_panic(case in any_case(), force in any_encoding(), seed: u64) {
        let (bytes, _) = case.encode(force);
        let mut random = Random(seed);
        for _ in 0..40 {
            let damaged = Aligned::new(&damage(bytes.bytes(), bytes.bytes(), &mut random));
            match EncodedBlock::parse(damaged.bytes()) {
                Ok(block) => read_all(&block),
                Err(error) => prop_assert_eq!(error.kind(), ErrorKind::Corrupt),
            }
        }
    }

    #[test]
    fn damaged_chunks_of_version_1_never_panic(case in any_case(), codec in 0..3usize, seed: u64) {
        let (bytes, _) = case.encode(None);
        let sealed = seal_v1(bytes.bytes(), &[0], [Scheme::Plain, Scheme::Lz4, Scheme::Zstd][codec]);
        let mut random = Random(seed);
        for round in 0..40 {
            let mut damaged = damage(&sealed, bytes.bytes(), &mut random);
            if round % 2 == 0 {
                repair_checksums_v1(&mut damaged);
            }
            look_at(inflate_chunk(&[], &damaged, case.physical, &Inflate::default()));
        }
    }
}

/// Values, or an error that says that the bytes are wrong.
fn look_at(inflated: forebay_base::Result<InflatedChunk>) {
    match inflated {
        Ok(chunk) => (0..chunk.blocks()).for_each(|block| read_all(&chunk.block(block))),
        Err(error) => assert!(matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Version), "{error}"),
    }
}

/// Chunks of every scheme, and directories, mutated each for itself and together; mostly with checksums that fit, so that
/// what lies behind those is tested as well.
#[test]
fn mutated_chunks_never_panic() {
    const ROUNDS_PER_CASE: u64 = 50;
    let (mut inflated, mut refused) = (0, 0);
    for scheme in Scheme::ALL {
        for seed in 0..mutations::count().div_ceil(ROUNDS_PER_CASE) {
            let mut random = Random(seed << 8 | scheme as u64);
            let physical = PhysicalType::ALL[random.below(12) as usize];
            let shape = random.below(u64::from(cases::RUNS) + 1) as u8;
            let rows = [7, 64, 1030, 3000][random.below(4) as usize];
            let case = Case::generate(physical, shape, rows, [0, 3, 60][random.below(3) as usize], seed);
            let (bytes, _) = case.encode(None);
            let seal = |compression| {
                let blocks = [bytes.bytes(), bytes.bytes()].concat();
                let options = ChunkOptions { compression };
                seal_chunk(&blocks, &[0, bytes.bytes().len() as u32], &options).expect("valid blocks seal")
            };
            let (sealed, other) = (seal(Compression::Force(scheme)), seal(Compression::BestRatio));
            for round in 0..ROUNDS_PER_CASE {
                let mut damaged = sealed.clone();
                // The zeros at the end are no part of a frame.
                let used_bytes = sealed.bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
                if round % 5 < 2 {
                    damaged.bytes = damage(&sealed.bytes[..used_bytes], &other.bytes, &mut random);
                    damaged.bytes.resize(damaged.bytes.len().max(sealed.bytes.len()), 0);
                }
                match round % 5 {
                    1 | 2 => change_entry(&mut damaged.directory, &mut random),
                    3 => damaged.directory = damage(&sealed.directory, &other.directory, &mut random),
                    _ => {}
                }
                if random.below(4) > 0 {
                    repair_checksums(&mut damaged.directory, &damaged.bytes);
                }
                let result = inflate(&damaged, physical);
                look_at(rows_of(&damaged, physical, &mut random));
                let summary = directory_summary(&damaged.directory, physical);
                assert!(summary.is_ok() || result.is_err(), "what is inflated can be summarised");
                if result.is_ok() {
                    inflated += 1
                } else {
                    refused += 1
                }
                look_at(result);
            }
        }
    }
    assert!(inflated > 0 && refused > 0, "{inflated} were inflated, {refused} were not");
}

/// Some rows by themselves.
fn rows_of(sealed: &SealedChunk, physical: PhysicalType, random: &mut Random) -> forebay_base::Result<InflatedChunk> {
    let rows = (0..3).map(|_| random.below(3000) as u16 % 7).collect();
    let mut wanted = BlockRows::new(&sealed.directory, physical, random.below(2) as usize, rows)?;
    while !wanted.wanted()?.is_empty() {
        wanted.take(&[ChunkPart { start: 0, bytes: &sealed.bytes }], &PortableUnpack)?;
    }
    wanted.finish()
}

/// Numbers of blocks and frames, if the directory has them.
fn counts(directory: &[u8]) -> Option<(usize, usize)> {
    let word = |at: usize| directory.get(at..)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes) as usize);
    Some((word(0)?, word(4)?))
}

/// Where the entry of frame `index` lies.
fn entry_of(blocks: usize, index: usize) -> usize {
    8 + 64 * blocks + 12 * index
}

/// Gives a frame another length, scheme or stride than it was stored with.
fn change_entry(directory: &mut [u8], random: &mut Random) {
    let Some((blocks, frames @ 1..)) = counts(directory) else { return };
    let at = entry_of(blocks, random.below(frames as u64) as usize);
    let stored_bytes = u32::from_le_bytes([0, 1, 2, 3].map(|byte| directory[at + byte]));
    match random.below(4) {
        0 => directory[at + 8] = Scheme::ALL[random.below(Scheme::ALL.len() as u64) as usize] as u8,
        1 => directory[at + 9] = [1, 2, 4, 8, 0, 3, 16][random.below(7) as usize],
        2 => {
            let wrong = [0, 1, stored_bytes + 1, stored_bytes.wrapping_sub(1), stored_bytes / 2, u32::MAX];
            let wrong = wrong[random.below(6) as usize];
            directory[at..at + 4].copy_from_slice(&wrong.to_le_bytes());
        }
        _ => directory[at + 8 + random.below(4) as usize] = random.next() as u8,
    }
}

/// Makes damaged frames pass their checksums.
fn repair_checksums(directory: &mut [u8], chunk: &[u8]) {
    let Some((blocks, frames)) = counts(directory) else { return };
    let mut at: usize = 0;
    for frame in 0..frames.min(directory.len()) {
        let entry = directory.get_mut(entry_of(blocks, frame)..).and_then(|rest| rest.first_chunk_mut::<8>());
        let Some([a, b, c, d, checksum @ ..]) = entry else { break };
        let stored_bytes = u32::from_le_bytes([*a, *b, *c, *d]) as usize;
        let Some(stored) = chunk.get(at..at.saturating_add(stored_bytes)) else { break };
        checksum.copy_from_slice(&crc32c(stored).to_le_bytes());
        at += stored_bytes.next_multiple_of(8);
    }
}

/// Ends, values and strings of runs, damaged anywhere.
#[test]
fn damaged_runs_never_panic() {
    let mut random = Random(20_261_122);
    let (mut accepted, mut refused) = (0, 0);
    for round in 0..10_000u64 {
        let physical = PhysicalType::ALL[(round % 12) as usize];
        let case = Case::generate(physical, cases::RUNS, 1 + random.below(700) as usize, 20, round / 50);
        let (bytes, _) = case.encode(Some(Encoding::RunLength));
        let mut damaged = bytes.bytes().to_vec();
        for _ in 0..=random.below(2) {
            let at = random.below(damaged.len() as u64) as usize;
            damaged[at] = if random.below(2) == 0 { random.next() as u8 } else { damaged[at].wrapping_add(1) };
        }
        match EncodedBlock::parse(Aligned::new(&damaged).bytes()) {
            Ok(block) => {
                read_all(&block);
                accepted += 1;
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Corrupt);
                refused += 1;
            }
        }
    }
    assert!(accepted > 1000 && refused > 1000, "{accepted} were accepted, {refused} were not");
}

/// Makes damage pass the checksums, so that what lies behind them is tested as well.
fn repair_checksums_v1(chunk: &mut [u8]) {
    let word = |chunk: &[u8], at: usize| {
        chunk.get(at..at + 4).map_or(0, |b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])) as usize
    };
    let (header, blocks, frames) = (word(chunk, 8), word(chunk, 20), word(chunk, 24));
    if header < 36 || header > chunk.len() || frames > 1000 || blocks > 1000 {
        return;
    }
    let mut at = header;
    for frame in 0..frames {
        let entry = 32 + 4 * blocks + 8 * frame;
        let length = word(chunk, entry);
        if entry + 8 > header || at + length > chunk.len() {
            break;
        }
        let checksum = crc32c(&chunk[at..at + length]);
        chunk[entry + 4..entry + 8].copy_from_slice(&checksum.to_le_bytes());
        at += length;
    }
    let checksum = crc32c(&chunk[..header - 4]);
    chunk[header - 4..header].copy_from_slice(&checksum.to_le_bytes());
}

/// Bits of padding between and behind frames hold nothing, so that nobody misses them.
#[test]
fn every_flipped_bit_of_a_frame_is_found() {
    for scheme in Scheme::ALL {
        let case = Case::generate(PhysicalType::I32, 2, 900, 10, 1);
        let (bytes, _) = case.encode(None);
        let options = ChunkOptions { compression: Compression::Force(scheme) };
        let mut sealed = seal_chunk(bytes.bytes(), &[0], &options).expect("valid blocks seal");
        let word = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|byte| sealed.directory[at + byte])) as usize;
        let frames = word(4);
        let mut at = 0;
        for frame in 0..frames {
            let stored_bytes = word(8 + 64 + 12 * frame);
            for bit in at * 8..(at + stored_bytes) * 8 {
                let mut damaged = sealed.clone();
                damaged.bytes[bit / 8] ^= 1 << (bit % 8);
                let error = inflate(&damaged, PhysicalType::I32).expect_err("a flipped bit is found");
                assert_eq!(error.kind(), ErrorKind::Corrupt, "bit {bit}: {error}");
            }
            at += stored_bytes.next_multiple_of(8);
        }
        assert!(inflate(&sealed, PhysicalType::I32).is_ok());
        let error = inflate(&sealed, PhysicalType::I64).expect_err("another type is found");
        assert!(error.to_string().contains("block 0"), "{error}");
        sealed.directory.pop();
        assert!(inflate(&sealed, PhysicalType::I32).is_err());
    }
}

#[test]
fn every_flipped_bit_of_a_chunk_of_version_1_is_found() {
    for codec in [Scheme::Plain, Scheme::Lz4, Scheme::Zstd] {
        let case = Case::generate(PhysicalType::I32, 2, 900, 10, 1);
        let (bytes, _) = case.encode(None);
        let mut sealed = seal_v1(bytes.bytes(), &[0], codec);
        let inflate = |sealed: &[u8], physical| inflate_chunk(&[], sealed, physical, &Inflate::default());
        let used = sealed.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        for bit in 0..used * 8 {
            sealed[bit / 8] ^= 1 << (bit % 8);
            let error = inflate(&sealed, PhysicalType::I32).expect_err("a flipped bit is found");
            assert_eq!(error.kind(), ErrorKind::Corrupt, "bit {bit}: {error}");
            sealed[bit / 8] ^= 1 << (bit % 8);
        }
        assert!(inflate(&sealed, PhysicalType::I32).is_ok());
        let error = inflate(&sealed, PhysicalType::I64).expect_err("another type is found");
        assert!(error.to_string().contains("block 0"), "{error}");
    }
}

#[test]
fn a_damaged_frame_is_named() {
    let case = Case::generate(PhysicalType::I64, 6, 30_000, 0, 1);
    let (bytes, _) = case.encode(None);
    let mut sealed = seal_chunk(bytes.bytes(), &[0], &ChunkOptions::default()).expect("valid blocks seal");
    sealed.bytes[150_000] ^= 1;
    let error = inflate(&sealed, PhysicalType::I64).expect_err("the damage is found");
    assert_eq!(error.to_string(), "frame 2 of 4 of a chunk: checksum mismatch");
}

#[test]
fn a_dictionary_that_does_not_ascend_is_found() {
    let floats = |values: [f64; 3]| values.map(|value| Some(Cell::Bits(value.to_bits().into()))).to_vec();
    let strings = [b"ab", b"cd", b"ce"].map(|value| Some(Cell::Bytes(value.to_vec()))).to_vec();
    let cases = [
        (8, Case { physical: PhysicalType::I64, cells: [-5, 0, 7].map(|value| Some(Cell::Bits(value))).to_vec() }),
        (16, Case { physical: PhysicalType::I128, cells: [-5, 0, 7].map(|value| Some(Cell::Bits(value))).to_vec() }),
        (8, Case { physical: PhysicalType::F64, cells: floats([-5.0, 0.5, 7.0]) }),
        (8, Case { physical: PhysicalType::F64, cells: floats([0.0, -0.0, f64::NAN]) }),
        (2, Case { physical: PhysicalType::Bytes, cells: strings }),
    ];
    for (width, case) in cases {
        let (bytes, _) = case.encode(Some(Encoding::Dictionary));
        assert!(EncodedBlock::parse(bytes.bytes()).is_ok());
        // Strings of one length lie like numbers, in the section behind their offsets.
        let field = if case.physical == PhysicalType::Bytes { 36 } else { 32 };
        let start = u32::from_le_bytes([0, 1, 2, 3].map(|byte| bytes.bytes()[field + byte])) as usize;
        for (from, to) in [(0, 1), (1, 2), (2, 0)] {
            let mut damaged = bytes.bytes().to_vec();
            let (from, to) = (start + from * width, start + to * width);
            let mut swapped = damaged.clone();
            (0..width).for_each(|byte| swapped.swap(from + byte, to + byte));
            damaged.copy_within(from..from + width, to);
            for damaged in [damaged, swapped] {
                let damaged = Aligned::new(&damaged);
                let error = EncodedBlock::parse(damaged.bytes()).expect_err("the order is checked");
                assert!(error.to_string().contains("does not ascend"), "{:?}: {error}", case.physical);
            }
        }
    }
}
