//! Sections and footers: golden bytes, what is read back, and what hostile bytes come to.

use forebay_base::checksum::crc32c;
use forebay_base::limits::{BLOCK_ROWS, GROUP_BLOCKS_MAX, SKETCH_REGISTERS};
use forebay_base::{ColumnId, ErrorKind, PhysicalType, Result, SegmentId, Value};
use forebay_block::{ColumnStatistics, Zone};
use proptest::prelude::*;

use super::directory::{SECTION_NO_COLUMN, SECTION_OPTIONAL, find};
use super::*;

const COLUMNS: [(ColumnId, PhysicalType); 2] = [(ColumnId(0), PhysicalType::I64), (ColumnId(5), PhysicalType::Bytes)];

fn expected(columns: &[(ColumnId, PhysicalType)], rows: u64) -> Expected<'_> {
    Expected { id: SegmentId(7), columns, rows }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.chars().map(|digit| digit.to_digit(16).expect("a digit") as u8).collect();
    digits.as_chunks::<2>().0.iter().map(|[high, low]| high << 4 | low).collect()
}

/// A segment of one column and one block of two rows, one of them NULL.
fn small() -> (Vec<Group>, Vec<ColumnStatistics>) {
    let zone = Zone { rows: 2, null_count: 1, min: Some(Value::Int(-2)), max: None };
    let chunk = ChunkLocation { offset: 4096, stored_bytes: 4096, encoded_bytes: 128 };
    let column = GroupColumn { blocks_log2: 1, plain_bytes: 16, chunks: vec![chunk], zones: vec![zone] };
    let group = Group { first_row: 0, rows: 2, block_rows: vec![2], columns: vec![column].into() };
    let mut registers = vec![0; SKETCH_REGISTERS];
    registers[258] = 5;
    (vec![group], vec![ColumnStatistics::from_parts(registers, vec![-2]).expect("statistics")])
}

/// Column and chunk of [`small`], as every version has them.
const SMALL_CHUNKS: &str = "011000000000000000001000000000000000100000000000008000000000000000";
const SMALL_ZONES: &str = "0100000001feffffffffffffffffffffffffffffff00";
const SMALL_STATISTICS: &str = "0100000002010501000000feffffffffffffffffffffffffffffff";

/// The bytes behind the chunks of a small segment file, as `docs/format.md` has them.
#[test]
fn golden_bytes() {
    let (groups, statistics) = small();
    let frames = [frames::encode([b"xyz".as_slice()].into_iter())];
    let columns = &COLUMNS[..1];
    let tail = encode(expected(columns, 2), 8192, groups.clone(), statistics.clone(), &frames);
    let contents = ["0300000078797a", "010000000100000002000000", SMALL_CHUNKS, SMALL_ZONES, SMALL_STATISTICS];
    let mut golden = contents.concat();
    // Magic, version, id, rows; one column, id 0, I64; five sections.
    golden += "46424159464f4f54030000000700000000000000020000000000000001000000000000000405000000";
    let mut offset = 8192u64;
    // Kinds; flags 0; no column or column 0; version 1; offset, bytes, checksum.
    let kinds = ["0500000000000000", "01000000ffffffff", "0200000000000000", "0300000000000000", "0400000000000000"];
    for (content, kind) in contents.iter().zip(kinds) {
        let content = unhex(content);
        golden += kind;
        golden += "01000000";
        golden += &hex(&offset.to_le_bytes());
        golden += &hex(&(content.len() as u64).to_le_bytes());
        golden += &hex(&crc32c(&content).to_le_bytes());
        offset += content.len() as u64;
    }
    let written = hex(&tail.bytes);
    assert_eq!(&written[..golden.len()], golden);
    assert_eq!(written.len(), golden.len() + 8, "and a checksum");
    assert_eq!(unhex(&written[golden.len()..]), tail.location.crc.to_le_bytes());
    assert_eq!((tail.location.metadata_offset, tail.location.offset), (8199, offset));
    let footer = decode(&tail.bytes[7..], tail.location, expected(columns, 2)).expect("own bytes");
    assert_eq!(footer, tail.footer);
    assert_eq!((footer.version, footer.groups, footer.statistics), (3, groups, statistics));
}

