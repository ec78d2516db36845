//! Tables that WITH names within a query that has such a name already, which the planner refuses, get names of their own.
//!
//! ```text
//! WITH c AS (…) SELECT * FROM (WITH c AS (SELECT 2) SELECT * FROM c), c
//!     →  WITH c AS (…) SELECT * FROM (WITH "c within 1" AS (SELECT 2) SELECT * FROM "c within 1" AS c), c
//! ```

use std::ops::ControlFlow;

use crate::walk::Tree;
use datafusion::sql::sqlparser::ast::{Ident, ObjectName, ObjectNamePart, Query, TableAlias, TableFactor, VisitorMut};

/// Renames the tables that the query names as others around it; `is_named` tells which are, and `depth` how deep it stands.
pub fn tell_apart(query: &mut Query, depth: usize, is_named: impl Fn(&str) -> bool) {
    let Query { with: Some(with), body, order_by, limit_clause, .. } = query else { return };
    for index in 0..with.cte_tables.len() {
        let shown = with.cte_tables[index].alias.name.clone();
        let old = shown.value.to_lowercase();
        if !is_named(&old) {
            continue;
        }
        let new = Ident::with_quote('"', format!("{old} within {depth}"));
        with.cte_tables[index].alias.name = new.clone();
        let mut rename = Rename { old, new, shown, hidden: 0 };
        // Only a recursive query reads itself; another one reads the table around it.
        let first = if with.recursive { index } else { index + 1 };
        for table in &mut with.cte_tables[first..] {
            let _ = table.query.walk_mut(&mut rename);
        }
        let _ = body.walk_mut(&mut rename);
        let _ = order_by.walk_mut(&mut rename);
        let _ = limit_clause.walk_mut(&mut rename);
    }
}

struct Rename {
    old: String,
    new: Ident,
    shown: Ident,
    /// How many queries around the place name another table so.
    hidden: usize,
}

impl Rename {
    fn hides(&self, query: &Query) -> bool {
        let mut tables = query.with.iter().flat_map(|with| &with.cte_tables);
        tables.any(|table| table.alias.name.value.to_lowercase() == self.old)
    }
}

impl VisitorMut for Rename {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        self.hidden += usize::from(self.hides(query));
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        self.hidden -= usize::from(self.hides(query));
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, table: &mut TableFactor) -> ControlFlow<()> {
        if let TableFactor::Table { name, alias, args: None, .. } = table
            && self.hidden == 0
            && is_called(name, &self.old)
        {
            *name = ObjectName::from(vec![self.new.clone()]);
            let shown = || TableAlias { explicit: true, name: self.shown.clone(), columns: Vec::new(), at: None };
            alias.get_or_insert_with(shown);
        }
        ControlFlow::Continue(())
    }
}

fn is_called(name: &ObjectName, lower: &str) -> bool {
    matches!(name.0.as_slice(), [ObjectNamePart::Identifier(only)] if only.value.to_lowercase() == lower)
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::dialect::DuckDbDialect;
    use datafusion::sql::sqlparser::parser::Parser;

    fn check(text: &str, expect: &str) {
        let parsed = Parser::new(&DuckDbDialect {}).try_with_sql(text).and_then(|mut parser| parser.parse_query());
        let mut query = parsed.expect("parses");
        tell_apart(&mut query, 1, |name| name == "c");
        assert_eq!(query.to_string(), expect);
    }

    #[test]
    fn tables_of_one_name_are_told_apart() {
        check(
            "WITH c AS (SELECT * FROM c), d AS (SELECT * FROM C) SELECT c.k FROM c, d",
            "WITH \"c within 1\" AS (SELECT * FROM c), d AS (SELECT * FROM \"c within 1\" AS c) \
             SELECT c.k FROM \"c within 1\" AS c, d",
        );
        check("WITH c AS (SELECT 1) SELECT 2", "WITH \"c within 1\" AS (SELECT 1) SELECT 2");
        check(
            "WITH c AS (SELECT 1) SELECT (WITH c AS (SELECT 3) SELECT * FROM c) FROM c x",
            "WITH \"c within 1\" AS (SELECT 1) SELECT (WITH c AS (SELECT 3) SELECT * FROM c) FROM \"c within 1\" x",
        );
        check("WITH d AS (SELECT * FROM c) SELECT 2", "WITH d AS (SELECT * FROM c) SELECT 2");
    }
}
