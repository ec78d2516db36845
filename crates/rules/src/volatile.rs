//! Filters by what differs from call to call, such as `random()`. They stay where they are written, tested once for each row
//! that is there: DataFusion would carry them below groups, where there are other rows.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{DFSchemaRef, Result, internal_err};
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{
    ColumnarValue, Expr, Extension, Filter, LogicalPlan, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    UserDefinedLogicalNodeCore, Volatility,
};
use datafusion::optimizer::push_down_filter::PushDownFilter;
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use forebay_syntax::volatile::VOLATILE_CALL;

use crate::around::{LogicalRule, around};
use crate::optimizer::any_node;

/// DataFusion's rule that moves filters, kept from moving volatile ones.
pub fn in_place(rule: PushDownFilter) -> impl OptimizerRule + Send + Sync + 'static {
    around(rule, guarded)
}

fn is_kept(node: &LogicalPlan) -> bool {
    matches!(node, LogicalPlan::Filter(filter) if filter.predicate.is_volatile())
}

/// Runs the rule above and below each volatile filter, but not through it.
fn guarded(rule: &LogicalRule, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
    if !any_node(&plan, |node| Ok(is_kept(node)))? {
        return run(rule, plan, config);
    }
    let mut kept: Vec<Filter> = Vec::new();
    let hidden = plan.transform_down_with_subqueries(|node| match node {
        LogicalPlan::Filter(filter) if filter.predicate.is_volatile() => {
            let bar = Bar { number: kept.len(), schema: Arc::clone(filter.input.schema()) };
            kept.push(filter);
            let bar = LogicalPlan::Extension(Extension { node: Arc::new(bar) });
            Ok(Transformed::new(bar, true, TreeNodeRecursion::Jump))
        }
        other => Ok(Transformed::no(other)),
    })?;
    let above = run(rule, hidden.data, config)?.data;
    let mut below = kept.into_iter().map(|filter| below(rule, filter, config).map(Some)).collect::<Result<Vec<_>>>()?;
    let whole = above.transform_up_with_subqueries(|node| {
        let number = match &node {
            LogicalPlan::Extension(extension) => extension.node.as_any().downcast_ref::<Bar>().map(|bar| bar.number),
            _ => None,
        };
        match number.and_then(|number| below.get_mut(number).and_then(Option::take)) {
            Some(filter) => Ok(Transformed::yes(filter)),
            None => Ok(Transformed::no(node)),
        }
    })?;
    Ok(Transformed::yes(whole.data))
}

/// The volatile part of a filter over what the rule makes of the rest.
fn below(rule: &LogicalRule, filter: Filter, config: &dyn OptimizerConfig) -> Result<LogicalPlan> {
    let parts = split_conjunction_owned(filter.predicate);
    let (volatile, stable): (Vec<Expr>, Vec<Expr>) = parts.into_iter().partition(Expr::is_volatile);
    let input = Arc::unwrap_or_clone(filter.input);
    let input = match conjunction(stable) {
        Some(stable) => LogicalPlan::Filter(Filter::try_new(stable, Arc::new(input))?),
        None => input,
    };
    let input = Arc::new(guarded(rule, input, config)?.data);
    match conjunction(volatile) {
        Some(volatile) => Ok(LogicalPlan::Filter(Filter::try_new(volatile, input)?)),
        None => Ok(Arc::unwrap_or_clone(input)),
    }
}

fn run(rule: &LogicalRule, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
    let rewrite = |node: LogicalPlan| rule.rewrite(node, config);
    match rule.apply_order() {
        Some(ApplyOrder::TopDown) => plan.transform_down_with_subqueries(rewrite),
        Some(ApplyOrder::BottomUp) => plan.transform_up_with_subqueries(rewrite),
        None => rule.rewrite(plan, config),
    }
}

/// What stands for a volatile filter and all below it while the rule runs.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Bar {
    number: usize,
    schema: DFSchemaRef,
}

impl PartialOrd for Bar {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        self.number.partial_cmp(&other.number)
    }
}

impl UserDefinedLogicalNodeCore for Bar {
    fn name(&self) -> &str {
        "Bar"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        Vec::new()
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        Vec::new()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Bar {}", self.number)
    }

    fn with_exprs_and_inputs(&self, _exprs: Vec<Expr>, _inputs: Vec<LogicalPlan>) -> Result<Self> {
        Ok(self.clone())
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