/// A footer of version 2, as programs wrote it that knew no other.
#[test]
fn golden_bytes_of_version_2() {
    // Magic, version, id, rows; one column, id 0, I64; one group of one block of two rows.
    let head =
        ["46424159464f4f54", "02000000", "0700000000000000", "0200000000000000", "010000000000000004", "01000000"];
    let head = head.concat();
    let footer = [&head, "01000000", "02000000", SMALL_CHUNKS, SMALL_ZONES, SMALL_STATISTICS, "00000000"].concat();
    let bytes = unhex(&footer);
    let location = FooterLocation { metadata_offset: 8192, offset: 8192, bytes: bytes.len() as u64, crc: 0 };
    let of_small = expected(&COLUMNS[..1], 2);
    let read = decode(&bytes, location, of_small).expect("bytes of version 2");
    let (groups, statistics) = small();
    assert_eq!((read.version, &read.groups, &read.statistics), (2, &groups, &statistics));
    assert!(read.sections.is_empty());
    for at in 0..bytes.len() {
        for mask in [1, 0x80, 0xFF] {
            let mut hostile = bytes.clone();
            hostile[at] ^= mask;
            if let Ok(read) = decode(&hostile, location, of_small) {
                check_consistent(&read, of_small, location.offset);
            }
        }
        assert!(decode(&bytes[..at], location, of_small).is_err(), "cut at {at}");
    }
    // Eight blocks were the most that version 2 had.
    let many = [&head, "09000000", &"02000000".repeat(9)].concat();
    let error = decode(&unhex(&many), location, of_small).expect_err("nine blocks");
    assert!(error.to_string().contains("too many blocks"), "{error}");
}

/// Groups with these numbers of blocks, in two columns with one block and 2^k blocks a chunk.
fn groups(blocks: &[usize], blocks_log2: u8) -> (Vec<Group>, u64) {
    let (mut groups, mut first_row, mut offset) = (Vec::new(), 0, HEADER_BYTES);
    for blocks in blocks {
        let block_rows: Vec<u32> = (0..*blocks).map(|block| 1 + (block * 977 % BLOCK_ROWS) as u32).collect();
        let rows: u64 = block_rows.iter().map(|rows| u64::from(*rows)).sum();
        let mut column = |blocks_log2: u8, bound: &dyn Fn(usize) -> Option<Value>| {
            let mut chunk = || {
                offset += 4096;
                ChunkLocation { offset: offset - 4096, stored_bytes: 4096, encoded_bytes: 100 }
            };
            let chunks = (0..chunk_count(*blocks, blocks_log2)).map(|_| chunk()).collect();
            let zone = |(block, rows): (usize, &u32)| {
                let null_count = (block as u32 % 3).min(*rows);
                Zone { rows: *rows, null_count, min: bound(block), max: bound(block + 1) }
            };
            GroupColumn {
                blocks_log2,
                plain_bytes: rows * 8,
                chunks,
                zones: block_rows.iter().enumerate().map(zone).collect(),
            }
        };
        let integers = column(0, &|block| Some(Value::Int(block as i128)));
        let strings = column(blocks_log2, &|block| (block > 0).then(|| Value::Bytes(vec![b'a'; block % 9])));
        groups.push(Group { first_row, rows, block_rows: block_rows.clone(), columns: vec![integers, strings].into() });
        first_row += rows;
    }
    (groups, offset)
}

/// Sections in front of a footer, taken apart so that tests can change them and seal them again.
#[derive(Debug, Clone)]
struct Parts {
    chunks_end: u64,
    rows: u64,
    /// Everything between chunks and footer.
    content: Vec<u8>,
    metadata_offset: u64,
    sections: Vec<Section>,
}

impl Parts {
    fn of(groups: (Vec<Group>, u64)) -> Self {
        let (groups, chunks_end) = groups;
        let rows = groups.iter().map(|group| group.rows).sum();
        let directories = |column: usize| {
            let chunks = groups.iter().flat_map(|group| &group.columns[column].chunks);
            let directories: Vec<Vec<u8>> = chunks.enumerate().map(|(chunk, _)| vec![chunk as u8; chunk % 5]).collect();
            frames::encode(directories.iter().map(Vec::as_slice))
        };
        let frames = [directories(0), directories(1)];
        let statistics = vec![ColumnStatistics::default(), ColumnStatistics::default()];
        let tail = encode(expected(&COLUMNS, rows), chunks_end, groups, statistics, &frames);
        let content = tail.bytes[..(tail.location.offset - chunks_end) as usize].to_vec();
        let sections = tail.footer.sections.into_values().collect();
        Self { chunks_end, rows, content, metadata_offset: tail.location.metadata_offset, sections }
    }

