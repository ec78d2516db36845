//! `a JOIN b JOIN c ON … ON …`, where the first ON is the last JOIN's, with the parentheses that the parser needs. Works on tokens.

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::words::{closes, is_word, keyword, opens, places};

/// A join whose condition has not come yet.
struct Pending {
    /// Where its right side begins, counted in tokens that are not blank.
    right: usize,
    /// Its right side is a join.
    is_nested: bool,
}

/// The tokens, with parentheses around each join that is the right side of another.
pub(crate) fn known(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let places = places(&tokens);
    // One list for each parenthesis that is open.
    let mut levels: Vec<Vec<Pending>> = vec![Vec::new()];
    let mut added: Vec<(usize, Token)> = Vec::new();
    for (index, place) in places.iter().enumerate() {
        let token = &tokens[*place].token;
        if opens(token) {
            levels.push(Vec::new());
            continue;
        }
        if closes(token) {
            let _ = levels.pop();
            if levels.is_empty() {
                return tokens;
            }
            continue;
        }
        let Some(pending) = levels.last_mut() else { return tokens };
        match keyword(token) {
            Keyword::JOIN => {
                if let Some(outer) = pending.last_mut() {
                    outer.is_nested = true;
                }
                if !is_unconditional(&tokens, &places[..index]) {
                    pending.push(Pending { right: index + 1, is_nested: false });
                }
            }
            Keyword::ON | Keyword::USING => {
                if let Some(Pending { right, is_nested: true }) = pending.pop() {
                    added.extend([(places[right], Token::LParen), (*place, Token::RParen)]);
                }
            }
            Keyword::SELECT | Keyword::FROM | Keyword::WHERE | Keyword::GROUP | Keyword::ORDER => pending.clear(),
            _ if *token == Token::Comma => pending.clear(),
            _ => {}
        }
    }
    // Of two that open at one place, or close there, either may be first.
    added.sort_by_key(|(place, _)| *place);
    for (place, token) in added.into_iter().rev() {
        let span = tokens[place].span;
        tokens.insert(place, TokenWithSpan { token, span });
    }
    tokens
}

/// Whether these words in front of a JOIN make it one without a condition: CROSS, POSITIONAL, and NATURAL, which a side may follow.
fn is_unconditional(tokens: &[TokenWithSpan], before: &[usize]) -> bool {
    use Keyword::{ANTI, FULL, INNER, LEFT, OUTER, RIGHT, SEMI};
    let is_side =
        |place: &&usize| matches!(keyword(&tokens[**place].token), ANTI | FULL | INNER | LEFT | OUTER | RIGHT | SEMI);
    let sides = before.iter().rev().take_while(is_side).count();
    let Some(kind) = before.iter().rev().nth(sides).map(|place| &tokens[*place].token) else { return false };
    match keyword(kind) {
        Keyword::NATURAL => true,
        Keyword::CROSS => sides == 0,
        _ => sides == 0 && is_word(kind, "positional"),
    }
}
