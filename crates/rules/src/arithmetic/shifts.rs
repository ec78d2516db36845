//! `<<` and `>>` of integers. A shift to the left that loses a bit fails, as does one of a negative number or by one; a shift
//! to the right by more bits than there are leaves 0. DataFusion's own take the number of bits modulo the width.

use std::sync::Arc;

use datafusion::arrow::array::{Array as _, ArrayRef, AsArray, PrimitiveArray};
use datafusion::arrow::compute::kernels::arity;
use datafusion::arrow::datatypes::{ArrowPrimitiveType, DataType, Decimal128Type};
use datafusion::arrow::datatypes::{
    Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use datafusion::arrow::error::ArrowError;
use datafusion::common::{Result, internal_err};
use datafusion::functions::utils::make_scalar_function;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::type_coercion::binary::BinaryTypeCoercer;
use datafusion::logical_expr::{
    ColumnarValue, Expr, Operator, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};

use super::huge::HUGEINT;
use forebay_functions::strict;

/// The greatest HUGEINT.
const MOST_HUGEINT: i128 = 10_i128.pow(38) - 1;

/// Where bits go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// To the higher places.
    Left,
    /// To the lower places.
    Right,
}

/// A shift of its first argument by as many bits as the second says.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Shift {
    direction: Direction,
    signature: Signature,
}

impl Shift {
    /// A shift in this direction.
    pub fn new(direction: Direction) -> Self {
        Self { direction, signature: Signature::user_defined(Volatility::Immutable) }
    }

    fn symbol(&self) -> &str {
        match self.direction {
            Direction::Left => "<<",
            Direction::Right => ">>",
        }
    }
}

impl ScalarUDFImpl for Shift {
    fn name(&self) -> &str {
        match self.direction {
            Direction::Left => "shift_left",
            Direction::Right => "shift_right",
        }
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        match args {
            [value, bits] => Ok(format!("{} {} {}", value.schema_name(), self.symbol(), bits.schema_name())),
            _ => internal_err!("{} takes two arguments", self.name()),
        }
    }

