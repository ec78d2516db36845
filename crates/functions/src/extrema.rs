//! `min` and `max` of floats in the order of `forebay_base::compare_floats`: NaN above all numbers and equal to itself,
//! -0 equal to 0. DataFusion's grouped accumulators let a NaN replace whatever stands there; here floats are mapped to
//! integers of the same order, and the integers' accumulators do the work. Intervals, structs and maps are compared
//! as [`row_extrema`](crate::row_extrema) says. All other types are DataFusion's own.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, BooleanArray};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Float32Type, Float64Type, Int64Type};
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::functions_aggregate::min_max::{max_udaf, min_udaf};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, EmitTo, GroupsAccumulator, ReversedUDAF,
    SetMonotonicity, Signature, StatisticsArgs,
};
use forebay_base::canonical_f64;

use crate::row_extrema::{RowExtremum, is_by_row};

/// `min` and `max` as Forebay means them.
pub fn functions() -> [Arc<AggregateUDF>; 2] {
    [min_udaf(), max_udaf()].map(|inner| Arc::new(AggregateUDF::from(Extremum { inner })))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Extremum {
    inner: Arc<AggregateUDF>,
}

impl AggregateUDFImpl for Extremum {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(types)
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let data_type = args.return_field.data_type();
        match is_by_row(data_type) {
            true => Ok(Box::new(RowExtremum::new(data_type, self.name() == "min")?)),
            false => self.inner.accumulator(args),
        }
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        self.inner.state_fields(args)
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        !is_by_row(args.return_field.data_type()) && self.inner.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn GroupsAccumulator>> {
        let data_type = args.return_field.data_type().clone();
        if !matches!(data_type, DataType::Float32 | DataType::Float64) {
            return self.inner.create_groups_accumulator(args);
        }
        let integers = Arc::new(Field::new(args.return_field.name(), DataType::Int64, true));
        let inner = self.inner.create_groups_accumulator(AccumulatorArgs { return_field: integers, ..args })?;
        Ok(Box::new(FloatExtremum { inner, data_type }))
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        self.inner.create_sliding_accumulator(args)
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(types)
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        self.inner.order_sensitivity()
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }

    fn is_descending(&self) -> Option<bool> {
        self.inner.is_descending()
    }

    fn value_from_stats(&self, args: &StatisticsArgs<'_>) -> Option<ScalarValue> {
        self.inner.value_from_stats(args)
    }

    fn set_monotonicity(&self, data_type: &DataType) -> SetMonotonicity {
        self.inner.inner().set_monotonicity(data_type)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }
}

/// The extremum per group of floats, as integers.
struct FloatExtremum {
    inner: Box<dyn GroupsAccumulator>,
    data_type: DataType,
}

/// A float's place in the order of floats.
fn rank(value: f64) -> i64 {
    let bits = canonical_f64(value).to_bits() as i64;
    bits ^ flip(bits)
}

/// The inverse of [`rank`].
fn value_of_rank(rank: i64) -> f64 {
    f64::from_bits((rank ^ flip(rank)) as u64)
}

/// Negative floats grow with their magnitude's bits, so those are turned around.
fn flip(bits: i64) -> i64 {
    (((bits >> 63) as u64) >> 1) as i64
}

impl FloatExtremum {
    fn ranks(&self, values: &[ArrayRef]) -> Result<Vec<ArrayRef>> {
        let [values] = values else { return internal_err!("min and max take one argument") };
        Ok(vec![match self.data_type {
            DataType::Float32 => {
                Arc::new(values.as_primitive::<Float32Type>().unary::<_, Int64Type>(|value| rank(f64::from(value))))
            }
            _ => Arc::new(values.as_primitive::<Float64Type>().unary::<_, Int64Type>(rank)),
        }])
    }

    fn values(&self, ranks: &ArrayRef) -> ArrayRef {
        let ranks = ranks.as_primitive::<Int64Type>();
        match self.data_type {
            DataType::Float32 => Arc::new(ranks.unary::<_, Float32Type>(|rank| value_of_rank(rank) as f32)),
            _ => Arc::new(ranks.unary::<_, Float64Type>(value_of_rank)),
        }
    }
}

impl GroupsAccumulator for FloatExtremum {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        group_count: usize,
    ) -> Result<()> {
        self.inner.update_batch(&self.ranks(values)?, groups, filter, group_count)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let ranks = self.inner.evaluate(emit_to)?;
        Ok(self.values(&ranks))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let ranks = self.inner.state(emit_to)?;
        Ok(ranks.iter().map(|ranks| self.values(ranks)).collect())
    }

    fn merge_batch(&mut self, values: &[ArrayRef], groups: &[usize], group_count: usize) -> Result<()> {
        self.inner.merge_batch(&self.ranks(values)?, groups, group_count)
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let ranks = self.inner.convert_to_state(&self.ranks(values)?, filter)?;
        Ok(ranks.iter().map(|ranks| self.values(ranks)).collect())
    }

    fn size(&self) -> usize {
        self.inner.size()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_base::compare_floats;

    #[test]
    fn ranks_have_the_order_of_floats() {
        let values =
            [f64::NEG_INFINITY, f64::MIN, -1.5, -f64::MIN_POSITIVE, -0.0, 0.0, 5e-324, 1.0, f64::INFINITY, f64::NAN];
        for a in values {
            assert_eq!(compare_floats(value_of_rank(rank(a)), a), std::cmp::Ordering::Equal, "{a}");
            for b in values.into_iter().chain([-f64::NAN]) {
                assert_eq!(rank(a).cmp(&rank(b)), compare_floats(a, b), "{a} {b}");
            }
        }
    }
}
