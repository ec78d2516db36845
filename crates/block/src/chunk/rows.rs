//! A few rows of one block, from the frames that hold them alone.
//!
//! Which frames these are is known step by step: the codes of the rows say which values of a dictionary they have, and offsets say
//! where strings lie. So [`BlockRows`] asks for bytes until it has all, at most three times. Invariants: no byte of a frame is used
//! before its checksum is verified; what codes, offsets and runs say is checked before it is followed, since the block as a whole
//! never is. Must not know: how parts are read, why these rows are wanted.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use forebay_base::checksum::crc32c;
use forebay_base::limits::FRAME_BYTES;
use forebay_base::{Error, PhysicalType, Result};

use super::InflatedChunk;
use super::directory::{Directory, Frame, FramedSection, frame_count, sections};
use super::parts::ChunkPart;
use crate::column::{OFFSET_BYTES, PlainColumn, PlainValues};
use crate::encode::{EncodeOptions, encode_block};
use crate::encoding::Encoding;
use crate::frame;
use crate::frame::bits::Unpack;
use crate::header::Header;
use crate::native::Native;
use crate::parse::EncodedBlock;
use crate::validity;

/// Bytes of the last row of a run.
const RUN_END_BYTES: usize = size_of::<u16>();

/// Rows of one block on their way from its frames.
#[derive(Debug)]
pub struct BlockRows {
    header: Header,
    /// In the order in which they are given, each as often as it was asked for.
    rows: Vec<u16>,
    /// Those of the block.
    frames: Vec<Frame>,
    /// Where the first of them starts in the chunk.
    start: usize,
    /// The number of its first frame among those of the chunk.
    first: usize,
    /// Frames that are there, by their number in the block.
    plain: BTreeMap<usize, Vec<u64>>,
}

/// Sections of a block, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Validity,
    Codes,
    Values,
    Strings,
}

/// Bytes of a section.
type Piece = (Part, Range<usize>);

/// The values of the rows.
enum Found {
    /// One after the other.
    Fixed(Vec<u8>),
    Strings(Vec<Vec<u8>>),
}

/// What is known so far.
enum Progress {
    /// These have to be there first.
    Lacks(Vec<Piece>),
    Has(Found),
}

impl BlockRows {
    /// These rows of a block of the chunk that `directory` describes, whose values have the type `physical`.
    ///
    /// # Errors
    /// Of kind `Corrupt`: the directory is damaged, or has no such block or row.
    pub fn new(directory: &[u8], physical: PhysicalType, block: usize, rows: Vec<u16>) -> Result<Self> {
        let directory = Directory::read(directory, physical)?;
        let header = *directory.headers.get(block).ok_or_else(|| Error::corrupt("a chunk lacks one of its blocks"))?;
        if rows.iter().any(|row| u32::from(*row) >= header.rows) {
            return Err(Error::corrupt(format!("block {block} of a chunk has fewer rows than the footer says")));
        }
        let first: usize = directory.headers[..block].iter().map(frame_count).sum();
        let start = directory.frames[..first].iter().map(Frame::padded_bytes).sum();
        let frames = directory.frames[first..first + frame_count(&header)].to_vec();
        Ok(Self { header, rows, frames, start, first, plain: BTreeMap::new() })
    }

    /// Where the frames lie that are needed next, in bytes from the start of the chunk, ascending; none once all are there.
    ///
    /// # Errors
    /// Of kind `Corrupt`, where what is there does not fit together.
    pub fn wanted(&self) -> Result<Vec<Range<usize>>> {
        Ok(self.wanted_frames()?.into_iter().map(|(_, place)| place).collect())
    }

