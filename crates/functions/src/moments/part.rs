//! Parts of dates, times, timestamps and intervals: their names, and what they are.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::datatypes::{
    DataType, Field, FieldRef, Float64Type, Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType,
    Time64MicrosecondType, TimeUnit, TimestampNanosecondType,
};
use datafusion::common::{DataFusionError, Result, ScalarValue, internal_err};
use datafusion::logical_expr::preimage::PreimageResult;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility, lit,
};
use forebay_base::calendar::{self, civil};
use forebay_context::intervals;
use forebay_context::moments::{DAY, INFINITE};
use forebay_syntax::types::shown_type;

use crate::function::{Call, Definition, INTERVAL, Shape, TEXT, TIME, days, is_moment, is_text, moment_type, refused};

/// What a row gives.
type Reader<'a, T> = Box<dyn Fn(usize) -> Result<Option<T>> + 'a>;

/// Microseconds of a second.
pub const SECOND: i64 = 1_000_000;
/// Microseconds of a minute.
pub const MINUTE: i64 = 60 * SECOND;
/// Microseconds of an hour.
pub const HOUR: i64 = 60 * MINUTE;

/// The Julian day of 1970-01-01.
const JULIAN: i64 = 2_440_588;

/// A part of a date, time, timestamp or interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Part {
    Era,
    Millennium,
    Century,
    Decade,
    Year,
    IsoYear,
    Quarter,
    Month,
    Week,
    YearWeek,
    Day,
    DayOfWeek,
    IsoDayOfWeek,
    DayOfYear,
    Julian,
    Hour,
    Minute,
    Second,
    Millisecond,
    Microsecond,
    Nanosecond,
    Epoch,
    /// The distance from UTC, of which there is none.
    Zone,
}

impl Part {
    /// The part of this name, in any case.
    pub fn named(name: &str) -> Option<Self> {
        use Part as P;
        Some(match name.to_ascii_lowercase().as_str() {
            "era" => P::Era,
            "millennium" | "mil" | "millenniums" | "millennia" | "mils" | "millenium" => P::Millennium,
            "century" | "cent" | "centuries" | "c" => P::Century,
            "decade" | "dec" | "decades" | "decs" => P::Decade,
            "year" | "yr" | "y" | "years" | "yrs" => P::Year,
            "isoyear" => P::IsoYear,
            "quarter" | "quarters" => P::Quarter,
            "month" | "mon" | "months" | "mons" => P::Month,
            "week" | "weeks" | "w" | "weekofyear" => P::Week,
            "yearweek" => P::YearWeek,
            "day" | "days" | "d" | "dayofmonth" => P::Day,
            "dow" | "dayofweek" | "weekday" => P::DayOfWeek,
            "isodow" => P::IsoDayOfWeek,
            "doy" | "dayofyear" => P::DayOfYear,
            "julian" | "jd" => P::Julian,
            "hour" | "hr" | "hours" | "hrs" | "h" => P::Hour,
            "minute" | "min" | "minutes" | "mins" | "m" => P::Minute,
            "second" | "sec" | "seconds" | "secs" | "s" => P::Second,
            "millisecond" | "milliseconds" | "ms" | "msec" | "msecs" | "msecond" | "mseconds" => P::Millisecond,
            "microsecond" | "microseconds" | "us" | "usec" | "usecs" | "usecond" | "useconds" => P::Microsecond,
            "epoch" => P::Epoch,
            "timezone" | "timezone_hour" | "timezone_minute" => P::Zone,
            _ => return None,
        })
    }

    /// As [`Part::named`], which may stand in quotes; an error where there is no such part.
    pub fn of(name: &str) -> Result<Self> {
        Self::named(name.trim_matches('\'')).ok_or_else(|| {
            refused(
                format!("there is no part {name:?} of a date, time or interval"),
                "Use year, month, day, week, quarter, dow, doy, hour, minute, second, epoch and the like",
            )
        })
    }

    /// Whether it is a part of seconds, which may be no whole number.
    pub fn is_float(self) -> bool {
        matches!(self, Self::Epoch | Self::Julian)
    }

    /// The part of a finite moment: of its day, and microseconds of that.
    fn of_moment(self, day: i64, time: i64) -> Option<i64> {
        use Part as P;
        let date = civil(day);
        let since = |years: i64| match date.year {
            year if year > 0 => (year - 1) / years + 1,
            year => year / years - 1,
        };
        Some(match self {
            P::Era => i64::from(date.year > 0),
            P::Millennium => since(1_000),
            P::Century => since(100),
            P::Decade => date.year / 10,
            P::Year => date.year,
            P::IsoYear => calendar::iso_week(day).0,
            P::Quarter => (date.month - 1) / 3 + 1,
            P::Month => date.month,
            P::Week => calendar::iso_week(day).1,
            P::YearWeek => {
                let (year, week) = calendar::iso_week(day);
                year * 100 + if year > 0 { week } else { -week }
            }
            P::Day => date.day,
            P::DayOfWeek => calendar::weekday(day),
            P::IsoDayOfWeek => calendar::iso_weekday(day),
            P::DayOfYear => calendar::year_day(day),
            P::Julian => day + JULIAN,
            P::Epoch => day * (DAY / SECOND) + time / SECOND,
            P::Zone => 0,
            of_time => return of_time.of_time(time),
        })
    }

