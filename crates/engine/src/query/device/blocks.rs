//! Blocks of a table as they are told to a kernel: descriptors of columns and tests, with what these refer to.
//!
//! Must not know: where blocks come from.

use std::sync::Arc;

use forebay_base::{Error, Result};
use forebay_block::{Access, EncodedBlock, ValueRef, Values};
use forebay_cpu::dictionary::Dictionary;
use forebay_gpu::device::{Address, Buffer};
use forebay_gpu::parameters::{Column, Parameters, Predicate as DevicePredicate, TABLE_WORD, TEST_WORDS};
use forebay_gpu::processor::Turn;

/// What lies together on the device begins at a multiple of so many bytes.
pub(super) const ALIGN: usize = 16;

/// Stands for where ids will be. No buffer lies there.
const UNPLACED: Address = Address(u64::MAX);

/// Some blocks of a table, but for addresses that are not known yet.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    rows: Vec<u32>,
    /// Descriptors by block and column.
    columns: Vec<u64>,
    /// Numbers of words of [`Blocks::columns`] that say where ids are, which begin at this number of [`Blocks::ids`].
    words_of_ids: Vec<(usize, usize)>,
    /// Descriptors by block and test.
    tests: Vec<u64>,
    /// Numbers of descriptors of tests whose words begin at this number of [`Blocks::words`].
    tests_of_words: Vec<(usize, usize)>,
    words: Vec<u64>,
    /// Ids of strings.
    ids: Vec<u32>,
    /// Chunks that the kernel reads, whatever becomes of the cache.
    chunks: Vec<Arc<Buffer>>,
}

/// Ids of a block's strings.
#[derive(Debug, Clone, Copy)]
pub(super) enum Ids {
    /// The same in all rows.
    Constant(u32),
    /// From here on among [`Blocks::ids`].
    At(usize),
}

impl Blocks {
    /// Number of blocks.
    pub(super) fn count(&self) -> u64 {
        self.rows.len() as u64
    }

    /// Bytes of the chunks that they lie in.
    pub(super) fn chunk_bytes(&self) -> u64 {
        let mut chunks: Vec<&Arc<Buffer>> = self.chunks.iter().collect();
        chunks.sort_unstable_by_key(|chunk| chunk.address());
        chunks.dedup_by_key(|chunk| chunk.address());
        chunks.into_iter().map(|chunk| chunk.bytes()).sum()
    }

    /// Number of rows.
    pub(super) fn rows(&self) -> u64 {
        self.rows.iter().map(|rows| u64::from(*rows)).sum()
    }

    /// Adds the blocks of another thread.
    pub(super) fn append(&mut self, more: Self) {
        if self.rows.is_empty() {
            *self = more;
            return;
        }
        let (columns, tests) = (self.columns.len(), self.tests.len() / TEST_WORDS);
        let (words, ids) = (self.words.len(), self.ids.len());
        self.rows.extend(more.rows);
        self.columns.extend(more.columns);
        self.words_of_ids.extend(more.words_of_ids.into_iter().map(|(word, at)| (columns + word, ids + at)));
        self.tests.extend(more.tests);
        self.tests_of_words.extend(more.tests_of_words.into_iter().map(|(test, at)| (tests + test, words + at)));
        self.words.extend(more.words);
        self.ids.extend(more.ids);
        self.chunks.extend(more.chunks);
    }

    /// Adds the rows of a block, whose columns and tests come next.
    pub(super) fn block(&mut self, rows: u32) {
        self.rows.push(rows);
    }

    /// Keeps a chunk on the device as long as these blocks are.
    pub(super) fn hold(&mut self, chunk: Arc<Buffer>) {
        self.chunks.push(chunk);
    }

    /// Adds a column's descriptor.
    pub(super) fn column(&mut self, column: &Column, ids: Option<Ids>) {
        let words = match ids {
            None => column.words(),
            Some(Ids::Constant(id)) => column.with_ids(Address(0), id).words(),
            Some(Ids::At(at)) => {
                let words = column.with_ids(UNPLACED, 0).words();
                let unplaced = words.iter().enumerate().filter(|(_, word)| **word == UNPLACED.0);
                self.words_of_ids.extend(unplaced.map(|(number, _)| (self.columns.len() + number, at)));
                words
            }
        };
        self.columns.extend(words);
    }

