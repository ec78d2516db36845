//! Tables and their rows: what is there after a reopen, what alterations are refused, whose version a commit raises.

use super::*;

#[test]
fn tables_with_rows_are_there_after_a_reopen() {
    let disk = MemoryDisk::new();
    let store = open(&disk).expect("an empty disk becomes a database");
    let id = change(&store, |t| t.create_table(table("Orders"))).expect("a table");
    let writer = store.segment_writer(vec![INT]).expect("a writer");
    writer.append_group(7, group(&[&[30, 31], &[32]])).expect("a group");
    writer.append_group(2, group(&[&[10, 11, 12]])).expect("a group before it");
    let sealed = writer.finish().expect("a segment");
    assert_eq!(sealed.rows(), 6);
    change(&store, |t| t.publish(id, vec![sealed])).expect("publish");
    let check = |store: &Store| {
        let catalog = store.catalog();
        let table = catalog.table("MAIN", "orders").expect("found in any case");
        assert_eq!((table.id, table.name.as_str(), table.rows()), (id, "Orders", 6));
        assert_eq!(table.column("ID").expect("found in any case").1.name, "Id");
        let expected = [(10, 3), (30, 2), (32, 1)].map(|(min, rows)| (Some(Value::Int(min)), rows));
        let segment = &table.segments[0];
        let groups = segment.groups().expect("groups");
        assert_eq!(groups.iter().map(|g| (g.first_row, g.rows)).collect::<Vec<_>>(), [(0, 3), (3, 3)]);
        assert_eq!(groups[0].columns[0].zones[0].min, expected[0].0);
        assert_eq!(groups[1].columns[0].plain_bytes, 24);
        assert_eq!(blocks(segment).iter().map(|b| b.1).collect::<Vec<_>>(), [3, 2, 1]);
        assert_eq!(segment.column_index(ColumnId(1)), None);
        let report = store.check(&mut |_, _| Ok(())).expect("a check");
        assert!(report.error_count == 0 && report.orphans.is_empty(), "{report:?}");
        assert_eq!((report.tables, report.segments, report.chunks), (1, 1, 3));
        assert_eq!(report.bytes, segment.file_bytes());
    };
    check(&store);
    drop(store);
    check(&open(&disk).expect("reopen"));
    let reader = Store::open(Arc::new(disk.clone()), OpenMode::ReadOnly, "reader").expect("read-only");
    check(&reader);
    assert_eq!(kind(reader.begin()), ErrorKind::Locked);
    assert_eq!(kind(reader.segment_writer(vec![INT])), ErrorKind::Locked);
}

