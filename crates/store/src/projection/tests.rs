//! Projections: what a commit keeps, who must say what of them, and the bytes of their row.

use std::sync::Arc;

use forebay_base::{ErrorKind, LogicalType, SegmentId};
use forebay_disk::MemoryDisk;

use super::*;
use crate::tests::{change, column, kind, open, segment, segment_files, table};
use crate::{
    Constraint, OpenMode, ReplacedCopies, SealedSegment, SegmentVersion, Store, TableSnapshot, Transaction, rows, store,
};

fn by(column: u32) -> OrderKey {
    OrderKey { hops: Vec::new(), column: ColumnId(column) }
}

fn definition(name: &str, order: Vec<OrderKey>, columns: Option<Vec<u32>>) -> ProjectionDefinition {
    let columns = columns.map(|columns| columns.into_iter().map(ColumnId).collect());
    ProjectionDefinition { id: ProjectionId(77), name: name.to_owned(), order, columns }
}

fn sealed(store: &Store, values: &[i64]) -> Vec<SealedSegment> {
    vec![segment(store, values).expect("a segment")]
}

fn of(store: &Store, id: TableId) -> Arc<TableSnapshot> {
    Arc::clone(store.catalog().table_by_id(id).expect("the table"))
}

/// Adds a projection of the first column with these rows.
fn add(store: &Store, id: TableId, name: &str, values: &[i64]) -> Result<ProjectionId> {
    let (new, ids) = (sealed(store, values), of(store, id).segments.versions());
    change(store, |t| t.add_projection(id, definition(name, vec![by(0)], Some(vec![0])), &ids, new))
}

/// A table of three rows with a projection of the same.
fn with_projection(store: &Store) -> TableId {
    let id = change(store, |t| t.create_table(table("t"))).expect("a table");
    let rows = sealed(store, &[3, 1, 2]);
    change(store, |t| t.publish(id, rows)).expect("rows");
    assert_eq!(add(store, id, "P", &[1, 2, 3]).expect("a projection"), ProjectionId(1));
    id
}

/// Segments that take the place of others in the projection.
fn copies(old: Vec<SegmentVersion>, new: Vec<SealedSegment>) -> ReplacedCopies {
    [(ProjectionId(1), (old, new))].into()
}

#[test]
fn projections_are_there_until_they_are_dropped() {
    let disk = MemoryDisk::new();
    let store = open(&disk).expect("a database");
    let id = with_projection(&store);
    let version = of(&store, id).version;
    let check = |store: &Store| {
        let table = of(store, id);
        assert_eq!((table.rows(), table.copies().len()), (3, 1));
        let copy = &table.copies()[0];
        assert_eq!((copy.rows(), copy.copy_id(), copy.version), (3, ProjectionId(1), table.version));
        assert!(copy.has_rows_of(&table) && table.has_rows_of(&table) && copy.projections.is_empty());
        assert!(copy.has_column(0) && !copy.has_column(1) && table.has_column(1));
        assert_ne!(copy.segments.versions(), table.segments.versions());
        assert_eq!(table.projection_named("p").expect("in any case").definition.order, [by(0)]);
        let report = store.check(&mut |_, _| Ok(())).expect("a check");
        assert_eq!((report.error_count, report.tables, report.segments, report.orphans.len()), (0, 1, 2, 0));
    };
    check(&store);
    drop(store);
    check(&Store::open(Arc::new(disk.clone()), OpenMode::ReadOnly, "reader").expect("read-only"));
    let store = open(&disk).expect("reopen");
    check(&store);
    assert_eq!(of(&store, id).version, version);
    assert_eq!(kind(change(&store, |t| t.drop_projection(id, "q"))), ErrorKind::NotFound);
    change(&store, |t| t.drop_projection(id, "p")).expect("dropped");
    assert_eq!((of(&store, id).copies().len(), segment_files(&disk)), (0, 1));
    assert_eq!(add(&store, id, "P", &[1, 2, 3]).expect("its id is free again"), ProjectionId(1));
    change(&store, |t| t.drop_table(id)).expect("dropped");
    assert_eq!(segment_files(&disk), 0);
}

