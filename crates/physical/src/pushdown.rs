//! Which operators DataFusion may push filters through. Its rules carry a filter from an operator to its inputs by the names of
//! the columns, and through whatever carries a limit. Where a name stands for two columns the filter would come to test the
//! other one, and below a limit other rows would be the first ones: both give wrong answers, so that bars stand above such
//! operators while the rules run.
//!
//! Invariant: no bar is left in the plan afterwards.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{HashSet, JoinType};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::filter_pushdown::FilterPushdown;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::limit::LocalLimitExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::{ExecutionPlan, PhysicalExpr};

use forebay_context::PIPELINES;

use crate::around::{PhysicalRule, around_physical};

/// The limit of a bar: none. A limit passes no filter down.
const NO_LIMIT: usize = usize::MAX;

/// Operators without inputs that leave filters to those above them.
const WITHOUT_FILTERS: [&str; 3] = [PIPELINES, "EmptyExec", "PlaceholderRowExec"];

/// DataFusion's rule that pushes filters, with bars while it runs, for plans that have one.
pub fn filters_barred() -> impl PhysicalOptimizerRule + Send + Sync + 'static {
    around_physical(FilterPushdown::new(), |rule, plan, config| match has_filter(&*plan) {
        true => push(rule, plan, config),
        false => Ok(plan),
    })
}

/// Its other half, which pushes filters that operators make of their rows, for plans that have one of these operators, and one that could
/// use such a filter.
pub fn made_filters_barred() -> impl PhysicalOptimizerRule + Send + Sync + 'static {
    around_physical(FilterPushdown::new_post_optimization(), |rule, plan, config| {
        match makes_filter(&*plan) && takes_filter(&*plan) {
            true => push(rule, plan, config),
            false => Ok(plan),
        }
    })
}

fn has_filter(plan: &dyn ExecutionPlan) -> bool {
    plan.is::<FilterExec>() || plan.children().into_iter().any(|input| has_filter(&**input))
}

fn makes_filter(plan: &dyn ExecutionPlan) -> bool {
    let is_sort = || plan.downcast_ref::<SortExec>().is_some_and(|sort| sort.fetch().is_some());
    let makes_one = plan.is::<FilterExec>() || plan.is::<HashJoinExec>() || plan.is::<AggregateExec>() || is_sort();
    makes_one || plan.children().into_iter().any(|input| makes_filter(&**input))
}

/// Whether rows come from anything but pipelines, which make such filters themselves.
fn takes_filter(plan: &dyn ExecutionPlan) -> bool {
    let inputs = plan.children();
    let has_own = inputs.is_empty() && !WITHOUT_FILTERS.contains(&plan.name());
    has_own || inputs.into_iter().any(|input| takes_filter(&**input))
}

/// Runs the rule with a bar above everything that no filter may be pushed through.
fn push(rule: &PhysicalRule, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
    let barred = plan.transform_up(|node| {
        if let Some(filter) = node.downcast_ref::<FilterExec>().filter(|filter| is_volatile(filter.predicate())) {
            // Below groups there are other rows for it to test.
            let bar = Arc::new(LocalLimitExec::new(Arc::clone(filter.input()), NO_LIMIT));
            return Ok(Transformed::yes(
                node.replace_children(vec![bar], ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))?,
            ));
        }
        let is_barred = node.fetch().is_some() || mistakes_columns(&*node);
        let bar = |input: Arc<dyn ExecutionPlan>| -> Arc<dyn ExecutionPlan> {
            Arc::new(LocalLimitExec::new(input, NO_LIMIT))
        };
        // Of lists and structs the join would pass on bounds, which DataFusion orders in another way than it compares.
        let is_nested = node.downcast_ref::<HashJoinExec>().is_some_and(has_nested_keys);
        let node = match is_nested {
            true => {
                let bars = node.children().into_iter().map(|input| bar(Arc::clone(input))).collect();
                node.replace_children(bars, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))?
            }
            false => node,
        };
        let node = if is_barred { bar(node) } else { node };
        Ok(if is_barred || is_nested { Transformed::yes(node) } else { Transformed::no(node) })
    })?;
    let pushed = rule.optimize(barred.data, config)?;
    if !barred.transformed {
        return Ok(pushed);
    }
    pushed
        .transform_up(|node| {
            let bar = node.downcast_ref::<LocalLimitExec>().filter(|limit| limit.fetch() == NO_LIMIT);
            Ok(match bar.map(|bar| Arc::clone(bar.input())) {
                Some(input) => Transformed::yes(input),
                None => Transformed::no(node),
            })
        })
        .data()
}

/// Whether a join is by lists, structs or maps.
fn has_nested_keys(join: &HashJoinExec) -> bool {
    let schema = join.left().schema();
    join.on().iter().any(|(left, _)| left.data_type(&schema).is_ok_and(|own| own.is_nested()))
}

/// Whether a filter of the columns that an operator makes could come to test other columns of its inputs.
fn mistakes_columns(node: &dyn ExecutionPlan) -> bool {
    let inputs = node.children();
    if inputs.is_empty() {
        return false;
    }
    if has_namesakes(node) || inputs.iter().any(|input| has_namesakes(&***input)) {
        return true;
    }
    if let Some(join) = node.downcast_ref::<HashJoinExec>() {
        // A filter of a semi join's keys is pushed to both sides, under the name that the key has on the side that is kept.
        let is_left = match join.join_type() {
            JoinType::LeftSemi => true,
            JoinType::RightSemi => false,
            _ => return false,
        };
        let other_side = if is_left { join.right().schema() } else { join.left().schema() };
        return join.on().iter().any(|(left, right)| {
            let (kept, other) = if is_left { (left, right) } else { (right, left) };
            column_name(kept).is_some_and(|name| other_side.index_of(name).is_ok() && column_name(other) != Some(name))
        });
    }
    if let Some(aggregate) = node.downcast_ref::<AggregateExec>() {
        return aggregate.group_expr().expr().iter().any(|(key, name)| column_name(key) != Some(name.as_str()));
    }
    let renames = |input: &Arc<dyn ExecutionPlan>| {
        let (above, below) = (node.schema(), input.schema());
        above.fields().iter().zip(below.fields()).any(|(above, below)| above.name() != below.name())
    };
    node.is::<UnionExec>() && inputs.into_iter().any(renames)
}

/// The name of a column; `None` of any other expression.
fn column_name(expr: &Arc<dyn PhysicalExpr>) -> Option<&str> {
    expr.downcast_ref::<Column>().map(Column::name)
}

/// Whether two columns that an operator makes have one name.
fn has_namesakes(node: &dyn ExecutionPlan) -> bool {
    let schema = node.schema();
    let mut names = HashSet::with_capacity(schema.fields().len());
    schema.fields().iter().any(|field| !names.insert(field.name()))
}