    /// Takes the frames that were [wanted](BlockRows::wanted) from these parts of the chunk.
    ///
    /// # Errors
    /// Of kind `Corrupt`, where a frame is damaged or missing.
    pub fn take(&mut self, parts: &[ChunkPart<'_>], unpack: &dyn Unpack) -> Result<()> {
        for (number, place) in self.wanted_frames()? {
            let plain = self.decoded(number, place.start, parts, unpack)?;
            self.plain.insert(number, plain);
        }
        Ok(())
    }

    /// The rows as the only block of a chunk, plain values in the order in which they were asked for.
    ///
    /// # Errors
    /// Of kind `Corrupt` where what is there does not fit together; a mistake where frames are missing.
    pub fn finish(self) -> Result<InflatedChunk> {
        let Progress::Has(found) = self.progress()? else {
            return Err(Error::internal("rows of a block were asked for before their frames were there"));
        };
        let bitmap = self.bitmap();
        let mut out = Vec::new();
        let (strings, values);
        let plain = match &found {
            Found::Fixed(bytes) => PlainValues::Fixed(bytes),
            Found::Strings(owned) => {
                strings = owned.iter().map(Vec::as_slice).collect::<Vec<_>>();
                values = strings.as_slice();
                PlainValues::Bytes(values)
            }
        };
        let (physical, rows) = (self.header.physical, self.rows.len());
        let column = PlainColumn { physical, rows, validity: bitmap.as_deref(), values: plain };
        encode_block(&column, &EncodeOptions { force: Some(Encoding::Uncompressed) }, &mut out)?;
        let mut memory = super::heap_memory(out.len())?;
        memory.bytes_mut()[..out.len()].copy_from_slice(&out);
        let header = EncodedBlock::parse(&memory.bytes()[..out.len()])?.header();
        Ok(InflatedChunk::new(memory, out.len(), vec![0], vec![header]))
    }

    /// The frames that are needed next, by their number in the block, and where they lie in the chunk.
    fn wanted_frames(&self) -> Result<Vec<(usize, Range<usize>)>> {
        let Progress::Lacks(pieces) = self.progress()? else { return Ok(Vec::new()) };
        let numbers: BTreeSet<usize> = pieces.iter().flat_map(|piece| self.lacking(piece)).collect();
        let mut places = Vec::with_capacity(numbers.len());
        let (mut at, mut next) = (self.start, 0);
        for number in numbers {
            let start = at + self.frames[next..number].iter().map(Frame::padded_bytes).sum::<usize>();
            (at, next) = (start + self.frames[number].padded_bytes(), number + 1);
            places.push((number, start..at));
        }
        Ok(places)
    }

    /// A frame, verified and decoded.
    fn decoded(&self, number: usize, at: usize, parts: &[ChunkPart<'_>], unpack: &dyn Unpack) -> Result<Vec<u64>> {
        let wrong = |what: &str| Error::corrupt(format!("frame {} of a chunk: {what}", self.first + number));
        let frame = &self.frames[number];
        let inside =
            |part: &&ChunkPart<'_>| part.start <= at && at + frame.stored_bytes <= part.start + part.bytes.len();
        let part = parts.iter().find(inside).ok_or_else(|| wrong("the chunk is cut off"))?;
        let stored = &part.bytes[at - part.start..][..frame.stored_bytes];
        if crc32c(stored) != frame.checksum {
            return Err(wrong("checksum mismatch"));
        }
        let (mut before, all) = (0, sections(&self.header));
        let (section, index) = all
            .iter()
            .find_map(|section| {
                let index = number.checked_sub(before)?;
                before += section.frames();
                (index < section.frames()).then_some((section, index))
            })
            .ok_or_else(|| Error::internal("a frame of a block is in none of its sections"))?;
        let bytes = (section.section.bytes - index * FRAME_BYTES).min(FRAME_BYTES);
        let mut plain = vec![0u64; bytes.div_ceil(size_of::<u64>())];
        let memory = &mut bytemuck::cast_slice_mut::<u64, u8>(&mut plain)[..bytes];
        frame::decode(unpack, stored, frame.form, section.elements.bytes, memory).map_err(|error| wrong(&error))?;
        Ok(plain)
    }

    /// Section `part`, with the number of its first frame in the block.
    fn section(&self, part: Part) -> (FramedSection, usize) {
        let all = sections(&self.header);
        let index = part as usize;
        (all[index], all[..index].iter().map(FramedSection::frames).sum())
    }

    /// The frames of a piece.
    fn frames_of(&self, (part, range): &Piece) -> Range<usize> {
        let first = self.section(*part).1;
        match range.is_empty() {
            true => first..first,
            false => first + range.start / FRAME_BYTES..first + range.end.div_ceil(FRAME_BYTES),
        }
    }

    /// Those of them that are not there.
    fn lacking(&self, piece: &Piece) -> impl Iterator<Item = usize> + '_ {
        self.frames_of(piece).filter(|frame| !self.plain.contains_key(frame))
    }

    fn lacks_any(&self, pieces: &[Piece]) -> bool {
        pieces.iter().any(|piece| self.lacking(piece).next().is_some())
    }

    /// The bytes of a piece whose frames are there and which lies in its section.
    fn bytes(&self, piece: &Piece) -> Vec<u8> {
        let ((part, range), first) = (piece, self.section(piece.0).1);
        let mut bytes = Vec::with_capacity(range.len());
        for number in self.frames_of(piece) {
            let start = (number - first) * FRAME_BYTES;
            let plain: &[u8] = bytemuck::cast_slice(&self.plain[&number]);
            let (from, to) = (range.start.max(start), range.end.min(start + FRAME_BYTES));
            debug_assert!(to <= self.section(*part).0.section.bytes, "a piece lies in its section");
            bytes.extend_from_slice(&plain[from - start..to - start]);
        }
        bytes
    }

    /// A number of a few bytes.
    fn number(&self, part: Part, index: usize, bytes: usize) -> u64 {
        let mut word = [0; size_of::<u64>()];
        word[..bytes].copy_from_slice(&self.bytes(&(part, index * bytes..(index + 1) * bytes)));
        u64::from_le_bytes(word)
    }

    fn progress(&self) -> Result<Progress> {
        let header = &self.header;
        let mut lacking: Vec<Piece> = Vec::new();
        if header.has_validity() {
            lacking
                .extend(self.rows.iter().map(|row| (Part::Validity, usize::from(*row) / 8..usize::from(*row) / 8 + 1)));
        }
        let code_bytes = usize::from(header.code_bytes);
        // With the codes comes what lies at the places of rows and not at those that codes tell.
        let by_row: Vec<Piece> = match header.encoding {
            Encoding::SingleValue => vec![(Part::Strings, 0..header.string_bytes as usize)],
            Encoding::Truncation | Encoding::Dictionary => {
                let of_row =
                    |row: &u16| (Part::Codes, usize::from(*row) * code_bytes..(usize::from(*row) + 1) * code_bytes);
                self.rows.iter().map(of_row).collect()
            }
            Encoding::RunLength => vec![(Part::Codes, 0..header.entry_count as usize * RUN_END_BYTES)],
            Encoding::Uncompressed => self.rows.iter().map(|row| self.value(usize::from(*row))).collect(),
        };
        lacking.extend(by_row);
        if self.lacks_any(&lacking) {
            return Ok(Progress::Lacks(lacking));
        }
        let entries = match header.encoding {
            Encoding::SingleValue => return Ok(Progress::Has(self.single_value()?)),
            Encoding::Truncation => return Ok(Progress::Has(Found::Fixed(self.distances()?))),
            Encoding::Uncompressed => self.rows.iter().map(|row| usize::from(*row)).collect(),
            Encoding::Dictionary => self.codes().map(|code| self.entry(code)).collect::<Result<Vec<_>>>()?,
            Encoding::RunLength => self.runs()?,
        };
        self.values(&entries)
    }

    /// Where a value, or the offsets of a string, are.
    fn value(&self, entry: usize) -> Piece {
        match self.header.physical.width() {
            Some(width) => (Part::Values, entry * width..(entry + 1) * width),
            None => (Part::Values, entry * OFFSET_BYTES..(entry + 2) * OFFSET_BYTES),
        }
    }

    /// The code of each row.
    fn codes(&self) -> impl Iterator<Item = u64> + '_ {
        let code_bytes = usize::from(self.header.code_bytes);
        self.rows.iter().map(move |row| self.number(Part::Codes, usize::from(*row), code_bytes))
    }

