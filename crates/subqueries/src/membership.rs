//! `IN`, `EXISTS`, `ANY` and `ALL` of subqueries, with the rules of NULL. DataFusion plans `x IN (SELECT y …)` as a join that
//! tells matches from all else, so false and NULL become one. That is right where only truth matters, and its anti join for a
//! conjunct `x NOT IN (…)` of columns knows NULLs; everywhere else `IN` becomes `EXISTS` here:
//!
//! ```text
//! x IN (SELECT y …)      is true   if  EXISTS (SELECT … WHERE x = y)
//!                        is NULL   if  not, but EXISTS (SELECT … WHERE y IS NULL) OR x IS NULL AND EXISTS (SELECT …)
//! ```
//!
//! These are joins that can hash. `x < ANY (SELECT y …)` asks for the greatest `y`, `x <> ANY` for the greatest and the least, and
//! both for the numbers of rows and of values. `ALL` is the negation of `ANY`. Must run before types are unified: it makes
//! comparisons.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, Result, ScalarValue};
use datafusion::functions::core::expr_fn::{get_field, named_struct};
use datafusion::functions_aggregate::expr_fn::{bool_or, count};
use datafusion::logical_expr::expr::{AggregateFunction, Case, Exists, InSubquery, SetComparison, SetQuantifier};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::{conjunction, disjunction, merge_schema, split_conjunction_owned};
use datafusion::logical_expr::{
    Aggregate, BinaryExpr, Expr, ExprSchemable, FetchType, Filter, Limit, LogicalPlan, LogicalPlanBuilder, Operator,
    Projection, SkipType, Subquery, lit, not,
};
use datafusion::optimizer::AnalyzerRule;
use forebay_base::Error;
use forebay_context::error::into_datafusion;

use crate::plans::{is_repeatable, rewrite_nodes};
use crate::recursion::refuse_nested_recursion;
use crate::references::{gives_one_row, is_correlated, is_plain_predicate, outer_references, seen_from_inside};
use crate::row_values::values_of;
use forebay_functions::extrema;

/// Rewrites predicates with subqueries.
#[derive(Debug)]
pub struct Membership;

impl AnalyzerRule for Membership {
    fn name(&self) -> &str {
        "membership"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        refuse_nested_recursion(&plan)?;
        rewrite_nodes(plan, node_has_subquery, rewrite_node).data()
    }
}

fn node_has_subquery(node: &LogicalPlan) -> bool {
    let mut found = false;
    let looked = node.apply_expressions(|expr| {
        found = found || has_subquery(expr);
        Ok(TreeNodeRecursion::Continue)
    });
    looked.expect("the closure cannot fail");
    found
}

/// Rewrites a node that has subqueries in its expressions.
fn rewrite_node(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    if let LogicalPlan::Filter(filter) = plan {
        return rewrite_filter(filter);
    }
    let is_join = matches!(plan, LogicalPlan::Join(_));
    let schema = merge_schema(&plan.inputs());
    let names = NamePreserver::new(&plan);
    let place = Place { schema: &schema, is_filter: false };
    let decided = plan.map_expressions(|expr| {
        let name = names.save(&expr);
        let expr = match is_join {
            true => all_of(split_conjunction_owned(expr), |part| decide(part, Sense::Truth, &place))?,
            false => decide(expr, Sense::Value, &place)?,
        };
        Ok(Transformed::yes(name.restore(expr)))
    })?;
    decided.data.recompute_schema().map(Transformed::yes)
}

/// What stands around predicates.
struct Place<'a> {
    /// The columns that they see.
    schema: &'a DFSchema,
    /// Whether DataFusion may turn them into joins.
    is_filter: bool,
}

fn all_of(parts: Vec<Expr>, work: impl FnMut(Expr) -> Result<Expr>) -> Result<Expr> {
    let parts = parts.into_iter().map(work).collect::<Result<Vec<_>>>()?;
    Ok(conjunction(parts).unwrap_or_else(|| lit(true)))
}

fn refused(what: &str) -> datafusion::common::DataFusionError {
    let error = Error::unsupported(format!("{what} is not supported yet"));
    into_datafusion(error.hint("A join, or a subquery that counts, often says the same"))
}

