//! Clauses that the parser does not know, or takes for something else, in words that it knows: units of intervals, shares of rows,
//! FILTER, MATERIALIZED, the order and the rows of windows, VALUES in FROM. Works on tokens, whose places in the text stay as they are.

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace};

use crate::recursions::{keys_as_order, views};
use crate::samples::SHARE_OF_ALL_ROWS;
use crate::windows::{EXCLUSIONS, WITHOUT_ARGUMENTS};
use crate::words::is_blank;

/// Units of intervals that the parser would take for the name of a column: `INTERVAL 3 decades`.
const UNITS: [(&str, &str); 4] =
    [("decades", "DECADE"), ("centuries", "CENTURY"), ("millennia", "MILLENNIUM"), ("quarters", "QUARTER")];

/// The tokens in words that the parser knows.
pub fn known(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let mut tokens = keys_as_order(views(tokens));
    let places: Vec<usize> = (0..tokens.len()).filter(|index| !is_blank(&tokens[*index])).collect();
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
    forget_materialized(&mut tokens, &places);
    order_by_star(&mut tokens, &places);
    for token in &mut tokens {
        if let Token::Number(digits, _) = &mut token.token
            && digits.contains('_')
        {
            digits.retain(|digit| digit != '_');
        }
    }
    let tokens = in_parentheses(filters_with_where(tokens, &places));
    trimmed(escaped(shares(window_functions(exclusions(tokens)))))
}

/// `… CURRENT ROW EXCLUDE TIES)` with a text among the keys of PARTITION BY in place of EXCLUDE, which the parser does not know.
fn exclusions(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    loop {
        let places: Vec<usize> = (0..tokens.len()).filter(|index| !is_blank(&tokens[*index])).collect();
        let found = (1..places.len()).find_map(|at| {
            let ends_frame = [Keyword::ROW, Keyword::PRECEDING, Keyword::FOLLOWING]
                .iter()
                .any(|keyword| is_keyword(&tokens[places[at - 1]], *keyword));
            if !ends_frame || !is_word(&tokens[places[at]], "exclude") {
                return None;
            }
            let words = |wanted: &[&str]| {
                let behind = places.get(at + 1..at + 1 + wanted.len())?;
                let close = places.get(at + 1 + wanted.len())?;
                let is_all = behind.iter().zip(wanted).all(|(place, word)| is_word(&tokens[*place], word));
                (is_all && tokens[*close].token == Token::RParen).then_some(*close)
            };
            let others = words(&["no", "others"]).map(|close| (close, None));
            others
                .or_else(|| {
                    let named = |(name, known): &(&str, &'static str)| {
                        words(&name.split(' ').collect::<Vec<_>>()).map(|close| (close, Some(*known)))
                    };
                    EXCLUSIONS.iter().find_map(named)
                })
                .map(|(close, known)| (places[at], close, known))
        });
        let Some((start, close, known)) = found else { return tokens };
        for token in &mut tokens[start..close] {
            token.token = Token::Whitespace(Whitespace::Space);
        }
        if let Some(known) = known {
            insert_key(&mut tokens, start, known);
        }
    }
}

