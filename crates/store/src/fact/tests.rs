//! Facts: what a commit keeps, what goes with its table, and the bytes of rows and files.

use std::sync::Arc;

use forebay_disk::{Disk, MemoryDisk, OpenMode as FileMode};

use super::*;
use crate::tests::{change, column, kind, open, segment, segment_files, table};
use crate::{OpenMode, Store, rows, store};

/// A kind that nobody knows, about the first column of `about`, made from these tables as they are.
fn definition(store: &Store, about: TableId, from: &[TableId]) -> FactDefinition {
    let catalog = store.catalog();
    let source = |id: &TableId| FactSource { table: *id, version: catalog.table_by_id(*id).expect("a table").version };
    let sources = from.iter().map(source).collect();
    FactDefinition { kind: 900, version: 3, optional: true, table: about, columns: vec![ColumnId(0)], sources }
}

fn publish(store: &Store, about: TableId, from: &[TableId], content: &[u8]) -> FactId {
    let sealed = store.write_fact(definition(store, about, from), content).expect("a fact");
    change(store, |t| t.publish_fact(sealed)).expect("published")
}

fn tables(store: &Store, names: [&str; 2]) -> [TableId; 2] {
    names.map(|name| change(store, |t| t.create_table(table(name))).expect("a table"))
}

fn contents(store: &Store, about: TableId) -> Vec<Vec<u8>> {
    store.catalog().facts_of(about).map(|fact| fact.read().expect("its content")).collect()
}

#[test]
fn facts_are_there_until_they_are_dropped() {
    let disk = MemoryDisk::new();
    let store = open(&disk).expect("a database");
    let [a, b] = tables(&store, ["a", "b"]);
    let version = |store: &Store, id| store.catalog().table_by_id(id).expect("a table").version;
    let id = publish(&store, b, &[a, b], b"about b");
    publish(&store, a, &[a], &[]);
    assert_eq!((version(&store, a), version(&store, b)), (1, 1), "a fact is no change of its tables");
    let written = store.catalog().fact(id).expect("it").definition().clone();
    let is_current = |store: &Store, id| {
        let catalog = store.catalog();
        catalog.fact(id).expect("it").definition().is_current(&catalog)
    };
    drop(store);

    let store = open(&disk).expect("it opens again");
    assert_eq!((contents(&store, a), contents(&store, b)), (vec![vec![]], vec![b"about b".to_vec()]));
    assert_eq!(store.catalog().fact(id).expect("it").definition(), &written);
    assert!(is_current(&store, id));
    change(&store, |t| t.create_view("main", "v", "select 1", false)).expect("a view");
    assert!(is_current(&store, id), "nothing of it has changed");
    let sealed = segment(&store, &[1, 2]).expect("a segment");
    assert_ne!(sealed.id().0, id.0, "all files have numbers of their own");
    change(&store, |t| t.publish(a, vec![sealed])).expect("rows");
    assert!(!is_current(&store, id), "one of its tables has");
    drop(store);

    let store = open(&disk).expect("it opens again");
    assert_eq!(contents(&store, b), [b"about b"], "it is kept all the same");
    assert!(store.check(&mut |_, _| Ok(())).expect("a check").orphans.is_empty());
    let snapshot = store.catalog();
    change(&store, |t| t.drop_fact(id)).expect("dropped");
    assert_eq!(kind(change(&store, |t| t.drop_fact(id))), ErrorKind::NotFound);
    assert_eq!(contents(&store, b), [b""; 0]);
    assert_eq!(snapshot.fact(id).expect("it").read().expect("its content"), b"about b", "whoever has it reads it");
    assert_eq!(segment_files(&disk), 3);
    drop(snapshot);
    assert_eq!(segment_files(&disk), 2);
}

#[test]
fn facts_go_with_what_they_were_made_from() {
    let disk = MemoryDisk::new();
    let store = open(&disk).expect("a database");
    let [a, b] = tables(&store, ["a", "b"]);
    change(&store, |t| t.create_schema("s")).expect("a schema");
    let c = change(&store, |t| t.create_table(crate::TableDefinition { schema: "s".into(), ..table("c") }));
    let c = c.expect("a table");
    publish(&store, a, &[a], b"a");
    publish(&store, b, &[a, b], b"b from a");
    publish(&store, b, &[b], b"b");
    publish(&store, c, &[b, c], b"c");
    assert_eq!(segment_files(&disk), 4);
    change(&store, |t| t.drop_table(a)).expect("dropped");
    assert_eq!((contents(&store, b), contents(&store, c)), (vec![b"b".to_vec()], vec![b"c".to_vec()]));
    assert_eq!(segment_files(&disk), 2);
    change(&store, |t| t.drop_schema("s", true)).expect("dropped");
    assert_eq!(segment_files(&disk), 1);
    // The column that a fact is about, and another one.
    let other = change(&store, |t| t.add_column(b, column("x", forebay_base::LogicalType::Int64))).expect("a column");
    change(&store, |t| t.drop_column(b, other)).expect("dropped");
    assert_eq!(contents(&store, b), [b"b"]);
    change(&store, |t| t.drop_column(b, ColumnId(0))).expect("dropped");
    assert_eq!((store.catalog().facts().count(), segment_files(&disk)), (0, 0));
    drop(store);
    assert_eq!(open(&disk).expect("it opens again").catalog().facts().count(), 0);
}

