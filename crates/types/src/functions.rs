//! Functions that the rule puts in: to a type of texts and away from it, and the keys by which values are ordered.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BinaryViewArray, Int64Array, ListBuilder, StringViewArray, StringViewBuilder, UInt32Array,
};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Int64Type};
use datafusion::common::{Result, ScalarValue, exec_err, internal_err};
use datafusion::functions::utils::make_scalar_function;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use forebay_context::error::into_datafusion;
use forebay_context::own_types;
use forebay_json::Document;

use crate::enumeration::Enumeration;
use crate::own::Own;

/// `value`, a text or what else the type takes, as a value of a type of texts; what it does not have is NULL or an error.
pub fn to_own(value: Expr, own: Own, or_null: bool) -> Expr {
    call(ToOwn { own, or_null, signature: Signature::any(1, Volatility::Immutable) }, vec![value])
}

/// `value`, of a type of texts, as VARCHAR.
pub fn to_text(value: Expr) -> Expr {
    call(ToText { signature: Signature::any(1, Volatility::Immutable) }, vec![value])
}

/// The key by which a value of a type is ordered: the place of one of an ENUM.
pub fn key(value: Expr, of: &Own) -> Expr {
    call(Key { of: of.clone(), signature: Signature::any(1, Volatility::Immutable) }, vec![value])
}

/// The value of a type that has a key.
pub fn of_key(key: Expr, of: &Own) -> Expr {
    call(OfKey { of: of.clone(), signature: Signature::any(1, Volatility::Immutable) }, vec![key])
}

/// The values of an ENUM from one to another, both included; NULL is the first or the last one.
pub fn range(first: Expr, last: Expr, of: &Arc<Enumeration>) -> Expr {
    let signature = Signature::any(2, Volatility::Immutable);
    call(Range { of: Arc::clone(of), signature }, vec![first, last])
}

/// An integer literal as DuckDB types it, whose bits are as many as its type has.
pub fn as_written(value: Expr) -> Expr {
    match &value {
        Expr::Literal(ScalarValue::Int64(Some(number)), None) => match i32::try_from(*number) {
            Ok(small) => Expr::Literal(ScalarValue::Int32(Some(small)), None),
            Err(_) => value,
        },
        _ => value,
    }
}

pub(crate) fn call(function: impl ScalarUDFImpl + 'static, args: Vec<Expr>) -> Expr {
    ScalarUDF::from(function).call(args)
}

/// The texts of an array.
pub(crate) fn texts(array: &ArrayRef) -> Result<StringViewArray> {
    match array.data_type() {
        DataType::Utf8View => Ok(array.as_string_view().clone()),
        _ => Ok(cast(array, &DataType::Utf8View)?.as_string_view().clone()),
    }
}

/// The places of texts in an ENUM. What it does not have is NULL.
fn places(texts: &StringViewArray, of: &Enumeration) -> UInt32Array {
    texts.iter().map(|text| text.and_then(|text| of.place(text))).collect()
}

/// The keys of values. What the type does not have is NULL.
pub(crate) fn keys(texts: &StringViewArray, of: &Own) -> Int64Array {
    texts.iter().map(|text| text.and_then(|text| of.key(text))).collect()
}

/// The keys of values, of the type that keys have.
pub(crate) fn keys_of_values(values: &ArrayRef, of: &Own) -> Result<ArrayRef> {
    Ok(cast(&keys(&texts(values)?, of), &of.key_type())?)
}

/// The values of keys.
pub(crate) fn values_of_keys(keys: &ArrayRef, of: &Own) -> Result<ArrayRef> {
    let keys = cast(keys, &DataType::Int64)?;
    let value = |key: Option<i64>| key.and_then(|key| of.of_key(key));
    Ok(Arc::new(keys.as_primitive::<Int64Type>().iter().map(value).collect::<StringViewArray>()))
}

/// A text as it is, with the mark of its type.
#[derive(Debug, PartialEq, Eq, Hash)]
struct ToOwn {
    own: Own,
    or_null: bool,
    signature: Signature,
}

/// The values of `array`, as far as the type has them; an error or NULL for others.
pub(crate) fn as_own(array: &ArrayRef, own: &Own, or_null: bool) -> Result<ArrayRef> {
    if own.takes(array.data_type()) {
        return Ok(Arc::new(own.taken(array)?));
    }
    let texts = texts(array)?;
    let mut values = StringViewBuilder::with_capacity(texts.len());
    for text in &texts {
        match text.map(|text| (text, own.value(text))) {
            Some((_, Some(value))) => values.append_value(value),
            Some((text, None)) if !or_null => return Err(into_datafusion(own.unknown(text))),
            _ => values.append_null(),
        }
    }
    Ok(Arc::new(values.finish()))
}

impl ScalarUDFImpl for ToOwn {
    fn name(&self) -> &str {
        "to_type"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8View)
    }

    fn return_field_from_args(&self, _args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        Ok(self.own.field(self.name(), DataType::Utf8View))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let made = |one: &[ArrayRef]| as_own(&one[0], &self.own, self.or_null);
        make_scalar_function(made, Vec::new())(&args.args)
    }
}

/// A text as it is, without a mark. It is gone when plans are optimised.
#[derive(Debug, PartialEq, Eq, Hash)]
struct ToText {
    signature: Signature,
}

