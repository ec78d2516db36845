//! JSON on its way to lists, structs and maps: its values in the shape of the wanted type, with texts where that has values without
//! parts. What casts texts makes these of the type that is wanted.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, ListArray, MapArray, StringViewArray, StructArray, new_null_array};
use datafusion::arrow::buffer::{NullBuffer, OffsetBuffer};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, internal_err};
use datafusion::functions::utils::make_scalar_function;
use datafusion::logical_expr::{ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};
use forebay_base::Error;
use forebay_context::error::into_datafusion;
use forebay_context::own_types;
use forebay_json::{Document, Members, Value};
use forebay_syntax::types::shown_type;

use crate::functions::{call, texts};

/// Characters of a value that an error shows.
const SHOWN: usize = 60;

/// `value`, JSON, in the shape of a list, struct or map type. What has another shape, and members that are missing or too many, are an
/// error, or NULL and left out where `or_null`.
pub(crate) fn shaped(value: Expr, target: &DataType, or_null: bool) -> Expr {
    let signature = Signature::any(1, Volatility::Immutable);
    call(Shaped { target: target.clone(), or_null, signature }, vec![value])
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Shaped {
    target: DataType,
    or_null: bool,
    signature: Signature,
}

impl ScalarUDFImpl for Shaped {
    fn name(&self) -> &str {
        "shape_of_json"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(shape(&self.target))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let field = Field::new("", self.target.clone(), true);
        let made = |columns: &[ArrayRef]| -> Result<ArrayRef> {
            let documents = texts(&columns[0])?;
            let read =
                |text: Option<&str>| text.map(|text| Ok(Document::read(text).map_err(into_datafusion)?.0)).transpose();
            let documents = documents.iter().map(read).collect::<Result<Vec<Option<Value>>>>()?;
            let values: Vec<Option<&Value>> = documents.iter().map(Option::as_ref).collect();
            self.array(&values, &field)
        };
        make_scalar_function(made, Vec::new())(&args.args)
    }
}

/// The type with VARCHAR in the place of types without parts.
fn shape(target: &DataType) -> DataType {
    let inner = |field: &FieldRef| {
        let plain = own_types::plain(field.as_ref().clone());
        Arc::new(plain.with_data_type(shape(field.data_type())).with_nullable(field.is_nullable()))
    };
    match target {
        DataType::List(element) => DataType::List(inner(element)),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(inner).collect()),
        DataType::Map(entries, is_sorted) => DataType::Map(inner(entries), *is_sorted),
        _ => DataType::Utf8View,
    }
}

