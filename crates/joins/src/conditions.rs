//! The functions that conditions of such joins are, until the joins are written out.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use forebay_grammar::joins::{NEAREST_CONDITION, POSITIONAL_CONDITION};

/// Both functions.
pub fn functions() -> [ScalarUDF; 2] {
    let nearest = Condition { name: NEAREST_CONDITION, signature: Signature::any(1, Volatility::Volatile) };
    let positional = Condition { name: POSITIONAL_CONDITION, signature: Signature::nullary(Volatility::Volatile) };
    [nearest, positional].map(ScalarUDF::from)
}

/// The arguments of a call of the function of this name.
pub(crate) fn arguments<'a>(expr: &'a Expr, name: &str) -> Option<&'a [Expr]> {
    match expr {
        Expr::ScalarFunction(ScalarFunction { func, args }) if func.name() == name => Some(args),
        _ => None,
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Condition {
    name: &'static str,
    signature: Signature,
}

impl ScalarUDFImpl for Condition {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn invoke_with_args(&self, _args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        plan_err!("{} is the condition of a join alone", self.name)
    }
}
