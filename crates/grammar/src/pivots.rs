//! PIVOT and UNPIVOT, as statements and behind a table. Each becomes a call with its text; [`Pivot`] and [`Unpivot`] are what the
//! text says, and [`pivot_queries`](crate::pivot_queries) makes queries of them.

use std::ops::Range;

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace};
use forebay_base::{Error, Result};

use crate::words::{closes, is_word, keyword, opens, places, text_of};

/// What the call is called.
pub const CALL: &str = "?pivot";

/// Statements, and whether they make rows of columns.
const STATEMENTS: [(&str, bool); 4] =
    [("pivot", false), ("pivot_wider", false), ("unpivot", true), ("pivot_longer", true)];

/// The tokens with calls in the place of PIVOT and UNPIVOT.
pub(crate) fn known(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    while let Some((range, text, is_statement)) = next(&tokens) {
        let span = tokens[range.start].span;
        let mut call = Vec::new();
        if is_statement {
            let blank = || Token::Whitespace(Whitespace::Space);
            let words = ["SELECT", "*", "FROM"].map(|word| match word {
                "*" => Token::Mul,
                word => Token::make_keyword(word),
            });
            call.extend(words.into_iter().flat_map(|word| [word, blank()]));
        }
        call.extend([
            Token::make_word(CALL, Some('"')),
            Token::LParen,
            Token::SingleQuotedString(text),
            Token::RParen,
            Token::Whitespace(Whitespace::Space),
        ]);
        tokens.splice(range, call.into_iter().map(|token| TokenWithSpan { token, span }));
    }
    tokens
}

/// The last PIVOT: its tokens, its text, and whether it is a statement. Those in it stay as they are.
fn next(tokens: &[TokenWithSpan]) -> Option<(Range<usize>, String, bool)> {
    let is_pivot = |token: &TokenWithSpan| STATEMENTS.iter().any(|(word, _)| is_word(&token.token, word));
    if !tokens.iter().any(is_pivot) {
        return None;
    }
    let places = places(tokens);
    let words = Words { tokens, places: &places };
    (0..places.len()).find_map(|index| {
        if !is_pivot(&tokens[places[index]]) {
            return None;
        }
        if let Some(open) = words.behind_table(index) {
            let (from, close) = (words.table_before(index)?, words.closing(open)?);
            let range = places[from]..places[close] + 1;
            let text = text_of(&tokens[range.clone()]);
            return Some((range, text, false));
        }
        let end = words.statement(index)?;
        let range = places[index]..places.get(end).copied().unwrap_or(tokens.len());
        let text = text_of(&tokens[range.clone()]);
        Some((range, text.trim().to_owned(), true))
    })
}

/// Tokens of which those at places are not blank.
struct Words<'a> {
    tokens: &'a [TokenWithSpan],
    places: &'a [usize],
}

