//! CREATE INDEX and DROP INDEX. An index has a name and no rows: blocks are left out by what is known of them, and answers do not
//! depend on indexes. The name is an option of the table, with the text of the columns; a UNIQUE one is a key of the table.

use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{CreateIndex, ObjectName};
use forebay_base::{Error, ErrorKind, Result, TableId};
use forebay_names::qualified_name::QualifiedName;
use forebay_store::{Catalog, TableSnapshot, names_equal};
use forebay_tables::declared::{BETWEEN, INDEX, UNIQUE_INDEX, indexes};

use crate::answer::Answer;
use crate::lookup::{find_name, find_table};
use crate::run::Run;

impl Run<'_> {
    /// Runs CREATE INDEX. Errors: columns that are not there, and values that are there twice in a UNIQUE one.
    pub(crate) fn create_index(&self, index: &CreateIndex) -> Result<Answer> {
        let table_name = find_name(&self.planner, &index.table_name)?;
        let table = find_table(&self.planner, &table_name)?;
        let Some(name) = &index.name else { return Err(Error::input("an index has a name: CREATE INDEX i ON t (a)")) };
        let name = QualifiedName::of(name, &table.schema)?;
        if found(self.planner.snapshot(), &name).is_some() {
            return match index.if_not_exists {
                true => self.done("CREATE INDEX"),
                false => Err(Error::new(ErrorKind::AlreadyExists, format!("index {} exists already", name.name))
                    .hint("DROP it first, or use CREATE INDEX IF NOT EXISTS")),
            };
        }
        let parts: Vec<String> = index.columns.iter().map(|column| column.column.expr.to_string()).collect();
        let keys = parts.join(", ");
        self.plan_text(&self.state(), &format!("SELECT {keys} FROM {}", index.table_name))?;
        if index.unique {
            let given: Vec<String> =
                index.columns.iter().map(|column| format!("({}) IS NOT NULL", column.column.expr)).collect();
            let query = format!(
                "SELECT count(*) FROM (SELECT 1 FROM {} WHERE {} GROUP BY {keys} HAVING count(*) > 1)",
                index.table_name,
                given.join(" AND ")
            );
            if self.number(&query)? > 0 {
                let message = format!("table {} has rows with the same values of {keys}", table.name);
                return Err(Error::new(ErrorKind::Constraint, message));
            }
        }
        let (option, keys) = match index.unique {
            true => (unique_option(&name.name), parts.join(BETWEEN)),
            false => (option(&name.name), keys),
        };
        self.planner.transaction().change(|changes| changes.set_option(table.id, None, &option, Some(&keys)))?;
        self.done("CREATE INDEX")
    }

    /// Runs DROP INDEX.
    pub(crate) fn drop_indexes(&self, names: &[ObjectName], if_exists: bool) -> Result<Answer> {
        self.planner.transaction().change(|transaction| {
            for name in names {
                let name = QualifiedName::of(name, &self.planner.path().schema)?;
                match found(transaction.catalog(), &name) {
                    Some(table) => {
                        transaction.set_option(table, None, &option(&name.name), None)?;
                        transaction.set_option(table, None, &unique_option(&name.name), None)?;
                    }
                    None if if_exists => {}
                    None => return Err(Error::new(ErrorKind::NotFound, format!("index {} does not exist", name.name))),
                }
            }
            Ok(())
        })?;
        self.done("DROP INDEX")
    }
}

fn option(name: &str) -> String {
    format!("{INDEX}{}", name.to_lowercase())
}

fn unique_option(name: &str) -> String {
    format!("{UNIQUE_INDEX}{}", name.to_lowercase())
}

/// The table that has an index of this name.
fn found(catalog: &Catalog, name: &QualifiedName) -> Option<TableId> {
    let mut tables = catalog.tables().filter(|table| names_equal(&table.schema, &name.schema));
    let has_one = |table: &Arc<TableSnapshot>| indexes(table).any(|index| index.name == name.name.to_lowercase());
    tables.find(|table| has_one(table)).map(|table| table.id)
}
