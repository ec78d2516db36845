//! Tables that are queries of the `duckdb_` tables, by the names that DuckDB, SQLite and PostgreSQL have for them. What they tell of
//! oids is good for joins among them.

/// The query of a table of this name, in lower case; `None` where there is none.
pub(crate) fn query(name: &str) -> Option<&'static str> {
    VIEWS.iter().find(|(known, _)| *known == name).map(|(_, query)| *query)
}

/// SHOW ALL TABLES.
pub const ALL_TABLES: &str = "SELECT database_name AS database, schema_name AS schema, table_name AS name, \
    list(column_name ORDER BY column_index) AS column_names, list(data_type ORDER BY column_index) AS column_types, \
    schema_name = 'temp' AS temporary FROM duckdb_columns() GROUP BY ALL ORDER BY database, schema, name";

/// SHOW SCHEMAS.
pub const SCHEMAS: &str =
    "SELECT database_name, schema_name, schema_name = current_schema() AS current FROM duckdb_schemas() ORDER BY ALL";

/// SHOW TABLES, of the session's schema and its temporary ones.
pub const TABLES: &str = "SELECT table_name AS name FROM information_schema.tables \
    WHERE lower(table_schema) IN (lower(current_schema()), 'temp') ORDER BY name";

/// SHOW TABLES FROM schema.
pub fn tables_of(schema: &str) -> String {
    let schema = schema.replace('\'', "''");
    format!(
        "SELECT table_name AS name FROM information_schema.tables WHERE lower(table_schema) = lower('{schema}') ORDER BY name"
    )
}

/// Names of tables that are found in every schema: programs name them without one.
pub(crate) fn is_known(name: &str) -> bool {
    query(name).is_some()
}

