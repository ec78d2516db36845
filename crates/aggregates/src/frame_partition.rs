//! A partition whose rows have frames: which rows of a frame count, and in which order they are.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray, UInt64Array};
use datafusion::arrow::compute::{SortColumn, SortOptions, lexsort_to_indices};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;

use crate::frame_rows::{Pieces, as_rows, comparable};
use crate::frame_text::{FrameSpec, KeyOrder, Split};

/// The rows of a partition with their frames, and the order among them.
#[derive(Debug)]
pub struct Partition {
    pub(crate) frames: Vec<Pieces>,
    /// The place of each row in the order of the rows of a frame.
    pub(crate) place: Vec<usize>,
    /// The number of the group of rows that are equal by it.
    level: Vec<usize>,
    /// Whether that order is not the window's.
    pub(crate) is_ordered: bool,
    /// Rows that count, in the window's order, and how many of them stand before each row.
    pub(crate) kept: Vec<usize>,
    kept_before: Vec<usize>,
}

impl Partition {
    /// Of these frames.
    pub fn new(spec: &FrameSpec, arguments: &Split<'_, ArrayRef>, frames: Vec<Pieces>) -> Result<Self> {
        let rows = frames.len();
        let is_kept = |row: usize| {
            let passes = arguments.filter.is_none_or(|filter| {
                let filter: &BooleanArray = filter.as_boolean();
                filter.is_valid(row) && filter.value(row)
            });
            passes && (!spec.ignores_nulls || arguments.own.first().is_none_or(|column| column.is_valid(row)))
        };
        let (mut kept, mut kept_before) = (Vec::new(), Vec::with_capacity(rows + 1));
        for row in 0..rows {
            kept_before.push(kept.len());
            if is_kept(row) {
                kept.push(row);
            }
        }
        kept_before.push(kept.len());
        let (place, level) = places(spec, arguments.orders, rows)?;
        Ok(Self { frames, place, level, is_ordered: !arguments.orders.is_empty(), kept, kept_before })
    }

    /// The frame of a row, in numbers of rows that count.
    pub(crate) fn kept_pieces(&self, row: usize) -> Pieces {
        self.frames[row].clone().map(|piece| self.kept_before[piece.start]..self.kept_before[piece.end])
    }

    /// How many rows the frame of a row has that count.
    pub(crate) fn count(&self, row: usize) -> usize {
        self.kept_pieces(row).iter().map(ExactSizeIterator::len).sum()
    }

    /// Whether the frame of a row has the row itself, and it counts.
    pub(crate) fn is_in_frame(&self, row: usize) -> bool {
        let own = self.kept_before[row];
        self.kept_before[row + 1] > own && self.kept_pieces(row).iter().any(|piece| piece.contains(&own))
    }

    /// The rows of the frame of a row, in their order.
    pub(crate) fn rows(&self, row: usize) -> Vec<usize> {
        let mut rows: Vec<usize> = self.kept_pieces(row).into_iter().flatten().map(|index| self.kept[index]).collect();
        if self.is_ordered {
            rows.sort_unstable_by_key(|row| self.place[*row]);
        }
        rows
    }

    /// The row at a place of the frame of a row.
    pub(crate) fn nth(&self, row: usize, place: usize) -> Option<usize> {
        if self.is_ordered {
            return match place {
                0 => self.counted(row).min_by_key(|row| self.place[*row]),
                _ => self.rows(row).get(place).copied(),
            };
        }
        let mut place = place;
        for piece in self.kept_pieces(row) {
            match piece.len() {
                length if place < length => return Some(self.kept[piece.start + place]),
                length => place -= length,
            }
        }
        None
    }

    fn counted(&self, row: usize) -> impl Iterator<Item = usize> {
        self.kept_pieces(row).into_iter().flatten().map(|index| self.kept[index])
    }

    /// How many rows of the frame of a row stand before the row.
    pub(crate) fn before(&self, row: usize) -> usize {
        if self.is_ordered {
            return self.counted(row).filter(|other| self.place[*other] < self.place[row]).count();
        }
        let own = self.kept_before[row];
        self.kept_pieces(row).iter().map(|piece| own.clamp(piece.start, piece.end) - piece.start).sum()
    }

    /// How many of them are less than it.
    pub(crate) fn less(&self, row: usize) -> usize {
        self.counted(row).filter(|other| self.level[*other] < self.level[row]).count()
    }

    /// How many of them are not greater.
    pub(crate) fn at_most(&self, row: usize) -> usize {
        self.counted(row).filter(|other| self.level[*other] <= self.level[row]).count()
    }
}

/// The place of each row by an order, and the number of its group of equal rows.
fn places(spec: &FrameSpec, orders: &[ArrayRef], rows: usize) -> Result<(Vec<usize>, Vec<usize>)> {
    if orders.is_empty() {
        return Ok(((0..rows).collect(), (0..rows).collect()));
    }
    let column = |(values, order): (&ArrayRef, &KeyOrder)| {
        let options = SortOptions { descending: order.descending, nulls_first: order.nulls_first };
        Ok(SortColumn { values: sortable(values)?, options: Some(options) })
    };
    let mut columns = orders.iter().zip(&spec.orders).map(column).collect::<Result<Vec<_>>>()?;
    let numbers: ArrayRef = Arc::new(UInt64Array::from_iter_values(0..rows as u64));
    columns.push(SortColumn { values: numbers, options: None });
    let sorted = lexsort_to_indices(&columns, None)?;
    let values = as_rows(orders)?;
    let (mut place, mut level) = (vec![0; rows], vec![0; rows]);
    let mut last: Option<usize> = None;
    let mut number = 0;
    for (index, row) in sorted.values().iter().map(|row| *row as usize).enumerate() {
        if last.is_some_and(|last| values.row(last) != values.row(row)) {
            number += 1;
        }
        (place[row], level[row]) = (index, number);
        last = Some(row);
    }
    Ok((place, level))
}

/// What sorts as DuckDB does: intervals by their lengths, lists and structs by keys.
pub fn sortable(values: &ArrayRef) -> Result<ArrayRef> {
    use DataType as T;
    match values.data_type() {
        T::List(_) | T::LargeList(_) | T::FixedSizeList(..) | T::Struct(_) => {
            forebay_functions::order_keys::order_keys(values)
        }
        _ => comparable(values),
    }
}
