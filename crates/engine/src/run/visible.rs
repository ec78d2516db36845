//! Which rows of a block are there: the one place where scans leave deleted rows out.
//!
//! Tests on codes look at deleted rows like at others, which is quicker than going round them and can do no harm; nothing else sees
//! them. Must not know: transactions, why rows were deleted.

use forebay_cpu::Selection;
use forebay_store::RowBits;

use super::MorselRows;

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
    let left: Vec<u16> = selection.rows().filter(|row| !gone.contains(*row)).map(|row| row as u16).collect();
    match (left.first(), left.last()) {
        (None, _) | (_, None) => Selection::Rows(0..0),
        (Some(first), Some(last)) if usize::from(last - first) + 1 == left.len() => {
            Selection::Rows(u32::from(*first)..u32::from(*last) + 1)
        }
        _ => Selection::Positions(left),
    }
}

#[cfg(test)]
mod tests {
    use forebay_store::DeletedRows;

    use super::*;

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
