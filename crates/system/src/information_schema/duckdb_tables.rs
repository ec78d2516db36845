//! What is in the catalog, as DuckDB's functions tell it: `duckdb_tables()`, `duckdb_columns()` and the like. Oids are the numbers that
//! the catalog gives to what it has, those of schemas their places.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::execution::SessionState;
use forebay_context::error::into_datafusion;
use forebay_context::functions::Functions;
use forebay_store::{Constraint, MacroKind, SequenceRange, TableSnapshot, View};
use forebay_tables::declared::{Index, comment, indexes};
use forebay_tables::table::primary_key;

use super::{Described, InformationSchema, digits};
use crate::CATALOG;
use crate::arrays::{
    Columns, count_lists, counts, flags, integers, made_texts, no_tags, no_texts, nothing, numbers, text_lists, texts,
};
use crate::constraints::{self, Told};
use crate::definitions;

/// Their names.
pub(super) const NAMES: [&str; 12] = [
    "duckdb_columns",
    "duckdb_constraints",
    "duckdb_databases",
    "duckdb_functions",
    "duckdb_indexes",
    "duckdb_schemas",
    "duckdb_sequences",
    "duckdb_settings",
    "duckdb_tables",
    "duckdb_types",
    "duckdb_variables",
    "duckdb_views",
];

/// The types that columns may have, the bytes of a value, and the group that they are in.
const TYPES: [(&str, i64, &str); 25] = [
    ("BIGINT", 8, "NUMERIC"),
    ("BIT", 16, "COMPOSITE"),
    ("BLOB", 16, "COMPOSITE"),
    ("BOOLEAN", 1, "BOOLEAN"),
    ("DATE", 4, "DATETIME"),
    ("DECIMAL", 16, "NUMERIC"),
    ("DOUBLE", 8, "NUMERIC"),
    ("FLOAT", 4, "NUMERIC"),
    ("HUGEINT", 16, "NUMERIC"),
    ("INTEGER", 4, "NUMERIC"),
    ("INTERVAL", 16, "DATETIME"),
    ("SMALLINT", 2, "NUMERIC"),
    ("TIME", 8, "DATETIME"),
    ("TIME WITH TIME ZONE", 8, "DATETIME"),
    ("TIMESTAMP", 8, "DATETIME"),
    ("TIMESTAMP WITH TIME ZONE", 8, "DATETIME"),
    ("TIMESTAMP_MS", 8, "DATETIME"),
    ("TIMESTAMP_NS", 8, "DATETIME"),
    ("TIMESTAMP_S", 8, "DATETIME"),
    ("TINYINT", 1, "NUMERIC"),
    ("UBIGINT", 8, "NUMERIC"),
    ("UINTEGER", 4, "NUMERIC"),
    ("USMALLINT", 2, "NUMERIC"),
    ("UTINYINT", 1, "NUMERIC"),
    ("VARCHAR", 16, "STRING"),
];

/// The number of the one database.
const DATABASE: u64 = 1;

