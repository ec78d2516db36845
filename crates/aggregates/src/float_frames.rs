//! Sums and averages of floats over frames that rows leave at their start. Taken from a sum again, a row would take the digits
//! along that it hid, and an infinite one would leave NaN: so nothing is subtracted.
//!
//! The rows are in two stacks, as in a queue of two stacks (Tangwongsan and others, *General Incremental Sliding-Window
//! Aggregation*, PVLDB 2015): each row is added up twice at most, whatever the size of the frame.

use std::ops::AddAssign;

use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::datatypes::{DataType, Float64Type};
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::Accumulator;
use datafusion::logical_expr::function::AccumulatorArgs;

/// A sum, and of how many values.
#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    sum: f64,
    count: u64,
}

impl AddAssign for Sum {
    fn add_assign(&mut self, other: Self) {
        self.sum += other.sum;
        self.count += other.count;
    }
}

impl From<Option<f64>> for Sum {
    fn from(value: Option<f64>) -> Self {
        value.map_or_else(Self::default, |sum| Self { sum, count: 1 })
    }
}

/// The state of `sum` or `avg` of the rows of a frame.
#[derive(Debug)]
pub struct FloatFrame {
    is_average: bool,
    /// For each of the first rows, from the last of them to the first, the sum from it to the last of them.
    front: Vec<Sum>,
    /// The rows behind these.
    back: Vec<Sum>,
    back_sum: Sum,
}

impl FloatFrame {
    /// `None` for other functions, and for values that are no floats.
    pub fn of(function: &str, args: &AccumulatorArgs<'_>) -> Option<Self> {
        let is_float = |data_type: &DataType| *data_type == DataType::Float64;
        let is_one = matches!(args.expr_fields, [only] if is_float(only.data_type())) && is_float(args.return_type());
        let is_average = function == "avg";
        (is_one && (is_average || function == "sum")).then_some(Self::new(is_average))
    }

    fn new(is_average: bool) -> Self {
        Self { is_average, front: Vec::new(), back: Vec::new(), back_sum: Sum::default() }
    }

    fn total(&self) -> Sum {
        let mut total = self.front.last().copied().unwrap_or_default();
        total += self.back_sum;
        total
    }
}

impl Accumulator for FloatFrame {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for value in values[0].as_primitive::<Float64Type>() {
            self.back.push(value.into());
            self.back_sum += value.into();
        }
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for _ in 0..values[0].len() {
            if self.front.is_empty() {
                let mut behind = Sum::default();
                for mut row in self.back.drain(..).rev() {
                    row += behind;
                    behind = row;
                    self.front.push(row);
                }
                self.back_sum = Sum::default();
            }
            self.front.pop();
        }
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let Sum { sum, count } = self.total();
        Ok(ScalarValue::Float64(match (count, self.is_average) {
            (0, _) => None,
            (_, true) => Some(sum / count as f64),
            (_, false) => Some(sum),
        }))
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        internal_err!("the states of frames are not asked for")
    }

    fn merge_batch(&mut self, _states: &[ArrayRef]) -> Result<()> {
        internal_err!("the states of frames are not merged")
    }

    fn size(&self) -> usize {
        size_of::<Self>() + (self.front.capacity() + self.back.capacity()) * size_of::<Sum>()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::array::Float64Array;

    use super::*;

    /// Every frame of `width` rows is the sum of its rows, whatever was in it before.
    #[test]
    fn nothing_is_left_of_rows_that_went() {
        let values = [
            Some(1e20),
            Some(1.0),
            None,
            Some(2.0),
            Some(f64::INFINITY),
            Some(3.0),
            Some(f64::NAN),
            Some(4.0),
            None,
            None,
        ];
        let row = |value: Option<f64>| -> ArrayRef { Arc::new(Float64Array::from(vec![value])) };
        for width in 1..=4 {
            let (mut sum, mut average) = (FloatFrame::new(false), FloatFrame::new(true));
            for end in 1..=values.len() {
                for state in [&mut sum, &mut average] {
                    state.update_batch(&[row(values[end - 1])]).expect("floats");
                    if end > width {
                        state.retract_batch(&[row(values[end - 1 - width])]).expect("a row that is there");
                    }
                }
                let frame: Vec<f64> = values[end.saturating_sub(width)..end].iter().copied().flatten().collect();
                let expected = (!frame.is_empty()).then(|| frame.iter().sum::<f64>());
                let averaged = expected.map(|sum| sum / frame.len() as f64);
                assert_eq!(sum.evaluate().expect("a sum"), ScalarValue::Float64(expected), "{width} rows up to {end}");
                assert_eq!(
                    average.evaluate().expect("an average"),
                    ScalarValue::Float64(averaged),
                    "{width} rows up to {end}"
                );
            }
        }
    }
}
