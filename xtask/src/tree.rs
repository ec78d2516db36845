//! The files of the workspace as text, read once: those that git tracks and new ones that it does not ignore.
//!
//! Invariants: paths are relative to the root and '/'-separated; files that are not UTF-8 have no text but a name.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The workspace's files.
#[derive(Debug)]
pub(crate) struct Tree {
    root: PathBuf,
    files: BTreeMap<String, String>,
    names: BTreeSet<String>,
}

impl Tree {
    /// Reads the files under `root` that git knows or would add.
    pub(crate) fn load(root: &Path) -> Result<Self, String> {
        let listed = Command::new("git")
            .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
            .current_dir(root)
            .output()
            .map_err(|error| format!("cannot run git in {}: {error}", root.display()))?;
        if !listed.status.success() {
            return Err(format!("git ls-files failed: {}", String::from_utf8_lossy(&listed.stderr).trim()));
        }
        let mut tree = Self { root: root.to_owned(), files: BTreeMap::new(), names: BTreeSet::new() };
        for name in String::from_utf8_lossy(&listed.stdout).split('\0').filter(|name| !name.is_empty()) {
            // A file deleted but not yet committed is listed and not there: it is none of ours.
            let Ok(bytes) = std::fs::read(root.join(name)) else { continue };
            tree.names.insert(name.to_owned());
            if let Ok(text) = String::from_utf8(bytes) {
                tree.files.insert(name.to_owned(), text);
            }
        }
        Ok(tree)
    }

    /// A tree of texts that lies nowhere on disk.
    #[cfg(test)]
    pub(crate) fn of(files: &[(&str, &str)]) -> Self {
        let files: BTreeMap<_, _> = files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect();
        let names = files.keys().cloned().collect();
        Self { root: PathBuf::new(), files, names }
    }

    /// The workspace's root folder.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Path and text of every text file, by path.
    pub(crate) fn files(&self) -> &BTreeMap<String, String> {
        &self.files
    }

    /// The text of one file.
    pub(crate) fn text(&self, path: &str) -> Option<&str> {
        self.files.get(path).map(String::as_str)
    }

    /// Every path, binary files included.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }

    /// Whether `path` is a file, or a folder with a file in it. The root itself is "".
    pub(crate) fn exists(&self, path: &str) -> bool {
        let folder = format!("{}/", path.trim_end_matches('/'));
        path.is_empty()
            || self.names.contains(path)
            || self.names.range(folder.clone()..).next().is_some_and(|name| name.starts_with(&folder))
    }

    /// Replaces a file on disk.
    pub(crate) fn write(&self, path: &str, text: &str) -> Result<(), String> {
        std::fs::write(self.root.join(path), text).map_err(|error| format!("cannot write {path}: {error}"))
    }
}

/// The 1-based line of byte `offset` in `text`.
pub(crate) fn line_of(text: &str, offset: usize) -> usize {
    text.as_bytes()[..offset].iter().filter(|byte| **byte == b'\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_exist_by_their_files() {
        let tree = Tree::of(&[("docs/format.md", ""), ("docs-old", "")]);
        assert!(tree.exists("docs") && tree.exists("docs/") && tree.exists("docs/format.md") && tree.exists(""));
        assert!(!tree.exists("doc") && !tree.exists("docs/form"));
    }

    #[test]
    fn git_lists_new_files_and_not_ignored_ones() {
        let folder = std::env::temp_dir().join(format!("xtask-tree-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        assert!(Command::new("git").args(["init", "-q"]).current_dir(&folder).status().unwrap().success());
        for (name, bytes) in
            [(".gitignore", b"*.log".as_slice()), ("a.rs", b"//! A."), ("b.log", b"x"), ("c.bin", b"\xff")]
        {
            std::fs::write(folder.join(name), bytes).unwrap();
        }
        let tree = Tree::load(&folder).unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(tree.names().collect::<Vec<_>>(), [".gitignore", "a.rs", "c.bin"]);
        assert_eq!((tree.text("a.rs"), tree.text("c.bin")), (Some("//! A."), None));
    }

    #[test]
    fn lines_count_from_one() {
        assert_eq!([line_of("a\nb\n", 0), line_of("a\nb\n", 1), line_of("a\nb\n", 2)], [1, 1, 2]);
    }
}
