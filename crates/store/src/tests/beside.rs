//! Transactions beside each other: what comes together, and what is a conflict.

use super::*;

/// A database with a table `t` of the rows 1 and 2 in a segment each, and a table `u` without rows.
fn with_tables(disk: &MemoryDisk) -> (Store, TableId) {
    let store = open(disk).expect("a database");
    let id = change(&store, |t| t.create_table(table("t"))).expect("a table");
    change(&store, |t| t.create_table(table("u"))).expect("another one");
    for row in [1, 2] {
        change(&store, |t| add(&store, t, id, row)).expect("a row");
    }
    (store, id)
}

fn add(store: &Store, transaction: &mut Transaction, id: TableId, row: i64) -> Result<()> {
    transaction.publish(id, vec![segment(store, &[row])?])
}

/// Puts a row in the place of one of the table's segments.
fn put(store: &Store, transaction: &mut Transaction, id: TableId, place: usize, row: i64) -> Result<()> {
    let old = transaction.catalog().table_by_id(id).expect("the table").segments[place].as_version();
    transaction.replace(id, &[old], vec![segment(store, &[row])?])
}

fn rows_of(store: &Store, id: TableId) -> Vec<i64> {
    let catalog = store.catalog();
    let table = catalog.table_by_id(id).expect("the table");
    let first = |segment: &Arc<Segment>| match blocks(segment).first() {
        Some((Some(Value::Int(row)), 1)) => *row as i64,
        other => panic!("{other:?}"),
    };
    table.segments.iter().map(first).collect()
}

type Edit<'e> = &'e dyn Fn(&Store, &mut Transaction, TableId) -> Result<()>;

/// Two transactions that begin with the same tables and do this, of which the first one commits first; the rows of `t` then, or the kind
/// of the second one's error.
#[track_caller]
fn both(first: Edit<'_>, second: Edit<'_>) -> std::result::Result<Vec<i64>, ErrorKind> {
    let disk = MemoryDisk::new();
    let (store, id) = with_tables(&disk);
    let begin = || store.begin_on(store.catalog()).expect("begun");
    let (mut one, mut other) = (begin(), begin());
    first(&store, &mut one, id).expect("the first one changes");
    second(&store, &mut other, id).expect("the second one changes");
    one.commit().expect("the first one commits");
    let is_conflict = other.check_conflicts().is_err();
    let committed = other.commit();
    assert!(!is_conflict || committed.is_err());
    let seen = store.catalog().table_by_id(id).map(|_| rows_of(&store, id)).unwrap_or_default();
    let named = store.catalog().segments().count();
    assert_eq!(segment_files(&disk), named, "files of what is there, and no others");
    drop(store);
    let again = open(&disk).expect("it opens again");
    assert_eq!(again.catalog().table_by_id(id).map(|_| rows_of(&again, id)).unwrap_or_default(), seen);
    committed.map(|()| seen).map_err(|error| error.kind())
}

#[test]
fn rows_that_others_change_are_a_conflict_for_who_relies_on_them() {
    let add_3: Edit<'_> = &|store, t, id| add(store, t, id, 3);
    let put_first: Edit<'_> = &|store, t, id| put(store, t, id, 0, 10);
    let add_4_with_keys: Edit<'_> = &|store, t, id| {
        t.rely_on_rows(id);
        add(store, t, id, 4)
    };
    assert_eq!(both(add_3, add_4_with_keys), Err(ErrorKind::Conflict));
    assert_eq!(both(put_first, add_4_with_keys), Err(ErrorKind::Conflict));
    assert_eq!(both(add_4_with_keys, add_4_with_keys), Err(ErrorKind::Conflict));
    // Who comes later and looks at no keys is not concerned, nor are rows of other tables.
    assert_eq!(both(add_4_with_keys, add_3), Ok(vec![1, 2, 4, 3]));
    let add_to_u: Edit<'_> = &|store, t, _| {
        let other = t.catalog().tables().find(|table| table.name == "u").expect("the other table").id;
        add(store, t, other, 5)
    };
    assert_eq!(both(add_to_u, add_4_with_keys), Ok(vec![1, 2, 4]));
    let drop_first: Edit<'_> = &|_, t, id| {
        let old = t.catalog().table_by_id(id).expect("the table").segments[0].as_version();
        t.replace(id, &[old], Vec::new())
    };
    assert_eq!(both(drop_first, add_4_with_keys), Err(ErrorKind::Conflict));
}

