//! Data directories: what is made, found again, moved, and refused; drives that are full.

mod model;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use forebay_base::{DirectoryId, Error, ErrorKind, Result};
use forebay_disk::{Disk, Faults, IoMode, LocalDisk, SimulatedDisk};
use forebay_store::{DatabaseId, LogLimits, OpenMode, Store};
use model::{Model, definition, observe, write_segment, write_striped};

/// Each segment has a file of its own at once.
const FILES_AT_ONCE: LogLimits = LogLimits { log_bytes: 16 << 20, small_bytes: 0, hot_bytes: 0, beside_others: false };

/// A folder with databases and drives.
struct Machine {
    folder: tempfile::TempDir,
}

impl Machine {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("a folder") }
    }

    fn at(&self, name: &str) -> PathBuf {
        // As the system calls it, for comparisons with messages.
        fs::canonicalize(self.folder.path()).expect("it is there").join(name)
    }

    fn text(&self, name: &str) -> String {
        self.at(name).display().to_string()
    }

    fn disk(&self, name: &str) -> Arc<dyn Disk> {
        let disk = LocalDisk::open(&self.at(name), IoMode::Pread).expect("a disk");
        disk.create_directory("").expect("made");
        Arc::new(disk)
    }

    fn create(&self, name: &str, id: u128, drives: &[&str]) -> Result<Store> {
        let drives: Vec<String> = drives.iter().map(|drive| self.text(drive)).collect();
        drop(Store::create(self.disk(name), DatabaseId(id), &drives, "test")?);
        self.open(name, OpenMode::ReadWrite)
    }

    fn open(&self, name: &str, mode: OpenMode) -> Result<Store> {
        Store::open_limited(self.disk(name), mode, "test", FILES_AT_ONCE)
    }

    fn refused(&self, name: &str) -> Error {
        let writing = self.open(name, OpenMode::ReadWrite).expect_err("refused for writing");
        let reading = self.open(name, OpenMode::ReadOnly).expect_err("refused for reading");
        assert_eq!(writing.to_string(), reading.to_string());
        writing
    }

    fn rename(&self, from: &str, to: &str) {
        fs::rename(self.at(from), self.at(to)).expect("renamed");
    }

    /// Names of segment files.
    fn segments(&self, name: &str) -> Vec<String> {
        let entries = fs::read_dir(self.at(name).join("segments")).expect("a folder of segments");
        let mut names: Vec<_> = entries.map(|entry| entry.expect("listed").file_name().into_string()).collect();
        names.sort();
        names.into_iter().map(|name| name.expect("ASCII")).collect()
    }
}

fn commit_rows(store: &Store, table: &str, rows: &[i64]) -> Result<()> {
    let sealed = write_striped(store, rows)?;
    let mut transaction = store.begin()?;
    let known = transaction.catalog().table("main", table).map(|table| table.id);
    let id = known.map_or_else(|| transaction.create_table(definition(table)), Ok)?;
    transaction.publish(id, sealed)?;
    transaction.commit()
}

/// A database with rows in all of three drives.
fn filled(machine: &Machine, name: &str, id: u128, drives: &[&str; 3]) -> Model {
    let store = machine.create(name, id, drives).expect("a database");
    commit_rows(&store, "t", &(0..100).collect::<Vec<_>>()).expect("rows");
    let seen = observe(&store).expect("everything reads back");
    assert_eq!(seen.clone().unordered().tables["t"], [(0..100).collect::<Vec<_>>()]);
    seen
}

const DRIVES: [&str; 3] = ["a", "b", "c"];

