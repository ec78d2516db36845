//! The rows of a block that passed the tests so far (Data Blocks §4.2: find initial matches, reduce matches).
//!
//! Many matches are kept as bits, which the next test thins out 64 rows at a time; few are kept as positions, which it
//! looks at one by one. Which of the two is cheaper depends on the test and on how many are left.

use std::ops::Range;

use crate::Selection;
use crate::simd::{self, Flavour, WORD_ROWS};

/// A test on the rows of a block.
pub(crate) trait RowTest {
    /// Bit `i` says whether row `row + i` passes, for `count` rows, at most [`WORD_ROWS`]. Higher bits may be anything.
    fn mask(&self, row: usize, count: usize) -> u64;

    /// Whether one row passes.
    fn passes(&self, row: usize) -> bool;

    /// Takes away those bits of `masks` whose rows do not pass, among the first `rows` rows.
    fn thin(&self, _flavour: Flavour, rows: usize, masks: &mut [u64]) {
        thin_by_words(self, rows, masks);
    }

    /// What [`RowTest::thin`] costs for each row, where [`RowTest::passes`] costs 1.
    fn thinning_cost(&self, _flavour: Flavour) -> f64 {
        1.0
    }
}

/// [`RowTest::thin`] by way of [`RowTest::mask`]; words of zeros are not looked at.
pub(crate) fn thin_by_words(test: &(impl RowTest + ?Sized), rows: usize, masks: &mut [u64]) {
    for (word, mask) in masks.iter_mut().enumerate().filter(|(_, mask)| **mask != 0) {
        let row = word * WORD_ROWS;
        *mask &= test.mask(row, WORD_ROWS.min(rows - row));
    }
}

/// Rows of one block while they are tested.
#[derive(Debug, Clone, PartialEq)]
pub struct Matches {
    /// Rows of the block.
    rows: usize,
    /// What the tests run on.
    flavour: Flavour,
    form: Form,
    /// Rows that tests have looked at, every test for itself.
    looked_at: usize,
}

#[derive(Debug, Clone, PartialEq)]
enum Form {
    Range(Range<u32>),
    /// Bit `i % 64` of word `i / 64` is row `i`; bits behind the last row are 0.
    Bits {
        words: Vec<u64>,
        count: usize,
    },
    Positions(Vec<u16>),
}

impl Matches {
    /// Begins with `selection` of a block of `rows` rows, which tests will thin out by these instructions.
    pub fn new(selection: Selection, rows: usize, flavour: Flavour) -> Self {
        let form = match selection {
            Selection::Rows(rows) => Form::Range(rows),
            Selection::Positions(positions) => Form::Positions(positions),
        };
        Self { rows, flavour, form, looked_at: 0 }
    }

    /// The vector instructions that tests use.
    pub(crate) fn flavour(&self) -> Flavour {
        self.flavour
    }

    /// Number of rows that are left.
    pub fn len(&self) -> usize {
        match &self.form {
            Form::Range(rows) => rows.len(),
            Form::Bits { count, .. } => *count,
            Form::Positions(positions) => positions.len(),
        }
    }

    /// True where no row is left.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Rows whose codes or values tests have looked at so far, every test for itself. Of rows in bits those of one word
    /// are looked at together.
    pub fn looked_at(&self) -> usize {
        self.looked_at
    }

    /// Lets no row pass.
    pub fn clear(&mut self) {
        self.form = Form::Range(0..0);
    }

    /// The rows that are left: a range where they are adjacent.
    pub fn finish(self) -> Selection {
        let (words, count) = match self.form {
            Form::Range(rows) => return Selection::Rows(rows),
            Form::Positions(positions) => return from_positions(positions),
            Form::Bits { words, count } => (words, count),
        };
        let Some(first) = words.iter().position(|word| *word != 0) else { return Selection::Rows(0..0) };
        let last = words.iter().rposition(|word| *word != 0).unwrap_or(first);
        let start = first * WORD_ROWS + words[first].trailing_zeros() as usize;
        let end = (last + 1) * WORD_ROWS - words[last].leading_zeros() as usize;
        if end - start == count {
            return Selection::Rows(start as u32..end as u32);
        }
        let mut positions = Vec::new();
        simd::positions(self.flavour, &words, &mut positions);
        Selection::Positions(positions)
    }

