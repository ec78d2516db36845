//! Whether rows lie in the order of a key, no two of them the same: of what is loaded in order no table of keys has to be made.
//!
//! Invariant: where it says so no two rows have the same values of the columns, and none is NULL in one of them. Must not know: who
//! asks.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use forebay_base::{Error, LogicalType, Result};
use forebay_cpu::pool;
use forebay_store::TableSnapshot;

use crate::types::is_bigint;
use crate::{CancelToken, Engine, Metrics, Scan};

/// The values of a row in the columns of a key.
type Values = Vec<i64>;

/// Whether each morsel of `table` is strictly ascending by these columns of integers, the first one first, and no two morsels have
/// values in common. It ends with the first rows for which that is not so.
///
/// # Errors
/// Those of reading.
pub fn is_ascending(
    engine: &Arc<Engine>,
    table: &Arc<TableSnapshot>,
    columns: &[usize],
    (threads, metrics): (usize, &Arc<Metrics>),
    cancel: &CancelToken,
) -> Result<bool> {
    let is_integer = |column: &usize| {
        let logical = &table.columns[*column].logical;
        is_bigint(logical) || matches!(logical, LogicalType::Date)
    };
    if columns.is_empty() || !columns.iter().all(is_integer) {
        return Ok(false);
    }
    let scan = Scan::new(Arc::clone(engine), Arc::clone(table), columns.to_vec(), Arc::clone(metrics), cancel.clone())?;
    let (scan, is_mixed) = (Arc::new(scan), AtomicBool::new(false));
    let ranges: Mutex<Vec<(Values, Values)>> = Mutex::default();
    let work = || -> Result<()> {
        while !is_mixed.load(Ordering::Relaxed)
            && let Some(morsel) = scan.next_morsel()
        {
            let mut rows = scan.run(morsel, &mut [], &mut [])?;
            let mut seen: Option<(Values, Values)> = None;
            while let Some(batches) = rows.next_block()? {
                for batch in batches.iter().filter(|batch| batch.num_rows() > 0) {
                    let Some((first, last)) = ends_of_ascending(batch)? else {
                        is_mixed.store(true, Ordering::Relaxed);
                        return Ok(());
                    };
                    seen = match seen {
                        None => Some((first, last)),
                        Some((least, before)) if before < first => Some((least, last)),
                        Some(_) => {
                            is_mixed.store(true, Ordering::Relaxed);
                            return Ok(());
                        }
                    };
                }
            }
            ranges.lock().unwrap_or_else(PoisonError::into_inner).extend(seen);
        }
        Ok(())
    };
    let panicked = |_| Err(Error::internal("a worker that looked at keys panicked"));
    for done in pool::run(threads.min(scan.morsels()).max(1), work) {
        done.unwrap_or_else(panicked)?;
    }
    let mut ranges = ranges.into_inner().unwrap_or_else(PoisonError::into_inner);
    ranges.sort_unstable();
    Ok(!is_mixed.into_inner() && ranges.is_sorted_by(|(_, before), (first, _)| before < first))
}

/// The first and the last row of a batch with rows; `None` where these do not ascend strictly, or one has a NULL.
fn ends_of_ascending(batch: &RecordBatch) -> Result<Option<(Values, Values)>> {
    let integers = |column: &ArrayRef| {
        let array = cast(column, &DataType::Int64);
        array.map_err(|error| Error::internal(format!("a key is no integer: {error}")))
    };
    let arrays = batch.columns().iter().map(integers).collect::<Result<Vec<_>>>()?;
    let keys: Vec<&Int64Array> = arrays.iter().map(|array| array.as_primitive::<Int64Type>()).collect();
    let ascends = |row: usize| {
        let orders = keys.iter().map(|key| key.value(row - 1).cmp(&key.value(row)));
        orders.into_iter().find(|order| order.is_ne()).is_some_and(|order| order.is_lt())
    };
    if keys.iter().any(|key| key.null_count() > 0) || !(1..batch.num_rows()).all(ascends) {
        return Ok(None);
    }
    let values = |row: usize| keys.iter().map(|key| key.value(row)).collect();
    Ok(Some((values(0), values(batch.num_rows() - 1))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_ascend_by_all_columns_together() {
        let batch = |a: &[i32], b: &[Option<i64>]| {
            let columns: [(&str, ArrayRef); 2] = [
                ("a", Arc::new(arrow::array::Int32Array::from(a.to_vec()))),
                ("b", Arc::new(Int64Array::from(b.to_vec()))),
            ];
            ends_of_ascending(&RecordBatch::try_from_iter(columns).expect("a batch")).expect("integers")
        };
        let ends = batch(&[1, 1, 2], &[Some(5), Some(6), Some(1)]);
        assert_eq!(ends, Some((vec![1, 5], vec![2, 1])));
        assert_eq!(batch(&[1], &[Some(1)]), Some((vec![1, 1], vec![1, 1])));
        assert_eq!(batch(&[1, 1], &[Some(1), Some(1)]), None, "the same twice");
        assert_eq!(batch(&[1, 1], &[Some(2), Some(1)]), None);
        assert_eq!(batch(&[2, 1], &[Some(1), Some(2)]), None);
        assert_eq!(batch(&[1, 2], &[Some(1), None]), None);
    }
}
