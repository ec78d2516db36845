//! Finding matches among rows and reducing matches (Data Blocks §4.2 and Appendix C), whatever the test is.
//!
//! Invariants: the cost of finding does not depend on the number of matches: bits become positions through a table, eight
//! at a time and without branches.

use crate::Selection;

/// Rows that are tested at a time; one bit each in a mask.
pub(crate) const MASK_ROWS: usize = 64;

/// A test on the rows of a block.
pub(crate) trait RowTest {
    /// Bit `i` says whether row `row + i` passes, for `count` rows, at most [`MASK_ROWS`]. Higher bits may be anything.
    fn mask(&self, row: usize, count: usize) -> u64;

    /// Whether one row passes.
    fn passes(&self, row: usize) -> bool;
}

/// Keeps the selected rows that pass.
pub(crate) fn select(selection: &mut Selection, test: &impl RowTest) {
    match selection {
        Selection::Rows(rows) => *selection = find(rows.start as usize..rows.end as usize, test),
        Selection::Positions(positions) => reduce(positions, test),
    }
}

/// The rows of a range that pass; a range again where they are adjacent.
fn find(rows: std::ops::Range<usize>, test: &impl RowTest) -> Selection {
    let mut run = rows.start..rows.start;
    let mut writer: Option<PositionWriter> = None;
    for row in rows.clone().step_by(MASK_ROWS) {
        let count = MASK_ROWS.min(rows.end - row);
        let mask = test.mask(row, count) & (u64::MAX >> (MASK_ROWS - count));
        if mask == 0 {
            continue;
        }
        if let Some(writer) = &mut writer {
            writer.push(row, mask);
            continue;
        }
        let first = row + mask.trailing_zeros() as usize;
        let last = row + MASK_ROWS - mask.leading_zeros() as usize;
        let is_adjacent = last - first == mask.count_ones() as usize && (run.is_empty() || run.end == first);
        if is_adjacent {
            run = if run.is_empty() { first..last } else { run.start..last };
        } else {
            writer.insert(PositionWriter::starting_with(run.clone())).push(row, mask);
        }
    }
    match writer {
        Some(writer) => Selection::Positions(writer.finish()),
        None => Selection::Rows(run.start as u32..run.end as u32),
    }
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

/// Positions of the bits of every byte.
static BIT_POSITIONS: [[u16; 8]; 256] = {
    let mut table = [[0; 8]; 256];
    let mut byte = 0;
    while byte < 256 {
        let (mut bit, mut next) = (0, 0);
        while bit < 8 {
            if byte >> bit & 1 == 1 {
                table[byte][next] = bit;
                next += 1;
            }
            bit += 1;
        }
        byte += 1;
    }
    table
};

/// Positions that are gathered in the first-level cache before they are appended.
const BUFFER: usize = 1024;

/// Turns masks into positions.
struct PositionWriter {
    positions: Vec<u16>,
    buffer: [u16; BUFFER + MASK_ROWS],
    filled: usize,
}

impl PositionWriter {
    fn starting_with(run: std::ops::Range<usize>) -> Self {
        Self { positions: run.map(|row| row as u16).collect(), buffer: [0; BUFFER + MASK_ROWS], filled: 0 }
    }

    #[inline]
    fn push(&mut self, row: usize, mask: u64) {
        if mask == u64::MAX {
            for (bit, slot) in self.buffer[self.filled..][..MASK_ROWS].iter_mut().enumerate() {
                *slot = (row + bit) as u16;
            }
            self.filled += MASK_ROWS;
        } else {
            for (byte, bits) in mask.to_le_bytes().into_iter().enumerate() {
                let base = (row + byte * 8) as u16;
                let slots = &mut self.buffer[self.filled..][..8];
                for (slot, bit) in slots.iter_mut().zip(BIT_POSITIONS[usize::from(bits)]) {
                    *slot = base.wrapping_add(bit);
                }
                self.filled += bits.count_ones() as usize;
            }
        }
        if self.filled >= BUFFER {
            self.flush();
        }
    }

    fn flush(&mut self) {
        self.positions.extend_from_slice(&self.buffer[..self.filled]);
        self.filled = 0;
    }

    fn finish(mut self) -> Vec<u16> {
        self.flush();
        self.positions
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Bits(Vec<bool>);

    impl RowTest for Bits {
        fn mask(&self, row: usize, count: usize) -> u64 {
            // Bits above `count` are noise on purpose.
            (0..count).fold(u64::MAX << (count - 1) << 1, |mask, i| mask | u64::from(self.0[row + i]) << i)
        }

        fn passes(&self, row: usize) -> bool {
            self.0[row]
        }
    }

    fn found(bits: &[bool], rows: std::ops::Range<u32>) -> Selection {
        let mut selection = Selection::Rows(rows.clone());
        select(&mut selection, &Bits(bits.to_vec()));
        let naive: Vec<usize> = rows.map(|row| row as usize).filter(|row| bits[*row]).collect();
        assert_eq!(selection.rows().collect::<Vec<_>>(), naive);
        selection
    }

    #[test]
    fn finds_what_single_bits_say() {
        for period in [1, 2, 3, 7, 8, 63, 64, 65, 200, 5000] {
            let bits: Vec<bool> = (0..9000usize).map(|row| row.wrapping_mul(row) % period < period / 2 + 1).collect();
            for rows in [0..9000, 0..0, 5..5, 3..77, 64..128, 100..8999] {
                found(&bits, rows);
            }
        }
        found(&vec![true; 65_536], 0..65_536);
    }

    #[test]
    fn adjacent_matches_stay_a_range() {
        let bits: Vec<bool> = (0..5000).map(|row| (100..4321).contains(&row)).collect();
        assert_eq!(found(&bits, 0..5000), Selection::Rows(100..4321));
        assert_eq!(found(&bits, 200..300), Selection::Rows(200..300));
        assert!(matches!(found(&bits, 4500..5000), Selection::Rows(rows) if rows.is_empty()));
    }

    #[test]
    fn reduces_positions() {
        let mut selection = Selection::Positions(vec![1, 4, 7, 9]);
        select(&mut selection, &Bits((0..10).map(|row| row % 2 == 1).collect()));
        assert_eq!(selection, Selection::Positions(vec![1, 7, 9]));
    }
}
