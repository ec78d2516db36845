//! Groups before an outer join: where many rows of a left join's optional side have one key and are only counted and summed
//! afterwards, they are counted and summed by that key before it.
//!
//! ```text
//! aggregate by k: count(x)           aggregate by k: sum(coalesce(n, 0))
//!   left join on k = j          →      left join on k = j
//!     … build y                          … build (aggregate y by j: count(x) as n)
//! ```

use forebay_pipeline::ir::{Aggregate as StateAggregate, AggregateFunction, Typed, ValueType};

use crate::carver::Carver;
use crate::facts::{ValueFacts, Variable};
use crate::reason::Reason;
use crate::relation::{Aggregate, Call, Join, JoinKind, Relation};
use crate::scalar::Scalar;

/// Rows per key from which grouping before the join pays.
const FEWEST_ROWS: f64 = 2.0;

/// `relation` with such groups.
pub fn grouped_early(carver: &mut Carver<'_>, relation: Relation) -> Result<Relation, Reason> {
    Ok(match relation {
        Relation::Scan(_) | Relation::Group(_) => relation,
        Relation::Filter { input, predicates } => {
            Relation::Filter { input: Box::new(grouped_early(carver, *input)?), predicates }
        }
        Relation::Join(join) => Relation::Join(Join {
            probe: Box::new(grouped_early(carver, *join.probe)?),
            build: Box::new(grouped_early(carver, *join.build)?),
            ..join
        }),
        Relation::Aggregate(Aggregate { input, keys, calls }) => {
            let input = grouped_early(carver, *input)?;
            let (input, calls) = match input {
                Relation::Join(join) if pays(carver, &join, &keys, &calls) => {
                    let (join, calls) = regrouped(carver, join, &calls)?;
                    (Relation::Join(join), calls)
                }
                input => (input, calls),
            };
            Relation::Aggregate(Aggregate { input: Box::new(input), keys, calls })
        }
    })
}

/// The build side's scalar that a variable above a left join stands for.
fn below(join: &Join, variable: Variable) -> Option<&Scalar> {
    let JoinKind::Left(renamed) = &join.kind else { return None };
    renamed.iter().find(|(seen, _)| *seen == variable).map(|(_, scalar)| scalar)
}

/// Whether all of it can be done, and is worth it.
fn pays(carver: &Carver<'_>, join: &Join, keys: &[(Variable, Scalar)], calls: &[Call]) -> bool {
    let is_left = matches!(join.kind, JoinKind::Left(_)) && join.residual.is_empty();
    let of_probe = |scalar: &Scalar| scalar.variables().iter().all(|variable| below(join, *variable).is_none());
    let splits = |call: &Call| match &call.argument {
        None => true,
        Some(argument) => {
            let source = argument.as_variable().and_then(|variable| below(join, variable));
            source.is_some_and(|source| !source.fallible() && source.facts().value != ValueType::F64)
        }
    };
    let rows = carver.rows(&join.build);
    // Without keys there is one group over no row too, whose counts are 0 and not sums of nothing.
    is_left
        && !keys.is_empty()
        && keys.iter().all(|(_, key)| of_probe(key))
        && calls.iter().all(splits)
        && join.keys.iter().all(|(_, key)| !key.fallible())
        && rows > FEWEST_ROWS * carver.groups(join.keys.iter().map(|(_, key)| key), rows)
}

/// The join with its build side grouped, and what becomes of the aggregates.
fn regrouped(carver: &mut Carver<'_>, join: Join, calls: &[Call]) -> Result<(Join, Vec<Call>), Reason> {
    let (mut grouped_keys, mut join_keys) = (Vec::new(), Vec::new());
    for (probe, build) in &join.keys {
        let key = carver.named("key", build, false);
        grouped_keys.push((key, build.clone()));
        join_keys.push((probe.clone(), carver.scalar(key)));
    }
    let (mut partials, mut seen, mut outer) = (Vec::new(), Vec::new(), Vec::new());
    for call in calls {
        let argument = call.argument.as_ref().and_then(Scalar::as_variable).and_then(|v| below(&join, v)).cloned();
        let (partial, above) = split(carver, call, argument);
        let variable = carver.named("partial", &carver.scalar(partial.result), true);
        seen.push((variable, carver.scalar(partial.result)));
        partials.push(partial);
        let argument = carver.scalar(variable);
        // A row without a match is counted as one row, and has no values.
        let argument = match call.function {
            AggregateFunction::CountRows => Scalar::coalesce(argument, Scalar::integer(1))?,
            AggregateFunction::Count => Scalar::coalesce(argument, Scalar::integer(0))?,
            _ => argument,
        };
        outer.push(Call { function: above, argument: Some(argument), result: call.result });
    }
    let build = Relation::Aggregate(Aggregate { input: join.build, keys: grouped_keys, calls: partials });
    let join = Join { kind: JoinKind::Left(seen), build: Box::new(build), keys: join_keys, ..join };
    Ok((join, outer))
}

/// What is computed of a key's rows, and how the results of several keys are put together.
pub fn split(carver: &mut Carver<'_>, call: &Call, argument: Option<Scalar>) -> (Call, AggregateFunction) {
    let typed = argument.as_ref().map(|argument| {
        let facts = argument.facts();
        Typed { value: facts.value, nullable: facts.nullable }
    });
    let result = StateAggregate { function: call.function, argument: typed }.result();
    // No part is further from zero than the whole may be.
    let interval = carver.info(call.result).facts.interval;
    let facts = ValueFacts { value: result.value, nullable: result.nullable, interval };
    let partial = Call { function: call.function, argument, result: carver.result("partial", facts) };
    let above = match call.function {
        AggregateFunction::CountRows | AggregateFunction::Count => AggregateFunction::SumFitting,
        AggregateFunction::SumWide => AggregateFunction::Sum,
        function => function,
    };
    (partial, above)
}
