//! `list_reduce(l, lambda a, x, i: …, first)`: what a lambda makes of the elements one behind the other.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, Int64Array, UInt64Array, new_null_array};
use datafusion::arrow::compute::{interleave, take, take_arrays};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::type_coercion::binary::type_union_resolution;
use datafusion::logical_expr::{
    ColumnarValue, HigherOrderFunctionArgs, HigherOrderReturnFieldArgs, HigherOrderSignature, HigherOrderUDF,
    HigherOrderUDFImpl, LambdaArgument, LambdaParametersProgress, ValueOrLambda, Volatility,
};
use forebay_functions::casts::cast;
use forebay_functions::function::refused;

use crate::lambdas::list_type;
use crate::lists::{Lists, element_of};

/// The function.
pub(crate) fn function() -> HigherOrderUDF {
    let aliases = ["array_reduce", "reduce"].map(str::to_owned).to_vec();
    let signature = HigherOrderSignature::user_defined(Volatility::Immutable);
    HigherOrderUDF::new_from_impl(Reduce { aliases, signature })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Reduce {
    aliases: Vec<String>,
    signature: HigherOrderSignature,
}

/// The list, the lambda, and the value that it begins with.
type Parts<'a, V, L> = (&'a V, &'a L, Option<&'a V>);

fn parts<V, L>(arguments: &[ValueOrLambda<V, L>]) -> Result<Parts<'_, V, L>> {
    match arguments {
        [ValueOrLambda::Value(list), ValueOrLambda::Lambda(lambda)] => Ok((list, lambda, None)),
        [ValueOrLambda::Value(list), ValueOrLambda::Lambda(lambda), ValueOrLambda::Value(first)] => {
            Ok((list, lambda, Some(first)))
        }
        _ => Err(refused(
            "list_reduce takes a list, a lambda and maybe a first value",
            "Write list_reduce(l, lambda a, x: a + x, 0)",
        )),
    }
}

/// The type of what the lambda makes, as far as the values tell it.
fn folded_type(list: &FieldRef, first: Option<&FieldRef>) -> DataType {
    let element = element_of(list.data_type()).unwrap_or(&DataType::Null);
    match first.map(|first| first.data_type()) {
        None => element.clone(),
        Some(first) if first == element || element.is_null() => first.clone(),
        Some(first) if first.is_null() => element.clone(),
        Some(first) => type_union_resolution(&[element.clone(), first.clone()]).unwrap_or_else(|| first.clone()),
    }
}

impl HigherOrderUDFImpl for Reduce {
    fn name(&self) -> &str {
        "list_reduce"
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &HigherOrderSignature {
        &self.signature
    }

    fn coerce_value_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let Some((list, others)) = types.split_first() else { return internal_err!("list_reduce takes a list") };
        let mut coerced = vec![list_type(list)?];
        coerced.extend_from_slice(others);
        Ok(coerced)
    }

    fn lambda_parameters(
        &self,
        step: usize,
        fields: &[ValueOrLambda<FieldRef, Option<FieldRef>>],
    ) -> Result<LambdaParametersProgress> {
        let (list, made, first) = parts(fields)?;
        let own = folded_type(list, first);
        let parameters = |folded: DataType| {
            let element = element_of(list.data_type()).unwrap_or(&DataType::Null).clone();
            let fields = [
                Field::new("folded", folded, true),
                Field::new("element", element, true),
                Field::new("place", DataType::Int64, true),
            ];
            fields.into_iter().map(Arc::new).collect::<Vec<_>>()
        };
        // What it makes of values of its first type tells the type of what it makes.
        match made {
            None if step == 0 => Ok(LambdaParametersProgress::Partial(vec![Some(parameters(own))])),
            made => {
                let made = made.as_ref().map_or(&own, |made| made.data_type());
                Ok(LambdaParametersProgress::Complete(vec![parameters(wider(&own, made))]))
            }
        }
    }