/// Puts a text in front of the keys by which the window around a place is parted.
fn insert_key(tokens: &mut Vec<TokenWithSpan>, place: usize, text: &str) {
    let mut depth = 0_usize;
    let open = (0..place).rev().find(|index| match tokens[*index].token {
        Token::RParen => {
            depth += 1;
            false
        }
        Token::LParen if depth == 0 => true,
        Token::LParen => {
            depth -= 1;
            false
        }
        _ => false,
    });
    let Some(open) = open else { return };
    let mut behind = (open + 1..tokens.len()).filter(|index| !is_blank(&tokens[*index]));
    let Some(mut next) = behind.next() else { return };
    let clauses = [Keyword::PARTITION, Keyword::ORDER, Keyword::ROWS, Keyword::RANGE, Keyword::GROUPS];
    if !clauses.iter().any(|keyword| is_keyword(&tokens[next], *keyword)) {
        let Some(other) = behind.next() else { return };
        next = other;
    }
    let span = tokens[next].span;
    let key = Token::SingleQuotedString(text.to_owned());
    let (at, words) = match is_keyword(&tokens[next], Keyword::PARTITION) {
        true => (behind.next().map_or(next, |by| by + 1), vec![key, Token::Comma]),
        false => (next, vec![Token::make_keyword("PARTITION"), Token::make_keyword("BY"), key]),
    };
    let blank = || Token::Whitespace(Whitespace::Space);
    let words = words.into_iter().flat_map(|word| [blank(), word]).chain([blank()]);
    tokens.splice(at..at, words.map(|token| TokenWithSpan { token, span }));
}

/// `rank(ORDER BY x)` with a NULL before ORDER, where the parser looks for an argument; and IGNORE NULLS behind an order, where it
/// looks for a parenthesis, behind that.
fn window_functions(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let places: Vec<usize> = (0..tokens.len()).filter(|index| !is_blank(&tokens[*index])).collect();
    for window in places.windows(3).rev() {
        let [first, second, third] = [window[0], window[1], window[2]];
        let span = tokens[third].span;
        if WITHOUT_ARGUMENTS.iter().any(|name| is_word(&tokens[first], name))
            && tokens[second].token == Token::LParen
            && is_keyword(&tokens[third], Keyword::ORDER)
        {
            let words = [Token::make_keyword("NULL"), Token::Whitespace(Whitespace::Space)];
            tokens.splice(third..third, words.map(|token| TokenWithSpan { token, span }));
        } else if (is_word(&tokens[first], "ignore") || is_word(&tokens[first], "respect"))
            && is_word(&tokens[second], "nulls")
            && tokens[third].token == Token::RParen
            && is_behind_order(&tokens, first)
        {
            let words = [tokens[first].token.clone(), tokens[second].token.clone()];
            (tokens[first].token, tokens[second].token) = (Token::RParen, Token::Whitespace(Whitespace::Space));
            tokens[third].token = Token::Whitespace(Whitespace::Space);
            let blank = || Token::Whitespace(Whitespace::Space);
            let words = words.into_iter().flat_map(|word| [word, blank()]);
            tokens.splice(third + 1..third + 1, words.map(|token| TokenWithSpan { token, span }));
        }
    }
    tokens
}

/// Whether there is an ORDER BY between a place and the parenthesis before it.
fn is_behind_order(tokens: &[TokenWithSpan], place: usize) -> bool {
    let mut depth = 0_usize;
    for token in tokens[..place].iter().rev() {
        match token.token {
            Token::RParen => depth += 1,
            Token::LParen if depth == 0 => return false,
            Token::LParen => depth -= 1,
            _ if depth == 0 && is_keyword(token, Keyword::ORDER) => return true,
            _ => {}
        }
    }
    false
}

/// `LIMIT 30%`, `LIMIT (10 + 20)%` and `LIMIT 30 PERCENT` as a call with the share.
fn shares(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let places: Vec<usize> = (0..tokens.len()).filter(|index| !is_blank(&tokens[*index])).collect();
    for (index, window) in places.windows(3).enumerate().rev() {
        let (limit, share) = (window[0], window[1]);
        if !is_keyword(&tokens[limit], Keyword::LIMIT) {
            continue;
        }
        // Where the sign would stand: behind a number, or behind a parenthesis that is closed.
        let mut depth = 0;
        let end = places[index + 1..].iter().position(|place| {
            match tokens[*place].token {
                Token::LParen => depth += 1,
                Token::RParen => depth -= 1,
                _ => {}
            }
            depth == 0
        });
        let Some(sign) = end.and_then(|end| places.get(index + 2 + end)).copied() else { continue };
        let next = places.iter().find(|place| **place > sign).map(|next| &tokens[*next]);
        let ends = next.is_none_or(|next| {
            matches!(next.token, Token::EOF | Token::RParen | Token::SemiColon) || is_keyword(next, Keyword::OFFSET)
        });
        let is_share = tokens[sign].token == Token::Mod || is_word(&tokens[sign], "percent");
        let is_number = matches!(tokens[share].token, Token::Number(..) | Token::LParen);
        if ends && is_share && is_number {
            let span = tokens[share].span;
            tokens[sign].token = Token::RParen;
            let call =
                [Token::make_word(SHARE_OF_ALL_ROWS, None), Token::LParen].map(|token| TokenWithSpan { token, span });
            tokens.splice(share..share, call);
        }
    }
    tokens
}

