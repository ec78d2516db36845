//! `forebay.memory` and SHOW MEMORY: what the memory of the database is for, and how much of it is taken.

use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use forebay_base::Result;
use forebay_engine::{Engine, MemoryUse};

use crate::columns::{self, Column, Of, known};
use crate::listing::{Batches, Passes, Rows};
use crate::seen::Seen;

/// The holders of memory.
#[derive(Debug)]
pub(crate) struct MemoryHolders(pub(crate) Arc<dyn Seen>);

fn bytes(of: Option<usize>) -> Option<u64> {
    of.map(|bytes| bytes as u64)
}

impl Rows for MemoryHolders {
    type Row = MemoryUse;

    const COLUMNS: &'static [Column<MemoryUse>] = &[
        known("tier", Of::Text(|row| Ok(Some(row.tier.name().to_owned())))),
        known("holder", Of::Text(|row| Ok(Some(row.holder.to_string())))),
        known("part_of", Of::Text(|row| Ok(row.part_of.as_ref().map(ToString::to_string)))),
        known("limit_bytes", Of::Count(|row| Ok(bytes(Some(row.limit_bytes))))),
        known("held_bytes", Of::Count(|row| Ok(bytes(Some(row.held_bytes))))),
        known("used_bytes", Of::Count(|row| Ok(bytes(row.used_bytes)))),
        known("peak_bytes", Of::Count(|row| Ok(bytes(row.peak_bytes)))),
    ];

    fn batches(&self, _passes: Passes<MemoryUse>) -> Batches<MemoryUse> {
        Box::new(std::iter::once(Ok(self.0.engine().memory_use())))
    }
}

/// SHOW MEMORY: the same rows.
///
/// # Errors
/// None but bugs.
pub fn shown(engine: &Engine) -> Result<RecordBatch> {
    let all: Vec<usize> = (0..MemoryHolders::COLUMNS.len()).collect();
    columns::batch(MemoryHolders::COLUMNS, &columns::schema(MemoryHolders::COLUMNS), &all, &engine.memory_use())
}
