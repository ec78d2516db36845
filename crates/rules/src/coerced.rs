//! DataFusion's coercion of types, for the nodes whose expressions may need it: those that are more than columns and literals.
//! DataFusion's own rule makes the columns and names of every node anew, whatever is in it.

use std::cell::Cell;
use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan};
use datafusion::optimizer::AnalyzerRule;
use datafusion::optimizer::analyzer::type_coercion::TypeCoercionRewriter;

use crate::expressions::scope_of;

/// Casts operands and arguments to the types in which they are computed.
#[derive(Debug)]
pub(crate) struct Coerced;

impl AnalyzerRule for Coerced {
    fn name(&self) -> &str {
        "type_coercion"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let is_retyped = Cell::new(false);
        plan.transform_up_with_subqueries(|node| coerced(node, &is_retyped)).data()
    }
}

/// Coerces a node. `is_retyped` is set once columns of a node are others than before: those above it have them, too.
fn coerced(plan: LogicalPlan, is_retyped: &Cell<bool>) -> Result<Transformed<LogicalPlan>> {
    let is_whole = match &plan {
        // What these compare, unite or count has types of its own.
        LogicalPlan::Join(_) | LogicalPlan::Union(_) | LogicalPlan::Limit(_) | LogicalPlan::Dml(_) => true,
        LogicalPlan::Filter(filter) => filter.predicate.get_type(filter.input.schema()).ok() != Some(DataType::Boolean),
        _ => false,
    };
    if !is_whole && !has_operands(&plan)? {
        return match is_retyped.get() {
            true => plan.recompute_schema().map(Transformed::yes),
            false => Ok(Transformed::no(plan)),
        };
    }
    let (schema, before) = (scope_of(&plan)?, Arc::clone(plan.schema()));
    let plan = match plan {
        LogicalPlan::Filter(mut filter) => {
            filter.predicate = filter.predicate.cast_to(&DataType::Boolean, &schema)?;
            LogicalPlan::Filter(filter)
        }
        other => other,
    };
    let names = NamePreserver::new(&plan);
    let mut rewriter = TypeCoercionRewriter::new(&schema);
    let done = plan
        .map_expressions(|expr| {
            let name = names.save(&expr);
            Ok(expr.rewrite(&mut rewriter)?.update_data(|expr| name.restore(expr)))
        })?
        .map_data(|plan| rewriter.coerce_plan(plan))?
        .map_data(LogicalPlan::recompute_schema)?;
    if before.as_ref() != done.data.schema().as_ref() {
        is_retyped.set(true);
    }
    Ok(done)
}

/// Whether an expression of a node has operands or arguments.
fn has_operands(plan: &LogicalPlan) -> Result<bool> {
    let mut has_some = false;
    plan.apply_expressions(|expr| {
        expr.apply(|part| match part {
            Expr::Column(_) | Expr::OuterReferenceColumn(..) | Expr::Literal(..) | Expr::Alias(_) => {
                Ok(TreeNodeRecursion::Continue)
            }
            Expr::IsNull(_) | Expr::IsNotNull(_) | Expr::Cast(_) | Expr::TryCast(_) => Ok(TreeNodeRecursion::Continue),
            _ => {
                has_some = true;
                Ok(TreeNodeRecursion::Stop)
            }
        })
    })?;
    Ok(has_some)
}