/// A number of the catalog as an oid.
pub(super) fn oid_of(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// The functions of a session: their names and kinds.
pub fn functions_of(state: &SessionState) -> Vec<(String, &'static str)> {
    let functions = Functions::of(state.config());
    let own = state.scalar_functions().keys().map(String::as_str);
    let scalars = own.chain(functions.scalar_names()).map(|name| (name.to_owned(), "scalar"));
    let aggregates = functions.aggregate_names().map(|name| (name.to_owned(), "aggregate"));
    let windows = functions.window_names().map(|name| (name.to_owned(), "window"));
    let tables = state.table_functions().keys().map(|name| (name.clone(), "table"));
    let mut all: Vec<_> = scalars.chain(aggregates).chain(windows).chain(tables).collect();
    all.sort();
    all
}

fn database(rows: usize) -> Columns {
    vec![
        ("database_name", texts((0..rows).map(|_| Some(CATALOG)))),
        ("database_oid", counts((0..rows).map(|_| DATABASE))),
    ]
}

impl InformationSchema {
    /// The table of this name; `None` where there is none.
    pub(super) async fn duckdb_table(&self, name: &str) -> Result<Option<Columns>> {
        Ok(Some(match name {
            "duckdb_columns" => self.duckdb_columns(&self.described().await?),
            "duckdb_constraints" => self.duckdb_constraints(),
            "duckdb_databases" => self.duckdb_databases(),
            "duckdb_functions" => self.duckdb_functions(),
            "duckdb_indexes" => self.duckdb_indexes(),
            "duckdb_schemas" => self.duckdb_schemas(),
            "duckdb_sequences" => self.duckdb_sequences(),
            "duckdb_settings" => self.duckdb_settings(),
            "duckdb_tables" => self.duckdb_tables(),
            "duckdb_types" => self.duckdb_types(),
            "duckdb_variables" => self.duckdb_variables(),
            "duckdb_views" => self.duckdb_views().await?,
            _ => return Ok(None),
        }))
    }

    /// The place of a schema among those that there are, from 1 on.
    fn schema_oid(&self, schema: &str) -> u64 {
        self.seen.catalog().schemas().position(|known| known == schema).map_or(0, |place| place as u64 + 1)
    }

    /// Tables with what their schemas are called.
    fn tables_and_schemas(&self) -> Vec<(&str, &TableSnapshot)> {
        let tables = self.seen.catalog().tables();
        tables.filter_map(|table| Some((self.seen.shown(&table.schema)?, table.as_ref()))).collect()
    }

    fn duckdb_schemas(&self) -> Columns {
        let catalog = self.seen.catalog();
        let names: Vec<(&str, &str)> =
            catalog.schemas().filter_map(|schema| Some((schema, self.seen.shown(schema)?))).collect();
        let rows = names.len();
        let mut columns: Columns = vec![("oid", counts(names.iter().map(|(own, _)| self.schema_oid(own))))];
        columns.extend(database(rows));
        columns.extend([
            ("schema_name", texts(names.iter().map(|(_, shown)| Some(*shown)))),
            ("comment", no_texts(rows)),
            ("tags", no_tags(rows)),
            ("internal", flags(names.iter().map(|_| false))),
            ("sql", no_texts(rows)),
        ]);
        columns
    }

    fn duckdb_tables(&self) -> Columns {
        let (all, catalog) = (self.tables_and_schemas(), self.seen.catalog());
        let is_temporary = |table: &TableSnapshot| self.is_temporary(&table.schema);
        let keys = |table: &TableSnapshot| {
            let is_key = |constraint: &&Constraint| !matches!(constraint, Constraint::Check { .. });
            (table.constraints.iter().filter(is_key).count() + indexes(table).count()) as u64
        };
        let checks = |table: &TableSnapshot| {
            let is_check = |constraint: &&Constraint| matches!(constraint, Constraint::Check { .. });
            table.constraints.iter().filter(is_check).count() as u64
        };
        let sql =
            |shown: &str, table: &TableSnapshot| definitions::of_table(table, catalog, shown, is_temporary(table));
        let mut columns = database(all.len());
        columns.extend([
            ("schema_name", texts(all.iter().map(|(schema, _)| Some(*schema)))),
            ("schema_oid", counts(all.iter().map(|(_, table)| self.schema_oid(&table.schema)))),
            ("table_name", texts(all.iter().map(|(_, table)| Some(table.name.as_str())))),
            ("table_oid", counts(all.iter().map(|(_, table)| table.id.0))),
            ("comment", texts(all.iter().map(|(_, table)| comment(table, None)))),
            ("tags", no_tags(all.len())),
            ("internal", flags(all.iter().map(|_| false))),
            ("temporary", flags(all.iter().map(|(_, table)| is_temporary(table)))),
            ("has_primary_key", flags(all.iter().map(|(_, table)| !primary_key(table).is_empty()))),
            ("estimated_size", counts(all.iter().map(|(_, table)| table.rows()))),
            ("column_count", counts(all.iter().map(|(_, table)| table.columns.len() as u64))),
            ("index_count", counts(all.iter().map(|(_, table)| keys(table)))),
            ("check_constraint_count", counts(all.iter().map(|(_, table)| checks(table)))),
            ("sql", made_texts(all.iter().map(|(shown, table)| Some(sql(shown, table))))),
        ]);
        columns
    }

    async fn duckdb_views(&self) -> Result<Columns> {
        let all: Vec<_> =
            self.seen.catalog().views().filter_map(|view| Some((self.seen.shown(&view.schema)?, view))).collect();
        let mut widths = Vec::with_capacity(all.len());
        for (_, view) in &all {
            let columns = self.seen.columns_of(view).await.map_err(into_datafusion)?;
            widths.push(columns.map(|columns| columns.fields().len() as i64));
        }
        let sql =
            |(shown, view): &(&str, &Arc<View>)| definitions::of_view(view, shown, self.is_temporary(&view.schema));
        let mut columns = database(all.len());
        columns.extend([
            ("schema_name", texts(all.iter().map(|(schema, _)| Some(*schema)))),
            ("schema_oid", counts(all.iter().map(|(_, view)| self.schema_oid(&view.schema)))),
            ("view_name", texts(all.iter().map(|(_, view)| Some(view.name.as_str())))),
            ("view_oid", counts(all.iter().map(|(_, view)| view.id()))),
            ("comment", no_texts(all.len())),
            ("tags", no_tags(all.len())),
            ("internal", flags(all.iter().map(|_| false))),
            ("temporary", flags(all.iter().map(|(_, view)| self.is_temporary(&view.schema)))),
            ("column_count", numbers(widths.iter().copied())),
            ("sql", made_texts(all.iter().map(|view| Some(sql(view))))),
            ("is_bound", flags(widths.iter().map(Option::is_some))),
        ]);
        Ok(columns)
    }

    fn duckdb_sequences(&self) -> Columns {
        let all = self.seen.catalog().sequences().filter_map(|own| Some((self.seen.shown(&own.schema)?, own)));
        let all: Vec<_> = all.collect();
        let number = |of: fn(&SequenceRange) -> i64| numbers(all.iter().map(|(_, own)| Some(of(&own.range))));
        let mut columns = database(all.len());
        columns.extend([
            ("schema_name", texts(all.iter().map(|(schema, _)| Some(*schema)))),
            ("schema_oid", counts(all.iter().map(|(_, own)| self.schema_oid(&own.schema)))),
            ("sequence_name", texts(all.iter().map(|(_, own)| Some(own.name.as_str())))),
            ("sequence_oid", counts(all.iter().map(|(_, own)| own.id()))),
            ("comment", no_texts(all.len())),
            ("tags", no_tags(all.len())),
            ("temporary", flags(all.iter().map(|(_, own)| self.is_temporary(&own.schema)))),
            ("start_value", number(|range| range.start)),
            ("min_value", number(|range| range.least)),
            ("max_value", number(|range| range.greatest)),
            ("increment_by", number(|range| range.increment)),
            ("cycle", flags(all.iter().map(|(_, own)| own.range.cycles))),
            ("last_value", numbers(all.iter().map(|(_, own)| own.last()))),
            (
                "sql",
                made_texts(
                    all.iter()
                        .map(|(shown, own)| Some(definitions::of_sequence(own, shown, self.is_temporary(&own.schema)))),
                ),
            ),
        ]);
        columns
    }

    fn duckdb_columns(&self, all: &[Described]) -> Columns {
        let text = |of: fn(&Described) -> Option<&str>| texts(all.iter().map(of));
        let part =
            |of: fn((i32, i32, i32)) -> i32| integers(all.iter().map(|column| digits(&column.data_type).map(of)));
        let mut columns = database(all.len());
        columns.extend([
            ("schema_name", text(|column| Some(&column.schema))),
            ("schema_oid", counts(all.iter().map(|column| self.schema_oid(&column.own_schema)))),
            ("table_name", text(|column| Some(&column.table))),
            ("table_oid", numbers(all.iter().map(|column| Some(column.oid)))),
            ("column_name", text(|column| Some(&column.name))),
            ("column_index", integers(all.iter().map(|column| Some(column.position)))),
            ("comment", text(|column| column.comment.as_deref())),
            ("internal", flags(all.iter().map(|_| false))),
            ("column_default", text(|column| column.default.as_deref())),
            ("is_nullable", flags(all.iter().map(|column| column.is_nullable))),
            ("data_type", text(|column| Some(&column.data_type))),
            ("data_type_id", nothing(&DataType::Int64, all.len())),
            ("character_maximum_length", nothing(&DataType::Int32, all.len())),
            ("numeric_precision", part(|(precision, ..)| precision)),
            ("numeric_precision_radix", part(|(_, radix, _)| radix)),
            ("numeric_scale", part(|(.., scale)| scale)),
            ("tags", no_tags(all.len())),
            ("is_generated", flags(all.iter().map(|column| column.generated.is_some()))),
            ("generation_expression", text(|column| column.generated.as_deref())),
        ]);
        columns
    }

    /// The constraints of all tables, with their places among those of their table.
    fn told_constraints(&self) -> Vec<(&str, &TableSnapshot, u64, Told<'_>)> {
        let catalog = self.seen.catalog();
        let tables = self.tables_and_schemas().into_iter();
        tables
            .flat_map(|(shown, table)| {
                (0..).zip(constraints::of(table, catalog)).map(move |(place, told)| (shown, table, place, told))
            })
            .collect()
    }

    fn duckdb_constraints(&self) -> Columns {
        let all = self.told_constraints();
        let mut columns = database(all.len());
        columns.extend([
            ("schema_name", texts(all.iter().map(|(schema, ..)| Some(*schema)))),
            ("schema_oid", counts(all.iter().map(|(_, table, ..)| self.schema_oid(&table.schema)))),
            ("table_name", texts(all.iter().map(|(_, table, ..)| Some(table.name.as_str())))),
            ("table_oid", counts(all.iter().map(|(_, table, ..)| table.id.0))),
            ("constraint_index", counts(all.iter().map(|(_, _, place, _)| *place))),
            ("constraint_type", texts(all.iter().map(|(.., told)| Some(told.kind)))),
            ("constraint_text", texts(all.iter().map(|(.., told)| Some(told.text.as_str())))),
            ("expression", texts(all.iter().map(|(.., told)| told.expression.as_deref()))),
            ("constraint_column_indexes", count_lists(all.iter().map(|(.., told)| told.places.clone()))),
            ("constraint_column_names", text_lists(all.iter().map(|(.., told)| told.columns.clone()))),
            ("constraint_name", texts(all.iter().map(|(.., told)| Some(told.name.as_str())))),
            (
                "referenced_table",
                texts(all.iter().map(|(.., told)| told.references.as_ref().map(|(parent, _)| parent.name.as_str()))),
            ),
            (
                "referenced_column_names",
                text_lists(
                    all.iter().map(|(.., told)| {
                        told.references.as_ref().map_or_else(Vec::new, |(_, columns)| columns.clone())
                    }),
                ),
            ),
        ]);
        columns
    }

    /// `information_schema.referential_constraints`: foreign keys, and the keys that they lead to.
    pub(super) fn referential_constraints(&self) -> Columns {
        let catalog = self.seen.catalog();
        let keys: Vec<_> = self
            .told_constraints()
            .into_iter()
            .filter_map(|(shown, _, _, told)| {
                let (parent, columns) = told.references?;
                Some((
                    shown,
                    told.name,
                    self.seen.shown(&parent.schema),
                    constraints::key_name(parent, catalog, &columns),
                ))
            })
            .collect();
        let said = |text: &'static str| texts(keys.iter().map(move |_| Some(text)));
        vec![
            ("constraint_catalog", said(CATALOG)),
            ("constraint_schema", texts(keys.iter().map(|(shown, ..)| Some(*shown)))),
            ("constraint_name", texts(keys.iter().map(|(_, name, ..)| Some(name.as_str())))),
            ("unique_constraint_catalog", said(CATALOG)),
            ("unique_constraint_schema", texts(keys.iter().map(|(_, _, schema, _)| *schema))),
            ("unique_constraint_name", texts(keys.iter().map(|(.., key)| key.as_deref()))),
            ("match_option", said("NONE")),
            ("update_rule", said("NO ACTION")),
            ("delete_rule", said("NO ACTION")),
        ]
    }

    fn duckdb_indexes(&self) -> Columns {
        let tables = self.tables_and_schemas().into_iter();
        let all: Vec<(&str, &TableSnapshot, Index<'_>)> =
            tables.flat_map(|(shown, table)| indexes(table).map(move |index| (shown, table, index))).collect();
        let expressions = |index: &Index<'_>| format!("[{}]", index.parts.join(", "));
        let mut columns = database(all.len());
        columns.extend([
            ("schema_name", texts(all.iter().map(|(schema, ..)| Some(*schema)))),
            ("schema_oid", counts(all.iter().map(|(_, table, _)| self.schema_oid(&table.schema)))),
            ("index_name", texts(all.iter().map(|(.., index)| Some(index.name)))),
            ("index_oid", counts((1..).take(all.len()))),
            ("table_name", texts(all.iter().map(|(_, table, _)| Some(table.name.as_str())))),
            ("table_oid", counts(all.iter().map(|(_, table, _)| table.id.0))),
            ("comment", no_texts(all.len())),
            ("tags", no_tags(all.len())),
            ("is_unique", flags(all.iter().map(|(.., index)| index.is_unique))),
            ("is_primary", flags(all.iter().map(|_| false))),
            ("expressions", made_texts(all.iter().map(|(.., index)| Some(expressions(index))))),
            ("sql", made_texts(all.iter().map(|(_, table, index)| Some(definitions::of_index(table, index))))),
        ]);
        columns
    }

    fn duckdb_types(&self) -> Columns {
        let own = self.seen.catalog().named_types().filter_map(|own| Some((self.seen.shown(&own.schema)?, own)));
        let own: Vec<_> = own.collect();
        let (known, rows) = (TYPES.len(), TYPES.len() + own.len());
        let logical = |definition: &str| definition.split('(').next().unwrap_or_default().to_uppercase();
        let labels = |definition: &str| -> Vec<String> {
            let inner = definition.strip_prefix("ENUM(").and_then(|rest| rest.strip_suffix(')')).unwrap_or_default();
            let parts = inner.split("', '").filter(|part| !part.is_empty());
            parts.map(|part| part.trim_matches('\'').replace("''", "'")).collect()
        };
        let all_labels: Vec<Vec<String>> =
            TYPES.iter().map(|_| Vec::new()).chain(own.iter().map(|(_, own)| labels(&own.definition))).collect();
        let names = TYPES.iter().map(|(name, ..)| *name).chain(own.iter().map(|(_, own)| own.name.as_str()));
        let schemas = TYPES.iter().map(|_| "main").chain(own.iter().map(|(shown, _)| *shown));
        let mut columns = database(rows);
        columns.extend([
            ("schema_name", texts(schemas.map(Some))),
            ("schema_oid", counts((0..rows).map(|_| self.schema_oid("main")))),
            ("type_oid", counts((1..).take(rows))),
            ("type_name", texts(names.map(Some))),
            ("type_size", numbers(TYPES.iter().map(|(_, bytes, _)| Some(*bytes)).chain(own.iter().map(|_| Some(1))))),
            (
                "logical_type",
                made_texts(
                    TYPES
                        .iter()
                        .map(|(name, ..)| Some((*name).to_owned()))
                        .chain(own.iter().map(|(_, own)| Some(logical(&own.definition)))),
                ),
            ),
            ("type_category", texts(TYPES.iter().map(|(.., group)| Some(*group)).chain(own.iter().map(|_| None)))),
            ("comment", no_texts(rows)),
            ("tags", no_tags(rows)),
            ("internal", flags((0..rows).map(|row| row < known))),
            ("extension_name", no_texts(rows)),
            ("labels", text_lists(all_labels.iter().map(|labels| labels.iter().map(String::as_str).collect()))),
        ]);
        columns
    }

    fn duckdb_databases(&self) -> Columns {
        let path = self.seen.engine().store().path_description();
        let mut columns = database(1);
        columns.extend([
            ("path", texts([Some(path.as_str())].into_iter())),
            ("comment", no_texts(1)),
            ("tags", no_tags(1)),
            ("internal", flags([false].into_iter())),
            ("type", texts([Some("forebay")].into_iter())),
            ("readonly", flags([self.seen.engine().store().is_read_only()].into_iter())),
        ]);
        columns
    }

    /// Functions that are there, and macros, whose definitions are texts.
    fn duckdb_functions(&self) -> Columns {
        let macros = self.seen.catalog().macros().filter_map(|own| Some((self.seen.shown(&own.schema)?, own)));
        let macros: Vec<_> = macros.collect();
        let known = self.seen.functions();
        let kind = |own: MacroKind| if own == MacroKind::Table { "table_macro" } else { "macro" };
        let names = known.iter().map(|(name, _)| name.as_str()).chain(macros.iter().map(|(_, own)| own.name.as_str()));
        let kinds = known.iter().map(|(_, kind)| *kind).chain(macros.iter().map(|(_, own)| kind(own.kind)));
        let schemas = known.iter().map(|_| "main").chain(macros.iter().map(|(shown, _)| *shown));
        let definitions =
            known.iter().map(|_| None).chain(macros.iter().map(|(_, own)| Some(own.definitions.join(", "))));
        let rows = known.len() + macros.len();
        let mut columns = database(rows);
        columns.extend([
            ("schema_name", texts(schemas.map(Some))),
            ("function_name", texts(names.map(Some))),
            ("alias_of", no_texts(rows)),
            ("function_type", texts(kinds.map(Some))),
            ("description", no_texts(rows)),
            ("comment", no_texts(rows)),
            ("tags", no_tags(rows)),
            ("return_type", no_texts(rows)),
            ("macro_definition", made_texts(definitions)),
            ("internal", flags((0..rows).map(|row| row < known.len()))),
            ("function_oid", counts((1..).take(rows))),
        ]);
        columns
    }

    fn duckdb_settings(&self) -> Columns {
        let all = self.seen.settings();
        vec![
            ("name", texts(all.iter().map(|setting| Some(setting.name.as_str())))),
            ("value", texts(all.iter().map(|setting| setting.value.as_deref()))),
            ("description", texts(all.iter().map(|setting| Some(setting.description)))),
            ("input_type", texts(all.iter().map(|setting| Some(setting.input_type)))),
            ("scope", texts(all.iter().map(|_| Some("LOCAL")))),
            ("aliases", text_lists(all.iter().map(|_| Vec::new()))),
        ]
    }

    fn duckdb_variables(&self) -> Columns {
        let all = self.seen.variables();
        let told = |expression: &str| {
            let inner = expression.strip_prefix("CAST('").and_then(|rest| rest.strip_suffix(')'));
            let parts = inner.and_then(|inner| inner.rsplit_once("' AS "));
            parts.map(|(value, kind)| (value.replace("''", "'"), kind.to_owned()))
        };
        let values: Vec<_> = all.iter().map(|(_, expression)| told(expression)).collect();
        vec![
            ("name", texts(all.iter().map(|(name, _)| Some(name.as_str())))),
            ("value", texts(values.iter().map(|told| told.as_ref().map(|(value, _)| value.as_str())))),
            ("type", texts(values.iter().map(|told| told.as_ref().map_or(Some("\"NULL\""), |(_, kind)| Some(kind))))),
        ]
    }
}
