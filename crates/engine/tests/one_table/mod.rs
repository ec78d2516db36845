//! A database with one table `t`, for the tests of this folder.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use forebay_base::{LogicalType, Result};
use forebay_disk::Disk;
use forebay_engine::{Engine, LoadOptions, LoadTarget, Loader, MemoryShares};
use forebay_store::{ColumnDefinition, OpenMode, Store, TableDefinition, TableOptions, TableSnapshot};

/// The database on a disk, whether it is there already or not.
pub(crate) fn open(disk: Arc<dyn Disk>, memory: MemoryShares) -> Result<Arc<Engine>> {
    let store = Store::open(Arc::clone(&disk), OpenMode::ReadWrite, "a test")?;
    Ok(Arc::new(Engine::new(store, memory, disk)))
}

/// The table as it is now.
pub(crate) fn table(engine: &Engine) -> Arc<TableSnapshot> {
    Arc::clone(engine.store().catalog().table("main", "t").expect("the table was made"))
}

/// A number of 24 bits, and its sign, that tells nothing of the row's.
pub(crate) fn noise(row: i64) -> i64 {
    (row as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) as i64 >> 40
}

/// Makes the table with these columns, and with rows that come in batches.
pub(crate) fn load(
    engine: &Engine,
    columns: &[(&str, LogicalType)],
    options: LoadOptions,
    batches: impl IntoIterator<Item = Vec<ArrayRef>>,
) {
    let column = |(name, logical): &(&str, LogicalType)| ColumnDefinition {
        name: (*name).into(),
        logical: logical.clone(),
        nullable: true,
        default: None,
        missing: None,
    };
    let mut transaction = engine.store().begin().expect("a transaction");
    let definitions = columns.iter().map(column).collect();
    let definition =
        TableDefinition { schema: "main".into(), name: "t".into(), columns: definitions, constraints: Vec::new() };
    transaction.create_table(definition).expect("a table");
    transaction.commit().expect("durable");
    let known = table(engine);
    let target = LoadTarget::with_options(engine.store(), &known.columns, &TableOptions::default(), options);
    let target = target.expect("a segment");
    let mut loader = Loader::new(Arc::clone(&target), 0);
    for arrays in batches {
        let named = columns.iter().zip(arrays).map(|((name, _), array)| (*name, array, true));
        loader.push(&RecordBatch::try_from_iter_with_nullable(named).expect("a valid batch")).expect("rows are taken");
    }
    loader.finish().expect("the last group is written");
    let sealed = Arc::into_inner(target).expect("its loader is gone").finish().expect("durable");
    let mut transaction = engine.store().begin().expect("a transaction");
    transaction.publish(known.id, sealed).expect("published");
    transaction.commit().expect("durable");
}
