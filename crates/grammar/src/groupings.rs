//! ROLLUP and CUBE among GROUPING SETS, as the sets that they stand for, and `GROUP BY ()`, the set of all rows.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, FunctionArguments, GroupByExpr, Select, SelectItem, Value,
};

use crate::walk::{Tree, any_expression, visit_expressions_mut};
use forebay_forms::calls::is_aggregate;

/// Columns of a CUBE: it has as many sets as these have subsets.
const CUBE_COLUMNS: usize = 12;

/// Writes out the sets of a SELECT.
pub fn write_out(select: &mut Select) {
    if matches!(&select.group_by, GroupByExpr::All(modifiers) if modifiers.is_empty()) && has_no_keys(select) {
        select.group_by = GroupByExpr::Expressions(Vec::new(), Vec::new());
    }
    let has_calls = |tree: &dyn Tree| any_expression(tree, |expr| matches!(expr, Expr::Function(_)));
    // HAVING alone makes one group of all rows, as aggregates do.
    let is_having = select.having.as_ref().is_some_and(|having| !has_calls(having))
        && matches!(&select.group_by, GroupByExpr::Expressions(groups, _) if groups.is_empty());
    let of_all = is_having
        && select.projection.iter().all(|item| match item {
            SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => !has_calls(expr),
            _ => false,
        });
    let GroupByExpr::Expressions(groups, _) = &mut select.group_by else { return };
    let is_empty = |group: &Expr| matches!(group, Expr::Tuple(parts) if parts.is_empty());
    if of_all || (!groups.is_empty() && groups.iter().all(is_empty)) {
        *groups = vec![Expr::GroupingSets(vec![Vec::new()])];
        return;
    }
    // Each part of `(a, b)` is a key, and `()` beside keys is none.
    let keys = |group: Expr| match group {
        Expr::Tuple(parts) => parts,
        other => vec![other],
    };
    *groups = std::mem::take(groups).into_iter().flat_map(keys).collect();
    for group in groups {
        match group {
            Expr::GroupingSets(sets) => *sets = std::mem::take(sets).into_iter().flat_map(sets_of).collect(),
            // Columns in parentheses come and go together, which the planner does not know.
            Expr::Rollup(columns) if has_tuples(columns) => *group = Expr::GroupingSets(rolled_up(columns)),
            Expr::Cube(columns) if has_tuples(columns) && columns.len() <= CUBE_COLUMNS => {
                *group = Expr::GroupingSets(subsets(columns));
            }
            _ => {}
        }
    }
}

/// Whether GROUP BY ALL of a SELECT has no keys: outside of aggregates there are only constants, which are none.
fn has_no_keys(select: &Select) -> bool {
    select.projection.iter().all(|item| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => is_constant(expr.clone()),
        _ => false,
    })
}

/// Whether an expression is the same for all rows of a group of any kind.
fn is_constant(mut expr: Expr) -> bool {
    let _: ControlFlow<()> = visit_expressions_mut(&mut expr, |part| {
        if matches!(part, Expr::Function(call) if is_aggregate(call)) {
            *part = Expr::Value(Value::Null.into());
        }
        ControlFlow::Continue(())
    });
    let varies = |part: &Expr| match part {
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) | Expr::Subquery(_) | Expr::Exists { .. } => true,
        // Another value each time, perhaps.
        Expr::Function(call) => match &call.args {
            FunctionArguments::List(list) => list.args.is_empty() || call.over.is_some(),
            _ => true,
        },
        _ => false,
    };
    !any_expression(&expr, varies)
}

/// The sets that an element of GROUPING SETS stands for.
fn sets_of(element: Vec<Expr>) -> Vec<Vec<Expr>> {
    let [Expr::Function(call)] = &element[..] else { return vec![element] };
    let FunctionArguments::List(list) = &call.args else { return vec![element] };
    let column = |argument: &FunctionArg| match argument {
        // Columns in parentheses come and go together.
        FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Tuple(columns))) => Some(columns.clone()),
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(vec![expr.clone()]),
        _ => None,
    };
    let Some(columns) = list.args.iter().map(column).collect::<Option<Vec<Vec<Expr>>>>() else { return vec![element] };
    match call.name.to_string().to_lowercase().as_str() {
        "rollup" => rolled_up(&columns),
        "cube" if columns.len() <= CUBE_COLUMNS => subsets(&columns),
        _ => vec![element],
    }
}

fn has_tuples(columns: &[Vec<Expr>]) -> bool {
    columns.iter().any(|column| column.len() != 1)
}

/// The sets of a ROLLUP: fewer and fewer of the columns.
fn rolled_up(columns: &[Vec<Expr>]) -> Vec<Vec<Expr>> {
    (0..=columns.len()).rev().map(|count| columns[..count].concat()).collect()
}

/// The sets of a CUBE: each choice of the columns.
fn subsets(columns: &[Vec<Expr>]) -> Vec<Vec<Expr>> {
    let chosen = |subset: usize| {
        let has = |place: usize| subset >> (columns.len() - 1 - place) & 1 == 1;
        (0..columns.len()).filter(|place| has(*place)).flat_map(|place| columns[place].clone()).collect()
    };
    (0..1_usize << columns.len()).rev().map(chosen).collect()
}
