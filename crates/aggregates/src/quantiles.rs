//! Quantiles: the value at a place of the sorted ones, or between two of them, and what is made of these.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, Decimal128Array, Float64Array, Int64Array, IntervalMonthDayNanoArray, new_empty_array,
};
use datafusion::arrow::compute::{SortColumn, cast as plain_cast, concat, lexsort_to_indices, take};
use datafusion::arrow::datatypes::{DataType, Decimal128Type, Float64Type, Int64Type, IntervalMonthDayNano, TimeUnit};
use datafusion::common::{Result, ScalarValue, exec_err};
use forebay_functions::casts::cast;
use forebay_functions::function::refused;
use forebay_functions::interval_lengths::{INTERVAL, lengths};

use crate::definitions::{Definition, list_type, one_list};
use crate::frame_partition::sortable;

/// Forms of these aggregates.
const HINT: &str = "Write quantile_cont(x, 0.5), quantile_disc(x, [0.25, 0.75]) or median(x)";

/// Digits behind the point up to which shares are exact.
const SHARE_DIGITS: i8 = 18;

/// A share of 1.
const WHOLE: i128 = 10_i128.pow(18);

/// The type of a share.
const SHARE: DataType = DataType::Decimal128(38, SHARE_DIGITS);

/// Integers up to which floats are exact.
const EXACT: i128 = 1 << 53;

const MICROSECONDS_OF_DAY: i64 = 86_400_000_000;

/// All of them.
pub const DEFINITIONS: [Definition; 5] = [
    Definition {
        name: "quantile_disc",
        aliases: &["quantile", "reservoir_quantile"],
        needed: 1,
        coerced: |types| shares(types, false),
        result: |types| result(types, false),
        value: |rows, _| quantiles(rows, at_place),
        of_nothing: None,
    },
    Definition {
        name: "quantile_cont",
        aliases: &[],
        needed: 1,
        coerced: |types| shares(types, true),
        result: |types| result(types, true),
        value: |rows, _| quantiles(rows, between),
        of_nothing: None,
    },
    Definition {
        name: "approx_quantile",
        aliases: &[],
        needed: 1,
        coerced: |types| shares(types, false),
        result: |types| result(types, false),
        value: |rows, _| quantiles(rows, near),
        of_nothing: None,
    },
    Definition {
        name: "median",
        aliases: &[],
        needed: 1,
        coerced: |types| match types {
            [value] => Ok(vec![value.clone()]),
            _ => Err(refused(format!("median takes one argument, not {}", types.len()), HINT)),
        },
        result: |types| match types {
            [value] if is_between(value) => Ok(between_type(value)),
            [value] => Ok(value.clone()),
            _ => Err(refused("median takes one argument", HINT)),
        },
        value: |rows, _| ScalarValue::try_from_array(&median(&rows[0])?, 0),
        of_nothing: None,
    },
    Definition {
        name: "mad",
        aliases: &[],
        needed: 1,
        coerced: |types| match types {
            [value] if is_between(value) => Ok(vec![value.clone()]),
            [value] => Err(refused(format!("mad takes a number or a point in time, not {value}"), HINT)),
            _ => Err(refused(format!("mad takes one argument, not {}", types.len()), HINT)),
        },
        result: |types| match types {
            [value] if value.is_temporal() => Ok(INTERVAL),
            [value] => Ok(between_type(value)),
            _ => Err(refused("mad takes one argument", HINT)),
        },
        value: |rows, _| deviation(&rows[0]),
        of_nothing: None,
    },
];

/// Whether there are values between two of this type.
fn is_between(data_type: &DataType) -> bool {
    use DataType as T;
    data_type.is_numeric() || data_type.is_null() || matches!(data_type, T::Date32 | T::Timestamp(..) | T::Time64(_))
}

/// The type of a value between two.
fn between_type(data_type: &DataType) -> DataType {
    use DataType as T;
    match data_type {
        T::Date32 => T::Timestamp(TimeUnit::Microsecond, None),
        // As integers of 16 bytes are stored.
        T::Decimal128(38, 0) | T::Null => T::Float64,
        other if other.is_integer() => T::Float64,
        other => other.clone(),
    }
}

