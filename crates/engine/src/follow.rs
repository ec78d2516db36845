//! What a copy of a table's rows becomes when some rows of the table go and others come: only segments that have rows which go are written
//! anew, without them; rows that come are segments of their own, in the copy's order.
//!
//! Which rows these are is not asked of the statement that changes them, whose conditions may have other answers a second time: what
//! was written in the place of a segment is compared with it. Rows have no identity. Of equal rows of a copy any may go.
//!
//! Invariant: nothing is published here. Must not know: statements.

mod difference;
mod without;

use std::collections::HashMap;
use std::sync::Arc;

use forebay_base::{Error, Result};
use forebay_store::{Replaced, SealedSegment, TableSnapshot};

use crate::analyze::Unordered;
use crate::cluster::carried::Carried;
use crate::cluster::sorted::{Dictionaries, SortedLoad};
use crate::cluster::{Sorter, TableOrder};
use crate::{LoadTarget, Loader};

use difference::Difference;
use without::{Copy, bounds};

/// Rows of a table that went and came.
pub struct ChangedRows<'t> {
    table: &'t TableSnapshot,
    carried: Carried,
    difference: Difference,
}

/// The rows of a copy that go and come.
struct Net {
    /// By the bytes of a row, its place in `counts`.
    gone: HashMap<Vec<u8>, usize>,
    /// How many rows like that go.
    counts: Vec<u64>,
    /// Among those that came to the table, ascending.
    come: Vec<u32>,
}

impl<'t> ChangedRows<'t> {
    /// What is different when these segments of `table` are replaced; `None` where that is so much, or such a mixture,
    /// that copies are better written anew.
    ///
    /// # Errors
    /// Those of reading.
    pub fn of(sorter: &Sorter<'_>, table: &'t TableSnapshot, replaced: &[Replaced]) -> Result<Option<Self>> {
        let positions: Vec<usize> = (0..table.columns.len()).collect();
        let carried = Carried::new(table, &positions);
        let mut difference = Difference::new(&carried, table.rows());
        for (old, new) in replaced {
            let old = table.with_rows(old.iter().filter_map(|version| table.segments.find_version(*version)).cloned());
            let new = table.with_rows(new.iter().map(|sealed| Arc::clone(sealed.segment())));
            if !difference.add(sorter, &carried, (old, new))? {
                return Ok(None);
            }
        }
        Ok(Some(Self { table, carried, difference }))
    }

    /// What becomes of a copy with the columns at these positions of the table's list; `None` where it does not have the rows that go, as
    /// one that an earlier program wrote with other bits of equal floats.
    ///
    /// # Errors
    /// Those of reading and writing.
    pub fn replaced_in(
        &self,
        sorter: &Sorter<'_>,
        copy: &TableSnapshot,
        positions: &[usize],
        order: &TableOrder,
    ) -> Result<Option<Replaced>> {
        let net = self.net(positions);
        let carried = self.carried.only(positions);
        let (old, mut new) = match net.gone.is_empty() {
            true => Replaced::default(),
            false => {
                let bounds = bounds(self.table, positions, &self.difference.gone);
                let copy = Copy { sorter, table: copy, positions, carried: &carried };
                let Some(replaced) = copy.without(&net.gone, net.counts, &bounds)? else { return Ok(None) };
                replaced
            }
        };
        let come = self.segments_of(sorter, &net.come)?;
        if !come.is_empty() {
            let part = Arc::new(self.table.with_rows(come.iter().map(|sealed| Arc::clone(sealed.segment()))).into());
            new.extend(sorter.sort(&part, order, positions, Unordered::LeftOut)?);
        }
        Ok(Some((old, new)))
    }

    /// The rows that go and come when only these columns are looked at.
    fn net(&self, positions: &[usize]) -> Net {
        let Difference { gone, come, .. } = &self.difference;
        let mut net = Net { gone: HashMap::new(), counts: Vec::new(), come: Vec::new() };
        let mut key = Vec::new();
        for row in 0..gone.len() {
            key.clear();
            gone.append_key(positions, row, &mut key);
            match net.gone.get(&key) {
                Some(place) => net.counts[*place] += 1,
                None => {
                    net.gone.insert(key.clone(), net.counts.len());
                    net.counts.push(1);
                }
            }
        }
        for row in 0..come.len() {
            key.clear();
            come.append_key(positions, row, &mut key);
            // A row that goes and comes stays.
            match net.gone.get(&key) {
                Some(place) if net.counts[*place] > 0 => net.counts[*place] -= 1,
                _ => net.come.push(row as u32),
            }
        }
        net.gone.retain(|_, place| net.counts[*place] > 0);
        net
    }

    /// Segments with these of the rows that came, with all columns of the table.
    fn segments_of(&self, sorter: &Sorter<'_>, rows: &[u32]) -> Result<Vec<SealedSegment>> {
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        let positions: Vec<usize> = (0..self.table.columns.len()).collect();
        let target = LoadTarget::of_columns(sorter.engine.store(), self.table, &positions, sorter.options)?;
        let dictionaries = Dictionaries::of(&self.carried);
        let mut load = SortedLoad::new(Loader::new(Arc::clone(&target), 0), &self.carried, &dictionaries);
        load.add_rows(&self.difference.come, rows)?;
        load.finish()?;
        match Arc::into_inner(target) {
            Some(target) => target.finish(),
            None => Err(Error::internal("a loader is left over")),
        }
    }
}
