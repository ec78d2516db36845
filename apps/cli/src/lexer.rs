//! Where strings, comments, words and statements of a SQL text begin and end.
//!
//! Invariants: every byte belongs to exactly one token; a text may be given in pieces (lines), since the state between
//! two pieces is a value. Must not know: grammar; the database parses.

use std::ops::Range;

/// What a token is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Token {
    /// Keyword, function or unquoted name.
    Word,
    /// `"name"`.
    QuotedName,
    /// `'text'` or `$$text$$`.
    Text,
    /// `12`, `1.5e-3`.
    Number,
    /// `-- …` or `/* … */`.
    Comment,
    /// Blanks and line ends.
    Space,
    /// `;`.
    Semicolon,
    /// Anything else.
    Symbol,
}

/// What the end of a piece lies in.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum State {
    /// Between tokens.
    #[default]
    Between,
    /// In a string or quoted name that this character ends.
    Quoted(char),
    /// In a string that this delimiter (`$tag$`) ends.
    Dollar(String),
    /// In a comment to the end of the line.
    LineComment,
    /// In a comment of this nesting depth.
    BlockComment(usize),
}

/// The tokens of `text`, which goes on where `state` says; `state` becomes that of its end.
pub(crate) fn tokens(text: &str, state: &mut State) -> Vec<(Token, Range<usize>)> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < text.len() {
        let start = at;
        let token = match state {
            State::Between => begin(&text[at..], state, &mut at),
            State::Quoted(quote) => {
                let token = if *quote == '"' { Token::QuotedName } else { Token::Text };
                at = match text[at..].find(*quote) {
                    Some(end) => {
                        let next = at + end + 1;
                        *state = State::Between;
                        next
                    }
                    None => text.len(),
                };
                token
            }
            State::Dollar(delimiter) => {
                at = match text[at..].find(delimiter.as_str()) {
                    Some(end) => {
                        let next = at + end + delimiter.len();
                        *state = State::Between;
                        next
                    }
                    None => text.len(),
                };
                Token::Text
            }
            State::LineComment => {
                at = text[at..].find('\n').map_or(text.len(), |end| at + end + 1);
                if text[..at].ends_with('\n') {
                    *state = State::Between;
                }
                Token::Comment
            }
            State::BlockComment(depth) => {
                at = comment_end(text, at, depth);
                if *depth == 0 {
                    *state = State::Between;
                }
                Token::Comment
            }
        };
        push(&mut found, token, start..at);
    }
    found
}

/// Where the statements of `sql` begin: with what is neither blank nor comment.
pub(crate) fn beginnings(sql: &str) -> Vec<usize> {
    let mut found = Vec::new();
    let mut has_begun = false;
    for (token, range) in tokens(sql, &mut State::default()) {
        match token {
            Token::Space | Token::Comment => {}
            Token::Semicolon => has_begun = false,
            _ if has_begun => {}
            _ => {
                has_begun = true;
                found.push(range.start);
            }
        }
    }
    found
}

/// Joins what belongs together: the opening of a string or comment and its rest; `''` continues a string.
fn push(found: &mut Vec<(Token, Range<usize>)>, token: Token, range: Range<usize>) {
    match found.last_mut() {
        Some((last, before))
            if *last == token
                && before.end == range.start
                && matches!(token, Token::Text | Token::QuotedName | Token::Comment) =>
        {
            before.end = range.end;
        }
        _ => found.push((token, range)),
    }
}

/// Takes the token that begins `rest`, or only its opening where it may go on into the next piece.
fn begin(rest: &str, state: &mut State, at: &mut usize) -> Token {
    let length = |keep: fn(char) -> bool| rest.find(|c| !keep(c)).unwrap_or(rest.len());
    let first = rest.chars().next().unwrap_or(' ');
    let (token, taken) = match first {
        '\'' | '"' => {
            *state = State::Quoted(first);
            (if first == '"' { Token::QuotedName } else { Token::Text }, 1)
        }
        '$' => match dollar_delimiter(rest) {
            Some(delimiter) => {
                *state = State::Dollar(delimiter.to_owned());
                (Token::Text, delimiter.len())
            }
            None => (Token::Symbol, 1),
        },
        '-' if rest.starts_with("--") => {
            *state = State::LineComment;
            (Token::Comment, 2)
        }
        '/' if rest.starts_with("/*") => {
            *state = State::BlockComment(1);
            (Token::Comment, 2)
        }
        ';' => (Token::Semicolon, 1),
        _ if first.is_whitespace() => (Token::Space, length(char::is_whitespace)),
        _ if first.is_ascii_digit() => (Token::Number, number_length(rest)),
        _ if first.is_alphabetic() || first == '_' => {
            (Token::Word, length(|c| c.is_alphanumeric() || c == '_' || c == '$'))
        }
        _ => (Token::Symbol, first.len_utf8()),
    };
    *at += taken;
    token
}

/// `$$` or `$tag$` at the start of `rest`.
fn dollar_delimiter(rest: &str) -> Option<&str> {
    let tag = rest[1..].find('$')?;
    let name = &rest[1..=tag];
    let is_tag = name.chars().all(|c| c.is_alphanumeric() || c == '_') && !name.starts_with(|c: char| c.is_numeric());
    is_tag.then(|| &rest[..tag + 2])
}

