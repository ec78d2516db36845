//! `range` and `generate_series` as lists: those between dates and timestamps are of timestamps in microseconds, as the tables of
//! these names are. DataFusion's are of dates, and of nanoseconds.

use std::sync::Arc;

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, IntervalUnit, TimeUnit};
use datafusion::common::Result;
use datafusion::functions_nested::range::{gen_series_udf, range_udf};
use datafusion::logical_expr::type_coercion::functions::fields_with_udf;
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

/// The functions, in the place of DataFusion's.
pub(crate) fn functions() -> impl Iterator<Item = Arc<ScalarUDF>> {
    [range_udf(), gen_series_udf()].into_iter().map(|inner| {
        let signature = Signature::user_defined(Volatility::Immutable);
        Arc::new(ScalarUDF::from(SeriesList { inner, signature }))
    })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct SeriesList {
    inner: Arc<ScalarUDF>,
    signature: Signature,
}

impl ScalarUDFImpl for SeriesList {
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
        let is_date = |data_type: &DataType| matches!(data_type, DataType::Date32 | DataType::Date64);
        if let [start, end, _] = types
            && (is_date(start) || is_date(end))
            && [start, end].into_iter().all(|bound| is_date(bound) || matches!(bound, DataType::Timestamp(..)))
        {
            let moment = DataType::Timestamp(TimeUnit::Microsecond, None);
            return Ok(vec![moment.clone(), moment, DataType::Interval(IntervalUnit::MonthDayNano)]);
        }
        let field = |data_type: &DataType| Arc::new(Field::new("", data_type.clone(), true));
        let fields: Vec<FieldRef> = types.iter().map(field).collect();
        let fields = fields_with_udf(&fields, self.inner.as_ref())?;
        Ok(fields.iter().map(|field| field.data_type().clone()).collect())
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let whole = self.inner.return_type(types)?;
        Ok(match &whole {
            DataType::List(element) => match element.data_type() {
                DataType::Timestamp(_, zone) => {
                    DataType::new_list(DataType::Timestamp(TimeUnit::Microsecond, zone.clone()), true)
                }
                _ => whole,
            },
            _ => whole,
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let (rows, result) = (args.number_rows, args.return_field.data_type().clone());
        let made = self.inner.invoke_with_args(args)?;
        if made.data_type() == result || made.data_type().is_null() {
            return Ok(made);
        }
        let lists: ArrayRef = made.to_array(rows)?;
        Ok(ColumnarValue::Array(cast(&lists, &result)?))
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }
}
