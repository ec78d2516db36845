//! The bytes of the manifest: constants of the format, rows of tables with what older programs wrote, options.

use super::*;

#[test]
fn the_format_document_has_these_constants() {
    let text = include_str!("../../../../docs/format.md");
    let constants = [
        ("FORMAT_VERSION", u64::from(FORMAT_VERSION)),
        ("FORMAT_VERSION_OLDEST", u64::from(FORMAT_VERSION_OLDEST)),
        ("HEAD_RECORD_BYTES", head::HEAD_RECORD_BYTES as u64),
        ("HEAD_RECORD_STRIDE", head::HEAD_RECORD_STRIDE),
        ("HEAD_BYTES", head::HEAD_BYTES),
        ("SEGMENT_VERSION", u64::from(footer::SEGMENT_VERSION)),
        ("SKETCH_REGISTERS", forebay_base::limits::SKETCH_REGISTERS as u64),
        ("SPARSE_REGISTERS", footer::sections::SPARSE_REGISTERS as u64),
        ("REGISTER_LIMIT", u64::from(forebay_block::statistics::REGISTER_LIMIT)),
        ("SAMPLE_VALUES", forebay_base::limits::SAMPLE_VALUES as u64),
        ("HEADER_BYTES", footer::HEADER_BYTES),
        ("GROUP_BLOCKS_MAX", forebay_base::limits::GROUP_BLOCKS_MAX as u64),
        ("SEGMENT_VERSION_OLDEST", u64::from(footer::SEGMENT_VERSION_OLDEST)),
        ("SECTION_ENTRY_BYTES", directory::SECTION_ENTRY_BYTES as u64),
        ("SECTION_VERSION", u64::from(directory::SECTION_VERSION)),
        ("SECTION_OPTIONAL", u64::from(directory::SECTION_OPTIONAL)),
        ("SECTION_NO_COLUMN", u64::from(directory::SECTION_NO_COLUMN)),
        ("KEY_BYTES", rows::KEY_BYTES as u64),
        ("ROW_ROOT", u64::from(rows::ROW_ROOT)),
        ("ROW_SCHEMA", u64::from(rows::ROW_SCHEMA)),
        ("ROW_TABLE", u64::from(rows::ROW_TABLE)),
        ("ROW_VIEW", u64::from(rows::ROW_VIEW)),
        ("ROW_SEGMENT", u64::from(rows::ROW_SEGMENT)),
        ("DATABASE_DIRECTORY", u64::from(volume::DATABASE_DIRECTORY.0)),
        ("ROW_DATA_DIRECTORIES", u64::from(rows::ROW_DATA_DIRECTORIES)),
        ("ROW_FACT", u64::from(rows::ROW_FACT)),
        ("ROW_MACRO", u64::from(rows::ROW_MACRO)),
        ("ROW_SEQUENCE", u64::from(rows::ROW_SEQUENCE)),
        ("ROW_TYPE", u64::from(rows::ROW_TYPE)),
        ("ROW_PROJECTIONS", u64::from(rows::ROW_PROJECTIONS)),
        ("ROW_DELETED", u64::from(rows::ROW_DELETED)),
        ("ROW_HOT", u64::from(rows::ROW_HOT)),
        ("HOT_KEY_BYTES", manifest::HOT_KEY_BYTES as u64),
        ("ROW_HOT_FILES", u64::from(rows::ROW_HOT_FILES)),
        ("HOT_FILE_VERSION", u64::from(hot_files::HOT_FILE_VERSION)),
        ("HOT_FILE_HEADER_BYTES", hot_files::HOT_FILE_HEADER_BYTES as u64),
        ("HOT_BATCH_BYTES", hot_files::HOT_BATCH_BYTES as u64),
        ("HOT_ROW_GONE", u64::from(hot_files::HOT_ROW_GONE)),
        ("HOT_NULL", u64::from(crate::hot::HOT_NULL)),
        ("HOT_FIXED", u64::from(crate::hot::HOT_FIXED)),
        ("HOT_BYTES", u64::from(crate::hot::HOT_BYTES)),
        ("HOT_GONE", u64::from(crate::hot::HOT_GONE)),
        ("HOT_WHOLE", u64::from(crate::hot::HOT_WHOLE)),
        ("HOT_COLUMNS", u64::from(crate::hot::HOT_COLUMNS)),
        ("FIRST_DELETION", crate::hot::first_deletion().0),
        ("ALL_COLUMNS", u64::from(projection::ALL_COLUMNS)),
        ("SOME_COLUMNS", u64::from(projection::SOME_COLUMNS)),
        ("FACT_VERSION", u64::from(fact::FACT_VERSION)),
        ("FACT_HEADER_BYTES", fact::FACT_HEADER_BYTES),
        ("FACT_OPTIONAL", u64::from(fact::FACT_OPTIONAL)),
        ("BIN_SETS_KIND", u64::from(fact::BIN_SETS.0)),
        ("BIN_SETS_VERSION", u64::from(fact::BIN_SETS.1)),
        ("BLOOM_FILTERS_KIND", u64::from(fact::BLOOM_FILTERS.0)),
        ("BLOOM_FILTERS_VERSION", u64::from(fact::BLOOM_FILTERS.1)),
        ("REDO_VERSION", u64::from(redo_log::REDO_VERSION)),
        ("REDO_VERSION_OLDEST", u64::from(redo_log::REDO_VERSION_OLDEST)),
        ("REDO_HEADER_BYTES", redo_log::REDO_HEADER_BYTES),
        ("REDO_FRAME_BYTES", redo_log::REDO_FRAME_BYTES as u64),
        ("REDO_FRAME_ALIGN", redo_log::REDO_FRAME_ALIGN as u64),
        ("LOG_VERSION", u64::from(record_log::LOG_VERSION)),
        ("LOG_HEADER_BYTES", record_log::LOG_HEADER_BYTES as u64),
        ("RECORD_HEADER_BYTES", record_log::RECORD_HEADER_BYTES as u64),
        ("LOG_FILE_BYTES", forebay_base::limits::LOG_FILE_BYTES as u64),
        ("LOG_RECORD_BYTES", forebay_base::limits::LOG_RECORD_BYTES as u64),
        ("PLAN_VERSION", u64::from(side_file::PLAN_VERSION)),
        ("PLAN_HEADER_BYTES", side_file::PLAN_HEADER_BYTES as u64),
        ("PLAN_BYTES", side_file::PLAN_BYTES as u64),
        ("MARKER_VERSION", u64::from(data_directories::MARKER_VERSION)),
        ("NO_PROJECTION", u64::from(forebay_base::ProjectionId::TABLE.0)),
        ("OPTION_NO_COLUMN", u64::from(options::OPTION_NO_COLUMN)),
        ("CONSTRAINT_PRIMARY_KEY", u64::from(rows::CONSTRAINT_PRIMARY_KEY)),
        ("CONSTRAINT_UNIQUE", u64::from(rows::CONSTRAINT_UNIQUE)),
        ("CONSTRAINT_FOREIGN_KEY", u64::from(rows::CONSTRAINT_FOREIGN_KEY)),
        ("CONSTRAINT_CHECK", u64::from(rows::CONSTRAINT_CHECK)),
        ("MACRO_OF_VALUES", u64::from(rows::MACRO_OF_VALUES)),
        ("MACRO_OF_TABLES", u64::from(rows::MACRO_OF_TABLES)),
    ];
    for (name, value) in constants {
        let row = format!("\n| {name} | {value} |\n");
        assert_eq!(text.matches(&row).count(), 1, "docs/format.md lacks {}", row.trim());
    }
    let kinds = [
        ("SECTION_GROUPS", directory::SECTION_GROUPS),
        ("SECTION_CHUNKS", directory::SECTION_CHUNKS),
        ("SECTION_ZONES", directory::SECTION_ZONES),
        ("SECTION_STATISTICS", directory::SECTION_STATISTICS),
        ("SECTION_FRAMES", directory::SECTION_FRAMES),
    ];
    for (name, code) in kinds {
        let row = format!("\n| {name} | {code} |");
        assert_eq!(text.matches(&row).count(), 1, "docs/format.md lacks {}", row.trim());
    }
    let magics = [&head::HEAD_MAGIC, &footer::FOOTER_MAGIC, &footer::HEADER_MAGIC, &data_directories::MARKER_MAGIC];
    for magic in magics.into_iter().chain([
        &fact::FACT_MAGIC,
        &record_log::LOG_MAGIC,
        &side_file::PLAN_MAGIC,
        &redo_log::REDO_MAGIC,
        &hot_files::HOT_FILE_MAGIC,
    ]) {
        let magic = format!("the characters `{}`", std::str::from_utf8(magic).expect("letters"));
        assert!(text.contains(&magic), "docs/format.md lacks {magic}");
    }
    let magic = format!("the characters `{}`", std::str::from_utf8(&redo_log::REDO_FRAME_MAGIC).expect("letters"));
    assert!(text.contains(&magic), "docs/format.md lacks {magic}");
    let logs = [record_log::LOG_PATH, record_log::LOG_OLD_PATH, side_file::PLAN_PATH, side_file::PLAN_DRAFT_PATH];
    let markers = [data_directories::MARKER_PATH, data_directories::MARKER_DRAFT_PATH];
    let paths = [head::HEAD_PATH, head::HEAD_DRAFT_PATH, manifest::MANIFEST_PATH, store::LOCK_PATH];
    for path in paths.into_iter().chain(markers).chain(logs) {
        assert!(text.contains(&format!("`{path}`")), "docs/format.md lacks {path}");
    }
}

