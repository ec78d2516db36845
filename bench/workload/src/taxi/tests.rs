//! What makes the trips like those of a city: order, rushes, gaps, sums and absurd values.

use std::collections::HashMap;

use arrow::array::{Array, AsArray};
use arrow::datatypes::{Float64Type, Int32Type, Int64Type, TimestampMicrosecondType};

use super::*;

const ROWS: u64 = 200_000;

fn rows(range: Range<u64>) -> RecordBatch {
    let source = Source { seed: 42, calendar: Calendar::new(ROWS, 42), zones: Zones::new(42) };
    batch(&schema(), &source.trips(range)).expect("rows")
}

fn floats<'a>(batch: &'a RecordBatch, name: &str) -> &'a arrow::array::Float64Array {
    batch.column_by_name(name).expect("a column").as_primitive::<Float64Type>()
}

fn ints<'a>(batch: &'a RecordBatch, name: &str) -> &'a arrow::array::Int32Array {
    batch.column_by_name(name).expect("a column").as_primitive::<Int32Type>()
}

fn bigs<'a>(batch: &'a RecordBatch, name: &str) -> &'a arrow::array::Int64Array {
    batch.column_by_name(name).expect("a column").as_primitive::<Int64Type>()
}

fn times<'a>(batch: &'a RecordBatch, name: &str) -> &'a arrow::array::TimestampMicrosecondArray {
    batch.column_by_name(name).expect("a column").as_primitive::<TimestampMicrosecondType>()
}

#[test]
fn a_range_has_the_rows_of_the_whole() {
    assert_eq!(rows(0..5_000).slice(1_234, 66), rows(1_234..1_300));
}

/// What the generator makes at a seed never changes: sums of a few columns of the first rows.
#[test]
fn the_rows_of_a_seed_stay() {
    let batch = rows(0..10_000);
    let cents: i64 = floats(&batch, "total_amount").values().iter().map(|amount| (amount * 100.0).round() as i64).sum();
    let seconds: i64 = times(&batch, "dropoff_at").values().iter().map(|time| time / 1_000_000 - 1_514_764_800).sum();
    let zones: i64 = ints(&batch, "dropoff_location_id").values().iter().map(|&zone| i64::from(zone)).sum();
    assert_eq!((cents, seconds, zones), (16_108_740, 21_637_365_956, 1_635_301));
}

#[test]
fn columns_are_missing_together_and_in_older_months() {
    let batch = rows(0..ROWS);
    let is_null = |name: &str, row: usize| batch.column_by_name(name).expect("a column").is_null(row);
    let payment = bigs(&batch, "payment_type");
    let (february_2019, april_2021) = (1_548_979_200_000_000, 1_617_235_200_000_000);
    // Rows come a little after their turn, and a few clocks are years behind.
    let hour = 3_600_000_000;
    let mut missing = 0;
    for (row, &time) in times(&batch, "pickup_at").values().iter().enumerate() {
        let incomplete = payment.value(row) == 0;
        missing += usize::from(incomplete);
        for name in ["passenger_count", "rate_code_id", "store_and_fwd_flag"] {
            assert_eq!(is_null(name, row), incomplete, "{name} of row {row}");
        }
        for (name, first) in [("congestion_surcharge", february_2019), ("airport_fee", april_2021)] {
            assert!(!incomplete || is_null(name, row), "{name} of row {row}");
            if time > first + hour {
                assert_eq!(is_null(name, row), incomplete, "{name} of row {row}");
            } else if time > 1_514_764_800_000_000 && time < first {
                assert!(is_null(name, row), "{name} of row {row}");
            }
        }
    }
    assert!((2_000..5_000).contains(&missing), "{missing}");
}

#[test]
fn times_grow_roughly_and_days_have_their_rush() {
    let batch = rows(0..50_000);
    let pickups = times(&batch, "pickup_at").values();
    assert!(pickups.windows(2).any(|pair| pair[0] > pair[1]), "not strictly");
    let in_order = pickups.windows(1_000).filter(|window| window[0] < window[999]).count();
    assert!(in_order > 48_000, "{in_order}");
    let mut hours = [0u32; 24];
    for time in pickups {
        hours[(time / 3_600_000_000 % 24) as usize] += 1;
    }
    assert!(hours[18] > 2 * hours[3] && hours[19] > hours[14], "{hours:?}");
}

#[test]
fn amounts_add_up_and_are_of_few_kinds() {
    let batch = rows(0..ROWS);
    let payment = bigs(&batch, "payment_type");
    let mut rates = HashMap::new();
    let mut odd = 0;
    for row in 0..batch.num_rows() {
        *rates.entry(bigs(&batch, "rate_code_id").value(row)).or_insert(0u32) += 1;
        let mut sum = 0.0;
        for name in ["fare_amount", "extra", "mta_tax", "tip_amount", "tolls_amount", "improvement_surcharge"] {
            sum += floats(&batch, name).value(row);
        }
        for name in ["congestion_surcharge", "airport_fee"] {
            let column = floats(&batch, name);
            sum += if column.is_null(row) { 0.0 } else { column.value(row) };
        }
        // Where surcharges are missing, the total has them all the same.
        odd += u32::from((sum - floats(&batch, "total_amount").value(row)).abs() > 0.001 && payment.value(row) != 0);
    }
    assert_eq!(odd, 0);
    assert!(rates.len() <= 8 && rates[&1] > 180_000 && rates[&2] > 500, "{rates:?}");
    let negative = floats(&batch, "total_amount").values().iter().filter(|&&amount| amount < 0.0).count();
    assert!((200..3_000).contains(&negative), "{negative}");
    let distances = floats(&batch, "trip_distance").values();
    let mut sorted = distances.to_vec();
    sorted.sort_by(f64::total_cmp);
    assert!((0.8..3.5).contains(&sorted[sorted.len() / 2]), "{}", sorted[sorted.len() / 2]);
    assert!(sorted[sorted.len() - 2_000] > 8.0);
}

#[test]
fn a_few_rows_are_absurd() {
    // Rare enough that it takes more rows than the others have.
    let source = Source { seed: 42, calendar: Calendar::new(4_000_000, 42), zones: Zones::new(42) };
    let (mut years, mut distances, mut fares, mut backwards) = (0, 0, 0, 0);
    for start in (0..4_000_000).step_by(100_000) {
        for trip in source.trips(start..start + 100_000) {
            years += u32::from(trip.pickup < 1_500_000_000);
            distances += u32::from(trip.distance >= 1_000_000);
            fares += u32::from(trip.amounts.fare >= 100_000);
            backwards += u32::from(trip.dropoff < trip.pickup);
        }
    }
    for count in [years, distances, fares] {
        assert!((1..60).contains(&count), "{years} {distances} {fares}");
    }
    assert!((20..200).contains(&backwards), "{backwards}");
}