    /// The entry of a dictionary that a code stands for.
    fn entry(&self, code: u64) -> Result<usize> {
        match code < u64::from(self.header.entry_count) {
            true => Ok(code as usize),
            false => Err(Error::corrupt("encoded block: a code is outside of the dictionary")),
        }
    }

    /// The run of each row.
    fn runs(&self) -> Result<Vec<usize>> {
        let ends = self.bytes(&(Part::Codes, 0..self.header.entry_count as usize * RUN_END_BYTES));
        let (ends, _) = ends.as_chunks::<RUN_END_BYTES>();
        let ends: Vec<u16> = ends.iter().map(|end| u16::from_le_bytes(*end)).collect();
        let is_whole = ends.last().is_some_and(|last| u32::from(*last) + 1 == self.header.rows);
        if !is_whole || !ends.is_sorted_by(|a, b| a < b) {
            return Err(Error::corrupt("encoded block: runs do not ascend to the last row"));
        }
        Ok(self.rows.iter().map(|row| ends.partition_point(|end| end < row)).collect())
    }

    /// The same value for all rows.
    fn single_value(&self) -> Result<Found> {
        let (header, rows) = (&self.header, self.rows.len());
        let string = || self.bytes(&(Part::Strings, 0..header.string_bytes as usize));
        crate::with_native!(header.physical,
            T => {
                // A block without valid rows has no base.
                let value = if header.is_all_null() { <T as Native>::from_bits(0) } else { <T as Native>::from_bits(header.base) };
                let value = value.ok_or_else(|| Error::corrupt("encoded block: its value is out of the type's range"))?;
                Ok(Found::Fixed(bytemuck::cast_slice(&vec![value; rows]).to_vec()))
            },
            bytes => Ok(Found::Strings(vec![string(); rows]))
        )
    }

