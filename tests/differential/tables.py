"""Tables of every type, made by DuckDB from a seed and written as Parquet: NULLs, skew, constants, sorted columns,
special floats, far dates, empty and long strings; from no row to more than three blocks of 65,536 rows."""

import os
from dataclasses import dataclass, field

import pyarrow as pa

from columns import Column, h
from literals import literal

# name: (rows, share of NULLs in %, how Forebay loads it)
TABLES = {
    "e": (0, 10, "copy"),
    "o": (1, 0, "ctas"),
    "m": (1_000, 20, "copy"),
    "q": (20_000, 5, "ctas"),
    "y": (70_000, 0, "parts"),
    "z": (200_000, 10, "ctas"),
    "d": (200, 10, "parts"),
}


COLUMNS = [
    Column("k", "BIGINT", "int", "i", not_null=True),
    Column("g", "INTEGER", "int", f"CASE WHEN {h(1)} % 10 < 6 THEN 1 ELSE {h(2)} % 50 END", summable=True, few=True),
    Column("b", "BOOLEAN", "bool", f"{h(3)} % 3 = 0", few=True),
    Column("i8", "TINYINT", "int", f"({h(4)} % 256)::INTEGER - 128", summable=True, few=True),
    Column("i16", "SMALLINT", "int", f"({h(5)} % 65536)::INTEGER - 32768", summable=True),
    Column("i32", "INTEGER", "int", f"({h(6)} % 2000000)::INTEGER - 1000000", summable=True),
    Column("i64", "BIGINT", "int", f"({h(7)} % 2000000000000)::BIGINT - 1000000000000", summable=True),
    Column(
        "x64",
        "BIGINT",
        "int",
        f"CASE {h(8)} % 9 WHEN 0 THEN 9223372036854775807 WHEN 1 THEN -9223372036854775808 WHEN 2 THEN 0"
        f" ELSE ({h(9)} % 1000)::BIGINT - 500 END",
    ),
    Column("u8", "UTINYINT", "int", f"{h(10)} % 256", summable=True, few=True),
    Column("u16", "USMALLINT", "int", f"{h(11)} % 65536", summable=True),
    Column("u32", "UINTEGER", "int", f"{h(12)} % 4294967296", summable=True),
    Column("u64", "UBIGINT", "int", f"CASE WHEN {h(13)} % 5 = 0 THEN 18446744073709551615 ELSE {h(14)} % 9999 END"),
    Column("f32", "FLOAT", "float", f"({h(15)} % 20000)::INTEGER / 8.0 + 1", summable=True),
    Column("f64", "DOUBLE", "float", f"({h(16)} % 1000000)::INTEGER / 997.0 + 1", summable=True),
    Column(
        "fx",
        "DOUBLE",
        "float",
        f"CASE {h(17)} % 12 WHEN 0 THEN 'NaN'::DOUBLE WHEN 1 THEN 'inf'::DOUBLE WHEN 2 THEN '-inf'::DOUBLE"
        f" WHEN 3 THEN '-0.0'::DOUBLE WHEN 4 THEN 0.0 WHEN 5 THEN 1e300 WHEN 6 THEN -1e-300"
        f" ELSE ({h(18)} % 100)::INTEGER / 4.0 - 10 END",
        few=True,
    ),
    Column(
        "gx",
        "FLOAT",
        "float",
        f"CASE {h(19)} % 9 WHEN 0 THEN 'NaN'::FLOAT WHEN 1 THEN 'inf'::FLOAT WHEN 2 THEN '-0.0'::FLOAT"
        f" WHEN 3 THEN 3e38 ELSE ({h(20)} % 100)::INTEGER / 4.0 - 10 END",
    ),
    Column("d9", "DECIMAL(9,2)", "decimal", f"(({h(21)} % 1000000)::INTEGER - 500000) / 100.0", summable=True),
    Column("d18", "DECIMAL(18,4)", "decimal", f"(({h(22)} % 2000000000000)::BIGINT - 1000000000000)::DECIMAL(18,0) * 0.0001::DECIMAL(5,4)", summable=True),
    Column(
        "d38",
        "DECIMAL(38,10)",
        "decimal",
        f"CASE WHEN {h(23)} % 4 = 0 THEN '12345678901234567890.0123456789'::DECIMAL(38,10) ELSE"
        f" (({h(24)} % 2000000)::INTEGER - 1000000)::DECIMAL(38,10) END",
        summable=True,
    ),
    Column("dt", "DATE", "date", f"DATE '1992-01-01' + ({h(25)} % 2557)::INTEGER"),
    Column(
        "dx",
        "DATE",
        "date",
        f"CASE {h(26)} % 6 WHEN 0 THEN DATE '0001-01-01' WHEN 1 THEN DATE '9999-12-31' WHEN 2 THEN DATE '1969-12-31'"
        f" ELSE DATE '1970-01-01' + ({h(27)} % 20)::INTEGER END",
        few=True,
    ),
    Column("tm", "TIME", "time", f"TIME '00:00:00' + to_microseconds(({h(28)} % 86400000000)::BIGINT)"),
    Column("ts", "TIMESTAMP", "timestamp", f"TIMESTAMP '1969-06-01 00:00:00' + to_microseconds(({h(29)} % 1600000000000000)::BIGINT)"),
    Column(
        "tx",
        "TIMESTAMP",
        "timestamp",
        f"CASE {h(30)} % 5 WHEN 0 THEN TIMESTAMP '0001-01-01 00:00:00' WHEN 1 THEN TIMESTAMP '9999-12-31 23:59:59.999999'"
        f" ELSE TIMESTAMP '2000-01-01 00:00:00' + to_seconds({h(31)} % 1000) END",
    ),
    Column("tz", "TIMESTAMPTZ", "timestamptz", f"TIMESTAMPTZ '1970-01-01 00:00:00+00' + to_seconds({h(32)} % 1500000000)"),
    Column("s", "VARCHAR", "text", f"['red', 'green', 'blue', 'dark green', 'Blue', ''][1 + ({h(33)} % 6)::INTEGER]", few=True),
    Column(
        "v",
        "VARCHAR",
        "text",
        f"CASE {h(34)} % 20 WHEN 0 THEN '' WHEN 1 THEN 'žluťoučký kůň ' || {h(35)} % 9 WHEN 2 THEN '日本' || {h(35)} % 5"
        f" WHEN 3 THEN '🦆' WHEN 4 THEN repeat('ab', 300 + ({h(35)} % 40)::INTEGER) WHEN 5 THEN 'it''s 100%_sure'"
        f" ELSE 'name ' || {h(35)} % 3000 END",
    ),
    Column("w", "VARCHAR", "text", f"md5(({h(36)})::VARCHAR)"),
    Column(
        "bl",
        "BLOB",
        "blob",
        f"CASE {h(37)} % 6 WHEN 0 THEN ''::BLOB WHEN 1 THEN '\\x00\\xFF'::BLOB WHEN 2 THEN '\\x00'::BLOB"
        f" ELSE from_hex(substr(md5(({h(38)} % 700)::VARCHAR), 1, 12)) END",
    ),
    Column("c1", "INTEGER", "int", "42", summable=True, few=True),
    Column("cs", "VARCHAR", "text", "'constant'", few=True),
    Column("cn", "INTEGER", "int", "NULL::INTEGER", few=True),
    Column("so", "INTEGER", "int", "i // 100 - 50", summable=True, not_null=True),
    Column("sd", "DATE", "date", "DATE '1992-01-01' + (i // 80)::INTEGER", not_null=True),
    Column("ss", "VARCHAR", "text", "'v' || lpad((i // 1000)::VARCHAR, 4, '0')", few=True, not_null=True),
]


