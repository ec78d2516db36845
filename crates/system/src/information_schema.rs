//! The schema `information_schema`: schemas, tables and columns under DuckDB's names and types, for programs that ask for them.
//! What else DataFusion keeps in a schema of this name stays there.

mod duckdb_tables;

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::{ArrayRef, Int32Array, RecordBatch};
use datafusion::arrow::datatypes::{Field, Schema};
use datafusion::catalog::information_schema::InformationSchemaProvider;
use datafusion::catalog::{SchemaProvider, TableProvider};
use datafusion::common::Result;
use datafusion::datasource::MemTable;
use forebay_context::error::into_datafusion;
use forebay_syntax::types::shown_field;
use forebay_tables::declared::{comment, generated_from};
use forebay_tables::nested_columns;
use forebay_tables::table::primary_key;

pub use self::duckdb_tables::functions_of;
use self::duckdb_tables::oid_of;
use crate::arrays::{Columns, texts};
use crate::seen::{Seen, is_temporary};
use crate::{CATALOG, system_views};

/// The schema's name.
pub const NAME: &str = "information_schema";

/// The schema, of what a statement sees.
#[derive(Debug)]
pub struct InformationSchema {
    /// What the statement sees.
    pub seen: Arc<dyn Seen>,
    /// DataFusion's schema of this name.
    pub others: InformationSchemaProvider,
}

#[async_trait]
impl SchemaProvider for InformationSchema {
    fn table_names(&self) -> Vec<String> {
        self.others.table_names()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let name = name.to_lowercase();
        let batch = match name.as_str() {
            "schemata" => self.schemata(),
            "tables" => self.tables(),
            "columns" => self.columns().await?,
            "referential_constraints" => self.referential_constraints(),
            _ => match system_views::query(&name) {
                Some(query) => return self.seen.query(query).await.map(Some).map_err(into_datafusion),
                None => match self.duckdb_table(&name).await? {
                    Some(columns) => columns,
                    None => return self.others.table(&name).await,
                },
            },
        };
        let (fields, arrays): (Vec<Field>, Vec<ArrayRef>) =
            batch.into_iter().map(|(name, array)| (Field::new(name, array.data_type().clone(), true), array)).unzip();
        let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)?;
        Ok(Some(Arc::new(MemTable::try_new(batch.schema(), vec![vec![batch]])?)))
    }

    fn table_exist(&self, name: &str) -> bool {
        is_global(name) || self.others.table_exist(&name.to_lowercase())
    }
}

/// A column of a table or view.
struct Described {
    schema: String,
    /// The schema, as the catalog calls it.
    own_schema: String,
    table: String,
    oid: i64,
    name: String,
    position: i32,
    default: Option<String>,
    is_nullable: bool,
    data_type: String,
    /// The expression of a generated column.
    generated: Option<String>,
    /// What COMMENT ON said of it.
    comment: Option<String>,
}

impl InformationSchema {
    fn is_temporary(&self, schema: &str) -> bool {
        is_temporary(&*self.seen, schema)
    }

    fn schemata(&self) -> Columns {
        let names: Vec<&str> = self.seen.catalog().schemas().filter_map(|schema| self.seen.shown(schema)).collect();
        let nothing = || texts(names.iter().map(|_| None));
        vec![
            ("catalog_name", texts(names.iter().map(|_| Some(CATALOG)))),
            ("schema_name", texts(names.iter().map(|name| Some(*name)))),
            ("schema_owner", texts(names.iter().map(|_| Some("duckdb")))),
            ("default_character_set_catalog", nothing()),
            ("default_character_set_schema", nothing()),
            ("default_character_set_name", nothing()),
            ("sql_path", nothing()),
        ]
    }

    fn tables(&self) -> Columns {
        let catalog = self.seen.catalog();
        let kind = |schema: &str| if self.is_temporary(schema) { "LOCAL TEMPORARY" } else { "BASE TABLE" };
        let tables = catalog.tables().map(|table| (table.schema.as_str(), table.name.as_str(), kind(&table.schema)));
        let views = catalog.views().map(|view| (view.schema.as_str(), view.name.as_str(), "VIEW"));
        let shown = |(schema, name, kind)| self.seen.shown(schema).map(|schema| (schema, name, kind));
        let all: Vec<(&str, &str, &str)> = tables.chain(views).filter_map(shown).collect();
        let is_insertable = |kind: &str| if kind == "VIEW" { "NO" } else { "YES" };
        let nothing = || texts(all.iter().map(|_| None));
        vec![
            ("table_catalog", texts(all.iter().map(|_| Some(CATALOG)))),
            ("table_schema", texts(all.iter().map(|(schema, ..)| Some(*schema)))),
            ("table_name", texts(all.iter().map(|(_, name, _)| Some(*name)))),
            ("table_type", texts(all.iter().map(|(.., kind)| Some(*kind)))),
            ("self_referencing_column_name", nothing()),
            ("reference_generation", nothing()),
            ("user_defined_type_catalog", nothing()),
            ("user_defined_type_schema", nothing()),
            ("user_defined_type_name", nothing()),
            ("is_insertable_into", texts(all.iter().map(|(.., kind)| Some(is_insertable(kind))))),
            ("is_typed", texts(all.iter().map(|_| Some("NO")))),
            ("commit_action", texts(all.iter().map(|(.., kind)| (*kind == "LOCAL TEMPORARY").then_some("PRESERVE")))),
            ("TABLE_COMMENT", nothing()),
        ]
    }

