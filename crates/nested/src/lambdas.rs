//! `list_transform(l, lambda x, i: …)` and `list_filter`: what a lambda makes of each element, and elements that it lets pass. A
//! second parameter is the element's place, counted from 1.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Int64Array, UInt64Array};
use datafusion::arrow::compute::{take, take_arrays};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::{
    ColumnarValue, HigherOrderFunctionArgs, HigherOrderReturnFieldArgs, HigherOrderSignature, HigherOrderUDF,
    HigherOrderUDFImpl, LambdaParametersProgress, ValueOrLambda, Volatility,
};
use forebay_functions::casts::cast;
use forebay_functions::function::refused;
use forebay_syntax::types::shown_type;

use crate::lists::{Chosen, Lists, element_of, list_of, lists_of};

/// All of them.
pub(crate) fn functions() -> Vec<HigherOrderUDF> {
    vec![
        HigherOrderUDF::new_from_impl(EachElement::new(true, &["list_filter", "array_filter", "filter"])),
        HigherOrderUDF::new_from_impl(EachElement::new(
            false,
            &["list_transform", "array_transform", "list_apply", "array_apply", "apply"],
        )),
    ]
}

/// The type of a list as lambdas take it.
pub(crate) fn list_type(data_type: &DataType) -> Result<DataType> {
    element_of(data_type).map(list_of).ok_or_else(|| {
        refused(format!("a lambda takes the elements of a list, but no {}", shown_type(data_type)), "Write [value]")
    })
}

/// A lambda that sees one element at a time.
#[derive(Debug, PartialEq, Eq, Hash)]
struct EachElement {
    /// Whether elements pass or not, or become others.
    filters: bool,
    name: &'static str,
    aliases: Vec<String>,
    signature: HigherOrderSignature,
}

impl EachElement {
    fn new(filters: bool, names: &[&'static str]) -> Self {
        let aliases = names[1..].iter().map(|name| (*name).to_owned()).collect();
        let arguments = vec![ValueOrLambda::Value(()), ValueOrLambda::Lambda(())];
        let signature = HigherOrderSignature::exact(arguments, Volatility::Immutable);
        Self { filters, name: names[0], aliases, signature }
    }
}

impl HigherOrderUDFImpl for EachElement {
    fn name(&self) -> &str {
        self.name
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &HigherOrderSignature {
        &self.signature
    }

    fn coerce_value_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        types.iter().map(list_type).collect()
    }

    fn lambda_parameters(
        &self,
        _step: usize,
        fields: &[ValueOrLambda<FieldRef, Option<FieldRef>>],
    ) -> Result<LambdaParametersProgress> {
        let [ValueOrLambda::Value(list), ValueOrLambda::Lambda(_)] = fields else {
            return Err(refused(format!("{} takes a list and a lambda", self.name), "Write lambda x: x + 1"));
        };
        let element = element_of(list.data_type()).unwrap_or(&DataType::Null);
        let parameters = [Field::new("element", element.clone(), true), Field::new("place", DataType::Int64, true)];
        Ok(LambdaParametersProgress::Complete(vec![parameters.into_iter().map(Arc::new).collect()]))
    }

    fn return_field_from_args(&self, args: HigherOrderReturnFieldArgs<'_>) -> Result<FieldRef> {
        let [ValueOrLambda::Value(list), ValueOrLambda::Lambda(made)] = args.arg_fields else {
            return internal_err!("{} takes a list and a lambda", self.name);
        };
        let element = if self.filters { element_of(list.data_type()) } else { Some(made.data_type()) };
        Ok(Arc::new(Field::new("", list_of(element.unwrap_or(&DataType::Null)), true)))
    }

    fn invoke_with_args(&self, args: HigherOrderFunctionArgs) -> Result<ColumnarValue> {
        let [ValueOrLambda::Value(list), ValueOrLambda::Lambda(lambda)] = args.args.as_slice() else {
            return internal_err!("{} takes a list and a lambda", self.name);
        };
        let list = list.to_array(args.number_rows)?;
        let lists = Lists::of(&list)?;
        let (mut elements, mut places, mut rows) = (Vec::new(), Vec::new(), Vec::new());
        for (row, range) in lists.ranges.iter().enumerate() {
            for place in range.iter().flat_map(|(begin, end)| *begin..*end) {
                elements.push(place as u64);
                rows.push(row as u64);
                places.push((place - range.map_or(0, |(begin, _)| begin)) as i64 + 1);
            }
        }
        let (count, rows) = (elements.len(), UInt64Array::from(rows));
        let elements = take(&lists.values, &UInt64Array::from(elements), None)?;
        let places: ArrayRef = Arc::new(Int64Array::from(places));
        let made = lambda.evaluate(&[&|| Ok(Arc::clone(&elements)), &|| Ok(Arc::clone(&places))], |captured| {
            Ok(take_arrays(captured, &rows, None)?)
        });
        let made = made?.into_array(count)?;
        let lengths = lists.ranges.iter().map(|range| range.map_or(0, |(begin, end)| end - begin));
        let result = args.return_field.data_type();
        if self.filters {
            return Ok(ColumnarValue::Array(passed(&elements, &made, lengths, &lists.ranges, result)?));
        }
        let ends: Vec<usize> = lengths
            .scan(0, |end, length| {
                *end += length;
                Some(*end)
            })
            .collect();
        let valid = lists.ranges.iter().map(Option::is_some).collect();
        Ok(ColumnarValue::Array(lists_of(made, &ends, valid, result)?))
    }
}

/// The elements of which the lambda says true.
fn passed(
    elements: &ArrayRef,
    flags: &ArrayRef,
    lengths: impl Iterator<Item = usize>,
    ranges: &[Option<(usize, usize)>],
    result: &DataType,
) -> Result<ArrayRef> {
    let flags = cast(flags, &DataType::Boolean, false)?;
    let flags = flags.as_boolean();
    let (mut chosen, mut begin) = (Chosen::default(), 0);
    for (length, range) in lengths.zip(ranges) {
        for place in (begin..begin + length).filter(|place| flags.is_valid(*place) && flags.value(*place)) {
            chosen.push(Some(place));
        }
        begin += length;
        chosen.end_list(range.is_some());
    }
    chosen.finish(elements, result)
}
