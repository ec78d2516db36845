//! What the morsels to come need, as far as zones tell, for the reads that are begun before they are taken.
//!
//! Invariant: no answer depends on it: what is left out here is read later, and what is too much is let go.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use forebay_block::BlockSet;

use super::{AdaptivePredicate, MorselRows, RowFilter, RuntimeFilter, Scan};
use crate::chunks::{Arrival, Place};
use crate::memory::Urgency;
use crate::morsel::Morsel;
use crate::read_ahead::{MORSELS_AHEAD, Needs, ReadAhead};

/// Of a scan that runs range by range, one part in so many is read before it runs.
const RANGES_FORESEEN: usize = 8;

/// What a scan is known to need before the pipelines in front of it have run.
#[derive(Debug, Default)]
pub struct Foreseen {
    /// Tests that do not depend on them.
    pub tests: Vec<AdaptivePredicate>,
    /// Without tests that zones leave undecided: columns of the table that are needed of every row.
    pub columns: Vec<usize>,
    /// Columns of which nearly every chunk is likely to be needed for some row, whatever is tested before.
    pub likely: Vec<usize>,
    /// Columns that a scan in front of this one reads: their chunks will be in memory.
    pub read_before: Vec<usize>,
}

/// Reads of a scan in front of its workers.
#[derive(Debug, Default)]
pub(super) struct Reads {
    /// For morsels to come.
    pub(super) ahead: ReadAhead,
    foreseen: Foreseen,
    /// The scan of the pipeline that runs behind this one's.
    next: Option<Arc<Scan>>,
    /// Columns of the table that a later scan of the same query reads again.
    again: Vec<usize>,
}

impl Reads {
    /// The columns that the scan is known to need.
    pub(super) fn foreseen_columns(&self) -> impl Iterator<Item = usize> {
        let Foreseen { tests, columns, likely, .. } = &self.foreseen;
        tests.iter().map(|ranked| ranked.test.column).chain(columns.iter().chain(likely).copied())
    }
}

impl Scan {
    /// The same scan, which is known to need `foreseen` whatever comes before it, and behind which `next` will run.
    #[must_use]
    pub fn before(self, foreseen: Foreseen, next: Option<Arc<Self>>) -> Self {
        let reads = Reads { foreseen, next, ..self.reads };
        Self { reads, ..self }
    }

    /// The same scan, of a query that reads these columns of the table again later: their chunks are kept, as far as there is
    /// room, so that nothing is read twice.
    #[must_use]
    pub fn reading_again(self, columns: Vec<usize>) -> Self {
        let reads = Reads { again: columns, ..self.reads };
        Self { reads, ..self }
    }

    /// Bytes that the cache may hold while chunks of this column are kept at their first read.
    pub(super) fn kept_at_once_bytes(&self, column: usize) -> usize {
        self.engine.kept_at_once_bytes(&self.table, self.reads.again.contains(&column))
    }

    /// Begins reads for this scan before it runs, and then for those behind it: as long as less than `most_arriving_bytes`
    /// are on their way together, and as far as there is memory for what arrives before it is needed.
    pub fn begin(&self, most_arriving_bytes: usize) {
        let mut most_arriving_bytes = most_arriving_bytes;
        let mut most_bytes = self.engine.memory().foreseen_bytes(self.settings.read_ahead_bytes);
        let mut scan = Some(self);
        while let Some(current) = scan {
            let Foreseen { tests, columns, likely, read_before } = &current.reads.foreseen;
            let needs = |morsel: usize| {
                let loaded = columns.iter().chain(likely).copied().collect();
                let Needs { tested, loaded } =
                    current.needs(current.morsels[morsel], tests, loaded, columns.len()).unwrap_or_default();
                let likely = loaded.into_iter().filter(|(column, _)| likely.contains(column)).map(|(_, place)| place);
                let is_read_before = |place: &Place| {
                    read_before.iter().any(|column| current.table.columns[*column].id == place.key.column)
                };
                tested.into_iter().chain(likely).filter(|place| !is_read_before(place)).collect::<Vec<_>>()
            };
            let begun = |place: &Place| current.begin_read(place);
            let most = (most_bytes, most_arriving_bytes, MORSELS_AHEAD * current.drives);
            // Range by range all scans of a section are read: what lies far behind in one of them would keep off the others.
            let count = match current.is_ranged {
                false => current.morsels.len(),
                true => current.morsels.len().div_ceil(RANGES_FORESEEN),
            };
            let foreseen = current.reads.ahead.foresee(&current.engine, count, most, needs, begun);
            most_bytes = most_bytes.saturating_sub(foreseen.bytes);
            most_arriving_bytes = most_arriving_bytes.saturating_sub(foreseen.arriving_bytes);
            let goes_on = foreseen.are_all && most_bytes > 0 && most_arriving_bytes > 0;
            scan = current.reads.next.as_deref().filter(|_| goes_on);
        }
    }

