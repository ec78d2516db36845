//! The only value of a subquery: the values of two rows, of which there must be one alone.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, UInt32Array};
use datafusion::arrow::compute::take;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::functions::utils::make_scalar_function;
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility,
};
use forebay_base::Error;

use forebay_context::error::into_datafusion;

/// The functions that find the only value of a group.
#[derive(Debug)]
pub struct SingleValues {
    few: Arc<AggregateUDF>,
    only: Arc<ScalarUDF>,
    or_null: Arc<ScalarUDF>,
}

impl Default for SingleValues {
    fn default() -> Self {
        let few = FewValues { signature: Signature::any(1, Volatility::Immutable) };
        let only = OnlyValue { signature: Signature::any(1, Volatility::Volatile) };
        let or_null = ScalarUDF::from(OrNull { signature: Signature::any(1, Volatility::Immutable) });
        Self {
            few: Arc::new(AggregateUDF::from(few)),
            only: Arc::new(ScalarUDF::from(only)),
            or_null: Arc::new(or_null),
        }
    }
}

impl SingleValues {
    /// The first values of a group.
    pub fn few(&self, value: Expr) -> Expr {
        let few = AggregateFunction::new_udf(Arc::clone(&self.few), vec![value], false, None, Vec::new(), None);
        Expr::AggregateFunction(few)
    }

    /// A value that is never NULL, of a row that may not be there.
    pub fn or_null(&self, value: Expr) -> Expr {
        self.or_null.call(vec![value])
    }

    /// The value that is alone among the first ones, NULL where there is none; more are an error.
    pub fn only(&self, few: Expr) -> Expr {
        self.only.call(vec![few])
    }
}

/// The values of the first two rows as a list, NULL where there is no row: enough to know whether one row is all.
#[derive(Debug, PartialEq, Eq, Hash)]
struct FewValues {
    signature: Signature,
}

impl AggregateUDFImpl for FewValues {
    fn name(&self) -> &str {
        "few_values"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [only] => Ok(DataType::new_list(only.clone(), true)),
            _ => internal_err!("{} takes one argument", self.name()),
        }
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        match args.return_field.data_type() {
            DataType::List(element) => Ok(Box::new(Few { values: Vec::new(), data_type: element.data_type().clone() })),
            _ => internal_err!("{} gives a list", self.name()),
        }
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        Ok(vec![Arc::new(Field::new("values", args.return_field.data_type().clone(), true))])
    }
}

/// Two values tell that there are too many.
const FEW: usize = 2;

#[derive(Debug)]
struct Few {
    values: Vec<ScalarValue>,
    data_type: DataType,
}

impl Few {
    fn add(&mut self, values: &ArrayRef) -> Result<()> {
        for at in 0..values.len().min(FEW - self.values.len()) {
            self.values.push(ScalarValue::try_from_array(values, at)?);
        }
        Ok(())
    }
}

impl Accumulator for Few {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        values.iter().try_for_each(|values| self.add(values))
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let [lists] = states else { return internal_err!("few values have one state") };
        lists.as_list::<i32>().iter().flatten().try_for_each(|values| self.add(&values))
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(match self.values.is_empty() {
            true => ScalarValue::try_from(&DataType::new_list(self.data_type.clone(), true))?,
            false => ScalarValue::List(ScalarValue::new_list_nullable(&self.values, &self.data_type)),
        })
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }

    fn size(&self) -> usize {
        size_of::<Self>() + self.values.iter().map(ScalarValue::size).sum::<usize>()
    }
}

/// The only element of a list, NULL of NULL. It fails for rows of the outer query alone: it is called behind the join, and
/// volatile, so that nothing moves it below.
#[derive(Debug, PartialEq, Eq, Hash)]
struct OnlyValue {
    signature: Signature,
}

impl ScalarUDFImpl for OnlyValue {
    fn name(&self) -> &str {
        "only_value"
    }

    /// As its argument, so that columns keep their names.
    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        match args {
            [only] => Ok(only.schema_name().to_string()),
            _ => internal_err!("{} takes one argument", self.name()),
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [DataType::List(element)] => Ok(element.data_type().clone()),
            _ => internal_err!("{} takes a list", self.name()),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let only = |lists: &[ArrayRef]| -> Result<ArrayRef> {
            let lists = lists[0].as_list::<i32>();
            let place = |row: usize| match (lists.is_null(row), lists.value_length(row)) {
                (true, _) | (_, 0) => Ok(None),
                (_, 1) => Ok(Some(lists.value_offsets()[row] as u32)),
                _ => {
                    let error = Error::input("a subquery in the place of a value gives more than one row");
                    Err(into_datafusion(error.hint("Add LIMIT 1, or an aggregate function such as max")))
                }
            };
            let places = (0..lists.len()).map(place).collect::<Result<Vec<_>>>()?;
            Ok(take(lists.values(), &UInt32Array::from(places), None)?)
        };
        make_scalar_function(only, Vec::new())(&args.args)
    }
}

/// Its argument, which may be NULL to all who ask.
#[derive(Debug, PartialEq, Eq, Hash)]
struct OrNull {
    signature: Signature,
}

impl ScalarUDFImpl for OrNull {
    fn name(&self) -> &str {
        "or_null"
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
        match args.args.into_iter().next() {
            Some(value) => Ok(value),
            None => internal_err!("{} takes one argument", self.name()),
        }
    }
}
