//! Limits in forms that the planner does not know.

use datafusion::sql::sqlparser::ast::{
    CastKind, DataType, Expr, Fetch, FunctionArg, FunctionArgExpr, FunctionArguments, LimitClause, Query, Value,
    ValueWithSpan,
};
use datafusion::sql::sqlparser::dialect::Dialect;
use datafusion::sql::sqlparser::parser::Parser;
use forebay_base::{Error, Result};

use crate::samples::SHARE_OF_ALL_ROWS;

/// `FETCH FIRST 3 ROWS ONLY` as `LIMIT 3`. Of ties and shares of all rows the planner says that it has none.
pub fn fetch_as_limit(query: &mut Query) {
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

/// Numbers of rows that are written with a point or as texts, or computed, are whole numbers: `LIMIT 1.5` is `LIMIT 2`.
pub fn whole_numbers(query: &mut Query) {
    let Some(LimitClause::LimitOffset { limit, offset, .. }) = &mut query.limit_clause else { return };
    for count in limit.iter_mut().chain(offset.iter_mut().map(|offset| &mut offset.value)) {
        let is_other = match count {
            Expr::Value(ValueWithSpan { value: Value::Number(text, _), .. }) => text.contains(['.', 'e', 'E']),
            Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(_), .. }) => true,
            Expr::BinaryOp { .. } | Expr::Nested(_) | Expr::Cast { .. } | Expr::Subquery(_) => true,
            _ => false,
        };
        if is_other {
            let expr = Box::new(std::mem::replace(count, Expr::Value(Value::Null.into())));
            let (kind, data_type) = (CastKind::Cast, DataType::BigInt(None));
            *count = Expr::Cast { kind, expr, data_type, array: false, format: None };
        }
    }
}

/// `LIMIT 30%` as so many of the rows that there are. Errors: what is no share.
pub fn share_as_count(query: &mut Query, dialect: &dyn Dialect) -> Result<()> {
    let Some(LimitClause::LimitOffset { limit: Some(Expr::Function(call)), .. }) = &query.limit_clause else {
        return Ok(());
    };
    let (FunctionArguments::List(list), true) = (&call.args, call.name.to_string() == SHARE_OF_ALL_ROWS) else {
        return Ok(());
    };
    let share = list.args.first().map(ToString::to_string).unwrap_or_default();
    let is_literal = matches!(
        list.args.first(),
        Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(_) | Expr::UnaryOp { .. })))
    );
    if is_literal && !share.parse::<f64>().is_ok_and(|share| (0.0..=100.0).contains(&share)) {
        return Err(Error::input(format!("LIMIT {share}% is no share of all rows")).hint("Use 0% to 100%"));
    }
    let mut all = query.clone();
    (all.order_by, all.limit_clause, all.fetch) = (None, None, None);
    let text = format!("(SELECT CAST(floor(({share}) * count(*) / 100) AS BIGINT) FROM ({all}) AS all_rows)");
    let parsed = Parser::new(dialect).try_with_sql(&text).and_then(|mut parser| parser.parse_expr());
    let counted = parsed.map_err(|error| Error::internal(format!("{text} could not be written out: {error}")))?;
    if let Some(LimitClause::LimitOffset { limit, .. }) = &mut query.limit_clause {
        *limit = Some(counted);
    }
    Ok(())
}
