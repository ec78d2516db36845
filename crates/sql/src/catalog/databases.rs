//! The catalogs of DataFusion, over what a planner sees.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::information_schema::InformationSchemaProvider;
use datafusion::catalog::{CatalogProvider, CatalogProviderList, SchemaProvider, TableProvider};
use datafusion::common::{DataFusionError, Result as DataFusionResult};
use datafusion::datasource::ViewTable;
use forebay_base::{Error, Result};
use forebay_context::error::into_datafusion;
use forebay_context::lock::lock;
use forebay_context::settings::Variables;
use forebay_context::told_settings::Setting;
use forebay_engine::Engine;
use forebay_forms::file_options::looks_like_path;
use forebay_names::qualified_name::is_catalog;
use forebay_store::{Catalog, View};
use forebay_system::information_schema::{self, InformationSchema};
use forebay_system::schema::{self, SystemSchema};
use forebay_system::{CATALOG, Seen, functions_of};
use forebay_tables::nested_columns;
use forebay_tables::table::ForebayTable;
use forebay_transactions::{SessionTransactions, Sessions, TransactionStatus};

use super::Planner;

/// PostgreSQL's name for the schema of its catalog.
const POSTGRES: &str = "pg_catalog";

/// The list of catalogs: one, whatever name it is asked by is resolved in it.
#[derive(Debug, Clone)]
pub(super) struct Databases {
    pub(super) planner: Arc<Planner>,
    pub(super) sees_temporary: bool,
}

impl Databases {
    /// What is in the catalog, as tables.
    fn told(&self) -> InformationSchema {
        let databases = || Arc::new(self.clone());
        InformationSchema { seen: databases(), others: InformationSchemaProvider::new(databases()) }
    }
}

#[async_trait]
impl Seen for Databases {
    fn catalog(&self) -> &Catalog {
        &self.planner.snapshot
    }

    fn shown<'a>(&self, schema: &'a str) -> Option<&'a str> {
        self.planner.path.shown(schema)
    }

    fn engine(&self) -> &Engine {
        &self.planner.engine
    }

    async fn query(&self, text: &str) -> Result<Arc<dyn TableProvider>> {
        let planner = &self.planner;
        let plan = Box::pin(planner.plan_text(&planner.state_seeing(self.sees_temporary), text)).await?;
        Ok(Arc::new(ViewTable::new(plan, Some(text.to_owned()))))
    }

    fn transactions(&self) -> Vec<(TransactionStatus, bool)> {
        let config = self.planner.base.config();
        let own = config.get_extension::<SessionTransactions>().map(|session| session.number());
        let all = config.get_extension::<Sessions>().map(|sessions| sessions.transactions()).unwrap_or_default();
        all.into_iter()
            .map(|status| {
                let is_own = own == Some(status.session);
                (status, is_own)
            })
            .collect()
    }

    fn settings(&self) -> Vec<Setting> {
        self.planner.settings()
    }

    fn functions(&self) -> Vec<(String, &'static str)> {
        functions_of(&self.planner.base)
    }

    fn variables(&self) -> Vec<(String, String)> {
        Variables::of(self.planner.base.config()).sorted()
    }

    async fn columns_of(&self, view: &View) -> Result<Option<SchemaRef>> {
        self.planner.statement.cancel.check()?;
        Ok(self.planner.view(view).await.ok().map(|provider| provider.schema()))
    }
}

impl CatalogProviderList for Databases {
    fn register_catalog(&self, _name: String, _catalog: Arc<dyn CatalogProvider>) -> Option<Arc<dyn CatalogProvider>> {
        None
    }

    fn catalog_names(&self) -> Vec<String> {
        vec![CATALOG.to_owned()]
    }

    fn catalog(&self, name: &str) -> Option<Arc<dyn CatalogProvider>> {
        is_catalog(name).then(|| Arc::new(Schemas(self.clone())) as Arc<dyn CatalogProvider>)
    }
}

#[derive(Debug)]
struct Schemas(Databases);

impl CatalogProvider for Schemas {
    fn schema_names(&self) -> Vec<String> {
        let planner = &self.0.planner;
        planner.snapshot.schemas().filter_map(|schema| planner.path.shown(schema)).map(str::to_owned).collect()
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        if [information_schema::NAME, POSTGRES].iter().any(|known| name.eq_ignore_ascii_case(known)) {
            return Some(Arc::new(self.0.told()));
        }
        let Databases { planner, sees_temporary } = &self.0;
        let schemas = planner.path.schemas(&planner.snapshot, name, *sees_temporary);
        let is_there = !schemas.is_empty();
        let made = is_there.then(|| {
            let tables = Tables { planner: Arc::clone(planner), schemas, databases: self.0.clone() };
            Arc::new(tables) as Arc<dyn SchemaProvider>
        });
        match name.eq_ignore_ascii_case(schema::NAME) {
            true => Some(Arc::new(SystemSchema { seen: Arc::new(self.0.clone()), made })),
            false => made,
        }
    }
}

#[derive(Debug)]
struct Tables {
    planner: Arc<Planner>,
    /// Where tables are looked for, in this order.
    schemas: Vec<String>,
    databases: Databases,
}

#[async_trait]
impl SchemaProvider for Tables {
    fn table_names(&self) -> Vec<String> {
        let snapshot = &self.planner.snapshot;
        let here = |schema: &str| self.schemas.iter().any(|own| forebay_store::names_equal(schema, own));
        let tables = snapshot.tables().filter(|table| here(&table.schema)).map(|table| table.name.clone());
        let views = snapshot.views().filter(|view| here(&view.schema)).map(|view| view.name.clone());
        tables.chain(views).collect()
    }

    async fn table(&self, name: &str) -> DataFusionResult<Option<Arc<dyn TableProvider>>> {
        let snapshot = &self.planner.snapshot;
        if let Some(part) = self.planner.part(name) {
            let provider = Arc::new(ForebayTable::of_part(Arc::clone(&self.planner.engine), Arc::clone(&part)));
            return nested_columns::provider(provider, &part, &self.planner.base).map(Some);
        }
        if let Some(answer) = lock(&self.planner.answers).get(name) {
            return Ok(Some(Arc::clone(answer)));
        }
        for schema in &self.schemas {
            if let Some(table) = snapshot.table(schema, name) {
                let provider = self.planner.provider(table).map_err(into_datafusion)?;
                return nested_columns::provider(provider, table, &self.planner.base).map(Some);
            }
            if let Some(view) = snapshot.view(schema, name) {
                return self.planner.view(view).await.map(Some).map_err(into_datafusion);
            }
        }
        if information_schema::is_global(name) {
            return self.databases.told().table(name).await;
        }
        if looks_like_path(name) {
            return self.planner.file(name).await.map(Some).map_err(into_datafusion);
        }
        if self.planner.base.table_functions().contains_key(name) {
            return Ok(None);
        }
        let known = self.table_names();
        let error = Error::new(forebay_base::ErrorKind::NotFound, format!("table {name} does not exist"));
        let error = match forebay_context::error::suggestion(name, known.iter().map(String::as_str)) {
            Some(other) => error.hint(format!("Did you mean {other}?")),
            None => error,
        };
        Err(DataFusionError::External(Box::new(error)))
    }

    fn table_exist(&self, name: &str) -> bool {
        let snapshot = &self.planner.snapshot;
        self.schemas.iter().any(|own| snapshot.table(own, name).is_some() || snapshot.view(own, name).is_some())
    }
}