    fn section(&mut self, kind: u16, column: u32) -> &mut Section {
        let find = |section: &&mut Section| section.kind == kind && section.column == column;
        self.sections.iter_mut().find(find).expect("it is there")
    }

    fn place(&self, section: &Section) -> std::ops::Range<usize> {
        let from = section.offset.wrapping_sub(self.chunks_end) as usize;
        from..from.wrapping_add(section.bytes as usize)
    }

    /// All checksums of the sections as they must be.
    fn seal(mut self) -> Self {
        for index in 0..self.sections.len() {
            let section = self.sections[index];
            if let Some(content) = self.content.get(self.place(&section)) {
                self.sections[index].crc = crc32c(content);
            }
        }
        self
    }

    fn decode(&self) -> Result<Footer> {
        let of = expected(&COLUMNS, self.rows);
        let footer = encode_footer(of, &self.sections);
        let offset = self.chunks_end + self.content.len() as u64;
        let location =
            FooterLocation { metadata_offset: self.metadata_offset, offset, bytes: footer.len() as u64, crc: 0 };
        let metadata = &self.content[(self.metadata_offset - self.chunks_end) as usize..];
        let read = decode(&[metadata, &footer].concat(), location, of)?;
        check_consistent(&read, of, self.sections.iter().map(|section| section.offset).min().expect("sections"));
        Ok(read)
    }

    /// The directories of a column's frames, as a reader would get them.
    fn directories(&self, index: usize) -> Result<Vec<Vec<u8>>> {
        let footer = self.decode()?;
        let id = COLUMNS[index].0;
        let section = find(&footer.sections, SECTION_FRAMES, Some(id))?;
        let content = section.content(&self.content, self.chunks_end)?;
        let directories = frames::decode(content.to_vec(), id, &footer.groups, index)?;
        let of_group = |(group, at): (&Group, usize)| {
            let chunks = 0..group.columns[index].chunks.len();
            chunks.map(|chunk| directories.of_chunk(at, chunk).to_vec()).collect::<Vec<_>>()
        };
        Ok(footer.groups.iter().zip(0..).flat_map(of_group).collect())
    }

    fn error(&self) -> (ErrorKind, String) {
        let error = self.decode().expect_err("this must be refused");
        (error.kind(), error.to_string())
    }
}

/// What every reader relies on.
fn check_consistent(footer: &Footer, of: Expected<'_>, chunks_end: u64) {
    assert_eq!(footer.groups.iter().map(|group| group.rows).sum::<u64>(), of.rows);
    assert_eq!(footer.statistics.len(), of.columns.len());
    for group in &footer.groups {
        assert_eq!(group.columns.len(), of.columns.len());
        for column in group.columns.iter() {
            assert_eq!(column.zones.iter().map(|zone| zone.rows).collect::<Vec<_>>(), group.block_rows);
            assert_eq!(column.chunks.len(), chunk_count(group.block_rows.len(), column.blocks_log2));
            assert!(column.chunks.iter().all(|chunk| chunk.offset + chunk.stored_bytes <= chunks_end));
        }
    }
}

#[test]
fn flipped_bytes_are_named_by_their_section() {
    let sound = Parts::of(groups(&[3, 2], 1));
    sound.decode().expect("sound");
    for section in &sound.sections {
        for at in sound.place(section) {
            let mut hostile = sound.clone();
            hostile.content[at] ^= 1 << (at % 8);
            let error = match section.kind {
                SECTION_FRAMES => {
                    hostile.decode().expect("frames are not read with the footer");
                    let index = COLUMNS.iter().position(|(id, _)| id.0 == section.column).expect("its column");
                    hostile.directories(index).expect_err("damaged")
                }
                _ => hostile.decode().expect_err("damaged"),
            };
            assert_eq!(error.kind(), ErrorKind::Corrupt);
            assert!(error.to_string().contains(&section.describe()), "{error} is not of {}", section.describe());
        }
    }
}

