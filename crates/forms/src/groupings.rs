//! ROLLUP and CUBE as the sets that they stand for, places of the SELECT list in sets, and `GROUP BY ()`, the set of all rows; calls of
//! `grouping` without arguments, which are about all keys.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, GroupByExpr, Ident, Query, Select, SelectItem,
    Value, VisitorMut,
};

use crate::calls::is_aggregate;
use crate::walk::{Tree, any_expression, visit_expressions_mut};

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
    let Select { projection, group_by: GroupByExpr::Expressions(groups, _), .. } = select else { return };
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
    for group in groups.iter_mut() {
        match group {
            Expr::GroupingSets(sets) => *sets = std::mem::take(sets).into_iter().flat_map(sets_of).collect(),
            // The planner takes all members for different ones, and does not know that columns in parentheses come and go together.
            Expr::Rollup(columns) if !is_one(columns) => *group = Expr::GroupingSets(rolled_up(columns)),
            Expr::Cube(columns) if !is_one(columns) && columns.len() <= CUBE_COLUMNS => {
                *group = Expr::GroupingSets(subsets(columns));
            }
            _ => {}
        }
    }
    let unknown = groups.iter_mut().flat_map(members).find_map(|member| put_place(member, projection));
    if let Some(place) = unknown {
        // The planner tells what places there are.
        *groups = vec![place];
    }
    name_keys(select);
}

/// The members of sets.
fn members(group: &mut Expr) -> impl Iterator<Item = &mut Expr> {
    let sets = match group {
        Expr::GroupingSets(sets) | Expr::Rollup(sets) | Expr::Cube(sets) => sets.as_mut_slice(),
        _ => &mut [],
    };
    sets.iter_mut().flatten()
}

/// Puts what the SELECT list has at a place where a member of a set names it. Returns a place that the list does not have.
fn put_place(member: &mut Expr, projection: &[SelectItem]) -> Option<Expr> {
    let place = place(member)?;
    let listed = &projection[..place.min(projection.len())];
    let exprs = listed.iter().map(shown).collect::<Option<Vec<&Expr>>>()?;
    match exprs.last() {
        Some(expr) if exprs.len() == place => {
            *member = (*expr).clone();
            None
        }
        _ => Some(member.clone()),
    }
}

/// The place of the SELECT list that a number names.
fn place(key: &Expr) -> Option<usize> {
    match key {
        Expr::Value(number) => match &number.value {
            Value::Number(digits, _) => digits.parse().ok(),
            _ => None,
        },
        _ => None,
    }
}

/// The expression that a SELECT list shows; `None` for what stands for several.
fn shown(item: &SelectItem) -> Option<&Expr> {
    match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr),
        _ => None,
    }
}

