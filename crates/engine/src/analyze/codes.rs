//! Rows as numbers in the order of some columns, their own or those of the rows that they join with: a byte for the bin of each,
//! the first column's in front. What has no partner, and NULL, comes last.

use std::sync::Arc;

use forebay_base::{Error, Result};
use forebay_cpu::dictionary::Dictionary;
use forebay_cpu::vector::Vector;
use forebay_pipeline::ir::TableSource;
use forebay_prune::bins::{Binning, NO_BIN};
use forebay_store::TableSnapshot;

use super::build::{Builder, Dimension, Wanted};
use super::columns::{ColumnBins, check_key, dictionaries_of, integer, source_of};
use crate::facts::OrderKey;

/// Columns that an order may have: as many as a number has bytes.
pub const MOST_KEYS: usize = size_of::<u64>();

/// How rows of a table become numbers.
pub(crate) struct RowCodes {
    /// The columns that are needed of a row.
    pub(crate) source: TableSource,
    pub(crate) dictionaries: Vec<Arc<Dictionary>>,
    /// One per column of `source`.
    parts: Vec<CodePart>,
}

enum CodePart {
    Own(Binning),
    /// The first attribute of the partner.
    Partner(Dimension),
}

/// One worker's way to the numbers.
pub(crate) struct CodeWorker<'c> {
    codes: &'c RowCodes,
    bins: Vec<Option<ColumnBins>>,
}

impl RowCodes {
    /// Numbers in the order of these columns of `table`.
    pub(crate) fn new(builder: &Builder<'_>, table: &Arc<TableSnapshot>, keys: &[OrderKey]) -> Result<Self> {
        if keys.is_empty() || keys.len() > MOST_KEYS {
            return Err(Error::input(format!("an order has 1 to {MOST_KEYS} columns, not {}", keys.len())));
        }
        let column_of = |key: &OrderKey| key.hops.first().map_or(key.column, |hop| hop.column);
        let source = source_of(table, &keys.iter().map(column_of).collect::<Vec<_>>())?;
        let mut samples = builder.samples(table, &source)?.into_iter();
        let mut parts = Vec::with_capacity(keys.len());
        for (key, column) in keys.iter().zip(&source.columns) {
            let sample = samples.next().flatten();
            parts.push(match key.hops.split_first() {
                None => CodePart::Own(sample.ok_or_else(|| {
                    Error::unsupported(format!("values of column {} are too long to order rows by", column.name))
                })?),
                Some((first, rest)) => {
                    check_key(column, table)?;
                    let wanted = Wanted { hops: rest.to_vec(), columns: vec![key.column] };
                    let dimension = builder.dimension(*first, &[wanted])?;
                    if dimension.attributes.is_empty() {
                        let message = format!("rows behind column {} have several partners further on", column.name);
                        return Err(Error::unsupported(message).hint("Order by a column of a nearer table"));
                    }
                    CodePart::Partner(dimension)
                }
            });
        }
        let dictionaries = dictionaries_of(&source);
        Ok(Self { source, dictionaries, parts })
    }

    /// What one worker needs.
    pub(crate) fn worker(&self) -> CodeWorker<'_> {
        let bins = self.parts.iter().map(|part| match part {
            CodePart::Own(sample) => Some(ColumnBins::new(sample.empty())),
            CodePart::Partner(_) => None,
        });
        CodeWorker { codes: self, bins: bins.collect() }
    }
}

impl CodeWorker<'_> {
    /// Adds the numbers of rows whose columns are in `vectors`.
    pub(crate) fn add(&mut self, vectors: &[Vector], rows: usize, codes: &mut Vec<u64>) {
        let first = codes.len();
        codes.resize(first + rows, 0);
        let RowCodes { source, dictionaries, parts } = self.codes;
        for (index, (part, bins)) in parts.iter().zip(&mut self.bins).enumerate() {
            let (vector, column) = (&vectors[index], &source.columns[index]);
            for (row, code) in codes[first..].iter_mut().enumerate() {
                let bin = match (part, &mut *bins) {
                    (CodePart::Partner(dimension), _) => {
                        let partner = integer(vector, row).and_then(|key| dimension.rows.rows(key).next());
                        partner.map_or(NO_BIN, |partner| dimension.attributes[0].of_rows[partner])
                    }
                    (CodePart::Own(_), Some(bins)) => bins.bin(vector, row, column, dictionaries),
                    (CodePart::Own(_), None) => NO_BIN,
                };
                *code = *code << 8 | u64::from(bin);
            }
        }
    }
}