fn has_subquery(expr: &Expr) -> bool {
    let is_one = |expr: &Expr| matches!(expr, Expr::InSubquery(_) | Expr::Exists(_) | Expr::SetComparison(_));
    expr.exists(|expr| Ok(is_one(expr))).expect("the closure cannot fail")
}

fn rewrite_filter(mut filter: Filter) -> Result<Transformed<LogicalPlan>> {
    let schema = Arc::clone(filter.input.schema());
    let place = Place { schema: &schema, is_filter: true };
    filter.predicate = all_of(split_conjunction_owned(filter.predicate), |part| match is_known_anti_join(&part) {
        true => Ok(part),
        false => decide(part, Sense::Truth, &place),
    })?;
    Ok(Transformed::yes(LogicalPlan::Filter(filter)))
}

/// Whether DataFusion's anti join answers this conjunct, with the rules of NULL.
fn is_known_anti_join(expr: &Expr) -> bool {
    match expr {
        Expr::InSubquery(InSubquery { expr, subquery, negated: true }) => {
            let is_alone = !is_correlated(&subquery.subquery).unwrap_or(true);
            is_alone && values_of(expr).is_none() && expr.any_column_refs() && !expr.contains_outer() && can_move(expr)
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

/// `expr` with its predicates on subqueries in forms that are answered in that sense.
fn decide(expr: Expr, sense: Sense, place: &Place<'_>) -> Result<Expr> {
    if !has_subquery(&expr) {
        return Ok(expr);
    }
    let boxed = |expr: Box<Expr>, sense| decide(*expr, sense, place).map(Box::new);
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op: op @ (Operator::And | Operator::Or), right }) => {
            Ok(Expr::BinaryExpr(BinaryExpr::new(boxed(left, sense)?, op, boxed(right, sense)?)))
        }
        Expr::Not(inner) => Ok(not(decide(*inner, sense.flipped(), place)?)),
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
        Expr::InSubquery(InSubquery { expr, subquery, negated }) => {
            let expr = boxed(expr, Sense::Value)?;
            Member::of(InSubquery { expr, subquery, negated }, place)?.decide(sense)
        }
        Expr::Exists(exists) => Ok(decide_exists(exists)),
        Expr::SetComparison(comparison) => decide_comparison(comparison, sense, place),
        other => other.map_children(|child| decide(child, Sense::Value, place).map(Transformed::yes)).data(),
    }
}

/// Existence asks neither for values, nor for an order, nor for more than one row.
fn decide_exists(Exists { mut subquery, negated }: Exists) -> Expr {
    loop {
        let below = match subquery.subquery.as_ref() {
            LogicalPlan::Sort(sort) if sort.fetch.is_none() => Arc::clone(&sort.input),
            LogicalPlan::Distinct(_) => Arc::new(subquery.subquery.inputs()[0].clone()),
            LogicalPlan::Limit(limit) if takes_some(limit) => Arc::clone(&limit.input),
            LogicalPlan::Projection(node) if !node.expr.iter().any(has_any_subquery) => Arc::clone(&node.input),
            LogicalPlan::Aggregate(node) if node.group_expr.is_empty() => return lit(!negated),
            _ => return Expr::Exists(Exists { subquery, negated }),
        };
        // A projection of nothing is one of nothing's columns.
        if below.schema().fields().is_empty() {
            return Expr::Exists(Exists { subquery, negated });
        }
        subquery = subquery.with_plan(below);
    }
}

fn has_any_subquery(expr: &Expr) -> bool {
    has_subquery(expr) || expr.exists(|expr| Ok(matches!(expr, Expr::ScalarSubquery(_)))).unwrap_or(true)
}

/// Whether a limit leaves a row where there is one.
fn takes_some(limit: &Limit) -> bool {
    matches!(limit.get_skip_type(), Ok(SkipType::Literal(0)))
        && matches!(limit.get_fetch_type(), Ok(FetchType::Literal(None | Some(1..))))
}

