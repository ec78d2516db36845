//! CREATE MACRO and DROP MACRO, and the macros that a statement calls.

use std::sync::Arc;

use datafusion::sql::parser::Statement as PlanStatement;
use datafusion::sql::sqlparser::ast::ObjectName;
use forebay_base::{Error, ErrorKind, Result};
use forebay_context::error::suggestion;
use forebay_macros::definition::{self, Definition, definition};
use forebay_macros::expansion::{self, Macros};
use forebay_store::MacroKind;

use crate::answer::Answer;
use crate::catalog::Planner;
use crate::ddl;
use crate::qualified_name::QualifiedName;
use crate::run::Run;
use crate::search_path::is_temporary;

/// Writes out the calls of macros in a statement.
pub(crate) fn expand(planner: &Planner, statement: &mut PlanStatement) -> Result<()> {
    if planner.snapshot().macros().next().is_none() {
        return Ok(());
    }
    match statement {
        PlanStatement::Statement(ast) => expansion::expand(ast.as_mut(), planner),
        PlanStatement::Explain(explain) => expand(planner, &mut explain.statement),
        PlanStatement::CreateExternalTable(_) | PlanStatement::CopyTo(_) | PlanStatement::Reset(_) => Ok(()),
    }
}

impl Macros for Planner {
    fn find(&self, name: &ObjectName, is_table: bool) -> Result<Option<Arc<[Definition]>>> {
        let catalog = self.snapshot();
        let Ok(QualifiedName { schema, name }) = QualifiedName::of(name, &self.path().schema) else { return Ok(None) };
        let kind = kind(is_table);
        let schemas = self.path().schemas(catalog, &schema, true);
        let Some(found) = schemas.iter().find_map(|schema| catalog.macro_of(kind, schema, &name)) else {
            return Ok(None);
        };
        let read = found.definitions.iter().map(|text| definition(text, is_table));
        let read: Result<Vec<Definition>> = read.collect();
        read.map(|all| Some(all.into())).map_err(|error| error.context(format!("macro {name}")))
    }
}

fn kind(is_table: bool) -> MacroKind {
    match is_table {
        true => MacroKind::Table,
        false => MacroKind::Value,
    }
}

impl Run<'_> {
    /// CREATE MACRO.
    pub(crate) fn create_macro(&self, text: &str) -> Result<Answer> {
        let create = definition::create(text)?;
        let (catalog, kind) = (self.planner.snapshot(), kind(create.is_table));
        let name = self.planner.path().name_new(catalog, &create.name, create.is_temporary)?;
        if create.if_not_exists && catalog.macro_of(kind, &name.schema, &name.name).is_some() {
            return self.done("CREATE MACRO");
        }
        let mut transaction = self.planner.engine().store().begin()?;
        ddl::add_temporary_schema(&mut transaction, &name.schema)?;
        transaction.create_macro(kind, &name.schema, &name.name, create.definitions, create.or_replace)?;
        transaction.commit()?;
        self.tell_plans_apart(is_temporary(&name.schema));
        self.done("CREATE MACRO")
    }

    /// DROP MACRO.
    pub(crate) fn drop_macro(&self, text: &str) -> Result<Answer> {
        let drop = definition::drop(text)?;
        let (catalog, kind) = (self.planner.snapshot(), kind(drop.is_table));
        let mut transaction = self.planner.engine().store().begin()?;
        for name in &drop.names {
            let QualifiedName { schema, name } = QualifiedName::of(name, &self.planner.path().schema)?;
            let schemas = self.planner.path().schemas(catalog, &schema, true);
            match schemas.iter().find(|schema| catalog.macro_of(kind, schema, &name).is_some()) {
                Some(schema) => transaction.drop_macro(kind, schema, &name)?,
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
        transaction.commit()?;
        self.done("DROP MACRO")
    }
}
