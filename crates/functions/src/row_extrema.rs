//! The least and the greatest of intervals, by their length, and of structs and maps, by their fields and entries in turn, where NULL
//! is the greatest. DataFusion goes by the integers that an interval is stored as, keeps the first struct, and compares no maps.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef};
use datafusion::arrow::compute::SortOptions;
use datafusion::arrow::datatypes::DataType;
use datafusion::arrow::row::{OwnedRow, RowConverter, SortField};
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::Accumulator;

use crate::interval_lengths::{INTERVAL, lengths};

/// Whether values of a type are compared here.
pub fn is_by_row(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Interval(_) | DataType::Struct(_) | DataType::Map(..))
}

/// The least or the greatest value so far.
#[derive(Debug)]
pub struct RowExtremum {
    is_least: bool,
    converter: RowConverter,
    best: Option<OwnedRow>,
    value: ScalarValue,
}

impl RowExtremum {
    /// Of values of this type.
    pub fn new(data_type: &DataType, is_least: bool) -> Result<Self> {
        let key = if *data_type == INTERVAL { DataType::Decimal128(38, 0) } else { data_type.clone() };
        let order = SortOptions { descending: false, nulls_first: false };
        let converter = RowConverter::new(vec![SortField::new_with_options(key, order)])?;
        Ok(Self { is_least, converter, best: None, value: ScalarValue::try_from(data_type)? })
    }
}

impl Accumulator for RowExtremum {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let [values] = values else { return internal_err!("min and max take one argument") };
        let keys = if *values.data_type() == INTERVAL { lengths(values)? } else { Arc::clone(values) };
        let rows = self.converter.convert_columns(&[keys])?;
        let valid = (0..values.len()).filter(|at| values.is_valid(*at));
        let best = match self.is_least {
            true => valid.min_by_key(|at| rows.row(*at)),
            false => valid.max_by_key(|at| rows.row(*at)),
        };
        let Some(at) = best else { return Ok(()) };
        let row = rows.row(at).owned();
        let is_better = self.best.as_ref().is_none_or(|best| if self.is_least { row < *best } else { row > *best });
        if is_better {
            self.value = ScalarValue::try_from_array(values, at)?;
            self.best = Some(row);
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(self.value.clone())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.value.clone()])
    }

    fn size(&self) -> usize {
        size_of::<Self>() + self.converter.size() + self.value.size()
    }
}
