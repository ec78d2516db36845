//! Statements whose answers queries read: `FROM (DESCRIBE t)`, `FROM (SHOW TABLES)`, `FROM (SUMMARIZE t)`, `FROM pragma_table_info('t')`.
//! Each becomes a call with its text, in whose place the answer comes.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, Ident, Query, TableFactor, TableFunctionArgs, Value, VisitorMut,
};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use forebay_base::{Error, Result};

use crate::walk::Tree;
use crate::words::{closes, is_word, keyword, opens, places};

/// What the call is called.
const CALL: &str = "?statement";

/// Words that begin such statements.
const BEGINNINGS: [&str; 5] = ["describe", "desc", "show", "summarize", "summarise"];

/// Functions that are pragmas.
const PRAGMAS: [(&str, &str); 2] = [("pragma_table_info", "table_info"), ("pragma_version", "version")];

/// The tokens with calls for statements in FROM.
pub(crate) fn known(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let may_begin = |token: &Token| {
        BEGINNINGS.iter().any(|word| is_word(token, word)) || PRAGMAS.iter().any(|(word, _)| is_word(token, word))
    };
    if !tokens.iter().any(|token| may_begin(&token.token)) {
        return tokens;
    }
    let places = places(&tokens);
    for index in (1..places.len()).rev() {
        let token = |index: usize| places.get(index).map(|place| &tokens[*place].token);
        let is_table = token(index - 1)
            .is_some_and(|before| *before == Token::Comma || matches!(keyword(before), Keyword::FROM | Keyword::JOIN));
        let Some(first) = token(index).filter(|_| is_table) else { continue };
        let pragma = PRAGMAS.iter().find(|(function, _)| is_word(first, function)).map(|(_, pragma)| *pragma);
        let is_statement = *first == Token::LParen
            && token(index + 1).is_some_and(|word| BEGINNINGS.iter().any(|known| is_word(word, known)));
        let open = index + usize::from(pragma.is_some());
        if !(is_statement || pragma.is_some()) || token(open) != Some(&Token::LParen) {
            continue;
        }
        let Some(close) = closing(&tokens, &places, open) else { continue };
        let words = places[open + 1]..places[close];
        let inner: String = tokens[words].iter().map(|token| written(&token.token)).collect();
        let text = match pragma {
            Some(pragma) if inner.trim().is_empty() => format!("PRAGMA {pragma}"),
            Some(pragma) => format!("PRAGMA {pragma}({inner})"),
            None => inner.trim().to_owned(),
        };
        let span = tokens[places[index]].span;
        let call = [
            Token::make_word(CALL, Some('"')),
            Token::LParen,
            Token::SingleQuotedString(text),
            Token::RParen,
        ];
        tokens.splice(places[index]..=places[close], call.map(|token| TokenWithSpan { token, span }));
        return known(tokens);
    }
    tokens
}

/// A token as it stands in a text.
fn written(token: &Token) -> String {
    match token {
        Token::SingleQuotedString(text) => format!("'{}'", text.replace('\'', "''")),
        other => other.to_string(),
    }
}

fn closing(tokens: &[TokenWithSpan], places: &[usize], open: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for (index, place) in places.iter().enumerate().skip(open) {
        match &tokens[*place].token {
            token if opens(token) => depth += 1,
            token if closes(token) && depth == 1 => return Some(index),
            token if closes(token) => depth -= 1,
            _ => {}
        }
    }
    None
}

/// Puts a table for each such statement in its place: the one whose name `answer` gives for the text.
///
/// # Errors
/// Those of `answer`.
pub fn answered(tree: &mut dyn Tree, answer: &mut dyn FnMut(&str) -> Result<String>) -> Result<()> {
    let mut statements = Statements { answer, failed: None };
    let _ = tree.walk_mut(&mut statements);
    statements.failed.map_or(Ok(()), Err)
}

/// Whether a query reads the answer of a statement.
pub fn reads_answers(query: &mut Query) -> bool {
    let mut reads = false;
    let mut note = |_: &str| {
        reads = true;
        Ok(String::new())
    };
    let answered = answered(query, &mut note);
    reads || answered.is_err()
}

struct Statements<'a> {
    answer: &'a mut dyn FnMut(&str) -> Result<String>,
    failed: Option<Error>,
}

impl VisitorMut for Statements<'_> {
    type Break = ();

    fn pre_visit_table_factor(&mut self, table: &mut TableFactor) -> ControlFlow<()> {
        let TableFactor::Table { name, args, .. } = table else { return ControlFlow::Continue(()) };
        let Some(text) = args.as_ref().and_then(text).filter(|_| name.to_string() == format!("\"{CALL}\"")) else {
            return ControlFlow::Continue(());
        };
        match (self.answer)(&text) {
            Ok(answer) => {
                *name = vec![Ident::with_quote('"', answer)].into();
                *args = None;
                ControlFlow::Continue(())
            }
            Err(error) => {
                self.failed = Some(error);
                ControlFlow::Break(())
            }
        }
    }
}

fn text(arguments: &TableFunctionArgs) -> Option<String> {
    match arguments.args.as_slice() {
        [FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(value)))] => match &value.value {
            Value::SingleQuotedString(text) => Some(text.clone()),
            _ => None,
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::dialect::DuckDbDialect;
    use datafusion::sql::sqlparser::parser::Parser;
    use datafusion::sql::sqlparser::tokenizer::Tokenizer;

    fn check(text: &str, expect: &str, texts: &[&str]) {
        let tokens = known(Tokenizer::new(&DuckDbDialect {}, text).tokenize_with_location().expect("tokens"));
        let mut parsed = Parser::new(&DuckDbDialect {}).with_tokens_with_locations(tokens);
        let mut statement = parsed.parse_statement().expect("parses");
        let mut found = Vec::new();
        let mut answer = |text: &str| {
            found.push(text.to_owned());
            Ok(format!("answer {}", found.len()))
        };
        answered(&mut statement, &mut answer).expect("answered");
        assert_eq!(found, texts);
        assert_eq!(statement.to_string(), expect);
    }

    #[test]
    fn statements_are_tables() {
        check(
            "SELECT a FROM (DESCRIBE SELECT 'x' AS a), (SHOW TABLES) AS s",
            "SELECT a FROM \"answer 1\", \"answer 2\" AS s",
            &["DESCRIBE SELECT 'x' AS a", "SHOW TABLES"],
        );
        check(
            "SELECT * FROM pragma_table_info('t')",
            "SELECT * FROM \"answer 1\"",
            &["PRAGMA table_info('t')"],
        );
        check("SELECT show FROM describe", "SELECT show FROM describe", &[]);
    }
}
