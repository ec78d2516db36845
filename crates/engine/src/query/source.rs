//! The source of a pipeline: morsels of a table, or rows of a finished state, as vectors.

use std::sync::Arc;

use forebay_base::{Result, Value};
use forebay_cpu::dictionary::Dictionary;
use forebay_cpu::vector::{BlockIds, VECTOR_ROWS, Vector};
use forebay_pipeline::ir::TableSource;
use forebay_store::Table;

use crate::run::{MorselRows, Stored};

/// Loads the columns of a table's rows into vectors that are used over and over. One per worker.
#[derive(Debug)]
pub(super) struct VectorLoader<'a> {
    source: &'a TableSource,
    dictionaries: &'a [Arc<Dictionary>],
    /// Per column: ids of the block that was loaded last.
    ids: Vec<BlockIds>,
    vectors: Vec<Vector>,
    block: usize,
    /// Selected rows of the block that were loaded.
    loaded: usize,
}

/// What is done about blocks with one value in every column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EqualRows {
    /// Nothing.
    Ignored,
    /// It is said of their rows.
    Noticed,
    /// All their rows are given together, and only one is loaded.
    Together,
}

/// Rows that were loaded.
pub(super) struct Loaded<'a> {
    /// The columns.
    pub(super) vectors: &'a [Vector],
    pub(super) rows: usize,
    /// They were noticed to be equal.
    pub(super) equal: bool,
}

impl<'a> VectorLoader<'a> {
    /// A loader of the columns of `source`, whose dictionaries are among `dictionaries`.
    pub(super) fn new(source: &'a TableSource, dictionaries: &'a [Arc<Dictionary>]) -> Self {
        let columns = source.columns.len();
        Self {
            source,
            dictionaries,
            ids: (0..columns).map(|_| BlockIds::default()).collect(),
            vectors: (0..columns).map(|_| Vector::default()).collect(),
            block: 0,
            loaded: 0,
        }
    }

    /// The next surviving rows of a morsel. At its end `None`, and the loader is ready for the next morsel.
    pub(super) fn next(&mut self, rows: &MorselRows, equal_rows: EqualRows) -> Result<Option<Loaded<'_>>> {
        let selections = rows.selections();
        while self.block < selections.len() && self.loaded == selections[self.block].len() {
            self.block += 1;
            self.loaded = 0;
        }
        let Some(selection) = selections.get(self.block) else {
            self.block = 0;
            return Ok(None);
        };
        let left = selection.len() - self.loaded;
        let equal = equal_rows != EqualRows::Ignored && self.is_constant(rows)?;
        let (count, loaded) = match rows.settings().vector_rows.clamp(1, VECTOR_ROWS).min(left) {
            _ if equal && equal_rows == EqualRows::Together => (left, 1),
            count => (count, count),
        };
        let part = selection.part(self.loaded, loaded);
        self.loaded += count;
        for ((column, vector), ids) in self.source.columns.iter().zip(&mut self.vectors).zip(&mut self.ids) {
            let dictionary = column.dictionary.map(|id| self.dictionaries[id.0 as usize].as_ref());
            match rows.stored(column.column, self.block)? {
                Stored::Block(chunk, block) => {
                    vector.load(chunk, block, &part, column, dictionary.map(|dictionary| (dictionary, ids)))?;
                }
                Stored::Missing(value) => vector.load_constant(value, loaded, column, dictionary)?,
            }
        }
        Ok(Some(Loaded { vectors: &self.vectors, rows: count, equal }))
    }

    /// Whether each column has one value in the whole block.
    fn is_constant(&self, rows: &MorselRows) -> Result<bool> {
        for column in &self.source.columns {
            if let Stored::Block(chunk, block) = rows.stored(column.column, self.block)?
                && !chunk.block(block).is_constant()
            {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Least and greatest integer of a column over all its blocks; `None` where it has none or they are not known.
pub fn column_range(table: &Table, column: usize) -> Option<(i128, i128)> {
    let mut range: Option<(i128, i128)> = None;
    let mut widen = |low: i128, high: i128| {
        range = Some(range.map_or((low, high), |(from, to)| (from.min(low), to.max(high))));
    };
    for segment in &table.segments {
        let Some(index) = segment.column_index(table.columns[column].id) else {
            match &table.columns[column].missing {
                Some(Value::Int(value)) => widen(*value, *value),
                Some(_) => return None,
                None => {}
            }
            continue;
        };
        for group in segment.groups().ok()? {
            for zone in &group.columns[index].zones {
                match (&zone.min, &zone.max) {
                    (Some(Value::Int(min)), Some(Value::Int(max))) => widen(*min, *max),
                    _ if zone.null_count == zone.rows => {}
                    _ => return None,
                }
            }
        }
    }
    range
}
