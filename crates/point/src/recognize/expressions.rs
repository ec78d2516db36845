//! Conditions and expressions.

use arrow::compute::kernels::cast_utils::Parser;
use arrow::datatypes::{Date32Type, TimestampMicrosecondType};
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CastKind, DataType as SqlType, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, TimezoneInfo,
    TypedString, UnaryOperator, Value, ValueWithSpan,
};
use forebay_base::{LogicalType, TimeUnit};
use forebay_store::names_equal;

use super::Reader;
use crate::expression::{Arithmetic, Comparison, Condition, Expression, Typed};
use crate::values::{Datum, Kind};

/// Digits and the point of a decimal literal, at most.
const DECIMAL_DIGITS: usize = 30;

/// The day of a text `YYYY-MM-DD`, since 1970.
pub(super) fn day(text: &str) -> Option<i32> {
    let is_plain = text.len() == "YYYY-MM-DD".len() && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    is_plain.then(|| Date32Type::parse(text)).flatten()
}

/// The moment of a text `YYYY-MM-DD HH:MM:SS`, perhaps with up to six digits behind a point, in microseconds since 1970.
pub(super) fn microseconds(text: &str) -> Option<i64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let is_plain = whole.len() == "YYYY-MM-DD HH:MM:SS".len()
        && day(whole.get(..10)?).is_some()
        && whole.as_bytes()[10] == b' '
        && whole[11..].bytes().all(|byte| byte.is_ascii_digit() || byte == b':')
        && fraction.len() <= 6
        && fraction.bytes().all(|byte| byte.is_ascii_digit())
        && !text.ends_with('.');
    is_plain.then(|| TimestampMicrosecondType::parse(text)).flatten()
}

/// `DATE '…'` or `TIMESTAMP '…'`.
fn typed_string(typed: &TypedString) -> Option<Typed> {
    let Value::SingleQuotedString(text) = &typed.value.value else { return None };
    let (value, logical) = match &typed.data_type {
        SqlType::Date => (day(text)?.into(), LogicalType::Date),
        SqlType::Timestamp(None, TimezoneInfo::None) => {
            (microseconds(text)?.into(), LogicalType::Timestamp { unit: TimeUnit::Micro, zone: None })
        }
        _ => return None,
    };
    let expression = Expression::Literal(Datum::Integer(value));
    (!typed.uses_odbc_syntax).then_some(Typed { expression, kind: Kind::Other(logical) })
}