@dataclass
class Table:
    """One test table: its Parquet file, and values found in it (as SQL literals) per column."""

    name: str
    rows: int
    path: str
    load: str
    samples: dict = field(default_factory=dict)


def create_table_sql(name, columns=COLUMNS):
    """CREATE TABLE of a test table, for both engines."""
    columns = (f"{c.name} {c.type}{' NOT NULL' if c.not_null else ''}" for c in columns)
    return f"CREATE TABLE {name} ({', '.join(columns)})"


def make_table(connection, directory, name, seed):
    """Makes table `name` in DuckDB and its Parquet file."""
    rows, nulls, load = TABLES[name]
    parts = []
    for position, column in enumerate(COLUMNS):
        expression = f"CAST({column.expression.format(seed=seed)} AS {column.type})"
        if nulls and not column.not_null:
            expression = f"CASE WHEN hash(i, {seed * 100 + 50 + position}) % 100 < {nulls} THEN NULL ELSE {expression} END"
        parts.append(f"{expression} AS {column.name}")
    connection.execute(create_table_sql(name))
    connection.execute(f"INSERT INTO {name} SELECT {', '.join(parts)} FROM range({rows}) AS numbers(i)")
    path = os.path.join(directory, f"{name}.parquet")
    connection.execute(f"COPY (SELECT * FROM {name}) TO '{path}' (FORMAT parquet)")
    table = Table(name, rows, path, load)
    for column in COLUMNS:
        table.samples[column.name] = samples(connection, name, column)
    return table


def samples(connection, name, column):
    """Up to 12 values of the column as literals: the least, the greatest and some between."""
    values = connection.sql(
        f"SELECT {column.name} AS value FROM ((SELECT {column.name} FROM {name} WHERE {column.name} IS NOT NULL"
        f" ORDER BY hash({column.name}) LIMIT 10) UNION ALL (SELECT min({column.name}) FROM {name})"
        f" UNION ALL (SELECT max({column.name}) FROM {name})) ORDER BY 1 NULLS LAST"
    ).to_arrow_table()
    value_column = values.column("value")
    if pa.types.is_timestamp(value_column.type):
        value_column = value_column.cast(pa.int64())
    return [literal(column, value) for value in value_column.to_pylist() if value is not None]
