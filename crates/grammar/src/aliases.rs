//! Names before what they name, in SELECT lists and in FROM: `x: a + 1` as `a + 1 AS x`.

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace};

use crate::words::{closes, keyword, opens, places};

/// A list whose parts may have names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum List {
    Select,
    From,
    None,
}

/// What stands between parentheses, or the statement itself.
#[derive(Debug)]
struct Level {
    list: List,
    /// The next token begins a part of the list.
    begins: bool,
    /// The query may begin here, so that FROM is a clause.
    is_first: bool,
    /// The place of the name of the part that is being read.
    named: Option<usize>,
}

impl Level {
    fn new() -> Self {
        Self { list: List::None, begins: false, is_first: true, named: None }
    }
}

/// A name and the last token of what it names.
struct Named {
    name: usize,
    end: usize,
}

/// The tokens with names behind what they name.
pub(crate) fn behind_values(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let places = places(&tokens);
    let is_name = |index: usize| {
        matches!(tokens[places[index]].token, Token::Word(_))
            && places.get(index + 1).is_some_and(|next| tokens[*next].token == Token::Colon)
    };
    if !(0..places.len()).any(is_name) {
        return tokens;
    }
    let mut found = Vec::new();
    let mut levels = vec![Level::new()];
    for (index, place) in places.iter().enumerate() {
        let before = index.checked_sub(1).map(|before| places[before]);
        let token = &tokens[*place].token;
        if closes(token) && levels.len() > 1 {
            close(levels.pop(), before, &mut found);
            continue;
        }
        let Some(level) = levels.last_mut() else { break };
        let word = keyword(token);
        let previous = before.map_or(Keyword::NoKeyword, |before| keyword(&tokens[before].token));
        let ends =
            matches!(token, Token::Comma | Token::SemiColon | Token::EOF) || ends_part(level.list, word, previous);
        if ends {
            close_part(level, before, &mut found);
        }
        let is_begun = std::mem::replace(&mut level.begins, false);
        match next_list(level, word, previous) {
            Some(list) => (level.list, level.begins) = (list, list != List::None),
            None if *token == Token::Comma || (level.list == List::From && word == Keyword::JOIN) => {
                level.begins = level.list != List::None;
            }
            // Words between SELECT and its list.
            None if is_begun && matches!(word, Keyword::DISTINCT | Keyword::ALL) => level.begins = true,
            None if is_begun && is_name(index) => level.named = Some(*place),
            None => {}
        }
        level.is_first = level.is_first && matches!(word, Keyword::EXPLAIN | Keyword::ANALYZE);
        if matches!(word, Keyword::UNION | Keyword::INTERSECT | Keyword::AS) {
            level.is_first = true;
        }
        if opens(token) {
            levels.push(Level::new());
        }
    }
    for mut level in levels {
        close_part(&mut level, places.last().copied(), &mut found);
    }
    written(tokens, found)
}

/// Ends what is between parentheses, whose last token this is.
fn close(level: Option<Level>, last: Option<usize>, found: &mut Vec<Named>) {
    level.into_iter().for_each(|mut level| close_part(&mut level, last, found));
}

fn close_part(level: &mut Level, last: Option<usize>, found: &mut Vec<Named>) {
    if let (Some(name), Some(end)) = (level.named.take(), last) {
        found.push(Named { name, end });
    }
}

/// Whether a keyword ends a part of a list.
fn ends_part(list: List, word: Keyword, previous: Keyword) -> bool {
    use Keyword::{
        ANTI, ASOF, CROSS, EXCEPT, FETCH, FROM, FULL, GROUP, HAVING, INNER, INTERSECT, INTO, JOIN, LEFT, LIMIT,
        NATURAL, OFFSET, ON, ORDER, QUALIFY, RIGHT, SELECT, SEMI, TABLESAMPLE, UNION, USING, WHERE, WINDOW,
    };
    match list {
        List::None => false,
        _ if matches!(word, WHERE | HAVING | ORDER | LIMIT | OFFSET | WINDOW | QUALIFY) => true,
        _ if matches!(word, UNION | EXCEPT | INTERSECT | INTO | FETCH | USING) => true,
        _ if word == GROUP => previous != Keyword::WITHIN,
        List::Select => word == FROM && previous != Keyword::DISTINCT,
        List::From => {
            matches!(word, SELECT | JOIN | LEFT | RIGHT | FULL | INNER | CROSS | NATURAL | SEMI | ANTI | ASOF)
                || matches!(word, ON | TABLESAMPLE)
        }
    }
}

/// The list that begins behind a keyword.
fn next_list(level: &Level, word: Keyword, previous: Keyword) -> Option<List> {
    match word {
        Keyword::SELECT => Some(List::Select),
        Keyword::FROM if level.list == List::Select && previous != Keyword::DISTINCT => Some(List::From),
        Keyword::FROM if level.is_first => Some(List::From),
        _ if ends_part(level.list, word, previous) && !joins(word) => Some(List::None),
        _ => None,
    }
}

/// Whether FROM goes on behind a keyword.
fn joins(word: Keyword) -> bool {
    use Keyword::{ANTI, ASOF, CROSS, FULL, INNER, JOIN, LEFT, NATURAL, ON, RIGHT, SEMI, TABLESAMPLE, USING};
    matches!(word, JOIN | LEFT | RIGHT | FULL | INNER | CROSS | NATURAL | SEMI | ANTI | ASOF)
        || matches!(word, ON | USING | TABLESAMPLE)
}

/// The tokens without names and colons where they stood, and with AS and the name at the ends.
fn written(tokens: Vec<TokenWithSpan>, found: Vec<Named>) -> Vec<TokenWithSpan> {
    let mut out: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len() + 4 * found.len());
    let names: Vec<(usize, TokenWithSpan)> =
        found.iter().map(|named| (named.end, tokens[named.name].clone())).collect();
    let mut skips_colon = false;
    for (index, token) in tokens.into_iter().enumerate() {
        let is_colon = token.token == Token::Colon;
        if found.iter().any(|named| named.name == index) {
            skips_colon = true;
        } else if skips_colon && is_colon {
            skips_colon = false;
        } else {
            out.push(token);
        }
        for (_, name) in names.iter().filter(|(end, _)| *end == index) {
            let (blank, span) = (Token::Whitespace(Whitespace::Space), name.span);
            let words = [blank.clone(), Token::make_keyword("AS"), blank].map(|token| TokenWithSpan { token, span });
            out.extend(words);
            out.push(name.clone());
        }
    }
    out
}
