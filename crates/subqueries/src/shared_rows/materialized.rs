//! Names of WITH whose rows may differ from run to run: `WITH q AS (SELECT random() AS r) SELECT * FROM q AS x, q AS y` has the same `r`
//! in both. DataFusion puts the query in the place of each name. Here what stands there is known to be of one query, until the plan
//! has its types; then the rows are computed once.
//!
//! Invariant: queries are the same where they are planned once, whatever their text. Must not know: syntax trees.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchemaRef, Result, internal_err};
use datafusion::logical_expr::{Expr, Extension, LogicalPlan, SubqueryAlias, UserDefinedLogicalNodeCore};
use datafusion::optimizer::AnalyzerRule;

use super::{Shared, SharedRows, scanned};
use crate::plans::{any_node, is_repeatable, rewrite_nodes};
use crate::references::outer_references;
use crate::rounds::KeyedRecursion;

/// The query of a name of WITH, where it is named.
#[derive(Debug, Clone)]
struct MaterializedCte {
    /// The query as it was planned: all that stands where the name does points to it.
    query: Arc<LogicalPlan>,
    /// The same, as rules have left it.
    input: Arc<LogicalPlan>,
}

impl MaterializedCte {
    fn of(plan: &LogicalPlan) -> Option<&Self> {
        match plan {
            LogicalPlan::Extension(extension) => extension.node.as_any().downcast_ref(),
            _ => None,
        }
    }

    fn address(&self) -> usize {
        Arc::as_ptr(&self.query).addr()
    }
}

impl PartialEq for MaterializedCte {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.query, &other.query) && self.input == other.input
    }
}

impl Eq for MaterializedCte {}

impl Hash for MaterializedCte {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.address().hash(state);
        self.input.hash(state);
    }
}

impl PartialOrd for MaterializedCte {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        self.address().partial_cmp(&other.address())
    }
}

impl UserDefinedLogicalNodeCore for MaterializedCte {
    fn name(&self) -> &str {
        "MaterializedCte"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        self.input.schema()
    }

    fn expressions(&self) -> Vec<Expr> {
        Vec::new()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MaterializedCte")
    }