    /// Begins reads for morsels that nobody has taken yet; once there are no more, or the drive has nothing to do because the
    /// workers are slower, for the scan behind this one.
    pub(super) fn read_ahead(
        &self,
        tests: &[AdaptivePredicate],
        keys: &[RuntimeFilter],
        filters: &[Box<dyn RowFilter>],
    ) {
        let per_drive = self.settings.read_ahead_bytes;
        if per_drive == 0 || self.is_ranged {
            return;
        }
        // Every drive has its share.
        let most_bytes = self.engine.memory().ahead_bytes(per_drive.saturating_mul(self.drives));
        let needs = |morsel: usize| {
            let loaded = self.loaded_columns(keys, filters);
            // Whatever is asked of rows first is needed for sure, and all of it where nothing is.
            let sure = if keys.is_empty() && filters.is_empty() { loaded.len() } else { 1 };
            self.morsel_taken(morsel).and_then(|morsel| self.needs(morsel, tests, loaded, sure)).unwrap_or_default()
        };
        let next = self.cursor.load(Ordering::Relaxed).min(self.morsels.len());
        let begin = |place: &Place| self.begin_read(place);
        let most = (most_bytes, MORSELS_AHEAD * self.drives);
        // Asked before this morsel's place in the window is filled: else there would always be something on its way.
        let is_drive_idle = self.reads.next.is_some() && self.reads.ahead.has_arrived();
        let has_all = self.reads.ahead.run(&self.engine, (next, self.morsels.len()), most, needs, begin);
        if let Some(scan) = &self.reads.next
            && (has_all || is_drive_idle)
        {
            scan.begin((most_bytes / 2).saturating_sub(self.reads.ahead.arriving_bytes()));
        }
    }

    /// Begins reads for the morsels with these numbers, which come next: what is known to be needed of them, what is likely to
    /// be, and what recent morsels needed; as long as fewer than `most_bytes` wait to be taken. Gives whether all were begun.
    pub(crate) fn read_ahead_of(&self, morsels: Range<usize>, most_bytes: usize) -> bool {
        let Foreseen { tests, columns, likely, read_before } = &self.reads.foreseen;
        let is_read_before =
            |place: &Place| read_before.iter().any(|column| self.table.columns[*column].id == place.key.column);
        let needs = |morsel: usize| {
            let mut loaded: Vec<usize> = columns.clone();
            loaded.extend(likely.iter().chain(&self.columns).filter(|column| !columns.contains(column)));
            let Needs { mut tested, loaded } =
                self.needs(self.morsels[morsel], tests, loaded, columns.len()).unwrap_or_default();
            let (sure, loaded): (Vec<_>, Vec<_>) = loaded.into_iter().partition(|(column, _)| likely.contains(column));
            tested.extend(sure.into_iter().map(|(_, place)| place));
            tested.retain(|place| !is_read_before(place));
            Needs { tested, loaded: loaded.into_iter().filter(|(_, place)| !is_read_before(place)).collect() }
        };
        let count = morsels.len();
        self.reads
            .ahead
            .run(&self.engine, (morsels.start, morsels.end), (most_bytes, count), needs, |place| self.begin_read(place))
    }

    /// Begins reads for the scans behind this one, which has begun all of its own, as long as fewer bytes are on their way.
    pub(crate) fn begin_behind(&self, most_arriving_bytes: usize) {
        self.reads.next.iter().for_each(|scan| scan.begin(most_arriving_bytes));
    }

    /// Bytes of stored chunks that wait to be taken.
    pub(crate) fn waiting_bytes(&self) -> usize {
        self.reads.ahead.waiting_bytes()
    }

