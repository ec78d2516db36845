//! GROUPING SETS, ROLLUP and CUBE in two steps: rows are put into the groups of all keys together, and these into the groups of
//! each set.
//!
//! ```text
//! Aggregate: ROLLUP (a, b): sum(x), avg(y)   →   Projection: a, b, sum(x), sum(sum(y)) / sum(count(y))
//!   …                                               Aggregate: ROLLUP (a, b): sum(sum(x)), sum(sum(y)), sum(count(y))
//!                                                     Aggregate: a, b: sum(x), sum(y), count(y)
//!                                                       …
//! ```
//!
//! A row is looked up once instead of once for each set, and what does so is an aggregation like any other.
//!
//! Invariant: only functions whose results are exactly made of those of parts of the rows are computed so.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{DFSchema, Result};
use datafusion::functions_aggregate::count::count_udaf;
use datafusion::functions_aggregate::sum::sum_udaf;
use datafusion::logical_expr::expr::{AggregateFunction, AggregateFunctionParams, GroupingSet};
use datafusion::logical_expr::{
    Aggregate, AggregateUDF, Expr, ExprSchemable, LogicalPlan, Projection, cast, col, lit, when,
};

/// An aggregation by several sets of keys, in two steps.
#[derive(Debug)]
pub struct GroupedTwice {
    /// The first step: by all keys.
    pub groups: LogicalPlan,
    sets: Expr,
    wholes: Vec<Expr>,
    results: Vec<Expr>,
}

impl GroupedTwice {
    /// `aggregate` in two steps; `None` if it has but one set of keys, or a function that one step must compute.
    ///
    /// # Errors
    /// If types do not fit, which those of a planned aggregation do.
    pub fn of(aggregate: &Aggregate) -> Result<Option<Self>> {
        let [Expr::GroupingSet(sets)] = aggregate.group_expr.as_slice() else { return Ok(None) };
        let keys: Vec<Expr> = sets.distinct_expr().into_iter().cloned().collect();
        if keys.is_empty() || keys.iter().any(|key| matches!(key, Expr::Alias(_) | Expr::Literal(..))) {
            return Ok(None);
        }
        let mut steps = Steps { partials: Vec::new(), wholes: Vec::new() };
        let mut calls = Vec::with_capacity(aggregate.aggr_expr.len());
        for expr in &aggregate.aggr_expr {
            let Some(result) = steps.result(expr, aggregate)? else { return Ok(None) };
            calls.push(result);
        }
        let groups = Aggregate::try_new(Arc::clone(&aggregate.input), keys.clone(), steps.partials)?;
        let columns: Vec<Expr> = groups.schema.columns().into_iter().take(keys.len()).map(Expr::Column).collect();
        let column = |key: &Expr| keys.iter().position(|other| other == key).map(|index| columns[index].clone());
        let named = |set: &[Expr]| set.iter().filter_map(column).collect::<Vec<Expr>>();
        let sets = Expr::GroupingSet(match sets {
            GroupingSet::Rollup(set) => GroupingSet::Rollup(named(set)),
            GroupingSet::Cube(set) => GroupingSet::Cube(named(set)),
            GroupingSet::GroupingSets(sets) => GroupingSet::GroupingSets(sets.iter().map(|set| named(set)).collect()),
        });
        // Keys and the number of the set come first, under the names that they had.
        let mut results = Vec::with_capacity(aggregate.schema.fields().len());
        let keys_and_set = aggregate.schema.fields().len() - calls.len();
        results.extend(aggregate.schema.columns().into_iter().take(keys_and_set).map(Expr::Column));
        for (index, call) in calls.into_iter().enumerate() {
            results.push(call.alias(aggregate.schema.field(keys_and_set + index).name()));
        }
        let twice = Self { groups: LogicalPlan::Aggregate(groups), sets, wholes: steps.wholes, results };
        let made = twice.over(twice.groups.clone())?;
        Ok(has_same_columns(made.schema(), &aggregate.schema).then_some(twice))
    }

