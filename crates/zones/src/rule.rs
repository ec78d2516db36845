//! The time zone of a session, where a statement means it: in casts between instants and local dates, times and texts, and in what
//! takes an instant apart, cuts it or moves it by days. Where the session's zone is UTC, in which instants are kept, there is nothing
//! to do.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::{Cast, ScalarFunction, TryCast};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan};
use datafusion::optimizer::AnalyzerRule;
use forebay_functions::function;
use forebay_functions::function::TIMESTAMP;
use forebay_functions::moments::part::Part;

use crate::functions::{Operation, call, moved};
use crate::shown;
use crate::zone::Zone;

/// Functions that see instants as clocks of the session show them.
const OF_CLOCKS: [&str; 11] = [
    "age",
    "date_diff",
    "date_part",
    "date_sub",
    "date_trunc",
    "dayname",
    "days_in_month",
    "last_day",
    "moment_difference",
    "monthname",
    "strftime",
];

/// Puts the session's zone in. Must run before literals become instants, and again behind the rules that insert casts.
#[derive(Debug)]
pub struct SessionZone;

impl AnalyzerRule for SessionZone {
    fn name(&self) -> &str {
        "session_zone"
    }

    fn analyze(&self, plan: LogicalPlan, config: &ConfigOptions) -> Result<LogicalPlan> {
        let Some(zone) = of_session(config)? else { return Ok(plan) };
        plan.transform_up_with_subqueries(|node| {
            let mut schema = merge_schema(&node.inputs());
            schema.merge(node.schema());
            let names = NamePreserver::new(&node);
            let done = node.map_expressions(|expr| {
                let name = names.save(&expr);
                let done = expr.transform_up(|part| rewrite(part, &schema, &zone))?;
                Ok(if done.transformed { done.update_data(|expr| name.restore(expr)) } else { done })
            })?;
            if done.transformed { done.map_data(LogicalPlan::recompute_schema) } else { Ok(done) }
        })
        .data()
    }
}

/// The zone of the session, if clocks in it do not show UTC.
///
/// # Errors
/// A zone that does not exist.
pub fn of_session(config: &ConfigOptions) -> Result<Option<Zone>> {
    let zone = config.execution.time_zone.as_deref().map(Zone::parse).transpose()?;
    Ok(zone.filter(|zone| !zone.is_utc()))
}

/// `moment AT TIME ZONE zone`, where `moment` is of the type `own`: an instant as clocks show it there, or what clocks there show as the
/// instant at which they do.
///
/// # Errors
/// A zone that does not exist.
pub fn at_zone(moment: Expr, own: &DataType, zone: &str) -> Result<Expr> {
    let zone = Zone::parse(zone)?;
    Ok(match own {
        DataType::Timestamp(_, Some(_)) => call(Operation::Local, zone, moment),
        DataType::Timestamp(..) | DataType::Date32 => call(Operation::Instant, zone, moment),
        _ => call(Operation::Instant, zone, as_timestamp(moment)),
    })
}

/// A value as a local timestamp.
fn as_timestamp(value: Expr) -> Expr {
    Expr::Cast(Cast::new(Box::new(value), TIMESTAMP))
}

fn rewrite(expr: Expr, schema: &DFSchema, zone: &Zone) -> Result<Transformed<Expr>> {
    let (value, target, or_null) = match expr {
        Expr::Cast(cast) => (*cast.expr, cast.field, false),
        Expr::TryCast(cast) => (*cast.expr, cast.field, true),
        Expr::ScalarFunction(function) => return of_function(function, schema, zone),
        other => return Ok(Transformed::no(other)),
    };
    // What AT TIME ZONE is planned as has a zone of its own.
    let is_moved = matches!(target.data_type(), DataType::Timestamp(TimeUnit::Nanosecond, Some(_)));
    let source = value.get_type(schema)?;
    let again = |value: Expr| match or_null {
        true => Expr::TryCast(TryCast::new_from_field(Box::new(value), Arc::clone(&target))),
        false => Expr::Cast(Cast::new_from_field(Box::new(value), Arc::clone(&target))),
    };
    let done = match (&source, target.data_type()) {
        (_, DataType::Timestamp(_, Some(other))) if is_moved => {
            return at_zone(value, &source, other).map(Transformed::yes);
        }
        (text, DataType::Timestamp(_, Some(_))) if text.is_string() => {
            call(Operation::Read { or_null }, zone.clone(), value)
        }
        (DataType::Timestamp(_, None) | DataType::Date32, DataType::Timestamp(_, Some(_))) => {
            call(Operation::Instant, zone.clone(), value)
        }
        (DataType::Timestamp(_, Some(_)), text) if text.is_string() => call(Operation::Text, zone.clone(), value),
        (DataType::Timestamp(_, Some(_)), DataType::Timestamp(_, None) | DataType::Date32) => {
            call(Operation::Local, zone.clone(), value)
        }
        (nested, text) if text.is_string() && nested.is_nested() => match shown::of_type(nested, zone.name()) {
            Some(in_zone) if in_zone != *nested => again(Expr::Cast(Cast::new(Box::new(value), in_zone))),
            _ => return Ok(Transformed::no(again(value))),
        },
        _ => return Ok(Transformed::no(again(value))),
    };
    let is_done = done.get_type(schema)? == *target.data_type();
    Ok(Transformed::yes(if is_done { done } else { again(done) }))
}

