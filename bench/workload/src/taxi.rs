//! Taxi trips: one row per trip of New York's yellow cabs, with the columns and types of the city's own files (GOLAP §6).
//!
//! What makes such data unlike a synthetic benchmark is kept: five years in the order of monthly files, busy and quiet
//! months, days and hours; few vendors, rates and payment types; zones by popularity; sums of a few round amounts, kept as
//! floats; a few absurd times, distances and fares, and refunds with negative amounts; columns that older months lack, and
//! rows at the end of a month's file where several columns are missing together. Every value is a function of seed and row
//! number, in integers until it is stored, so any thread can make any range on any machine.

mod calendar;
mod trip;
mod zones;

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray,
};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use arrow::error::ArrowError;

use crate::random::{RowRandom, Stream};
use crate::table_source::{PART_ROWS, RangeTable, TableSource};
use calendar::Calendar;
use trip::Trip;
use zones::Zones;

/// Rows at scale factor 1.
pub(crate) const ROWS: f64 = 10_000_000.0;

/// The table at this scale factor.
pub(crate) fn table(scale_factor: f64, seed: u64) -> Box<dyn TableSource> {
    let rows = ((ROWS * scale_factor).round() as u64).max(1);
    let schema = schema();
    let source = Source { seed, calendar: Calendar::new(rows, seed), zones: Zones::new(seed) };
    let make_schema = Arc::clone(&schema);
    Box::new(RangeTable {
        name: "trips",
        schema,
        units: rows,
        part_units: PART_ROWS,
        expected_rows: rows,
        make_rows: Arc::new(move |range| batch(&make_schema, &source.trips(range))),
    })
}

/// What trips are made from.
struct Source {
    seed: u64,
    calendar: Calendar,
    zones: Zones,
}

impl Source {
    fn trips(&self, rows: Range<u64>) -> Vec<Trip> {
        let trip = |row| {
            let random = RowRandom::new(self.seed, Stream::Trip, row);
            Trip::new(random, self.calendar.turn(row), &self.zones)
        };
        rows.map(trip).collect()
    }
}

fn schema() -> SchemaRef {
    let time = DataType::Timestamp(TimeUnit::Microsecond, None);
    let kept = |name, data_type: &DataType| Field::new(name, data_type.clone(), false);
    let nullable = |name, data_type: &DataType| Field::new(name, data_type.clone(), true);
    let (int, big, float) = (&DataType::Int32, &DataType::Int64, &DataType::Float64);
    Arc::new(Schema::new(vec![
        kept("vendor_id", int),
        kept("pickup_at", &time),
        kept("dropoff_at", &time),
        nullable("passenger_count", big),
        kept("trip_distance", float),
        nullable("rate_code_id", big),
        nullable("store_and_fwd_flag", &DataType::Utf8),
        kept("pickup_location_id", int),
        kept("dropoff_location_id", int),
        kept("payment_type", big),
        kept("fare_amount", float),
        kept("extra", float),
        kept("mta_tax", float),
        kept("tip_amount", float),
        kept("tolls_amount", float),
        kept("improvement_surcharge", float),
        kept("total_amount", float),
        nullable("congestion_surcharge", float),
        nullable("airport_fee", float),
    ]))
}

fn batch(schema: &SchemaRef, trips: &[Trip]) -> Result<RecordBatch, ArrowError> {
    let int = |of: fn(&Trip) -> i32| -> ArrayRef { Arc::new(trips.iter().map(of).collect::<Int32Array>()) };
    let big = |of: fn(&Trip) -> Option<i64>| -> ArrayRef { Arc::new(trips.iter().map(of).collect::<Int64Array>()) };
    let time = |of: fn(&Trip) -> i64| -> ArrayRef {
        Arc::new(TimestampMicrosecondArray::from_iter_values(trips.iter().map(|trip| of(trip) * 1_000_000)))
    };
    // Cents, and hundredths of miles.
    let hundredths = |of: fn(&Trip) -> Option<i64>| -> ArrayRef {
        Arc::new(trips.iter().map(|trip| of(trip).map(|value| value as f64 / 100.0)).collect::<Float64Array>())
    };
    let flag = |trip: &Trip| trip.is_stored_first.map(|stored| if stored { "Y" } else { "N" });
    let columns = vec![
        int(|trip| trip.vendor),
        time(|trip| trip.pickup),
        time(|trip| trip.dropoff),
        big(|trip| trip.passengers),
        hundredths(|trip| Some(trip.distance)),
        big(|trip| trip.rate_code),
        Arc::new(trips.iter().map(flag).collect::<StringArray>()),
        int(|trip| trip.pickup_zone),
        int(|trip| trip.dropoff_zone),
        big(|trip| Some(trip.payment_type)),
        hundredths(|trip| Some(trip.amounts.fare)),
        hundredths(|trip| Some(trip.amounts.extra)),
        hundredths(|trip| Some(trip.amounts.tax)),
        hundredths(|trip| Some(trip.amounts.tip)),
        hundredths(|trip| Some(trip.amounts.tolls)),
        hundredths(|trip| Some(trip.amounts.improvement)),
        hundredths(|trip| Some(trip.amounts.total)),
        hundredths(|trip| trip.amounts.congestion),
        hundredths(|trip| trip.amounts.airport),
    ];
    RecordBatch::try_new(Arc::clone(schema), columns)
}

#[cfg(test)]
mod tests;