impl Shaped {
    /// The values as an array of the shape of a field.
    fn array(&self, values: &[Option<&Value>], field: &Field) -> Result<ArrayRef> {
        let values: Vec<Option<&Value>> = values.iter().map(|value| value.filter(|value| !value.is_null())).collect();
        match (field.data_type(), shape(field.data_type())) {
            (DataType::List(element), DataType::List(shaped)) => {
                let lists = self.of_shape(&values, field.data_type(), Value::as_array)?;
                let elements: Vec<Option<&Value>> =
                    lists.iter().flatten().flat_map(|list| list.iter().map(Some)).collect();
                let (offsets, nulls) = (offsets(lists.iter().map(|list| list.map_or(0, Vec::len))), valid(&lists));
                Ok(Arc::new(ListArray::try_new(shaped, offsets, self.array(&elements, element)?, nulls)?))
            }
            (DataType::Struct(fields), DataType::Struct(shaped)) => {
                let objects = self.of_shape(&values, field.data_type(), Value::as_object)?;
                if !self.or_null {
                    objects.iter().flatten().try_for_each(|object| has_fields(object, fields))?;
                }
                let columns = fields.iter().map(|part| {
                    let members: Vec<Option<&Value>> =
                        objects.iter().map(|object| object.and_then(|object| object.get(part.name()))).collect();
                    self.array(&members, part)
                });
                let columns = columns.collect::<Result<Vec<_>>>()?;
                Ok(Arc::new(StructArray::try_new_with_length(shaped, columns, valid(&objects), objects.len())?))
            }
            (DataType::Map(entries, is_sorted), DataType::Map(shaped, _)) => {
                let objects = self.of_shape(&values, field.data_type(), Value::as_object)?;
                let (DataType::Struct(parts), DataType::Struct(shaped_parts)) =
                    (entries.data_type(), shaped.data_type())
                else {
                    return internal_err!("a map has entries of keys and values");
                };
                let names: StringViewArray =
                    objects.iter().flatten().flat_map(|object| object.keys().map(|name| Some(name.as_str()))).collect();
                let members: Vec<Option<&Value>> =
                    objects.iter().flatten().flat_map(|object| object.values().map(Some)).collect();
                if shaped_parts[0].data_type() != &DataType::Utf8View {
                    return Ok(new_null_array(&DataType::Map(shaped, *is_sorted), objects.len()));
                }
                let columns = vec![Arc::new(names) as ArrayRef, self.array(&members, &parts[1])?];
                let pairs = StructArray::try_new(shaped_parts.clone(), columns, None)?;
                let offsets = offsets(objects.iter().map(|object| object.map_or(0, |object| object.len())));
                Ok(Arc::new(MapArray::try_new(shaped, offsets, pairs, valid(&objects), *is_sorted)?))
            }
            _ => {
                let text = |value: &Value| leaf(value, field);
                Ok(Arc::new(values.iter().map(|value| value.and_then(text)).collect::<StringViewArray>()))
            }
        }
    }

    /// The values as what has this shape.
    fn of_shape<'a, T: ?Sized>(
        &self,
        values: &[Option<&'a Value>],
        target: &DataType,
        read: impl Fn(&'a Value) -> Option<&'a T>,
    ) -> Result<Vec<Option<&'a T>>> {
        let one = |value: &Option<&'a Value>| match value.map(|value| (value, read(value))) {
            None => Ok(None),
            Some((_, Some(found))) => Ok(Some(found)),
            Some((_, None)) if self.or_null => Ok(None),
            Some((value, None)) => {
                let shown: String = value.to_string().chars().take(SHOWN).collect();
                let message = format!("the JSON value {shown} cannot be cast to {}", shown_type(target));
                Err(into_datafusion(Error::input(message).hint("TRY_CAST and json_transform give NULL for it")))
            }
        };
        values.iter().map(one).collect()
    }
}

/// That an object has the members that are the fields of a struct, and no others.
fn has_fields(object: &Members, fields: &datafusion::arrow::datatypes::Fields) -> Result<()> {
    let missing = fields.iter().find(|field| !object.contains_key(field.name()));
    let unknown = object.keys().find(|name| !fields.iter().any(|field| field.name() == *name));
    let message = match (missing, unknown) {
        (_, Some(name)) => format!("the JSON object has a member {name:?}, which the struct has not"),
        (Some(field), _) => format!("the JSON object has no member {:?}", field.name()),
        _ => return Ok(()),
    };
    Err(into_datafusion(Error::input(message).hint("json_transform leaves out and fills in members")))
}

/// A value without parts as a text that casts read. Integers are rounded half to even, as floats are.
fn leaf(value: &Value, field: &Field) -> Option<String> {
    if own_types::of(field) == Some(own_types::JSON) {
        return Some(value.to_string());
    }
    match value.as_f64() {
        Some(number) if value.is_f64() && field.data_type().is_integer() => {
            Some(format!("{}", number.round_ties_even()))
        }
        _ => Document::text(value),
    }
}

fn offsets(lengths: impl Iterator<Item = usize>) -> OffsetBuffer<i32> {
    OffsetBuffer::from_lengths(lengths)
}

fn valid<T: ?Sized>(values: &[Option<&T>]) -> Option<NullBuffer> {
    Some(values.iter().map(Option::is_some).collect::<Vec<bool>>().into())
}