fn shares(types: &[DataType], is_continuous: bool) -> Result<Vec<DataType>> {
    let share = |own: &DataType| match own {
        DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..) => list_type(&SHARE),
        _ => SHARE,
    };
    match types {
        [value, _] | [value, _, _] if is_continuous && !is_between(value) => {
            Err(refused(format!("a quantile between values takes numbers and points in time, not {value}"), HINT))
        }
        [value, own] => Ok(vec![value.clone(), share(own)]),
        [value, own, _] => Ok(vec![value.clone(), share(own), DataType::Int64]),
        _ => Err(refused("a quantile takes a value and a share between 0 and 1: quantile_disc(x, 0.5)", HINT)),
    }
}

fn result(types: &[DataType], is_continuous: bool) -> Result<DataType> {
    let (Some(value), Some(share)) = (types.first(), types.get(1)) else {
        return Err(refused("a quantile takes a value and a share between 0 and 1: quantile_disc(x, 0.5)", HINT));
    };
    let one = if is_continuous { between_type(value) } else { value.clone() };
    Ok(match share {
        DataType::List(_) => list_type(&one),
        _ => one,
    })
}

/// Makes one value of sorted ones, for a share of at least 0; the other way round where the second is set.
type Quantile = fn(&ArrayRef, i128, bool) -> Result<ArrayRef>;

fn quantiles(rows: &[ArrayRef], quantile: Quantile) -> Result<ScalarValue> {
    let sorted = sorted(&rows[0])?;
    let one = |share: i128| {
        if share.abs() > WHOLE {
            return exec_err!("a quantile takes a share between -1 and 1");
        }
        quantile(&sorted, share.abs(), share < 0)
    };
    let each = |shares: &Decimal128Array| match shares.null_count() {
        0 => shares.values().iter().map(|share| one(*share)).collect::<Result<Vec<_>>>(),
        _ => exec_err!("the share of a quantile cannot be NULL"),
    };
    match rows[1].data_type() {
        DataType::List(_) => {
            let shares = rows[1].as_list::<i32>();
            if shares.is_null(0) {
                return exec_err!("the share of a quantile cannot be NULL");
            }
            let values = each(shares.value(0).as_primitive::<Decimal128Type>())?;
            let values: Vec<&dyn Array> = values.iter().map(|value| value.as_ref()).collect();
            match values.is_empty() {
                true => one_list(&new_empty_array(quantile(&sorted, 0, false)?.data_type())),
                false => one_list(&concat(&values)?),
            }
        }
        _ => match each(&rows[1].slice(0, 1).as_primitive::<Decimal128Type>().clone())?.first() {
            Some(value) => ScalarValue::try_from_array(value, 0),
            None => exec_err!("a quantile takes a share"),
        },
    }
}

fn sorted(values: &ArrayRef) -> Result<ArrayRef> {
    let order = lexsort_to_indices(&[SortColumn { values: sortable(values)?, options: None }], None)?;
    Ok(take(values, &order, None)?)
}

/// The place in ascending order of one counted from the other side, if it is.
fn turned(place: usize, rows: usize, is_descending: bool) -> usize {
    if is_descending { rows - 1 - place } else { place }
}

/// The first value up to which there is such a share of them.
fn at_place(sorted: &ArrayRef, share: i128, is_descending: bool) -> Result<ArrayRef> {
    let rows = sorted.len();
    let place = (rows as i128 * share + WHOLE - 1) / WHOLE - 1;
    let place = usize::try_from(place).unwrap_or(0).min(rows - 1);
    Ok(sorted.slice(turned(place, rows, is_descending), 1))
}