#[test]
fn what_is_not_published_leaves_no_file() {
    let disk = MemoryDisk::new();
    let store = open(&disk).expect("a database");
    let [a, b] = tables(&store, ["a", "b"]);
    let sealed = |from: &[TableId]| store.write_fact(definition(&store, a, from), b"x").expect("a fact");
    drop(sealed(&[a]));
    let mut transaction = store.begin().expect("a transaction");
    let id = transaction.publish_fact(sealed(&[a])).expect("published");
    assert_eq!(transaction.catalog().fact(id).expect("it").read().expect("its content"), b"x");
    drop(transaction);
    // In one transaction with the end of its table.
    change(&store, |t| t.publish_fact(sealed(&[a, b])).and_then(|_| t.drop_table(b))).expect("both");
    assert_eq!((store.catalog().facts().count(), segment_files(&disk)), (0, 0));
    let late = sealed(&[a]);
    let of_no_column = FactDefinition { columns: vec![ColumnId(9)], ..definition(&store, a, &[a]) };
    let of_no_column = store.write_fact(of_no_column, b"x").expect("a fact");
    assert_eq!(kind(change(&store, |t| t.publish_fact(of_no_column))), ErrorKind::NotFound);
    change(&store, |t| t.drop_table(a)).expect("dropped");
    assert_eq!(kind(change(&store, |t| t.publish_fact(late))), ErrorKind::NotFound);
    assert_eq!(segment_files(&disk), 0);
    drop(store);

    disk.open("segments/0000000042.fact", FileMode::Create).expect("what a crash leaves");
    let reader = Store::open(Arc::new(disk.clone()), OpenMode::ReadOnly, "reader").expect("it opens");
    let report = reader.check(&mut |_, _| Ok(())).expect("a check");
    assert_eq!(report.orphans, ["segments/0000000042.fact"]);
    drop(reader);
    open(&disk).expect("it opens");
    assert_eq!(segment_files(&disk), 0);
}

#[test]
fn damaged_and_missing_facts_are_told() {
    let disk = MemoryDisk::new();
    let store = open(&disk).expect("a database");
    let [a, _] = tables(&store, ["a", "b"]);
    let id = publish(&store, a, &[a], &[5; 6000]);
    drop(store);
    let path = format!("segments/{:010}.fact", id.0);
    let file = disk.open(&path, FileMode::Write).expect("it is there");
    assert_eq!(file.len().expect("its length"), 4096 + 8192);
    let refused = |what: &str| {
        let store = open(&disk).expect("the manifest is sound");
        let error = store.catalog().fact(id).expect("it").read().expect_err(what);
        let text = error.to_string();
        assert!(text.contains(&format!("fact file {path}")), "{text}");
        let report = store.check(&mut |_, _| Ok(())).expect("a check");
        assert_eq!(report.error_count, 1, "{what}");
        assert!(report.errors[0].to_string().contains("table main.a"), "{}", report.errors[0]);
        error.kind()
    };
    for at in [0, 20, 4096, 4096 + 5999] {
        let mut byte = [0];
        file.read_at(at, &mut byte).expect("its bytes");
        file.write_at(at, &[byte[0] ^ 8]).expect("flip");
        assert_eq!(refused("a flipped byte"), ErrorKind::Corrupt);
        file.write_at(at, &byte).expect("flip back");
    }
    file.set_len(8192).expect("cut");
    assert_eq!(refused("cut"), ErrorKind::Corrupt);
    disk.remove(&path).expect("it is there");
    assert_eq!(refused("missing"), ErrorKind::NotFound);
}

#[test]
fn kinds_that_are_not_known_must_be_optional() {
    let source = FactSource { table: TableId(3), version: 1 };
    let (columns, sources) = (Vec::new(), vec![source]);
    let optional = FactDefinition { kind: 9, version: 2, optional: true, table: TableId(3), columns, sources };
    let needed = FactDefinition { optional: false, ..optional.clone() };
    optional.check_kind(&[]).expect("it can be done without");
    needed.check_kind(&[(9, 1), (9, 2)]).expect("it is known");
    for known in [&[][..], &[(9, 1)], &[(8, 2)]] {
        let error = needed.check_kind(known).expect_err("not known");
        assert!(error.kind() == ErrorKind::Version && error.to_string().contains("kind 9 in version 2"), "{error}");
    }
}

