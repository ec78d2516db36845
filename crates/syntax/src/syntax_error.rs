//! What the parser did not understand, as errors with a place.

use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;
use forebay_base::{Error, Position};
use forebay_context::error::from_datafusion;

/// An error of the parser as ours.
pub fn parser_error(error: ParserError) -> Error {
    from_datafusion(datafusion::common::DataFusionError::SQL(Box::new(error), None))
}

/// The error that something else was expected than the next token.
pub fn expected(parser: &Parser<'_>, what: &str) -> Error {
    let token = parser.peek_token();
    let found = match &token.token {
        Token::EOF => "the end".to_owned(),
        other => other.to_string(),
    };
    let start = token.span.start;
    let error = Error::input(format!("syntax error: expected {what}, found {found}"));
    match start.line {
        0 => error,
        _ => error.at(Position { line: start.line, column: start.column }),
    }
}
