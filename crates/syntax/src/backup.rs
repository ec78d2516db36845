//! BACKUP [DATABASE] TO 'directory'.

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use forebay_base::Result;

use crate::dialect::ForebayDialect;
use crate::syntax_error::{expected, parser_error};

/// The directory of BACKUP [DATABASE] TO 'directory'.
pub(crate) fn directory(tokens: Vec<TokenWithSpan>) -> Result<String> {
    let mut parser = Parser::new(&ForebayDialect).with_tokens_with_locations(tokens);
    parser.next_token();
    let _ = parser.parse_keyword(Keyword::DATABASE);
    parser.expect_keyword(Keyword::TO).map_err(parser_error)?;
    // A word without quotes would be a name.
    let Token::SingleQuotedString(directory) = parser.peek_token().token else {
        return Err(expected(&parser, "a directory in quotes"));
    };
    parser.next_token();
    match parser.peek_token().token {
        Token::EOF => Ok(directory),
        _ => Err(expected(&parser, "the end of the statement")),
    }
}
