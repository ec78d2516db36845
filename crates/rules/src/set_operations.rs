//! The types of set operations: a column of UNION, INTERSECT or EXCEPT has the type that those of all inputs have in common.
//! DataFusion plans what reads one by the types of its first input, and gives INTERSECT and EXCEPT these for good.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::Cast;
use datafusion::logical_expr::{Distinct, Expr, Join, LogicalPlan, LogicalPlanBuilder, Union};
use forebay_types::supertypes::united_type;

use crate::declared_digits::with_all_digits;
use crate::multisets::is_set_operation;
use crate::texts_beside::is_other;

/// The plan with set operations whose columns have the types that those of their inputs have in common, as far as types are
/// known before the plan is analysed: `x // 2` is another operator for integers than for decimals. The inputs of a UNION get
/// their casts in analysis.
///
/// # Errors
/// If DataFusion cannot make a node above a set operation anew.
pub fn with_united_columns(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut changed = false;
    let plan = plan.transform_up(|node| match node {
        LogicalPlan::Union(Union { inputs, schema }) => {
            let inputs = inputs.into_iter().map(of_own_types).collect::<Result<Vec<_>>>()?;
            let united = united_columns(&inputs, schema.fields().len());
            let columns = schema.iter().zip(united).map(|((qualifier, field), target)| {
                let field = match target {
                    Some(target) if target != *field.data_type() => {
                        changed = true;
                        Arc::new(field.as_ref().clone().with_data_type(target))
                    }
                    _ => Arc::clone(field),
                };
                (qualifier.cloned(), field)
            });
            let schema = DFSchema::new_with_metadata(columns.collect(), schema.metadata().clone())?;
            Ok(Transformed::yes(LogicalPlan::Union(Union { inputs, schema: Arc::new(schema) })))
        }
        LogicalPlan::Join(join) if is_set_operation(&join) => {
            let join = unify_intersection(join)?;
            changed |= join.transformed;
            Ok(join)
        }
        other if changed => other.recompute_schema().map(Transformed::yes),
        other => Ok(Transformed::no(other)),
    });
    plan.map(|plan| plan.data)
}

/// An input of a union with the types that it has: those of UNION BY NAME are told the types of the first one.
fn of_own_types(input: Arc<LogicalPlan>) -> Result<Arc<LogicalPlan>> {
    match input.as_ref() {
        LogicalPlan::Projection(_) => Arc::unwrap_or_clone(input).recompute_schema().map(Arc::new),
        _ => Ok(input),
    }
}

/// For each of the columns of a union whose inputs' types differ, the type in common, if there is one. All of it is ours to
/// say, so that a union of this one is not told the type of its first input.
fn united_columns(inputs: &[Arc<LogicalPlan>], width: usize) -> Vec<Option<DataType>> {
    if inputs.iter().any(|input| input.schema().fields().len() != width) {
        return vec![None; width];
    }
    let target = |column: usize| {
        let types: Vec<DataType> =
            inputs.iter().map(|input| input.schema().field(column).data_type().clone()).collect();
        let is_mixed = types.iter().any(|data_type| *data_type != types[0]);
        // Texts in a column make it one of texts, whatever other values it has.
        let is_of_texts = types.iter().any(DataType::is_string) && types.iter().any(is_other);
        match is_of_texts {
            true => Some(DataType::Utf8View),
            false if is_mixed => {
                let values = inputs.iter().map(|input| match input.as_ref() {
                    LogicalPlan::Projection(made) => Some((made.expr.get(column)?, made.input.schema().as_ref())),
                    _ => None,
                });
                united_type(&types).map(|common| with_all_digits(common, &types, values))
            }
            false => None,
        }
    };
    (0..width).map(target).collect()
}

/// A UNION whose inputs are cast to the types that their columns have in common.
///
/// # Errors
/// If DataFusion cannot make the plan.
pub fn unify_union(union: Union) -> Result<Transformed<LogicalPlan>> {
    let inputs = union.inputs.iter().cloned().map(of_own_types).collect::<Result<Vec<_>>>()?;
    let targets = united_columns(&inputs, union.schema.fields().len());
    if targets.iter().all(Option::is_none) {
        return Ok(Transformed::no(LogicalPlan::Union(union)));
    }
    let inputs = inputs.iter().map(|input| cast_columns(input, &targets)).collect::<Result<_>>()?;
    Ok(Transformed::yes(LogicalPlan::Union(Union::try_new_with_loose_types(inputs)?)))
}

/// An INTERSECT or EXCEPT, of which the left side, whose rows it gives, is cast to the types that both sides have in common.
///
/// # Errors
/// If DataFusion cannot make the plan.
pub fn unify_intersection(mut join: Join) -> Result<Transformed<LogicalPlan>> {
    let targets = united_columns(&[Arc::clone(&join.left), Arc::clone(&join.right)], join.left.schema().fields().len());
    let fields = join.left.schema().fields().iter();
    if targets.iter().zip(fields).all(|(target, field)| target.as_ref().is_none_or(|to| to == field.data_type())) {
        return Ok(Transformed::no(LogicalPlan::Join(join)));
    }
    // Rows that are distinct before a cast may not be so behind it.
    join.left = match join.left.as_ref() {
        LogicalPlan::Distinct(Distinct::All(input)) => {
            Arc::new(LogicalPlan::Distinct(Distinct::All(cast_columns(input, &targets)?)))
        }
        _ => cast_columns(&join.left, &targets)?,
    };
    LogicalPlan::Join(join).recompute_schema().map(Transformed::yes)
}

/// `input` with its columns cast to these types, where there are some.
fn cast_columns(input: &Arc<LogicalPlan>, targets: &[Option<DataType>]) -> Result<Arc<LogicalPlan>> {
    let columns = input.schema().iter().zip(targets).map(|((qualifier, field), target)| {
        let column = Expr::Column((qualifier, field).into());
        match target {
            Some(target) if target != field.data_type() => Expr::Cast(Cast::new(Box::new(column), target.clone()))
                .alias_qualified(qualifier.cloned(), field.name()),
            _ => column,
        }
    });
    LogicalPlanBuilder::from(Arc::clone(input)).project(columns)?.build().map(Arc::new)
}
