//! Aggregates of the rows of frames.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, UInt64Array, new_empty_array};
use datafusion::arrow::compute::take;
use datafusion::arrow::datatypes::{FieldRef, Schema};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::{Accumulator, AggregateUDF};
use datafusion::physical_expr::PhysicalExpr;

use crate::frame_partition::Partition;
use crate::frame_rows::as_rows;
use crate::frame_text::FrameSpec;

/// An aggregate, and what makes a state for it.
#[derive(Debug)]
pub struct Aggregate {
    /// The function.
    pub function: Arc<AggregateUDF>,
    /// Its result.
    pub return_field: FieldRef,
    /// Its arguments as columns.
    pub schema: Schema,
    /// Its name.
    pub name: String,
    /// Whether NULLs do not count.
    pub ignores_nulls: bool,
    /// Its arguments.
    pub exprs: Vec<Arc<dyn PhysicalExpr>>,
    /// The fields of its arguments.
    pub fields: Vec<FieldRef>,
}

impl Aggregate {
    fn state(&self) -> Result<Box<dyn Accumulator>> {
        self.function.accumulator(AccumulatorArgs {
            return_field: Arc::clone(&self.return_field),
            schema: &self.schema,
            ignore_nulls: self.ignores_nulls,
            order_bys: &[],
            is_reversed: false,
            name: &self.name,
            is_distinct: false,
            exprs: &self.exprs,
            expr_fields: &self.fields,
        })
    }

    /// Its value for each row.
    pub fn values(&self, spec: &FrameSpec, partition: &Partition, arguments: &[ArrayRef]) -> Result<ArrayRef> {
        if partition.frames.is_empty() {
            return Ok(new_empty_array(self.return_field.data_type()));
        }
        let values = match partition.is_ordered || spec.is_distinct {
            true => self.by_rows(spec, partition, arguments)?,
            false => self.by_ranges(partition, arguments)?,
        };
        ScalarValue::iter_to_array(values)
    }

    /// Anew for each frame, from its rows in their order, equal ones once.
    fn by_rows(&self, spec: &FrameSpec, partition: &Partition, arguments: &[ArrayRef]) -> Result<Vec<ScalarValue>> {
        let equal = if spec.is_distinct { Some(numbered(arguments, partition.frames.len())?) } else { None };
        let mut values: Vec<ScalarValue> = Vec::with_capacity(partition.frames.len());
        for row in 0..partition.frames.len() {
            if row > 0 && partition.kept_pieces(row) == partition.kept_pieces(row - 1) {
                values.push(values[row - 1].clone());
                continue;
            }
            let mut rows = partition.rows(row);
            if let Some(equal) = &equal {
                let mut seen = HashSet::new();
                rows.retain(|row| seen.insert(equal[*row]));
            }
            let rows = UInt64Array::from_iter_values(rows.into_iter().map(|row| row as u64));
            let taken = arguments.iter().map(|column| take(column, &rows, None));
            let mut state = self.state()?;
            if !rows.is_empty() {
                state.update_batch(&taken.collect::<std::result::Result<Vec<_>, _>>()?)?;
            }
            values.push(state.evaluate()?);
        }
        Ok(values)
    }

    /// As long as frames only grow, from one state; else anew.
    fn by_ranges(&self, partition: &Partition, arguments: &[ArrayRef]) -> Result<Vec<ScalarValue>> {
        let kept = UInt64Array::from_iter_values(partition.kept.iter().map(|row| *row as u64));
        let columns =
            arguments.iter().map(|column| take(column, &kept, None)).collect::<std::result::Result<Vec<_>, _>>()?;
        let add = |state: &mut Box<dyn Accumulator>, start: usize, end: usize| match start < end {
            true => state.update_batch(&columns.iter().map(|c| c.slice(start, end - start)).collect::<Vec<_>>()),
            false => Ok(()),
        };
        let mut values: Vec<ScalarValue> = Vec::with_capacity(partition.frames.len());
        let mut state = self.state()?;
        let mut covered = 0..0;
        let mut last: Option<Vec<(usize, usize)>> = None;
        for row in 0..partition.frames.len() {
            let pieces: Vec<(usize, usize)> =
                joined(partition.kept_pieces(row).into_iter().filter(|piece| !piece.is_empty()));
            if last.as_ref() == Some(&pieces) {
                values.push(values[row - 1].clone());
                continue;
            }
            match pieces.as_slice() {
                [(start, end)] if !covered.is_empty() && *start == covered.start && *end >= covered.end => {
                    add(&mut state, covered.end, *end)?;
                    covered.end = *end;
                }
                _ => {
                    state = self.state()?;
                    for (start, end) in &pieces {
                        add(&mut state, *start, *end)?;
                    }
                    covered = match pieces.as_slice() {
                        [(start, end)] => *start..*end,
                        _ => 0..0,
                    };
                }
            }
            values.push(state.evaluate()?);
            last = Some(pieces);
        }
        Ok(values)
    }
}

/// Ranges of which none begins where the one before it ends.
fn joined(pieces: impl Iterator<Item = std::ops::Range<usize>>) -> Vec<(usize, usize)> {
    let mut out: Vec<(usize, usize)> = Vec::new();
    for piece in pieces {
        match out.last_mut() {
            Some(last) if last.1 == piece.start => last.1 = piece.end,
            _ => out.push((piece.start, piece.end)),
        }
    }
    out
}

/// A number for each row, the same where the arguments are equal.
fn numbered(arguments: &[ArrayRef], rows: usize) -> Result<Vec<usize>> {
    if arguments.is_empty() {
        return Ok(vec![0; rows]);
    }
    let values = as_rows(arguments)?;
    let mut known = HashMap::new();
    let number = |row: usize| {
        let next = known.len();
        *known.entry(values.row(row).owned()).or_insert(next)
    };
    Ok((0..rows).map(number).collect())
}
