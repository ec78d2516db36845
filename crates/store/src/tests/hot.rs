//! Hot rows: who sees them and when, conflicts, and what is there after a reopen, a checkpoint and a kill.

use std::ops::Bound;

use super::redo::copied;
use super::*;

/// A database with a table `t`, whose hot rows are 1, 2 and 3.
fn with_rows() -> (Arc<dyn Disk>, Store, TableId) {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let store = Store::open(Arc::clone(&disk), OpenMode::ReadWrite, "test").expect("a database");
    let id = change(&store, |t| t.create_table(table("t"))).expect("a table");
    change(&store, |t| (1..4).try_for_each(|row| add(t, id, row).map(drop))).expect("rows");
    (disk, store, id)
}

pub(super) fn add(t: &mut Transaction, id: TableId, row: i64) -> Result<RowId> {
    t.insert_hot(id, &[Cell::i64(row), Cell::Bytes(b"new")])
}

/// The rows of a table as its segments show them, without those that are deleted.
pub(super) fn rows_in(catalog: &Catalog, id: TableId) -> Vec<i64> {
    let Some(table) = catalog.table_by_id(id) else { return Vec::new() };
    let rows: Vec<i64> = table.segments.iter().flat_map(|segment| rows_of(segment)).collect();
    assert_eq!(rows.len() as u64, table.rows());
    rows
}

pub(super) fn rows_of(segment: &Segment) -> Vec<i64> {
    let (mut rows, mut number) = (Vec::new(), 0);
    for (index, group) in segment.groups().expect("a sound footer").iter().enumerate() {
        for chunk in 0..group.columns[0].chunks.len() {
            let stored = segment.read_chunk((index, 0, chunk)).expect("a chunk");
            let directory = segment.directory(index, 0, chunk).expect("a directory");
            let inflated = inflate_chunk(directory, &stored, PhysicalType::I64, &Inflate::default());
            let inflated = inflated.expect("a sound chunk");
            for block in (0..inflated.blocks()).map(|block| inflated.block(block)) {
                let deleted = segment.deleted().of_block(number);
                let there = (0..block.rows()).filter(|row| !deleted.is_some_and(|rows| rows.contains(*row)));
                rows.extend(there.map(|row| integer(&block, row)));
                number += 1;
            }
        }
    }
    rows
}

fn integer(block: &forebay_block::EncodedBlock<'_>, row: usize) -> i64 {
    use forebay_block::{Access, ValueRef, Values};
    let fixed = |values: &Values<'_>, index: usize| match values {
        Values::Fixed(values) => i64::from_le_bytes(values.get(index).try_into().expect("8-byte values")),
        Values::Strings(_) => panic!("strings in a column of integers"),
    };
    match block.access() {
        Access::AllNull => panic!("no integer"),
        Access::Constant(ValueRef::Int(value)) => value as i64,
        Access::Constant(_) => panic!("no integer"),
        Access::FrameOfReference { base, codes } => (base + i128::from(codes.get(row))) as i64,
        Access::Dictionary { values, codes } => fixed(&values, codes.get(row) as usize),
        Access::Plain(values) => fixed(&values, row),
        Access::RunLength { ends, values } => fixed(&values, ends.run_of(row)),
    }
}

pub(super) fn seen(store: &Store, id: TableId) -> Vec<i64> {
    rows_in(&store.catalog(), id)
}

/// The number of the hot row that stands at this place.
fn at(t: &Transaction, id: TableId, place: usize) -> RowId {
    t.hot_row_ids(id).expect("the table")[place]
}

#[test]
fn a_transaction_sees_its_own_rows_and_others_see_them_once_it_has_committed() {
    let (_, store, id) = with_rows();
    let before = store.catalog();
    let mut t = store.begin_on(store.catalog()).expect("begun");
    let second = at(&t, id, 1);
    assert!(t.delete_hot(id, at(&t, id, 0)).expect("deleted"));
    assert!(t.update_hot(id, second, &[(0, Cell::i64(20)), (1, Cell::Null)]).expect("updated"));
    add(&mut t, id, 4).expect("added");
    assert_eq!(rows_in(t.catalog(), id), [20, 3, 4]);
    let moment = t.moment();
    add(&mut t, id, 5).expect("added");
    assert!(t.delete_hot(id, second).expect("deleted"));
    assert_eq!(rows_in(t.catalog(), id), [3, 4, 5]);
    t.return_to(&moment).expect("nothing is in the way");
    assert_eq!(rows_in(t.catalog(), id), [20, 3, 4]);
    let row = t.hot_row(id, second).expect("read").expect("it is there");
    assert!(row.cells().eq([Cell::i64(20), Cell::Null]));
    assert_eq!(seen(&store, id), [1, 2, 3]);
    t.commit().expect("committed");
    assert_eq!(seen(&store, id), [20, 3, 4]);
    assert_eq!(rows_in(&before, id), [1, 2, 3], "who has begun before sees what was there");
    // Given up, also after a moment to return to.
    let mut t = store.begin().expect("begun");
    let moment = t.moment();
    add(&mut t, id, 6).expect("added");
    t.return_to(&moment).expect("nothing is in the way");
    assert_eq!(rows_in(t.catalog(), id), [20, 3, 4]);
    add(&mut t, id, 7).expect("added");
    drop(t);
    assert_eq!(seen(&store, id), [20, 3, 4]);
    assert!(!change(&store, |t| t.delete_hot(id, second).and_then(|_| t.delete_hot(id, second))).expect("no error"));
}

