//! Regular expressions, in the syntax of RE2: classes such as `\d` and `\w` are ASCII.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::HashMap;

use datafusion::arrow::array::{Array, ArrayRef};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;
use regex::{Captures, Regex, RegexBuilder};

use super::splits::{lists_of, text_list};
use crate::function::{Call, Definition, Shape, TEXT, is_integer, is_text, refused};

pub(crate) const DEFINITIONS: &[Definition] = &[
    Definition { names: &["regexp_matches"], shape: flag_shape, compute: |call| flags(call, false) },
    Definition { names: &["regexp_full_match"], shape: flag_shape, compute: |call| flags(call, true) },
    Definition { names: &["regexp_replace"], shape: replace_shape, compute: replaced },
    Definition { names: &["regexp_extract"], shape: |types| extract_shape(types, TEXT), compute: extracted },
    Definition {
        names: &["regexp_extract_all"],
        shape: |types| extract_shape(types, text_list()),
        compute: all_extracted,
    },
    Definition {
        names: &["string_split_regex", "str_split_regex", "regexp_split_to_array"],
        shape: split_shape,
        compute: split,
    },
    Definition { names: &["regexp_escape"], shape: escape_shape, compute: escaped },
];

/// Patterns that a call has met, compiled; most have one.
#[derive(Debug, Default)]
struct Patterns(RefCell<HashMap<(String, String), Regex>>);

/// What the letters of an options text ask for.
#[derive(Debug, Default)]
struct Options {
    ignores_case: bool,
    is_literal: bool,
    dot_is_any: bool,
    is_global: bool,
}

impl Options {
    fn of(letters: &str) -> Result<Self> {
        let mut options = Self::default();
        for letter in letters.chars() {
            match letter {
                'c' => options.ignores_case = false,
                'i' => options.ignores_case = true,
                'l' => options.is_literal = true,
                'm' | 'n' | 'p' => options.dot_is_any = false,
                's' => options.dot_is_any = true,
                'g' => options.is_global = true,
                ' ' | '\t' | '\n' => {}
                other => {
                    return Err(refused(
                        format!("there is no option {other:?} of regular expressions"),
                        "Options are c, i, l, m, n, p, s and g",
                    ));
                }
            }
        }
        Ok(options)
    }
}

impl Patterns {
    /// The regular expression; `is_whole` where it must fit the whole text.
    fn get(&self, pattern: &str, letters: &str, is_whole: bool) -> Result<Regex> {
        let key = (pattern.to_owned(), letters.to_owned());
        if let Some(known) = self.0.borrow().get(&key) {
            return Ok(known.clone());
        }
        let options = Options::of(letters)?;
        if !options.is_literal && repeats_twice(pattern) {
            return Err(refused(format!("{pattern:?} repeats what is repeated"), "Use parentheses: (a*)*"));
        }
        let syntax = if options.is_literal { Cow::Owned(regex::escape(pattern)) } else { ascii_classes(pattern) };
        let syntax = if is_whole { Cow::Owned(format!(r"\A(?:{syntax})\z")) } else { syntax };
        let mut builder = RegexBuilder::new(&syntax);
        builder.case_insensitive(options.ignores_case).dot_matches_new_line(options.dot_is_any);
        let regex = builder.build().map_err(|error| {
            let last = error.to_string();
            let reason = last.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
            refused(format!("{pattern:?} is no regular expression: {reason}"), "The syntax is that of RE2")
        })?;
        let mut known = self.0.borrow_mut();
        // A pattern of its own for every row is no reason to keep them all.
        if known.len() > 100 {
            known.clear();
        }
        known.insert(key, regex.clone());
        Ok(regex)
    }
}

/// Whether an operator of repetition stands behind another one, as in `a**`.
fn repeats_twice(pattern: &str) -> bool {
    let (mut is_repeated, mut is_lazy, mut in_class) = (false, false, false);
    let mut characters = pattern.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => {
                characters.next();
                (is_repeated, is_lazy) = (false, false);
            }
            '[' => in_class = true,
            ']' => (in_class, is_repeated, is_lazy) = (false, false, false),
            '*' | '+' | '?' if !in_class => match (is_repeated, is_lazy, character) {
                (false, _, _) => is_repeated = true,
                (true, false, '?') => is_lazy = true,
                _ => return true,
            },
            '(' if !in_class => {
                // What follows `(?` are flags, or the name of a group.
                (is_repeated, is_lazy) = (false, false);
                let mut ahead = characters.clone();
                if ahead.next() == Some('?') {
                    characters = ahead;
                }
            }
            _ => (is_repeated, is_lazy) = (false, false),
        }
    }
    false
}