#[test]
fn who_changes_rows_says_how_in_all_copies() {
    let disk = MemoryDisk::new();
    let store = open(&disk).expect("a database");
    let id = with_projection(&store);
    let new = |values: &[i64]| sealed(&store, values);
    // Nothing is said of the projection, or of another one, or it would have other rows.
    assert_eq!(kind(change(&store, |t| t.publish(id, new(&[4])))), ErrorKind::Conflict);
    let (base, copy) = (of(&store, id).segments.versions(), of(&store, id).copies()[0].segments.versions());
    assert_eq!(kind(change(&store, |t| t.replace(id, &base, new(&[4, 5, 6])))), ErrorKind::Conflict);
    let other: ReplacedCopies = [(ProjectionId(2), (Vec::new(), new(&[4])))].into();
    assert_eq!(kind(change(&store, |t| t.change_rows(id, vec![(vec![], new(&[4]))], other))), ErrorKind::Conflict);
    let unequal = |t: &mut Transaction| t.change_rows(id, vec![(vec![], new(&[4]))], copies(vec![], new(&[4, 4])));
    assert_eq!(kind(change(&store, unequal)), ErrorKind::Internal);
    let gone = |t: &mut Transaction| {
        t.change_rows(
            id,
            vec![(vec![], new(&[4]))],
            copies(vec![SegmentVersion { id: SegmentId(99), deleted: 0 }], new(&[4])),
        )
    };
    assert_eq!(kind(change(&store, gone)), ErrorKind::Conflict);
    assert_eq!(of(&store, id).segments.versions(), base, "nothing of it happened");
    assert_eq!(segment_files(&disk), 2);

    change(&store, |t| t.publish(id, Vec::new())).expect("no rows change no copy");
    change(&store, |t| t.change_rows(id, vec![(vec![], new(&[4]))], copies(vec![], new(&[4])))).expect("appended");
    assert_eq!((of(&store, id).rows(), of(&store, id).copies()[0].rows()), (4, 4));
    let rewritten = |t: &mut Transaction| {
        let rest = (base.clone(), new(&[7]));
        t.change_rows(id, vec![rest], copies(copy.clone(), new(&[7])))
    };
    change(&store, rewritten).expect("rewritten");
    let table = of(&store, id);
    assert_eq!((table.rows(), table.copies()[0].rows(), table.copies()[0].segments.len()), (2, 2, 2));
    drop(table);
    assert_eq!(segment_files(&disk), 4);

    // The same rows otherwise, in one copy of them.
    let copy = of(&store, id).copies()[0].segments.versions();
    assert_eq!(kind(change(&store, |t| t.lay_out(id, ProjectionId(1), &copy, new(&[7])))), ErrorKind::Internal);
    assert_eq!(kind(change(&store, |t| t.lay_out(id, ProjectionId(3), &copy, new(&[4, 7])))), ErrorKind::Conflict);
    change(&store, |t| t.lay_out(id, ProjectionId(1), &copy, new(&[4, 7]))).expect("one segment of two");
    assert_eq!(kind(change(&store, |t| t.lay_out(id, ProjectionId(1), &copy, new(&[4, 7])))), ErrorKind::Conflict);
    let base = of(&store, id).segments.versions();
    change(&store, |t| t.lay_out(id, ProjectionId::TABLE, &base, new(&[4, 7]))).expect("one segment of two");
    assert_eq!(of(&store, id).copies()[0].segments.len(), 1);
    let base = of(&store, id).segments.versions();
    let copy = of(&store, id).copies()[0].segments.versions();
    change(&store, |t| t.change_rows(id, vec![(base, vec![])], copies(copy, vec![]))).expect("emptied");
    assert_eq!((of(&store, id).rows(), segment_files(&disk)), (0, 0));
}

#[test]
fn projections_that_cannot_be() {
    let store = open(&MemoryDisk::new()).expect("a database");
    let id = with_projection(&store);
    assert_eq!(kind(add(&store, id, "p", &[1, 2, 3])), ErrorKind::AlreadyExists);
    assert_eq!(kind(add(&store, id, "q", &[1, 2])), ErrorKind::Internal, "other rows");
    let ids = of(&store, id).segments.versions();
    let try_to = |wanted: ProjectionDefinition, of: &[SegmentVersion]| {
        kind(change(&store, |t| t.add_projection(id, wanted, of, sealed(&store, &[1, 2, 3]))))
    };
    assert_eq!(try_to(definition("q", vec![by(0)], Some(vec![0])), &[]), ErrorKind::Conflict, "changed meanwhile");
    for wrong in [
        definition("q", vec![], None),
        definition("", vec![by(0)], None),
        definition("q", vec![by(5)], None),
        definition("q", vec![by(1)], Some(vec![0])),
        definition("q", vec![by(0)], Some(vec![0, 0])),
        definition("q", vec![by(0)], Some(vec![])),
        definition("q", vec![by(0)], Some(vec![0, 9])),
    ] {
        assert_eq!(try_to(wrong.clone(), &ids), ErrorKind::Input, "{wrong:?}");
    }
    for number in 1..limits::TABLE_PROJECTIONS {
        add(&store, id, &format!("p{number}"), &[1, 2, 3]).expect("there is room");
    }
    assert_eq!(kind(add(&store, id, "one more", &[1, 2, 3])), ErrorKind::Input);
}

