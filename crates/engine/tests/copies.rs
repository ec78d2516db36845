//! Which copy of a table's rows is chosen, and that copies which are sorted for it have the same rows.

mod one_table;

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array};
use arrow::datatypes::Int64Type;
use forebay_base::{ColumnId, LogicalType, ProjectionId, Result, Value, limits};
use forebay_disk::MemoryDisk;
use forebay_engine::analyze::{Curve, Unordered};
use forebay_engine::cluster::{Sorter, TableOrder};
use forebay_engine::copies::{CopyChoice, CopyOptions, ScanNeeds, choose};
use forebay_engine::{CancelToken, CopyUse, Engine, LoadOptions, MemoryShares, Metrics, Scan, ScanSettings};
use forebay_pipeline::predicate::{ColumnPredicate, Predicate};
use forebay_store::{OrderKey, ProjectionDefinition, TableSnapshot};

use one_table::{load, noise, open, table};

const BLOCKS: i64 = 4;
const ROWS: i64 = BLOCKS * limits::BLOCK_ROWS as i64;

/// Columns: k is the number of the row, g one of seven values, v noise.
const COLUMNS: [&str; 3] = ["k", "g", "v"];

/// The table, with these projections: names, positions of the columns of their order, and of all.
fn loaded(projections: &[(&str, usize, &[usize])]) -> Arc<Engine> {
    let engine = open(Arc::new(MemoryDisk::default()), MemoryShares::alone(1 << 30)).expect("a new database opens");
    let arrays: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(0..ROWS)),
        Arc::new(Int64Array::from_iter_values((0..ROWS).map(|row| row % 7))),
        Arc::new(Int64Array::from_iter_values((0..ROWS).map(noise))),
    ];
    load(&engine, &COLUMNS.map(|name| (name, LogicalType::Int64)), LoadOptions::default(), [arrays]);
    for (name, order, columns) in projections {
        add(&engine, name, *order, columns);
    }
    engine
}

fn add(engine: &Arc<Engine>, name: &str, order: usize, columns: &[usize]) {
    let (known, catalog) = (table(engine), engine.store().catalog());
    let id = |column: usize| known.columns[column].id;
    let order = vec![OrderKey { hops: Vec::new(), column: id(order) }];
    let ids: Vec<ColumnId> = columns.iter().map(|column| id(*column)).collect();
    let (metrics, cancel) = (Arc::new(Metrics::default()), CancelToken::default());
    let options = LoadOptions::default();
    let sorter = Sorter { engine, catalog: &catalog, options, metrics: &metrics, threads: 2, cancel: &cancel };
    let by = TableOrder { keys: order.clone(), curve: Curve::default() };
    let sorted = sorter.sort(&known, &by, columns, Unordered::Refused).expect("sorted");
    let definition = ProjectionDefinition { id: ProjectionId::TABLE, name: name.into(), order, columns: Some(ids) };
    let mut transaction = engine.store().begin().expect("a transaction");
    transaction.add_projection(known.id, definition, &known.segments.versions(), sorted).expect("added");
    transaction.commit().expect("durable");
}

fn chosen(engine: &Engine, column: usize, value: i64, copies: &CopyUse) -> Option<(Arc<TableSnapshot>, CopyChoice)> {
    let tests = [ColumnPredicate { column, test: Predicate::equal(Value::Int(value.into())) }];
    let needs = ScanNeeds { columns: [column, 2].into(), tests: &tests };
    choose(engine, &table(engine), &needs, &CopyOptions { copies, scan: ScanSettings::default(), threads: 2 })
}

fn name(choice: &Option<(Arc<TableSnapshot>, CopyChoice)>) -> Option<&str> {
    choice.as_ref().and_then(|(copy, _)| copy.projection()).map(|projection| projection.name.as_str())
}

#[test]
fn the_copy_with_the_fewest_bytes_is_chosen_by_the_values_asked_for() {
    let engine = loaded(&[("by_g", 1, &[0, 1, 2]), ("narrow", 1, &[1, 0])]);
    let by_g = chosen(&engine, 1, 3, &CopyUse::Cheapest);
    assert_eq!(name(&by_g), Some("by_g"));
    let (_, choice) = by_g.expect("there are copies");
    // The narrow one lacks v.
    assert_eq!((choice.costs.len(), choice.chosen), (2, 1));
    assert_eq!(choice.costs[0].blocks, BLOCKS as u64);
    assert!(choice.costs[1].blocks <= 2 && choice.costs[1].read_bytes < choice.costs[0].read_bytes);
    assert_eq!(name(&chosen(&engine, 0, 70_000, &CopyUse::Cheapest)), None, "the table lies in the order of k");
    assert_eq!(name(&chosen(&engine, 0, 70_000, &CopyUse::Named("BY_G".into()))), Some("by_g"));
    assert_eq!(name(&chosen(&engine, 1, 3, &CopyUse::Named("narrow".into()))), None);
    assert!(chosen(&engine, 1, 3, &CopyUse::TableOnly).is_none());
    assert!(chosen(&loaded(&[]), 1, 3, &CopyUse::Cheapest).is_none());
}

/// Sums of k and v, and whether g ascends.
fn sums(engine: &Arc<Engine>, copy: &Arc<TableSnapshot>) -> Result<(i64, i64, bool)> {
    let scan = Scan::new(Arc::clone(engine), Arc::clone(copy), vec![0, 1, 2], Arc::default(), CancelToken::default())?;
    let scan = Arc::new(scan);
    let (mut sums, mut groups) = ((0, 0), Vec::new());
    while let Some(morsel) = scan.next_morsel() {
        let mut rows = scan.run(morsel, &mut [], &mut [])?;
        while let Some(batches) = rows.next_block()? {
            for batch in batches {
                let column = |index: usize| batch.column(index).as_primitive::<Int64Type>().values().to_vec();
                sums = (sums.0 + column(0).iter().sum::<i64>(), sums.1 + column(2).iter().sum::<i64>());
                groups.extend(column(1));
            }
        }
    }
    Ok((sums.0, sums.1, groups.is_sorted()))
}

#[test]
fn a_sorted_copy_has_the_same_rows() {
    let engine = loaded(&[("by_g", 1, &[0, 1, 2])]);
    let known = table(&engine);
    let wanted = ((0..ROWS).sum::<i64>(), (0..ROWS).map(noise).sum::<i64>());
    assert_eq!(sums(&engine, &known).expect("read"), (wanted.0, wanted.1, false));
    assert_eq!(sums(&engine, &known.copies()[0]).expect("read"), (wanted.0, wanted.1, true));
}
