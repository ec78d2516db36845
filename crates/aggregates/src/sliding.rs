//! Aggregates over frames that rows leave at their start, computed anew from the rows of each frame: those of which DataFusion's
//! have no state from which rows can be taken (`string_agg`, `median`, sums of distinct values), or lose digits by it, so that
//! a variance becomes negative. Sums and averages of floats are those of [`FloatFrame`]. Other frames and groups are DataFusion's
//! own, but for [`crate::distinct_lists`] and [`crate::approximate_counts`].

use std::collections::VecDeque;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef};
use datafusion::arrow::compute::concat;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Schema};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::expr::{AggregateFunctionParams, WindowFunctionParams};
use datafusion::logical_expr::function::{AccumulatorArgs, AggregateFunctionSimplification, StateFieldsArgs};
use datafusion::logical_expr::type_coercion::functions::fields_with_udf;
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, GroupsAccumulator, ReversedUDAF, SetMonotonicity,
    Signature, StatisticsArgs,
};
use datafusion::physical_expr::{PhysicalExpr, PhysicalSortExpr};

use crate::approximate_counts::of_floats;
use crate::distinct_lists::in_any_order;
use crate::float_frames::FloatFrame;

/// Aggregates whose frames are all DataFusion's own, by their names.
const RETRACTED: [&str; 5] = ["count", "first_value", "grouping", "last_value", "nth_value"];

/// Aggregates whose frames are, but for lists and structs, which have an order of our own.
const EXTREMA: [&str; 2] = ["max", "min"];

/// Aggregates of which rows are taken from the state, unless their values are distinct.
const SUMS: [&str; 2] = ["avg", "sum"];

/// Aggregates of which DataFusion's need their rows in the order that the call asks for.
const ORDERED: [&str; 1] = ["string_agg"];

