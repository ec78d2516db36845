//! Phrases of queries in words that the parser knows. Works on tokens, which keep the places in the text that they came from.

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use forebay_forms::calls::UNPACKED;
use forebay_forms::slices::OPEN;

use crate::words::{is_word, keyword, places};
use crate::{
    aliases, filled_tables, grouping_elements, inner_statements, joins, nested_joins, pivots, samples, sequence_options,
};

/// The tokens of a query with its phrases in other words.
pub fn known(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let tokens = samples::known(aliases::behind_values(filled_tables::known(sequence_options::known(
        inner_statements::known(pivots::known(tokens)),
    ))));
    let tokens = qualified_options(tokens);
    let tokens = grouping_elements::known(compared_values(whole_tables(tokens)));
    open_slices(unpacked(joins::marked(nested_joins::known(patterns(tokens)))))
}

/// `TABLE t` as a query of its own: `SELECT * FROM t`.
fn whole_tables(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let places = places(&tokens);
    for (index, place) in places.iter().enumerate().rev() {
        let begins = match index.checked_sub(1).map(|before| &tokens[places[before]].token) {
            None | Some(Token::LParen) => true,
            Some(before) => {
                matches!(keyword(before), Keyword::UNION | Keyword::EXCEPT | Keyword::INTERSECT | Keyword::EXPLAIN)
            }
        };
        let is_name = matches!(places.get(index + 1).map(|next| &tokens[*next].token), Some(Token::Word(_)));
        if begins && is_name && keyword(&tokens[*place].token) == Keyword::TABLE {
            let span = tokens[*place].span;
            let words = [Token::make_keyword("SELECT"), Token::Mul, Token::make_keyword("FROM")];
            tokens.splice(place..=place, words.map(|token| TokenWithSpan { token, span }));
        }
    }
    tokens
}

/// `ANY (VALUES …)` as `ANY (SELECT * FROM VALUES …)`.
fn compared_values(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let places = places(&tokens);
    for window in places.windows(3).rev() {
        let [any, open, values] = [window[0], window[1], window[2]];
        if matches!(keyword(&tokens[any].token), Keyword::ANY | Keyword::ALL | Keyword::SOME)
            && tokens[open].token == Token::LParen
            && keyword(&tokens[values].token) == Keyword::VALUES
        {
            let span = tokens[values].span;
            let words = [Token::make_keyword("SELECT"), Token::Mul, Token::make_keyword("FROM")];
            tokens.splice(values..values, words.map(|token| TokenWithSpan { token, span }));
        }
    }
    tokens
}

/// `* LIKE 'a%'` and `t.* LIKE 'a%'`, and the same with NOT, ILIKE, SIMILAR TO and GLOB, as `COLUMNS` of a regular expression; with
/// NOT, of what does not match it.
fn patterns(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let places = places(&tokens);
    for index in (1..places.len()).rev() {
        let token = |ahead: usize| places.get(index + ahead).map(|place| &tokens[*place].token);
        if token(0) != Some(&Token::Mul) {
            continue;
        }
        let before = |ahead: usize| index.checked_sub(ahead).map(|at| &tokens[places[at]].token);
        // `t.*` and `s.t.*`.
        let mut named = 0;
        while before(named + 1) == Some(&Token::Period) && matches!(before(named + 2), Some(Token::Word(_))) {
            named += 2;
        }
        let begins = before(named + 1).is_some_and(|first| {
            *first == Token::Comma || matches!(keyword(first), Keyword::SELECT | Keyword::DISTINCT | Keyword::ALL)
        });
        if !begins {
            continue;
        }
        let excluded = excluded(&tokens, &places, index + 1);
        let is_negated = token(excluded + 1).is_some_and(|word| keyword(word) == Keyword::NOT);
        let at = excluded + 1 + usize::from(is_negated);
        let Some(operator) = token(at) else { continue };
        let is_similar = keyword(operator) == Keyword::SIMILAR;
        let Some(Token::SingleQuotedString(pattern)) = token(at + 1 + usize::from(is_similar)) else { continue };
        let expression = match keyword(operator) {
            Keyword::LIKE => format!("(?s)^{}$", of_like(pattern)),
            Keyword::ILIKE => format!("(?is)^{}$", of_like(pattern)),
            // Without NOT a part of the name is enough.
            Keyword::SIMILAR if !is_negated => format!("(?s){pattern}"),
            Keyword::SIMILAR => format!("(?s)^(?:{pattern})$"),
            _ if is_word(operator, "glob") => format!("(?s)^{}$", of_glob(pattern)),
            _ => continue,
        };
        let (first, last) = (places[index], places[index + at + 1 + usize::from(is_similar)]);
        let span = tokens[first].span;
        let mut call = vec![
            Token::make_word("COLUMNS", None),
            Token::LParen,
            Token::SingleQuotedString(expression),
            Token::RParen,
        ];
        if is_negated {
            call.splice(3..3, [Token::Comma, Token::make_keyword("FALSE")]);
        }
        if excluded > 0 {
            let list = (index..=index + excluded).map(|at| tokens[places[at]].token.clone());
            call.splice(2..2, list.chain([Token::Comma]));
        }
        let mut first = first;
        if named > 0 {
            first = places[index - named];
            let qualifier = (index - named..=index).map(|at| tokens[places[at]].token.clone());
            let at = call.len() - 1;
            call.splice(at..at, std::iter::once(Token::Comma).chain(qualifier));
        }
        tokens.splice(first..=last, call.into_iter().map(|token| TokenWithSpan { token, span }));
    }
    tokens
}

