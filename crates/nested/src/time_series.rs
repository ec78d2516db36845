//! `range()` and `generate_series()` of dates and timestamps, which give timestamps. Of integers they are DataFusion's.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch, TimestampMicrosecondArray};
use datafusion::arrow::compute::kernels::numeric;
use datafusion::arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use datafusion::catalog::{MemTable, TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::{Result, ScalarValue};
use datafusion::execution::SessionState;
use datafusion::logical_expr::Expr;
use forebay_base::Error;

use forebay_context::error::into_datafusion;
use forebay_context::intervals;
use forebay_functions::casts::cast_scalar;

/// Rows of a series at most: it is made at once.
const MOST_ROWS: usize = 1 << 24;

/// Puts the functions around DataFusion's.
pub fn register(state: &mut SessionState) {
    for (name, has_end) in [("range", false), ("generate_series", true)] {
        if let Some(function) = state.table_functions().get(name).cloned() {
            let integers = Arc::clone(function.function());
            state.register_udtf(name, Arc::new(Series { name, has_end, integers }));
        }
    }
}

#[derive(Debug)]
struct Series {
    name: &'static str,
    /// Whether the end is part of it.
    has_end: bool,
    integers: Arc<dyn TableFunctionImpl>,
}

impl TableFunctionImpl for Series {
    fn call_with_args(&self, args: TableFunctionArgs<'_, '_>) -> Result<Arc<dyn TableProvider>> {
        let moments = match args.exprs() {
            [Expr::Literal(start, _), Expr::Literal(end, _), Expr::Literal(step, _)]
                if matches!(step, ScalarValue::IntervalMonthDayNano(_)) =>
            {
                self.moments(start, end, step)?
            }
            _ => return self.integers.call_with_args(args),
        };
        let schema = Arc::new(Schema::new(vec![Field::new("value", moment_type(), false)]));
        let values: ArrayRef = Arc::new(TimestampMicrosecondArray::from(moments));
        let batch = RecordBatch::try_new(Arc::clone(&schema), vec![values])?;
        Ok(Arc::new(MemTable::try_new(schema, vec![vec![batch]])?))
    }
}

fn moment_type() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, None)
}

impl Series {
    /// From `start` on, `step` by `step`; nothing where one of them is NULL.
    fn moments(&self, start: &ScalarValue, end: &ScalarValue, step: &ScalarValue) -> Result<Vec<i64>> {
        let refused =
            |text: String, hint: &str| into_datafusion(Error::input(format!("{}: {text}", self.name)).hint(hint));
        let bound = |value: &ScalarValue| match cast_scalar(value, &moment_type())? {
            ScalarValue::TimestampMicrosecond(moment, _) => Ok::<_, datafusion::common::DataFusionError>(moment),
            _ => Ok(None),
        };
        let (Some(first), Some(last), ScalarValue::IntervalMonthDayNano(Some(length))) =
            (bound(start)?, bound(end)?, step)
        else {
            return Ok(Vec::new());
        };
        let direction = intervals::length(*length).signum();
        if direction == 0 {
            return Err(refused("the step is no time at all".to_owned(), "Use an interval such as INTERVAL '1 day'"));
        }
        let step = step.to_array()?;
        let mut moments = Vec::new();
        let mut next = first;
        let is_inside = |moment: i64| match direction > 0 {
            _ if moment == last => self.has_end,
            true => moment < last,
            false => moment > last,
        };
        while is_inside(next) {
            if moments.len() == MOST_ROWS {
                return Err(refused(
                    format!("more than {MOST_ROWS} rows"),
                    "Use a longer step, or range() of integers",
                ));
            }
            moments.push(next);
            let current: ArrayRef = Arc::new(TimestampMicrosecondArray::from(vec![next]));
            let ScalarValue::TimestampMicrosecond(Some(after), _) =
                ScalarValue::try_from_array(&numeric::add(&current, &step)?, 0)?
            else {
                break;
            };
            // Of months and days with different signs some steps may lead back.
            if (after - next).signum() != direction as i64 {
                break;
            }
            next = after;
        }
        Ok(moments)
    }
}