#[test]
fn rows_lie_evenly_and_are_there_again() {
    let machine = Machine::new();
    let seen = filled(&machine, "db", 7, &DRIVES);
    // Twelve row groups in turn.
    assert_eq!(seen.tables["t"].iter().map(Vec::len).collect::<Vec<_>>(), [36, 36, 28]);
    assert_eq!(seen.tables["t"][1][..10], [9, 10, 11, 12, 13, 14, 15, 16, 17, 36]);
    assert_eq!(DRIVES.map(|drive| machine.segments(drive).len()), [1, 1, 1]);
    assert_eq!(machine.segments("db"), [""; 0]);
    for mode in [OpenMode::ReadWrite, OpenMode::ReadOnly] {
        let store = machine.open("db", mode).expect("it opens");
        assert_eq!(observe(&store).expect("everything reads back"), seen);
        let report = store.check(&mut |_, _| Ok(())).expect("a check");
        assert!(report.error_count == 0 && report.orphans.is_empty(), "{report:?}");
        let used: Vec<_> = store.directories().into_iter().map(|used| (used.id.0, used.path, used.segments)).collect();
        let wanted = [(0, "db", 0), (1, "a", 1), (2, "b", 1), (3, "c", 1)];
        assert_eq!(used, wanted.map(|(id, path, segments)| (id, machine.text(path), segments)));
    }
}

/// Small loads go to the directory with the fewest bytes, and what is dropped gives its room back everywhere.
#[test]
fn the_emptiest_directory_comes_first_and_drops_empty_all() {
    let machine = Machine::new();
    let store = machine.create("db", 7, &DRIVES).expect("a database");
    let mut places = Vec::new();
    for number in 0..6 {
        commit_rows(&store, "t", &[number]).expect("a row");
        let catalog = store.catalog();
        let table = catalog.table("main", "t").expect("it was made");
        places.push(table.segments[number as usize].data_directory().0);
    }
    assert_eq!(places, [1, 2, 3, 1, 2, 3]);
    let id = store.catalog().table("main", "t").expect("it was made").id;
    let old = store.catalog().table("main", "t").expect("it").segments.versions();
    let whole = write_segment(&store, &[0, 1, 2, 3, 4, 5]).expect("one for all");
    let mut transaction = store.begin().expect("a transaction");
    transaction.replace(id, &old, vec![whole]).expect("replaced");
    transaction.commit().expect("committed");
    assert_eq!(DRIVES.map(|drive| machine.segments(drive).len()), [1, 0, 0]);
    let mut transaction = store.begin().expect("a transaction");
    transaction.drop_table(id).expect("dropped");
    transaction.commit().expect("committed");
    assert_eq!(DRIVES.map(|drive| machine.segments(drive).len()), [0, 0, 0]);
}

#[test]
fn what_a_crash_left_goes_from_all_directories() {
    let machine = Machine::new();
    let seen = filled(&machine, "db", 7, &DRIVES);
    for drive in ["db", "a", "b", "c"] {
        fs::write(machine.at(drive).join("segments/0000000999.seg"), "left over").expect("written");
    }
    fs::write(machine.at("b/DATA.tmp"), "left over").expect("written");
    let store = machine.open("db", OpenMode::ReadOnly).expect("it opens");
    let orphans: BTreeSet<_> = store.check(&mut |_, _| Ok(())).expect("a check").orphans.into_iter().collect();
    let wanted = ["a", "b", "c"].map(|drive| machine.text(&format!("{drive}/segments/0000000999.seg")));
    assert_eq!(orphans, wanted.into_iter().chain(["segments/0000000999.seg".into()]).collect());
    drop(store);
    let store = machine.open("db", OpenMode::ReadWrite).expect("it opens");
    assert_eq!(["db", "a", "b", "c"].map(|drive| machine.segments(drive).len()), [0, 1, 1, 1]);
    assert!(!machine.at("b/DATA.tmp").exists());
    assert_eq!(observe(&store).expect("everything reads back"), seen);
}

