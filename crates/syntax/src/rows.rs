//! A table's name for its rows: `SELECT t FROM t` gives structs. Columns of that name go before it.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{Expr, Ident, Select, Value, Visit, visit_expressions};
use forebay_grammar::expressions::call;
use forebay_grammar::fields::qualifiers;

use crate::outputs;
use crate::scopes::Scopes;

/// The tables of the SELECTs around a place whose names stand for rows there, with their columns; the innermost last.
#[derive(Debug, Default)]
pub(crate) struct Rows(Vec<Vec<(Option<String>, Vec<String>)>>);

impl Rows {
    /// Goes into a SELECT, of which `within` may use the names of tables.
    pub(crate) fn enter(&mut self, scopes: &Scopes, select: Option<&Select>, within: &impl Visit) {
        let tables = select.filter(|select| names_table(select, within));
        self.0.push(tables.and_then(|select| outputs::whole_tables_of(scopes, select)).unwrap_or_default());
    }

    /// Goes out of it.
    pub(crate) fn leave(&mut self) {
        self.0.pop();
    }

    /// The row that a name stands for.
    pub(crate) fn of(&self, name: &Ident) -> Option<Expr> {
        let lower = name.value.to_lowercase();
        for tables in self.0.iter().rev() {
            if tables.iter().flat_map(|(_, columns)| columns).any(|column| column.eq_ignore_ascii_case(&lower)) {
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
fn names_table(select: &Select, within: &impl Visit) -> bool {
    let tables = qualifiers(&select.from);
    !tables.is_empty()
        && visit_expressions(within, |expr| match expr {
            Expr::Identifier(name) if tables.contains(&name.value.to_lowercase()) => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        })
        .is_break()
}
