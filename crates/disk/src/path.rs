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
    fn parents_end_at_the_root() {
        assert_eq!(parent("a/b/c"), Some("a/b"));
        assert_eq!(parent("a"), Some(""));
        assert_eq!(parent(""), None);
    }
}
