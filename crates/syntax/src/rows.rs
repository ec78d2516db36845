//! A table's name for its rows: `SELECT t FROM t` gives structs. Columns of that name go before it.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{Expr, Ident, Select, SelectItem, Value};
use forebay_grammar::expressions::call;
use forebay_grammar::fields::qualifiers;
use forebay_grammar::walk::{Tree, visit_expressions};

use crate::outputs;
use crate::scopes::Scopes;

/// The tables of the SELECTs around a place whose names stand for rows there, with their columns; the innermost last.
#[derive(Debug, Default)]
pub(crate) struct Rows(Vec<Level>);

/// The tables of one SELECT.
#[derive(Debug, Default)]
struct Level {
    /// With their columns.
    tables: Vec<(Option<String>, Vec<String>)>,
    /// It has columns that nobody knows yet: any name may be one of them.
    is_unknown: bool,
}

impl Rows {
    /// Goes into a SELECT, of which `within` may use the names of tables.
    pub(crate) fn enter(&mut self, scopes: &Scopes, select: Option<&Select>, within: &dyn Tree) {
        // Where names of the tables around may stand for rows, the columns in between have to be known.
        let is_within = self.0.iter().any(|level| !level.tables.is_empty());
        let asked = select.filter(|select| is_within || names_table(select, within));
        let tables = asked.map(|select| outputs::whole_tables_of(scopes, select));
        let is_unknown = matches!(tables, Some(None));
        self.0.push(Level { tables: tables.flatten().unwrap_or_default(), is_unknown });
    }

    /// Goes into the ORDER BY of a query, in which names of its columns go before those of tables.
    pub(crate) fn enter_order(&mut self, scopes: &Scopes, select: Option<&Select>, within: &dyn Tree) {
        self.enter(scopes, select, within);
        let items = select.into_iter().flat_map(|select| &select.projection);
        let aliases = items.filter_map(|item| match item {
            SelectItem::ExprWithAlias { alias, .. } => Some(alias.value.clone()),
            _ => None,
        });
        if let Some(level) = self.0.last_mut().filter(|level| !level.tables.is_empty()) {
            level.tables.push((None, aliases.collect()));
        }
    }

    /// Goes out of it.
    pub(crate) fn leave(&mut self) {
        self.0.pop();
    }

    /// The row that a name stands for.
    pub(crate) fn of(&self, name: &Ident) -> Option<Expr> {
        let lower = name.value.to_lowercase();
        for Level { tables, is_unknown } in self.0.iter().rev() {
            if *is_unknown
                || tables.iter().flat_map(|(_, columns)| columns).any(|column| column.eq_ignore_ascii_case(&lower))
            {
                return None;
            }
            if let Some((_, columns)) = tables.iter().find(|(table, _)| table.as_ref() == Some(&lower)) {
                let field = |column: &String| {
                    let key = Expr::Value(Value::SingleQuotedString(column.clone()).into());
                    let of_table = vec![name.clone(), Ident::with_quote('"', column.clone())];
                    [key, Expr::CompoundIdentifier(of_table)]
                };
                return Some(call("named_struct", columns.iter().flat_map(field).collect()));
            }
        }
        None
    }
}

/// Whether a part of `within` is the name of a table of `select`.
fn names_table(select: &Select, within: &dyn Tree) -> bool {
    let tables = qualifiers(&select.from);
    !tables.is_empty()
        && visit_expressions(within, |expr| match expr {
            Expr::Identifier(name) if tables.contains(&name.value.to_lowercase()) => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        })
        .is_break()
}
