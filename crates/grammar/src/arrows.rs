//! `document -> 'name'`, which the parser takes for a lambda where a name stands in front of the arrow: what follows would be the
//! lambda's body up to its end, also what binds less closely than the arrow.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, LambdaFunction, LambdaSyntax,
    OneOrManyWithParens, Value, VisitorMut,
};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::Token;

use crate::walk::Tree;

/// Whether a function of this name, in small letters, takes lambdas.
fn takes_lambdas(name: &str) -> bool {
    let short = name.strip_prefix("list_").or_else(|| name.strip_prefix("array_")).unwrap_or(name);
    matches!(short, "transform" | "apply" | "filter" | "reduce" | "any_match") || name == "columns"
}

/// The name that comes next, in parentheses or without, where an arrow behind it leads to a part of it.
pub fn document(parser: &mut Parser<'_>) -> Option<Expr> {
    let in_parentheses = parser.peek_token_ref().token == Token::LParen;
    let name = parser.peek_nth_token(usize::from(in_parentheses));
    let Token::Word(word) = name.token else { return None };
    let is_value = word.quote_style.is_none() && matches!(word.keyword, Keyword::NULL | Keyword::TRUE | Keyword::FALSE);
    let (is_closed, tokens) = match in_parentheses {
        true => (parser.peek_nth_token(2).token == Token::RParen, 3),
        false => (true, 1),
    };
    if is_value || !is_closed || parser.peek_nth_token(tokens).token != Token::Arrow || is_lambda(parser) {
        return None;
    }
    (0..tokens).for_each(|_| parser.advance_token());
    Some(Expr::Identifier(word.into_ident(name.span)))
}

/// Whether an arrow that comes next makes a lambda: behind a comma in a call of what takes one, or first in a call such as
/// `list.filter(x -> x > 1)` and `columns(c -> c LIKE 'a%')`.
fn is_lambda(parser: &Parser<'_>) -> bool {
    let before = (0..=parser.get_current_index()).rev().map(|index| &parser.token_at(index).token);
    let mut before = before.filter(|token| !matches!(token, Token::Whitespace(_)));
    let is_first = match before.next() {
        Some(Token::LParen) => true,
        Some(Token::Comma) => false,
        _ => return false,
    };
    let mut depth = usize::from(!is_first);
    while depth > 0 {
        match before.next() {
            Some(Token::RParen | Token::RBracket | Token::RBrace) => depth += 1,
            Some(Token::LParen) => depth -= 1,
            Some(Token::LBracket | Token::LBrace) if depth > 1 => depth -= 1,
            Some(Token::LBracket | Token::LBrace | Token::SemiColon) | None => return false,
            _ => {}
        }
    }
    let Some(Token::Word(function)) = before.next() else { return false };
    let name = function.value.to_lowercase();
    takes_lambdas(&name) && (!is_first || name == "columns" || before.next() == Some(&Token::Period))
}

/// `left -> right`. Arrows in what is right of this one take what this one leads to, as in `j -> 'a' ->> 'b'`.
pub fn part(left: Expr, mut right: Expr) -> Expr {
    match &mut right {
        Expr::BinaryOp { left: first, op, .. } if is_long(op, first) => {
            let place = std::mem::replace(first.as_mut(), Expr::Value(Value::Null.into()));
            **first = part(left, place);
            right
        }
        _ => Expr::BinaryOp { left: Box::new(left), op: BinaryOperator::Arrow, right: Box::new(right) },
    }
}

/// Whether this is `->>`, or has one on its left side.
fn is_long(op: &BinaryOperator, left: &Expr) -> bool {
    match (op, left) {
        (BinaryOperator::LongArrow, _) => true,
        (BinaryOperator::StringConcat, Expr::BinaryOp { left, op, .. }) => is_long(op, left),
        _ => false,
    }
}

/// Has arrows mean parts of JSON where no function takes a lambda.
pub fn known(tree: &mut dyn Tree) {
    let _ = tree.walk_mut(&mut Arrows { lambdas: Vec::new() });
}

struct Arrows {
    /// Lambdas that functions take, which are still to come.
    lambdas: Vec<*const LambdaFunction>,
}

impl VisitorMut for Arrows {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match expr {
            Expr::Function(call) => {
                let name = call.name.to_string().to_lowercase();
                let FunctionArguments::List(list) = &call.args else { return ControlFlow::Continue(()) };
                if takes_lambdas(&name) {
                    for arg in &list.args {
                        if let FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Lambda(lambda))) = arg {
                            self.lambdas.push(lambda);
                        }
                    }
                }
            }
            Expr::Lambda(lambda) => {
                let place: *const LambdaFunction = lambda;
                match (self.lambdas.contains(&place), named(lambda)) {
                    (false, Some(name)) => {
                        let (left, right) = (Box::new(Expr::Identifier(name)), lambda.body.clone());
                        *expr = Expr::BinaryOp { left, op: BinaryOperator::Arrow, right };
                    }
                    _ => return ControlFlow::Continue(()),
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// The name in front of an arrow.
fn named(lambda: &LambdaFunction) -> Option<Ident> {
    match (&lambda.params, &lambda.syntax) {
        (OneOrManyWithParens::One(only), LambdaSyntax::Arrow) if only.data_type.is_none() => Some(only.name.clone()),
        _ => None,
    }
}
