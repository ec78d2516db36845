//! Rows that are deleted of segments which stay: what is seen of them, by whom, what conflicts, and what is there after a reopen.

use std::collections::BTreeMap;

use super::*;

/// A database with a table of the rows 0 to 5 in one segment and 6 to 8 in another.
fn with_table(disk: &MemoryDisk) -> (Store, TableId) {
    let store = open(disk).expect("a database");
    let id = change(&store, |t| t.create_table(table("t"))).expect("a table");
    for rows in [&[0, 1, 2, 3, 4, 5][..], &[6, 7, 8]] {
        let sealed = vec![segment(&store, rows).expect("a segment")];
        change(&store, |t| t.publish(id, sealed)).expect("rows");
    }
    (store, id)
}

/// Deletes rows of one of the table's segments.
fn delete(t: &mut Transaction, id: TableId, place: usize, rows: &[u16]) -> Result<()> {
    let segment = t.catalog().table_by_id(id).expect("the table").segments[place].as_version();
    let rows = rows.iter().map(|row| (0, *row)).collect();
    let deleted = vec![(Deleted { segment, rows }, Vec::new())];
    t.change_rows(id, RowChanges { replaced: Vec::new(), deleted }, ReplacedCopies::new())
}

/// By segment: how many rows are there, and the numbers of those that are not.
fn seen(catalog: &Catalog, id: TableId) -> Vec<(u64, Vec<u32>)> {
    let gone = |segment: &Arc<Segment>| -> Vec<u32> {
        segment.deleted().blocks().flat_map(|(_, rows)| rows.rows().collect::<Vec<_>>()).collect()
    };
    let table = catalog.table_by_id(id).expect("the table");
    table.segments.iter().map(|segment| (segment.rows(), gone(segment))).collect()
}

#[test]
fn deleted_rows_are_gone_for_whoever_comes_later() {
    let disk = MemoryDisk::new();
    let (store, id) = with_table(&disk);
    let before = store.catalog();
    change(&store, |t| delete(t, id, 0, &[1, 3])).expect("deleted");
    change(&store, |t| delete(t, id, 0, &[0])).expect("deleted");
    let expected = [(3, vec![0, 1, 3]), (3, vec![])];
    assert_eq!(seen(&store.catalog(), id), expected);
    assert_eq!(seen(&before, id), [(6, vec![]), (3, vec![])], "an older snapshot has them");
    let table = Arc::clone(store.catalog().table_by_id(id).expect("the table"));
    assert_eq!((table.rows(), table.has_deleted_rows()), (6, true));
    assert_eq!(table.bounds(0).map(|bounds| (bounds.rows, bounds.integers())), Some((9, Some((0, 8)))));
    assert!(!table.has_rows_of(before.table_by_id(id).expect("the table")));
    // Rows that it does not have, or has no more.
    for rows in [&[6][..], &[1]] {
        assert_eq!(kind(change(&store, |t| delete(t, id, 0, rows))), ErrorKind::Internal);
    }
    drop((store, before, table));
    let store = open(&disk).expect("it opens again");
    assert_eq!(seen(&store.catalog(), id), expected);
    // The last rows take their segment with them.
    change(&store, |t| delete(t, id, 0, &[2, 4, 5])).expect("deleted");
    assert_eq!(seen(&store.catalog(), id), [(3, vec![])]);
    assert_eq!(segment_files(&disk), 1);
    drop(store);
    assert_eq!(seen(&open(&disk).expect("it opens again").catalog(), id), [(3, vec![])]);
}

type Edit<'e> = &'e dyn Fn(&Store, &mut Transaction, TableId) -> Result<()>;

#[track_caller]
fn both(first: Edit<'_>, second: Edit<'_>) -> std::result::Result<Vec<(u64, Vec<u32>)>, ErrorKind> {
    let disk = MemoryDisk::new();
    let (store, id) = with_table(&disk);
    let begin = || store.begin_on(store.catalog()).expect("begun");
    let (mut one, mut other) = (begin(), begin());
    first(&store, &mut one, id).expect("the first one changes");
    second(&store, &mut other, id).expect("the second one changes");
    one.commit().expect("the first one commits");
    let committed = other.commit().map_err(|error| error.kind());
    let now = seen(&store.catalog(), id);
    drop(store);
    assert_eq!(seen(&open(&disk).expect("it opens again").catalog(), id), now);
    committed.map(|()| now)
}

