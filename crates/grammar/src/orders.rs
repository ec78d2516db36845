//! The direction of ORDER BY where none is written: `SET default_order`.

use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArgumentClause, FunctionArguments, NamedWindowExpr, OrderBy, OrderByExpr, OrderByKind, Select,
    WindowType,
};

/// Makes orders without a direction descending.
pub fn descend(orders: &mut [OrderByExpr]) {
    orders.iter_mut().for_each(|order| order.options.asc = order.options.asc.or(Some(false)));
}

/// As [`descend`], for the order of a query.
pub fn descend_query(order: &mut OrderBy) {
    match &mut order.kind {
        OrderByKind::Expressions(orders) => descend(orders),
        OrderByKind::All(options) => options.asc = options.asc.or(Some(false)),
    }
}

/// As [`descend`], for named windows.
pub fn descend_windows(select: &mut Select) {
    for window in &mut select.named_window {
        if let NamedWindowExpr::WindowSpec(window) = &mut window.1 {
            descend(&mut window.order_by);
        }
    }
}

/// As [`descend`], for the window of a function and the order of its arguments.
pub fn descend_call(expr: &mut Expr) {
    let Expr::Function(call) = expr else { return };
    if let Some(WindowType::WindowSpec(window)) = &mut call.over {
        descend(&mut window.order_by);
    }
    descend(&mut call.within_group);
    if let FunctionArguments::List(list) = &mut call.args {
        for clause in &mut list.clauses {
            if let FunctionArgumentClause::OrderBy(orders) = clause {
                descend(orders);
            }
        }
    }
}
