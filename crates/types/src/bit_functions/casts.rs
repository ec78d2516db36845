//! Bits as numbers, truth values and bytes.

use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, ArrowPrimitiveType, BinaryViewArray, BooleanArray, PrimitiveArray, StringViewArray,
};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{
    DataType, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type,
    UInt16Type, UInt32Type, UInt64Type,
};
use datafusion::common::Result;
use datafusion::functions::utils::make_scalar_function;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use forebay_base::Error;
use forebay_context::error::into_datafusion;
use forebay_syntax::types::shown_type;

use crate::bits::digits;
use crate::functions::texts;

/// The greatest HUGEINT.
const MOST_HUGEINT: i128 = 10_i128.pow(38) - 1;

/// Bits as a value of another type; those that do not fit it are NULL or an error.
pub fn from_bits(value: Expr, target: DataType, or_null: bool) -> Expr {
    let signature = Signature::any(1, Volatility::Immutable);
    ScalarUDF::from(FromBits { target, or_null, signature }).call(vec![value])
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct FromBits {
    target: DataType,
    or_null: bool,
    signature: Signature,
}

impl FromBits {
    fn values(&self, array: &ArrayRef) -> Result<ArrayRef> {
        use DataType as T;
        let texts = texts(array)?;
        Ok(match &self.target {
            T::Boolean => {
                let values = self.each(&texts, 1, |number| Some(number != 0))?;
                Arc::new(values.into_iter().collect::<BooleanArray>())
            }
            T::Int8 => self.numbers::<Int8Type>(&texts, 1, |number| Some(number as i8))?,
            T::Int16 => self.numbers::<Int16Type>(&texts, 2, |number| Some(number as i16))?,
            T::Int32 => self.numbers::<Int32Type>(&texts, 4, |number| Some(number as i32))?,
            T::Int64 => self.numbers::<Int64Type>(&texts, 8, |number| Some(number as i64))?,
            T::UInt8 => self.numbers::<UInt8Type>(&texts, 1, |number| Some(number as u8))?,
            T::UInt16 => self.numbers::<UInt16Type>(&texts, 2, |number| Some(number as u16))?,
            T::UInt32 => self.numbers::<UInt32Type>(&texts, 4, |number| Some(number as u32))?,
            T::UInt64 => self.numbers::<UInt64Type>(&texts, 8, |number| Some(number as u64))?,
            T::Float32 => self.numbers::<Float32Type>(&texts, 4, |number| Some(f32::from_bits(number as u32)))?,
            T::Float64 => self.numbers::<Float64Type>(&texts, 8, |number| Some(f64::from_bits(number as u64)))?,
            T::Decimal128(precision, scale) => {
                let huge =
                    |number: u128| Some(number as i128).filter(|huge| huge.unsigned_abs() <= MOST_HUGEINT as u128);
                let values: PrimitiveArray<Decimal128Type> = self.each(&texts, 16, huge)?.into_iter().collect();
                Arc::new(values.with_precision_and_scale(*precision, *scale)?)
            }
            other => {
                let blobs: BinaryViewArray = texts.iter().map(|bits| bits.map(digits::bytes)).collect();
                cast(&blobs, other)?
            }
        })
    }

    /// The numbers that bits are, of which the type has `width` bytes.
    fn each<T>(
        &self,
        texts: &StringViewArray,
        width: usize,
        value: impl Fn(u128) -> Option<T>,
    ) -> Result<Vec<Option<T>>> {
        let one = |bits: Option<&str>| {
            let Some(bits) = bits else { return Ok(None) };
            let fits = bits.len() <= 8 * width;
            let number = digits::number(bits).filter(|_| fits).and_then(&value);
            match number.is_none() && !self.or_null {
                true => {
                    let message = format!("{} bits do not fit {}", bits.len(), shown_type(&self.target));
                    Err(into_datafusion(Error::input(message).hint(format!("It has {} bits", 8 * width))))
                }
                false => Ok(number),
            }
        };
        texts.iter().map(one).collect()
    }

    fn numbers<T: ArrowPrimitiveType>(
        &self,
        texts: &StringViewArray,
        width: usize,
        value: impl Fn(u128) -> Option<T::Native>,
    ) -> Result<ArrayRef> {
        Ok(Arc::new(self.each(texts, width, value)?.into_iter().collect::<PrimitiveArray<T>>()))
    }
}

impl ScalarUDFImpl for FromBits {
    fn name(&self) -> &str {
        "from_bits"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(self.target.clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        make_scalar_function(|one: &[ArrayRef]| self.values(&one[0]), Vec::new())(&args.args)
    }
}
