//! `avg` of integers and decimals: the exact sum over the number of rows, as DOUBLE. DataFusion's own adds integers up as floats,
//! so that `avg` of large ones depends on the order of rows, and gives decimals of four digits more. Averages of floats and of
//! anything else are DataFusion's.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Float64Array};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Float64Type, Int64Type};
use datafusion::common::{Result, ScalarValue, internal_err, plan_err};
use datafusion::functions_aggregate::average::avg_udaf;
use datafusion::functions_aggregate::count::count_udaf;
use datafusion::functions_aggregate::sum::sum_udaf;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, EmitTo, GroupsAccumulator, ReversedUDAF, Signature,
    Volatility,
};

use forebay_functions::casts::cast;

/// Digits of any integer of 32 bits, and of any of 64 bits.
const DIGITS: [u8; 2] = [10, 20];

/// Digits of a decimal up to which a sum in 16 bytes cannot overflow.
const SUMMED_DIGITS: u8 = 28;

/// `avg` as Forebay means it.
pub fn function() -> Arc<AggregateUDF> {
    let signature = Signature::user_defined(Volatility::Immutable);
    Arc::new(AggregateUDF::from(Average { inner: avg_udaf(), signature, aliases: vec!["mean".to_owned()] }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Average {
    inner: Arc<AggregateUDF>,
    signature: Signature,
    aliases: Vec<String>,
}

impl AggregateUDFImpl for Average {
    fn name(&self) -> &str {
        "avg"
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        use DataType as T;
        let [only] = types else { return plan_err!("avg takes one argument, not {}", types.len()) };
        let [digits, wide_digits] = DIGITS;
        let own = match only {
            T::Int8 | T::Int16 | T::Int32 | T::UInt8 | T::UInt16 | T::UInt32 => T::Decimal128(digits, 0),
            T::Int64 | T::UInt64 => T::Decimal128(wide_digits, 0),
            T::Decimal32(precision, scale) | T::Decimal64(precision, scale) => T::Decimal128(*precision, *scale),
            T::Decimal128(precision, scale) if *precision > SUMMED_DIGITS => T::Decimal256(*precision, *scale),
            T::Decimal128(..) | T::Decimal256(..) | T::Duration(_) => only.clone(),
            T::Null => T::Float64,
            other if other.is_floating() => T::Float64,
            other => return plan_err!("avg takes a number, not {other}"),
        };
        Ok(vec![own])
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [only] if only.is_decimal() => Ok(DataType::Float64),
            _ => self.inner.return_type(types),
        }
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        match Parts::of(&args)? {
            None => self.inner.accumulator(args),
            Some(parts) => Ok(Box::new(ExactAverage {
                sum: sum_udaf().accumulator(with_result(&args, &parts.sum))?,
                count: count_udaf().accumulator(with_result(&args, &parts.count))?,
                sum_states: parts.sum_states,
            })),
        }
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        match Parts::of(&args)? {
            None => self.inner.create_sliding_accumulator(args),
            Some(parts) => Ok(Box::new(ExactAverage {
                sum: sum_udaf().create_sliding_accumulator(with_result(&args, &parts.sum))?,
                count: count_udaf().create_sliding_accumulator(with_result(&args, &parts.count))?,
                sum_states: parts.sum_states,
            })),
        }
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        match args.input_fields {
            [only] if only.data_type().is_decimal() => state_fields(&args).map(|[sum, count]| [sum, count].concat()),
            _ => self.inner.state_fields(args),
        }
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        match Parts::of(&args) {
            Ok(Some(parts)) => {
                sum_udaf().groups_accumulator_supported(with_result(&args, &parts.sum))
                    && count_udaf().groups_accumulator_supported(with_result(&args, &parts.count))
            }
            _ => self.inner.groups_accumulator_supported(args),
        }
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn GroupsAccumulator>> {
        match Parts::of(&args)? {
            None => self.inner.create_groups_accumulator(args),
            Some(parts) => Ok(Box::new(ExactAverages {
                sum: sum_udaf().create_groups_accumulator(with_result(&args, &parts.sum))?,
                count: count_udaf().create_groups_accumulator(with_result(&args, &parts.count))?,
                sum_states: parts.sum_states,
            })),
        }
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        self.inner.order_sensitivity()
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }
}

/// What an average of decimals is made of.
struct Parts {
    sum: FieldRef,
    count: FieldRef,
    /// States of the sum; those of the count follow.
    sum_states: usize,
}

impl Parts {
    /// `None` where the argument is no decimal.
    fn of(args: &AccumulatorArgs<'_>) -> Result<Option<Self>> {
        let [field] = args.expr_fields else { return Ok(None) };
        if !field.data_type().is_decimal() {
            return Ok(None);
        }
        let sum = sum_field(field)?;
        let states = StateFieldsArgs {
            name: args.name,
            input_fields: args.expr_fields,
            return_field: Arc::clone(&sum),
            ordering_fields: &[],
            is_distinct: args.is_distinct,
        };
        let sum_states = sum_udaf().state_fields(states)?.len();
        Ok(Some(Self { sum, count: count_field(), sum_states }))
    }
}

fn sum_field(argument: &FieldRef) -> Result<FieldRef> {
    let data_type = sum_udaf().return_type(std::slice::from_ref(argument.data_type()))?;
    Ok(Arc::new(Field::new("sum", data_type, true)))
}

fn count_field() -> FieldRef {
    Arc::new(Field::new("count", DataType::Int64, false))
}

/// The fields of the states of the sum and of the count.
fn state_fields(args: &StateFieldsArgs<'_>) -> Result<[Vec<FieldRef>; 2]> {
    let [argument] = args.input_fields else { return internal_err!("avg takes one argument") };
    let of = |function: &AggregateUDF, name: &str, return_field: FieldRef| {
        function.state_fields(StateFieldsArgs {
            name,
            input_fields: args.input_fields,
            return_field,
            ordering_fields: &[],
            is_distinct: args.is_distinct,
        })
    };
    let (sum_name, count_name) = (format!("{} sum", args.name), format!("{} count", args.name));
    Ok([of(&sum_udaf(), &sum_name, sum_field(argument)?)?, of(&count_udaf(), &count_name, count_field())?])
}

fn with_result<'a>(args: &AccumulatorArgs<'a>, result: &FieldRef) -> AccumulatorArgs<'a> {
    AccumulatorArgs { return_field: Arc::clone(result), ..args.clone() }
}

/// Sums over counts; NULL where there is no sum.
fn quotients(sums: &ArrayRef, counts: &ArrayRef) -> Result<Float64Array> {
    let sums = cast(sums, &DataType::Float64, false)?;
    let (sums, counts) = (sums.as_primitive::<Float64Type>(), counts.as_primitive::<Int64Type>());
    let quotient = |row: usize| match sums.is_null(row) || counts.is_null(row) || counts.value(row) == 0 {
        true => None,
        false => Some(sums.value(row) / counts.value(row) as f64),
    };
    Ok((0..sums.len()).map(quotient).collect())
}

#[derive(Debug)]
struct ExactAverage {
    sum: Box<dyn Accumulator>,
    count: Box<dyn Accumulator>,
    sum_states: usize,
}

impl Accumulator for ExactAverage {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.sum.update_batch(values)?;
        self.count.update_batch(values)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.sum.retract_batch(values)?;
        self.count.retract_batch(values)
    }

    fn supports_retract_batch(&self) -> bool {
        self.sum.supports_retract_batch() && self.count.supports_retract_batch()
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let (sum, count) = (self.sum.evaluate()?.to_array()?, self.count.evaluate()?.to_array()?);
        ScalarValue::try_from_array(&quotients(&sum, &count)?, 0)
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.sum.size() + self.count.size()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let mut states = self.sum.state()?;
        states.extend(self.count.state()?);
        Ok(states)
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let (sum, count) = states.split_at(self.sum_states.min(states.len()));
        self.sum.merge_batch(sum)?;
        self.count.merge_batch(count)
    }
}

/// As [`ExactAverage`], for many groups.
struct ExactAverages {
    sum: Box<dyn GroupsAccumulator>,
    count: Box<dyn GroupsAccumulator>,
    sum_states: usize,
}

impl GroupsAccumulator for ExactAverages {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        count: usize,
    ) -> Result<()> {
        self.sum.update_batch(values, groups, filter, count)?;
        self.count.update_batch(values, groups, filter, count)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let (sums, counts) = (self.sum.evaluate(emit_to)?, self.count.evaluate(emit_to)?);
        Ok(Arc::new(quotients(&sums, &counts)?))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let mut states = self.sum.state(emit_to)?;
        states.extend(self.count.state(emit_to)?);
        Ok(states)
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], count: usize) -> Result<()> {
        let (sum, rows) = states.split_at(self.sum_states.min(states.len()));
        self.sum.merge_batch(sum, groups, count)?;
        self.count.merge_batch(rows, groups, count)
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.sum.size() + self.count.size()
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let mut states = self.sum.convert_to_state(values, filter)?;
        states.extend(self.count.convert_to_state(values, filter)?);
        Ok(states)
    }
}
