//! What tokens are, told by their words.

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// White space and comments.
pub(crate) fn is_blank(token: &TokenWithSpan) -> bool {
    matches!(token.token, Token::Whitespace(_))
}

/// Whether a token is this word, in any case and without quotes.
pub(crate) fn is_word(token: &Token, wanted: &str) -> bool {
    matches!(token, Token::Word(word) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(wanted))
}

/// The keyword that a token is; [`Keyword::NoKeyword`] of other tokens.
pub(crate) fn keyword(token: &Token) -> Keyword {
    match token {
        Token::Word(word) => word.keyword,
        _ => Keyword::NoKeyword,
    }
}

/// Whether a token opens parentheses, brackets or braces.
pub(crate) fn opens(token: &Token) -> bool {
    matches!(token, Token::LParen | Token::LBracket | Token::LBrace)
}

/// Whether a token closes them.
pub(crate) fn closes(token: &Token) -> bool {
    matches!(token, Token::RParen | Token::RBracket | Token::RBrace)
}

/// The places of the tokens that are not blank.
pub(crate) fn places(tokens: &[TokenWithSpan]) -> Vec<usize> {
    (0..tokens.len()).filter(|index| !is_blank(&tokens[*index])).collect()
}

/// Tokens as a text that has the same tokens.
pub(crate) fn text_of(tokens: &[TokenWithSpan]) -> String {
    let written = |token: &TokenWithSpan| match &token.token {
        Token::SingleQuotedString(text) => format!("'{}'", text.replace('\'', "''")),
        Token::EOF => String::new(),
        other => other.to_string(),
    };
    tokens.iter().map(written).collect()
}
