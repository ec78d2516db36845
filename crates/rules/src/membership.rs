//! `IN`, `EXISTS`, `ANY` and `ALL` of subqueries where DataFusion forgets the rules of NULL. It plans `x IN (SELECT y …)`
//! as a join that tells matches from all else, so false and NULL become one. That is right where only truth matters, and
//! its anti join for a conjunct `x NOT IN (…)` of columns knows NULLs; everywhere else `IN` becomes `EXISTS` here:
//!
//! ```text
//! x IN (SELECT y …)      is true   if  EXISTS (SELECT … WHERE x = y)
//!                        is NULL   if  not, but EXISTS (SELECT … WHERE y IS NULL) OR x IS NULL AND EXISTS (SELECT …)
//! ```
//!
//! These are joins that can hash. Forms that DataFusion plans wrongly, or not at all, are refused. Must run before types
//! are unified: it makes comparisons.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, ExprSchema, Result, ScalarValue};
use datafusion::datasource::cte_worktable::CteWorkTable;
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::expr::{Case, Exists, InSubquery, SetComparison};
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{
    BinaryExpr, Expr, ExprSchemable, Filter, Limit, LogicalPlan, LogicalPlanBuilder, Operator, Subquery, lit, not,
};
use datafusion::optimizer::AnalyzerRule;
use forebay_base::Error;
use forebay_context::error::into_datafusion;

/// Rewrites predicates with subqueries.
#[derive(Debug)]
pub struct Membership;

impl AnalyzerRule for Membership {
    fn name(&self) -> &str {
        "membership"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        refuse_nested_recursion(&plan)?;
        plan.transform_up_with_subqueries(rewrite_node).data()
    }
}

fn rewrite_node(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    match plan {
        LogicalPlan::Filter(filter) if has_subquery(&filter.predicate) => rewrite_filter(filter),
        // The filter that makes a subquery correlated would be moved above the window.
        LogicalPlan::Window(window) if !window.input.all_out_ref_exprs().is_empty() => {
            Err(refused("a window function over correlated rows"))
        }
        LogicalPlan::Filter(_) => Ok(Transformed::no(plan)),
        other => {
            other.apply_expressions(|expr| match has_subquery(expr) {
                true => Err(refused("IN, EXISTS, ANY or ALL with a subquery outside of WHERE and HAVING")),
                false => Ok(TreeNodeRecursion::Continue),
            })?;
            Ok(Transformed::no(other))
        }
    }
}

fn refused(what: &str) -> datafusion::common::DataFusionError {
    let error = Error::unsupported(format!("{what} is not supported yet"));
    into_datafusion(error.hint("A join, or a subquery that counts, often says the same"))
}

fn has_subquery(expr: &Expr) -> bool {
    let is_one = |expr: &Expr| matches!(expr, Expr::InSubquery(_) | Expr::Exists(_) | Expr::SetComparison(_));
    expr.exists(|expr| Ok(is_one(expr))).expect("the closure cannot fail")
}

/// A recursive query's own rows are there once per round: in its FROM. DataFusion does not see references elsewhere.
fn refuse_nested_recursion(plan: &LogicalPlan) -> Result<()> {
    plan.apply_with_subqueries(|node| {
        node.apply_subqueries(|subquery| {
            let mut own = Vec::new();
            subquery.apply(|inner| {
                if let LogicalPlan::RecursiveQuery(query) = inner {
                    own.push(query.name.clone());
                }
                Ok(TreeNodeRecursion::Continue)
            })?;
            subquery.apply(|inner| match recursive_name(inner) {
                Some(name) if !own.contains(&name) => {
                    Err(refused(&format!("the recursive query {name} in a subquery of its own")))
                }
                _ => Ok(TreeNodeRecursion::Continue),
            })
        })
    })?;
    Ok(())
}

/// The recursive query of which `plan` is the last round's rows.
fn recursive_name(plan: &LogicalPlan) -> Option<String> {
    let LogicalPlan::TableScan(scan) = plan else { return None };
    let provider = source_as_provider(&scan.source).ok()?;
    provider.is::<CteWorkTable>().then(|| scan.table_name.table().to_owned())
}

fn rewrite_filter(mut filter: Filter) -> Result<Transformed<LogicalPlan>> {
    let schema = Arc::clone(filter.input.schema());
    let parts = split_conjunction_owned(filter.predicate)
        .into_iter()
        .map(|part| if is_known_anti_join(&part) { Ok(part) } else { decide(part, Sense::Truth, &schema) })
        .collect::<Result<Vec<_>>>()?;
    filter.predicate = conjunction(parts).unwrap_or_else(|| lit(true));
    Ok(Transformed::yes(LogicalPlan::Filter(filter)))
}

/// Whether DataFusion's anti join answers this conjunct, with the rules of NULL.
fn is_known_anti_join(expr: &Expr) -> bool {
    match expr {
        Expr::InSubquery(InSubquery { expr, subquery, negated: true }) => {
            subquery.outer_ref_columns.is_empty() && expr.any_column_refs() && !expr.contains_outer()
        }
        Expr::Not(inner) => match inner.as_ref() {
            Expr::InSubquery(membership) if !membership.negated => {
                is_known_anti_join(&Expr::InSubquery(InSubquery { negated: true, ..membership.clone() }))
            }
            _ => false,
        },
        _ => false,
    }
}

