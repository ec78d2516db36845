//! Filters by what differs from call to call, such as `random()`. They stay where they are written, tested once for each row
//! that is there: DataFusion would carry them below groups, where there are other rows.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchemaRef, Result, internal_err};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{
    ColumnarValue, Expr, Extension, Filter, LogicalPlan, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    UserDefinedLogicalNodeCore, Volatility,
};
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};
use forebay_forms::volatile::VOLATILE_CALL;

use forebay_subqueries::plans::any_node;

/// Puts bars in the place of volatile filters, which no filter is moved through. What else such a filter tests stands below
/// its bar.
#[derive(Debug)]
pub struct HideVolatile;

impl OptimizerRule for HideVolatile {
    fn name(&self) -> &str {
        "hide_volatile"
    }

    fn rewrite(&self, plan: LogicalPlan, _config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let is_volatile = |node: &LogicalPlan| matches!(node, LogicalPlan::Filter(it) if it.predicate.is_volatile());
        if !any_node(&plan, |node| Ok(is_volatile(node)))? {
            return Ok(Transformed::no(plan));
        }
        plan.transform_up_with_subqueries(|node| match node {
            LogicalPlan::Filter(filter) if filter.predicate.is_volatile() => Ok(Transformed::yes(hidden(filter)?)),
            other => Ok(Transformed::no(other)),
        })
    }
}

/// A bar for the volatile part of a filter, over the rest of it.
fn hidden(filter: Filter) -> Result<LogicalPlan> {
    let parts = split_conjunction_owned(filter.predicate);
    let (volatile, stable): (Vec<Expr>, Vec<Expr>) = parts.into_iter().partition(Expr::is_volatile);
    let input = match conjunction(stable) {
        Some(stable) => Arc::new(LogicalPlan::Filter(Filter::try_new(stable, filter.input)?)),
        None => filter.input,
    };
    match conjunction(volatile) {
        Some(predicate) => Ok(LogicalPlan::Extension(Extension { node: Arc::new(Bar { predicate, input }) })),
        None => Ok(Arc::unwrap_or_clone(input)),
    }
}

/// Puts the filters back in the places of their bars.
#[derive(Debug)]
pub struct ShowVolatile;

impl OptimizerRule for ShowVolatile {
    fn name(&self) -> &str {
        "show_volatile"
    }

    fn rewrite(&self, plan: LogicalPlan, _config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        if !any_node(&plan, |node| Ok(bar(node).is_some()))? {
            return Ok(Transformed::no(plan));
        }
        plan.transform_up_with_subqueries(|node| match bar(&node) {
            Some(Bar { predicate, input }) => {
                let filter = Filter::try_new(predicate.clone(), Arc::clone(input))?;
                Ok(Transformed::yes(LogicalPlan::Filter(filter)))
            }
            None => Ok(Transformed::no(node)),
        })
    }
}

fn bar(node: &LogicalPlan) -> Option<&Bar> {
    match node {
        LogicalPlan::Extension(extension) => extension.node.as_any().downcast_ref(),
        _ => None,
    }
}

/// What stands for a volatile filter while others are moved.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Bar {
    predicate: Expr,
    input: Arc<LogicalPlan>,
}

impl PartialOrd for Bar {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        (self == other).then_some(Ordering::Equal)
    }
}

impl UserDefinedLogicalNodeCore for Bar {
    fn name(&self) -> &str {
        "Bar"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        self.input.schema()
    }

    fn expressions(&self) -> Vec<Expr> {
        vec![self.predicate.clone()]
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Bar: {}", self.predicate)
    }

    fn with_exprs_and_inputs(&self, mut exprs: Vec<Expr>, mut inputs: Vec<LogicalPlan>) -> Result<Self> {
        match (exprs.pop(), inputs.pop()) {
            (Some(predicate), Some(input)) => Ok(Self { predicate, input: Arc::new(input) }),
            _ => Err(DataFusionError::Internal("a bar without its filter".to_owned())),
        }
    }
}

/// The function that tells calls apart: its first argument, whatever the second is.
pub fn volatile_call() -> ScalarUDF {
    ScalarUDF::from(VolatileCall { signature: Signature::any(2, Volatility::Volatile) })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct VolatileCall {
    signature: Signature,
}

impl ScalarUDFImpl for VolatileCall {
    fn name(&self) -> &str {
        VOLATILE_CALL
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [value, _] => Ok(value.clone()),
            _ => internal_err!("{} takes two arguments", self.name()),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match args.args.into_iter().next() {
            Some(value) => Ok(value),
            None => internal_err!("{} takes two arguments", self.name()),
        }
    }
}
