//! Where subqueries stand: which operators have them in their expressions, and what becomes of the operator.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, DataFusionError, Result, ScalarValue, internal_datafusion_err};
use datafusion::functions::core::expr_fn::coalesce;
use datafusion::functions_aggregate::expr_fn::count;
use datafusion::logical_expr::expr::{Exists, InSubquery};
use datafusion::logical_expr::utils::split_conjunction_owned;
use datafusion::logical_expr::{Aggregate, Expr, Filter, Limit, LogicalPlan, Projection, Sort, Subquery, Window, lit};

use forebay_base::Error;
use forebay_context::error::into_datafusion;

use super::binding::{Names, columns, filter, negated, renamed};
use super::outer::{Outer, is_lateral};
use super::push::{numbered, rows_apart, within};
use crate::plans::any_node;
use crate::references::{
    gives_one_row, has_subquery, is_correlated, is_plain_predicate, is_plain_value, outer_references, seen_from_inside,
    subquery_of,
};
use crate::shared_rows::SharedRows;
use crate::shared_rows::materialized::has_shared_cte;
use crate::single_row::SingleValues;

/// Goes through a plan and turns its subqueries into joins.
pub(super) struct Unnester<'a> {
    single: &'a SingleValues,
    pub(super) names: Names,
}

impl<'a> Unnester<'a> {
    pub(super) fn new(single: &'a SingleValues) -> Self {
        Self { single, names: Names::default() }
    }

    /// `plan` without subqueries but those that DataFusion can do; of those that are correlated, none if `all` are wanted.
    pub(super) fn plan(&mut self, plan: LogicalPlan, all: bool) -> Result<LogicalPlan> {
        let plan = match plan {
            LogicalPlan::Subquery(subquery) => {
                let inner = self.plan(subquery.subquery.as_ref().clone(), true)?;
                return Ok(LogicalPlan::Subquery(subquery.with_plan(Arc::new(inner))));
            }
            other => other.map_children(|child| self.plan(child, all).map(Transformed::yes)).data()?,
        };
        if let LogicalPlan::Join(join) = &plan
            && is_lateral(join)?
        {
            return Outer::new(join.left.as_ref().clone(), self.names.clone())?.lateral(join, &plan);
        }
        let mut found = false;
        plan.apply_expressions(|expr| {
            found = found || has_subquery(expr);
            match is_of_outside(expr) {
                true => Err(refused_aggregate(expr)),
                false => Ok(TreeNodeRecursion::Continue),
            }
        })?;
        match plan {
            plan if !found => Ok(plan),
            LogicalPlan::Filter(filter) => self.filter(&filter, all),
            LogicalPlan::Join(join) => self.join(&join, all),
            LogicalPlan::Values(values) => {
                let named = LogicalPlan::Values(values.clone());
                let rows = self.plan(rows_apart(&values, &named)?, all)?;
                let own = columns(&rows);
                renamed(rows, own, &named, [])
            }
            LogicalPlan::Limit(limit) => self.limit(&limit, all),
            other => self.unary(&other, all),
        }
    }

    /// `expr` with columns of `outer` in the place of the subqueries that are not left to DataFusion.
    fn replaced(&mut self, expr: Expr, outer: &mut Outer, all: bool) -> Result<Expr> {
        let schema = Arc::clone(outer.schema());
        memberships_apart(expr, &schema)?
            .transform_up(|expr| {
                let is_left = matches!(expr, Expr::ScalarSubquery(_)) && is_left(&expr, all, &schema)?;
                let Some(subquery) = subquery_of(&expr) else { return Ok(Transformed::no(expr)) };
                let plan = self.plan(subquery.subquery.as_ref().clone(), !is_left)?;
                let is_correlated = is_correlated(&plan)?;
                let is_left = is_left && !is_hidden(&plan)?;
                let is_alone = !is_correlated && !has_shared_cte(&plan)?;
                Ok(Transformed::yes(match &expr {
                    Expr::ScalarSubquery(_) if is_left || is_alone => {
                        Expr::ScalarSubquery(closed(self.nullable(plan)?)?)
                    }
                    Expr::ScalarSubquery(_) => outer.value(&plan, self.single)?,
                    Expr::Exists(exists) if !is_alone => negated(outer.exists(&plan)?, exists.negated),
                    Expr::Exists(exists) => negated(has_rows(plan)?, exists.negated),
                    other => return Err(unexpected(other)),
                }))
            })
            .data()
    }