/// `FILTER (condition)` as `FILTER (WHERE condition)`.
fn filters_with_where(tokens: Vec<TokenWithSpan>, places: &[usize]) -> Vec<TokenWithSpan> {
    let lacks_where = |window: &&[usize]| {
        let [call, filter, open, first] = window else { return false };
        tokens[*call].token == Token::RParen
            && is_word(&tokens[*filter], "filter")
            && tokens[*open].token == Token::LParen
            && !is_keyword(&tokens[*first], Keyword::WHERE)
    };
    let opened: Vec<usize> = places.windows(4).filter(lacks_where).map(|window| window[2]).collect();
    if opened.is_empty() {
        return tokens;
    }
    let mut out = Vec::with_capacity(tokens.len() + 2 * opened.len());
    for (index, token) in tokens.into_iter().enumerate() {
        let span = token.span;
        out.push(token);
        if opened.contains(&index) {
            out.push(TokenWithSpan { token: Token::make_keyword("WHERE"), span });
            out.push(TokenWithSpan { token: Token::Whitespace(Whitespace::Space), span });
        }
    }
    out
}

/// `ORDER BY *` as `ORDER BY ALL`.
fn order_by_star(tokens: &mut [TokenWithSpan], places: &[usize]) {
    for window in places.windows(3) {
        let [order, by, star] = [window[0], window[1], window[2]];
        if is_keyword(&tokens[order], Keyword::ORDER)
            && is_keyword(&tokens[by], Keyword::BY)
            && tokens[star].token == Token::Mul
        {
            tokens[star].token = Token::make_keyword("ALL");
        }
    }
}

/// `trim(TRAILING FROM text)` with the blank that is cut off.
fn trimmed(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let places: Vec<usize> = (0..tokens.len()).filter(|index| !is_blank(&tokens[*index])).collect();
    for window in places.windows(2).rev() {
        let [side, from] = [window[0], window[1]];
        let is_side =
            [Keyword::BOTH, Keyword::LEADING, Keyword::TRAILING].iter().any(|word| is_keyword(&tokens[side], *word));
        if is_side && is_keyword(&tokens[from], Keyword::FROM) {
            let span = tokens[from].span;
            let words = [Token::SingleQuotedString(" ".to_owned()), Token::Whitespace(Whitespace::Space)];
            tokens.splice(from..from, words.map(|token| TokenWithSpan { token, span }));
        }
    }
    tokens
}

/// `E'a\nb'` as the text that it stands for.
fn escaped(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    for index in (1..tokens.len()).rev() {
        let is_marked = is_word(&tokens[index - 1], "e") && tokens[index - 1].span.end == tokens[index].span.start;
        if let Token::SingleQuotedString(text) = &tokens[index].token
            && is_marked
        {
            let text = unescaped(text);
            tokens[index - 1].token = Token::Whitespace(Whitespace::Space);
            tokens[index].token = Token::SingleQuotedString(text);
        }
    }
    tokens
}

