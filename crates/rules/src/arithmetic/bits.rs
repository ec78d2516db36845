//! `&`, `|`, `xor` and `~` of integers for which DataFusion has none: HUGEINT, and UBIGINT beside signed ones. `~` is there for all.

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::DataType;
use datafusion::arrow::error::ArrowError;
use datafusion::common::{Result, plan_err};
use datafusion::functions::utils::make_scalar_function;
use datafusion::logical_expr::type_coercion::binary::BinaryTypeCoercer;
use datafusion::logical_expr::{
    ColumnarValue, Operator, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::shifts::over_integers;

/// The type of HUGEINT.
const HUGEINT: DataType = DataType::Decimal128(38, 0);

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

/// Whether DataFusion's operators know integers of these types, one beside the other.
pub fn is_known(left: &DataType, right: &DataType) -> bool {
    left.is_integer() && right.is_integer() && common_type(left, right).is_integer()
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

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let operator = self.operator;
        let calculate = move |values: &[ArrayRef]| {
            let is_unsigned = values[0].data_type().is_unsigned_integer();
            let bits = values[0].data_type().primitive_width().unwrap_or(size_of::<i128>()) * 8;
            let one = |left: i128, right: i128| -> Result<i128, ArrowError> {
                Ok(match operator {
                    BitOperator::And => left & right,
                    BitOperator::Or => left | right,
                    BitOperator::ExclusiveOr => left ^ right,
                    BitOperator::Not if is_unsigned => !left & ((1 << bits) - 1),
                    BitOperator::Not => !left,
                })
            };
            let right = values.get(1).unwrap_or(&values[0]);
            Ok(over_integers(&values[0], right, one)?)
        };
        make_scalar_function(calculate, Vec::new())(&args.args)
    }
}
