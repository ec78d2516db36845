//! SET, RESET and PRAGMA: what changes a session, and what tells something in DuckDB's words.

use forebay_base::{Error, Result};
use forebay_context::settings;
use forebay_grammar::statements::Pragma;

use crate::answer::Answer;
use crate::lookup::{find_name, parse_name};
use crate::run::Run;
use crate::{semantics, show};

impl Run<'_> {
    /// SET variable = value.
    pub(crate) fn set(&self, variable: &str, value: &str) -> Result<Answer> {
        let engine = self.planner.engine();
        self.session.set(|base| match semantics::set(base, variable, value) {
            Ok(true) => Ok(()),
            Ok(false) => settings::set(base, engine, variable, value),
            Err(error) => Err(error),
        })?;
        self.done("SET")
    }

    /// RESET variable.
    pub(crate) fn reset(&self, variable: &str) -> Result<Answer> {
        if let Some(value) = semantics::default_value(variable) {
            self.set(variable, value)?;
        } else {
            let (engine, threads) = (self.planner.engine(), self.session.shared.threads);
            self.session.set(|base| settings::reset(base, engine, threads, variable))?;
        }
        self.done("RESET")
    }

    /// PRAGMA.
    pub(crate) fn pragma(&self, pragma: Pragma) -> Result<Answer> {
        let catalog = self.planner.snapshot();
        match pragma {
            Pragma::Nothing => self.done("PRAGMA"),
            Pragma::Set { variable, value } => self.set(&variable, &value),
            Pragma::TableInfo(name) => self.table_info(&name),
            Pragma::ShowTables { all } => self.batch(show::tables(catalog, self.planner.path(), all)?),
            Pragma::ShowDatabases => self.batch(show::databases(&self.planner.engine().store().path_description())?),
            Pragma::Checkpoint => self.checkpoint(),
            Pragma::Version => self.batch(show::version()?),
        }
    }

    fn table_info(&self, text: &str) -> Result<Answer> {
        let parsed = parse_name(text).map_err(|_| Error::input(format!("{text} is not the name of a table")))?;
        let name = find_name(&self.planner, &parsed)?;
        if let Some(table) = self.planner.snapshot().table(&name.schema, &name.name) {
            return self.batch(show::table_info(table)?);
        }
        let (plan, _) = self.plan_source(&parsed.to_string())?;
        self.batch(show::columns_info(plan.schema().as_arrow())?)
    }
}
