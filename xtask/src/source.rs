//! Rust text with everything blanked that is not code, so that the checks can search it by plain words.
//!
//! Invariants: blanked text has the same bytes per line as the original, so offsets and lines agree. Must not know:
//! any rule.

use std::collections::BTreeMap;

use crate::tree::{Tree, line_of};

/// All Rust files of a tree.
#[derive(Debug)]
pub(crate) struct Sources {
    files: BTreeMap<String, Source>,
}

/// One Rust file.
#[derive(Debug)]
pub(crate) struct Source {
    /// The text as it is.
    pub(crate) text: String,
    /// Comments and the insides of strings and characters blanked.
    pub(crate) code: String,
    /// `code` with test items blanked too; all of it in a test file.
    pub(crate) production: String,
}

/// A function: its name and the lines from `fn` to the closing brace.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Function {
    pub(crate) name: String,
    pub(crate) first_line: usize,
    pub(crate) lines: usize,
}

impl Sources {
    /// Reads the Rust files of `tree`. Files in a folder `tests` or `benches`, and modules declared under
    /// `#[cfg(test)]`, are tests as a whole.
    pub(crate) fn read(tree: &Tree) -> Self {
        let rust = tree.files().iter().filter(|(path, _)| path.ends_with(".rs"));
        let mut files: BTreeMap<String, Source> = rust.map(|(path, text)| (path.clone(), Source::read(text))).collect();
        let test_modules: Vec<String> =
            files.iter().flat_map(|(path, source)| outlined_test_modules(path, &source.code)).collect();
        for (path, source) in &mut files {
            let module = path.trim_end_matches(".rs").trim_end_matches("/mod");
            let declared = test_modules.iter().any(|test| module == test || module.starts_with(&format!("{test}/")));
            if declared || path.split('/').any(|folder| folder == "tests" || folder == "benches") {
                source.production = blank(&source.code, 0, source.code.len());
            }
        }
        Self { files }
    }

    /// Path and source of every Rust file, by path.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &Source)> {
        self.files.iter().map(|(path, source)| (path.as_str(), source))
    }
}

impl Source {
    fn read(text: &str) -> Self {
        let code = blank_comments_and_strings(text);
        let mut production = code.clone();
        for (start, end) in test_items(&code) {
            production = blank(&production, start, end);
        }
        Self { text: text.to_owned(), code, production }
    }

    /// Lines outside of test items; none in a test file.
    pub(crate) fn production_lines(&self) -> usize {
        if self.production.trim().is_empty() && !self.code.trim().is_empty() {
            return 0;
        }
        let tests: usize = test_items(&self.code)
            .iter()
            .map(|(start, end)| line_of(&self.code, *end) - line_of(&self.code, *start) + 1)
            .sum();
        self.text.lines().count().saturating_sub(tests)
    }

    /// The functions outside of tests, in order; nested ones too.
    pub(crate) fn functions(&self) -> Vec<Function> {
        let code = &self.production;
        let mut functions = Vec::new();
        for start in words(code, "fn") {
            let name: String =
                code[start + 2..].trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            let Some((end, true)) = item_end(code, start) else { continue };
            if !name.is_empty() {
                let first_line = line_of(code, start);
                functions.push(Function { name, first_line, lines: line_of(code, end - 1) - first_line + 1 });
            }
        }
        functions
    }
}

/// Offsets at which `word` stands in `text` with no letter, digit or underscore beside it.
pub(crate) fn words<'a>(text: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    let is_word = |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    text.match_indices(word).map(|(at, _)| at).filter(move |at| {
        let bytes = text.as_bytes();
        !is_word(at.checked_sub(1).and_then(|before| bytes.get(before))) && !is_word(bytes.get(at + word.len()))
    })
}

/// Modules (path without `.rs`) that `path` declares as `#[cfg(test)] mod name;`.
fn outlined_test_modules(path: &str, code: &str) -> Vec<String> {
    let (folder, file) = path.rsplit_once('/').unwrap_or(("", path));
    let folder = match file {
        "lib.rs" | "main.rs" | "mod.rs" => folder.to_owned(),
        _ => format!("{folder}/{}", file.trim_end_matches(".rs")),
    };
    let items = test_items(code).into_iter().map(|(start, end)| code[start..end].trim_end());
    items
        .filter_map(|item| item.strip_suffix(';')?.rsplit_once("mod ").map(|(_, name)| name.trim().to_owned()))
        .map(|name| format!("{folder}/{name}"))
        .collect()
}

