//! ROLLUP and CUBE among GROUPING SETS, as the sets that they stand for.

use datafusion::sql::sqlparser::ast::{Expr, FunctionArg, FunctionArgExpr, FunctionArguments, GroupByExpr, Select};

/// Columns of a CUBE: it has as many sets as these have subsets.
const CUBE_COLUMNS: usize = 12;

/// Writes out the sets of a SELECT.
pub fn write_out(select: &mut Select) {
    let GroupByExpr::Expressions(groups, _) = &mut select.group_by else { return };
    for group in groups {
        if let Expr::GroupingSets(sets) = group {
            *sets = std::mem::take(sets).into_iter().flat_map(sets_of).collect();
        }
    }
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
        "rollup" => (0..=columns.len()).rev().map(|count| columns[..count].concat()).collect(),
        "cube" if columns.len() <= CUBE_COLUMNS => {
            let chosen = |subset: usize| {
                let has = |place: usize| subset >> (columns.len() - 1 - place) & 1 == 1;
                (0..columns.len()).filter(|place| has(*place)).flat_map(|place| columns[place].clone()).collect()
            };
            (0..1_usize << columns.len()).rev().map(chosen).collect()
        }
        _ => vec![element],
    }
}