/// How many words an EXCLUDE is that stands at this place.
fn excluded(tokens: &[TokenWithSpan], places: &[usize], at: usize) -> usize {
    let token = |at: usize| places.get(at).map(|place| &tokens[*place].token);
    match (token(at), token(at + 1)) {
        (Some(word), Some(Token::LParen)) if keyword(word) == Keyword::EXCLUDE => {
            let end = (at + 1..places.len()).find(|end| token(*end) == Some(&Token::RParen));
            end.map_or(0, |end| end + 1 - at)
        }
        (Some(word), Some(Token::Word(_))) if keyword(word) == Keyword::EXCLUDE => 2,
        _ => 0,
    }
}

/// `COLUMNS(t.* EXCLUDE (a))` as `COLUMNS(* EXCLUDE (a), t.*)`.
fn qualified_options(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let places = places(&tokens);
    let token = |at: usize| places.get(at).map(|place| &tokens[*place].token);
    let mut found = Vec::new();
    for index in 0..places.len() {
        let is_call =
            token(index).is_some_and(|word| is_word(word, "columns")) && token(index + 1) == Some(&Token::LParen);
        let (Some(Token::Word(table)), Some(Token::Period)) = (token(index + 2), token(index + 3)) else { continue };
        let has_options = token(index + 5)
            .is_some_and(|word| matches!(keyword(word), Keyword::EXCLUDE | Keyword::REPLACE | Keyword::RENAME));
        if !is_call || token(index + 4) != Some(&Token::Mul) || !has_options {
            continue;
        }
        let mut depth = 0;
        let end = (index + 1..places.len()).find(|at| {
            match token(*at) {
                Some(Token::LParen) => depth += 1,
                Some(Token::RParen) => depth -= 1,
                _ => {}
            }
            depth == 0
        });
        found.extend(end.map(|end| (places[index + 2], places[index + 3], places[end], table.clone())));
    }
    for (first, last, end, table) in found.into_iter().rev() {
        let span = tokens[end].span;
        let words = [Token::Comma, Token::Word(table), Token::Period, Token::Mul];
        tokens.splice(end..end, words.map(|token| TokenWithSpan { token, span }));
        tokens.drain(first..=last);
    }
    tokens
}

/// The pattern of a LIKE as a regular expression.
pub(crate) fn of_like(pattern: &str) -> String {
    let part = |c: char| match c {
        '%' => ".*".to_owned(),
        '_' => ".".to_owned(),
        c => literal(c),
    };
    pattern.chars().map(part).collect()
}

/// The pattern of a GLOB as a regular expression.
fn of_glob(pattern: &str) -> String {
    let part = |c: char| match c {
        '*' => ".*".to_owned(),
        '?' => ".".to_owned(),
        '[' | ']' => c.to_string(),
        c => literal(c),
    };
    pattern.chars().map(part).collect()
}

fn literal(c: char) -> String {
    match c.is_alphanumeric() || c == '_' || c == ' ' {
        true => c.to_string(),
        false => format!("\\x{{{:x}}}", u32::from(c)),
    }
}

/// The `-` of `l[1:-:2]` as a name, and that of `l[::-1]`, where it is left out; [`close`](forebay_forms::slices::close) knows it.
fn open_slices(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let places = places(&tokens);
    let open = || Token::make_word(OPEN, None);
    for window in places.windows(3).rev() {
        let [before, at, behind] = [window[0], window[1], window[2]];
        match (&tokens[before].token, &tokens[at].token, &tokens[behind].token) {
            (Token::Colon, Token::Minus, Token::Colon) => tokens[at].token = open(),
            (_, Token::DoubleColon, Token::Minus) => {
                let span = tokens[at].span;
                let words = [Token::Colon, open(), Token::Colon];
                tokens.splice(at..=at, words.map(|token| TokenWithSpan { token, span }));
            }
            _ => {}
        }
    }
    tokens
}

