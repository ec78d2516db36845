//! In which schemas a session looks for tables and views: first in that of its temporary ones, then in those of its search path,
//! at last in `main`.
//!
//! Temporary tables are tables of the database in a schema that only their session looks into. It is made with the first of them
//! and dropped when the session ends; what a process that was killed left is dropped when the database is opened.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};

use datafusion::sql::parser::Statement as PlanStatement;
use datafusion::sql::sqlparser::ast::{Ident, ObjectName, ObjectNamePart, VisitorMut};
use forebay_base::{Error, Result};
use forebay_grammar::walk::Tree;
use forebay_macros::current_settings;
use forebay_store::{Catalog, DEFAULT_SCHEMA, Store, names_equal};
use forebay_system::schema::check_free;
use forebay_system::{CATALOG, name_text};

use crate::qualified_name::{QualifiedName, ident};

/// What SQL calls the schema of the session's own temporary tables.
const OWN: &str = "temp";

/// What the names of such schemas begin with, before the number of the session: PostgreSQL's name for them.
const PREFIX: &str = "pg_temp_";

/// Behind the name of a schema where its own tables are meant, not temporary ones of the same name.
const ITSELF: &str = " itself";

/// Sessions that this process has begun.
static SESSIONS: AtomicU64 = AtomicU64::new(0);

/// Where a session looks for tables and views.
#[derive(Debug, Clone)]
pub struct SearchPath {
    /// The schema of names without one, and of what is made under such a name.
    pub schema: String,
    /// Where names without a schema are looked for after that, in this order, before `main`.
    pub further: Vec<String>,
    /// The schema of the session's temporary tables; there is none as long as there are none.
    pub temporary: String,
}

impl SearchPath {
    /// That of a new session.
    pub fn of_new_session() -> Self {
        let number = SESSIONS.fetch_add(1, Ordering::Relaxed) + 1;
        Self { schema: DEFAULT_SCHEMA.to_owned(), further: Vec::new(), temporary: format!("{PREFIX}{number}") }
    }

    /// The schemas that a list of names, `a, "b c"`, says to look in.
    ///
    /// # Errors
    /// What is no such list.
    pub fn listed(text: &str) -> Result<Vec<String>> {
        let names = current_settings::schemas_of(text)?;
        names.iter().map(|name| QualifiedName::of(name, CATALOG).map(|found| found.name)).collect()
    }

    /// What `current_schemas(false)` tells: the schemas that were asked for.
    pub fn asked(&self) -> Vec<&str> {
        match self.schema == DEFAULT_SCHEMA && self.further.is_empty() {
            true => Vec::new(),
            false => std::iter::once(&self.schema).chain(&self.further).map(String::as_str).collect(),
        }
    }

    /// Where names without a schema are looked for after the first schema.
    fn others(&self) -> impl Iterator<Item = &str> {
        let ends = self.schema != DEFAULT_SCHEMA && self.further.iter().all(|other| other != DEFAULT_SCHEMA);
        self.further.iter().map(String::as_str).chain(ends.then_some(DEFAULT_SCHEMA))
    }

    /// What `current_setting('search_path')` tells.
    pub fn told(&self) -> String {
        self.asked().into_iter().map(name_text).collect::<Vec<_>>().join(",")
    }

    /// The table or view that a name means, whether it is there or not.
    pub fn find(&self, catalog: &Catalog, name: &ObjectName) -> Result<QualifiedName> {
        let mut found = QualifiedName::of(name, &self.schema)?;
        if let Some(itself) = found.schema.strip_suffix(ITSELF) {
            return Ok(QualifiedName { schema: itself.to_owned(), name: found.name });
        }
        if self.is_own(catalog, &found.schema) || (name.0.len() == 1 && self.hides(catalog, &found.name)) {
            found.schema.clone_from(&self.temporary);
        } else if name.0.len() == 1 && !has(catalog, &found.schema, &found.name) {
            let other = self.others().find(|schema| has(catalog, schema, &found.name));
            found.schema = other.map_or(found.schema, str::to_owned);
        }
        Ok(found)
    }

    /// What a new table or view is called. Errors: a temporary one in a schema; one in a schema of system tables.
    pub fn name_new(&self, catalog: &Catalog, name: &ObjectName, is_temporary: bool) -> Result<QualifiedName> {
        let mut new = QualifiedName::of(name, &self.schema)?;
        if !catalog.has_schema(&new.schema) {
            check_free(&new.schema, &name.to_string())?;
        }
        match self.is_own(catalog, &new.schema) {
            false if is_temporary && name.0.len() > 1 => {
                return Err(Error::input(format!("{name} is temporary, and in no schema"))
                    .hint(format!("Write {} or {OWN}.{}", new.name, new.name)));
            }
            is_own if is_own || is_temporary => new.schema.clone_from(&self.temporary),
            _ => {}
        }
        Ok(new)
    }

