//! Names of files and directories, for disks that live in memory. `F` is what a name stands for.
//!
//! Invariants of the checked calls: every name's directory exists, and a rename moves files only. The unchecked calls
//! (`put`, `take`) replay changes in any order; `drop_orphans` restores the invariant.
//! Must not know: what files hold.

use std::collections::BTreeMap;
use std::ops::Bound;

use forebay_base::{Error, ErrorKind, Result};

use crate::path::parent;

/// What a name stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Entry<F> {
    /// A file.
    File(F),
    /// A directory.
    Directory,
}

/// A tree of names, by normalized path. The root is always there.
#[derive(Debug, Clone)]
pub(crate) struct Namespace<F> {
    entries: BTreeMap<String, Entry<F>>,
}

impl<F: Clone> Namespace<F> {
    pub(crate) fn new() -> Self {
        Self { entries: BTreeMap::from([(String::new(), Entry::Directory)]) }
    }

    pub(crate) fn contains(&self, path: &str) -> bool {
        self.entries.contains_key(path)
    }

    pub(crate) fn file(&self, path: &str) -> Result<&F> {
        match self.entries.get(path) {
            Some(Entry::File(file)) => Ok(file),
            Some(Entry::Directory) => Err(Error::new(ErrorKind::Io, format!("cannot open {path}: it is a directory"))),
            None => Err(missing("open", path)),
        }
    }

    pub(crate) fn files(&self) -> impl Iterator<Item = &F> {
        self.entries.values().filter_map(|entry| match entry {
            Entry::File(file) => Some(file),
            Entry::Directory => None,
        })
    }

    pub(crate) fn check_directory(&self, path: &str, verb: &str) -> Result<()> {
        match self.entries.get(path) {
            Some(Entry::Directory) => Ok(()),
            Some(Entry::File(_)) => Err(Error::new(ErrorKind::Io, format!("cannot {verb} {path}: it is a file"))),
            None => Err(missing(verb, path)),
        }
    }

    pub(crate) fn create(&mut self, path: &str, file: F) -> Result<()> {
        if self.contains(path) {
            return Err(Error::new(ErrorKind::AlreadyExists, format!("cannot create {path}: it exists already")));
        }
        self.check_directory(parent(path).unwrap_or_default(), "create a file in")?;
        self.put(path, Entry::File(file));
        Ok(())
    }

    /// Makes the directory and its parents; returns those that were missing, outermost first.
    pub(crate) fn create_directory(&mut self, path: &str) -> Result<Vec<String>> {
        let mut missing = Vec::new();
        let mut at = Some(path);
        while let Some(directory) = at {
            match self.entries.get(directory) {
                None => missing.push(directory.to_owned()),
                Some(_) => {
                    self.check_directory(directory, "create a directory at")?;
                    break;
                }
            }
            at = parent(directory);
        }
        missing.reverse();
        for directory in &missing {
            self.put(directory, Entry::Directory);
        }
        Ok(missing)
    }

    pub(crate) fn remove(&mut self, path: &str) -> Result<()> {
        self.file(path)?;
        self.take(path);
        Ok(())
    }

    pub(crate) fn rename(&mut self, from: &str, to: &str) -> Result<F> {
        let file = self.file(from)?.clone();
        if matches!(self.entries.get(to), Some(Entry::Directory)) {
            return Err(Error::new(ErrorKind::Io, format!("cannot rename {from} to {to}: it is a directory")));
        }
        self.check_directory(parent(to).unwrap_or_default(), "rename a file into")?;
        self.take(from);
        self.put(to, Entry::File(file.clone()));
        Ok(file)
    }

    /// Names of what is in `directory`, sorted; those of directories end in `/`.
    pub(crate) fn list(&self, directory: &str) -> Result<Vec<String>> {
        self.check_directory(directory, "list")?;
        let prefix = if directory.is_empty() { String::new() } else { format!("{directory}/") };
        let inside = self.entries.range::<str, _>((Bound::Excluded(prefix.as_str()), Bound::Unbounded));
        let names = inside
            .take_while(|(path, _)| path.starts_with(&prefix))
            .filter(|(path, _)| !path[prefix.len()..].contains('/'))
            .map(|(path, entry)| match entry {
                Entry::File(_) => path[prefix.len()..].to_owned(),
                Entry::Directory => format!("{}/", &path[prefix.len()..]),
            });
        let mut names: Vec<String> = names.collect();
        // The end of a directory's name may move it behind another.
        names.sort_unstable();
        Ok(names)
    }

    pub(crate) fn put(&mut self, path: &str, entry: Entry<F>) {
        self.entries.insert(path.to_owned(), entry);
    }

    pub(crate) fn take(&mut self, path: &str) -> Option<Entry<F>> {
        self.entries.remove(path)
    }

    /// Drops every name whose directory is missing.
    pub(crate) fn drop_orphans(&mut self) {
        let all: Vec<String> = self.entries.keys().cloned().collect();
        // In order of length a directory is decided before what lies in it.
        let mut by_depth = all;
        by_depth.sort_by_key(|path| path.matches('/').count());
        for path in by_depth {
            let is_orphan = parent(&path).is_some_and(|up| !matches!(self.entries.get(up), Some(Entry::Directory)));
            if is_orphan {
                self.take(&path);
            }
        }
    }
}

fn missing(verb: &str, path: &str) -> Error {
    let shown = if path.is_empty() { "." } else { path };
    Error::new(ErrorKind::NotFound, format!("cannot {verb} {shown}: no such file or directory"))
}
