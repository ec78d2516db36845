//! Whether no two rows of a table have the same value of a column: keys are declared, and earlier programs loaded rows
//! without looking at them.
//!
//! All values are looked at once for each version of a table. Invariant: what is unique is so in this version. Must not know: who
//! relies on it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arrow::array::{Array, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use forebay_base::{Error, Result};
use forebay_cpu::pool;
use forebay_store::{ColumnBounds, TableSnapshot};

use crate::types::is_bigint;
use crate::{CancelToken, Engine, Metrics, Scan};

/// Values that a range may have for each row: one bit is kept of each.
const BITS_PER_ROW: u64 = 64;

/// Whether the values of a column are integers of up to 64 bits, none of which is NULL, and no two the same. False too where they lie
/// too far from each other to be looked at.
///
/// # Errors
/// Those of reading.
pub fn is_unique(
    engine: &Arc<Engine>,
    table: &Arc<TableSnapshot>,
    column: usize,
    (threads, metrics): (usize, &Arc<Metrics>),
    cancel: &CancelToken,
) -> Result<bool> {
    table.is_unique_by(column, || find(engine, table, column, (threads, metrics), cancel))
}

fn find(
    engine: &Arc<Engine>,
    table: &Arc<TableSnapshot>,
    column: usize,
    (threads, metrics): (usize, &Arc<Metrics>),
    cancel: &CancelToken,
) -> Result<bool> {
    let is_integer = is_bigint(&table.columns[column].logical);
    if table.rows() == 0 || !is_integer {
        return Ok(is_integer);
    }
    let Some(bounds) = table.read_bounds(column)?.filter(|bounds| bounds.nulls == 0) else { return Ok(false) };
    let Some((low, high)) = ColumnBounds::integers(bounds) else { return Ok(false) };
    let span = u64::try_from(high - low).unwrap_or(u64::MAX).saturating_add(1);
    // More rows than values, or too many values to keep a bit of each.
    if span < table.rows() || span / BITS_PER_ROW > table.rows() {
        return Ok(false);
    }
    let low = i64::try_from(low).map_err(|_| Error::internal("bounds of a column are wider than it"))?;
    let seen: Vec<AtomicU64> = (0..span.div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
    let scan = Scan::new(Arc::clone(engine), Arc::clone(table), vec![column], Arc::clone(metrics), cancel.clone())?;
    let (scan, has_two) = (Arc::new(scan), AtomicBool::new(false));
    let work = || -> Result<()> {
        while !has_two.load(Ordering::Relaxed)
            && let Some(morsel) = scan.next_morsel()
        {
            let mut rows = scan.run(morsel, &mut [], &mut [])?;
            while let Some(batches) = rows.next_block()? {
                for batch in batches {
                    let values = cast(batch.column(0), &DataType::Int64)
                        .map_err(|error| Error::internal(format!("a key is no integer: {error}")))?;
                    let values = values.as_primitive::<Int64Type>();
                    let is_new = |value: &i64| {
                        let bit = value.wrapping_sub(low) as u64;
                        let word = seen.get((bit / 64) as usize);
                        word.is_some_and(|word| {
                            word.fetch_or(1 << (bit % 64), Ordering::Relaxed) >> (bit % 64) & 1 == 0
                        })
                    };
                    if values.null_count() > 0 || !values.values().iter().all(is_new) {
                        has_two.store(true, Ordering::Relaxed);
                    }
                }
            }
        }
        Ok(())
    };
    let panicked = |_| Err(Error::internal("a worker that looked at keys panicked"));
    for done in pool::run(threads.min(scan.morsels()).max(1), work) {
        done.unwrap_or_else(panicked)?;
    }
    Ok(!has_two.into_inner())
}
