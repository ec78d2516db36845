//! ARCHITECTURE.md against the code: the crates with their layers and arrows, and the outside dependencies with theirs.
//!
//! The table `crates` has the columns layer, crate (`crates/base`), uses (`base`, …). An arrow in parentheses is granted
//! for later and not drawn yet. The table `dependencies` has the columns crate, licence, crates, purpose; the crate
//! `tests` stands for `[dev-dependencies]` of any crate.

use std::collections::{BTreeMap, BTreeSet};

use crate::finding::Finding;
use crate::manifest::{self, Dependency, Manifest};
use crate::table::{self, Row};
use crate::tree::Tree;

/// The document that is checked.
const PATH: &str = "ARCHITECTURE.md";

/// One row of the table `crates`.
struct Member {
    line: usize,
    layer: u32,
    folder: String,
    uses: BTreeSet<String>,
}

/// Checks both tables against every Cargo.toml.
pub(crate) fn check(tree: &Tree, findings: &mut Vec<Finding>) {
    let Some(text) = tree.text(PATH) else {
        findings.push(Finding::new(PATH, 1, "is missing: it holds the tables of crates and dependencies"));
        return;
    };
    let manifests = manifest::read_all(tree, findings);
    let members = read_members(text, findings);
    check_members(&members, &manifests, findings);
    check_layers(&members, &manifests, findings);
    check_outside(text, &manifests, findings);
    check_versions(tree, &manifests, findings);
}

/// `crates/base` → `base`.
fn short(folder: &str) -> &str {
    folder.rsplit('/').next().unwrap_or(folder)
}

/// `forebay-base` → `base`; `None` for code from outside.
fn member_of_package<'a>(package: &str, manifests: &'a [Manifest]) -> Option<&'a str> {
    manifests.iter().find(|manifest| manifest.package == package).map(|manifest| short(&manifest.folder))
}

fn read_members(text: &str, findings: &mut Vec<Finding>) -> Vec<Member> {
    let rows = table::rows(text, "crates");
    if rows.is_empty() {
        findings.push(Finding::new(PATH, 1, "has no table marked `<!-- table: crates -->`"));
    }
    let mut members = Vec::new();
    for Row { line, cells } in rows {
        let parsed = match &cells[..] {
            [layer, member, uses, ..] => {
                layer.parse().ok().zip(table::quoted(member).first().copied()).map(|(layer, folder)| {
                    let uses = uses.split(',').filter(|name| !name.contains('('));
                    let uses = uses.flat_map(table::quoted).map(str::to_owned).collect();
                    Member { line, layer, folder: folder.to_owned(), uses }
                })
            }
            _ => None,
        };
        match parsed {
            Some(member) => members.push(member),
            None => {
                findings.push(Finding::new(PATH, line, "write the row as | layer | `folder` | `crate`, `crate` | …"))
            }
        }
    }
    members
}

/// Every crate has a row, every row a crate, and the arrows are those of the Cargo.toml.
fn check_members(members: &[Member], manifests: &[Manifest], findings: &mut Vec<Finding>) {
    for manifest in manifests.iter().filter(|manifest| members.iter().all(|member| member.folder != manifest.folder)) {
        let message = format!("add a row for `{}` to the table of crates", manifest.folder);
        findings.push(Finding::new(PATH, 1, message));
    }
    for member in members {
        let Some(manifest) = manifests.iter().find(|manifest| manifest.folder == member.folder) else {
            let message = format!("there is no crate in `{}`: remove the row", member.folder);
            findings.push(Finding::new(PATH, member.line, message));
            continue;
        };
        let mut drawn = BTreeSet::new();
        for dependency in manifest.dependencies.iter().filter(|dependency| !dependency.dev) {
            let Some(target) = member_of_package(&dependency.name, manifests) else { continue };
            drawn.insert(target.to_owned());
            if !member.uses.contains(target) {
                let message = format!(
                    "`{}` may not use `{target}`: drop it, or draw the arrow in {PATH} with its reason",
                    member.folder
                );
                findings.push(Finding::new(&manifest.path, dependency.line, message));
            }
        }
        for target in member.uses.difference(&drawn) {
            let message =
                format!("`{}` does not use `{target}`: remove the arrow, or put it in parentheses", member.folder);
            findings.push(Finding::new(PATH, member.line, message));
        }
    }
}

