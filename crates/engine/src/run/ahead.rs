//! What the morsels to come need, as far as zones tell, for the reads that are begun before they are taken.
//!
//! Invariant: no answer depends on it: what is left out here is read later, and what is too much is let go.

use std::sync::atomic::Ordering;

use super::{KeyFilter, MorselRows, RankedTest, RowFilter, Scan};
use crate::chunks::Place;
use crate::morsel::Morsel;
use crate::read_ahead::Needs;

impl Scan {
    /// Begins reads for morsels that nobody has taken yet.
    pub(super) fn read_ahead(&self, tests: &[RankedTest], keys: &[KeyFilter], filters: &[Box<dyn RowFilter>]) {
        let most_bytes = self.settings.read_ahead_bytes;
        if most_bytes == 0 {
            return;
        }
        let begin = |place: &Place| {
            let segment = &self.table.segments[place.segment];
            self.engine.begin(segment, place, self.settings.read_path, false).ok()
        };
        let needs = |morsel: usize| self.needs(self.morsels[morsel], tests, keys, filters).unwrap_or_default();
        let next = self.cursor.load(Ordering::Relaxed).min(self.morsels.len());
        self.ahead.run(&self.engine, (next, self.morsels.len()), most_bytes, needs, begin);
    }

    /// Chunks that a morsel needs; `None` where its metadata cannot be read, which whoever takes it will tell.
    fn needs(
        &self,
        morsel: Morsel,
        tests: &[RankedTest],
        keys: &[KeyFilter],
        filters: &[Box<dyn RowFilter>],
    ) -> Option<Needs> {
        let segment = &self.table.segments[morsel.segment];
        let group = &segment.groups().ok()?[morsel.group];
        let mut alive: Vec<bool> = (0..group.block_rows.len()).map(|block| morsel.blocks().contains(&block)).collect();
        let mut tested = Vec::new();
        for ranked in tests {
            let test = &ranked.test;
            let column = &self.table.columns[test.column];
            let Some(index) = segment.column_index(column.id) else {
                if !test.test.passes(column.missing.as_ref()) {
                    return Some(Needs::default());
                }
                continue;
            };
            let mut undecided = false;
            for (alive, zone) in alive.iter_mut().zip(&group.columns[index].zones).filter(|(alive, _)| **alive) {
                *alive = !self.settings.sma || forebay_prune::may_pass(zone, &test.test);
                undecided |= *alive && !(self.settings.sma && forebay_prune::must_pass(zone, &test.test));
            }
            if undecided && ranked.pays() {
                tested.push(test.column);
            }
        }
        let mut loaded = self.loaded_columns(keys, filters);
        if tested.is_empty() {
            // Whatever is asked of rows first is needed for sure, and all of it where nothing is.
            match keys.is_empty() && filters.is_empty() {
                true => tested.append(&mut loaded),
                false => tested.extend(loaded.drain(..loaded.len().min(1))),
            }
        }
        let chunks_of = |column: usize| {
            let index = segment.column_index(self.table.columns[column].id);
            let layout = index.map(|index| (index, &group.columns[index]));
            let alive = &alive;
            layout.into_iter().flat_map(move |(index, layout)| {
                let blocks = alive.chunks(1 << layout.blocks_log2).enumerate();
                let needed = blocks.filter(|(_, blocks)| blocks.contains(&true)).map(|(chunk, _)| chunk);
                needed.map(move |chunk| Place::new(&self.table, column, (morsel.segment, morsel.group), (index, chunk)))
            })
        };
        Some(Needs {
            tested: tested.iter().flat_map(|column| chunks_of(*column)).collect(),
            loaded: loaded.iter().flat_map(|column| chunks_of(*column).map(|place| (*column, place))).collect(),
        })
    }

    /// Columns that are loaded for rows that passed the tests on codes, in the order in which they are asked for.
    fn loaded_columns(&self, keys: &[KeyFilter], filters: &[Box<dyn RowFilter>]) -> Vec<usize> {
        let keys = keys.iter().flat_map(KeyFilter::columns);
        let filters = filters.iter().flat_map(|filter| filter.columns().iter().copied());
        let mut columns: Vec<usize> = Vec::new();
        for column in keys.chain(filters).chain(self.columns.iter().copied()) {
            if !columns.contains(&column) {
                columns.push(column);
            }
        }
        columns
    }
}

impl MorselRows {
    /// Takes note of the columns that this morsel loaded behind its tests.
    pub(super) fn note_loads(&self, tests: &[RankedTest], keys: &[KeyFilter], filters: &[Box<dyn RowFilter>]) {
        let columns = self.scan.loaded_columns(keys, filters).into_iter();
        let loads = columns
            .filter(|column| tests.iter().all(|ranked| ranked.test.column != *column))
            .map(|column| (column, self.chunks[column].iter().any(Option::is_some)));
        self.scan.ahead.note(loads);
    }
}