/// `x op ANY (SELECT y …)` and its kin.
fn decide_comparison(comparison: SetComparison, sense: Sense, place: &Place<'_>) -> Result<Expr> {
    let SetComparison { expr, subquery, op, quantifier } = comparison;
    if gives_one_row(&subquery.subquery) {
        return Ok(Expr::BinaryExpr(BinaryExpr::new(expr, op, Box::new(Expr::ScalarSubquery(subquery)))));
    }
    match (op, quantifier) {
        (Operator::Eq, SetQuantifier::Any) => {
            Member::of(InSubquery { expr, subquery, negated: false }, place)?.decide(sense)
        }
        (Operator::NotEq, SetQuantifier::All) => {
            Member::of(InSubquery { expr, subquery, negated: true }, place)?.decide(sense)
        }
        (op, SetQuantifier::Any) => any(*expr, op, &subquery),
        (op, SetQuantifier::All) => match op.negate() {
            Some(op) => Ok(not(any(*expr, op, &subquery)?)),
            None => Err(refused(&format!("{op} ALL of a subquery"))),
        },
    }
}

/// `x op ANY (SELECT y …)` by the greatest and least `y`, which are all that some row is compared with. Equal aggregations are
/// computed once.
fn any(x: Expr, op: Operator, subquery: &Subquery) -> Result<Expr> {
    if !can_move(&x) {
        return Err(refused("ANY or ALL of a subquery and a volatile expression"));
    }
    let extrema = match op {
        Operator::Lt | Operator::LtEq => vec!["max"],
        Operator::Gt | Operator::GtEq => vec!["min"],
        Operator::NotEq => vec!["min", "max"],
        _ => return Err(refused(&format!("{op} ANY of a subquery"))),
    };
    let y = Expr::Column(Column::from(subquery.subquery.schema().qualified_field(0)));
    let mut calls = Vec::new();
    for function in extrema::functions().into_iter().filter(|function| extrema.contains(&function.name())) {
        let name = function.name().to_owned();
        let call = AggregateFunction::new_udf(function, vec![y.clone()], false, None, Vec::new(), None);
        calls.push((name, Expr::AggregateFunction(call)));
    }
    calls.push(("rows".to_owned(), count(lit(1_i64))));
    calls.push(("values".to_owned(), count(y)));
    let fields = calls.iter().flat_map(|(name, _)| [lit(name.clone()), Expr::Column(Column::from_name(name))]);
    let all = named_struct(fields.collect()).alias("all");
    let calls: Vec<Expr> = calls.into_iter().map(|(name, call)| call.alias(name)).collect();
    let aggregate = Aggregate::try_new(Arc::clone(&subquery.subquery), Vec::new(), calls)?;
    let aggregate = Arc::new(LogicalPlan::Aggregate(aggregate));
    let plan = LogicalPlan::Projection(Projection::try_new(vec![all], aggregate)?);
    let all = Expr::ScalarSubquery(subquery.with_plan(Arc::new(plan)));
    let of = |name: &str| get_field(all.clone(), name);
    let compared = |y: Expr| Expr::BinaryExpr(BinaryExpr::new(Box::new(x.clone()), op, Box::new(y)));
    let matches = extrema.iter().map(|name| compared(of(name))).reduce(Expr::or).unwrap_or_else(|| lit(false));
    let is_unknown = of("rows").gt(of("values")).or(x.clone().is_null().and(of("rows").gt(lit(0_i64))));
    Ok(three_valued(matches, is_unknown))
}

/// True, else NULL, else false.
fn three_valued(matches: Expr, is_unknown: Expr) -> Expr {
    let unknown = Expr::Literal(ScalarValue::Boolean(None), None);
    let when_then_expr = vec![(Box::new(matches), Box::new(lit(true))), (Box::new(is_unknown), Box::new(unknown))];
    Expr::Case(Case { expr: None, when_then_expr, else_expr: Some(Box::new(lit(false))) })
}

/// `x [NOT] IN (SELECT y …)`, taken apart.
struct Member {
    membership: InSubquery,
    /// `x`, or the values of a row.
    values: Vec<Expr>,
    /// The same as seen from inside of the subquery.
    outer: Vec<Expr>,
    /// The subquery's column `y`, or its columns.
    inner: Vec<Expr>,
    /// The subquery whose columns these are.
    plan: Arc<LogicalPlan>,
    x_may_be_null: bool,
    y_may_be_null: bool,
    is_correlated: bool,
    /// Whether DataFusion tells matches from all else.
    is_plain: bool,
}

