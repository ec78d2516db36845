//! The types of operands before anything is cast, and how many digits numbers of them have.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::logical_expr::type_coercion::binary::BinaryTypeCoercer;
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, Operator};
use forebay_types::supertypes::united_number;

/// Operators within each other of which each is asked for the types of its operands; those below say it themselves.
const OPERATORS_WITHIN: usize = 32;

/// The type of an expression. A long chain of operators is looked through, not asked for the types of all of its parts.
pub(crate) fn type_of(expr: &Expr, schema: &DFSchema) -> Option<DataType> {
    type_within(expr, schema, OPERATORS_WITHIN)
}

/// As [`type_of`], where at most so many operators are looked into.
fn type_within(expr: &Expr, schema: &DFSchema, most: usize) -> Option<DataType> {
    match expr {
        Expr::Cast(cast) => Some(cast.field.data_type().clone()),
        Expr::Literal(value, _) => Some(value.data_type()),
        // These say other types before their values are brought to one.
        Expr::Case(case) => {
            let values = case.when_then_expr.iter().map(|(_, then)| &**then).chain(case.else_expr.as_deref());
            united_type_of(values, schema, most).or_else(|| expr.get_type(schema).ok())
        }
        Expr::ScalarFunction(call) if matches!(call.func.name(), "coalesce" | "greatest" | "least") => {
            united_type_of(call.args.iter(), schema, most).or_else(|| expr.get_type(schema).ok())
        }
        // And so do these of them.
        Expr::BinaryExpr(BinaryExpr { left, op, right })
            if most > 0 && matches!(op, Operator::Plus | Operator::Minus | Operator::Multiply | Operator::Modulo) =>
        {
            let types = type_within(left, schema, most - 1).zip(type_within(right, schema, most - 1));
            let united =
                types.and_then(|(left, right)| BinaryTypeCoercer::new(&left, op, &right).get_result_type().ok());
            united.or_else(|| expr.get_type(schema).ok())
        }
        Expr::Negative(inner) if most > 0 => type_within(inner, schema, most - 1),
        Expr::BinaryExpr(BinaryExpr { op: Operator::Divide, right, .. }) => match right.as_ref() {
            Expr::Cast(cast) => Some(cast.field.data_type().clone()),
            Expr::Literal(value, _) => Some(value.data_type()),
            _ => expr.get_type(schema).ok(),
        },
        _ => expr.get_type(schema).ok(),
    }
}

/// The type that numbers are brought to; `None` of what is none.
fn united_type_of<'a>(values: impl Iterator<Item = &'a Expr>, schema: &DFSchema, most: usize) -> Option<DataType> {
    let most = most.checked_sub(1)?;
    let types: Vec<DataType> = values.map(|value| type_within(value, schema, most)).collect::<Option<_>>()?;
    let is_number = |own: &DataType| own.is_numeric() || own.is_null();
    types.iter().all(is_number).then(|| united_number(&types)).flatten()
}

/// How many digits integers and decimals of a type have before and behind the point; `None` of what is neither.
pub(crate) fn digits(expr: &Expr, data_type: &DataType) -> Option<(u32, u32)> {
    use DataType as T;
    Some(match data_type {
        T::Decimal128(precision, scale) if *scale >= 0 => {
            let scale = u32::from(scale.unsigned_abs());
            (u32::from(*precision).saturating_sub(scale), scale)
        }
        T::Int64 => match expr {
            Expr::Literal(ScalarValue::Int64(Some(value)), _) => {
                (value.unsigned_abs().checked_ilog10().unwrap_or(0) + 1, 0)
            }
            _ => (19, 0),
        },
        T::Int8 | T::UInt8 => (3, 0),
        T::Int16 | T::UInt16 => (5, 0),
        T::Int32 | T::UInt32 => (10, 0),
        T::UInt64 => (20, 0),
        _ => return None,
    })
}
