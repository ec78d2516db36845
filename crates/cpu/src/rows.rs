//! Rows of words (`layout.rs`): appended by compiled code or Rust, read back as vectors.
//!
//! Invariants: rows do not move while they are appended; the bytes that they refer to lie in the arena beside them.

use std::ops::Range;
use std::sync::Arc;

use forebay_pipeline::Scalar;
use forebay_pipeline::ir::ValueType;

use crate::arena::Arena;
use crate::layout::{Place, RowLayout, WORD};
use crate::vector::{Vector, physical_of};

/// Bytes of a buffer's first chunk; each following one is twice as large.
const FIRST_CHUNK_BYTES: usize = 16 << 10;
/// Bytes of its largest chunks.
const LARGEST_CHUNK_BYTES: usize = 4 << 20;

/// Rows that one worker appends: of a build side or of a result.
#[derive(Debug)]
pub struct RowBuffer {
    words: usize,
    chunks: Vec<Chunk>,
    /// Bytes that rows refer to.
    arena: Arena,
}

#[derive(Debug)]
struct Chunk {
    memory: Vec<u64>,
    /// Exposed: compiled code writes there.
    address: u64,
    rows: usize,
}

impl Chunk {
    fn new(words: usize) -> Self {
        let mut memory = vec![0; words];
        Self { address: memory.as_mut_ptr().expose_provenance() as u64, memory, rows: 0 }
    }
}

impl RowBuffer {
    /// An empty buffer for rows of this many words. Rows without words take one.
    pub fn new(words: usize) -> Self {
        Self { words: words.max(1), chunks: Vec::new(), arena: Arena::default() }
    }

    /// A buffer of these whole rows, which refer to bytes of `arena`.
    pub(crate) fn of_parts(words: usize, mut memory: Vec<u64>, arena: Arena) -> Self {
        let rows = memory.len() / words;
        let chunk = Chunk { address: memory.as_mut_ptr().expose_provenance() as u64, memory, rows };
        Self { words, chunks: vec![chunk], arena }
    }

    /// Where the next row goes; 0 where there is no memory yet.
    pub fn cursor(&self) -> u64 {
        self.chunks.last().map_or(0, |chunk| chunk.address + (chunk.rows * self.words * WORD) as u64)
    }

    /// Where the memory for rows ends: whole rows fit between the cursor and this.
    pub fn limit(&self) -> u64 {
        self.chunks.last().map_or(0, |chunk| chunk.address + (chunk.memory.len() * WORD) as u64)
    }

    /// Takes note that rows were written up to `cursor`.
    pub fn set_cursor(&mut self, cursor: u64) {
        let Some(chunk) = self.chunks.last_mut() else { return };
        let words = (cursor - chunk.address) as usize / WORD;
        assert!(
            words <= chunk.memory.len() && words.is_multiple_of(self.words),
            "the cursor is at a row of the buffer"
        );
        chunk.rows = words / self.words;
    }

    /// Takes note that rows were written up to `cursor`, and makes room for at least one more.
    pub fn grow(&mut self, cursor: u64) {
        self.set_cursor(cursor);
        let last = self.chunks.last().map_or(FIRST_CHUNK_BYTES / 2, |chunk| chunk.memory.len() * WORD);
        let bytes = (last * 2).min(LARGEST_CHUNK_BYTES);
        self.chunks.push(Chunk::new((bytes / WORD / self.words).max(1) * self.words));
    }

    /// The address of a copy of bytes that a row refers to.
    pub fn keep_bytes(&mut self, bytes: &[u8]) -> u64 {
        self.arena.keep(bytes)
    }

    /// Appends a row.
    pub fn push(&mut self, row: &[u64]) {
        if self.cursor() == self.limit() {
            self.grow(self.cursor());
        }
        let chunk = self.chunks.last_mut().expect("the buffer has just grown");
        chunk.memory[chunk.rows * self.words..][..row.len()].copy_from_slice(row);
        chunk.rows += 1;
    }