    /// Adds a test's descriptor.
    pub(super) fn test(&mut self, test: &DevicePredicate) {
        let table = test.table();
        if !table.is_empty() {
            self.tests_of_words.push((self.tests.len() / TEST_WORDS, self.words.len()));
            self.words.extend(table);
        }
        self.tests.extend(test.words(Address(0)));
    }

    /// Brings the descriptors to the device, all in one copy; gives the parameters that begin with them.
    pub(super) fn place(&self, turn: &mut Turn<'_>, tiles: u64, faults: Address) -> Result<Parameters> {
        // One after the other: columns, tests, words of tests, ids, rows. Threads read whole packs of ids.
        let tests_at = (self.columns.len() * 8).next_multiple_of(ALIGN);
        let words_at = (tests_at + self.tests.len() * 8).next_multiple_of(ALIGN);
        let ids_at = (words_at + self.words.len() * 8).next_multiple_of(ALIGN);
        let rows_at = (ids_at + self.ids.len() * 4).next_multiple_of(ALIGN);
        let room = turn.keep((rows_at + self.rows.len() * 4) as u64)?;
        let at = |offset: usize| room.address().offset(offset as u64);
        let mut bytes = Vec::with_capacity(rows_at + self.rows.len() * 4);
        self.columns.iter().for_each(|word| bytes.extend_from_slice(&word.to_le_bytes()));
        bytes.resize(tests_at, 0);
        self.tests.iter().for_each(|word| bytes.extend_from_slice(&word.to_le_bytes()));
        bytes.resize(words_at, 0);
        self.words.iter().for_each(|word| bytes.extend_from_slice(&word.to_le_bytes()));
        bytes.resize(ids_at, 0);
        self.ids.iter().for_each(|id| bytes.extend_from_slice(&id.to_le_bytes()));
        bytes.resize(rows_at, 0);
        self.rows.iter().for_each(|rows| bytes.extend_from_slice(&rows.to_le_bytes()));
        let mut set = |offset: usize, to: Address| bytes[offset..offset + 8].copy_from_slice(&to.0.to_le_bytes());
        for (word, place) in &self.words_of_ids {
            set(word * 8, at(ids_at + place * 4));
        }
        for (test, place) in &self.tests_of_words {
            set(tests_at + (test * TEST_WORDS + TABLE_WORD) * 8, at(words_at + place * 8));
        }
        let parameters = Parameters::new(tiles, at(rows_at), at(0), at(tests_at), faults);
        turn.fill(room, &bytes)?;
        Ok(parameters)
    }

    /// The ids of a block's strings in a dictionary of the query.
    pub(super) fn ids_of(&mut self, block: &EncodedBlock<'_>, dictionary: &Dictionary) -> Result<Ids> {
        match block.access() {
            Access::AllNull => Ok(Ids::Constant(0)),
            Access::Constant(ValueRef::Bytes(value)) => Ok(Ids::Constant(dictionary.intern(value)?)),
            Access::Dictionary { values: Values::Strings(strings), .. }
            | Access::Plain(Values::Strings(strings))
            | Access::RunLength { values: Values::Strings(strings), .. } => {
                let at = self.ids.len();
                self.ids.resize(at + strings.len(), 0);
                dictionary.intern_all((0..strings.len()).map(|number| strings.get(number)), &mut self.ids[at..])?;
                // Threads read as many rows as they could have: the last ones, too.
                self.ids.resize(self.ids.len().next_multiple_of(ALIGN / 4), 0);
                Ok(Ids::At(at))
            }
            Access::Constant(ValueRef::Int(_) | ValueRef::Float32(_) | ValueRef::Float64(_))
            | Access::FrameOfReference { .. }
            | Access::Dictionary { values: Values::Fixed(_), .. }
            | Access::Plain(Values::Fixed(_))
            | Access::RunLength { values: Values::Fixed(_), .. } => Err(Error::internal("a block of strings has none")),
        }
    }
}