/// `coalesce(*COLUMNS(…))` as `coalesce(unpacked_columns(…))`.
fn unpacked(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let places = places(&tokens);
    for window in places.windows(4).rev() {
        let [before, star, columns, open] = [window[0], window[1], window[2], window[3]];
        if matches!(tokens[before].token, Token::LParen | Token::LBracket | Token::Comma)
            && tokens[star].token == Token::Mul
            && is_word(&tokens[columns].token, "columns")
            && tokens[open].token == Token::LParen
        {
            tokens[columns].token = Token::make_word(UNPACKED, None);
            tokens.remove(star);
        }
    }
    tokens
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::dialect::DuckDbDialect;
    use datafusion::sql::sqlparser::tokenizer::Tokenizer;

    fn check(text: &str, expect: &str) {
        let tokens = Tokenizer::new(&DuckDbDialect {}, text).tokenize_with_location().expect("tokens");
        let words = known(tokens).into_iter().filter(|token| !matches!(token.token, Token::Whitespace(_) | Token::EOF));
        let words: Vec<String> = words.map(|token| token.token.to_string()).collect();
        assert_eq!(words.join(" "), expect);
    }

    #[test]
    fn tables_are_queries() {
        check("TABLE t", "SELECT * FROM t");
        check("SELECT (TABLE t) UNION TABLE u", "SELECT ( SELECT * FROM t ) UNION SELECT * FROM u");
        check("CREATE TABLE t (a INT)", "CREATE TABLE t ( a INT )");
    }

    #[test]
    fn columns_are_chosen_by_patterns() {
        check("SELECT * LIKE 'a_%' FROM t", "SELECT COLUMNS ( '(?s)^a..*$' ) FROM t");
        check(
            "SELECT t.* LIKE 'a', s.t.* NOT LIKE 'b'",
            "SELECT COLUMNS ( '(?s)^a$' , t . * ) , COLUMNS ( '(?s)^b$' , FALSE , s . t . * )",
        );
        check("SELECT a, * NOT ILIKE 'B%'", "SELECT a , COLUMNS ( '(?is)^B.*$' , FALSE )");
        check("SELECT * SIMILAR TO 'a|b'", "SELECT COLUMNS ( '(?s)a|b' )");
        check("SELECT * EXCLUDE (a) LIKE 'a'", "SELECT COLUMNS ( * EXCLUDE ( a ) , '(?s)^a$' )");
        check("SELECT COLUMNS(t.* EXCLUDE (a))", "SELECT COLUMNS ( * EXCLUDE ( a ) , t . * )");
        check("SELECT * NOT SIMILAR TO 'a|b'", "SELECT COLUMNS ( '(?s)^(?:a|b)$' , FALSE )");
        check("SELECT a * b LIKE 'c'", "SELECT a * b LIKE 'c'");
        check("SELECT f(*COLUMNS(*), 1)", "SELECT f ( unpacked_columns ( * ) , 1 )");
    }

    #[test]
    fn aliases_stand_behind() {
        check(
            "SELECT x: a + 1, y: f(b, c) FROM q: t WHERE a",
            "SELECT a + 1 AS x , f ( b , c ) AS y FROM t AS q WHERE a",
        );
        check("FROM q: t JOIN r: (SELECT z: 1) ON q.a", "FROM t AS q JOIN ( SELECT 1 AS z ) AS r ON q . a");
        check("SELECT a[1:2], {'b': c} FROM t", "SELECT a [ 1 : 2 ] , { 'b' : c } FROM t");
        check("SELECT list_filter(a, lambda x: x > 1)", "SELECT list_filter ( a , lambda x : x > 1 )");
    }

    #[test]
    fn joins_are_marked() {
        check("FROM a POSITIONAL JOIN b", "FROM a CROSS APPLY b");
        check("FROM a ASOF LEFT JOIN b ON x > y", "FROM a LEFT JOIN b ON \"?asof\" AND x > y");
        check("FROM a ASOF JOIN b USING (k, t)", "FROM a JOIN b USING ( \"?asof\" , k , t )");
        check("SELECT asof FROM positional", "SELECT asof FROM positional");
    }

    #[test]
    fn joins_within_joins_have_parentheses() {
        check("FROM a JOIN b JOIN c ON x ON y", "FROM a JOIN ( b JOIN c ON x ) ON y");
        check(
            "FROM a LEFT JOIN b JOIN c JOIN d USING (p) ON x ON y JOIN e ON z",
            "FROM a LEFT JOIN ( b JOIN ( c JOIN d USING ( p ) ) ON x ) ON y JOIN e ON z",
        );
        check("FROM a JOIN b CROSS JOIN c ON x", "FROM a JOIN ( b CROSS JOIN c ) ON x");
        check("FROM a JOIN b NATURAL LEFT JOIN c ON x", "FROM a JOIN ( b NATURAL LEFT JOIN c ) ON x");
        check("FROM a JOIN b JOIN c ON x JOIN d ON y ON z", "FROM a JOIN ( b JOIN c ON x JOIN d ON y ) ON z");
        check("FROM a CROSS JOIN b JOIN c ON x", "FROM a CROSS JOIN b JOIN c ON x");
        check("FROM a JOIN (b JOIN c ON x) ON y, d", "FROM a JOIN ( b JOIN c ON x ) ON y , d");
        check("FROM a JOIN b ON x JOIN c ON y", "FROM a JOIN b ON x JOIN c ON y");
        check("FROM a ASOF JOIN b JOIN c ON x ON y > z", "FROM a JOIN ( b JOIN c ON x ) ON \"?asof\" AND y > z");
    }
}
