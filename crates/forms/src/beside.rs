//! What stands beside a `*` in a SELECT list, and may be one of its columns.

use datafusion::sql::sqlparser::ast::{
    Expr, Ident, ObjectNamePart, Select, SelectItem, SelectItemQualifiedWildcardKind,
};

/// Whether a column is shown by two `*`, or by one and by its name.
#[must_use]
pub fn shows_twice(select: &Select) -> bool {
    let lower = |name: &Ident| name.value.to_lowercase();
    let (mut stars, mut names): (Vec<Option<String>>, Vec<Option<String>>) = (Vec::new(), Vec::new());
    for item in &select.projection {
        match item {
            SelectItem::Wildcard(_) => stars.push(None),
            SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(table), _) => {
                stars.push(table.0.last().and_then(ObjectNamePart::as_ident).map(lower));
            }
            SelectItem::UnnamedExpr(Expr::Identifier(_)) => names.push(None),
            SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts)) => {
                names.push(parts.iter().rev().nth(1).map(lower));
            }
            _ => {}
        }
    }
    let may_be = |one: &Option<String>, other: &Option<String>| one.is_none() || other.is_none() || one == other;
    let is_again = |(index, star): (usize, &Option<String>)| {
        stars[..index].iter().any(|other| may_be(star, other)) || names.iter().any(|name| may_be(star, name))
    };
    stars.iter().enumerate().any(is_again)
}

/// Names beside a `*` that may be those of its columns, too, in lower case: aliases, and columns of queries around.
#[must_use]
pub fn given_names(select: &Select) -> Vec<String> {
    let is_star = |item: &SelectItem| matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..));
    if !select.projection.iter().any(is_star) {
        return Vec::new();
    }
    let name = |item: &SelectItem| match item {
        SelectItem::ExprWithAlias { alias, .. } => Some(alias.value.to_lowercase()),
        SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts)) => parts.last().map(|name| name.value.to_lowercase()),
        _ => None,
    };
    select.projection.iter().filter_map(name).collect()
}