    /// The bytes that may be on their way for this scan.
    pub(crate) fn most_ahead_bytes(&self) -> usize {
        self.engine.memory().ahead_bytes(self.settings.read_ahead_bytes.saturating_mul(self.drives))
    }

    fn begin_read(&self, place: &Place) -> Option<Arc<Arrival>> {
        let segment = &self.table.segments[place.segment];
        let is_timed = self.timeline.is_some();
        self.engine.begin_for_all(segment, place, &self.settings, Urgency::Ahead, is_timed).ok()
    }

    /// Chunks that a morsel needs: those of `tests`, or, where zones decide these, of the first `sure` columns of `loaded`;
    /// and perhaps those of the others. Of each the blocks that zones leave, also to the other morsels of its row group.
    /// `None` where its metadata cannot be read, which whoever takes it will tell.
    fn needs(&self, morsel: Morsel, tests: &[AdaptivePredicate], mut loaded: Vec<usize>, sure: usize) -> Option<Needs> {
        let segment = &self.table.segments[morsel.segment];
        let group = &segment.groups().ok()?[morsel.group];
        let (mut alive, mine) = (BlockSet::first(group.block_rows.len()), morsel.blocks());
        let first = self.layout.of_group((morsel.segment, morsel.group)).start;
        alive.retain(|block| !self.is_ruled_out(first + block));
        let mut tested = Vec::new();
        for ranked in tests {
            let test = &ranked.test;
            let decided = self.zone_decisions.find(test, ranked.decided);
            if let Some(passed) = self.zone_decisions.passed_by(decided) {
                let is_undecided = |block: usize| alive.contains(block) && !passed.contains(first + block);
                if ranked.pays() && mine.clone().any(is_undecided) {
                    tested.push(test.column);
                }
                continue;
            }
            let column = &self.table.columns[test.column];
            let Some(index) = segment.column_index(column.id) else {
                if !test.test.passes(column.missing.as_ref()) {
                    return Some(Needs::default());
                }
                continue;
            };
            let (sma, zones) = (self.settings.sma, &group.columns[index].zones);
            if sma {
                alive.retain(|block| forebay_prune::may_pass(&zones[block], &test.test));
            }
            let is_undecided =
                |block: usize| alive.contains(block) && !(sma && forebay_prune::must_pass(&zones[block], &test.test));
            if ranked.pays() && mine.clone().any(is_undecided) {
                tested.push(test.column);
            }
        }
        if tested.is_empty() {
            tested.extend(loaded.drain(..loaded.len().min(sure)));
        }
        let chunks_of = |column: usize| {
            let index = segment.column_index(self.table.columns[column].id);
            let layout = index.map(|index| (index, &group.columns[index]));
            let (alive, mine) = (&alive, &mine);
            layout.into_iter().flat_map(move |(index, layout)| {
                let chunks = 0..layout.chunks.len();
                chunks.filter_map(move |chunk| {
                    let range = layout.blocks_of(chunk);
                    let needed = range.clone().any(|block| mine.contains(&block) && alive.contains(block));
                    let blocks = match self.whole_chunks {
                        true => BlockSet::first(range.len()),
                        false => BlockSet::of_range(range, |block| alive.contains(block)),
                    };
                    let group = (morsel.segment, morsel.group);
                    needed.then(|| Place::new(&self.table, column, group, (index, chunk), blocks))
                })
            })
        };
        Some(Needs {
            tested: tested.iter().flat_map(|column| chunks_of(*column)).collect(),
            loaded: loaded.iter().flat_map(|column| chunks_of(*column).map(|place| (*column, place))).collect(),
        })
    }

    /// Columns that are loaded for rows that passed the tests on codes, in the order in which they are asked for.
    fn loaded_columns(&self, keys: &[RuntimeFilter], filters: &[Box<dyn RowFilter>]) -> Vec<usize> {
        let keys = keys.iter().flat_map(RuntimeFilter::columns);
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
    pub(super) fn note_loads(
        &self,
        tests: &[AdaptivePredicate],
        keys: &[RuntimeFilter],
        filters: &[Box<dyn RowFilter>],
    ) {
        let columns = self.scan.loaded_columns(keys, filters).into_iter();
        let loads = columns
            .filter(|column| tests.iter().all(|ranked| ranked.test.column != *column))
            .map(|column| (column, self.chunks[column].iter().any(Option::is_some)));
        self.scan.reads.ahead.note(loads);
    }
}
