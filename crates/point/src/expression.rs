//! Expressions over values of parameters and of rows that were found.
//!
//! Must not know: statements, how rows are found.

use std::borrow::Cow;
use std::cmp::Ordering;

use forebay_base::PhysicalType;
use forebay_store::HotRow;

use crate::values::{DECIMAL_BOUND, Datum, Kind, rescaled};

/// An expression and what its values are.
#[derive(Debug, Clone)]
pub(crate) struct Typed {
    pub(crate) expression: Expression,
    pub(crate) kind: Kind,
}

#[derive(Debug, Clone)]
pub(crate) enum Expression {
    /// A value of a row: which table of the statement, which of the columns that are read of it.
    Column {
        table: usize,
        slot: usize,
        physical: PhysicalType,
    },
    Parameter(usize),
    Literal(Datum<'static>),
    /// The time at which the transaction began, in UTC, without a zone.
    Now,
    Arithmetic {
        operator: Arithmetic,
        left: Box<Typed>,
        right: Box<Typed>,
        kind: Kind,
    },
    /// `||`.
    Concatenation(Box<Typed>, Box<Typed>),
    /// The first characters of a text.
    Left(Box<Typed>, usize),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arithmetic {
    Plus,
    Minus,
    Times,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// What has to hold of a row.
#[derive(Debug, Clone)]
pub(crate) struct Condition {
    pub(crate) left: Typed,
    pub(crate) comparison: Comparison,
    pub(crate) right: Typed,
}

/// What expressions are computed from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Environment<'e> {
    /// By table of the statement the row that was found.
    pub(crate) rows: &'e [HotRow],
    pub(crate) parameters: &'e [Datum<'e>],
    pub(crate) now: i64,
}

impl Typed {
    /// The value; `None` where the statement has to be planned.
    pub(crate) fn value<'e>(&'e self, environment: Environment<'e>) -> Option<Datum<'e>> {
        match &self.expression {
            Expression::Column { table, slot, physical } => {
                Some(Datum::of(environment.rows[*table].cell(*slot), *physical))
            }
            Expression::Parameter(number) => Some(borrowed(environment.parameters.get(*number)?)),
            Expression::Literal(value) => Some(borrowed(value)),
            Expression::Now => Some(Datum::Integer(environment.now.into())),
            Expression::Arithmetic { operator, left, right, kind } => {
                let (Datum::Integer(one), Datum::Integer(other)) =
                    (left.value(environment)?, right.value(environment)?)
                else {
                    return Some(Datum::Null);
                };
                arithmetic(*operator, (one, left.kind.scale()), (other, right.kind.scale()), kind).map(Datum::Integer)
            }
            Expression::Concatenation(left, right) => {
                let (Datum::Bytes(one), Datum::Bytes(other)) = (left.value(environment)?, right.value(environment)?)
                else {
                    return Some(Datum::Null);
                };
                Some(Datum::Bytes(Cow::Owned([one.as_ref(), other.as_ref()].concat())))
            }
            Expression::Left(text, characters) => {
                let Datum::Bytes(bytes) = text.value(environment)? else { return Some(Datum::Null) };
                let text = std::str::from_utf8(&bytes).ok()?;
                let end = text.char_indices().nth(*characters).map_or(text.len(), |(end, _)| end);
                Some(Datum::Bytes(match bytes {
                    Cow::Borrowed(bytes) => Cow::Borrowed(&bytes[..end]),
                    Cow::Owned(mut bytes) => {
                        bytes.truncate(end);
                        Cow::Owned(bytes)
                    }
                }))
            }
        }
    }

    /// Whether it needs rows of tables only for which this holds.
    pub(crate) fn needs_only(&self, is_there: &dyn Fn(usize) -> bool) -> bool {
        match &self.expression {
            Expression::Column { table, .. } => is_there(*table),
            Expression::Parameter(_) | Expression::Literal(_) | Expression::Now => true,
            Expression::Arithmetic { left, right, .. } | Expression::Concatenation(left, right) => {
                left.needs_only(is_there) && right.needs_only(is_there)
            }
            Expression::Left(text, _) => text.needs_only(is_there),
        }
    }