    /// The values that lie at the distances from the base which codes say.
    fn distances(&self) -> Result<Vec<u8>> {
        crate::with_native!(self.header.physical,
            T => {
                let base = <T as Native>::from_bits(self.header.base);
                let base = base.ok_or_else(|| Error::corrupt("encoded block: base value out of the type's range"))?;
                let values: Vec<T> = self.codes().map(|code| <T as Native>::plus(base, code)).collect();
                Ok(bytemuck::cast_slice(&values).to_vec())
            },
            bytes => Err(Error::corrupt("encoded block: strings have no distances"))
        )
    }

    /// The values of these entries.
    fn values(&self, entries: &[usize]) -> Result<Progress> {
        let pieces: Vec<Piece> = entries.iter().map(|entry| self.value(*entry)).collect();
        if self.lacks_any(&pieces) {
            return Ok(Progress::Lacks(pieces));
        }
        if self.header.physical != PhysicalType::Bytes {
            return Ok(Progress::Has(Found::Fixed(pieces.iter().flat_map(|piece| self.bytes(piece)).collect())));
        }
        let offset = |entry: usize| self.number(Part::Values, entry, OFFSET_BYTES) as usize;
        let string = |entry: &usize| {
            let (start, end) = (offset(*entry), offset(entry + 1));
            match start <= end && end <= self.header.string_bytes as usize {
                true => Ok((Part::Strings, start..end)),
                false => Err(Error::corrupt("encoded block: string offsets are not monotone or out of bounds")),
            }
        };
        let pieces: Vec<Piece> = entries.iter().map(string).collect::<Result<_>>()?;
        match self.lacks_any(&pieces) {
            true => Ok(Progress::Lacks(pieces)),
            false => Ok(Progress::Has(Found::Strings(pieces.iter().map(|piece| self.bytes(piece)).collect()))),
        }
    }

    /// Which of the rows are valid; `None` where all are.
    fn bitmap(&self) -> Option<Vec<u8>> {
        let rows = self.rows.len();
        if self.header.is_all_null() {
            return Some(vec![0; rows.div_ceil(8)]);
        }
        self.header.has_validity().then(|| {
            let mut bitmap = vec![0; rows.div_ceil(8)];
            for (index, row) in self.rows.iter().enumerate() {
                let byte = self.bytes(&(Part::Validity, usize::from(*row) / 8..usize::from(*row) / 8 + 1));
                bitmap[index / 8] |= u8::from(validity::is_valid(&byte, usize::from(*row) % 8)) << (index % 8);
            }
            bitmap
        })
    }
}