fn number_length(rest: &str) -> usize {
    let bytes = rest.as_bytes();
    let mut end = 0;
    while end < bytes.len() {
        let exponent_sign = matches!(bytes[end], b'+' | b'-') && matches!(bytes[end - 1], b'e' | b'E');
        if !(bytes[end].is_ascii_alphanumeric() || bytes[end] == b'.' || bytes[end] == b'_' || exponent_sign) {
            break;
        }
        end += 1;
    }
    end
}

/// The end of the comment that goes on at `at`, or of `text`; `depth` becomes the nesting there.
fn comment_end(text: &str, mut at: usize, depth: &mut usize) -> usize {
    let bytes = text.as_bytes();
    while at < bytes.len() && *depth > 0 {
        match &bytes[at..] {
            [b'*', b'/', ..] => {
                *depth -= 1;
                at += 2;
            }
            [b'/', b'*', ..] => {
                *depth += 1;
                at += 2;
            }
            _ => at += 1,
        }
    }
    while !text.is_char_boundary(at) {
        at += 1;
    }
    at
}

/// Finds the ends of statements in a script that comes line by line.
#[derive(Debug, Default)]
pub(crate) struct Splitter {
    state: State,
    /// Something other than blanks and comments came since the last end of a statement.
    pending: bool,
    /// A statement ended, and nothing has begun since.
    ended: bool,
}

impl Splitter {
    /// Takes the next line, its line end included; says whether it ends all statements begun so far.
    pub(crate) fn feed(&mut self, line: &str) -> bool {
        for (token, _) in tokens(line, &mut self.state) {
            match token {
                Token::Space | Token::Comment => {}
                Token::Semicolon => (self.pending, self.ended) = (false, true),
                _ => (self.pending, self.ended) = (true, false),
            }
        }
        let complete = self.ended && !matches!(self.state, State::BlockComment(_));
        if complete {
            self.ended = false;
        }
        complete
    }

    /// Whether a meta command may begin here.
    pub(crate) fn is_between_statements(&self) -> bool {
        !self.pending && self.state == State::Between
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<(Token, &str)> {
        let all = tokens(text, &mut State::default());
        all.into_iter().filter(|(token, _)| *token != Token::Space).map(|(token, at)| (token, &text[at])).collect()
    }

    #[test]
    fn tokens_of_a_query() {
        use Token::{Comment, Number, QuotedName, Semicolon, Symbol, Text, Word};
        let text = "select \"a\"\"b\", 'it''s; ' || 1.5e-3 -- x;\nfrom t$1 /* a /* ; */ b */;";
        assert_eq!(
            kinds(text),
            [
                (Word, "select"),
                (QuotedName, "\"a\"\"b\""),
                (Symbol, ","),
                (Text, "'it''s; '"),
                (Symbol, "|"),
                (Symbol, "|"),
                (Number, "1.5e-3"),
                (Comment, "-- x;\n"),
                (Word, "from"),
                (Word, "t$1"),
                (Comment, "/* a /* ; */ b */"),
                (Semicolon, ";"),
            ]
        );
    }

    #[test]
    fn dollar_quotes_need_their_own_tag_to_end() {
        assert_eq!(kinds("$a$ ; $b$ $a$;"), [(Token::Text, "$a$ ; $b$ $a$"), (Token::Semicolon, ";")]);
        assert_eq!(kinds("$1")[0], (Token::Symbol, "$"));
    }

    #[test]
    fn every_byte_has_one_token_in_any_cut() {
        let text = "select 'ä''; $$' , $q$ é; $q$, /* ü; */ \"日\" -- é\n; x";
        for cut in (0..=text.len()).filter(|&cut| text.is_char_boundary(cut)) {
            let mut state = State::default();
            for piece in [&text[..cut], &text[cut..]] {
                let mut end = 0;
                for (_, range) in tokens(piece, &mut state) {
                    assert_eq!(range.start, end, "cut {cut}");
                    end = range.end;
                }
                assert_eq!(end, piece.len(), "cut {cut}");
            }
        }
    }

    #[test]
    fn statements_begin_behind_comments() {
        let sql = "-- a; b\nselect ';x'; /* select 2 */ ; ;\n /* /* ; */ */ select 2";
        let begun: Vec<&str> = beginnings(sql).into_iter().map(|start| &sql[start..start + 8]).collect();
        assert_eq!(begun, ["select '", "select 2"]);
        assert_eq!(beginnings(sql).last(), Some(&(sql.len() - 8)));
        assert!(beginnings(" -- nothing\n;").is_empty());
    }

    #[test]
    fn statements_end_outside_of_strings_and_comments() {
        let mut splitter = Splitter::default();
        let lines = [
            ("select 1; select\n", false),
            ("'a;\n", false),
            ("b' -- ;\n", false),
            (";\n", true),
            ("-- only a comment;\n", false),
            ("select 2; -- done\n", true),
            ("\n", false),
            ("select 3; /*\n", false),
            ("*/\n", true),
        ];
        for (line, expected) in lines {
            assert_eq!(splitter.feed(line), expected, "{line:?}");
        }
        assert!(splitter.is_between_statements());
        splitter.feed("select\n");
        assert!(!splitter.is_between_statements());
    }
}
