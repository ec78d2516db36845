//! Numbers and texts as conditions: what stands where something true or false is asked for, and does not show that it is, is cast
//! to BOOLEAN. The cast means nothing for what is BOOLEAN already, and rules leave it out.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CastKind, DataType, Expr, JoinConstraint, Select, UnaryOperator, Value,
};

use crate::joins::{NEAREST_CONDITION, POSITIONAL_CONDITION};

/// The conditions of a SELECT, joins' apart.
pub fn of_select(select: &mut Select) {
    select.selection.iter_mut().chain(&mut select.having).chain(&mut select.qualify).for_each(make_condition);
}

/// The condition of a join.
pub fn of_join(constraint: &mut JoinConstraint) {
    if let JoinConstraint::On(condition) = constraint {
        make_condition(condition);
    }
}

/// The conditions among the parts of an expression.
pub fn of_parts(expr: &mut Expr) {
    match expr {
        Expr::BinaryOp { left, op: BinaryOperator::And | BinaryOperator::Or | BinaryOperator::Xor, right } => {
            make_condition(left);
            make_condition(right);
        }
        Expr::UnaryOp { op: UnaryOperator::Not, expr }
        | Expr::IsTrue(expr)
        | Expr::IsNotTrue(expr)
        | Expr::IsFalse(expr)
        | Expr::IsNotFalse(expr)
        | Expr::IsUnknown(expr)
        | Expr::IsNotUnknown(expr) => make_condition(expr),
        Expr::Function(call) => call.filter.iter_mut().for_each(|filter| make_condition(filter)),
        Expr::Case { operand: None, conditions, .. } => {
            conditions.iter_mut().for_each(|when| make_condition(&mut when.condition));
        }
        _ => {}
    }
}

fn make_condition(expr: &mut Expr) {
    match expr {
        Expr::Nested(inner) => make_condition(inner),
        other if is_condition(other) => {}
        other => {
            let inner = Box::new(std::mem::replace(other, Expr::Value(Value::Null.into())));
            *other = Expr::Cast {
                kind: CastKind::Cast,
                expr: inner,
                data_type: DataType::Boolean,
                array: false,
                format: None,
            };
        }
    }
}

/// Whether an expression shows that it is true, false or NULL.
fn is_condition(expr: &Expr) -> bool {
    match expr {
        Expr::Value(value) => matches!(value.value, Value::Boolean(_) | Value::Null | Value::Placeholder(_)),
        Expr::BinaryOp { op, .. } => is_comparison(op),
        Expr::UnaryOp { op, .. } => *op == UnaryOperator::Not,
        Expr::Nested(inner) => is_condition(inner),
        Expr::IsNull(_) | Expr::IsNotNull(_) | Expr::IsTrue(_) | Expr::IsNotTrue(_) | Expr::IsFalse(_) => true,
        Expr::IsNotFalse(_) | Expr::IsUnknown(_) | Expr::IsNotUnknown(_) => true,
        Expr::IsDistinctFrom(..) | Expr::IsNotDistinctFrom(..) => true,
        Expr::InList { .. } | Expr::InSubquery { .. } | Expr::Exists { .. } | Expr::Between { .. } => true,
        Expr::Like { .. } | Expr::ILike { .. } | Expr::SimilarTo { .. } | Expr::RLike { .. } => true,
        Expr::AnyOp { .. } | Expr::AllOp { .. } => true,
        // These are taken out of joins before they are asked.
        Expr::Function(call) => matches!(call.name.to_string().as_str(), NEAREST_CONDITION | POSITIONAL_CONDITION),
        Expr::Cast { data_type: DataType::Boolean | DataType::Bool, .. } => true,
        _ => false,
    }
}

fn is_comparison(op: &BinaryOperator) -> bool {
    use BinaryOperator::{And, Eq, Gt, GtEq, Lt, LtEq, NotEq, Or, Spaceship, Xor};
    matches!(op, And | Or | Xor | Eq | NotEq | Lt | LtEq | Gt | GtEq | Spaceship)
        || matches!(op, BinaryOperator::PGRegexMatch | BinaryOperator::PGRegexNotMatch)
}
