//! `check_holds(condition, text)`, which CHECK constraints ask of the rows that are written.

use datafusion::arrow::array::AsArray;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};
use forebay_base::{Error, ErrorKind};
use forebay_context::error::into_datafusion;

/// The function. Volatile, so that it stays where it is put.
pub fn function() -> ScalarUDF {
    ScalarUDF::from(Holds { signature: Signature::any(2, Volatility::Volatile) })
}

/// True of every row; an error where a condition is false.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Holds {
    signature: Signature,
}

impl ScalarUDFImpl for Holds {
    fn name(&self) -> &str {
        "check_holds"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let values = ColumnarValue::values_to_arrays(&args.args)?;
        let fails = values
            .first()
            .and_then(|values| values.as_boolean_opt())
            .is_none_or(|holds| holds.iter().any(|holds| holds == Some(false)));
        if fails {
            let shown = match args.args.get(1) {
                Some(ColumnarValue::Scalar(text)) => text.try_as_str().flatten().unwrap_or("CHECK").to_owned(),
                _ => "CHECK".to_owned(),
            };
            let error = Error::new(ErrorKind::Constraint, format!("a row fails {shown}")).hint("No row was changed");
            return Err(into_datafusion(error));
        }
        Ok(ColumnarValue::Scalar(ScalarValue::Boolean(Some(true))))
    }
}
