//! Equal rows of a block, found by their codes: one of each is kept, with the number of rows that it stands for (eager
//! aggregation on dictionaries and constants; Data Blocks, Appendix E).
//!
//! Within a block codes differ where values do, so that rows with the same codes in all columns are equal, whatever the
//! encodings. NULL has a code of its own. Where all columns are runs or constants, rows are equal as long as no run ends: then
//! one row is kept for each such stretch, found by the ends of runs alone, and no other row is looked at.

use std::ops::Range;

use forebay_block::{Access, Codes, EncodedBlock, RunEnds, Values, validity};

use crate::Selection;
use crate::selection::count_below;
use crate::simd::WORD_ROWS;
use crate::unpack::{CodeSink, Entries, fill_validity};

/// Combinations of codes at most: they are numbered in two bytes.
const MOST_SLOTS: usize = 1 << 16;

/// A block is folded where each combination of codes has at least so many of its rows on average.
const FEWEST_ROWS_PER_SLOT: usize = 4;

/// The different rows of a block; of runs each may be there several times. Its memory is used for one block after the other.
#[derive(Debug, Default)]
pub struct Fold {
    /// Of each selected row: the number of its combination of codes.
    numbers: Vec<u16>,
    validity: Vec<u8>,
    /// By number: rows of this block; 0 between blocks.
    counts: Vec<u32>,
    /// Where runs begin, in all columns.
    starts: Vec<u32>,
    /// The first row of each combination or stretch of equal rows, ascending.
    rows: Vec<u16>,
    /// As many: the rows that are equal to it, itself among them.
    multiplicities: Vec<u64>,
}

