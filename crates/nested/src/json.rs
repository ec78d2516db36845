//! Functions of JSON: parts of texts, what they are, and values as JSON.

mod made;
mod operators;
mod parts;
mod rows;

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, StringViewArray};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Int64Type};
use datafusion::common::{Result, ScalarValue};
use datafusion::functions::utils::make_scalar_function;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use forebay_base::Error;
use forebay_context::error::into_datafusion;
use forebay_context::own_types;
use forebay_functions::casts::cast;
use forebay_json::{Document, Path};

pub use operators::JsonOperators;

/// All functions, with their names.
const ALL: [(&[&str], Kind); 20] = [
    (&["json_extract", "json_extract_path"], Kind::Part),
    (&["json_extract_string", "json_extract_path_text"], Kind::PartText),
    (&["json_value"], Kind::Value),
    (&["json_exists"], Kind::Exists),
    (&["json_type"], Kind::Type),
    (&["json_array_length"], Kind::Length),
    (&["json_keys"], Kind::Keys),
    (&["json_valid"], Kind::Valid),
    (&["json_structure"], Kind::Structure),
    (&["json_contains"], Kind::Contains),
    (&["json_merge_patch"], Kind::Merged),
    (&["json_pretty"], Kind::Pretty),
    (&["json"], Kind::Short),
    (&["to_json", "json_quote", "row_to_json", "array_to_json"], Kind::Made),
    (&["json_array"], Kind::Array),
    (&["json_object"], Kind::Object),
    (&["json_list"], Kind::OfList),
    (&["json_members"], Kind::OfEntries),
    (&["json_each_rows"], Kind::Each),
    (&["json_tree_rows"], Kind::Tree),
];

/// What a function does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    Part,
    PartText,
    Value,
    Exists,
    Type,
    Length,
    Keys,
    Valid,
    Structure,
    Contains,
    Merged,
    Pretty,
    Short,
    Made,
    Array,
    Object,
    /// A list as an array; NULL of an empty one that no row made.
    OfList,
    /// A list of names `k` and values `v` as an object.
    OfEntries,
    /// Members and elements, as a list of rows.
    Each,
    /// All values, as a list of rows.
    Tree,
}

/// The functions.
pub(crate) fn functions() -> impl Iterator<Item = Arc<ScalarUDF>> {
    ALL.iter().map(|(names, kind)| Arc::new(function(names, *kind)))
}

fn function(names: &'static [&'static str], kind: Kind) -> ScalarUDF {
    let signature = match kind {
        Kind::Array | Kind::Object => Signature::one_of(
            vec![
                datafusion::logical_expr::TypeSignature::Nullary,
                datafusion::logical_expr::TypeSignature::VariadicAny,
            ],
            Volatility::Immutable,
        ),
        _ => Signature::variadic_any(Volatility::Immutable),
    };
    ScalarUDF::from(OfJson { names, kind, signature }).with_aliases(names[1..].iter().copied())
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct OfJson {
    names: &'static [&'static str],
    kind: Kind,
    signature: Signature,
}

/// A list of nullable elements of this type.
fn list_of(data_type: DataType) -> DataType {
    DataType::List(Arc::new(Field::new_list_field(data_type, true)))
}

impl OfJson {
    /// Whether its second argument is a path, or a list of paths.
    fn takes_paths(&self) -> bool {
        use Kind::{Exists, Keys, Length, Part, PartText, Type, Value};
        matches!(self.kind, Part | PartText | Value | Exists | Type | Length | Keys)
    }

    /// Numbers of arguments that it takes.
    fn takes(&self) -> (usize, usize) {
        match self.kind {
            Kind::Part | Kind::PartText | Kind::Value | Kind::Exists | Kind::Contains => (2, 2),
            Kind::Type | Kind::Length | Kind::Keys | Kind::Each | Kind::Tree => (1, 2),
            Kind::Merged => (2, usize::MAX),
            Kind::Array | Kind::Object => (0, usize::MAX),
            _ => (1, 1),
        }
    }
}