    /// A conjunct that is left to DataFusion, with what it has inside.
    fn left(&mut self, expr: Expr) -> Result<Expr> {
        expr.transform_up(|expr| {
            let Some(subquery) = subquery_of(&expr) else { return Ok(Transformed::no(expr)) };
            let plan = self.plan(subquery.subquery.as_ref().clone(), false)?;
            if matches!(expr, Expr::ScalarSubquery(_)) {
                return Ok(Transformed::yes(Expr::ScalarSubquery(closed(self.nullable(plan)?)?)));
            }
            let subquery = closed(plan)?;
            Ok(Transformed::yes(match expr {
                Expr::Exists(exists) => Expr::Exists(Exists { subquery, ..exists }),
                Expr::InSubquery(membership) => Expr::InSubquery(InSubquery { subquery, ..membership }),
                other => return Err(unexpected(&other)),
            }))
        })
        .data()
    }

    /// A subquery's plan whose value says that it may be NULL where there may be no row: DataFusion forgets that.
    fn nullable(&self, plan: LogicalPlan) -> Result<LogicalPlan> {
        let (qualifier, field) = plan.schema().qualified_field(0);
        if field.is_nullable() || gives_one_row(&plan) {
            return Ok(plan);
        }
        let value = self.single.or_null(Expr::Column(Column::from((qualifier, field)))).alias(field.name());
        Ok(LogicalPlan::Projection(Projection::try_new(vec![value], Arc::new(plan))?))
    }

    /// A filter: what needs no subquery comes first, then what only keeps or drops rows, then all else.
    pub(super) fn filter(&mut self, node: &Filter, all: bool) -> Result<LogicalPlan> {
        let schema = node.input.schema();
        let (mut first, mut last) = (Vec::new(), Vec::new());
        for part in split_conjunction_owned(node.predicate.clone()) {
            if !is_left(&part, all, schema)? {
                last.push(part);
                continue;
            }
            let part = self.left(part)?;
            // Within other expressions DataFusion names the columns of a subquery that shares rows twice.
            let is_nested = subquery_of(&part).is_none();
            let is_hidden = |expr: &Expr| match subquery_of(expr).map(|subquery| subquery.subquery.as_ref()) {
                Some(plan) if is_nested && !matches!(expr, Expr::ScalarSubquery(_)) => shares_rows(plan),
                Some(plan) => is_hidden(plan),
                None => Ok(false),
            };
            if part.exists(is_hidden)? { last.push(part) } else { first.push(part) }
        }
        if last.is_empty() {
            return filter(node.input.as_ref().clone(), first);
        }
        let (volatile, first): (Vec<_>, Vec<_>) = first.into_iter().partition(Expr::is_volatile);
        let base = filter(node.input.as_ref().clone(), first)?;
        let mut outer = Outer::new(base.clone(), self.names.clone())?;
        let mut rest = Vec::new();
        for part in last {
            match as_exists(memberships_apart(part, schema)?) {
                Ok(Exists { subquery, negated }) => {
                    let plan = self.plan(subquery.subquery.as_ref().clone(), true)?;
                    outer.keep(&plan, negated)?;
                }
                Err(other) => rest.push(other),
            }
        }
        let rest = rest.into_iter().map(|part| self.replaced(part, &mut outer, all)).collect::<Result<Vec<_>>>()?;
        let rows = filter(outer.finish()?, rest.into_iter().chain(volatile).collect())?;
        renamed(rows, columns(&base), &base, [])
    }

