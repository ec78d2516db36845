//! LIKE with an escape character of its own, and GLOB.

use datafusion::arrow::array::{Array, ArrayRef};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;

use super::case::lower;
use crate::function::{Call, Definition, Shape, TEXT, is_text, refused};

pub(crate) const DEFINITIONS: &[Definition] = &[
    Definition { names: &["like_escape"], shape: escape_shape, compute: |call| escaped(call, false, false) },
    Definition { names: &["ilike_escape"], shape: escape_shape, compute: |call| escaped(call, true, false) },
    Definition { names: &["not_like_escape"], shape: escape_shape, compute: |call| escaped(call, false, true) },
    Definition { names: &["not_ilike_escape"], shape: escape_shape, compute: |call| escaped(call, true, true) },
    Definition { names: &["~~~", "glob_match"], shape: glob_shape, compute: globs },
];

fn escape_shape(types: &[DataType]) -> Option<Shape> {
    let fits = types.len() == 3 && types.iter().all(is_text);
    fits.then(|| Shape { arguments: vec![TEXT; 3], result: DataType::Boolean })
}

fn escaped(call: &Call<'_>, ignores_case: bool, negated: bool) -> Result<ArrayRef> {
    let (texts, patterns, escapes) = (call.texts(0), call.texts(1), call.texts(2));
    call.flags_of(|row| {
        if !texts.is_valid(row) || !patterns.is_valid(row) || !escapes.is_valid(row) {
            return Ok(None);
        }
        let mut escape = escapes.value(row).chars();
        let (character, None) = (escape.next(), escape.next()) else {
            return Err(refused(
                format!("ESCAPE {:?} is no single character", escapes.value(row)),
                "Use one character, or none: ESCAPE '$'",
            ));
        };
        let fold = |text: &str| -> Vec<char> {
            let characters = text.chars();
            if ignores_case { characters.map(lower).collect() } else { characters.collect() }
        };
        let pattern = parts(&fold(patterns.value(row)), character)?;
        Ok(Some(is_like(&fold(texts.value(row)), &pattern) != negated))
    })
}

/// A part of a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Exactly(char),
    AnyOne,
    Any,
}

fn parts(pattern: &[char], escape: Option<char>) -> Result<Vec<Part>> {
    let mut parts = Vec::with_capacity(pattern.len());
    let mut characters = pattern.iter().copied();
    while let Some(character) = characters.next() {
        parts.push(match character {
            _ if Some(character) == escape => Part::Exactly(characters.next().ok_or_else(|| {
                refused(
                    "a pattern ends with its escape character",
                    "Write the escape character twice where it is meant",
                )
            })?),
            '%' => Part::Any,
            '_' => Part::AnyOne,
            _ => Part::Exactly(character),
        });
    }
    Ok(parts)
}

/// Goes back to the last `%` only: what was passed by then need not be passed otherwise.
fn is_like(text: &[char], pattern: &[Part]) -> bool {
    let (mut at, mut part) = (0, 0);
    let mut last: Option<(usize, usize)> = None;
    while at < text.len() {
        match pattern.get(part) {
            Some(Part::Any) => {
                last = Some((at, part));
                part += 1;
                continue;
            }
            Some(Part::AnyOne) => (at, part) = (at + 1, part + 1),
            Some(Part::Exactly(character)) if text[at] == *character => (at, part) = (at + 1, part + 1),
            _ => {
                let Some((from, any)) = last else { return false };
                last = Some((from + 1, any));
                (at, part) = (from + 1, any + 1);
            }
        }
    }
    pattern[part..].iter().all(|part| *part == Part::Any)
}

fn glob_shape(types: &[DataType]) -> Option<Shape> {
    let fits = types.len() == 2 && types.iter().all(is_text);
    fits.then(|| Shape { arguments: vec![TEXT; 2], result: DataType::Boolean })
}

fn globs(call: &Call<'_>) -> Result<ArrayRef> {
    let (texts, patterns) = (call.texts(0), call.texts(1));
    call.flags_of(|row| {
        let both = texts.is_valid(row) && patterns.is_valid(row);
        Ok(both.then(|| is_glob(texts.value(row).as_bytes(), patterns.value(row).as_bytes())))
    })
}

/// Whether a text is what a pattern of `*`, `?`, `[a-z]`, `[!a-z]` and `\` says, byte by byte.
fn is_glob(text: &[u8], pattern: &[u8]) -> bool {
    let (mut at, mut place) = (0, 0);
    let mut last: Option<(usize, usize)> = None;
    while at < text.len() {
        let next = match pattern.get(place) {
            Some(b'*') => {
                last = Some((at, place));
                place += 1;
                continue;
            }
            Some(b'?') => Some(place + 1),
            Some(b'[') => in_brackets(text[at], pattern, place + 1),
            Some(b'\\') => pattern.get(place + 1).filter(|byte| **byte == text[at]).map(|_| place + 2),
            Some(byte) if *byte == text[at] => Some(place + 1),
            _ => None,
        };
        match (next, last) {
            (Some(next), _) => (at, place) = (at + 1, next),
            (None, Some((from, star))) => {
                last = Some((from + 1, star));
                (at, place) = (from + 1, star + 1);
            }
            (None, None) => return false,
        }
    }
    pattern[place..].iter().all(|byte| *byte == b'*')
}

/// The place behind the brackets that begin at `place`, if the byte is one of those in them.
fn in_brackets(byte: u8, pattern: &[u8], mut place: usize) -> Option<usize> {
    let is_negated = pattern.get(place) == Some(&b'!');
    if is_negated {
        place += 1;
    }
    let (mut is_found, mut is_first) = (false, true);
    while let Some(&low) = pattern.get(place) {
        if low == b']' && !is_first {
            return (is_found != is_negated).then_some(place + 1);
        }
        is_first = false;
        let is_range =
            pattern.get(place + 1) == Some(&b'-') && pattern.get(place + 2).is_some_and(|high| *high != b']');
        let high = if is_range { pattern[place + 2] } else { low };
        is_found |= (low..=high).contains(&byte);
        place += if is_range { 3 } else { 1 };
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_with_escapes() {
        let like = |text: &str, pattern: &str| {
            let [text, pattern] = [text, pattern].map(|text| text.chars().collect::<Vec<_>>());
            parts(&pattern, Some('$')).map(|parts| is_like(&text, &parts)).ok()
        };
        assert_eq!(
            (like("a%c", "a$%c"), like("abc", "a$%c"), like("abc", "a$bc")),
            (Some(true), Some(false), Some(true))
        );
        assert_eq!(
            (like("a", "a$"), like("", "%"), like("", "_"), like("aab", "%ab")),
            (None, Some(true), Some(false), Some(true))
        );
        assert_eq!((like("ä", "_"), like("abcabc", "%b%c"), like("a", "")), (Some(true), Some(true), Some(false)));
    }

    #[test]
    fn globs_are_bytes() {
        for (text, pattern, expect) in [
            ("a", "[!b]", true),
            ("a", "[^b]", false),
            ("a", "[]a]", true),
            ("a", "[a", false),
            ("*", "\\*", true),
            ("ä", "?", false),
            ("ä", "??", true),
            ("a-b", "a[a-]b", true),
            ("best.txt", "*.t[a-w]t", false),
            ("best.txt", "*.t[a-z]t", true),
            ("", "*", true),
            ("ABC", "a*", false),
        ] {
            assert_eq!(is_glob(text.as_bytes(), pattern.as_bytes()), expect, "{text} {pattern}");
        }
    }
}