#[test]
fn definitions_are_there_after_a_reopen() {
    let disk = MemoryDisk::new();
    let store = open(&disk).expect("a database");
    change(&store, |t| {
        t.create_schema("Sales")?;
        let mut parent = table("parent");
        parent.constraints.push(Constraint::PrimaryKey(vec![ColumnId(0)]));
        let parent = t.create_table(parent)?;
        let mut child = TableDefinition { schema: "sales".into(), ..table("child") };
        child.columns[1].default = Some("'x'".into());
        child.constraints.push(Constraint::Unique(vec![ColumnId(0), ColumnId(1)]));
        child.constraints.push(Constraint::Check {
            columns: vec![ColumnId(0)],
            condition: "\"Id\" > 0".into(),
            is_enforced: false,
        });
        child.constraints.push(Constraint::ForeignKey {
            columns: vec![ColumnId(0)],
            table: "main.PARENT".into(),
            references: vec!["ID".into()],
            is_enforced: false,
        });
        t.create_table(child)?;
        t.add_column(
            parent,
            ColumnDefinition {
                missing: Some(Value::Int(7)),
                nullable: false,
                ..column("price", LogicalType::Decimal { precision: 12, scale: 2 })
            },
        )?;
        let definitions = vec!["(a) AS a + 1".to_owned(), "(a, b) AS a + b".to_owned()];
        t.create_macro(MacroKind::Value, "sales", "Sum", definitions, false)?;
        let range = SequenceRange { start: 3, increment: -2, least: -9, greatest: 3, cycles: true };
        t.create_sequence("sales", "Numbers", range)?;
        assert_eq!(t.take_numbers("Sales", "numbers", 2)?, [3, 1]);
        t.create_type("sales", "Mood", "ENUM('sad')".to_owned(), false)?;
        assert!(t.create_type("Sales", "mood", "INTEGER".to_owned(), false).is_err());
        t.create_type("Sales", "mooD", "ENUM('sad', 'ok')".to_owned(), true)?;
        t.create_macro(MacroKind::Table, "main", "sum", vec!["(n) AS TABLE SELECT n".to_owned()], false)?;
        t.create_view("SALES", "Recent", "select 1", false)
    })
    .expect("definitions");
    let before = store.catalog();
    drop(store);
    let store = open(&disk).expect("reopen");
    let after = store.catalog();
    assert_eq!(format!("{before:?}"), format!("{after:?}"));
    let parent = after.table("main", "parent").expect("a table");
    assert!(!parent.columns[0].nullable, "a primary key is NOT NULL");
    assert_eq!(after.view("sales", "RECENT").expect("a view").sql, "select 1");
    assert_eq!(after.macro_of(MacroKind::Value, "SALES", "sum").expect("a macro").definitions[1], "(a, b) AS a + b");
    assert!(after.macro_of(MacroKind::Table, "sales", "sum").is_none());
    assert_eq!(after.named_type("sales", "mood").expect("a type").definition, "ENUM('sad', 'ok')");
    assert_eq!(after.sequence("sales", "NUMBERS").expect("a sequence").range.increment, -2);
    assert_eq!(change(&store, |t| t.take_numbers("sales", "numbers", 1)).expect("a number"), [-1]);
    assert_eq!(after.schemas().collect::<Vec<_>>(), ["main", "Sales"]);
    assert_eq!((after.tables().count(), after.views().count()), (2, 1));
}

