//! Equal rows of a block, found by their codes: one of each is kept, with the number of rows that it stands for (eager
//! aggregation on dictionaries and constants; Data Blocks, Appendix E).
//!
//! Within a block codes differ where values do, so that rows with the same codes in all columns are equal, whatever the
//! encodings. NULL has a code of its own.

use forebay_block::{Access, Codes, EncodedBlock, Values};

use crate::Selection;
use crate::unpack::{CodeSink, fill_validity, with_codes};

/// Combinations of codes at most: they are numbered in two bytes.
const MOST_SLOTS: usize = 1 << 16;

/// A block is folded where each combination of codes has at least so many of its rows on average.
const FEWEST_ROWS_PER_SLOT: usize = 4;

/// The different rows of a block. Its memory is used for one block after the other.
#[derive(Debug, Default)]
pub struct Fold {
    /// Of each selected row: the number of its combination of codes.
    numbers: Vec<u16>,
    validity: Vec<u8>,
    /// By number: rows of this block; 0 between blocks.
    counts: Vec<u32>,
    /// The first row of each combination, ascending.
    rows: Vec<u16>,
    /// As many: the rows that are equal to it, itself among them.
    weights: Vec<u64>,
}

impl Fold {
    /// Whether the selected rows of a block of these columns can be folded and are so many that it pays. Without columns
    /// all rows are equal.
    pub fn pays(columns: &[EncodedBlock<'_>], selection: &Selection) -> bool {
        match slots(columns) {
            None => false,
            Some(1) => !selection.is_empty(),
            Some(slots) => slots * FEWEST_ROWS_PER_SLOT <= selection.len(),
        }
    }

    /// Folds the selected rows of a block of these columns, for which [`Fold::pays`].
    pub fn fold(&mut self, columns: &[EncodedBlock<'_>], selection: &Selection) {
        let slots = slots(columns).expect("the caller asked whether its rows can be folded");
        self.rows.clear();
        self.weights.clear();
        if slots == 1 {
            self.rows.extend(selection.part(0, 1).rows().map(|row| row as u16));
            self.weights.push(selection.len() as u64);
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
    pub fn weights(&self) -> &[u64] {
        &self.weights
    }

    fn number(&mut self, columns: &[EncodedBlock<'_>], selection: &Selection) {
        self.numbers.clear();
        self.numbers.resize(selection.len(), 0);
        for block in columns {
            let slots = slots_of(block).expect("they were counted") as u16;
            match block.access() {
                Access::FrameOfReference { codes, .. } | Access::Dictionary { codes, .. } => {
                    with_codes(codes, &selection.all(), Numbers { slots, numbers: &mut self.numbers });
                }
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
                self.weights.push(u64::from(*number));
            }
            *count += 1;
        }
        for weight in &mut self.weights {
            *weight = u64::from(std::mem::take(&mut self.counts[*weight as usize]));
        }
    }
}

/// Combinations of the codes of columns; `None` where there may be too many.
fn slots(columns: &[EncodedBlock<'_>]) -> Option<usize> {
    columns.iter().try_fold(1usize, |slots, block| Some(slots * slots_of(block)?).filter(|slots| *slots < MOST_SLOTS))
}

/// Codes of a block, one for NULL among them; `None` where that is not known or they are wider than two bytes.
fn slots_of(block: &EncodedBlock<'_>) -> Option<usize> {
    let values = match block.access() {
        Access::AllNull => return Some(1),
        Access::Constant(_) => 1,
        Access::FrameOfReference { codes: Codes::U8(_), .. } => 1 << u8::BITS,
        Access::Dictionary { values, codes: Codes::U8(_) | Codes::U16(_) } => match values {
            Values::Fixed(values) => values.len(),
            Values::Strings(values) => values.len(),
        },
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
