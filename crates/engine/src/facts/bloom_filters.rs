//! What one fact file says: for one column of a table, a Bloom filter of the values of each of its chunks. `docs/format.md`,
//! "Bloom filters".
//!
//! The same line of all filters lies in one run, so that a test for one value reads one run. Runs have checksums of their own:
//! they are read one at a time.

use std::ops::Range;

use forebay_base::checksum::crc32c;
use forebay_base::{ColumnId, Context, Error, Result, SegmentId, limits};
use forebay_prune::bloom::{FilterBits, FilterShape, LINE_BYTES, LINE_WORDS, MOST_HASHES};
use forebay_store::Fact;
use forebay_store::serial::{Reader, Writer};

/// The kind and version of such facts.
pub const KIND: (u16, u32) = forebay_store::BLOOM_FILTERS;

/// Length and checksum of the head.
const PREFIX_BYTES: usize = 8;

/// Bytes of a unit.
const UNIT_BYTES: usize = 20;

/// The blocks that a filter is about: those of one chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FilteredBlocks {
    /// The segment.
    pub segment: SegmentId,
    /// Row group of the segment.
    pub group: u32,
    /// The first block of the row group, and the first one behind.
    pub blocks: (u32, u32),
}

/// What a file has but for its runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BloomFilters {
    /// The column, of the table that the fact is about.
    pub column: ColumnId,
    /// Of all filters.
    pub shape: FilterShape,
    /// One per filter.
    pub units: Vec<FilteredBlocks>,
    /// Checksums of the runs, one per line.
    checksums: Vec<u32>,
}

impl BloomFilters {
    /// The content of a file with these filters: of each unit all lines, one behind the other.
    pub fn to_bytes(column: ColumnId, shape: FilterShape, units: Vec<FilteredBlocks>, words: &[u64]) -> Vec<u8> {
        let filter_words = shape.lines as usize * LINE_WORDS;
        let mut runs = Vec::with_capacity(size_of_val(words));
        let mut checksums = Vec::with_capacity(shape.lines as usize);
        for line in 0..shape.lines as usize {
            let start = runs.len();
            for filter in words.chunks(filter_words) {
                let words = &filter[line * LINE_WORDS..(line + 1) * LINE_WORDS];
                words.iter().for_each(|word| runs.extend_from_slice(&word.to_le_bytes()));
            }
            checksums.push(crc32c(&runs[start..]));
        }
        let head = Self { column, shape, units, checksums }.head();
        let mut bytes = Vec::with_capacity(head.len() + runs.len() + limits::IO_ALIGN);
        bytes.extend_from_slice(&(head.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&crc32c(&head).to_le_bytes());
        bytes.extend_from_slice(&head);
        bytes.resize(bytes.len().next_multiple_of(limits::IO_ALIGN), 0);
        bytes.extend_from_slice(&runs);
        bytes
    }

    fn head(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        writer.u32(self.column.0);
        writer.u32(self.shape.hashes.into());
        writer.count(self.units.len());
        for unit in &self.units {
            writer.u64(unit.segment.0);
            writer.u32(unit.group);
            writer.u32(unit.blocks.0);
            writer.u32(unit.blocks.1);
        }
        writer.count(self.checksums.len());
        self.checksums.iter().for_each(|checksum| writer.u32(*checksum));
        writer.bytes
    }

    /// Reads all but the runs of a fact's file.
    ///
    /// # Errors
    /// `Corrupt` where the file is not the content of such a fact, and those of reading.
    pub fn read(fact: &Fact) -> Result<Self> {
        let read = |bytes: Range<u64>| fact.read_part(bytes);
        Self::read_from(fact.content_bytes(), &read).context(|| format!("fact file {}", fact.path()))
    }

    fn read_from(content_bytes: u64, read: &dyn Fn(Range<u64>) -> Result<Vec<u8>>) -> Result<Self> {
        let prefix = read(0..PREFIX_BYTES as u64)?;
        let mut reader = Reader::new(&prefix, "the fact");
        let (head_bytes, checksum) = (u64::from(reader.u32()?), reader.u32()?);
        let start = PREFIX_BYTES as u64;
        if head_bytes > content_bytes.saturating_sub(start) {
            return Err(Error::corrupt("the head of the filters is longer than their file"));
        }
        let head = read(start..start + head_bytes)?;
        if crc32c(&head) != checksum {
            return Err(Error::corrupt("checksum mismatch in the head of the filters"));
        }
        let filters = Self::from_head(&head)?;
        let end = filters.runs_start() + filters.run_bytes() * u64::from(filters.shape.lines);
        match end == content_bytes {
            true => Ok(filters),
            false => Err(Error::corrupt(format!("the filters take {content_bytes} bytes instead of {end}"))),
        }
    }

    fn from_head(head: &[u8]) -> Result<Self> {
        let mut reader = Reader::new(head, "the fact");
        let (column, hashes) = (ColumnId(reader.u32()?), reader.u32()?);
        let unit = |reader: &mut Reader<'_>| {
            let (segment, group) = (SegmentId(reader.u64()?), reader.u32()?);
            let blocks = (reader.u32()?, reader.u32()?);
            match blocks.0 < blocks.1 && blocks.1 as usize <= limits::GROUP_BLOCKS_MAX {
                true => Ok(FilteredBlocks { segment, group, blocks }),
                false => Err(reader.wrong("a filter is about no blocks of a row group")),
            }
        };
        let units = (0..reader.count(UNIT_BYTES)?).map(|_| unit(&mut reader)).collect::<Result<_>>()?;
        let checksums: Vec<u32> = (0..reader.count(size_of::<u32>())?).map(|_| reader.u32()).collect::<Result<_>>()?;
        let hashes = u8::try_from(hashes).ok().filter(|hashes| (1..=MOST_HASHES).contains(hashes));
        let (Some(hashes), false) = (hashes, checksums.is_empty()) else {
            return Err(reader.wrong("its filters have no shape"));
        };
        reader.finish()?;
        Ok(Self { column, shape: FilterShape { lines: checksums.len() as u32, hashes }, units, checksums })
    }

