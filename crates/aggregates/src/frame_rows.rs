//! The rows of each frame of a partition, whose rows are in the window's order.

use std::cmp::Ordering;
use std::ops::Range;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, DynComparator, make_comparator};
use datafusion::arrow::compute::SortOptions;
use datafusion::arrow::datatypes::Int64Type;
use datafusion::arrow::row::{RowConverter, Rows, SortField};
use datafusion::common::{Result, exec_err, internal_err};
use forebay_functions::interval_lengths::{INTERVAL, lengths};

use crate::frame_text::{Bound, Exclusion, FrameSpec, Split, Units};

/// The rows of one frame, in their order: up to three ranges, some of which may be empty.
pub type Pieces = [Range<usize>; 3];

/// What can be compared as DuckDB does: intervals by their lengths.
pub fn comparable(column: &ArrayRef) -> Result<ArrayRef> {
    if *column.data_type() == INTERVAL { lengths(column) } else { Ok(ArrayRef::clone(column)) }
}

/// The rows of some columns in a form that is equal where they are.
pub fn as_rows(columns: &[ArrayRef]) -> Result<Rows> {
    let columns = columns.iter().map(comparable).collect::<Result<Vec<_>>>()?;
    let fields = columns.iter().map(|column| SortField::new(column.data_type().clone())).collect();
    Ok(RowConverter::new(fields)?.convert_columns(&columns)?)
}

/// The rows that are equal to each row by the window's order.
struct Peers {
    /// For each row the number of its group.
    group: Vec<usize>,
    groups: Vec<Range<usize>>,
}

impl Peers {
    fn of(keys: &[ArrayRef], rows: usize) -> Result<Self> {
        if keys.is_empty() {
            let all = (rows > 0).then_some(0..rows);
            return Ok(Self { group: vec![0; rows], groups: all.into_iter().collect() });
        }
        let values = as_rows(keys)?;
        let mut group = Vec::with_capacity(rows);
        let mut groups: Vec<Range<usize>> = Vec::new();
        for row in 0..rows {
            match groups.last_mut() {
                Some(last) if values.row(row) == values.row(row - 1) => last.end = row + 1,
                _ => groups.push(row..row + 1),
            }
            group.push(groups.len() - 1);
        }
        Ok(Self { group, groups })
    }

    fn of_row(&self, row: usize) -> Range<usize> {
        self.groups[self.group[row]].clone()
    }
}

/// The frames of all rows. Errors: distances that are negative, or NULL where rows are counted.
pub fn frames(spec: &FrameSpec, arguments: &Split<'_, ArrayRef>, rows: usize) -> Result<Vec<Pieces>> {
    let is_of_rows =
        spec.units == Units::Rows && spec.exclusion != Exclusion::Group && spec.exclusion != Exclusion::Ties;
    let keys = if is_of_rows { &[] } else { arguments.keys };
    let peers = Peers::of(keys, rows)?;
    let key = arguments.keys.first();
    let start = Edge::of(spec, spec.start, arguments.start, key)?;
    let end = Edge::of(spec, spec.end, arguments.end, key)?;
    let frame = |row| {
        let begin = start.begin(row, &peers, rows)?;
        let end = end.end(row, &peers, rows)?;
        Ok(excluding(spec.exclusion, begin..end.max(begin), row, peers.of_row(row)))
    };
    (0..rows).map(frame).collect()
}

fn excluding(exclusion: Exclusion, frame: Range<usize>, row: usize, peers: Range<usize>) -> Pieces {
    let Range { start, end } = frame;
    let without = |left_out: Range<usize>, kept: Range<usize>| {
        let before = start..end.min(left_out.start).max(start);
        let behind = start.max(left_out.end).min(end)..end;
        [before, kept, behind]
    };
    match exclusion {
        Exclusion::Nothing => [start..end, end..end, end..end],
        Exclusion::CurrentRow => without(row..row + 1, row..row),
        Exclusion::Group => without(peers, row..row),
        Exclusion::Ties => {
            let own = if (start..end).contains(&row) { row..row + 1 } else { row..row };
            without(peers, own)
        }
    }
}

/// One bound of the frames of a partition.
struct Edge<'a> {
    units: Units,
    bound: Bound,
    distance: Option<&'a ArrayRef>,
    values: Option<Values>,
}

/// Values of an order, and those at which frames begin or end.
struct Values {
    /// Rows whose order is not NULL.
    valid: Range<usize>,
    /// Compares the value of a row to the bound of a row, in the direction of the order.
    compare: DynComparator,
    has_bound: Vec<bool>,
}

impl<'a> Edge<'a> {
    fn of(spec: &FrameSpec, bound: Bound, distance: Option<&'a ArrayRef>, key: Option<&ArrayRef>) -> Result<Self> {
        let values = match (spec.units, distance) {
            (Units::Range, Some(bounds)) => {
                let Some(key) = key else { return internal_err!("RANGE with a distance lacks an order") };
                Some(Values::of(&comparable(key)?, &comparable(bounds)?, spec.is_descending)?)
            }
            _ => None,
        };
        Ok(Self { units: spec.units, bound, distance, values })
    }

