//! Segments of hot rows in memory: their columns are those of the moment at which a catalog was taken, whenever somebody asks for them.

use super::hot::{add, rows_in, rows_of};
use super::*;

fn with_rows(rows: i64) -> (Store, TableId) {
    let store = open(&MemoryDisk::new()).expect("a database");
    let id = change(&store, |t| t.create_table(table("t"))).expect("a table");
    change(&store, |t| (0..rows).try_for_each(|row| add(t, id, row).map(drop))).expect("rows");
    (store, id)
}

fn image(catalog: &Catalog, id: TableId) -> Arc<Segment> {
    let table = catalog.table_by_id(id).expect("it");
    assert!(table.segments.len() == 1 && table.segments[0].is_hot());
    Arc::clone(&table.segments[0])
}

#[test]
fn columns_that_are_made_late_are_those_of_their_snapshot() {
    let (store, id) = with_rows(3000);
    let before = store.catalog();
    let shown = image(&before, id);
    // Versions are pruned again and again meanwhile.
    for round in 1..=5 {
        change(&store, |t| {
            for row in t.hot_row_ids(id)? {
                let value = t.hot_row(id, row)?.expect("it was listed").cell(0).as_i64().expect("an integer");
                match value % 7 == round {
                    true => assert!(t.delete_hot(id, row)?),
                    false => assert!(t.update_hot(id, row, &[(0, Cell::i64(value + 7000))])?),
                }
            }
            add(t, id, 100_000 * round).map(drop)
        })
        .expect("changed");
    }
    assert_eq!(rows_of(&shown), (0..3000).collect::<Vec<_>>());
    assert_eq!(rows_in(&before, id), (0..3000).collect::<Vec<_>>());
    let now = rows_in(&store.catalog(), id);
    assert!(now.len() < 3000 && now.iter().all(|value| *value >= 7000));
}

#[test]
fn snapshots_that_see_the_same_share_what_was_made() {
    let (store, id) = with_rows(10);
    let other = change(&store, |t| t.create_table(table("u"))).expect("a table");
    let first = image(&store.catalog(), id);
    assert_eq!(rows_of(&first), (0..10).collect::<Vec<_>>());
    change(&store, |t| add(t, other, 1).map(drop)).expect("added");
    let second = image(&store.catalog(), id);
    assert_eq!(second.id(), first.id());
    let column = |segment: &Segment| std::ptr::from_ref(&segment.groups().expect("in memory")[0].columns[0]);
    assert_eq!(column(&first), column(&second));
    assert!(first.statistics(0).expect("known").distinct() < 20.0);
    change(&store, |t| add(t, id, 10).map(drop)).expect("added");
    let third = image(&store.catalog(), id);
    assert_ne!(third.id(), first.id());
    // A row more makes no difference to what is known about the values.
    assert!(std::ptr::eq(first.statistics(0).expect("known"), third.statistics(0).expect("known")));
    change(&store, |t| (11..100).try_for_each(|row| add(t, id, row).map(drop))).expect("added");
    let fourth = image(&store.catalog(), id);
    assert!(fourth.statistics(0).expect("known").distinct() > 80.0);
}

#[test]
fn what_a_transaction_changes_later_is_no_part_of_what_it_has_seen() {
    let (store, id) = with_rows(3);
    let mut t = store.begin_on(store.catalog()).expect("begun");
    add(&mut t, id, 3).expect("added");
    let shown = image(t.catalog(), id);
    let first = t.hot_row_ids(id).expect("rows")[0];
    assert!(t.update_hot(id, first, &[(0, Cell::i64(50))]).expect("updated"));
    assert!(t.delete_hot(id, t.hot_row_ids(id).expect("rows")[1]).expect("deleted"));
    assert_eq!(rows_of(&shown), [0, 1, 2, 3]);
    assert_eq!(rows_in(t.catalog(), id), [50, 2, 3]);
    assert!(shown.statistics(0).expect("about").distinct() < 5.0);
}

/// Who finds no memory for a chunk is told when the read is begun, as with files: reads ahead are left out then.
#[test]
fn without_memory_no_read_begins() {
    let (store, id) = with_rows(10);
    let catalog = store.catalog();
    let shown = image(&catalog, id);
    let none = |_| Err(forebay_base::Error::new(ErrorKind::OutOfMemory, "no memory"));
    let whole = shown.groups().expect("a footer")[0].columns[0].chunks[0].stored_bytes as usize;
    let begun = shown.submit_chunk((0, 0, 0), std::slice::from_ref(&(0..whole)), &none, forebay_disk::ReadPath::Direct);
    assert_eq!(begun.expect_err("there is none").kind(), ErrorKind::OutOfMemory);
}