#[test]
fn a_missing_directory_is_named_and_can_be_moved() {
    let machine = Machine::new();
    let seen = filled(&machine, "db", 7, &DRIVES);
    machine.rename("b", "b2");
    for _ in 0..2 {
        let error = machine.refused("db");
        assert_eq!(error.kind(), ErrorKind::NotFound);
        let text = error.to_string();
        let parts = ["data directory 2 of database", "is missing", "Nothing was changed", "data-dirs move", "2=DIR"];
        assert!(parts.iter().all(|part| text.contains(part)) && text.contains(&machine.text("b")), "{text}");
        // A drive that is not mounted leaves an empty folder.
        fs::create_dir_all(machine.at("b")).expect("made");
    }
    assert_eq!(fs::read_dir(machine.at("b")).expect("listed").count(), 0, "nothing was written");
    let moved =
        |id: u32, name: &str| Store::open_moved(machine.disk("db"), &[(DirectoryId(id), machine.text(name))], "test");
    assert_eq!(moved(2, "a").expect_err("another one").kind(), ErrorKind::Input);
    assert_eq!(moved(2, "nowhere").expect_err("nothing there").kind(), ErrorKind::NotFound);
    for unknown in [0, 4] {
        let error = moved(unknown, "b2").expect_err("unknown");
        assert!(error.kind() == ErrorKind::Input && error.to_string().contains("1 to 3"), "{error}");
    }
    let store = moved(2, "b2").expect("found again");
    assert_eq!(observe(&store).expect("everything reads back"), seen);
    drop(store);
    let store = machine.open("db", OpenMode::ReadWrite).expect("it stays there");
    assert_eq!(observe(&store).expect("everything reads back"), seen);
}

#[test]
fn swapped_and_foreign_directories_are_refused() {
    let machine = Machine::new();
    let seen = filled(&machine, "db", 7, &DRIVES);
    filled(&machine, "other", 8, &["x", "y", "z"]);
    machine.rename("a", "tmp");
    machine.rename("b", "a");
    machine.rename("tmp", "b");
    let error = machine.refused("db");
    let found = format!("{} is data directory 2 of database {}", machine.text("a"), machine.text("db"));
    assert!(error.kind() == ErrorKind::Input && error.to_string().contains(&found), "{error}");
    let places = [(DirectoryId(1), machine.text("b")), (DirectoryId(2), machine.text("a"))];
    let store = Store::open_moved(machine.disk("db"), &places, "test").expect("both are told");
    assert_eq!(observe(&store).expect("everything reads back"), seen);
    drop(store);
    machine.rename("c", "tmp");
    machine.rename("z", "c");
    let error = machine.refused("db");
    let parts = [machine.text("c"), "another database".into(), machine.text("other")];
    assert!(error.kind() == ErrorKind::Input && parts.iter().all(|part| error.to_string().contains(part)), "{error}");
    machine.rename("c", "z");
    machine.rename("tmp", "c");
    assert_eq!(observe(&machine.open("db", OpenMode::ReadWrite).expect("all right again")).expect("read"), seen);
    let mut marker = fs::read(machine.at("c/DATA")).expect("a marker");
    marker[13] ^= 1;
    fs::write(machine.at("c/DATA"), marker).expect("written");
    let error = machine.refused("db");
    assert!(error.kind() == ErrorKind::Corrupt && error.to_string().contains(&machine.text("c")), "{error}");
    // A data directory is no database.
    assert!(machine.refused("a").to_string().contains("is a data directory of a database"));
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("made");
    for entry in fs::read_dir(from).expect("listed").map(|entry| entry.expect("an entry")) {
        let target = to.join(entry.file_name());
        match entry.file_type().expect("a type").is_dir() {
            true => copy_folder(&entry.path(), &target),
            false => drop(fs::copy(entry.path(), target).expect("copied")),
        }
    }
}