/// Aggregates with the frames that this module is for.
pub fn functions(aggregates: &[Arc<AggregateUDF>]) -> Vec<Arc<AggregateUDF>> {
    let is_one = |function: &&Arc<AggregateUDF>| !RETRACTED.contains(&function.name());
    let anew = |inner: &Arc<AggregateUDF>| {
        let signature = match inner.name() {
            "sum" => Signature::user_defined(inner.signature().volatility),
            _ => inner.signature().clone(),
        };
        Arc::new(AggregateUDF::from(Anew { inner: of_floats(in_any_order(inner)), signature }))
    };
    aggregates.iter().filter(is_one).map(anew).collect()
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Anew {
    inner: Arc<AggregateUDF>,
    signature: Signature,
}

impl Anew {
    /// Whether it puts rows in the order that the call asks for by itself.
    fn sorts(&self) -> bool {
        self.inner.order_sensitivity() == AggregateOrderSensitivity::SoftRequirement
    }
}

/// Whether values of a type are added up without a cast.
fn is_summed_as_it_is(data_type: &DataType) -> bool {
    use DataType::{Decimal32, Decimal64, Decimal128, Decimal256, Float64, Int64, UInt64};
    matches!(data_type, Int64 | UInt64 | Float64 | Decimal32(..) | Decimal64(..) | Decimal128(..) | Decimal256(..))
}

/// The types in which DataFusion's sum adds up.
fn summed(sum: &AggregateUDF, types: &[DataType]) -> Result<Vec<DataType>> {
    let field = |data_type: &DataType| Arc::new(Field::new("", data_type.clone(), true));
    let fields: Vec<FieldRef> = types.iter().map(field).collect();
    let fields = fields_with_udf(&fields, sum)?;
    Ok(fields.iter().map(|field| field.data_type().clone()).collect())
}

impl AggregateUDFImpl for Anew {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn schema_name(&self, params: &AggregateFunctionParams) -> Result<String> {
        self.inner.schema_name(params)
    }

    fn human_display(&self, params: &AggregateFunctionParams) -> Result<String> {
        self.inner.human_display(params)
    }

    fn window_function_schema_name(&self, params: &WindowFunctionParams) -> Result<String> {
        self.inner.window_function_schema_name(params)
    }

    fn display_name(&self, params: &AggregateFunctionParams) -> Result<String> {
        self.inner.display_name(params)
    }

    fn window_function_display_name(&self, params: &WindowFunctionParams) -> Result<String> {
        self.inner.window_function_display_name(params)
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    /// A sum of truth values is how many are true.
    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match types {
            _ if self.name() != "sum" => self.inner.coerce_types(types),
            [DataType::Boolean | DataType::Null] => Ok(vec![DataType::Int64]),
            // Without the long way to find that out: plans ask again and again.
            [only] if is_summed_as_it_is(only) => Ok(types.to_vec()),
            _ => summed(&self.inner, types),
        }
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(types)
    }

    fn return_field(&self, fields: &[FieldRef]) -> Result<FieldRef> {
        self.inner.return_field(fields)
    }

    fn is_nullable(&self) -> bool {
        self.inner.is_nullable()
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        self.inner.accumulator(args)
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        self.inner.state_fields(args)
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        self.inner.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn GroupsAccumulator>> {
        self.inner.create_groups_accumulator(args)
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        if EXTREMA.contains(&self.name()) && !args.return_type().is_nested() {
            return self.inner.create_sliding_accumulator(args);
        }
        if args.is_distinct || !SUMS.contains(&self.name()) {
            return Ok(Box::new(Frame::new(Arc::clone(&self.inner), &args)));
        }
        match FloatFrame::of(self.name(), &args) {
            Some(frame) => Ok(Box::new(frame)),
            None => self.inner.create_sliding_accumulator(args),
        }
    }

    /// Who puts rows in order does so in any case: that rows come in the opposite order is told as if they came in this one.
    fn with_beneficial_ordering(self: Arc<Self>, is_beneficial: bool) -> Result<Option<Arc<dyn AggregateUDFImpl>>> {
        let is_told = is_beneficial && !self.sorts();
        let ordered = self.inner.as_ref().clone().with_beneficial_ordering(is_told)?;
        let signature = self.signature.clone();
        Ok(ordered.map(|inner| Arc::new(Self { inner: Arc::new(inner), signature }) as Arc<dyn AggregateUDFImpl>))
    }

    /// None asks for an order of its input where it can do without: what stands beside it would get its rows in that order, too.
    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        match self.inner.order_sensitivity() {
            AggregateOrderSensitivity::SoftRequirement => AggregateOrderSensitivity::Beneficial,
            AggregateOrderSensitivity::HardRequirement if !ORDERED.contains(&self.name()) => {
                AggregateOrderSensitivity::Insensitive
            }
            other => other,
        }
    }

    fn simplify(&self) -> Option<AggregateFunctionSimplification> {
        self.inner.simplify()
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        match self.sorts() {
            true => ReversedUDAF::NotSupported,
            false => self.inner.reverse_udf(),
        }
    }

    fn is_descending(&self) -> Option<bool> {
        self.inner.is_descending()
    }

    fn value_from_stats(&self, args: &StatisticsArgs<'_>) -> Option<ScalarValue> {
        self.inner.value_from_stats(args)
    }

    fn default_value(&self, data_type: &DataType) -> Result<ScalarValue> {
        self.inner.default_value(data_type)
    }

    fn supports_null_handling_clause(&self) -> bool {
        self.inner.supports_null_handling_clause()
    }

    fn supports_within_group_clause(&self) -> bool {
        self.inner.supports_within_group_clause()
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }

    fn set_monotonicity(&self, data_type: &DataType) -> SetMonotonicity {
        self.inner.inner().set_monotonicity(data_type)
    }
}

/// The rows of a frame, and how a state is made for them.
#[derive(Debug)]
struct Frame {
    function: Arc<AggregateUDF>,
    rows: VecDeque<Vec<ArrayRef>>,
    return_field: FieldRef,
    schema: Schema,
    ignore_nulls: bool,
    order_bys: Vec<PhysicalSortExpr>,
    is_reversed: bool,
    name: String,
    is_distinct: bool,
    exprs: Vec<Arc<dyn PhysicalExpr>>,
    expr_fields: Vec<FieldRef>,
}

impl Frame {
    fn new(function: Arc<AggregateUDF>, args: &AccumulatorArgs<'_>) -> Self {
        Self {
            function,
            rows: VecDeque::new(),
            return_field: Arc::clone(&args.return_field),
            schema: args.schema.clone(),
            ignore_nulls: args.ignore_nulls,
            order_bys: args.order_bys.to_vec(),
            is_reversed: args.is_reversed,
            name: args.name.to_owned(),
            is_distinct: args.is_distinct,
            exprs: args.exprs.to_vec(),
            expr_fields: args.expr_fields.to_vec(),
        }
    }

    /// A state of the rows that are in the frame.
    fn accumulated(&mut self) -> Result<Box<dyn Accumulator>> {
        self.unite()?;
        let mut state = self.function.accumulator(AccumulatorArgs {
            return_field: Arc::clone(&self.return_field),
            schema: &self.schema,
            ignore_nulls: self.ignore_nulls,
            order_bys: &self.order_bys,
            is_reversed: self.is_reversed,
            name: &self.name,
            is_distinct: self.is_distinct,
            exprs: &self.exprs,
            expr_fields: &self.expr_fields,
        })?;
        if let Some(columns) = self.rows.front() {
            state.update_batch(columns)?;
        }
        Ok(state)
    }

    /// Puts all rows into one batch, so that the next frame copies few pieces.
    fn unite(&mut self) -> Result<()> {
        let Some(first) = self.rows.front().filter(|_| self.rows.len() > 1) else { return Ok(()) };
        let column = |index: usize| {
            let parts: Vec<&dyn Array> = self.rows.iter().map(|columns| columns[index].as_ref()).collect();
            concat(&parts)
        };
        let columns: Vec<ArrayRef> = (0..first.len()).map(column).collect::<std::result::Result<_, _>>()?;
        self.rows = VecDeque::from([columns]);
        Ok(())
    }
}

impl Accumulator for Frame {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        if values.first().is_some_and(|first| !first.is_empty()) {
            self.rows.push_back(values.to_vec());
        }
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let mut left = values.first().map_or(0, |first| first.len());
        while left > 0 {
            let Some(first) = self.rows.front_mut() else { break };
            let count = first[0].len();
            if count <= left {
                self.rows.pop_front();
                left -= count;
            } else {
                first.iter_mut().for_each(|column| *column = column.slice(left, count - left));
                left = 0;
            }
        }
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.accumulated()?.evaluate()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.accumulated()?.state()
    }

    fn merge_batch(&mut self, _states: &[ArrayRef]) -> Result<()> {
        datafusion::common::internal_err!("the states of frames are not merged")
    }

    fn size(&self) -> usize {
        let bytes =
            |columns: &Vec<ArrayRef>| columns.iter().map(|column| column.get_array_memory_size()).sum::<usize>();
        size_of::<Self>() + self.rows.iter().map(bytes).sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::functions_aggregate::sum::sum_udaf;

    #[test]
    fn what_is_summed_as_it_is_needs_no_cast() {
        use DataType::{Decimal32, Decimal64, Decimal128, Decimal256, Float32, Float64, Int32, Int64, UInt32, UInt64};
        let kept = [
            Int64,
            UInt64,
            Float64,
            Decimal32(9, 2),
            Decimal64(18, 3),
            Decimal128(15, 2),
            Decimal128(38, 4),
            Decimal256(38, 4),
        ];
        for data_type in kept {
            assert!(is_summed_as_it_is(&data_type), "{data_type}");
            assert_eq!(summed(&sum_udaf(), std::slice::from_ref(&data_type)).expect("a sum"), [data_type]);
        }
        for data_type in [Int32, UInt32, Float32] {
            assert!(!is_summed_as_it_is(&data_type), "{data_type}");
            assert_ne!(summed(&sum_udaf(), std::slice::from_ref(&data_type)).expect("a sum"), [data_type]);
        }
    }
}