    /// Whether a temporary table or view has this name.
    pub fn hides(&self, catalog: &Catalog, name: &str) -> bool {
        has(catalog, &self.temporary, name)
    }

    /// Whether SQL means the schema of temporary tables.
    fn is_own(&self, catalog: &Catalog, schema: &str) -> bool {
        names_equal(schema, OWN) && !catalog.has_schema(OWN)
    }

    /// The schemas that the tables of a schema of this name are in, as a query names it, in the order in which to look.
    pub fn schemas(&self, catalog: &Catalog, name: &str, sees_temporary: bool) -> Vec<String> {
        if self.is_own(catalog, name) {
            return vec![self.temporary.clone()];
        }
        if let Some(name) = name.strip_suffix(ITSELF) {
            return vec![name.to_owned()];
        }
        let is_own = sees_temporary && names_equal(name, &self.schema);
        let temporary = (is_own && catalog.has_schema(&self.temporary)).then(|| self.temporary.clone());
        let others = self.others().filter(|_| is_own).map(str::to_owned);
        let named = catalog.has_schema(name).then(|| name.to_owned());
        temporary.into_iter().chain(named).chain(others).collect()
    }

    /// What a schema is called in answers; `None` of the temporary tables of other sessions.
    pub fn shown<'a>(&self, schema: &'a str) -> Option<&'a str> {
        match is_temporary(schema) {
            true => (schema == self.temporary).then_some(OWN),
            false => Some(schema),
        }
    }

    /// Has names with a schema mean what is there: to DataFusion `main.t` is `t`, which may be temporary.
    pub fn tell_apart(&self, catalog: &Catalog, statement: &mut PlanStatement) {
        if self.others().next().is_none() && !catalog.has_schema(&self.temporary) {
            return;
        }
        match statement {
            PlanStatement::Statement(ast) => {
                let _ = ast.walk_mut(&mut Qualified { path: self, catalog });
            }
            PlanStatement::Explain(explain) => self.tell_apart(catalog, &mut explain.statement),
            PlanStatement::CreateExternalTable(_) | PlanStatement::CopyTo(_) | PlanStatement::Reset(_) => {}
        }
    }
}

/// Marks the schemas in names of relations that a temporary one hides, or that others have.
struct Qualified<'a> {
    path: &'a SearchPath,
    catalog: &'a Catalog,
}

impl Qualified<'_> {
    /// Whether it would be looked for in other schemas.
    fn is_elsewhere(&self, name: &str) -> bool {
        !has(self.catalog, &self.path.schema, name) && self.path.others().any(|other| has(self.catalog, other, name))
    }
}

impl VisitorMut for Qualified<'_> {
    type Break = ();

    fn pre_visit_relation(&mut self, relation: &mut ObjectName) -> ControlFlow<()> {
        if let [.., ObjectNamePart::Identifier(schema), ObjectNamePart::Identifier(name)] = relation.0.as_mut_slice()
            && names_equal(&schema.value, &self.path.schema)
            && (self.path.hides(self.catalog, &ident(name)) || self.is_elsewhere(&ident(name)))
        {
            *schema = Ident::with_quote('"', format!("{}{ITSELF}", schema.value));
        }
        ControlFlow::Continue(())
    }
}

fn has(catalog: &Catalog, schema: &str, name: &str) -> bool {
    catalog.stored_table_named(schema, name).is_some() || catalog.view(schema, name).is_some()
}

/// Whether a schema is one of temporary tables.
pub fn is_temporary(schema: &str) -> bool {
    schema.starts_with(PREFIX)
}

/// Drops the temporary tables that sessions of killed processes left. Nobody else may have the database open.
pub fn drop_left(store: &Store) -> Result<()> {
    let left: Vec<String> =
        store.catalog().schemas().filter(|schema| is_temporary(schema)).map(str::to_owned).collect();
    drop_schemas(store, &left)
}

/// Drops the temporary tables of a session.
pub fn drop_own(store: &Store, path: &SearchPath) -> Result<()> {
    match store.catalog().has_schema(&path.temporary) {
        true => drop_schemas(store, std::slice::from_ref(&path.temporary)),
        false => Ok(()),
    }
}

fn drop_schemas(store: &Store, schemas: &[String]) -> Result<()> {
    if schemas.is_empty() {
        return Ok(());
    }
    let mut transaction = store.begin()?;
    for schema in schemas {
        transaction.drop_schema(schema, true)?;
    }
    transaction.commit()
}
