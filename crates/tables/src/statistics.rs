//! What DataFusion's optimizer may know of a scan: row counts, and min and max of columns from the zones of blocks.

use std::borrow::Cow;
use std::sync::Arc;

use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, ScalarValue, Statistics};
use datafusion::physical_expr::PhysicalExpr;
use forebay_base::{LogicalType, PhysicalType, TimeUnit, Value};
use forebay_pipeline::Predicate;
use forebay_store::{ColumnBounds, Distribution, TableSnapshot};

use crate::filter::Predicates;

/// Share of rows taken to pass a predicate that nothing is known of.
pub const UNKNOWN_SELECTIVITY: f64 = 0.2;

/// Share of rows taken to be equal to a constant in a column of text.
const EQUAL_TEXT_SELECTIVITY: f64 = 0.05;

/// Share of rows of text taken to match a pattern.
pub const PATTERN_SELECTIVITY: f64 = 0.1;

/// Statistics of the rows of `table` that pass `predicates` (over the table's columns), for the columns in `projection`.
pub fn of_scan(table: &TableSnapshot, projection: &[usize], predicates: &[Arc<dyn PhysicalExpr>]) -> Statistics {
    let rows = table.rows() as usize;
    let types: Vec<LogicalType> = table.columns.iter().map(|column| column.logical.clone()).collect();
    let parts = Predicates::of(predicates, &types);
    let exact = parts.tests.is_empty() && parts.residual.is_empty();
    let mut selectivity = UNKNOWN_SELECTIVITY.powi(parts.residual.len().min(3) as i32);
    for test in &parts.tests {
        let (bounds, distribution) = (table.bounds(test.column), table.distribution(test.column));
        selectivity *= test_selectivity(&test.test, bounds, distribution, &types[test.column]);
    }
    let passing = ((rows as f64 * selectivity).ceil() as usize).min(rows);
    let has_hot_rows = table.segments.iter().any(|segment| segment.is_hot());
    let is_exact = exact && !table.has_deleted_rows();
    let mut row_bytes = 0;
    let column_statistics = projection
        .iter()
        .map(|&column| {
            row_bytes += types[column].physical().width().unwrap_or(16);
            if has_hot_rows && !has_exact_bounds(&types[column]) {
                return without_bounds(table.columns[column].nullable, is_exact);
            }
            let bounds = match is_exact {
                true => table.bounds(column).map(Cow::Borrowed),
                false => table.bounds_about(column),
            };
            column_statistics(bounds.as_deref(), &types[column], is_exact)
        })
        .collect();
    let bytes = passing.saturating_mul(row_bytes);
    Statistics {
        num_rows: if exact { Precision::Exact(rows) } else { Precision::Inexact(passing) },
        total_byte_size: Precision::Inexact(bytes),
        column_statistics,
    }
}

fn column_statistics(bounds: Option<&ColumnBounds>, logical: &LogicalType, exact: bool) -> ColumnStatistics {
    let Some(bounds) = bounds else { return ColumnStatistics::new_unknown() };
    let bound = |value: &Option<Value>| match value.as_ref().and_then(|value| exact_bound(value, logical)) {
        Some(scalar) if exact => Precision::Exact(scalar),
        Some(scalar) => Precision::Inexact(scalar),
        None => Precision::Absent,
    };
    let nulls = bounds.nulls as usize;
    let null_count = if exact { Precision::Exact(nulls) } else { Precision::Inexact(nulls) };
    let min_value = bound(&bounds.min);
    let max_value = bound(&bounds.max);
    ColumnStatistics { null_count, min_value, max_value, ..ColumnStatistics::new_unknown() }
}

/// Of a column whose bounds would tell nothing: whoever asks for them of hot rows has all of their values encoded.
fn without_bounds(is_nullable: bool, is_exact: bool) -> ColumnStatistics {
    let null_count = match is_nullable {
        false if is_exact => Precision::Exact(0),
        false => Precision::Inexact(0),
        true => Precision::Absent,
    };
    ColumnStatistics { null_count, ..ColumnStatistics::new_unknown() }
}

/// Whether columns of this type may have bounds that are values of them.
fn has_exact_bounds(logical: &LogicalType) -> bool {
    !matches!(logical.physical(), PhysicalType::Bytes | PhysicalType::F32 | PhysicalType::F64)
}

/// The stored value as a scalar; `None` for floats and strings, whose bounds are not exact.
pub fn exact_bound(value: &Value, logical: &LogicalType) -> Option<ScalarValue> {
    let Value::Int(value) = value else { return None };
    let value = *value;
    Some(match logical {
        LogicalType::Bool => ScalarValue::Boolean(Some(value != 0)),
        LogicalType::Int8 => ScalarValue::Int8(Some(value as i8)),
        LogicalType::Int16 => ScalarValue::Int16(Some(value as i16)),
        LogicalType::Int32 => ScalarValue::Int32(Some(value as i32)),
        LogicalType::Int64 => ScalarValue::Int64(Some(value as i64)),
        LogicalType::UInt8 => ScalarValue::UInt8(Some(value as u8)),
        LogicalType::UInt16 => ScalarValue::UInt16(Some(value as u16)),
        LogicalType::UInt32 => ScalarValue::UInt32(Some(value as u32)),
        LogicalType::UInt64 => ScalarValue::UInt64(Some(value as u64)),
        LogicalType::Decimal { precision, scale } => ScalarValue::Decimal128(Some(value), *precision, *scale as i8),
        LogicalType::Date => ScalarValue::Date32(Some(value as i32)),
        LogicalType::Time => ScalarValue::Time64Microsecond(Some(value as i64)),
        LogicalType::Timestamp { unit, zone } => {
            let zone = zone.as_deref().map(Into::into);
            let value = Some(value as i64);
            match unit {
                TimeUnit::Second => ScalarValue::TimestampSecond(value, zone),
                TimeUnit::Milli => ScalarValue::TimestampMillisecond(value, zone),
                TimeUnit::Micro => ScalarValue::TimestampMicrosecond(value, zone),
                TimeUnit::Nano => ScalarValue::TimestampNanosecond(value, zone),
            }
        }
        _ => return None,
    })
}