/// Start and end of each item under `#[cfg(test)]` or `#[cfg(all(test, …))]`, outermost only.
fn test_items(code: &str) -> Vec<(usize, usize)> {
    let mut items: Vec<(usize, usize)> = Vec::new();
    for (start, attribute) in code.match_indices("#[cfg(") {
        let condition = &code[start + attribute.len()..];
        let inside = items.last().is_some_and(|(_, end)| start < *end);
        if inside || !(condition.starts_with("test)") || condition.starts_with("all(test,")) {
            continue;
        }
        let after = code[start..].find(']').map_or(code.len(), |at| start + at + 1);
        let end = item_end(code, after).map_or(code.len(), |(end, _)| end);
        items.push((start, end));
    }
    items
}

/// The end of the item that starts at `start`, and whether it has a body: past the closing brace of the first `{`, or
/// past the first `;`, outside of parentheses and brackets.
fn item_end(code: &str, start: usize) -> Option<(usize, bool)> {
    let (mut depth, mut braces) = (0_i32, 0_i32);
    for (at, byte) in code.bytes().enumerate().skip(start) {
        match byte {
            b'(' | b'[' => depth += 1,
            b')' | b']' => depth -= 1,
            b';' if depth == 0 && braces == 0 => return Some((at + 1, false)),
            b'{' => braces += 1,
            b'}' => {
                braces -= 1;
                if braces <= 0 {
                    return Some((at + 1, braces == 0));
                }
            }
            _ => {}
        }
    }
    None
}

/// `text` with the bytes of `start..end` as spaces, line ends kept.
fn blank(text: &str, start: usize, end: usize) -> String {
    let mut bytes = text.as_bytes().to_vec();
    for byte in &mut bytes[start..end] {
        if *byte != b'\n' {
            *byte = b' ';
        }
    }
    String::from_utf8(bytes).expect("spaces replace whole characters: the borders lie beside ASCII")
}

/// Blanks comments, and strings and characters with their quotes.
fn blank_comments_and_strings(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut code = String::with_capacity(text.len());
    let mut at = 0;
    while at < bytes.len() {
        let end = token_end(bytes, at);
        if end == at {
            // Not a comment or literal: copy up to the next byte that could begin one.
            let next = (at + 1..bytes.len()).find(|next| token_may_begin(bytes, *next)).unwrap_or(bytes.len());
            code.push_str(&text[at..next]);
            at = next;
        } else {
            code.push_str(&blank(&text[at..end], 0, end - at));
            at = end;
        }
    }
    code
}

fn token_may_begin(bytes: &[u8], at: usize) -> bool {
    matches!(bytes[at], b'/' | b'"' | b'\'' | b'r' | b'b' | b'c')
}

/// The end of the comment or literal that begins at `at`; `at` itself if none does.
fn token_end(bytes: &[u8], at: usize) -> usize {
    let rest = &bytes[at..];
    let after_name = at > 0 && (bytes[at - 1].is_ascii_alphanumeric() || bytes[at - 1] == b'_');
    if rest.starts_with(b"//") {
        return rest.iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |length| at + length);
    }
    if rest.starts_with(b"/*") {
        return block_comment_end(bytes, at);
    }
    if rest[0] == b'\'' {
        return character_end(bytes, at);
    }
    if rest[0] == b'"' {
        return string_end(bytes, at + 1);
    }
    if after_name || !matches!(rest[0], b'r' | b'b' | b'c') {
        return at;
    }
    if rest[0] == b'b' && rest.get(1) == Some(&b'\'') {
        return character_end(bytes, at + 1);
    }
    let prefix = rest.iter().take(2).take_while(|byte| matches!(byte, b'r' | b'b' | b'c')).count();
    let raw = rest[..prefix].contains(&b'r');
    let hashes = rest[prefix..].iter().take_while(|byte| **byte == b'#').count();
    match rest.get(prefix + hashes) {
        Some(b'"') if raw => raw_string_end(bytes, at + prefix + hashes + 1, hashes),
        Some(b'"') if hashes == 0 => string_end(bytes, at + prefix + 1),
        _ => at,
    }
}

