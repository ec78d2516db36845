//! CREATE MACRO and DROP MACRO.

use forebay_base::{Error, ErrorKind, Result};
use forebay_context::error::suggestion;
use forebay_macros::definition;
use forebay_names::qualified_name::QualifiedName;
use forebay_names::search_path::is_temporary;

use crate::answer::Answer;
use crate::called_macros::kind;
use crate::ddl;
use crate::run::Run;

impl Run<'_> {
    /// CREATE MACRO.
    pub(crate) fn create_macro(&self, text: &str) -> Result<Answer> {
        let create = definition::create(text)?;
        let (catalog, kind) = (self.planner.snapshot(), kind(create.is_table));
        let name = self.planner.path().name_new(catalog, &create.name, create.is_temporary)?;
        if create.if_not_exists && catalog.macro_of(kind, &name.schema, &name.name).is_some() {
            return self.done("CREATE MACRO");
        }
        self.planner.transaction().change(|transaction| {
            ddl::add_temporary_schema(transaction, &name.schema)?;
            transaction.create_macro(kind, &name.schema, &name.name, create.definitions, create.or_replace)
        })?;
        self.tell_plans_apart(is_temporary(&name.schema));
        self.done("CREATE MACRO")
    }

    /// DROP MACRO.
    pub(crate) fn drop_macro(&self, text: &str) -> Result<Answer> {
        let drop = definition::drop(text)?;
        let (catalog, kind) = (self.planner.snapshot(), kind(drop.is_table));
        let mut found = Vec::new();
        for name in &drop.names {
            let QualifiedName { schema, name } = QualifiedName::of(name, &self.planner.path().schema)?;
            let schemas = self.planner.path().schemas(catalog, &schema, true);
            match schemas.into_iter().find(|schema| catalog.macro_of(kind, schema, &name).is_some()) {
                Some(schema) => found.push((schema, name)),
                None if drop.if_exists => {}
                None => {
                    let error = Error::new(ErrorKind::NotFound, format!("macro {name} does not exist"));
                    let others = catalog.macros().filter(|other| other.kind == kind).map(|other| other.name.as_str());
                    return Err(match suggestion(&name, others) {
                        Some(other) => error.hint(format!("Did you mean {other}?")),
                        None => error,
                    });
                }
            }
        }
        self.planner.transaction().change(|transaction| {
            found.iter().try_for_each(|(schema, name)| transaction.drop_macro(kind, schema, name))
        })?;
        self.done("DROP MACRO")
    }
}
