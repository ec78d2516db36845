//! Rows as numbers in the order of some columns, their own or those of the rows that they join with: a byte for the bin of each,
//! the first column's in front. What has no partner, and NULL, comes last.

use std::sync::Arc;

use forebay_base::{Error, ErrorKind, Result};
use forebay_cpu::dictionary::Dictionary;
use forebay_cpu::vector::Vector;
use forebay_pipeline::Predicate;
use forebay_pipeline::ir::{SourceColumn, TableSource};
use forebay_prune::bins::{BinSet, Binning, NO_BIN};
use forebay_store::TableSnapshot;

use super::SAMPLED_MORSELS;
use super::build::{Builder, Dimension, RowBins, Wanted};
use super::columns::{ColumnBins, check_key, dictionaries_of, integers_of, source_of};
use super::curve::Places;
use crate::Morsel;
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
    /// What stands for numbers in the order of the columns.
    places: Option<Places>,
}

/// What becomes of keys that rows cannot be ordered by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unordered {
    /// They are an error.
    Refused,
    /// Rows are not ordered by them.
    LeftOut,
}

enum CodePart {
    /// A key that tells no rows apart.
    Nothing,
    Own(Binning),
    /// The first attribute of the partner.
    Partner {
        /// Who has it.
        dimension: Dimension,
        /// Its bin by place of a key: that of one of the partners.
        of_places: Vec<u8>,
    },
}

/// Numbers of some rows, and who found them.
pub(crate) struct Sampled<'c> {
    pub(crate) numbers: Vec<u64>,
    pub(crate) workers: Vec<CodeWorker<'c>>,
}

/// One worker's way to the numbers.
pub(crate) struct CodeWorker<'c> {
    codes: &'c RowCodes,
    bins: Vec<Option<ColumnBins>>,
}

impl RowCodes {
    /// Numbers in the order of these columns of `table`.
    pub(crate) fn new(
        builder: &Builder<'_>,
        table: &Arc<TableSnapshot>,
        keys: &[OrderKey],
        unordered: Unordered,
    ) -> Result<Self> {
        if keys.is_empty() || keys.len() > MOST_KEYS {
            return Err(Error::input(format!("an order has 1 to {MOST_KEYS} columns, not {}", keys.len())));
        }
        let source = source_of(table, &keys.iter().map(OrderKey::own_column).collect::<Vec<_>>())?;
        let samples = builder.samples(table, &source)?;
        let columns: Vec<_> = keys.iter().zip(&source.columns).zip(samples).collect();
        let part = |(key_and_column, sample): &((&OrderKey, &SourceColumn), Option<Binning>)| match CodePart::new(
            builder,
            table,
            *key_and_column,
            sample.clone(),
        ) {
            Err(error) if unordered == Unordered::LeftOut && is_of_key(&error) => Ok(CodePart::Nothing),
            part => part,
        };
        let parts = builder.each(&columns, part)?;
        let dictionaries = dictionaries_of(&source);
        Ok(Self { source, dictionaries, parts, places: None })
    }

    /// The same rows with their places on a curve as numbers.
    pub(crate) fn along(self, places: Option<Places>) -> Self {
        Self { places, ..self }
    }

