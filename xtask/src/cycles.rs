//! Modules of a crate use each other in one direction only. A module is a file or folder directly below `src/`; one that
//! belongs to a cycle can be neither understood nor tested without the others.
//!
//! Seen are paths outside of tests that begin with `crate::`, or with as many `super::` as lead to the crate. What the root
//! re-exports counts for the module that it comes from, what the root defines itself for the root. Not seen are methods: an
//! `impl` may lie above the type that it belongs to.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::finding::Finding;
use crate::source::{Source, Sources, words};
use crate::tree::line_of;

/// Cycles that there are: the crate's folder, the modules, and why they are not apart yet.
const TOLERATED: &[(&str, &[&str], &str)] = &[
    (
        "crates/block",
        &["encode", "encoding", "header", "parse"],
        "an encoding is one file with its header, writer and parser, which are chosen by the closed list of encodings",
    ),
    (
        "crates/engine",
        &["accelerator", "chunks", "floors", "memory", "read_ahead", "run", "timeline"],
        "`Engine` owns pools, devices and recorders that take it as an argument",
    ),
    (
        "crates/store",
        &[
            "catalog",
            "checkpoint",
            "commit_log",
            "data_directories",
            "fact",
            "hot",
            "leftovers",
            "manifest",
            "options",
            "projection",
            "recovery",
            "redo_record",
            "rows",
            "store",
            "striped",
            "table_snapshot",
            "transaction",
        ],
        "`Table` hands its rows of the manifest on, and opening checks directories against them",
    ),
];

/// How the root of a crate is called among its modules.
const ROOT: &str = "the root";

/// Who uses whom in a crate, with the first place of each.
type Uses = BTreeMap<String, BTreeMap<String, (String, usize)>>;

/// Checks every crate.
pub(crate) fn check(sources: &Sources, findings: &mut Vec<Finding>) {
    check_against(TOLERATED, sources, findings);
}

fn check_against(tolerated: &[(&str, &[&str], &str)], sources: &Sources, findings: &mut Vec<Finding>) {
    let mut crates: BTreeMap<&str, Vec<(&str, &Source)>> = BTreeMap::new();
    for (path, source) in sources.iter() {
        if let Some((folder, inner)) = path.split_once("/src/") {
            crates.entry(folder).or_default().push((inner, source));
        }
    }
    for (folder, files) in &crates {
        let uses = uses(folder, files);
        let cycles = cycles(&uses);
        let allowed: Vec<BTreeSet<&str>> = tolerated
            .iter()
            .filter(|(own, ..)| own == folder)
            .map(|(_, modules, _)| modules.iter().copied().collect())
            .collect();
        for cycle in &cycles {
            if !allowed.contains(cycle) {
                findings.push(finding(&uses, cycle));
            }
        }
        for modules in allowed.iter().filter(|modules| !cycles.contains(modules)) {
            let names: Vec<&str> = modules.iter().copied().collect();
            let message = format!("{folder}: {} are no cycle as listed any more: correct the list", names.join(", "));
            findings.push(Finding::new("xtask/src/cycles.rs", 1, message));
        }
    }
}

/// Who uses whom in the crate in `folder`, whose files lie below its `src`.
fn uses(folder: &str, files: &[(&str, &Source)]) -> Uses {
    let is_root = |file: &str| matches!(file, "lib.rs" | "main.rs");
    let modules: BTreeSet<&str> =
        files.iter().filter(|(file, _)| !is_root(file)).map(|(file, _)| first(file)).collect();
    let mut uses = Uses::new();
    let mut add = |from: &str, to: &str, file: &str, line: usize| {
        if from != to {
            let place = (format!("{folder}/src/{file}"), line);
            uses.entry(from.to_owned()).or_default().entry(to.to_owned()).or_insert(place);
        }
    };
    let mut exported: BTreeMap<String, String> = BTreeMap::new();
    for (file, source) in files.iter().filter(|(file, _)| is_root(file)) {
        let (exports, rest) = exports(&source.production);
        exported.extend(exports);
        for module in &modules {
            let used = words(&rest, module).find(|at| rest[at + module.len()..].starts_with("::"));
            if let Some(at) = used {
                add(ROOT, module, file, line_of(&rest, at));
            }
        }
    }
    for (file, source) in files.iter().filter(|(file, _)| !is_root(file)) {
        for (name, is_certain, at) in names_in_root(&source.production, depth(file)) {
            let line = line_of(&source.production, at);
            match (modules.get(name.as_str()), exported.get(&name)) {
                (Some(module), _) => add(first(file), module, file, line),
                (None, Some(module)) if modules.contains(module.as_str()) => add(first(file), module, file, line),
                (None, None) if is_certain => add(first(file), ROOT, file, line),
                _ => {}
            }
        }
    }
    uses
}