/// Whatever sections with right checksums say, reading them is an error or gives consistent groups.
#[test]
fn hostile_sections() {
    let sound = Parts::of(groups(&[3, 2], 1));
    for at in 0..sound.content.len() {
        for mask in [1, 2, 0x80, 0xFF] {
            let mut hostile = sound.clone();
            hostile.content[at] ^= mask;
            let hostile = hostile.seal();
            for index in 0..COLUMNS.len() {
                let _checked_inside = hostile.directories(index);
            }
        }
    }
}

/// Whatever a footer says of its sections, reading it is an error or gives consistent groups.
#[test]
fn hostile_directories() {
    let sound = Parts::of(groups(&[3, 2], 1));
    let of = expected(&COLUMNS, sound.rows);
    let footer = encode_footer(of, &sound.sections);
    let offset = sound.chunks_end + sound.content.len() as u64;
    let metadata = &sound.content[(sound.metadata_offset - sound.chunks_end) as usize..];
    let location =
        FooterLocation { metadata_offset: sound.metadata_offset, offset, bytes: footer.len() as u64, crc: 0 };
    let bytes = [metadata, &footer].concat();
    for at in 0..bytes.len() {
        for mask in [1, 4, 0x80, 0xFF] {
            let mut hostile = bytes.clone();
            hostile[at] ^= mask;
            if let Ok(read) = decode(&hostile, location, of) {
                check_consistent(&read, of, sound.chunks_end);
            }
        }
        assert!(decode(&bytes[..at], location, of).is_err(), "cut at {at}");
    }
    for wrong in [
        FooterLocation { metadata_offset: offset + 1, ..location },
        FooterLocation { metadata_offset: sound.metadata_offset + 1, ..location },
        FooterLocation { metadata_offset: 0, ..location },
    ] {
        assert_eq!(decode(&bytes, wrong, of).expect_err("elsewhere").kind(), ErrorKind::Corrupt);
    }
}

#[test]
fn truncated_and_swapped_sections() {
    let sound = Parts::of(groups(&[3, 2], 1));
    for index in 0..sound.sections.len() {
        let section = sound.sections[index];
        for missing in 1..=section.bytes {
            let mut cut = sound.clone();
            cut.sections[index].bytes -= missing;
            let cut = cut.seal();
            match section.kind {
                SECTION_FRAMES => assert!((0..2).any(|column| cut.directories(column).is_err()), "{missing} missing"),
                _ => assert_eq!(cut.error().0, ErrorKind::Corrupt, "{missing} missing"),
            }
        }
    }
    for kind in [SECTION_CHUNKS, SECTION_ZONES, SECTION_FRAMES] {
        // Another column's content, with its own checksum: the numbers of chunks and the families differ.
        let mut swapped = sound.clone();
        let (a, b) = (*swapped.section(kind, 0), *swapped.section(kind, 5));
        *swapped.section(kind, 0) = Section { column: 0, ..b };
        *swapped.section(kind, 5) = Section { column: 5, ..a };
        assert!((0..2).any(|column| swapped.directories(column).is_err()), "{kind}");
        // Content in the place of another column's, without.
        let mut moved = sound.clone();
        moved.section(kind, 0).offset = b.offset;
        moved.section(kind, 5).offset = a.offset;
        assert!((0..2).any(|column| moved.directories(column).is_err()), "{kind}");
    }
}

#[test]
fn places_of_sections() {
    let sound = Parts::of(groups(&[3, 2], 1));
    let refused = |edit: &dyn Fn(&mut Parts), why: &str| {
        let mut parts = sound.clone();
        edit(&mut parts);
        let (kind, text) = parts.seal().error();
        assert!(kind == ErrorKind::Corrupt && text.contains(why), "{text}, not {why}");
    };
    refused(&|p| p.section(SECTION_ZONES, 5).offset -= 1, "overlap");
    refused(&|p| p.section(SECTION_FRAMES, 0).bytes += 1, "overlap");
    refused(&|p| p.section(SECTION_FRAMES, 5).bytes += 1, "overlap");
    refused(&|p| p.section(SECTION_FRAMES, 0).offset -= 4096, "a chunk lies outside the file");
    refused(&|p| p.section(SECTION_FRAMES, 0).offset = 4095, "between header page and footer");
    refused(&|p| p.section(SECTION_STATISTICS, 5).bytes += 1, "between header page and footer");
    refused(&|p| p.section(SECTION_STATISTICS, 5).bytes = u64::MAX, "between header page and footer");
    refused(&|p| p.section(SECTION_GROUPS, SECTION_NO_COLUMN).flags = 2, "unknown flag");
    refused(&|p| p.section(SECTION_ZONES, 5).column = 4, "no column of the segment");
    for index in 0..sound.sections.len() {
        let name = sound.sections[index].describe();
        refused(&|p| p.sections.retain(|other| *other != sound.sections[index]), &format!("{name} is missing"));
        refused(&|p| p.sections.push(p.sections[index]), &format!("{name} is listed twice"));
    }
    // Zones that are not where sections are read together: a writer's bug, which no reader looks for elsewhere.
    refused(&|p| p.metadata_offset = p.section(SECTION_ZONES, 0).offset, "does not lie where it is read");
}

