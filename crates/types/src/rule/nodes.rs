//! One node of a plan: its expressions, its order, and the marks of what it gives.

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::Sort;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Union};
use forebay_context::own_types;

use super::nested::{Unmarked, outputs, plain_rows, unnested};
use super::typing::{Kind, by_keys_inside, common, prevailing, typed};
use crate::functions::{key as order_key, to_own, to_text};
use crate::own::Own;

/// Rewrites a node whose inputs are rewritten.
pub(super) fn rewrite(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let plan = match plan {
        LogicalPlan::Union(union) => return unified(union).map(Transformed::yes),
        LogicalPlan::Sort(mut sort) => {
            let schema = Arc::clone(sort.input.schema());
            sort.expr = ordered(sort.expr, &schema)?;
            LogicalPlan::Sort(sort)
        }
        other => other,
    };
    let inputs = plan.inputs();
    let schema = match inputs.as_slice() {
        [only] => Arc::clone(only.schema()),
        several => Arc::new(merge_schema(several)),
    };
    let gives = matches!(plan, LogicalPlan::Projection(_) | LogicalPlan::Aggregate(_) | LogicalPlan::Window(_));
    let names = NamePreserver::new(&plan);
    let mut unmarked: Vec<Unmarked> = Vec::new();
    let rewritten = plan.map_expressions(|expr| {
        let name = names.save(&expr);
        let (expr, kind) = typed(expr, &schema)?;
        let expr = name.restore(expr);
        if matches!(kind, Kind::Listed(_) | Kind::Keyed(_)) {
            let (relation, name) = expr.qualified_name();
            unmarked.push((relation, name, kind.clone()));
        }
        Ok(Transformed::yes(if gives { marked(expr, &kind, &schema)? } else { expr }))
    })?;
    rewritten.map_data(|plan| match plan.recompute_schema()? {
        LogicalPlan::Values(rows) => plain_rows(rows),
        LogicalPlan::Unnest(unnest) => Ok(LogicalPlan::Unnest(unnested(unnest)?)),
        plan => outputs(plan, &unmarked),
    })
}

/// An output, whose field tells its type.
fn marked(expr: Expr, kind: &Kind, schema: &DFSchema) -> Result<Expr> {
    // What has no type before its own coercion has none of these.
    let told = expr.to_field(schema).ok().and_then(|(_, field)| Own::of_field(&field));
    Ok(match (kind, told) {
        (Kind::Own(own), told) if told.as_ref() != Some(own) => match expr {
            Expr::Alias(alias) => Expr::Alias(alias.with_metadata(Some(own.metadata()))),
            other => {
                let (relation, name) = other.qualified_name();
                other.alias_qualified_with_metadata(relation, name, Some(own.metadata()))
            }
        },
        (Kind::Null | Kind::Literal | Kind::Other | Kind::Listed(_) | Kind::Keyed(_), Some(_)) => {
            let (relation, name) = expr.qualified_name();
            to_text(expr.unalias()).alias_qualified(relation, name)
        }
        _ => expr,
    })
}

/// Keys by which rows are sorted, of the order of their types.
fn ordered(sorts: Vec<Sort>, schema: &DFSchema) -> Result<Vec<Sort>> {
    sorts.into_iter().map(|sort| Ok(Sort { expr: key(sort.expr, schema)?, ..sort })).collect()
}

fn key(expr: Expr, schema: &DFSchema) -> Result<Expr> {
    let (expr, kind) = typed(expr, schema)?;
    Ok(match kind {
        Kind::Own(own) if own.has_keys() => order_key(expr, &own),
        _ => by_keys_inside(expr, schema),
    })
}

/// A union, whose columns are of such a type where all inputs have it.
fn unified(union: Union) -> Result<LogicalPlan> {
    let Union { mut inputs, schema } = union;
    let kinds = |column: usize| inputs.iter().map(move |input| Kind::of_field(input.schema().field(column)));
    let is_whole = inputs.iter().all(|input| input.schema().fields().len() == schema.fields().len());
    if !is_whole {
        return Ok(LogicalPlan::Union(Union { inputs, schema }));
    }
    let columns: Vec<Option<Own>> = (0..schema.fields().len())
        .map(|column| {
            let kinds: Vec<Kind> = kinds(column).collect();
            prevailing(&kinds).or_else(|| common(&kinds))
        })
        .collect();
    for input in &mut inputs {
        let is_other = |(column, own): (usize, &Option<Own>)| match (own, Kind::of_field(input.schema().field(column)))
        {
            (_, Kind::Null) => false,
            (Some(own), Kind::Own(known)) => *own != known,
            (own, kind) => own.is_some() || kind != Kind::Other,
        };
        if !columns.iter().enumerate().any(is_other) {
            continue;
        }
        let outputs = columns.iter().enumerate().map(|(column, own)| {
            let (relation, field) = input.schema().qualified_field(column);
            let value = Expr::Column((relation, field).into());
            match (is_other((column, own)), own) {
                (true, Some(own)) => to_own(value, own.clone(), false).alias_qualified(relation.cloned(), field.name()),
                (true, None) => to_text(value).alias_qualified(relation.cloned(), field.name()),
                (false, _) => value,
            }
        });
        let outputs: Vec<Expr> = outputs.collect();
        *input = Arc::new(LogicalPlanBuilder::from(Arc::clone(input)).project(outputs)?.build()?);
    }
    let fields = schema.iter().zip(&columns).map(|((relation, field), own)| {
        let plain = own_types::plain(field.as_ref().clone());
        let field = match own {
            Some(own) => own_types::marked(plain, own.text()),
            None => plain,
        };
        (relation.cloned(), Arc::new(field))
    });
    let schema = DFSchema::new_with_metadata(fields.collect(), schema.metadata().clone())?;
    Ok(LogicalPlan::Union(Union { inputs, schema: Arc::new(schema) }))
}
