//! The schema `information_schema`: schemas, tables and columns under DuckDB's names and types, for programs that ask for them.
//! What else DataFusion keeps in a schema of this name stays there.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::{ArrayRef, BooleanArray, Int32Array, Int64Array, RecordBatch, StringArray};
use datafusion::arrow::datatypes::{Field, Schema};
use datafusion::catalog::information_schema::InformationSchemaProvider;
use datafusion::catalog::{SchemaProvider, TableProvider};
use datafusion::common::Result;
use datafusion::datasource::MemTable;
use forebay_context::error::into_datafusion;
use forebay_store::SequenceRange;
use forebay_syntax::types::shown_type;
use forebay_tables::nested_columns;
use forebay_tables::table::primary_key;

use crate::CATALOG;
use crate::seen::{Seen, is_temporary};

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
            "duckdb_schemas" => self.duckdb_schemas(),
            "duckdb_tables" => self.duckdb_tables(),
            "duckdb_views" => self.duckdb_views(),
            "duckdb_columns" => self.duckdb_columns().await?,
            "duckdb_sequences" => self.duckdb_sequences(),
            _ => return self.others.table(&name).await,
        };
        let (fields, arrays): (Vec<Field>, Vec<ArrayRef>) =
            batch.into_iter().map(|(name, array)| (Field::new(name, array.data_type().clone(), true), array)).unzip();
        let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)?;
        Ok(Some(Arc::new(MemTable::try_new(batch.schema(), vec![vec![batch]])?)))
    }

    fn table_exist(&self, name: &str) -> bool {
        self.others.table_exist(&name.to_lowercase())
    }
}

/// Columns of an answer by their names.
type Columns = Vec<(&'static str, ArrayRef)>;

/// A column of a table or view.
struct Described {
    schema: String,
    table: String,
    name: String,
    position: i32,
    default: Option<String>,
    is_nullable: bool,
    data_type: String,
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
            ("schema_owner", nothing()),
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
            ("commit_action", nothing()),
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
        ])
    }

    fn duckdb_schemas(&self) -> Columns {
        let names: Vec<&str> = self.seen.catalog().schemas().filter_map(|schema| self.seen.shown(schema)).collect();
        vec![
            ("database_name", texts(names.iter().map(|_| Some(CATALOG)))),
            ("schema_name", texts(names.iter().map(|name| Some(*name)))),
            ("internal", flags(names.iter().map(|_| false))),
        ]
    }

    fn duckdb_tables(&self) -> Columns {
        let all = self.seen.catalog().tables().filter_map(|table| Some((self.seen.shown(&table.schema)?, table)));
        let all: Vec<_> = all.collect();
        vec![
            ("database_name", texts(all.iter().map(|_| Some(CATALOG)))),
            ("schema_name", texts(all.iter().map(|(schema, _)| Some(*schema)))),
            ("table_name", texts(all.iter().map(|(_, table)| Some(table.name.as_str())))),
            ("internal", flags(all.iter().map(|_| false))),
            ("temporary", flags(all.iter().map(|(_, table)| self.is_temporary(&table.schema)))),
            ("has_primary_key", flags(all.iter().map(|(_, table)| !primary_key(table).is_empty()))),
            ("estimated_size", counts(all.iter().map(|(_, table)| table.rows()))),
            ("column_count", counts(all.iter().map(|(_, table)| table.columns.len() as u64))),
        ]
    }

    fn duckdb_views(&self) -> Columns {
        let all = self.seen.catalog().views().filter_map(|view| Some((self.seen.shown(&view.schema)?, view)));
        let all: Vec<_> = all.collect();
        vec![
            ("database_name", texts(all.iter().map(|_| Some(CATALOG)))),
            ("schema_name", texts(all.iter().map(|(schema, _)| Some(*schema)))),
            ("view_name", texts(all.iter().map(|(_, view)| Some(view.name.as_str())))),
            ("internal", flags(all.iter().map(|_| false))),
            ("temporary", flags(all.iter().map(|(_, view)| self.is_temporary(&view.schema)))),
            ("sql", texts(all.iter().map(|(_, view)| Some(view.sql.as_str())))),
        ]
    }

    fn duckdb_sequences(&self) -> Columns {
        let all = self.seen.catalog().sequences().filter_map(|own| Some((self.seen.shown(&own.schema)?, own)));
        let all: Vec<_> = all.collect();
        let number = |of: fn(&SequenceRange) -> i64| -> ArrayRef {
            Arc::new(all.iter().map(|(_, own)| Some(of(&own.range))).collect::<Int64Array>())
        };
        vec![
            ("database_name", texts(all.iter().map(|_| Some(CATALOG)))),
            ("schema_name", texts(all.iter().map(|(schema, _)| Some(*schema)))),
            ("sequence_name", texts(all.iter().map(|(_, own)| Some(own.name.as_str())))),
            ("temporary", flags(all.iter().map(|(_, own)| self.is_temporary(&own.schema)))),
            ("start_value", number(|range| range.start)),
            ("min_value", number(|range| range.least)),
            ("max_value", number(|range| range.greatest)),
            ("increment_by", number(|range| range.increment)),
            ("cycle", flags(all.iter().map(|(_, own)| own.range.cycles))),
        ]
    }

    async fn duckdb_columns(&self) -> Result<Columns> {
        let all = self.described().await?;
        let text = |of: fn(&Described) -> Option<&str>| texts(all.iter().map(of));
        let positions: Int32Array = all.iter().map(|column| Some(column.position)).collect();
        Ok(vec![
            ("database_name", text(|_| Some(CATALOG))),
            ("schema_name", text(|column| Some(&column.schema))),
            ("table_name", text(|column| Some(&column.table))),
            ("column_name", text(|column| Some(&column.name))),
            ("column_index", Arc::new(positions)),
            ("internal", flags(all.iter().map(|_| false))),
            ("column_default", text(|column| column.default.as_deref())),
            ("is_nullable", flags(all.iter().map(|column| column.is_nullable))),
            ("data_type", text(|column| Some(&column.data_type))),
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
                table: table.name.clone(),
                name: column.name.clone(),
                position,
                default: column.default.clone(),
                is_nullable: column.nullable && !key.contains(&column.name),
                data_type: nested_columns::shown(table, column),
            }));
        }
        for view in catalog.views() {
            let Some(shown) = self.seen.shown(&view.schema) else { continue };
            let Some(schema) = self.seen.columns_of(view).await.map_err(into_datafusion)? else { continue };
            all.extend(schema.fields().iter().zip(1..).map(|(field, position)| Described {
                schema: shown.to_owned(),
                table: view.name.clone(),
                name: field.name().clone(),
                position,
                default: None,
                is_nullable: true,
                data_type: shown_type(field.data_type()),
            }));
        }
        Ok(all)
    }
}

fn flags(values: impl Iterator<Item = bool>) -> ArrayRef {
    Arc::new(values.map(Some).collect::<BooleanArray>())
}

fn counts(values: impl Iterator<Item = u64>) -> ArrayRef {
    Arc::new(values.map(|count| i64::try_from(count).ok()).collect::<Int64Array>())
}

fn texts<'a>(values: impl Iterator<Item = Option<&'a str>>) -> ArrayRef {
    Arc::new(values.collect::<StringArray>())
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
