//! Phrases that the parser takes for something else, in words that it knows, or refused. Works on tokens, whose places in the
//! text stay as they are.

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use forebay_base::{Error, Position, Result};

/// Units of intervals that the parser would take for the name of a column: `INTERVAL 3 decades`.
const UNITS: [(&str, &str); 4] =
    [("decades", "DECADE"), ("centuries", "CENTURY"), ("millennia", "MILLENNIUM"), ("quarters", "QUARTER")];

/// The tokens in words that the parser knows. Errors: joins that are not there, which would be another join.
pub fn known(mut tokens: Vec<TokenWithSpan>) -> Result<Vec<TokenWithSpan>> {
    let is_blank = |token: &TokenWithSpan| matches!(token.token, Token::Whitespace(_));
    let places: Vec<usize> = (0..tokens.len()).filter(|index| !is_blank(&tokens[*index])).collect();
    for pair in places.windows(2) {
        // The parser would take the word for the name of the table before it.
        if is_word(&tokens[pair[0]], "positional") && is_keyword(&tokens[pair[1]], Keyword::JOIN) {
            let start = tokens[pair[0]].span.start;
            return Err(Error::unsupported("POSITIONAL JOIN is not supported")
                .hint("Number the rows of both sides by row_number() OVER (ORDER BY …), and join on the numbers")
                .at(Position { line: start.line, column: start.column }));
        }
    }
    for window in places.windows(3) {
        let [interval, value, unit] = [window[0], window[1], window[2]];
        let is_value = matches!(tokens[value].token, Token::Number(..) | Token::SingleQuotedString(_));
        if is_value
            && is_keyword(&tokens[interval], Keyword::INTERVAL)
            && let Some((_, known)) = UNITS.iter().find(|(word, _)| is_word(&tokens[unit], word))
        {
            tokens[unit].token = Token::make_keyword(known);
        }
    }
    Ok(tokens)
}

fn is_word(token: &TokenWithSpan, wanted: &str) -> bool {
    matches!(&token.token, Token::Word(word) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(wanted))
}

fn is_keyword(token: &TokenWithSpan, keyword: Keyword) -> bool {
    matches!(&token.token, Token::Word(word) if word.keyword == keyword)
}
