//! Compiled kernels on disk, so that the next process compiles nothing.
//!
//! A file per kernel: a head, the whole key, the image. The name is a checksum of the key and the key is compared, so that two
//! kernels whose checksums agree take turns at one file and are never mistaken for each other. The image has a checksum.
//! Invariants: a file is complete or is not there (it is renamed into place); what cannot be read or written is compiled
//! again, and no query fails for it. Must not know: compilers, what an image is.

use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use forebay_base::checksum::crc32c;

/// The first bytes of a file, with the version of its form.
const MAGIC: &[u8; 8] = b"FBYKERN1";
/// Magic, length of the key, checksum of the image.
const HEAD_BYTES: usize = 8 + 8 + 4;
/// Files beyond which the half is removed that was written first: a kernel has some tens of KiB.
const MOST_FILES: usize = 2_000;

/// A folder of compiled kernels, or nothing.
#[derive(Debug)]
pub(super) struct Images {
    folder: Option<PathBuf>,
    temporary: AtomicU64,
}

impl Images {
    pub(super) fn new(folder: Option<PathBuf>) -> Self {
        Self { folder, temporary: AtomicU64::new(0) }
    }

    /// The folder in the user's cache, if there is a user.
    pub(super) fn folder_of_user() -> Option<PathBuf> {
        let given = |name| std::env::var_os(name).map(PathBuf::from).filter(|folder| folder.is_absolute());
        let cache = given("XDG_CACHE_HOME").or_else(|| given("HOME").map(|home| home.join(".cache")))?;
        Some(cache.join("forebay").join("kernels"))
    }

    fn path(folder: &Path, key: &str) -> PathBuf {
        let (front, back) = key.split_at(key.floor_char_boundary(key.len() / 2));
        folder.join(format!("{:08x}{:08x}", crc32c(front.as_bytes()), crc32c(back.as_bytes())))
    }

    /// The image that was kept for a key.
    pub(super) fn get(&self, key: &str) -> Option<Vec<u8>> {
        let bytes = std::fs::read(Self::path(self.folder.as_ref()?, key)).ok()?;
        let (head, rest) = bytes.split_at_checked(HEAD_BYTES)?;
        let (magic, numbers) = head.split_at(MAGIC.len());
        let (key_bytes, checksum) = numbers.split_at(8);
        let key_bytes = u64::from_le_bytes(key_bytes.try_into().ok()?);
        let (known, image) = rest.split_at_checked(usize::try_from(key_bytes).ok()?)?;
        let is_whole = magic == MAGIC && known == key.as_bytes() && checksum == crc32c(image).to_le_bytes();
        is_whole.then(|| image.to_vec())
    }

    /// Keeps an image for a key, if that is possible.
    pub(super) fn put(&self, key: &str, image: &[u8]) {
        let Some(folder) = &self.folder else { return };
        if std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).is_err() {
            return;
        }
        make_room(folder);
        let checksum = crc32c(image).to_le_bytes();
        let length = (key.len() as u64).to_le_bytes();
        let bytes = [MAGIC, &length[..], &checksum, key.as_bytes(), image].concat();
        let number = self.temporary.fetch_add(1, Ordering::Relaxed);
        let temporary = folder.join(format!("new-{}-{number}", std::process::id()));
        let written =
            std::fs::write(&temporary, bytes).and_then(|()| std::fs::rename(&temporary, Self::path(folder, key)));
        if written.is_err() {
            let _ = std::fs::remove_file(&temporary);
        }
    }
}

/// Removes the older half where there are too many.
fn make_room(folder: &Path) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    let mut files: Vec<_> = entries.flatten().collect();
    if files.len() < MOST_FILES {
        return;
    }
    files.sort_by_cached_key(|entry| entry.metadata().and_then(|known| known.modified()).ok());
    for file in &files[..files.len() / 2] {
        let _ = std::fs::remove_file(file.path());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn images(folder: &tempfile::TempDir) -> Images {
        Images::new(Some(folder.path().join("a").join("b")))
    }

    #[test]
    fn an_image_is_found_by_its_whole_key_and_by_the_next_process() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let first = images(&folder);
        assert_eq!(first.get("key"), None);
        first.put("key", b"image");
        first.put("other key", b"");
        let second = images(&folder);
        assert_eq!(second.get("key").as_deref(), Some(&b"image"[..]));
        assert_eq!(second.get("other key").as_deref(), Some(&b""[..]));
        assert_eq!(second.get("ke"), None);
        second.put("key", b"another");
        assert_eq!(first.get("key").as_deref(), Some(&b"another"[..]));
    }

    #[test]
    fn what_is_not_as_it_was_written_is_not_there() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let images = images(&folder);
        images.put("key", b"image");
        let path = Images::path(images.folder.as_ref().expect("it has one"), "key");
        let whole = std::fs::read(&path).expect("it was written");
        for at in 0..whole.len() {
            let mut flipped = whole.clone();
            flipped[at] ^= 0x10;
            std::fs::write(&path, &flipped).expect("there is room");
            assert_eq!(images.get("key"), None, "byte {at}");
            std::fs::write(&path, &whole[..at]).expect("there is room");
            assert_eq!(images.get("key"), None, "{at} bytes");
        }
        images.put("key", b"image");
        assert!(images.get("key").is_some());
    }

    #[test]
    fn the_older_half_goes_and_no_folder_is_no_error() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let images = images(&folder);
        for number in 0..=MOST_FILES {
            images.put(&number.to_string(), b"image");
        }
        let left = std::fs::read_dir(images.folder.as_ref().expect("it has one")).expect("it is there").count();
        assert!(left <= MOST_FILES / 2 + 1, "{left} files");
        assert!(images.get(&MOST_FILES.to_string()).is_some());
        for folder in [None, Some(PathBuf::from("/dev/null/x"))] {
            let nowhere = Images::new(folder);
            nowhere.put("key", b"image");
            assert_eq!(nowhere.get("key"), None);
        }
    }
}
