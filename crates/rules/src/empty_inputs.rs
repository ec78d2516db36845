//! Unions of which one input alone has rows. DataFusion puts a projection of the union's columns over that input, which names them without
//! their tables; a filter that is moved through it then finds another column of that name, or several:
//!
//! ```text
//! SELECT a FROM (SELECT a FROM t UNION ALL SELECT 7 WHERE false) WHERE a + 1 > 2
//! ```

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::{Expr, LogicalPlan, Projection, Union};
use datafusion::optimizer::propagate_empty_relation::PropagateEmptyRelation;
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

/// DataFusion's rule that leaves out operators without rows, with columns of such unions as they are called below.
#[derive(Debug, Default)]
pub struct EmptyInputs(PropagateEmptyRelation);

impl OptimizerRule for EmptyInputs {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Union(Union { inputs, schema }) = &plan else { return self.0.rewrite(plan, config) };
        let mut with_rows = inputs.iter().filter(|input| !is_empty(input));
        match (with_rows.next(), with_rows.next()) {
            (Some(only), None) if inputs.len() > 1 => {
                let columns = only.schema().columns().into_iter().zip(schema.iter());
                let named = columns.map(|(column, (qualifier, field))| {
                    Expr::Column(column).alias_qualified(qualifier.cloned(), field.name())
                });
                let rows = Projection::try_new(named.collect(), Arc::clone(only))?;
                Ok(Transformed::yes(LogicalPlan::Projection(rows)))
            }
            _ => self.0.rewrite(plan, config),
        }
    }
}

fn is_empty(plan: &LogicalPlan) -> bool {
    matches!(plan, LogicalPlan::EmptyRelation(relation) if !relation.produce_one_row)
}
