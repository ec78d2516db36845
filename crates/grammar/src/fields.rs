//! Fields of columns that hold structs: `s.*`, and what tells it from `t.*` of a table, and `s.a` as a subscript.

use datafusion::sql::sqlparser::ast::{
    AccessExpr, Expr, Function, Ident, ObjectName, ObjectNamePart, Select, SelectItem, SelectItemQualifiedWildcardKind,
    Subscript, TableFactor, TableWithJoins, Value, WildcardAdditionalOptions,
};

use crate::expressions::call;

/// What qualifies columns of tables in FROM, in lower case.
pub fn qualifiers(from: &[TableWithJoins]) -> Vec<String> {
    fn of_factor(table: &TableFactor, names: &mut Vec<String>) {
        let alias = match table {
            TableFactor::Table { alias: None, name, .. } => {
                let last = name.0.last().and_then(ObjectNamePart::as_ident);
                names.extend(last.map(|name| name.value.to_lowercase()));
                return;
            }
            TableFactor::NestedJoin { alias: None, table_with_joins } => {
                names.extend(qualifiers(std::slice::from_ref(table_with_joins)));
                return;
            }
            TableFactor::Table { alias, .. }
            | TableFactor::Derived { alias, .. }
            | TableFactor::NestedJoin { alias, .. }
            | TableFactor::TableFunction { alias, .. }
            | TableFactor::Function { alias, .. } => alias,
            _ => return,
        };
        names.extend(alias.as_ref().map(|alias| alias.name.value.to_lowercase()));
    }
    let mut names = Vec::new();
    for table in from {
        of_factor(&table.relation, &mut names);
        table.joins.iter().for_each(|join| of_factor(&join.relation, &mut names));
    }
    names
}

/// The fields behind the column that the first parts of a name are, as subscripts: `s['a']` of `s.a`.
pub fn of_column(mut parts: Vec<Ident>, column: usize) -> Expr {
    let fields = parts.split_off(column);
    let root = match <[Ident; 1]>::try_from(parts) {
        Ok([name]) => Expr::Identifier(name),
        Err(parts) => Expr::CompoundIdentifier(parts),
    };
    let index = |field: Ident| {
        let index = Expr::Value(Value::SingleQuotedString(field.value).into());
        AccessExpr::Subscript(Subscript::Index { index })
    };
    Expr::CompoundFieldAccess { root: Box::new(root), access_chain: fields.into_iter().map(index).collect() }
}

/// The value whose fields `s.*` shows, where `s` is none of these tables, which are written in lower case.
pub fn starred(name: &ObjectName, tables: &[String]) -> Option<Expr> {
    let mut parts: Vec<Ident> = name.0.iter().filter_map(ObjectNamePart::as_ident).cloned().collect();
    let is_table = |name: &Ident| tables.contains(&name.value.to_lowercase());
    let is_value = match parts.as_slice() {
        [only] => !is_table(only),
        [table, last] => is_table(table) && !is_table(last),
        _ => false,
    };
    match parts.len() {
        _ if !is_value => None,
        1 => parts.pop().map(Expr::Identifier),
        _ => Some(Expr::CompoundIdentifier(parts)),
    }
}

/// The call of `unnest` that an item of a SELECT list is.
pub fn unnest_call(item: &SelectItem) -> Option<&Function> {
    match item {
        SelectItem::UnnamedExpr(Expr::Function(call))
        | SelectItem::ExprWithAlias { expr: Expr::Function(call), .. } => {
            Some(call).filter(|call| call.over.is_none() && call.name.to_string().eq_ignore_ascii_case("unnest"))
        }
        _ => None,
    }
}

/// Whether a SELECT list takes values apart: by `unnest`, or by `s.*` of what is no table.
pub fn are_taken_apart(select: &Select) -> bool {
    let is_star = |item: &SelectItem| match item {
        SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) => {
            starred(name, &qualifiers(&select.from)).is_some()
        }
        _ => false,
    };
    select.projection.iter().any(|item| unnest_call(item).is_some() || (!select.from.is_empty() && is_star(item)))
}

/// `s.*` of what is no table in FROM as the fields of a struct.
pub fn write_out(select: &mut Select) {
    let is_star = |item: &SelectItem| matches!(item, SelectItem::QualifiedWildcard(..));
    if select.from.is_empty() || !select.projection.iter().any(is_star) {
        return;
    }
    let tables = qualifiers(&select.from);
    for item in &mut select.projection {
        let SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), options) = item else {
            continue;
        };
        let plain = WildcardAdditionalOptions { wildcard_token: options.wildcard_token.clone(), ..Default::default() };
        if let (Some(value), true) = (starred(name, &tables), *options == plain) {
            *item = SelectItem::UnnamedExpr(call("unnest", vec![value]));
        }
    }
}