fn of_function(call_of: ScalarFunction, schema: &DFSchema, zone: &Zone) -> Result<Transformed<Expr>> {
    let is_instant = |value: &Expr| matches!(value.get_type(schema), Ok(DataType::Timestamp(_, Some(_))));
    let kept = |call_of| Ok(Transformed::no(Expr::ScalarFunction(call_of)));
    let name = call_of.func.name();
    if let ("moment_later" | "moment_earlier" | "date_add", [moment, interval]) = (name, call_of.args.as_slice()) {
        let (is_later, moment, interval) = (name != "moment_earlier", moment.clone(), interval.clone());
        return if is_instant(&moment) {
            Ok(Transformed::yes(moved(is_later, zone.clone(), moment, interval)))
        } else {
            kept(call_of)
        };
    }
    if name == "make_timestamptz" && call_of.args.len() == 6 {
        let local = function("make_timestamp").map(|function| function.call(call_of.args.clone()));
        return local.map_or_else(
            || kept(call_of),
            |local| Ok(Transformed::yes(call(Operation::Instant, zone.clone(), local))),
        );
    }
    if !OF_CLOCKS.contains(&name) || !call_of.args.iter().any(is_instant) {
        return kept(call_of);
    }
    let part = call_of.args.first().and_then(part_of);
    match (name, part.as_deref()) {
        ("date_part", Some(part)) if Part::named(part) == Some(Part::Epoch) => return kept(call_of),
        ("date_part", Some(part)) if Part::named(part) == Some(Part::Zone) => {
            let (seconds, below) = match part.to_ascii_lowercase().as_str() {
                "timezone_hour" => (3_600, i64::MAX),
                "timezone_minute" => (60, 60),
                _ => (1, i64::MAX),
            };
            let instant = call_of.args.into_iter().nth(1).unwrap_or_default();
            return Ok(Transformed::yes(call(Operation::Offset { seconds, below }, zone.clone(), instant)));
        }
        // Hours and what is shorter have the same length everywhere.
        ("date_diff" | "date_sub", Some(part)) if is_short(part) => return kept(call_of),
        _ => {}
    }
    let gives_instant = name == "date_trunc";
    let local = |value: Expr| if is_instant(&value) { call(Operation::Local, zone.clone(), value) } else { value };
    let args: Vec<Expr> = call_of.args.into_iter().map(local).collect();
    let done = call_of.func.call(args);
    Ok(Transformed::yes(match gives_instant {
        true => call(Operation::Instant, zone.clone(), done),
        false => done,
    }))
}

fn part_of(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Literal(ScalarValue::Utf8(part) | ScalarValue::Utf8View(part), _) => part.clone(),
        Expr::Cast(cast) => part_of(&cast.expr),
        _ => None,
    }
}

fn is_short(part: &str) -> bool {
    use Part as P;
    matches!(Part::named(part), Some(P::Hour | P::Minute | P::Second | P::Millisecond | P::Microsecond))
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::prelude::{cast, col};

    #[test]
    fn casts_of_instants_are_those_of_the_zone() {
        let zone = Zone::parse("Europe/Berlin").expect("a zone");
        let field = datafusion::arrow::datatypes::Field::new("t", crate::functions::instant_type(), true);
        let schema = DFSchema::from_unqualified_fields(vec![field].into(), Default::default()).expect("one column");
        let in_zone = |operation| call(operation, zone.clone(), col("t"));
        for (target, expect) in [
            (DataType::Utf8, cast(in_zone(Operation::Text), DataType::Utf8)),
            (TIMESTAMP, in_zone(Operation::Local)),
            (DataType::Date32, cast(in_zone(Operation::Local), DataType::Date32)),
            (DataType::Int64, cast(col("t"), DataType::Int64)),
        ] {
            let done = rewrite(cast(col("t"), target), &schema, &zone).expect("a cast").data;
            assert_eq!(done, expect);
        }
    }
}
