//! How the rules for logical plans go through a plan: each once, one after the other, past the plans and nodes that it has
//! nothing for. DataFusion's own way takes every node of a plan apart for every rule, hashes the plan to see whether it has
//! changed, and checks it twice more.
//!
//! Invariant: a rule sees every node that it would change; a rule that changes a plan keeps the names and types of its columns.

use std::ops::BitOr;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Distinct, LogicalPlan};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use recursive::recursive;

use crate::around::LogicalRule;

/// Kinds of nodes of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Nodes(u16);

impl Nodes {
    /// Whatever there is.
    pub const ALL: Self = Self(u16::MAX);
    /// Filters.
    pub const FILTER: Self = Self(1);
    /// Joins.
    pub const JOIN: Self = Self(1 << 1);
    /// Groups.
    pub const AGGREGATE: Self = Self(1 << 2);
    /// Sorts.
    pub const SORT: Self = Self(1 << 3);
    /// Limits.
    pub const LIMIT: Self = Self(1 << 4);
    /// UNION ALL.
    pub const UNION: Self = Self(1 << 5);
    /// DISTINCT.
    pub const DISTINCT: Self = Self(1 << 6);
    /// Relations without rows, or with one that has no columns.
    pub const EMPTY: Self = Self(1 << 7);
    /// Nodes that DataFusion does not know.
    pub const EXTENSION: Self = Self(1 << 8);
    /// A node with a subquery in an expression. Not asked of single nodes.
    pub const SUBQUERY: Self = Self(1 << 9);
    const OTHER: Self = Self(1 << 10);

    fn has(self, others: Self) -> bool {
        self.0 & others.0 != 0
    }

    fn of(node: &LogicalPlan) -> Self {
        match node {
            LogicalPlan::Filter(_) => Self::FILTER,
            LogicalPlan::Join(_) => Self::JOIN,
            LogicalPlan::Aggregate(_) => Self::AGGREGATE,
            LogicalPlan::Sort(_) => Self::SORT,
            LogicalPlan::Limit(_) => Self::LIMIT,
            LogicalPlan::Union(_) => Self::UNION,
            LogicalPlan::Distinct(_) => Self::DISTINCT,
            LogicalPlan::EmptyRelation(_) => Self::EMPTY,
            LogicalPlan::Extension(_) => Self::EXTENSION,
            _ => Self::OTHER,
        }
    }

    /// All nodes of a plan and of its subqueries.
    fn of_plan(plan: &LogicalPlan) -> Result<Self> {
        let mut nodes = Self(0);
        plan.apply(|node| {
            nodes = nodes | Self::of(node);
            node.apply_subqueries(|subquery| {
                nodes = nodes | Self::SUBQUERY | Self::of_plan(subquery)?;
                Ok(TreeNodeRecursion::Continue)
            })
        })?;
        Ok(nodes)
    }