    /// The numbers of about so many rows from everywhere, or of all where there are fewer; and the workers that found them.
    pub(crate) fn sample(
        &self,
        builder: &Builder<'_>,
        table: &Arc<TableSnapshot>,
        wanted: usize,
    ) -> Result<Sampled<'_>> {
        let scan = builder.scan(table, &self.source)?;
        let morsels: Vec<Morsel> = std::iter::from_fn(|| scan.next_morsel()).collect();
        let (step, rows) = (morsels.len().div_ceil(SAMPLED_MORSELS).max(1), table.rows() as usize);
        let every = (rows / step / wanted.max(1)).max(1);
        let taken: Vec<Morsel> = morsels.into_iter().step_by(step).collect();
        let source = (&scan, &self.source, self.dictionaries.as_slice());
        let begun = || (self.worker(), Vec::new(), 0);
        let of_workers = builder.sampled(source, &taken, begun, |(worker, numbers, first), vectors, rows| {
            let sampled: Vec<usize> = (*first..rows).step_by(every).collect();
            *first = (*first + sampled.len() * every).saturating_sub(rows);
            worker.add(vectors, &sampled, numbers);
        })?;
        let mut all = Sampled { numbers: Vec::new(), workers: Vec::new() };
        for (worker, numbers, _) in of_workers {
            all.numbers.extend(numbers);
            all.workers.push(worker);
        }
        Ok(all)
    }

    /// The numbers of the bins of a column that may have values which pass `test`, as workers that have seen rows know them.
    pub(crate) fn passing(&self, key: usize, test: &Predicate, workers: &[CodeWorker<'_>]) -> BinSet {
        match &self.parts[key] {
            CodePart::Nothing => BinSet::default(),
            CodePart::Partner { dimension, .. } => dimension.attributes[0].bins.passing(test),
            CodePart::Own(sample) => {
                let mut seen = sample.empty();
                let of_workers = workers.iter().filter_map(|worker| worker.bins[key].as_ref());
                of_workers.for_each(|bins| seen.add(&bins.binning));
                seen.passing(test)
            }
        }
    }

    /// Whether rows are ordered by a key at all.
    pub(crate) fn orders_by(&self, key: usize) -> bool {
        !matches!(self.parts[key], CodePart::Nothing)
    }

    /// What one worker needs.
    pub(crate) fn worker(&self) -> CodeWorker<'_> {
        let bins = self.parts.iter().map(|part| match part {
            CodePart::Own(sample) => Some(ColumnBins::new(sample.empty())),
            CodePart::Nothing | CodePart::Partner { .. } => None,
        });
        CodeWorker { codes: self, bins: bins.collect() }
    }
}

/// Whether an error says that a key is none that rows can be ordered by.
fn is_of_key(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Input | ErrorKind::Unsupported)
}

impl CodePart {
    fn new(
        builder: &Builder<'_>,
        table: &Arc<TableSnapshot>,
        (key, column): (&OrderKey, &SourceColumn),
        sample: Option<Binning>,
    ) -> Result<Self> {
        let Some((first, rest)) = key.hops.split_first() else {
            return sample.map(Self::Own).ok_or_else(|| {
                Error::unsupported(format!("values of column {} are too long to order rows by", column.name))
            });
        };
        check_key(column, table)?;
        let wanted = Wanted { hops: rest.to_vec(), columns: vec![key.column] };
        let dimension = builder.dimension(*first, &[wanted])?;
        if dimension.attributes.is_empty() {
            let message = format!("rows behind column {} have several partners further on", column.name);
            return Err(Error::unsupported(message).hint("Order by a column of a nearer table"));
        }
        let RowBins { of_rows, .. } = &dimension.attributes[0];
        let rows = &dimension.rows;
        let bin = |place| rows.rows_at(place).next().map_or(NO_BIN, |row| of_rows[row]);
        let of_places = (0..rows.places()).map(bin).collect();
        Ok(Self::Partner { dimension, of_places })
    }
}

impl CodeWorker<'_> {
    /// Adds the numbers of these rows of `vectors`, which are the columns.
    pub(crate) fn add(&mut self, vectors: &[Vector], rows: &[usize], codes: &mut Vec<u64>) {
        let first = codes.len();
        codes.resize(first + rows.len(), 0);
        let RowCodes { source, dictionaries, parts, places } = self.codes;
        for (index, (part, bins)) in parts.iter().zip(&mut self.bins).enumerate() {
            let (vector, column) = (&vectors[index], &source.columns[index]);
            let codes = &mut codes[first..];
            match (part, bins) {
                (CodePart::Partner { dimension, of_places }, _) => {
                    integers_of(vector, rows.iter().copied(), |index, key| {
                        let place = key.and_then(|key| dimension.rows.place(key));
                        let bin = place.map_or(NO_BIN, |place| of_places[place]);
                        codes[index] = codes[index] << 8 | u64::from(bin);
                    })
                }
                (CodePart::Own(_), Some(bins)) => {
                    for (row, code) in rows.iter().zip(codes) {
                        *code = *code << 8 | u64::from(bins.bin(vector, *row, column, dictionaries));
                    }
                }
                (CodePart::Own(_), None) | (CodePart::Nothing, _) => {
                    codes.iter_mut().for_each(|code| *code = *code << 8 | u64::from(NO_BIN));
                }
            }
        }
        places.iter().for_each(|places| places.replace(&mut codes[first..]));
    }
}
