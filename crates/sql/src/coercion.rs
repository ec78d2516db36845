//! Types in common where DataFusion would choose others: dates and text beside timestamps become the timestamp's own
//! unit (not nanoseconds, which end in 2262), floats beside decimals stay floats, binary literals are blobs. The casts are
//! put in before DataFusion's type coercion, which then finds nothing to do.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::{Cast, InList, ScalarFunction};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::type_coercion::binary::{comparison_coercion, type_union_coercion};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    Between, BinaryExpr, Case, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Operator, Union,
};
use datafusion::optimizer::AnalyzerRule;
use forebay_base::{canonical_f32, canonical_f64};

/// Functions whose arguments become one type.
const UNIFYING: [&str; 6] = ["coalesce", "greatest", "ifnull", "least", "nullif", "nvl"];

/// Inserts the casts. Must run before type coercion.
#[derive(Debug)]
pub struct UnifiedTypes;

impl AnalyzerRule for UnifiedTypes {
    fn name(&self) -> &str {
        "unified_types"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        rewrite_expressions(plan, &|expr, schema| rewrite(expr, schema))
    }
}

/// Rewrites every expression of `plan` and its subqueries from the leaves up. Columns keep their names.
pub fn rewrite_expressions(
    plan: LogicalPlan,
    rewrite: &dyn Fn(Expr, &DFSchema) -> Result<Transformed<Expr>>,
) -> Result<LogicalPlan> {
    plan.transform_up_with_subqueries(|plan| {
        let mut schema = merge_schema(&plan.inputs());
        if let LogicalPlan::TableScan(scan) = &plan {
            let source = DFSchema::try_from_qualified_schema(scan.table_name.clone(), &scan.source.schema())?;
            schema.merge(&source);
        }
        schema.merge(plan.schema());
        let names = NamePreserver::new(&plan);
        let rewritten = plan.map_expressions(|expr| {
            let name = names.save(&expr);
            let done = expr.transform_up(|expr| rewrite(expr, &schema))?;
            Ok(match done.transformed {
                true => done.update_data(|expr| name.restore(expr)),
                false => done,
            })
        })?;
        let rewritten = rewritten.transform_data(unify_union)?;
        match rewritten.transformed {
            true => rewritten.map_data(LogicalPlan::recompute_schema),
            false => Ok(rewritten),
        }
    })
    .data()
}

fn rewrite(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    match expr {
        Expr::Literal(ScalarValue::Binary(bytes), metadata) => {
            Ok(Transformed::yes(Expr::Literal(ScalarValue::BinaryView(bytes), metadata)))
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
                Operator::Minus => unify_times(both, schema)?,
                _ => unify(both, comparison_coercion, schema)?,
            };
            Ok(both.update_data(|mut both| {
                let (right, left) = (both.pop(), both.pop());
                let (left, right) = (left.unwrap_or_default(), right.unwrap_or_default());
                Expr::BinaryExpr(BinaryExpr::new(Box::new(left), op, Box::new(right)))
            }))
        }
        Expr::Between(Between { expr, negated, low, high }) => {
            let all = unify(vec![*expr, *low, *high], comparison_coercion, schema)?;
            Ok(all.update_data(|all| {
                let mut all = all.into_iter().map(Box::new);
                let mut next = || all.next().unwrap_or_default();
                Expr::Between(Between { expr: next(), negated, low: next(), high: next() })
            }))
        }
        Expr::InList(InList { expr, list, negated }) => {
            let all = std::iter::once(*expr).chain(list).collect();
            Ok(unify(all, comparison_coercion, schema)?.update_data(|mut all| {
                let expr = Box::new(all.remove(0));
                Expr::InList(InList { expr, list: all, negated })
            }))
        }
        Expr::Case(case) => unify_case(case, schema),
        Expr::ScalarFunction(ScalarFunction { func, args }) if UNIFYING.contains(&func.name()) => {
            Ok(unify(args, type_union_coercion, schema)?
                .update_data(|args| Expr::ScalarFunction(ScalarFunction { func, args })))
        }
        other => Ok(Transformed::no(other)),
    }
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

fn is_comparison(op: Operator) -> bool {
    use Operator as O;
    matches!(op, O::Eq | O::NotEq | O::Lt | O::LtEq | O::Gt | O::GtEq | O::IsDistinctFrom | O::IsNotDistinctFrom)
}