/// Rows of the manifest with one payload changed by `edit` and all checksums right.
fn edited(store: &Store, kind: u8, edit: impl Fn(&mut Vec<u8>)) -> rows::Rows {
    let mut all = rows::encode(&store.catalog(), 100);
    let key = *all.keys().find(|key| key[0] == kind).expect("a row of this kind");
    let mut payload = all[&key].clone();
    payload.truncate(payload.len() - 4);
    edit(&mut payload);
    rows::seal_again(&mut all, key, payload);
    all
}

#[test]
fn where_segments_lie_and_how_they_are_sorted() {
    let store = open(&MemoryDisk::new()).expect("a database");
    let id = change(&store, |t| t.create_table(table("t"))).expect("a table");
    let sealed = segment(&store, &[5, 6]).expect("a segment");
    change(&store, |t| t.publish(id, vec![sealed])).expect("publish");
    let load = |edit: &dyn Fn(&mut Vec<u8>)| {
        store::load_catalog(&edited(&store, rows::ROW_SEGMENT, edit), store.volume()).map(|(_, catalog)| catalog)
    };
    // The row ends in data directory, projection, and a sort order without columns.
    let at = |row: &Vec<u8>, from_end: usize| row.len() - from_end;
    let segment_of = |catalog: Catalog| Arc::clone(&catalog.tables().next().expect("a table").segments[0]);
    let sound = segment_of(load(&|_| {}).expect("as it was"));
    assert!(sound.sort_order().is_empty());
    assert_eq!(sound.version().expect("a footer"), footer::SEGMENT_VERSION);
    for (from_end, what) in [(12, "data directory 3"), (8, "projection 3")] {
        let error = load(&|row| {
            let place = at(row, from_end);
            row[place] = 3;
        });
        let error = error.expect_err("unknown");
        assert!(error.kind() == ErrorKind::Corrupt && error.to_string().contains(what), "{error}");
    }
    let sorted_by = |columns: &[(u32, u8)]| {
        load(&|row| {
            let count = at(row, 4);
            row[count] = columns.len() as u8;
            for (column, descending) in columns {
                row.extend_from_slice(&column.to_le_bytes());
                row.push(*descending);
            }
        })
    };
    let sorted = segment_of(sorted_by(&[(0, 1)]).expect("a sort order"));
    assert_eq!(sorted.sort_order(), [SortColumn { column: ColumnId(0), descending: true }]);
    for wrong in [&[(0, 2)][..], &[(1, 0)], &[(0, 0), (0, 1)]] {
        assert_eq!(kind(sorted_by(wrong)), ErrorKind::Corrupt, "{wrong:?}");
    }
    let outside = load(&|row| {
        let place = at(row, 20);
        row[place..place + 8].copy_from_slice(&(sound.footer().offset + 1).to_le_bytes());
    });
    assert_eq!(kind(outside), ErrorKind::Corrupt, "sections behind the footer");
}

