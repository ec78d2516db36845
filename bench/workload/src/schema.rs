//! `CREATE TABLE` texts of the benchmarks, with the constraints their specifications give.

use std::borrow::Cow;

use crate::benchmark::Benchmark;
use crate::ssb;

/// A table and the statement that makes it.
#[derive(Debug, Clone)]
pub struct TableDefinition {
    /// Table name.
    pub name: &'static str,
    /// One `CREATE TABLE` statement without a final semicolon.
    pub create: Cow<'static, str>,
}

const SSB_TABLES: [&str; 5] = ["date", "customer", "supplier", "part", "lineorder"];

const TPCH_TABLES: [&str; 8] = ["region", "nation", "supplier", "customer", "part", "partsupp", "orders", "lineitem"];

const WIDE_TABLES: [&str; 1] = ["hits"];

const TAXI_TABLES: [&str; 1] = ["trips"];

/// Suppliers of TPC-H at scale factor 1.
const SUPPLIERS: f64 = 10_000.0;

/// Of fewer suppliers dbgen gives some parts one twice, since it computes them modulo their number (TPC-H, clause 4.2.3): then they are
/// no key.
const FEWEST_SUPPLIERS: f64 = 229.0;

/// The key of the table of parts and their suppliers, as its statement has it.
const PARTSUPP_KEY: &str = "    PRIMARY KEY (ps_partkey, ps_suppkey),\n";

/// Names of the tables, referenced ones before those that refer to them.
pub fn table_names(benchmark: Benchmark) -> &'static [&'static str] {
    match benchmark {
        Benchmark::Ssb => &SSB_TABLES,
        Benchmark::Tpch => &TPCH_TABLES,
        Benchmark::Wide => &WIDE_TABLES,
        Benchmark::Taxi => &TAXI_TABLES,
    }
}

/// The table with the most rows.
pub(crate) fn fact_table(benchmark: Benchmark) -> &'static str {
    match benchmark {
        Benchmark::Ssb => "lineorder",
        Benchmark::Tpch => "lineitem",
        Benchmark::Wide => "hits",
        Benchmark::Taxi => "trips",
    }
}

/// The tables in the order of [`table_names`]. Keys of SSB are INTEGER where they fit at this scale factor.
pub fn tables(benchmark: Benchmark, scale_factor: f64) -> Vec<TableDefinition> {
    let texts = match benchmark {
        Benchmark::Ssb => include_str!("../queries/ssb/schema.sql"),
        Benchmark::Tpch => include_str!("../queries/tpch/schema.sql"),
        Benchmark::Wide => include_str!("../queries/wide/schema.sql"),
        Benchmark::Taxi => include_str!("../queries/taxi/schema.sql"),
    };
    let names = table_names(benchmark);
    let mut definitions: Vec<_> = names
        .iter()
        .zip(texts.split(';'))
        .map(|(name, text)| TableDefinition { name, create: Cow::Borrowed(text.trim()) })
        .collect();
    if benchmark == Benchmark::Ssb {
        let wide_columns = [
            ("lo_orderkey", ssb::wide_order_keys(scale_factor)),
            ("lo_custkey", ssb::wide_customer_keys(scale_factor)),
            ("c_custkey", ssb::wide_customer_keys(scale_factor)),
        ];
        for (column, _) in wide_columns.iter().filter(|(_, wide)| *wide) {
            for definition in &mut definitions {
                let widened = definition.create.replace(&format!("{column} INTEGER"), &format!("{column} BIGINT"));
                definition.create = Cow::Owned(widened);
            }
        }
    }
    if benchmark == Benchmark::Tpch && scale_factor * SUPPLIERS < FEWEST_SUPPLIERS {
        for definition in &mut definitions {
            definition.create = Cow::Owned(definition.create.replace(PARTSUPP_KEY, ""));
        }
    }
    definitions
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::sources;
    use arrow::datatypes::DataType;

    fn sql_type(data_type: &DataType) -> String {
        match data_type {
            DataType::Boolean => "BOOLEAN".into(),
            DataType::Int16 => "SMALLINT".into(),
            DataType::Float64 => "DOUBLE".into(),
            DataType::Timestamp(..) => "TIMESTAMP".into(),
            DataType::Int32 => "INTEGER".into(),
            DataType::Int64 => "BIGINT".into(),
            DataType::Date32 => "DATE".into(),
            DataType::Decimal128(precision, scale) => format!("DECIMAL({precision},{scale})"),
            _ => "VARCHAR".into(),
        }
    }

    #[test]
    fn suppliers_of_parts_are_a_key_where_there_are_enough() {
        let has_key = |scale_factor: f64| {
            let definitions = tables(Benchmark::Tpch, scale_factor);
            let of_parts = definitions.iter().find(|table| table.name == "partsupp").expect("a table");
            of_parts.create.contains("PRIMARY KEY")
        };
        assert!(has_key(1.0) && has_key(0.1) && !has_key(0.01) && !has_key(0.001));
    }

    /// The statements declare the generated columns, in order, with their types.
    #[test]
    fn statements_match_generated_columns() {
        for (benchmark, scale_factor) in [
            (Benchmark::Ssb, 1.0),
            (Benchmark::Ssb, 301.0),
            (Benchmark::Ssb, 100_000.0),
            (Benchmark::Tpch, 1.0),
            (Benchmark::Wide, 1.0),
            (Benchmark::Taxi, 1.0),
        ] {
            let definitions = tables(benchmark, scale_factor);
            let sources = sources(benchmark, scale_factor, 0).expect("a fine scale factor");
            assert_eq!(definitions.len(), sources.len());
            for (definition, source) in definitions.iter().zip(&sources) {
                assert_eq!(definition.name, source.name());
                let columns = source
                    .schema()
                    .fields()
                    .iter()
                    .map(|field| {
                        let not_null = if field.is_nullable() { "" } else { " NOT NULL" };
                        format!("    {} {}{not_null}", field.name(), sql_type(field.data_type()))
                    })
                    .collect::<Vec<_>>();
                let expected = format!("CREATE TABLE {} (\n{}", definition.name, columns.join(",\n"));
                assert!(
                    definition.create.starts_with(&expected),
                    "{}\nshould start with\n{expected}",
                    definition.create
                );
            }
        }
    }
}