    /// Appends a row that begins with `header`, of numbers and truths. Panics where a value is of another type.
    pub fn push_values(&mut self, layout: &RowLayout, header: &[u64], values: &[Scalar]) {
        let mut row = vec![0; self.words];
        row[..header.len()].copy_from_slice(header);
        for (place, value) in layout.places.iter().zip(values) {
            match value {
                Scalar::Null => continue,
                Scalar::Bool(value) => row[place.word] = u64::from(*value),
                Scalar::I64(value) => row[place.word] = *value as u64,
                Scalar::F64(value) => row[place.word] = value.to_bits(),
                Scalar::I128(value) => {
                    row[place.word] = *value as u64;
                    row[place.word + 1] = (*value >> 64) as u64;
                }
                Scalar::Bytes(_) => panic!("bytes are kept by their buffer"),
            }
            if let (Some(word), Some(bit)) = (layout.validity, place.bit) {
                row[word] |= 1 << bit;
            }
        }
        self.push(&row);
    }

    /// Words of a row.
    pub fn words(&self) -> usize {
        self.words
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.chunks.iter().map(|chunk| chunk.rows).sum()
    }

    /// True where there is no row.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The rows.
    pub fn rows(&self) -> impl Iterator<Item = &[u64]> + Clone {
        self.chunks().flat_map(|chunk| chunk.chunks_exact(self.words))
    }

    /// The rows as they lie together.
    pub(crate) fn chunks(&self) -> impl Iterator<Item = &[u64]> + Clone {
        self.chunks.iter().map(|chunk| &chunk.memory[..chunk.rows * self.words])
    }

    /// Bytes of memory that the buffer holds.
    pub fn memory_bytes(&self) -> usize {
        self.chunks.iter().map(|chunk| chunk.memory.capacity() * WORD).sum::<usize>() + self.arena.memory_bytes()
    }

    /// The rows in chunks, and their bytes.
    pub(crate) fn into_parts(self) -> (Vec<Vec<u64>>, Arena) {
        let cut = |mut chunk: Chunk| {
            chunk.memory.truncate(chunk.rows * self.words);
            chunk.memory
        };
        (self.chunks.into_iter().map(cut).collect(), self.arena)
    }
}

/// Finished rows, read back as vectors.
#[derive(Debug)]
pub struct RowSet {
    words: usize,
    /// Number of the first row of each chunk, and how many there are in all.
    starts: Vec<usize>,
    chunks: Vec<Vec<u64>>,
    fields: Vec<Field>,
    arena: Arc<Arena>,
}

/// A value of a row, as it is read back.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Field {
    pub(crate) value: ValueType,
    /// Its first word.
    pub(crate) word: usize,
    pub(crate) valid: Valid,
}

/// How one knows that a value is not NULL.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Valid {
    Always,
    /// This bit of this word is 1.
    Bit(usize, u32),
    /// This word is not 0.
    Word(usize),
}

impl Field {
    /// The value at a place of a row.
    pub(crate) fn of_place(place: &Place, validity: Option<usize>) -> Self {
        let valid = validity.zip(place.bit).map_or(Valid::Always, |(word, bit)| Valid::Bit(word, bit));
        Self { value: place.typed.value, word: place.word, valid }
    }

    /// All values of a row.
    pub(crate) fn of_row(layout: &RowLayout) -> Vec<Self> {
        layout.places.iter().map(|place| Self::of_place(place, layout.validity)).collect()
    }

    #[inline]
    pub(crate) fn is_valid(&self, row: &[u64]) -> bool {
        match self.valid {
            Valid::Always => true,
            Valid::Bit(word, bit) => row[word] >> bit & 1 != 0,
            Valid::Word(word) => row[word] != 0,
        }
    }

    /// Whether two rows, in which it is valid, have the same value.
    #[inline]
    pub(crate) fn is_equal(&self, a: &[u64], b: &[u64], arena: &Arena) -> bool {
        let word = self.word;
        match self.value {
            ValueType::Bool | ValueType::I64 | ValueType::F64 => a[word] == b[word],
            ValueType::I128 => a[word..word + 2] == b[word..word + 2],
            ValueType::Bytes => {
                let bytes = |row: &[u64]| arena.get(row[word], row[word + 1] as usize);
                a[word + 1] == b[word + 1] && bytes(a) == bytes(b)
            }
        }
    }
}

impl RowSet {
    /// All rows of `buffers`, which are laid out so.
    pub fn of_buffers(layout: &RowLayout, buffers: Vec<RowBuffer>) -> Self {
        let (chunks, arenas): (Vec<_>, Vec<_>) = buffers.into_iter().map(RowBuffer::into_parts).unzip();
        let mut arena = Arena::default();
        arena.append(arenas.into_iter());
        let chunks = chunks.into_iter().flatten().collect();
        Self::new(layout.words.max(1), chunks, Field::of_row(layout), Arc::new(arena))
    }

