//! `FROM t …` without SELECT and `TABLE t` mean `SELECT * FROM t …`: the parser reads the words behind FROM only where a SELECT leads
//! them, so it is put there. Works on tokens, whose places in the text stay as they are.

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// What a nesting level of parentheses (or the statement itself) waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Level {
    /// The next word begins a query, if a query is what stands here.
    Begins,
    /// A query comes behind what leads it: WITH …, INSERT INTO t, CREATE TABLE t AS.
    Leads,
    /// Inside a query or expression, where FROM is a clause or part of a function.
    Inside,
}

/// The tokens with `SELECT *` before each FROM that begins a query without SELECT.
pub fn add_select(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let mut levels = vec![Level::Begins];
    let mut places = Vec::new();
    let mut tables = Vec::new();
    let mut before = Keyword::NoKeyword;
    for (index, token) in tokens.iter().enumerate() {
        let depth = levels.len();
        let Some(level) = levels.last_mut() else { break };
        match &token.token {
            Token::Whitespace(_) | Token::EOF => {}
            Token::LParen => {
                if *level == Level::Begins {
                    *level = Level::Inside;
                }
                levels.push(Level::Begins);
            }
            // One parenthesis too many is for the parser to report.
            Token::RParen if depth > 1 => {
                levels.pop();
            }
            Token::SemiColon => levels = vec![Level::Begins],
            Token::Word(word) => {
                if word.keyword == Keyword::FROM && *level != Level::Inside && !has_select(&tokens[index + 1..]) {
                    places.push(index);
                }
                let leads = *level == Level::Begins && before != Keyword::ANALYZE;
                if word.keyword == Keyword::TABLE && (leads || *level == Level::Leads && before == Keyword::AS) {
                    tables.push(index);
                    *level = Level::Inside;
                }
                before = word.keyword;
                *level = next_level(*level, word.keyword);
            }
            _ if *level == Level::Begins => *level = Level::Inside,
            _ => {}
        }
    }
    if places.is_empty() && tables.is_empty() {
        return tokens;
    }
    let mut out = Vec::with_capacity(tokens.len() + 2 * (places.len() + tables.len()));
    for (index, token) in tokens.into_iter().enumerate() {
        if tables.contains(&index) {
            let words = [Token::make_keyword("SELECT"), Token::Mul, Token::make_keyword("FROM")];
            out.extend(words.map(|word| TokenWithSpan { token: word, span: token.span }));
            continue;
        }
        if places.contains(&index) {
            out.push(TokenWithSpan { token: Token::make_keyword("SELECT"), span: token.span });
            out.push(TokenWithSpan { token: Token::Mul, span: token.span });
        }
        out.push(token);
    }
    out
}

fn next_level(level: Level, keyword: Keyword) -> Level {
    let joins_queries = matches!(keyword, Keyword::UNION | Keyword::EXCEPT | Keyword::INTERSECT);
    match (level, keyword) {
        (_, Keyword::FROM | Keyword::SELECT | Keyword::VALUES) => Level::Inside,
        (Level::Begins, Keyword::EXPLAIN | Keyword::ANALYZE | Keyword::VERBOSE) => Level::Begins,
        (Level::Begins, Keyword::ALL | Keyword::DISTINCT | Keyword::BY | Keyword::NAME) => Level::Begins,
        (Level::Begins, Keyword::WITH | Keyword::INSERT | Keyword::CREATE) => Level::Leads,
        (Level::Leads, Keyword::DELETE | Keyword::UPDATE | Keyword::MERGE) => Level::Inside,
        (Level::Leads, _) => Level::Leads,
        _ if joins_queries => Level::Begins,
        _ => Level::Inside,
    }
}

/// Whether a SELECT follows at this level, before the query ends.
fn has_select(tokens: &[TokenWithSpan]) -> bool {
    let mut depth = 0;
    for token in tokens {
        match &token.token {
            Token::LParen => depth += 1,
            Token::RParen if depth == 0 => return false,
            Token::RParen => depth -= 1,
            Token::SemiColon => return false,
            Token::Word(word) if depth == 0 => match word.keyword {
                Keyword::SELECT => return true,
                Keyword::UNION | Keyword::EXCEPT | Keyword::INTERSECT => return false,
                _ => {}
            },
            _ => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::dialect::DuckDbDialect;
    use datafusion::sql::sqlparser::tokenizer::Tokenizer;

    fn check(text: &str, expect: &str) {
        let tokens = Tokenizer::new(&DuckDbDialect {}, text).tokenize_with_location().expect("tokens");
        let words: Vec<String> = add_select(tokens)
            .iter()
            .filter(|token| !matches!(token.token, Token::Whitespace(_) | Token::EOF))
            .map(|token| token.token.to_string())
            .collect();
        assert_eq!(words.join(" "), expect);
    }

    #[test]
    fn a_query_that_begins_with_from_selects_everything() {
        check("FROM t WHERE a < 2", "SELECT * FROM t WHERE a < 2");
        check("select (from t limit 1)", "select ( SELECT * from t limit 1 )");
        check("WITH x AS (FROM t) FROM x", "WITH x AS ( SELECT * FROM t ) SELECT * FROM x");
        check("FROM a UNION ALL FROM b", "SELECT * FROM a UNION ALL SELECT * FROM b");
        check("CREATE TABLE x AS FROM t", "CREATE TABLE x AS SELECT * FROM t");
        check("INSERT INTO x (a) FROM t", "INSERT INTO x ( a ) SELECT * FROM t");
        check("EXPLAIN ANALYZE FROM t", "EXPLAIN ANALYZE SELECT * FROM t");
        check("TABLE a UNION ALL (TABLE b)", "SELECT * FROM a UNION ALL ( SELECT * FROM b )");
        check("CREATE TABLE a AS TABLE b", "CREATE TABLE a AS SELECT * FROM b");
    }

    #[test]
    fn other_meanings_of_from_stay() {
        for text in [
            "SELECT a FROM t",
            "FROM t SELECT a",
            "DELETE FROM t",
            "COPY t FROM 'x.csv'",
            "SELECT extract ( year FROM d ) FROM t",
            "SELECT * EXCEPT ( a ) FROM t",
            "SELECT a IS DISTINCT FROM b FROM t",
            "WITH x AS ( SELECT 1 ) SELECT * FROM x",
        ] {
            check(text, text);
        }
    }
}
