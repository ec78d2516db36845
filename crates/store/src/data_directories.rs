//! Data directories: folders that hold a database's segment files, each on a drive of its own, and the marker in each that
//! says whose it is (`docs/format.md`, "Data directories").
//!
//! Invariants: a directory belongs to one database, and a database that was copied does not get hold of the directories of
//! the original; nothing is written or removed in a directory before its marker was found right. Must not know: what
//! segments hold.

use std::sync::Arc;

use forebay_base::checksum::crc32c;
use forebay_base::{Context, DirectoryId, Error, ErrorKind, Result, limits};
use forebay_disk::{Disk, LockKind, OpenMode as FileMode};

use crate::head::HEAD_PATH;
use crate::serial::{Reader, Writer};
use crate::store::{LOCK_PATH, OpenMode};
use crate::volume::{LockedDirectory, SEGMENTS_DIRECTORY};
use crate::{recovery, rows};

/// The marker's name.
pub(crate) const MARKER_PATH: &str = "DATA";
/// Its name until it is durable.
pub(crate) const MARKER_DRAFT_PATH: &str = "DATA.tmp";
/// Its first bytes.
pub(crate) const MARKER_MAGIC: [u8; 8] = *b"FBAYDATA";
/// Its format.
pub(crate) const MARKER_VERSION: u32 = 1;
/// A longer file is no marker.
const MARKER_MAX_BYTES: u64 = 1 << 16;
/// What file systems have in their roots before anybody puts something there.
const LOST_AND_FOUND: &str = "lost+found/";

/// Says which database a data directory belongs to, wherever both are moved. Random: no two databases have the same.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DatabaseId(pub u128);

/// A directory of a database, and what it holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataDirectory {
    /// Its number; 0 is the database's own directory.
    pub id: DirectoryId,
    /// Its path.
    pub path: String,
    /// Segment files that the catalog names.
    pub segments: u64,
    /// Their bytes.
    pub file_bytes: u64,
}

/// What the manifest says of data directories; without paths the segments are in the database's own directory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct DataDirectories {
    pub(crate) database: DatabaseId,
    /// Absolute paths, from number 1 on.
    pub(crate) paths: Vec<String>,
}

/// What a data directory says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Marker {
    number: u32,
    database: DatabaseId,
    /// Path of the database's directory when it was last open for writing.
    owner: String,
}

impl DataDirectories {
    /// Opens and locks all directories for the database whose own directory is `home`.
    ///
    /// # Errors
    /// `NotFound` where a directory is missing, `Input` where there is another one in its place, `Locked`, `Corrupt`.
    pub(crate) fn open(&self, home: &dyn Disk, mode: OpenMode, holder: &str) -> Result<Vec<LockedDirectory>> {
        if self.paths.is_empty() {
            return Ok(Vec::new());
        }
        let here = home.canonical_path()?;
        let mut found = Vec::with_capacity(self.paths.len());
        for (number, path) in (1..).zip(&self.paths) {
            let disk = home.elsewhere(path)?;
            let marker = self.find(&here, number, &*disk)?;
            check_owner(home, &here, path, &marker)?;
            found.push((disk, marker));
        }
        // Only when every directory is known to be the right one is anything written.
        let mut open = Vec::with_capacity(found.len());
        for (disk, marker) in found {
            let kind = if mode == OpenMode::ReadWrite { LockKind::Exclusive } else { LockKind::Shared };
            let lock = disk.lock(LOCK_PATH, kind, holder)?;
            if mode == OpenMode::ReadWrite && marker.owner != here {
                Marker { owner: here.clone(), ..marker }.write(&*disk)?;
            }
            open.push(LockedDirectory { disk, lock });
        }
        Ok(open)
    }

    /// The marker of directory `number`, which is the right one.
    fn find(&self, here: &str, number: u32, disk: &dyn Disk) -> Result<Marker> {
        let path = disk.describe();
        let whose = |marker: &Marker| format!("{path} is data directory {} of", marker.number);
        let hint = || {
            format!(
                "Nothing was changed. Mount the drives as they were, or say where the directory is now: \
                 forebay data-dirs move {here} {number}=DIR"
            )
        };
        if !disk.exists(MARKER_PATH)? {
            let message = format!(
                "data directory {number} of database {here} is missing: there is no file {MARKER_PATH} in {path}"
            );
            return Err(Error::new(ErrorKind::NotFound, message).hint(hint()));
        }
        let marker = Marker::read(disk)?;
        if marker.database != self.database {
            let message = format!("{} another database ({}), not {number} of {here}", whose(&marker), marker.owner);
            return Err(Error::input(message).hint(hint()));
        }
        if marker.number != number {
            let message = format!("{} database {here}, and data directory {number} is expected there", whose(&marker));
            return Err(Error::input(message).hint(hint()));
        }
        Ok(marker)
    }

