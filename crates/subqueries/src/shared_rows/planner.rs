//! Operators of rows that a plan computes once and reads in several places.

use std::sync::Arc;

use super::operator::{SharedRowsExec, SharedScanExec};
use super::{SharedRows, SharedSource};
use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::Result as DataFusionResult;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{LogicalPlan, TableScan, UserDefinedLogicalNode};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::{ExtensionPlanner, PhysicalPlanner};

/// Plans them.
#[derive(Debug)]
pub struct SharedRowsPlanner;

#[async_trait]
impl ExtensionPlanner for SharedRowsPlanner {
    async fn plan_extension(
        &self,
        _planner: &dyn PhysicalPlanner,
        node: &dyn UserDefinedLogicalNode,
        _logical_inputs: &[&LogicalPlan],
        physical_inputs: &[Arc<dyn ExecutionPlan>],
        _session: &dyn Session,
        _context: &PhysicalPlanningContext,
    ) -> DataFusionResult<Option<Arc<dyn ExecutionPlan>>> {
        match (node.as_any().downcast_ref::<SharedRows>(), physical_inputs) {
            (Some(node), [definition, body]) => {
                let rows = SharedRowsExec::new(node.number, Arc::clone(definition), Arc::clone(body))?;
                Ok(Some(Arc::new(rows)))
            }
            _ => Ok(None),
        }
    }

    async fn plan_table_scan(
        &self,
        _planner: &dyn PhysicalPlanner,
        scan: &TableScan,
        _session: &dyn Session,
        _context: &PhysicalPlanningContext,
    ) -> DataFusionResult<Option<Arc<dyn ExecutionPlan>>> {
        let Some(source) = scan.source.downcast_ref::<SharedSource>() else { return Ok(None) };
        let (projection, schema) = (scan.projection.clone(), scan.projected_schema.inner());
        Ok(Some(Arc::new(SharedScanExec::new(source.number, projection, schema))))
    }
}