/// The value at such a share of the way from the first to the last one.
fn between(sorted: &ArrayRef, share: i128, is_descending: bool) -> Result<ArrayRef> {
    let rows = sorted.len();
    let place = (rows - 1) as f64 * (share as f64 / WHOLE as f64);
    let (low, high) = (place.floor() as usize, (place.ceil() as usize).min(rows - 1));
    let pick = |place| sorted.slice(turned(place, rows, is_descending), 1);
    weighted(&pick(low), &pick(high), place - place.floor())
}

/// As a digest of single values tells: the value in the middle of each stands for it.
fn near(sorted: &ArrayRef, share: i128, is_descending: bool) -> Result<ArrayRef> {
    let rows = sorted.len();
    // Numbers that are whole in their unit: digits of decimals, days, microseconds.
    let whole: ArrayRef = match sorted.data_type() {
        DataType::Decimal128(..) => {
            let digits = sorted.as_primitive::<Decimal128Type>();
            Arc::new(digits.iter().map(|value| value.map(|value| value as f64)).collect::<Float64Array>())
        }
        DataType::Date32 => plain_cast(&plain_cast(sorted, &DataType::Int32)?, &DataType::Float64)?,
        DataType::Timestamp(..) | DataType::Time64(_) => {
            plain_cast(&plain_cast(sorted, &DataType::Int64)?, &DataType::Float64)?
        }
        number if number.is_numeric() => cast(sorted, &DataType::Float64, false)?,
        _ => return at_place(sorted, share, is_descending),
    };
    let place = (rows as f64 * (share as f64 / WHOLE as f64) - 0.5).clamp(0.0, (rows - 1) as f64);
    let numbers = whole.as_primitive::<Float64Type>();
    let (low, high) = (place.floor() as usize, place.ceil() as usize);
    let value = |place| numbers.value(turned(place, rows, is_descending));
    let part = place - place.floor();
    let found = value(low) * (1.0 - part) + value(high) * part;
    let nearest = || Arc::new(Int64Array::from(vec![found.round_ties_even() as i64])) as ArrayRef;
    match sorted.data_type() {
        DataType::Decimal128(..) => {
            let digits = Decimal128Array::from(vec![found.round_ties_even() as i128]);
            Ok(Arc::new(digits.with_data_type(sorted.data_type().clone())))
        }
        DataType::Date32 => Ok(plain_cast(&plain_cast(&nearest(), &DataType::Int32)?, &DataType::Date32)?),
        moment if moment.is_temporal() => Ok(plain_cast(&nearest(), moment)?),
        number => Ok(cast(&(Arc::new(Float64Array::from(vec![found])) as ArrayRef), number, false)?),
    }
}

/// The value that is so far from one to another.
fn weighted(low: &ArrayRef, high: &ArrayRef, part: f64) -> Result<ArrayRef> {
    let target = between_type(low.data_type());
    let (low, high) = (plain_cast(low, &target)?, plain_cast(high, &target)?);
    if part == 0.0 {
        return Ok(low);
    }
    Ok(match &target {
        DataType::Decimal128(..) => {
            let (low, high) =
                (low.as_primitive::<Decimal128Type>().value(0), high.as_primitive::<Decimal128Type>().value(0));
            let way = high.wrapping_sub(low) as f64 * part;
            let found = if low.abs() < EXACT { (low as f64 + way).trunc() as i128 } else { low + way.trunc() as i128 };
            Arc::new(Decimal128Array::from(vec![found]).with_data_type(target.clone()))
        }
        other if other.is_floating() => {
            let number = |one: &ArrayRef| cast(one, &DataType::Float64, false);
            let (low, high) = (number(&low)?, number(&high)?);
            let (low, high) = (low.as_primitive::<Float64Type>().value(0), high.as_primitive::<Float64Type>().value(0));
            let found: ArrayRef = Arc::new(Float64Array::from(vec![low * (1.0 - part) + high * part]));
            plain_cast(&found, other)?
        }
        other => {
            let (low, high) = (units(&low)?, units(&high)?);
            let found: ArrayRef = Arc::new(Int64Array::from(vec![low + ((high - low) as f64 * part).round() as i64]));
            plain_cast(&found, other)?
        }
    })
}

