//! Lists as text, and read from it: `[1, 2, NULL]`, `['a, b', c]`.

/// The elements of a list: their texts without quotes, `None` for NULL; `None` where the text is no list. Elements that are
/// lists keep their brackets.
pub(crate) fn parse(text: &str) -> Option<Vec<Option<String>>> {
    sequence(text.trim().strip_prefix('[')?.strip_suffix(']')?)
}

/// The values of a struct without names: `(1, x)`.
pub(super) fn parse_row(text: &str) -> Option<Vec<Option<String>>> {
    let inner = text.trim().strip_prefix('(')?.strip_suffix(')')?;
    sequence(inner.trim_end().strip_suffix(',').unwrap_or(inner))
}

/// The keys and values of a struct or map: `{'a': 1, 'b': 2}`, with this sign between them.
pub(super) fn parse_pairs(text: &str, sign: char) -> Option<Vec<(String, Option<String>)>> {
    let inner = text.trim().strip_prefix('{')?.strip_suffix('}')?;
    let mut pairs = Vec::new();
    let mut rest = inner.trim_start();
    while !rest.is_empty() {
        let (key, behind) = next_element(rest, sign)?;
        let behind = behind.trim_start().strip_prefix(sign)?.trim_start();
        let (value, behind) = next_element(behind, ',')?;
        pairs.push((key?, value));
        rest = behind.trim_start();
        match rest.strip_prefix(',') {
            Some(more) => rest = more.trim_start(),
            None if rest.is_empty() => {}
            None => return None,
        }
    }
    Some(pairs)
}

fn sequence(inner: &str) -> Option<Vec<Option<String>>> {
    let mut elements = Vec::new();
    let mut rest = inner.trim_start();
    while !rest.is_empty() {
        let (element, behind) = next_element(rest, ',')?;
        elements.push(element);
        rest = behind.trim_start();
        match rest.strip_prefix(',') {
            Some(more) => {
                rest = more.trim_start();
                if rest.is_empty() {
                    return None;
                }
            }
            None if rest.is_empty() => {}
            None => return None,
        }
    }
    Some(elements)
}

/// The first element, which ends before this sign, and what follows it.
fn next_element(text: &str, sign: char) -> Option<(Option<String>, &str)> {
    if let Some(quote) = text.chars().next().filter(|c| matches!(c, '\'' | '"')) {
        return quoted(&text[1..], quote).map(|(element, behind)| (Some(element), behind));
    }
    let (mut depth, mut open_quote) = (0_usize, None);
    let mut end = text.len();
    let mut characters = text.char_indices();
    while let Some((index, c)) = characters.next() {
        match (open_quote, c) {
            (Some(_), '\\') => {
                let _ = characters.next();
            }
            (Some(quote), _) if c == quote => open_quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') if depth > 0 => open_quote = Some(c),
            (None, '[' | '{' | '(') => depth += 1,
            (None, ']' | '}' | ')') => depth = depth.checked_sub(1)?,
            (None, _) if depth == 0 && c == sign => {
                end = index;
                break;
            }
            _ => {}
        }
    }
    if depth > 0 || open_quote.is_some() {
        return None;
    }
    let element = text[..end].trim();
    let is_null = element.eq_ignore_ascii_case("null");
    Some(((!is_null).then(|| element.to_owned()), &text[end..]))
}

/// The text up to the closing quote, in which a backslash hides what follows it, and what is behind the quote.
fn quoted(text: &str, quote: char) -> Option<(String, &str)> {
    let mut element = String::new();
    let mut characters = text.char_indices();
    while let Some((index, c)) = characters.next() {
        match c {
            '\\' => element.push(characters.next()?.1),
            _ if c == quote => return Some((element, &text[index + c.len_utf8()..])),
            _ => element.push(c),
        }
    }
    None
}

/// A list of such elements as text. Elements that could be read otherwise stand in quotes.
pub(crate) fn text<'a>(elements: impl Iterator<Item = Option<&'a str>>, may_quote: bool) -> String {
    let mut out = String::from("[");
    for (index, element) in elements.enumerate() {
        if index > 0 {
            out.push_str(", ");
        }
        append(&mut out, element, may_quote);
    }
    out.push(']');
    out
}

/// Adds an element, as it stands in a list, a struct or a map.
pub(super) fn append(out: &mut String, element: Option<&str>, may_quote: bool) {
    match element {
        None => out.push_str("NULL"),
        Some(element) if may_quote && needs_quotes(element) => out.push_str(&quoted_text(element)),
        Some(element) => out.push_str(element),
    }
}

/// A text in quotes.
pub(super) fn quoted_text(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))
}

fn needs_quotes(element: &str) -> bool {
    element.is_empty()
        || element.eq_ignore_ascii_case("null")
        || element.starts_with(|c: char| c.is_ascii_whitespace())
        || element.ends_with(|c: char| c.is_ascii_whitespace())
        || element.contains(['"', '\'', '(', ')', ',', ':', '=', '[', ']', '{', '}', '\\'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read() {
        let some = |elements: &[&str]| {
            Some(elements.iter().map(|one| (*one != "NULL").then(|| (*one).to_owned())).collect::<Vec<_>>())
        };
        assert_eq!(parse("[hello, world]"), some(&["hello", "world"]));
        assert_eq!(parse(" [1,2 , NULL] "), some(&["1", "2", "NULL"]));
        assert_eq!(parse("[]"), some(&[]));
        assert_eq!(parse("[[1, 2], [3]]"), some(&["[1, 2]", "[3]"]));
        assert_eq!(parse("[\"a,b\", 'c', 'it\\'s']"), some(&["a,b", "c", "it's"]));
        for wrong in ["abc", "[1", "1]", "[1,]", "['a]", "['a' b]", "[[1]", ""] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn lists_are_shown() {
        assert_eq!(text([Some("a"), Some("b,c"), None, Some("it's")].into_iter(), true), "[a, 'b,c', NULL, 'it\\'s']");
        assert_eq!(text([Some("1"), Some("[2, 3]")].into_iter(), false), "[1, [2, 3]]");
        assert_eq!(text(std::iter::empty(), true), "[]");
    }
}
