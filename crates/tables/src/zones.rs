//! What the zones of blocks say of a whole column: its bounds, and how many NULLs it has.

use forebay_base::Value;
use forebay_store::{Table, Zone};

/// The zone of a whole column; `None` where the footers cannot be read or a segment lacks the column.
pub fn column_zone(table: &Table, column: usize) -> Option<Zone> {
    let mut whole: Option<Zone> = None;
    for segment in &table.segments {
        let index = segment.column_index(table.columns[column].id)?;
        for group in segment.groups().ok()? {
            for zone in &group.columns[index].zones {
                whole = Some(match whole {
                    None => zone.clone(),
                    Some(whole) => join(&whole, zone),
                });
            }
        }
    }
    whole
}

fn join(a: &Zone, b: &Zone) -> Zone {
    let bound = |x: &Option<Value>, y: &Option<Value>, a_nulls: bool, b_nulls: bool, least: bool| match (x, y) {
        (Some(x), Some(y)) => Some(if least { x.min(y) } else { x.max(y) }.clone()),
        // No bound because there is no value, or because none could be kept.
        (Some(x), None) if b_nulls => Some(x.clone()),
        (None, Some(y)) if a_nulls => Some(y.clone()),
        _ => None,
    };
    let (a_nulls, b_nulls) = (a.null_count == a.rows, b.null_count == b.rows);
    Zone {
        rows: a.rows.saturating_add(b.rows),
        null_count: a.null_count.saturating_add(b.null_count),
        min: bound(&a.min, &b.min, a_nulls, b_nulls, true),
        max: bound(&a.max, &b.max, a_nulls, b_nulls, false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_without_values_do_not_hide_bounds() {
        let some = Zone { rows: 2, null_count: 0, min: Some(Value::Int(1)), max: Some(Value::Int(2)) };
        let nulls = Zone { rows: 2, null_count: 2, min: None, max: None };
        let cut = Zone { rows: 2, null_count: 0, min: Some(Value::Int(0)), max: None };
        assert_eq!(join(&some, &nulls).max, Some(Value::Int(2)));
        assert_eq!(join(&some, &cut).max, None);
        assert_eq!(join(&some, &cut).min, Some(Value::Int(0)));
    }
}