#[test]
fn hot_rows_are_there_after_a_kill_a_checkpoint_and_a_reopen() {
    let (disk, store, id) = with_rows();
    let first = |t: &Transaction| at(t, id, 0);
    change(&store, |t| t.delete_hot(id, first(t)).map(drop)).expect("deleted");
    let read = |disk: &Arc<dyn Disk>, mode| {
        let store = Store::open(Arc::clone(disk), mode, "test").expect("it opens");
        assert_eq!(store.check(&mut |_, _| Ok(())).expect("a check").error_count, 0);
        seen(&store, id)
    };
    // From the log, with rows of the manifest beneath, and from the manifest alone.
    let in_log = copied(&*disk);
    store.checkpoint().expect("a checkpoint");
    let in_manifest = copied(&*disk);
    change(&store, |t| t.update_hot(id, first(t), &[(0, Cell::i64(-2))]).map(drop)).expect("updated");
    change(&store, |t| add(t, id, 4).map(drop)).expect("added");
    let in_both = copied(&*disk);
    drop(store);
    for (disk, rows) in
        [(in_log, vec![2, 3]), (in_manifest, vec![2, 3]), (in_both, vec![-2, 3, 4]), (disk, vec![-2, 3, 4])]
    {
        for mode in [OpenMode::ReadOnly, OpenMode::ReadWrite, OpenMode::ReadOnly] {
            assert_eq!(read(&disk, mode), rows);
        }
        // New rows come behind, and what goes is gone for good.
        let store = Store::open(Arc::clone(&disk), OpenMode::ReadWrite, "test").expect("it opens");
        change(&store, |t| add(t, id, 9).map(drop)).expect("added");
        change(&store, |t| t.delete_hot(id, first(t)).map(drop)).expect("deleted");
        let left = [&rows[1..], &[9]].concat();
        assert_eq!(seen(&store, id), left);
        drop(store);
        assert_eq!(read(&disk, OpenMode::ReadWrite), left);
    }
}

#[test]
fn hot_rows_of_a_dropped_table_are_gone() {
    let (disk, store, id) = with_rows();
    store.checkpoint().expect("a checkpoint");
    change(&store, |t| t.drop_table(id)).expect("dropped");
    let killed = copied(&*disk);
    drop(store);
    for disk in [&disk, &killed] {
        let hot = |disk: &Arc<dyn Disk>| recovery::load(&**disk).expect("the manifest").hot_rows.len();
        let store = Store::open(Arc::clone(disk), OpenMode::ReadWrite, "test").expect("it opens");
        let other = change(&store, |t| t.create_table(table("t"))).expect("another one");
        assert_eq!((seen(&store, id), seen(&store, other)), (vec![], vec![]));
        drop(store);
        assert_eq!(hot(disk), 0);
    }
}

/// Two transactions that begin at the same time, of which the first one commits first: the rows then, or the second one's kind of error.
#[track_caller]
fn both(
    first: impl FnOnce(&mut Transaction, TableId) -> Result<()>,
    second: impl FnOnce(&mut Transaction, TableId) -> Result<()>,
) -> std::result::Result<Vec<i64>, ErrorKind> {
    let (disk, store, id) = with_rows();
    let begin = || store.begin_on(store.catalog()).expect("begun");
    let (mut one, mut other) = (begin(), begin());
    first(&mut one, id).expect("the first one changes");
    let changed = second(&mut other, id);
    one.commit().expect("the first one commits");
    let committed = changed.and_then(|()| other.commit());
    let rows = seen(&store, id);
    drop(store);
    let again = Store::open(disk, OpenMode::ReadWrite, "test").expect("it opens again");
    assert_eq!(seen(&again, id), rows);
    committed.map(|()| rows).map_err(|error| error.kind())
}

