//! `t.*` of a table that FROM names with its schema: `s.t.*`.

use datafusion::sql::sqlparser::ast::{
    Ident, ObjectName, ObjectNamePart, Select, SelectItem, SelectItemQualifiedWildcardKind, TableFactor, TableWithJoins,
};

/// Gives the tables of `t.*` the schemas that FROM names them with: the planner finds them by their whole names only.
pub fn qualify(select: &mut Select) {
    let is_star = |item: &SelectItem| matches!(item, SelectItem::QualifiedWildcard(..));
    if !select.projection.iter().any(is_star) {
        return;
    }
    let mut tables = Vec::new();
    select.from.iter().for_each(|table| whole_names(table, &mut tables));
    for item in &mut select.projection {
        if let SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) = item
            && let [ObjectNamePart::Identifier(only)] = name.0.as_slice()
            && let Some((_, Some(whole))) =
                tables.iter().find(|(table, _)| table.value.eq_ignore_ascii_case(&only.value))
        {
            *name = whole.clone();
        }
    }
}

/// What qualifies the columns of each table, and its name in FROM where it stands there with its schema.
fn whole_names(table: &TableWithJoins, names: &mut Vec<(Ident, Option<ObjectName>)>) {
    for factor in std::iter::once(&table.relation).chain(table.joins.iter().map(|join| &join.relation)) {
        match factor {
            TableFactor::Table { alias: Some(alias), .. } | TableFactor::Derived { alias: Some(alias), .. } => {
                names.push((alias.name.clone(), None));
            }
            TableFactor::Table { name, alias: None, args: None, .. } => {
                let last = name.0.last().and_then(ObjectNamePart::as_ident).cloned();
                names.extend(last.map(|last| (last, (name.0.len() > 1).then(|| name.clone()))));
            }
            TableFactor::NestedJoin { table_with_joins, alias: None } => whole_names(table_with_joins, names),
            _ => {}
        }
    }
}
