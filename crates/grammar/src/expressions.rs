//! Expressions that the parser does not know, parsed where its dialect is asked for them.

use datafusion::sql::sqlparser::ast::{
    Expr, Ident, LambdaFunction, LambdaFunctionParameter, LambdaSyntax, OneOrManyWithParens, OrderByKind, SelectItem,
    SetExpr, UnaryOperator, Value,
};
use datafusion::sql::sqlparser::dialect::{Dialect, Precedence};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;

pub use forebay_forms::calls::call;

use crate::words::is_word;

/// An expression that begins here: `#1`, `[f(x) FOR x IN list IF x > 1]`, `(VALUES (1))`, `(FROM t SELECT a)`, `ARRAY(SELECT …)`.
pub fn prefix(parser: &mut Parser<'_>, dialect: &dyn Dialect) -> Option<Result<Expr, ParserError>> {
    match &parser.peek_token_ref().token {
        Token::Sharp => {
            let Token::Number(digits, _) = parser.peek_nth_token(1).token else { return None };
            let _ = (parser.next_token(), parser.next_token());
            Some(Ok(Expr::Identifier(Ident::with_quote('"', format!("#{digits}")))))
        }
        Token::LBracket => comprehension(parser),
        Token::LParen if next_is(parser, Keyword::VALUES) || next_is(parser, Keyword::FROM) => Some(subquery(parser)),
        word if is_word(word, "array")
            && parser.peek_nth_token(1).token == Token::LParen
            && begins_query(&parser.peek_nth_token(2).token) =>
        {
            let _ = parser.next_token();
            Some(subquery(parser).and_then(|query| array_of(&query, dialect)))
        }
        _ => None,
    }
}

fn next_is(parser: &Parser<'_>, keyword: Keyword) -> bool {
    matches!(parser.peek_nth_token(1).token, Token::Word(word) if word.keyword == keyword)
}

/// Whether a query begins with this word.
pub(crate) fn begins_query(token: &Token) -> bool {
    matches!(token, Token::Word(word)
        if matches!(word.keyword, Keyword::SELECT | Keyword::WITH | Keyword::VALUES | Keyword::FROM))
}

fn subquery(parser: &mut Parser<'_>) -> Result<Expr, ParserError> {
    parser.expect_token(&Token::LParen)?;
    let query = parser.parse_query()?;
    parser.expect_token(&Token::RParen)?;
    Ok(Expr::Subquery(query))
}

/// The place of a column that `#1` and the like name, counted from 1.
pub fn position(expr: &Expr) -> Option<usize> {
    match expr {
        Expr::Identifier(name) if name.quote_style == Some('"') => name.value.strip_prefix('#')?.parse().ok(),
        _ => None,
    }
}

/// The list of the rows of a query in parentheses, in its order.
fn array_of(query: &Expr, dialect: &dyn Dialect) -> Result<Expr, ParserError> {
    let mut query = query.clone();
    let order = if is_ordered(&mut query, dialect)? { " ORDER BY place" } else { "" };
    let columns = if order.is_empty() { "element" } else { "element, place" };
    let text = format!("(SELECT coalesce(array_agg(element{order}), []) FROM {query} AS elements({columns}))");
    Parser::new(dialect).try_with_sql(&text)?.parse_expr()
}

/// Gives the rows of an ordered query of one column their places as a second column; false where it has no order.
fn is_ordered(query: &mut Expr, dialect: &dyn Dialect) -> Result<bool, ParserError> {
    let Expr::Subquery(query) = query else { return Ok(false) };
    let (SetExpr::Select(select), Some(order)) = (query.body.as_mut(), &mut query.order_by) else { return Ok(false) };
    let (None, [item], OrderByKind::Expressions(keys)) = (&select.distinct, &select.projection[..], &mut order.kind)
    else {
        return Ok(false);
    };
    let (value, alias) = match item {
        SelectItem::UnnamedExpr(value) => (value, None),
        SelectItem::ExprWithAlias { expr, alias } => (expr, Some(alias)),
        _ => return Ok(false),
    };
    for key in keys.iter_mut() {
        let is_value = match &key.expr {
            Expr::Value(number) => number.value.to_string() == "1",
            Expr::Identifier(name) => alias.is_some_and(|alias| alias.value.eq_ignore_ascii_case(&name.value)),
            _ => false,
        };
        if is_value {
            key.expr = value.clone();
        }
    }
    let written: Vec<String> = keys.iter().map(ToString::to_string).collect();
    let place = format!("row_number() OVER (ORDER BY {})", written.join(", "));
    let expr = Parser::new(dialect).try_with_sql(&place)?.parse_expr()?;
    select.projection.push(SelectItem::ExprWithAlias { expr, alias: Ident::new("place") });
    Ok(true)
}

/// `[value FOR x IN list IF test]`; `None` where the brackets hold something else.
fn comprehension(parser: &mut Parser<'_>) -> Option<Result<Expr, ParserError>> {
    if !has_for(parser) {
        return None;
    }
    Some(parse_comprehension(parser))
}

