//! Orders of subqueries, for what takes their rows one after the other: `SELECT list(x) FROM (SELECT * FROM t ORDER BY y)` has the
//! list in the order of `y`, as a LIMIT takes the first rows, and `row_number() OVER ()` counts them. The planner keeps orders where
//! they are written; above other operators they would be work for nothing, and below aggregates nobody keeps to them.
//!
//! ```text
//! aggregate array_agg(x)               aggregate array_agg(x ORDER BY " order 0")
//!   projection x                   →     projection x, y as " order 0"
//!     sort y                               scan t
//!       scan t
//! ```

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, Result};
use datafusion::functions_aggregate::first_last::first_value_udaf;
use datafusion::logical_expr::expr::{AggregateFunction, WindowFunction};
use datafusion::logical_expr::{
    Aggregate, Distinct, Expr, Filter, Limit, LogicalPlan, LogicalPlanBuilder, Projection, Sort, SortExpr,
    SubqueryAlias, Window, WindowFrame, WindowFrameUnits, WindowFunctionDefinition,
};
use datafusion::optimizer::AnalyzerRule;

/// Aggregates that depend on the order of their rows.
const IN_ORDER: [&str; 5] = [ANY, "array_agg", "first_value", "last_value", "string_agg"];

/// DataFusion's aggregate that takes any value that is there, of which DuckDB takes the first.
const ANY: &str = "any_value";

/// Window functions that depend on the order of their rows, and take none for equal.
const BY_PLACE: [&str; 7] = ["first_value", "lag", "last_value", "lead", "nth_value", "ntile", "row_number"];

/// Gives orders to what depends on them, and drops the others. Must run behind the rules that make windows of joins, and before
/// those that make joins of subqueries.
#[derive(Debug)]
pub struct Orders;

impl AnalyzerRule for Orders {
    fn name(&self) -> &str {
        "orders"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        match has_order_below(&plan)? {
            true => settled(plan, true),
            false => Ok(plan),
        }
    }
}

/// Whether a plan has an order other than that of its answer, and something to do here.
fn has_order_below(plan: &LogicalPlan) -> Result<bool> {
    let mut sorts = 0;
    plan.apply_with_subqueries(|node| {
        sorts += usize::from(matches!(node, LogicalPlan::Sort(_)));
        Ok(TreeNodeRecursion::Continue)
    })?;
    let (mut node, mut wanted) = (plan, 0);
    while wants_order(node, true) {
        match node.inputs().as_slice() {
            [input] => node = input,
            _ => break,
        }
    }
    wanted += usize::from(matches!(node, LogicalPlan::Sort(_)));
    Ok(sorts > wanted)
}

/// `plan` with its orders where they belong; its own only where it `is_wanted`.
fn settled(plan: LogicalPlan, is_wanted: bool) -> Result<LogicalPlan> {
    let plan = plan.map_subqueries(|subquery| settled(subquery, false).map(Transformed::yes)).data()?;
    match plan {
        LogicalPlan::Sort(sort) if sort.fetch.is_none() && !is_wanted => {
            settled(Arc::unwrap_or_clone(sort.input), false)
        }
        LogicalPlan::Aggregate(aggregate) => of_aggregate(aggregate),
        LogicalPlan::Window(window) if window.window_expr.iter().any(is_by_place) => {
            lifted_window(window).and_then(Lifted::shown)
        }
        other => {
            let is_wanted = wants_order(&other, is_wanted);
            other.map_children(|child| settled(child, is_wanted).map(Transformed::yes)).data()
        }
    }
}

/// Whether a node takes the order of its input on, or depends on it.
fn wants_order(node: &LogicalPlan, is_wanted: bool) -> bool {
    match node {
        LogicalPlan::Projection(_)
        | LogicalPlan::Filter(_)
        | LogicalPlan::SubqueryAlias(_)
        | LogicalPlan::Union(_)
        | LogicalPlan::Unnest(_)
        | LogicalPlan::Subquery(_) => is_wanted,
        LogicalPlan::Aggregate(_)
        | LogicalPlan::Sort(_)
        | LogicalPlan::Window(_)
        | LogicalPlan::Join(_)
        | LogicalPlan::Distinct(Distinct::All(_))
        | LogicalPlan::RecursiveQuery(_) => false,
        _ => true,
    }
}

/// A plan without its order.
struct Lifted {
    plan: LogicalPlan,
    /// The order, by columns of the plan.
    order: Vec<SortExpr>,
    /// The columns that are shown, where the order has others.
    shown: Option<Vec<Column>>,
}