/// A copy would take the files that it does not know of for garbage.
#[test]
fn a_copied_database_is_refused_and_a_moved_one_is_not() {
    let machine = Machine::new();
    let seen = filled(&machine, "db", 7, &DRIVES);
    copy_folder(&machine.at("db"), &machine.at("copy"));
    let store = machine.open("db", OpenMode::ReadWrite).expect("the original");
    commit_rows(&store, "t", &[500]).expect("a row that the copy does not know of");
    drop(store);
    let error = machine.refused("copy");
    let parts = [machine.text("db"), machine.text("copy"), "is a copy".into()];
    assert!(error.kind() == ErrorKind::Input && parts.iter().all(|part| error.to_string().contains(part)), "{error}");
    // Not even a hint is left in the markers.
    let store = machine.open("db", OpenMode::ReadWrite).expect("the original");
    let rows = observe(&store).expect("everything reads back").tables["t"].concat().len();
    assert_eq!(rows, seen.tables["t"].concat().len() + 1);
    drop(store);
    fs::remove_dir_all(machine.at("copy")).expect("removed");
    let marker = || fs::read(machine.at("a/DATA")).expect("a marker");
    let before = marker();
    machine.rename("db", "moved");
    drop(machine.open("moved", OpenMode::ReadOnly).expect("a moved one is read"));
    assert_eq!(marker(), before, "reading writes nothing");
    drop(machine.open("moved", OpenMode::ReadWrite).expect("a moved one is written"));
    assert_ne!(marker(), before, "the markers tell of the new place");
    // Another database at the old place is another database.
    filled(&machine, "db", 9, &["x", "y", "z"]);
    drop(machine.open("moved", OpenMode::ReadWrite).expect("it is where it is"));
}

