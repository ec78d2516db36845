//! `count(DISTINCT x)` beside other aggregates: groups of the keys with `x`, then groups of the keys.
//!
//! ```text
//! aggregate by k: count(DISTINCT x), sum(y)   →   aggregate by k: count(x), sum(s)
//!   …                                               aggregate by k, x: sum(y) as s
//!                                                     …
//! ```

use datafusion::logical_expr::expr::AggregateFunction as PlanFunction;
use datafusion::logical_expr::{Aggregate as PlanAggregate, Expr};
use forebay_pipeline::ir::{AggregateFunction, ValueType};

use crate::carver::expression::Scope;
use crate::carver::{CarvedInput, Carver};
use crate::eager::split;
use crate::facts::ValueFacts;
use crate::reason::Reason;
use crate::relation::{Aggregate, Call, Relation, count_bounds};
use crate::scalar::Scalar;

/// The function, if it counts different values.
fn as_counted_once(expr: &Expr) -> Option<&PlanFunction> {
    let expr = if let Expr::Alias(alias) = expr { &*alias.expr } else { expr };
    let Expr::AggregateFunction(function) = expr else { return None };
    let params = &function.params;
    let is_plain = params.filter.is_none() && params.order_by.is_empty() && params.args.len() == 1;
    (params.distinct && is_plain && function.func.name() == "count").then_some(function)
}

impl Carver<'_> {
    /// What all functions of an aggregation count the different values of that do so; `None` where none does.
    pub fn counted_once(&mut self, aggregate: &PlanAggregate, scope: &Scope<'_>) -> Result<Option<Scalar>, Reason> {
        let mut found = None;
        for function in aggregate.aggr_expr.iter().filter_map(as_counted_once) {
            let scalar = self.expression(&function.params.args[0], scope)?;
            if *found.get_or_insert_with(|| scalar.clone()) != scalar {
                return Err(Reason::new("DISTINCT values of several expressions"));
            }
        }
        // Over no row there is no group to count, but without keys there is a result.
        if found.is_some() && aggregate.group_expr.is_empty() {
            return Err(Reason::new("DISTINCT values beside other aggregates without GROUP BY"));
        }
        Ok(found)
    }

    /// The aggregation of `plan`, whose input and keys are those of `inner`, in two steps.
    pub fn distinct_aggregate(
        &mut self,
        plan: &PlanAggregate,
        scope: &Scope<'_>,
        mut inner: Aggregate,
        distinct: &Scalar,
    ) -> Result<CarvedInput, Reason> {
        let bound = inner.input.most_rows(self);
        let mut calls = Vec::new();
        let mut results = Vec::new();
        for (index, expr) in plan.aggr_expr.iter().enumerate() {
            let field = plan.schema.field(plan.group_expr.len() + index);
            results.push(match as_counted_once(expr) {
                Some(_) => None,
                None => Some(self.call(expr, field, scope, bound, &mut calls)?),
            });
        }
        let counted = self.named("distinct", distinct, false);
        let mut outer = Vec::new();
        for call in &calls {
            let (partial, above) = split(self, call, call.argument.clone());
            let argument = Some(self.scalar(partial.result));
            inner.calls.push(partial);
            outer.push(Call { function: above, argument, result: call.result });
        }
        let facts = ValueFacts { interval: count_bounds(bound.to_come), ..ValueFacts::of(ValueType::I64, false) };
        let count = self.result("count of distinct", facts);
        let argument = self.scalar(counted);
        let (function, argument) = match argument.facts().nullable {
            true => (AggregateFunction::Count, Some(argument)),
            false => (AggregateFunction::CountRows, None),
        };
        outer.push(Call { function, argument, result: count });
        let mut keys = Vec::new();
        let mut outputs = Vec::new();
        for (index, (below, _)) in inner.keys.iter().enumerate() {
            let below = self.scalar(*below);
            let key = self.named(plan.schema.field(index).name(), &below, false);
            keys.push((key, below));
            outputs.push(Some(self.scalar(key)));
        }
        inner.keys.push((counted, distinct.clone()));
        let count = self.scalar(count);
        outputs.extend(results.into_iter().map(|result| Some(result.unwrap_or_else(|| count.clone()))));
        let input = Box::new(Relation::Aggregate(inner));
        Ok((Relation::Aggregate(Aggregate { input, keys, calls: outer }), outputs))
    }
}