impl ScalarUDFImpl for ToText {
    fn name(&self) -> &str {
        "to_text"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [only] => Ok(only.clone()),
            _ => internal_err!("to_text takes one value"),
        }
    }

    fn simplify(&self, mut args: Vec<Expr>, _info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        match args.pop() {
            Some(only) => Ok(ExprSimplifyResult::Simplified(only)),
            None => internal_err!("to_text takes one value"),
        }
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match args.args.pop() {
            Some(only) => Ok(only),
            None => internal_err!("to_text takes one value"),
        }
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Key {
    of: Own,
    signature: Signature,
}

impl ScalarUDFImpl for Key {
    fn name(&self) -> &str {
        match self.of {
            Own::Enum(_) => "enum_place",
            _ => "order_key",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(self.of.key_type())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let found = |one: &[ArrayRef]| keys_of_values(&one[0], &self.of);
        make_scalar_function(found, Vec::new())(&args.args)
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct OfKey {
    of: Own,
    signature: Signature,
}

impl ScalarUDFImpl for OfKey {
    fn name(&self) -> &str {
        match self.of {
            Own::Enum(_) => "enum_value",
            _ => "value_of_key",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8View)
    }

    fn return_field_from_args(&self, _args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        Ok(self.of.field(self.name(), DataType::Utf8View))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let found = |one: &[ArrayRef]| values_of_keys(&one[0], &self.of);
        make_scalar_function(found, Vec::new())(&args.args)
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Range {
    of: Arc<Enumeration>,
    signature: Signature,
}

impl ScalarUDFImpl for Range {
    fn name(&self) -> &str {
        "enum_range_boundary"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(DataType::List(Arc::new(Field::new_list_field(DataType::Utf8View, true))))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let made = |both: &[ArrayRef]| -> Result<ArrayRef> {
            let (first, last) = (places(&texts(&both[0])?, &self.of), places(&texts(&both[1])?, &self.of));
            let mut lists = ListBuilder::new(StringViewBuilder::new());
            for (first, last) in first.iter().zip(&last) {
                let first = first.map_or(0, |place| place as usize);
                let end = last.map_or(self.of.values().len(), |place| place as usize + 1);
                self.of
                    .values()
                    .get(first..end)
                    .unwrap_or_default()
                    .iter()
                    .for_each(|v| lists.values().append_value(v));
                lists.append(true);
            }
            Ok(Arc::new(lists.finish()))
        };
        make_scalar_function(made, Vec::new())(&args.args)
    }
}

/// `uuid()`, under all its names.
pub fn uuid() -> Arc<ScalarUDF> {
    Arc::new(datafusion::functions::string::uuid().as_ref().clone().with_aliases(["gen_random_uuid", "uuidv4"]))
}

/// The bytes of a UUID.
pub fn uuid_bytes(value: Expr) -> Expr {
    call(UuidBytes { signature: Signature::any(1, Volatility::Immutable) }, vec![value])
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct UuidBytes {
    signature: Signature,
}

impl ScalarUDFImpl for UuidBytes {
    fn name(&self) -> &str {
        "uuid_bytes"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(DataType::BinaryView)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let bytes = |text: &str| -> Vec<u8> {
            let digits: Vec<u8> =
                text.chars().filter_map(|digit| digit.to_digit(16)).map(|digit| digit as u8).collect();
            digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect()
        };
        let made = |one: &[ArrayRef]| -> Result<ArrayRef> {
            Ok(Arc::new(texts(&one[0])?.iter().map(|text| text.map(bytes)).collect::<BinaryViewArray>()))
        };
        make_scalar_function(made, Vec::new())(&args.args)
    }
}

/// A JSON value as a text: a string without its quotes, null as NULL.
pub fn json_text(value: Expr) -> Expr {
    call(JsonText { signature: Signature::any(1, Volatility::Immutable) }, vec![value])
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct JsonText {
    signature: Signature,
}

impl ScalarUDFImpl for JsonText {
    fn name(&self) -> &str {
        "text_of_json"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8View)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let text = |text: Option<&str>| match text {
            Some(text) => Ok(Document::text(&Document::read(text).map_err(into_datafusion)?.0)),
            None => Ok(None),
        };
        let made = |one: &[ArrayRef]| -> Result<ArrayRef> {
            Ok(Arc::new(texts(&one[0])?.iter().map(text).collect::<Result<StringViewArray>>()?))
        };
        make_scalar_function(made, Vec::new())(&args.args)
    }
}

/// The functions of SQL that the rule replaces, by their names and numbers of arguments.
const NAMED: [(&str, usize); 5] =
    [("enum_range", 1), ("enum_first", 1), ("enum_last", 1), ("enum_code", 1), ("enum_range_boundary", 2)];

/// The functions of these types that SQL knows.
pub fn functions() -> impl Iterator<Item = Arc<ScalarUDF>> {
    let of_enums = NAMED.into_iter().map(|(name, count)| {
        Arc::new(ScalarUDF::from(OfEnum { name, signature: Signature::any(count, Volatility::Immutable) }))
    });
    of_enums.chain([uuid()])
}

/// Whether this is a function that the rule replaces.
pub(crate) fn is_named(name: &str) -> bool {
    NAMED.iter().any(|(own, _)| *own == name)
}

/// A function of ENUMs as it is written.
#[derive(Debug, PartialEq, Eq, Hash)]
struct OfEnum {
    name: &'static str,
    signature: Signature,
}

impl ScalarUDFImpl for OfEnum {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(match self.name {
            "enum_code" => DataType::UInt32,
            "enum_first" | "enum_last" => DataType::Utf8View,
            _ => DataType::List(Arc::new(Field::new_list_field(DataType::Utf8View, true))),
        })
    }

    fn invoke_with_args(&self, _args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        exec_err!("{} takes an ENUM", self.name)
    }
}

/// Whether the mark of a type is among these entries.
pub(crate) fn is_marked(field: &Field) -> bool {
    own_types::of(field).is_some()
}
