//! The options of CREATE SEQUENCE in the order in which the parser knows them.

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace};

use crate::words::{is_word, keyword, places};

/// The words that begin options, in the parser's order. NO stands before one of the others.
const ORDER: [&str; 6] = ["increment", "minvalue", "maxvalue", "start", "cache", "cycle"];

/// The tokens with options in order.
pub(crate) fn known(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let places = places(&tokens);
    let token = |index: usize| places.get(index).map(|place| &tokens[*place].token);
    let is = |index: usize, word: &str| token(index).is_some_and(|token| is_word(token, word));
    let sequence = (1..4).find(|index| is(*index, "sequence"));
    let (true, Some(sequence)) = (token(0).is_some_and(|first| keyword(first) == Keyword::CREATE), sequence) else {
        return tokens;
    };
    let option = |index: usize| ORDER.iter().position(|word| is(index, word));
    let begins = |index: usize| match is(index, "no") {
        true => option(index + 1),
        false => option(index).filter(|_| !is(index - 1, "no")),
    };
    // The name, with IF NOT EXISTS or a schema before it, is no option.
    let Some(first) = (sequence + 2..places.len()).find(|index| begins(*index).is_some()) else { return tokens };
    let is_end = |index: &usize| matches!(token(*index), None | Some(Token::EOF | Token::SemiColon));
    let end = (first..=places.len()).find(is_end).unwrap_or(places.len());
    let starts: Vec<(usize, usize)> =
        (first..end).filter_map(|index| begins(index).map(|order| (order, index))).collect();
    let ends = starts.iter().skip(1).map(|(_, index)| *index).chain([end]);
    let mut options: Vec<(usize, Vec<TokenWithSpan>)> = Vec::new();
    for ((order, from), to) in starts.iter().zip(ends) {
        let until = places.get(to).copied().unwrap_or(tokens.len());
        options.push((*order, tokens[places[*from]..until].to_vec()));
    }
    options.sort_by_key(|(order, _)| *order);
    let range = places[first]..places.get(end).copied().unwrap_or(tokens.len());
    let span = tokens[places[first]].span;
    let blank = TokenWithSpan { token: Token::Whitespace(Whitespace::Space), span };
    let sorted = options.into_iter().flat_map(|(_, option)| option.into_iter().chain([blank.clone()]));
    tokens.splice(range, sorted.collect::<Vec<_>>());
    tokens
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::dialect::DuckDbDialect;
    use datafusion::sql::sqlparser::tokenizer::Tokenizer;

    #[track_caller]
    fn check(text: &str, expect: &str) {
        let tokens = Tokenizer::new(&DuckDbDialect {}, text).tokenize_with_location().expect("tokens");
        let words = known(tokens).into_iter().filter(|token| !matches!(token.token, Token::Whitespace(_) | Token::EOF));
        let words: Vec<String> = words.map(|token| token.token.to_string()).collect();
        assert_eq!(words.join(" "), expect);
    }

    #[test]
    fn options_are_put_in_order() {
        check(
            "CREATE TEMP SEQUENCE start START 5 NO CYCLE INCREMENT BY -2 NO MAXVALUE;",
            "CREATE TEMP SEQUENCE start INCREMENT BY - 2 NO MAXVALUE START 5 NO CYCLE ;",
        );
        check("create sequence if not exists s.q", "create sequence if not exists s . q");
        check("CREATE TABLE sequence (start INT)", "CREATE TABLE sequence ( start INT )");
    }
}