#[test]
fn sections_that_this_program_does_not_know() {
    let sound = Parts::of(groups(&[3, 2], 1));
    let with = |section: Section, content: &[u8]| {
        let mut parts = sound.clone();
        let offset = parts.chunks_end + parts.content.len() as u64;
        parts.content.extend_from_slice(content);
        parts.sections.push(Section { offset, bytes: content.len() as u64, crc: crc32c(content), ..section });
        parts
    };
    let unknown = Section { kind: 99, ..Section::of(SECTION_GROUPS, None, 0, &[]) };
    let optional = with(Section { flags: SECTION_OPTIONAL, version: 6, ..unknown }, b"facts");
    let footer = optional.decode().expect("it is skipped");
    assert_eq!(
        (footer.groups, footer.sections.len()),
        (sound.decode().expect("sound").groups, sound.sections.len() + 1)
    );
    let column = with(Section { flags: SECTION_OPTIONAL, column: 5, ..unknown }, b"");
    column.decode().expect("it is skipped");
    let (kind, text) = with(unknown, b"facts").error();
    assert_eq!(kind, ErrorKind::Version);
    assert!(text.contains("the section of kind 99 has version 1") && text.contains("Upgrade Forebay"), "{text}");
    // A known kind in a later version is not known.
    let mut later = sound.clone();
    later.section(SECTION_ZONES, 5).version = 2;
    let (kind, text) = later.error();
    assert!(kind == ErrorKind::Version && text.contains("the section ZONES of column 5 has version 2"), "{text}");
    later.section(SECTION_ZONES, 5).flags = SECTION_OPTIONAL;
    assert!(later.error().1.contains("the section ZONES of column 5 is missing"), "skipped, but needed");
}

#[test]
fn a_later_segment_version_is_named() {
    let sound = Parts::of(groups(&[1], 0));
    let of = expected(&COLUMNS, sound.rows);
    for version in [1u32, 4, u32::MAX] {
        let mut footer = encode_footer(of, &sound.sections);
        footer[8..12].copy_from_slice(&version.to_le_bytes());
        let location = FooterLocation { metadata_offset: 8192, offset: 8192, bytes: footer.len() as u64, crc: 0 };
        let error = decode(&footer, location, of).expect_err("another version");
        assert_eq!(error.kind(), ErrorKind::Version);
        assert!(error.to_string().contains(&format!("format {version}, this program reads 2 to 3")), "{error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_is_written_reads_back(blocks in proptest::collection::vec(1..=GROUP_BLOCKS_MAX, 0..5), log2 in 0u8..=8) {
        let (written, chunks_end) = groups(&blocks, log2);
        let parts = Parts::of((written.clone(), chunks_end));
        let footer = parts.decode().expect("own bytes");
        prop_assert_eq!(footer.groups, written.clone());
        for index in 0..COLUMNS.len() {
            let read = parts.directories(index).expect("own bytes");
            let chunks: usize = written.iter().map(|group| group.columns[index].chunks.len()).sum();
            let naive: Vec<Vec<u8>> = (0..chunks).map(|chunk| vec![chunk as u8; chunk % 5]).collect();
            prop_assert_eq!(read, naive);
        }
    }

    #[test]
    fn several_mutated_bytes(seed: u64, count in 1usize..6) {
        let mut parts = Parts::of(groups(&[4, 1, 9], 2));
        let mut random = seed | 1;
        for _ in 0..count {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let at = (random >> 33) as usize % parts.content.len();
            parts.content[at] = (random >> 20) as u8;
        }
        let parts = parts.seal();
        for index in 0..COLUMNS.len() {
            let _checked_inside = parts.directories(index);
        }
    }
}