/// What the surroundings of a predicate ask of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sense {
    /// Whether it is true.
    Truth,
    /// Whether it is false.
    Falsehood,
    /// Which of true, false and NULL it is.
    Value,
}

impl Sense {
    fn flipped(self) -> Self {
        match self {
            Self::Truth => Self::Falsehood,
            Self::Falsehood => Self::Truth,
            Self::Value => Self::Value,
        }
    }
}

/// `expr` with its predicates on subqueries in forms that DataFusion answers in that sense.
fn decide(expr: Expr, sense: Sense, schema: &DFSchema) -> Result<Expr> {
    if !has_subquery(&expr) {
        return Ok(expr);
    }
    let boxed = |expr: Box<Expr>, sense| decide(*expr, sense, schema).map(Box::new);
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op: op @ (Operator::And | Operator::Or), right }) => {
            Ok(Expr::BinaryExpr(BinaryExpr::new(boxed(left, sense)?, op, boxed(right, sense)?)))
        }
        Expr::Not(inner) => Ok(not(decide(*inner, sense.flipped(), schema)?)),
        Expr::IsTrue(inner) => Ok(Expr::IsTrue(boxed(inner, Sense::Truth)?)),
        Expr::IsNotTrue(inner) => Ok(Expr::IsNotTrue(boxed(inner, Sense::Truth)?)),
        Expr::IsFalse(inner) => Ok(Expr::IsFalse(boxed(inner, Sense::Falsehood)?)),
        Expr::IsNotFalse(inner) => Ok(Expr::IsNotFalse(boxed(inner, Sense::Falsehood)?)),
        Expr::Case(Case { expr: None, when_then_expr, else_expr }) => {
            let arm = |(when, then)| Ok((boxed(when, Sense::Truth)?, boxed(then, sense)?));
            let when_then_expr = when_then_expr.into_iter().map(arm).collect::<Result<_>>()?;
            let else_expr = else_expr.map(|expr| boxed(expr, sense)).transpose()?;
            Ok(Expr::Case(Case { expr: None, when_then_expr, else_expr }))
        }
        Expr::InSubquery(membership) => Member::of(membership, schema)?.decide(sense),
        Expr::Exists(exists) => decide_exists(exists),
        Expr::SetComparison(comparison) => decide_comparison(comparison),
        other => other.map_children(|child| decide(child, Sense::Value, schema).map(Transformed::yes)).data(),
    }
}

fn decide_exists(Exists { subquery, negated }: Exists) -> Result<Expr> {
    if is_correlated(&subquery) {
        if gives_one_row(&subquery.subquery) {
            return Ok(lit(!negated));
        }
        refuse_moved_filters(&subquery, |limit| limit.skip.is_some())?;
    }
    Ok(Expr::Exists(Exists { subquery, negated }))
}

fn decide_comparison(comparison: SetComparison) -> Result<Expr> {
    let SetComparison { expr, subquery, op, quantifier } = comparison;
    if is_correlated(&subquery) {
        if gives_one_row(&subquery.subquery) {
            return Ok(Expr::BinaryExpr(BinaryExpr::new(expr, op, Box::new(Expr::ScalarSubquery(subquery)))));
        }
        refuse_moved_filters(&subquery, |_| true)?;
    }
    Ok(Expr::SetComparison(SetComparison::new(expr, subquery, op, quantifier)))
}

fn is_correlated(subquery: &Subquery) -> bool {
    !subquery.outer_ref_columns.is_empty()
}

/// Whether this is an aggregate without GROUP BY, which gives a row for no rows too.
fn gives_one_row(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(node) => gives_one_row(&node.input),
        LogicalPlan::SubqueryAlias(node) => gives_one_row(&node.input),
        LogicalPlan::Sort(node) if node.fetch.is_none() => gives_one_row(&node.input),
        LogicalPlan::Aggregate(node) => node.group_expr.is_empty(),
        _ => false,
    }
}

/// DataFusion moves the filters of a correlated subquery to its top. Refuses what they would mean something else above:
/// aggregates of all rows, and the limits that `matters` names.
fn refuse_moved_filters(subquery: &Subquery, matters: impl Fn(&Limit) -> bool) -> Result<()> {
    subquery.subquery.apply(|node| {
        let moved = !node.all_out_ref_exprs().is_empty();
        match node {
            LogicalPlan::Aggregate(aggregate) if moved && aggregate.group_expr.is_empty() => {
                Err(refused("a correlated subquery with an aggregate of all its rows inside"))
            }
            LogicalPlan::Limit(limit) if moved && matters(limit) => {
                Err(refused("a correlated subquery with a limit here"))
            }
            _ => Ok(TreeNodeRecursion::Continue),
        }
    })?;
    Ok(())
}

