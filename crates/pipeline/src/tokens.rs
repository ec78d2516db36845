//! Words, quoted bytes and symbols of the text form, with their lines.

use std::fmt;

use forebay_base::{Error, Result};

use crate::ir::Constant;

/// One token.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Token {
    /// Letters, digits, `_`; and numbers with sign, point and exponent.
    Word(String),
    /// What stood in quotes.
    Quoted(Vec<u8>),
    /// Anything else.
    Symbol(&'static str),
    /// The end of the text.
    End,
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Word(word) => write!(f, "`{word}`"),
            Self::Quoted(bytes) => Constant::Bytes(bytes.as_slice().into()).fmt(f),
            Self::Symbol(symbol) => write!(f, "`{symbol}`"),
            Self::End => f.write_str("the end"),
        }
    }
}

/// Longer ones before those that they begin with.
const SYMBOLS: [&str; 16] = ["->", ">=", "<=", "<>", "(", ")", "{", "}", ",", ";", ":", "=", "<", ">", "?", "-"];

/// The tokens of a text, read one after the other.
pub(crate) struct Tokens {
    list: Vec<(Token, usize)>,
    at: usize,
}

impl Tokens {
    /// Takes a text apart whose first line has this number. `#` begins a comment.
    pub(crate) fn new(text: &str, first_line: usize) -> Result<Self> {
        let mut list = Vec::new();
        let mut last = first_line;
        for (line, number) in text.lines().zip(first_line..) {
            let mut rest = line.trim_start();
            while !rest.is_empty() && !rest.starts_with('#') {
                let (token, after) = next(rest).map_err(|message| at_line(message, number))?;
                list.push((token, number));
                rest = after.trim_start();
            }
            last = number;
        }
        list.push((Token::End, last));
        Ok(Self { list, at: 0 })
    }

    /// The next token, which stays.
    pub(crate) fn peek(&self) -> &Token {
        self.peek_at(0)
    }

    /// The token after `ahead` others.
    pub(crate) fn peek_at(&self, ahead: usize) -> &Token {
        &self.list[(self.at + ahead).min(self.list.len() - 1)].0
    }

    /// Takes the next token.
    pub(crate) fn take(&mut self) -> Token {
        let token = self.peek().clone();
        self.at = (self.at + 1).min(self.list.len() - 1);
        token
    }

    /// Takes the next token if it is this word.
    pub(crate) fn accept_word(&mut self, word: &str) -> bool {
        let found = matches!(self.peek(), Token::Word(next) if next == word);
        self.at += usize::from(found);
        found
    }

    /// Takes the next token if it is this symbol.
    pub(crate) fn accept(&mut self, symbol: &str) -> bool {
        let found = matches!(self.peek(), Token::Symbol(next) if *next == symbol);
        self.at += usize::from(found);
        found
    }

    /// Takes this symbol.
    pub(crate) fn expect(&mut self, symbol: &str) -> Result<()> {
        if self.accept(symbol) { Ok(()) } else { Err(self.unexpected(&format!("`{symbol}`"))) }
    }

    /// Takes this word.
    pub(crate) fn expect_word(&mut self, word: &str) -> Result<()> {
        if self.accept_word(word) { Ok(()) } else { Err(self.unexpected(&format!("`{word}`"))) }
    }

    /// Takes a word of which `read` makes something.
    pub(crate) fn word<T>(&mut self, what: &str, read: impl FnOnce(&str) -> Option<T>) -> Result<T> {
        let read = match self.peek() {
            Token::Word(word) => read(word),
            _ => None,
        };
        let read = read.ok_or_else(|| self.unexpected(what))?;
        self.at += 1;
        Ok(read)
    }

    /// Takes things with commas between them, up to `close`.
    pub(crate) fn list<T>(
        &mut self,
        open: &str,
        close: &str,
        mut read: impl FnMut(&mut Self) -> Result<T>,
    ) -> Result<Vec<T>> {
        self.expect(open)?;
        let mut items = Vec::new();
        while !self.accept(close) {
            if !items.is_empty() {
                self.expect(",")?;
            }
            items.push(read(self)?);
        }
        Ok(items)
    }

    /// The next token is not what should stand there.
    pub(crate) fn unexpected(&self, what: &str) -> Error {
        let (token, line) = &self.list[self.at];
        at_line(format!("expected {what}, found {token}"), *line)
    }

    /// The token that was taken last is not what should have stood there.
    pub(crate) fn reject(&mut self, what: &str) -> Error {
        self.at = self.at.saturating_sub(1);
        self.unexpected(what)
    }
}

fn at_line(message: String, line: usize) -> Error {
    Error::input(message).context(format!("line {line}"))
}

/// A token and what follows it, or what is wrong.
type Next<'a> = std::result::Result<(Token, &'a str), String>;

/// The token that a text begins with.
fn next(text: &str) -> Next<'_> {
    if let Some(quoted) = text.strip_prefix('"') {
        return unquote(quoted);
    }
    let words = word_bytes(text);
    if words > 0 {
        return Ok((Token::Word(text[..words].to_owned()), &text[words..]));
    }
    let symbol = SYMBOLS.into_iter().find(|symbol| text.starts_with(symbol));
    match symbol {
        Some(symbol) => Ok((Token::Symbol(symbol), &text[symbol.len()..])),
        None => Err(format!("unexpected character {:?}", text.chars().next().unwrap_or_default())),
    }
}

/// Length of the word or number that a text begins with; 0 where it begins with none.
fn word_bytes(text: &str) -> usize {
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    let is_number = unsigned.starts_with(|c: char| c.is_ascii_digit());
    if !is_number && unsigned.len() < text.len() && !unsigned.starts_with("inf") {
        return 0;
    }
    let mut previous = ' ';
    let ends = |character: char| {
        let in_number = character == '.' || (matches!(character, '-' | '+') && previous == 'e');
        previous = character;
        !(character.is_ascii_alphanumeric() || character == '_' || (is_number && in_number))
    };
    text.len() - unsigned.len() + unsigned.find(ends).unwrap_or(unsigned.len())
}

/// The bytes up to the closing quote, and what follows it.
fn unquote(text: &str) -> Next<'_> {
    let mut bytes = Vec::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Ok((Token::Quoted(bytes), &text[at + 1..])),
            '\\' => match characters.next() {
                Some((_, 'n')) => bytes.push(b'\n'),
                Some((_, 't')) => bytes.push(b'\t'),
                Some((at, 'x')) => {
                    let byte = text.get(at + 1..at + 3).and_then(|digits| u8::from_str_radix(digits, 16).ok());
                    bytes.push(byte.ok_or("expected two hexadecimal digits after \\x")?);
                    characters.nth(1);
                }
                Some((_, escaped @ ('"' | '\\'))) => bytes.push(escaped as u8),
                _ => return Err("unknown escape in a quoted text".to_owned()),
            },
            _ => bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    Err("a quoted text has no end".to_owned())
}
