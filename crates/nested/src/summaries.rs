//! Aggregates of the elements of each list: `list_sum(l)`, `list_aggregate(l, 'sum')`.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Decimal128Array, Float64Array, Int64Array, MapArray, StringViewBuilder,
    StructArray, UInt64Array,
};
use datafusion::arrow::buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use datafusion::arrow::compute::{SortOptions, cast, take};
use datafusion::arrow::datatypes::{DataType, Decimal128Type, Field, Fields, Float64Type, Int64Type};
use datafusion::arrow::row::Rows;
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::ScalarUDF;
use forebay_functions::casts;
use forebay_functions::function::{TEXT, refused};
use forebay_syntax::types::shown_type;

use crate::lists::{Chosen, Lists, element_of, list_of};
use crate::literals::{Argument, Definition, Function};
use crate::orders::keys;

mod numbers;

/// `list_sum` and the like: of a list alone.
macro_rules! one {
    ($function:literal, $aggregate:literal) => {
        Definition {
            names: &[$function],
            result: |arguments| result(kind($aggregate)?, arguments),
            compute: |arguments, columns, result| computed(kind($aggregate)?, 1, arguments, columns, result),
        }
    };
}

/// All of them.
pub(crate) fn functions() -> Vec<Arc<ScalarUDF>> {
    let function = |definition| Arc::new(ScalarUDF::from(Function::new(definition)));
    DEFINITIONS.iter().map(function).collect()
}

/// The function of any name, and those of one name each.
static DEFINITIONS: &[Definition] = &[
    Definition {
        names: &["list_aggregate", "list_aggr", "array_aggregate", "array_aggr", "aggregate"],
        result: |arguments| match several(arguments)? {
            Some(_) => result(named(arguments)?, &arguments[..1]).map(|element| list_of(&element)),
            None => result(named(arguments)?, arguments),
        },
        compute: |arguments, columns, result| match several(arguments)? {
            Some((pick, most)) => extremes(pick, most, &Lists::of(&columns[0])?, result),
            None => computed(named(arguments)?, 2, arguments, columns, result),
        },
    },
    one!("list_sum", "sum"),
    one!("list_avg", "avg"),
    one!("list_min", "min"),
    one!("list_max", "max"),
    one!("list_count", "count"),
    one!("list_first", "first"),
    one!("list_last", "last"),
    one!("list_any_value", "any_value"),
    one!("list_mode", "mode"),
    one!("list_string_agg", "string_agg"),
    one!("list_bool_and", "bool_and"),
    one!("list_bool_or", "bool_or"),
    one!("list_bit_and", "bit_and"),
    one!("list_bit_or", "bit_or"),
    one!("list_bit_xor", "bit_xor"),
    one!("list_product", "product"),
    one!("list_median", "median"),
    one!("list_mad", "mad"),
    one!("list_stddev_pop", "stddev_pop"),
    one!("list_stddev_samp", "stddev_samp"),
    one!("list_var_pop", "var_pop"),
    one!("list_var_samp", "var_samp"),
    one!("list_sem", "sem"),
    one!("list_skewness", "skewness"),
    one!("list_kurtosis", "kurtosis"),
    one!("list_kurtosis_pop", "kurtosis_pop"),
    one!("list_entropy", "entropy"),
    one!("list_histogram", "histogram"),
    one!("list_approx_count_distinct", "approx_count_distinct"),
];

/// The order of elements: those that are NULL are left out, and a NULL within one is greater than all others there.
const NULLS_ARE_GREATEST: SortOptions = SortOptions { descending: false, nulls_first: false };

/// An aggregate of a list.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Count,
    Distinct,
    Entropy,
    Histogram,
    List,
    /// One of the elements.
    Pick(Pick),
    Text,
    And,
    Or,
    Bits(fn(i64, i64) -> i64),
    Sum,
    /// A float that is computed from floats, which are not NULL; the second is a further argument.
    Number(fn(&[f64], f64) -> Option<f64>),
    /// As a number, but moments and decimals are not taken.
    Median,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Pick {
    Least,
    Greatest,
    First,
    Last,
    Any,
    Mode,
}