    /// Makes data directories of `paths`, numbered behind those that there are, for the database whose own directory is
    /// `home`; locked until the result is dropped. Nothing is written unless all of them can be used.
    ///
    /// # Errors
    /// `Input` where a directory has other files in it, or belongs to a database.
    pub(crate) fn claim(
        &mut self,
        home: &dyn Disk,
        paths: &[String],
        holder: &str,
    ) -> Result<Vec<Box<dyn Send + Sync>>> {
        let count = self.paths.len() + paths.len();
        if count > limits::DATA_DIRECTORIES {
            let most = limits::DATA_DIRECTORIES;
            return Err(Error::input(format!("a database has at most {most} data directories, and not {count}")));
        }
        let here = home.canonical_path()?;
        // As they are spelled, before anything is made; then as they are.
        let spelled: Vec<String> = std::iter::once(&here).chain(&self.paths).chain(paths).cloned().collect();
        check_apart(&spelled)?;
        let mut all = vec![here.clone()];
        for path in &self.paths {
            all.push(home.elsewhere(path)?.canonical_path()?);
        }
        let mut disks = Vec::with_capacity(paths.len());
        for path in paths {
            let disk = home.elsewhere(path)?;
            disk.create_directory("")?;
            all.push(disk.canonical_path()?);
            disks.push(disk);
        }
        check_apart(&all)?;
        let first = self.paths.len() as u32 + 1;
        let numbered = || (first..).zip(&disks);
        numbered().try_for_each(|(_, disk)| check_free(&here, &**disk))?;
        let mut locks = Vec::with_capacity(disks.len());
        for (number, disk) in numbered() {
            locks.push(disk.lock(LOCK_PATH, LockKind::Exclusive, holder)?);
            // Nobody else took it meanwhile.
            check_free(&here, &**disk)?;
            disk.create_directory(SEGMENTS_DIRECTORY)?;
            Marker { number, database: self.database, owner: here.clone() }.write(&**disk)?;
        }
        self.paths.extend_from_slice(paths);
        Ok(locks)
    }
}

impl Marker {
    fn read(disk: &dyn Disk) -> Result<Self> {
        let read = || {
            let file = disk.open(MARKER_PATH, FileMode::Read)?;
            let bytes = file.len()?;
            if bytes > MARKER_MAX_BYTES {
                return Err(Error::corrupt(format!("it has {bytes} bytes")));
            }
            let mut content = vec![0; bytes as usize];
            file.read_at(0, &mut content)?;
            Self::parse(&content)
        };
        read().context(|| format!("file {MARKER_PATH} of {}", disk.describe()))
    }

    fn parse(bytes: &[u8]) -> Result<Self> {
        let mut reader = Reader::new(bytes, "the marker of a data directory");
        let magic = reader.take(MARKER_MAGIC.len())?;
        let payload = bytes.len().saturating_sub(size_of::<u32>());
        let crc = u32::from_le_bytes(*bytes.last_chunk().ok_or_else(|| reader.wrong("it ends too early"))?);
        if magic != MARKER_MAGIC || crc != crc32c(&bytes[..payload]) {
            return Err(reader.wrong("magic or checksum do not match"));
        }
        let version = reader.u32()?;
        if version != MARKER_VERSION {
            let message = format!("the marker has version {version}, and this program reads {MARKER_VERSION}");
            return Err(Error::new(ErrorKind::Version, message).hint("Upgrade Forebay"));
        }
        let (number, database) = (reader.u32()?, DatabaseId(reader.u128()?));
        let owner = reader.text()?;
        reader.u32()?;
        reader.finish()?;
        Ok(Self { number, database, owner })
    }

    fn bytes(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        writer.bytes.extend_from_slice(&MARKER_MAGIC);
        writer.u32(MARKER_VERSION);
        writer.u32(self.number);
        writer.u128(self.database.0);
        writer.blob(self.owner.as_bytes());
        let crc = crc32c(&writer.bytes);
        writer.u32(crc);
        writer.bytes
    }

    /// Puts the marker into the directory; it and all names there are durable then.
    fn write(&self, disk: &dyn Disk) -> Result<()> {
        if disk.exists(MARKER_DRAFT_PATH)? {
            disk.remove(MARKER_DRAFT_PATH)?;
        }
        let file = disk.open(MARKER_DRAFT_PATH, FileMode::Create)?;
        file.write_at(0, &self.bytes())?;
        file.sync()?;
        drop(file);
        disk.rename(MARKER_DRAFT_PATH, MARKER_PATH)?;
        disk.sync_directory("")
    }
}