#[test]
fn who_looks_again_at_rows_that_others_have_changed_may_commit() {
    let disk = MemoryDisk::new();
    let (store, id) = with_tables(&disk);
    let mut relies = store.begin_on(store.catalog()).expect("begun");
    relies.rely_on_rows(id);
    add(&store, &mut relies, id, 4).expect("added");
    let before = store.catalog();
    change(&store, |t| add(&store, t, id, 3)).expect("added");
    let again = relies.try_commit().expect("no conflict").expect("not looked at");
    let (tables, known) = again.unchecked().expect("something to look at");
    assert_eq!(tables.iter().copied().collect::<Vec<_>>(), [id]);
    assert!(Arc::ptr_eq(known, &before) && Arc::ptr_eq(again.base(), &store.catalog()));
    assert_eq!(again.changed_tables(), [id]);
    let (now, after) = (again.base().table_by_id(id), again.catalog().table_by_id(id));
    let changed = ChangedSegments::between(now.expect("the table"), after.expect("the table")).expect("readable");
    let rows =
        |segments: &[Arc<Segment>]| segments.iter().flat_map(|own| blocks(own)).map(|(least, _)| least).collect();
    let ints = |rows: &[i128]| rows.iter().map(|row| Some(Value::Int(*row))).collect::<Vec<_>>();
    assert_eq!((rows(&changed.come), rows(&changed.stay)), (ints(&[4]), ints(&[1, 2, 3])));
    assert_eq!(changed.gone.len(), 0);
    // Another commit in between: to be looked at once more, but only that.
    let before = store.catalog();
    change(&store, |t| put(&store, t, id, 2, 30)).expect("put");
    let again = again.try_commit().expect("no conflict").expect("not looked at");
    assert!(again.unchecked().is_some_and(|(_, known)| Arc::ptr_eq(known, &before)));
    assert!(again.try_commit().expect("committed").is_none());
    assert_eq!(rows_of(&store, id), [1, 2, 30, 4]);
}

/// Who looks again sees hot rows of commits that were still in line when it wanted to commit.
#[test]
fn who_looks_again_sees_hot_rows_of_who_was_in_line() {
    use crate::volume::locked;
    use forebay_hot::Cell;
    let disk = MemoryDisk::new();
    let (store, id) = with_tables(&disk);
    let u = store.catalog().tables().find(|table| table.name == "u").expect("the other table").id;
    let add_hot = |t: &mut Transaction, row: i64| t.insert_hot(u, &[Cell::i64(row), Cell::Bytes(b"new")]).map(drop);
    let begin = || store.begin_on(store.catalog()).expect("begun");
    let (mut first, mut second) = (begin(), begin());
    add(&store, &mut first, id, 3).expect("a row");
    add_hot(&mut first, 1).expect("a hot row");
    second.rely_on_rows(id);
    add_hot(&mut second, 2).expect("a hot row");
    std::thread::scope(|scope| {
        let written = locked(&store.inner.written);
        let first = scope.spawn(|| first.commit());
        while store.inner.line.newest().0.commit == store.catalog().commit {
            std::thread::yield_now();
        }
        let second = scope.spawn(|| second.try_commit());
        // It waits for the first one, or has what it needs already.
        std::thread::sleep(std::time::Duration::from_millis(20));
        drop(written);
        first.join().expect("no panic").expect("it commits");
        let second = second.join().expect("no panic").expect("nothing is wrong").expect("it has to look again");
        assert_eq!(super::hot::rows_in(second.base(), u), [1]);
        assert_eq!(super::hot::rows_in(second.catalog(), u), [1, 2]);
        assert!(second.try_commit().expect("nobody else commits").is_none());
    });
    assert_eq!(super::hot::seen(&store, u), [1, 2]);
}