    pub(crate) fn new(words: usize, mut chunks: Vec<Vec<u64>>, fields: Vec<Field>, arena: Arc<Arena>) -> Self {
        chunks.retain(|chunk| !chunk.is_empty());
        let mut starts = vec![0];
        for chunk in &chunks {
            starts.push(starts[starts.len() - 1] + chunk.len() / words);
        }
        Self { words, starts, chunks, fields, arena }
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.starts[self.chunks.len()]
    }

    /// True where there is no row.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The rows of a range.
    pub(crate) fn rows(&self, range: Range<usize>) -> impl Iterator<Item = &[u64]> + Clone {
        let first = self.starts.partition_point(|start| *start <= range.start) - 1;
        let chunks = self.chunks.iter().zip(&self.starts).skip(first);
        chunks.take_while(move |(_, start)| **start < range.end).flat_map(move |(chunk, start)| {
            let from = range.start.saturating_sub(*start) * self.words;
            let to = chunk.len().min((range.end - start) * self.words);
            chunk[from.min(to)..to].chunks_exact(self.words)
        })
    }

    /// Reads the rows of a range, at most `VECTOR_ROWS`, one vector for each value of a row.
    pub fn read(&self, range: Range<usize>, vectors: &mut Vec<Vector>) {
        assert!(range.end <= self.len(), "rows {range:?} of {}", self.len());
        self.read_rows(self.rows(range.clone()), range.len(), vectors);
    }

    /// Reads these rows.
    pub(crate) fn read_rows<'a>(
        &self,
        rows: impl Iterator<Item = &'a [u64]> + Clone,
        count: usize,
        vectors: &mut Vec<Vector>,
    ) {
        vectors.resize_with(self.fields.len(), Vector::default);
        for (vector, field) in vectors.iter_mut().zip(&self.fields) {
            read_field(field, rows.clone(), count, &self.arena, vector);
        }
    }

    /// Reads of the rows of a range, at most `VECTOR_ROWS`, the values at these positions, one vector for each.
    pub fn read_values(&self, range: Range<usize>, positions: &[usize], vectors: &mut Vec<Vector>) {
        assert!(range.end <= self.len(), "rows {range:?} of {}", self.len());
        vectors.resize_with(positions.len(), Vector::default);
        for (vector, position) in vectors.iter_mut().zip(positions) {
            read_field(&self.fields[*position], self.rows(range.clone()), range.len(), &self.arena, vector);
        }
    }

    /// Only the rows with these numbers, which ascend.
    #[must_use]
    pub fn of_numbers(&self, numbers: &[usize]) -> Self {
        let mut chunk = Vec::with_capacity(numbers.len() * self.words);
        numbers.iter().for_each(|number| self.rows(*number..number + 1).for_each(|row| chunk.extend_from_slice(row)));
        Self::new(self.words, vec![chunk], self.fields.clone(), Arc::clone(&self.arena))
    }

    /// Words of a row.
    pub(crate) fn words(&self) -> usize {
        self.words
    }

    /// The memory of the rows, in order.
    pub(crate) fn chunks(&self) -> &[Vec<u64>] {
        &self.chunks
    }

    /// Bytes of memory that the rows hold.
    pub fn memory_bytes(&self) -> usize {
        self.chunks.iter().map(|chunk| chunk.capacity() * WORD).sum::<usize>() + self.arena.memory_bytes()
    }
}

fn read_field<'a>(
    field: &Field,
    rows: impl Iterator<Item = &'a [u64]> + Clone,
    count: usize,
    arena: &Arc<Arena>,
    vector: &mut Vector,
) {
    fn write<'a, T: Copy>(out: &mut [T], rows: impl Iterator<Item = &'a [u64]>, value: impl Fn(&[u64]) -> T) {
        for (slot, row) in out.iter_mut().zip(rows) {
            *slot = value(row);
        }
    }
    vector.begin(physical_of(field.value), count);
    let (word, values) = (field.word, rows.clone());
    match field.value {
        ValueType::Bool => write(vector.values_mut::<u8>(), values, |row| row[word] as u8),
        ValueType::I64 => write(vector.values_mut::<i64>(), values, |row| row[word] as i64),
        ValueType::F64 => write(vector.values_mut::<f64>(), values, |row| f64::from_bits(row[word])),
        ValueType::I128 => write(vector.values_mut::<i128>(), values, |row| wide(&row[word..])),
        ValueType::Bytes => vector.write_views(arena, values.map(|row| [row[word], row[word + 1]])),
    }
    if !matches!(field.valid, Valid::Always) {
        let valid = vector.validity_mut();
        write(valid, rows, |row| u8::from(field.is_valid(row)));
        let has_nulls = valid.contains(&0);
        vector.set_nulls(has_nulls);
    }
}