    /// An operator over one input.
    pub(super) fn unary(&mut self, plan: &LogicalPlan, all: bool) -> Result<LogicalPlan> {
        let [input] = plan.inputs()[..] else {
            return Err(internal_datafusion_err!("a subquery in {} has no rows to be joined to", plan.display()));
        };
        // DataFusion knows subqueries in the place of a value in projections alone.
        let all = all || !matches!(plan, LogicalPlan::Projection(_));
        let mut outer = Outer::new(input.clone(), self.names.clone())?;
        let replaced = plan.expressions().into_iter().map(|expr| self.replaced(expr, &mut outer, all));
        let mut exprs = replaced.collect::<Result<Vec<_>>>()?;
        let rows = outer.finish()?;
        match plan {
            LogicalPlan::Projection(_) => renamed(rows, exprs, plan, []),
            LogicalPlan::Aggregate(node) => {
                let calls = exprs.split_off(node.group_expr.len());
                let aggregate = LogicalPlan::Aggregate(Aggregate::try_new(Arc::new(rows), exprs, calls)?);
                let own = columns(&aggregate);
                renamed(aggregate, own, plan, [])
            }
            LogicalPlan::Window(_) => {
                let before = rows.schema().fields().len();
                let window = LogicalPlan::Window(Window::try_new(exprs, Arc::new(rows))?);
                let computed = window.schema().columns().into_iter().skip(before).map(Expr::Column);
                let own = columns(input).into_iter().chain(computed).collect();
                renamed(window, own, plan, [])
            }
            LogicalPlan::Sort(_) => renamed(plan.with_new_exprs(exprs, vec![rows])?, columns(input), plan, []),
            other => other.with_new_exprs(exprs, vec![rows]),
        }
    }

    /// LIMIT and OFFSET by what a subquery says: tests of the rows' numbers.
    fn limit(&mut self, node: &Limit, all: bool) -> Result<LogicalPlan> {
        let (order, input) = match node.input.as_ref() {
            LogicalPlan::Sort(sort) if sort.fetch.is_none() => (sort.expr.clone(), &sort.input),
            _ => (Vec::new(), &node.input),
        };
        // NULL is no limit.
        let or = |expr: Box<Expr>, none: i64| {
            let whole =
                Expr::Cast(datafusion::logical_expr::Cast::new(expr, datafusion::arrow::datatypes::DataType::Int64));
            coalesce(vec![whole, lit(none)])
        };
        let skip = node.skip.clone().map(|skip| or(skip, 0));
        let fetch = node.fetch.clone().map(|fetch| or(fetch, MOST_ROWS));
        let (rows, number) = numbered(input.as_ref().clone(), Vec::new(), order.clone(), self.names.name("number"))?;
        let rows = filter(rows, within(&number, skip, fetch))?;
        let LogicalPlan::Filter(rows) = rows else { return Ok(rows) };
        let mut rows = self.filter(&rows, all)?;
        if !order.is_empty() {
            rows = LogicalPlan::Sort(Sort { expr: order, input: Arc::new(rows), fetch: None });
        }
        Ok(LogicalPlan::Projection(Projection::try_new(columns(input), Arc::new(rows))?))
    }
}

/// More rows than any query has, and few enough to add to.
const MOST_ROWS: i64 = i64::MAX / 2;

/// Whether DataFusion does all subqueries of an expression over rows of `schema`: a conjunct of a filter, or a subquery in the
/// place of a value. Of those that are correlated, none if `all` are wanted.
fn is_left(expr: &Expr, all: bool, schema: &DFSchema) -> Result<bool> {
    let is_ours = |expr: &Expr| {
        let Some(subquery) = subquery_of(expr) else { return Ok(false) };
        let plan = &subquery.subquery;
        if !is_correlated(plan)? {
            // Values are computed before the plan that has them, and can read nothing that this shares.
            return Ok(matches!(expr, Expr::ScalarSubquery(_)) && has_shared_cte(plan)?);
        }
        Ok(all
            || match expr {
                Expr::ScalarSubquery(_) => !is_plain_value(plan, schema)?,
                _ => !is_plain_predicate(plan, schema)?,
            })
    };
    Ok(!expr.exists(is_ours)?)
}