#[test]
fn who_comes_second_to_a_row_or_a_definition_has_a_conflict() {
    let set = |place: usize, value: i64| {
        move |t: &mut Transaction, id| t.update_hot(id, at(t, id, place), &[(0, Cell::i64(value))]).map(drop)
    };
    let delete = |place: usize| move |t: &mut Transaction, id| t.delete_hot(id, at(t, id, place)).map(drop);
    let insert = |row: i64| move |t: &mut Transaction, id| add(t, id, row).map(drop);
    let conflict = Err(ErrorKind::Conflict);
    assert_eq!(both(set(0, 10), set(1, 20)), Ok(vec![10, 20, 3]));
    assert_eq!(both(set(0, 10), set(0, 20)), conflict);
    assert_eq!(both(set(0, 10), delete(0)), conflict);
    assert_eq!(both(delete(0), set(0, 20)), conflict);
    assert_eq!(both(delete(0), delete(2)), Ok(vec![2]));
    assert_eq!(both(insert(4), insert(5)), Ok(vec![1, 2, 3, 4, 5]));
    let alter = |t: &mut Transaction, id| t.add_column(id, column("more", LogicalType::Int32)).map(drop);
    let rename = |t: &mut Transaction, id| t.rename_table(id, "u");
    let drop_it = |t: &mut Transaction, id| t.drop_table(id);
    assert_eq!(both(alter, insert(4)), conflict);
    assert_eq!(both(rename, insert(4)), conflict);
    assert_eq!(both(drop_it, insert(4)), conflict);
    assert_eq!(both(insert(4), alter), conflict);
    assert_eq!(both(insert(4), drop_it), conflict);
    // One that has read the rows to make a segment of them.
    let freeze = |t: &mut Transaction, id| t.freeze_hot(id);
    assert_eq!(both(freeze, set(0, 10)), conflict);
    assert_eq!(both(set(0, 10), freeze), conflict);
    assert_eq!(both(insert(4), freeze), Ok(vec![1, 2, 3, 4]));
    let rely = |t: &mut Transaction, id| {
        t.rely_on_rows(id);
        add(t, id, 5).map(drop)
    };
    assert_eq!(both(insert(4), rely), conflict);
    assert_eq!(both(rely, insert(4)), Ok(vec![1, 2, 3, 5, 4]));
}

#[test]
fn options_that_the_transaction_has_set_are_in_no_ones_way() {
    let (_, store, id) = with_rows();
    let sealed = segment(&store, &[7, 8]).expect("a segment");
    change(&store, |t| t.publish(id, vec![sealed])).expect("published");
    let mut t = store.begin_on(store.catalog()).expect("begun");
    t.set_option(id, None, "index i", Some("a")).expect("set");
    assert!(t.takes_hot_rows(id));
    delete_one(0)(&mut t, id).expect("deleted");
    let first = at(&t, id, 0);
    assert!(t.update_hot(id, first, &[(0, Cell::i64(10))]).expect("updated"));
    mark(&[1])(&mut t, id).expect("deleted");
    t.commit().expect("committed");
    assert_eq!(seen(&store, id), [10, 2, 3]);
}

#[test]
fn a_table_that_had_hot_rows_is_changed_once_it_has_a_projection() {
    let (_, store, id) = with_segment();
    change(&store, |t| delete_one(1)(t, id)).expect("deleted");
    store.freeze().expect("frozen");
    let table = Arc::clone(store.catalog().table_by_id(id).expect("it"));
    let order = vec![crate::OrderKey { hops: Vec::new(), column: ColumnId(0) }];
    let definition =
        crate::ProjectionDefinition { id: forebay_base::ProjectionId::TABLE, name: "p".into(), order, columns: None };
    let copy = segment(&store, &[1, 3, 4, 5]).expect("a segment");
    let add = |t: &mut Transaction| t.add_projection(id, definition, &table.segments.versions(), vec![copy]);
    change(&store, add).expect("a projection");
    change(&store, |t| t.add_column(id, column("more", LogicalType::Int32))).expect("a column");
    assert!(!store.begin().expect("begun").takes_hot_rows(id));
}

#[test]
fn who_goes_back_sees_what_was_there_though_nobody_had_looked() {
    let (_, store, id) = with_rows();
    let mut t = store.begin_on(store.catalog()).expect("begun");
    add(&mut t, id, 4).expect("added");
    let moment = t.moment();
    add(&mut t, id, 5).expect("added");
    assert_eq!(rows_in(t.catalog(), id), [1, 2, 3, 4, 5]);
    t.return_to(&moment).expect("nothing is in the way");
    assert_eq!(rows_in(t.catalog(), id), [1, 2, 3, 4]);
    add(&mut t, id, 6).expect("added");
    assert_eq!(rows_in(t.catalog(), id), [1, 2, 3, 4, 6]);
}

/// Statements that know segments alone find hot rows among these.
#[test]
fn segments_of_hot_rows_are_changed_like_others() {
    let (_, store, id) = with_rows();
    let sealed = segment(&store, &[100, 101]).expect("a segment");
    change(&store, |t| t.publish(id, vec![sealed])).expect("published");
    assert_eq!(seen(&store, id), [1, 2, 3, 100, 101]);
    let image = |store: &Store| Arc::clone(&store.catalog().table_by_id(id).expect("it").segments[0]);
    let shown = image(&store);
    assert!(shown.is_hot() && shown.rows() == 3);
    // Two rows go, in two steps of one statement, and one comes instead.
    let one = |place: u64| Deleted { segment: shown.as_version(), rows: shown.rows_at(&[place]).expect("it has it") };
    let instead = segment(&store, &[20]).expect("a segment");
    let deleted = vec![(one(1), vec![instead]), (one(2), Vec::new())];
    let changes = RowChanges { replaced: Vec::new(), deleted };
    change(&store, |t| t.change_rows(id, changes, ReplacedCopies::new())).expect("changed");
    assert_eq!(seen(&store, id), [1, 100, 101, 20]);
    let changes = RowChanges { replaced: Vec::new(), deleted: vec![(one(0), Vec::new())] };
    let stale = change(&store, |t| t.change_rows(id, changes, ReplacedCopies::new()));
    assert_eq!(kind(stale), ErrorKind::Conflict);
    // All of it written anew, together with frozen rows.
    let old = store.catalog().table_by_id(id).expect("it").segments.versions();
    let sealed = segment(&store, &[7, 8, 9, 10]).expect("a segment");
    change(&store, |t| t.lay_out(id, forebay_base::ProjectionId::TABLE, &old, vec![sealed])).expect("laid out");
    assert_eq!(seen(&store, id), [7, 8, 9, 10]);
    assert!(!image(&store).is_hot());
}

