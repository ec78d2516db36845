//! Statements that fill tables, in forms that the parser knows:
//!
//! ```text
//! CREATE TABLE t (a, b) AS query     →   CREATE TABLE t AS SELECT * FROM (query) AS t (a, b)
//! CREATE TABLE t AS query            →   CREATE TABLE t AS SELECT * FROM (query) AS t LIMIT 0
//!     WITH NO DATA
//! INSERT INTO t BY NAME query        →   INSERT INTO t ("by name") query
//! ```

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::words::{is_word, keyword, places};

/// The only column of an INSERT whose values go to the columns that are named as they are.
pub const BY_NAME: &str = "by name";

/// The tokens in known forms.
pub(crate) fn known(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let places = places(&tokens);
    let first = places.first().map_or(Keyword::NoKeyword, |first| keyword(&tokens[*first].token));
    let edits = match first {
        Keyword::CREATE => created(&Statement { tokens: &tokens, places: &places }),
        Keyword::INSERT => inserted(&Statement { tokens: &tokens, places: &places }),
        _ => None,
    };
    // From the last one on, so that places before stay.
    for Edit { from, to, instead } in edits.into_iter().flatten().rev() {
        let at = places.get(from).copied().unwrap_or(tokens.len());
        let until = places.get(to).copied().unwrap_or(tokens.len());
        let span = tokens[at.min(tokens.len() - 1)].span;
        tokens.splice(at..until, instead.into_iter().map(|token| TokenWithSpan { token, span }));
    }
    tokens
}

/// Tokens, none of them blank, from one place to another, which is not among them, and what stands there instead.
struct Edit {
    from: usize,
    to: usize,
    instead: Vec<Token>,
}

struct Statement<'a> {
    tokens: &'a [TokenWithSpan],
    places: &'a [usize],
}

impl Statement<'_> {
    fn token(&self, index: usize) -> Option<&Token> {
        self.places.get(index).map(|place| &self.tokens[*place].token)
    }

    fn is(&self, index: usize, word: Keyword) -> bool {
        self.token(index).is_some_and(|token| keyword(token) == word)
    }

    fn is_word(&self, index: usize) -> bool {
        matches!(self.token(index), Some(Token::Word(_)))
    }

    /// The place behind a name with a schema before it, or without.
    fn behind_name(&self, mut index: usize) -> Option<usize> {
        loop {
            if !self.is_word(index) {
                return None;
            }
            if self.token(index + 1) != Some(&Token::Period) {
                return Some(index + 1);
            }
            index += 2;
        }
    }

    /// The place behind the last token, of those before the semicolon.
    fn end(&self) -> usize {
        let is_end = |index: &usize| matches!(self.token(*index), Some(Token::SemiColon | Token::EOF));
        (0..self.places.len()).find(is_end).unwrap_or(self.places.len())
    }

    /// The names in parentheses that begin at a place, and the place behind them.
    fn names(&self, open: usize) -> Option<(Vec<Token>, usize)> {
        let mut names = Vec::new();
        let mut index = open;
        loop {
            names.push(self.token(index + 1).filter(|token| matches!(token, Token::Word(_)))?.clone());
            index += 2;
            match self.token(index)? {
                Token::Comma => {}
                Token::RParen => return Some((names, index + 1)),
                _ => return None,
            }
        }
    }
}