fn unify_case(case: Case, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let Case { expr, when_then_expr, else_expr } = case;
    let (whens, mut thens): (Vec<Expr>, Vec<Expr>) =
        when_then_expr.into_iter().map(|(when, then)| (*when, *then)).unzip();
    let has_else = else_expr.is_some();
    thens.extend(else_expr.map(|expr| *expr));
    let thens = unify(thens, type_union_coercion, schema)?;
    let (whens, subject) = match expr {
        None => (Transformed::no(whens), None),
        Some(subject) => {
            let mut all = unify(std::iter::once(*subject).chain(whens).collect(), comparison_coercion, schema)?;
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

/// `expressions` with casts to the type that we hold they have in common, where that is not DataFusion's.
fn unify(
    expressions: Vec<Expr>,
    theirs: fn(&DataType, &DataType) -> Option<DataType>,
    schema: &DFSchema,
) -> Result<Transformed<Vec<Expr>>> {
    let types = expressions.iter().map(|expr| expr.get_type(schema)).collect::<Result<Vec<_>>>();
    let Some(common) = types.ok().and_then(|types| common_type(&types, theirs)) else {
        return Ok(Transformed::no(expressions));
    };
    let casts = expressions.into_iter().map(|expr| expr.cast_to(&common, schema)).collect::<Result<_>>()?;
    Ok(Transformed::yes(casts))
}

/// As [`unify`], for a difference: only dates and timestamps are brought together.
fn unify_times(expressions: Vec<Expr>, schema: &DFSchema) -> Result<Transformed<Vec<Expr>>> {
    let is_time = |expr: &Expr| {
        expr.get_type(schema).is_ok_and(|data_type| matches!(data_type, DataType::Date32 | DataType::Timestamp(..)))
    };
    match expressions.iter().all(is_time) {
        true => unify(expressions, comparison_coercion, schema),
        false => Ok(Transformed::no(expressions)),
    }
}

/// The common type of all, if our rule decides one of the steps to it.
fn common_type(types: &[DataType], theirs: fn(&DataType, &DataType) -> Option<DataType>) -> Option<DataType> {
    let (first, rest) = types.split_first()?;
    let mut common = first.clone();
    let mut is_ours = false;
    for next in rest {
        common = match our_common_type(&common, next) {
            Some(ours) => {
                is_ours = true;
                ours
            }
            None => theirs(&common, next)?,
        };
    }
    is_ours.then_some(common)
}

fn our_common_type(left: &DataType, right: &DataType) -> Option<DataType> {
    ordered_common_type(left, right).or_else(|| ordered_common_type(right, left))
}

fn ordered_common_type(left: &DataType, right: &DataType) -> Option<DataType> {
    use DataType as T;
    Some(match (left, right) {
        (T::Timestamp(unit, zone), T::Date32) => T::Timestamp(*unit, zone.clone()),
        (T::Timestamp(unit, zone), T::Utf8 | T::LargeUtf8 | T::Utf8View) => {
            // Text may say microseconds, whatever the other side holds.
            let unit = if *unit == TimeUnit::Nanosecond { TimeUnit::Nanosecond } else { TimeUnit::Microsecond };
            T::Timestamp(unit, zone.clone())
        }
        (T::Float32 | T::Float64, T::Decimal32(..) | T::Decimal64(..) | T::Decimal128(..) | T::Decimal256(..)) => {
            left.clone()
        }
        (T::Time64(TimeUnit::Nanosecond), T::Time64(TimeUnit::Microsecond)) => left.clone(),
        (T::BinaryView, T::Binary | T::LargeBinary) => T::BinaryView,
        _ => return None,
    })
}

/// Inputs of a UNION with casts to our common types of their columns.
fn unify_union(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Union(Union { inputs, schema }) = plan else { return Ok(Transformed::no(plan)) };
    let width = schema.fields().len();
    let same = inputs.iter().all(|input| input.schema().fields().len() == width);
    let target = |column: usize| {
        let types: Vec<DataType> =
            inputs.iter().map(|input| input.schema().field(column).data_type().clone()).collect();
        common_type(&types, type_union_coercion)
    };
    let targets: Vec<Option<DataType>> = if same { (0..width).map(target).collect() } else { Vec::new() };
    if targets.iter().all(Option::is_none) {
        return Ok(Transformed::no(LogicalPlan::Union(Union { inputs, schema })));
    }
    let cast_input = |input: &Arc<LogicalPlan>| {
        let columns: Vec<Expr> = input
            .schema()
            .iter()
            .zip(&targets)
            .map(|((qualifier, field), target)| {
                let column = Expr::Column((qualifier, field).into());
                match target {
                    Some(target) if target != field.data_type() => {
                        Expr::Cast(Cast::new(Box::new(column), target.clone()))
                            .alias_qualified(qualifier.cloned(), field.name())
                    }
                    _ => column,
                }
            })
            .collect();
        LogicalPlanBuilder::from(Arc::clone(input)).project(columns)?.build().map(Arc::new)
    };
    let inputs = inputs.iter().map(cast_input).collect::<Result<_>>()?;
    Ok(Transformed::yes(LogicalPlan::Union(Union::try_new_with_loose_types(inputs)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn micros() -> DataType {
        DataType::Timestamp(TimeUnit::Microsecond, None)
    }

    #[test]
    fn floats_beside_decimals_stay_floats() {
        let types = [DataType::Int32, DataType::Decimal128(2, 1), DataType::Float64];
        assert_eq!(common_type(&types, comparison_coercion), Some(DataType::Float64));
        assert_eq!(common_type(&types[..2], comparison_coercion), None);
        let single = [DataType::Float32, DataType::Decimal128(2, 1)];
        assert_eq!(common_type(&single, comparison_coercion), Some(DataType::Float32));
    }

    #[test]
    fn dates_and_text_take_the_unit_of_timestamps() {
        assert_eq!(common_type(&[micros(), DataType::Date32], comparison_coercion), Some(micros()));
        assert_eq!(common_type(&[DataType::Utf8, micros()], comparison_coercion), Some(micros()));
        assert_eq!(common_type(&[micros(), micros()], comparison_coercion), None);
    }
}
