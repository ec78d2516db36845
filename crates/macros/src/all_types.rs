//! `test_all_types()`: a column of each type, with its least value, its greatest one and NULL, or others that are hard to get right.
//! DuckDB's table without the types that are not here.

/// The name, the type, and the values of the first two rows of a column, in SQL.
type Column = (&'static str, &'static str, &'static str, &'static str);

const COLUMNS: [Column; 41] = [
    ("bool", "BOOLEAN", "false", "true"),
    ("tinyint", "TINYINT", "-128", "127"),
    ("smallint", "SMALLINT", "-32768", "32767"),
    ("int", "INTEGER", "-2147483648", "2147483647"),
    ("bigint", "BIGINT", "'-9223372036854775808'", "9223372036854775807"),
    ("hugeint", "HUGEINT", "'-99999999999999999999999999999999999999'", "'99999999999999999999999999999999999999'"),
    ("utinyint", "UTINYINT", "0", "255"),
    ("usmallint", "USMALLINT", "0", "65535"),
    ("uint", "UINTEGER", "0", "4294967295"),
    ("ubigint", "UBIGINT", "0", "'18446744073709551615'"),
    ("date", "DATE", "'5877642-06-25 (BC)'", "'5881580-07-10'"),
    ("time", "TIME", "'00:00:00'", "'24:00:00'"),
    ("timestamp", "TIMESTAMP", "'290309-12-22 (BC) 00:00:00'", "'294247-01-10 04:00:54.775806'"),
    ("timestamp_s", "TIMESTAMP_S", "'290309-12-22 (BC) 00:00:00'", "'294247-01-10 04:00:54'"),
    ("timestamp_ms", "TIMESTAMP_MS", "'290309-12-22 (BC) 00:00:00'", "'294247-01-10 04:00:54.775'"),
    ("timestamp_ns", "TIMESTAMP_NS", "'1677-09-22 00:00:00'", "'2262-04-11 23:47:16.854775806'"),
    ("time_tz", "TIME WITH TIME ZONE", "'00:00:00+15:59:59'", "'24:00:00-15:59:59'"),
    (
        "timestamp_tz",
        "TIMESTAMP WITH TIME ZONE",
        "'290309-12-22 (BC) 00:00:00+00'",
        "'294247-01-10 04:00:54.775806+00'",
    ),
    ("float", "FLOAT", "'-3.4028235e+38'", "'3.4028235e+38'"),
    ("double", "DOUBLE", "'-1.7976931348623157e+308'", "'1.7976931348623157e+308'"),
    ("dec_4_1", "DECIMAL(4,1)", "-999.9", "999.9"),
    ("dec_9_4", "DECIMAL(9,4)", "-99999.9999", "99999.9999"),
    ("dec_18_6", "DECIMAL(18,6)", "-999999999999.999999", "999999999999.999999"),
    (
        "dec38_10",
        "DECIMAL(38,10)",
        "'-9999999999999999999999999999.9999999999'",
        "'9999999999999999999999999999.9999999999'",
    ),
    ("uuid", "UUID", "'00000000-0000-0000-0000-000000000000'", "'ffffffff-ffff-ffff-ffff-ffffffffffff'"),
    ("interval", "INTERVAL", "'0 seconds'", "'83 years 3 months 999 days 00:16:39.999999'"),
    ("varchar", "VARCHAR", "'🦆🦆🦆🦆🦆🦆'", "'goo' || chr(0) || 'se'"),
    ("blob", "BLOB", "'thisisalongblob\\x00withnullbytes'", "'\\x00\\x00\\x00a'"),
    ("bit", "BIT", "'0010001001011100010101011010111'", "'10101'"),
    ("small_enum", "ENUM('DUCK_DUCK_ENUM', 'GOOSE')", "'DUCK_DUCK_ENUM'", "'GOOSE'"),
    ("int_array", "INTEGER[]", "[]", "[42, 999, NULL, NULL, -42]"),
    ("double_array", "DOUBLE[]", "[]", "[42.0, 'nan'::DOUBLE, 'inf'::DOUBLE, '-inf'::DOUBLE, NULL, -42.0]"),
    ("date_array", "DATE[]", "[]", "['1970-01-01', 'infinity', '-infinity', NULL, '2022-05-12']"),
    (
        "timestamp_array",
        "TIMESTAMP[]",
        "[]",
        "['1970-01-01 00:00:00', 'infinity', '-infinity', NULL, '2022-05-12 16:23:45']",
    ),
    (
        "timestamptz_array",
        "TIMESTAMP WITH TIME ZONE[]",
        "[]",
        "['1970-01-01 00:00:00+00', 'infinity', '-infinity', NULL, '2022-05-12 23:23:45+00']",
    ),
    ("varchar_array", "VARCHAR[]", "[]", "['🦆🦆🦆🦆🦆🦆', 'goose', NULL, '']"),
    ("nested_int_array", "INTEGER[][]", "[]", "[[], [42, 999, NULL, NULL, -42], NULL, [], [42, 999, NULL, NULL, -42]]"),
    ("struct", "STRUCT(a INTEGER, b VARCHAR)", "{'a': NULL, 'b': NULL}", "{'a': 42, 'b': '🦆🦆🦆🦆🦆🦆'}"),
    (
        "struct_of_arrays",
        "STRUCT(a INTEGER[], b VARCHAR[])",
        "{'a': NULL, 'b': NULL}",
        "{'a': [42, 999, NULL, NULL, -42], 'b': ['🦆🦆🦆🦆🦆🦆', 'goose', NULL, '']}",
    ),
    (
        "array_of_structs",
        "STRUCT(a INTEGER, b VARCHAR)[]",
        "[]",
        "[{'a': NULL, 'b': NULL}, {'a': 42, 'b': '🦆🦆🦆🦆🦆🦆'}, NULL]",
    ),
    ("map", "MAP(VARCHAR, VARCHAR)", "map()", "map {'key1': '🦆🦆🦆🦆🦆🦆', 'key2': 'goose'}"),
];

/// The query that the call stands for.
pub(crate) fn query() -> String {
    let row = |value: fn(&Column) -> &'static str| {
        let columns = COLUMNS.iter().map(|column| {
            let (name, data_type, ..) = column;
            format!("CAST({} AS {data_type}) AS \"{name}\"", value(column))
        });
        format!("SELECT {}", columns.collect::<Vec<_>>().join(", "))
    };
    [row(|column| column.2), row(|column| column.3), row(|_| "NULL")].join(" UNION ALL ")
}