#[test]
fn directories_that_cannot_be_had_are_refused_before_anything_is_written() {
    let machine = Machine::new();
    filled(&machine, "other", 8, &["x", "y", "z"]);
    fs::create_dir_all(machine.at("full")).expect("made");
    fs::write(machine.at("full/letter.txt"), "dear").expect("written");
    for (drives, wanted) in [
        (&["a", "full"][..], "letter.txt"),
        (&["a", "y"], "is data directory 2 of database"),
        (&["a", "a"], "named twice"),
        (&["a", "a/b"], "lies in the other"),
        (&["a", "db/data"], "lies in the other"),
        (&["a", "db"], "named twice"),
    ] {
        let error = machine.create("db", 7, drives).expect_err("refused");
        assert!(error.kind() == ErrorKind::Input && error.to_string().contains(wanted), "{drives:?}: {error}");
        let names = |name: &str| fs::read_dir(machine.at(name)).map_or(0, |entries| entries.count());
        assert_eq!(["a", "a/b", "db/data"].map(names), [0; 3], "{drives:?}");
        assert!(!machine.at("db/HEAD").exists());
    }
    let many: Vec<String> = (0..65).map(|number| format!("m{number}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert!(machine.create("db", 7, &many).expect_err("too many").to_string().contains("at most 64"));
    // The root of a fresh file system.
    fs::create_dir_all(machine.at("a/lost+found")).expect("made");
    drop(machine.create("db", 7, &["a", "b"]).expect("all free"));
    let error = machine.create("db", 9, &["c"]).expect_err("a database");
    assert_eq!(error.kind(), ErrorKind::AlreadyExists);
    assert_eq!(machine.create("other", 9, &[]).expect_err("a database").kind(), ErrorKind::AlreadyExists);
    drop(machine.create("plain", 10, &[]).expect("without data directories"));
    drop(machine.open("plain", OpenMode::ReadWrite).expect("a database like any other"));
}

/// By links, two names may be one directory.
#[test]
fn links_do_not_hide_that_directories_are_the_same() {
    let machine = Machine::new();
    fs::create_dir_all(machine.at("a")).expect("made");
    std::os::unix::fs::symlink(machine.at("a"), machine.at("link")).expect("linked");
    let error = machine.create("db", 7, &["a", "link"]).expect_err("the same");
    assert!(error.to_string().contains("named twice"), "{error}");
    // The path of a link is kept: where it leads may change.
    drop(machine.create("db", 7, &["link"]).expect("a database"));
    machine.rename("a", "a2");
    fs::remove_file(machine.at("link")).expect("removed");
    std::os::unix::fs::symlink(machine.at("a2"), machine.at("link")).expect("linked");
    drop(machine.open("db", OpenMode::ReadWrite).expect("it is there"));
}

#[test]
fn directories_are_added() {
    let machine = Machine::new();
    let add = |id: u128, names: &[&str]| {
        let store = machine.open("db", OpenMode::ReadWrite)?;
        let paths: Vec<String> = names.iter().map(|name| machine.text(name)).collect();
        store.add_data_directories(DatabaseId(id), &paths, "test")
    };
    let store = machine.open("db", OpenMode::ReadWrite).expect("a database without");
    commit_rows(&store, "t", &(0..20).collect::<Vec<_>>()).expect("rows");
    drop(store);
    add(7, &["a"]).expect("added");
    assert!(add(8, &["a"]).expect_err("its own").to_string().contains("named twice"));
    add(8, &["b", "c"]).expect("added, and the id stays");
    let store = machine.open("db", OpenMode::ReadWrite).expect("it opens");
    commit_rows(&store, "t", &(20..100).collect::<Vec<_>>()).expect("rows");
    let seen = observe(&store).expect("everything reads back").unordered();
    assert_eq!(seen.tables["t"], [(0..100).collect::<Vec<_>>()]);
    assert_eq!(store.directories().iter().map(|used| used.segments).collect::<Vec<_>>(), [1; 4]);
}

#[test]
fn directories_are_locked_with_the_database() {
    let machine = Machine::new();
    let first = machine.create("db", 7, &DRIVES).expect("a database");
    assert_eq!(machine.open("db", OpenMode::ReadOnly).expect_err("held").kind(), ErrorKind::Locked);
    drop(first);
    let readers = [0, 1].map(|_| machine.open("db", OpenMode::ReadOnly).expect("beside each other"));
    assert_eq!(machine.open("db", OpenMode::ReadWrite).expect_err("held").kind(), ErrorKind::Locked);
    drop(readers);
    assert!(machine.open("db", OpenMode::ReadWrite).is_ok());
}

/// A database over three simulated drives.
fn simulated() -> (SimulatedDisk, Store) {
    simulated_with(FILES_AT_ONCE)
}

fn simulated_with(limits: LogLimits) -> (SimulatedDisk, Store) {
    let disk = SimulatedDisk::new(1, Faults::default());
    let home = disk.elsewhere("/db").expect("a path");
    home.create_directory("").expect("made");
    let drives = DRIVES.map(|drive| format!("/{drive}"));
    drop(Store::create(Arc::clone(&home), DatabaseId(7), &drives, "test").expect("a database"));
    let store = Store::open_limited(home, OpenMode::ReadWrite, "test", limits).expect("it opens");
    (disk, store)
}

fn rows_of(store: &Store) -> Vec<Vec<i64>> {
    observe(store).expect("everything reads back").unordered().tables.remove("t").unwrap_or_default()
}

#[test]
fn a_full_drive_is_passed_over() {
    for full in [&["/a"][..], &["/b"], &["/b", "/c"]] {
        let (disk, store) = simulated();
        full.iter().for_each(|path| disk.set_full(path, true).expect("absolute"));
        commit_rows(&store, "t", &(0..100).collect::<Vec<_>>()).expect("the others have room");
        assert_eq!(rows_of(&store), [(0..100).collect::<Vec<_>>()]);
        for (number, drive) in (1..).zip(["/a", "/b", "/c"]) {
            let segments = store.directories()[number].segments;
            assert_eq!(segments, u64::from(!full.contains(&drive)), "{drive} of {full:?}");
        }
        let report = store.check(&mut |_, _| Ok(())).expect("a check");
        assert!(report.error_count == 0 && report.orphans.is_empty(), "{report:?}");
    }
}

/// A small segment is in the redo log until the drive that it goes to has room.
#[test]
fn small_segments_wait_for_room_in_the_log() {
    let (disk, store) = simulated_with(LogLimits::default());
    DRIVES.iter().for_each(|drive| disk.set_full(&format!("/{drive}"), true).expect("absolute"));
    commit_rows(&store, "t", &(0..20).collect::<Vec<_>>()).expect("the log has room");
    assert_eq!(store.checkpoint().expect_err("the drives have none").kind(), ErrorKind::OutOfSpace);
    assert_eq!(rows_of(&store), [(0..20).collect::<Vec<_>>()]);
    drop(store);
    let machine = disk.crash();
    let open = |mode| Store::open(machine.elsewhere("/db").expect("a path"), mode, "test").expect("it opens");
    for mode in [OpenMode::ReadOnly, OpenMode::ReadWrite] {
        assert_eq!(rows_of(&open(mode)), [(0..20).collect::<Vec<_>>()]);
    }
    let store = open(OpenMode::ReadWrite);
    commit_rows(&store, "t", &(20..40).collect::<Vec<_>>()).expect("the log has room");
    DRIVES.iter().for_each(|drive| machine.set_full(&format!("/{drive}"), false).expect("absolute"));
    store.checkpoint().expect("room again");
    let is_log = |name: &String| name.starts_with("redo-");
    let home = machine.elsewhere("/db").expect("a path");
    assert!(!home.list("").expect("listed").iter().any(is_log), "all is in files");
    assert_eq!(rows_of(&store), [(0..40).collect::<Vec<_>>()]);
    let report = store.check(&mut |_, _| Ok(())).expect("a check");
    assert!(report.error_count == 0 && report.orphans.is_empty(), "{report:?}");
    drop(store);
    assert_eq!(rows_of(&open(OpenMode::ReadOnly)), [(0..40).collect::<Vec<_>>()]);
}

#[test]
fn an_error_names_the_drives_when_all_are_full() {
    let (disk, store) = simulated();
    commit_rows(&store, "t", &(0..50).collect::<Vec<_>>()).expect("rows");
    DRIVES.iter().for_each(|drive| disk.set_full(&format!("/{drive}"), true).expect("absolute"));
    let error = commit_rows(&store, "t", &(50..100).collect::<Vec<_>>()).expect_err("no room");
    assert_eq!(error.kind(), ErrorKind::OutOfSpace);
    assert!(error.to_string().contains("no space left in any data directory: /a, /b, /c"), "{error}");
    assert_eq!(rows_of(&store), [(0..50).collect::<Vec<_>>()]);
    assert!(store.check(&mut |_, _| Ok(())).expect("a check").orphans.is_empty());
    DRIVES.iter().for_each(|drive| disk.set_full(&format!("/{drive}"), false).expect("absolute"));
    commit_rows(&store, "t", &(50..100).collect::<Vec<_>>()).expect("room again");
    assert_eq!(rows_of(&store), [(0..100).collect::<Vec<_>>()]);
}

/// Where a drive has taken row groups and then has no room for the footer, another one takes them all.
#[test]
fn a_segment_that_cannot_be_finished_is_moved() {
    for full in [&["/a"][..], &["/a", "/b"]] {
        let (disk, store) = simulated();
        let sealed = model::write_striped_with(&store, &(0..100).collect::<Vec<_>>(), || {
            full.iter().for_each(|path| disk.set_full(path, true).expect("absolute"));
        });
        let mut transaction = store.begin().expect("a transaction");
        let id = transaction.create_table(definition("t")).expect("a table");
        transaction.publish(id, sealed.expect("moved")).expect("published");
        transaction.commit().expect("committed");
        assert_eq!(rows_of(&store), [(0..100).collect::<Vec<_>>()]);
        let counts: Vec<u64> = store.directories().iter().map(|used| used.segments).collect();
        assert_eq!(counts, if full.len() == 1 { [0, 0, 2, 1] } else { [0, 0, 0, 3] });
        let report = store.check(&mut |_, _| Ok(())).expect("a check");
        assert!(report.error_count == 0 && report.orphans.is_empty(), "{report:?}");
        drop(store);
        let home = disk.crash().elsewhere("/db").expect("a path");
        let store = Store::open(home, OpenMode::ReadWrite, "test").expect("it was durable");
        assert_eq!(rows_of(&store), [(0..100).collect::<Vec<_>>()]);
    }
    let (disk, store) = simulated();
    let failed = model::write_striped_with(&store, &(0..100).collect::<Vec<_>>(), || {
        DRIVES.iter().for_each(|drive| disk.set_full(&format!("/{drive}"), true).expect("absolute"));
    });
    assert_eq!(failed.expect_err("no room anywhere").kind(), ErrorKind::OutOfSpace);
    assert!(store.check(&mut |_, _| Ok(())).expect("a check").orphans.is_empty(), "nothing is left over");
}
