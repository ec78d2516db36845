//! From DataFusion's optimised plan to pipelines: the largest subtrees that pipelines can run are cut out of the plan and
//! become one operator each; what is above and beside them stays with DataFusion.
//!
//! Reading order: [`relation`] (what a subtree computes), [`carver`] with [`expression`] and [`table`], [`order`] (in which order),
//! [`emit`] (as which pipelines), [`operator`] (how they are run). Invariant: trying to carve never fails a query; what is
//! not understood completely is left to DataFusion, with a [`Reason`].

pub mod aggregates;
pub mod carver;
pub mod dictionaries;
pub mod display;
pub mod distinct;
pub mod eager;
pub mod early;
pub mod emit;
pub mod estimate;
pub mod expression;
pub mod interval;
pub mod node;
pub mod number;
pub mod operator;
pub mod order;
pub mod reduce;
pub mod registers;
pub mod relation;
pub mod scalar;
pub mod shape;
pub mod table;
pub mod text;
pub mod time;
pub mod tree;
pub mod types;

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::Result as DataFusionResult;
use datafusion::common::display::{PlanType, StringifiedPlan};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::execution::SessionState;
use datafusion::execution::context::QueryPlanner;
use datafusion::logical_expr::{Explain, Extension, LogicalPlan, Sort};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::{DefaultPhysicalPlanner, PhysicalPlanner};
use forebay_base::{Error, Result};

use crate::explain_plan::{AnalyzeExec, with_operators};
use crate::statement::StatementContext;
use node::PipelinesNode;
use operator::PipelinesPlanner;

/// What runs the parts of a query that pipelines can run; `SET execution`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Execution {
    /// Machine code.
    #[default]
    Compiled,
    /// The interpreter of the pipeline IR.
    Interpreter,
    /// DataFusion's operators: nothing is carved.
    DataFusion,
}

impl Execution {
    /// All of them, with their names in SQL.
    pub const ALL: [(&'static str, Self); 3] =
        [("compiled", Self::Compiled), ("interpreter", Self::Interpreter), ("datafusion", Self::DataFusion)];

    /// The execution of this name.
    pub fn parse(name: &str) -> Result<Self> {
        let known = Self::ALL.into_iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        known.map(|(_, execution)| execution).ok_or_else(|| {
            Error::input(format!("execution {name} does not exist")).hint("Use compiled, interpreter or datafusion")
        })
    }

    /// The session's.
    fn of(session: &dyn Session) -> Self {
        session.config().get_extension::<Self>().map_or_else(Self::default, |execution| *execution)
    }
}

/// Why a part of a plan is left to DataFusion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reason(String);

impl Reason {
    /// What it is that pipelines do not do.
    pub fn new(what: impl Into<String>) -> Self {
        Self(what.into())
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

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
        match is_carved(session) {
            true => operators(&carve(plan.clone(), session)?, session).await,
            false => operators(plan, session).await,
        }
    }
}

/// The optimised plan of a query, with everything cut out that pipelines can run: what [`operators`] are made of, as often
/// as it is run.
pub(crate) fn planned(plan: &LogicalPlan, state: &SessionState) -> DataFusionResult<LogicalPlan> {
    let plan = state.optimize(plan)?;
    if is_carved(state) { carve(plan, state) } else { Ok(plan) }
}

/// The operators of a carved plan.
pub(crate) async fn operators(plan: &LogicalPlan, session: &dyn Session) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
    let planner =
        |counted| DefaultPhysicalPlanner::with_extension_planners(vec![Arc::new(PipelinesPlanner { counted })]);
    match plan {
        LogicalPlan::Analyze(analyze) => {
            let explained = planner(true).create_physical_plan(&analyze.input, session).await?;
            Ok(Arc::new(AnalyzeExec::new(explained, Arc::clone(analyze.schema.inner()))))
        }
        LogicalPlan::Explain(explain) => {
            let planned = planner(false).create_physical_plan(plan, session).await?;
            // A plan that cannot be made is told by what DataFusion says there.
            match planner(false).create_physical_plan(&explain.plan, session).await {
                Ok(explained) => Ok(with_operators(&planned, &explained)),
                Err(_) => Ok(planned),
            }
        }
        _ => planner(false).create_physical_plan(plan, session).await,
    }
}

/// Whether pipelines run the session's queries.
fn is_carved(session: &dyn Session) -> bool {
    let runs_statements = session.config().get_extension::<StatementContext>().is_some();
    runs_statements && Execution::of(session) != Execution::DataFusion
}

/// `plan` with everything cut out that pipelines can run.
fn carve(plan: LogicalPlan, session: &dyn Session) -> DataFusionResult<LogicalPlan> {
    let mut reasons = Vec::new();
    let LogicalPlan::Explain(explain) = plan else {
        return rewrite(plan, session, &mut reasons);
    };
    let inner = rewrite(explain.plan.as_ref().clone(), session, &mut reasons)?;
    let mut stringified_plans = explain.stringified_plans;
    reasons.dedup();
    for reason in reasons {
        let plan_type = PlanType::OptimizedLogicalPlan { optimizer_name: "left to DataFusion".to_owned() };
        stringified_plans.push(StringifiedPlan::new(plan_type, reason.to_string()));
    }
    Ok(LogicalPlan::Explain(Explain { plan: Arc::new(inner), stringified_plans, ..explain }))
}

fn rewrite(plan: LogicalPlan, session: &dyn Session, reasons: &mut Vec<Reason>) -> DataFusionResult<LogicalPlan> {
    let is_candidate = matches!(
        plan,
        LogicalPlan::Projection(_)
            | LogicalPlan::Filter(_)
            | LogicalPlan::SubqueryAlias(_)
            | LogicalPlan::Join(_)
            | LogicalPlan::Aggregate(_)
    );
    if is_candidate {
        match PipelinesNode::carve(&plan, session) {
            Ok(node) => return Ok(LogicalPlan::Extension(Extension { node: Arc::new(node) })),
            Err(reason) if matches!(plan, LogicalPlan::Join(_) | LogicalPlan::Aggregate(_)) => reasons.push(reason),
            Err(_) => {}
        }
    }
    if let LogicalPlan::Sort(sort) = &plan
        && sort.fetch.is_some()
        && let Ok(node) = PipelinesNode::carve(&sort.input, session)
    {
        let node = LogicalPlan::Extension(Extension { node: Arc::new(node.with_first(sort)) });
        return Ok(LogicalPlan::Sort(Sort { input: Arc::new(node), ..sort.clone() }));
    }
    let mut below = |plan: LogicalPlan| Ok(Transformed::yes(rewrite(plan, session, reasons)?));
    let plan = plan.map_subqueries(&mut below)?.data;
    Ok(plan.map_children(&mut below)?.data)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn executions_are_known_by_name() {
        for (name, execution) in Execution::ALL {
            assert_eq!(Execution::parse(&name.to_uppercase()).expect("its own name"), execution);
        }
        assert!(Execution::parse("gpu").is_err());
    }
}