#[test]
fn alterations_and_their_limits() {
    let disk = MemoryDisk::new();
    let store = open(&disk).expect("a database");
    let mut t = store.begin().expect("a transaction");
    let parent = t.create_table(table("parent")).expect("a table");
    let mut definition = table("child");
    let references = vec!["id".to_owned()];
    definition.constraints = vec![
        Constraint::PrimaryKey(vec![ColumnId(0)]),
        Constraint::ForeignKey {
            columns: vec![ColumnId(0)],
            table: "main.parent".into(),
            references,
            is_enforced: true,
        },
    ];
    let child = t.create_table(definition).expect("a table");
    assert_eq!(kind(t.create_table(table("PARENT"))), ErrorKind::AlreadyExists);
    assert_eq!(kind(t.create_table(TableDefinition { columns: vec![], ..table("e") })), ErrorKind::Input);
    assert_eq!(kind(t.create_table(TableDefinition { schema: "no".into(), ..table("e") })), ErrorKind::NotFound);
    assert_eq!(kind(t.create_table(table(&"n".repeat(300)))), ErrorKind::Input);
    assert_eq!(kind(t.drop_table(parent)), ErrorKind::Constraint);
    assert_eq!(kind(t.drop_column(parent, ColumnId(0))), ErrorKind::Constraint);
    assert_eq!(kind(t.drop_column(child, ColumnId(0))), ErrorKind::Constraint);
    assert_eq!(kind(t.set_nullable(child, ColumnId(0), true)), ErrorKind::Constraint);
    assert_eq!(kind(t.rename_table(parent, "Child")), ErrorKind::AlreadyExists);
    assert_eq!(kind(t.rename_column(parent, ColumnId(1), "ID")), ErrorKind::AlreadyExists);
    assert_eq!(kind(t.add_column(parent, column("NOTE", LogicalType::Date))), ErrorKind::AlreadyExists);
    assert_eq!(kind(t.drop_table(TableId(99))), ErrorKind::NotFound);

    t.rename_table(parent, "Ancestor").expect("rename");
    t.rename_column(parent, ColumnId(0), "key").expect("rename");
    t.rename_table(parent, "ANCESTOR").expect("another case of its own name");
    t.drop_column(parent, ColumnId(1)).expect("drop a column");
    assert_eq!(kind(t.drop_column(parent, ColumnId(0))), ErrorKind::Constraint);
    assert_eq!(t.add_column(parent, column("note", LogicalType::Date)).expect("add"), ColumnId(2));
    t.set_default(parent, ColumnId(2), Some("now()".into())).expect("default");
    t.set_nullable(parent, ColumnId(2), false).expect("not null");
    let catalog = t.catalog();
    assert!(catalog.table("main", "parent").is_none());
    let altered = catalog.table("main", "ancestor").expect("the new name");
    assert_eq!((altered.columns[1].nullable, altered.columns[1].default.as_deref()), (false, Some("now()")));
    let foreign = &catalog.table_by_id(child).expect("the child").constraints[1];
    let expected = Constraint::ForeignKey {
        columns: vec![ColumnId(0)],
        table: "main.ANCESTOR".into(),
        references: vec!["key".into()],
        is_enforced: true,
    };
    assert_eq!(foreign, &expected);

    t.create_view("main", "v", "select 1", false).expect("a view");
    assert_eq!(kind(t.create_view("main", "V", "select 2", false)), ErrorKind::AlreadyExists);
    assert_eq!(kind(t.create_view("main", "ancestor", "select 2", true)), ErrorKind::AlreadyExists);
    t.create_view("main", "V", "select 2", true).expect("replaced");
    t.create_schema("s").expect("a schema");
    assert_eq!(kind(t.create_schema("S")), ErrorKind::AlreadyExists);
    t.create_table(TableDefinition { schema: "s".into(), ..table("inner") }).expect("a table");
    assert_eq!(kind(t.drop_schema("s", false)), ErrorKind::Constraint);
    assert_eq!(kind(t.drop_schema("main", true)), ErrorKind::Input);
    t.drop_schema("s", true).expect("cascade");
    t.drop_table(child).expect("drop");
    t.drop_table(parent).expect("nobody refers to it any more");
    let one = || vec!["() AS 1".to_owned()];
    t.create_macro(MacroKind::Value, "main", "m", one(), false).expect("a macro");
    assert_eq!(kind(t.create_macro(MacroKind::Value, "main", "M", one(), false)), ErrorKind::AlreadyExists);
    t.create_macro(MacroKind::Value, "main", "M", one(), true).expect("replaced");
    t.create_schema("s").expect("a schema");
    t.create_macro(MacroKind::Table, "s", "m", one(), false).expect("of another kind");
    assert_eq!(kind(t.drop_schema("s", false)), ErrorKind::Constraint);
    t.drop_schema("s", true).expect("cascade");
    assert_eq!(kind(t.drop_macro(MacroKind::Table, "s", "m")), ErrorKind::NotFound);
    t.drop_macro(MacroKind::Value, "main", "m").expect("drop");
    t.drop_view("main", "v").expect("drop");
    assert_eq!(kind(t.drop_view("main", "v")), ErrorKind::NotFound);
    assert_eq!(store.catalog().commit_number(), 0, "nothing was committed");
    t.commit().expect("commit");
    assert_eq!(store.catalog().tables().count(), 0);
}

#[test]
fn nulls_do_not_slip_into_a_column_that_became_not_null() {
    let store = open(&MemoryDisk::new()).expect("a database");
    let id = change(&store, |t| t.create_table(table("t"))).expect("a table");
    let with_null = |store: &Store| {
        let mut group = group(&[&[1, 2]]);
        group.columns[0].zones[0].null_count = 1;
        let writer = store.segment_writer(vec![INT])?;
        writer.append_group(0, group)?;
        writer.finish()
    };
    let loaded = with_null(&store).expect("a segment");
    change(&store, |t| t.publish(id, vec![loaded])).expect("NULLs are allowed");
    // Two loads begin; then another session changes the columns.
    let (early, late) = (with_null(&store).expect("a segment"), with_null(&store).expect("a segment"));
    change(&store, |t| t.set_nullable(id, ColumnId(0), false)).expect("not null");
    let error = change(&store, |t| t.publish(id, vec![early])).expect_err("a NULL in it");
    assert_eq!(error.kind(), ErrorKind::Constraint);
    assert!(error.to_string().contains("Run the statement again"), "{error}");
    // The file of the other one lacks the column `note`, whose missing rows are NULL.
    change(&store, |t| t.set_nullable(id, ColumnId(0), true).and_then(|()| t.set_nullable(id, ColumnId(1), false)))
        .expect("the other one");
    assert_eq!(kind(change(&store, |t| t.publish(id, vec![late]))), ErrorKind::Constraint);
    assert_eq!(store.catalog().table("main", "t").expect("t").rows(), 2);
}

