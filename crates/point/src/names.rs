//! What names in a statement mean: its tables, their columns, and which of those have to be read.
//!
//! Must not know: what a statement does with them.

use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{Expr, Ident, ObjectName};
use forebay_base::LogicalType;
use forebay_keyed::KeyedTable;
use forebay_store::{TableSnapshot, names_equal};
use forebay_tables::table::TYPE_OPTION;
use forebay_types::collated;

use crate::expression::{Expression, Typed};
use crate::values::Kind;

/// Finds the table that a name means; `None` where it is none that is stored.
pub type TableFinder<'f> = &'f dyn Fn(&ObjectName) -> Option<Arc<TableSnapshot>>;

/// A table of a statement.
#[derive(Debug)]
pub(crate) struct Source {
    /// What the statement calls it.
    pub(crate) alias: String,
    pub(crate) stored: Arc<TableSnapshot>,
    pub(crate) table: KeyedTable,
    /// The columns that are read of each row, by slot.
    pub(crate) reads: Vec<usize>,
}

/// The tables of a statement.
#[derive(Debug, Default)]
pub(crate) struct Names {
    pub(crate) sources: Vec<Source>,
}

impl Source {
    pub(crate) fn logical(&self, column: usize) -> &LogicalType {
        &self.stored.columns[column].logical
    }

    pub(crate) fn is_not_null(&self, column: usize) -> bool {
        !self.stored.columns[column].nullable || self.table.key().contains(&column)
    }

    /// Whether the values of a column are what they are stored as, and not a text that stands for them.
    pub(crate) fn is_plain(&self, column: usize) -> bool {
        self.stored.options.get(Some(self.stored.columns[column].id), TYPE_OPTION).is_none()
    }

    /// What the values of a column are to expressions; `None` where those do not take them.
    pub(crate) fn kind(&self, column: usize) -> Option<Kind> {
        let has_collation = self.stored.options.get(Some(self.stored.columns[column].id), collated::OPTION).is_some();
        (self.is_plain(column) && !has_collation).then(|| Kind::of(self.logical(column)))?
    }

    /// The column of this name.
    pub(crate) fn column(&self, name: &str) -> Option<usize> {
        self.stored.columns.iter().position(|column| names_equal(&column.name, name))
    }

    /// Where values of a column lie in the rows that are read.
    pub(crate) fn slot(&mut self, column: usize) -> usize {
        self.reads.iter().position(|read| *read == column).unwrap_or_else(|| {
            self.reads.push(column);
            self.reads.len() - 1
        })
    }
}

impl Names {
    /// The table and the column that an expression names, if it is a name and means one column.
    pub(crate) fn column(&self, expr: &Expr) -> Option<(usize, usize)> {
        let in_all = |name: &Ident| {
            let mut found = self
                .sources
                .iter()
                .enumerate()
                .filter_map(|(number, source)| Some((number, source.column(&name.value)?)));
            let first = found.next()?;
            found.next().is_none().then_some(first)
        };
        match expr {
            Expr::Nested(inner) => self.column(inner),
            Expr::Identifier(name) => in_all(name),
            Expr::CompoundIdentifier(parts) => match parts.as_slice() {
                [table, name] => {
                    let is_it = |source: &Source| names_equal(&source.alias, &table.value);
                    let number = self.sources.iter().position(is_it)?;
                    Some((number, self.sources[number].column(&name.value)?))
                }
                _ => None,
            },
            _ => None,
        }
    }

    /// A column as an expression.
    pub(crate) fn read(&mut self, table: usize, column: usize) -> Option<Typed> {
        let source = &mut self.sources[table];
        let (kind, physical) = (source.kind(column)?, source.logical(column).physical());
        let slot = source.slot(column);
        Some(Typed { expression: Expression::Column { table, slot, physical }, kind })
    }
}
