//! Aggregates under names and in forms that the planner does not know, as calls of those that it knows: `max(x, 3)`, `geomean(x)`,
//! `percentile_cont(0.5) WITHIN GROUP (ORDER BY x)`; and the types of counts.

use std::ops::ControlFlow;

use datafusion::common::{Result, internal_datafusion_err};
use datafusion::sql::parser::Statement as PlanStatement;
use datafusion::sql::sqlparser::ast::{
    Array, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentClause, FunctionArgumentList,
    FunctionArguments, Ident, ObjectName, OrderByExpr, UnaryOperator,
};
use datafusion::sql::sqlparser::parser::Parser;
use forebay_grammar::walk::visit_expressions_mut;
use forebay_syntax::dialect::ForebayDialect;

use crate::best_rows::SEVERAL;
use crate::frequencies::ORDERED_TEXTS;

/// Writes all such calls of a statement anew.
pub fn write_out(statement: &mut PlanStatement) -> Result<()> {
    match statement {
        PlanStatement::Statement(ast) => {
            let written = visit_expressions_mut(ast.as_mut(), |expr| match rewrite(expr) {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => ControlFlow::Break(error),
            });
            match written {
                ControlFlow::Break(error) => Err(error),
                ControlFlow::Continue(()) => Ok(()),
            }
        }
        PlanStatement::Explain(explain) => write_out(&mut explain.statement),
        PlanStatement::CreateExternalTable(_) | PlanStatement::CopyTo(_) | PlanStatement::Reset(_) => Ok(()),
    }
}

fn rewrite(expr: &mut Expr) -> Result<()> {
    let Expr::Function(call) = expr else { return Ok(()) };
    let name = call.name.to_string().to_lowercase();
    let FunctionArguments::List(list) = &mut call.args else { return Ok(()) };
    let rename = |call: &mut Function, name: &str| call.name = ObjectName::from(vec![Ident::new(name)]);
    match (name.as_str(), list.args.len()) {
        ("max" | "min", 2) => {
            if let Some((_, several)) = SEVERAL.iter().find(|(known, _)| *known == name) {
                rename(call, several);
            }
        }
        // The number of rows is the same in any order.
        ("count", _) => list.clauses.retain(|clause| !matches!(clause, FunctionArgumentClause::OrderBy(_))),
        ("string_agg", 2) if call.over.is_none() && is_ordered(list) => rename(call, ORDERED_TEXTS),
        ("sum_no_overflow", 1) => rename(call, "sum"),
        ("percentile_cont" | "quantile_cont", _) => {
            rename(call, "quantile_cont");
            ordered_values(call, true);
            within_group(call);
        }
        ("percentile_disc" | "quantile_disc" | "quantile", _) => {
            rename(call, "quantile_disc");
            ordered_values(call, name != "quantile");
            within_group(call);
        }
        ("mode", 0) => {
            if let [OrderByExpr { expr: value, .. }] = call.within_group.as_slice() {
                list.args.push(argument(value.clone()));
                call.within_group.clear();
            }
        }
        ("geomean" | "geometric_mean", 1) => {
            if let Some(value) = plain(&list.args[0]) {
                let text = format!("ln({value})");
                let mean = with_arguments(call, "avg", &text)?;
                *expr = parsed(&format!("exp({mean})"))?;
            }
        }
        ("weighted_avg" | "wavg", 2) => {
            if let (Some(value), Some(weight)) = (plain(&list.args[0]), plain(&list.args[1])) {
                let (value, weight) = (value.clone(), weight.clone());
                let weighted = with_arguments(call, "sum", &format!("({value}) * ({weight})"))?;
                let known = format!("CASE WHEN ({value}) IS NOT NULL THEN ({weight}) ELSE 0 END");
                let weights = with_arguments(call, "sum", &known)?;
                *expr = parsed(&format!("(CAST({weighted} AS DOUBLE) / {weights})"))?;
            }
        }
        ("approx_distinct", 1) => *expr = parsed(&format!("CAST({call} AS BIGINT)"))?,
        ("regr_count", 2) => *expr = parsed(&format!("CAST({call} AS UINTEGER)"))?,
        _ => {}
    }
    Ok(())
}

/// `f(value, share ORDER BY value DESC)` counts from the greatest value where `descends`, by a negative share. The values are ordered
/// by themselves, whatever stands there.
fn ordered_values(call: &mut Function, descends: bool) {
    let FunctionArguments::List(list) = &mut call.args else { return };
    let descends = descends
        && list.clauses.iter().any(|clause| match clause {
            FunctionArgumentClause::OrderBy(orders) => {
                orders.first().is_some_and(|order| order.options.asc == Some(false))
            }
            _ => false,
        });
    if let [_, FunctionArg::Unnamed(FunctionArgExpr::Expr(share))] = list.args.as_mut_slice() {
        if descends {
            negate(share);
        }
        list.clauses.retain(|clause| !matches!(clause, FunctionArgumentClause::OrderBy(_)));
    }
}

/// The order of `f(share) WITHIN GROUP (ORDER BY value)` as the first argument; from the greatest to the least by a negative share.
fn within_group(call: &mut Function) {
    let FunctionArguments::List(list) = &mut call.args else { return };
    let ([share], [OrderByExpr { expr: value, options, .. }]) =
        (list.args.as_mut_slice(), call.within_group.as_slice())
    else {
        return;
    };
    if options.asc == Some(false)
        && let FunctionArg::Unnamed(FunctionArgExpr::Expr(share)) = share
    {
        negate(share);
    }
    list.args.insert(0, argument(value.clone()));
    call.within_group.clear();
}

fn negate(share: &mut Expr) {
    match share {
        Expr::Array(Array { elem, .. }) => elem.iter_mut().for_each(negate),
        Expr::Function(Function { name, args: FunctionArguments::List(FunctionArgumentList { args, .. }), .. })
            if name.to_string() == "make_array" =>
        {
            for argument in args {
                if let FunctionArg::Unnamed(FunctionArgExpr::Expr(share)) = argument {
                    negate(share);
                }
            }
        }
        other => {
            let inner = Box::new(Expr::Nested(Box::new(other.clone())));
            *other = Expr::UnaryOp { op: UnaryOperator::Minus, expr: inner };
        }
    }
}

/// The call of another function with this argument, with the filter and the window of `call`.
fn with_arguments(call: &Function, name: &str, text: &str) -> Result<Function> {
    let mut other = call.clone();
    other.name = ObjectName::from(vec![Ident::new(name)]);
    if let FunctionArguments::List(list) = &mut other.args {
        list.args = vec![argument(parsed(text)?)];
    }
    Ok(other)
}

fn is_ordered(list: &FunctionArgumentList) -> bool {
    list.clauses.iter().any(|clause| matches!(clause, FunctionArgumentClause::OrderBy(_)))
}

fn argument(expr: Expr) -> FunctionArg {
    FunctionArg::Unnamed(FunctionArgExpr::Expr(expr))
}

fn plain(argument: &FunctionArg) -> Option<&Expr> {
    match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
        _ => None,
    }
}

fn parsed(text: &str) -> Result<Expr> {
    let parsed = Parser::new(&ForebayDialect).try_with_sql(text).and_then(|mut parser| parser.parse_expr());
    parsed.map_err(|error| internal_datafusion_err!("{text} could not be written out: {error}"))
}