    fn head_bytes(&self) -> usize {
        4 * size_of::<u32>() + UNIT_BYTES * self.units.len() + size_of::<u32>() * self.checksums.len()
    }

    fn runs_start(&self) -> u64 {
        (PREFIX_BYTES + self.head_bytes()).next_multiple_of(limits::IO_ALIGN) as u64
    }

    fn run_bytes(&self) -> u64 {
        (self.units.len() * LINE_BYTES) as u64
    }

    /// The filters that may have the value of these bits, by number.
    ///
    /// # Errors
    /// `Corrupt` where the run is not what was written, and those of reading.
    pub fn with(&self, fact: &Fact, bits: &FilterBits) -> Result<Vec<usize>> {
        let start = self.runs_start() + u64::from(bits.line) * self.run_bytes();
        let run = fact.read_part(start..start + self.run_bytes())?;
        if crc32c(&run) != self.checksums[bits.line as usize] {
            return Err(Error::corrupt("checksum mismatch in a run of the filters"));
        }
        let (lines, _) = run.as_chunks::<LINE_BYTES>();
        Ok(lines.iter().enumerate().filter(|(_, line)| bits.are_in(line)).map(|(unit, _)| unit).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unit(group: u32) -> FilteredBlocks {
        FilteredBlocks { segment: SegmentId(7), group, blocks: (0, 4) }
    }

    fn content() -> Vec<u8> {
        let shape = FilterShape { lines: 3, hashes: 6 };
        let words: Vec<u64> = (0..2 * 3 * LINE_WORDS as u64).collect();
        BloomFilters::to_bytes(ColumnId(4), shape, vec![unit(0), unit(1)], &words)
    }

    fn read(bytes: &[u8]) -> Result<BloomFilters> {
        let part = |range: Range<u64>| {
            let part = bytes.get(range.start as usize..range.end as usize);
            part.map(<[u8]>::to_vec).ok_or_else(|| Error::corrupt("the file ends"))
        };
        BloomFilters::read_from(bytes.len() as u64, &part)
    }

    #[test]
    fn what_is_written_is_read_and_damage_is_an_error() {
        let bytes = content();
        let filters = read(&bytes).expect("own bytes");
        assert_eq!((filters.column, filters.shape.lines, filters.shape.hashes), (ColumnId(4), 3, 6));
        assert_eq!(filters.units, [unit(0), unit(1)]);
        let start = filters.runs_start() as usize;
        // The second line of the second filter.
        let second = start + filters.run_bytes() as usize + LINE_BYTES;
        assert_eq!(bytes[second..second + 8], (3 * LINE_WORDS as u64 + LINE_WORDS as u64).to_le_bytes());
        for cut in 0..bytes.len() {
            assert!(read(&bytes[..cut]).is_err(), "cut at {cut}");
        }
        for place in 0..PREFIX_BYTES + filters.head_bytes() {
            let mut wrong = bytes.clone();
            wrong[place] ^= 0x10;
            assert!(read(&wrong).is_err(), "byte {place}");
        }
    }
}
