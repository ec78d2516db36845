//! Columns of VALUES that mix decimals and floats are floats: the planner would make them decimals, and round the floats. Seen
//! in the text alone, before there are types: literals, casts, and functions that give floats.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CastKind, DataType, ExactNumberInfo, Expr, UnaryOperator, Value, ValueWithSpan, Values,
};
use forebay_base::LogicalType;

use crate::types::sql_type;

/// Functions whose results are floats.
const OF_FLOATS: [&str; 22] = [
    "acos", "asin", "atan", "atan2", "cbrt", "cos", "cot", "degrees", "exp", "ln", "log", "log10", "log2", "pi", "pow",
    "power", "radians", "random", "sin", "sqrt", "stddev", "tan",
];

/// What is known of an expression's type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Decimal,
    Single,
    Double,
    Other,
}

/// Casts the decimals of columns that have floats, too.
pub fn unify(values: &mut Values) {
    let width = values.rows.iter().map(|row| row.len()).min().unwrap_or(0);
    for column in 0..width {
        let kinds = || values.rows.iter().map(|row| kind(&row[column]));
        let has = |wanted: Kind| kinds().any(|kind| kind == wanted);
        let target = match () {
            () if !has(Kind::Decimal) => continue,
            () if has(Kind::Double) => DataType::Double(ExactNumberInfo::None),
            () if has(Kind::Single) => DataType::Real,
            () => continue,
        };
        for row in values.rows.iter_mut() {
            let value = &mut row[column];
            if kind(value) == Kind::Decimal {
                let expr = Box::new(value.clone());
                *value =
                    Expr::Cast { kind: CastKind::Cast, expr, data_type: target.clone(), array: false, format: None };
            }
        }
    }
}

fn kind(expr: &Expr) -> Kind {
    match expr {
        Expr::Value(ValueWithSpan { value: Value::Number(text, _), .. }) => match text {
            _ if text.contains(['e', 'E']) => Kind::Double,
            _ if text.contains('.') => Kind::Decimal,
            _ => Kind::Other,
        },
        Expr::Nested(inner) => kind(inner),
        Expr::UnaryOp { op: UnaryOperator::Minus | UnaryOperator::Plus, expr } => kind(expr),
        Expr::Cast { data_type, .. } => match sql_type(data_type) {
            Ok(LogicalType::Decimal { .. }) => Kind::Decimal,
            Ok(LogicalType::Float32) => Kind::Single,
            Ok(LogicalType::Float64) => Kind::Double,
            _ => Kind::Other,
        },
        Expr::BinaryOp { op: BinaryOperator::Divide, .. } => Kind::Double,
        Expr::BinaryOp {
            left,
            op: BinaryOperator::Plus | BinaryOperator::Minus | BinaryOperator::Multiply | BinaryOperator::Modulo,
            right,
        } => match (kind(left), kind(right)) {
            (Kind::Double, _) | (_, Kind::Double) => Kind::Double,
            (Kind::Single, _) | (_, Kind::Single) => Kind::Single,
            (Kind::Decimal, _) | (_, Kind::Decimal) => Kind::Decimal,
            _ => Kind::Other,
        },
        Expr::Function(call) if OF_FLOATS.contains(&call.name.to_string().to_lowercase().as_str()) => Kind::Double,
        _ => Kind::Other,
    }
}