impl Member {
    fn of(membership: InSubquery, place: &Place<'_>) -> Result<Self> {
        let schema = place.schema;
        let mut plan = Arc::clone(&membership.subquery.subquery);
        let mut inner = vec![Expr::Column(Column::from(plan.schema().qualified_field(0)))];
        let mut values = vec![membership.expr.as_ref().clone()];
        if let Some(row) = values_of(&membership.expr) {
            values = row.to_vec();
            (inner, plan) = columns_of(&plan)?;
        }
        // DataFusion takes a column of the subquery for the one outside that has its name and table.
        let is_outside_too = |expr: &Expr| expr.column_refs().into_iter().any(|column| schema.has_column(column));
        if inner.iter().any(is_outside_too) {
            (inner, plan) = renamed_columns(inner, plan)?;
        }
        let may_be_null = |exprs: &[Expr], schema: &DFSchema| -> Result<bool> {
            exprs.iter().try_fold(false, |any, expr| Ok(any || expr.nullable(schema)?))
        };
        let y_may_be_null = may_be_null(&inner, plan.schema())?;
        let x_may_be_null = may_be_null(&values, schema)?;
        let is_correlated = is_correlated(&plan)?;
        let is_plain = place.is_filter && values.len() == 1 && is_plain_predicate(&plan, schema)?;
        let outer = values.iter().map(|value| seen_from_inside(value.clone(), schema)).collect::<Result<_>>()?;
        Ok(Self { values, outer, inner, plan, x_may_be_null, y_may_be_null, is_correlated, is_plain, membership })
    }

    fn decide(self, sense: Sense) -> Result<Expr> {
        let negated = self.membership.negated;
        if self.is_correlated && self.values.len() == 1 && gives_one_row(&self.plan) {
            let InSubquery { expr, subquery, .. } = self.membership;
            let op = if negated { Operator::NotEq } else { Operator::Eq };
            return Ok(Expr::BinaryExpr(BinaryExpr::new(expr, op, Box::new(Expr::ScalarSubquery(subquery)))));
        }
        let knows_nulls = !self.x_may_be_null && !self.y_may_be_null;
        let is_match = (sense, negated) == (Sense::Truth, false);
        let is_two_valued = knows_nulls || is_match;
        if self.is_plain && (is_match || knows_nulls && !self.is_correlated) {
            return Ok(Expr::InSubquery(named(self.membership, self.is_correlated)?));
        }
        if !self.values.iter().all(can_move) {
            return Err(refused("IN of a subquery and a volatile expression here"));
        }
        if is_two_valued {
            let matches = self.exists(Some(self.is_equal()))?;
            return Ok(if negated { not(matches) } else { matches });
        }
        if !is_repeatable(&self.plan, |node| matches!(node, LogicalPlan::Limit(_) | LogicalPlan::Window(_)))? {
            let value = self.value_of_one_run()?;
            return Ok(if negated { not(value) } else { value });
        }
        match (sense, negated) {
            (Sense::Truth, _) => self.is_not_in(),
            (Sense::Falsehood, false) => Ok(not(self.is_not_in()?)),
            (Sense::Falsehood, true) => Ok(not(self.exists(Some(self.is_equal()))?)),
            (Sense::Value, false) => self.value(),
            (Sense::Value, true) => Ok(not(self.value()?)),
        }
    }

    /// True where `x NOT IN S` is true, else false.
    fn is_not_in(&self) -> Result<Expr> {
        let mut parts = vec![not(self.exists(Some(self.is_equal()))?)];
        parts.extend(self.are_unknown()?.into_iter().map(|part| match part {
            (Some(x), exists) => x.is_not_null().or(not(exists)),
            (None, exists) => not(exists),
        }));
        Ok(conjunction(parts).unwrap_or_else(|| lit(true)))
    }

    /// `x IN S` with all three values.
    fn value(&self) -> Result<Expr> {
        let unknown = self.are_unknown()?.into_iter().map(|part| match part {
            (Some(x), exists) => x.is_null().and(exists),
            (None, exists) => exists,
        });
        let is_unknown = disjunction(unknown).unwrap_or_else(|| lit(false));
        Ok(three_valued(self.exists(Some(self.is_equal()))?, is_unknown))
    }

