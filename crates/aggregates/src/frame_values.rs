//! Functions of a frame's rows that are no aggregates: they choose one of them, or count them.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Float64Array, Int64Array, UInt64Array, new_null_array};
use datafusion::arrow::compute::{interleave, take};
use datafusion::arrow::datatypes::{DataType, Int64Type};
use datafusion::common::{Result, exec_err, internal_err, plan_err};
use forebay_functions::function::refused;

use crate::frame_fill::{filled, is_on_line};
use crate::frame_partition::Partition;
use crate::frame_text::{FrameSpec, Split};

/// Functions that choose one of the frame's rows, or count them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Own {
    /// `first_value`.
    First,
    /// `last_value`.
    Last,
    /// `nth_value`.
    Nth,
    /// `lag`.
    Lag,
    /// `lead`.
    Lead,
    /// `row_number`.
    RowNumber,
    /// `rank`.
    Rank,
    /// `percent_rank`.
    PercentRank,
    /// `cume_dist`.
    CumeDist,
    /// `ntile`.
    Ntile,
    /// `fill`: a value in place of NULL, on the line through its neighbours.
    Fill,
}

impl Own {
    /// The function of this name.
    pub fn of(name: &str) -> Option<Self> {
        Some(match name {
            "first_value" | "first" => Self::First,
            "last_value" | "last" => Self::Last,
            "nth_value" => Self::Nth,
            "lag" => Self::Lag,
            "lead" => Self::Lead,
            "row_number" => Self::RowNumber,
            "rank" => Self::Rank,
            "percent_rank" => Self::PercentRank,
            "cume_dist" => Self::CumeDist,
            "ntile" => Self::Ntile,
            "fill" => Self::Fill,
            _ => return None,
        })
    }

    /// The types that it takes in place of these. Errors: too many or too few arguments.
    pub fn coerced(self, types: &[DataType]) -> Result<Vec<DataType>> {
        let number = DataType::Int64;
        Ok(match (self, types) {
            (Self::First | Self::Last, [value]) => vec![value.clone()],
            (Self::Nth, [value, _]) => vec![value.clone(), number],
            (Self::Lag | Self::Lead, [value]) => vec![value.clone()],
            (Self::Lag | Self::Lead, [value, _]) => vec![value.clone(), number],
            (Self::Lag | Self::Lead, [DataType::Null, _, other]) => vec![other.clone(), number, other.clone()],
            (Self::Lag | Self::Lead, [value, _, _]) => vec![value.clone(), number, value.clone()],
            (Self::Ntile, [_]) => vec![number],
            (Self::Fill, [value]) if is_on_line(value) => vec![value.clone()],
            (Self::Fill, [value]) => {
                let message = format!("fill takes a number or a point in time, not {value}");
                return Err(refused(message, "Choose a value by last_value(x IGNORE NULLS)"));
            }
            (Self::RowNumber | Self::Rank | Self::PercentRank | Self::CumeDist, []) => Vec::new(),
            _ => {
                let message = format!("the window function does not take {} arguments", types.len());
                return Err(refused(message, "Write lag(x, 1, 0), nth_value(x, 2), ntile(4), rank()"));
            }
        })
    }

    /// The type of its values, by that of its first argument.
    pub fn result(self, first: Option<&DataType>) -> Result<DataType> {
        Ok(match (self, first) {
            (Self::RowNumber | Self::Rank | Self::Ntile, _) => DataType::Int64,
            (Self::PercentRank | Self::CumeDist, _) => DataType::Float64,
            (_, Some(first)) => first.clone(),
            (_, None) => return plan_err!("the window function takes a value"),
        })
    }

