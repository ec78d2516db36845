//! The bits of HUGEINTs of many rows, in two's complement.

use std::collections::HashSet;
use std::mem::size_of_val;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, Decimal128Array};
use datafusion::arrow::datatypes::{DataType, Decimal128Type};
use datafusion::common::utils::SingleRowListArrayBuilder;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::Accumulator;
use forebay_base::Error;
use forebay_context::error::into_datafusion;

use crate::bits::digits::Combination;

/// The type of their values.
pub(super) const HUGEINT: DataType = DataType::Decimal128(38, 0);

/// The greatest value of it.
const MOST_HUGEINT: i128 = 10_i128.pow(38) - 1;

/// Whether this is the type of HUGEINTs.
pub(super) fn is_huge(data_type: &DataType) -> bool {
    *data_type == HUGEINT
}

/// The bits of all rows so far.
#[derive(Debug)]
pub(super) struct HugeBits {
    how: Combination,
    found: Option<i128>,
    /// All values, where equal ones count once: they would cancel each other.
    different: Option<HashSet<i128>>,
}

impl HugeBits {
    /// Of no rows.
    pub(super) fn of(how: Combination, is_distinct: bool) -> Self {
        let different = (is_distinct && how == Combination::ExclusiveOr).then(HashSet::new);
        Self { how, found: None, different }
    }

    fn add(&mut self, values: &ArrayRef) {
        for value in values.as_primitive::<Decimal128Type>().iter().flatten() {
            if self.different.as_mut().is_some_and(|different| !different.insert(value)) {
                continue;
            }
            self.found = Some(match (self.found, self.how) {
                (None, _) => value,
                (Some(found), Combination::And) => found & value,
                (Some(found), Combination::Or) => found | value,
                (Some(found), Combination::ExclusiveOr) => found ^ value,
            });
        }
    }
}

impl Accumulator for HugeBits {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.add(&values[0]);
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        states[0].as_list::<i32>().iter().flatten().for_each(|values| self.add(&values));
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        match self.found {
            Some(found) if !(-MOST_HUGEINT..=MOST_HUGEINT).contains(&found) => {
                let error = Error::input(format!("the bits of {found} are those of no HUGEINT"));
                Err(into_datafusion(error.hint("A HUGEINT has 38 digits")))
            }
            found => Ok(ScalarValue::Decimal128(found, 38, 0)),
        }
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let values = match &self.different {
            Some(different) => different.iter().copied().map(Some).collect::<Decimal128Array>(),
            None => self.found.into_iter().map(Some).collect(),
        };
        let values: ArrayRef = Arc::new(values.with_data_type(HUGEINT));
        Ok(vec![SingleRowListArrayBuilder::new(values).build_list_scalar()])
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.different.as_ref().map_or(0, |different| different.capacity() * size_of::<i128>())
    }
}
