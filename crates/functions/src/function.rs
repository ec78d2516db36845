//! What a function is: its names, what it takes and gives, and how it computes a column from columns.
//!
//! Invariant: a function takes and gives the types that its shape says, whatever it was called with.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, PrimitiveArray, StringViewArray, StringViewBuilder,
};
use datafusion::arrow::datatypes::{
    DataType, Date32Type, Float64Type, Int64Type, IntervalUnit, TimeUnit, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType,
};
use datafusion::common::{DataFusionError, Result, ScalarValue, internal_err};
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};
use forebay_base::Error;
use forebay_base::calendar::{self, INFINITE_DAY};
use forebay_context::error::into_datafusion;
use forebay_context::moments::{DAY, INFINITE, in_range};
use forebay_syntax::types::shown_type;

use crate::strict;

/// The type of all intervals.
pub const INTERVAL: DataType = DataType::Interval(IntervalUnit::MonthDayNano);
/// The type of timestamps.
pub const TIMESTAMP: DataType = DataType::Timestamp(TimeUnit::Microsecond, None);
/// The type of times of day.
pub const TIME: DataType = DataType::Time64(TimeUnit::Microsecond);
/// The type of HUGEINT.
pub const HUGEINT: DataType = DataType::Decimal128(38, 0);
/// The type of texts.
pub const TEXT: DataType = DataType::Utf8View;

/// The types that a function takes, and the one that it gives.
#[derive(Debug, Clone, PartialEq)]
pub struct Shape {
    /// What arguments are cast to.
    pub arguments: Vec<DataType>,
    /// What comes out.
    pub result: DataType,
}

/// A call: columns of as many rows as there are.
#[derive(Debug)]
pub struct Call<'a> {
    /// One for each argument.
    pub arguments: &'a [ArrayRef],
    /// Their length.
    pub rows: usize,
    /// The type of the result.
    pub result: &'a DataType,
}

/// A function.
#[derive(Debug)]
pub struct Definition {
    /// Its name, and others of it.
    pub names: &'static [&'static str],
    /// What it takes of arguments of such types; `None` where it does not take them. Of arguments that fit the same.
    pub shape: fn(&[DataType]) -> Option<Shape>,
    /// Computes the result.
    pub compute: fn(&Call<'_>) -> Result<ArrayRef>,
}

/// A definition as DataFusion calls it.
#[derive(Debug)]
pub struct Function {
    definition: &'static Definition,
    aliases: Vec<String>,
    signature: Signature,
    /// It is NULL where an argument is.
    is_strict: bool,
}

impl Function {
    /// The function that is defined so; `is_strict` if it is NULL where an argument is.
    pub fn new(definition: &'static Definition, is_strict: bool) -> Self {
        let aliases = definition.names[1..].iter().map(|name| (*name).to_owned()).collect();
        Self { definition, aliases, signature: Signature::user_defined(Volatility::Immutable), is_strict }
    }

    fn shape(&self, types: &[DataType]) -> Result<Shape> {
        (self.definition.shape)(types).ok_or_else(|| {
            let types: Vec<String> = types.iter().map(shown_type).collect();
            refused(format!("there is no function {}({})", self.name(), types.join(", ")), "Cast the arguments")
        })
    }
}

impl PartialEq for Function {
    fn eq(&self, other: &Self) -> bool {
        self.definition.names == other.definition.names
    }
}

impl Eq for Function {}

impl Hash for Function {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.definition.names.hash(state);
    }
}

impl ScalarUDFImpl for Function {
    fn name(&self) -> &str {
        self.definition.names[0]
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        Ok(self.shape(types)?.arguments)
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(self.shape(types)?.result)
    }

    fn simplify(&self, args: Vec<Expr>, context: &SimplifyContext) -> Result<ExprSimplifyResult> {
        match self.is_strict {
            true => strict::simplified(self, args, context),
            false => Ok(ExprSimplifyResult::Original(args)),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_one = args.args.iter().all(|value| matches!(value, ColumnarValue::Scalar(_)));
        let rows = if is_one { 1 } else { args.number_rows };
        let arguments = args.args.iter().map(|value| value.to_array(rows)).collect::<Result<Vec<_>>>()?;
        let call = Call { arguments: &arguments, rows, result: args.return_field.data_type() };
        let result = (self.definition.compute)(&call)?;
        if result.len() != rows {
            return internal_err!("{} gave {} rows for {rows}", self.name(), result.len());
        }
        Ok(match is_one {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?),
            false => ColumnarValue::Array(result),
        })
    }
}

/// An error about what a function was given.
pub fn refused(message: impl Into<String>, hint: &str) -> DataFusionError {
    into_datafusion(Error::input(message.into()).hint(hint))
}