/// Arrows go down a layer, those for tests too.
fn check_layers(members: &[Member], manifests: &[Manifest], findings: &mut Vec<Finding>) {
    let layers: BTreeMap<&str, u32> = members.iter().map(|member| (short(&member.folder), member.layer)).collect();
    for manifest in manifests {
        let Some(own) = layers.get(short(&manifest.folder)) else { continue };
        for dependency in &manifest.dependencies {
            let target = member_of_package(&dependency.name, manifests).and_then(|member| layers.get_key_value(member));
            if let Some((target, layer)) = target.filter(|(_, layer)| *layer >= own) {
                let message = format!(
                    "`{}` is in layer {own} and `{target}` in layer {layer}: arrows only go down",
                    short(&manifest.folder)
                );
                findings.push(Finding::new(&manifest.path, dependency.line, message));
            }
        }
    }
}

/// Outside code is listed, each in its crates, with versions in the root alone.
fn check_outside(text: &str, manifests: &[Manifest], findings: &mut Vec<Finding>) {
    let rows = table::rows(text, "dependencies");
    if rows.is_empty() {
        findings.push(Finding::new(PATH, 1, "has no table marked `<!-- table: dependencies -->`"));
    }
    let mut granted: BTreeMap<(String, String), usize> = BTreeMap::new();
    for Row { line, cells } in &rows {
        let [name, _, members, ..] = &cells[..] else { continue };
        for name in table::quoted(name) {
            for member in table::quoted(members) {
                granted.insert((name.to_owned(), member.to_owned()), *line);
            }
        }
    }
    let mut used = BTreeSet::new();
    for manifest in manifests {
        for Dependency { name, line, dev, inherited } in &manifest.dependencies {
            if !inherited {
                let message = format!("write `{name}.workspace = true`: versions stand in the root Cargo.toml alone");
                findings.push(Finding::new(&manifest.path, *line, message));
            }
            if member_of_package(name, manifests).is_some() {
                continue;
            }
            let member = if *dev { "tests" } else { short(&manifest.folder) };
            let pair = (name.clone(), member.to_owned());
            let also_here = *dev && granted.contains_key(&(name.clone(), short(&manifest.folder).to_owned()));
            if !granted.contains_key(&pair) && !also_here {
                let message = format!(
                    "`{name}` has no place in `{member}`: use it in its own crate, or list it under \"Dependencies\" in {PATH}"
                );
                findings.push(Finding::new(&manifest.path, *line, message));
            }
            used.insert(pair);
        }
    }
    for ((name, member), line) in granted.iter().filter(|(pair, _)| !used.contains(*pair)) {
        findings.push(Finding::new(PATH, *line, format!("`{member}` does not use `{name}`: remove it from the row")));
    }
}