#[test]
fn the_same_row_is_a_conflict_and_others_of_its_segment_are_none() {
    let one_three: Edit<'_> = &|_, t, id| delete(t, id, 0, &[1, 3]);
    let three: Edit<'_> = &|_, t, id| delete(t, id, 0, &[3]);
    let the_rest: Edit<'_> = &|_, t, id| delete(t, id, 0, &[0, 2, 4, 5]);
    let of_other: Edit<'_> = &|_, t, id| delete(t, id, 1, &[2]);
    let add: Edit<'_> = &|store, t, id| t.publish(id, vec![segment(store, &[9])?]);
    let write_anew: Edit<'_> = &|store, t, id| {
        let old = t.catalog().table_by_id(id).expect("the table").segments[0].as_version();
        t.replace(id, &[old], vec![segment(store, &[0, 10])?])
    };
    let twice: Edit<'_> = &|_, t, id| {
        delete(t, id, 0, &[0])?;
        delete(t, id, 0, &[5])
    };
    let conflict = Err(ErrorKind::Conflict);
    assert_eq!(both(one_three, three), conflict);
    assert_eq!(both(three, one_three), conflict);
    assert_eq!(both(three, the_rest), Ok(vec![(1, vec![0, 2, 3, 4, 5]), (3, vec![])]));
    assert_eq!(both(one_three, the_rest), Ok(vec![(3, vec![])]), "none is left");
    assert_eq!(both(the_rest, one_three), Ok(vec![(3, vec![])]), "none is left");
    assert_eq!(both(three, of_other), Ok(vec![(5, vec![3]), (2, vec![2])]));
    assert_eq!(both(one_three, twice), Ok(vec![(2, vec![0, 1, 3, 5]), (3, vec![])]));
    assert_eq!(both(twice, add), Ok(vec![(4, vec![0, 5]), (3, vec![]), (1, vec![])]));
    assert_eq!(both(add, twice), Ok(vec![(4, vec![0, 5]), (3, vec![]), (1, vec![])]));
    // Who has read the segment with other rows must not put what was made of them in its place.
    assert_eq!(both(three, write_anew), conflict);
    assert_eq!(both(write_anew, three), conflict);
    assert_eq!(both(of_other, write_anew), Ok(vec![(2, vec![]), (2, vec![2])]));
}

#[test]
fn rows_come_back_when_a_transaction_goes_back() {
    let disk = MemoryDisk::new();
    let (store, id) = with_table(&disk);
    let mut t = store.begin_on(store.catalog()).expect("begun");
    delete(&mut t, id, 1, &[0]).expect("deleted");
    let savepoint = t.moment();
    delete(&mut t, id, 1, &[1, 2]).expect("deleted");
    assert_eq!(seen(t.catalog(), id), [(6, vec![])]);
    t.return_to(&savepoint).expect("nothing is in the way");
    drop(savepoint);
    t.commit().expect("committed");
    assert_eq!(seen(&store.catalog(), id), [(6, vec![]), (2, vec![0])]);
    drop(store);
    assert_eq!(seen(&open(&disk).expect("it opens again").catalog(), id), [(6, vec![]), (2, vec![0])]);
}

#[test]
fn what_a_manifest_says_of_deleted_rows_is_checked() {
    let disk = MemoryDisk::new();
    let (store, id) = with_table(&disk);
    change(&store, |t| delete(t, id, 0, &[1])).expect("deleted");
    store.checkpoint().expect("a checkpoint");
    let mut rows = manifest::load(&disk).expect("the rows").rows;
    let deleted: BTreeMap<_, _> = rows.clone().into_iter().filter(|(key, _)| key[0] == rows::ROW_DELETED).collect();
    assert_eq!(deleted.len(), 1);
    let key = *deleted.keys().next().expect("a row");
    let load = |rows: &rows::Rows| store::load_catalog(rows, store.volume()).map(drop);
    load(&rows).expect("as it was written");
    // All rows, none, a flag that is none, more than there is.
    let all = [&[0, 6, 0, 0, 0][..], &[0, 0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0]].concat();
    for wrong in [all, vec![0, 0, 0, 0, 0], vec![2, 1, 0, 0, 0, 1, 0], vec![0, 2, 0, 0, 0, 1, 0]] {
        rows::seal_again(&mut rows, key, wrong);
        assert_eq!(kind(load(&rows)), ErrorKind::Corrupt);
    }
    // Rows that the segment does not have are found by a check.
    rows::seal_again(&mut rows, key, vec![0, 1, 0, 0, 0, 7, 0]);
    let (_, catalog) = store::load_catalog(&rows, store.volume()).expect("nothing is read of the segment");
    let segment = &catalog.table_by_id(id).expect("the table").segments[0];
    assert_eq!(kind(segment.check_deleted()), ErrorKind::Corrupt);
}
