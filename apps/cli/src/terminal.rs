//! What the terminal can show: colours, its size, the width of text on it.
//!
//! Invariants: a stream that is not a terminal gets no colour and no width; `NO_COLOR` and `TERM=dumb` are respected.
//! Must not know: SQL, results.

use std::io::IsTerminal;

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// How a piece of text is marked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Paint {
    /// Less important than its surroundings.
    Grey,
    /// The prompt and headings.
    Bold,
    /// Errors.
    Red,
    /// Strings.
    Green,
    /// Numbers.
    Cyan,
    /// Keywords.
    Blue,
}

impl Paint {
    /// The escape sequence that begins it; [`RESET`] ends it.
    pub(crate) fn begin(self) -> &'static str {
        match self {
            Self::Grey => "\x1b[90m",
            Self::Bold => "\x1b[1m",
            Self::Red => "\x1b[1;31m",
            Self::Green => "\x1b[32m",
            Self::Cyan => "\x1b[36m",
            Self::Blue => "\x1b[1;34m",
        }
    }
}

/// Ends every [`Paint`].
pub(crate) const RESET: &str = "\x1b[0m";

/// `text` in colour, or as it is where there is none.
pub(crate) fn paint(text: &str, paint: Paint, color: bool) -> String {
    if color { format!("{}{text}{RESET}", paint.begin()) } else { text.to_owned() }
}

/// Whether `stream` shows colours.
pub(crate) fn has_color(stream: &impl IsTerminal) -> bool {
    let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let dumb = std::env::var_os("TERM").is_some_and(|value| value == "dumb");
    stream.is_terminal() && !unwanted && !dumb
}

/// Columns and rows of the terminal; `None` where there is no terminal.
pub(crate) fn size() -> Option<(usize, usize)> {
    let (height, width) = console::Term::stdout().size_checked()?;
    (width > 0 && height > 0).then_some((usize::from(width), usize::from(height)))
}

/// Columns that `text` takes on a terminal.
pub(crate) fn width(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { text.width() }
}

/// Columns that `character` takes on a terminal.
pub(crate) fn char_width(character: char) -> usize {
    character.width().unwrap_or(0)
}

/// `text` cut to `limit` columns, the last of them `…` where something is missing.
pub(crate) fn truncate(text: &str, limit: usize) -> String {
    if width(text) <= limit {
        return text.to_owned();
    }
    let mut out = String::new();
    let mut used = 0;
    for character in text.chars() {
        let next = used + char_width(character);
        if next + 1 > limit {
            break;
        }
        out.push(character);
        used = next;
    }
    if limit > 0 {
        out.push('…');
    }
    out
}

/// Appends `text` with control characters, line ends included, written as escapes: a stored value must not steer the
/// terminal.
pub(crate) fn push_visible(text: &str, out: &mut String) {
    for character in text.chars() {
        match character {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            control if control.is_control() => out.extend(control.escape_unicode()),
            other => out.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_characters_count_two_columns() {
        assert_eq!(width("日本"), 4);
        assert_eq!(truncate("日本語", 5), "日本…");
        assert_eq!(truncate("日本語", 4), "日…");
        assert_eq!(truncate("abc", 3), "abc");
        assert_eq!(truncate("abcd", 3), "ab…");
        assert_eq!(truncate("abcd", 0), "");
    }

    #[test]
    fn control_characters_are_escaped() {
        let mut out = String::new();
        push_visible("a\tb\x1b[31m", &mut out);
        assert_eq!(out, "a\\tb\\u{1b}[31m");
    }
}
