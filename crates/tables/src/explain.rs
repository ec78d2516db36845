//! Tests and filters as a person reads them in EXPLAIN.

use std::ops::Bound;
use std::sync::Arc;

use datafusion::physical_expr::PhysicalExpr;
use forebay_base::{LogicalType, Value};
use forebay_pipeline::Predicate;
use forebay_store::Column;

/// Values of a list that EXPLAIN shows.
const SHOWN_VALUES: usize = 5;

/// Characters of a run-time filter that EXPLAIN shows.
const SHOWN_CHARACTERS: usize = 120;

/// A test on `column` as SQL-like text.
pub fn test_text(column: &Column, test: &Predicate) -> String {
    let name = &column.name;
    let value = |value: &Value| value_text(value, &column.logical);
    match test {
        Predicate::Range { low: Bound::Included(low), high: Bound::Included(high) } if low == high => {
            format!("{name} = {}", value(low))
        }
        Predicate::Range { low, high } => {
            let low = match low {
                Bound::Included(low) => Some(format!("{name} >= {}", value(low))),
                Bound::Excluded(low) => Some(format!("{name} > {}", value(low))),
                Bound::Unbounded => None,
            };
            let high = match high {
                Bound::Included(high) => Some(format!("{name} <= {}", value(high))),
                Bound::Excluded(high) => Some(format!("{name} < {}", value(high))),
                Bound::Unbounded => None,
            };
            low.into_iter().chain(high).collect::<Vec<_>>().join(" AND ")
        }
        Predicate::NotEqual(other) => format!("{name} <> {}", value(other)),
        Predicate::In(values) => format!("{name} IN ({})", list(values, &value)),
        Predicate::Keys(keys) => format!("{name} IN ({} keys from {} to {})", keys.count(), keys.low(), keys.high()),
        Predicate::NotIn(values) => format!("{name} NOT IN ({})", list(values, &value)),
        Predicate::Like { pattern, negated } => {
            let word = if *negated { "NOT LIKE" } else { "LIKE" };
            format!("{name} {word} '{}'", String::from_utf8_lossy(pattern))
        }
        Predicate::IsNull => format!("{name} IS NULL"),
        Predicate::IsNotNull => format!("{name} IS NOT NULL"),
        Predicate::Never => "false".to_owned(),
    }
}

fn list(values: &[Value], value: &dyn Fn(&Value) -> String) -> String {
    let mut shown: Vec<String> = values.iter().take(SHOWN_VALUES).map(value).collect();
    if values.len() > SHOWN_VALUES {
        shown.push(format!("… {} more", values.len() - SHOWN_VALUES));
    }
    shown.join(", ")
}

fn value_text(value: &Value, logical: &LogicalType) -> String {
    match (value, logical) {
        (Value::Int(value), LogicalType::Bool) => (*value != 0).to_string(),
        (Value::Int(value), LogicalType::Decimal { scale, .. }) if *scale > 0 => {
            let unit = 10i128.pow(u32::from(*scale));
            let sign = if *value < 0 { "-" } else { "" };
            let (whole, part) = (value.unsigned_abs() / unit as u128, value.unsigned_abs() % unit as u128);
            format!("{sign}{whole}.{part:0width$}", width = usize::from(*scale))
        }
        (Value::Int(value), LogicalType::Date) => {
            match i32::try_from(*value).ok().and_then(datafusion::arrow::temporal_conversions::date32_to_datetime) {
                Some(date) => date.date().to_string(),
                None => value.to_string(),
            }
        }
        (Value::Int(value), _) => value.to_string(),
        (Value::Float(value), _) => value.to_string(),
        (Value::Bytes(bytes), _) => format!("'{}'", String::from_utf8_lossy(bytes)),
    }
}

/// A filter that may hold thousands of keys, cut to a readable length.
pub fn shortened(expr: &Arc<dyn PhysicalExpr>) -> String {
    let text = expr.to_string();
    match text.char_indices().nth(SHOWN_CHARACTERS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_base::ColumnId;

    #[test]
    fn tests_read_like_sql() {
        let column = |logical| Column {
            id: ColumnId(1),
            name: "a".into(),
            logical,
            nullable: true,
            default: None,
            missing: None,
        };
        let range = Predicate::Range { low: Bound::Included(Value::Int(-105)), high: Bound::Excluded(Value::Int(20)) };
        let decimal = column(LogicalType::Decimal { precision: 9, scale: 2 });
        assert_eq!(test_text(&decimal, &range), "a >= -1.05 AND a < 0.20");
        assert_eq!(test_text(&column(LogicalType::Date), &Predicate::equal(Value::Int(366))), "a = 1971-01-02");
        let many = Predicate::one_of((0..9).map(Value::Int).collect());
        assert_eq!(test_text(&column(LogicalType::Int8), &many), "a IN (0, 1, 2, 3, 4, … 4 more)");
    }
}
