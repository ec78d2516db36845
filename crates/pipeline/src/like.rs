//! LIKE: a pattern is taken apart once and matched against many texts.
//!
//! Invariants: texts are UTF-8, but any bytes match without a panic: a character is a byte with the continuation bytes
//! that follow it.

/// A pattern of LIKE: `%` is any text, `_` one character, `\` takes the next character as it is (and stands for itself at
/// the end).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LikePattern {
    /// The parts between the `%`, of which there is one less. The first is bound to the start, the last to the end.
    parts: Vec<Part>,
}

/// A run of a pattern without `%`.
type Part = Vec<Piece>;

/// A piece of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    /// Exactly these bytes, at least one.
    Bytes(Vec<u8>),
    /// Any one character.
    Character,
}

impl LikePattern {
    /// Takes a pattern apart.
    pub fn new(pattern: &[u8]) -> Self {
        let mut parts = vec![Part::new()];
        let mut bytes = pattern.iter().copied();
        while let Some(byte) = bytes.next() {
            let part = parts.last_mut().expect("there is always a part");
            match byte {
                b'%' => parts.push(Part::new()),
                b'_' => part.push(Piece::Character),
                b'\\' => push_byte(part, bytes.next().unwrap_or(byte)),
                _ => push_byte(part, byte),
            }
        }
        Self { parts }
    }

    /// The longest of the texts that every match holds; `None` where any text of some length matches.
    pub fn longest_text(&self) -> Option<&[u8]> {
        let texts = self.parts.iter().flatten().filter_map(|piece| match piece {
            Piece::Bytes(bytes) => Some(bytes.as_slice()),
            Piece::Character => None,
        });
        texts.max_by_key(|text| text.len())
    }

    /// Whether a text matches as a whole.
    pub fn matches(&self, text: &[u8]) -> bool {
        let (first, rest) = self.parts.split_first().expect("there is always a part");
        let Some(mut at) = match_part(first, text, 0) else { return false };
        let Some((last, middle)) = rest.split_last() else { return at == text.len() };
        for part in middle {
            // The leftmost match leaves the most for what follows.
            let Some(after) = find_part(part, text, at) else { return false };
            at = after;
        }
        match_end(last, text, at)
    }
}

fn push_byte(part: &mut Part, byte: u8) {
    match part.last_mut() {
        Some(Piece::Bytes(bytes)) => bytes.push(byte),
        _ => part.push(Piece::Bytes(vec![byte])),
    }
}

/// Where a match of `part` that begins at `at` ends.
fn match_part(part: &Part, text: &[u8], mut at: usize) -> Option<usize> {
    for piece in part {
        match piece {
            Piece::Bytes(bytes) => {
                if !text[at..].starts_with(bytes) {
                    return None;
                }
                at += bytes.len();
            }
            Piece::Character => {
                if at == text.len() {
                    return None;
                }
                at = next_character(text, at);
            }
        }
    }
    Some(at)
}

/// Where the first match of `part` at or after `from` ends.
fn find_part(part: &Part, text: &[u8], from: usize) -> Option<usize> {
    match part.as_slice() {
        [] => Some(from),
        [Piece::Bytes(bytes)] => find_bytes(bytes, text, from).map(|at| at + bytes.len()),
        [Piece::Bytes(bytes), ..] => {
            let mut from = from;
            loop {
                let at = find_bytes(bytes, text, from)?;
                match match_part(part, text, at) {
                    Some(after) => return Some(after),
                    None => from = at + 1,
                }
            }
        }
        [Piece::Character, ..] => {
            let mut at = from;
            loop {
                if let Some(after) = match_part(part, text, at) {
                    return Some(after);
                }
                if at == text.len() {
                    return None;
                }
                at = next_character(text, at);
            }
        }
    }
}

/// Places that are looked at together for the first and the last byte of what is searched.
const PLACES: usize = 16;

/// Where `bytes` first lie in `text` at or after `from`. Two bytes of them at their distance are rare enough that hardly any
/// place needs a closer look, and compilers make vector instructions of looking at [`PLACES`] places.
fn find_bytes(bytes: &[u8], text: &[u8], from: usize) -> Option<usize> {
    let (first, last) = (bytes[0], bytes[bytes.len() - 1]);
    // Places where they may begin, and for each of them the byte where they would end.
    let starts = text.get(from..)?;
    let ends = starts.get(bytes.len() - 1..)?;
    let starts = &starts[..ends.len()];
    let mut at = 0;
    while let (Some(heads), Some(tails)) = (chunk(starts, at), chunk(ends, at)) {
        let hit = heads.iter().zip(tails).fold(false, |hit, (head, tail)| hit | ((*head == first) & (*tail == last)));
        if hit && let Some(found) = place(bytes, text, from + at..from + at + PLACES) {
            return Some(found);
        }
        at += PLACES;
    }
    place(bytes, text, from + at..from + starts.len())
}