/// The aggregate of this name.
fn kind(name: &str) -> Result<Kind> {
    Ok(match name.to_lowercase().as_str() {
        "count" => Kind::Count,
        "approx_count_distinct" => Kind::Distinct,
        "entropy" => Kind::Entropy,
        "histogram" => Kind::Histogram,
        "list" | "array_agg" => Kind::List,
        "min" => Kind::Pick(Pick::Least),
        "max" => Kind::Pick(Pick::Greatest),
        "first" | "arbitrary" => Kind::Pick(Pick::First),
        "last" => Kind::Pick(Pick::Last),
        "any_value" => Kind::Pick(Pick::Any),
        "mode" => Kind::Pick(Pick::Mode),
        "string_agg" | "group_concat" | "listagg" => Kind::Text,
        "bool_and" => Kind::And,
        "bool_or" => Kind::Or,
        "bit_and" => Kind::Bits(|a, b| a & b),
        "bit_or" => Kind::Bits(|a, b| a | b),
        "bit_xor" => Kind::Bits(|a, b| a ^ b),
        "sum" | "sum_no_overflow" => Kind::Sum,
        "median" => Kind::Median,
        "avg" | "mean" => Kind::Number(|values, _| numbers::mean(values)),
        "fsum" | "sumkahan" | "kahan_sum" => Kind::Number(|values, _| numbers::kahan_sum(values)),
        "favg" => Kind::Number(|values, _| Some(numbers::kahan_sum(values)? / values.len() as f64)),
        "product" => Kind::Number(|values, _| (!values.is_empty()).then(|| values.iter().product())),
        "quantile_cont" => Kind::Number(numbers::quantile),
        "mad" => Kind::Number(|values, _| numbers::absolute_deviation(values)),
        "stddev" | "stddev_samp" => Kind::Number(|values, _| numbers::variance(values, 1).map(f64::sqrt)),
        "stddev_pop" => Kind::Number(|values, _| numbers::variance(values, 0).map(f64::sqrt)),
        "variance" | "var_samp" => Kind::Number(|values, _| numbers::variance(values, 1)),
        "var_pop" => Kind::Number(|values, _| numbers::variance(values, 0)),
        "sem" => Kind::Number(|values, _| Some(numbers::variance(values, 0)?.sqrt() / (values.len() as f64).sqrt())),
        "skewness" => Kind::Number(|values, _| numbers::skewness(values)),
        "kurtosis" => Kind::Number(|values, _| numbers::kurtosis(values)),
        "kurtosis_pop" => Kind::Number(|values, _| numbers::kurtosis_pop(values)),
        _ => {
            return Err(refused(
                format!("{name} of a list is not supported"),
                "Take the elements by unnest, and aggregate them",
            ));
        }
    })
}

