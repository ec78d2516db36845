//! SET, RESET and PRAGMA: what changes a session, and what tells something in DuckDB's words.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::array::AsArray;
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::DataType;
use forebay_base::{Error, ErrorKind, Result};
use forebay_context::lock::lock;
use forebay_context::settings::{self, Variables};
use forebay_grammar::statements::Pragma;
use forebay_names::search_path::SearchPath;
use forebay_store::DEFAULT_SCHEMA;
use forebay_syntax::tokens::parse_name;
use forebay_system::schema::check_free;
use forebay_system::{ALL_TABLES, TABLES, answers};

use crate::answer::Answer;
use crate::lookup::find_name;
use crate::run::Run;

impl Run<'_> {
    /// SET variable = value.
    pub(crate) fn set(&self, variable: &str, value: &str) -> Result<Answer> {
        match variable.to_lowercase().as_str() {
            "schema" => return self.use_schema(value.trim_matches('"')),
            "search_path" if value.is_empty() => return self.use_schema(DEFAULT_SCHEMA),
            "search_path" => return self.use_schemas(SearchPath::listed(value)?),
            _ => {}
        }
        let engine = self.planner.engine();
        self.session.set(|base| match forebay_settings::set(base, variable, value) {
            Ok(true) => Ok(()),
            Ok(false) => settings::set(base, engine, variable, value),
            Err(error) => Err(error),
        })?;
        self.done("SET")
    }

    /// RESET variable.
    pub(crate) fn reset(&self, variable: &str) -> Result<Answer> {
        if matches!(variable.to_lowercase().as_str(), "schema" | "search_path") {
            return self.use_schema(DEFAULT_SCHEMA);
        }
        if let Some(value) = forebay_settings::default_value(variable) {
            self.set(variable, value)?;
        } else {
            let (engine, threads) = (self.planner.engine(), self.session.shared.threads);
            self.session.set(|base| settings::reset(base, engine, threads, variable))?;
        }
        self.done("RESET")
    }

    /// USE schema.
    pub(crate) fn use_schema(&self, name: &str) -> Result<Answer> {
        self.use_schemas(vec![name.to_owned()])
    }

    /// Has names without a schema be looked for in these ones.
    pub(crate) fn use_schemas(&self, mut names: Vec<String>) -> Result<Answer> {
        for name in &names {
            if !self.planner.snapshot().has_schema(name) {
                check_free(name, name)?;
                return Err(Error::new(ErrorKind::NotFound, format!("schema {name} does not exist")));
            }
        }
        let further = names.split_off(1.min(names.len()));
        let Some(first) = names.pop() else { return Err(Error::internal("a search path without schemas")) };
        self.session.set(|base| base.config_mut().options_mut().catalog.default_schema.clone_from(&first));
        let mut path = lock(&self.session.path);
        (path.schema, path.further) = (first, further);
        drop(path);
        self.done("USE")
    }

    /// SET VARIABLE name = value.
    pub(crate) fn set_variable(&self, name: &str, value: &str) -> Result<Answer> {
        let state = self.state();
        // What is kept is SQL that gives the same value again.
        let text = format!("SELECT CAST(v AS VARCHAR), typeof(v) FROM (SELECT ({value}) AS v)");
        let mut answer = self.stream(&state, self.plan_text(&state, &text)?)?;
        let mut known = None;
        while let Some(batch) = answer.next_batch()? {
            let texts = |column: usize| cast(batch.column(column), &DataType::Utf8);
            let (values, types) = (texts(0), texts(1));
            let (Ok(values), Ok(types)) = (values, types) else {
                return Err(Error::internal("the value of a variable is no text"));
            };
            let rows = values.as_string::<i32>().iter().zip(types.as_string::<i32>().iter());
            for (value, data_type) in rows {
                known = Some(match (value, data_type) {
                    (Some(value), Some(data_type)) => format!("CAST('{}' AS {data_type})", value.replace('\'', "''")),
                    _ => "NULL".to_owned(),
                });
            }
        }
        let known = known.ok_or_else(|| Error::input(format!("{value} gives no value for variable {name}")))?;
        self.change_variables(|variables| variables.insert(name.to_lowercase(), known));
        self.done("SET VARIABLE")
    }

    /// RESET VARIABLE name; of one that is not there, too, as in DuckDB.
    pub(crate) fn reset_variable(&self, name: &str) -> Result<Answer> {
        self.change_variables(|variables| variables.remove(&name.to_lowercase()));
        self.done("RESET VARIABLE")
    }

    fn change_variables<T>(&self, change: impl FnOnce(&mut HashMap<String, String>) -> T) {
        self.session.set(|base| {
            let mut variables = Variables::clone(&Variables::of(base.config()));
            change(&mut variables.0);
            base.config_mut().set_extension(Arc::new(variables));
        });
    }

    /// PRAGMA.
    pub(crate) fn pragma(&self, pragma: Pragma) -> Result<Answer> {
        match pragma {
            Pragma::Nothing => self.done("PRAGMA"),
            Pragma::Set { variable, value } => self.set(&variable, &value),
            Pragma::TableInfo(name) => self.table_info(&name),
            Pragma::ShowTables { all: true } => self.answer_of(ALL_TABLES),
            Pragma::ShowTables { all: false } => self.answer_of(TABLES),
            Pragma::Query(query) => self.answer_of(query),
            Pragma::ShowDatabases => self.batch(answers::databases(&self.planner.engine().store().path_description())?),
            Pragma::Checkpoint => self.checkpoint(),
            Pragma::Version => self.batch(answers::version()?),
        }
    }

    fn table_info(&self, text: &str) -> Result<Answer> {
        let parsed = parse_name(text).map_err(|_| Error::input(format!("{text} is not the name of a table")))?;
        let name = find_name(&self.planner, &parsed)?;
        if let Some(table) = self.planner.snapshot().table(&name.schema, &name.name) {
            return self.batch(answers::table_info(table)?);
        }
        let (plan, _) = self.plan_source(&parsed.to_string())?;
        self.batch(answers::columns_info(plan.schema().as_arrow())?)
    }
}