    /// What makes some comparison NULL, which may be so where another is true: rows, or rows where this value is NULL.
    fn are_unknown(&self) -> Result<Vec<(Option<Expr>, Expr)>> {
        let ([x], [y]) = (&self.values[..], &self.inner[..]) else {
            return Ok(vec![(None, self.exists(Some(self.is_equal().is_null()))?)]);
        };
        let mut parts = Vec::new();
        if self.y_may_be_null {
            parts.push((None, self.exists(Some(y.clone().is_null()))?));
        }
        if self.x_may_be_null {
            parts.push((Some(x.clone()), self.exists(None)?));
        }
        Ok(parts)
    }

    /// As [`Member::value`], of rows that differ from run to run: every row is compared.
    fn value_of_one_run(&self) -> Result<Expr> {
        let plan = LogicalPlanBuilder::from(Arc::clone(&self.plan));
        let (matches, rows, values) = ("matches", "rows", "values");
        let column = |name: &str| Expr::Column(Column::from_name(name));
        let calls = [
            bool_or(self.is_equal()).alias(matches),
            count(lit(1_i64)).alias(rows),
            count(self.is_equal()).alias(values),
        ];
        let value = three_valued(column(matches), column(rows).gt(column(values))).alias("value");
        let plan = plan.aggregate(Vec::<Expr>::new(), calls)?.project([value])?.build()?;
        self.subquery(plan).map(Expr::ScalarSubquery)
    }

    fn is_equal(&self) -> Expr {
        let pairs = self.outer.iter().zip(&self.inner).map(|(outer, inner)| outer.clone().eq(inner.clone()));
        conjunction(pairs).unwrap_or_else(|| lit(true))
    }

    /// Whether the subquery has a row that passes `filter`.
    fn exists(&self, filter: Option<Expr>) -> Result<Expr> {
        let mut plan = LogicalPlanBuilder::from(Arc::clone(&self.plan));
        if let Some(filter) = filter {
            plan = plan.filter(filter)?;
        }
        if !is_correlated(plan.plan())? {
            // One row is as good as many, and much less to join.
            plan = plan.limit(0, Some(1))?;
        }
        Ok(Expr::Exists(Exists { subquery: self.subquery(plan.build()?)?, negated: false }))
    }

    fn subquery(&self, plan: LogicalPlan) -> Result<Subquery> {
        let references = outer_references(&plan)?.into_iter();
        let outer_ref_columns = references.map(|(field, column)| Expr::OuterReferenceColumn(field, column)).collect();
        let spans = self.membership.subquery.spans.clone();
        Ok(Subquery { subquery: Arc::new(plan), outer_ref_columns, spans })
    }
}

/// The subquery's column under a name of its own, where DataFusion would give it out twice: it finds one without a table
/// under two names, and one that is cast beside itself, as a column of a correlated predicate.
fn named(mut membership: InSubquery, is_correlated: bool) -> Result<InSubquery> {
    let column = Column::from(membership.subquery.subquery.schema().qualified_field(0));
    if column.relation.is_none() || is_correlated {
        let plan = LogicalPlanBuilder::from(Arc::clone(&membership.subquery.subquery));
        let plan = plan.project([Expr::Column(column).alias("value in subquery")])?.build()?;
        membership.subquery = membership.subquery.with_plan(Arc::new(plan));
    }
    Ok(membership)
}

/// The columns of a subquery that gives rows, and the plan that has them.
fn columns_of(plan: &LogicalPlan) -> Result<(Vec<Expr>, Arc<LogicalPlan>)> {
    if let LogicalPlan::Projection(projection) = plan
        && let [row] = &projection.expr[..]
        && let Some(columns) = values_of(row)
    {
        return Ok((columns.to_vec(), Arc::clone(&projection.input)));
    }
    Err(refused("a row beside IN of this subquery"))
}

/// Values of a subquery as columns without a table, and the plan that has them.
fn renamed_columns(values: Vec<Expr>, plan: Arc<LogicalPlan>) -> Result<(Vec<Expr>, Arc<LogicalPlan>)> {
    let names: Vec<String> = (0..values.len()).map(|number| format!("value {number} in subquery")).collect();
    let named = values.into_iter().zip(&names).map(|(value, name)| value.unalias().alias(name));
    let plan = LogicalPlanBuilder::from(plan).project(named)?.build()?;
    Ok((names.into_iter().map(|name| Expr::Column(Column::from_name(name))).collect(), Arc::new(plan)))
}

/// Whether an expression gives the same value in two places.
fn can_move(expr: &Expr) -> bool {
    !expr.is_volatile()
}