    async fn columns(&self) -> Result<Columns> {
        let all = self.described().await?;
        let text = |of: fn(&Described) -> Option<&str>| texts(all.iter().map(of));
        let number = |of: fn(&str) -> Option<(i32, i32, i32)>, part: fn((i32, i32, i32)) -> i32| -> ArrayRef {
            Arc::new(all.iter().map(|column| of(&column.data_type).map(part)).collect::<Int32Array>())
        };
        let no_number = || -> ArrayRef { Arc::new(all.iter().map(|_| None).collect::<Int32Array>()) };
        let positions: Int32Array = all.iter().map(|column| Some(column.position)).collect();
        Ok(vec![
            ("table_catalog", text(|_| Some(CATALOG))),
            ("table_schema", text(|column| Some(&column.schema))),
            ("table_name", text(|column| Some(&column.table))),
            ("column_name", text(|column| Some(&column.name))),
            ("ordinal_position", Arc::new(positions)),
            ("column_default", text(|column| column.default.as_deref())),
            ("is_nullable", text(|column| Some(if column.is_nullable { "YES" } else { "NO" }))),
            ("data_type", text(|column| Some(&column.data_type))),
            ("character_maximum_length", no_number()),
            ("character_octet_length", no_number()),
            ("numeric_precision", number(digits, |(precision, ..)| precision)),
            ("numeric_precision_radix", number(digits, |(_, radix, _)| radix)),
            ("numeric_scale", number(digits, |(.., scale)| scale)),
            ("datetime_precision", no_number()),
            ("is_generated", text(|column| Some(if column.generated.is_some() { "ALWAYS" } else { "NEVER" }))),
            ("generation_expression", text(|column| column.generated.as_deref())),
            ("COLUMN_COMMENT", text(|column| column.comment.as_deref())),
        ])
    }

    /// The columns of all tables, and of the views that can be planned.
    async fn described(&self) -> Result<Vec<Described>> {
        let catalog = self.seen.catalog();
        let mut all = Vec::new();
        for table in catalog.tables() {
            let Some(schema) = self.seen.shown(&table.schema) else { continue };
            let key = primary_key(table);
            all.extend(table.columns.iter().zip(1..).map(|(column, position)| Described {
                schema: schema.to_owned(),
                own_schema: table.schema.clone(),
                table: table.name.clone(),
                oid: oid_of(table.id.0),
                name: column.name.clone(),
                position,
                default: column.default.clone(),
                is_nullable: column.nullable && !key.contains(&column.name),
                data_type: nested_columns::shown(table, column),
                generated: generated_from(table, column).map(str::to_owned),
                comment: comment(table, Some(column.id)).map(str::to_owned),
            }));
        }
        for view in catalog.views() {
            let Some(shown) = self.seen.shown(&view.schema) else { continue };
            let Some(schema) = self.seen.columns_of(view).await.map_err(into_datafusion)? else { continue };
            all.extend(schema.fields().iter().zip(1..).map(|(field, position)| Described {
                schema: shown.to_owned(),
                own_schema: view.schema.clone(),
                table: view.name.clone(),
                oid: oid_of(view.id()),
                name: field.name().clone(),
                position,
                default: None,
                is_nullable: true,
                data_type: shown_field(field),
                generated: None,
                comment: None,
            }));
        }
        Ok(all)
    }
}

/// Whether a table of this name is found in every schema, as programs name it without one.
pub fn is_global(name: &str) -> bool {
    let name = name.to_lowercase();
    duckdb_tables::NAMES.contains(&name.as_str()) || system_views::is_known(&name)
}

/// How many digits a number has, to which base, and how many of them behind the point.
fn digits(data_type: &str) -> Option<(i32, i32, i32)> {
    Some(match data_type {
        "TINYINT" | "UTINYINT" => (8, 2, 0),
        "SMALLINT" | "USMALLINT" => (16, 2, 0),
        "INTEGER" | "UINTEGER" => (32, 2, 0),
        "BIGINT" | "UBIGINT" => (64, 2, 0),
        "HUGEINT" => (128, 2, 0),
        "FLOAT" => (24, 2, 0),
        "DOUBLE" => (53, 2, 0),
        decimal => {
            let (precision, scale) = decimal.strip_prefix("DECIMAL(")?.strip_suffix(')')?.split_once(',')?;
            (precision.trim().parse().ok()?, 10, scale.trim().parse().ok()?)
        }
    })
}
