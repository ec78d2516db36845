//! Data directories: databases whose tables lie on several drives, from making them to telling where drives are now.
//!
//! Must not know: what is in the directories.

use std::io::Read;
use std::path::{Component, Path};
use std::sync::Arc;

use forebay_base::{DirectoryId, Error, ErrorKind, Result};
use forebay_disk::{Disk, IoMode, LocalDisk};
use forebay_store::{DatabaseId, OpenMode, Store};

/// A directory of a database, and what it holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataDirectory {
    /// Its number; 0 is the database's own directory.
    pub number: u32,
    /// Its path.
    pub path: String,
    /// Files of tables.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Makes an empty database at `path`, whose tables lie in these data directories, or in its own one where there are none.
///
/// # Errors
/// Where there is a database already, or a directory is not empty. Nothing is written to any of them then.
pub fn create(path: &Path, directories: &[impl AsRef<Path>]) -> Result<()> {
    check_directory(path)?;
    let paths = absolute_all(directories)?;
    let disk = LocalDisk::open(path, IoMode::Auto)?;
    disk.create_directory("")?;
    Store::create(Arc::new(disk), random_id()?, &paths, &holder()).map(drop)
}

/// Makes more data directories for the database at `path`; they take their part of what is loaded from now on.
///
/// # Errors
/// Where a directory is not empty, or the database is open elsewhere.
pub fn add(path: &Path, directories: &[impl AsRef<Path>]) -> Result<()> {
    let store = Store::open(existing(path)?, OpenMode::ReadWrite, &holder())?;
    store.add_data_directories(random_id()?, &absolute_all(directories)?, &holder())
}

/// Tells the database at `path` where some of its data directories are now, by their numbers; their files are there already.
///
/// # Errors
/// Where a directory is not the one of that number, or the database is open elsewhere. All stays as it was then.
pub fn move_to(path: &Path, moved: &[(u32, impl AsRef<Path>)]) -> Result<()> {
    let place = |(number, to): &(u32, _)| Ok((DirectoryId(*number), absolute(AsRef::<Path>::as_ref(to))?));
    let moved = moved.iter().map(place).collect::<Result<Vec<_>>>()?;
    Store::open_moved(existing(path)?, &moved, &holder()).map(drop)
}

/// The directories of the database at `path`, its own first.
pub fn list(path: &Path) -> Result<Vec<DataDirectory>> {
    let store = Store::open(existing(path)?, OpenMode::ReadOnly, &holder())?;
    let told = |found: forebay_store::DataDirectory| DataDirectory {
        number: found.id.0,
        path: found.path,
        files: found.segments,
        bytes: found.file_bytes,
    };
    Ok(store.directories().into_iter().map(told).collect())
}

/// Refuses a file where a database is to be.
pub(crate) fn check_directory(path: &Path) -> Result<()> {
    if path.exists() && !path.is_dir() {
        return Err(Error::input(format!("{} is a file, and a database is a directory", path.display()))
            .hint(format!("To query a file: forebay -c \"SELECT * FROM '{}'\"", path.display())));
    }
    Ok(())
}

/// The disk of a database that is there: opening it must not make it.
fn existing(path: &Path) -> Result<Arc<dyn Disk>> {
    check_directory(path)?;
    let disk = LocalDisk::open(path, IoMode::Auto)?;
    if !path.exists() || !Store::is_at(&disk)? {
        let message = format!("there is no database at {}", path.display());
        return Err(Error::new(ErrorKind::NotFound, message).hint("forebay init makes one"));
    }
    Ok(Arc::new(disk))
}

fn absolute_all(directories: &[impl AsRef<Path>]) -> Result<Vec<String>> {
    directories.iter().map(|directory| absolute(directory.as_ref())).collect()
}

/// The absolute path of a directory, in the user's words: links may lead elsewhere one day. Where it goes up, which depends
/// on links, the directory is made and asked.
fn absolute(path: &Path) -> Result<String> {
    if path.as_os_str().is_empty() {
        return Err(Error::input("a data directory without a name").hint("Name directories as in DIR1,DIR2"));
    }
    let failed = |error: std::io::Error| Error::io(format_args!("find {}", path.display()), &error);
    let full = std::path::absolute(path).map_err(failed)?;
    if full.exists() && !full.is_dir() {
        return Err(Error::input(format!("{} is a file, and a data directory is needed", path.display())));
    }
    if full.components().any(|part| part == Component::ParentDir) {
        let disk = LocalDisk::open(&full, IoMode::Auto)?;
        disk.create_directory("")?;
        return disk.canonical_path();
    }
    let text = full.to_str().map(|text| text.trim_end_matches('/').to_owned());
    text.ok_or_else(|| Error::unsupported(format!("the path {} is not UTF-8", full.display())))
}

fn holder() -> String {
    format!("process {}", std::process::id())
}

/// A number that no other database has.
fn random_id() -> Result<DatabaseId> {
    let mut bytes = [0; size_of::<u128>()];
    let source = "/dev/urandom";
    let read = std::fs::File::open(source).and_then(|mut file| file.read_exact(&mut bytes));
    read.map_err(|error| Error::io(format_args!("read {source}"), &error))?;
    Ok(DatabaseId(u128::from_le_bytes(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_absolute_and_no_files() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        let text = |path: &Path| path.to_str().expect("UTF-8").to_owned();
        assert_eq!(absolute(&at("a/")).expect("absolute"), text(&at("a")));
        assert!(!at("a").exists(), "it is only named");
        std::fs::create_dir_all(at("x")).expect("made");
        let up = absolute(&at("x/../b")).expect("it is made and asked");
        assert_eq!(up, text(&at("b").canonicalize().expect("it was made")));
        std::fs::write(at("file"), "").expect("written");
        for wrong in [at("file"), "".into()] {
            assert_eq!(absolute(&wrong).expect_err("no directory").kind(), ErrorKind::Input);
        }
        assert_ne!(random_id().expect("random"), random_id().expect("random"));
    }

    #[test]
    fn a_database_is_made_told_of_and_moved() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        for missing in [list(&at("db")).map(drop), add(&at("db"), &[at("a")]), move_to(&at("db"), &[(1, at("a"))])] {
            assert_eq!(missing.expect_err("not there").kind(), ErrorKind::NotFound);
        }
        assert!(!at("db").exists() && !at("a").exists(), "nothing was made");
        create(&at("db"), &[at("a")]).expect("made");
        add(&at("db"), &[at("b")]).expect("added");
        std::fs::rename(at("b"), at("c")).expect("renamed");
        move_to(&at("db"), &[(2, at("c"))]).expect("told");
        let numbers: Vec<_> = list(&at("db")).expect("listed").into_iter().map(|one| (one.number, one.path)).collect();
        let wanted = [(0, "db"), (1, "a"), (2, "c")];
        assert_eq!(numbers, wanted.map(|(number, name)| (number, at(name).to_str().expect("UTF-8").to_owned())));
    }
}