/// `x [NOT] IN (SELECT y …)`, taken apart.
struct Member {
    membership: InSubquery,
    /// `x` as seen from inside of the subquery.
    outer: Expr,
    /// The subquery's column `y`.
    inner: Expr,
    x_may_be_null: bool,
    y_may_be_null: bool,
}

impl Member {
    fn of(membership: InSubquery, schema: &DFSchema) -> Result<Self> {
        let (qualifier, field) = membership.subquery.subquery.schema().qualified_field(0);
        let inner = Expr::Column(Column::from((qualifier, field)));
        let y_may_be_null = field.is_nullable();
        let x_may_be_null = membership.expr.nullable(schema)?;
        let outer = seen_from_inside(membership.expr.as_ref().clone(), schema)?;
        Ok(Self { membership, outer, inner, x_may_be_null, y_may_be_null })
    }

    fn decide(self, sense: Sense) -> Result<Expr> {
        let negated = self.membership.negated;
        if is_correlated(&self.membership.subquery) {
            if gives_one_row(&self.membership.subquery.subquery) {
                let InSubquery { expr, subquery, .. } = self.membership;
                let op = if negated { Operator::NotEq } else { Operator::Eq };
                return Ok(Expr::BinaryExpr(BinaryExpr::new(expr, op, Box::new(Expr::ScalarSubquery(subquery)))));
            }
            refuse_moved_filters(&self.membership.subquery, |_| true)?;
        }
        let knows_nulls = !self.x_may_be_null && !self.y_may_be_null && !is_correlated(&self.membership.subquery);
        if knows_nulls || (sense, negated) == (Sense::Truth, false) {
            return Ok(Expr::InSubquery(self.membership));
        }
        if !can_move(&self.membership.expr) {
            return Err(refused("IN of a subquery, an outer column or a volatile expression here"));
        }
        match (sense, negated) {
            (Sense::Truth, _) => self.is_not_in(),
            (Sense::Falsehood, false) => Ok(not(self.is_not_in()?)),
            (Sense::Falsehood, true) => Ok(not(Expr::InSubquery(InSubquery { negated: false, ..self.membership }))),
            (Sense::Value, false) => self.value(),
            (Sense::Value, true) => Ok(not(self.value()?)),
        }
    }

    /// True where `x NOT IN S` is true, else false.
    fn is_not_in(&self) -> Result<Expr> {
        let mut parts = vec![not(self.exists(Some(self.is_equal()))?)];
        if self.y_may_be_null {
            parts.push(not(self.exists(Some(self.inner.clone().is_null()))?));
        }
        if self.x_may_be_null {
            let x = self.membership.expr.as_ref().clone();
            parts.push(x.is_not_null().or(not(self.exists(None)?)));
        }
        Ok(conjunction(parts).unwrap_or_else(|| lit(true)))
    }

    /// `x IN S` with all three values.
    fn value(&self) -> Result<Expr> {
        let x = self.membership.expr.as_ref().clone();
        let matches = self.exists(Some(self.is_equal()))?;
        let is_unknown = self.exists(Some(self.inner.clone().is_null()))?.or(x.is_null().and(self.exists(None)?));
        let unknown = Expr::Literal(ScalarValue::Boolean(None), None);
        let when_then_expr = vec![(Box::new(matches), Box::new(lit(true))), (Box::new(is_unknown), Box::new(unknown))];
        Ok(Expr::Case(Case { expr: None, when_then_expr, else_expr: Some(Box::new(lit(false))) }))
    }

    fn is_equal(&self) -> Expr {
        self.outer.clone().eq(self.inner.clone())
    }

    /// Whether the subquery has a row that passes `filter`.
    fn exists(&self, filter: Option<Expr>) -> Result<Expr> {
        let subquery = &self.membership.subquery;
        let mut plan = LogicalPlanBuilder::from(subquery.subquery.as_ref().clone());
        if let Some(filter) = filter {
            plan = plan.filter(filter)?;
        }
        let outer_ref_columns = plan.plan().all_out_ref_exprs();
        if outer_ref_columns.is_empty() {
            // One row is as good as many, and much less to join.
            plan = plan.limit(0, Some(1))?;
        }
        let subquery = Subquery { subquery: Arc::new(plan.build()?), outer_ref_columns, spans: subquery.spans.clone() };
        Ok(Expr::Exists(Exists { subquery, negated: false }))
    }
}

/// Whether an expression means the same inside of a subquery, once its columns are outer references.
fn can_move(expr: &Expr) -> bool {
    let binds = |expr: &Expr| matches!(expr, Expr::OuterReferenceColumn(..) | Expr::ScalarSubquery(_));
    !expr.is_volatile() && !expr.exists(|expr| Ok(binds(expr))).expect("the closure cannot fail")
}

/// `expr` with its columns, which are of `schema`, as references from inside of a subquery.
fn seen_from_inside(expr: Expr, schema: &DFSchema) -> Result<Expr> {
    expr.transform_up(|expr| match expr {
        Expr::Column(column) => {
            let field = Arc::clone(schema.field_from_column(&column)?);
            Ok(Transformed::yes(Expr::OuterReferenceColumn(field, column)))
        }
        other => Ok(Transformed::no(other)),
    })
    .data()
}