    fn with_exprs_and_inputs(&self, _exprs: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<Self> {
        let Ok([input]) = <[LogicalPlan; 1]>::try_from(inputs) else {
            return internal_err!("a name of WITH has one query");
        };
        Ok(Self { query: Arc::clone(&self.query), input: Arc::new(input) })
    }
}

/// The plan of a name in FROM. If the name may stand for a query of WITH whose rows differ from run to run, the plan says which query that is.
///
/// # Errors
/// Those of making plans.
pub fn marked(plan: LogicalPlan) -> Result<LogicalPlan> {
    let LogicalPlan::SubqueryAlias(SubqueryAlias { input, alias, .. }) = &plan else { return Ok(plan) };
    if is_repeatable(input, |node| matches!(node, LogicalPlan::Limit(_)))? {
        return Ok(plan);
    }
    // An alias of the reference stands above the name.
    let below = match input.as_ref() {
        LogicalPlan::SubqueryAlias(_) => marked(input.as_ref().clone())?,
        LogicalPlan::Projection(columns) if matches!(columns.input.as_ref(), LogicalPlan::SubqueryAlias(_)) => {
            input.with_new_exprs(input.expressions(), vec![marked(columns.input.as_ref().clone())?])?
        }
        _ => {
            let node = MaterializedCte { query: Arc::clone(input), input: Arc::clone(input) };
            LogicalPlan::Extension(Extension { node: Arc::new(node) })
        }
    };
    SubqueryAlias::try_new(Arc::new(below), alias.clone()).map(LogicalPlan::SubqueryAlias)
}

/// `plan` with queries in the place of names of WITH, of those queries for whose addresses `is_written_out` holds.
///
/// # Errors
/// Those of making plans.
pub fn written_out(plan: LogicalPlan, is_written_out: impl Fn(usize) -> bool) -> Result<LogicalPlan> {
    let is_one = |node: &LogicalPlan| MaterializedCte::of(node).is_some_and(|cte| is_written_out(cte.address()));
    rewrite_nodes(plan, is_one, |node| match MaterializedCte::of(&node) {
        Some(cte) => Ok(Transformed::yes(cte.input.as_ref().clone())),
        None => Ok(Transformed::no(node)),
    })
    .data()
}

/// Whether a plan reads rows of a name of WITH that others read, too.
pub(crate) fn has_shared_cte(plan: &LogicalPlan) -> Result<bool> {
    any_node(plan, |node| Ok(MaterializedCte::of(node).is_some()))
}

/// The queries that stand in a plan, each as often as it does, but for those that name columns around them: their rows differ from
/// one row outside to the next.
fn addresses(plan: &LogicalPlan) -> Result<Vec<usize>> {
    let mut found = Vec::new();
    plan.apply_with_subqueries(|node| {
        if let Some(cte) = MaterializedCte::of(node)
            && outer_references(&cte.input)?.is_empty()
        {
            found.push(cte.address());
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(found)
}

/// Leaves names of WITH alone that are there several times. Must run first: to all other rules names that are there once are subqueries.
#[derive(Debug)]
pub struct LoneCtes;

impl AnalyzerRule for LoneCtes {
    fn name(&self) -> &str {
        "lone_ctes"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        if !has_shared_cte(&plan)? {
            return Ok(plan);
        }
        let found = addresses(&plan)?;
        // A step of a recursion reads other rows each time.
        let recurs =
            any_node(&plan, |node| Ok(matches!(node, LogicalPlan::RecursiveQuery(_)) || KeyedRecursion::is(node)))?;
        written_out(plan, |address| recurs || found.iter().filter(|other| **other == address).count() < 2)
    }
}

/// Computes the rows of a name of WITH once for all places that name it. Must run behind the rules that give a plan its types, and those
/// that share rows themselves.
#[derive(Debug)]
pub struct SharedCtes;

impl AnalyzerRule for SharedCtes {
    fn name(&self) -> &str {
        "shared_ctes"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        if has_shared_cte(&plan)? { shared(plan) } else { Ok(plan) }
    }
}

fn shared(mut plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut number = 0;
    plan.apply_with_subqueries(|node| {
        number = SharedRows::of(node).map_or(number, |rows| number.max(rows.number));
        Ok(TreeNodeRecursion::Continue)
    })?;
    let mut definitions = Vec::new();
    while let Some(cte) = innermost(&plan)? {
        number += 1;
        let rows = Shared { number, schema: Arc::clone(cte.input.schema()) };
        plan = plan
            .transform_up_with_subqueries(|node| match MaterializedCte::of(&node) {
                Some(other) if other.address() == cte.address() => rows.reader().map(Transformed::yes),
                _ => Ok(Transformed::no(node)),
            })
            .data()?;
        definitions.push((rows, cte.input));
    }
    // The last ones may read the first ones.
    definitions.into_iter().rev().try_fold(plan, |plan, (rows, definition)| {
        let all = readers(&plan, rows.number)?;
        over_readers(plan, &rows, &definition, all)
    })
}

/// `plan` with the definition of rows at the lowest node below which all of their readers are, so that orders stay above it.
fn over_readers(plan: LogicalPlan, rows: &Shared, definition: &LogicalPlan, all: usize) -> Result<LogicalPlan> {
    for input in plan.inputs() {
        if readers(input, rows.number)? == all {
            return plan
                .map_children(|child| match readers(&child, rows.number)? == all {
                    true => over_readers(child, rows, definition, all).map(Transformed::yes),
                    false => Ok(Transformed::no(child)),
                })
                .data();
        }
    }
    Ok(rows.over(definition.clone(), plan))
}

/// How often rows are read, in subqueries too.
fn readers(plan: &LogicalPlan, number: usize) -> Result<usize> {
    let mut count = 0;
    plan.apply_with_subqueries(|node| {
        count += usize::from(scanned(node) == Some(number));
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(count)
}

/// One that has no other inside.
fn innermost(plan: &LogicalPlan) -> Result<Option<MaterializedCte>> {
    let mut found = None;
    plan.apply_with_subqueries(|node| {
        if let Some(cte) = MaterializedCte::of(node)
            && !has_shared_cte(&cte.input)?
        {
            found = Some(cte.clone());
            return Ok(TreeNodeRecursion::Stop);
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(found)
}