#[test]
fn hot_rows_become_a_segment() {
    let (disk, store, id) = with_rows();
    let old = store.catalog();
    let mut t = store.begin_on(store.catalog()).expect("begun");
    add(&mut t, id, 4).expect("added");
    t.freeze_hot(id).expect("frozen");
    assert_eq!(rows_in(t.catalog(), id), [1, 2, 3, 4]);
    add(&mut t, id, 5).expect("added");
    t.commit().expect("committed");
    let table = Arc::clone(store.catalog().table_by_id(id).expect("it"));
    let kinds: Vec<bool> = table.segments.iter().map(|segment| segment.is_hot()).collect();
    assert_eq!((kinds, seen(&store, id)), (vec![false, true], vec![1, 2, 3, 4, 5]));
    assert_eq!(rows_in(&old, id), [1, 2, 3]);
    // A column more: rows that were hot have it, too, and new ones are of the new columns.
    change(&store, |t| t.add_column(id, column("more", LogicalType::Int32))).expect("a column");
    drop(old);
    let row = [Cell::i64(6), Cell::Null, Cell::Fixed(7)];
    change(&store, |t| t.insert_hot(id, &row).map(drop)).expect("added");
    assert_eq!(kind(change(&store, |t| t.insert_hot(id, &row[..2]).map(drop))), ErrorKind::Internal);
    assert_eq!(seen(&store, id), [1, 2, 3, 4, 5, 6]);
    drop((store, table));
    let again = Store::open(disk, OpenMode::ReadWrite, "test").expect("it opens again");
    assert_eq!(seen(&again, id), [1, 2, 3, 4, 5, 6]);
}

#[test]
fn all_hot_rows_are_frozen_but_those_that_somebody_changes() {
    let (_, store, id) = with_keys();
    let other = change(&store, |t| t.create_table(table("u"))).expect("a table");
    change(&store, |t| add(t, other, 5).map(drop)).expect("a row");
    assert_eq!(store.catalog().hot_tables(), [id, other]);
    let mut changing = store.begin_on(store.catalog()).expect("begun");
    let first = at(&changing, id, 0);
    assert!(changing.update_hot(id, first, &[(1, Cell::Null)]).expect("updated"));
    store.freeze().expect("the others are");
    assert_eq!(store.catalog().hot_tables(), [id]);
    changing.commit().expect("nobody was in its way");
    store.freeze().expect("now it is, too");
    assert!(store.catalog().hot_tables().is_empty());
    assert_eq!((seen(&store, id), seen(&store, other)), (vec![1, 2, 3], vec![5]));
    // A projection is of segments.
    change(&store, |t| add(t, id, 9).map(drop)).expect("a row");
    let order = vec![crate::OrderKey { hops: Vec::new(), column: ColumnId(0) }];
    let definition =
        ProjectionDefinition { id: forebay_base::ProjectionId(1), name: "p".to_owned(), order, columns: None };
    let of = store.catalog().table_by_id(id).expect("it").segments.versions();
    let added = change(&store, |t| t.add_projection(id, definition, &of, Vec::new()));
    assert_eq!(kind(added), ErrorKind::Constraint);
}

