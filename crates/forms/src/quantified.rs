//! `x > ANY(list)` and `x > ALL(list)`, as DuckDB means them: the comparison of `x` with each element, where those with NULL are
//! unknown, and where no list is one without elements.

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, UnaryOperator};

/// Writes ANY of a list as ALL of the opposite: of both, the planner knows NULLs in lists for ALL.
pub fn write_any(expr: &mut Expr) {
    let Expr::AnyOp { left, compare_op, right, .. } = expr else { return };
    if let (Some(compare_op), false) = (opposite(compare_op), matches!(**right, Expr::Subquery(_))) {
        let all = Expr::AllOp { left: left.clone(), compare_op, right: right.clone() };
        *expr = Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(Expr::Nested(Box::new(all))) };
    }
}

/// Has ALL hold for no list, which the planner takes for an unknown one. Its parts are written already.
pub fn write_behind(expr: &mut Expr) {
    let Expr::AllOp { right, .. } = &*expr else { return };
    let is_known = match right.as_ref() {
        Expr::Subquery(_) | Expr::Array(_) => true,
        Expr::Function(call) => call.name.to_string() == "make_array",
        _ => false,
    };
    if !is_known {
        let is_none = Box::new(Expr::IsNull(Box::new(Expr::Nested(right.clone()))));
        let either = Expr::BinaryOp { left: is_none, op: BinaryOperator::Or, right: Box::new(expr.clone()) };
        *expr = Expr::Nested(Box::new(either));
    }
}

/// The comparison that holds where this one does not.
fn opposite(op: &BinaryOperator) -> Option<BinaryOperator> {
    use BinaryOperator as B;
    Some(match op {
        B::Eq => B::NotEq,
        B::NotEq => B::Eq,
        B::Lt => B::GtEq,
        B::LtEq => B::Gt,
        B::Gt => B::LtEq,
        B::GtEq => B::Lt,
        _ => return None,
    })
}
