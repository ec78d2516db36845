//! The memory that hot rows take: they become segments where it is short, and who wants too much of it gets an error.

use forebay_base::budget::{Backing, Budget};

use super::hot::seen;
use super::*;

const LIMIT: usize = 4 << 20;

/// A database with a table `t`, whose hot rows may take four mebibytes.
fn limited() -> (Store, TableId, Budget) {
    let store = Store::open(Arc::new(MemoryDisk::new()), OpenMode::ReadWrite, "test").expect("a database");
    let id = change(&store, |t| t.create_table(table("t"))).expect("a table");
    let budget = Budget::new(2 * LIMIT);
    store.limit_hot_rows(budget.client("hot rows", LIMIT, Backing::Heap));
    (store, id, budget)
}

fn add(t: &mut Transaction, id: TableId, row: i64) -> Result<()> {
    t.insert_hot(id, &[Cell::i64(row), Cell::Bytes(&[b'x'; 1000])]).map(drop)
}

#[test]
fn rows_become_segments_where_memory_is_short() {
    let (store, id, budget) = limited();
    let mut most = 0;
    for row in 0..20_000 {
        change(&store, |t| add(t, id, row)).expect("a row");
        most = most.max(budget.held_bytes());
    }
    assert!(most > LIMIT / 4 && most <= 2 * LIMIT, "{most}");
    store.inner.maintenance.wait();
    let catalog = store.catalog();
    let segments = &catalog.stored_table(id).expect("the table").segments;
    assert!(segments.iter().map(|segment| segment.rows()).sum::<u64>() > 12_000);
    assert!(seen(&store, id).into_iter().eq(0..20_000));
}

/// Rows that a snapshot or a transaction holds stay; who adds more is told, and whatever else is done goes on.
#[test]
fn who_takes_too_much_gets_an_error() {
    let (store, id, _budget) = limited();
    let mut greedy = store.begin_on(store.catalog()).expect("begun");
    let error = (0..40_000).find_map(|row| add(&mut greedy, id, row).err()).expect("there is not so much");
    assert_eq!(error.kind(), ErrorKind::OutOfMemory);
    assert!(error.to_string().contains("hot rows"), "{error}");
    assert!(!greedy.has_room_for_hot_rows());
    // Others write segments.
    change(&store, |t| {
        assert!(!t.has_room_for_hot_rows());
        t.publish(id, vec![segment(&store, &[7])?])
    })
    .expect("a segment");
    drop(greedy);
    change(&store, |t| t.publish(id, vec![segment(&store, &[8])?])).expect("a segment");
    store.inner.maintenance.wait();
    change(&store, |t| {
        assert!(t.has_room_for_hot_rows(), "what was rolled back takes no memory");
        add(t, id, 9)
    })
    .expect("a hot row");
    assert_eq!(seen(&store, id), [7, 8, 9]);
}
