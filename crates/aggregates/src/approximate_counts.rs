//! `approx_count_distinct` of floats, whose kind of sketch DataFusion lacks: they are counted by their bits, of which equal floats have
//! the same.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, BooleanArray};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Float32Type, Float64Type, Int32Type, Int64Type};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, EmitTo, GroupsAccumulator, Signature,
};

/// The aggregate that counts roughly.
const COUNT: &str = "approx_distinct";

/// An aggregate that knows floats, if it is the one that counts roughly.
pub fn of_floats(function: Arc<AggregateUDF>) -> Arc<AggregateUDF> {
    match function.name() {
        COUNT => Arc::new(AggregateUDF::from(Counts { inner: function })),
        _ => function,
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Counts {
    inner: Arc<AggregateUDF>,
}

/// The fields of what is counted in place of floats.
fn counted(fields: &[FieldRef]) -> Vec<FieldRef> {
    let counted = |field: &FieldRef| {
        let bits = match field.data_type() {
            DataType::Float32 => DataType::Int32,
            DataType::Float64 => DataType::Int64,
            _ => return Arc::clone(field),
        };
        Arc::new(Field::new(field.name(), bits, field.is_nullable()))
    };
    fields.iter().map(counted).collect()
}

/// The bits of floats, of which there is one zero and one NaN; other values as they are.
fn bits(values: &[ArrayRef]) -> Vec<ArrayRef> {
    let bits = |column: &ArrayRef| -> ArrayRef {
        match column.data_type() {
            DataType::Float32 => {
                let canonical = |value: f32| if value.is_nan() { f32::NAN } else { value + 0.0 };
                let floats = column.as_primitive::<Float32Type>();
                Arc::new(floats.unary::<_, Int32Type>(|value| canonical(value).to_bits().cast_signed()))
            }
            DataType::Float64 => {
                let canonical = |value: f64| if value.is_nan() { f64::NAN } else { value + 0.0 };
                let floats = column.as_primitive::<Float64Type>();
                Arc::new(floats.unary::<_, Int64Type>(|value| canonical(value).to_bits().cast_signed()))
            }
            _ => Arc::clone(column),
        }
    };
    values.iter().map(bits).collect()
}

impl AggregateUDFImpl for Counts {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
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

    fn default_value(&self, data_type: &DataType) -> Result<ScalarValue> {
        self.inner.default_value(data_type)
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let fields = counted(args.expr_fields);
        Ok(Box::new(OfBits(self.inner.accumulator(AccumulatorArgs { expr_fields: &fields, ..args })?)))
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let fields = counted(args.input_fields);
        self.inner.state_fields(StateFieldsArgs { input_fields: &fields, ..args })
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        let fields = counted(args.expr_fields);
        self.inner.groups_accumulator_supported(AccumulatorArgs { expr_fields: &fields, ..args })
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn GroupsAccumulator>> {
        let fields = counted(args.expr_fields);
        let inner = self.inner.create_groups_accumulator(AccumulatorArgs { expr_fields: &fields, ..args })?;
        Ok(Box::new(GroupsOfBits(inner)))
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }
}

/// A state of the bits of what it is given.
#[derive(Debug)]
struct OfBits(Box<dyn Accumulator>);

impl Accumulator for OfBits {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.0.update_batch(&bits(values))
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.0.merge_batch(states)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.0.evaluate()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.0.state()
    }

    fn size(&self) -> usize {
        self.0.size()
    }
}

/// The states of groups, likewise.
struct GroupsOfBits(Box<dyn GroupsAccumulator>);

impl GroupsAccumulator for GroupsOfBits {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        count: usize,
    ) -> Result<()> {
        self.0.update_batch(&bits(values), groups, filter, count)
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], count: usize) -> Result<()> {
        self.0.merge_batch(states, groups, count)
    }

    fn evaluate(&mut self, emit: EmitTo) -> Result<ArrayRef> {
        self.0.evaluate(emit)
    }

    fn state(&mut self, emit: EmitTo) -> Result<Vec<ArrayRef>> {
        self.0.state(emit)
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        self.0.convert_to_state(&bits(values), filter)
    }

    fn size(&self) -> usize {
        self.0.size()
    }
}