impl ScalarUDFImpl for OfJson {
    fn name(&self) -> &str {
        self.names[0]
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(match self.kind {
            Kind::Exists | Kind::Valid | Kind::Contains => DataType::Boolean,
            Kind::Length => DataType::UInt64,
            Kind::Keys => list_of(DataType::Utf8View),
            Kind::Each | Kind::Tree => rows::list_type(),
            _ => DataType::Utf8View,
        })
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let (least, most) = self.takes();
        let count = args.arg_fields.len();
        if count < least || count > most {
            return Err(into_datafusion(Error::input(format!("{} does not take {count} values", self.name()))));
        }
        if self.kind == Kind::Object && count % 2 == 1 {
            let error = Error::input("json_object takes names and values by turns");
            return Err(into_datafusion(error.hint("Write json_object('name', value, …)")));
        }
        let is_several = match args.scalar_arguments.get(1) {
            Some(Some(ScalarValue::Utf8(Some(path)) | ScalarValue::Utf8View(Some(path)))) => {
                Path::of_text(path).map_err(into_datafusion)?.is_several()
            }
            _ => false,
        };
        if let Some(DataType::List(_)) = args.arg_fields.get(1).map(|field| field.data_type())
            && self.takes_paths()
        {
            let one = Field::new_list_field(self.return_type(&[])?, true);
            let element = if self.kind == Kind::Part { own_types::marked(one, own_types::JSON) } else { one };
            return Ok(Arc::new(Field::new(self.name(), DataType::List(Arc::new(element)), true)));
        }
        let json = |field: Field| own_types::marked(field, own_types::JSON);
        let field = |data_type: DataType| Field::new(self.name(), data_type, true);
        Ok(Arc::new(match self.kind {
            Kind::Part if is_several => {
                let element = json(Field::new_list_field(DataType::Utf8View, true));
                field(DataType::List(Arc::new(element)))
            }
            Kind::PartText if is_several => field(list_of(DataType::Utf8View)),
            Kind::Part | Kind::Structure | Kind::Merged | Kind::Short | Kind::Made => json(field(DataType::Utf8View)),
            Kind::Array | Kind::Object | Kind::OfList | Kind::OfEntries => json(field(DataType::Utf8View)),
            _ => field(self.return_type(&[])?),
        }))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let (rows, fields, result) = (args.number_rows, args.arg_fields.clone(), args.return_field.data_type().clone());
        let compute = |columns: &[ArrayRef]| -> Result<ArrayRef> {
            match self.kind {
                Kind::Made | Kind::Array | Kind::Object | Kind::OfList | Kind::OfEntries => {
                    made::made(self.kind, columns, &fields, rows)
                }
                Kind::Each | Kind::Tree => rows::rows(self.kind, columns, &result),
                kind => match columns.get(1).map(|paths| paths.data_type()) {
                    Some(DataType::List(_)) if self.takes_paths() => parts::told_of_lists(kind, columns, &result),
                    _ => parts::told(kind, columns, &result),
                },
            }
        };
        if args.args.is_empty() {
            return Ok(ColumnarValue::Array(compute(&[])?));
        }
        make_scalar_function(compute, Vec::new())(&args.args)
    }
}

/// The texts of a column.
fn texts(column: &ArrayRef) -> Result<StringViewArray> {
    Ok(cast(column, &DataType::Utf8View, false)?.as_string_view().clone())
}

/// The path of each row; of one that is NULL there is none.
fn paths(column: &ArrayRef) -> Result<Vec<Option<Path>>> {
    if column.data_type().is_integer() {
        let numbers = cast(column, &DataType::Int64, false)?;
        return Ok(numbers.as_primitive::<Int64Type>().iter().map(|number| number.map(Path::of_number)).collect());
    }
    let mut last: Option<(String, Path)> = None;
    let path = |text: Option<&str>| -> Result<Option<Path>> {
        let Some(text) = text else { return Ok(None) };
        if let Some((known, path)) = &last
            && known == text
        {
            return Ok(Some(path.clone()));
        }
        let path = Path::of_text(text).map_err(into_datafusion)?;
        last = Some((text.to_owned(), path.clone()));
        Ok(Some(path))
    };
    texts(column)?.iter().map(path).collect()
}

/// The JSON of a text.
fn read(text: &str) -> Result<Document> {
    Document::read(text).map_err(into_datafusion)
}