/// Columns that an order goes by stay, also those of other tables; others leave projections with their table.
#[test]
fn columns_that_orders_go_by_stay() {
    let store = open(&MemoryDisk::new()).expect("a database");
    let dimension = change(&store, |t| t.create_table(table("d"))).expect("a table");
    let mut referring = table("f");
    let references = vec!["Id".to_owned()];
    let key =
        Constraint::ForeignKey { columns: vec![ColumnId(0)], table: "main.d".into(), references, is_enforced: true };
    referring.constraints.push(key);
    referring.columns.push(column("more", LogicalType::Int64));
    let id = change(&store, |t| t.create_table(referring)).expect("a table");
    let hop = Hop { column: ColumnId(0), table: dimension, key: ColumnId(0) };
    let behind = OrderKey { hops: vec![hop], column: ColumnId(1) };
    let wanted = definition("p", vec![behind.clone(), by(2)], Some(vec![0, 1, 2]));
    change(&store, |t| t.add_projection(id, wanted, &[], Vec::new())).expect("of an empty table");
    assert!(behind.goes_by(id, (dimension, ColumnId(1))) && !behind.goes_by(id, (id, ColumnId(1))));
    let dropping = |table, column| change(&store, |t| t.drop_column(table, ColumnId(column)));
    assert_eq!(kind(dropping(id, 2)), ErrorKind::Constraint);
    let error = dropping(dimension, 1).expect_err("behind the key");
    assert!(error.to_string().contains("projection p of table main.f"), "{error}");
    dropping(id, 1).expect("no order goes by it");
    assert_eq!(of(&store, id).projections[0].definition.columns, Some(vec![ColumnId(0), ColumnId(2)]));
    change(&store, |t| t.rename_column(dimension, ColumnId(1), "text").and_then(|()| t.rename_table(dimension, "e")))
        .expect("orders know no names");
    change(&store, |t| t.add_column(id, column("new", LogicalType::Int64))).expect("a column");
    assert!(!of(&store, id).copies()[0].has_column(2), "it came later");
    change(&store, |t| t.drop_projection(id, "p")).expect("dropped");
    dropping(dimension, 1).expect("free again");
}

/// The bytes of the row (docs/format.md, "Manifest").
#[test]
fn the_row_of_projections() {
    let store = open(&MemoryDisk::new()).expect("a database");
    let id = with_projection(&store);
    let all = rows::encode(&store.catalog(), 100);
    let key = *all.keys().find(|key| key[0] == rows::ROW_PROJECTIONS).expect("a row");
    assert_eq!(key[1..], id.0.to_be_bytes());
    let parts: [&[u8]; 8] = [
        &1_u32.to_le_bytes(),
        &1_u32.to_le_bytes(),
        &[1, 0, 0, 0, b'P'],
        &1_u32.to_le_bytes(),
        &0_u32.to_le_bytes(),
        &0_u32.to_le_bytes(),
        &[SOME_COLUMNS],
        &[1, 0, 0, 0, 0, 0, 0, 0],
    ];
    let payload = &all[&key][..all[&key].len() - 4];
    assert_eq!(payload, parts.concat());
    let load = |payload: Vec<u8>| {
        let mut edited = all.clone();
        rows::seal_again(&mut edited, key, payload);
        store::load_catalog(&edited, store.volume()).map(|(root, catalog)| rows::encode(&catalog, root.next_file))
    };
    assert_eq!(load(payload.to_vec()).expect("as it was"), all);
    let changed = |part: usize, bytes: &[u8]| {
        let mut parts = parts;
        parts[part] = bytes;
        parts.concat()
    };
    let everything = [&parts[..6].concat(), &[ALL_COLUMNS][..]].concat();
    assert!(load(everything).is_ok());
    let twice = [&2_u32.to_le_bytes()[..], &payload[4..], &payload[4..]].concat();
    let of_no_table = changed(4, &[&1_u32.to_le_bytes()[..], &[0; 4], &[9; 8], &[0; 4]].concat());
    for wrong in [
        changed(0, &[0; 4]),
        changed(1, &[0; 4]),
        changed(1, &2_u32.to_le_bytes()),
        changed(2, &[0; 4]),
        changed(3, &[0; 4]),
        changed(5, &9_u32.to_le_bytes()),
        changed(6, &[2]),
        changed(7, &[1, 0, 0, 0, 1, 0, 0, 0]),
        changed(7, &[0; 4]),
        twice,
        of_no_table,
        payload[..payload.len() - 1].to_vec(),
    ] {
        let error = load(wrong.clone()).expect_err("no such row");
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{wrong:?}: {error}");
    }
    // A projection whose segment is missing has other rows than its table.
    let copy = of(&store, id).copies()[0].segments.versions()[0];
    let mut without = all.clone();
    without.remove(&rows::key(rows::ROW_SEGMENT, copy.id.0));
    let root = rows::encode(&store.catalog(), 100)[&rows::key(rows::ROW_ROOT, 0)].clone();
    let mut fewer = root[..root.len() - 4].to_vec();
    let count = fewer.len() - 12;
    fewer[count..count + 8].copy_from_slice(&(without.len() as u64 - 1).to_le_bytes());
    rows::seal_again(&mut without, rows::key(rows::ROW_ROOT, 0), fewer);
    let error = store::load_catalog(&without, store.volume()).map(drop).expect_err("a segment is missing");
    assert!(error.to_string().contains("projection P of table main.t has other rows"), "{error}");
}
