//! Crates that plan stay small: whoever changes one of them waits for the whole of it to be compiled (`cargo quick`).

use std::collections::BTreeMap;

use crate::finding::Finding;
use crate::source::Sources;

/// The crates between a statement's text and its pipelines.
const PLANNING: [&str; 19] = [
    "context",
    "grammar",
    "syntax",
    "functions",
    "aggregates",
    "nested",
    "scalars",
    "zones",
    "joins",
    "layout",
    "macros",
    "changes",
    "subqueries",
    "rules",
    "system",
    "tables",
    "files",
    "carve",
    "sql",
];

/// Lines of such a crate, tests apart.
const CRATE_LINES: usize = 6_000;

/// Reports crates of the planning layer that are too long.
pub(crate) fn check(sources: &Sources, findings: &mut Vec<Finding>) {
    let mut lines: BTreeMap<&str, usize> = BTreeMap::new();
    for (path, source) in sources.iter() {
        let name = path.strip_prefix("crates/").and_then(|rest| rest.split_once("/src/")).map(|(name, _)| name);
        if let Some(name) = name.and_then(|name| PLANNING.into_iter().find(|known| *known == name)) {
            *lines.entry(name).or_default() += source.production_lines();
        }
    }
    for (name, lines) in lines.into_iter().filter(|(_, lines)| *lines > CRATE_LINES) {
        let message = format!("{lines} lines without tests, at most {CRATE_LINES}: make a part a crate of its own");
        findings.push(Finding::new(&format!("crates/{name}/src/lib.rs"), 1, message));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::Tree;

    fn messages(files: &[(&str, &str)]) -> Vec<String> {
        let mut findings = Vec::new();
        check(&Sources::read(&Tree::of(files)), &mut findings);
        findings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn lines_of_a_crate_that_plans_are_counted_together() {
        let half = "fn f() {}\n".repeat(CRATE_LINES / 2);
        let (fits, longer) = (half.as_str(), format!("{half}fn g() {{}}\n"));
        assert_eq!(messages(&[("crates/rules/src/a.rs", fits), ("crates/rules/src/b/c.rs", fits)]), [""; 0]);
        assert_eq!(messages(&[("crates/cpu/src/a.rs", fits), ("crates/cpu/src/b.rs", &longer)]), [""; 0]);
        let found = messages(&[("crates/rules/src/a.rs", fits), ("crates/rules/src/b/c.rs", &longer)]);
        assert!(matches!(&found[..], [only] if only.contains("6001 lines")), "{found:?}");
    }
}