fn block_comment_end(bytes: &[u8], start: usize) -> usize {
    let (mut at, mut depth) = (start, 0);
    while at < bytes.len() {
        if bytes[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if bytes[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    bytes.len()
}

/// Past the closing quote of the string whose inside begins at `inside`.
fn string_end(bytes: &[u8], inside: usize) -> usize {
    let mut at = inside;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

fn raw_string_end(bytes: &[u8], inside: usize, hashes: usize) -> usize {
    let closing = [b"\"".as_slice(), "#".repeat(hashes).as_bytes()].concat();
    let found = bytes[inside..].windows(closing.len()).position(|window| window == closing);
    found.map_or(bytes.len(), |length| inside + length + closing.len())
}

/// Past the character literal at `at`; `at` if the quote begins a lifetime or a label.
fn character_end(bytes: &[u8], at: usize) -> usize {
    match bytes.get(at + 1) {
        Some(b'\\') => {
            let close = bytes[at + 3..].iter().position(|byte| *byte == b'\'');
            close.map_or(bytes.len(), |length| at + 3 + length + 1)
        }
        Some(first) => {
            let width = match first {
                0..=0x7f => 1,
                0x80..=0xdf => 2,
                0xe0..=0xef => 3,
                _ => 4,
            };
            if bytes.get(at + 1 + width) == Some(&b'\'') { at + width + 2 } else { at }
        }
        None => at,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(text: &str) -> String {
        let blanked = blank_comments_and_strings(text);
        assert_eq!(blanked.len(), text.len(), "offsets must agree");
        blanked.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn only_code_is_left() {
        assert_eq!(code("a // b\nc /* d /* e */ f */ g"), "a c g");
        assert_eq!(code(r#"let a = "x \" y"; b"#), "let a = ; b");
        assert_eq!(code("let a = r#\"x \" y\"#; b"), "let a = ; b");
        assert_eq!(code("let a = b\"x\"; let b = br\"\\\"; c"), "let a = ; let b = ; c");
        assert_eq!(code("fn f<'a>(x: &'a str) { '{' '\\'' '\\u{1F600}' 'é' b'}' }"), "fn f<'a>(x: &'a str) { }");
        assert_eq!(code("for r in bar { car\"\" }"), "for r in bar { car }");
    }

    #[test]
    fn test_items_are_not_production() {
        let source = Source::read("fn a() {}\n#[cfg(test)]\nmod tests {\n fn b() {}\n}\nfn c() {}\n");
        assert!(source.production.contains("fn a") && source.production.contains("fn c"));
        assert!(!source.production.contains("fn b"));
        assert_eq!(source.production_lines(), 2);
    }

    #[test]
    fn functions_are_measured_to_their_closing_brace() {
        let source = Source::read(
            "trait T { fn no_body(&self) -> [u8; 4]; }\nfn f(\n  a: u8,\n) where u8: Copy {\n  if a { '}' }\n}\n",
        );
        let found = source.functions();
        assert_eq!(found, [Function { name: "f".into(), first_line: 2, lines: 5 }]);
    }

    #[test]
    fn modules_declared_as_tests_are_tests() {
        let tree = Tree::of(&[
            ("crates/a/src/lib.rs", "//! A.\nmod b;"),
            ("crates/a/src/b.rs", "//! B.\n#[cfg(test)]\nmod proof;"),
            ("crates/a/src/b/proof.rs", "//! C.\nfn long() {}"),
            ("crates/a/tests/d.rs", "//! D.\nfn long() {}"),
            ("crates/a/src/e.rs", "//! E.\nfn long() {}"),
        ]);
        let with_functions: Vec<_> = Sources::read(&tree)
            .iter()
            .filter(|(_, source)| !source.functions().is_empty())
            .map(|(path, _)| path.to_owned())
            .collect();
        assert_eq!(with_functions, ["crates/a/src/e.rs"]);
    }

    #[test]
    fn words_stand_alone() {
        assert_eq!(words("fn fn_a afn fn", "fn").collect::<Vec<_>>(), [0, 12]);
    }
}
