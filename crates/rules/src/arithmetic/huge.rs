//! An integer as HUGEINT. What an operand is may be known only when a plan is analysed: a column of a UNION is planned with the
//! type of the first query, and may be a decimal. A cast would lose its digits; this gives such a value as it is.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::expr::Cast;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

pub use forebay_functions::function::HUGEINT;

/// `expr` as HUGEINT where it turns out to be an integer.
pub fn as_hugeint(expr: Expr) -> Expr {
    let function = Widened { signature: Signature::any(1, Volatility::Immutable) };
    Arc::new(ScalarUDF::from(function)).call(vec![expr])
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Widened {
    signature: Signature,
}

impl ScalarUDFImpl for Widened {
    fn name(&self) -> &str {
        "as_hugeint"
    }

    /// As its argument, so that columns keep their names.
    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        match args {
            [inner] => Ok(inner.schema_name().to_string()),
            _ => internal_err!("{} takes one argument", self.name()),
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [own] if own.is_integer() => Ok(HUGEINT),
            [own] => Ok(own.clone()),
            _ => internal_err!("{} takes one argument", self.name()),
        }
    }

    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        match <[Expr; 1]>::try_from(args) {
            Ok([only]) if info.get_data_type(&only)?.is_integer() => {
                Ok(ExprSimplifyResult::Simplified(Expr::Cast(Cast::new(Box::new(only), HUGEINT))))
            }
            Ok([only]) => Ok(ExprSimplifyResult::Simplified(only)),
            Err(args) => Ok(ExprSimplifyResult::Original(args)),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match args.args.as_slice() {
            [only] if only.data_type().is_integer() => only.cast_to(&HUGEINT, None),
            [only] => Ok(only.clone()),
            _ => internal_err!("{} takes one argument", self.name()),
        }
    }
}