#[test]
fn values_that_do_not_fit_are_refused() {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let store = Store::open(disk, OpenMode::ReadWrite, "test").expect("a database");
    let mut definition = table("t");
    definition.columns[0].nullable = false;
    let id = change(&store, |t| t.create_table(definition)).expect("a table");
    let insert = |cells: &[Cell<'_>]| change(&store, |t| t.insert_hot(id, cells).map(drop));
    assert_eq!(kind(insert(&[Cell::Null, Cell::Null])), ErrorKind::Constraint);
    assert_eq!(kind(insert(&[Cell::Bytes(b"1"), Cell::Null])), ErrorKind::Internal);
    insert(&[Cell::i64(1), Cell::Null]).expect("it fits");
    let to_null = |t: &mut Transaction| t.update_hot(id, at(t, id, 0), &[(0, Cell::Null)]).map(drop);
    assert_eq!(kind(change(&store, to_null)), ErrorKind::Constraint);
    assert_eq!(kind(change(&store, |t| t.insert_hot(TableId(99), &[Cell::Null]).map(drop))), ErrorKind::NotFound);
    assert_eq!(seen(&store, id), [1]);
}

/// Many rows, long ones among them, and NULLs: blocks end where they are full.
#[test]
fn many_hot_rows_make_several_blocks() {
    let (_, store, id) = with_rows();
    let long = vec![b'x'; 9 << 20];
    change(&store, |t| {
        (0..5).try_for_each(|row| t.insert_hot(id, &[Cell::i64(row), Cell::Bytes(&long)]).map(drop))?;
        (0..70_000).try_for_each(|row| t.insert_hot(id, &[Cell::i64(row), Cell::Null]).map(drop))
    })
    .expect("added");
    let catalog = store.catalog();
    let segments = &catalog.table_by_id(id).expect("it").segments;
    let rows: Vec<u32> = segments.iter().flat_map(|s| s.groups().expect("sound")[0].block_rows.clone()).collect();
    assert!(rows.len() >= 3 && rows.iter().sum::<u32>() == 70_008, "{rows:?}");
    let expected: Vec<i64> = [1, 2, 3].into_iter().chain(0..5).chain(0..70_000).collect();
    assert!(seen(&store, id) == expected);
}

/// A database with a table `t` whose first column is its key, and hot rows 1, 2 and 3.
fn with_keys() -> (Arc<dyn Disk>, Store, TableId) {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let store = Store::open(Arc::clone(&disk), OpenMode::ReadWrite, "test").expect("a database");
    let definition = TableDefinition { constraints: vec![Constraint::PrimaryKey(vec![ColumnId(0)])], ..table("t") };
    let id = change(&store, |t| t.create_table(definition)).expect("a table");
    change(&store, |t| (1..4).try_for_each(|row| add(t, id, row).map(drop))).expect("rows");
    (disk, store, id)
}

#[test]
fn keys_are_unique_among_hot_rows_and_find_them() {
    let (disk, store, id) = with_keys();
    let found = |store: &Store, key: i64| {
        let mut t = store.begin_on(store.catalog()).expect("begun");
        let row = t.find_hot(id, 0, &[Cell::i64(key)]).expect("a key");
        row.map(|row| t.hot_row(id, row).expect("read").expect("it is there").cell(0).as_i64())
    };
    assert_eq!((found(&store, 2), found(&store, 4)), (Some(Some(2)), None));
    let mut t = store.begin_on(store.catalog()).expect("begun");
    assert_eq!(kind(add(&mut t, id, 3)), ErrorKind::Constraint);
    let second = t.find_hot(id, 0, &[Cell::i64(2)]).expect("a key").expect("there");
    assert_eq!(kind(t.update_hot(id, second, &[(0, Cell::i64(3))])), ErrorKind::Constraint);
    assert_eq!(rows_in(t.catalog(), id), [1, 2, 3], "what is refused leaves nothing");
    assert!(t.update_hot(id, second, &[(0, Cell::i64(20)), (1, Cell::Null)]).expect("free"));
    add(&mut t, id, 2).expect("free again");
    let mut keys = Vec::new();
    let each = |row: RowId| {
        keys.push(row);
        Ok(keys.len() < 3)
    };
    t.hot_range(id, &[0], (Bound::Unbounded, Bound::Unbounded), each).expect("a range");
    assert_eq!((keys.len(), keys[1]), (3, at(&t, id, 3)), "in the order of keys");
    assert_eq!(kind(t.find_hot(id, 1, &[])), ErrorKind::NotFound);
    // Others, beside it and later.
    let mut beside = store.begin_on(store.catalog()).expect("begun");
    assert_eq!(kind(add(&mut beside, id, 20)), ErrorKind::Conflict);
    t.commit().expect("committed");
    assert_eq!(kind(add(&mut beside, id, 20)), ErrorKind::Conflict);
    drop(beside);
    assert_eq!(kind(change(&store, |t| add(t, id, 20))), ErrorKind::Constraint);
    drop(store);
    let store = Store::open(disk, OpenMode::ReadWrite, "test").expect("it opens again");
    assert_eq!((found(&store, 20), found(&store, 4)), (Some(Some(20)), None));
    assert_eq!(kind(change(&store, |t| add(t, id, 2))), ErrorKind::Constraint);
    // Once they are frozen, the index has none of them.
    change(&store, |t| t.freeze_hot(id)).expect("frozen");
    assert_eq!(found(&store, 20), None);
}

#[test]
fn an_index_that_comes_late_knows_all_versions() {
    let (_, store, id) = with_rows();
    let names = |t: &mut Transaction, name: &[u8]| {
        let (mut low, mut rows) = (Vec::new(), Vec::new());
        push_key(&mut low, Cell::Bytes(name), PhysicalType::Bytes);
        let high = end_of_prefix(&low).expect("it has an end");
        let each = |row| {
            rows.push(row);
            Ok(true)
        };
        t.hot_range(id, &[1], (Bound::Included(&low), Bound::Excluded(&high)), each).expect("a range");
        let rows = rows.iter().map(|row| t.hot_row(id, *row).expect("read").expect("it is there").cell(0).as_i64());
        let mut rows: Vec<i64> = rows.map(|row| row.expect("a number")).collect();
        rows.sort_unstable();
        rows
    };
    let mut before = store.begin_on(store.catalog()).expect("begun");
    let (first, second) = (at(&before, id, 0), at(&before, id, 1));
    change(&store, |t| t.update_hot(id, first, &[(1, Cell::Bytes(b"old"))]).map(drop)).expect("updated");
    let mut open = store.begin_on(store.catalog()).expect("begun");
    assert!(open.update_hot(id, second, &[(1, Cell::Bytes(b"own"))]).expect("updated"));
    let moment = open.moment();
    assert!(open.update_hot(id, second, &[(1, Cell::Null)]).expect("updated"));
    // Here it is made.
    assert_eq!(names(&mut open, b"new"), [3]);
    assert_eq!(names(&mut before, b"new"), [1, 2, 3]);
    assert_eq!((names(&mut open, b"old"), names(&mut open, b"own")), (vec![1], vec![]));
    open.return_to(&moment).expect("nothing is in the way");
    assert_eq!(names(&mut open, b"own"), [2]);
    // What is written from now on is entered.
    add(&mut open, id, 9).expect("added");
    assert!(open.update_hot(id, first, &[(1, Cell::Bytes(b"own"))]).expect("updated"));
    assert_eq!((names(&mut open, b"own"), names(&mut open, b"new")), (vec![1, 2], vec![3, 9]));
    open.commit().expect("committed");
    let mut after = store.begin_on(store.catalog()).expect("begun");
    assert_eq!((names(&mut after, b"own"), names(&mut before, b"own")), (vec![1, 2], vec![]));
}

#[test]
fn chunks_that_have_not_changed_keep_their_segments() {
    let (_, store, id) = with_rows();
    const ROWS: i64 = 70_000;
    change(&store, |t| (4..ROWS).try_for_each(|row| add(t, id, row).map(drop))).expect("rows");
    let segments = |catalog: &Catalog| {
        let table = catalog.table_by_id(id).expect("the table");
        table.segments.iter().map(|segment| (segment.id(), segment.rows())).collect::<Vec<_>>()
    };
    let first = segments(&store.catalog());
    assert_eq!(first.iter().map(|(_, rows)| *rows).collect::<Vec<_>>(), [65_536, ROWS as u64 - 1 - 65_536]);
    change(&store, |t| add(t, id, ROWS).map(drop)).expect("added");
    let second = segments(&store.catalog());
    assert!(second[0] == first[0] && second[1].0 != first[1].0);
    // A transaction has segments of its own where it has changed something, which others do not see.
    let mut open = store.begin_on(store.catalog()).expect("begun");
    let of_first = at(&open, id, 5);
    assert!(open.update_hot(id, of_first, &[(0, Cell::i64(-6))]).expect("updated"));
    let own = segments(open.catalog());
    assert!(own[0].0 != second[0].0 && own[1] == second[1]);
    assert_eq!(rows_in(open.catalog(), id)[5], -6);
    change(&store, |t| add(t, id, ROWS + 1).map(drop)).expect("added");
    let third = segments(&store.catalog());
    assert!(third[0] != own[0] && third[1].0 != own[1].0);
    assert_eq!(seen(&store, id)[5], 6);
    open.commit().expect("committed");
    assert_eq!(seen(&store, id)[5], -6);
    assert_eq!(seen(&store, id).len() as i64, ROWS + 1);
}

#[test]
fn cold_chunks_become_segments() {
    let (disk, store, id) = with_rows();
    const ROWS: i64 = 140_000;
    change(&store, |t| (4..ROWS).try_for_each(|row| add(t, id, row).map(drop))).expect("rows");
    let kinds = || {
        let table = Arc::clone(store.catalog().table_by_id(id).expect("the table"));
        table.segments.iter().map(|segment| (segment.is_hot(), segment.rows())).collect::<Vec<_>>()
    };
    store.freeze_cold(&|_| false);
    let (full, last) = (65_536, ROWS as u64 - 1 - 2 * 65_536);
    assert_eq!(kinds(), [(true, full), (true, full), (true, last)]);
    // The second chunk changes, also while nobody sees it.
    let open = {
        let mut t = store.begin_on(store.catalog()).expect("begun");
        assert!(t.delete_hot(id, at(&t, id, 70_000)).expect("deleted"));
        t
    };
    store.freeze_cold(&|_| false);
    assert_eq!(kinds(), [(false, full), (true, full), (true, last)]);
    drop(open);
    store.freeze_cold(&|_| false);
    assert_eq!(kinds().len(), 3, "it is looked at for the first time since");
    store.freeze_cold(&|_| false);
    assert_eq!(kinds(), [(false, full), (false, full), (true, last)]);
    let all: Vec<i64> = (1..ROWS).collect();
    assert!(seen(&store, id) == all);
    drop(store);
    let store = Store::open(disk, OpenMode::ReadWrite, "test").expect("it opens again");
    assert!(seen(&store, id) == all);
}

#[test]
fn who_gives_keys_to_hot_rows_has_a_conflict_with_who_adds_segments() {
    for adds_first in [true, false] {
        let (_, store, id) = with_keys();
        let begin = || store.begin_on(store.catalog()).expect("begun");
        let (mut hot, mut bulk) = (begin(), begin());
        add(&mut hot, id, 7).expect("free");
        bulk.publish(id, vec![segment(&store, &[7]).expect("a segment")]).expect("published");
        bulk.rely_on_rows(id);
        let (first, second) = if adds_first { (bulk, hot) } else { (hot, bulk) };
        first.commit().expect("the first one commits");
        let committed = second.commit().map_err(|error| error.kind());
        assert_eq!(committed, Err(ErrorKind::Conflict), "{adds_first}");
    }
    // Rows that go are in nobody's way, and who changes no key is not concerned.
    let (_, store, id) = with_keys();
    let sealed = segment(&store, &[8, 9]).expect("a segment");
    let begin = || store.begin_on(store.catalog()).expect("begun");
    let mut hot = begin();
    let first = at(&hot, id, 0);
    assert!(hot.update_hot(id, first, &[(1, Cell::Null)]).expect("updated"));
    change(&store, |t| t.publish(id, vec![sealed])).expect("published");
    hot.commit().expect("no key was given");
    let mut hot = begin();
    add(&mut hot, id, 7).expect("free");
    let segment = Arc::clone(&store.catalog().table_by_id(id).expect("it").segments[0]);
    let deleted = Deleted { segment: segment.as_version(), rows: segment.rows_at(&[1]).expect("it has it") };
    let changes = RowChanges { replaced: Vec::new(), deleted: vec![(deleted, Vec::new())] };
    change(&store, |t| t.change_rows(id, changes, ReplacedCopies::new())).expect("deleted");
    hot.commit().expect("no row came");
}

/// A database with a table `t`, whose only segment has 1 to 5.
fn with_segment() -> (Arc<dyn Disk>, Store, TableId) {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let store = Store::open(Arc::clone(&disk), OpenMode::ReadWrite, "test").expect("a database");
    let id = change(&store, |t| t.create_table(table("t"))).expect("a table");
    let sealed = segment(&store, &[1, 2, 3, 4, 5]).expect("a segment");
    change(&store, |t| t.publish(id, vec![sealed])).expect("published");
    (disk, store, id)
}

/// Deletes the row at this place of the only segment.
fn delete_one(row: u16) -> impl Fn(&mut Transaction, TableId) -> Result<()> {
    move |t, id| {
        let segment = t.catalog().stored_table(id).expect("the table").segments[0].id();
        t.delete_stored(id, segment, 0, row)
    }
}

/// Deletes rows of the first segment that is not of hot rows, as a statement does that has read the table.
fn mark(rows: &'static [u64]) -> impl Fn(&mut Transaction, TableId) -> Result<()> {
    move |t, id| {
        let table = t.catalog().table_by_id(id).expect("the table");
        let segment = Arc::clone(table.segments.iter().find(|segment| !segment.is_hot()).expect("one"));
        let deleted = Deleted { segment: segment.as_version(), rows: segment.rows_at(rows)? };
        let changes = RowChanges { replaced: Vec::new(), deleted: vec![(deleted, Vec::new())] };
        t.change_rows(id, changes, ReplacedCopies::new())
    }
}

#[test]
fn rows_of_segments_are_deleted_one_by_one() {
    let (disk, store, id) = with_segment();
    let before = store.catalog();
    let mut t = store.begin_on(store.catalog()).expect("begun");
    delete_one(1)(&mut t, id).expect("deleted");
    let moment = t.moment();
    delete_one(3)(&mut t, id).expect("deleted");
    add(&mut t, id, 9).expect("added");
    assert_eq!(rows_in(t.catalog(), id), [1, 3, 5, 9]);
    let stored = t.catalog().stored_table(id).expect("the table").segments[0].id();
    {
        let is_deleted = t.deleted_one_by_one(id).expect("the table");
        assert!(is_deleted(stored, 0, 1) && is_deleted(stored, 0, 3) && !is_deleted(stored, 0, 2));
    }
    t.return_to(&moment).expect("nothing is in the way");
    assert_eq!(rows_in(t.catalog(), id), [1, 3, 4, 5]);
    assert_eq!(kind(delete_one(1)(&mut t, id)), ErrorKind::Internal);
    assert_eq!(seen(&store, id), [1, 2, 3, 4, 5]);
    t.commit().expect("committed");
    assert_eq!((seen(&store, id), rows_in(&before, id)), (vec![1, 3, 4, 5], vec![1, 2, 3, 4, 5]));
    assert_eq!(store.catalog().stored_table(id).expect("it").rows(), 5, "the catalog has no mark");
    // A statement that has read the table goes on from there.
    let mut t = store.begin_on(store.catalog()).expect("begun");
    delete_one(0)(&mut t, id).expect("deleted");
    mark(&[4])(&mut t, id).expect("deleted");
    assert_eq!(rows_in(t.catalog(), id), [3, 4]);
    assert_eq!(kind(mark(&[0])(&mut t, id)), ErrorKind::Internal);
    t.commit().expect("committed");
    assert_eq!(seen(&store, id), [3, 4]);
    assert_eq!(store.catalog().stored_table(id).expect("it").rows(), 2, "now it has marks");
    change(&store, |t| delete_one(2)(t, id)).expect("deleted");
    let read = |disk: &Arc<dyn Disk>| {
        let store = Store::open(Arc::clone(disk), OpenMode::ReadWrite, "test").expect("it opens");
        assert_eq!(store.check(&mut |_, _| Ok(())).expect("a check").error_count, 0);
        assert_eq!(kind(change(&store, |t| delete_one(2)(t, id))), ErrorKind::Internal);
        seen(&store, id)
    };
    assert_eq!(read(&copied(&*disk)), [4]);
    store.checkpoint().expect("a checkpoint");
    assert_eq!(read(&copied(&*disk)), [4]);
    // The last row takes the segment with it, and what is frozen is in the catalog.
    change(&store, |t| delete_one(3)(t, id)).expect("deleted");
    assert_eq!(store.catalog().table_by_id(id).expect("it").segments.len(), 0);
    store.freeze().expect("frozen");
    assert_eq!(store.catalog().stored_table(id).expect("it").segments.len(), 0);
    drop((store, before, moment));
    let store = Store::open(disk, OpenMode::ReadWrite, "test").expect("it opens again");
    assert!(seen(&store, id).is_empty() && store.catalog().hot_tables().is_empty());
}

/// What is there after two transactions that began together, or what kind of error the second one has.
fn both_of_segment(
    first: impl FnOnce(&mut Transaction, TableId, &Store) -> Result<()>,
    second: impl FnOnce(&mut Transaction, TableId, &Store) -> Result<()>,
) -> std::result::Result<Vec<i64>, ErrorKind> {
    let (disk, store, id) = with_segment();
    // One is deleted before.
    change(&store, |t| delete_one(4)(t, id)).expect("deleted");
    let begin = || store.begin_on(store.catalog()).expect("begun");
    let (mut one, mut other) = (begin(), begin());
    first(&mut one, id, &store).expect("the first one changes");
    let changed = second(&mut other, id, &store);
    one.commit().expect("the first one commits");
    // Who is asked to look again finds nothing wrong.
    let committed = changed.and_then(|()| other.try_commit()?.map_or(Ok(()), Transaction::commit));
    let rows = seen(&store, id);
    store.freeze_cold(&|_| false);
    assert_eq!(seen(&store, id), rows, "whatever the catalog has of it");
    drop(store);
    let again = Store::open(disk, OpenMode::ReadWrite, "test").expect("it opens again");
    assert_eq!(seen(&again, id), rows);
    committed.map(|()| rows).map_err(|error| error.kind())
}

#[test]
fn who_comes_second_to_a_row_of_a_segment_has_a_conflict() {
    let conflict = Err(ErrorKind::Conflict);
    let delete_one = |row| move |t: &mut Transaction, id, _: &Store| delete_one(row)(t, id);
    let mark = |rows| move |t: &mut Transaction, id, _: &Store| mark(rows)(t, id);
    assert_eq!(both_of_segment(delete_one(0), delete_one(1)), Ok(vec![3, 4]));
    assert_eq!(both_of_segment(delete_one(0), delete_one(0)), conflict);
    assert_eq!(both_of_segment(delete_one(0), mark(&[0])), conflict);
    assert_eq!(both_of_segment(mark(&[0]), delete_one(0)), conflict);
    assert_eq!(both_of_segment(delete_one(0), mark(&[1, 2])), Ok(vec![4]));
    assert_eq!(both_of_segment(mark(&[1, 2]), delete_one(0)), Ok(vec![4]));
    let freeze = |t: &mut Transaction, id, _: &Store| t.freeze_hot(id);
    assert_eq!(both_of_segment(delete_one(0), freeze), Ok(vec![2, 3, 4]));
    assert_eq!(both_of_segment(freeze, delete_one(0)), Ok(vec![2, 3, 4]));
    let renew = |t: &mut Transaction, id, store: &Store| {
        let old = t.catalog().table_by_id(id).expect("the table").segments.versions();
        t.replace(id, &old, vec![segment(store, &[1, 2, 3, 4])?])
    };
    assert_eq!(both_of_segment(delete_one(0), renew), conflict);
    assert_eq!(both_of_segment(renew, delete_one(0)), conflict);
    let append = |t: &mut Transaction, id, store: &Store| t.publish(id, vec![segment(store, &[6])?]);
    assert_eq!(both_of_segment(delete_one(0), append), Ok(vec![2, 3, 4, 6]));
    assert_eq!(both_of_segment(append, delete_one(0)), Ok(vec![2, 3, 4, 6]));
    let drop_it = |t: &mut Transaction, id, _: &Store| t.drop_table(id);
    assert_eq!(both_of_segment(drop_it, delete_one(0)), conflict);
    assert_eq!(both_of_segment(delete_one(0), drop_it), conflict);
    let alter = |t: &mut Transaction, id, _: &Store| t.add_column(id, column("more", LogicalType::Int32)).map(drop);
    assert_eq!(both_of_segment(delete_one(0), alter), conflict);
    assert_eq!(both_of_segment(alter, delete_one(0)), conflict);
}
