//! Marks of types inside of lists, structs and maps: values that must be of them, and arrays whose type has them.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, ListArray, MapArray, StructArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::{ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};

use crate::functions::{as_own, call};
use crate::own::Own;

/// `value`, with values of types of texts inside, which must be such.
pub fn checked(value: Expr, data_type: DataType) -> Expr {
    call(Checked { data_type, signature: Signature::any(1, Volatility::Immutable) }, vec![value])
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Checked {
    data_type: DataType,
    signature: Signature,
}

/// An error where a value inside of `array` is none of the type that `field` says.
fn check(array: &ArrayRef, field: &Field) -> Result<()> {
    match field.data_type() {
        DataType::List(element) => check(array.as_list::<i32>().values(), element),
        DataType::LargeList(element) => check(array.as_list::<i64>().values(), element),
        DataType::Map(entries, _) => check(&(Arc::new(array.as_map().entries().clone()) as ArrayRef), entries),
        DataType::Struct(fields) => {
            fields.iter().zip(array.as_struct().columns()).try_for_each(|(field, column)| check(column, field))
        }
        _ => match Own::of_field(field) {
            Some(own) => as_own(array, &own, false).map(|_| ()),
            None => Ok(()),
        },
    }
}

impl ScalarUDFImpl for Checked {
    fn name(&self) -> &str {
        "checked_types"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(self.data_type.clone())
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let Some(value) = args.args.pop() else { return internal_err!("checked_types takes one value") };
        check(&value.to_array(1)?, &Field::new("", self.data_type.clone(), true))?;
        with_type(value, &self.data_type)
    }
}

/// `value`, as one of another type that differs in marks alone.
pub fn retyped(value: Expr, data_type: DataType) -> Expr {
    call(Retyped { data_type, signature: Signature::any(1, Volatility::Immutable) }, vec![value])
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Retyped {
    data_type: DataType,
    signature: Signature,
}

impl ScalarUDFImpl for Retyped {
    fn name(&self) -> &str {
        "marked_types"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(self.data_type.clone())
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let Some(value) = args.args.pop() else { return internal_err!("marked_types takes one value") };
        with_type(value, &self.data_type)
    }
}

fn with_type(value: ColumnarValue, data_type: &DataType) -> Result<ColumnarValue> {
    Ok(match value {
        ColumnarValue::Array(array) => ColumnarValue::Array(marked(&array, data_type)?),
        ColumnarValue::Scalar(scalar) => {
            ColumnarValue::Scalar(ScalarValue::try_from_array(&marked(&scalar.to_array()?, data_type)?, 0)?)
        }
    })
}

/// An array with the marks that a type has inside.
fn marked(array: &ArrayRef, data_type: &DataType) -> Result<ArrayRef> {
    if array.data_type() == data_type {
        return Ok(Arc::clone(array));
    }
    Ok(match data_type {
        DataType::List(element) if matches!(array.data_type(), DataType::List(_)) => {
            let (_, offsets, values, nulls) = array.as_list::<i32>().clone().into_parts();
            let values = marked(&values, element.data_type())?;
            Arc::new(ListArray::try_new(Arc::clone(element), offsets, values, nulls)?)
        }
        DataType::Struct(fields) if matches!(array.data_type(), DataType::Struct(_)) => {
            let (_, columns, nulls) = array.as_struct().clone().into_parts();
            let columns = columns.iter().zip(fields).map(|(column, field)| marked(column, field.data_type()));
            let columns = columns.collect::<Result<Vec<_>>>()?;
            Arc::new(StructArray::try_new_with_length(fields.clone(), columns, nulls, array.len())?)
        }
        DataType::Map(entries, is_sorted) if matches!(array.data_type(), DataType::Map(..)) => {
            let (_, offsets, pairs, nulls, _) = array.as_map().clone().into_parts();
            let pairs = marked(&(Arc::new(pairs) as ArrayRef), entries.data_type())?.as_struct().clone();
            Arc::new(MapArray::try_new(Arc::clone(entries), offsets, pairs, nulls, *is_sorted)?)
        }
        other => cast(array, other)?,
    })
}