impl Lifted {
    fn unordered(plan: LogicalPlan) -> Result<Self> {
        Ok(Self { plan: settled(plan, false)?, order: Vec::new(), shown: None })
    }

    /// The plan with the columns that are shown.
    fn shown(self) -> Result<LogicalPlan> {
        match self.shown {
            Some(columns) => {
                LogicalPlanBuilder::from(self.plan).project(columns.into_iter().map(Expr::Column))?.build()
            }
            None => Ok(self.plan),
        }
    }
}

fn lifted(plan: LogicalPlan) -> Result<Lifted> {
    let plan = plan.map_subqueries(|subquery| settled(subquery, false).map(Transformed::yes)).data()?;
    match plan {
        LogicalPlan::Sort(Sort { expr, input, fetch: None }) if !expr.iter().any(|key| key.expr.is_volatile()) => {
            Ok(Lifted { order: expr, ..Lifted::unordered(Arc::unwrap_or_clone(input))? })
        }
        LogicalPlan::Limit(Limit { skip, fetch, input }) => {
            let inner = lifted(Arc::unwrap_or_clone(input))?;
            let input = match inner.order.is_empty() {
                true => inner.plan,
                false => LogicalPlanBuilder::from(inner.plan).sort(inner.order.clone())?.build()?,
            };
            Ok(Lifted { plan: LogicalPlan::Limit(Limit { skip, fetch, input: Arc::new(input) }), ..inner })
        }
        LogicalPlan::Filter(Filter { predicate, input, .. }) => {
            let inner = lifted(Arc::unwrap_or_clone(input))?;
            let plan = LogicalPlan::Filter(Filter::try_new(predicate, Arc::new(inner.plan))?);
            Ok(Lifted { plan, order: inner.order, shown: inner.shown })
        }
        LogicalPlan::SubqueryAlias(SubqueryAlias { input, alias, .. }) => {
            let inner = lifted(Arc::unwrap_or_clone(input))?;
            let before = Arc::clone(inner.plan.schema());
            let plan = LogicalPlan::SubqueryAlias(SubqueryAlias::try_new(Arc::new(inner.plan), alias)?);
            let renamed = |column: &Column| renamed(&before, plan.schema(), column);
            let order = inner.order.into_iter().map(|key| replaced(key, &renamed)).collect::<Result<_>>()?;
            let shown = inner.shown.map(|shown| shown.iter().map(renamed).collect::<Result<_>>()).transpose()?;
            Ok(Lifted { plan, order, shown })
        }
        LogicalPlan::Projection(projection) => lifted_projection(projection),
        LogicalPlan::Window(window) => lifted_window(window),
        other => Lifted::unordered(other),
    }
}

/// A column of one schema by its place in another one.
fn renamed(before: &DFSchema, behind: &DFSchema, column: &Column) -> Result<Column> {
    Ok(Column::from(behind.qualified_field(before.index_of_column(column)?)))
}

fn replaced(key: SortExpr, meant: &dyn Fn(&Column) -> Result<Column>) -> Result<SortExpr> {
    let expr = key.expr.transform(|part| match &part {
        Expr::Column(column) => Ok(Transformed::yes(Expr::Column(meant(column)?))),
        _ => Ok(Transformed::no(part)),
    });
    Ok(SortExpr { expr: expr.data()?, ..key })
}

/// Columns of the order that are not shown come behind the others.
fn lifted_projection(projection: Projection) -> Result<Lifted> {
    let inner = lifted(Arc::unwrap_or_clone(projection.input))?;
    let mut items = projection.expr;
    if inner.order.is_empty() {
        let plan = LogicalPlan::Projection(Projection::try_new(items, Arc::new(inner.plan))?);
        return Ok(Lifted { plan, order: Vec::new(), shown: None });
    }
    let before = items.len();
    let mut order = inner.order;
    for (number, key) in order.iter_mut().enumerate() {
        let known = items.iter().position(|item| match item {
            Expr::Alias(alias) => *alias.expr == key.expr,
            item => *item == key.expr,
        });
        let name = format!(" order {number}");
        key.expr = match known.map(|place| &items[place]) {
            Some(Expr::Alias(alias)) => Expr::Column(Column::new(alias.relation.clone(), alias.name.clone())),
            Some(column @ Expr::Column(_)) => column.clone(),
            _ => {
                items.push(std::mem::take(&mut key.expr).alias(&name));
                Expr::Column(Column::from_name(name))
            }
        };
    }
    let is_longer = items.len() > before;
    let plan = LogicalPlan::Projection(Projection::try_new(items, Arc::new(inner.plan))?);
    let shown = is_longer.then(|| plan.schema().columns().into_iter().take(before).collect());
    Ok(Lifted { plan, order, shown })
}