#[test]
fn names_with_dots_are_not_confused() {
    assert_eq!(full_name("main", "t"), "main.t");
    assert_eq!(full_name("a.b", "c\"d"), "\"a.b\".\"c\"\"d\"");
    let store = open(&MemoryDisk::new()).expect("a database");
    let mut t = store.begin().expect("a transaction");
    for schema in ["a", "a.b"] {
        t.create_schema(schema).expect("a schema");
    }
    let target = t.create_table(TableDefinition { schema: "a".into(), ..table("b.c") }).expect("a table");
    let other = t.create_table(TableDefinition { schema: "a.b".into(), ..table("c") }).expect("a table");
    let references = vec!["id".to_owned()];
    let key = Constraint::ForeignKey {
        columns: vec![ColumnId(0)],
        table: full_name("A", "B.c"),
        references,
        is_enforced: true,
    };
    let child = t.create_table(TableDefinition { constraints: vec![key], ..table("child") }).expect("a table");
    t.drop_column(other, ColumnId(0)).expect("nothing refers to it");
    t.drop_table(other).expect("nothing refers to it");
    assert_eq!(kind(t.drop_table(target)), ErrorKind::Constraint);
    t.rename_table(target, "d.e").expect("rename");
    let child = t.catalog().table_by_id(child).expect("the child");
    assert!(child.constraints[0].refers_to("a.\"d.e\""), "{:?}", child.constraints);
}

#[test]
fn replace_keeps_row_order_and_notices_changes() {
    let disk = MemoryDisk::new();
    let store = open(&disk).expect("a database");
    let id = change(&store, |t| t.create_table(table("t"))).expect("a table");
    let sealed: Vec<_> = (0..4).map(|n| segment(&store, &[n]).expect("a segment")).collect();
    let ids: Vec<_> = sealed.iter().map(|sealed| sealed.segment().as_version()).collect();
    change(&store, |t| t.publish(id, sealed)).expect("publish");
    let minima = |store: &Store| -> Vec<Option<Value>> {
        let catalog = store.catalog();
        catalog.table("main", "t").expect("t").segments.iter().map(|s| blocks(s)[0].0.clone()).collect()
    };
    let ints = |values: &[i128]| values.iter().map(|v| Some(Value::Int(*v))).collect::<Vec<_>>();
    let one = segment(&store, &[10]).expect("a segment");
    change(&store, |t| t.replace(id, &ids[1..3], vec![one])).expect("two by one");
    assert_eq!(minima(&store), ints(&[0, 10, 3]));
    let many: Vec<_> = (20..24).map(|n| segment(&store, &[n]).expect("a segment")).collect();
    change(&store, |t| t.replace(id, &ids[..1], many)).expect("one by four");
    let expected = ints(&[20, 21, 22, 23, 10, 3]);
    assert_eq!(minima(&store), expected);
    let late = segment(&store, &[99]).expect("a segment");
    assert_eq!(kind(change(&store, |t| t.replace(id, &ids[1..2], vec![late]))), ErrorKind::Conflict);
    drop(store);
    let store = open(&disk).expect("reopen");
    assert_eq!(minima(&store), expected);
    assert_eq!(segment_files(&disk), 6);
}

