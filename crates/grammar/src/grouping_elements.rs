//! Elements of ROLLUP, CUBE and GROUPING SETS that the parser does not know: where one begins with a parenthesis, it takes what is in it
//! for a list of columns, and it knows no GROUPING SETS among GROUPING SETS.
//!
//! ```text
//! ROLLUP ((a + 1) % 2, (SELECT 1))       →   ROLLUP (((a + 1) % 2), ((SELECT 1)))
//! GROUPING SETS (GROUPING SETS (a, b))   →   GROUPING SETS (a, b)
//! ```

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace};

use crate::expressions::begins_query;
use crate::words::{closes, keyword, opens, places};

/// The tokens with such elements in parentheses of their own, and with the sets of sets in their place.
pub(crate) fn known(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let places = places(&tokens);
    let words: Vec<&Token> = places.iter().map(|place| &tokens[*place].token).collect();
    let (mut inserted, mut blank) = (Vec::new(), Vec::new());
    for open in (0..words.len()).filter_map(|at| list_of(&words, at)) {
        for (first, end) in elements(&words, open).unwrap_or_default() {
            let has_query = || words.get(first + 1).is_some_and(|word| begins_query(word));
            let is_list = || close_of(&words, first) == Some(end - 1) && !has_query();
            if let Some(inner) = sets_of(&words, first) {
                blank.extend((first..=inner).chain([end - 1]));
            } else if *words[first] == Token::LParen && !is_list() {
                inserted.extend([(end, Token::RParen), (first, Token::LParen)]);
            }
        }
    }
    for at in blank {
        tokens[places[at]].token = Token::Whitespace(Whitespace::Space);
    }
    inserted.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
    for (at, token) in inserted {
        let span = tokens[places[at]].span;
        tokens.insert(places[at], TokenWithSpan { token, span });
    }
    tokens
}

/// Where the list begins of the ROLLUP, CUBE or GROUPING SETS that begins here.
fn list_of(words: &[&Token], at: usize) -> Option<usize> {
    let is_one = matches!(keyword(words[at]), Keyword::ROLLUP | Keyword::CUBE);
    let opens = is_one && words.get(at + 1).is_some_and(|next| **next == Token::LParen);
    if opens { Some(at + 1) } else { sets_of(words, at) }
}

/// Where the list begins of the GROUPING SETS that begin here.
fn sets_of(words: &[&Token], at: usize) -> Option<usize> {
    let [grouping, sets, open] = words.get(at..at + 3)? else { return None };
    let is_one = keyword(grouping) == Keyword::GROUPING && keyword(sets) == Keyword::SETS && **open == Token::LParen;
    is_one.then_some(at + 2)
}

/// Where the elements of a list begin, and what stands behind each; `None` if the list has no end.
fn elements(words: &[&Token], open: usize) -> Option<Vec<(usize, usize)>> {
    let close = close_of(words, open)?;
    let (mut found, mut first, mut depth) = (Vec::new(), open + 1, 0_usize);
    for (at, word) in words.iter().enumerate().take(close).skip(open + 1) {
        match word {
            Token::Comma if depth == 0 => {
                found.push((first, at));
                first = at + 1;
            }
            word if opens(word) => depth += 1,
            word if closes(word) => depth = depth.checked_sub(1)?,
            _ => {}
        }
    }
    found.push((first, close));
    found.retain(|(first, end)| first < end);
    Some(found)
}

/// Where the parenthesis is closed that is opened here.
fn close_of(words: &[&Token], open: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, word) in words.iter().enumerate().skip(open) {
        if opens(word) {
            depth += 1;
        } else if closes(word) {
            depth = depth.checked_sub(1)?;
        }
        if depth == 0 {
            return Some(at);
        }
    }
    None
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
    fn elements_that_begin_with_a_parenthesis_are_put_in_parentheses() {
        check("ROLLUP ((a + 1) % 2)", "ROLLUP ( ( ( a + 1 ) % 2 ) )");
        check("rollup ((a)::TEXT, b, (c) + (d))", "rollup ( ( ( a ) :: TEXT ) , b , ( ( c ) + ( d ) ) )");
        check("CUBE ((SELECT max(i) FROM t))", "CUBE ( ( ( SELECT max ( i ) FROM t ) ) )");
        check("CUBE ((VALUES (1)), (FROM t))", "CUBE ( ( ( VALUES ( 1 ) ) ) , ( ( FROM t ) ) )");
        check("GROUPING SETS ((a) + 1, ())", "GROUPING SETS ( ( ( a ) + 1 ) , ( ) )");
        check("GROUPING SETS (CUBE ((a)[1], b))", "GROUPING SETS ( CUBE ( ( ( a ) [ 1 ] ) , b ) )");
        check("ROLLUP ((a, b) = (1, 2))", "ROLLUP ( ( ( a , b ) = ( 1 , 2 ) ) )");
        check(
            "ROLLUP ((SELECT count(*) FROM t GROUP BY CUBE ((a) % 2)))",
            "ROLLUP ( ( ( SELECT count ( * ) FROM t GROUP BY CUBE ( ( ( a ) % 2 ) ) ) ) )",
        );
    }

    #[test]
    fn lists_and_other_elements_stay() {
        for text in [
            "ROLLUP ( a , b )",
            "ROLLUP ( ( a , b ) , ( c ) )",
            "GROUPING SETS ( ( a , ( b + 1 ) ) , ( ) , ( ( a ) ) )",
            "CUBE ( a * ( b + 1 ) )",
            "CUBE ( ( ( SELECT 1 ) , a ) )",
            "SELECT ( a ) + 1",
            "ROLLUP ( ( a",
            "ROLLUP )",
        ] {
            check(text, text);
        }
    }

    #[test]
    fn sets_of_sets_are_sets() {
        check("GROUPING SETS (a, GROUPING SETS ((b, c), ()))", "GROUPING SETS ( a , ( b , c ) , ( ) )");
        check(
            "GROUPING SETS (GROUPING SETS (GROUPING SETS ((a) + 1)), ROLLUP (b))",
            "GROUPING SETS ( ( ( a ) + 1 ) , ROLLUP ( b ) )",
        );
    }
}
