//! `nullif(a, b)`: NULL where the two are equal, else the first, as it is. DataFusion's gives it in the type that both have in
//! common, and takes intervals for equal only where their months, days and the rest are.

use std::sync::Arc;

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::compute::{is_null, nullif};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, internal_err};
use datafusion::functions::core;
use datafusion::functions::utils::make_scalar_function;
use datafusion::logical_expr::type_coercion::binary::comparison_coercion;
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use forebay_base::Error;
use forebay_context::error::into_datafusion;
use forebay_syntax::types::shown_type;

use crate::interval_lengths::has_intervals;
use crate::order_keys::order_keys;

/// The function.
pub fn function() -> Arc<ScalarUDF> {
    let signature = Signature::user_defined(Volatility::Immutable);
    Arc::new(ScalarUDF::from(NullIf { inner: core::nullif(), signature }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct NullIf {
    inner: Arc<ScalarUDF>,
    signature: Signature,
}

/// The type in which values of two types are compared.
fn compared_type(left: &DataType, right: &DataType) -> Result<DataType> {
    comparison_coercion(left, right).ok_or_else(|| {
        let (left, right) = (shown_type(left), shown_type(right));
        into_datafusion(Error::input(format!("nullif cannot compare {left} with {right}")).hint("Cast one of them"))
    })
}

impl ScalarUDFImpl for NullIf {
    fn name(&self) -> &str {
        "nullif"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let [value, other] = types else {
            return Err(into_datafusion(Error::input("nullif takes two values").hint("Write nullif(a, b)")));
        };
        match (value.is_null(), other.is_null()) {
            (true, _) => Ok(vec![other.clone(), other.clone()]),
            (_, true) => Ok(vec![value.clone(), value.clone()]),
            _ => compared_type(value, other).map(|_| vec![value.clone(), other.clone()]),
        }
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match self.coerce_types(types)?.into_iter().next() {
            Some(first) => Ok(first),
            None => internal_err!("nullif takes two values"),
        }
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let (value, other) = (args.args[0].clone(), args.args[1].clone());
        let (own, others) = (value.data_type(), other.data_type());
        if own == others && !has_intervals(&own) {
            return self.inner.invoke_with_args(args);
        }
        let common = compared_type(&own, &others)?;
        args.args = vec![value.cast_to(&common, None)?, other.cast_to(&common, None)?];
        if has_intervals(&common) {
            let keys = make_scalar_function(|one: &[ArrayRef]| order_keys(&one[0]), Vec::new());
            args.args = args.args.chunks(1).map(keys).collect::<Result<_>>()?;
        }
        let compared = self.inner.invoke_with_args(args)?;
        let kept = |both: &[ArrayRef]| -> Result<ArrayRef> { Ok(nullif(&both[0], &is_null(&both[1])?)?) };
        make_scalar_function(kept, Vec::new())(&[value, compared])
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }
}
