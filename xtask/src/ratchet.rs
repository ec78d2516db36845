//! Sizes that may only shrink: files up to 500 lines and functions up to 70, tests apart. `xtask/ratchet.txt` lists
//! what is longer with its size today, as `file PATH LINES` or `fn PATH NAME LINES`, with the reason in a `#` line.

use std::collections::BTreeMap;

use crate::finding::Finding;
use crate::source::Sources;
use crate::tree::Tree;

/// The list of exceptions.
pub(crate) const PATH: &str = "xtask/ratchet.txt";

/// Lines of a file without its tests.
const FILE_LINES: usize = 500;

/// Lines of a function from `fn` to its closing brace.
const FUNCTION_LINES: usize = 70;

/// A file, or the longest function of a name in it, that is longer than the limit.
struct Long {
    path: String,
    line: usize,
    lines: usize,
    limit: usize,
}

/// Reports what is too long and not listed, or longer than listed, and what is listed as longer than it is.
pub(crate) fn check(tree: &Tree, sources: &Sources, findings: &mut Vec<Finding>) {
    let longs = longs(sources);
    let listed = entries(tree);
    for (key, long) in &longs {
        let limit = listed.get(key.as_str()).map_or(long.limit, |(_, lines)| *lines);
        if long.lines > limit {
            let message = format!(
                "{} lines, at most {limit}: split it where a part has a name and a contract ({key})",
                long.lines
            );
            findings.push(Finding::new(&long.path, long.line, message));
        }
    }
    for (key, (line, lines)) in &listed {
        let now = longs.get(*key).map_or(0, |long| long.lines);
        if now < *lines {
            let message = format!("`{key}` has become shorter: lower its entry with `cargo xtask tidy --ratchet`");
            findings.push(Finding::new(PATH, *line, message));
        }
    }
}

/// The list with every entry lowered to today's size, and without those within the limit. Nothing is added or raised.
pub(crate) fn lower(tree: &Tree, sources: &Sources) -> String {
    let longs = longs(sources);
    let mut text = String::new();
    for line in tree.text(PATH).unwrap_or_default().lines() {
        let kept = match entry(line) {
            None => Some(line.to_owned()),
            Some((key, lines)) => longs.get(key).map(|long| format!("{key} {}", long.lines.min(lines))),
        };
        if let Some(line) = kept {
            text += &line;
            text.push('\n');
        }
    }
    text
}

/// What is over a limit, by the key of its entry.
fn longs(sources: &Sources) -> BTreeMap<String, Long> {
    let mut longs: BTreeMap<String, Long> = BTreeMap::new();
    for (path, source) in sources.iter() {
        let lines = source.production_lines();
        if lines > FILE_LINES {
            longs.insert(format!("file {path}"), Long { path: path.to_owned(), line: 1, lines, limit: FILE_LINES });
        }
        for function in source.functions().into_iter().filter(|function| function.lines > FUNCTION_LINES) {
            let key = format!("fn {path} {}", function.name);
            let (line, lines) = (function.first_line, function.lines);
            if longs.get(&key).is_none_or(|other| other.lines < lines) {
                longs.insert(key, Long { path: path.to_owned(), line, lines, limit: FUNCTION_LINES });
            }
        }
    }
    longs
}

/// Line and size of every entry, by its key.
fn entries(tree: &Tree) -> BTreeMap<&str, (usize, usize)> {
    let lines = tree.text(PATH).unwrap_or_default().lines().enumerate();
    lines.filter_map(|(at, line)| entry(line).map(|(key, lines)| (key, (at + 1, lines)))).collect()
}

fn entry(line: &str) -> Option<(&str, usize)> {
    let (key, lines) = line.trim().rsplit_once(' ').filter(|_| !line.starts_with('#'))?;
    Some((key, lines.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "crates/a/src/lib.rs";

    fn tree(lines_of_f: usize, lines_before: usize, ratchet: &str) -> Tree {
        let body = "    ();\n".repeat(lines_of_f - 2);
        let text = format!("//! A.\n{}fn f() {{\n{body}}}\n", "// x\n".repeat(lines_before));
        Tree::of(&[(FILE, &text), (PATH, ratchet)])
    }

    fn messages(tree: &Tree) -> Vec<String> {
        let mut findings = Vec::new();
        check(tree, &Sources::read(tree), &mut findings);
        findings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn long_functions_and_files_are_found() {
        assert_eq!(messages(&tree(70, 100, "")), [""; 0]);
        assert_eq!(messages(&tree(71, 0, "")).len(), 1);
        assert!(messages(&tree(71, 0, ""))[0].starts_with("crates/a/src/lib.rs:2: 71 lines, at most 70"));
        assert!(messages(&tree(10, 490, ""))[0].starts_with("crates/a/src/lib.rs:1: 501 lines, at most 500"));
    }

    #[test]
    fn exceptions_may_only_shrink() {
        let listed = "# reason\nfn crates/a/src/lib.rs f 80\n";
        assert_eq!(messages(&tree(80, 0, listed)), [""; 0]);
        assert!(messages(&tree(81, 0, listed))[0].contains("81 lines, at most 80"));
        assert!(messages(&tree(79, 0, listed))[0].starts_with("xtask/ratchet.txt:2: "));
        assert!(messages(&tree(70, 0, listed))[0].contains("has become shorter"));
    }

    #[test]
    fn lowering_never_raises_or_adds() {
        let listed = "# reason\nfn crates/a/src/lib.rs f 80\n";
        let lowered = |lines| {
            let tree = tree(lines, 0, listed);
            lower(&tree, &Sources::read(&tree))
        };
        assert_eq!(lowered(75), "# reason\nfn crates/a/src/lib.rs f 75\n");
        assert_eq!(lowered(90), listed);
        assert_eq!(lowered(60), "# reason\n");
    }
}
