//! Rows of segments, one after the other, and which of them others lack that were written in their place.
//!
//! Known are: the rows of a segment in their order, all of them with other values (UPDATE) or fewer of them as they were (DELETE), and
//! rows in the place of no segment (INSERT). Anything else, as what MERGE leaves of a segment of which it changes some rows and deletes
//! others, is not told apart row by row.

use std::sync::Arc;

use forebay_base::Result;
use forebay_store::{Table, TableSnapshot};

use crate::cluster::Sorter;
use crate::cluster::carried::{Carried, Rows};
use crate::query::source::{EqualRows, VectorLoader};
use crate::run::MorselRows;
use crate::{Morsel, Scan};

/// Bytes of the rows that are noted.
const MOST_BYTES: usize = 64 << 20;

/// Of so many rows of the table one may be noted.
const ROWS_PER_NOTED: u64 = 4;

/// Rows that went and rows that came.
pub(super) struct Difference {
    pub(super) gone: Rows,
    pub(super) come: Rows,
    /// So many of either at most.
    most_rows: u64,
}

/// Goes through the rows of a table.
struct Cursor<'c> {
    scan: Arc<Scan>,
    loader: VectorLoader<'c>,
    morsel: Option<MorselRows>,
    rows: Rows,
    /// The row where it is.
    at: usize,
}

impl Difference {
    /// None, in a table with so many rows.
    pub(super) fn new(carried: &Carried, rows: u64) -> Self {
        Self { gone: carried.no_rows(), come: carried.no_rows(), most_rows: rows / ROWS_PER_NOTED + 1 }
    }

    /// Adds the difference between some rows and those that were written in their place. False where it is too much, or not known.
    pub(super) fn add(&mut self, sorter: &Sorter<'_>, carried: &Carried, (old, new): (Table, Table)) -> Result<bool> {
        let (old, new) = (TableSnapshot::from(old), TableSnapshot::from(new));
        let keeps_places = old.rows() == new.rows();
        if old.rows().abs_diff(new.rows()) > self.most_rows {
            return Ok(false);
        }
        let is_added = old.rows() == 0;
        let (mut old, mut new) = (Cursor::new(sorter, carried, old)?, Cursor::new(sorter, carried, new)?);
        while is_added && new.is_there()? {
            self.come.append(&new.rows, &[new.at as u32]);
            new.at += 1;
            if self.is_too_much() {
                return Ok(false);
            }
        }
        while old.is_there()? {
            let most = if new.is_there()? { old.left().min(new.left()) } else { 0 };
            let equal = old.rows.equal_rows(old.at, (&new.rows, new.at), most);
            old.at += equal;
            new.at += equal;
            if equal > 0 {
                continue;
            }
            self.gone.append(&old.rows, &[old.at as u32]);
            old.at += 1;
            if keeps_places {
                self.come.append(&new.rows, &[new.at as u32]);
                new.at += 1;
            }
            if self.is_too_much() {
                return Ok(false);
            }
        }
        Ok(!new.is_there()?)
    }

    fn is_too_much(&self) -> bool {
        let (rows, bytes) = (self.gone.len().max(self.come.len()), self.gone.bytes() + self.come.bytes());
        rows as u64 > self.most_rows || bytes > MOST_BYTES
    }
}

impl<'c> Cursor<'c> {
    fn new(sorter: &Sorter<'_>, carried: &'c Carried, table: TableSnapshot) -> Result<Self> {
        let columns = (0..table.columns.len()).collect();
        let (metrics, cancel) = (Arc::clone(sorter.metrics), sorter.cancel.clone());
        let scan = Arc::new(Scan::new(Arc::clone(sorter.engine), Arc::new(table), columns, metrics, cancel)?);
        let loader = VectorLoader::new(&carried.source, &carried.dictionaries);
        Ok(Self { scan, loader, morsel: None, rows: carried.no_rows(), at: 0 })
    }

    /// Whether there is a row where it is.
    fn is_there(&mut self) -> Result<bool> {
        while self.at == self.rows.len() {
            let Some(morsel) = &self.morsel else {
                let Some(next) = self.scan.next_morsel() else { return Ok(false) };
                self.morsel = Some(self.run(next)?);
                continue;
            };
            self.rows.clear();
            self.at = 0;
            match self.loader.next(morsel, EqualRows::Ignored)? {
                Some(loaded) => self.rows.add(loaded.vectors, None),
                None => self.morsel = None,
            }
        }
        Ok(true)
    }

    /// Rows that are in memory from there on.
    fn left(&self) -> usize {
        self.rows.len() - self.at
    }

    fn run(&self, morsel: Morsel) -> Result<MorselRows> {
        self.scan.run(morsel, &mut [], &mut [])
    }
}
