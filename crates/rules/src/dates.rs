//! Dates beside literal timestamps. A date is compared with a timestamp as its first moment, for which every date would have
//! to become a timestamp. A literal becomes a date instead, so that scans test dates on codes and by zones:
//!
//! ```text
//! day <  TIMESTAMP '1998-09-02 00:00:00'     day <  DATE '1998-09-02'
//! day <  TIMESTAMP '1998-09-02 10:00:00'     day <= DATE '1998-09-02'
//! ```

use datafusion::arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::{Between, BinaryExpr, Expr, Operator};

use crate::typed::{ChildTypes, is_comparison};

const DAY_MICROSECONDS: i64 = 86_400_000_000;

/// A literal timestamp: its day, and whether it is the day's first moment.
struct Moment {
    day: i32,
    is_midnight: bool,
}

impl Moment {
    fn of(expr: &Expr) -> Option<Self> {
        let Expr::Literal(ScalarValue::TimestampMicrosecond(Some(value), None), _) = expr else { return None };
        let day = i32::try_from(value.div_euclid(DAY_MICROSECONDS)).ok()?;
        Some(Self { day, is_midnight: value.rem_euclid(DAY_MICROSECONDS) == 0 })
    }

    /// The date that stands for it in `date op moment`, with the operator.
    fn narrowed(&self, op: Operator) -> Option<(Operator, Expr)> {
        use Operator as O;
        let op = match op {
            _ if self.is_midnight => op,
            O::Lt | O::LtEq => O::LtEq,
            O::Gt | O::GtEq => O::Gt,
            // No date is this moment; that NULL is neither equal nor different is left to the comparison.
            _ => return None,
        };
        Some((op, literal(self.day)))
    }
}

fn literal(day: i32) -> Expr {
    Expr::Literal(ScalarValue::Date32(Some(day)), None)
}

fn is_date(data_type: Option<&Option<DataType>>) -> bool {
    matches!(data_type, Some(Some(DataType::Date32)))
}

/// `expr`, whose parts have these types, as one of dates, where it compares a date with a literal timestamp.
pub(crate) fn narrowed(expr: &Expr, types: &ChildTypes) -> Option<Expr> {
    match expr {
        Expr::BinaryExpr(binary) if is_comparison(binary.op) => narrowed_comparison(binary, types),
        Expr::Between(between) => narrowed_between(between, types),
        _ => None,
    }
}

/// A comparison of a date with a literal timestamp as one of dates; `None` of all others.
fn narrowed_comparison(binary: &BinaryExpr, types: &ChildTypes) -> Option<Expr> {
    let (date, op, moment) = match () {
        () if is_date(types.first()) => (&binary.left, binary.op, Moment::of(&binary.right)?),
        () if is_date(types.get(1)) => (&binary.right, binary.op.swap()?, Moment::of(&binary.left)?),
        () => return None,
    };
    let (op, day) = moment.narrowed(op)?;
    Some(Expr::BinaryExpr(BinaryExpr::new(date.clone(), op, Box::new(day))))
}

/// `date BETWEEN low AND high` with literal timestamps as dates; `None` where there is none.
fn narrowed_between(between: &Between, types: &ChildTypes) -> Option<Expr> {
    if !is_date(types.first()) {
        return None;
    }
    let (low, high) = (Moment::of(&between.low), Moment::of(&between.high));
    let is_known = |moment: &Option<Moment>, position| moment.is_some() || is_date(types.get(position));
    if (low.is_none() && high.is_none()) || !is_known(&low, 1) || !is_known(&high, 2) {
        return None;
    }
    let first = |moment: Moment| literal(if moment.is_midnight { moment.day } else { moment.day.saturating_add(1) });
    let low = low.map_or_else(|| between.low.clone(), |moment| Box::new(first(moment)));
    let high = high.map_or_else(|| between.high.clone(), |moment| Box::new(literal(moment.day)));
    Some(Expr::Between(Between { expr: between.expr.clone(), negated: between.negated, low, high }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::datatypes::TimeUnit;
    use datafusion::prelude::col;

    fn moment(microseconds: i64) -> Expr {
        Expr::Literal(ScalarValue::TimestampMicrosecond(Some(microseconds), None), None)
    }

    #[test]
    fn days_before_and_behind_a_moment_are_told_apart() {
        let types = [Some(DataType::Date32), Some(DataType::Timestamp(TimeUnit::Microsecond, None))];
        let check = |op, value: i64, expect: Option<(Operator, i32)>| {
            let binary = BinaryExpr::new(Box::new(col("d")), op, Box::new(moment(value)));
            let expect = expect
                .map(|(op, day)| Expr::BinaryExpr(BinaryExpr::new(Box::new(col("d")), op, Box::new(literal(day)))));
            assert_eq!(narrowed_comparison(&binary, &types), expect, "{op} {value}");
        };
        use Operator as O;
        for op in [O::Lt, O::LtEq, O::Gt, O::GtEq, O::Eq, O::NotEq, O::IsDistinctFrom] {
            check(op, 3 * DAY_MICROSECONDS, Some((op, 3)));
        }
        for (value, day) in [(3 * DAY_MICROSECONDS + 1, 3), (-1, -1)] {
            check(O::Lt, value, Some((O::LtEq, day)));
            check(O::LtEq, value, Some((O::LtEq, day)));
            check(O::Gt, value, Some((O::Gt, day)));
            check(O::GtEq, value, Some((O::Gt, day)));
            check(O::Eq, value, None);
        }
    }
}