impl Words<'_> {
    fn token(&self, index: usize) -> Option<&Token> {
        self.places.get(index).map(|place| &self.tokens[*place].token)
    }

    fn is(&self, index: usize, word: Keyword) -> bool {
        self.token(index).is_some_and(|token| keyword(token) == word)
    }

    fn text(&self, range: Range<usize>) -> String {
        match range.is_empty() {
            true => String::new(),
            false => text_of(&self.tokens[self.places[range.start]..self.places[range.end - 1] + 1]),
        }
    }

    /// The place of what closes what is opened at `open`.
    fn closing(&self, open: usize) -> Option<usize> {
        let mut depth = 0_usize;
        for index in open..self.places.len() {
            match self.token(index)? {
                token if opens(token) => depth += 1,
                token if closes(token) && depth == 1 => return Some(index),
                token if closes(token) => depth = depth.saturating_sub(1),
                _ => {}
            }
        }
        None
    }

    /// The first place in a range, outside of parentheses, that `wanted` is true of; the end if there is none. Ends, too, where
    /// parentheses end that began before the range.
    fn find(&self, range: Range<usize>, wanted: impl Fn(usize) -> bool) -> usize {
        let mut index = range.start;
        while index < range.end {
            match self.token(index) {
                _ if wanted(index) => return index,
                Some(token) if opens(token) => match self.closing(index) {
                    Some(close) => index = close,
                    None => return range.end,
                },
                Some(token) if closes(token) => return index,
                _ => {}
            }
            index += 1;
        }
        range.end
    }

    /// The parenthesis behind a PIVOT that stands behind a table, such as `(sum(a) FOR b IN (1, 2))`.
    fn behind_table(&self, index: usize) -> Option<usize> {
        let is_behind = index.checked_sub(1).and_then(|before| self.token(before)).is_some_and(|before| {
            matches!(before, Token::Word(_) | Token::RParen) && !matches!(keyword(before), Keyword::AS)
        });
        let has_nulls = self.token(index + 2).is_some_and(|token| is_word(token, "nulls"));
        let open = index + if has_nulls { 3 } else { 1 };
        if !is_behind || self.token(open) != Some(&Token::LParen) {
            return None;
        }
        let close = self.closing(open)?;
        (self.find(open + 1..close, |at| self.is(at, Keyword::FOR)) < close).then_some(open)
    }

    /// Where the table begins that stands before a place.
    fn table_before(&self, index: usize) -> Option<usize> {
        let mut depth = 0_usize;
        for at in (0..index).rev() {
            match self.token(at)? {
                token if closes(token) => depth += 1,
                token if opens(token) && depth == 0 => return None,
                token if opens(token) => depth -= 1,
                Token::Comma if depth == 0 => return Some(at + 1),
                token if depth == 0 && matches!(keyword(token), Keyword::FROM | Keyword::JOIN) => return Some(at + 1),
                _ => {}
            }
        }
        None
    }

    /// Where the statement ends that begins at a place.
    fn statement(&self, index: usize) -> Option<usize> {
        let begins = match index.checked_sub(1).map(|before| self.token(before)) {
            None => true,
            Some(Some(before)) => {
                matches!(before, Token::LParen | Token::RParen)
                    || matches!(keyword(before), Keyword::AS | Keyword::EXPLAIN | Keyword::ANALYZE | Keyword::ALL)
                    || matches!(keyword(before), Keyword::UNION | Keyword::EXCEPT | Keyword::INTERSECT)
                    || ["describe", "desc", "summarize", "summarise"].iter().any(|word| is_word(before, word))
            }
            Some(None) => false,
        };
        let has_table =
            matches!(self.token(index + 1), Some(Token::Word(_) | Token::LParen | Token::SingleQuotedString(_)));
        let is_end = |at: usize| {
            matches!(self.token(at), Some(Token::SemiColon | Token::EOF))
                || [Keyword::ORDER, Keyword::LIMIT, Keyword::OFFSET].iter().any(|word| self.is(at, *word))
                || [Keyword::UNION, Keyword::EXCEPT, Keyword::INTERSECT].iter().any(|word| self.is(at, *word))
        };
        let end = self.find(index + 1..self.places.len(), is_end);
        let is_told = |at: usize| self.is(at, Keyword::ON) || self.is(at, Keyword::USING);
        let told = self.find(index + 2..end, is_told);
        (begins && has_table && told < end).then_some(end)
    }

    /// The parts of a list.
    fn parts(&self, range: Range<usize>) -> Vec<Range<usize>> {
        let (mut parts, mut begun) = (Vec::new(), range.start);
        while begun < range.end {
            let comma = self.find(begun..range.end, |at| self.token(at) == Some(&Token::Comma));
            parts.push(begun..comma);
            begun = comma + 1;
        }
        parts
    }

    /// An expression and the name behind AS.
    fn named(&self, range: Range<usize>) -> Named {
        let at = self.find(range.clone(), |at| self.is(at, Keyword::AS));
        let name = match self.token(at + 1) {
            Some(Token::Word(word)) if at + 2 == range.end => Some(word.value.clone()),
            Some(Token::SingleQuotedString(text)) if at + 2 == range.end => Some(text.clone()),
            _ => None,
        };
        match name {
            Some(name) => Named { expr: self.text(range.start..at), name: Some(name) },
            None => Named { expr: self.text(range), name: None },
        }
    }
}

/// The text of an expression, and the name that it is given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    /// The expression.
    pub expr: String,
    /// Behind AS.
    pub name: Option<String>,
}

/// What the columns of a PIVOT are for.
#[derive(Debug, PartialEq, Eq)]
pub struct Key {
    /// What has the values.
    pub expr: String,
    /// The values, where they are listed; else all that there are.
    pub values: Option<Vec<Named>>,
}

