"""Tables to be joined, made by DuckDB from a seed: keys that are unique, skewed, spread over 64 bits, long strings or NULL;
numbers at the edge of overflow; blocks of one column that are encoded differently; from no row to several row groups."""

import os
from dataclasses import dataclass, field

from columns import Column, h
from tables import create_table_sql

ROWS_OF_A_PART = 20_000


@dataclass(frozen=True)
class Shape:
    """How a table is filled: `unique` keys rather than skewed ones, the share of NULLs in %, how Forebay loads it."""

    rows: int
    unique: bool = False
    nulls: int = 0
    load: str = "ctas"


TABLES = {
    "none": Shape(0, load="copy"),
    "one": Shape(1),
    "void": Shape(1, nulls=100),
    "few": Shape(12, nulls=20),
    "dim": Shape(150, unique=True, nulls=5),
    "big": Shape(2_500, unique=True, load="parts"),
    "dup": Shape(6_000, nulls=15, load="parts"),
    "mid": Shape(40_000, nulls=3),
    "fact": Shape(150_000, nulls=8, load="parts"),
    "huge": Shape(600_000, nulls=1),
}


COLUMNS = [
    Column("i", "BIGINT", "int", "i", ("0", "1", "11", "149", "39999", "-1"), exact=True, not_null=True),
    Column(
        "k", "INTEGER", "int", f"CASE WHEN {{unique}} THEN i WHEN {h(1)} % 10 < 3 THEN 7 ELSE {h(2)} % 150 END",
        ("7", "0", "3", "100", "149", "2147483647"), exact=True
    ),
    Column("l", "BIGINT", "int", f"CASE WHEN {{unique}} THEN i * 3 ELSE ({h(3)} % 2500)::BIGINT * 3 END", ("0", "21", "3000", "7497", "5"), exact=True),
    Column(
        "w",
        "BIGINT",
        "wide",
        f"CASE {h(4)} % 13 WHEN 0 THEN 9223372036854775807 WHEN 1 THEN -9223372036854775808"
        f" ELSE ({h(4)} % 200)::BIGINT * 36028797018963 - 4000000000000000 END",
        ("0", "9223372036854775807", "-9223372036854775808", "-4000000000000000"),
    ),
    Column("u", "UTINYINT", "int", f"{h(5)} % 256", ("0", "255", "7", "300", "-1"), exact=True),
    Column("q", "INTEGER", "wide", f"CASE {h(6)} % 7 WHEN 0 THEN 2147483647 WHEN 1 THEN -2147483648 ELSE ({h(7)} % 2000)::INTEGER - 1000 END",
        ("0", "2147483647", "-500")),
    Column("o", "BIGINT", "wide", f"CASE {h(8)} % 4 WHEN 0 THEN 4611686018427387904 WHEN 1 THEN -4611686018427387904 ELSE ({h(9)} % 1000)::BIGINT END",
        ("0", "999", "4611686018427387904")),
    Column(
        "v",
        "INTEGER",
        "int",
        f"CASE (i // 20000) % 5 WHEN 0 THEN 5 WHEN 1 THEN i % 100 WHEN 2 THEN NULL"
        f" WHEN 3 THEN ({h(10)} % 2000000000)::BIGINT ELSE CASE WHEN {h(11)} % 50 = 0 THEN {h(12)} % 1000000 ELSE 5 END END",
        ("5", "77", "1000000000"),
        exact=True,
    ),
    Column("c", "INTEGER", "int", "42", ("42", "41"), exact=True),
    Column("z", "INTEGER", "int", "NULL", ("0",), exact=True),
    Column("s", "VARCHAR", "text", f"CASE {h(13)} % 20 WHEN 0 THEN '' WHEN 1 THEN 'key 7' ELSE 'key ' || ({h(14)} % 60) END", ("''", "'key 7'", "'key 30'", "'zzz'")),
    Column("t", "VARCHAR", "text", f"repeat('long common prefix ', 3) || ({h(15)} % 300)",
        ("'long common prefix long common prefix long common prefix 77'", "'long'")),
    Column(
        "y",
        "VARCHAR",
        "text",
        f"CASE (i // 20000) % 4 WHEN 0 THEN 'key 7' WHEN 1 THEN ['red', 'green', 'blue'][1 + ({h(16)} % 3)::INTEGER] "
        f" WHEN 2 THEN md5(({h(17)})::VARCHAR) ELSE NULL END",
        ("'red'", "'key 7'", "'f'"),
    ),
    Column("d", "DECIMAL(9,2)", "decimal", f"({h(18)} % 400)::INTEGER * 0.25 - 20", ("0", "0.25", "-20", "79.75", "12.345"), exact=True),
    Column("e", "DECIMAL(18,4)", "decimal", f"({h(19)} % 800)::INTEGER * 0.125 - 20", ("0", "0.125", "7.25"), exact=True),
    Column("x", "DECIMAL(38,2)", "huge", f"(1 + {h(20)} % 9)::DECIMAL(38,2) * 1e33::DECIMAL(36,0)", ("0", "3000000000000000000000000000000000")),
    Column("m", "DATE", "date", f"DATE '1996-01-01' + CASE WHEN {{unique}} THEN (i % 400)::INTEGER ELSE ({h(21)} % 400)::INTEGER END",
        ("DATE '1996-02-29'", "DATE '1996-12-31'", "DATE '2024-01-01'")),
    Column("n", "TIMESTAMP", "timestamp", f"TIMESTAMP '1996-01-01 00:00:00' + to_hours(({h(22)} % 4800)::INTEGER)",
        ("TIMESTAMP '1996-02-29 12:00:00'", "TIMESTAMP '1996-05-05 00:00:00'")),
    Column("r", "DOUBLE", "float", f"({h(23)} % 4000)::INTEGER / 8.0 + 1", ("1", "250.125", "0"), exact=True),
    Column(
        "f",
        "DOUBLE",
        "float",
        f"CASE {h(24)} % 10 WHEN 0 THEN 'NaN'::DOUBLE WHEN 1 THEN '-0.0'::DOUBLE WHEN 2 THEN 0.0"
        f" WHEN 3 THEN 'inf'::DOUBLE ELSE ({h(25)} % 90)::INTEGER / 4.0 END",
        ("0", "1.25", "CAST('NaN' AS DOUBLE)", "CAST('Infinity' AS DOUBLE)"),
    ),
    Column("b", "BOOLEAN", "bool", f"{h(26)} % 3 = 0", ("true", "false")),
]
BY_NAME = {column.name: column for column in COLUMNS}