/// `pattern`, whose classes of digits, letters and blanks are those of ASCII.
fn ascii_classes(pattern: &str) -> Cow<'_, str> {
    if !pattern.contains('\\') {
        return Cow::Borrowed(pattern);
    }
    let mut out = String::with_capacity(pattern.len() + 16);
    let mut characters = pattern.chars().peekable();
    while let Some(character) = characters.next() {
        let escaped = if character == '\\' { characters.next() } else { None };
        match escaped {
            None => out.push(character),
            Some('d') => out.push_str("[0-9]"),
            Some('D') => out.push_str("[^0-9]"),
            Some('w') => out.push_str("[0-9A-Za-z_]"),
            Some('W') => out.push_str("[^0-9A-Za-z_]"),
            Some('s') => out.push_str(r"[\t\n\f\r ]"),
            Some('S') => out.push_str(r"[^\t\n\f\r ]"),
            Some('b') => out.push_str(r"(?-u:\b)"),
            Some('C') => out.push_str("(?s:.)"),
            Some('Q') => out.push_str(r"\Q"),
            Some(other @ ('a' | 'f' | 't' | 'n' | 'r' | 'v' | 'A' | 'z' | 'B' | 'p' | 'P' | 'x' | '0'..='9')) => {
                out.push('\\');
                out.push(other);
            }
            Some(other) if other.is_ascii_alphabetic() => {
                out.push('\\');
                out.push(other);
            }
            Some(other) => out.push_str(&regex::escape(&other.to_string())),
        }
    }
    Cow::Owned(out)
}

/// The options of a call, which stand in this argument, if anywhere.
fn options<'a>(call: &'a Call<'_>, index: usize, row: usize) -> Result<&'a str> {
    if call.arguments.len() <= index {
        return Ok("");
    }
    let texts = call.texts(index);
    match texts.is_valid(row) {
        true => Ok(texts.value(row)),
        false => Err(refused("the options of a regular expression are NULL", "Leave them out, or use ''")),
    }
}

fn flag_shape(types: &[DataType]) -> Option<Shape> {
    let fits = matches!(types.len(), 2 | 3) && types.iter().all(is_text);
    fits.then(|| Shape { arguments: vec![TEXT; types.len()], result: DataType::Boolean })
}

fn flags(call: &Call<'_>, is_whole: bool) -> Result<ArrayRef> {
    let (texts, patterns, known) = (call.texts(0), call.texts(1), Patterns::default());
    call.flags_of(|row| {
        let options = options(call, 2, row)?;
        if !texts.is_valid(row) || !patterns.is_valid(row) {
            return Ok(None);
        }
        Ok(Some(known.get(patterns.value(row), options, is_whole)?.is_match(texts.value(row))))
    })
}

fn replace_shape(types: &[DataType]) -> Option<Shape> {
    let fits = matches!(types.len(), 3 | 4) && types.iter().all(is_text);
    fits.then(|| Shape { arguments: vec![TEXT; types.len()], result: TEXT })
}

fn replaced(call: &Call<'_>) -> Result<ArrayRef> {
    let (texts, patterns, replacements) = (call.texts(0), call.texts(1), call.texts(2));
    let known = Patterns::default();
    call.texts_of(|row| {
        let options = options(call, 3, row)?;
        if !texts.is_valid(row) || !patterns.is_valid(row) || !replacements.is_valid(row) {
            return Ok(None);
        }
        let regex = known.get(patterns.value(row), options, false)?;
        let rewrite = rewrite(replacements.value(row), regex.captures_len())?;
        let replace = |captures: &Captures<'_>| -> String { rewritten(&rewrite, captures) };
        let text = texts.value(row);
        Ok(Some(match options.contains('g') {
            true => regex.replace_all(text, replace).into_owned(),
            false => regex.replace(text, replace).into_owned(),
        }))
    })
}