    fn return_field_from_args(&self, args: HigherOrderReturnFieldArgs<'_>) -> Result<FieldRef> {
        let (list, made, first) = parts(args.arg_fields)?;
        Ok(Arc::new(Field::new("", wider(&folded_type(list, first), made.data_type()), true)))
    }

    fn invoke_with_args(&self, args: HigherOrderFunctionArgs) -> Result<ColumnarValue> {
        let (list, lambda, first) = parts(&args.args)?;
        let lists = Lists::of(&list.to_array(args.number_rows)?)?;
        let first = first.map(|first| first.to_array(args.number_rows)).transpose()?;
        folded(&lists, lambda, first, args.return_field.data_type()).map(ColumnarValue::Array)
    }
}

/// The type that holds both what is begun with and what is made of it.
fn wider(own: &DataType, made: &DataType) -> DataType {
    match (own, made) {
        _ if own == made || made.is_null() => own.clone(),
        _ if own.is_null() => made.clone(),
        _ if own.is_integer() && made.is_integer() => own.clone(),
        _ if own.is_numeric() && made.is_numeric() => {
            type_union_resolution(&[own.clone(), made.clone()]).unwrap_or_else(|| own.clone())
        }
        _ => own.clone(),
    }
}

/// Takes the lists step by step: the elements at one place of all of them at once.
fn folded(lists: &Lists, lambda: &LambdaArgument, first: Option<ArrayRef>, result: &DataType) -> Result<ArrayRef> {
    let rows = lists.ranges.len();
    let skipped = usize::from(first.is_none());
    let mut state = match &first {
        Some(first) => cast(first, result, false)?,
        None => {
            if lists.ranges.iter().flatten().any(|(begin, end)| begin == end) {
                return Err(refused(
                    "list_reduce has nothing to begin with in an empty list",
                    "Give it a first value: list_reduce(l, lambda a, x: a + x, 0)",
                ));
            }
            let begins = lists.ranges.iter().map(|range| range.map(|(begin, _)| begin as u64));
            cast(&take(&lists.values, &begins.collect::<UInt64Array>(), None)?, result, false)?
        }
    };
    if state.len() != rows {
        return internal_err!("list_reduce began with {} rows of {rows}", state.len());
    }
    let longest = lists.ranges.iter().flatten().map(|(begin, end)| end - begin).max().unwrap_or(0);
    for step in skipped..longest {
        let mut at = Vec::new();
        let mut elements = Vec::new();
        for (row, range) in lists.ranges.iter().enumerate() {
            if let Some((begin, end)) = range
                && begin + step < *end
            {
                at.push(row as u64);
                elements.push((begin + step) as u64);
            }
        }
        let count = at.len();
        let at = UInt64Array::from(at);
        let elements = take(&lists.values, &UInt64Array::from(elements), None)?;
        let before = take(&state, &at, None)?;
        let places: ArrayRef = Arc::new(Int64Array::from(vec![step as i64 + 1; count]));
        let made = lambda.evaluate(
            &[&|| Ok(Arc::clone(&before)), &|| Ok(Arc::clone(&elements)), &|| Ok(Arc::clone(&places))],
            |captured| Ok(take_arrays(captured, &at, None)?),
        )?;
        let made = cast(&made.into_array(count)?, result, false)?;
        let mut from: Vec<(usize, usize)> = (0..rows).map(|row| (0, row)).collect();
        for (index, row) in at.values().iter().enumerate() {
            from[*row as usize] = (1, index);
        }
        state = interleave(&[state.as_ref(), made.as_ref()], &from)?;
    }
    let absent: Vec<Option<u64>> =
        lists.ranges.iter().enumerate().map(|(row, range)| range.map(|_| row as u64)).collect();
    if rows == 0 {
        return Ok(new_null_array(result, 0));
    }
    Ok(take(&state, &UInt64Array::from(absent), None)?)
}
