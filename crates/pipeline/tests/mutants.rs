//! Programs with small changes: those that the verifier accepts run without a breach that it should have seen.

use std::cell::Cell;
use std::path::Path;

use forebay_base::ErrorKind;
use forebay_pipeline::case::Case;
use forebay_pipeline::ir::{Program, Source};
use forebay_pipeline::verify;
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::TestRunner;

/// Words that can stand for one another.
const CLASSES: [&[&str]; 8] = [
    &["add", "sub", "mul", "div", "rem", "div_rounded"],
    &["eq", "ne", "lt", "le", "gt", "ge", "and", "or", "coalesce"],
    &["neg", "not", "is_null", "convert", "year", "month"],
    &["inner", "left", "semi", "anti"],
    &["sum", "sum_wide", "sum_fitting", "min", "max", "first", "count"],
    &["i64", "i128", "f64", "bool", "bytes"],
    &["matched", "unmatched"],
    &["true", "false", "null", "0", "1"],
];

/// What only rows can show: the verifier accepts programs that break these promises.
const PROMISES: [&str; 3] = ["was said to fit", "is used where its guard is not true", "an operand is undefined"];

fn cases() -> Vec<Case> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/pipelines");
    let mut paths: Vec<_> = std::fs::read_dir(&folder)
        .expect("tests/pipelines lies beside the crates")
        .map(|entry| entry.expect("the folder is read").path())
        .collect();
    paths.sort();
    let read = |path| Case::read(&std::fs::read_to_string(path).expect("a file of the repository is read"));
    paths.into_iter().flat_map(|path| read(path).expect("cases")).collect()
}

/// The words of a text and what lies between them, in turn.
fn pieces(text: &str) -> Vec<String> {
    let mut pieces: Vec<String> = Vec::new();
    let mut in_word = false;
    for character in text.chars() {
        let is_word = character.is_ascii_alphanumeric() || character == '_';
        match pieces.last_mut() {
            Some(piece) if is_word == in_word => piece.push(character),
            _ => pieces.push(character.to_string()),
        }
        in_word = is_word;
    }
    pieces
}

fn is_register(word: &str) -> bool {
    word.strip_prefix('r').is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Changes one word that can be changed, or whether a type holds NULL.
fn mutate(text: &str, at: Index, to: Index) -> String {
    let mut pieces = pieces(text);
    let registers: Vec<String> = pieces.iter().filter(|piece| is_register(piece)).cloned().collect();
    let class = |piece: &str| CLASSES.into_iter().find(|class| class.contains(&piece));
    let can_change: Vec<usize> = (0..pieces.len())
        .filter(|at| is_register(&pieces[*at]) || class(&pieces[*at]).is_some() || pieces[*at].starts_with('?'))
        .collect();
    if can_change.is_empty() {
        return text.to_owned();
    }
    let position = can_change[at.index(can_change.len())];
    let piece = &pieces[position];
    let changed = match class(piece) {
        _ if is_register(piece) => registers[to.index(registers.len())].clone(),
        Some(class) => {
            let null = if CLASSES[5].contains(&piece.as_str()) && to.index(2) == 0 { "?" } else { "" };
            format!("{}{null}", class[to.index(class.len())])
        }
        None => piece[1..].to_owned(),
    };
    pieces[position] = changed;
    pieces.concat()
}

/// What a program loads: the tables of a case hold what the original does.
fn tables(program: &Program) -> Vec<&Source> {
    program
        .pipelines
        .iter()
        .map(|pipeline| &pipeline.source)
        .filter(|source| matches!(source, Source::Table(_)))
        .collect()
}

#[test]
fn what_the_verifier_accepts_keeps_its_types() {
    let cases = cases();
    let accepted = Cell::new(0);
    let mutations = proptest::collection::vec(any::<(Index, Index)>(), 1..4);
    let mut runner =
        TestRunner::new(ProptestConfig { cases: 20_000, failure_persistence: None, ..ProptestConfig::default() });
    let outcome = runner.run(&(any::<Index>(), mutations), |(which, mutations)| {
        let original = &cases[which.index(cases.len())];
        let text = original.program.to_string();
        let text = mutations.into_iter().fold(text, |text, (at, to)| mutate(&text, at, to));
        let Ok(program) = Program::parse(&text) else { return Ok(()) };
        if verify(&program).is_err() || tables(&program) != tables(&original.program) {
            return Ok(());
        }
        accepted.set(accepted.get() + 1);
        let mutant = Case { program, ..original.clone() };
        if let Err(error) = mutant.interpret() {
            let message = error.to_string();
            let is_known = error.kind() != ErrorKind::Internal || PROMISES.iter().any(|known| message.contains(known));
            prop_assert!(is_known, "{message}\n{text}");
        }
        Ok(())
    });
    outcome.unwrap_or_else(|failure| panic!("{failure}"));
    assert!(accepted.get() > 1_000, "only {} mutants were accepted", accepted.get());
}