/// Options follow their table and columns through every change, and the database through reopening.
#[test]
fn options_are_kept_with_their_table() {
    let disk = MemoryDisk::new();
    let store = open(&disk).expect("a database");
    let id = change(&store, |t| t.create_table(table("t"))).expect("a table");
    let (a, b) =
        (ColumnId(0), change(&store, |t| t.add_column(id, column("b", LogicalType::Int64))).expect("a column"));
    let of = |store: &Store| store.catalog().table_by_id(id).expect("the table").options.clone();
    assert_eq!(of(&store), TableOptions::default());
    let version = |store: &Store| store.catalog().table_by_id(id).expect("the table").version;
    let before = version(&store);
    change(&store, |t| {
        t.set_option(id, Some(b), "compression", Some("zstd"))?;
        t.set_option(id, None, "compression", Some("best_ratio"))
    })
    .expect("options");
    assert_eq!(version(&store), before + 1);
    change(&store, |t| t.rename_column(id, b, "c")).expect("renamed");
    change(&store, |t| t.rename_table(id, "u")).expect("renamed");
    drop(store);

    let store = open(&disk).expect("it opens again");
    let options = of(&store);
    assert_eq!([a, b].map(|id| options.of_column(id, "compression")), [Some("best_ratio"), Some("zstd")]);
    assert_eq!([None, Some(a)].map(|of| options.get(of, "compression")), [Some("best_ratio"), None]);
    assert_eq!(options.of_column(b, "other"), None);
    change(&store, |t| t.drop_column(id, b)).expect("dropped");
    assert_eq!(of(&store).iter().collect::<Vec<_>>(), [(None, "compression", "best_ratio")]);
    change(&store, |t| t.set_option(id, None, "compression", None)).expect("taken back");
    drop(store);
    assert_eq!(of(&open(&disk).expect("it opens again")), TableOptions::default());
}