/// A text without its backslashes, each of which changes what is behind it.
fn unescaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        let behind = &rest[at + 1..];
        let Some(next) = behind.chars().next() else {
            out.push('\\');
            return out;
        };
        rest = &behind[next.len_utf8()..];
        let digits = |most: usize, radix: u32| rest.chars().take(most).take_while(|c| c.is_digit(radix)).count();
        match next {
            'n' => out.push('\n'),
            't' => out.push('\t'),
            'r' => out.push('\r'),
            'b' => out.push('\u{8}'),
            'f' => out.push('\u{c}'),
            'x' if digits(2, 16) > 0 => {
                let count = digits(2, 16);
                out.extend(u8::from_str_radix(&rest[..count], 16).ok().map(char::from));
                rest = &rest[count..];
            }
            other => out.push(other),
        }
    }
    out.push_str(rest);
    out
}

/// Takes `[NOT] MATERIALIZED` out of `WITH t AS MATERIALIZED (…)`: it says how to run a query, and not what it means.
fn forget_materialized(tokens: &mut [TokenWithSpan], places: &[usize]) {
    for window in places.windows(3) {
        let [before, word, behind] = [window[0], window[1], window[2]];
        if !is_keyword(&tokens[word], Keyword::MATERIALIZED) || tokens[behind].token != Token::LParen {
            continue;
        }
        if is_keyword(&tokens[before], Keyword::NOT) {
            tokens[before].token = Token::Whitespace(Whitespace::Space);
        } else if !is_keyword(&tokens[before], Keyword::AS) {
            continue;
        }
        tokens[word].token = Token::Whitespace(Whitespace::Space);
    }
}

/// `FROM VALUES (…), (…)` as `FROM (VALUES (…), (…))`, and the same behind JOIN and commas.
fn in_parentheses(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let places: Vec<usize> = (0..tokens.len()).filter(|index| !is_blank(&tokens[*index])).collect();
    let leads = |token: &TokenWithSpan| {
        is_keyword(token, Keyword::FROM) || is_keyword(token, Keyword::JOIN) || token.token == Token::Comma
    };
    let (mut opened, mut closed) = (Vec::new(), Vec::new());
    for (index, window) in places.windows(3).enumerate() {
        let [before, values, behind] = [window[0], window[1], window[2]];
        if leads(&tokens[before])
            && is_keyword(&tokens[values], Keyword::VALUES)
            && tokens[behind].token == Token::LParen
            && let Some(end) = end_of_rows(&tokens, &places[index + 2..])
        {
            opened.push(values);
            closed.push(end);
        }
    }
    if opened.is_empty() {
        return tokens;
    }
    let mut out = Vec::with_capacity(tokens.len() + 2 * opened.len());
    for (index, token) in tokens.into_iter().enumerate() {
        let span = token.span;
        if opened.contains(&index) {
            out.push(TokenWithSpan { token: Token::LParen, span });
        }
        out.push(token);
        if closed.contains(&index) {
            out.push(TokenWithSpan { token: Token::RParen, span });
        }
    }
    out
}

/// The place of the parenthesis that ends the last of the rows that begin at the first of `places`.
fn end_of_rows(tokens: &[TokenWithSpan], places: &[usize]) -> Option<usize> {
    let mut depth = 0_usize;
    for (index, place) in places.iter().enumerate() {
        match tokens[*place].token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.checked_sub(1)?,
            _ => {}
        }
        if depth > 0 {
            continue;
        }
        let is_row = |next: &[usize]| matches!(next, [comma, row, ..] if tokens[*comma].token == Token::Comma && tokens[*row].token == Token::LParen);
        match tokens[*place].token {
            Token::RParen if !is_row(&places[index + 1..]) => return Some(*place),
            Token::RParen | Token::Comma => {}
            _ => return None,
        }
    }
    None
}

fn is_word(token: &TokenWithSpan, wanted: &str) -> bool {
    matches!(&token.token, Token::Word(word) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(wanted))
}

