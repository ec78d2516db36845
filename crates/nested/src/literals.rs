//! Functions whose type depends on values that are written out: `struct_extract(s, 'a')`, `list_aggregate(l, 'sum')`.

use std::hash::{Hash, Hasher};

use datafusion::arrow::array::{ArrayRef, new_empty_array};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};
use std::sync::Arc;

/// An argument before it is computed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Argument<'a> {
    /// What it gives.
    pub(crate) data_type: &'a DataType,
    /// Its value, where that is written out.
    pub(crate) value: Option<&'a ScalarValue>,
}

impl Argument<'_> {
    /// A text that is written out.
    pub(crate) fn text(&self) -> Option<&str> {
        self.value?.try_as_str().flatten()
    }

    /// A whole number that is written out.
    pub(crate) fn integer(&self) -> Option<i64> {
        match self.value?.cast_to(&DataType::Int64) {
            Ok(ScalarValue::Int64(value)) if self.data_type.is_integer() => value,
            _ => None,
        }
    }
}

/// A function of values of any types.
pub(crate) struct Definition {
    /// Its name, and others of it.
    pub(crate) names: &'static [&'static str],
    /// The type of the result.
    pub(crate) result: fn(&[Argument<'_>]) -> Result<DataType>,
    /// Computes the result, of this type. The arguments are told what they were before.
    pub(crate) compute: fn(&[Argument<'_>], &[ArrayRef], &DataType) -> Result<ArrayRef>,
}

/// A definition as DataFusion calls it.
#[derive(Debug)]
pub(crate) struct Function {
    definition: &'static Definition,
    aliases: Vec<String>,
    signature: Signature,
}

impl std::fmt::Debug for Definition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Definition").field("names", &self.names).finish_non_exhaustive()
    }
}

impl Function {
    /// The function that is defined so.
    pub(crate) fn new(definition: &'static Definition) -> Self {
        let aliases = definition.names[1..].iter().map(|name| (*name).to_owned()).collect();
        Self { definition, aliases, signature: Signature::variadic_any(Volatility::Immutable) }
    }
}

impl PartialEq for Function {
    fn eq(&self, other: &Self) -> bool {
        self.definition.names == other.definition.names
    }
}

impl Eq for Function {}

impl Hash for Function {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.definition.names.hash(state);
    }
}

impl ScalarUDFImpl for Function {
    fn name(&self) -> &str {
        self.definition.names[0]
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        internal_err!("the type of {} depends on its arguments", self.name())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let arguments = args.arg_fields.iter().zip(args.scalar_arguments);
        let arguments: Vec<Argument<'_>> =
            arguments.map(|(field, value)| Argument { data_type: field.data_type(), value: *value }).collect();
        Ok(Arc::new(Field::new(self.name(), (self.definition.result)(&arguments)?, true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_one = args.args.iter().all(|value| matches!(value, ColumnarValue::Scalar(_)));
        let rows = if is_one { 1 } else { args.number_rows };
        let result = args.return_field.data_type();
        if rows == 0 {
            return Ok(ColumnarValue::Array(new_empty_array(result)));
        }
        let types: Vec<DataType> = args.args.iter().map(ColumnarValue::data_type).collect();
        let known = args.args.iter().zip(&types).map(|(value, data_type)| Argument {
            data_type,
            value: match value {
                ColumnarValue::Scalar(value) => Some(value),
                ColumnarValue::Array(_) => None,
            },
        });
        let known: Vec<Argument<'_>> = known.collect();
        let arrays = args.args.iter().map(|value| value.to_array(rows)).collect::<Result<Vec<_>>>()?;
        let column = (self.definition.compute)(&known, &arrays, result)?;
        if column.len() != rows {
            return internal_err!("{} gave {} rows for {rows}", self.name(), column.len());
        }
        Ok(match is_one {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&column, 0)?),
            false => ColumnarValue::Array(column),
        })
    }
}
