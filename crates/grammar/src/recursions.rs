//! `WITH RECURSIVE t(k, n) USING KEY (k) AS (… UNION …)`, and `recurring.t` for all rows so far, in words that the parser knows and
//! marks that a rule of plans looks for.
//!
//! ```text
//! t(k, n) USING KEY (k) AS (a UNION b)  →  t(k, n) AS (SELECT * FROM (a) AS t(k, n) WHERE using_key(k) UNION b)
//! FROM recurring.t AS r                 →  FROM (SELECT * FROM t WHERE every_round()) AS r
//! CREATE RECURSIVE VIEW v (a) AS q      →  CREATE VIEW v (a) AS WITH RECURSIVE v (a) AS (q) SELECT * FROM v
//! ```

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Cte, Expr, Function, Ident, ObjectName, OrderByKind, Query, SetExpr, SetOperator, TableAlias, TableFactor,
    VisitorMut,
};
use datafusion::sql::sqlparser::dialect::Dialect;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use forebay_base::{Error, Result};

use crate::walk::Tree;
use crate::words::{is_blank, is_word};

/// The mark of the keys.
pub const USING_KEY: &str = "using_key";

/// The mark of a reader of all rows.
pub const EVERY_ROUND: &str = "every_round";

/// The schema by which all rows are read.
const RECURRING: &str = "recurring";

/// Takes `USING KEY (k)` out of tokens, and puts `ORDER BY using_key(k)` at the end of the query instead.
pub fn keys_as_order(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    loop {
        let places: Vec<usize> =
            (0..tokens.len()).filter(|at| !matches!(tokens[*at].token, Token::Whitespace(_))).collect();
        let word = |at: usize, word: &str| places.get(at).is_some_and(|place| is_word(&tokens[*place].token, word));
        let begins = |at: usize| word(at, "using") && word(at + 1, "key");
        let found = (0..places.len()).filter(|at| begins(*at)).find_map(|at| {
            let keys = end(&tokens, &places, at + 2)?;
            let body = (keys + 1..keys + 4).find(|at| tokens[*places.get(*at).unwrap_or(&0)].token == Token::LParen)?;
            word(keys + 1, "as").then_some(())?;
            Some((places[at], places[at + 2], places[keys], places[end(&tokens, &places, body)?]))
        });
        let Some((using, open, close, body_end)) = found else { return tokens };
        let span = tokens[body_end].span;
        let order = ["ORDER", "BY", USING_KEY].into_iter().flat_map(|word| [Token::make_keyword(word), space()]);
        let order = std::iter::once(space()).chain(order).map(|token| TokenWithSpan { token, span });
        let order: Vec<TokenWithSpan> = order.chain(tokens[open..=close].iter().cloned()).collect();
        tokens.splice(body_end..body_end, order);
        tokens[using..=close].iter_mut().for_each(|token| token.token = space());
    }
}

/// `CREATE RECURSIVE VIEW v (a) AS …` as `CREATE VIEW v (a) AS WITH RECURSIVE v (a) AS (…) SELECT * FROM v`.
pub fn views(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let places: Vec<usize> = (0..tokens.len()).filter(|at| !is_blank(&tokens[*at])).collect();
    let word = |at: usize, word: &str| places.get(at).is_some_and(|place| is_word(&tokens[*place].token, word));
    let begins = |at: &usize| word(*at, "recursive") && word(at + 1, "view");
    let Some(at) = (1..4).find(begins).filter(|_| word(0, "create")) else { return tokens };
    let Some(body) = (at + 3..places.len()).find(|at| word(*at, "as")) else { return tokens };
    let (name, first) = (places[at + 2], places[body] + 1);
    let span = tokens[name].span;
    let spaced = |words: &[&str]| {
        let words = words.iter().flat_map(|word| [space(), Token::make_keyword(word), space()]);
        words.map(|token| TokenWithSpan { token, span }).collect::<Vec<_>>()
    };
    let one = |token: Token| TokenWithSpan { token, span };
    let end = tokens.iter().position(|token| token.token == Token::EOF).unwrap_or(tokens.len());
    let columns_end = tokens[name..].iter().position(|token| token.token == Token::LParen).map(|at| name + at);
    let called = tokens[name..columns_end.filter(|end| *end < first).unwrap_or(first - 1)].to_vec();
    let mut shown = vec![one(Token::RParen)];
    shown.extend(spaced(&["SELECT"]).into_iter().chain([one(Token::Mul)]).chain(spaced(&["FROM"])).chain(called));
    tokens.splice(end..end, shown);
    let mut with = spaced(&["WITH", "RECURSIVE"]);
    with.extend_from_slice(&tokens[name..first]);
    with.push(one(Token::LParen));
    tokens.splice(first..first, with);
    tokens[places[at]].token = space();
    tokens
}

