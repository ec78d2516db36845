//! `lag` and `lead`: the value of a row so many rows before or behind. The distance and the value where there is no such row may
//! differ from row to row; where NULLs are ignored, rows with NULL are not counted.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, new_null_array};
use datafusion::arrow::compute::interleave;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Int64Type};
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::function::{PartitionEvaluatorArgs, WindowUDFFieldArgs};
use datafusion::logical_expr::{LimitEffect, PartitionEvaluator, Signature, Volatility, WindowUDF, WindowUDFImpl};
use datafusion::physical_expr::PhysicalExpr;

use forebay_functions::function::refused;

/// Both of them.
pub fn functions() -> [Arc<WindowUDF>; 2] {
    [("lag", -1), ("lead", 1)].map(|(name, direction)| {
        let signature = Signature::user_defined(Volatility::Immutable);
        Arc::new(WindowUDF::from(Neighbour { name, direction, signature }))
    })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Neighbour {
    name: &'static str,
    /// Towards which side rows are counted.
    direction: i64,
    signature: Signature,
}

impl WindowUDFImpl for Neighbour {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match types {
            [value] => Ok(vec![value.clone()]),
            [value, _] => Ok(vec![value.clone(), DataType::Int64]),
            [DataType::Null, _, default] => Ok(vec![default.clone(), DataType::Int64, default.clone()]),
            [value, _, _] => Ok(vec![value.clone(), DataType::Int64, value.clone()]),
            _ => Err(refused(format!("{} takes one to three arguments", self.name), "Write lag(x, 1, 0)")),
        }
    }

    fn partition_evaluator(&self, args: PartitionEvaluatorArgs<'_>) -> Result<Box<dyn PartitionEvaluator>> {
        Ok(Box::new(Neighbours { direction: self.direction, ignores_nulls: args.ignore_nulls() }))
    }

    fn field(&self, args: WindowUDFFieldArgs<'_>) -> Result<FieldRef> {
        let data_type = args.get_input_field(0).map_or(DataType::Null, |field| field.data_type().clone());
        Ok(Arc::new(Field::new(args.name(), data_type, true)))
    }

    /// Rows behind the last one that is asked for may be looked at.
    fn limit_effect(&self, _args: &[Arc<dyn PhysicalExpr>]) -> LimitEffect {
        LimitEffect::Unknown
    }
}

#[derive(Debug)]
struct Neighbours {
    direction: i64,
    ignores_nulls: bool,
}

impl PartitionEvaluator for Neighbours {
    fn evaluate_all(&mut self, values: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        let Some(column) = values.first() else { return internal_err!("lag and lead take a value") };
        let distances = values.get(1).map(|distances| distances.as_primitive::<Int64Type>());
        let missing = new_null_array(column.data_type(), 1);
        // Rows that are counted, in their order, and how many of them are before each row.
        let counted: Vec<usize> = (0..rows).filter(|row| !self.ignores_nulls || column.is_valid(*row)).collect();
        let mut before = 0;
        let mut places = Vec::with_capacity(rows);
        for row in 0..rows {
            let is_counted = counted.get(before) == Some(&row);
            let distance = match distances {
                Some(distances) if distances.is_null(row) => None,
                Some(distances) => distances.value(row).checked_mul(self.direction),
                None => Some(self.direction),
            };
            let found = distance.and_then(|distance| match distance {
                0 => Some(row),
                // A row that is not counted stands between two that are.
                1.. => before
                    .checked_add(distance as usize - usize::from(!is_counted))
                    .and_then(|at| counted.get(at).copied()),
                _ => before
                    .checked_sub(usize::try_from(distance.unsigned_abs()).ok()?)
                    .and_then(|at| counted.get(at).copied()),
            });
            places.push(match (found, distance) {
                (Some(found), _) => (0, found),
                (None, None) => (1, 0),
                (None, Some(_)) => {
                    if values.len() > 2 {
                        (2, row)
                    } else {
                        (1, 0)
                    }
                }
            });
            before += usize::from(is_counted);
        }
        let sources: Vec<&dyn Array> = match values.get(2) {
            Some(defaults) => vec![column.as_ref(), missing.as_ref(), defaults.as_ref()],
            None => vec![column.as_ref(), missing.as_ref()],
        };
        Ok(interleave(&sources, &places)?)
    }

    fn supports_bounded_execution(&self) -> bool {
        false
    }

    fn uses_window_frame(&self) -> bool {
        false
    }
}