impl Reader<'_> {
    /// The conditions that all have to hold.
    pub(super) fn conditions(&mut self, expr: &Expr, all: &mut Vec<Condition>) -> Option<()> {
        match expr {
            Expr::Nested(inner) => self.conditions(inner, all),
            Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
                self.conditions(left, all)?;
                self.conditions(right, all)
            }
            Expr::BinaryOp { left, op, right } => {
                let comparison = match op {
                    BinaryOperator::Eq => Comparison::Equal,
                    BinaryOperator::NotEq => Comparison::NotEqual,
                    BinaryOperator::Lt => Comparison::Less,
                    BinaryOperator::LtEq => Comparison::LessOrEqual,
                    BinaryOperator::Gt => Comparison::Greater,
                    BinaryOperator::GtEq => Comparison::GreaterOrEqual,
                    _ => return None,
                };
                all.push(self.condition(left, comparison, right)?);
                Some(())
            }
            Expr::Between { expr, negated: false, low, high } => {
                all.push(self.condition(expr, Comparison::GreaterOrEqual, low)?);
                all.push(self.condition(expr, Comparison::LessOrEqual, high)?);
                Some(())
            }
            _ => None,
        }
    }

    fn condition(&mut self, left: &Expr, comparison: Comparison, right: &Expr) -> Option<Condition> {
        let (left, right) = (self.expression(left)?, self.expression(right)?);
        left.kind.is_comparable(&right.kind).then_some(Condition { left, comparison, right })
    }

    pub(super) fn expression(&mut self, expr: &Expr) -> Option<Typed> {
        match expr {
            Expr::Nested(inner) => self.expression(inner),
            Expr::Identifier(_) | Expr::CompoundIdentifier(_) => {
                let (table, column) = self.names.column(expr)?;
                self.names.read(table, column)
            }
            Expr::Value(ValueWithSpan { value, .. }) => self.value(value),
            Expr::TypedString(typed) => typed_string(typed),
            Expr::UnaryOp { op: UnaryOperator::Minus, expr } => match self.expression(expr)? {
                Typed {
                    expression: Expression::Literal(Datum::Integer(int)),
                    kind: kind @ (Kind::Integer(_) | Kind::Decimal(_)),
                } => Some(Typed { expression: Expression::Literal(Datum::Integer(-int)), kind }),
                _ => None,
            },
            Expr::BinaryOp { left, op, right } => {
                let operator = match op {
                    BinaryOperator::Plus => Arithmetic::Plus,
                    BinaryOperator::Minus => Arithmetic::Minus,
                    BinaryOperator::Multiply => Arithmetic::Times,
                    BinaryOperator::StringConcat => {
                        let (left, right) = (self.expression(left)?, self.expression(right)?);
                        let are_texts = left.kind == Kind::Text && right.kind == Kind::Text;
                        let expression = Expression::Concatenation(Box::new(left), Box::new(right));
                        return are_texts.then_some(Typed { expression, kind: Kind::Text });
                    }
                    _ => return None,
                };
                Typed::arithmetic(operator, self.expression(left)?, self.expression(right)?)
            }
            Expr::Cast {
                kind: CastKind::Cast | CastKind::DoubleColon,
                expr,
                data_type: SqlType::Timestamp(None, TimezoneInfo::None),
                array: false,
                format: None,
            } => {
                let is_now = matches!(expr.to_string().to_lowercase().as_str(), "now()" | "current_timestamp");
                self.needs_now |= is_now;
                let kind = Kind::Other(LogicalType::Timestamp { unit: TimeUnit::Micro, zone: None });
                is_now.then_some(Typed { expression: Expression::Now, kind })
            }
            Expr::Function(function) if names_equal(&function.name.to_string(), "left") => {
                let shown = expr.to_string();
                let (text, count) = shown.get("left(".len()..)?.strip_suffix(')')?.rsplit_once(", ")?;
                let characters: usize = count.parse().ok()?;
                let FunctionArguments::List(list) = &function.args else {
                    return None;
                };
                let [first, _] = list.args.as_slice() else { return None };
                let FunctionArg::Unnamed(FunctionArgExpr::Expr(first)) = first else { return None };
                let argument = (first.to_string() == text).then(|| self.expression(first))??;
                let is_text = argument.kind == Kind::Text;
                let expression = Expression::Left(Box::new(argument), characters);
                is_text.then_some(Typed { expression, kind: Kind::Text })
            }
            _ => None,
        }
    }

    fn value(&self, value: &Value) -> Option<Typed> {
        let literal = |value: Datum<'static>, kind| Some(Typed { expression: Expression::Literal(value), kind });
        match value {
            Value::Placeholder(name) => {
                let name = name.strip_prefix('$')?;
                let number = self.parameters.iter().position(|own| names_equal(own, name))?;
                Some(Typed { expression: Expression::Parameter(number), kind: self.kinds.get(number)?.clone() })
            }
            Value::Number(digits, false) => match digits.split_once('.') {
                None => literal(Datum::Integer(digits.parse().ok()?), Kind::Integer(None)),
                Some((whole, rest)) => {
                    let is_number =
                        |digits: &str| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
                    let are_few = is_number(whole) && is_number(rest) && digits.len() <= DECIMAL_DIGITS;
                    let unscaled = are_few.then(|| format!("{whole}{rest}").parse().ok())??;
                    literal(Datum::Integer(unscaled), Kind::Decimal(u8::try_from(rest.len()).ok()?))
                }
            },
            Value::SingleQuotedString(text) => literal(Datum::Bytes(text.clone().into_bytes().into()), Kind::Text),
            Value::Boolean(value) => literal(Datum::Integer((*value).into()), Kind::Other(LogicalType::Bool)),
            _ => None,
        }
    }
}