/// Whether FOR follows within the brackets that begin here.
fn has_for(parser: &Parser<'_>) -> bool {
    let mut depth = 0_usize;
    for ahead in 0.. {
        match parser.peek_nth_token(ahead).token {
            Token::LBracket | Token::LParen | Token::LBrace => depth += 1,
            Token::RBracket | Token::RParen | Token::RBrace => depth -= 1,
            Token::Word(word) if depth == 1 && word.keyword == Keyword::FOR => return true,
            Token::EOF => return false,
            _ => {}
        }
        if depth == 0 {
            return false;
        }
    }
    false
}

fn parse_comprehension(parser: &mut Parser<'_>) -> Result<Expr, ParserError> {
    parser.expect_token(&Token::LBracket)?;
    let value = parser.parse_expr()?;
    parser.expect_keyword(Keyword::FOR)?;
    let names = parser.parse_comma_separated(Parser::parse_identifier)?;
    parser.expect_keyword(Keyword::IN)?;
    if let [only] = names.as_slice()
        && matches!(&value, Expr::Identifier(name) if name == only)
        && consume_star(parser)
    {
        parser.expect_keyword(Keyword::IF)?;
        let test = parser.parse_expr()?;
        parser.expect_token(&Token::RBracket)?;
        return Ok(lambda(&names, test));
    }
    let mut list = parser.parse_expr()?;
    if parser.parse_keyword(Keyword::IF) {
        let test = parser.parse_expr()?;
        list = call("list_filter", vec![list, lambda(&names, test)]);
    }
    parser.expect_token(&Token::RBracket)?;
    Ok(call("list_transform", vec![list, lambda(&names, value)]))
}

/// Goes past `*` and `(*)`: the names of all columns, of which `COLUMNS([c FOR c IN (*) IF …])` chooses as a lambda does.
fn consume_star(parser: &mut Parser<'_>) -> bool {
    let star = [Token::LParen, Token::Mul, Token::RParen];
    parser.consume_token(&Token::Mul) || parser.consume_tokens(&star)
}

fn lambda(names: &[Ident], body: Expr) -> Expr {
    let parameter = |name: &Ident| LambdaFunctionParameter { name: name.clone(), data_type: None };
    let params = match names {
        [only] => OneOrManyWithParens::One(parameter(only)),
        several => OneOrManyWithParens::Many(several.iter().map(parameter).collect()),
    };
    Expr::Lambda(LambdaFunction { params, body: Box::new(body), syntax: LambdaSyntax::Arrow })
}

/// Whether NOT GLOB comes next.
pub fn is_not_glob(parser: &Parser<'_>) -> bool {
    let is_negated = matches!(&parser.peek_token_ref().token, Token::Word(word) if word.keyword == Keyword::NOT);
    is_negated && is_word(&parser.peek_nth_token(1).token, "glob")
}

/// What goes on behind an expression: `5!`, `x NOT GLOB pattern`, `x IN list`, `x NOT IN list`, `x IN text` and `x IN map`,
/// where no parenthesis begins what follows.
pub fn infix(parser: &mut Parser<'_>, left: &Expr, dialect: &impl Dialect) -> Option<Result<Expr, ParserError>> {
    if parser.consume_token(&Token::ExclamationMark) {
        return Some(Ok(call("factorial", vec![left.clone()])));
    }
    let is_negated = matches!(&parser.peek_token_ref().token, Token::Word(word) if word.keyword == Keyword::NOT);
    if is_not_glob(parser) {
        (0..2).for_each(|_| parser.advance_token());
        let pattern = parser.parse_subexpr(dialect.prec_value(Precedence::Like));
        let found = pattern.map(|pattern| Box::new(call("glob_match", vec![left.clone(), pattern])));
        return Some(found.map(|expr| Expr::UnaryOp { op: UnaryOperator::Not, expr }));
    }
    let at = usize::from(is_negated);
    let is_in = matches!(parser.peek_nth_token(at).token, Token::Word(word) if word.keyword == Keyword::IN);
    let is_list = match parser.peek_nth_token(at + 1).token {
        Token::LBracket | Token::SingleQuotedString(_) => true,
        Token::Word(word) => word.keyword != Keyword::UNNEST,
        _ => false,
    };
    if !is_in || !is_list {
        return None;
    }
    (0..=at).for_each(|_| parser.advance_token());
    let list = parser.parse_subexpr(dialect.prec_value(Precedence::Between));
    Some(list.map(|mut list| {
        // It is found or not, whatever NULLs are beside it. What is no list of values may be a text or a map.
        let function = match &mut list {
            Expr::Array(array) => {
                array.elem.retain(|value| !matches!(value, Expr::Value(value) if value.value == Value::Null));
                "list_contains"
            }
            _ => "contains",
        };
        let found = call(function, vec![list, left.clone()]);
        match is_negated {
            true => Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(found) },
            false => found,
        }
    }))
}