/// Windows that count rows get the order.
fn lifted_window(window: Window) -> Result<Lifted> {
    let inner = lifted(Arc::unwrap_or_clone(window.input))?;
    let window_expr = ordered(window.window_expr, is_by_place, &inner.order)?;
    let before: Vec<String> = inner.plan.schema().field_names();
    let plan = LogicalPlan::Window(Window::try_new(window_expr, Arc::new(inner.plan))?);
    let own = plan.schema().columns().into_iter().skip(before.len());
    let shown = inner.shown.map(|shown| shown.into_iter().chain(own).collect());
    Ok(Lifted { plan, order: inner.order, shown })
}

/// Aggregates that depend on the order of their rows get that of their input.
fn of_aggregate(aggregate: Aggregate) -> Result<LogicalPlan> {
    if !aggregate.aggr_expr.iter().any(is_in_order) {
        let input = settled(Arc::unwrap_or_clone(aggregate.input), false)?;
        let made = Aggregate::try_new(Arc::new(input), aggregate.group_expr, aggregate.aggr_expr)?;
        return Ok(LogicalPlan::Aggregate(made));
    }
    let inner = lifted(Arc::unwrap_or_clone(aggregate.input))?;
    let aggr_expr = ordered(aggregate.aggr_expr, is_in_order, &inner.order)?;
    Ok(LogicalPlan::Aggregate(Aggregate::try_new(Arc::new(inner.plan), aggregate.group_expr, aggr_expr)?))
}

/// `calls`, of which those that `is_meant` holds of get `order`, and keep the names that they have without.
fn ordered(calls: Vec<Expr>, is_meant: fn(&Expr) -> bool, order: &[SortExpr]) -> Result<Vec<Expr>> {
    let named = |mut expr: Expr| match &mut expr {
        part if order.is_empty() || !is_meant(part) => Ok(expr),
        Expr::Alias(alias) => {
            give_order(&mut alias.expr, order);
            Ok(expr)
        }
        part => {
            let (relation, name) = part.qualified_name();
            give_order(part, order);
            Ok(expr.alias_qualified(relation, name))
        }
    };
    calls.into_iter().map(named).collect()
}

fn give_order(call: &mut Expr, order: &[SortExpr]) {
    match call {
        Expr::WindowFunction(call) => call.params.order_by = order.to_vec(),
        Expr::AggregateFunction(call) => {
            if call.func.name() == ANY {
                call.func = first_value_udaf();
                let is_there = call.params.args.first().cloned().map(Expr::is_not_null);
                call.params.filter = call
                    .params
                    .filter
                    .take()
                    .map(|filter| *filter)
                    .into_iter()
                    .chain(is_there)
                    .reduce(Expr::and)
                    .map(Box::new);
            }
            call.params.order_by = order.to_vec();
        }
        _ => {}
    }
}

fn call(expr: &Expr) -> &Expr {
    match expr {
        Expr::Alias(alias) => &alias.expr,
        other => other,
    }
}

/// Whether an aggregate depends on the order of its rows, and says nothing of it.
fn is_in_order(expr: &Expr) -> bool {
    let Expr::AggregateFunction(AggregateFunction { func, params }) = call(expr) else { return false };
    IN_ORDER.contains(&func.name()) && params.order_by.is_empty() && !params.distinct
}

/// Whether a window depends on the order of its rows, and says nothing of it.
fn is_by_place(expr: &Expr) -> bool {
    let Expr::WindowFunction(window) = call(expr) else { return false };
    let WindowFunction { fun, params } = window.as_ref();
    let is_meant = match fun {
        WindowFunctionDefinition::WindowUDF(function) => {
            BY_PLACE.contains(&function.name()) && has_same_rows(&params.window_frame)
        }
        WindowFunctionDefinition::AggregateUDF(function) => {
            params.window_frame.units == WindowFrameUnits::Rows
                || (IN_ORDER.contains(&function.name()) && has_same_rows(&params.window_frame))
        }
    };
    is_meant && params.order_by.is_empty() && !params.distinct
}

/// Whether a frame has the same rows with an order and without.
fn has_same_rows(frame: &WindowFrame) -> bool {
    frame.units == WindowFrameUnits::Rows || (frame.start_bound.is_unbounded() && frame.end_bound.is_unbounded())
}