    /// What the result of an operator on two numbers is; `None` where it has none here.
    pub(crate) fn arithmetic(operator: Arithmetic, left: Self, right: Self) -> Option<Self> {
        let kind = match (&left.kind, &right.kind) {
            (Kind::Integer(one), Kind::Integer(other)) => Kind::Integer(match (one, other) {
                (Some((least, most)), Some((other_least, other_most))) => {
                    Some((*least.max(other_least), *most.min(other_most)))
                }
                (bounds, None) | (None, bounds) => *bounds,
            }),
            (one, other)
                if one.is_comparable(other)
                    && matches!((one, other), (Kind::Decimal(_), _) | (_, Kind::Decimal(_))) =>
            {
                let scale = match operator {
                    Arithmetic::Times => one.scale().checked_add(other.scale())?,
                    Arithmetic::Plus | Arithmetic::Minus => one.scale().max(other.scale()),
                };
                Kind::Decimal(scale)
            }
            _ => return None,
        };
        let (left, right) = (Box::new(left), Box::new(right));
        let expression = Expression::Arithmetic { operator, left, right, kind: kind.clone() };
        Some(Self { expression, kind })
    }
}

/// The result, if it is sure to fit whatever type SQL gives it.
fn arithmetic(operator: Arithmetic, one: (i128, u8), other: (i128, u8), kind: &Kind) -> Option<i128> {
    let result = match operator {
        Arithmetic::Times => one.0.checked_mul(other.0)?,
        Arithmetic::Plus | Arithmetic::Minus => {
            let scale = kind.scale();
            let (one, other) = (rescaled(one.0, one.1, scale)?, rescaled(other.0, other.1, scale)?);
            match operator {
                Arithmetic::Plus => one.checked_add(other)?,
                _ => one.checked_sub(other)?,
            }
        }
    };
    let fits = match kind {
        Kind::Integer(Some((least, most))) => (least..=most).contains(&&result),
        // Literals alone: as a 32-bit integer, which is the least that they may be.
        Kind::Integer(None) => i32::try_from(result).is_ok(),
        _ => result.abs() < DECIMAL_BOUND,
    };
    fits.then_some(result)
}

fn borrowed<'e>(value: &'e Datum<'_>) -> Datum<'e> {
    match value {
        Datum::Null => Datum::Null,
        Datum::Integer(int) => Datum::Integer(*int),
        Datum::Bytes(bytes) => Datum::Bytes(Cow::Borrowed(bytes)),
    }
}

impl Comparison {
    /// That of the same two values the other way round.
    pub(crate) fn turned(self) -> Self {
        match self {
            Self::Equal | Self::NotEqual => self,
            Self::Less => Self::Greater,
            Self::LessOrEqual => Self::GreaterOrEqual,
            Self::Greater => Self::Less,
            Self::GreaterOrEqual => Self::LessOrEqual,
        }
    }

    fn holds(self, order: Ordering) -> bool {
        match self {
            Self::Equal => order.is_eq(),
            Self::NotEqual => order.is_ne(),
            Self::Less => order.is_lt(),
            Self::LessOrEqual => order.is_le(),
            Self::Greater => order.is_gt(),
            Self::GreaterOrEqual => order.is_ge(),
        }
    }
}

impl Condition {
    /// Whether it holds, which it does not of NULL; `None` where the statement has to be planned.
    pub(crate) fn holds(&self, environment: Environment<'_>) -> Option<bool> {
        let (left, right) = (self.left.value(environment)?, self.right.value(environment)?);
        let order = match (&left, &right) {
            (Datum::Null, _) | (_, Datum::Null) => return Some(false),
            (Datum::Integer(one), Datum::Integer(other)) => {
                let scale = self.left.kind.scale().max(self.right.kind.scale());
                rescaled(*one, self.left.kind.scale(), scale)?.cmp(&rescaled(*other, self.right.kind.scale(), scale)?)
            }
            _ => left.cmp(&right),
        };
        Some(self.comparison.holds(order))
    }
}