/// The bytes of [`PLACES`] places.
fn chunk(bytes: &[u8], at: usize) -> Option<&[u8; PLACES]> {
    bytes.get(at..)?.first_chunk()
}

/// The first of these places of `text` where `bytes` lie.
fn place(bytes: &[u8], text: &[u8], places: std::ops::Range<usize>) -> Option<usize> {
    places.into_iter().find(|at| text[*at] == bytes[0] && text[*at..].starts_with(bytes))
}

/// Whether `part` matches the end of `text`, at or after `from`.
fn match_end(part: &Part, text: &[u8], from: usize) -> bool {
    let mut end = text.len();
    for piece in part.iter().rev() {
        match piece {
            Piece::Bytes(bytes) => {
                if !text[from..end].ends_with(bytes) {
                    return false;
                }
                end -= bytes.len();
            }
            Piece::Character => {
                if end == from {
                    return false;
                }
                end -= 1;
                while end > from && !begins_character(text[end]) {
                    end -= 1;
                }
            }
        }
    }
    true
}

/// Where the character after the one at `at` begins.
fn next_character(text: &[u8], at: usize) -> usize {
    text[at + 1..].iter().position(|byte| begins_character(*byte)).map_or(text.len(), |more| at + 1 + more)
}

/// Whether a byte begins a character of UTF-8.
#[inline]
pub(crate) fn begins_character(byte: u8) -> bool {
    byte & 0xC0 != 0x80
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn like(text: &str, pattern: &str) -> bool {
        LikePattern::new(pattern.as_bytes()).matches(text.as_bytes())
    }

    /// By the definition, on characters.
    fn slow(text: &[char], pattern: &[char]) -> bool {
        match pattern {
            [] => text.is_empty(),
            ['%', rest @ ..] => (0..=text.len()).any(|at| slow(&text[at..], rest)),
            ['_', rest @ ..] => !text.is_empty() && slow(&text[1..], rest),
            ['\\', escaped, rest @ ..] => text.first() == Some(escaped) && slow(&text[1..], rest),
            [plain, rest @ ..] => text.first() == Some(plain) && slow(&text[1..], rest),
        }
    }

    #[test]
    fn patterns_match_whole_texts() {
        for (text, pattern) in [
            ("", ""),
            ("", "%"),
            ("", "%%"),
            ("abc", "abc"),
            ("abc", "a%"),
            ("abc", "%c"),
            ("abc", "%b%"),
            ("abab", "%ab"),
            ("aé€", "a__"),
            ("a%b", "a\\%b"),
            ("a_b", "_\\__"),
            ("a\\", "a\\"),
            ("special packages requests", "%special%requests%"),
        ] {
            assert!(like(text, pattern), "{text} {pattern}");
        }
        for (text, pattern) in [
            ("a", ""),
            ("", "_"),
            ("é", "__"),
            ("ab", "a"),
            ("aXb", "a\\%b"),
            ("ab", "%ab%ab%"),
            ("aba", "ab%ba"),
            ("requests special", "%special%requests%"),
        ] {
            assert!(!like(text, pattern), "{text} {pattern}");
        }
    }

    #[test]
    fn any_bytes_match_without_a_panic() {
        let bytes = [0x80, 0xC3, 0x28, 0xFF, 0x80, 0x80];
        for pattern in ["", "%", "_", "%_", "_%_%_", "%_%(%", "(%"] {
            for to in 0..=bytes.len() {
                LikePattern::new(pattern.as_bytes()).matches(&bytes[..to]);
            }
        }
    }

    #[test]
    fn bytes_are_found_at_every_place_of_long_texts() {
        for length in [1usize, 2, 3, 15, 16, 17, 40] {
            let bytes: Vec<u8> = (0..length).map(|at| b'a' + (at % 3) as u8).collect();
            for before in 0..70 {
                for after in [0, 1, 15, 16, 33] {
                    // What begins and ends alike but is something else must not be taken for it.
                    let text: Vec<u8> = [vec![b'-'; before], bytes.clone(), vec![b'-'; after], bytes.clone()].concat();
                    assert_eq!(find_bytes(&bytes, &text, 0), Some(before), "{length} {before} {after}");
                    let second = find_bytes(&bytes, &text, before + 1);
                    let slow = (before + 1..text.len()).find(|at| text[*at..].starts_with(&bytes));
                    assert_eq!(second, slow, "{length} {before} {after}");
                    let cut = &text[..before + length - 1];
                    assert_eq!(find_bytes(&bytes, cut, 0), None, "{length} {before}");
                    assert_eq!(find_bytes(&bytes, cut, cut.len() + 1), None, "beyond the end");
                }
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4000))]
        #[test]
        fn answers_as_the_definition(text in "[abé€]{0,8}", pattern in "[abé%%%_\\\\]{0,7}") {
            let (characters, of_pattern): (Vec<char>, Vec<char>) = (text.chars().collect(), pattern.chars().collect());
            prop_assert_eq!(like(&text, &pattern), slow(&characters, &of_pattern));
        }
    }
}
