//! What a plan tells of its statement's parameters.
//!
//! Must not know: which values they get.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::expr::Placeholder;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, LogicalPlan};
use forebay_base::Result;
use forebay_context::error::from_datafusion;

/// Types that the places of parameters ask for, where they say so: by name, with `$`.
pub fn parameter_types(plan: &LogicalPlan) -> Result<HashMap<String, DataType>> {
    let mut types = HashMap::new();
    let mut note = |expr: &Expr| {
        expr.apply(|part| {
            if let Expr::Placeholder(Placeholder { id, field: Some(field) }) = part
                && !field.data_type().is_null()
            {
                types.entry(id.clone()).or_insert_with(|| field.data_type().clone());
            }
            Ok(TreeNodeRecursion::Continue)
        })
    };
    let found = plan.apply_with_subqueries(|node| {
        if let LogicalPlan::Limit(limit) = node {
            for count in [&limit.skip, &limit.fetch].into_iter().flatten() {
                let number = Field::new("", DataType::Int64, true);
                if let Expr::Placeholder(Placeholder { id, field: None }) = &**count {
                    let known = Placeholder { id: id.clone(), field: Some(Arc::new(number)) };
                    note(&Expr::Placeholder(known))?;
                }
            }
        }
        let schema = merge_schema(&node.inputs());
        node.apply_expressions(|expr| match expr.clone().infer_placeholder_types(&schema) {
            Ok((known, _)) => note(&known),
            Err(_) => note(expr),
        })
    });
    found.map_err(from_datafusion)?;
    Ok(types)
}