fn space() -> Token {
    Token::Whitespace(datafusion::sql::sqlparser::tokenizer::Whitespace::Space)
}

/// Where the parenthesis is closed that is opened here.
fn end(tokens: &[TokenWithSpan], places: &[usize], open: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, place) in places.iter().enumerate().skip(open) {
        match tokens[*place].token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.checked_sub(1)?,
            _ => {}
        }
        if depth == 0 {
            return (at > open).then_some(at);
        }
    }
    None
}

/// Marks the recursive queries with keys that a query names.
///
/// # Errors
/// Keys that are not columns.
pub fn mark(query: &mut Query, dialect: &dyn Dialect) -> Result<()> {
    query.with.iter_mut().flat_map(|with| &mut with.cte_tables).try_for_each(|table| mark_table(table, dialect))
}

fn mark_table(table: &mut Cte, dialect: &dyn Dialect) -> Result<()> {
    let Some(keys) = keys(&table.query) else { return Ok(()) };
    let keys: Vec<Ident> = keys?;
    table.query.order_by = None;
    let alias = TableAlias { explicit: false, at: None, ..table.alias.clone() };
    let SetExpr::SetOperation { op: SetOperator::Union, left, right, .. } = table.query.body.as_mut() else {
        return Ok(());
    };
    let keys: Vec<String> = keys.iter().map(ToString::to_string).collect();
    let first = format!("SELECT * FROM ({left}) AS {alias} WHERE {USING_KEY}({})", keys.join(", "));
    let parsed = |text: &str| -> std::result::Result<Query, ParserError> {
        Ok(*Parser::new(dialect).try_with_sql(text)?.parse_query()?)
    };
    let wrong =
        |error: ParserError| Error::internal(format!("a recursive query with keys is written as none: {error}"));
    **left = *parsed(&first).map_err(wrong)?.body;
    let name = alias.name.clone();
    let all = parsed(&format!("SELECT * FROM {name} WHERE {EVERY_ROUND}()")).map_err(wrong)?;
    let _ = right.walk_mut(&mut Readers { name, all });
    Ok(())
}

/// The keys that the mark at the end of a query names, if it is there.
fn keys(query: &Query) -> Option<Result<Vec<Ident>>> {
    let OrderByKind::Expressions(order) = &query.order_by.as_ref()?.kind else { return None };
    let [only] = order.as_slice() else { return None };
    let Expr::Function(Function { name, args, .. }) = &only.expr else { return None };
    if !name.to_string().eq_ignore_ascii_case(USING_KEY) {
        return None;
    }
    let written = args.to_string();
    let names = written.trim_start_matches('(').trim_end_matches(')').split(',').map(str::trim);
    let names: Option<Vec<Ident>> = names
        .map(|name| match name.strip_prefix('"').and_then(|name| name.strip_suffix('"')) {
            Some(quoted) => Some(Ident::with_quote('"', quoted)),
            None => name.chars().all(|one| one.is_alphanumeric() || one == '_').then(|| Ident::new(name)),
        })
        .collect();
    Some(names.ok_or_else(|| {
        Error::unsupported(format!("USING KEY {written} has keys that are not columns"))
            .hint("Name columns, as in USING KEY (a, b), and aggregate in the query")
    }))
}

/// Replaces `recurring.t`.
struct Readers {
    name: Ident,
    all: Query,
}

impl VisitorMut for Readers {
    type Break = ();

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        let TableFactor::Table { name, alias, .. } = factor else { return ControlFlow::Continue(()) };
        if is_recurring(name, &self.name) {
            let alias = alias.take().unwrap_or_else(|| TableAlias {
                explicit: true,
                name: self.name.clone(),
                columns: Vec::new(),
                at: None,
            });
            *factor = TableFactor::Derived {
                lateral: false,
                subquery: Box::new(self.all.clone()),
                alias: Some(alias),
                sample: None,
            };
        }
        ControlFlow::Continue(())
    }
}

fn is_recurring(name: &ObjectName, table: &Ident) -> bool {
    let parts: Vec<&Ident> = name.0.iter().filter_map(|part| part.as_ident()).collect();
    matches!(parts.as_slice(), [schema, name]
        if schema.value.eq_ignore_ascii_case(RECURRING) && name.value.eq_ignore_ascii_case(&table.value))
}
