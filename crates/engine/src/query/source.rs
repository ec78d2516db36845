//! The source of a pipeline: morsels of a table, or rows of a finished state, as vectors.

use std::sync::Arc;

use forebay_base::Result;
use forebay_cpu::dictionary::Dictionary;
use forebay_cpu::fold::Fold;
use forebay_cpu::vector::{BlockIds, VECTOR_ROWS, Vector};
use forebay_cpu::{Selected, Selection};
use forebay_pipeline::ir::TableSource;

use crate::run::{MorselRows, Stored};

/// Loads the columns of a table's rows into vectors that are used over and over. One per worker.
#[derive(Debug)]
pub(crate) struct VectorLoader<'a> {
    source: &'a TableSource,
    dictionaries: &'a [Arc<Dictionary>],
    /// Per column: ids of the block that was loaded last.
    ids: Vec<BlockIds>,
    vectors: Vec<Vector>,
    block: usize,
    /// The block's different rows, where it is `folded`.
    fold: Fold,
    folded: bool,
    /// Selected or different rows of the block that were loaded.
    loaded: usize,
    /// Rows of the last call.
    last: usize,
}

/// What is done about blocks that have few different rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EqualRows {
    /// Nothing.
    Ignored,
    /// It is said of their rows.
    Noticed,
    /// Of equal rows of a block one is loaded.
    Folded,
}

/// Rows that were loaded.
pub(crate) struct Loaded<'a> {
    /// The columns.
    pub(crate) vectors: &'a [Vector],
    /// Rows of the vectors.
    pub(crate) rows: usize,
    /// How many rows of the table each stands for, where they are folded.
    pub(super) multiplicities: Option<&'a [u64]>,
    /// Their block was noticed to have few different rows.
    pub(super) equal: bool,
}

impl Loaded<'_> {
    /// Rows of the table.
    pub(super) fn table_rows(&self) -> u64 {
        self.multiplicities.map_or(self.rows as u64, |multiplicities| multiplicities.iter().sum())
    }
}

impl<'a> VectorLoader<'a> {
    /// A loader of the columns of `source`, whose dictionaries are among `dictionaries`.
    pub(crate) fn new(source: &'a TableSource, dictionaries: &'a [Arc<Dictionary>]) -> Self {
        let columns = source.columns.len();
        Self {
            source,
            dictionaries,
            ids: (0..columns).map(|_| BlockIds::default()).collect(),
            vectors: (0..columns).map(|_| Vector::default()).collect(),
            block: 0,
            fold: Fold::default(),
            folded: false,
            loaded: 0,
            last: 0,
        }
    }

    /// The next surviving rows of a morsel. At its end `None`, and the loader is ready for the next morsel.
    pub(crate) fn next(&mut self, rows: &MorselRows, equal_rows: EqualRows) -> Result<Option<Loaded<'_>>> {
        let selections = rows.selections();
        while self.block < selections.len() && self.loaded == self.rows_of(&selections[self.block]) {
            self.block += 1;
            self.loaded = 0;
            self.folded = false;
        }
        let Some(selection) = selections.get(self.block) else {
            self.block = 0;
            return Ok(None);
        };
        let equal = self.folded || (equal_rows != EqualRows::Ignored && self.fold(rows, selection, equal_rows)?);
        let left = self.rows_of(selection) - self.loaded;
        let count = rows.settings().vector_rows.clamp(1, VECTOR_ROWS).min(left);
        let range = self.loaded..self.loaded + count;
        let part = match self.folded {
            true => Selected::Positions(&self.fold.rows()[range.clone()]),
            false => selection.part(self.loaded, count),
        };
        self.loaded += count;
        self.last = count;
        for ((column, vector), ids) in self.source.columns.iter().zip(&mut self.vectors).zip(&mut self.ids) {
            let dictionary = column.dictionary.map(|id| self.dictionaries[id.0 as usize].as_ref());
            match rows.stored(column.column, self.block)? {
                Stored::Block(chunk, block) => {
                    vector.load(chunk, block, &part, column, dictionary.map(|dictionary| (dictionary, ids)))?;
                }
                Stored::Missing(value) => vector.load_constant(value, count, column, dictionary)?,
                Stored::Places(first) => vector.load_places(first, &part),
            }
        }
        let multiplicities = self.folded.then(|| &self.fold.multiplicities()[range]);
        Ok(Some(Loaded { vectors: &self.vectors, rows: count, multiplicities, equal }))
    }

    /// As [`VectorLoader::next`], with the block of the row group that the rows are of.
    pub(crate) fn next_of_block(&mut self, rows: &MorselRows) -> Result<Option<(usize, Loaded<'_>)>> {
        if self.next(rows, EqualRows::Ignored)?.is_none() {
            return Ok(None);
        }
        let loaded = Loaded { vectors: &self.vectors, rows: self.last, multiplicities: None, equal: false };
        Ok(Some((self.block, loaded)))
    }

    /// The block whose last rows were loaded by the last call of [`VectorLoader::next`].
    pub(super) fn finished_block(&self, rows: &MorselRows) -> Option<usize> {
        let selection = rows.selections().get(self.block)?;
        (self.loaded > 0 && self.loaded == self.rows_of(selection)).then_some(self.block)
    }

    /// Rows of the block that are given, of those that are selected.
    fn rows_of(&self, selection: &Selection) -> usize {
        if self.folded { self.fold.rows().len() } else { selection.len() }
    }

    /// Whether the block has few different rows. From its first row on it is folded where that is wanted.
    fn fold(&mut self, rows: &MorselRows, selection: &Selection, equal_rows: EqualRows) -> Result<bool> {
        let mut columns = Vec::with_capacity(self.source.columns.len());
        for column in &self.source.columns {
            match rows.stored(column.column, self.block)? {
                Stored::Block(chunk, block) => columns.push(chunk.block(block)),
                Stored::Missing(_) => {}
                // No two rows are equal.
                Stored::Places(_) => return Ok(false),
            }
        }
        let pays = Fold::pays(&columns, selection);
        if pays && equal_rows == EqualRows::Folded && self.loaded == 0 {
            self.fold.fold(&columns, selection);
            self.folded = true;
        }
        Ok(pays)
    }
}
