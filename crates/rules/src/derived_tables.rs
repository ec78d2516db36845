//! Derived tables, views and names of WITH, between their plan and that of what reads them.

use datafusion::common::{Result, not_impl_err};
use datafusion::logical_expr::planner::{PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning};
use datafusion::logical_expr::sqlparser::ast::{TableFactor, TableSample, TableSampleKind, TableSampleModifier};

use forebay_subqueries::shared_rows::materialized::marked;

use crate::dependencies::without_dependencies;
use crate::set_operations::with_united_columns;

/// Plans derived tables and names of WITH as DataFusion does; then their functional dependencies are taken away, and their
/// set operations get the types of all inputs, before anything is planned that reads them.
///
/// The way to DataFusion's own planner leads through all planners of relations again, this one too. So that it knows a relation
/// which it asked for itself, that has a sample without a size: no statement can say so, and DataFusion does not look at
/// samples.
#[derive(Debug)]
pub struct DerivedTables;

impl RelationPlanner for DerivedTables {
    fn plan_relation(
        &self,
        mut relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        let sample = match &mut relation {
            TableFactor::Derived { sample, .. } | TableFactor::Table { args: None, sample, .. } => sample,
            _ => return Ok(RelationPlanning::Original(Box::new(relation))),
        };
        match sample.take() {
            None => *sample = Some(mark()),
            Some(found) if found == mark() => return Ok(RelationPlanning::Original(Box::new(relation))),
            Some(_) => return not_impl_err!("TABLESAMPLE is not supported"),
        }
        let is_name = matches!(relation, TableFactor::Table { .. });
        let plan = context.plan(relation)?;
        let plan = if is_name { marked(plan)? } else { plan };
        let plan = with_united_columns(without_dependencies(plan)?)?;
        Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(plan, None))))
    }
}

/// The sample of a relation that DataFusion is to plan.
fn mark() -> TableSampleKind {
    let modifier = TableSampleModifier::TableSample;
    let sample = TableSample { modifier, name: None, quantity: None, seed: None, bucket: None, offset: None };
    TableSampleKind::AfterTableAlias(Box::new(sample))
}
