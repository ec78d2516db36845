//! DataFusion's rule that gives operators the partitions and orders that they ask for goes through a plan eight times. Most carved
//! plans are one operator with one partition, perhaps with a sort, a limit or expressions above it, and have what they ask for.
//!
//! Invariant: what the rule is left out for is what it would leave as it is.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::stats::Precision;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{LexOrdering, PhysicalExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::ensure_requirements::EnsureRequirements;
use datafusion::physical_optimizer::output_requirements::OutputRequirementExec;
use datafusion::physical_plan::limit::GlobalLimitExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

use crate::around::around_physical;

/// The rule for plans that may lack something.
pub fn unsettled(rule: EnsureRequirements) -> impl PhysicalOptimizerRule + Send + Sync + 'static {
    around_physical(rule, |rule, plan, config| match is_settled(&plan, config)? {
        true => Ok(plan),
        false => rule.optimize(plan, config),
    })
}

/// Whether a plan is an operator without inputs and with one partition, below limits, and below a sort if an order is asked for; the
/// sort may be by what is computed of few rows.
fn is_settled(plan: &Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<bool> {
    let (mut node, mut is_ordered, mut is_sorted) = (plan, false, false);
    let mut keys: Option<&LexOrdering> = None;
    let mut is_projected = false;
    loop {
        let inputs = node.children();
        let [input] = inputs.as_slice() else {
            let is_whole = inputs.is_empty() && node.output_partitioning().partition_count() == 1;
            return Ok(is_whole && is_ordered == is_sorted);
        };
        if let Some(sort) = node.downcast_ref::<SortExec>() {
            let is_needed = !input.equivalence_properties().ordering_satisfy(sort.expr().iter().cloned())?;
            if is_sorted || is_projected || sort.preserve_partitioning() || !is_needed {
                return Ok(false);
            }
            (is_sorted, keys) = (true, Some(sort.expr()));
        } else if let Some(projection) = node.downcast_ref::<ProjectionExec>() {
            // The rule puts sorts by columns below it, and has many rows computed in several partitions.
            let stays = keys.is_none_or(|keys| keys.iter().any(|key| is_computed(&key.expr, projection)));
            if is_projected || !stays || !has_few_rows(input, config)? {
                return Ok(false);
            }
            is_projected = true;
        } else if node.is::<OutputRequirementExec>() {
            is_ordered |= node.required_input_ordering().iter().any(Option::is_some);
        } else if !node.is::<GlobalLimitExec>() {
            return Ok(false);
        }
        node = input;
    }
}

/// Whether a projection computes the column that a key of a sort above it is.
fn is_computed(key: &Arc<dyn PhysicalExpr>, projection: &ProjectionExec) -> bool {
    let source = key.downcast_ref::<Column>().and_then(|column| projection.expr().get(column.index()));
    source.is_some_and(|source| !source.expr.is::<Column>())
}

fn has_few_rows(plan: &Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<bool> {
    let execution = &config.execution;
    let batch_rows = execution.batch_size.get();
    Ok(match StatisticsContext::new().compute(plan.as_ref(), &StatisticsArgs::new())?.num_rows {
        Precision::Exact(rows) => rows <= batch_rows,
        Precision::Inexact(rows) => execution.use_row_number_estimates_to_optimize_partitioning && rows <= batch_rows,
        Precision::Absent => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::datatypes::{DataType, Field, Schema};
    use datafusion::physical_expr::PhysicalSortExpr;
    use datafusion::physical_expr::expressions::{IsNullExpr, col};
    use datafusion::physical_optimizer::output_requirements::OutputRequirements;
    use datafusion::physical_plan::displayable;
    use datafusion::physical_plan::empty::EmptyExec;

    fn leaf(partitions: usize) -> Arc<dyn ExecutionPlan> {
        let schema = Schema::new(vec![Field::new("a", DataType::Int64, true), Field::new("b", DataType::Int64, true)]);
        Arc::new(EmptyExec::new(Arc::new(schema)).with_partitions(partitions))
    }

    fn sorted(input: Arc<dyn ExecutionPlan>, column: &str, fetch: Option<usize>) -> Arc<dyn ExecutionPlan> {
        let key = PhysicalSortExpr::new_default(col(column, &input.schema()).expect("a column"));
        Arc::new(SortExec::new(LexOrdering::new([key]).expect("a key"), input).with_fetch(fetch))
    }

    fn limited(input: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
        Arc::new(GlobalLimitExec::new(input, 1, Some(5)))
    }

    fn shown(plan: &Arc<dyn ExecutionPlan>) -> String {
        displayable(plan.as_ref()).indent(false).to_string()
    }

    /// Looks at a plan as it comes to the rule. One that lacks nothing must be left by DataFusion's rule as it is.
    #[track_caller]
    fn check(plan: Arc<dyn ExecutionPlan>, expect: bool) {
        let config = ConfigOptions::new();
        let plan = OutputRequirements::new_add_mode().optimize(plan, &config).expect("requirements");
        assert_eq!(is_settled(&plan, &config).expect("orders are known"), expect, "{}", shown(&plan));
        if expect {
            let ensured = EnsureRequirements::new().optimize(Arc::clone(&plan), &config).expect("the rule runs");
            assert_eq!(shown(&ensured), shown(&plan));
        }
    }

    #[test]
    fn operators_of_one_partition_lack_nothing_below_a_sort_and_limits() {
        check(leaf(1), true);
        check(limited(leaf(1)), true);
        check(sorted(leaf(1), "a", None), true);
        check(sorted(leaf(1), "a", Some(3)), true);
        check(limited(sorted(leaf(1), "b", None)), true);
    }

    /// Column `b`, and whether `a` is NULL.
    fn computed(input: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
        let column = |name: &str| col(name, &input.schema()).expect("a column");
        let exprs: Vec<(Arc<dyn PhysicalExpr>, String)> =
            vec![(column("b"), "b".to_owned()), (Arc::new(IsNullExpr::new(column("a"))), "n".to_owned())];
        Arc::new(ProjectionExec::try_new(exprs, Arc::clone(&input)).expect("a projection"))
    }

    #[test]
    fn what_is_computed_of_few_rows_lacks_nothing() {
        check(computed(leaf(1)), true);
        check(sorted(computed(leaf(1)), "n", None), true);
        check(limited(sorted(computed(leaf(1)), "n", Some(3))), true);
        check(sorted(computed(leaf(1)), "b", None), false);
        check(sorted(computed(leaf(2)), "n", None), false);
        check(computed(sorted(leaf(1), "a", None)), false);
    }

    #[test]
    fn what_may_lack_something_goes_through_the_rule() {
        check(leaf(2), false);
        check(sorted(leaf(2), "a", None), false);
        check(sorted(sorted(leaf(1), "a", None), "b", None), false);
        let input = sorted(leaf(1), "a", None);
        let only = vec![(col("b", &input.schema()).expect("a column"), "b".to_owned())];
        check(Arc::new(ProjectionExec::try_new(only, input).expect("a projection")), false);
    }
}
