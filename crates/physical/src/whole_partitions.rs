//! Windows that are computed of whole partitions. DataFusion computes windows while rows come, and takes a frame that ends before
//! its row to be complete with that row. That of a row whose order is NULL ends with the last such row, which may still come.

use std::sync::Arc;

use datafusion::arrow::datatypes::Schema;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{WindowFrameBound, WindowFrameUnits};
use datafusion::physical_expr::window::WindowExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion::physical_plan::{ExecutionPlan, InputOrderMode};

/// Has windows with such frames wait for their partitions. Must run behind the rules that know windows.
#[derive(Debug)]
pub struct WholePartitions;

impl PhysicalOptimizerRule for WholePartitions {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|node| match node.downcast_ref::<BoundedWindowAggExec>() {
            Some(window) if is_early(window)? => {
                let is_divided = !window.partition_keys().is_empty();
                let (windows, input) = (window.window_expr().to_vec(), Arc::clone(window.input()));
                Ok(Transformed::yes(Arc::new(WindowAggExec::try_new(windows, input, is_divided)?)))
            }
            _ => Ok(Transformed::no(node)),
        })
        .data()
    }

    fn name(&self) -> &str {
        "whole_partitions"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Whether one of these windows may be computed too early.
fn is_early(windows: &BoundedWindowAggExec) -> Result<bool> {
    let schema = windows.input().schema();
    for window in windows.window_expr() {
        if ends_before_null(window.as_ref(), &schema)? {
            return Ok(windows.input_order_mode == InputOrderMode::Sorted);
        }
    }
    Ok(false)
}

fn ends_before_null(window: &dyn WindowExpr, schema: &Schema) -> Result<bool> {
    let frame = window.get_window_frame();
    let WindowFrameBound::Preceding(distance) = &frame.end_bound else { return Ok(false) };
    let is_zero = ScalarValue::new_zero(&distance.data_type()).is_ok_and(|zero| zero == *distance);
    let [order] = window.order_by() else { return Ok(false) };
    Ok(frame.units == WindowFrameUnits::Range && !is_zero && order.expr.nullable(schema)?)
}
