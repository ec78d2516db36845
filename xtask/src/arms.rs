//! Matches over the closed sets of an encoded block name all their members: with a catch-all arm, a new access form would
//! not fail to compile but lose rows.

use crate::finding::Finding;
use crate::source::{Sources, words};
use crate::tree::line_of;

/// Crates that read encoded blocks.
const READERS: &[&str] = &["crates/block/", "crates/cpu/", "crates/gpu/", "crates/engine/"];

/// The closed sets, as patterns write them.
const CLOSED: &[&str] = &["Access", "Codes", "Values", "ValueRef", "Encoding"];

/// Checks every match outside of tests that has a member of a closed set in a pattern.
pub(crate) fn check(sources: &Sources, findings: &mut Vec<Finding>) {
    for (path, source) in sources.iter().filter(|(path, _)| READERS.iter().any(|reader| path.starts_with(reader))) {
        let code = &source.production;
        for start in words(code, "match") {
            let patterns = patterns(code, start);
            let set = CLOSED.iter().find(|set| patterns.iter().any(|(_, pattern)| names_member(pattern, set)));
            for (at, _) in patterns.iter().filter(|(_, pattern)| set.is_some() && is_catch_all(pattern)) {
                let message = format!("name every member of {} instead of a catch-all arm", set.unwrap_or(&""));
                findings.push(Finding::new(path, line_of(code, *at), message));
            }
        }
    }
}

fn names_member(pattern: &str, set: &str) -> bool {
    words(pattern, set).any(|at| pattern[at + set.len()..].starts_with("::"))
}

/// Whether a pattern without a guard takes whatever is left: nothing in it but wildcards and names for what they took.
fn is_catch_all(pattern: &str) -> bool {
    let is_open = |alternative: &str| {
        let tokens: Vec<&str> = alternative.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':')).collect();
        let is_name = |token: &&str| !token.contains(':') && !matches!(*token, "true" | "false");
        let is_lower = |token: &&str| token.starts_with(|c: char| c.is_lowercase() || c == '_');
        let tokens: Vec<&str> = tokens.into_iter().filter(|token| !token.is_empty()).collect();
        !tokens.is_empty() && tokens.iter().all(|token| is_name(token) && is_lower(token))
    };
    words(pattern, "if").next().is_none() && pattern.split('|').any(is_open)
}

/// Start and text of the pattern of each arm of the match at `start`, guards included.
fn patterns(code: &str, start: usize) -> Vec<(usize, &str)> {
    let Some(body) = at_depth_0(code, start, |byte, _| byte == b'{') else { return Vec::new() };
    let (mut patterns, mut at) = (Vec::new(), body + 1);
    while let Some(arrow) = at_depth_0(code, at, |byte, rest| byte == b'}' || rest.starts_with("=>")) {
        if code.as_bytes()[arrow] == b'}' {
            break;
        }
        let pattern = code[at..arrow].trim_start_matches(|c: char| c.is_whitespace() || c == ',');
        patterns.push((arrow - pattern.len(), pattern.trim_end()));
        let value = arrow + "=>".len();
        let value = value + code[value..].len() - code[value..].trim_start().len();
        let is_block = code[value..].starts_with('{');
        let end = match is_block {
            true => at_depth_0(code, value + 1, |byte, _| byte == b'}').map(|close| close + 1),
            false => at_depth_0(code, value, |byte, _| byte == b',' || byte == b'}'),
        };
        let Some(end) = end else { break };
        at = end;
    }
    patterns
}

/// The first place from `start` on, outside of brackets that open behind it, that `is_end` accepts.
fn at_depth_0(code: &str, start: usize, is_end: impl Fn(u8, &str) -> bool) -> Option<usize> {
    let mut depth = 0_i32;
    for (at, byte) in code.bytes().enumerate().skip(start) {
        if depth == 0 && code.is_char_boundary(at) && is_end(byte, &code[at..]) {
            return Some(at);
        }
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth -= 1,
            _ => {}
        }
        if depth < 0 {
            return None;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::Tree;

    fn lines(text: &str) -> Vec<usize> {
        let mut findings = Vec::new();
        check(&Sources::read(&Tree::of(&[("crates/cpu/src/a.rs", text)])), &mut findings);
        findings.iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn catch_all_arms_are_found() {
        assert_eq!(lines("fn f() {\n match block.access() {\n Access::AllNull => 0,\n _ => 1,\n }\n}"), [4]);
        assert_eq!(lines("match codes {\n Codes::U8(c) => { f(c) }\n other => panic!(),\n}"), [3]);
        assert_eq!(lines("match (self, access) {\n (A::B, Access::Plain(_)) => 1,\n (test, _) => 2,\n}"), [3]);
        assert_eq!(lines("match v {\n ValueRef::Int(_) | _ => 1,\n}"), [2]);
        assert_eq!(lines("match a {\n 1 => match e {\n Encoding::Truncation => 1,\n _ => 2,\n },\n _ => 3,\n}"), [4]);
    }

    #[test]
    fn what_names_all_or_has_a_guard_is_right() {
        assert_eq!(lines("match a {\n Access::AllNull => 0,\n Access::Plain(_) => 1,\n}"), [0; 0]);
        assert_eq!(lines("match a {\n _ if b => 0,\n Access::AllNull => 1,\n}"), [0; 0]);
        assert_eq!(lines("match (t, a) {\n (T::Always, _) => 0,\n (_, Access::AllNull) => 1,\n}"), [0; 0]);
        assert_eq!(lines("match width {\n 1 => Codes::U8(a),\n _ => Codes::U16(b),\n}"), [0; 0]);
        assert_eq!(lines("match v {\n PlainValues::Fixed(_) => 1,\n _ => 2,\n}"), [0; 0]);
        assert_eq!(lines("#[cfg(test)]\nmod tests {\n fn f() { match a { Access::AllNull => 0, _ => 1 } }\n}"), [0; 0]);
    }

    #[test]
    fn other_crates_are_not_held_to_it() {
        let mut findings = Vec::new();
        let text = "match a { Access::AllNull => 0, _ => 1 }";
        check(&Sources::read(&Tree::of(&[("crates/sql/src/a.rs", text)])), &mut findings);
        assert_eq!(findings, []);
    }
}
