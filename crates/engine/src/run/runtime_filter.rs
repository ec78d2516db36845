//! Keys of a build side that no test on codes can look for, asked for in the scan: a Bloom filter rules rows out before the
//! columns are loaded that the query reads besides the key.
//!
//! Invariants: no row is left out whose key the build side has; whoever gave a filter looks every row up again.

use std::sync::Arc;

use forebay_base::Result;
use forebay_cpu::bloom::{BloomFilter, BloomScratch};
use forebay_cpu::vector::{VECTOR_ROWS, Vector};
use forebay_cpu::{Selected, Selection};
use forebay_pipeline::ir::SourceColumn;

use super::ranked::TRIAL_ROWS;
use super::{MorselRows, Stored};

/// A filter that lets more than this share of rows pass costs more than it saves.
const PAYING_SHARE: f64 = 0.4;

/// A Bloom filter over some columns, with what it has been seen to do. Each worker has its own.
#[derive(Debug)]
pub struct RuntimeFilter {
    columns: Vec<SourceColumn>,
    keys: Arc<BloomFilter>,
    rows_in: u64,
    rows_out: u64,
    vectors: Vec<Vector>,
    scratch: BloomScratch,
}

impl Clone for RuntimeFilter {
    fn clone(&self) -> Self {
        Self::new(self.columns.clone(), Arc::clone(&self.keys))
    }
}

impl RuntimeFilter {
    /// A filter of rows whose values of these columns, integers and strings without dictionaries, are among `keys`.
    pub fn new(columns: Vec<SourceColumn>, keys: Arc<BloomFilter>) -> Self {
        let vectors = columns.iter().map(|_| Vector::default()).collect();
        Self { columns, keys, rows_in: 0, rows_out: 0, vectors, scratch: BloomScratch::default() }
    }

    /// Positions of its columns in the table's list.
    pub fn columns(&self) -> impl Iterator<Item = usize> + '_ {
        self.columns.iter().map(|column| column.column)
    }

    /// Rows that came to it, and those of them that passed.
    pub fn rows(&self) -> (u64, u64) {
        (self.rows_in, self.rows_out)
    }

    pub(super) fn pays(&self) -> bool {
        self.rows_in < TRIAL_ROWS || (self.rows_out as f64) < PAYING_SHARE * self.rows_in as f64
    }
}

impl MorselRows {
    /// Keeps the rows of one block that pass `filter`, whose columns are loaded.
    pub(super) fn filter_keys(&mut self, block: usize, filter: &mut RuntimeFilter) -> Result<()> {
        if self.selections[block].is_empty() || !filter.pays() {
            return Ok(());
        }
        self.scan.cancel.check()?;
        let columns: Vec<usize> = filter.columns().collect();
        self.scan.metrics.code_bytes.add(self.row_bytes(block, &columns));
        let selection = &self.selections[block];
        let (mut kept, mut found) = (Vec::new(), Vec::with_capacity(VECTOR_ROWS));
        for from in (0..selection.len()).step_by(VECTOR_ROWS) {
            let count = VECTOR_ROWS.min(selection.len() - from);
            let part = selection.part(from, count);
            for (column, vector) in filter.columns.iter().zip(&mut filter.vectors) {
                match self.stored(column.column, block)? {
                    Stored::Block(chunk, block) => vector.load(chunk, block, &part, column, None)?,
                    Stored::Missing(value) => vector.load_constant(value, count, column, None)?,
                    Stored::Places(first) => vector.load_places(first, &part),
                }
            }
            found.clear();
            let simd = self.scan.settings.simd;
            filter.keys.select(&filter.vectors, count, simd, &mut filter.scratch, &mut found);
            match &part {
                Selected::Rows(rows) => kept.extend(found.iter().map(|row| *row + rows.start as u16)),
                Selected::Positions(rows) => kept.extend(found.iter().map(|row| rows[usize::from(*row)])),
            }
        }
        filter.rows_in += selection.len() as u64;
        filter.rows_out += kept.len() as u64;
        if kept.len() < selection.len() {
            self.selections[block] = Selection::Positions(kept);
        }
        Ok(())
    }
}