/// A PIVOT.
#[derive(Debug, PartialEq, Eq)]
pub struct Pivot {
    /// The table or query.
    pub source: String,
    /// A column for each value, and for each pair of values of two.
    pub keys: Vec<Key>,
    /// What the columns hold.
    pub aggregates: Vec<Named>,
    /// A row for each of these; `None` for all columns that are not named otherwise, or one row where there are no keys.
    pub groups: Option<Vec<String>>,
}

/// An UNPIVOT.
#[derive(Debug, PartialEq, Eq)]
pub struct Unpivot {
    /// The table or query.
    pub source: String,
    /// What becomes rows; of several values, those of one row.
    pub items: Vec<(Vec<String>, Option<String>)>,
    /// The column that holds names.
    pub name: String,
    /// The columns that hold values.
    pub values: Vec<String>,
    /// NULLs are rows, too.
    pub has_nulls: bool,
}

/// What the text of a call says.
#[derive(Debug, PartialEq, Eq)]
pub enum Read {
    /// Rows to columns.
    Pivot(Pivot),
    /// Columns to rows.
    Unpivot(Unpivot),
}

/// Reads the text of a call, as tokens.
///
/// # Errors
/// What lacks a part.
pub fn read(tokens: &[TokenWithSpan]) -> Result<Read> {
    let places: Vec<usize> = places(tokens).into_iter().filter(|at| tokens[*at].token != Token::EOF).collect();
    let words = Words { tokens, places: &places };
    let statement = |index: usize| {
        let told = |(word, rows): &(&str, bool)| words.token(index).filter(|token| is_word(token, word)).map(|_| *rows);
        STATEMENTS.iter().find_map(told)
    };
    // One that stands behind a table ends in parentheses with FOR.
    for index in 1..places.len() {
        if let (Some(to_rows), Some(open)) = (statement(index), words.behind_table(index))
            && words.closing(open) == Some(places.len() - 1)
        {
            let source = words.text(0..index);
            return match to_rows {
                false => words.pivot_of_table(source, open + 1..places.len() - 1).map(Read::Pivot),
                true => {
                    let has_nulls =
                        open > index + 1 && words.token(index + 1).is_some_and(|word| is_word(word, "include"));
                    words.unpivot_of_table(source, open + 1..places.len() - 1, has_nulls).map(Read::Unpivot)
                }
            };
        }
    }
    match statement(0) {
        Some(false) => words.pivot_statement().map(Read::Pivot),
        Some(true) => words.unpivot_statement().map(Read::Unpivot),
        None => Err(Error::internal("a PIVOT was not found again")),
    }
}

