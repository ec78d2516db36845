//! Where libraries of CUDA may be installed: known to the system's loader, beside the program, in CUDA's own folders, or as
//! packages of Python.
//!
//! Must not know: what the libraries do.

use std::path::{Path, PathBuf};

use crate::driver::Library;

/// The places of a library in the order in which they are worth a try: names for the system's loader, then files that begin
/// so. `wheel_folders` are those of a Python environment's packages.
pub(super) fn places(names: &[&str], wheel_folders: &[&str], begin: &str) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = names.iter().map(PathBuf::from).collect();
    let mut folders: Vec<PathBuf> = Vec::new();
    if let Some(beside) = std::env::current_exe().ok().and_then(|program| program.parent().map(Path::to_owned)) {
        folders.push(beside);
    }
    for root in ["CUDA_HOME", "CUDA_PATH"].iter().filter_map(std::env::var_os) {
        folders.push(PathBuf::from(root).join("lib64"));
    }
    folders.extend(children(Path::new("/usr/local"), "cuda").into_iter().map(|folder| folder.join("lib64")));
    let home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".local"));
    let environments = [std::env::var_os("VIRTUAL_ENV").map(PathBuf::from), home];
    let system = ["/usr/local", "/usr"].map(|folder| Some(PathBuf::from(folder)));
    for environment in environments.into_iter().chain(system).flatten() {
        for python in children(&environment.join("lib"), "python3") {
            for packages in ["site-packages", "dist-packages"] {
                folders.extend(wheel_folders.iter().map(|wheel| python.join(packages).join(wheel)));
            }
        }
    }
    found.extend(folders.iter().flat_map(|folder| children(folder, begin)));
    found
}

/// The first place where a library is; a file is not loaded.
pub(super) fn first(names: &[&str], wheel_folders: &[&str], begin: &str) -> Option<PathBuf> {
    let is_there = |path: &PathBuf| path.is_absolute() || Library::open(path, false).is_ok();
    places(names, wheel_folders, begin).into_iter().find(is_there)
}

/// Entries of a folder that begin so, the last by name first; none where there is no folder.
fn children(folder: &Path, begin: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let begins = |entry: &std::fs::DirEntry| entry.file_name().to_string_lossy().starts_with(begin);
    let mut found: Vec<PathBuf> = entries.filter(begins).map(|entry| entry.path()).collect();
    found.sort_by(|one, other| other.cmp(one));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_that_are_not_there_have_nothing() {
        assert!(children(Path::new("/no such folder"), "lib").is_empty());
        assert_eq!(first(&["libno-such-library.so.1"], &["no/such/folder"], "libno-such-library.so"), None);
    }

    #[test]
    fn files_of_a_folder_are_found_the_newest_first() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        for name in ["liba.so.1", "liba.so.2", "libb.so"] {
            std::fs::write(folder.path().join(name), "").expect("a file");
        }
        let names =
            children(folder.path(), "liba.so").into_iter().map(|path| path.file_name().map(|name| name.to_owned()));
        assert_eq!(names.flatten().collect::<Vec<_>>(), ["liba.so.2", "liba.so.1"]);
    }
}