fn created(statement: &Statement<'_>) -> Option<Vec<Edit>> {
    let options = [Keyword::OR, Keyword::REPLACE, Keyword::TEMP, Keyword::TEMPORARY];
    let mut index = 1;
    while options.iter().any(|option| statement.is(index, *option)) {
        index += 1;
    }
    if !statement.is(index, Keyword::TABLE) {
        return None;
    }
    index += if statement.is(index + 1, Keyword::IF) { 4 } else { 1 };
    let named = statement.behind_name(index)?;
    let (names, behind) = match statement.token(named)? {
        Token::LParen => statement.names(named)?,
        _ => (Vec::new(), named),
    };
    if !statement.is(behind, Keyword::AS) {
        return None;
    }
    let end = statement.end();
    let has_data = |index: usize| statement.token(index).is_some_and(|token| is_word(token, "data"));
    let (close, is_empty) = match end.checked_sub(3).filter(|_| has_data(end - 1)) {
        Some(with) if statement.is(with, Keyword::WITH) && statement.is(with + 1, Keyword::NO) => (with, true),
        Some(before) if statement.is(before + 1, Keyword::WITH) => (before + 1, false),
        _ => (end, false),
    };
    if names.is_empty() && !is_empty {
        return (close < end).then(|| vec![Edit { from: close, to: end, instead: Vec::new() }]);
    }
    let word = Token::make_keyword;
    let opening = vec![word("AS"), word("SELECT"), Token::Mul, word("FROM"), Token::LParen];
    let mut closing = vec![Token::RParen, word("AS"), Token::make_word("t", Some('"'))];
    if !names.is_empty() {
        closing.push(Token::LParen);
        for (place, name) in names.into_iter().enumerate() {
            closing.extend((place > 0).then_some(Token::Comma));
            closing.push(name);
        }
        closing.push(Token::RParen);
    }
    if is_empty {
        closing.extend([word("LIMIT"), Token::Number("0".to_owned(), false)]);
    }
    Some(vec![Edit { from: named, to: behind + 1, instead: opening }, Edit { from: close, to: end, instead: closing }])
}

fn inserted(statement: &Statement<'_>) -> Option<Vec<Edit>> {
    let into = (1..4).find(|index| statement.is(*index, Keyword::INTO))?;
    let by = statement.behind_name(into + 1)?;
    let how = statement.token(by + 1).filter(|_| statement.is(by, Keyword::BY))?;
    let instead = match how {
        name if is_word(name, "name") => vec![Token::LParen, Token::make_word(BY_NAME, Some('"')), Token::RParen],
        position if is_word(position, "position") => Vec::new(),
        _ => return None,
    };
    Some(vec![Edit { from: by, to: by + 2, instead }])
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::dialect::DuckDbDialect;
    use datafusion::sql::sqlparser::tokenizer::Tokenizer;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let tokens = Tokenizer::new(&DuckDbDialect {}, text).tokenize_with_location().expect("tokens");
        let words = known(tokens).into_iter().map(|token| token.token);
        let words: Vec<String> = words
            .filter(|token| !matches!(token, Token::Whitespace(_) | Token::EOF))
            .map(|word| word.to_string())
            .collect();
        assert_eq!(words.join(" "), expected);
    }

    #[test]
    fn tables_are_filled_by_known_forms() {
        check(
            "CREATE TABLE s.t(a, \"B\") AS FROM x;",
            "CREATE TABLE s . t AS SELECT * FROM ( FROM x ) AS \"t\" ( a , \"B\" ) ;",
        );
        check(
            "create or replace table if not exists t as select 1 with no data",
            "create or replace table if not exists t AS SELECT * FROM ( select 1 ) AS \"t\" LIMIT 0",
        );
        check("CREATE TABLE t AS SELECT 1 WITH DATA", "CREATE TABLE t AS SELECT 1");
        check("CREATE TABLE t AS SELECT data", "CREATE TABLE t AS SELECT data");
        check("CREATE TABLE t (a INT)", "CREATE TABLE t ( a INT )");
        check("CREATE VIEW v (a) AS SELECT 1", "CREATE VIEW v ( a ) AS SELECT 1");
        check("INSERT INTO s.t BY NAME SELECT 1 AS a", "INSERT INTO s . t ( \"by name\" ) SELECT 1 AS a");
        check("INSERT INTO t BY POSITION VALUES (1)", "INSERT INTO t VALUES ( 1 )");
        check("INSERT INTO t (a) VALUES (1)", "INSERT INTO t ( a ) VALUES ( 1 )");
    }
}