/// The first of points in time as a number of its unit.
fn units(points: &ArrayRef) -> Result<i64> {
    Ok(plain_cast(points, &DataType::Int64)?.as_primitive::<Int64Type>().value(0))
}

fn median(values: &ArrayRef) -> Result<ArrayRef> {
    let sorted = sorted(values)?;
    match values.data_type() {
        DataType::Interval(_) if sorted.len().is_multiple_of(2) => middle_of_intervals(&sorted),
        between_two if is_between(between_two) => between(&sorted, WHOLE / 2, false),
        _ => at_place(&sorted, WHOLE / 2, false),
    }
}

/// The length in the middle of an even number of sorted intervals.
fn middle_of_intervals(sorted: &ArrayRef) -> Result<ArrayRef> {
    let lengths = lengths(sorted)?;
    let lengths = lengths.as_primitive::<Decimal128Type>();
    let (low, high) = (lengths.value(lengths.len() / 2 - 1), lengths.value(lengths.len() / 2));
    let middle = interval_of(low + ((high - low) as f64 / 2.0).round() as i128)?;
    Ok(Arc::new(IntervalMonthDayNanoArray::from(vec![middle])))
}

/// So many microseconds as days and time.
fn interval_of(microseconds: i128) -> Result<IntervalMonthDayNano> {
    let day = i128::from(MICROSECONDS_OF_DAY);
    match i32::try_from(microseconds / day) {
        Ok(days) => Ok(IntervalMonthDayNano::new(0, days, (microseconds % day) as i64 * 1_000)),
        Err(_) => exec_err!("an interval of {microseconds} microseconds is too long"),
    }
}

/// `mad`: the median of how far the values are from their median.
fn deviation(values: &ArrayRef) -> Result<ScalarValue> {
    // How far points in time are from each other is told in microseconds.
    let values = match values.data_type() {
        DataType::Timestamp(unit, zone) if *unit != TimeUnit::Microsecond => {
            &cast(values, &DataType::Timestamp(TimeUnit::Microsecond, zone.clone()), false)?
        }
        _ => values,
    };
    let middle = median(values)?;
    let values = plain_cast(values, middle.data_type())?;
    Ok(match middle.data_type() {
        DataType::Decimal128(precision, scale) => {
            let middle = middle.as_primitive::<Decimal128Type>().value(0);
            let far = values.as_primitive::<Decimal128Type>().unary::<_, Decimal128Type>(|one| (one - middle).abs());
            let far: ArrayRef = Arc::new(far.with_precision_and_scale(*precision, *scale)?);
            ScalarValue::try_from_array(&median(&far)?, 0)?
        }
        other if other.is_floating() => {
            let floats = |one: &ArrayRef| cast(one, &DataType::Float64, false);
            let middle = floats(&middle)?.as_primitive::<Float64Type>().value(0);
            let far =
                floats(&values)?.as_primitive::<Float64Type>().unary::<_, Float64Type>(|one| (one - middle).abs());
            let far: ArrayRef = Arc::new(far);
            ScalarValue::try_from_array(&plain_cast(&median(&far)?, other)?, 0)?
        }
        _ => {
            let middle = units(&middle)?;
            let numbers = plain_cast(&values, &DataType::Int64)?;
            let far = numbers.as_primitive::<Int64Type>().unary::<_, Int64Type>(|one| (one - middle).abs());
            let far: ArrayRef = sorted(&(Arc::new(far) as ArrayRef))?;
            ScalarValue::IntervalMonthDayNano(Some(interval_of(weighted_units(&far)?.into())?))
        }
    })
}

/// The median of sorted numbers of a unit, rounded.
fn weighted_units(sorted: &ArrayRef) -> Result<i64> {
    let numbers = sorted.as_primitive::<Int64Type>();
    let (low, high) = (numbers.value((numbers.len() - 1) / 2), numbers.value(numbers.len() / 2));
    Ok(low + ((high - low) as f64 / 2.0).round() as i64)
}
