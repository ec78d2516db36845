//! The rows of a block that passed the tests so far (Data Blocks §4.2: find initial matches, reduce matches).
//!
//! Many matches are kept as bits, which the next test thins out 64 rows at a time; few are kept as positions, which it
//! looks at one by one. Which of the two is cheaper depends on the test and on how many are left. Matches that tests of runs
//! find are kept as ranges until a test looks at single rows.

use std::ops::Range;

use crate::Selection;
use crate::simd::{self, SimdLevel, WORD_ROWS};

/// A test on the rows of a block.
pub(crate) trait RowPredicate {
    /// Bit `i` says whether row `row + i` passes, for `count` rows, at most [`WORD_ROWS`]. Higher bits may be anything.
    fn mask(&self, row: usize, count: usize) -> u64;

    /// Whether one row passes.
    fn passes(&self, row: usize) -> bool;

    /// Takes away those bits of `masks` whose rows do not pass, among the first `rows` rows.
    fn thin(&self, _level: SimdLevel, rows: usize, masks: &mut [u64]) {
        thin_by_words(self, rows, masks);
    }

    /// What [`RowPredicate::thin`] costs for each row, where [`RowPredicate::passes`] costs 1.
    fn thinning_cost(&self, _level: SimdLevel) -> f64 {
        1.0
    }
}

/// [`RowPredicate::thin`] by way of [`RowPredicate::mask`]; words of zeros are not looked at.
pub(crate) fn thin_by_words(test: &(impl RowPredicate + ?Sized), rows: usize, masks: &mut [u64]) {
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
    level: SimdLevel,
    form: Form,
    /// Rows that tests have looked at, every test for itself.
    looked_at: usize,
}

#[derive(Debug, Clone, PartialEq)]
enum Form {
    Range(Range<u32>),
    /// Ascending, neither empty nor adjacent.
    Ranges {
        ranges: Vec<Range<u32>>,
        count: usize,
    },
    /// Bit `i % 64` of word `i / 64` is row `i`; bits behind the last row are 0.
    Bits {
        words: Vec<u64>,
        count: usize,
    },
    Positions(Vec<u16>),
}

impl Matches {
    /// Begins with `selection` of a block of `rows` rows, which tests will thin out by these instructions.
    pub fn new(selection: Selection, rows: usize, level: SimdLevel) -> Self {
        let form = match selection {
            Selection::Rows(rows) => Form::Range(rows),
            Selection::Positions(positions) => Form::Positions(positions),
        };
        Self { rows, level, form, looked_at: 0 }
    }

    /// The vector instructions that tests use.
    pub(crate) fn level(&self) -> SimdLevel {
        self.level
    }