const VIEWS: [(&str, &str); 28] = [
    ("sqlite_master", SQLITE_MASTER),
    ("sqlite_schema", SQLITE_MASTER),
    ("sqlite_temp_master", SQLITE_MASTER),
    ("sqlite_temp_schema", SQLITE_MASTER),
    ("pragma_database_list", "SELECT database_oid AS seq, database_name AS name, path AS file FROM duckdb_databases()"),
    (
        "views",
        "SELECT database_name AS table_catalog, schema_name AS table_schema, view_name AS table_name, sql AS view_definition, \
         'NONE' AS check_option, 'NO' AS is_updatable, 'NO' AS is_insertable_into, 'NO' AS is_trigger_updatable, \
         'NO' AS is_trigger_deletable, 'NO' AS is_trigger_insertable_into FROM duckdb_views()",
    ),
    (
        "table_constraints",
        "SELECT database_name AS constraint_catalog, schema_name AS constraint_schema, constraint_name, \
         database_name AS table_catalog, schema_name AS table_schema, table_name, \
         CASE constraint_type WHEN 'NOT NULL' THEN 'CHECK' ELSE constraint_type END AS constraint_type, \
         'NO' AS is_deferrable, 'NO' AS initially_deferred, \
         CASE WHEN constraint_text LIKE '% NOT ENFORCED' THEN 'NO' ELSE 'YES' END AS enforced, \
         'YES' AS nulls_distinct FROM duckdb_constraints()",
    ),
    (
        "key_column_usage",
        "SELECT database_name AS constraint_catalog, schema_name AS constraint_schema, constraint_name, \
         database_name AS table_catalog, schema_name AS table_schema, table_name, \
         unnest(constraint_column_names) AS column_name, \
         unnest(range(1, len(constraint_column_names) + 1)) AS ordinal_position, \
         CASE constraint_type WHEN 'FOREIGN KEY' THEN unnest(range(1, len(constraint_column_names) + 1)) END \
         AS position_in_unique_constraint \
         FROM duckdb_constraints() WHERE constraint_type IN ('FOREIGN KEY', 'PRIMARY KEY', 'UNIQUE')",
    ),
    (
        "constraint_column_usage",
        "SELECT database_name AS table_catalog, schema_name AS table_schema, table_name, \
         unnest(constraint_column_names) AS column_name, database_name AS constraint_catalog, \
         schema_name AS constraint_schema, constraint_name, constraint_type, constraint_text \
         FROM duckdb_constraints() WHERE constraint_type <> 'NOT NULL'",
    ),
    (
        "check_constraints",
        "SELECT database_name AS constraint_catalog, schema_name AS constraint_schema, constraint_name, \
         CASE constraint_type WHEN 'NOT NULL' THEN constraint_column_names[1] || ' IS NOT NULL' ELSE constraint_text END \
         AS check_clause FROM duckdb_constraints() WHERE constraint_type IN ('CHECK', 'NOT NULL')",
    ),
    (
        "character_sets",
        "SELECT NULL::VARCHAR AS character_set_catalog, NULL::VARCHAR AS character_set_schema, \
         'UTF8' AS character_set_name, 'UCS' AS character_repertoire, 'UTF8' AS form_of_use, \
         current_database() AS default_collate_catalog, 'pg_catalog' AS default_collate_schema, \
         'ucs_basic' AS default_collate_name",
    ),
    (
        "pg_tables",
        "SELECT schema_name AS schemaname, table_name AS tablename, 'duckdb' AS tableowner, NULL AS tablespace, \
         index_count > 0 AS hasindexes, false AS hasrules, false AS hastriggers FROM duckdb_tables()",
    ),
    (
        "pg_views",
        "SELECT schema_name AS schemaname, view_name AS viewname, 'duckdb' AS viewowner, sql AS definition \
         FROM duckdb_views()",
    ),
    (
        "pg_namespace",
        "SELECT oid, schema_name AS nspname, 0::INTEGER AS nspowner, NULL AS nspacl FROM duckdb_schemas()",
    ),
    (
        "pg_database",
        "SELECT database_oid AS oid, database_name AS datname, true AS datallowconn, false AS datistemplate \
         FROM duckdb_databases()",
    ),
    (
        "pg_class",
        "SELECT table_oid AS oid, table_name AS relname, schema_oid AS relnamespace, estimated_size::FLOAT AS reltuples, \
         index_count > 0 AS relhasindex, CASE WHEN temporary THEN 't' ELSE 'p' END AS relpersistence, 'r' AS relkind, \
         column_count AS relnatts, check_constraint_count AS relchecks, has_primary_key AS relhaspkey FROM duckdb_tables() \
         UNION ALL SELECT view_oid, view_name, schema_oid, 0::FLOAT, false, \
         CASE WHEN temporary THEN 't' ELSE 'p' END, 'v', column_count, 0, false FROM duckdb_views() \
         UNION ALL SELECT sequence_oid, sequence_name, schema_oid, 0::FLOAT, false, \
         CASE WHEN temporary THEN 't' ELSE 'p' END, 'S', 0, 0, false FROM duckdb_sequences() \
         UNION ALL SELECT index_oid, index_name, schema_oid, 0::FLOAT, false, 'p', 'i', 0, 0, false FROM duckdb_indexes()",
    ),
    (
        "pg_attribute",
        "SELECT table_oid AS attrelid, column_name AS attname, column_index AS attnum, data_type AS atttypname, \
         NOT is_nullable AS attnotnull, column_default IS NOT NULL AS atthasdef, '' AS attidentity, '' AS attgenerated, \
         false AS attisdropped, true AS attislocal FROM duckdb_columns()",
    ),
    (
        "pg_attrdef",
        "SELECT column_index AS oid, table_oid AS adrelid, column_index AS adnum, column_default AS adbin \
         FROM duckdb_columns() WHERE column_default IS NOT NULL",
    ),
    (
        "pg_type",
        "SELECT type_oid AS oid, type_name AS typname, schema_oid AS typnamespace, type_size AS typlen, 'b' AS typtype, \
         logical_type AS typlogical FROM duckdb_types()",
    ),
    (
        "pg_enum",
        "SELECT type_oid AS enumtypid, unnest(range(1, len(labels) + 1)) AS enumsortorder, unnest(labels) AS enumlabel \
         FROM duckdb_types() WHERE logical_type = 'ENUM'",
    ),
    (
        "pg_constraint",
        "SELECT table_oid * 1000000 + constraint_index AS oid, constraint_text AS conname, schema_oid AS connamespace, \
         CASE constraint_type WHEN 'CHECK' THEN 'c' WHEN 'UNIQUE' THEN 'u' WHEN 'PRIMARY KEY' THEN 'p' \
         WHEN 'FOREIGN KEY' THEN 'f' ELSE 'x' END AS contype, false AS condeferrable, false AS condeferred, \
         true AS convalidated, table_oid AS conrelid, constraint_column_indexes AS conkey, expression AS conbin \
         FROM duckdb_constraints()",
    ),
    (
        "pg_index",
        "SELECT index_oid AS indexrelid, table_oid AS indrelid, is_unique AS indisunique, is_primary AS indisprimary, \
         expressions AS indexprs FROM duckdb_indexes()",
    ),
    (
        "pg_indexes",
        "SELECT schema_name AS schemaname, table_name AS tablename, index_name AS indexname, NULL AS tablespace, \
         sql AS indexdef FROM duckdb_indexes()",
    ),
    (
        "pg_sequences",
        "SELECT schema_name AS schemaname, sequence_name AS sequencename, 'duckdb' AS sequenceowner, start_value, min_value, \
         max_value, increment_by, cycle, last_value FROM duckdb_sequences()",
    ),
    (
        "pg_settings",
        "SELECT name, value AS setting, description AS short_desc, input_type AS vartype FROM duckdb_settings()",
    ),
    (
        "pg_description",
        "SELECT NULL::BIGINT AS objoid, NULL::INTEGER AS objsubid, NULL::VARCHAR AS description LIMIT 0",
    ),
    (
        "pg_tablespace",
        "SELECT 0::INTEGER AS oid, 'pg_default' AS spcname, 0::INTEGER AS spcowner, NULL AS spcacl, NULL AS spcoptions",
    ),
    (
        "pg_proc",
        "SELECT function_oid AS oid, function_name AS proname, \
         CASE function_type WHEN 'aggregate' THEN 'a' WHEN 'window' THEN 'w' ELSE 'f' END AS prokind FROM duckdb_functions()",
    ),
];

const SQLITE_MASTER: &str = "SELECT 'table' AS type, table_name AS name, table_name AS tbl_name, 0::INTEGER AS rootpage, sql \
    FROM duckdb_tables() UNION ALL SELECT 'view', view_name, view_name, 0::INTEGER, sql FROM duckdb_views() \
    UNION ALL SELECT 'index', index_name, table_name, 0::INTEGER, sql FROM duckdb_indexes()";