/// The root lists no version that no crate uses.
fn check_versions(tree: &Tree, manifests: &[Manifest], findings: &mut Vec<Finding>) {
    let used: BTreeSet<&str> = manifests
        .iter()
        .flat_map(|manifest| &manifest.dependencies)
        .map(|dependency| dependency.name.as_str())
        .collect();
    for (line, name) in manifest::versions(tree.text(manifest::ROOT).unwrap_or_default()) {
        // A crate that nothing uses yet is listed like the others.
        if !used.contains(name.as_str()) && member_of_package(&name, manifests).is_none() {
            findings.push(Finding::new(manifest::ROOT, line, format!("no crate uses `{name}`: remove the line")));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUSE: &str = "<!-- table: crates -->\n| Layer | Crate | Uses |\n|---|---|---|\n| 1 | `crates/top` | `base` |\n| 0 | `crates/base` | |\n\n<!-- table: dependencies -->\n| Crate | Licence | Crates | Why |\n|---|---|---|---|\n| `redb` | MIT | `top` | storage |\n";
    const BASE: &str = "[package]\nname = \"forebay-base\"\n[lints]\nworkspace = true\n[dependencies]\n";
    const TOP: &str = "[package]\nname = \"forebay-top\"\n[lints]\nworkspace = true\n[dependencies]\nredb.workspace = true\nforebay-base.workspace = true\n";

    /// The messages for a house of two crates.
    fn messages(house: &str, base: &str, top: &str) -> Vec<String> {
        messages_with_root("", house, base, top)
    }

    fn messages_with_root(root: &str, house: &str, base: &str, top: &str) -> Vec<String> {
        let crates = [("crates/base/Cargo.toml", base), ("crates/top/Cargo.toml", top)];
        let tree = Tree::of(&[&[(PATH, house), (manifest::ROOT, root)], &crates[..]].concat());
        let mut findings = Vec::new();
        check(&tree, &mut findings);
        findings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_tidy_house_has_no_findings() {
        assert_eq!(messages(HOUSE, BASE, TOP), [""; 0]);
        assert_eq!(
            messages(&HOUSE.replace("| 0 | `crates/base` | |", "| 0 | `crates/base` | (`top`) |"), BASE, TOP),
            [""; 0]
        );
    }

    #[track_caller]
    fn one(found: &[String], expected: &str) {
        assert!(found.iter().any(|message| message.contains(expected)), "{expected} not in {found:?}");
    }

    #[test]
    fn arrows_are_exact_and_go_down() {
        let upward = format!("{BASE}forebay-top.workspace = true\n");
        one(&messages(HOUSE, &upward, TOP), "`crates/base` may not use `top`");
        one(&messages(HOUSE, &upward, TOP), "arrows only go down");
        let for_tests = format!("{BASE}[dev-dependencies]\nforebay-top.workspace = true\n");
        one(&messages(HOUSE, &for_tests, TOP), "arrows only go down");
        one(&messages(HOUSE, BASE, &TOP.replace("forebay-base.workspace = true\n", "")), "does not use `base`");
        let reserved = HOUSE.replace("`crates/top` | `base`", "`crates/top` | (`base`)");
        one(&messages(&reserved, BASE, TOP), "may not use `base`");
    }

    #[test]
    fn every_crate_has_a_row_and_every_row_a_crate() {
        one(&messages(&HOUSE.replace("| 0 | `crates/base` | |\n", ""), BASE, TOP), "add a row for `crates/base`");
        one(
            &messages(&HOUSE.replace("| 0 |", "| 0 | `crates/gone` | |\n| 0 |"), BASE, TOP),
            "no crate in `crates/gone`",
        );
        one(&messages(&HOUSE.replace("| 0 |", "| zero |"), BASE, TOP), "write the row as");
        one(&messages("", BASE, TOP), "no table marked `<!-- table: crates -->`");
    }

    #[test]
    fn every_version_of_the_root_is_used() {
        let root = "[workspace.dependencies]\nredb = \"4\"\nforebay-top = { path = \"crates/top\" }\n";
        assert_eq!(messages_with_root(root, HOUSE, BASE, TOP), [""; 0]);
        let unused = format!("{root}rand = {{ version = \"0.10\", features = [\n    \"std\",\n] }}\n");
        one(&messages_with_root(&unused, HOUSE, BASE, TOP), "Cargo.toml:4: no crate uses `rand`");
    }

    #[test]
    fn outside_code_stays_in_its_room() {
        let spread = format!("{BASE}redb.workspace = true\n");
        one(&messages(HOUSE, &spread, TOP), "`redb` has no place in `base`");
        one(
            &messages(HOUSE, BASE, &TOP.replace("redb.workspace = true", "redb = \"4\"")),
            "write `redb.workspace = true`",
        );
        one(&messages(HOUSE, BASE, &TOP.replace("redb.workspace = true\n", "")), "`top` does not use `redb`");
        let test_only = format!("{BASE}[dev-dependencies]\nproptest.workspace = true\n");
        one(&messages(HOUSE, &test_only, TOP), "`proptest` has no place in `tests`");
    }
}
