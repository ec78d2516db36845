//! `CREATE TYPE name AS …`.

use datafusion::sql::sqlparser::ast::{DataType, ObjectName};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use forebay_base::{Error, Result};
use forebay_syntax::dialect::ForebayDialect;
use forebay_syntax::syntax_error::parser_error;
use forebay_syntax::tokens::{Offsets, tokens};

/// A CREATE TYPE statement.
#[derive(Debug)]
pub struct CreateType {
    /// A type of this name is replaced.
    pub or_replace: bool,
    /// Nothing happens where there is one.
    pub if_not_exists: bool,
    /// Of this session only.
    pub is_temporary: bool,
    /// What it is called.
    pub name: ObjectName,
    /// What it stands for.
    pub definition: Definition,
}

/// What a name of a type stands for.
#[derive(Debug, PartialEq, Eq)]
pub enum Definition {
    /// A type.
    Type(DataType),
    /// The ENUM of the values that a query gives, in the order in which they first come.
    Query(String),
}

fn malformed() -> Error {
    Error::input("CREATE TYPE needs a name, AS and a type")
        .hint("Write CREATE TYPE mood AS ENUM ('sad', 'ok'), or CREATE TYPE price AS DECIMAL(9, 2)")
}

/// The CREATE TYPE statement of a text.
///
/// # Errors
/// What is not one.
pub fn create(text: &str) -> Result<CreateType> {
    let mut known = tokens(text)?;
    known.retain(|token| !matches!(token.token, Token::Whitespace(_) | Token::SemiColon | Token::EOF));
    let query = query_of(text, &known);
    let dialect = ForebayDialect;
    let mut parser = Parser::new(&dialect).with_tokens_with_locations(known);
    parser.expect_keyword(Keyword::CREATE).map_err(parser_error)?;
    let or_replace = parser.parse_keywords(&[Keyword::OR, Keyword::REPLACE]);
    let is_temporary = parser.parse_one_of_keywords(&[Keyword::TEMP, Keyword::TEMPORARY]).is_some();
    parser.expect_keyword(Keyword::TYPE).map_err(parser_error)?;
    let if_not_exists = parser.parse_keywords(&[Keyword::IF, Keyword::NOT, Keyword::EXISTS]);
    let name = parser.parse_object_name(false).map_err(parser_error)?;
    if !parser.parse_keyword(Keyword::AS) {
        return Err(malformed());
    }
    let definition = match query {
        Some(query) => Definition::Query(query),
        None => {
            let data_type = parse_type(&mut parser)?;
            match parser.peek_token().token {
                Token::EOF => Definition::Type(data_type),
                other => return Err(Error::input(format!("{other} follows the type {data_type}"))),
            }
        }
    };
    Ok(CreateType { or_replace, if_not_exists, is_temporary, name, definition })
}

/// A type, which may be an ENUM without values.
fn parse_type(parser: &mut Parser<'_>) -> Result<DataType> {
    let is_empty = matches!(parser.peek_nth_token(0).token, Token::Word(word) if word.keyword == Keyword::ENUM)
        && parser.peek_nth_token(1).token == Token::LParen
        && parser.peek_nth_token(2).token == Token::RParen;
    if is_empty {
        (0..3).for_each(|_| parser.advance_token());
        return Ok(DataType::Enum(Vec::new(), None));
    }
    parser.parse_data_type().map_err(parser_error)
}

/// The query in `AS ENUM (query)`.
fn query_of(text: &str, tokens: &[TokenWithSpan]) -> Option<String> {
    let is = |index: usize, keyword: Keyword| matches!(tokens.get(index).map(|token| &token.token), Some(Token::Word(word)) if word.keyword == keyword);
    let as_enum = (0..tokens.len()).find(|index| is(*index, Keyword::AS) && is(index + 1, Keyword::ENUM))?;
    let begins = [Keyword::SELECT, Keyword::FROM, Keyword::WITH, Keyword::VALUES, Keyword::TABLE];
    let first = tokens.get(as_enum + 3)?;
    let is_query = begins.into_iter().any(|keyword| is(as_enum + 3, keyword)) || first.token == Token::LParen;
    let last = tokens.last().filter(|last| last.token == Token::RParen)?;
    let offsets = Offsets::new(text);
    is_query.then(|| text[offsets.byte(first.span.start)..offsets.byte(last.span.start)].to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expect: &str) {
        let shown = match create(text) {
            Ok(made) => {
                let definition = match made.definition {
                    Definition::Type(data_type) => data_type.to_string(),
                    Definition::Query(query) => format!("query {query}"),
                };
                format!("{} {definition} {}{}", made.name, u8::from(made.or_replace), u8::from(made.is_temporary))
            }
            Err(error) => format!("error {}", error.message()),
        };
        assert_eq!(shown, expect);
    }

    #[test]
    fn definitions_are_types_and_queries() {
        check("CREATE TYPE a.mood AS ENUM ('x', 'it''s')", "a.mood ENUM('x', 'it''s') 00");
        check("create or replace temp type m as enum()", "m ENUM() 11");
        check("CREATE TYPE m AS ENUM (SELECT x FROM (t))", "m query SELECT x FROM (t) 00");
        check("CREATE TYPE p AS DECIMAL(9, 2)", "p DECIMAL(9,2) 00");
        check("CREATE TYPE p AS INTEGER[]", "p INTEGER[] 00");
        check("CREATE TYPE p ENUM ('a')", "error CREATE TYPE needs a name, AS and a type");
    }
}