    /// Its value for each row.
    pub fn values(self, spec: &FrameSpec, partition: &Partition, arguments: &Split<'_, ArrayRef>) -> Result<ArrayRef> {
        let number = |index: usize, row: usize| {
            let Some(numbers) = arguments.own.get(index) else { return Some(1) };
            let numbers = numbers.as_primitive::<Int64Type>();
            numbers.is_valid(row).then(|| numbers.value(row))
        };
        let rows = 0..partition.frames.len();
        match self {
            Self::First => chosen(arguments, rows.map(|row| partition.nth(row, 0))),
            Self::Last => {
                let last = |row| partition.count(row).checked_sub(1).and_then(|place| partition.nth(row, place));
                chosen(arguments, rows.map(last))
            }
            Self::Nth => {
                let place = |row| number(1, row).and_then(|nth| usize::try_from(nth).ok()?.checked_sub(1));
                chosen(arguments, rows.map(|row| partition.nth(row, place(row)?)))
            }
            Self::Lag | Self::Lead => self.neighbours(partition, arguments, number),
            Self::RowNumber => Ok(Arc::new(rows.map(|row| partition.before(row) as i64 + 1).collect::<Int64Array>())),
            Self::Rank => Ok(Arc::new(rows.map(|row| partition.less(row) as i64 + 1).collect::<Int64Array>())),
            Self::PercentRank => {
                let share = |row| match partition.count(row) {
                    0 | 1 => 0.0,
                    count => partition.less(row) as f64 / (count - 1) as f64,
                };
                Ok(Arc::new(rows.map(|row| Some(share(row))).collect::<Float64Array>()))
            }
            Self::CumeDist => {
                let share = |row| match partition.count(row) {
                    0 => 0.0,
                    count => partition.at_most(row) as f64 / count as f64,
                };
                Ok(Arc::new(rows.map(|row| Some(share(row))).collect::<Float64Array>()))
            }
            Self::Ntile => {
                let tile = |row| match (number(0, row), partition.count(row)) {
                    (None, _) | (_, 0) => Ok(None),
                    (Some(tiles), count) => match usize::try_from(tiles) {
                        // A row that is not in its frame may stand behind the last one that is.
                        Ok(tiles) if tiles > 0 => Ok(Some(tile(partition.before(row).min(count - 1), count, tiles))),
                        _ => exec_err!("ntile takes a number greater than 0, not {tiles}"),
                    },
                };
                Ok(Arc::new(rows.map(tile).collect::<Result<Int64Array>>()?))
            }
            Self::Fill => filled(spec, arguments, &partition.place),
        }
    }

    /// `lag` and `lead`, by the order of the frame's rows.
    fn neighbours(
        self,
        partition: &Partition,
        arguments: &Split<'_, ArrayRef>,
        number: impl Fn(usize, usize) -> Option<i64>,
    ) -> Result<ArrayRef> {
        let Some(column) = arguments.own.first() else { return internal_err!("lag and lead take a value") };
        let missing = new_null_array(column.data_type(), 1);
        let default = arguments.own.get(2);
        let place = |row: usize| {
            let Some(distance) = number(1, row) else { return (1, 0) };
            let distance = if self == Self::Lag { distance.saturating_neg() } else { distance };
            let is_counted = partition.is_in_frame(row);
            // A row that is not counted stands between two that are.
            let step = i64::from(distance > 0 && !is_counted);
            let found = match distance {
                0 => Some(row),
                _ => i64::try_from(partition.before(row))
                    .ok()
                    .and_then(|before| usize::try_from(before.checked_add(distance)?.checked_sub(step)?).ok())
                    .and_then(|place| partition.nth(row, place)),
            };
            match (found, default) {
                (Some(found), _) => (0, found),
                (None, Some(_)) => (2, row),
                (None, None) => (1, 0),
            }
        };
        let places: Vec<(usize, usize)> = (0..partition.frames.len()).map(place).collect();
        let mut sources: Vec<&dyn Array> = vec![column.as_ref(), missing.as_ref()];
        sources.extend(default.map(|default| default.as_ref() as &dyn Array));
        Ok(interleave(&sources, &places)?)
    }
}

/// The values of the first argument at some rows.
fn chosen(arguments: &Split<'_, ArrayRef>, rows: impl Iterator<Item = Option<usize>>) -> Result<ArrayRef> {
    let Some(column) = arguments.own.first() else { return internal_err!("there is no value to choose") };
    Ok(take(column, &rows.map(|row| row.map(|row| row as u64)).collect::<UInt64Array>(), None)?)
}

/// In which of so many tiles of nearly one size the row at this place is.
fn tile(place: usize, rows: usize, tiles: usize) -> i64 {
    let tiles = tiles.min(rows.max(1));
    let (size, larger) = (rows / tiles, rows % tiles);
    let in_larger = larger * (size + 1);
    let tile = match place < in_larger {
        true => place / (size + 1),
        false => larger + (place - in_larger) / size.max(1),
    };
    tile as i64 + 1
}