#[test]
fn definitions_that_could_not_be_read_again_are_refused() {
    let disk = MemoryDisk::new();
    let store = open(&disk).expect("a database");
    let [a, b] = tables(&store, ["a", "b"]);
    let sound = definition(&store, a, &[a, b]);
    let backwards = sound.sources.iter().rev().copied().collect();
    let wrong = [
        FactDefinition { sources: Vec::new(), ..sound.clone() },
        FactDefinition { sources: sound.sources[1..].to_vec(), ..sound.clone() },
        FactDefinition { sources: backwards, ..sound.clone() },
        FactDefinition { columns: vec![ColumnId(1), ColumnId(1)], ..sound.clone() },
    ];
    for wrong in wrong {
        assert_eq!(kind(store.write_fact(wrong.clone(), b"x")), ErrorKind::Internal, "{wrong:?}");
    }
    let needed = FactDefinition { optional: false, ..sound };
    assert_eq!(kind(store.write_fact(needed, b"x")), ErrorKind::Version);
    assert_eq!(segment_files(&disk), 0);
}

/// Changes the payload of a row.
type Edit<'a> = &'a dyn Fn(&mut Vec<u8>);

/// The bytes of docs/format.md, "Manifest" and "Fact file".
#[test]
fn rows_and_files_of_facts() {
    let disk = MemoryDisk::new();
    let store = open(&disk).expect("a database");
    let [a, b] = tables(&store, ["a", "b"]);
    let id = publish(&store, b, &[a, b], b"123456789");
    assert_eq!((a, b, id), (TableId(1), TableId(2), FactId(1)));
    let row: [&[u8]; 14] = [
        &2_u64.to_le_bytes(),
        &900_u16.to_le_bytes(),
        &1_u16.to_le_bytes(),
        &3_u32.to_le_bytes(),
        &1_u32.to_le_bytes(),
        &0_u32.to_le_bytes(),
        &2_u32.to_le_bytes(),
        &1_u64.to_le_bytes(),
        &1_u64.to_le_bytes(),
        &2_u64.to_le_bytes(),
        &1_u64.to_le_bytes(),
        &0_u32.to_le_bytes(),
        &9_u64.to_le_bytes(),
        &0xE306_9283_u32.to_le_bytes(),
    ];
    let row = row.concat();
    let all = rows::encode(&store.catalog(), 2);
    let key = rows::key(rows::ROW_FACT, 1);
    assert_eq!(key, [6, 0, 0, 0, 0, 0, 0, 0, 1]);
    assert_eq!(all[&key][..all[&key].len() - 4], row);

    let file = disk.open("segments/0000000001.fact", FileMode::Read).expect("it is there");
    let mut bytes = vec![0; file.len().expect("its length") as usize];
    file.read_at(0, &mut bytes).expect("its bytes");
    assert_eq!(&bytes[..20], b"FBAYFACT\x01\0\0\0\x01\0\0\0\0\0\0\0");
    assert_eq!(bytes[20..24], crc32c(&bytes[..20]).to_le_bytes());
    assert_eq!((&bytes[4096..4105], bytes.len()), (&b"123456789"[..], 8192));
    assert!(bytes[24..4096].iter().chain(&bytes[4105..]).all(|byte| *byte == 0));

    // What is read is written again as it was, whatever the kind is; what does not fit together is refused.
    let load = |edit: Edit<'_>| {
        let (mut edited, mut payload) = (all.clone(), row.clone());
        edit(&mut payload);
        rows::seal_again(&mut edited, key, payload);
        store::load_catalog(&edited, store.volume())
            .map(|(root, catalog)| (edited, rows::encode(&catalog, root.next_file)))
    };
    let sound: [Edit<'_>; 3] = [&|_| {}, &|row| row[8] = 7, &|row| row[12] = 9];
    for edit in sound {
        let (read, written) = load(edit).expect("a sound row");
        assert_eq!(read, written);
    }
    let refused = |edit: Edit<'_>| load(edit).expect_err("refused");
    let needed = refused(&|row| row[10] = 0);
    assert!(needed.kind() == ErrorKind::Version && needed.to_string().contains("kind 900"), "{needed}");
    let wrong: [Edit<'_>; 8] = [
        &|row| (row[0], row[44]) = (9, 9),
        &|row| row[10] = 2,
        &|row| row[0] = 3,
        &|row| row[28] = 2,
        &|row| row[44] = 9,
        &|row| row[60] = 1,
        &|row| row.push(0),
        &|row| row.truncate(row.len() - 1),
    ];
    for (number, edit) in wrong.into_iter().enumerate() {
        assert_eq!(refused(edit).kind(), ErrorKind::Corrupt, "{number}");
    }
}
