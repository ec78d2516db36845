//! Chores of the workspace: `cargo xtask tidy` holds the code to the rules that no compiler checks.
//!
//! Invariants: the standard library only, so that it builds in a second; reads tracked and new files, and writes
//! nothing but `xtask/ratchet.txt`, and that only with `--ratchet`.
#![forbid(unsafe_code)]

mod architecture;
mod arms;
mod crate_sizes;
mod cycles;
mod finding;
mod links;
mod manifest;
mod ratchet;
mod source;
mod table;
mod tree;
mod unsafety;
mod words;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use finding::Finding;
use source::Sources;
use tree::Tree;

/// What `cargo xtask` without a known command prints.
const USAGE: &str = "usage: cargo xtask tidy [--ratchet]

  tidy            check the rules of the house; prints file:line and what to do
  tidy --ratchet  also lower the entries of xtask/ratchet.txt to today's sizes";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match words[..] {
        ["tidy"] => tidy(false),
        ["tidy", "--ratchet"] => tidy(true),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("xtask: {message}");
            ExitCode::from(2)
        }
    }
}

/// Runs every check over the workspace and prints what it finds; returns the number of findings.
fn tidy(lower_ratchet: bool) -> Result<usize, String> {
    let started = Instant::now();
    let tree = Tree::load(&workspace_root()?)?;
    let mut findings = check_all(&tree);
    if lower_ratchet {
        let lowered = ratchet::lower(&tree, &Sources::read(&tree));
        if tree.text(ratchet::PATH) != Some(lowered.as_str()) {
            tree.write(ratchet::PATH, &lowered)?;
            println!("tidy: {} rewritten", ratchet::PATH);
        }
        findings = check_all(&Tree::load(tree.root())?);
    }
    for finding in &findings {
        println!("{finding}");
    }
    let elapsed_ms = started.elapsed().as_millis();
    println!("tidy: {} files, {} findings, {elapsed_ms} ms", tree.files().len(), findings.len());
    Ok(findings.len())
}

/// The list of rules; each check is one function from the tree to findings.
fn check_all(tree: &Tree) -> Vec<Finding> {
    let sources = Sources::read(tree);
    let mut findings = Vec::new();
    architecture::check(tree, &mut findings);
    arms::check(&sources, &mut findings);
    crate_sizes::check(&sources, &mut findings);
    cycles::check(&sources, &mut findings);
    ratchet::check(tree, &sources, &mut findings);
    words::check_heads(&sources, &mut findings);
    words::check_names(tree, &sources, &mut findings);
    words::check_leftovers(tree, &sources, &mut findings);
    words::check_machine_paths(tree, &mut findings);
    words::check_limits(tree, &mut findings);
    unsafety::check(tree, &sources, &mut findings);
    links::check(tree, &mut findings);
    findings.sort();
    findings.dedup();
    findings
}

/// The folder above this crate: cargo names the crate's folder when it runs the program.
fn workspace_root() -> Result<PathBuf, String> {
    let own = std::env::var("CARGO_MANIFEST_DIR").map_err(|_| "run it as `cargo xtask`".to_owned())?;
    let parent = PathBuf::from(&own).parent().map(PathBuf::from);
    parent.ok_or_else(|| format!("{own} has no folder above it"))
}