/// Whether a subquery reads outside below rows that it shares, where DataFusion does not look.
fn is_hidden(plan: &LogicalPlan) -> Result<bool> {
    Ok(is_correlated(plan)? && shares_rows(plan)?)
}

fn shares_rows(plan: &LogicalPlan) -> Result<bool> {
    any_node(plan, |node| Ok(SharedRows::of(node).is_some()))
}

/// `x IN (SELECT y …)` as `EXISTS (SELECT … WHERE y = x)`: where it is not so already, nobody asks whether it is NULL.
fn memberships_apart(expr: Expr, schema: &DFSchema) -> Result<Expr> {
    expr.transform_down(|expr| {
        let Expr::InSubquery(InSubquery { expr, subquery, negated }) = expr else { return Ok(Transformed::no(expr)) };
        let plan = subquery.subquery.as_ref().clone();
        let value = Expr::Column(plan.schema().columns().remove(0));
        let plan = filter(plan, vec![seen_from_inside(*expr, schema)?.eq(value)])?;
        Ok(Transformed::yes(Expr::Exists(Exists { subquery: closed(plan)?, negated })))
    })
    .data()
}

/// `[NOT] EXISTS (…)` as such, or what else it is.
fn as_exists(expr: Expr) -> Result<Exists, Expr> {
    match expr {
        Expr::Exists(exists) => Ok(exists),
        Expr::Not(inner) => match *inner {
            Expr::Exists(exists) => Ok(Exists { negated: !exists.negated, ..exists }),
            other => Err(Expr::Not(Box::new(other))),
        },
        other => Err(other),
    }
}

/// A plan as a subquery.
fn closed(plan: LogicalPlan) -> Result<Subquery> {
    let references = outer_references(&plan)?.into_iter();
    let outer_ref_columns = references.map(|(field, column)| Expr::OuterReferenceColumn(field, column)).collect();
    Ok(Subquery { subquery: Arc::new(plan), outer_ref_columns, spans: Default::default() })
}

/// `EXISTS (plan)` of a plan that reads nothing outside, as a value that is computed once.
fn has_rows(plan: LogicalPlan) -> Result<Expr> {
    let one = Limit { skip: None, fetch: Some(Box::new(lit(1_i64))), input: Arc::new(plan) };
    let rows = "rows";
    let calls = vec![count(Expr::Literal(ScalarValue::Int64(Some(1)), None)).alias(rows)];
    let counted = LogicalPlan::Aggregate(Aggregate::try_new(Arc::new(LogicalPlan::Limit(one)), Vec::new(), calls)?);
    let found = Expr::Column(Column::from_name(rows)).gt(lit(0_i64)).alias("exists");
    let plan = LogicalPlan::Projection(Projection::try_new(vec![found], Arc::new(counted))?);
    Ok(Expr::ScalarSubquery(closed(plan)?))
}

/// Whether this aggregates columns of the query around alone. It would be an aggregate of that query.
fn is_of_outside(expr: &Expr) -> bool {
    let Expr::AggregateFunction(call) = expr.clone().unalias() else { return false };
    let params = &call.params;
    let orders = params.order_by.iter().map(|order| &order.expr);
    let mut others = params.filter.as_deref().into_iter().chain(orders).chain(&params.args);
    params.args.iter().any(Expr::contains_outer) && !others.any(Expr::any_column_refs)
}

fn refused_aggregate(expr: &Expr) -> DataFusionError {
    let error =
        Error::unsupported(format!("{expr} in a subquery, of columns of the query around it alone, is not supported"));
    into_datafusion(error.hint("Aggregate in the query that has the columns"))
}

fn unexpected(expr: &Expr) -> DataFusionError {
    internal_datafusion_err!("a subquery of a kind that should be gone: {expr}")
}
