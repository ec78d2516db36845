//! Marks of types inside of lists, structs and maps: values that must be of them, and arrays whose type has them.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, FixedSizeListArray, ListArray, MapArray, StructArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::{ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};
use forebay_context::own_types;

use crate::functions::{as_own, call, keys_of_values, values_of_keys};
use crate::own::{Own, is_inside};

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
        each(value, |array| inside(array, &field, &field, &|array, own| as_own(array, own, self.or_null)))
    }
}

/// `value`, as one of another type that differs in marks alone, or that has values where it has keys.
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
        let one = |array: &ArrayRef, own: &Own| match array.data_type().is_integer() {
            true => values_of_keys(array, own),
            false => Ok(cast(array, &DataType::Utf8View)?),
        };
        each(value, |array| inside(array, &field, &field, &one))
    }
}

/// `value`, of this type, by whose order such values are ordered: with keys inside in place of values that have some.
pub fn keyed(value: Expr, data_type: DataType) -> Expr {
    call(Keyed { data_type, signature: Signature::any(1, Volatility::Immutable) }, vec![value])
}

/// The type without its marks, with keys in place of values that have some.
pub fn keyed_type(data_type: &DataType) -> DataType {
    replaced(data_type, &|own, data_type| if own.has_keys() { own.key_type() } else { data_type.clone() })
}

/// The type without the marks inside of it.
pub fn unmarked(data_type: &DataType) -> DataType {
    replaced(data_type, &|_, data_type| data_type.clone())
}

/// Whether there are values with keys inside of those of a type.
pub fn has_keys_inside(data_type: &DataType) -> bool {
    is_inside(data_type) && keyed_type(data_type) != unmarked(data_type)
}

/// Whether two types have the same marks at the same places.
pub fn has_same_marks(one: &DataType, other: &DataType) -> bool {
    use DataType as T;
    let is_same = |one: &FieldRef, other: &FieldRef| {
        own_types::of(one) == own_types::of(other) && has_same_marks(one.data_type(), other.data_type())
    };
    match (one, other) {
        (T::List(one) | T::FixedSizeList(one, _), T::List(other) | T::FixedSizeList(other, _)) => is_same(one, other),
        (T::Map(one, _), T::Map(other, _)) => is_same(one, other),
        (T::Struct(all), T::Struct(others)) => {
            all.len() == others.len() && all.iter().zip(others).all(|(one, other)| is_same(one, other))
        }
        (one, other) => is_inside(one) == is_inside(other),
    }
}

/// A type without the marks inside of it, where `leaf` tells what becomes of values of types of texts.
fn replaced(data_type: &DataType, leaf: &dyn Fn(&Own, &DataType) -> DataType) -> DataType {
    let part = |field: &FieldRef| {
        let data_type = match Own::of_field(field) {
            Some(own) => leaf(&own, field.data_type()),
            None => replaced(field.data_type(), leaf),
        };
        Arc::new(own_types::plain(field.as_ref().clone()).with_data_type(data_type))
    };
    match data_type {
        DataType::List(element) => DataType::List(part(element)),
        DataType::FixedSizeList(element, length) => DataType::FixedSizeList(part(element), *length),
        DataType::Map(entries, is_sorted) => DataType::Map(part(entries), *is_sorted),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(part).collect()),
        other => other.clone(),
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Keyed {
    /// What is given, with its marks: computed literals lose them.
    data_type: DataType,
    signature: Signature,
}

impl ScalarUDFImpl for Keyed {
    fn name(&self) -> &str {
        "keys_inside"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(keyed_type(&self.data_type))
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let Some(value) = args.args.pop() else { return internal_err!("keys_inside takes one value") };
        let given = Field::new("", self.data_type.clone(), true);
        let target = Field::new("", keyed_type(&self.data_type), true);
        let one = |array: &ArrayRef, own: &Own| match own.has_keys() {
            true => keys_of_values(array, own),
            false => Ok(cast(array, &DataType::Utf8View)?),
        };
        each(value, |array| inside(array, &given, &target, &one))
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

/// An array of the type of `target`, of which `one` makes the values that `marks`, of the same structure, marks.
fn inside(
    array: &ArrayRef,
    marks: &Field,
    target: &Field,
    one: &dyn Fn(&ArrayRef, &Own) -> Result<ArrayRef>,
) -> Result<ArrayRef> {
    use DataType as T;
    if let Some(own) = Own::of_field(marks) {
        return one(array, &own);
    }
    Ok(match (array.data_type(), marks.data_type(), target.data_type()) {
        (T::List(_), T::List(mark), T::List(element)) => {
            let (_, offsets, values, nulls) = array.as_list::<i32>().clone().into_parts();
            Arc::new(ListArray::try_new(Arc::clone(element), offsets, inside(&values, mark, element, one)?, nulls)?)
        }
        (T::FixedSizeList(_, _), T::FixedSizeList(mark, _), T::FixedSizeList(element, length)) => {
            let (_, own, values, nulls) = array.as_fixed_size_list().clone().into_parts();
            if own != *length {
                return internal_err!("an array of {own} elements is none of {length}");
            }
            let values = inside(&values, mark, element, one)?;
            Arc::new(FixedSizeListArray::try_new(Arc::clone(element), own, values, nulls)?)
        }
        (T::Struct(_), T::Struct(all), T::Struct(fields)) => {
            let (_, columns, nulls) = array.as_struct().clone().into_parts();
            let each = columns.iter().zip(all).zip(fields);
            let columns = each.map(|((column, mark), field)| inside(column, mark, field, one));
            let columns = columns.collect::<Result<Vec<_>>>()?;
            Arc::new(StructArray::try_new_with_length(fields.clone(), columns, nulls, array.len())?)
        }
        (T::Map(..), T::Map(mark, _), T::Map(entries, is_sorted)) => {
            let (_, offsets, pairs, nulls, _) = array.as_map().clone().into_parts();
            let pairs = inside(&(Arc::new(pairs) as ArrayRef), mark, entries, one)?.as_struct().clone();
            Arc::new(MapArray::try_new(Arc::clone(entries), offsets, pairs, nulls, *is_sorted)?)
        }
        (own, _, other) if own == other => Arc::clone(array),
        (_, _, other) => cast(array, other)?,
    })
}
