//! What subqueries read of the queries around them.

use std::sync::Arc;

use datafusion::arrow::datatypes::FieldRef;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, ExprSchema, JoinType, Result};
use datafusion::logical_expr::expr::{Exists, InSubquery, SetComparison};
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{BinaryExpr, Expr, Join, LogicalPlan, Operator, Subquery};

/// A column of a query further out.
pub(crate) type Reference = (FieldRef, Column);

/// The columns that `plan` reads of queries around it, each once. Those that its own subqueries read of itself are none.
pub(crate) fn outer_references(plan: &LogicalPlan) -> Result<Vec<Reference>> {
    let mut found = Vec::new();
    collect(plan, &mut found)?;
    Ok(found)
}

/// Whether `plan` reads columns of queries around it.
pub(crate) fn is_correlated(plan: &LogicalPlan) -> Result<bool> {
    Ok(!outer_references(plan)?.is_empty())
}

fn collect(plan: &LogicalPlan, found: &mut Vec<Reference>) -> Result<()> {
    for (at, input) in plan.inputs().into_iter().enumerate() {
        let mut below = Vec::new();
        collect(input, &mut below)?;
        if let LogicalPlan::Join(join) = plan
            && at == 1
            && may_be_lateral(join)
        {
            below.retain(|(_, column)| !join.left.schema().has_column(column));
        }
        add(below, found);
    }
    plan.apply_expressions(|expr| {
        expr.apply(|expr| {
            if let Expr::OuterReferenceColumn(field, column) = expr {
                add(vec![(Arc::clone(field), column.clone())], found);
            }
            if let Some(subquery) = subquery_of(expr) {
                let mut below = Vec::new();
                collect(&subquery.subquery, &mut below)?;
                below.retain(|(_, column)| !plan.inputs().iter().any(|input| input.schema().has_column(column)));
                add(below, found);
            }
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    Ok(())
}

/// Whether the right side of a join may read the left side. A side that does is LATERAL, whether it says so or not.
pub(crate) fn may_be_lateral(join: &Join) -> bool {
    matches!(join.join_type, JoinType::Inner | JoinType::Left)
}

fn add(more: Vec<Reference>, found: &mut Vec<Reference>) {
    for (field, column) in more {
        if !found.iter().any(|(_, known)| *known == column) {
            found.push((field, column));
        }
    }
}

/// The subquery of an expression that has one.
pub(crate) fn subquery_of(expr: &Expr) -> Option<&Subquery> {
    match expr {
        Expr::ScalarSubquery(subquery)
        | Expr::Exists(Exists { subquery, .. })
        | Expr::InSubquery(InSubquery { subquery, .. })
        | Expr::SetComparison(SetComparison { subquery, .. }) => Some(subquery),
        _ => None,
    }
}

/// Whether an expression of a node has columns of `columns` from outside, nested subqueries aside.
pub(crate) fn refers_to(expr: &Expr, columns: &[Reference]) -> bool {
    let is_one = |expr: &Expr| match expr {
        Expr::OuterReferenceColumn(_, column) => columns.iter().any(|(_, known)| known == column),
        _ => false,
    };
    expr.exists(|expr| Ok(is_one(expr))).expect("the closure cannot fail")
}

/// `expr` with references of `columns` in one form each, so that equal ones are equal.
pub(crate) fn canonical(expr: Expr, columns: &[Reference]) -> Result<Expr> {
    expr.transform(|expr| match &expr {
        Expr::OuterReferenceColumn(_, column) => Ok(match columns.iter().find(|(_, known)| known == column) {
            Some((field, known)) => Transformed::yes(Expr::OuterReferenceColumn(Arc::clone(field), known.clone())),
            None => Transformed::no(expr),
        }),
        _ => Ok(Transformed::no(expr)),
    })
    .data()
}

/// `expr` with references to columns that `schema` has as these columns.
pub(crate) fn as_columns(expr: Expr, schema: &DFSchema) -> Result<Expr> {
    expr.transform(|expr| match expr {
        Expr::OuterReferenceColumn(_, column) if schema.has_column(&column) => {
            Ok(Transformed::yes(Expr::Column(column)))
        }
        other => Ok(Transformed::no(other)),
    })
    .data()
}

/// The sides of an equality of which one is of the row itself and the other of the query around it alone, in this order, and
/// whether NULLs are equal.
pub(crate) fn correlation(expr: &Expr) -> Option<(&Expr, &Expr, bool)> {
    let Expr::BinaryExpr(BinaryExpr { left, op: op @ (Operator::Eq | Operator::IsNotDistinctFrom), right }) = expr
    else {
        return None;
    };
    let is_inner = |expr: &Expr| !expr.contains_outer() && !has_subquery(expr) && !expr.is_volatile();
    let is_outer =
        |expr: &Expr| expr.contains_outer() && !expr.any_column_refs() && !has_subquery(expr) && !expr.is_volatile();
    let nulls_are_equal = *op == Operator::IsNotDistinctFrom;
    match (left.as_ref(), right.as_ref()) {
        (inner, outer) if is_inner(inner) && is_outer(outer) => Some((inner, outer, nulls_are_equal)),
        (outer, inner) if is_inner(inner) && is_outer(outer) => Some((inner, outer, nulls_are_equal)),
        _ => None,
    }
}

pub(crate) fn has_subquery(expr: &Expr) -> bool {
    expr.exists(|expr| Ok(subquery_of(expr).is_some())).expect("the closure cannot fail")
}

/// Whether DataFusion turns `EXISTS (plan)` or `x IN (plan)` of a filter over `outer` into a join: filters at the top of the
/// subquery read the row outside, nothing below them does.
pub(crate) fn is_plain_predicate(plan: &LogicalPlan, outer: &DFSchema) -> Result<bool> {
    let references = outer_references(plan)?;
    if references.is_empty() {
        return Ok(true);
    }
    if !references.iter().all(|(_, column)| outer.has_column(column)) {
        return Ok(false);
    }
    is_filtered(plan, |_| true)
}

/// Whether DataFusion turns `(plan)` in the place of a value into a join: an aggregate of all rows that equal the row outside.
pub(crate) fn is_plain_value(plan: &LogicalPlan, outer: &DFSchema) -> Result<bool> {
    if !outer_references(plan)?.iter().all(|(_, column)| outer.has_column(column)) {
        return Ok(false);
    }
    let mut plan = plan;
    while let LogicalPlan::Projection(projection) = plan {
        if projection.expr.iter().any(|expr| expr.contains_outer() || has_subquery(expr)) {
            return Ok(false);
        }
        plan = &projection.input;
    }
    match plan {
        LogicalPlan::Aggregate(aggregate) if aggregate.group_expr.is_empty() => {
            if aggregate.aggr_expr.iter().any(|expr| expr.contains_outer() || has_subquery(expr)) {
                return Ok(false);
            }
            // Neither a constant that equals a column outside nor what is computed is a key that DataFusion groups by.
            is_filtered(
                &aggregate.input,
                |part| matches!(correlation(part), Some((inner, _, false)) if is_column(inner)),
            )
        }
        _ => Ok(false),
    }
}

/// Whether this is a column, or a cast of one.
fn is_column(expr: &Expr) -> bool {
    match expr {
        Expr::Column(_) => true,
        Expr::Cast(cast) => is_column(&cast.expr),
        _ => false,
    }
}

/// Whether `plan` is a chain of filters, under projections and sorts, over what reads nothing from outside, and all parts that
/// do are of a form.
fn is_filtered(plan: &LogicalPlan, is_of_form: impl Fn(&Expr) -> bool) -> Result<bool> {
    let mut plan = plan;
    loop {
        match plan {
            LogicalPlan::Projection(projection) => {
                if projection.expr.iter().any(|expr| expr.contains_outer() || is_deep(expr, &projection.input)) {
                    return Ok(false);
                }
                plan = &projection.input;
            }
            LogicalPlan::Sort(sort) if sort.fetch.is_none() => plan = &sort.input,
            LogicalPlan::Filter(filter) => {
                for part in split_conjunction(&filter.predicate) {
                    let is_outer = part.contains_outer();
                    if is_deep(part, &filter.input) || is_outer && (has_subquery(part) || !is_of_form(part)) {
                        return Ok(false);
                    }
                }
                plan = &filter.input;
            }
            other => return Ok(!is_correlated(other)?),
        }
    }
}

/// Whether a subquery of an expression over `input` reads more than that.
fn is_deep(expr: &Expr, input: &LogicalPlan) -> bool {
    let reads_more = |expr: &Expr| match subquery_of(expr) {
        Some(subquery) => {
            Ok(outer_references(&subquery.subquery)?.iter().any(|(_, column)| !input.schema().has_column(column)))
        }
        None => Ok(false),
    };
    expr.exists(reads_more).unwrap_or(true)
}

/// Whether this is an aggregate without GROUP BY, which gives a row for no rows too.
pub(crate) fn gives_one_row(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(node) => gives_one_row(&node.input),
        LogicalPlan::SubqueryAlias(node) => gives_one_row(&node.input),
        LogicalPlan::Sort(node) if node.fetch.is_none() => gives_one_row(&node.input),
        LogicalPlan::Aggregate(node) => node.group_expr.is_empty(),
        _ => false,
    }
}

/// `expr` with its columns, which are of `schema`, as references from inside of a subquery.
pub(crate) fn seen_from_inside(expr: Expr, schema: &DFSchema) -> Result<Expr> {
    expr.transform_up(|expr| match expr {
        Expr::Column(column) => {
            let field = Arc::clone(schema.field_from_column(&column)?);
            Ok(Transformed::yes(Expr::OuterReferenceColumn(field, column)))
        }
        other => Ok(Transformed::no(other)),
    })
    .data()
}