    fn display_name(&self, args: &[Expr]) -> Result<String> {
        match args {
            [value, bits] => Ok(format!("{value} {} {bits}", self.symbol())),
            _ => internal_err!("{} takes two arguments", self.name()),
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let [value, bits] = types else { return internal_err!("{} takes two arguments", self.name()) };
        // A BIT is a text here; the rule of its type puts its own functions in.
        if value.is_string() && (bits.is_integer() || bits.is_null() || bits.is_string()) {
            return Ok(vec![DataType::Utf8View, DataType::Int64]);
        }
        if value.is_null() && bits.is_null() {
            return Ok(vec![DataType::Int64, DataType::Int64]);
        }
        let is_mixed = |one: &DataType, other: &DataType| *one == DataType::UInt64 && other.is_signed_integer();
        if value.is_decimal() || bits.is_decimal() || is_mixed(value, bits) || is_mixed(bits, value) {
            return Ok(vec![HUGEINT, HUGEINT]);
        }
        if value.is_signed_integer() != bits.is_signed_integer() && value.is_integer() && bits.is_integer() {
            // The signed one where it has every unsigned number.
            let (signed, unsigned) = if value.is_signed_integer() { (value, bits) } else { (bits, value) };
            let is_wider = signed.primitive_width() > unsigned.primitive_width();
            let common = if is_wider { signed.clone() } else { DataType::Int64 };
            return Ok(vec![common.clone(), common]);
        }
        let (value, bits) = BinaryTypeCoercer::new(value, &Operator::BitwiseAnd, bits).get_input_types()?;
        Ok(vec![value, bits])
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match self.coerce_types(types)?.into_iter().next() {
            Some(value) => Ok(value),
            None => internal_err!("{} takes two arguments", self.name()),
        }
    }

    fn simplify(&self, args: Vec<Expr>, context: &SimplifyContext) -> Result<ExprSimplifyResult> {
        strict::simplified(self, args, context)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let direction = self.direction;
        make_scalar_function(move |both: &[ArrayRef]| Ok(shifted(direction, &both[0], &both[1])?), Vec::new())(
            &args.args,
        )
    }
}

/// The values, shifted by so many bits each.
fn shifted(direction: Direction, values: &ArrayRef, bits: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    use DataType as T;
    let (low, high, width) = match values.data_type() {
        T::Utf8View => return Err(ArrowError::ComputeError("bits are moved by functions of their own".to_owned())),
        T::Int8 => (i8::MIN.into(), i8::MAX.into(), 8),
        T::Int16 => (i16::MIN.into(), i16::MAX.into(), 16),
        T::Int32 => (i32::MIN.into(), i32::MAX.into(), 32),
        T::Int64 => (i64::MIN.into(), i64::MAX.into(), 64),
        T::UInt8 => (0, u8::MAX.into(), 8),
        T::UInt16 => (0, u16::MAX.into(), 16),
        T::UInt32 => (0, u32::MAX.into(), 32),
        T::UInt64 => (0, u64::MAX.into(), 64),
        _ => (-MOST_HUGEINT, MOST_HUGEINT, 128),
    };
    let one = |value: i128, bits: i128| match direction {
        Direction::Left => shifted_left(value, bits, width)
            .filter(|result| (low..=high).contains(result))
            .ok_or_else(|| ArrowError::ArithmeticOverflow(format!("Overflow happened on: {value} << {bits}"))),
        Direction::Right if (0..width).contains(&bits) => Ok(value >> bits),
        Direction::Right => Ok(0),
    };
    over_integers(values, bits, one)
}

/// What `one` makes of each pair of two arrays of integers of one type, as that type. Errors: its own, and results that leave the
/// type.
pub(super) fn over_integers(
    left: &ArrayRef,
    right: &ArrayRef,
    one: impl Fn(i128, i128) -> Result<i128, ArrowError>,
) -> Result<ArrayRef, ArrowError> {
    use DataType as T;
    match left.data_type() {
        T::Int8 => each::<Int8Type>(left, right, one),
        T::Int16 => each::<Int16Type>(left, right, one),
        T::Int32 => each::<Int32Type>(left, right, one),
        T::Int64 => each::<Int64Type>(left, right, one),
        T::UInt8 => each::<UInt8Type>(left, right, one),
        T::UInt16 => each::<UInt16Type>(left, right, one),
        T::UInt32 => each::<UInt32Type>(left, right, one),
        T::UInt64 => each::<UInt64Type>(left, right, one),
        _ => each::<Decimal128Type>(left, right, |left, right| {
            let result = one(left, right)?;
            match (-MOST_HUGEINT..=MOST_HUGEINT).contains(&result) {
                true => Ok(result),
                false => Err(ArrowError::ArithmeticOverflow(format!("Overflow happened on: a HUGEINT of {result}"))),
            }
        }),
    }
}

/// `None` where a bit is lost, or there is no such shift.
fn shifted_left(value: i128, bits: i128, width: i128) -> Option<i128> {
    if value == 0 && bits >= 0 {
        return Some(0);
    }
    if value < 0 || !(0..width).contains(&bits) {
        return None;
    }
    let shifted = value.checked_shl(bits as u32)?;
    (shifted >> bits == value).then_some(shifted)
}

fn each<T: ArrowPrimitiveType>(
    values: &ArrayRef,
    bits: &ArrayRef,
    one: impl Fn(i128, i128) -> Result<i128, ArrowError>,
) -> Result<ArrayRef, ArrowError>
where
    T::Native: TryFrom<i128> + Into<i128>,
{
    let beyond = |_| ArrowError::ArithmeticOverflow("Overflow happened on: a shift".to_owned());
    let (left, right) = (values.as_primitive::<T>(), bits.as_primitive::<T>());
    let shifted: PrimitiveArray<T> = arity::try_binary(left, right, |value: T::Native, bits: T::Native| {
        T::Native::try_from(one(value.into(), bits.into())?).map_err(beyond)
    })?;
    Ok(Arc::new(shifted.with_data_type(values.data_type().clone())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::array::Int8Array;

    #[test]
    fn lost_bits_are_errors() {
        for (value, bits, expect) in [
            (1, 6, Some(64)),
            (0, 100, Some(0)),
            (0, 7, Some(0)),
            (1, 7, None),
            (1, 8, None),
            (1, -1, None),
            (-1, 1, None),
            (64, 1, None),
            (1, 0, Some(1)),
        ] {
            let array = |value: i8| Arc::new(Int8Array::from(vec![value])) as ArrayRef;
            let result = shifted(Direction::Left, &array(value), &array(bits));
            assert_eq!(
                result.ok().map(|result| result.as_primitive::<Int8Type>().value(0)),
                expect,
                "{value} << {bits}"
            );
        }
    }
}