@dataclass
class Table:
    """One test table and its Parquet file; `sizes` keeps how many pairs of rows joins on its columns give."""

    name: str
    shape: Shape
    path: str
    sizes: dict = field(default_factory=dict)


def make_table(connection, directory, name, seed):
    """Makes table `name` in DuckDB and its Parquet file."""
    shape = TABLES[name]
    parts = []
    for position, column in enumerate(COLUMNS):
        expression = f"CAST({column.expression.format(seed=seed, unique='true' if shape.unique else 'false')} AS {column.type})"
        if shape.nulls and not column.not_null:
            expression = f"CASE WHEN hash(i, {seed * 100 + 50 + position}) % 100 < {shape.nulls} THEN NULL ELSE {expression} END"
        parts.append(f"{expression} AS {column.name}")
    connection.execute(create_table_sql(name, COLUMNS))
    connection.execute(f"INSERT INTO {name} SELECT {', '.join(parts)} FROM range({shape.rows}) AS numbers(i)")
    path = os.path.join(directory, f"{name}.parquet")
    connection.execute(f"COPY {name} TO '{path}' (FORMAT parquet)")
    return Table(name, shape, path)


def load_sql(table):
    """Statements that load a test table into Forebay: as one segment, or as several, some merged by CHECKPOINT."""
    if table.shape.load == "ctas":
        return [f"CREATE TABLE {table.name} AS SELECT * FROM '{table.path}'"]
    if table.shape.load == "copy":
        return [create_table_sql(table.name, COLUMNS), f"COPY {table.name} FROM '{table.path}'"]
    rows = table.shape.rows
    bounds = [0, rows // 100, rows // 60, rows // 3, rows // 3 + ROWS_OF_A_PART, rows]
    parts = [f"INSERT INTO {table.name} SELECT * FROM '{table.path}' WHERE i >= {low} AND i < {high}" for low, high in zip(bounds, bounds[1:])]
    return [create_table_sql(table.name, COLUMNS), *parts[:2], "CHECKPOINT", *parts[2:]]


def joined_rows(connection, left, left_column, right, right_column):
    """The number of pairs of rows with equal values in two columns of two tables."""
    key = (left_column, right.name, right_column)
    if key not in left.sizes:
        count = lambda table, column: f"SELECT {column} AS value, count(*) AS rows FROM {table.name} WHERE {column} IS NOT NULL GROUP BY 1"
        [[pairs]] = connection.execute(
            f"SELECT coalesce(sum(a.rows * b.rows), 0) FROM ({count(left, left_column)}) a JOIN ({count(right, right_column)}) b ON a.value = b.value"
        ).fetchall()
        left.sizes[key] = int(pairs)
    return left.sizes[key]
