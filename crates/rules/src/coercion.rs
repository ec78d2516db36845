//! Types in common where DataFusion would choose others: dates and text beside timestamps become the timestamp's own
//! unit (not nanoseconds, which end in 2262), floats beside decimals stay floats, binary literals are blobs. The casts are
//! put in before DataFusion's type coercion, which then finds nothing to do. The rows of VALUES have their types before:
//! a date beside timestamps is one of nanoseconds there. On the way, patterns of SIMILAR TO become ones of the whole text.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, ScalarValue, internal_err};
use datafusion::logical_expr::expr::{Cast, InList, InSubquery, ScalarFunction};
use datafusion::logical_expr::{
    Between, BinaryExpr, Case, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Operator, binary_expr,
};
use forebay_base::{canonical_f32, canonical_f64};

use crate::dates;
use crate::declared_digits::with_all_digits;
use crate::expressions::{ExpressionRule, Kinds};
use crate::multisets::is_set_operation;
use crate::set_operations::{unify_intersection, unify_union};
use crate::texts_beside::{self, purpose_of};
use crate::typed::{ChildTypes, is_comparison};
use forebay_functions::casts::{cast_scalar, possible};
use forebay_types::supertypes::{Purpose, common_type, our_common_type, united_number};
use forebay_zones::at_zone;

/// Functions whose arguments become one type.
const UNIFYING: [&str; 4] = ["coalesce", "greatest", "least", "make_array"];

/// How many elements a list has that DataFusion writes as comparisons.
const SHORT_LIST: usize = 3;

/// Inserts the casts. Must run before type coercion.
#[derive(Debug)]
pub struct UnifiedTypes;

impl ExpressionRule for UnifiedTypes {
    fn concerns(&self, kinds: Kinds) -> bool {
        kinds.has(Kinds::COMMON_TYPE)
    }

    fn rewrite(&self, expr: Expr, types: &ChildTypes, schema: &DFSchema) -> Result<Transformed<Expr>> {
        rewrite(expr, types, schema)
    }

    fn rewrite_node(&self, plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
        match plan {
            LogicalPlan::Union(union) => unify_union(union),
            LogicalPlan::Join(join) if is_set_operation(&join) => unify_intersection(join),
            LogicalPlan::Join(_) => unify_join_keys(plan),
            other => Ok(Transformed::no(other)),
        }
    }
}

