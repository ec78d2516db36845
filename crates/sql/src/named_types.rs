//! The types that a statement names.

use std::sync::Arc;

use datafusion::sql::parser::Statement as PlanStatement;
use datafusion::sql::sqlparser::ast::{ObjectName, Statement};
use forebay_base::Result;
use forebay_names::qualified_name::QualifiedName;
use forebay_names::search_path::SearchPath;
use forebay_store::{Catalog, NamedType};
use forebay_types::names::{self, Names};
use forebay_types::values;

/// Puts what they stand for in place of the names of types in a statement, and gives the rows of VALUES types that they share.
pub(crate) fn replace(catalog: &Catalog, path: &SearchPath, statement: &mut Statement) -> Result<()> {
    if catalog.named_types().next().is_some() {
        names::replace(statement, &Known { catalog, path })?;
    }
    values::unify(statement)
}

/// As [`replace`], in a query or in what EXPLAIN shows.
pub(crate) fn replace_in_query(catalog: &Catalog, path: &SearchPath, statement: &mut PlanStatement) -> Result<()> {
    match statement {
        PlanStatement::Statement(ast) => replace(catalog, path, ast),
        PlanStatement::Explain(explain) => replace_in_query(catalog, path, &mut explain.statement),
        PlanStatement::CreateExternalTable(_) | PlanStatement::CopyTo(_) | PlanStatement::Reset(_) => Ok(()),
    }
}

/// The types of a catalog, as a session finds them.
pub(crate) struct Known<'a> {
    pub(crate) catalog: &'a Catalog,
    pub(crate) path: &'a SearchPath,
}

impl Known<'_> {
    /// The type of this name.
    pub(crate) fn named(&self, name: &ObjectName) -> Option<&Arc<NamedType>> {
        let has_schema = name.0.len() > 1;
        let QualifiedName { schema, name } = QualifiedName::of(name, &self.path.schema).ok()?;
        // Of a schema its own types are meant, not temporary ones of the same name.
        let schemas = self.path.schemas(self.catalog, &schema, !has_schema);
        schemas.iter().find_map(|schema| self.catalog.named_type(schema, &name))
    }
}

impl Names for Known<'_> {
    fn find(&self, name: &ObjectName) -> Option<String> {
        self.named(name).map(|named| named.definition.clone())
    }
}