    /// The part of a time of day in microseconds; `None` where it has none.
    pub fn of_time(self, time: i64) -> Option<i64> {
        Some(match self {
            Self::Hour => time / HOUR,
            Self::Minute => time % HOUR / MINUTE,
            Self::Second => time % MINUTE / SECOND,
            Self::Millisecond => time % MINUTE / 1_000,
            Self::Microsecond => time % MINUTE,
            Self::Nanosecond => time % MINUTE * 1_000,
            Self::Zone => 0,
            _ => return None,
        })
    }

    fn of_interval(self, interval: IntervalMonthDayNano) -> Option<i64> {
        let months = i64::from(interval.months);
        Some(match self {
            Self::Millennium => months / 12_000,
            Self::Century => months / 1_200,
            Self::Decade => months / 120,
            Self::Year => months / 12,
            Self::Quarter => months % 12 / 3 + 1,
            Self::Month => months % 12,
            Self::Day => i64::from(interval.days),
            Self::Hour | Self::Minute | Self::Second | Self::Millisecond | Self::Microsecond | Self::Nanosecond => {
                return self.of_time(interval.nanoseconds / 1_000);
            }
            _ => return None,
        })
    }

    fn missing(self, data_type: &DataType) -> DataFusionError {
        let (kind, part) = (shown_type(data_type), format!("{self:?}").to_lowercase());
        refused(
            format!("an {kind} has no part {part}"),
            "Use year, month, day, hour, minute, second, epoch and the like",
        )
    }

    /// A function from rows of an array to this part of them.
    fn reader(self, array: &ArrayRef) -> Result<Reader<'_, f64>> {
        let whole = self.whole_reader(array)?;
        Ok(match (self, array.data_type()) {
            (Self::Epoch, DataType::Interval(_)) => {
                let values = array.as_primitive::<IntervalMonthDayNanoType>();
                Box::new(move |row| Ok(values.is_valid(row).then(|| intervals::epoch(values.value(row)))))
            }
            (Self::Epoch, DataType::Time64(_)) => {
                let values = array.as_primitive::<Time64MicrosecondType>();
                Box::new(move |row| Ok(values.is_valid(row).then(|| values.value(row) as f64 / SECOND as f64)))
            }
            (Self::Epoch | Self::Julian, DataType::Date32) => {
                let days = days(array)?;
                let value = move |day: i64| match self {
                    Self::Epoch => (day * (DAY / SECOND)) as f64,
                    _ => (day + JULIAN) as f64,
                };
                Box::new(move |row| Ok(days[row].map(value)))
            }
            (Self::Epoch | Self::Julian, moment) if is_moment(moment) => {
                let moments = crate::function::microseconds(array)?;
                let value = move |moment: i64| match self {
                    Self::Epoch => moment as f64 / SECOND as f64,
                    _ => (moment.div_euclid(DAY) + JULIAN) as f64 + moment.rem_euclid(DAY) as f64 / DAY as f64,
                };
                Box::new(move |row| Ok(moments[row].filter(|one| one.unsigned_abs() != INFINITE as u64).map(value)))
            }
            _ => Box::new(move |row| Ok(whole(row)?.map(|part| part as f64))),
        })
    }

    fn whole_reader(self, array: &ArrayRef) -> Result<Reader<'_, i64>> {
        Ok(match array.data_type() {
            DataType::Interval(_) => {
                let values = array.as_primitive::<IntervalMonthDayNanoType>();
                Box::new(move |row| match values.is_valid(row) {
                    true => {
                        self.of_interval(values.value(row)).map(Some).ok_or_else(|| self.missing(values.data_type()))
                    }
                    false => Ok(None),
                })
            }
            DataType::Time64(_) => {
                let values = array.as_primitive::<Time64MicrosecondType>();
                Box::new(move |row| match values.is_valid(row) {
                    true => self.of_time(values.value(row)).map(Some).ok_or_else(|| self.missing(values.data_type())),
                    false => Ok(None),
                })
            }
            DataType::Date32 => {
                let days = days(array)?;
                Box::new(move |row| Ok(days[row].and_then(|day| self.of_moment(day, 0))))
            }
            DataType::Timestamp(TimeUnit::Nanosecond, _) if self == Self::Nanosecond => {
                let moments = array.as_primitive::<TimestampNanosecondType>();
                let of_minute = |moment: i64| moment.rem_euclid(MINUTE * 1_000);
                Box::new(move |row| {
                    let moment = moments.is_valid(row).then(|| moments.value(row));
                    Ok(moment.filter(|one| one.unsigned_abs() != INFINITE as u64).map(of_minute))
                })
            }
            moment if is_moment(moment) => {
                let moments = crate::function::microseconds(array)?;
                let part = move |moment: i64| self.of_moment(moment.div_euclid(DAY), moment.rem_euclid(DAY));
                Box::new(move |row| Ok(moments[row].filter(|one| one.unsigned_abs() != INFINITE as u64).and_then(part)))
            }
            other => return internal_err!("{other} has no parts"),
        })
    }
}

