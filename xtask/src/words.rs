//! Rules about words: module heads, names, leftovers, paths of the building machine, documented limits.

use crate::finding::Finding;
use crate::source::{Sources, words};
use crate::tree::{Tree, line_of};

/// Words that name nothing (STYLE 6).
const EMPTY_WORDS: &[&str] = &["manager", "helper", "helpers", "util", "utils", "utility", "common", "misc", "v2"];

/// Words left in a text to come back to; cut in two so that this file does not hold them.
const MARKERS: &[&str] = &[concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];

/// Macros of unfinished work.
const UNFINISHED: &[&str] = &["todo", "unimplemented", "dbg"];

/// Where the working copies of one building machine lie; cut in two for the same reason.
const MACHINE_PATHS: &[&str] = &[concat!("/wo", "rk/"), concat!("/ro", "ot/")];

/// Endings of files that people write: searched for markers.
const WRITTEN: &[&str] = &["rs", "md", "py", "sh", "toml", "test", "run", "yml"];

/// The file of limits.
const LIMITS: &str = "crates/base/src/limits.rs";

/// Every Rust file opens with `//!`, and the head of a crate says what the crate must not know.
pub(crate) fn check_heads(sources: &Sources, findings: &mut Vec<Finding>) {
    for (path, source) in sources.iter() {
        let head = source.text.lines().take_while(|line| line.starts_with("//!"));
        let head = head.map(|line| line[3..].trim()).collect::<Vec<_>>().join(" ");
        if path.ends_with("src/lib.rs") && !head.is_empty() && !head.to_lowercase().contains("must not know") {
            findings.push(Finding::new(path, 1, "say in the head what this crate must not know"));
        }
        if !source.text.starts_with("//! ") {
            findings.push(Finding::new(
                path,
                1,
                "open with `//!`: what it is for, its invariants, what it must not know",
            ));
        }
    }
}

/// No file, module or type is called by a word that says nothing.
pub(crate) fn check_names(tree: &Tree, sources: &Sources, findings: &mut Vec<Finding>) {
    for path in tree.names() {
        if let Some(word) = path.split(['/', '.']).find_map(empty_word) {
            findings.push(Finding::new(path, 1, rename(word)));
        }
    }
    for (path, source) in sources.iter() {
        for keyword in ["mod", "struct", "enum", "trait", "type", "union"] {
            for at in words(&source.code, keyword) {
                let after = source.code[at + keyword.len()..].trim_start();
                let name: String = after.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
                if let Some(word) = empty_word(&name) {
                    findings.push(Finding::new(path, line_of(&source.code, at), rename(word)));
                }
            }
        }
    }
}

fn rename(word: &str) -> String {
    format!("\"{word}\" names nothing: use the field's word for what it is")
}

/// The empty word in a name in snake_case, kebab-case or CamelCase.
fn empty_word(name: &str) -> Option<&'static str> {
    let mut spaced = String::new();
    for (at, letter) in name.char_indices() {
        let after_lower = name[..at].chars().last().is_some_and(|before| before.is_lowercase());
        if letter == '_' || letter == '-' || (letter.is_uppercase() && after_lower) {
            spaced.push(' ');
        }
        spaced.extend(letter.to_lowercase().filter(|letter| letter.is_alphanumeric()));
    }
    spaced.split_whitespace().find_map(|word| EMPTY_WORDS.iter().find(|empty| **empty == word).copied())
}

/// Nothing unfinished: markers, macros of unfinished work, `.unwrap()` outside of tests.
pub(crate) fn check_leftovers(tree: &Tree, sources: &Sources, findings: &mut Vec<Finding>) {
    for (path, text) in tree.files() {
        let ending = path.rsplit(['.', '/']).next().unwrap_or_default();
        for marker in MARKERS.iter().filter(|_| WRITTEN.contains(&ending)) {
            for at in words(text, marker) {
                findings.push(Finding::new(path, line_of(text, at), format!("finish it or file it: {marker}")));
            }
        }
    }
    for (path, source) in sources.iter() {
        for name in UNFINISHED {
            for at in words(&source.code, name).filter(|at| source.code[at + name.len()..].starts_with('!')) {
                findings.push(Finding::new(path, line_of(&source.code, at), format!("finish it: `{name}!`")));
            }
        }
        for (at, _) in source.production.match_indices(".unwrap()") {
            let message = "return the error with `?`, or `expect(\"why it cannot fail\")`";
            findings.push(Finding::new(path, line_of(&source.code, at), message));
        }
    }
}

