//! What expressions compute in a time zone.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Int64Array, StringViewBuilder, TimestampMicrosecondArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, IntervalMonthDayNano, IntervalMonthDayNanoType, TimeUnit};
use datafusion::common::{DataFusionError, Result, internal_err};
use datafusion::functions::utils::make_scalar_function;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use forebay_context::moments;
use forebay_functions::function::{INTERVAL, TEXT, TIMESTAMP, microseconds, refused};
use forebay_functions::moments::shift;

use crate::zone::Zone;

/// The type of instants.
pub(crate) fn instant_type() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))
}

/// What is computed of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operation {
    /// What clocks show at an instant.
    Local,
    /// When clocks show a local date and time.
    Instant,
    /// An instant as a text.
    Text,
    /// The instant that a text stands for, which may say its own zone.
    Read {
        /// A text that stands for none is NULL.
        or_null: bool,
    },
    /// How many units of so many seconds clocks are ahead of UTC at an instant, without whole ones of the next unit.
    Offset {
        /// Of a unit.
        seconds: i64,
        /// Units of the next one.
        below: i64,
    },
    /// The instant that is an interval later or earlier: days are those of clocks, hours are as long as they are.
    Moved {
        /// Later, not earlier.
        is_later: bool,
    },
}

/// The instant that is an interval later or earlier in a zone.
pub(crate) fn moved(is_later: bool, zone: Zone, instant: Expr, interval: Expr) -> Expr {
    function(Operation::Moved { is_later }, zone, 2).call(vec![instant, interval])
}

/// The operation of a value in a zone.
pub(crate) fn call(operation: Operation, zone: Zone, value: Expr) -> Expr {
    function(operation, zone, 1).call(vec![value])
}

fn function(operation: Operation, zone: Zone, arguments: usize) -> ScalarUDF {
    let signature = Signature::any(arguments, Volatility::Immutable);
    ScalarUDF::from(InZone { operation, zone, signature })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct InZone {
    operation: Operation,
    zone: Zone,
    signature: Signature,
}

impl ScalarUDFImpl for InZone {
    fn name(&self) -> &str {
        match self.operation {
            Operation::Local => "zone_local",
            Operation::Instant => "zone_instant",
            Operation::Text => "zone_text",
            Operation::Read { .. } => "zone_read",
            Operation::Offset { .. } => "zone_offset",
            Operation::Moved { is_later: true } => "zone_later",
            Operation::Moved { is_later: false } => "zone_earlier",
        }
    }

    /// As what it stands for, which is no part of names.
    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        match args {
            [value, ..] => Ok(value.schema_name().to_string()),
            [] => internal_err!("{} takes arguments", self.name()),
        }
    }

    fn display_name(&self, args: &[Expr]) -> Result<String> {
        let args: Vec<String> = args.iter().map(ToString::to_string).collect();
        Ok(format!("{}({}, {:?})", self.name(), args.join(", "), self.zone.name()))
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(match self.operation {
            Operation::Local => TIMESTAMP,
            Operation::Text => TEXT,
            Operation::Offset { .. } => DataType::Int64,
            Operation::Instant | Operation::Read { .. } | Operation::Moved { .. } => instant_type(),
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        make_scalar_function(|columns| self.compute(columns), vec![])(&args.args)
    }
}

impl InZone {
    fn compute(&self, columns: &[ArrayRef]) -> Result<ArrayRef> {
        let Some(column) = columns.first() else { return internal_err!("{} takes arguments", self.name()) };
        Ok(match self.operation {
            Operation::Local => Arc::new(self.moments(microseconds(column)?, Zone::local)?),
            Operation::Instant => Arc::new(self.moments(microseconds(column)?, Zone::instant)?.with_timezone("UTC")),
            Operation::Text => {
                let mut out = StringViewBuilder::with_capacity(column.len());
                for instant in microseconds(column)? {
                    let text = instant.map(|instant| self.zone.text(instant).ok_or_else(|| self.out_of_range()));
                    out.append_option(text.transpose()?);
                }
                Arc::new(out.finish())
            }
            Operation::Read { or_null } => Arc::new(self.read_all(&cast(column, &TEXT)?, or_null)?),
            Operation::Offset { seconds, below } => {
                let offset = |instant: i64| self.zone.offset_seconds(instant) / seconds % below;
                Arc::new(microseconds(column)?.into_iter().map(|instant| instant.map(offset)).collect::<Int64Array>())
            }
            Operation::Moved { is_later } => {
                let intervals = cast(&columns[1], &INTERVAL)?;
                let intervals = intervals.as_primitive::<IntervalMonthDayNanoType>();
                let mut instants = Vec::with_capacity(column.len());
                for (instant, interval) in microseconds(column)?.into_iter().zip(intervals) {
                    instants.push(match (instant, interval) {
                        (Some(instant), Some(interval)) => Some(self.moved(instant, interval, is_later)?),
                        _ => None,
                    });
                }
                Arc::new(TimestampMicrosecondArray::from(instants).with_timezone("UTC"))
            }
        })
    }

    fn moved(&self, instant: i64, interval: IntervalMonthDayNano, is_later: bool) -> Result<i64> {
        let turned = if is_later { Some(interval) } else { shift::negated(interval) };
        let known = turned.and_then(|interval| {
            let days = IntervalMonthDayNano { nanoseconds: 0, ..interval };
            let rest = IntervalMonthDayNano { months: 0, days: 0, ..interval };
            let at_day = match (interval.months, interval.days) {
                (0, 0) => instant,
                _ => self.zone.instant(shift::later(self.zone.local(instant)?, days)?)?,
            };
            shift::later(at_day, rest)
        });
        known.ok_or_else(|| self.out_of_range())
    }

    fn read_all(&self, texts: &ArrayRef, or_null: bool) -> Result<TimestampMicrosecondArray> {
        let mut instants = Vec::with_capacity(texts.len());
        for text in texts.as_string_view() {
            let instant = text.and_then(|text| self.read(text));
            if let (Some(text), None, false) = (text, instant, or_null) {
                return Err(refused(
                    format!("cannot read {text:?} as TIMESTAMP WITH TIME ZONE"),
                    "Write it as 2024-01-31 12:34:56, with +02 or the name of a time zone behind it",
                ));
            }
            instants.push(instant);
        }
        Ok(TimestampMicrosecondArray::from(instants).with_timezone("UTC"))
    }

    fn moments(
        &self,
        values: Vec<Option<i64>>,
        of: fn(&Zone, i64) -> Option<i64>,
    ) -> Result<TimestampMicrosecondArray> {
        let moment = |value: i64| of(&self.zone, value).ok_or_else(|| self.out_of_range());
        values.into_iter().map(|value| value.map(moment).transpose()).collect()
    }

    fn read(&self, text: &str) -> Option<i64> {
        let reading = moments::parse(text)?;
        let moment = reading.microseconds(true)?;
        match (reading.offset, reading.zone) {
            (Some(_), _) => Some(moment),
            (None, Some(name)) => Zone::parse(name).ok()?.instant(moment),
            (None, None) => self.zone.instant(moment),
        }
    }

    fn out_of_range(&self) -> DataFusionError {
        refused(
            format!("a moment in {} is out of the range of timestamps", self.zone.name()),
            "Timestamps are those of 290309 BC to 294247",
        )
    }
}
