//! What TAB offers: keywords, tables, columns, functions, file names inside quotes, meta commands.
//!
//! Invariants: pure but for the listing of a directory; names that need quotes are offered with them. Must not know: the
//! line editor.

use std::path::Path;

use forebay::Names;

use crate::format::Kind;
use crate::highlight::KEYWORDS;
use crate::lexer::{State, Token, tokens};
use crate::meta;
use crate::names::quoted;

/// Words after which a table stands.
const BEFORE_TABLE: &[&str] = &["FROM", "JOIN", "INTO", "UPDATE", "TABLE", "DESCRIBE", "COPY", "VIEW"];

/// Candidates for what ends at the end of `line`, and where the text that they replace begins.
pub(crate) fn complete(line: &str, names: &Names) -> (usize, Vec<String>) {
    if line.starts_with(['\\', '.']) {
        return complete_meta(line, names);
    }
    let mut state = State::default();
    let all = tokens(line, &mut state);
    let last = all.last().map_or(line.len()..line.len(), |(_, range)| range.clone());
    if state == State::Quoted('\'') {
        let start = last.start + 1;
        return (start, files(&line[start..]));
    }
    let is_word = all.last().is_some_and(|(token, _)| *token == Token::Word);
    let start = if is_word { last.start } else { line.len() };
    let prefix = &line[start..];
    let before = &line[..start];
    if before.ends_with('.') {
        return (start, named(prefix, &[&names.columns, &names.tables]));
    }
    let previous = all.iter().rfind(|(token, range)| *token == Token::Word && range.end <= start);
    let wants_table = previous.is_some_and(|(_, range)| {
        let gap_is_blank = line[range.end..start].trim().is_empty();
        gap_is_blank && BEFORE_TABLE.iter().any(|word| word.eq_ignore_ascii_case(&line[range.clone()]))
    });
    if wants_table {
        return (start, named(prefix, &[&names.tables]));
    }
    if prefix.is_empty() {
        return (start, Vec::new());
    }
    let mut found = named(prefix, &[&names.columns, &names.tables, &names.functions]);
    let lower = prefix.chars().all(|c| !c.is_uppercase());
    let keywords = KEYWORDS.iter().filter(|keyword| starts_with(keyword, prefix));
    found.extend(keywords.map(|keyword| if lower { keyword.to_lowercase() } else { (*keyword).to_owned() }));
    found.dedup();
    (start, found)
}

fn complete_meta(line: &str, names: &Names) -> (usize, Vec<String>) {
    let Some(blank) = line.find(' ') else {
        let found = meta::NAMES.iter().filter(|name| name.starts_with(line));
        return (0, found.map(|name| (*name).to_owned()).collect());
    };
    let start = line.rfind([' ', '\'', '"']).map_or(0, |at| at + 1);
    let prefix = &line[start..];
    let one_of = |words: Vec<String>| words.into_iter().filter(|word| word.starts_with(prefix)).collect();
    let found = match &line[..blank] {
        ".mode" | "\\format" => one_of(Kind::names()),
        ".timer" | ".headers" => one_of(vec!["on".into(), "off".into()]),
        ".read" | "\\i" | ".output" | "\\o" => files(prefix),
        "\\d" | "\\dt" | "\\dv" | ".schema" | ".tables" => named(prefix, &[&names.tables]),
        _ => Vec::new(),
    };
    (start, found)
}

fn starts_with(name: &str, prefix: &str) -> bool {
    name.len() >= prefix.len()
        && name.is_char_boundary(prefix.len())
        && name[..prefix.len()].eq_ignore_ascii_case(prefix)
}

/// Names of these lists that begin with `prefix`, sorted, quoted where SQL needs that.
fn named(prefix: &str, lists: &[&Vec<String>]) -> Vec<String> {
    let all = lists.iter().flat_map(|list| list.iter());
    let mut found: Vec<String> = all.filter(|name| starts_with(name, prefix)).map(|name| quoted(name)).collect();
    found.sort_unstable();
    found.dedup();
    found
}

/// Files and folders that begin with `prefix`; folders end with `/`.
fn files(prefix: &str) -> Vec<String> {
    let cut = prefix.rfind('/').map_or(0, |at| at + 1);
    let (folder, start) = prefix.split_at(cut);
    let listing = std::fs::read_dir(if folder.is_empty() { Path::new(".") } else { Path::new(folder) });
    let mut found = Vec::new();
    for entry in listing.into_iter().flatten().flatten() {
        let Ok(name) = entry.file_name().into_string() else { continue };
        let hidden = name.starts_with('.') && !start.starts_with('.');
        if name.starts_with(start) && !hidden {
            let slash = if entry.path().is_dir() { "/" } else { "" };
            found.push(format!("{folder}{name}{slash}"));
        }
    }
    found.sort_unstable();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Names {
        let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Names {
            tables: list(&["lineorder", "date", "My Table"]),
            columns: list(&["lo_revenue", "lo_discount"]),
            functions: list(&["lower", "sum"]),
        }
    }

    fn check(line: &str, expected: &[&str]) {
        assert_eq!(complete(line, &names()).1, expected, "{line:?}");
    }

    #[test]
    fn the_place_decides_what_is_offered() {
        check("select * from ", &["\"My Table\"", "date", "lineorder"]);
        check("select * from l", &["lineorder"]);
        check("select lo", &["lo_discount", "lo_revenue", "lower"]);
        check("SEL", &["SELECT"]);
        check("sel", &["select"]);
        check("select l.lo_r", &["lo_revenue"]);
        check("select * from lineorder, m", &["\"My Table\""]);
        check("select ", &[]);
    }

    #[test]
    fn meta_commands_and_their_arguments() {
        check(".ta", &[".tables"]);
        check(".mode js", &["json", "jsonl"]);
        check("\\d li", &["lineorder"]);
        assert_eq!(complete("\\d li", &names()).0, 3);
    }

    #[test]
    fn files_inside_quotes() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        std::fs::write(folder.path().join("data.parquet"), "").expect("a file");
        std::fs::create_dir(folder.path().join("dates")).expect("a folder");
        let base = folder.path().display();
        let line = format!("select * from '{base}/da");
        let (start, found) = complete(&line, &names());
        assert_eq!(start, "select * from '".len());
        assert_eq!(found, [format!("{base}/data.parquet"), format!("{base}/dates/")]);
    }
}
