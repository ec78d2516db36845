//! A cast as a function of our own: it casts as [`cast`] says, and DataFusion's optimizer does not see through it.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};

use super::{cast, text_numbers, texts};

/// The function in place of a cast.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct CastCall {
    target: DataType,
    or_null: bool,
    /// The call of DataFusion's function that it replaces, without its arguments' names; a cast is not part of names.
    call: Option<String>,
    signature: Signature,
}

impl CastCall {
    /// The function that would replace a cast, or a call that is one.
    pub fn of(expr: &Expr) -> Option<Self> {
        let (target, or_null, call) = match expr {
            Expr::Cast(cast) => (cast.field.data_type().clone(), false, None),
            Expr::TryCast(cast) => (cast.field.data_type().clone(), true, None),
            Expr::ScalarFunction(ScalarFunction { func, args }) => {
                let or_null = match func.name() {
                    "arrow_cast" => false,
                    "arrow_try_cast" => true,
                    _ => return None,
                };
                let [_, Expr::Literal(ScalarValue::Utf8(Some(target)), _)] = args.as_slice() else { return None };
                (target.parse().ok()?, or_null, Some(func.name().to_owned()))
            }
            _ => return None,
        };
        Some(Self { target, or_null, call, signature: Signature::any(1, Volatility::Immutable) })
    }

    /// The type that values are cast to.
    pub fn target(&self) -> &DataType {
        &self.target
    }

    fn of_target(&self, target: &DataType) -> Self {
        Self { target: target.clone(), or_null: self.or_null, call: None, signature: self.signature.clone() }
    }

    /// Whether DataFusion's cast from `source` would be another, or be misunderstood.
    pub fn is_needed(&self, source: &DataType) -> bool {
        use DataType as T;
        let is_comparable = |data_type: &DataType| data_type.is_numeric() || data_type.is_temporal();
        let is_other = match (source, &self.target) {
            (T::Decimal128(_, from) | T::Decimal256(_, from), T::Decimal128(_, to) | T::Decimal256(_, to))
                if to < from =>
            {
                true
            }
            (T::Decimal128(_, scale) | T::Decimal256(_, scale), target) if target.is_integer() => {
                *scale > 0 || target.is_unsigned_integer() || whole_digits(source) > surest_digits(target)
            }
            // Values that the type does not have are errors wherever the cast stands.
            (T::Decimal128(..) | T::Decimal256(..), T::Decimal128(..) | T::Decimal256(..)) => {
                whole_digits(&self.target) < whole_digits(source)
            }
            (source, target) if source.is_integer() && (target.is_integer() || target.is_decimal()) => {
                is_narrower(source, target)
            }
            // Digits that a float has exactly are divided by the same power of ten anyway.
            (T::Decimal128(precision, _) | T::Decimal256(precision, _), T::Float64) => *precision > 15,
            (T::Decimal128(precision, _) | T::Decimal256(precision, _), T::Float32) => *precision > 7,
            // Arrow leaves out a digit that sums have more than the type.
            (T::Decimal128(38, _), target) if target.is_string() => true,
            (T::Timestamp(from, _), T::Timestamp(to, _)) => to < from,
            // Infinite ones are no others.
            (T::Date32, T::Timestamp(..)) | (T::Timestamp(..), T::Date32) => true,
            (T::Boolean, target) if target.is_decimal() => true,
            (T::Float64, T::Float32) => true,
            (source, target) if source.is_floating() && target.is_string() => true,
            // DataFusion computes a cast of a literal where it stands in a branch that is not taken, too.
            (source, target) if source.is_floating() => target.is_integer() || target.is_decimal(),
            (source, target) if source.is_string() && texts::is_read(target) => true,
            (source, target) if target.is_string() && texts::is_written(source) => true,
            (T::Struct(from), T::Struct(to)) => from != to,
            (T::List(from) | T::FixedSizeList(from, _), T::List(to) | T::FixedSizeList(to, _)) => {
                self.of_target(to.data_type()).is_needed(from.data_type())
            }
            (source, target) if source.is_string() && text_numbers::is_read(target) => true,
            _ => false,
        };
        is_other || (self.or_null && source != &self.target && is_comparable(source) && is_comparable(&self.target))
    }
}

/// Digits before the point of any value of a decimal.
fn whole_digits(data_type: &DataType) -> i16 {
    match data_type {
        DataType::Decimal128(precision, scale) | DataType::Decimal256(precision, scale) => {
            i16::from(*precision) - i16::from(*scale)
        }
        _ => 0,
    }
}

/// Digits of which every number is an integer of this type.
fn surest_digits(target: &DataType) -> i16 {
    match target {
        DataType::Int8 => 2,
        DataType::Int16 => 4,
        DataType::Int32 => 9,
        _ => 18,
    }
}

/// Whether an integer may lie outside of `target`.
fn is_narrower(source: &DataType, target: &DataType) -> bool {
    use DataType as T;
    let bits = |data_type: &T| data_type.primitive_width().unwrap_or_default() * 8;
    match (source.is_unsigned_integer(), target.is_unsigned_integer()) {
        _ if target.is_decimal() => {
            let digits = match source {
                T::Int8 | T::UInt8 => 3,
                T::Int16 | T::UInt16 => 5,
                T::Int32 | T::UInt32 => 10,
                T::Int64 => 19,
                _ => 20,
            };
            whole_digits(target) < digits
        }
        (false, true) => true,
        (true, false) => bits(target) <= bits(source),
        _ => bits(target) < bits(source),
    }
}

impl ScalarUDFImpl for CastCall {
    fn name(&self) -> &str {
        if self.or_null { "try_rounding_cast" } else { "rounding_cast" }
    }

    /// As what it replaces would be called, so that columns keep their names.
    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        match (args, &self.call) {
            ([inner], None) => Ok(inner.schema_name().to_string()),
            ([inner], Some(call)) => Ok(format!("{call}({},Utf8(\"{}\"))", inner.schema_name(), self.target)),
            _ => internal_err!("{} takes one argument", self.name()),
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(self.target.clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let may_be_null = self.or_null || args.arg_fields.iter().any(|field| field.is_nullable());
        Ok(Arc::new(Field::new(self.name(), self.target.clone(), may_be_null)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match args.args.as_slice() {
            [ColumnarValue::Array(array)] => Ok(ColumnarValue::Array(cast(array, &self.target, self.or_null)?)),
            [ColumnarValue::Scalar(scalar)] => {
                let array = cast(&scalar.to_array()?, &self.target, self.or_null)?;
                Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0)?))
            }
            _ => internal_err!("{} takes one argument", self.name()),
        }
    }
}
