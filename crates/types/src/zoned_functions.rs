//! What functions and operators make of TIME WITH TIME ZONE: its time of day, its distance from UTC, and times some interval later.

use std::sync::Arc;
use std::time::SystemTime;

use datafusion::arrow::array::timezone::Tz;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, Int64Array, StringViewArray, Time64MicrosecondArray};
use datafusion::arrow::datatypes::{
    DataType, Date32Type, Field, FieldRef, IntervalMonthDayNanoType, IntervalUnit, TimeUnit, TimestampMicrosecondType,
    TimestampSecondType,
};
use datafusion::arrow::temporal_conversions::as_datetime_with_timezone;
use datafusion::common::{DFSchema, Result, internal_err, plan_err};
use datafusion::functions::utils::make_scalar_function;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use datafusion::sql::sqlparser::ast::BinaryOperator;
use forebay_base::Error;
use forebay_context::error::into_datafusion;
use forebay_context::moments::{self, DAY};

use crate::functions::texts;
use crate::own::Own;
use crate::zoned_times::{self, ZonedTime};

/// The type of intervals.
const INTERVAL: DataType = DataType::Interval(IntervalUnit::MonthDayNano);

/// What is made of a time.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Operation {
    /// Its time of day where it is.
    Local,
    /// How many units of so many seconds it is ahead of UTC, without whole ones of the next unit.
    Offset { seconds: i64, below: i64 },
    /// A time an interval later or earlier.
    Moved { is_later: bool },
    /// The moment at which it is on a day.
    OnDay,
    /// The same moment as clocks in a time zone show it today.
    InZone(Arc<str>),
}

/// The time of day of a value, without its distance.
pub(crate) fn local(value: Expr) -> Expr {
    function(Operation::Local).call(vec![value])
}

/// A value as clocks in a zone show it.
///
/// # Errors
/// A zone that does not exist.
pub(crate) fn in_zone(value: Expr, zone: &Arc<str>) -> Result<Expr> {
    zone.parse::<Tz>().map_err(|_| {
        let error = Error::input(format!("time zone {zone} does not exist"));
        into_datafusion(error.hint("Write it as 'Europe/Berlin', 'UTC' or '+02:00'"))
    })?;
    Ok(function(Operation::InZone(Arc::clone(zone))).call(vec![value]))
}

/// How many seconds clocks in a zone are ahead of UTC now.
fn offset_now(zone: &str) -> Result<i64> {
    let elapsed = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_secs());
    let now = zone.parse::<Tz>().ok().and_then(|zone| {
        as_datetime_with_timezone::<TimestampSecondType>(i64::try_from(elapsed).unwrap_or_default(), zone)
    });
    match now {
        Some(now) => Ok((now.naive_local() - now.naive_utc()).num_seconds()),
        None => internal_err!("the time in {zone} is not known"),
    }
}

/// A part of its distance from UTC; `None` where a name is none of these.
pub(crate) fn offset_part(name: &str, value: &Expr) -> Option<Expr> {
    let (seconds, below) = match name.trim_matches('\'').to_ascii_lowercase().as_str() {
        "timezone" => (1, i64::MAX),
        "timezone_hour" => (3_600, i64::MAX),
        "timezone_minute" => (60, 60),
        _ => return None,
    };
    Some(function(Operation::Offset { seconds, below }).call(vec![value.clone()]))
}

fn function(operation: Operation) -> ScalarUDF {
    ScalarUDF::from(OfTime { operation, signature: Signature::user_defined(Volatility::Immutable) })
}

/// Plans sums with intervals and dates.
#[derive(Debug)]
pub struct ZonedTimes;

impl ExprPlanner for ZonedTimes {
    fn plan_binary_op(&self, expr: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        let is_later = match expr.op {
            BinaryOperator::Plus => true,
            BinaryOperator::Minus => false,
            _ => return Ok(PlannerResult::Original(expr)),
        };
        // Chains of operators are deep on one side: the other one tells nearly always that this is something else.
        let is_deep = |expr: &Expr| matches!(expr, Expr::BinaryExpr(_) | Expr::ScalarFunction(_));
        let (near, far) = if is_deep(&expr.left) { (&expr.right, &expr.left) } else { (&expr.left, &expr.right) };
        let part = |expr: &Expr| expr.get_type(schema).ok().filter(is_part);
        let Some(near_type) = part(near) else { return Ok(PlannerResult::Original(expr)) };
        let Some(far_type) = part(far) else { return Ok(PlannerResult::Original(expr)) };
        let is_near_left = !is_deep(&expr.left);
        let (left, right) = if is_near_left { (near_type, far_type) } else { (far_type, near_type) };
        let is_zoned =
            |expr: &Expr| expr.to_field(schema).is_ok_and(|(_, field)| Own::of_field(&field) == Some(Own::ZonedTime));
        let planned = match (left.is_string(), right.is_string()) {
            (true, false) if right == INTERVAL && is_zoned(&expr.left) => {
                (Operation::Moved { is_later }, expr.left, expr.right)
            }
            (false, true) if left == INTERVAL && is_later && is_zoned(&expr.right) => {
                (Operation::Moved { is_later }, expr.right, expr.left)
            }
            (true, false) if right == DataType::Date32 && is_later && is_zoned(&expr.left) => {
                (Operation::OnDay, expr.left, expr.right)
            }
            (false, true) if left == DataType::Date32 && is_later && is_zoned(&expr.right) => {
                (Operation::OnDay, expr.right, expr.left)
            }
            _ => return Ok(PlannerResult::Original(expr)),
        };
        let (operation, time, other) = planned;
        Ok(PlannerResult::Planned(function(operation).call(vec![time, other])))
    }
}