/// The share of rows taken to pass a test.
pub fn test_selectivity(
    test: &Predicate,
    bounds: Option<&ColumnBounds>,
    distribution: Option<&Distribution>,
    logical: &LogicalType,
) -> f64 {
    use std::ops::Bound;
    let span = bounds.and_then(ColumnBounds::integers);
    // In floats: the span of the widest decimals, or of intervals as they are stored, is beyond an i128.
    let distance = |from: i128, to: i128| to as f64 - from as f64;
    let distinct = distribution.map(|known| known.distinct).filter(|distinct| *distinct > 0.0);
    let one = match (logical, span) {
        _ if distinct.is_some() => 1.0 / distinct.unwrap_or(1.0).max(1.0),
        (LogicalType::Varchar | LogicalType::Blob, _) => EQUAL_TEXT_SELECTIVITY,
        (_, Some((min, max))) => 1.0 / (distance(min, max) + 1.0).min(1e6),
        _ => EQUAL_TEXT_SELECTIVITY,
    };
    // Frequent values show in the histogram, rare ones only in the number of them.
    let of_value = |value: &Value| match value {
        Value::Int(value) => {
            distribution.and_then(|known| known.share(*value, *value)).map_or(one, |share| share.max(one))
        }
        _ => one,
    };
    let among = |values: &[Value]| values.iter().map(of_value).sum::<f64>().min(1.0);
    let nulls = bounds.map(|bounds| bounds.nulls as f64 / bounds.rows.max(1) as f64);
    match test {
        Predicate::Never => 0.0,
        Predicate::IsNull => nulls.unwrap_or(0.1),
        Predicate::IsNotNull => 1.0 - nulls.unwrap_or(0.0),
        Predicate::NotEqual(value) => 1.0 - of_value(value),
        Predicate::NotIn(values) => 1.0 - among(values),
        Predicate::In(values) => among(values),
        Predicate::Like { negated: false, .. } => PATTERN_SELECTIVITY,
        Predicate::Like { negated: true, .. } => 1.0 - PATTERN_SELECTIVITY,
        Predicate::Keys(keys) => (one * keys.count() as f64).min(1.0),
        Predicate::Range { low: Bound::Included(low), high: Bound::Included(high) } if low == high => of_value(low),
        // What begins with some text.
        Predicate::Range { low: Bound::Included(Value::Bytes(_)), high: Bound::Excluded(Value::Bytes(_)) } => {
            UNKNOWN_SELECTIVITY * PATTERN_SELECTIVITY
        }
        Predicate::Range { low, high } => {
            let Some((min, max)) = span else { return UNKNOWN_SELECTIVITY };
            let edge = |bound: &Bound<Value>, otherwise: i128| match bound {
                Bound::Included(Value::Int(value)) | Bound::Excluded(Value::Int(value)) => *value,
                _ => otherwise,
            };
            let (low, high) = (edge(low, min).max(min), edge(high, max).min(max));
            if let Some(share) = distribution.and_then(|known| known.share(low, high)) {
                return share.clamp(0.001, 1.0);
            }
            (distance(low, high) / distance(min, max).max(1.0)).clamp(0.001, 1.0)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ops::Bound;

    #[test]
    fn ranges_are_shares_of_the_span() {
        let bounds = ColumnBounds { rows: 100, nulls: 0, min: Some(Value::Int(0)), max: Some(Value::Int(99)) };
        let half = Predicate::Range { low: Bound::Included(Value::Int(50)), high: Bound::Unbounded };
        let share = test_selectivity(&half, Some(&bounds), None, &LogicalType::Int32);
        assert!((0.45..0.55).contains(&share), "{share}");
        let one = test_selectivity(&Predicate::equal(Value::Int(3)), Some(&bounds), None, &LogicalType::Int32);
        assert!((one - 0.01).abs() < 1e-9, "{one}");
    }

    #[test]
    fn the_widest_span_is_no_overflow() {
        let bounds =
            ColumnBounds { rows: 9, nulls: 0, min: Some(Value::Int(i128::MIN)), max: Some(Value::Int(i128::MAX)) };
        let share = |test: &Predicate| test_selectivity(test, Some(&bounds), None, &LogicalType::Interval);
        assert!((share(&Predicate::equal(Value::Int(0))) - 1e-6).abs() < 1e-9);
        let half = share(&Predicate::Range { low: Bound::Included(Value::Int(0)), high: Bound::Unbounded });
        assert!((0.45..0.55).contains(&half), "{half}");
        let none =
            share(&Predicate::Range { low: Bound::Included(Value::Int(9)), high: Bound::Excluded(Value::Int(1)) });
        assert!(none <= 0.001, "{none}");
    }
}
