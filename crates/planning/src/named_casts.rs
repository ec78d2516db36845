//! Casts whose values stand beside others of the same name. DataFusion calls a cast as what it casts, so that two keys of a SELECT,
//! or two of its calls over windows, may have one name though they differ, which is an error:
//!
//! ```text
//! SELECT a::VARCHAR AS x, a AS y, count(*) FROM t GROUP BY 1, 2
//!     →   SELECT CASE WHEN 1 = 1 THEN a::VARCHAR END AS x, a AS y, count(*) FROM t GROUP BY 1, 2
//! ```
//!
//! What stands for such a cast has a name of its own, and is the cast again as soon as constants are computed.

use std::ops::ControlFlow;

use datafusion::sql::parser::Statement as PlanStatement;
use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CaseWhen, Distinct, Expr, GroupByExpr, OrderByKind, Query, Select, SelectItem, SetExpr, Value,
    VisitorMut,
};
use forebay_grammar::walk::{Tree, any_expression, visit_expressions, visit_expressions_mut};

/// Gives casts other names where these would be there twice.
pub fn tell_apart(statement: &mut PlanStatement) {
    match statement {
        PlanStatement::Statement(ast) => {
            let _ = ast.walk_mut(&mut Queries);
        }
        PlanStatement::Explain(explain) => tell_apart(&mut explain.statement),
        PlanStatement::CreateExternalTable(_) | PlanStatement::CopyTo(_) | PlanStatement::Reset(_) => {}
    }
}

struct Queries;

impl VisitorMut for Queries {
    type Break = ();

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let Query { body, order_by, .. } = query;
        let mut orders = Vec::new();
        if let Some(OrderByKind::Expressions(all)) = order_by.as_mut().map(|order| &mut order.kind) {
            orders.extend(all.iter_mut().map(|order| &mut order.expr));
        }
        bodies(body, &mut orders);
        ControlFlow::Continue(())
    }
}

/// The SELECTs of a query, each with the order that sees its columns.
fn bodies(body: &mut SetExpr, orders: &mut [&mut Expr]) {
    match body {
        SetExpr::Select(select) => of_select(select, orders),
        SetExpr::SetOperation { left, right, .. } => {
            bodies(left, &mut []);
            bodies(right, &mut []);
        }
        _ => {}
    }
}

fn of_select(select: &mut Select, orders: &mut [&mut Expr]) {
    let alike = |exprs: &[Expr]| -> Vec<Expr> {
        if !exprs.iter().any(has_cast) {
            return Vec::new();
        }
        let bare: Vec<String> = exprs.iter().map(without_casts).collect();
        let is_alike = |place: &usize| {
            has_cast(&exprs[*place])
                && (0..exprs.len()).any(|other| bare[other] == bare[*place] && exprs[other] != exprs[*place])
        };
        (0..exprs.len()).filter(is_alike).map(|place| exprs[place].clone()).collect()
    };
    let keys = keys(select);
    let mut renamed = if keys.len() > 1 { alike(&keys) } else { Vec::new() };
    let mut windows = Vec::new();
    each_clause(select, orders, &mut |expr| {
        let _ = visit_expressions(expr, |part| {
            match part {
                Expr::Function(call) if call.over.is_some() => windows.push(part.clone()),
                _ => {}
            }
            ControlFlow::<()>::Continue(())
        });
    });
    if windows.len() > 1 {
        for call in alike(&windows) {
            let _ = visit_expressions(&call, |part| {
                if matches!(part, Expr::Cast { .. }) {
                    renamed.push(part.clone());
                }
                ControlFlow::<()>::Continue(())
            });
        }
    }
    renamed.dedup();
    if renamed.is_empty() {
        return;
    }
    each_clause(select, orders, &mut |expr| {
        let _ = visit_expressions_mut(expr, |part| {
            if let Some(place) = renamed.iter().position(|other| other == part) {
                *part = named(part.clone(), place + 1);
            }
            ControlFlow::<()>::Continue(())
        });
    });
}

/// What a SELECT groups by or is distinct by, places and aliases as what they stand for.
fn keys(select: &Select) -> Vec<Expr> {
    let written = match (&select.group_by, &select.distinct) {
        (GroupByExpr::Expressions(keys, _), None) => keys,
        (_, Some(Distinct::On(keys))) => keys,
        _ => return Vec::new(),
    };
    let items = || {
        select.projection.iter().filter_map(|item| match item {
            SelectItem::UnnamedExpr(expr) => Some((None, expr)),
            SelectItem::ExprWithAlias { expr, alias } => Some((Some(alias.value.as_str()), expr)),
            _ => None,
        })
    };
    let meant = |key: &Expr| match key {
        Expr::Value(number) => match &number.value {
            Value::Number(digits, _) => {
                let place = digits.parse::<usize>().ok().and_then(|place| place.checked_sub(1));
                place.and_then(|place| items().nth(place)).map(|(_, expr)| expr.clone())
            }
            _ => None,
        },
        Expr::Identifier(name) => {
            let is_named = |alias: &Option<&str>| alias.is_some_and(|alias| alias.eq_ignore_ascii_case(&name.value));
            items().find(|(alias, _)| is_named(alias)).map(|(_, expr)| expr.clone())
        }
        _ => None,
    };
    written.iter().flat_map(members).map(|key| meant(key).unwrap_or_else(|| key.clone())).collect()
}