/// No file knows where one machine keeps its working copies.
pub(crate) fn check_machine_paths(tree: &Tree, findings: &mut Vec<Finding>) {
    for (path, text) in tree.files() {
        for machine_path in MACHINE_PATHS {
            for (at, _) in text.match_indices(machine_path) {
                let message = format!("names a path of one machine ({machine_path}…): make it relative or an argument");
                findings.push(Finding::new(path, line_of(text, at), message));
            }
        }
    }
}

/// Every limit says its reason.
pub(crate) fn check_limits(tree: &Tree, findings: &mut Vec<Finding>) {
    let mut documented = false;
    for (at, line) in tree.text(LIMITS).unwrap_or_default().lines().enumerate() {
        if line.starts_with("pub ") && !documented {
            findings.push(Finding::new(LIMITS, at + 1, "write the limit's unit and reason in a `///` above it"));
        }
        documented = line.starts_with("///") || (documented && line.starts_with("#["));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(path: &str, text: &str) -> Vec<String> {
        let tree = Tree::of(&[(path, text)]);
        let sources = Sources::read(&tree);
        let mut findings = Vec::new();
        check_heads(&sources, &mut findings);
        check_names(&tree, &sources, &mut findings);
        check_leftovers(&tree, &sources, &mut findings);
        check_machine_paths(&tree, &mut findings);
        check_limits(&tree, &mut findings);
        findings.iter().map(ToString::to_string).collect()
    }

    #[track_caller]
    fn one(path: &str, text: &str, expected: &str) {
        let found = messages(path, text);
        assert!(found.len() == 1 && found[0].starts_with(expected), "{expected} is not {found:?}");
    }

    #[test]
    fn tidy_text_has_no_findings() {
        assert_eq!(messages("crates/a/src/commonality.rs", "//! A.\nstruct Utilisation;\nfn common() {}\n"), [""; 0]);
    }

    #[test]
    fn heads() {
        one("a.rs", "fn f() {}\n", "a.rs:1: open with");
        one("a.rs", "\n//! A.\n", "a.rs:1: open with");
        one("crates/a/src/lib.rs", "//! A.\n", "crates/a/src/lib.rs:1: say in the head");
        assert_eq!(messages("crates/a/src/lib.rs", "//! A. Must not\n//! know: b.\n"), [""; 0]);
    }

    #[test]
    fn empty_names() {
        one("crates/util/a.rs", "//! A.\n", "crates/util/a.rs:1: \"util\"");
        one("tests/sql_helper.py", "", "tests/sql_helper.py:1: \"helper\"");
        one("a.rs", "//! A.\nstruct CacheManager;\n", "a.rs:2: \"manager\"");
        one("a.rs", "//! A.\npub(crate) mod format_v2 {}\n", "a.rs:2: \"v2\"");
        one("a.rs", "//! A.\nenum Misc {}\n", "a.rs:2: \"misc\"");
    }

    #[test]
    fn leftovers() {
        for marker in MARKERS {
            one("a.rs", &format!("//! A.\n// {marker}: more\n"), "a.rs:2: finish it or file it");
        }
        assert_eq!(messages("b.md", &format!("a{}b\n", MARKERS[0])), [""; 0]);
        one("a.rs", "//! A.\nfn f() { todo!() }\n", "a.rs:2: finish it: `todo!`");
        one("a.rs", "//! A.\nfn f() { dbg!(1); }\n", "a.rs:2: finish it: `dbg!`");
        one("a.rs", "//! A.\nfn f() { g().unwrap() }\n", "a.rs:2: return the error");
        assert_eq!(messages("a.rs", "//! A.\n#[cfg(test)]\nmod tests { fn f() { g().unwrap() } }\n"), [""; 0]);
        assert_eq!(
            messages("a.rs", "//! Never `.unwrap()` or `todo!()`.\nconst A: &str = \".unwrap() dbg!\";\n"),
            [""; 0]
        );
    }

    #[test]
    fn machine_paths() {
        one("notes.txt", &format!("cd {}main", MACHINE_PATHS[0]), "notes.txt:1: names a path");
        one("a.sh", &format!("\nls {}", MACHINE_PATHS[1]), "a.sh:2: names a path");
    }

    #[test]
    fn limits_are_documented() {
        assert_eq!(messages(LIMITS, "//! A.\n/// Rows.\n#[allow(dead_code)]\npub const A: u8 = 1;\n"), [""; 0]);
        one(LIMITS, "//! A.\n/// Rows.\npub const A: u8 = 1;\npub const B: u8 = 1;\n", "crates/base/src/limits.rs:4: ");
    }
}
