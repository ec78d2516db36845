//! The macros that a statement calls.

use std::sync::Arc;

use datafusion::sql::parser::Statement as PlanStatement;
use datafusion::sql::sqlparser::ast::ObjectName;
use forebay_base::Result;
use forebay_macros::definition::{Definition, definition};
use forebay_macros::expansion::{self, Macros};
use forebay_names::qualified_name::QualifiedName;
use forebay_names::search_path::SearchPath;
use forebay_store::{Catalog, MacroKind};

/// Writes out the calls of macros in a statement.
pub(crate) fn expand(catalog: &Catalog, path: &SearchPath, statement: &mut PlanStatement) -> Result<()> {
    if catalog.macros().next().is_none() {
        return Ok(());
    }
    match statement {
        PlanStatement::Statement(ast) => expansion::expand(ast.as_mut(), &Known { catalog, path }),
        PlanStatement::Explain(explain) => expand(catalog, path, &mut explain.statement),
        PlanStatement::CreateExternalTable(_) | PlanStatement::CopyTo(_) | PlanStatement::Reset(_) => Ok(()),
    }
}

struct Known<'a> {
    catalog: &'a Catalog,
    path: &'a SearchPath,
}

impl Macros for Known<'_> {
    fn find(&self, name: &ObjectName, is_table: bool) -> Result<Option<Arc<[Definition]>>> {
        let Self { catalog, path } = self;
        let Ok(QualifiedName { schema, name }) = QualifiedName::of(name, &path.schema) else { return Ok(None) };
        let kind = kind(is_table);
        let schemas = path.schemas(catalog, &schema, true);
        let Some(found) = schemas.iter().find_map(|schema| catalog.macro_of(kind, schema, &name)) else {
            return Ok(None);
        };
        let read = found.definitions.iter().map(|text| definition(text, is_table));
        let read: Result<Vec<Definition>> = read.collect();
        read.map(|all| Some(all.into())).map_err(|error| error.context(format!("macro {name}")))
    }
}

/// The kind of a macro.
pub(crate) fn kind(is_table: bool) -> MacroKind {
    match is_table {
        true => MacroKind::Table,
        false => MacroKind::Value,
    }
}
