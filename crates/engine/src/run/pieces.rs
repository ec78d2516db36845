//! Selections in pieces of the size of a batch.

use std::ops::Range;

use forebay_base::limits;
use forebay_cpu::Selection;

/// The selection in pieces of at most [`limits::BATCH_ROWS`] rows.
pub(super) fn pieces(selection: &Selection) -> Vec<Selection> {
    match selection {
        Selection::Rows(rows) => {
            let step = |start: u32| -> Range<u32> { start..(start + limits::BATCH_ROWS as u32).min(rows.end) };
            (rows.start..rows.end).step_by(limits::BATCH_ROWS).map(|start| Selection::Rows(step(start))).collect()
        }
        Selection::Positions(positions) => {
            positions.chunks(limits::BATCH_ROWS).map(|piece| Selection::Positions(piece.to_vec())).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_cover_the_selection_once() {
        let rows = pieces(&Selection::Rows(3..20_000));
        let covered: Vec<u32> = rows
            .iter()
            .flat_map(|piece| match piece {
                Selection::Rows(rows) => rows.clone(),
                Selection::Positions(_) => 0..0,
            })
            .collect();
        assert_eq!(covered, (3..20_000).collect::<Vec<_>>());
        assert!(pieces(&Selection::Positions(Vec::new())).is_empty());
    }
}