    /// Keeps the rows that pass.
    pub(crate) fn keep(&mut self, test: &impl RowTest) {
        if let Form::Bits { words, count } = &self.form
            && (*count as f64) < self.rows as f64 * test.thinning_cost(self.flavour)
        {
            let mut positions = Vec::with_capacity(*count);
            simd::positions(self.flavour, words, &mut positions);
            self.form = Form::Positions(positions);
        }
        // Of adjacent rows it is known how many there are; words with any of scattered ones are counted.
        let mut adjacent = None;
        if let Form::Range(rows) = &self.form {
            let words = bits_of_range(rows.start as usize..rows.end as usize, self.rows);
            adjacent = Some(rows.len());
            self.form = Form::Bits { words, count: rows.len() };
        }
        match &mut self.form {
            Form::Bits { words, count } => {
                let scattered = || words.iter().filter(|word| **word != 0).count() * WORD_ROWS;
                self.looked_at += adjacent.unwrap_or_else(|| scattered().min(self.rows));
                test.thin(self.flavour, self.rows, words);
                *count = simd::count(self.flavour, words);
            }
            Form::Positions(positions) => {
                self.looked_at += positions.len();
                reduce(positions, test);
            }
            Form::Range(_) => {}
        }
    }
}

/// Rising positions; a range where they are adjacent.
fn from_positions(positions: Vec<u16>) -> Selection {
    match (positions.first(), positions.last()) {
        (Some(first), Some(last)) if usize::from(last - first) + 1 == positions.len() => {
            Selection::Rows(u32::from(*first)..u32::from(*last) + 1)
        }
        _ => Selection::Positions(positions),
    }
}

/// Bits of a block of `rows` rows, 1 for those in `range`.
pub(crate) fn bits_of_range(range: Range<usize>, rows: usize) -> Vec<u64> {
    let mut words = vec![0; rows.div_ceil(WORD_ROWS)];
    if let Some(last) = range.end.checked_sub(1).filter(|last| range.start <= *last) {
        let (first_word, last_word) = (range.start / WORD_ROWS, last / WORD_ROWS);
        words[first_word..=last_word].fill(u64::MAX);
        words[first_word] &= u64::MAX << (range.start % WORD_ROWS);
        words[last_word] &= u64::MAX >> (WORD_ROWS - 1 - last % WORD_ROWS);
    }
    words
}

fn reduce(positions: &mut Vec<u16>, test: &impl RowTest) {
    let mut kept = 0;
    for index in 0..positions.len() {
        let position = positions[index];
        positions[kept] = position;
        kept += usize::from(test.passes(usize::from(position)));
    }
    positions.truncate(kept);
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Flags(Vec<bool>, f64);

    impl RowTest for Flags {
        fn mask(&self, row: usize, count: usize) -> u64 {
            // Bits above `count` are noise on purpose.
            (0..count).fold(u64::MAX << (count - 1) << 1, |mask, i| mask | u64::from(self.0[row + i]) << i)
        }

        fn passes(&self, row: usize) -> bool {
            self.0[row]
        }

        fn thinning_cost(&self, _flavour: Flavour) -> f64 {
            self.1
        }
    }

    fn kept(tests: &[Flags], rows: Range<u32>) -> Selection {
        let block = tests[0].0.len();
        let mut matches = Matches::new(Selection::Rows(rows.clone()), block, Flavour::best());
        let mut naive: Vec<usize> = rows.map(|row| row as usize).collect();
        for test in tests {
            matches.keep(test);
            naive.retain(|row| test.0[*row]);
            assert_eq!(matches.len(), naive.len());
        }
        let selection = matches.finish();
        assert_eq!(selection.rows().collect::<Vec<_>>(), naive);
        selection
    }

    #[test]
    fn keeps_what_single_rows_say_in_every_form() {
        for period in [1, 2, 3, 7, 8, 63, 64, 65, 200, 5000] {
            for cost in [0.0, 0.3, 2.0] {
                let flags = |shift: usize| {
                    let passes = |row: usize| (row + shift).wrapping_mul(row) % period < period / 2 + 1;
                    Flags((0..9000usize).map(passes).collect(), cost)
                };
                for rows in [0..9000, 0..0, 5..5, 3..77, 64..128, 100..8999] {
                    kept(&[flags(0), flags(3), flags(11)], rows);
                }
            }
        }
        kept(&[Flags(vec![true; 65_536], 0.1)], 0..65_536);
    }

    #[test]
    fn adjacent_matches_are_a_range() {
        let flags = || [Flags((0..5000).map(|row| (100..4321).contains(&row)).collect(), 0.1)];
        assert_eq!(kept(&flags(), 0..5000), Selection::Rows(100..4321));
        assert_eq!(kept(&flags(), 200..300), Selection::Rows(200..300));
        assert!(matches!(kept(&flags(), 4500..5000), Selection::Rows(rows) if rows.is_empty()));
    }
}