#[test]
fn commits_raise_the_versions_of_the_tables_that_they_change() {
    let disk = MemoryDisk::new();
    let store = open(&disk).expect("a database");
    let first = change(&store, |t| t.create_table(table("first"))).expect("a table");
    let second = change(&store, |t| t.create_table(table("second"))).expect("a table");
    let versions = |store: &Store| [first, second].map(|id| store.catalog().table_by_id(id).expect("a table").version);
    assert_eq!(versions(&store), [1, 1]);
    let sealed = segment(&store, &[1]).expect("a segment");
    change(&store, |t| t.publish(first, vec![sealed])).expect("publish");
    assert_eq!(versions(&store), [2, 1]);
    change(&store, |t| t.create_view("main", "v", "select 1", false)).expect("a view");
    assert_eq!(versions(&store), [2, 1]);
    change(&store, |t| t.rename_column(second, ColumnId(1), "text").and_then(|()| t.rename_table(second, "third")))
        .expect("two changes, one commit");
    assert_eq!(versions(&store), [2, 2]);
    drop(store);
    assert_eq!(versions(&open(&disk).expect("reopen")), [2, 2]);
}

#[test]
fn rows_and_numbers_of_sequences_leave_the_schema_as_it_is() {
    let disk = MemoryDisk::new();
    let store = open(&disk).expect("a database");
    let number = || store.catalog().schema_number();
    let id = change(&store, |t| t.create_table(table("t"))).expect("a table");
    let made = number();
    let sealed = segment(&store, &[1]).expect("a segment");
    change(&store, |t| t.publish(id, vec![sealed])).expect("publish");
    assert_eq!(number(), made);
    let range = SequenceRange { start: 1, increment: 1, least: 1, greatest: 9, cycles: false };
    change(&store, |t| t.create_sequence("main", "s", range)).expect("a sequence");
    let with_sequence = number();
    assert!(with_sequence > made);
    change(&store, |t| t.take_numbers("main", "s", 2)).expect("numbers");
    assert_eq!(number(), with_sequence);
    let mut last = with_sequence;
    let mut check = |what: &str| {
        assert!(number() > last, "{what}");
        last = number();
    };
    change(&store, |t| t.create_view("main", "v", "select 1", false)).expect("a view");
    check("a view");
    change(&store, |t| t.create_view("main", "v", "select 2", true)).expect("another one");
    check("a view in the place of one");
    change(&store, |t| t.set_nullable(id, ColumnId(1), false)).expect("NOT NULL");
    check("NOT NULL");
    change(&store, |t| t.set_default(id, ColumnId(0), Some("7".to_owned()))).expect("a default");
    check("a default");
    change(&store, |t| t.rename_table(id, "u")).expect("a name");
    check("a name");
    change(&store, |t| t.create_schema("more")).expect("a schema");
    check("a schema");
    change(&store, |t| t.drop_table(id)).expect("dropped");
    check("a dropped table");
}

#[test]
fn what_is_known_of_a_version_goes_on_to_one_with_more_segments() {
    let disk = MemoryDisk::new();
    let store = open(&disk).expect("a database");
    let id = change(&store, |t| t.create_table(table("t"))).expect("a table");
    let now = || Arc::clone(store.catalog().table_by_id(id).expect("the table"));
    assert_eq!((now().rows(), now().bounds(0)), (0, None));
    let publish = |values: &[i64]| {
        let sealed = segment(&store, values).expect("a segment");
        change(&store, |t| t.publish(id, vec![sealed])).expect("publish");
    };
    publish(&[1, 5]);
    let first = now();
    assert_eq!((first.rows(), first.integers(0)), (2, Some((1, 5))));
    publish(&[-3, 4]);
    // Asked of the one after it only.
    publish(&[9]);
    let last = now();
    assert_eq!((last.rows(), last.integers(0)), (5, Some((-3, 9))));
    assert_eq!((first.rows(), first.integers(0)), (2, Some((1, 5))));
    // In the place of others nothing goes on.
    let old = last.segments.versions();
    let sealed = segment(&store, &[2]).expect("a segment");
    change(&store, |t| t.replace(id, &old[..2], vec![sealed])).expect("replaced");
    assert_eq!((now().rows(), now().integers(0)), (2, Some((2, 9))));
    assert_eq!(now().bounds(0).map(|bounds| bounds.nulls), Some(0));
}