impl Words<'_> {
    fn pivot_statement(&self) -> Result<Pivot> {
        let end = self.places.len();
        let is_on = |at: usize| self.is(at, Keyword::ON);
        let is_using = |at: usize| self.is(at, Keyword::USING);
        let is_group = |at: usize| self.is(at, Keyword::GROUP) && self.is(at + 1, Keyword::BY);
        let source = self.find(1..end, |at| is_on(at) || is_using(at) || is_group(at));
        let keys = if is_on(source) { self.find(source..end, |at| is_using(at) || is_group(at)) } else { source };
        let using = if keys < end && is_using(keys) { self.find(keys..end, is_group) } else { keys };
        let keyed = if source < keys { self.parts(source + 1..keys) } else { Vec::new() };
        Ok(Pivot {
            source: self.text(1..source),
            keys: keyed.into_iter().map(|part| self.key(part)).collect::<Result<_>>()?,
            aggregates: self.aggregates(if keys < using { keys + 1..using } else { 0..0 }),
            groups: (using < end).then(|| self.parts(using + 2..end).into_iter().map(|part| self.text(part)).collect()),
        })
    }

    /// `sum(a) FOR b IN (1, 2) c IN (3) GROUP BY d`.
    fn pivot_of_table(&self, source: String, range: Range<usize>) -> Result<Pivot> {
        let end = range.end;
        let first = self.find(range.clone(), |at| self.is(at, Keyword::FOR));
        let group = self.find(first..end, |at| self.is(at, Keyword::GROUP) && self.is(at + 1, Keyword::BY));
        let mut keys = Vec::new();
        let mut begun = first + 1;
        while begun < group {
            let is_in = self.find(begun..group, |at| self.is(at, Keyword::IN));
            let close = Some(is_in + 1).filter(|open| self.token(*open) == Some(&Token::LParen));
            let close = close.and_then(|open| self.closing(open)).filter(|close| *close < group);
            let close = close.ok_or_else(|| {
                Error::input("PIVOT needs the values of a column behind FOR").hint("Write FOR a IN (1, 2)")
            })?;
            keys.push(self.key(begun..close + 1)?);
            begun = close + 1;
            begun += usize::from(self.is(begun, Keyword::FOR));
        }
        let groups =
            (group < end).then(|| self.parts(group + 2..end).into_iter().map(|part| self.text(part)).collect());
        Ok(Pivot { source, keys, aggregates: self.aggregates(range.start..first), groups })
    }

    fn aggregates(&self, range: Range<usize>) -> Vec<Named> {
        match range.is_empty() {
            true => vec![Named { expr: "count(*)".to_owned(), name: None }],
            false => self.parts(range).into_iter().map(|part| self.named(part)).collect(),
        }
    }

    /// `a`, or `a IN (1, 2 AS two)`.
    fn key(&self, range: Range<usize>) -> Result<Key> {
        let is_in = self.find(range.clone(), |at| self.is(at, Keyword::IN));
        let values = match self.token(is_in + 1) {
            _ if is_in == range.end => None,
            Some(Token::LParen) if self.closing(is_in + 1) == Some(range.end - 1) => {
                let list = is_in + 2..range.end - 1;
                if [Keyword::SELECT, Keyword::FROM, Keyword::WITH].iter().any(|word| self.is(list.start, *word)) {
                    return Err(Error::unsupported("PIVOT … IN takes a list of values, not a query")
                        .hint("Leave IN out: all values are taken"));
                }
                Some(self.parts(list).into_iter().map(|part| self.named(part)).collect())
            }
            _ => return Err(Error::input("PIVOT … IN takes a list of values").hint("Write ON a IN (1, 2)")),
        };
        Ok(Key { expr: self.text(range.start..is_in), values })
    }

    fn unpivot_statement(&self) -> Result<Unpivot> {
        let end = self.places.len();
        let on = self.find(1..end, |at| self.is(at, Keyword::ON));
        let into = self.find(on..end, |at| self.is(at, Keyword::INTO));
        let word = |at: usize, wanted: &str| self.token(at).is_some_and(|token| is_word(token, wanted));
        let (mut name, mut values) = ("name".to_owned(), vec!["value".to_owned()]);
        if into < end {
            if !word(into + 1, "name") || !(word(into + 3, "value") || word(into + 3, "values")) {
                return Err(Error::input("UNPIVOT … INTO needs the names of two columns")
                    .hint("Write INTO NAME month VALUE sales"));
            }
            name = self.text(into + 2..into + 3);
            values = self.parts(into + 4..end).into_iter().map(|part| self.text(part)).collect();
        }
        let items = if on < into { self.items(on + 1..into) } else { Vec::new() };
        Ok(Unpivot { source: self.text(1..on), items, name, values, has_nulls: false })
    }

    /// `v FOR n IN (a, b)`.
    fn unpivot_of_table(&self, source: String, range: Range<usize>, has_nulls: bool) -> Result<Unpivot> {
        let wrong =
            || Error::input("UNPIVOT needs columns behind FOR").hint("Write UNPIVOT (sales FOR month IN (jan, feb))");
        let first = self.find(range.clone(), |at| self.is(at, Keyword::FOR));
        if !self.is(first + 2, Keyword::IN) || self.closing(first + 3) != Some(range.end - 1) {
            return Err(wrong());
        }
        let values = match self.token(range.start) {
            Some(Token::LParen) => self.parts(range.start + 1..first - 1),
            _ => self.parts(range.start..first),
        };
        Ok(Unpivot {
            source,
            items: self.items(first + 4..range.end - 1),
            name: self.text(first + 1..first + 2),
            values: values.into_iter().map(|part| self.text(part)).collect(),
            has_nulls,
        })
    }

    fn items(&self, range: Range<usize>) -> Vec<(Vec<String>, Option<String>)> {
        let item = |part: Range<usize>| {
            let at = self.find(part.clone(), |at| self.is(at, Keyword::AS));
            let name = self.named(part.clone()).name;
            let end = if name.is_some() { at } else { part.end };
            let is_list = self.token(part.start) == Some(&Token::LParen) && self.closing(part.start) == Some(end - 1);
            let inner = self.parts(part.start + 1..end - 1);
            match is_list && inner.len() > 1 {
                true => (inner.into_iter().map(|part| self.text(part)).collect(), name),
                false => (vec![self.text(part.start..end)], name),
            }
        };
        self.parts(range).into_iter().map(item).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::dialect::DuckDbDialect;
    use datafusion::sql::sqlparser::tokenizer::Tokenizer;

    fn tokens(text: &str) -> Vec<TokenWithSpan> {
        Tokenizer::new(&DuckDbDialect {}, text).tokenize_with_location().expect("tokens")
    }

    #[track_caller]
    fn check(text: &str, expect: &str) {
        let written: String = known(tokens(text)).iter().map(|token| token.token.to_string()).collect();
        assert_eq!(written.trim_end().replace("EOF", ""), expect);
    }

    #[test]
    fn calls_stand_for_pivots() {
        check(
            "PIVOT t ON a USING sum(b) ORDER BY c",
            "SELECT * FROM \"?pivot\"('PIVOT t ON a USING sum(b)') ORDER BY c",
        );
        check(
            "SELECT a FROM (UNPIVOT t ON a, b) u",
            "SELECT a FROM (SELECT * FROM \"?pivot\"('UNPIVOT t ON a, b') ) u",
        );
        check(
            "SELECT 1 FROM u, (FROM t) AS q PIVOT (sum(b) FOR a IN (1, 2)) AS p JOIN v ON true",
            "SELECT 1 FROM u, \"?pivot\"('(FROM t) AS q PIVOT (sum(b) FOR a IN (1, 2))')  AS p JOIN v ON true",
        );
        check("SELECT a AS pivot FROM pivot ORDER BY pivot", "SELECT a AS pivot FROM pivot ORDER BY pivot");
    }

    fn pivot(text: &str) -> Pivot {
        match read(&tokens(text)).expect("one") {
            Read::Pivot(pivot) => pivot,
            Read::Unpivot(_) => panic!("{text}"),
        }
    }

    fn unpivot(text: &str) -> Unpivot {
        match read(&tokens(text)).expect("one") {
            Read::Unpivot(unpivot) => unpivot,
            Read::Pivot(_) => panic!("{text}"),
        }
    }

    #[test]
    fn pivots_are_read() {
        let read = pivot("PIVOT (FROM t) ON a || 'x', b IN (1, 2 AS two) USING sum(c) AS s, max(d) GROUP BY e, f");
        assert_eq!(read.source, "(FROM t)");
        assert_eq!((read.keys[0].expr.as_str(), &read.keys[0].values), ("a || 'x'", &None));
        let values = read.keys[1].values.as_ref().expect("listed");
        assert_eq!((values[0].expr.as_str(), values[1].name.as_deref()), ("1", Some("two")));
        assert_eq!((read.aggregates[0].expr.as_str(), read.aggregates[0].name.as_deref()), ("sum(c)", Some("s")));
        assert_eq!(read.groups, Some(vec!["e".to_owned(), "f".to_owned()]));
        let read = pivot("t AS q PIVOT (sum(b) FOR a IN (1) c IN ('x', 'y') GROUP BY d)");
        assert_eq!((read.source.as_str(), read.keys.len(), read.groups.is_some()), ("t AS q", 2, true));
        assert_eq!(pivot("PIVOT t ON a").aggregates[0].expr, "count(*)");
        assert_eq!(pivot("PIVOT t USING sum(a)").keys, []);
    }

    #[test]
    fn unpivots_are_read() {
        let read = unpivot("UNPIVOT t ON a, (b + 1) AS c, COLUMNS('d') INTO NAME n VALUE v");
        assert_eq!((read.name.as_str(), read.values.as_slice()), ("n", &["v".to_owned()][..]));
        assert_eq!(read.items[1], (vec!["(b + 1)".to_owned()], Some("c".to_owned())));
        let read = unpivot("t UNPIVOT INCLUDE NULLS ((x, y) FOR n IN ((a, b) AS one, (c, d)))");
        assert!(read.has_nulls && read.values.len() == 2);
        assert_eq!(read.items[1], (vec!["c".to_owned(), "d".to_owned()], None));
    }
}