pub(crate) const DEFINITIONS: &[Definition] =
    &[Definition { names: &["nanosecond"], shape: nanosecond_shape, compute: nanoseconds }];

fn with_parts(data_type: &DataType) -> Option<DataType> {
    match data_type {
        DataType::Time64(_) => Some(TIME),
        DataType::Interval(_) => Some(INTERVAL),
        other => moment_type(other),
    }
}

fn nanosecond_shape(types: &[DataType]) -> Option<Shape> {
    let [value] = types else { return None };
    Some(Shape { arguments: vec![with_parts(value)?], result: DataType::Int64 })
}

fn nanoseconds(call: &Call<'_>) -> Result<ArrayRef> {
    let read = Part::Nanosecond.whole_reader(&call.arguments[0])?;
    call.values_of::<Int64Type>(read)
}

/// `date_part`, of which `extract` is another form: whole numbers, but seconds of an epoch and Julian days, and parts that are no
/// constants.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct DatePart {
    signature: Signature,
    aliases: Vec<String>,
}

impl Default for DatePart {
    fn default() -> Self {
        Self { signature: Signature::user_defined(Volatility::Immutable), aliases: vec!["datepart".to_owned()] }
    }
}

/// The part that a literal names.
fn literal_part(literal: Option<&ScalarValue>) -> Result<Option<Part>> {
    literal.and_then(|literal| literal.try_as_str().flatten()).map(Part::of).transpose()
}

impl ScalarUDFImpl for DatePart {
    fn name(&self) -> &str {
        "date_part"
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match types {
            [part, value] if is_text(part) => match with_parts(value) {
                // A literal must stay one, for it says what comes out.
                Some(value) => Ok(vec![part.clone(), value]),
                None => Err(refused(
                    format!("{} has no parts", shown_type(value)),
                    "Cast it to DATE, TIME, TIMESTAMP or INTERVAL",
                )),
            },
            _ => Err(refused("date_part takes the name of a part, and a date", "Write date_part('year', x)")),
        }
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        internal_err!("the type of date_part depends on the part")
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let part = literal_part(args.scalar_arguments.first().copied().flatten())?;
        let is_whole = part.is_some_and(|part| !part.is_float());
        let data_type = if is_whole { DataType::Int64 } else { DataType::Float64 };
        Ok(Arc::new(Field::new(self.name(), data_type, true)))
    }

    fn preimage(&self, args: &[Expr], literal: &Expr, context: &SimplifyContext) -> Result<PreimageResult> {
        let year = match literal.as_literal() {
            Some(ScalarValue::Int64(Some(year))) => i32::try_from(*year).ok(),
            _ => None,
        };
        match year {
            Some(year) => datafusion::functions::datetime::date_part().preimage(args, &lit(year), context),
            None => Ok(PreimageResult::None),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [part, value] = args.args.as_slice() else { return internal_err!("date_part takes two arguments") };
        let rows = if matches!((part, value), (ColumnarValue::Scalar(_), ColumnarValue::Scalar(_))) {
            1
        } else {
            args.number_rows
        };
        let arguments = [value.to_array(rows)?];
        let call = Call { arguments: &arguments, rows, result: args.return_field.data_type() };
        let is_whole = *call.result == DataType::Int64;
        let result = match part {
            ColumnarValue::Scalar(literal) => match literal_part(Some(literal))? {
                Some(part) if is_whole => call.values_of::<Int64Type>(part.whole_reader(&arguments[0])?)?,
                Some(part) => call.values_of::<Float64Type>(part.reader(&arguments[0])?)?,
                None => call.values_of::<Float64Type>(|_| Ok(None))?,
            },
            ColumnarValue::Array(parts) => {
                let parts = datafusion::arrow::compute::cast(parts, &TEXT)?;
                let parts = parts.as_string_view();
                call.values_of::<Float64Type>(|row| match parts.is_valid(row) {
                    true => Part::of(parts.value(row))?.reader(&arguments[0])?(row),
                    false => Ok(None),
                })?
            }
        };
        Ok(match value {
            ColumnarValue::Scalar(_) if rows == 1 && matches!(part, ColumnarValue::Scalar(_)) => {
                ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?)
            }
            _ => ColumnarValue::Array(result),
        })
    }
}
