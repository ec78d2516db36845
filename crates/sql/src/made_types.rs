//! CREATE TYPE and DROP TYPE.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::arrow::array::AsArray;
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::DataType;
use datafusion::sql::parser::Statement as PlanStatement;
use datafusion::sql::sqlparser::ast::{ObjectName, Statement as Ast};
use forebay_base::{Error, ErrorKind, Result};
use forebay_context::error::suggestion;
use forebay_names::search_path::is_temporary;
use forebay_types::definition::{self, Definition};
use forebay_types::enumeration::Enumeration;
use forebay_types::names;
use forebay_types::planned::own_type;

use crate::answer::Answer;
use crate::ddl;
use crate::named_types::{Known, replace};
use crate::run::Run;

impl Run<'_> {
    /// A statement that defines columns, with what names of types stand for.
    pub(crate) fn known_types(&self, statement: &mut PlanStatement) -> Result<()> {
        match statement {
            PlanStatement::Statement(ast) if matches!(ast.as_ref(), Ast::CreateTable(_) | Ast::AlterTable(_)) => {
                replace(self.planner.snapshot(), self.planner.path(), ast)
            }
            _ => Ok(()),
        }
    }

    /// CREATE TYPE.
    pub(crate) fn create_type(&self, text: &str) -> Result<Answer> {
        let create = definition::create(text)?;
        let (catalog, path) = (self.planner.snapshot(), self.planner.path());
        let name = path.name_new(catalog, &create.name, create.is_temporary)?;
        if create.if_not_exists && catalog.named_type(&name.schema, &name.name).is_some() {
            return self.done("CREATE TYPE");
        }
        let definition = match create.definition {
            Definition::Query(query) => Enumeration::new(self.different_values(&query)?)?.text().to_owned(),
            Definition::Type(mut data_type) => {
                names::replace_in(&mut data_type, &Known { catalog, path })?;
                match own_type(&data_type)? {
                    Some(own) => own.text().to_owned(),
                    None => self.checked_type(&data_type.to_string())?,
                }
            }
        };
        self.planner.transaction().change(|transaction| {
            ddl::add_temporary_schema(transaction, &name.schema)?;
            transaction.create_type(&name.schema, &name.name, definition, create.or_replace)
        })?;
        self.tell_plans_apart(is_temporary(&name.schema));
        self.done("CREATE TYPE")
    }

    /// DROP TYPE. Columns of tables keep what it stood for.
    pub(crate) fn drop_types(&self, names: &[ObjectName], if_exists: bool) -> Result<Answer> {
        self.planner.transaction().change(|transaction| {
            for name in names {
                let catalog = Arc::clone(transaction.catalog());
                match (Known { catalog: &catalog, path: self.planner.path() }).named(name) {
                    Some(found) => transaction.drop_type(&found.schema, &found.name)?,
                    None if if_exists => {}
                    None => {
                        let error = Error::new(ErrorKind::NotFound, format!("type {name} does not exist"));
                        let others = catalog.named_types().map(|other| other.name.as_str());
                        return Err(match suggestion(&name.to_string(), others) {
                            Some(other) => error.hint(format!("Did you mean {other}?")),
                            None => error,
                        });
                    }
                }
            }
            Ok(())
        })?;
        self.done("DROP TYPE")
    }

    /// The text of a type, which can be planned.
    fn checked_type(&self, text: &str) -> Result<String> {
        self.planner.default_expr(&format!("CAST(NULL AS {text})"))?;
        Ok(text.to_owned())
    }

    /// The texts that a query of one column gives, each where it first comes, without NULL.
    fn different_values(&self, query: &str) -> Result<Vec<String>> {
        let state = self.state();
        let plan = self.plan_text(&state, query)?;
        if plan.schema().fields().len() != 1 {
            let message = format!("the query of an ENUM has {} columns", plan.schema().fields().len());
            return Err(Error::input(message).hint("It gives the values of the ENUM in one column"));
        }
        let mut answer = self.stream(&state, plan)?;
        let (mut seen, mut values) = (HashSet::new(), Vec::new());
        while let Some(batch) = answer.next_batch()? {
            let texts = cast(batch.column(0), &DataType::Utf8).map_err(|error| Error::internal(error.to_string()))?;
            for text in texts.as_string::<i32>().iter().flatten() {
                if seen.insert(text.to_owned()) {
                    values.push(text.to_owned());
                }
            }
        }
        Ok(values)
    }
}
