//! Fields of columns that hold structs: `s.*`, and what tells it from `t.*` of a table, and `s.a` as a subscript.

use datafusion::sql::sqlparser::ast::{
    AccessExpr, Expr, Ident, ObjectNamePart, Select, SelectItem, SelectItemQualifiedWildcardKind, Subscript,
    TableFactor, TableWithJoins, Value, WildcardAdditionalOptions,
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
        let parts: Vec<Ident> = name.0.iter().filter_map(ObjectNamePart::as_ident).cloned().collect();
        let Some((last, before)) = parts.split_last() else { continue };
        let is_table = |name: &Ident| tables.contains(&name.value.to_lowercase());
        let plain = WildcardAdditionalOptions { wildcard_token: options.wildcard_token.clone(), ..Default::default() };
        let is_value = match before {
            [] => !is_table(last),
            [table] => is_table(table) && !is_table(last),
            _ => false,
        };
        if is_value && *options == plain {
            let value = match before {
                [] => Expr::Identifier(last.clone()),
                _ => Expr::CompoundIdentifier(parts),
            };
            *item = SelectItem::UnnamedExpr(call("unnest", vec![value]));
        }
    }
}