#[test]
fn rows_that_both_add_and_segments_that_each_replaces_come_together() {
    let add_3: Edit<'_> = &|store, t, id| add(store, t, id, 3);
    let add_4: Edit<'_> = &|store, t, id| add(store, t, id, 4);
    let put_first: Edit<'_> = &|store, t, id| put(store, t, id, 0, 10);
    let put_last: Edit<'_> = &|store, t, id| put(store, t, id, 1, 20);
    assert_eq!(both(add_3, add_4), Ok(vec![1, 2, 3, 4]));
    assert_eq!(both(put_first, add_4), Ok(vec![10, 2, 4]));
    assert_eq!(both(add_3, put_first), Ok(vec![10, 2, 3]));
    assert_eq!(both(put_first, put_last), Ok(vec![10, 20]));
    assert_eq!(both(put_last, put_first), Ok(vec![10, 20]));
    // Of rows that came and went in one transaction nothing is left.
    let add_and_put: Edit<'_> = &|store, t, id| {
        add(store, t, id, 3)?;
        put(store, t, id, 2, 30)?;
        put(store, t, id, 1, 20)
    };
    assert_eq!(both(add_4, add_and_put), Ok(vec![1, 20, 30, 4]));
    let empty: Edit<'_> = &|_, t, id| {
        let all = t.catalog().table_by_id(id).expect("the table").segments.versions();
        t.replace(id, &all, Vec::new())
    };
    assert_eq!(both(add_3, empty), Ok(vec![3]));
    assert_eq!(both(empty, add_3), Ok(vec![3]));
    assert_eq!(both(empty, put_first), Err(ErrorKind::Conflict));
    assert_eq!(both(empty, empty), Err(ErrorKind::Conflict));
}

#[test]
fn the_same_segment_and_definitions_beside_rows_are_conflicts() {
    let conflict = Err(ErrorKind::Conflict);
    let put_first: Edit<'_> = &|store, t, id| put(store, t, id, 0, 10);
    let add_3: Edit<'_> = &|store, t, id| add(store, t, id, 3);
    let alter: Edit<'_> = &|_, t, id| t.add_column(id, column("more", LogicalType::Int64)).map(drop);
    let rename: Edit<'_> = &|_, t, id| t.rename_table(id, "other");
    let remove: Edit<'_> = &|_, t, id| t.drop_table(id);
    let option: Edit<'_> = &|_, t, id| t.set_option(id, None, "index i", Some("Id"));
    let widen: Edit<'_> = &|_, t, id| {
        let added = t.add_column(id, column("more", LogicalType::Int64))?;
        t.drop_column(id, added)
    };
    for definition in [alter, rename, remove, option, widen] {
        for rows in [put_first, add_3] {
            assert_eq!(both(definition, rows), conflict);
            assert_eq!(both(rows, definition), conflict);
        }
        assert_eq!(both(definition, definition), conflict);
    }
    assert_eq!(both(put_first, put_first), conflict);
}

#[test]
fn names_that_both_make_or_need_are_conflicts() {
    let make =
        |name: &'static str| move |_: &Store, t: &mut Transaction, _: TableId| t.create_table(table(name)).map(drop);
    let view =
        |sql: &'static str| move |_: &Store, t: &mut Transaction, _: TableId| t.create_view("main", "v", sql, true);
    let schema: Edit<'_> = &|_, t, _| t.create_schema("s");
    assert_eq!(both(&make("a"), &make("b")), Ok(vec![1, 2]));
    assert_eq!(both(&make("a"), &make("A")), Err(ErrorKind::Conflict));
    assert_eq!(both(&view("SELECT 1"), &make("v")), Err(ErrorKind::Conflict));
    assert_eq!(both(&view("SELECT 1"), &view("SELECT 2")), Err(ErrorKind::Conflict));
    assert_eq!(both(schema, schema), Err(ErrorKind::Conflict));
    let value_macro: Edit<'_> = &|_, t, _| t.create_macro(MacroKind::Value, "main", "m", vec!["() AS 1".into()], false);
    let named_type: Edit<'_> = &|_, t, _| t.create_type("main", "m", "INTEGER".into(), false);
    assert_eq!(both(value_macro, named_type), Ok(vec![1, 2]), "of different kinds");
    assert_eq!(both(value_macro, value_macro), Err(ErrorKind::Conflict));
    assert_eq!(both(named_type, named_type), Err(ErrorKind::Conflict));
    // A foreign key to a table that goes, or loses the column, and a table in a schema that goes.
    let refer: Edit<'_> = &|_, t, _| {
        let key = Constraint::ForeignKey {
            columns: vec![ColumnId(0)],
            table: "main.u".into(),
            references: vec!["Id".into()],
            is_enforced: true,
        };
        t.create_table(TableDefinition { constraints: vec![key], ..table("r") }).map(drop)
    };
    let u = |t: &Transaction| t.catalog().table("main", "u").expect("it is there").id;
    let remove: Edit<'_> = &|_, t, _| t.drop_table(u(t));
    let narrow: Edit<'_> = &|_, t, _| t.drop_column(u(t), ColumnId(0));
    for other in [remove, narrow] {
        assert_eq!(both(refer, other), Err(ErrorKind::Conflict));
        assert_eq!(both(other, refer), Err(ErrorKind::Conflict));
    }
}

