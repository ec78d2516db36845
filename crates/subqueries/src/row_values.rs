//! The function that stands for a row beside IN, until [`Membership`](crate::membership::Membership) has taken it apart.

use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use forebay_grammar::row_predicates::ROW_VALUES;

/// The function.
pub fn row_values() -> ScalarUDF {
    ScalarUDF::from(RowValues { signature: Signature::variadic_any(Volatility::Immutable) })
}

/// The values of a row that `expr` stands for.
pub fn values_of(expr: &Expr) -> Option<&[Expr]> {
    match expr {
        Expr::ScalarFunction(ScalarFunction { func, args }) if func.name() == ROW_VALUES => Some(args),
        Expr::Alias(alias) => values_of(&alias.expr),
        _ => None,
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct RowValues {
    signature: Signature,
}

impl ScalarUDFImpl for RowValues {
    fn name(&self) -> &str {
        ROW_VALUES
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let field = |(place, data_type): (usize, &DataType)| Field::new(format!("c{place}"), data_type.clone(), true);
        Ok(DataType::Struct(types.iter().enumerate().map(field).collect()))
    }

    fn invoke_with_args(&self, _args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        internal_err!("{ROW_VALUES} stands for a row beside IN alone")
    }
}
