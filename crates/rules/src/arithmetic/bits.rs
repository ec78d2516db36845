//! `&`, `|`, `xor` and `~` of integers, HUGEINT and UBIGINT beside signed ones among them. Those of BIT are in crate `types`.

use std::ops::{BitAnd, BitOr, BitXor, Not};
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, ArrowPrimitiveType, AsArray};
use datafusion::arrow::compute::kernels::bitwise;
use datafusion::arrow::datatypes::{
    DataType, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use datafusion::common::{Result, internal_err, plan_err};
use datafusion::functions::utils::make_scalar_function;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::type_coercion::binary::BinaryTypeCoercer;
use datafusion::logical_expr::{
    ColumnarValue, Expr, Operator, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::huge::HUGEINT;
use super::shifts::over_integers;
use forebay_functions::strict;
use forebay_types::supertypes::is_mixed;

/// What is done to the bits of one or two integers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BitOperator {
    /// `&`
    And,
    /// `|`
    Or,
    /// `xor`
    ExclusiveOr,
    /// `~`
    Not,
}

impl BitOperator {
    /// Its function.
    pub fn function(self) -> ScalarUDF {
        ScalarUDF::from(Bits { operator: self, signature: Signature::user_defined(Volatility::Immutable) })
    }
}

/// The functions that are called by name.
pub fn functions() -> [ScalarUDF; 2] {
    [BitOperator::ExclusiveOr, BitOperator::Not].map(BitOperator::function)
}

fn common_type(left: &DataType, right: &DataType) -> DataType {
    let is_widest = |own: &DataType| *own == DataType::UInt64;
    if left.is_decimal()
        || right.is_decimal()
        || (is_widest(left) && right.is_signed_integer())
        || (is_widest(right) && left.is_signed_integer())
    {
        return HUGEINT;
    }
    if is_mixed(left, right) {
        return DataType::Int64;
    }
    let types = BinaryTypeCoercer::new(left, &Operator::BitwiseAnd, right).get_input_types();
    match types {
        Ok((left, right)) if left == right && left.is_integer() => left,
        _ => HUGEINT,
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Bits {
    operator: BitOperator,
    signature: Signature,
}

impl ScalarUDFImpl for Bits {
    fn name(&self) -> &str {
        match self.operator {
            BitOperator::And => "bitwise_and",
            BitOperator::Or => "bitwise_or",
            BitOperator::ExclusiveOr => "xor",
            BitOperator::Not => "bitwise_not",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let is_whole = |own: &DataType| own.is_integer() || own.is_null() || matches!(own, DataType::Decimal128(_, 0));
        let or_integer = |own: &DataType| if own.is_null() { DataType::Int64 } else { own.clone() };
        // BITs are texts here; the rule of their type puts its own functions in.
        if types.iter().any(DataType::is_string) && types.iter().all(|own| own.is_string() || own.is_null()) {
            return Ok(vec![DataType::Utf8View; types.len()]);
        }
        match types {
            [only] if self.operator == BitOperator::Not && is_whole(only) => Ok(vec![or_integer(only)]),
            [left, right] if self.operator != BitOperator::Not && is_whole(left) && is_whole(right) => {
                let common = common_type(&or_integer(left), &or_integer(right));
                Ok(vec![common.clone(), common])
            }
            _ => plan_err!("{} takes integers", self.name()),
        }
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match self.coerce_types(types)?.into_iter().next() {
            Some(first) => Ok(first),
            None => plan_err!("{} takes integers", self.name()),
        }
    }

    fn simplify(&self, args: Vec<Expr>, context: &SimplifyContext) -> Result<ExprSimplifyResult> {
        strict::simplified(self, args, context)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let operator = self.operator;
        make_scalar_function(move |values: &[ArrayRef]| calculated(operator, values), Vec::new())(&args.args)
    }
}

/// The operator of one or two arrays of integers of one type.
fn calculated(operator: BitOperator, values: &[ArrayRef]) -> Result<ArrayRef> {
    use DataType as T;
    match values[0].data_type() {
        T::Utf8View => internal_err!("bits are computed by functions of their own"),
        T::Int8 => each::<Int8Type>(operator, values),
        T::Int16 => each::<Int16Type>(operator, values),
        T::Int32 => each::<Int32Type>(operator, values),
        T::Int64 => each::<Int64Type>(operator, values),
        T::UInt8 => each::<UInt8Type>(operator, values),
        T::UInt16 => each::<UInt16Type>(operator, values),
        T::UInt32 => each::<UInt32Type>(operator, values),
        T::UInt64 => each::<UInt64Type>(operator, values),
        _ => {
            // Bits of two numbers of 38 digits may make one of 39.
            let one = |left: i128, right: i128| {
                Ok(match operator {
                    BitOperator::And => left & right,
                    BitOperator::Or => left | right,
                    BitOperator::ExclusiveOr => left ^ right,
                    BitOperator::Not => !left,
                })
            };
            Ok(over_integers(&values[0], values.get(1).unwrap_or(&values[0]), one)?)
        }
    }
}

fn each<T: ArrowPrimitiveType>(operator: BitOperator, values: &[ArrayRef]) -> Result<ArrayRef>
where
    T::Native: BitAnd<Output = T::Native> + BitOr<Output = T::Native> + BitXor<Output = T::Native>,
    T::Native: Not<Output = T::Native>,
{
    let left = values[0].as_primitive::<T>();
    let right = values.get(1).unwrap_or(&values[0]).as_primitive::<T>();
    Ok(Arc::new(match operator {
        BitOperator::And => bitwise::bitwise_and(left, right)?,
        BitOperator::Or => bitwise::bitwise_or(left, right)?,
        BitOperator::ExclusiveOr => bitwise::bitwise_xor(left, right)?,
        BitOperator::Not => bitwise::bitwise_not(left)?,
    }))
}
