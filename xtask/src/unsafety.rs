//! `unsafe` is a place: forbidden in every crate but those named here, and there it stays in the named modules, whose every
//! use says the fact that it relies on.

use crate::finding::Finding;
use crate::source::{Sources, words};
use crate::tree::{Tree, line_of};

/// Crates that may hold modules with `unsafe`, and which: system calls; SIMD, jitted code, work that borrows on threads that
/// are older than it; the GPU's driver; options of the allocator, advice about the program's pages.
const MAY_BE_UNSAFE: &[(&str, &[&str])] = &[
    ("crates/disk", &["sys"]),
    ("crates/cpu", &["simd", "compile", "pool"]),
    ("crates/gpu", &["driver"]),
    ("apps/cli", &["allocator", "image"]),
];

/// The attribute that closes a crate.
const FORBID: &str = "#![forbid(unsafe_code)]";

/// Checks every crate root, and every `unsafe` in the crates that may have one.
pub(crate) fn check(tree: &Tree, sources: &Sources, findings: &mut Vec<Finding>) {
    let folders = tree.names().filter_map(|path| path.strip_suffix("/Cargo.toml"));
    for folder in folders {
        let roots = ["lib.rs", "main.rs"].map(|name| format!("{folder}/src/{name}"));
        let closed = |root: &String| tree.text(root).is_none_or(|text| text.lines().any(|line| line == FORBID));
        if let Some((_, modules)) = MAY_BE_UNSAFE.iter().find(|(name, _)| *name == folder) {
            check_modules(folder, modules, sources, findings);
        } else if let Some(root) = roots.iter().find(|root| !closed(root)) {
            findings.push(Finding::new(root, 1, format!("write `{FORBID}` below the head")));
        }
    }
}

fn check_modules(folder: &str, modules: &[&str], sources: &Sources, findings: &mut Vec<Finding>) {
    let prefix = format!("{folder}/src/");
    for (path, source) in sources.iter() {
        let Some(inside) = path.strip_prefix(&prefix) else { continue };
        let module = inside.split(['/', '.']).next().unwrap_or_default();
        for at in words(&source.code, "unsafe") {
            let after = source.code[at + "unsafe".len()..].trim_start();
            // `unsafe fn` documents what it asks for; `unsafe extern` declares.
            let relies = after.starts_with('{') || after.starts_with("impl");
            let line = line_of(&source.code, at);
            if relies && !has_reason(&source.text, line) {
                findings.push(Finding::new(path, line, "write `// SAFETY:` above it, with the fact that it relies on"));
            }
            if !modules.contains(&module) {
                let message = format!("`unsafe` outside of {folder}'s modules for it: {}", modules.join(", "));
                findings.push(Finding::new(path, line, message));
            }
        }
    }
}

/// Whether the comment above `line`, or the line itself, gives the reason. Attributes and the start of the statement
/// may stand between.
fn has_reason(text: &str, line: usize) -> bool {
    let lines: Vec<&str> = text.lines().collect();
    let above = lines[..line - 1].iter().rev().map(|above| above.trim());
    let mut comment =
        above.skip_while(|above| !above.starts_with("//") && !above.is_empty() && !above.ends_with([';', '}']));
    lines[line - 1].contains("SAFETY:")
        || comment.by_ref().take_while(|above| above.starts_with("//")).any(|above| above.contains("SAFETY:"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(files: &[(&str, &str)]) -> Vec<String> {
        let tree = Tree::of(files);
        let mut findings = Vec::new();
        check(&tree, &Sources::read(&tree), &mut findings);
        findings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn crates_are_closed() {
        let open = [("crates/a/Cargo.toml", ""), ("crates/a/src/lib.rs", "//! A.\n")];
        assert_eq!(messages(&open).len(), 1);
        let closed = [("crates/a/Cargo.toml", ""), ("crates/a/src/lib.rs", "//! A.\n#![forbid(unsafe_code)]\n")];
        assert_eq!(messages(&closed), [""; 0]);
    }

    #[test]
    fn blocks_give_their_reason() {
        let disk = |text| messages(&[("crates/disk/Cargo.toml", ""), ("crates/disk/src/sys.rs", text)]);
        assert_eq!(
            disk(
                "//! A.\nfn f() {\n    // SAFETY: the\n    // pointer lives.\n    let a =\n        unsafe { g() };\n}\n"
            ),
            [""; 0]
        );
        assert_eq!(disk("//! A.\nfn f() {\n    // no reason\n    unsafe { g() }\n}\n").len(), 1);
        assert_eq!(disk("//! A.\n// SAFETY: of another.\nlet a = 1;\nlet b = unsafe { g() };\n").len(), 1);
        assert_eq!(disk("//! A.\nunsafe impl Send for A {}\n").len(), 1);
    }

    #[test]
    fn named_modules_hold_it() {
        let files = [
            ("crates/disk/Cargo.toml", ""),
            ("crates/disk/src/sys.rs", "//! A.\n// SAFETY: a.\nunsafe { g() }\n"),
            ("crates/disk/src/sys/uring.rs", "//! A.\n// SAFETY: a.\nunsafe { g() }\n"),
        ];
        assert_eq!(messages(&files), [""; 0]);
        let spread = [files[0], files[1], ("crates/disk/src/zoo.rs", "//! A.\n// SAFETY: a.\nunsafe { g() }\n")];
        assert_eq!(messages(&spread).len(), 1);
    }
}