/// A key, or those of grouping sets.
fn members(key: &Expr) -> Vec<&Expr> {
    match key {
        Expr::Rollup(sets) | Expr::Cube(sets) | Expr::GroupingSets(sets) => sets.iter().flatten().collect(),
        other => vec![other],
    }
}

/// Calls `work` for the expressions of a SELECT that may name its keys.
fn each_clause(select: &mut Select, orders: &mut [&mut Expr], work: &mut dyn FnMut(&mut Expr)) {
    for item in &mut select.projection {
        if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
            work(expr);
        }
    }
    if let GroupByExpr::Expressions(keys, _) = &mut select.group_by {
        keys.iter_mut().for_each(&mut *work);
    }
    if let Some(Distinct::On(keys)) = &mut select.distinct {
        keys.iter_mut().for_each(&mut *work);
    }
    select.having.iter_mut().chain(&mut select.qualify).for_each(&mut *work);
    orders.iter_mut().for_each(|order| work(order));
}

fn has_cast(expr: &Expr) -> bool {
    any_expression(expr, |part| matches!(part, Expr::Cast { .. }))
}

/// The text of an expression with what its casts cast in their place, and columns without their tables.
fn without_casts(expr: &Expr) -> String {
    let mut expr = expr.clone();
    let _ = visit_expressions_mut(&mut expr, |part| {
        let inner = match part {
            Expr::Cast { expr, .. } | Expr::Nested(expr) => Some(expr.as_ref().clone()),
            Expr::CompoundIdentifier(parts) => parts.last().cloned().map(Expr::Identifier),
            _ => None,
        };
        if let Some(inner) = inner {
            *part = inner;
        }
        ControlFlow::<()>::Continue(())
    });
    expr.to_string().to_lowercase()
}

/// `CASE WHEN place = place THEN expr END`: no two of different places have one name.
fn named(expr: Expr, place: usize) -> Expr {
    let number = || Box::new(Expr::value(Value::Number(place.to_string(), false)));
    let condition = Expr::BinaryOp { left: number(), op: BinaryOperator::Eq, right: number() };
    Expr::Case {
        case_token: AttachedToken::empty(),
        end_token: AttachedToken::empty(),
        operand: None,
        conditions: vec![CaseWhen { condition, result: expr }],
        else_result: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::dialect::GenericDialect;
    use datafusion::sql::sqlparser::parser::Parser;

    #[test]
    fn casts_are_named_where_they_would_be_called_alike() {
        let apart = |text: &str| {
            let mut query =
                Parser::new(&GenericDialect).try_with_sql(text).expect("tokens").parse_query().expect("SQL");
            let _ = query.walk_mut(&mut Queries);
            query.to_string()
        };
        let same = [
            "SELECT CAST(a AS TEXT) AS x, b AS y FROM t GROUP BY 1, 2",
            "SELECT CAST(a AS TEXT) AS x, CAST(a AS TEXT) AS y FROM t GROUP BY 1, 2",
            "SELECT CAST(a AS TEXT) AS x, a AS y FROM t",
            "SELECT CAST(a AS TEXT), count(*) FROM t GROUP BY CAST(a AS TEXT)",
            "SELECT sum(a) OVER (PARTITION BY CAST(b AS TEXT)) FROM t",
        ];
        for text in same {
            assert_eq!(apart(text), text);
        }
        assert_eq!(
            apart(
                "SELECT CAST(t.a AS TEXT) AS x, a AS y FROM t GROUP BY 1, a HAVING CAST(t.a AS TEXT) > 'b' ORDER BY CAST(t.a AS TEXT)"
            ),
            "SELECT CASE WHEN 1 = 1 THEN CAST(t.a AS TEXT) END AS x, a AS y FROM t GROUP BY 1, a \
             HAVING CASE WHEN 1 = 1 THEN CAST(t.a AS TEXT) END > 'b' ORDER BY CASE WHEN 1 = 1 THEN CAST(t.a AS TEXT) END"
        );
        assert_eq!(
            apart("SELECT sum(a) OVER (PARTITION BY CAST(b AS TEXT)), sum(a) OVER (PARTITION BY b) FROM t"),
            "SELECT sum(a) OVER (PARTITION BY CASE WHEN 1 = 1 THEN CAST(b AS TEXT) END), sum(a) OVER (PARTITION BY b) FROM t"
        );
    }
}
