//! Whether a list has a value. DataFusion makes IN of a list whose elements it sees, which is NULL where one of them is and no other
//! is equal; in DuckDB such a list does not have the value. And it takes no elements of another type than the value's.

use std::sync::Arc;

use datafusion::arrow::array::Array;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::functions_nested::array_has::array_has_udf;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::type_coercion::binary::comparison_coercion;
use datafusion::logical_expr::{
    ColumnarValue, Documentation, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use crate::lists::list_of;

/// The function.
pub(crate) fn function() -> Arc<ScalarUDF> {
    let signature = Signature::user_defined(Volatility::Immutable);
    Arc::new(ScalarUDF::from(Contains { inner: array_has_udf(), signature }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Contains {
    inner: Arc<ScalarUDF>,
    signature: Signature,
}

impl ScalarUDFImpl for Contains {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let [list, value] = types else { return plan_err!("{} takes a list and a value", self.name()) };
        let element = match list {
            DataType::List(field) | DataType::LargeList(field) | DataType::FixedSizeList(field, _) => field.data_type(),
            DataType::Null => return Ok(vec![list_of(value), value.clone()]),
            _ => return plan_err!("{} takes a list, not {list}", self.name()),
        };
        let common = match (element.is_null(), value.is_null()) {
            (true, _) => Some(value.clone()),
            (_, true) => Some(element.clone()),
            _ if element == value => return Ok(vec![list_of_same(list), value.clone()]),
            _ => comparison_coercion(element, value),
        };
        match common {
            Some(common) => Ok(vec![list_of(&common), common]),
            None => plan_err!("{} cannot compare {element} with {value}", self.name()),
        }
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        self.inner.invoke_with_args(args)
    }

    fn simplify(&self, args: Vec<Expr>, context: &SimplifyContext) -> Result<ExprSimplifyResult> {
        match args.first() {
            Some(list) if has_no_null(list) => self.inner.inner().simplify(args, context),
            _ => Ok(ExprSimplifyResult::Original(args)),
        }
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }
}

/// A list of fixed length as one of any length.
fn list_of_same(list: &DataType) -> DataType {
    match list {
        DataType::FixedSizeList(field, _) => DataType::List(Arc::clone(field)),
        other => other.clone(),
    }
}

/// Whether all elements of a list are known, and none is NULL.
fn has_no_null(list: &Expr) -> bool {
    let is_value = |expr: &Expr| matches!(expr, Expr::Literal(value, _) if !value.is_null());
    match list {
        Expr::Literal(ScalarValue::List(list), _) => !list.is_null(0) && list.value(0).null_count() == 0,
        Expr::ScalarFunction(call) if call.func.name() == "make_array" => call.args.iter().all(is_value),
        _ => false,
    }
}
