//! Options of tables and columns as statements write them: `WITH (compression = …)` in CREATE TABLE and behind columns,
//! `USING COMPRESSION …` as in DuckDB, and ALTER TABLE … SET (…) and RESET (…).

use datafusion::sql::sqlparser::ast::{Ident, ObjectName, SqlOption};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use forebay_base::Result;

use crate::dialect::ForebayDialect;
use crate::syntax_error::{expected, parser_error};

/// ALTER TABLE table with actions that change options only.
#[derive(Debug)]
pub struct AlterOptions {
    /// The table.
    pub name: ObjectName,
    /// A missing table is no error.
    pub if_exists: bool,
    /// In the order of the statement.
    pub actions: Vec<Action>,
}

/// Sets options of a table, or of one of its columns, or takes them back.
#[derive(Debug)]
pub struct Action {
    /// The column; `None` for the table.
    pub column: Option<Ident>,
    /// What becomes of its options.
    pub change: Change,
}

/// What becomes of options.
#[derive(Debug)]
pub enum Change {
    /// They get these values.
    Set(Vec<SqlOption>),
    /// They have no value of their own any more.
    Reset(Vec<Ident>),
}

/// An ALTER TABLE statement that changes options; `None` where its first action does something else.
pub fn parse_alter(tokens: &[TokenWithSpan]) -> Result<Option<AlterOptions>> {
    let mut parser = Parser::new(&ForebayDialect).with_tokens_with_locations(tokens.to_vec());
    if !parser.parse_keywords(&[Keyword::ALTER, Keyword::TABLE]) {
        return Ok(None);
    }
    let if_exists = parser.parse_keywords(&[Keyword::IF, Keyword::EXISTS]);
    // What is no name is for the other parser to report.
    let Ok(name) = parser.parse_object_name(false) else { return Ok(None) };
    let mut actions = Vec::new();
    loop {
        match parse_action(&mut parser)? {
            Some(action) => actions.push(action),
            None if actions.is_empty() => return Ok(None),
            None => return Err(expected(&parser, "SET (…) or RESET (…), of the table or of a column")),
        }
        if !parser.consume_token(&Token::Comma) {
            break;
        }
    }
    match parser.peek_token().token {
        Token::EOF | Token::SemiColon => Ok(Some(AlterOptions { name, if_exists, actions })),
        _ => Err(expected(&parser, "the end of the statement")),
    }
}

/// `[ALTER [COLUMN] column] SET (name = value, …)`, or RESET (name, …).
fn parse_action(parser: &mut Parser<'_>) -> Result<Option<Action>> {
    let column = match parser.parse_keyword(Keyword::ALTER) {
        true => {
            let _ = parser.parse_keyword(Keyword::COLUMN);
            match parser.parse_identifier() {
                Ok(column) => Some(column),
                Err(_) => return Ok(None),
            }
        }
        false => None,
    };
    if parser.peek_nth_token(1).token != Token::LParen {
        return Ok(None);
    }
    if parser.peek_keyword(Keyword::SET) {
        let options = parser.parse_options(Keyword::SET).map_err(parser_error)?;
        return Ok(Some(Action { column, change: Change::Set(options) }));
    }
    if parser.parse_keyword(Keyword::RESET) {
        let _ = parser.next_token();
        let names = parser.parse_comma_separated(Parser::parse_identifier).map_err(parser_error)?;
        parser.expect_token(&Token::RParen).map_err(parser_error)?;
        return Ok(Some(Action { column, change: Change::Reset(names) }));
    }
    Ok(None)
}

/// Whether an ALTER TABLE is about a field of a struct: `ADD COLUMN s.a`.
pub fn names_field(tokens: &[TokenWithSpan]) -> bool {
    let tokens = tokens.iter().filter(|token| !matches!(token.token, Token::Whitespace(_) | Token::EOF));
    let words = tokens.map(|token| token.token.to_string().to_uppercase());
    let behind = words.skip(3).skip_while(|word| !matches!(&**word, "ADD" | "DROP" | "RENAME")).skip(1);
    let mut named = behind.skip_while(|word| matches!(&**word, "COLUMN" | "IF" | "NOT" | "EXISTS"));
    named.next().is_some() && named.next().is_some_and(|word| word == ".")
}