/// An error if the database that the marker tells of is still where it was, and so another one than that at `here`: the two
/// are copies of each other, and what one does not know of, the other may.
fn check_owner(home: &dyn Disk, here: &str, path: &str, marker: &Marker) -> Result<()> {
    let owner = &marker.owner;
    if owner == here {
        return Ok(());
    }
    let other = home.elsewhere(owner)?;
    let is_there = is_database(&*other, marker.database)
        .context(|| format!("looking whether database {here} is a copy of {owner}, which has its data in {path}"))?;
    if !is_there {
        return Ok(());
    }
    let message = format!("data directory {path} belongs to database {owner}, of which {here} is a copy");
    Err(Error::input(message).hint(format!("Open {owner}; to have two databases, export its tables and load them")))
}

/// Whether the database of this id is there.
fn is_database(disk: &dyn Disk, database: DatabaseId) -> Result<bool> {
    if !disk.exists(HEAD_PATH)? {
        return Ok(false);
    }
    let found = recovery::load(disk)?;
    Ok(rows::data_directories(&found.rows)?.database == database)
}

/// An error if a directory has something in it that is not left over from when the database at `here` was about to be made.
fn check_free(here: &str, disk: &dyn Disk) -> Result<()> {
    let names = disk.list("")?;
    let has = |path: &str| names.iter().any(|name| name == path);
    let place = disk.describe();
    let hint = "Name another directory; a new or empty one can be used";
    if has(MARKER_PATH) {
        let Marker { number, owner, .. } = Marker::read(disk)?;
        if owner != here {
            let message = format!("{place} is data directory {number} of database {owner}");
            return Err(Error::input(message).hint(hint));
        }
    }
    let segments = format!("{SEGMENTS_DIRECTORY}/");
    let ours = [MARKER_PATH, MARKER_DRAFT_PATH, LOCK_PATH, LOST_AND_FOUND, &segments];
    let foreign = names.iter().find(|name| !ours.contains(&name.as_str())).cloned();
    let segment = if has(&segments) { disk.list(SEGMENTS_DIRECTORY)?.into_iter().next() } else { None };
    match foreign.or_else(|| segment.map(|name| format!("{segments}{name}"))) {
        None => Ok(()),
        Some(name) => {
            let message = format!("{place} cannot become a data directory: it is not empty, it has {name}");
            Err(Error::input(message).hint(hint))
        }
    }
}

/// An error if one of these paths, of which the first is the database's own, is another one or lies in it.
fn check_apart(paths: &[String]) -> Result<()> {
    let is_inside = |path: &str, other: &str| {
        path.strip_prefix(other.trim_end_matches('/')).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    for (index, path) in paths.iter().enumerate() {
        for other in &paths[..index] {
            if is_inside(path, other) || is_inside(other, path) {
                let message = match path == other {
                    true => format!("directory {path} is named twice"),
                    false => format!("one of the directories {other} and {path} lies in the other"),
                };
                return Err(Error::input(message)
                    .hint("Every data directory has a place of its own, and so has the database's directory"));
            }
        }
    }
    Ok(())
}

/// The disk and lock of the database's own directory.
pub(crate) fn lock_home(disk: Arc<dyn Disk>, mode: OpenMode, holder: &str) -> Result<LockedDirectory> {
    let kind = if mode == OpenMode::ReadWrite { LockKind::Exclusive } else { LockKind::Shared };
    let lock = disk.lock(LOCK_PATH, kind, holder)?;
    Ok(LockedDirectory { disk, lock })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markers_are_read_as_they_were_written_or_not_at_all() {
        let marker = Marker { number: 3, database: DatabaseId(7 << 100), owner: "/data/ä".into() };
        let bytes = marker.bytes();
        assert_eq!(Marker::parse(&bytes).expect("sound"), marker);
        for at in 0..bytes.len() {
            let mut flipped = bytes.clone();
            flipped[at] ^= 4;
            assert!(Marker::parse(&flipped).is_err(), "byte {at}");
            assert!(Marker::parse(&bytes[..at]).is_err(), "the first {at} bytes");
        }
        assert!(Marker::parse(&[bytes.as_slice(), b"x"].concat()).is_err(), "too long");
    }

    #[test]
    fn directories_lie_apart() {
        let check = |paths: &[&str]| check_apart(&paths.iter().map(|path| (*path).to_owned()).collect::<Vec<_>>());
        check(&["/db", "/db2", "/a/db"]).expect("apart");
        for wrong in
            [&["/db", "/db"][..], &["/db", "/a", "/db/b"], &["/a/b", "/a"], &["/", "/a"], &["/db", "/b/", "/b"]]
        {
            assert!(check(wrong).is_err(), "{wrong:?}");
        }
    }
}
