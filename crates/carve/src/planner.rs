//! How DataFusion comes by the operators of a query: what pipelines can run is cut out of the optimised plan, as large as
//! possible, and the operators are made of what is left.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::Result as DataFusionResult;
use datafusion::common::display::{PlanType, StringifiedPlan};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::execution::context::QueryPlanner;
use datafusion::logical_expr::{Explain, Extension, LogicalPlan, Sort};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::{DefaultPhysicalPlanner, PhysicalPlanner};
use forebay_aggregates::grouping_sets::GroupedTwice;
use forebay_context::settings::Execution;
use forebay_context::statement::StatementContext;
use forebay_subqueries::plans::with_named_keys;
use forebay_tables::explain_plan::{AnalyzeExec, of_operators, with_operators};
use forebay_tables::fetched::{node::FetchPlanner, with_fetched};
use forebay_tables::narrow::widened;

use crate::node::PipelinesNode;
use crate::operator::PipelinesPlanner;
use crate::reason::Reason;
use forebay_subqueries::rounds::RoundsPlanner;
use forebay_subqueries::shared_rows::planner::SharedRowsPlanner;
use forebay_subqueries::shared_rows::repeated::{Knowledge, shared};

/// Plans queries: pipelines where they can, DataFusion's operators elsewhere.
#[derive(Debug)]
pub struct CarvingPlanner;

#[async_trait]
impl QueryPlanner for CarvingPlanner {
    async fn create_physical_plan(
        &self,
        plan: &LogicalPlan,
        session: &dyn Session,
    ) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
        operators(&carved(plan.clone(), session)?, session).await
    }
}

/// An optimised plan with everything cut out that pipelines can run: what [`operators`] are made of, as often as it is run.
pub fn carved(optimized: LogicalPlan, session: &dyn Session) -> DataFusionResult<LogicalPlan> {
    let plan = with_fetched(widened(optimized)?, session)?;
    if is_carved(session) { carve(plan, session) } else { Ok(plan) }
}

/// The operators of a carved plan.
pub async fn operators(plan: &LogicalPlan, session: &dyn Session) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
    let planner = |counted| {
        let pipelines = Arc::new(PipelinesPlanner { counted });
        DefaultPhysicalPlanner::with_extension_planners(vec![
            pipelines,
            Arc::new(FetchPlanner),
            Arc::new(SharedRowsPlanner),
            Arc::new(RoundsPlanner),
        ])
    };
    let plan = with_named_keys(plan)?;
    match plan.as_ref() {
        LogicalPlan::Analyze(analyze) => {
            let explained = planner(true).create_physical_plan(&analyze.input, session).await?;
            Ok(Arc::new(AnalyzeExec::new(explained, Arc::clone(analyze.schema.inner()))))
        }
        LogicalPlan::Explain(explain) => {
            let inner = with_named_keys(&explain.plan)?;
            let explained = planner(false).create_physical_plan(&inner, session).await;
            if let Ok(explained) = &explained
                && let Some(answer) = of_operators(explain, explained)
            {
                return Ok(answer);
            }
            // A plan that cannot be made is told by what DataFusion says there.
            let planned = planner(false).create_physical_plan(&plan, session).await?;
            Ok(explained.map_or_else(|_| Arc::clone(&planned), |explained| with_operators(&planned, &explained)))
        }
        _ => planner(false).create_physical_plan(&plan, session).await,
    }
}

/// Whether pipelines run the session's queries.
fn is_carved(session: &dyn Session) -> bool {
    let runs_statements = session.config().get_extension::<StatementContext>().is_some();
    runs_statements && Execution::of(session.config()) != Execution::DataFusion
}

/// `plan` with everything cut out that pipelines can run.
fn carve(plan: LogicalPlan, session: &dyn Session) -> DataFusionResult<LogicalPlan> {
    let mut reasons = Vec::new();
    let LogicalPlan::Explain(explain) = plan else {
        return shared(rewrite(plan, session, &mut reasons)?, &CarvedPlans);
    };
    let inner = shared(rewrite(explain.plan.as_ref().clone(), session, &mut reasons)?, &CarvedPlans)?;
    let mut stringified_plans = explain.stringified_plans;
    reasons.dedup();
    for reason in reasons {
        let plan_type = PlanType::OptimizedLogicalPlan { optimizer_name: "left to DataFusion".to_owned() };
        stringified_plans.push(StringifiedPlan::new(plan_type, reason.to_string()));
    }
    Ok(LogicalPlan::Explain(Explain { plan: Arc::new(inner), stringified_plans, ..explain }))
}

/// What is known of plans that were carved.
struct CarvedPlans;

impl Knowledge for CarvedPlans {
    /// Whether a subtree keeps its rows anyway, or has few of them for those that it reads.
    fn is_worth_it(&self, plan: &LogicalPlan) -> bool {
        match plan {
            LogicalPlan::Aggregate(_) | LogicalPlan::Window(_) => true,
            LogicalPlan::Projection(projection) => self.is_worth_it(&projection.input),
            LogicalPlan::Filter(filter) => self.is_worth_it(&filter.input),
            LogicalPlan::SubqueryAlias(alias) => self.is_worth_it(&alias.input),
            _ => self.hidden(plan).is_some_and(|carved| self.is_worth_it(carved)),
        }
    }

    fn hidden<'a>(&self, plan: &'a LogicalPlan) -> Option<&'a LogicalPlan> {
        let LogicalPlan::Extension(extension) = plan else { return None };
        let node: &PipelinesNode = extension.node.as_any().downcast_ref()?;
        Some(&node.carved().plan)
    }
}

/// Whether there is a point in trying: a join or an aggregation with nothing above it that pipelines never run.
fn may_be_carved(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(projection) => may_be_carved(&projection.input),
        LogicalPlan::Filter(filter) => may_be_carved(&filter.input),
        LogicalPlan::SubqueryAlias(alias) => may_be_carved(&alias.input),
        LogicalPlan::Join(_) | LogicalPlan::Aggregate(_) => true,
        _ => false,
    }
}

fn rewrite(plan: LogicalPlan, session: &dyn Session, reasons: &mut Vec<Reason>) -> DataFusionResult<LogicalPlan> {
    // Pipelines make the groups of all keys, DataFusion those of each set.
    if let LogicalPlan::Aggregate(aggregate) = &plan
        && let Some(twice) = GroupedTwice::of(aggregate)?
        && let Ok(node) = PipelinesNode::carve(&twice.groups, session)
    {
        return twice.over(LogicalPlan::Extension(Extension { node: Arc::new(node) }));
    }
    if may_be_carved(&plan) {
        match PipelinesNode::carve(&plan, session) {
            Ok(node) => return Ok(LogicalPlan::Extension(Extension { node: Arc::new(node) })),
            Err(reason) if matches!(plan, LogicalPlan::Join(_) | LogicalPlan::Aggregate(_)) => reasons.push(reason),
            Err(_) => {}
        }
    }
    if let LogicalPlan::Sort(sort) = &plan
        && sort.fetch.is_some()
        && may_be_carved(&sort.input)
        && let Ok(node) = PipelinesNode::carve(&sort.input, session)
    {
        let node = LogicalPlan::Extension(Extension { node: Arc::new(node.with_first(sort)) });
        return Ok(LogicalPlan::Sort(Sort { input: Arc::new(node), ..sort.clone() }));
    }
    let mut below = |plan: LogicalPlan| Ok(Transformed::yes(rewrite(plan, session, reasons)?));
    let plan = plan.map_subqueries(&mut below)?.data;
    Ok(plan.map_children(&mut below)?.data)
}
