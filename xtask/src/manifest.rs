//! What a Cargo.toml says about dependencies; as much of TOML as these files use.

use crate::finding::Finding;
use crate::tree::Tree;

/// The manifest of the workspace, which holds every version.
pub(crate) const ROOT: &str = "Cargo.toml";

/// One crate of the workspace.
#[derive(Debug)]
pub(crate) struct Manifest {
    /// Path of its Cargo.toml.
    pub(crate) path: String,
    /// Folder in the workspace, `crates/base`: how ARCHITECTURE.md calls it.
    pub(crate) folder: String,
    /// Package name, `forebay-base`.
    pub(crate) package: String,
    /// All dependencies, in order.
    pub(crate) dependencies: Vec<Dependency>,
}

/// One dependency line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    pub(crate) line: usize,
    /// Only for tests and examples.
    pub(crate) dev: bool,
    /// Version and features come from the root's `[workspace.dependencies]`.
    pub(crate) inherited: bool,
}

/// The crates of the workspace, and a finding for each manifest that leaves the house's lints out.
pub(crate) fn read_all(tree: &Tree, findings: &mut Vec<Finding>) -> Vec<Manifest> {
    let mut manifests = Vec::new();
    for (path, text) in tree.files() {
        let Some(folder) = path.strip_suffix("/Cargo.toml") else { continue };
        let Some(manifest) = read(path, folder, text).filter(|_| !is_apart(text)) else { continue };
        if !lines_of(text, "lints").any(|(_, key, value)| key == "workspace" && value == "true") {
            findings.push(Finding::new(
                path,
                1,
                "add `[lints]` with `workspace = true`: every crate has the house's lints",
            ));
        }
        manifests.push(manifest);
    }
    manifests
}

/// Whether a package is a workspace of its own, which the house's tables do not tell of.
fn is_apart(text: &str) -> bool {
    text.lines().any(|line| line.trim() == "[workspace]")
}

/// Line and name of every dependency that the root's text gives a version or a path.
pub(crate) fn versions(text: &str) -> impl Iterator<Item = (usize, String)> + '_ {
    lines_of(text, "workspace.dependencies").map(|(line, name, _)| (line, name))
}

/// `None` if the text has no `[package]` (the workspace itself).
fn read(path: &str, folder: &str, text: &str) -> Option<Manifest> {
    let package = lines_of(text, "package").find(|(_, key, _)| key == "name")?.2.trim_matches('"').to_owned();
    let mut dependencies = Vec::new();
    for (section, dev) in [("dependencies", false), ("build-dependencies", false), ("dev-dependencies", true)] {
        for (line, key, value) in lines_of(text, section) {
            let (name, workspace_key) = key.split_once('.').unwrap_or((&key, ""));
            let inherited = workspace_key == "workspace" || value.replace(' ', "").contains("workspace=true");
            dependencies.push(Dependency { name: name.to_owned(), line, dev, inherited });
        }
    }
    Some(Manifest { path: path.to_owned(), folder: folder.to_owned(), package, dependencies })
}

/// Line, key and value of the `key = value` lines in `[section]`, also under a `[target.….section]`.
fn lines_of<'a>(text: &'a str, section: &'a str) -> impl Iterator<Item = (usize, String, String)> + 'a {
    let mut inside = false;
    text.lines().enumerate().filter_map(move |(at, line)| {
        let line = line.trim();
        if let Some(head) = line.strip_prefix('[') {
            let head = head.trim_end_matches(']');
            inside = head == section || (head.starts_with("target.") && head.ends_with(&format!(".{section}")));
            return None;
        }
        let (key, value) = line.split_once('=').filter(|_| inside && !line.starts_with('#'))?;
        Some((at + 1, key.trim().trim_matches('"').to_owned(), value.trim().to_owned()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_sections_and_inheritance() {
        let text = "[package]\nname = \"forebay-a\"\n[dependencies]\nb.workspace = true\n# c = \"1\"\nd = { workspace = true, features = [\"x\"] }\n[target.'cfg(unix)'.dependencies]\ne = \"1\"\n[dev-dependencies]\nf.workspace = true\n";
        let manifest = read("a/Cargo.toml", "a", text).unwrap();
        let found: Vec<_> =
            manifest.dependencies.iter().map(|d| (d.name.as_str(), d.line, d.dev, d.inherited)).collect();
        assert_eq!(
            found,
            [("b", 4, false, true), ("d", 6, false, true), ("e", 8, false, false), ("f", 10, true, true)]
        );
    }

    #[test]
    fn lints_are_required() {
        let mut findings = Vec::new();
        let good = "[package]\nname = \"a\"\n[lints]\nworkspace = true\n";
        read_all(&Tree::of(&[("a/Cargo.toml", good), ("Cargo.toml", "[workspace]\n")]), &mut findings);
        assert_eq!(findings, []);
        read_all(&Tree::of(&[("a/Cargo.toml", "[package]\nname = \"a\"\n")]), &mut findings);
        assert_eq!(findings.len(), 1);
        let apart = "[package]\nname = \"a\"\n[workspace]\n[dependencies]\nb = \"1\"\n";
        assert!(read_all(&Tree::of(&[("a/Cargo.toml", apart)]), &mut Vec::new()).is_empty());
    }
}