/// `run/times.rs` → `run`, `run.rs` → `run`.
fn first(file: &str) -> &str {
    file.split('/').next().unwrap_or(file).trim_end_matches(".rs")
}

/// How many `super` lead from the module in `file` to the crate.
fn depth(file: &str) -> usize {
    file.trim_end_matches("/mod.rs").split('/').count()
}

/// The names that a root re-exports, with the modules that they come from, and the rest of its text.
fn exports(code: &str) -> (BTreeMap<String, String>, String) {
    let (mut exported, mut rest) = (BTreeMap::new(), code.to_owned());
    for start in words(code, "use") {
        let line_start = code[..start].rfind('\n').map_or(0, |at| at + 1);
        let is_public = code[line_start..start].trim_start().starts_with("pub");
        let Some(end) = code[start..].find(';').map(|length| start + length).filter(|_| is_public) else { continue };
        for path in expand(&code[start + "use".len()..end]) {
            let (path, alias) = path.split_once(" as ").unwrap_or((&path, ""));
            let segments: Vec<&str> = path.split("::").filter(|part| !matches!(*part, "crate" | "self")).collect();
            if let [module, .., name] = segments[..] {
                exported.insert(if alias.is_empty() { name } else { alias }.to_owned(), module.to_owned());
            }
        }
        rest.replace_range(start..end, &" ".repeat(end - start));
    }
    (exported, rest)
}

/// The names directly below the crate that `code` mentions, with the offset: whether it surely is one, which `crate::` says;
/// `super::` may stand in a module of its own in the file.
fn names_in_root(code: &str, depth: usize) -> Vec<(String, bool, usize)> {
    let mut found = Vec::new();
    for at in words(code, "crate") {
        if let Some(tail) = code[at + "crate".len()..].strip_prefix("::") {
            found.extend(first_names(tail).into_iter().map(|name| (name, true, at)));
        }
    }
    for at in words(code, "super").filter(|at| !code[..*at].ends_with("::")) {
        let mut tail = &code[at..];
        let mut count = 0;
        while let Some(next) = tail.strip_prefix("super::") {
            (tail, count) = (next, count + 1);
        }
        if count == depth {
            found.extend(first_names(tail).into_iter().map(|name| (name, false, at)));
        }
    }
    found
}

/// The first names of the path, or of the paths in braces, that `text` begins with.
fn first_names(text: &str) -> Vec<String> {
    let end =
        if text.starts_with('{') { closing(text) } else { text.find(|c: char| !is_name(c)).unwrap_or(text.len()) };
    let names = expand(&text[..end]).into_iter();
    names
        .map(|path| path.chars().take_while(|c| is_name(*c)).collect())
        .filter(|name: &String| !name.is_empty())
        .collect()
}

