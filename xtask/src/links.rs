//! Relative links in Markdown lead to a file of the repository, and their anchors to a heading in it.

use crate::finding::Finding;
use crate::tree::Tree;

/// Checks `[text](target)` in every Markdown file, outside of code.
pub(crate) fn check(tree: &Tree, findings: &mut Vec<Finding>) {
    for (path, text) in tree.files().iter().filter(|(path, _)| path.ends_with(".md")) {
        for (line, target) in targets(text) {
            if let Some(message) = broken(tree, path, &target) {
                findings.push(Finding::new(path, line, message));
            }
        }
    }
}

/// Line and target of each link.
fn targets(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (line, prose) in prose_lines(text) {
        for (at, _) in prose.match_indices("](") {
            if let Some((target, _)) = prose[at + 2..].split_once(')') {
                found.push((line, target.to_owned()));
            }
        }
    }
    found
}

/// Lines outside of fenced code, with inline code taken out.
fn prose_lines(text: &str) -> Vec<(usize, String)> {
    let mut fenced = false;
    let mut lines = Vec::new();
    for (at, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            lines.push((at + 1, line.split('`').step_by(2).collect::<Vec<_>>().join("`")));
        }
    }
    lines
}

/// Why `target` in `path` leads nowhere.
fn broken(tree: &Tree, path: &str, target: &str) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
    let file = if file.is_empty() { Some(path.to_owned()) } else { resolve(path, file) };
    let Some(file) = file.filter(|file| tree.exists(file)) else {
        return Some(format!("the link to {target} leads to no file of the repository"));
    };
    let headings = tree.text(&file).unwrap_or_default();
    let known = prose_headings(headings).any(|heading| slug(&heading) == anchor);
    (!anchor.is_empty() && file.ends_with(".md") && !known).then(|| format!("{file} has no heading for #{anchor}"))
}

fn prose_headings(text: &str) -> impl Iterator<Item = String> {
    let mut fenced = false;
    text.lines().filter_map(move |line| {
        fenced ^= line.trim_start().starts_with("```");
        let heading = line.strip_prefix('#').filter(|_| !fenced)?;
        Some(heading.trim_start_matches('#').trim().to_owned())
    })
}

/// A heading's anchor as the usual renderers write it.
fn slug(heading: &str) -> String {
    let kept = heading.to_lowercase();
    kept.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c)).map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// `target` seen from the folder of `path`; `None` if it leaves the repository.
fn resolve(path: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = path.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(text: &str) -> Vec<String> {
        let tree = Tree::of(&[("docs/a.md", text), ("docs/b.md", "# The `b` file\n"), ("src/c.rs", "")]);
        let mut findings = Vec::new();
        check(&tree, &mut findings);
        findings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn good_links() {
        assert_eq!(messages("# A b\n[x](b.md) [y](../src/c.rs) [z](#a-b) [w](b.md#the-b-file) [v](../src)\n"), [""; 0]);
        assert_eq!(messages("[x](https://example.org/none)\n```\n[x](none.md)\n```\n`[x](none.md)`\n"), [""; 0]);
    }

    #[test]
    fn broken_links() {
        assert_eq!(messages("\n[x](none.md)"), ["docs/a.md:2: the link to none.md leads to no file of the repository"]);
        assert_eq!(messages("[x](../../b.md)").len(), 1);
        assert_eq!(messages("[x](b.md#none)"), ["docs/a.md:1: docs/b.md has no heading for #none"]);
        assert_eq!(messages("[x](#none)").len(), 1);
    }
}
