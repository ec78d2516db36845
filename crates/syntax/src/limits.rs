//! Limits in forms that the planner does not know.

use datafusion::sql::sqlparser::ast::{Expr, Fetch, LimitClause, Query, Value};

/// `FETCH FIRST 3 ROWS ONLY` as `LIMIT 3`. Of ties and shares of all rows the planner says that it has none.
pub(crate) fn fetch_as_limit(query: &mut Query) {
    let is_plain = |fetch: &Fetch| !fetch.with_ties && !fetch.percent;
    if !query.fetch.as_ref().is_some_and(is_plain) {
        return;
    }
    let one = || Expr::Value(Value::Number("1".to_owned(), false).into());
    let count = |fetch: Fetch| fetch.quantity.unwrap_or_else(one);
    match &mut query.limit_clause {
        Some(LimitClause::LimitOffset { limit: limit @ None, .. }) => *limit = query.fetch.take().map(count),
        None => {
            let limit = query.fetch.take().map(count);
            query.limit_clause = Some(LimitClause::LimitOffset { limit, offset: None, limit_by: Vec::new() });
        }
        Some(_) => {}
    }
}
