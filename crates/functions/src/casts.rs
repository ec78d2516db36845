//! Casts of arrays as DuckDB does them.
//!
//! Decimals and timestamps are rounded half away from zero, floats become integers half to even; text becomes a decimal the
//! same way and may have an exponent; floats stay in their canonical form. Times, intervals, blobs and lists are read from text
//! and written to it as DuckDB does ([`texts`]). These are DuckDB's rules, where DataFusion cuts digits off.

pub mod call;
mod fields;
mod lists;
pub mod numbers;
pub mod possible;
mod temporal;
pub mod text_numbers;
pub mod texts;

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, ListArray};
use datafusion::arrow::compute::{CastOptions, cast_with_options};
use datafusion::arrow::datatypes::{
    DECIMAL128_MAX_PRECISION, DECIMAL256_MAX_PRECISION, DataType, Float32Type, Float64Type,
};
use datafusion::arrow::error::ArrowError;
use datafusion::arrow::util::display::FormatOptions;
use datafusion::common::{Result, ScalarValue};

use crate::floats::canonical;

/// `array` as `target`: by our rules where they differ from Arrow's. What has no such value is NULL or an error.
pub fn cast(array: &ArrayRef, target: &DataType, or_null: bool) -> Result<ArrayRef, ArrowError> {
    use DataType as T;
    let options = CastOptions { safe: or_null, format_options: FormatOptions::default() };
    let plain = |array: &ArrayRef, target: &DataType| cast_with_options(array, target, &options);
    if let Some(cast) = temporal::infinite(array, target, or_null) {
        return cast;
    }
    match (array.data_type(), target) {
        // Arrays of a fixed length by way of lists.
        (T::FixedSizeList(element, _), _)
            if target.is_string() || matches!(target, T::List(_) | T::FixedSizeList(..)) =>
        {
            cast(&plain(array, &T::List(Arc::clone(element)))?, target, or_null)
        }
        (source, T::FixedSizeList(element, _)) if source.is_string() || matches!(source, T::List(_)) => {
            plain(&cast(array, &T::List(Arc::clone(element)), or_null)?, target)
        }
        (source, _) if source.is_string() && texts::is_read(target) => {
            texts::read(&plain(array, &T::Utf8View)?, target, or_null)
        }
        // Sums may have a digit more than the type has, which Arrow leaves out.
        (T::Decimal128(38, scale), _) if target.is_string() && numbers::has_more_digits(array) => {
            plain(&numbers::widened(array, *scale)?, target)
        }
        (source, _) if target.is_string() && texts::is_written(source) => plain(&texts::written(array)?, target),
        (T::List(_), T::List(element)) => {
            let list = array.as_list::<i32>();
            let values = cast(list.values(), element.data_type(), or_null)?;
            let (offsets, nulls) = (list.offsets().clone(), list.nulls().cloned());
            Ok(Arc::new(ListArray::try_new(Arc::clone(element), offsets, values, nulls)?))
        }
        (T::Struct(_), T::Struct(target)) => fields::between(array, target, or_null),
        (T::Timestamp(..), T::Timestamp(..)) => numbers::timestamps(array, target, &plain),
        (T::Boolean, target) if target.is_decimal() => plain(&plain(array, &T::Int8)?, target),
        (T::Float32 | T::Float64, T::Decimal128(38, 0)) => numbers::hugeints(array, or_null),
        (T::Float64, T::Float32) => Ok(canonical(&numbers::singles(array, or_null)?)),
        (T::Decimal128(..) | T::Decimal256(..), T::Float32 | T::Float64) => {
            Ok(canonical(&numbers::floats_of_decimals(array, target, &plain)?))
        }
        (T::Decimal256(..), _) if target.is_integer() => {
            plain(&plain(array, &T::Decimal256(DECIMAL256_MAX_PRECISION, 0))?, target)
        }
        (source, _) if source.is_decimal() && target.is_integer() => {
            plain(&plain(array, &T::Decimal128(DECIMAL128_MAX_PRECISION, 0))?, target)
        }
        (T::Float32, _) if target.is_integer() => {
            let rounded = array.as_primitive::<Float32Type>().unary::<_, Float32Type>(f32::round_ties_even);
            plain(&(Arc::new(rounded) as ArrayRef), target)
        }
        (T::Float64, _) if target.is_integer() => {
            let rounded = array.as_primitive::<Float64Type>().unary::<_, Float64Type>(f64::round_ties_even);
            plain(&(Arc::new(rounded) as ArrayRef), target)
        }
        (source, _) if source.is_string() && text_numbers::is_read(target) => {
            text_numbers::read(&plain(array, &T::Utf8View)?, target, or_null)
        }
        (_, T::Float32 | T::Float64) => Ok(canonical(&plain(array, target)?)),
        _ => plain(array, target),
    }
}

/// As [`cast`], for one value.
pub fn cast_scalar(value: &ScalarValue, target: &DataType) -> Result<ScalarValue> {
    let array = cast(&value.to_array()?, target, false)?;
    ScalarValue::try_from_array(&array, 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::array::{Decimal128Array, Float64Array, Int32Array, StringArray};
    use datafusion::arrow::datatypes::Int32Type;

    #[test]
    fn decimals_round_half_away_from_zero_and_floats_half_to_even() {
        let decimals = Decimal128Array::from(vec![15, 25, -15, -25, 24]).with_precision_and_scale(9, 1);
        let decimals: ArrayRef = Arc::new(decimals.expect("small"));
        let expect = Int32Array::from(vec![2, 3, -2, -3, 2]);
        assert_eq!(cast(&decimals, &DataType::Int32, false).expect("small").as_primitive::<Int32Type>(), &expect);
        let floats: ArrayRef = Arc::new(Float64Array::from(vec![1.5, 2.5, -1.5, -2.5, 2.4]));
        let expect = Int32Array::from(vec![2, 2, -2, -2, 2]);
        assert_eq!(cast(&floats, &DataType::Int32, false).expect("small").as_primitive::<Int32Type>(), &expect);
    }

    #[test]
    fn sums_of_39_digits_keep_all_of_them() {
        let most = 10_i128.pow(38);
        let sums = Decimal128Array::from(vec![Some(most), None, Some(-most - 7)]).with_precision_and_scale(38, 1);
        let sums = Arc::new(sums.expect("a type")) as ArrayRef;
        let texts = cast(&sums, &DataType::Utf8, false).expect("texts");
        let digits = "0".repeat(36);
        let expected = [Some(format!("10{digits}.0")), None, Some(format!("-10{digits}.7"))];
        assert_eq!(*texts.as_string::<i32>(), StringArray::from_iter(expected));
    }

    #[test]
    fn what_does_not_fit_is_an_error_or_null() {
        let floats: ArrayRef = Arc::new(Float64Array::from(vec![f64::NAN, 127.5, 1e300]));
        let texts: ArrayRef = Arc::new(StringArray::from(vec!["x", "12.34", "99.95"]));
        for (array, target) in [(floats, DataType::Int8), (texts, DataType::Decimal128(3, 1))] {
            assert!(cast(&array, &target, false).is_err());
            let nulls = cast(&array, &target, true).expect("NULLs");
            assert!(nulls.is_null(0) && nulls.is_null(2));
        }
    }
}