#[test]
fn options_of_what_is_not_there_are_refused() {
    let store = open(&MemoryDisk::new()).expect("a database");
    let id = change(&store, |t| t.create_table(table("t"))).expect("a table");
    let set = |id, column, name: &str, value| kind(change(&store, |t| t.set_option(id, column, name, Some(value))));
    assert_eq!(set(id, Some(ColumnId(7)), "compression", "zstd"), ErrorKind::NotFound);
    assert_eq!(set(TableId(77), None, "compression", "zstd"), ErrorKind::NotFound);
    assert_eq!(set(id, None, "", "zstd"), ErrorKind::Input);
    assert_eq!(set(id, None, "compression", &"x".repeat(forebay_base::limits::OPTION_BYTES + 1)), ErrorKind::Input);
}

/// An option may say nothing, as an empty comment does.
#[test]
fn empty_options_are_read_again() {
    let disk = MemoryDisk::new();
    let store = open(&disk).expect("a database");
    let id = change(&store, |t| t.create_table(table("t"))).expect("a table");
    change(&store, |t| t.set_option(id, None, "c", Some(""))).expect("set");
    drop(store);
    let store = open(&disk).expect("what was written");
    assert_eq!(store.catalog().table_by_id(id).expect("the table").options.get(None, "c"), Some(""));
}

/// The bytes of options (docs/format.md, "Manifest"); without any, a row ends as before there were options.
#[test]
fn options_end_the_row_of_a_table() {
    let store = open(&MemoryDisk::new()).expect("a database");
    let id = change(&store, |t| t.create_table(table("t"))).expect("a table");
    let plain = edited(&store, rows::ROW_TABLE, |row| assert!(row.ends_with(&1_u64.to_le_bytes()), "the version"));
    let options: [&[u8]; 8] = [
        &2_u32.to_le_bytes(),
        &[0xff; 4],
        &[1, 0, 0, 0, b'n'],
        &[2, 0, 0, 0, b'v', b'w'],
        &[0; 4],
        &[1, 0, 0, 0, b'm'],
        &[1, 0, 0, 0, b'x'],
        &[],
    ];
    let with = |bytes: &[u8]| edited(&store, rows::ROW_TABLE, |row| row.extend_from_slice(bytes));
    let load = |all: &rows::Rows| store::load_catalog(all, store.volume());
    let (root, catalog) = load(&with(&options.concat())).expect("sound rows");
    let read = &catalog.table_by_id(id).expect("the table").options;
    assert_eq!(read.iter().collect::<Vec<_>>(), [(None, "n", "vw"), (Some(ColumnId(0)), "m", "x")]);
    assert_eq!(rows::encode(&catalog, root.next_file), with(&options.concat()));
    assert_eq!(rows::encode(&load(&plain).expect("sound rows").1, 100), plain);

    let one = [&1_u32.to_le_bytes(), options[4], options[5], options[6]].concat();
    assert!(load(&with(&one)).is_ok());
    let twice = [&2_u32.to_le_bytes(), &one[4..], &one[4..]].concat();
    let backwards = [options[0], &one[4..], options[1], options[2], options[3]].concat();
    let mut of_no_column = one.clone();
    of_no_column[4] = 9;
    let left_over = [one.as_slice(), &[0]].concat();
    for wrong in [&[0; 4][..], &one[..one.len() - 1], &twice, &backwards, &of_no_column, &left_over, &[5]] {
        assert_eq!(kind(load(&with(wrong))), ErrorKind::Corrupt, "{wrong:?}");
    }
}

/// A sort order that was read is written again, byte for byte.
#[test]
fn rows_are_written_as_they_were_read() {
    let store = open(&MemoryDisk::new()).expect("a database");
    let id = change(&store, |t| t.create_table(table("t"))).expect("a table");
    let sealed = segment(&store, &[5, 6]).expect("a segment");
    change(&store, |t| t.publish(id, vec![sealed])).expect("publish");
    let edited = edited(&store, rows::ROW_SEGMENT, |row| {
        let count = row.len() - 4;
        row[count] = 1;
        row.extend_from_slice(&[0, 0, 0, 0, 1]);
    });
    let (root, catalog) = store::load_catalog(&edited, store.volume()).expect("sound rows");
    assert_eq!(rows::encode(&catalog, root.next_file), edited);
}