/// Two words as one number, the low one first.
#[inline]
pub(crate) fn wide(words: &[u64]) -> i128 {
    (u128::from(words[0]) | u128::from(words[1]) << 64) as i128
}

#[cfg(test)]
mod tests {
    use forebay_pipeline::ir::Typed;
    use proptest::prelude::*;

    use super::*;
    use crate::scalars::{any_typed, random, row_of, rows_of, scalar};

    #[test]
    fn the_cursor_counts_whole_rows() {
        for words in [0, 1, 3, 10_000] {
            let mut buffer = RowBuffer::new(words);
            let row_bytes = (buffer.words() * WORD) as u64;
            assert_eq!((buffer.cursor(), buffer.limit(), buffer.memory_bytes()), (0, 0, 0));
            let mut rows = 0;
            for round in 0..20 {
                buffer.grow(buffer.cursor());
                let room = (buffer.limit() - buffer.cursor()) / row_bytes;
                assert!(room >= 1 && buffer.limit() == buffer.cursor() + room * row_bytes);
                // Not every chunk is filled to its end.
                let written = room - u64::from(round % 3 == 0);
                buffer.set_cursor(buffer.cursor() + written * row_bytes);
                rows += written as usize;
                assert_eq!((buffer.len(), buffer.rows().count()), (rows, rows));
            }
        }
    }

    #[test]
    #[should_panic(expected = "the cursor is at a row of the buffer")]
    fn a_cursor_within_a_row_is_wrong() {
        let mut buffer = RowBuffer::new(2);
        buffer.grow(0);
        buffer.set_cursor(buffer.cursor() + 8);
    }

    proptest! {
        #[test]
        fn what_was_pushed_is_read(
            types in prop::collection::vec(any_typed(), 0..6),
            sizes in prop::collection::vec(0usize..3000, 0..4),
            mut seed: u64,
        ) {
            let layout = RowLayout::new(0, types.iter().copied());
            let mut expected: Vec<Vec<Scalar>> = Vec::new();
            let mut fill = |rows: usize| {
                let mut buffer = RowBuffer::new(layout.words);
                for _ in 0..rows {
                    let row: Vec<Scalar> = types.iter().map(|typed| scalar(*typed, random(&mut seed), 100)).collect();
                    let words = row_of(&layout, &row, &mut |bytes| buffer.keep_bytes(bytes));
                    buffer.push(&words);
                    expected.push(row);
                }
                buffer
            };
            let buffers = sizes.into_iter().map(&mut fill).collect();
            let set = RowSet::of_buffers(&layout, buffers);
            prop_assert_eq!(set.len(), expected.len());
            check(&set, &types, &expected, &mut seed);
        }
    }

    /// Reads ranges, with vectors that held something else before.
    fn check(set: &RowSet, types: &[Typed], expected: &[Vec<Scalar>], seed: &mut u64) {
        let mut vectors = Vec::new();
        for _ in 0..10 {
            let start = (random(seed) % (expected.len() as u64 + 1)) as usize;
            let end = start + (random(seed) % ((expected.len() - start).min(8192) as u64 + 1)) as usize;
            set.read(start..end, &mut vectors);
            assert_eq!(rows_of(&vectors, end - start, types), expected[start..end]);
            let positions: Vec<usize> = (0..types.len()).rev().step_by(2).collect();
            set.read_values(start..end, &positions, &mut vectors);
            let of = |row: &Vec<Scalar>| positions.iter().map(|position| row[*position].clone()).collect::<Vec<_>>();
            let some_types: Vec<Typed> = positions.iter().map(|position| types[*position]).collect();
            let some: Vec<_> = expected[start..end].iter().map(of).collect();
            assert_eq!(rows_of(&vectors, end - start, &some_types), some);
            let numbers: Vec<usize> = (start..end).filter(|_| random(seed).is_multiple_of(3)).collect();
            set.of_numbers(&numbers).read(0..numbers.len(), &mut vectors);
            let chosen: Vec<_> = numbers.iter().map(|number| expected[*number].clone()).collect();
            assert_eq!(rows_of(&vectors, numbers.len(), types), chosen);
        }
    }
}
