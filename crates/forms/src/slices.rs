//! Slices whose bounds are left out.

use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{AccessExpr, BinaryOperator, CaseWhen, Expr, Subscript, UnaryOperator, Value};

/// What stands for the bound of a slice that goes to the end: `-`.
pub const OPEN: &str = "-";

/// Gives a slice the bounds that are left out: `l[2:]` is `l[2:-1]`, and `l[:-:-1]`, which goes backwards, is `l[-1:1:-1]`.
pub fn close(access: &mut AccessExpr) {
    let AccessExpr::Subscript(Subscript::Slice { lower_bound, upper_bound, stride }) = access else { return };
    let number = |text: &str| Expr::Value(Value::Number(text.to_owned(), false).into());
    let minus = || Expr::UnaryOp { op: UnaryOperator::Minus, expr: Box::new(number("1")) };
    let is_back = |stride: &Expr| match stride {
        Expr::Value(_) => Some(false),
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } if matches!(**expr, Expr::Value(_)) => Some(true),
        _ => None,
    };
    let either = |forward: Expr, back: Expr| match stride.as_ref().map_or(Some(false), is_back) {
        Some(false) => forward,
        Some(true) => back,
        None => {
            let zero = number("0");
            let stride = stride.clone().unwrap_or_else(|| number("1"));
            let condition = Expr::BinaryOp { left: Box::new(stride), op: BinaryOperator::Lt, right: Box::new(zero) };
            Expr::Case {
                case_token: AttachedToken::empty(),
                end_token: AttachedToken::empty(),
                operand: None,
                conditions: vec![CaseWhen { condition, result: back }],
                else_result: Some(Box::new(forward)),
            }
        }
    };
    if upper_bound.as_ref().is_some_and(|bound| matches!(bound, Expr::Identifier(name) if name.value == OPEN)) {
        *upper_bound = None;
    }
    lower_bound.get_or_insert_with(|| either(number("1"), minus()));
    upper_bound.get_or_insert_with(|| either(minus(), number("1")));
}
