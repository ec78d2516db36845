//! `merge_action` in RETURNING: what a MERGE does with the rows that come next.

use datafusion::sql::sqlparser::ast::{Expr, SelectItem, Value};

/// A list of RETURNING with what happened to rows in the place of `merge_action`.
pub fn with_action(list: &[SelectItem], action: &str) -> Vec<SelectItem> {
    let is_it = |expr: &Expr| matches!(expr, Expr::Identifier(name) if name.value.eq_ignore_ascii_case("merge_action"));
    let said = || Expr::Value(Value::SingleQuotedString(action.to_owned()).into());
    let of = |item: &SelectItem| match item {
        SelectItem::UnnamedExpr(Expr::Identifier(name)) if is_it(&Expr::Identifier(name.clone())) => {
            SelectItem::ExprWithAlias { expr: said(), alias: name.clone() }
        }
        SelectItem::ExprWithAlias { expr, alias } if is_it(expr) => {
            SelectItem::ExprWithAlias { expr: said(), alias: alias.clone() }
        }
        other => other.clone(),
    };
    list.iter().map(of).collect()
}
