//! One NaN and one zero: floats are grouped, joined and compared by their bits above the scan, so whatever computes one
//! gives it in the canonical form in which tables store it. Processors make a negative NaN of `0 / 0`, and `round(-0.4)`
//! is -0.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result, internal_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use forebay_functions::floats::canonical_value;

use crate::expressions::{ExpressionRule, Kinds};
use crate::typed::ChildTypes;

/// Brings the results of DataFusion's functions into canonical form. Operators and casts have functions of our own.
#[derive(Debug)]
pub struct CanonicalFloats(Arc<ScalarUDF>);

impl Default for CanonicalFloats {
    fn default() -> Self {
        Self(Arc::new(ScalarUDF::from(Canonical { signature: Signature::any(1, Volatility::Immutable) })))
    }
}

/// Must run before the rules that bring in functions of our own.
impl ExpressionRule for CanonicalFloats {
    fn concerns(&self, kinds: Kinds) -> bool {
        kinds.has(Kinds::CALL)
    }

    fn rewrite(&self, expr: Expr, _types: &ChildTypes, _schema: &DFSchema) -> Result<Transformed<Expr>> {
        Ok(Transformed::no(expr))
    }

    fn rewrite_whole(&self, expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
        expr.transform_up(|expr| {
            let is_float = matches!(expr, Expr::ScalarFunction(_))
                && expr.get_type(schema).is_ok_and(|data_type| data_type.is_floating());
            Ok(match is_float {
                true => Transformed::yes(self.0.call(vec![expr])),
                false => Transformed::no(expr),
            })
        })
    }
}

/// Its argument in canonical form.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Canonical {
    signature: Signature,
}

impl ScalarUDFImpl for Canonical {
    fn name(&self) -> &str {
        "canonical"
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
            [only] => Ok(only.clone()),
            _ => internal_err!("{} takes one argument", self.name()),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match <[ColumnarValue; 1]>::try_from(args.args) {
            Ok([only]) => canonical_value(only),
            Err(_) => internal_err!("{} takes one argument", self.name()),
        }
    }
}
