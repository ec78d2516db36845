//! `typeof(x)`: the name of its type as SQL has it.

use datafusion::arrow::datatypes::{DataType, Field, TimeUnit};
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility, lit,
};
use forebay_context::own_types;
use forebay_syntax::types::shown_type;

/// The function.
pub fn function() -> ScalarUDF {
    ScalarUDF::from(TypeOf { signature: Signature::any(1, Volatility::Immutable) })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct TypeOf {
    signature: Signature,
}

impl ScalarUDFImpl for TypeOf {
    fn name(&self) -> &str {
        "typeof"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        match args.as_slice() {
            [only] => Ok(ExprSimplifyResult::Simplified(lit(type_name(&info.get_data_type(only)?)))),
            _ => internal_err!("typeof takes one argument"),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match args.arg_fields.as_slice() {
            [only] => Ok(ColumnarValue::Scalar(ScalarValue::Utf8(Some(type_name(only.data_type()))))),
            _ => internal_err!("typeof takes one argument"),
        }
    }
}

/// The name of a field's type.
fn field_type(field: &Field) -> String {
    own_types::of(field).map_or_else(|| type_name(field.data_type()), str::to_owned)
}

/// The name of a type within queries.
pub(crate) fn type_name(data_type: &DataType) -> String {
    match data_type {
        DataType::Null => "\"NULL\"".to_owned(),
        DataType::Timestamp(_, Some(_)) => "TIMESTAMP WITH TIME ZONE".to_owned(),
        DataType::Timestamp(TimeUnit::Second, None) => "TIMESTAMP_S".to_owned(),
        DataType::Timestamp(TimeUnit::Millisecond, None) => "TIMESTAMP_MS".to_owned(),
        DataType::Timestamp(TimeUnit::Nanosecond, None) => "TIMESTAMP_NS".to_owned(),
        DataType::Decimal128(38, 0) | DataType::Decimal256(_, 0) => "HUGEINT".to_owned(),
        DataType::List(element) | DataType::LargeList(element) => format!("{}[]", field_type(element)),
        DataType::FixedSizeList(element, length) => format!("{}[{length}]", field_type(element)),
        DataType::Struct(fields)
            if fields.iter().enumerate().all(|(place, field)| *field.name() == format!("c{place}")) =>
        {
            let types: Vec<String> = fields.iter().map(|field| field_type(field)).collect();
            format!("TUPLE({})", types.join(", "))
        }
        DataType::Struct(fields) => {
            let fields: Vec<String> =
                fields.iter().map(|field| format!("{} {}", field.name(), field_type(field))).collect();
            format!("STRUCT({})", fields.join(", "))
        }
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(fields) => {
                let both: Vec<String> = fields.iter().map(|field| field_type(field)).collect();
                format!("MAP({})", both.join(", "))
            }
            other => format!("MAP({other})"),
        },
        other => shown_type(other),
    }
}