/// Names all keys in calls of `grouping` that name none.
fn name_keys(select: &mut Select) {
    let is_unnamed = |expr: &Expr| matches!(expr, Expr::Function(call) if is_of_all_keys(call));
    let Select { projection, group_by: GroupByExpr::Expressions(groups, _), having, qualify, .. } = select else {
        return;
    };
    let has_call = |expr: &Expr| any_expression(expr, is_unnamed);
    if !projection.iter().filter_map(shown).chain(&*having).chain(&*qualify).any(has_call) {
        return;
    }
    let mut keys: Vec<Expr> = Vec::new();
    for mut group in groups.iter().cloned() {
        let named = place(&group).and_then(|place| projection.get(place.checked_sub(1)?)).and_then(shown);
        let own = match &group {
            Expr::GroupingSets(_) | Expr::Rollup(_) | Expr::Cube(_) => None,
            other => Some(named.unwrap_or(other).clone()),
        };
        for key in own.into_iter().chain(members(&mut group).map(|member| member.clone())) {
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
    }
    let mut calls = CallsOfAllKeys { keys, queries: 0 };
    for item in projection.iter_mut() {
        if let SelectItem::UnnamedExpr(expr) = item
            && has_call(expr)
        {
            let alias = Ident::with_quote('"', expr.to_string());
            *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
        }
        if let SelectItem::ExprWithAlias { expr, .. } = item {
            let _ = expr.walk_mut(&mut calls);
        }
    }
    for expr in having.iter_mut().chain(qualify) {
        let _ = expr.walk_mut(&mut calls);
    }
}

/// Whether this is `grouping()` or `grouping_id()`.
fn is_of_all_keys(call: &Function) -> bool {
    let name = call.name.to_string();
    let has_name = name.eq_ignore_ascii_case("grouping") || name.eq_ignore_ascii_case("grouping_id");
    has_name && matches!(&call.args, FunctionArguments::List(list) if list.args.is_empty())
}

/// Gives calls of `grouping` their arguments, but not those of subqueries, which have keys of their own.
struct CallsOfAllKeys {
    keys: Vec<Expr>,
    queries: usize,
}

impl VisitorMut for CallsOfAllKeys {
    type Break = ();

    fn pre_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.queries += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.queries -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Function(call) = expr
            && self.queries == 0
            && is_of_all_keys(call)
            && let FunctionArguments::List(list) = &mut call.args
        {
            list.args = self.keys.iter().cloned().map(|key| FunctionArg::Unnamed(FunctionArgExpr::Expr(key))).collect();
        }
        ControlFlow::Continue(())
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

/// Whether there is one column only.
fn is_one(columns: &[Vec<Expr>]) -> bool {
    matches!(columns, [column] if column.len() == 1)
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

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::ast::SetExpr;
    use datafusion::sql::sqlparser::dialect::GenericDialect;
    use datafusion::sql::sqlparser::parser::Parser;

    /// Checks what becomes of GROUP BY, with the list and HAVING around it.
    #[track_caller]
    fn check(list: &str, rest: &str, expect: &str) {
        let text = format!("SELECT {list} FROM t GROUP BY {rest}");
        let mut query = Parser::new(&GenericDialect).try_with_sql(&text).expect("tokens").parse_query().expect("SQL");
        let SetExpr::Select(select) = query.body.as_mut() else { panic!("no SELECT") };
        write_out(select);
        assert_eq!(select.to_string(), format!("SELECT {expect}"));
    }

    #[test]
    fn several_members_are_sets() {
        check("a", "ROLLUP (a + 1)", "a FROM t GROUP BY ROLLUP (a + 1)");
        check("a", "ROLLUP (a, a)", "a FROM t GROUP BY GROUPING SETS ((a, a), (a), ())");
        check("a", "CUBE (a, b)", "a FROM t GROUP BY GROUPING SETS ((a, b), (a), (b), ())");
    }

    #[test]
    fn numbers_are_places() {
        check("a + 1, b", "ROLLUP (1, b)", "a + 1, b FROM t GROUP BY GROUPING SETS ((a + 1, b), (a + 1), ())");
        check("a AS x, b", "1, GROUPING SETS (2, ())", "a AS x, b FROM t GROUP BY 1, GROUPING SETS ((b), ())");
        check("a", "CUBE (1.5)", "a FROM t GROUP BY CUBE (1.5)");
        check("*, a", "ROLLUP (2)", "*, a FROM t GROUP BY ROLLUP (2)");
        check("a", "CUBE (2)", "a FROM t GROUP BY 2");
    }

    #[test]
    fn grouping_is_of_all_keys() {
        check(
            "a AS x, grouping_id(), (SELECT grouping() FROM s)",
            "1, ROLLUP (b) HAVING grouping() > 0",
            "a AS x, grouping_id(a, b) AS \"grouping_id()\", (SELECT grouping() FROM s) AS \"(SELECT grouping() FROM s)\" \
             FROM t GROUP BY 1, ROLLUP (b) HAVING grouping(a, b) > 0",
        );
    }
}