    /// The second step over `groups`, which gives the rows of the first one.
    ///
    /// # Errors
    /// If `groups` has other columns.
    pub fn over(&self, groups: LogicalPlan) -> Result<LogicalPlan> {
        let whole = Aggregate::try_new(Arc::new(groups), vec![self.sets.clone()], self.wholes.clone())?;
        let whole = Arc::new(LogicalPlan::Aggregate(whole));
        Ok(LogicalPlan::Projection(Projection::try_new(self.results.clone(), whole)?))
    }
}

/// What both steps compute.
struct Steps {
    partials: Vec<Expr>,
    wholes: Vec<Expr>,
}

impl Steps {
    /// What a call's result is made of, once both steps compute what it needs; `None` for what they cannot.
    fn result(&mut self, expr: &Expr, aggregate: &Aggregate) -> Result<Option<Expr>> {
        let expr = if let Expr::Alias(alias) = expr { &*alias.expr } else { expr };
        let Expr::AggregateFunction(call) = expr else { return Ok(None) };
        let params = &call.params;
        let [argument] = params.args.as_slice() else { return Ok(None) };
        if !params.order_by.is_empty() || params.null_treatment.is_some() {
            return Ok(None);
        }
        let result = match (call.func.name(), params.distinct) {
            ("min" | "max" | "bool_and" | "bool_or", _) => self.both(call, &call.func, &call.func),
            ("sum", false) => {
                let sum = self.both(call, &call.func, &call.func);
                match expr.get_type(aggregate.input.schema())? {
                    // A sum of decimals has more digits than they have, and a sum of sums still more.
                    sum_type if sum_type.is_decimal() => cast(sum, sum_type),
                    _ => sum,
                }
            }
            ("count", false) => self.count(call)?,
            ("avg", false) => {
                let argument = argument.get_type(aggregate.input.schema())?;
                if !argument.is_decimal() && argument != DataType::Float64 {
                    return Ok(None);
                }
                let sum = self.both(call, &sum_udaf(), &sum_udaf());
                let count = self.count(call)?;
                // Over no value the sum is NULL.
                cast(sum, DataType::Float64) / cast(count, DataType::Float64)
            }
            _ => return Ok(None),
        };
        Ok(Some(result))
    }

    /// How many there are: over no group none, where a sum is NULL.
    fn count(&mut self, call: &AggregateFunction) -> Result<Expr> {
        let sum = self.both(call, &count_udaf(), &sum_udaf());
        when(sum.clone().is_not_null(), sum).otherwise(lit(0_i64))
    }

    /// `whole` of what `part` makes of the call's argument in each group.
    fn both(&mut self, call: &AggregateFunction, part: &Arc<AggregateUDF>, whole: &Arc<AggregateUDF>) -> Expr {
        let index = self.partials.len();
        let (partial, result) = (format!("__partial_{index}"), format!("__whole_{index}"));
        let part = AggregateFunction { func: Arc::clone(part), params: call.params.clone() };
        self.partials.push(Expr::AggregateFunction(part).alias(&partial));
        let params = AggregateFunctionParams { args: vec![col(&partial)], filter: None, ..call.params.clone() };
        let whole = AggregateFunction { func: Arc::clone(whole), params };
        self.wholes.push(Expr::AggregateFunction(whole).alias(&result));
        col(result)
    }
}

/// Whether names, types and NULLs are the same.
fn has_same_columns(left: &DFSchema, right: &DFSchema) -> bool {
    left.fields().len() == right.fields().len()
        && left.iter().zip(right.iter()).all(|((left_qualifier, left), (right_qualifier, right))| {
            left_qualifier == right_qualifier
                && left.name() == right.name()
                && left.data_type() == right.data_type()
                && left.is_nullable() == right.is_nullable()
        })
}