    /// The first row of the frame of `row`.
    fn begin(&self, row: usize, peers: &Peers, rows: usize) -> Result<usize> {
        Ok(match (self.bound, self.units) {
            (Bound::Unbounded, _) => 0,
            (Bound::Current, Units::Rows) => row,
            (Bound::Current, _) => peers.of_row(row).start,
            (_, Units::Rows) => self.moved(row, self.count(row)?, rows),
            (_, Units::Groups) => match self.group(row, peers)? {
                None => peers.of_row(row).start,
                Some(Ok(group)) => peers.groups[group].start,
                Some(Err(is_behind)) => {
                    if is_behind {
                        rows
                    } else {
                        0
                    }
                }
            },
            (_, Units::Range) => match self.found(row, Ordering::is_lt)? {
                None => peers.of_row(row).start,
                Some(found) => found,
            },
        })
    }

    /// The row behind the last one of the frame of `row`.
    fn end(&self, row: usize, peers: &Peers, rows: usize) -> Result<usize> {
        Ok(match (self.bound, self.units) {
            (Bound::Unbounded, _) => rows,
            (Bound::Current, Units::Rows) => row + 1,
            (Bound::Current, _) => peers.of_row(row).end,
            (_, Units::Rows) => self.moved(row + 1, self.count(row)?, rows),
            (_, Units::Groups) => match self.group(row, peers)? {
                None => peers.of_row(row).end,
                Some(Ok(group)) => peers.groups[group].end,
                Some(Err(is_behind)) => {
                    if is_behind {
                        rows
                    } else {
                        0
                    }
                }
            },
            (_, Units::Range) => match self.found(row, Ordering::is_le)? {
                None => peers.of_row(row).end,
                Some(found) => found,
            },
        })
    }

    fn side(&self) -> &'static str {
        if self.bound == Bound::Preceding { "PRECEDING" } else { "FOLLOWING" }
    }

    /// The distance of a row, in rows or groups; `None` where it is NULL.
    fn distance(&self, row: usize) -> Result<Option<usize>> {
        let Some(distances) = self.distance else { return internal_err!("a bound lacks its distance") };
        let distances = distances.as_primitive::<Int64Type>();
        if distances.is_null(row) {
            return Ok(None);
        }
        match usize::try_from(distances.value(row)) {
            Ok(distance) => Ok(Some(distance)),
            Err(_) => exec_err!("the distance of {} is negative: {}", self.side(), distances.value(row)),
        }
    }

    fn count(&self, row: usize) -> Result<usize> {
        match self.distance(row)? {
            Some(distance) => Ok(distance),
            None => exec_err!("the distance of ROWS {} is NULL", self.side()),
        }
    }

    fn moved(&self, from: usize, distance: usize, rows: usize) -> usize {
        match self.bound {
            Bound::Preceding => from.saturating_sub(distance),
            _ => from.saturating_add(distance).min(rows),
        }
    }

    /// The group at the distance of a row; else whether it would be behind the last one. `None` without a distance.
    fn group(&self, row: usize, peers: &Peers) -> Result<Option<std::result::Result<usize, bool>>> {
        let Some(distance) = self.distance(row)? else { return Ok(None) };
        let own = peers.group[row];
        Ok(Some(match self.bound {
            Bound::Preceding => own.checked_sub(distance).ok_or(false),
            _ => own.checked_add(distance).filter(|group| *group < peers.groups.len()).ok_or(true),
        }))
    }

    /// The first row whose order does not pass `is_before` the bound of `row`; `None` where there is no bound.
    fn found(&self, row: usize, is_before: fn(Ordering) -> bool) -> Result<Option<usize>> {
        let Some(values) = &self.values else { return internal_err!("a bound lacks its values") };
        if !values.has_bound[row] {
            return Ok(None);
        }
        let own = (values.compare)(row, row);
        let is_wrong = if self.bound == Bound::Preceding { own.is_lt() } else { own.is_gt() };
        if is_wrong {
            return exec_err!("the distance of RANGE {} is negative", self.side());
        }
        let (mut low, mut high) = (values.valid.start, values.valid.end);
        while low < high {
            let middle = low + (high - low) / 2;
            if is_before((values.compare)(middle, row)) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(Some(low))
    }
}

impl Values {
    fn of(key: &ArrayRef, bounds: &ArrayRef, is_descending: bool) -> Result<Self> {
        let rows = key.len();
        let first = (0..rows).find(|row| key.is_valid(*row)).unwrap_or(rows);
        let end = (first..rows).find(|row| key.is_null(*row)).unwrap_or(rows);
        let options = SortOptions { descending: is_descending, nulls_first: false };
        let compare = make_comparator(key, bounds, options)?;
        let has_bound = (0..rows).map(|row| key.is_valid(row) && bounds.is_valid(row)).collect();
        Ok(Self { valid: first..end, compare, has_bound })
    }
}
