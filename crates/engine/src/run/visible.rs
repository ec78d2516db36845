//! Which rows of a block are there: the one place where scans leave deleted rows out.
//!
//! Tests on codes look at deleted rows like at others, which is quicker than going round them and can do no harm; nothing else sees
//! them. Must not know: transactions, why rows were deleted.

use std::ops::Range;

use forebay_cpu::Selection;
use forebay_store::RowBits;

use super::MorselRows;

/// Selected rows for each deleted one, from which on it pays to look for the deleted ones among them.
const ROWS_A_RUN: usize = 8;

impl MorselRows {
    /// Takes deleted rows out of those that were selected.
    pub(super) fn leave_out_deleted(&mut self) {
        let deleted = self.segment.deleted();
        if deleted.is_empty() {
            return;
        }
        let first = self.first_block();
        for block in self.morsel.blocks() {
            if let Some(gone) = deleted.of_block((first + block) as u32) {
                self.selections[block] = left_of(&self.selections[block], gone);
            }
        }
    }

    /// The number of the row group's first block in its segment.
    pub(super) fn first_block(&self) -> usize {
        let layout = &self.scan.layout;
        layout.of_group((self.morsel.segment, self.morsel.group)).start - layout.of_segment(self.morsel.segment).start
    }
}

fn left_of(selection: &Selection, gone: &RowBits) -> Selection {
    let left = match selection {
        Selection::Rows(rows) => left_of_range(rows, gone),
        Selection::Positions(positions) => left_of_positions(positions, gone),
    };
    match (left.first(), left.last()) {
        (None, _) | (_, None) => Selection::Rows(0..0),
        (Some(first), Some(last)) if usize::from(last - first) + 1 == left.len() => {
            Selection::Rows(u32::from(*first)..u32::from(*last) + 1)
        }
        _ => Selection::Positions(left),
    }
}

fn left_of_range(rows: &Range<u32>, gone: &RowBits) -> Vec<u16> {
    let mut left = Vec::with_capacity(rows.len());
    let mut next = rows.start;
    for row in gone.rows().filter(|row| rows.contains(row)) {
        left.extend((next..row).map(|row| row as u16));
        next = row + 1;
    }
    left.extend((next..rows.end).map(|row| row as u16));
    left
}

fn left_of_positions(positions: &[u16], gone: &RowBits) -> Vec<u16> {
    if (gone.count() as usize) * ROWS_A_RUN > positions.len() {
        return positions.iter().filter(|row| !gone.contains(usize::from(**row))).copied().collect();
    }
    // What lies between two deleted rows is copied at once.
    let mut left = Vec::with_capacity(positions.len());
    let mut rest = positions;
    for row in gone.rows().map(|row| row as u16) {
        let Some(first) = rest.first().filter(|first| **first <= row) else { continue };
        // No more positions than rows lie before it.
        let most = (usize::from(row - first) + 1).min(rest.len());
        let before = rest[..most].partition_point(|position| *position < row);
        left.extend_from_slice(&rest[..before]);
        rest = &rest[before + usize::from(rest.get(before) == Some(&row))..];
    }
    left.extend_from_slice(rest);
    left
}

#[cfg(test)]
mod tests {
    use forebay_store::DeletedRows;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn rows_are_left_that_are_not_deleted(
            selected in prop::collection::btree_set(0_u16..2000, 0..1500),
            dense in any::<bool>(),
            gone in prop::collection::btree_set(0_u16..2100, 1..300),
        ) {
            let positions: Vec<u16> = selected.iter().copied().collect();
            let selection = match dense {
                true => Selection::Rows(positions.first().map_or(0..0, |first| u32::from(*first)..2000)),
                false => Selection::Positions(positions),
            };
            let deleted: DeletedRows = gone.iter().map(|row| (0, *row)).collect();
            let bits = deleted.of_block(0).expect("one row or more");
            prop_assert!(bits.rows().eq(gone.iter().map(|row| u32::from(*row))));
            let expected: Vec<usize> = selection.rows().filter(|row| !gone.contains(&(*row as u16))).collect();
            prop_assert_eq!(left_of(&selection, bits).rows().collect::<Vec<_>>(), expected);
        }
    }

    #[test]
    fn rows_next_to_each_other_stay_a_range() {
        let left = |selection: Selection, gone: &[u16]| {
            let deleted: DeletedRows = gone.iter().map(|row| (0, *row)).collect();
            left_of(&selection, deleted.of_block(0).expect("some rows"))
        };
        assert_eq!(left(Selection::Rows(0..10), &[0, 1, 9]), Selection::Rows(2..9));
        assert_eq!(left(Selection::Rows(0..5), &[2, 7]), Selection::Positions(vec![0, 1, 3, 4]));
        assert_eq!(left(Selection::Rows(3..5), &[3, 4]), Selection::Rows(0..0));
        assert_eq!(left(Selection::Rows(65_530..65_536), &[65_530]), Selection::Rows(65_531..65_536));
        assert_eq!(left(Selection::Positions(vec![1, 3, 8]), &[3]), Selection::Positions(vec![1, 8]));
        assert_eq!(left(Selection::Positions(vec![1, 3, 4]), &[1]), Selection::Rows(3..5));
    }
}