impl Fold {
    /// Whether the selected rows of a block of these columns can be folded and are so many that it pays. Without columns
    /// all rows are equal.
    pub fn pays(columns: &[EncodedBlock<'_>], selection: &Selection) -> bool {
        if let Some(stretches) = most_stretches(columns, selection) {
            return stretches * FEWEST_ROWS_PER_SLOT <= selection.len();
        }
        match slots(columns) {
            None => false,
            Some(1) => !selection.is_empty(),
            Some(slots) => slots * FEWEST_ROWS_PER_SLOT <= selection.len(),
        }
    }

    /// Folds the selected rows of a block of these columns, for which [`Fold::pays`].
    pub fn fold(&mut self, columns: &[EncodedBlock<'_>], selection: &Selection) {
        self.rows.clear();
        self.multiplicities.clear();
        if most_stretches(columns, selection).is_some() {
            return self.fold_runs(columns, selection);
        }
        let slots = slots(columns).expect("the caller asked whether its rows can be folded");
        if slots == 1 {
            self.rows.extend(selection.part(0, 1).rows().map(|row| row as u16));
            self.multiplicities.push(selection.len() as u64);
            return;
        }
        self.number(columns, selection);
        if self.counts.len() < slots {
            self.counts.resize(slots, 0);
        }
        match selection {
            Selection::Rows(rows) => self.count(rows.clone().map(|row| row as u16)),
            Selection::Positions(positions) => self.count(positions.iter().copied()),
        }
    }

    /// A row of each kind, ascending.
    pub fn rows(&self) -> &[u16] {
        &self.rows
    }

    /// How many rows each of them stands for.
    pub fn multiplicities(&self) -> &[u64] {
        &self.multiplicities
    }

    /// Keeps the first selected row between the beginnings of runs, in whichever column they are.
    fn fold_runs(&mut self, columns: &[EncodedBlock<'_>], selection: &Selection) {
        self.starts.clear();
        let hull = hull(selection);
        for block in columns {
            if let Access::RunLength { ends, .. } = block.access() {
                let last_rows = &ends.last_rows()[touched(ends, &hull)];
                self.starts.extend(last_rows.iter().map(|last| u32::from(*last) + 1));
            }
            if let Some(bitmap) = block.validity() {
                for_each_change(bitmap, &hull, |row| self.starts.push(row));
            }
        }
        // Ascending pieces, which this sort merges. The last stretch ends with the selection.
        self.starts.sort();
        self.starts.retain(|start| *start < hull.end);
        self.starts.push(hull.end);
        let mut from = 0;
        for end in self.starts.iter().copied() {
            let (row, count) = match selection {
                Selection::Rows(rows) => (rows.start + from as u32, (end - rows.start) as usize - from),
                Selection::Positions(positions) => {
                    let rest = &positions[from..];
                    (rest.first().map_or(0, |row| u32::from(*row)), count_below(rest, end))
                }
            };
            if count > 0 {
                self.rows.push(row as u16);
                self.multiplicities.push(count as u64);
                from += count;
            }
        }
    }

    fn number(&mut self, columns: &[EncodedBlock<'_>], selection: &Selection) {
        self.numbers.clear();
        self.numbers.resize(selection.len(), 0);
        for block in columns {
            let slots = slots_of(block).expect("they were counted") as u16;
            let numbers = Numbers { slots, numbers: &mut self.numbers };
            match block.access() {
                Access::FrameOfReference { codes, .. } | Access::Dictionary { codes, .. } => {
                    Entries::Codes(codes).take(&selection.all(), numbers);
                }
                Access::RunLength { ends, .. } => Entries::Runs(ends).take(&selection.all(), numbers),
                Access::Constant(_) if block.null_count() > 0 => {
                    self.numbers.iter_mut().for_each(|number| *number = number.wrapping_mul(slots));
                }
                Access::Constant(_) | Access::AllNull | Access::Plain(_) => continue,
            }
            self.validity.resize(selection.len(), 0);
            if fill_validity(block, &selection.all(), &mut self.validity) {
                for (number, valid) in self.numbers.iter_mut().zip(&self.validity) {
                    if *valid == 0 {
                        *number = *number / slots * slots + (slots - 1);
                    }
                }
            }
        }
    }

    fn count(&mut self, rows: impl Iterator<Item = u16>) {
        for (row, number) in rows.zip(&self.numbers) {
            let count = &mut self.counts[usize::from(*number)];
            if *count == 0 {
                self.rows.push(row);
                // Its number, until all are counted.
                self.multiplicities.push(u64::from(*number));
            }
            *count += 1;
        }
        for multiplicity in &mut self.multiplicities {
            *multiplicity = u64::from(std::mem::take(&mut self.counts[*multiplicity as usize]));
        }
    }
}

/// From the first to the last selected row.
fn hull(selection: &Selection) -> Range<u32> {
    match selection {
        Selection::Rows(rows) => rows.clone(),
        Selection::Positions(positions) => match (positions.first(), positions.last()) {
            (Some(first), Some(last)) => u32::from(*first)..u32::from(*last) + 1,
            _ => 0..0,
        },
    }
}

/// The runs that have some of these rows.
fn touched(ends: RunEnds<'_>, rows: &Range<u32>) -> Range<usize> {
    match rows.is_empty() {
        true => 0..0,
        false => ends.run_of(rows.start as usize)..ends.run_of(rows.end as usize - 1) + 1,
    }
}

/// Stretches of equal selected rows at most, where all columns are runs or constants and some are runs. No column is looked
/// at row by row, validity 64 rows at a time.
fn most_stretches(columns: &[EncodedBlock<'_>], selection: &Selection) -> Option<usize> {
    let hull = hull(selection);
    let (mut stretches, mut has_runs) = (1, false);
    for block in columns {
        match block.access() {
            Access::RunLength { ends, .. } => {
                stretches += touched(ends, &hull).len();
                has_runs = true;
            }
            Access::AllNull | Access::Constant(_) => {}
            Access::FrameOfReference { .. } | Access::Dictionary { .. } | Access::Plain(_) => return None,
        }
    }
    if !has_runs {
        return None;
    }
    for bitmap in columns.iter().filter_map(EncodedBlock::validity) {
        for_each_change(bitmap, &hull, |_| stretches += 1);
    }
    Some(stretches)
}

/// Calls `visit` with the rows of a range that are valid where the row before is not, or the other way round, ascending.
fn for_each_change(bitmap: &[u8], rows: &Range<u32>, mut visit: impl FnMut(u32)) {
    for row in rows.clone().skip(1).step_by(WORD_ROWS) {
        let count = (rows.end - row).min(WORD_ROWS as u32);
        let mut changes = validity::word(bitmap, row as usize) ^ validity::word(bitmap, row as usize - 1);
        changes &= u64::MAX >> (WORD_ROWS as u32 - count);
        while changes != 0 {
            visit(row + changes.trailing_zeros());
            changes &= changes - 1;
        }
    }
}

/// Combinations of the codes of columns; `None` where there may be too many.
fn slots(columns: &[EncodedBlock<'_>]) -> Option<usize> {
    columns.iter().try_fold(1usize, |slots, block| Some(slots * slots_of(block)?).filter(|slots| *slots < MOST_SLOTS))
}

/// Codes or runs of a block, one for NULL among them; `None` where that is not known or they are wider than two bytes.
fn slots_of(block: &EncodedBlock<'_>) -> Option<usize> {
    let values = match block.access() {
        Access::AllNull => return Some(1),
        Access::Constant(_) => 1,
        Access::FrameOfReference { codes: Codes::U8(_), .. } => 1 << u8::BITS,
        Access::Dictionary { values, codes: Codes::U8(_) | Codes::U16(_) } => match values {
            Values::Fixed(values) => values.len(),
            Values::Strings(values) => values.len(),
        },
        Access::RunLength { ends, .. } => ends.len(),
        Access::FrameOfReference { .. } | Access::Dictionary { .. } | Access::Plain(_) => return None,
    };
    Some(values + usize::from(block.null_count() > 0))
}

/// Appends a digit to the number of each row.
struct Numbers<'a> {
    slots: u16,
    numbers: &'a mut [u16],
}

impl CodeSink for Numbers<'_> {
    #[inline]
    fn take<C: Copy + Into<u64>>(&mut self, codes: impl ExactSizeIterator<Item = C>) {
        let slots = self.slots;
        let (now, rest) = std::mem::take(&mut self.numbers).split_at_mut(codes.len());
        for (number, code) in now.iter_mut().zip(codes) {
            *number = number.wrapping_mul(slots).wrapping_add(code.into() as u16);
        }
        self.numbers = rest;
    }
}