fn rewrite(expr: Expr, types: &ChildTypes, schema: &DFSchema) -> Result<Transformed<Expr>> {
    if let Some(narrowed) = dates::narrowed(&expr, types) {
        return Ok(Transformed::yes(narrowed));
    }
    if let Some(moved) = moved_to_zone(&expr, types)? {
        return Ok(Transformed::yes(moved));
    }
    match expr {
        Expr::Literal(ScalarValue::Binary(bytes), metadata) => {
            Ok(Transformed::yes(Expr::Literal(ScalarValue::BinaryView(bytes), metadata)))
        }
        Expr::Cast(Cast { expr, field }) if field.data_type().is_temporal() => {
            Ok(match time_literal(&expr, field.data_type()) {
                Some(literal) => Transformed::yes(literal),
                None => Transformed::no(Expr::Cast(Cast { expr, field })),
            })
        }
        Expr::Cast(Cast { expr, field }) if matches!(field.data_type(), DataType::Float32 | DataType::Float64) => {
            Ok(match float_literal(&expr, field.data_type()) {
                Some(literal) => Transformed::yes(literal),
                None => Transformed::no(Expr::Cast(Cast { expr, field })),
            })
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_comparison(op) || op == Operator::Minus => {
            let both = vec![*left, *right];
            let both = match op {
                Operator::Minus => unify_times(both, types, schema)?,
                _ => unify(both, types, purpose_of(op), schema)?,
            };
            Ok(both.update_data(|mut both| {
                let (right, left) = (both.pop(), both.pop());
                let (left, right) = (left.unwrap_or_default(), right.unwrap_or_default());
                Expr::BinaryExpr(BinaryExpr::new(Box::new(left), op, Box::new(right)))
            }))
        }
        // The pattern is one of all of the text, where DataFusion looks for it anywhere.
        Expr::SimilarTo(like) => Ok(Transformed::yes(match forebay_functions::function("regexp_full_match") {
            Some(function) if like.negated => !function.call(vec![*like.expr, *like.pattern]),
            Some(function) => function.call(vec![*like.expr, *like.pattern]),
            None => return internal_err!("there is no function regexp_full_match"),
        })),
        Expr::Between(Between { expr, negated, low, high }) => {
            let all = unify(vec![*expr, *low, *high], types, Purpose::Order, schema)?;
            Ok(all.update_data(|all| {
                let mut all = all.into_iter().map(Box::new);
                let mut next = || all.next().unwrap_or_default();
                Expr::Between(Between { expr: next(), negated, low: next(), high: next() })
            }))
        }
        Expr::InList(InList { expr, list, negated }) => {
            let all = std::iter::once(*expr).chain(list).collect();
            let Transformed { data: mut all, transformed, .. } = unify(all, types, Purpose::Compare, schema)?;
            let listed = listed(InList { expr: Box::new(all.remove(0)), list: all, negated });
            Ok(Transformed::new_transformed(listed.data, transformed || listed.transformed))
        }
        Expr::Case(case) => unify_case(case, types, schema),
        Expr::InSubquery(membership) => unify_membership(membership, types, schema),
        Expr::ScalarFunction(ScalarFunction { func, args }) if UNIFYING.contains(&func.name()) => {
            Ok(unify(args, types, Purpose::Unite, schema)?
                .update_data(|args| Expr::ScalarFunction(ScalarFunction { func, args })))
        }
        Expr::ScalarFunction(call) if call.func.name() == "nullif" && call.args.len() == 2 => {
            unify_nullif(call, types, schema)
        }
        other => Ok(Transformed::no(other)),
    }
}

/// What AT TIME ZONE is planned as, a cast to nanoseconds of a zone, as what it means.
fn moved_to_zone(expr: &Expr, types: &ChildTypes) -> Result<Option<Expr>> {
    let (Expr::Cast(Cast { expr, field }), Some(Some(own))) = (expr, types.first()) else { return Ok(None) };
    match field.data_type() {
        DataType::Timestamp(TimeUnit::Nanosecond, Some(zone)) => at_zone(expr.as_ref().clone(), own, zone).map(Some),
        _ => Ok(None),
    }
}

/// `x IN (1, e)` as `x IN (1) OR x = e`, where `e` is computed of columns. DataFusion tries the elements on no row at all, and
/// takes those for constants that give a value there, as CASE does.
fn listed(mut list: InList) -> Transformed<Expr> {
    let is_computed = |expr: &Expr| !matches!(expr, Expr::Column(_)) && expr.any_column_refs();
    if list.expr.is_volatile() || !list.list.iter().any(is_computed) {
        return Transformed::no(Expr::InList(list));
    }
    let (computed, rest): (Vec<_>, Vec<_>) = list.list.into_iter().partition(is_computed);
    let (equals, joined) = if list.negated { (Operator::NotEq, Operator::And) } else { (Operator::Eq, Operator::Or) };
    // A short list becomes comparisons in any case, only too late for what simplifies them.
    let (mut all, compared) = match rest.len() <= SHORT_LIST {
        true => (vec![], [rest, computed].concat()),
        false => {
            list.list = rest;
            (vec![Expr::InList(list.clone())], computed)
        }
    };
    all.extend(compared.into_iter().map(|one| binary_expr((*list.expr).clone(), equals, one)));
    let all = all.into_iter().reduce(|left, right| binary_expr(left, joined, right));
    Transformed::yes(all.unwrap_or_default())
}

/// `TIMESTAMP '1992-01-01 00:00:00'` as the value that it stands for.
fn time_literal(expr: &Expr, data_type: &DataType) -> Option<Expr> {
    let Expr::Literal(text, _) = expr else { return None };
    let is_known = !text.is_null() && (text.data_type().is_string() || text.data_type().is_temporal());
    if !is_known || possible::check(&text.data_type(), data_type).is_err() {
        return None;
    }
    // What is no such value is said when the cast is evaluated.
    Some(Expr::Literal(cast_scalar(text, data_type).ok()?, None))
}

/// `CAST('-0.0' AS DOUBLE)` in its canonical form.
fn float_literal(expr: &Expr, data_type: &DataType) -> Option<Expr> {
    let Expr::Literal(text @ (ScalarValue::Utf8(Some(_)) | ScalarValue::Utf8View(Some(_))), _) = expr else {
        return None;
    };
    // What is not a number is said when the cast is evaluated.
    let value = match text.cast_to(data_type).ok()? {
        ScalarValue::Float32(Some(value)) => ScalarValue::Float32(Some(canonical_f32(value))),
        ScalarValue::Float64(Some(value)) => ScalarValue::Float64(Some(canonical_f64(value))),
        _ => return None,
    };
    Some(Expr::Literal(value, None))
}

/// `nullif(a, b)` of two types: the first value as it is, whatever it is compared with.
fn unify_nullif(call: ScalarFunction, types: &ChildTypes, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let [Some(own), Some(other)] = types else { return Ok(Transformed::no(Expr::ScalarFunction(call))) };
    let common = Purpose::Compare.ours(own, other).or_else(|| Purpose::Compare.theirs(own, other));
    let (Some(common), [value, compared]) = (common.filter(|_| own != other), call.args.as_slice()) else {
        return Ok(Transformed::no(Expr::ScalarFunction(call)));
    };
    // What differs from call to call is computed once.
    if value.is_volatile() {
        return Ok(Transformed::no(Expr::ScalarFunction(call)));
    }
    let (left, right) = (value.clone().cast_to(&common, schema)?, compared.clone().cast_to(&common, schema)?);
    let when = Box::new(binary_expr(left, Operator::Eq, right));
    let null = Box::new(Expr::Literal(ScalarValue::Null, None));
    let value = call.args.into_iter().next().map(Box::new);
    Ok(Transformed::yes(Expr::Case(Case::new(None, vec![(when, null)], value))))
}

fn unify_case(case: Case, types: &ChildTypes, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let Case { expr, when_then_expr, else_expr } = case;
    // Types come in the order of the text: the subject, each WHEN with its THEN, ELSE.
    let (subject_type, branch_types) = types.split_at(usize::from(expr.is_some()).min(types.len()));
    let (pairs, else_type) = branch_types.split_at((2 * when_then_expr.len()).min(branch_types.len()));
    let when_types = subject_type.iter().chain(pairs.iter().step_by(2)).cloned().collect::<Vec<_>>();
    let then_types = pairs.iter().skip(1).step_by(2).chain(else_type).cloned().collect::<Vec<_>>();
    let (whens, mut thens): (Vec<Expr>, Vec<Expr>) =
        when_then_expr.into_iter().map(|(when, then)| (*when, *then)).unzip();
    let has_else = else_expr.is_some();
    thens.extend(else_expr.map(|expr| *expr));
    // The type of a CASE is asked for before its values are brought to one.
    let is_number = |own: &Option<DataType>| own.as_ref().is_some_and(|own| own.is_numeric() || own.is_null());
    let numbers = then_types.iter().all(is_number).then(|| then_types.iter().cloned().collect::<Option<Vec<_>>>());
    let united = numbers.flatten().filter(|types| types.iter().any(|own| *own != types[0])).and_then(|types| {
        let common = united_number(&types)?;
        Some(with_all_digits(common, &types, thens.iter().map(|value| Some((value, schema)))))
    });
    let thens = match united {
        Some(common) => {
            let casts = thens.into_iter().map(|then| then.cast_to(&common, schema)).collect::<Result<_>>()?;
            Transformed::yes(casts)
        }
        None => unify(thens, &then_types, Purpose::Unite, schema)?,
    };
    let (whens, subject) = match expr {
        None => (Transformed::no(whens), None),
        Some(subject) => {
            let all = std::iter::once(*subject).chain(whens).collect();
            let mut all = unify(all, &when_types, Purpose::Compare, schema)?;
            let subject = all.data.remove(0);
            (all, Some(Box::new(subject)))
        }
    };
    let transformed = whens.transformed || thens.transformed;
    let mut thens = thens.data;
    let else_expr = has_else.then(|| thens.pop()).flatten().map(Box::new);
    let when_then_expr =
        whens.data.into_iter().zip(thens).map(|(when, then)| (Box::new(when), Box::new(then))).collect();
    let case = Expr::Case(Case { expr: subject, when_then_expr, else_expr });
    Ok(if transformed { Transformed::yes(case) } else { Transformed::no(case) })
}

/// `expressions`, of these types, with casts to the type that we hold they have in common, where that is not DataFusion's.
fn unify(
    expressions: Vec<Expr>,
    types: &ChildTypes,
    purpose: Purpose,
    schema: &DFSchema,
) -> Result<Transformed<Vec<Expr>>> {
    let Some(types) = types.iter().cloned().collect::<Option<Vec<DataType>>>() else {
        return Ok(Transformed::no(expressions));
    };
    let beside_texts = texts_beside::type_of_all(&expressions, &types, purpose)?;
    let Some(common) = beside_texts.or_else(|| common_type(&types, purpose)) else {
        return Ok(Transformed::no(expressions));
    };
    let common = match purpose {
        Purpose::Unite => with_all_digits(common, &types, expressions.iter().map(|value| Some((value, schema)))),
        Purpose::Compare | Purpose::Order => common,
    };
    let casts = expressions.into_iter().map(|expr| expr.cast_to(&common, schema)).collect::<Result<_>>()?;
    Ok(Transformed::yes(casts))
}

/// As [`unify`], for a difference: only dates and timestamps are brought together.
fn unify_times(expressions: Vec<Expr>, types: &ChildTypes, schema: &DFSchema) -> Result<Transformed<Vec<Expr>>> {
    let is_time = |data_type: &Option<DataType>| matches!(data_type, Some(DataType::Date32 | DataType::Timestamp(..)));
    match types.iter().all(is_time) {
        true => unify(expressions, types, Purpose::Compare, schema),
        false => Ok(Transformed::no(expressions)),
    }
}

/// `x IN (SELECT y …)` with casts to our common type of `x` and `y`.
fn unify_membership(membership: InSubquery, types: &ChildTypes, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let InSubquery { expr, subquery, negated } = membership;
    let (qualifier, field) = subquery.subquery.schema().qualified_field(0);
    let own = types.first().cloned().flatten();
    if let Some(own) = own.as_ref().filter(|_| !matches!(*expr, Expr::Literal(..))) {
        texts_beside::check(own, field.data_type())?;
    }
    let Some(common) = own.and_then(|own| our_common_type(&own, field.data_type())) else {
        return Ok(Transformed::no(Expr::InSubquery(InSubquery { expr, subquery, negated })));
    };
    let column = Expr::Column((qualifier, field).into()).cast_to(&common, subquery.subquery.schema())?;
    let column = column.alias_qualified(qualifier.cloned(), field.name());
    let plan = LogicalPlanBuilder::from(Arc::clone(&subquery.subquery)).project([column])?.build()?;
    let expr = Box::new(expr.cast_to(&common, schema)?);
    let subquery = subquery.with_plan(Arc::new(plan));
    Ok(Transformed::yes(Expr::InSubquery(InSubquery { expr, subquery, negated })))
}

/// A join with casts to our common types of its keys.
fn unify_join_keys(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Join(mut join) = plan else { return Ok(Transformed::no(plan)) };
    let mut transformed = false;
    for (left, right) in &mut join.on {
        let (left_schema, right_schema) = (join.left.schema(), join.right.schema());
        let (Ok(left_type), Ok(right_type)) = (left.get_type(left_schema), right.get_type(right_schema)) else {
            continue;
        };
        if let Some(common) = our_common_type(&left_type, &right_type) {
            *left = std::mem::take(left).cast_to(&common, left_schema)?;
            *right = std::mem::take(right).cast_to(&common, right_schema)?;
            transformed = true;
        }
    }
    Ok(Transformed::new_transformed(LogicalPlan::Join(join), transformed))
}