fn is_keyword(token: &TokenWithSpan, keyword: Keyword) -> bool {
    matches!(&token.token, Token::Word(word) if word.keyword == keyword)
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::dialect::DuckDbDialect;
    use datafusion::sql::sqlparser::tokenizer::Tokenizer;

    fn check(text: &str, expect: &str) {
        let tokens = Tokenizer::new(&DuckDbDialect {}, text).tokenize_with_location().expect("tokens");
        let words = known(tokens).into_iter().map(|token| token.token.to_string());
        let written: Vec<String> = words.collect::<String>().split_whitespace().map(str::to_owned).collect();
        assert_eq!(written.join(" "), expect);
    }

    #[test]
    fn how_a_query_is_run_is_forgotten() {
        check(
            "WITH a AS NOT MATERIALIZED (SELECT 1), b AS MATERIALIZED (SELECT 2)",
            "WITH a AS (SELECT 1), b AS (SELECT 2)",
        );
        check("CREATE MATERIALIZED VIEW", "CREATE MATERIALIZED VIEW");
    }

    #[test]
    fn recursive_views_read_themselves() {
        check(
            "CREATE RECURSIVE VIEW v(a) AS SELECT 1",
            "CREATE VIEW v(a) AS WITH RECURSIVE v(a) AS( SELECT 1) SELECT * FROM v",
        );
    }

    #[test]
    fn filters_have_where() {
        check("count(*) FILTER (a > 1)", "count(*) FILTER (WHERE a > 1)");
        check("count(*) filter (where a > 1000.5)", "count(*) filter (where a > 1000.5)");
        check("SELECT filter (a)", "SELECT filter (a)");
    }

    #[test]
    fn texts_with_backslashes() {
        check("SELECT E'a\\tb\\\\c', e", "SELECT 'a b\\c', e");
        check("trim(TRAILING FROM a)", "trim(TRAILING ' ' FROM a)");
        check("SELECT 1 ORDER BY *", "SELECT 1 ORDER BY ALL");
    }

    #[test]
    fn shares_of_all_rows_are_calls() {
        check("SELECT 1 LIMIT 30 % OFFSET 1", "SELECT 1 LIMIT share_of_all_rows(30 ) OFFSET 1");
        check("(SELECT 1 LIMIT 2.5 PERCENT)", "(SELECT 1 LIMIT share_of_all_rows(2.5 ))");
        check("SELECT 1 LIMIT 10 % 4", "SELECT 1 LIMIT 10 % 4");
    }

    #[test]
    fn frames_leave_out_rows() {
        check(
            "sum(x) OVER (ORDER BY (y) ROWS 1 PRECEDING EXCLUDE TIES)",
            "sum(x) OVER ( PARTITION BY 'exclude ties' ORDER BY (y) ROWS 1 PRECEDING )",
        );
        check(
            "OVER (w PARTITION BY a ROWS BETWEEN 1 PRECEDING AND CURRENT ROW EXCLUDE CURRENT ROW), EXCLUDE",
            "OVER (w PARTITION BY 'exclude current row' , a ROWS BETWEEN 1 PRECEDING AND CURRENT ROW ), EXCLUDE",
        );
        check("OVER (ROWS CURRENT ROW EXCLUDE NO OTHERS)", "OVER (ROWS CURRENT ROW )");
        check("rank(ORDER BY x)", "rank(NULL ORDER BY x)");
        check("f(x ORDER BY y IGNORE NULLS) OVER ()", "f(x ORDER BY y ) IGNORE NULLS OVER ()");
    }

    #[test]
    fn values_stand_in_parentheses() {
        check("FROM VALUES (1, (2)), (3, 4) AS q(x, y)", "FROM (VALUES (1, (2)), (3, 4)) AS q(x, y)");
        check("FROM t, VALUES (1) JOIN VALUES (2) x(y) ON true", "FROM t, (VALUES (1)) JOIN (VALUES (2)) x(y) ON true");
        check("INSERT INTO t VALUES (1), (2)", "INSERT INTO t VALUES (1), (2)");
    }
}