/// Whether values of this type may be times with their zones, which are texts, or what is added to them.
fn is_part(data_type: &DataType) -> bool {
    data_type.is_string() || *data_type == INTERVAL || *data_type == DataType::Date32
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct OfTime {
    operation: Operation,
    signature: Signature,
}

impl ScalarUDFImpl for OfTime {
    fn name(&self) -> &str {
        match self.operation {
            Operation::Local => "time_of_day",
            Operation::Offset { .. } => "offset_of_time",
            Operation::Moved { is_later: true } => "time_later",
            Operation::Moved { is_later: false } => "time_earlier",
            Operation::OnDay => "time_on_day",
            Operation::InZone(_) => "time_in_zone",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match (&self.operation, types) {
            (Operation::Local | Operation::Offset { .. } | Operation::InZone(_), [_]) => Ok(vec![DataType::Utf8View]),
            (Operation::Moved { .. }, [_, _]) => Ok(vec![DataType::Utf8View, INTERVAL]),
            (Operation::OnDay, [_, _]) => Ok(vec![DataType::Utf8View, DataType::Date32]),
            _ => plan_err!("{} takes other arguments", self.name()),
        }
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(match self.operation {
            Operation::Local => DataType::Time64(TimeUnit::Microsecond),
            Operation::Offset { .. } => DataType::Int64,
            Operation::Moved { .. } | Operation::InZone(_) => DataType::Utf8View,
            Operation::OnDay => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        })
    }

    fn return_field_from_args(&self, _args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let data_type = self.return_type(&[])?;
        Ok(match self.operation {
            Operation::Moved { .. } | Operation::InZone(_) => Own::ZonedTime.field(self.name(), data_type),
            _ => Arc::new(Field::new(self.name(), data_type, true)),
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let operation = self.operation.clone();
        make_scalar_function(move |columns: &[ArrayRef]| computed(&operation, columns), Vec::new())(&args.args)
    }
}

fn computed(operation: &Operation, columns: &[ArrayRef]) -> Result<ArrayRef> {
    let read = |text: Option<&str>| match text {
        Some(text) => ZonedTime::read(text).map(Some).ok_or_else(|| into_datafusion(zoned_times::unknown(text))),
        None => Ok(None),
    };
    let times: Vec<Option<ZonedTime>> = texts(&columns[0])?.iter().map(read).collect::<Result<_>>()?;
    Ok(match operation {
        Operation::Local => {
            // TIME ends before midnight.
            let local = |time: ZonedTime| time.local.min(DAY);
            Arc::new(times.into_iter().map(|time| time.map(local)).collect::<Time64MicrosecondArray>())
        }
        Operation::InZone(zone) => {
            let offset = offset_now(zone)?;
            let moved = |time: ZonedTime| {
                let local = (time.local + (offset - time.offset) * 1_000_000).rem_euclid(DAY);
                ZonedTime { local, offset }.text()
            };
            Arc::new(times.into_iter().map(|time| time.map(moved)).collect::<StringViewArray>())
        }
        Operation::Offset { seconds, below } => {
            let part = |time: ZonedTime| time.offset / seconds % below;
            Arc::new(times.into_iter().map(|time| time.map(part)).collect::<Int64Array>())
        }
        Operation::Moved { is_later } => {
            let intervals = columns[1].as_primitive::<IntervalMonthDayNanoType>();
            let moved = |(time, row): (Option<ZonedTime>, usize)| {
                let time = time.filter(|_| intervals.is_valid(row))?;
                // Days and months lead to the same time of day.
                let distance = intervals.value(row).nanoseconds / 1_000 % DAY;
                let local = if *is_later { time.local + distance } else { time.local - distance };
                Some(ZonedTime { local: local.rem_euclid(DAY), ..time }.text())
            };
            Arc::new(times.into_iter().zip(0..).map(moved).collect::<StringViewArray>())
        }
        Operation::OnDay => {
            let days = columns[1].as_primitive::<Date32Type>();
            let moment = |(time, row): (Option<ZonedTime>, usize)| {
                let Some(time) = time.filter(|_| days.is_valid(row)) else { return Ok(None) };
                let moment =
                    i128::from(days.value(row)) * i128::from(DAY) + i128::from(time.local - time.offset * 1_000_000);
                let beyond = || into_datafusion(Error::input("a date and a time are out of the range of timestamps"));
                moments::in_range(moment).map(Some).ok_or_else(beyond)
            };
            let moments = times.into_iter().zip(0..).map(moment).collect::<Result<Vec<_>>>()?;
            let moments = datafusion::arrow::array::PrimitiveArray::<TimestampMicrosecondType>::from(moments);
            Arc::new(moments.with_timezone("UTC"))
        }
    })
}
