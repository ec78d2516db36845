//! Recursive queries: which plans read the rows of the last round, and where they may.

use datafusion::common::Result;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::datasource::cte_worktable::CteWorkTable;
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::LogicalPlan;
use forebay_base::Error;
use forebay_context::error::into_datafusion;

/// A recursive query's own rows are there once per round: in its FROM. DataFusion does not see references elsewhere.
pub(crate) fn refuse_nested_recursion(plan: &LogicalPlan) -> Result<()> {
    plan.apply_with_subqueries(|node| {
        node.apply_subqueries(|subquery| {
            let mut own = Vec::new();
            subquery.apply(|inner| {
                if let LogicalPlan::RecursiveQuery(query) = inner {
                    own.push(query.name.clone());
                }
                Ok(TreeNodeRecursion::Continue)
            })?;
            subquery.apply(|inner| match recursive_name(inner) {
                Some(name) if !own.contains(&name) => {
                    let error = Error::unsupported(format!(
                        "the recursive query {name} in a subquery of its own is not supported yet"
                    ));
                    Err(into_datafusion(error.hint("Join it in its FROM")))
                }
                _ => Ok(TreeNodeRecursion::Continue),
            })
        })
    })?;
    Ok(())
}

/// The recursive query of which `plan` is the last round's rows.
pub(crate) fn recursive_name(plan: &LogicalPlan) -> Option<String> {
    let LogicalPlan::TableScan(scan) = plan else { return None };
    let provider = source_as_provider(&scan.source).ok()?;
    provider.is::<CteWorkTable>().then(|| scan.table_name.table().to_owned())
}