/// A piece of a replacement: a text, or a group of the match.
#[derive(Debug)]
enum Piece {
    Text(char),
    Group(usize),
}

fn rewrite(replacement: &str, groups: usize) -> Result<Vec<Piece>> {
    let mut pieces = Vec::new();
    let mut characters = replacement.chars();
    while let Some(character) = characters.next() {
        pieces.push(match (character, if character == '\\' { characters.next() } else { None }) {
            ('\\', Some('\\')) => Piece::Text('\\'),
            ('\\', Some(digit @ '0'..='9')) if (digit as usize - '0' as usize) < groups => {
                Piece::Group(digit as usize - '0' as usize)
            }
            ('\\', other) => {
                let other = other.map_or(String::new(), String::from);
                return Err(refused(
                    format!("the replacement {replacement:?} has no group \\{other}"),
                    "Groups are \\0, the whole match, to \\9; a backslash is \\\\",
                ));
            }
            (other, _) => Piece::Text(other),
        });
    }
    Ok(pieces)
}

fn rewritten(pieces: &[Piece], captures: &Captures<'_>) -> String {
    let mut out = String::new();
    for piece in pieces {
        match piece {
            Piece::Text(character) => out.push(*character),
            Piece::Group(group) => out.push_str(captures.get(*group).map_or("", |found| found.as_str())),
        }
    }
    out
}

fn extract_shape(types: &[DataType], result: DataType) -> Option<Shape> {
    let [text, pattern, rest @ ..] = types else { return None };
    let fits = is_text(text) && is_text(pattern);
    let mut arguments = vec![TEXT, TEXT];
    match rest {
        [] => {}
        [group] if is_integer(group) => arguments.push(DataType::Int64),
        [group, options] if is_integer(group) && is_text(options) => arguments.extend([DataType::Int64, TEXT]),
        _ => return None,
    }
    fits.then_some(Shape { arguments, result })
}

/// The group that a call asks for; `None` where it is NULL.
fn group(call: &Call<'_>, row: usize) -> Result<Option<usize>> {
    if call.arguments.len() < 3 {
        return Ok(Some(0));
    }
    let groups = call.integers(2);
    if !groups.is_valid(row) {
        return Ok(None);
    }
    match groups.value(row) {
        group @ 0..=9 => Ok(Some(group as usize)),
        other => Err(refused(
            format!("there is no group {other} of a regular expression"),
            "Groups are 0, the whole match, to 9",
        )),
    }
}

fn extracted(call: &Call<'_>) -> Result<ArrayRef> {
    let (texts, patterns, known) = (call.texts(0), call.texts(1), Patterns::default());
    call.texts_of(|row| {
        let (options, group) = (options(call, 3, row)?, group(call, row)?);
        if !texts.is_valid(row) || !patterns.is_valid(row) {
            return Ok(None);
        }
        let regex = known.get(patterns.value(row), options, false)?;
        let Some(group) = group else { return Ok(Some(String::new())) };
        let found =
            regex.captures(texts.value(row)).and_then(|captures| Some(captures.get(group)?.as_str().to_owned()));
        Ok(Some(found.unwrap_or_default()))
    })
}

fn all_extracted(call: &Call<'_>) -> Result<ArrayRef> {
    let (texts, patterns, known) = (call.texts(0), call.texts(1), Patterns::default());
    lists_of(call.rows, |row| {
        let (options, group) = (options(call, 3, row)?, group(call, row)?);
        let Some(group) = group.filter(|_| texts.is_valid(row) && patterns.is_valid(row)) else { return Ok(None) };
        let regex = known.get(patterns.value(row), options, false)?;
        let found = matches(&regex, texts.value(row));
        if group >= regex.captures_len() && !found.is_empty() {
            return Err(refused(
                format!("{:?} has {} groups, and no group {group}", patterns.value(row), regex.captures_len() - 1),
                "Group 0 is the whole match",
            ));
        }
        Ok(Some(found.iter().map(|captures| captures.get(group).map(|one| one.as_str().to_owned())).collect()))
    })
}