    /// As [`Nodes::of_plan`], of a plan without subqueries.
    fn of_operators(plan: &LogicalPlan) -> Result<Self> {
        let mut nodes = Self(0);
        plan.apply(|node| {
            nodes = nodes | Self::of(node);
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(nodes)
    }
}

impl BitOr for Nodes {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// A rule with what it is run for.
#[derive(Debug, Clone)]
pub struct Step {
    rule: Arc<LogicalRule>,
    plans: Nodes,
    nodes: Nodes,
}

impl Step {
    /// A rule that is run for every plan, and sees all of its nodes.
    pub fn new(rule: impl OptimizerRule + Send + Sync + 'static) -> Self {
        Self { rule: Arc::new(rule), plans: Nodes::ALL, nodes: Nodes::ALL }
    }

    /// It leaves plans as they are that have none of these nodes.
    pub fn in_plans_with(self, plans: Nodes) -> Self {
        Self { plans, ..self }
    }

    /// It leaves all other nodes as they are; nothing of a rule that goes through plans by itself.
    pub fn at(self, nodes: Nodes) -> Self {
        Self { nodes, ..self }
    }

    /// The rule alone.
    pub fn rule(&self) -> &Arc<LogicalRule> {
        &self.rule
    }

    fn run(
        &self,
        mut plan: LogicalPlan,
        has_subqueries: bool,
        config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        let at_nodes = |node: LogicalPlan| match Nodes::of(&node).has(self.nodes) {
            true => self.rule.rewrite(node, config),
            false => Ok(Transformed::no(node)),
        };
        match (self.rule.apply_order(), has_subqueries) {
            (None, _) => self.rule.rewrite(plan, config),
            // Rules that make joins of subqueries look at those of every node.
            (Some(ApplyOrder::TopDown), true) => plan.transform_down_with_subqueries(at_nodes),
            (Some(ApplyOrder::BottomUp), true) => plan.transform_up_with_subqueries(at_nodes),
            (Some(order), false) => {
                let changed = self.run_in_place(&mut plan, order, config)?;
                Ok(Transformed::new_transformed(plan, changed))
            }
        }
    }

    /// Runs the rule at the nodes of a plan without subqueries, and tells whether it changed one. After an error the plan is an
    /// empty one.
    #[recursive]
    fn run_in_place(&self, plan: &mut LogicalPlan, order: ApplyOrder, config: &dyn OptimizerConfig) -> Result<bool> {
        let mut changed = false;
        if order == ApplyOrder::TopDown && Nodes::of(plan).has(self.nodes) {
            let done = self.rule.rewrite(std::mem::take(plan), config)?;
            *plan = done.data;
            changed = done.transformed;
            if done.tnr == TreeNodeRecursion::Stop {
                return Ok(changed);
            }
        }
        let mut has_other_inputs = false;
        changed |= for_each_input(plan, &mut |input| {
            let schema = Arc::clone(input.schema());
            let changed = self.run_in_place(input, order, config)?;
            has_other_inputs |= changed && *schema != **input.schema();
            Ok(changed)
        })?;
        if has_other_inputs {
            *plan = std::mem::take(plan).recompute_schema()?;
        }
        if order == ApplyOrder::BottomUp && Nodes::of(plan).has(self.nodes) {
            let done = self.rule.rewrite(std::mem::take(plan), config)?;
            *plan = done.data;
            changed |= done.transformed;
        }
        Ok(changed)
    }
}

/// Calls `f` with the inputs of a node, until an error, and tells whether it changed one of them.
fn for_each_input(plan: &mut LogicalPlan, f: &mut dyn FnMut(&mut LogicalPlan) -> Result<bool>) -> Result<bool> {
    let only = match plan {
        LogicalPlan::TableScan(_) | LogicalPlan::EmptyRelation(_) | LogicalPlan::Values(_) => return Ok(false),
        LogicalPlan::Projection(node) => &mut node.input,
        LogicalPlan::Filter(node) => &mut node.input,
        LogicalPlan::Window(node) => &mut node.input,
        LogicalPlan::Aggregate(node) => &mut node.input,
        LogicalPlan::Sort(node) => &mut node.input,
        LogicalPlan::Limit(node) => &mut node.input,
        LogicalPlan::SubqueryAlias(node) => &mut node.input,
        LogicalPlan::Unnest(node) => &mut node.input,
        LogicalPlan::Distinct(Distinct::All(input)) => input,
        LogicalPlan::Join(join) => {
            let left = f(Arc::make_mut(&mut join.left))?;
            return Ok(f(Arc::make_mut(&mut join.right))? || left);
        }
        LogicalPlan::Union(union) => {
            let mut changed = false;
            for input in &mut union.inputs {
                changed |= f(Arc::make_mut(input))?;
            }
            return Ok(changed);
        }
        LogicalPlan::Extension(extension) => {
            let mut inputs: Vec<LogicalPlan> = extension.node.inputs().into_iter().cloned().collect();
            let mut changed = false;
            for input in &mut inputs {
                changed |= f(input)?;
            }
            if changed {
                extension.node = extension.node.with_exprs_and_inputs(extension.node.expressions(), inputs)?;
            }
            return Ok(changed);
        }
        other => {
            let done = std::mem::take(other).map_children(|mut input| {
                let changed = f(&mut input)?;
                Ok(Transformed::new_transformed(input, changed))
            })?;
            *other = done.data;
            return Ok(done.transformed);
        }
    };
    f(Arc::make_mut(only))
}

/// Runs all steps once.
pub fn run(steps: &[Step], mut plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<LogicalPlan> {
    let mut nodes = Nodes::of_plan(&plan)?;
    for step in steps.iter() {
        if !nodes.has(step.plans) {
            continue;
        }
        let has_subqueries = nodes.has(Nodes::SUBQUERY);
        let schema = Arc::clone(plan.schema());
        let done = step
            .run(plan, has_subqueries, config)
            .map_err(|error| error.context(format!("Optimizer rule '{}' failed", step.rule.name())))?;
        plan = done.data;
        // Rules do not tell of all that they change in subqueries. None makes a subquery where there is none.
        if has_subqueries {
            nodes = Nodes::of_plan(&plan)?;
        } else if done.transformed {
            nodes = Nodes::of_operators(&plan)?;
        }
        if done.transformed && !schema.logically_equivalent_names_and_types(plan.schema()) {
            return datafusion::common::internal_err!(
                "the rule '{}' changed the columns of a plan from {schema} to {}",
                step.rule.name(),
                plan.schema()
            );
        }
    }
    Ok(plan)
}
