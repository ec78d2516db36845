//! POSITIONAL JOIN: the first row with the first one, the second with the second one, and NULLs beside the rows that the longer side
//! has more. Both sides are numbered, and joined in full on the numbers, in their order.

use std::sync::Arc;

use datafusion::common::{Column, JoinType, NullEquality, Result, internal_err};
use datafusion::functions::core::expr_fn::coalesce;
use datafusion::functions_window::expr_fn::row_number;
use datafusion::logical_expr::{
    Expr, ExprFunctionExt, Join, JoinConstraint, LogicalPlan, LogicalPlanBuilder, Union, lit,
};
use forebay_grammar::joins::POSITIONAL_CONDITION;

use crate::conditions::arguments;

/// The column that has the numbers of joined rows.
const PLACE: &str = "place of the row";

/// Whether a join is one.
pub(crate) fn is_marked(join: &Join) -> bool {
    join.filter.as_ref().is_some_and(|filter| arguments(filter, POSITIONAL_CONDITION).is_some())
}

/// The join as one on numbers.
pub(crate) fn written(join: &Join) -> Result<LogicalPlan> {
    let (left, right) = (numbered(&join.left, "left place")?, numbered(&join.right, "right place")?);
    // The places are the last columns, of the name that an alias gives to tables.
    let place = |plan: &LogicalPlan| plan.schema().columns().pop().map(Expr::Column);
    let Some((left_place, right_place)) = place(&left).zip(place(&right)) else {
        return internal_err!("places of rows are missing");
    };
    let on = vec![(left_place.clone(), right_place.clone())];
    let equality = NullEquality::NullEqualsNothing;
    let (left, right) = (Arc::new(left), Arc::new(right));
    let joined = Join::try_new(left, right, on, None, JoinType::Full, JoinConstraint::On, equality, false)?;
    let columns = || join.schema.columns().into_iter().map(Expr::Column);
    let place = coalesce(vec![left_place, right_place]).alias(PLACE);
    LogicalPlanBuilder::from(LogicalPlan::Join(joined))
        .project(columns().chain([place]))?
        .sort([Expr::Column(Column::from_name(PLACE)).sort(true, false)])?
        .project(columns())?
        .build()
}

/// `plan` with the places of its rows in a column of this name.
fn numbered(plan: &Arc<LogicalPlan>, name: &str) -> Result<LogicalPlan> {
    if let Some(ordered) = in_order(plan, name)? {
        return Ok(ordered);
    }
    LogicalPlanBuilder::from(Arc::clone(plan)).window([row_number().alias(name)])?.build()
}

/// As [`numbered`], for a plan that ends in an order, which joins would not keep: the places are those of the order.
fn in_order(plan: &Arc<LogicalPlan>, name: &str) -> Result<Option<LogicalPlan>> {
    let columns = |plan: &LogicalPlan| -> Vec<Expr> { plan.schema().columns().into_iter().map(Expr::Column).collect() };
    Ok(Some(match plan.as_ref() {
        LogicalPlan::Sort(sort) => {
            // A join of this kind has its places already.
            let known = match &sort.expr[..] {
                [key] if matches!(&key.expr, Expr::Column(column) if column.name == PLACE) => Some(key.expr.clone()),
                _ => None,
            };
            let place = match known {
                Some(place) => place.alias(name),
                None => row_number().order_by(sort.expr.clone()).build()?.alias(name),
            };
            let input = LogicalPlanBuilder::from(Arc::clone(&sort.input));
            let numbered = match matches!(place, Expr::Alias(ref alias) if matches!(*alias.expr, Expr::Column(_))) {
                true => input.project(columns(&sort.input).into_iter().chain([place]))?,
                false => input.window([place])?,
            };
            numbered.sort_with_limit([Expr::Column(Column::from_name(name)).sort(true, false)], sort.fetch)?.build()?
        }
        LogicalPlan::Union(union) => in_turn(union, name)?,
        LogicalPlan::Projection(projection) => match in_order(&projection.input, name)? {
            Some(input) => {
                let place = input.schema().columns().pop().map(Expr::Column);
                LogicalPlanBuilder::from(input).project(projection.expr.iter().cloned().chain(place))?.build()?
            }
            None => return Ok(None),
        },
        LogicalPlan::SubqueryAlias(alias) => match in_order(&alias.input, name)? {
            Some(input) => LogicalPlanBuilder::from(input).alias(alias.alias.clone())?.build()?,
            None => return Ok(None),
        },
        LogicalPlan::Limit(limit) => match in_order(&limit.input, name)? {
            Some(input) => {
                let (skip, fetch) = (limit.skip.as_deref().cloned(), limit.fetch.as_deref().cloned());
                LogicalPlanBuilder::from(input).limit_by_expr(skip, fetch)?.build()?
            }
            None => return Ok(None),
        },
        _ => return Ok(None),
    }))
}

/// The rows of a UNION ALL, those of the first query first.
fn in_turn(union: &Union, name: &str) -> Result<LogicalPlan> {
    let mut all: Option<LogicalPlanBuilder> = None;
    for (turn, input) in union.inputs.iter().enumerate() {
        let numbered = numbered(input, name)?;
        let columns = numbered.schema().columns().into_iter().map(Expr::Column);
        let turn = lit(i64::try_from(turn).unwrap_or(i64::MAX)).alias("turn");
        let next = LogicalPlanBuilder::from(numbered.clone()).project(columns.chain([turn]))?;
        all = Some(match all {
            Some(before) => before.union(next.build()?)?,
            None => next,
        });
    }
    let Some(all) = all else { return internal_err!("a UNION of nothing") };
    let all = all.build()?;
    let mut columns: Vec<Expr> = all.schema().columns().into_iter().map(Expr::Column).collect();
    let (turn, place) = (columns.pop(), columns.pop());
    let order = turn.into_iter().chain(place).map(|key| key.sort(true, false)).collect();
    let place = row_number().order_by(order).build()?.alias("place in turn");
    let own = union.schema.columns().into_iter().zip(columns);
    let named: Vec<Expr> = own.map(|(name, column)| column.alias_qualified(name.relation, name.name)).collect();
    let place_again = Expr::Column(Column::from_name("place in turn")).alias(name);
    LogicalPlanBuilder::from(all).window([place])?.project(named.into_iter().chain([place_again]))?.build()
}