/// All matches; behind one that is not empty there may be an empty one.
fn matches<'a>(regex: &Regex, text: &'a str) -> Vec<Captures<'a>> {
    let mut found = Vec::new();
    let mut from = 0;
    while from <= text.len() {
        let Some(captures) = regex.captures_at(text, from) else { break };
        let Some(whole) = captures.get(0) else { break };
        let next = text[whole.end()..].chars().next().map_or(1, char::len_utf8);
        from = if whole.is_empty() { whole.end() + next } else { whole.end() };
        found.push(captures);
    }
    found
}

fn split_shape(types: &[DataType]) -> Option<Shape> {
    Some(Shape { result: text_list(), ..flag_shape(types)? })
}

fn split(call: &Call<'_>) -> Result<ArrayRef> {
    let (texts, patterns, known) = (call.texts(0), call.texts(1), Patterns::default());
    lists_of(call.rows, |row| {
        let options = options(call, 2, row)?;
        if !texts.is_valid(row) {
            return Ok(None);
        }
        let text = texts.value(row);
        if !patterns.is_valid(row) {
            return Ok(Some(vec![Some(text.to_owned())]));
        }
        let regex = known.get(patterns.value(row), options, false)?;
        Ok(Some(between(&regex, text)))
    })
}

/// What is between the matches; where one is empty a character is.
fn between(regex: &Regex, text: &str) -> Vec<Option<String>> {
    let mut parts = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let Some(found) = regex.find(rest) else { break };
        let first = rest.chars().next().map_or(0, char::len_utf8);
        let (end, next) = match found.is_empty() && found.start() == 0 {
            true if rest.len() == first => break,
            true => (first, first),
            false => (found.start(), found.end()),
        };
        parts.push(Some(rest[..end].to_owned()));
        rest = &rest[next..];
    }
    parts.push(Some(rest.to_owned()));
    parts
}

fn escape_shape(types: &[DataType]) -> Option<Shape> {
    (types.len() == 1 && is_text(&types[0])).then(|| Shape { arguments: vec![TEXT], result: TEXT })
}

fn escaped(call: &Call<'_>) -> Result<ArrayRef> {
    let texts = call.texts(0);
    let escape = |text: &str| {
        let mut out = String::new();
        for character in text.chars() {
            // Stands for itself in no pattern.
            if character == '\0' {
                out.push_str(r"\x00");
                continue;
            }
            if character.is_ascii() && !character.is_ascii_alphanumeric() && character != '_' {
                out.push('\\');
            }
            out.push(character);
        }
        out
    };
    call.texts_of(|row| Ok(texts.is_valid(row).then(|| escape(texts.value(row)))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_ascii() {
        let regex = |pattern| Patterns::default().get(pattern, "", true).expect("a pattern");
        assert!(!regex(r"\w+").is_match("ä") && regex(r"[\w ]+").is_match("a b") && regex(r"\D").is_match("٣"));
        assert!(regex(r"\.\/\-").is_match("./-"));
    }

    #[test]
    fn what_is_repeated_is_not_repeated() {
        for (pattern, expect) in [
            ("a**", true),
            ("a*?", false),
            ("a*?+", true),
            ("[*+]+", false),
            ("\\**", false),
            ("(?:a)*(b)+", false),
            ("a+?b*", false),
        ] {
            assert_eq!(repeats_twice(pattern), expect, "{pattern}");
        }
    }

    #[test]
    fn empty_matches_are_matches() {
        let regex = |pattern| Patterns::default().get(pattern, "", false).expect("a pattern");
        let all =
            |pattern, text| matches(&regex(pattern), text).iter().map(|one| one[0].to_owned()).collect::<Vec<_>>();
        assert_eq!(all("X*", "aXbXc"), ["", "X", "", "X", "", ""]);
        assert_eq!(all("a*", "xaax"), ["", "aa", "", ""]);
        let parts = |pattern, text| between(&regex(pattern), text).into_iter().flatten().collect::<Vec<_>>();
        assert_eq!(parts("", "abc"), ["a", "b", "c"]);
        assert_eq!(parts("b*", "äbä"), ["ä", "", "ä"]);
        assert_eq!(parts("[0-9]+", "a1b22c"), ["a", "b", "c"]);
    }
}