    /// Number of rows that are left.
    pub fn len(&self) -> usize {
        match &self.form {
            Form::Range(rows) => rows.len(),
            Form::Ranges { count, .. } | Form::Bits { count, .. } => *count,
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
            Form::Ranges { ranges, count } => {
                let mut positions = Vec::with_capacity(count);
                ranges.into_iter().for_each(|rows| positions.extend(rows.map(|row| row as u16)));
                return Selection::Positions(positions);
            }
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
        simd::positions(self.level, &words, &mut positions);
        Selection::Positions(positions)
    }

    /// Keeps the rows that pass.
    pub(crate) fn keep(&mut self, test: &impl RowPredicate) {
        if let Form::Bits { words, count } = &self.form
            && (*count as f64) < self.rows as f64 * test.thinning_cost(self.level)
        {
            let mut positions = Vec::with_capacity(*count);
            simd::positions(self.level, words, &mut positions);
            self.form = Form::Positions(positions);
        }
        // Of adjacent rows it is known how many there are; words with any of scattered ones are counted.
        let mut adjacent = None;
        if let Form::Range(_) | Form::Ranges { .. } = &self.form {
            let (words, count) = (self.bits(), self.len());
            adjacent = Some(count);
            self.form = Form::Bits { words, count };
        }
        match &mut self.form {
            Form::Bits { words, count } => {
                let scattered = || words.iter().filter(|word| **word != 0).count() * WORD_ROWS;
                self.looked_at += adjacent.unwrap_or_else(|| scattered().min(self.rows));
                test.thin(self.level, self.rows, words);
                *count = simd::count(self.level, words);
            }
            Form::Positions(positions) => {
                self.looked_at += positions.len();
                reduce(positions, test);
            }
            Form::Range(_) | Form::Ranges { .. } => {}
        }
    }

    /// The rows of ranges as bits.
    fn bits(&self) -> Vec<u64> {
        let mut words = vec![0; self.rows.div_ceil(WORD_ROWS)];
        match &self.form {
            Form::Range(rows) => set_range(&mut words, rows),
            Form::Ranges { ranges, .. } => ranges.iter().for_each(|rows| set_range(&mut words, rows)),
            Form::Bits { .. } | Form::Positions(_) => unreachable!("they are no ranges"),
        }
        words
    }
}

impl Matches {
    /// Keeps the rows in these ranges, which ascend and neither meet nor overlap. They say it of all their rows at once, so that
    /// no row counts as looked at.
    pub(crate) fn keep_ranges(&mut self, ranges: &[Range<u32>]) {
        match &mut self.form {
            Form::Range(rows) => self.form = of_ranges(intersect(std::slice::from_ref(rows), ranges)),
            Form::Ranges { ranges: known, .. } => self.form = of_ranges(intersect(known, ranges)),
            Form::Bits { words, count } => {
                let mut inside = vec![0; words.len()];
                ranges.iter().for_each(|rows| set_range(&mut inside, rows));
                words.iter_mut().zip(inside).for_each(|(word, inside)| *word &= inside);
                *count = simd::count(self.level, words);
            }
            Form::Positions(positions) => {
                let (mut kept, mut from) = (0, 0);
                for range in ranges {
                    let from_row = |row: u32| move |position: &u16| u32::from(*position) < row;
                    from += positions[from..].partition_point(from_row(range.start));
                    let count = positions[from..].partition_point(from_row(range.end));
                    positions.copy_within(from..from + count, kept);
                    (kept, from) = (kept + count, from + count);
                }
                positions.truncate(kept);
            }
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
    set_range(&mut words, &(range.start as u32..range.end as u32));
    words
}

/// The rows that are in ranges of both lists.
fn intersect(one: &[Range<u32>], other: &[Range<u32>]) -> Vec<Range<u32>> {
    let mut both = Vec::new();
    for rows in one {
        let from = other.partition_point(|range| range.end <= rows.start);
        let inside = other[from..].iter().take_while(|range| range.start < rows.end);
        both.extend(inside.map(|range| range.start.max(rows.start)..range.end.min(rows.end)));
    }
    both
}

/// Ranges that ascend and are neither empty nor adjacent.
fn of_ranges(ranges: Vec<Range<u32>>) -> Form {
    match ranges.as_slice() {
        [] => Form::Range(0..0),
        [rows] => Form::Range(rows.clone()),
        several => Form::Ranges { count: several.iter().map(ExactSizeIterator::len).sum(), ranges },
    }
}

fn set_range(words: &mut [u64], range: &Range<u32>) {
    let range = range.start as usize..range.end as usize;
    let Some(last) = range.end.checked_sub(1).filter(|last| range.start <= *last) else { return };
    let (first_word, last_word) = (range.start / WORD_ROWS, last / WORD_ROWS);
    let (from, to) = (u64::MAX << (range.start % WORD_ROWS), u64::MAX >> (WORD_ROWS - 1 - last % WORD_ROWS));
    if first_word == last_word {
        words[first_word] |= from & to;
        return;
    }
    words[first_word] |= from;
    words[first_word + 1..last_word].fill(u64::MAX);
    words[last_word] |= to;
}

fn reduce(positions: &mut Vec<u16>, test: &impl RowPredicate) {
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

    impl RowPredicate for Flags {
        fn mask(&self, row: usize, count: usize) -> u64 {
            // Bits above `count` are noise on purpose.
            (0..count).fold(u64::MAX << (count - 1) << 1, |mask, i| mask | u64::from(self.0[row + i]) << i)
        }

        fn passes(&self, row: usize) -> bool {
            self.0[row]
        }

        fn thinning_cost(&self, _level: SimdLevel) -> f64 {
            self.1
        }
    }

    fn kept(tests: &[Flags], rows: Range<u32>) -> Selection {
        let block = tests[0].0.len();
        let mut matches = Matches::new(Selection::Rows(rows.clone()), block, SimdLevel::best());
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
    fn ranges_keep_their_rows_in_every_form() {
        let lists: [&[(u32, u32)]; 6] = [
            &[],
            &[(0, 9000)],
            &[(70, 71)],
            &[(3, 64), (65, 130), (8999, 9000)],
            &[(0, 1), (2, 3), (4, 5)],
            &[(100, 4000), (4500, 8000)],
        ];
        let every = |step: u16| (0..9000).step_by(usize::from(step)).map(|row| row as u16).collect();
        for list in lists {
            let ranges: Vec<Range<u32>> = list.iter().map(|(start, end)| *start..*end).collect();
            let mut words = vec![0x5555_aaaa_ffff_0001; 141];
            words[140] = 0xff;
            let bits = || Form::Bits { words: words.clone(), count: 140 * 33 + 8 };
            for form in
                [Form::Range(0..9000), Form::Range(66..8999), Form::Range(5..5), bits(), Form::Positions(every(7))]
            {
                let mut matches = Matches { rows: 9000, level: SimdLevel::best(), form, looked_at: 0 };
                let mut naive: Vec<usize> = matches.clone().finish().rows().collect();
                naive.retain(|row| ranges.iter().any(|range| range.contains(&(*row as u32))));
                matches.keep_ranges(&ranges);
                assert_eq!(matches.len(), naive.len(), "{ranges:?}");
                assert_eq!(matches.finish().rows().collect::<Vec<_>>(), naive, "{ranges:?}");
            }
        }
    }

    #[test]
    fn adjacent_matches_are_a_range() {
        let flags = || [Flags((0..5000).map(|row| (100..4321).contains(&row)).collect(), 0.1)];
        assert_eq!(kept(&flags(), 0..5000), Selection::Rows(100..4321));
        assert_eq!(kept(&flags(), 200..300), Selection::Rows(200..300));
        assert!(matches!(kept(&flags(), 4500..5000), Selection::Rows(rows) if rows.is_empty()));
    }
}
