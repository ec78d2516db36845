//! ASOF JOIN: of the rows on the right that fit, the one that is nearest by one inequality.
//!
//! ```text
//! asof join on l.k = r.k, l.t >= r.t      join on l.k = r.k, l.t >= r.t, ("next" is NULL or not l.t >= "next")
//!   l                                  →    l
//!   r                                       window: lead(r.t) over (partition by r.k order by r.t) as "next"
//!                                             r
//! ```
//!
//! A row fits unless the next one of its key does; of rows that are equally near the last one is taken. Rows without a partner are
//! those of the join, whichever sides it keeps.

use std::sync::Arc;

use datafusion::common::{Column, DFSchema, Result, plan_err};
use datafusion::functions_window::lead_lag::lead_udwf;
use datafusion::logical_expr::utils::{conjunction, split_conjunction};
use datafusion::logical_expr::{
    BinaryExpr, Expr, ExprFunctionExt, Join, LogicalPlan, LogicalPlanBuilder, Operator, binary_expr, not,
};
use forebay_grammar::joins::NEAREST_CONDITION;

use crate::conditions::arguments;

/// The column that has the value of the next row.
const NEXT: &str = "next nearest";

/// Whether a join is one.
pub(crate) fn is_marked(join: &Join) -> bool {
    let is_nearest = |part: &&Expr| arguments(part, NEAREST_CONDITION).is_some();
    join.filter.as_ref().is_some_and(|filter| split_conjunction(filter).iter().any(is_nearest))
}

/// The join as one with the next rows.
pub(crate) fn written(join: &Join) -> Result<LogicalPlan> {
    let (mut conditions, mut keys, mut nearest) = (Vec::new(), Vec::new(), None);
    for part in join.filter.iter().flat_map(split_conjunction) {
        let inequality = arguments(part, NEAREST_CONDITION).and_then(|arguments| arguments.first());
        let condition = inequality.unwrap_or(part);
        conditions.push(condition.clone());
        match (Sides::of(join, condition), inequality) {
            (Some(sides), Some(_)) if nearest.is_none() => nearest = Some(sides),
            (Some(_), Some(_)) => return several(),
            (Some(Sides { op: Operator::Eq | Operator::IsNotDistinctFrom, right, .. }), None) => keys.push(right),
            // Only rows that it holds for are near: they are told apart from the others as by a key.
            (None, _) if is_of(condition, join.right.schema()) => keys.push(condition.clone()),
            (None, _) if condition.column_refs().is_empty() || is_of(condition, join.left.schema()) => {}
            _ => return plan_err!("ASOF JOIN takes equalities and one inequality of both sides, not {condition}"),
        }
    }
    let Some(Sides { left, op, right }) = nearest else { return several() };
    let ascends = matches!(op, Operator::Gt | Operator::GtEq);
    let window = lead_udwf().call(vec![right.clone()]).order_by(vec![right.sort(ascends, false)]);
    let next = if keys.is_empty() { window } else { window.partition_by(keys) }.build()?.alias(NEXT);
    let with_next = LogicalPlanBuilder::from(Arc::clone(&join.right)).window([next])?.build()?;
    let next = Expr::Column(Column::from_name(NEXT));
    conditions.push(next.clone().is_null().or(not(binary_expr(left, op, next))));
    let joined = Join::try_new(
        Arc::clone(&join.left),
        Arc::new(with_next),
        join.on.clone(),
        conjunction(conditions),
        join.join_type,
        join.join_constraint,
        join.null_equality,
        false,
    )?;
    let columns = join.schema.columns().into_iter().map(Expr::Column);
    LogicalPlanBuilder::from(LogicalPlan::Join(joined)).project(columns)?.build()
}

fn several<T>() -> Result<T> {
    plan_err!("ASOF JOIN takes exactly one inequality of both sides, which tells the nearest row: l.time >= r.time")
}

/// Whether an expression names columns of these alone.
fn is_of(expr: &Expr, schema: &DFSchema) -> bool {
    let columns = expr.column_refs();
    !columns.is_empty() && columns.iter().all(|column| schema.has_column(column))
}

/// A comparison of the left side with the right one.
struct Sides {
    left: Expr,
    op: Operator,
    right: Expr,
}

impl Sides {
    /// The comparison that an expression is, turned around where it has to be.
    fn of(join: &Join, expr: &Expr) -> Option<Self> {
        let Expr::BinaryExpr(BinaryExpr { left, op, right }) = expr else { return None };
        let (first, second) = (left.as_ref().clone(), right.as_ref().clone());
        if is_of(&first, join.left.schema()) && is_of(&second, join.right.schema()) {
            return Some(Self { left: first, op: *op, right: second });
        }
        let is_turned = is_of(&first, join.right.schema()) && is_of(&second, join.left.schema());
        is_turned.then_some(())?;
        Some(Self { left: second, op: op.swap()?, right: first })
    }
}
