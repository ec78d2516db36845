//! The tokens of a text, and where they are in it.

use datafusion::sql::sqlparser::ast::ObjectName;
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::{Location, Token, TokenWithSpan, Tokenizer};
use forebay_base::{Error, Result};
use forebay_context::error::split_position;

use crate::dialect::ForebayDialect;

/// All tokens of a text, white space and comments too.
pub fn tokens(text: &str) -> Result<Vec<TokenWithSpan>> {
    Tokenizer::new(&ForebayDialect, text).tokenize_with_location().map_err(|error| {
        let (message, position) = split_position(&error.to_string());
        let error = Error::input(format!("syntax error: {}", message.to_lowercase()));
        match position {
            Some(position) => error.at(position),
            None => error,
        }
    })
}

/// The name, with points or without, that a text is.
pub fn parse_name(text: &str) -> Result<ObjectName> {
    let wrong = |_| Error::input("not a name");
    let mut parser = Parser::new(&ForebayDialect).try_with_sql(text).map_err(wrong)?;
    let name = parser.parse_object_name(false).map_err(wrong)?;
    match parser.peek_token().token {
        Token::EOF => Ok(name),
        _ => Err(Error::input("not a name")),
    }
}

/// Byte offsets of lines and characters.
#[derive(Debug)]
pub struct Offsets<'a> {
    text: &'a str,
    lines: Vec<usize>,
}

impl<'a> Offsets<'a> {
    /// Those of a text.
    pub fn new(text: &'a str) -> Self {
        let breaks = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(index, _)| index + 1);
        Self { text, lines: std::iter::once(0).chain(breaks).collect() }
    }

    /// That of a place.
    pub fn byte(&self, location: Location) -> usize {
        let line = self.lines.get((location.line as usize).saturating_sub(1)).copied().unwrap_or(self.text.len());
        let characters = (location.column as usize).saturating_sub(1);
        self.text[line..].char_indices().nth(characters).map_or(self.text.len(), |(offset, _)| line + offset)
    }
}
