//! Scans that no row passes, for what is the same for all rows has turned out not to be true:
//!
//! ```text
//! SELECT … FROM (SELECT 's' AS shop, … FROM a UNION ALL SELECT 'w', … FROM b) WHERE shop = 's'     reads no b
//! ```
//!
//! DataFusion makes an empty relation of a filter, but the condition has gone on into the scan by the time that it is computed.

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{EmptyRelation, Expr, LogicalPlan, TableScan};
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

use forebay_subqueries::plans::any_node;

/// Makes empty relations of them. Stands in front of the rule that looks for these.
#[derive(Debug)]
pub struct EmptyScans;

impl OptimizerRule for EmptyScans {
    fn name(&self) -> &str {
        "empty_scans"
    }

    fn rewrite(&self, plan: LogicalPlan, _config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        if !any_node(&plan, |node| Ok(matches!(node, LogicalPlan::TableScan(scan) if is_empty(scan))))? {
            return Ok(Transformed::no(plan));
        }
        plan.transform_up_with_subqueries(|node| match node {
            LogicalPlan::TableScan(scan) if is_empty(&scan) => {
                let empty = EmptyRelation { produce_one_row: false, schema: Arc::clone(&scan.projected_schema) };
                Ok(Transformed::yes(LogicalPlan::EmptyRelation(empty)))
            }
            node => Ok(Transformed::no(node)),
        })
    }
}

/// Whether one of a scan's filters is false, or NULL, for all rows.
fn is_empty(scan: &TableScan) -> bool {
    let is_never = |filter: &Expr| {
        matches!(filter, Expr::Literal(ScalarValue::Boolean(None | Some(false)) | ScalarValue::Null, _))
    };
    scan.filters.iter().any(is_never)
}