impl Call<'_> {
    /// An argument as texts.
    pub fn texts(&self, index: usize) -> &StringViewArray {
        self.arguments[index].as_string_view()
    }

    /// An argument as values of a primitive type.
    pub fn values<T: ArrowPrimitiveType>(&self, index: usize) -> &PrimitiveArray<T> {
        self.arguments[index].as_primitive()
    }

    /// An argument as whole numbers.
    pub fn integers(&self, index: usize) -> &PrimitiveArray<Int64Type> {
        self.values(index)
    }

    /// An argument as floats.
    pub fn floats(&self, index: usize) -> &PrimitiveArray<Float64Type> {
        self.values(index)
    }

    /// An argument as microseconds since 1970-01-01: of dates their midnight, of timestamps of other units the nearest one.
    pub fn moments(&self, index: usize) -> Result<Vec<Option<i64>>> {
        microseconds(&self.arguments[index])
    }

    /// Days since 1970-01-01, and microseconds of the day, of an argument that is a date or a timestamp; infinite ones are the
    /// infinite days.
    pub fn days(&self, index: usize) -> Result<Vec<Option<(i64, i64)>>> {
        let array = &self.arguments[index];
        if let Some(days) = array.as_primitive_opt::<Date32Type>() {
            return Ok(days.iter().map(|day| day.map(|day| (day.into(), 0))).collect());
        }
        let split = |moment: i64| match moment.unsigned_abs() == INFINITE as u64 {
            true => (i64::from(INFINITE_DAY) * moment.signum(), 0),
            false => (moment.div_euclid(DAY), moment.rem_euclid(DAY)),
        };
        Ok(microseconds(array)?.into_iter().map(|moment| moment.map(split)).collect())
    }

    /// Texts, one for each row.
    pub fn texts_of(&self, text: impl Fn(usize) -> Result<Option<String>>) -> Result<ArrayRef> {
        let mut out = StringViewBuilder::with_capacity(self.rows);
        for row in 0..self.rows {
            out.append_option(text(row)?);
        }
        Ok(Arc::new(out.finish()))
    }

    /// Values of a primitive type, one for each row, which become the result's.
    pub fn values_of<T: ArrowPrimitiveType>(
        &self,
        value: impl Fn(usize) -> Result<Option<T::Native>>,
    ) -> Result<ArrayRef> {
        let values: PrimitiveArray<T> = (0..self.rows).map(value).collect::<Result<Vec<_>>>()?.into_iter().collect();
        Ok(match self.result == values.data_type() || matches!(self.result, DataType::List(_)) {
            true => Arc::new(values),
            false => Arc::new(values.with_data_type(self.result.clone())),
        })
    }

    /// Truth values, one for each row.
    pub fn flags_of(&self, flag: impl Fn(usize) -> Result<Option<bool>>) -> Result<ArrayRef> {
        Ok(Arc::new((0..self.rows).map(flag).collect::<Result<BooleanArray>>()?))
    }
}

/// Dates and timestamps as days since 1970-01-01; infinite ones are NULL.
pub fn days(array: &ArrayRef) -> Result<Vec<Option<i64>>> {
    if let Some(dates) = array.as_primitive_opt::<Date32Type>() {
        let is_finite = |day: &i32| day.unsigned_abs() != INFINITE_DAY as u32;
        return Ok(dates.iter().map(|day| day.filter(is_finite).map(i64::from)).collect());
    }
    let is_finite = |moment: &i64| moment.unsigned_abs() != INFINITE as u64;
    Ok(microseconds(array)?.into_iter().map(|one| one.filter(is_finite).map(|moment| moment.div_euclid(DAY))).collect())
}

/// Dates and timestamps as microseconds since 1970-01-01; infinite ones are those of microseconds.
pub fn microseconds(array: &ArrayRef) -> Result<Vec<Option<i64>>> {
    match array.data_type() {
        DataType::Date32 => {
            let moment = |day: i32| match day {
                INFINITE_DAY => Ok(INFINITE),
                _ if day == -INFINITE_DAY => Ok(-INFINITE),
                // Dates have a wider range than timestamps.
                _ => in_range(i128::from(day) * i128::from(DAY)).ok_or_else(|| {
                    refused(
                        format!("the date {} is out of the range of timestamps", calendar::text(day.into())),
                        "Timestamps are those of 290309 BC to 294247",
                    )
                }),
            };
            array.as_primitive::<Date32Type>().iter().map(|day| day.map(moment).transpose()).collect()
        }
        DataType::Timestamp(TimeUnit::Second, _) => {
            Ok(scaled(array.as_primitive::<TimestampSecondType>().iter(), |value| value.saturating_mul(1_000_000)))
        }
        DataType::Timestamp(TimeUnit::Millisecond, _) => {
            Ok(scaled(array.as_primitive::<TimestampMillisecondType>().iter(), |value| value.saturating_mul(1_000)))
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            Ok(array.as_primitive::<TimestampMicrosecondType>().iter().collect())
        }
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            Ok(scaled(array.as_primitive::<TimestampNanosecondType>().iter(), |value| {
                (value + 500 * value.signum()) / 1_000
            }))
        }
        other => internal_err!("{other} is no date or timestamp"),
    }
}

fn scaled(values: impl Iterator<Item = Option<i64>>, scale: impl Fn(i64) -> i64) -> Vec<Option<i64>> {
    let value = |value: i64| if value.unsigned_abs() == INFINITE as u64 { value } else { scale(value) };
    values.map(|one| one.map(value)).collect()
}

/// Whether an argument may become a moment: a date, a timestamp or NULL.
pub fn is_moment(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Date32 | DataType::Timestamp(..))
}

/// The type of a moment as a function takes it: texts are timestamps, and so is NULL.
pub fn moment_type(data_type: &DataType) -> Option<DataType> {
    match data_type {
        DataType::Null => Some(TIMESTAMP),
        other if is_moment(other) => Some(other.clone()),
        other if other.is_string() => Some(TIMESTAMP),
        _ => None,
    }
}

/// Whether an argument is a text, or NULL.
pub fn is_text(data_type: &DataType) -> bool {
    data_type.is_string() || data_type.is_null()
}

/// Whether an argument is a whole number, or NULL.
pub fn is_integer(data_type: &DataType) -> bool {
    data_type.is_integer() || data_type.is_null() || matches!(data_type, DataType::Decimal128(38, 0))
}