/// The aggregate that the second argument names.
fn named(arguments: &[Argument<'_>]) -> Result<Kind> {
    let Some(name) = arguments.get(1).and_then(Argument::text) else {
        return Err(refused(
            "list_aggregate takes a list and the name of an aggregate",
            "Write list_aggregate(l, 'sum')",
        ));
    };
    let kind = kind(name)?;
    let takes = match kind {
        Kind::Text | Kind::Pick(Pick::Least | Pick::Greatest) => 3,
        Kind::Number(_) if name.eq_ignore_ascii_case("quantile_cont") => 3,
        _ => 2,
    };
    match arguments.len() > takes {
        true => Err(refused(format!("{name} of a list takes no further argument"), "Leave it out")),
        false => Ok(kind),
    }
}

/// How many of the least or the greatest elements are asked for: `list_aggregate(l, 'max', 2)`.
fn several(arguments: &[Argument<'_>]) -> Result<Option<(Pick, usize)>> {
    let [_, _, most] = arguments else { return Ok(None) };
    let Kind::Pick(pick @ (Pick::Least | Pick::Greatest)) = named(arguments)? else { return Ok(None) };
    let count = most.integer().and_then(|count| usize::try_from(count).ok()).filter(|count| *count > 0);
    let wrong = || refused("min and max take a number of elements greater than 0", "Write list_aggregate(l, 'max', 2)");
    Ok(Some((pick, count.ok_or_else(wrong)?)))
}

/// The first elements of each list from the least or the greatest one on; NULL where there are none.
fn extremes(pick: Pick, most: usize, lists: &Lists, result: &DataType) -> Result<ArrayRef> {
    let keys = keys(&lists.values, NULLS_ARE_GREATEST)?;
    let mut chosen = Chosen::default();
    for range in &lists.ranges {
        let mut own = range.map(|range| valid(lists, range)).unwrap_or_default();
        own.sort_by(|one, other| keys.row(*one).cmp(&keys.row(*other)));
        if pick == Pick::Greatest {
            own.reverse();
        }
        own.truncate(most);
        own.iter().for_each(|place| chosen.push(Some(*place)));
        chosen.end_list(!own.is_empty());
    }
    chosen.finish(&lists.values, result)
}

fn result(kind: Kind, arguments: &[Argument<'_>]) -> Result<DataType> {
    let element = arguments.first().and_then(|list| element_of(list.data_type));
    let refuse = || {
        let types: Vec<String> = arguments.iter().map(|one| shown_type(one.data_type)).collect();
        refused(format!("no such aggregate of {}", types.join(", ")), "Take a list whose elements it aggregates")
    };
    let element = element.ok_or_else(refuse)?;
    let is_number = element.is_numeric() || element.is_null() || *element == DataType::Boolean;
    Ok(match kind {
        Kind::Count | Kind::Distinct => DataType::Int64,
        Kind::Entropy => DataType::Float64,
        Kind::Histogram => counts_of(element),
        Kind::List => list_of(element),
        Kind::Pick(_) => element.clone(),
        Kind::Text => TEXT,
        Kind::And | Kind::Or => DataType::Boolean,
        Kind::Bits(_) if element.is_integer() || element.is_null() => element.clone(),
        Kind::Sum if is_number => match element {
            DataType::Decimal128(_, scale) => DataType::Decimal128(38, *scale),
            float if float.is_floating() => DataType::Float64,
            _ => DataType::Decimal128(38, 0),
        },
        Kind::Number(_) | Kind::Median if is_number => DataType::Float64,
        _ => return Err(refuse()),
    })
}

/// The type of a map from elements to how often they are there.
fn counts_of(element: &DataType) -> DataType {
    let fields =
        Fields::from(vec![Field::new("key", element.clone(), false), Field::new("value", DataType::UInt64, true)]);
    DataType::Map(Arc::new(Field::new("entries", DataType::Struct(fields), false)), false)
}

/// Further arguments begin at `further`.
fn computed(
    kind: Kind,
    further: usize,
    arguments: &[Argument<'_>],
    columns: &[ArrayRef],
    result: &DataType,
) -> Result<ArrayRef> {
    let lists = Lists::of(&columns[0])?;
    let by_float = |value: &dyn Fn(&[f64]) -> Option<f64>| -> Result<ArrayRef> {
        let floats = casts::cast(&lists.values, &DataType::Float64, false)?;
        let floats = floats.as_primitive::<Float64Type>();
        let row = |range: &Option<(usize, usize)>| {
            let (begin, end) = (*range)?;
            let own: Vec<f64> = (begin..end).filter(|at| floats.is_valid(*at)).map(|at| floats.value(at)).collect();
            value(&own)
        };
        Ok(Arc::new(lists.ranges.iter().map(row).collect::<Float64Array>()))
    };
    match kind {
        Kind::Count => Ok(each_count(&lists, |valid| valid.len())),
        Kind::Distinct | Kind::Entropy | Kind::Histogram => counted(kind, &lists, result),
        Kind::List => Ok(Arc::clone(&columns[0])),
        Kind::Pick(pick) => picked(pick, &lists),
        Kind::Text => {
            let separator = arguments.get(further).and_then(Argument::text).unwrap_or(",");
            texts(&lists, separator)
        }
        Kind::And => flags(&lists, |own| own.iter().all(|flag| *flag)),
        Kind::Or => flags(&lists, |own| own.contains(&true)),
        Kind::Bits(fold) => bits(&lists, fold, result),
        Kind::Sum => match result {
            DataType::Float64 => by_float(&|values| (!values.is_empty()).then(|| values.iter().sum())),
            _ => sums(&lists, result),
        },
        Kind::Median => by_float(&|values| numbers::quantile(values, 0.5)),
        Kind::Number(value) => {
            let argument = match columns.get(further) {
                Some(column) => casts::cast(column, &DataType::Float64, false)?.as_primitive::<Float64Type>().value(0),
                None => 0.5,
            };
            by_float(&|values| value(values, argument))
        }
    }
}

/// The places of elements that are not NULL.
fn valid(lists: &Lists, (begin, end): (usize, usize)) -> Vec<usize> {
    (begin..end).filter(|place| lists.values.is_valid(*place)).collect()
}

fn each_count(lists: &Lists, count: impl Fn(&[usize]) -> usize) -> ArrayRef {
    let row = |range: &Option<(usize, usize)>| range.map(|range| count(&valid(lists, range)) as i64);
    Arc::new(lists.ranges.iter().map(row).collect::<Int64Array>())
}

/// What is found by how often each element is there.
fn counted(kind: Kind, lists: &Lists, result: &DataType) -> Result<ArrayRef> {
    let keys = keys(&lists.values, NULLS_ARE_GREATEST)?;
    match kind {
        Kind::Distinct => Ok(each_count(lists, |places| occurrences(&keys, places).len())),
        Kind::Entropy => {
            let row = |range: &Option<(usize, usize)>| {
                let places = valid(lists, (*range)?);
                let total = places.len() as f64;
                let counts = occurrences(&keys, &places);
                Some(counts.iter().map(|(_, count)| (*count as f64 / total) * (total / *count as f64).log2()).sum())
            };
            Ok(Arc::new(lists.ranges.iter().map(row).collect::<Float64Array>()))
        }
        _ => histograms(lists, &keys, result),
    }
}

/// The first place of each different element, and how often it is there, in their order.
fn occurrences(keys: &Rows, places: &[usize]) -> Vec<(usize, u64)> {
    let mut sorted = places.to_vec();
    sorted.sort_by(|one, other| keys.row(*one).cmp(&keys.row(*other)));
    let mut counts: Vec<(usize, u64)> = Vec::new();
    for place in sorted {
        match counts.last_mut() {
            Some((last, count)) if keys.row(*last) == keys.row(place) => *count += 1,
            _ => counts.push((place, 1)),
        }
    }
    counts
}

fn histograms(lists: &Lists, keys: &Rows, result: &DataType) -> Result<ArrayRef> {
    let (mut places, mut counts, mut offsets, mut is_valid) = (Vec::new(), Vec::new(), vec![0_i32], Vec::new());
    for range in &lists.ranges {
        let own = range.map(|range| occurrences(keys, &valid(lists, range))).unwrap_or_default();
        is_valid.push(!own.is_empty());
        for (place, count) in own {
            places.push(place as u64);
            counts.push(count);
        }
        offsets.push(i32::try_from(places.len()).map_err(|_| refused("the lists are too long", "Take fewer rows"))?);
    }
    let DataType::Map(entries, is_sorted) = result else { return internal_err!("a histogram is a map") };
    let DataType::Struct(fields) = entries.data_type() else { return internal_err!("entries are structs") };
    let keys = take(&lists.values, &UInt64Array::from(places), None)?;
    let entries_of = StructArray::try_new(fields.clone(), vec![keys, Arc::new(UInt64Array::from(counts))], None)?;
    let (offsets, nulls) = (OffsetBuffer::new(ScalarBuffer::from(offsets)), NullBuffer::from(is_valid));
    Ok(Arc::new(MapArray::try_new(Arc::clone(entries), offsets, entries_of, Some(nulls), *is_sorted)?))
}

/// One element of each list.
fn picked(pick: Pick, lists: &Lists) -> Result<ArrayRef> {
    let keys = match pick {
        Pick::Least | Pick::Greatest | Pick::Mode => Some(keys(&lists.values, NULLS_ARE_GREATEST)?),
        _ => None,
    };
    let place = |(begin, end): (usize, usize)| {
        let valid = || (begin..end).filter(|place| lists.values.is_valid(*place));
        match (pick, &keys) {
            (Pick::First, _) => (begin < end).then_some(begin),
            (Pick::Last, _) => (begin < end).then(|| end - 1),
            (Pick::Least, Some(keys)) => valid().min_by(|one, other| keys.row(*one).cmp(&keys.row(*other))),
            (Pick::Greatest, Some(keys)) => valid().max_by(|one, other| keys.row(*one).cmp(&keys.row(*other))),
            (Pick::Mode, Some(keys)) => {
                let mut counts: HashMap<_, (usize, usize)> = HashMap::new();
                for place in valid() {
                    counts.entry(keys.row(place)).or_insert((0, place)).0 += 1;
                }
                let most = counts.into_values().max_by_key(|(count, first)| (*count, usize::MAX - first));
                most.map(|(_, first)| first)
            }
            _ => valid().next(),
        }
    };
    let places = lists.ranges.iter().map(|range| range.and_then(place).map(|place| place as u64));
    Ok(take(&lists.values, &places.collect::<UInt64Array>(), None)?)
}

fn texts(lists: &Lists, separator: &str) -> Result<ArrayRef> {
    let texts = casts::cast(&lists.values, &TEXT, false)?;
    let texts = texts.as_string_view();
    let mut out = StringViewBuilder::with_capacity(lists.ranges.len());
    for range in &lists.ranges {
        let own = range.map(|range| valid(lists, range)).unwrap_or_default();
        let joined = own.iter().map(|place| texts.value(*place)).collect::<Vec<_>>().join(separator);
        out.append_option((!own.is_empty()).then_some(joined));
    }
    Ok(Arc::new(out.finish()))
}

fn flags(lists: &Lists, fold: fn(&[bool]) -> bool) -> Result<ArrayRef> {
    let flags = cast(&lists.values, &DataType::Boolean)?;
    let flags = flags.as_boolean();
    let row = |range: &Option<(usize, usize)>| {
        let own = valid(lists, (*range)?);
        let own: Vec<bool> = own.into_iter().map(|place| flags.value(place)).collect();
        (!own.is_empty()).then(|| fold(&own))
    };
    Ok(Arc::new(lists.ranges.iter().map(row).collect::<BooleanArray>()))
}

fn bits(lists: &Lists, fold: fn(i64, i64) -> i64, result: &DataType) -> Result<ArrayRef> {
    let is_wide = lists.values.data_type() == &DataType::UInt64;
    let numbers = match is_wide {
        true => return Err(refused("bits of UBIGINT lists are not supported", "Cast the elements to BIGINT")),
        false => cast(&lists.values, &DataType::Int64)?,
    };
    let numbers = numbers.as_primitive::<Int64Type>();
    let row = |range: &Option<(usize, usize)>| {
        valid(lists, (*range)?).into_iter().map(|place| numbers.value(place)).reduce(fold)
    };
    let folded: ArrayRef = Arc::new(lists.ranges.iter().map(row).collect::<Int64Array>());
    Ok(cast(&folded, result)?)
}

/// Sums of exact numbers.
fn sums(lists: &Lists, result: &DataType) -> Result<ArrayRef> {
    let numbers = match lists.values.data_type() {
        DataType::Boolean => cast(&cast(&lists.values, &DataType::Int64)?, result)?,
        _ => cast(&lists.values, result)?,
    };
    let numbers = numbers.as_primitive::<Decimal128Type>();
    let row = |range: &Option<(usize, usize)>| -> Result<Option<i128>> {
        let own = range.map(|range| valid(lists, range)).unwrap_or_default();
        let mut sum = None;
        for place in own {
            let so_far: i128 = sum.unwrap_or(0);
            let next = so_far.checked_add(numbers.value(place));
            sum = Some(next.ok_or_else(|| refused("the sum of a list is too large", "Cast the elements to DOUBLE"))?);
        }
        Ok(sum)
    };
    let sums = lists.ranges.iter().map(row).collect::<Result<Decimal128Array>>()?;
    Ok(Arc::new(sums.with_data_type(result.clone())))
}
