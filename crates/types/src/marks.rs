//! Marks of types inside of lists, structs and maps: values that must be of them, and arrays whose type has them.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, ListArray, MapArray, StructArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::{ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};
use forebay_context::own_types;

use crate::functions::{as_own, call};
use crate::own::Own;

/// `value`, with values of types of texts inside, as they are stored; those that are none are NULL or an error.
pub fn checked(value: Expr, data_type: DataType, or_null: bool) -> Expr {
    call(Checked { data_type, or_null, signature: Signature::any(1, Volatility::Immutable) }, vec![value])
}

/// What values of type `source` are cast to on their way to such a type: what types of texts take as it is stays so.
pub fn before_check(source: &DataType, field: &Field) -> DataType {
    let inner = |source: &Field, field: &FieldRef| {
        Arc::new(own_types::plain(field.as_ref().clone()).with_data_type(before_check(source.data_type(), field)))
    };
    match (source, field.data_type()) {
        (source, _) if Own::of_field(field).is_some_and(|own| own.takes(source)) => source.clone(),
        (DataType::List(one), DataType::List(other)) => DataType::List(inner(one, other)),
        (DataType::Struct(all), DataType::Struct(others)) if all.len() == others.len() => {
            DataType::Struct(all.iter().zip(others).map(|(one, other)| inner(one, other)).collect())
        }
        (_, data_type) => data_type.clone(),
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Checked {
    data_type: DataType,
    or_null: bool,
    signature: Signature,
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
        let field = Field::new("", self.data_type.clone(), true);
        each(value, |array| inside(array, &field, &|array, own| as_own(array, own, self.or_null)))
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
        let field = Field::new("", self.data_type.clone(), true);
        each(value, |array| inside(array, &field, &|array, _| Ok(cast(array, &DataType::Utf8View)?)))
    }
}

fn each(value: ColumnarValue, made: impl Fn(&ArrayRef) -> Result<ArrayRef>) -> Result<ColumnarValue> {
    Ok(match value {
        ColumnarValue::Array(array) => ColumnarValue::Array(made(&array)?),
        ColumnarValue::Scalar(scalar) => {
            ColumnarValue::Scalar(ScalarValue::try_from_array(&made(&scalar.to_array()?)?, 0)?)
        }
    })
}

/// An array of the type of a field, of which `one` makes the values of types of texts.
fn inside(array: &ArrayRef, field: &Field, one: &dyn Fn(&ArrayRef, &Own) -> Result<ArrayRef>) -> Result<ArrayRef> {
    if let Some(own) = Own::of_field(field) {
        return one(array, &own);
    }
    Ok(match field.data_type() {
        DataType::List(element) if matches!(array.data_type(), DataType::List(_)) => {
            let (_, offsets, values, nulls) = array.as_list::<i32>().clone().into_parts();
            Arc::new(ListArray::try_new(Arc::clone(element), offsets, inside(&values, element, one)?, nulls)?)
        }
        DataType::Struct(fields) if matches!(array.data_type(), DataType::Struct(_)) => {
            let (_, columns, nulls) = array.as_struct().clone().into_parts();
            let columns = columns.iter().zip(fields).map(|(column, field)| inside(column, field, one));
            let columns = columns.collect::<Result<Vec<_>>>()?;
            Arc::new(StructArray::try_new_with_length(fields.clone(), columns, nulls, array.len())?)
        }
        DataType::Map(entries, is_sorted) if matches!(array.data_type(), DataType::Map(..)) => {
            let (_, offsets, pairs, nulls, _) = array.as_map().clone().into_parts();
            let pairs = inside(&(Arc::new(pairs) as ArrayRef), entries, one)?.as_struct().clone();
            Arc::new(MapArray::try_new(Arc::clone(entries), offsets, pairs, nulls, *is_sorted)?)
        }
        other if other == array.data_type() => Arc::clone(array),
        other => cast(array, other)?,
    })
}