#[test]
fn a_schema_that_goes_while_something_comes_into_it_is_a_conflict() {
    for is_first in [true, false] {
        let store = open(&MemoryDisk::new()).expect("a database");
        change(&store, |t| t.create_schema("s")).expect("a schema");
        let begin = || store.begin_on(store.catalog()).expect("begun");
        let (mut removes, mut adds) = (begin(), begin());
        removes.drop_schema("s", false).expect("empty");
        adds.create_table(TableDefinition { schema: "s".into(), ..table("t") }).expect("it is there");
        let (first, second) = if is_first { (removes, adds) } else { (adds, removes) };
        first.commit().expect("the first one");
        assert_eq!(kind(second.commit()), ErrorKind::Conflict);
    }
}

#[test]
fn numbers_of_sequences_are_taken_beside_transactions() {
    let store = open(&MemoryDisk::new()).expect("a database");
    let range = SequenceRange { start: 1, increment: 1, least: 1, greatest: 9, cycles: false };
    change(&store, |t| t.create_sequence("main", "s", range)).expect("a sequence");
    let mut beside = store.begin_on(store.catalog()).expect("begun");
    beside.create_table(table("t")).expect("a table");
    assert_eq!(change(&store, |t| t.take_numbers("main", "s", 2)).expect("two"), [1, 2]);
    beside.commit().expect("no conflict");
    assert_eq!(change(&store, |t| t.take_numbers("main", "s", 1)).expect("one"), [3], "not taken back");
    // One that is made anew has no numbers of the old one.
    let mut anew = store.begin_on(store.catalog()).expect("begun");
    anew.drop_sequence("main", "s").expect("it is there");
    anew.create_sequence("main", "s", range).expect("made");
    assert_eq!(change(&store, |t| t.take_numbers("main", "s", 1)).expect("one"), [4]);
    anew.commit().expect("no conflict");
    assert_eq!(change(&store, |t| t.take_numbers("main", "s", 1)).expect("one"), [1]);
}

#[test]
fn a_transaction_goes_back_to_what_it_was_and_leaves_no_files() {
    let disk = MemoryDisk::new();
    let (store, id) = with_tables(&disk);
    let mut t = store.begin_on(store.catalog()).expect("begun");
    add(&store, &mut t, id, 3).expect("added");
    let before = t.moment();
    add(&store, &mut t, id, 4).expect("added");
    put(&store, &mut t, id, 0, 10).expect("put");
    assert_eq!(segment_files(&disk), 5);
    t.return_to(&before).expect("nothing is in the way");
    assert_eq!(segment_files(&disk), 3, "what is taken back is removed");
    t.commit().expect("committed");
    assert_eq!(rows_of(&store, id), [1, 2, 3]);
    let mut t = store.begin_on(store.catalog()).expect("begun");
    add(&store, &mut t, id, 5).expect("added");
    drop(t);
    assert_eq!(segment_files(&disk), 3);
}

