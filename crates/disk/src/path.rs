//! Paths relative to a disk's root, in one spelling: no leading, doubled or trailing `/`, no `.`, never `..`.
//!
//! Must not know: the file system.

use forebay_base::{Error, Result};

/// `path` in the one spelling; the root is the empty path.
///
/// # Errors
/// A path that would leave the root is a bug of the caller.
pub(crate) fn normalize(path: &str) -> Result<String> {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    if path.starts_with('/') || parts.contains(&"..") {
        return Err(Error::internal(format!("path {path:?} leaves its disk")));
    }
    Ok(parts.join("/"))
}

/// What an absolute `path` is called relative to the root of all, in the one spelling.
///
/// # Errors
/// A path that is not absolute, or that goes up, is a bug of the caller.
pub(crate) fn normalize_absolute(path: &str) -> Result<String> {
    let inside = path.strip_prefix('/').map(|rest| rest.trim_start_matches('/'));
    normalize(inside.ok_or_else(|| Error::internal(format!("path {path:?} is not absolute")))?)
}

/// The directory of a normalized path; `None` for the root.
pub(crate) fn parent(path: &str) -> Option<&str> {
    match path.rsplit_once('/') {
        Some((directory, _)) => Some(directory),
        None if path.is_empty() => None,
        None => Some(""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_spelling_inside_the_root() {
        assert_eq!(normalize("./a//b/").expect("inside"), "a/b");
        assert_eq!(normalize(".").expect("the root"), "");
        for outside in ["/etc", "..", "a/../../b"] {
            assert!(normalize(outside).is_err(), "{outside}");
        }
    }

    #[test]
    fn absolute_paths_begin_at_the_root() {
        assert_eq!(normalize_absolute("//a/./b/").expect("absolute"), "a/b");
        assert_eq!(normalize_absolute("/").expect("absolute"), "");
        for wrong in ["a", "", "/../a"] {
            assert!(normalize_absolute(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn parents_end_at_the_root() {
        assert_eq!(parent("a/b/c"), Some("a/b"));
        assert_eq!(parent("a"), Some(""));
        assert_eq!(parent(""), None);
    }
}
