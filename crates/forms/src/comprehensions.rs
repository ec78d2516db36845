//! `[x + 1 FOR x IN l IF x > 1]` as `list_transform(list_filter(l, lambda x: x > 1), lambda x: x + 1)`. Works on tokens, whose
//! places in the text stay as they are.

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace};

/// The tokens without comprehensions; inner ones before those around them.
pub fn written_out(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let mut opened = Vec::new();
    let mut place = 0;
    while place < tokens.len() {
        match tokens[place].token {
            Token::LBracket => opened.push(place),
            Token::RBracket => {
                if let Some(begin) = opened.pop()
                    && let Some(written) = comprehension(&tokens[begin + 1..place])
                {
                    let length = written.len();
                    tokens.splice(begin..=place, written);
                    place = begin + length - 1;
                }
            }
            _ => {}
        }
        place += 1;
    }
    tokens
}

/// What stands between brackets, if that is a comprehension.
fn comprehension(inner: &[TokenWithSpan]) -> Option<Vec<TokenWithSpan>> {
    let for_at = top_level(inner, 0, "for")?;
    let in_at = top_level(inner, for_at + 1, "in")?;
    let if_at = top_level(inner, in_at + 1, "if");
    let (value, names) = (&inner[..for_at], &inner[for_at + 1..in_at]);
    let list = &inner[in_at + 1..if_at.unwrap_or(inner.len())];
    let is_name = |token: &TokenWithSpan| matches!(token.token, Token::Word(_) | Token::Comma | Token::Whitespace(_));
    if !names.iter().all(is_name) || !names.iter().any(|token| matches!(token.token, Token::Word(_))) {
        return None;
    }
    let span = inner.first()?.span;
    let one = |token: Token| TokenWithSpan { token, span };
    let space = || one(Token::Whitespace(Whitespace::Space));
    let called = |name: &str, list: Vec<TokenWithSpan>, body: &[TokenWithSpan]| {
        let mut out = vec![one(Token::make_word(name, None)), one(Token::LParen)];
        out.extend(list);
        out.extend([one(Token::Comma), space(), one(Token::make_keyword("lambda")), space()]);
        out.extend_from_slice(names);
        out.push(one(Token::Colon));
        out.push(space());
        out.extend_from_slice(body);
        out.push(one(Token::RParen));
        out
    };
    let list = match if_at {
        Some(if_at) => called("list_filter", list.to_vec(), &inner[if_at + 1..]),
        None => list.to_vec(),
    };
    Some(called("list_transform", list, value))
}

/// The place of a word that stands in no parentheses, at or behind `from`.
fn top_level(tokens: &[TokenWithSpan], from: usize, wanted: &str) -> Option<usize> {
    let (mut depth, mut cases) = (0_i32, 0_i32);
    for (place, token) in tokens.iter().enumerate().skip(from) {
        match &token.token {
            Token::LParen | Token::LBracket | Token::LBrace => depth += 1,
            Token::RParen | Token::RBracket | Token::RBrace => depth -= 1,
            Token::Word(word) if word.keyword == Keyword::CASE => cases += 1,
            Token::Word(word) if word.keyword == Keyword::END => cases -= 1,
            Token::Word(word)
                if depth == 0
                    && cases == 0
                    && word.quote_style.is_none()
                    && word.value.eq_ignore_ascii_case(wanted) =>
            {
                return Some(place);
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::dialect::DuckDbDialect;
    use datafusion::sql::sqlparser::tokenizer::Tokenizer;

    fn check(text: &str, expect: &str) {
        let tokens = Tokenizer::new(&DuckDbDialect {}, text).tokenize_with_location().expect("tokens");
        let written: String = written_out(tokens).into_iter().map(|token| token.token.to_string()).collect();
        assert_eq!(written.split_whitespace().collect::<Vec<_>>().join(" "), expect);
    }

    #[test]
    fn comprehensions_are_calls() {
        check("[x + 1 FOR x IN [1, 2]]", "list_transform( [1, 2], lambda x : x + 1 )");
        check("[x FOR x IN l IF x > 1]", "list_transform(list_filter( l , lambda x : x > 1), lambda x : x )");
        check("[1, 2][1]", "[1, 2][1]");
    }
}