fn is_name(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

/// Past the brace that closes the one at the start.
fn closing(text: &str) -> usize {
    let mut depth = 0_i32;
    for (at, byte) in text.bytes().enumerate() {
        depth += i32::from(byte == b'{') - i32::from(byte == b'}');
        if depth == 0 {
            return at + 1;
        }
    }
    text.len()
}

/// The paths that a `use` with braces stands for: `a::{b, c::{d}}` → `a::b`, `a::c::d`.
fn expand(tree: &str) -> Vec<String> {
    let tree = tree.trim();
    let Some(open) = tree.find('{') else {
        return if tree.is_empty() { Vec::new() } else { vec![tree.to_owned()] };
    };
    let (prefix, group) = tree.split_at(open);
    let inside = group[1..].strip_suffix('}').unwrap_or(&group[1..]);
    let (mut depth, mut start) = (0_i32, 0);
    let mut parts = Vec::new();
    for (at, byte) in inside.bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' => depth -= 1,
            b',' if depth == 0 => {
                parts.push(&inside[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&inside[start..]);
    parts.into_iter().flat_map(expand).map(|path| format!("{prefix}{path}")).collect()
}

/// The sets of modules that reach each other, none of one module.
fn cycles(uses: &Uses) -> Vec<BTreeSet<&str>> {
    let reached: BTreeMap<&str, BTreeSet<&str>> =
        uses.keys().map(|module| (module.as_str(), reach(uses, module))).collect();
    let mut cycles: Vec<BTreeSet<&str>> = Vec::new();
    for (module, others) in &reached {
        let back = |other: &&&str| reached.get(**other).is_some_and(|reached| reached.contains(module));
        let cycle: BTreeSet<&str> = others.iter().filter(back).copied().collect();
        if cycle.len() > 1 && !cycles.contains(&cycle) {
            cycles.push(cycle);
        }
    }
    cycles
}

/// The modules that one uses, directly or not.
fn reach<'a>(uses: &'a Uses, from: &str) -> BTreeSet<&'a str> {
    let (mut reached, mut open) = (BTreeSet::new(), vec![from.to_owned()]);
    while let Some(module) = open.pop() {
        for next in uses.get(&module).into_iter().flat_map(BTreeMap::keys) {
            if reached.insert(next.as_str()) {
                open.push(next.clone());
            }
        }
    }
    reached
}

/// What to do about a cycle, at the first step of a shortest way around.
fn finding(uses: &Uses, cycle: &BTreeSet<&str>) -> Finding {
    let way = cycle.iter().map(|module| way_around(uses, cycle, module)).min_by_key(Vec::len).unwrap_or_default();
    let place = way.first().zip(way.get(1)).and_then(|(from, to)| uses.get(*from)?.get(*to));
    let (path, line) = place.cloned().unwrap_or_default();
    let names: Vec<&str> = cycle.iter().copied().collect();
    let message = format!(
        "the modules {} use each other ({}): move what they share into a module that they all use",
        names.join(", "),
        way.join(" → ")
    );
    Finding::new(&path, line, message)
}

/// The shortest way within a cycle from a module back to itself.
fn way_around<'a>(uses: &'a Uses, cycle: &BTreeSet<&'a str>, start: &'a str) -> Vec<&'a str> {
    let mut before: BTreeMap<&str, &str> = BTreeMap::new();
    let mut open = VecDeque::from([start]);
    while let Some(module) = open.pop_front() {
        for next in uses.get(module).into_iter().flat_map(BTreeMap::keys).filter(|next| cycle.contains(next.as_str())) {
            if next == start {
                let mut way = vec![start, module];
                while let Some(previous) = before.get(way[way.len() - 1]) {
                    way.push(previous);
                }
                way.reverse();
                return way;
            }
            if !before.contains_key(next.as_str()) {
                before.insert(next, module);
                open.push_back(next);
            }
        }
    }
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::Tree;

    fn messages(tolerated: &[(&str, &[&str], &str)], files: &[(&str, &str)]) -> Vec<String> {
        let mut findings = Vec::new();
        check_against(tolerated, &Sources::read(&Tree::of(files)), &mut findings);
        findings.iter().map(ToString::to_string).collect()
    }

    #[track_caller]
    fn check_way(files: &[(&str, &str)], expect: Option<&str>) {
        let found = messages(&[], files);
        match expect {
            None => assert_eq!(found, [""; 0]),
            Some(way) => assert!(matches!(&found[..], [only] if only.contains(way)), "{way} not in {found:?}"),
        }
    }

    #[test]
    fn cycles_are_found_however_they_are_written() {
        let b = ("c/src/b.rs", "use crate::a::A;");
        check_way(&[("c/src/a.rs", "use crate::{d, b::{B, C}};"), b, ("c/src/d.rs", "")], Some("(a → b → a)"));
        check_way(&[("c/src/a.rs", "fn f() { super::b::g() }"), b], Some("(a → b → a)"));
        check_way(&[("c/src/a/x.rs", "use super::super::b;"), ("c/src/a.rs", "mod x;"), b], Some("(a → b → a)"));
        check_way(
            &[("c/src/lib.rs", "mod a;\npub use b::{B as X};"), ("c/src/a.rs", "use crate::X;"), b],
            Some("(a → b → a)"),
        );
        let ring = [("c/src/a.rs", "use crate::b;"), ("c/src/b.rs", "use crate::d;"), ("c/src/d.rs", "use crate::a;")];
        check_way(&ring, Some("c/src/a.rs:1: the modules a, b, d use each other (a → b → d → a)"));
        let root = [("c/src/main.rs", "mod a;\nstruct S;\nfn main() { a::f() }"), ("c/src/a.rs", "use crate::S;")];
        check_way(&root, Some("(a → the root → a)"));
    }

    #[test]
    fn what_goes_one_way_or_is_for_tests_is_right() {
        let b = ("c/src/b.rs", "//! Not crate::a.\n#[cfg(test)]\nmod tests {\n use crate::a::A;\n}");
        check_way(&[("c/src/a.rs", "use crate::b::B;"), b, ("e/src/b.rs", "use crate::a;")], None);
        check_way(&[("c/src/a.rs", "mod x;"), ("c/src/a/x.rs", "use super::b;\nuse crate::a::y;")], None);
        check_way(&[("c/src/lib.rs", "mod a;\nstruct S;\npub use a::A;"), ("c/src/a.rs", "use crate::S;")], None);
    }

    #[test]
    fn tolerated_cycles_are_as_they_are_listed() {
        let files = [("c/src/a.rs", "use crate::b;"), ("c/src/b.rs", "use crate::a;"), ("c/src/d.rs", "")];
        assert_eq!(messages(&[("c", &["a", "b"], "")], &files), [""; 0]);
        let found = messages(&[("c", &["a", "b", "d"], "")], &files);
        assert!(found.len() == 2 && found.iter().any(|message| message.contains("correct the list")), "{found:?}");
    }
}