#[test]
fn old_snapshots_read_what_others_have_replaced() {
    let disk = MemoryDisk::new();
    let (store, id) = with_tables(&disk);
    let old = store.begin_on(store.catalog()).expect("begun");
    change(&store, |t| put(&store, t, id, 0, 10)).expect("put");
    let table = Arc::clone(old.catalog().table_by_id(id).expect("the table"));
    assert_eq!(blocks(&table.segments[0]), [(Some(Value::Int(1)), 1)]);
    assert_eq!(segment_files(&disk), 3);
    drop((table, old));
    assert_eq!(segment_files(&disk), 2);
}

/// Who writes a segment anew of which another transaction has deleted a row meanwhile has a conflict, also while a third one, which may yet fail,
/// makes a mark of that.
#[test]
fn a_segment_is_not_written_anew_beside_who_deletes_a_row_of_it() {
    for fails in [true, false] {
        let disk = MemoryDisk::new();
        let store = open(&disk).expect("a database");
        let id = change(&store, |t| t.create_table(table("t"))).expect("a table");
        for rows in [&[0, 1, 2, 3][..], &[4, 5]] {
            change(&store, |t| t.publish(id, vec![segment(&store, rows)?])).expect("a segment");
        }
        let versions = |t: &Transaction| {
            let table = Arc::clone(t.catalog().table_by_id(id).expect("it"));
            [0, 1].map(|place| table.segments[place].as_version())
        };
        let begin = || store.begin_on(store.catalog()).expect("begun");
        let (mut one, mut other) = (begin(), begin());
        let [first, _] = versions(&other);
        other.replace(id, &[first], vec![segment(&store, &[7, 1, 2, 3]).expect("a segment")]).expect("replaced");
        one.delete_stored(id, first.id, 0, 0).expect("deleted");
        super::hot::add(&mut one, id, 100).expect("added");
        one.commit().expect("it commits");
        let mut third = begin();
        let [_, second] = versions(&third);
        third.replace(id, &[second], vec![segment(&store, &[4, 6]).expect("a segment")]).expect("replaced");
        assert_eq!(other.commit().map_err(|error| error.kind()), Err(ErrorKind::Conflict));
        if fails {
            drop(third);
        } else {
            third.commit().expect("it commits");
        }
        let left = if fails { [1, 2, 3, 4, 5, 100] } else { [1, 2, 3, 4, 6, 100] };
        assert_eq!(super::hot::seen(&store, id), left);
        change(&store, |t| t.freeze_hot(id)).expect("frozen");
        assert_eq!(super::hot::seen(&store, id), left);
    }
}

/// Who deletes rows of a segment one by one is not in the way of who makes marks of what others have deleted, also while that commit is in line.
#[test]
fn deletions_and_marks_of_others_are_no_conflict() {
    use crate::volume::locked;
    let disk = MemoryDisk::new();
    let store = open(&disk).expect("a database");
    let id = change(&store, |t| t.create_table(table("t"))).expect("a table");
    change(&store, |t| t.publish(id, vec![segment(&store, &[0, 1, 2, 3])?])).expect("a segment");
    let delete = |t: &mut Transaction, row: u16| {
        let segment = t.catalog().stored_table(id).expect("the table").segments[0].id();
        t.delete_stored(id, segment, 0, row)
    };
    change(&store, |t| delete(t, 1)).expect("deleted");
    let begin = || store.begin_on(store.catalog()).expect("begun");
    let (mut marking, mut deleting) = (begin(), begin());
    marking.mark_deletions(id).expect("marked");
    delete(&mut deleting, 2).expect("deleted");
    std::thread::scope(|scope| {
        let written = locked(&store.inner.written);
        let marking = scope.spawn(|| marking.commit());
        while store.inner.line.newest().0.commit == store.catalog().commit {
            std::thread::yield_now();
        }
        let deleting = scope.spawn(|| deleting.commit());
        std::thread::sleep(std::time::Duration::from_millis(20));
        drop(written);
        marking.join().expect("no panic").expect("it commits");
        deleting.join().expect("no panic").expect("no conflict");
    });
    assert_eq!(super::hot::seen(&store, id), [0, 3]);
    change(&store, |t| t.freeze_hot(id)).expect("frozen");
    assert_eq!(super::hot::seen(&store, id), [0, 3]);
}
