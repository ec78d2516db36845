"""The refresh functions of TPC-H between its 22 queries: orders come with their lines (RF1) and others go (RF2), some of them by plans and some key by
key, so that their rows are hot; after each of them all queries give the rows that they give in DuckDB."""

import datetime
import os
import re

import duckdb

from benchmarks import TABLES, compare_all, query_texts
from rows import Expected

# Of the orders of a load so many come and go each time: a thousandth.
SHARE = 1000
# TPC-H has orders with the keys 0 to 7 modulo 32.
FREE = 8
CHANGED = ("orders", "lineitem")


def literal(value):
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return f"DATE '{value}'" if isinstance(value, datetime.date) else str(value)


def row(values):
    return f"({', '.join(literal(value) for value in values)})"


def come(connection, number, by_key):
    """Statements that add the orders of a number of RF1 with their lines; DuckDB has them already."""
    which = f"(key // 32) % {SHARE} = {number} AND key % 32 < {FREE}"
    bulk = [
        f"INSERT INTO {table} SELECT {prefix}_orderkey + {FREE}, * EXCLUDE ({prefix}_orderkey) FROM {table} WHERE {which.replace('key', f'{prefix}_orderkey')}"
        for table, prefix in (("orders", "o"), ("lineitem", "l"))
    ]
    for sql in bulk:
        connection.execute(sql)
    if not by_key:
        return ["BEGIN", *bulk, "COMMIT"]
    added = which.replace("key % 32 <", f"(key - {FREE}) % 32 <").replace("(key // 32)", f"((key - {FREE}) // 32)") + f" AND key % 32 >= {FREE}"
    statements = []
    for order in connection.execute(f"SELECT * FROM orders WHERE {added.replace('key', 'o_orderkey')}").fetchall():
        lines = connection.execute(f"SELECT * FROM lineitem WHERE l_orderkey = {order[0]}").fetchall()
        statements += ["BEGIN", f"INSERT INTO orders VALUES {row(order)}", f"INSERT INTO lineitem VALUES {', '.join(map(row, lines))}", "COMMIT"]
    return statements


def go(connection, number, by_key):
    """Statements that take the orders of a number of RF2 with their lines."""
    which = f"(key // 32) % {SHARE} = {number}"
    bulk = [f"DELETE FROM {table} WHERE {which.replace('key', f'{prefix}_orderkey')}" for table, prefix in (("lineitem", "l"), ("orders", "o"))]
    keys = [key for (key,) in connection.execute(f"SELECT o_orderkey FROM orders WHERE {which.replace('key', 'o_orderkey')}").fetchall()]
    for sql in bulk:
        connection.execute(sql)
    if not by_key:
        return ["BEGIN", *bulk, "COMMIT"]
    one = ["BEGIN", "DELETE FROM lineitem WHERE l_orderkey = {}", "DELETE FROM orders WHERE o_orderkey = {}", "COMMIT"]
    return [sql.format(key) for key in keys for sql in one]


def run(options, report):
    """`options`: binary, directory, long."""
    scale, pairs = 0.1, 10 if options.long else 3
    report.suite(f"TPC-H refresh functions, {pairs} pairs at scale factor {scale}")
    directory = os.path.join(options.directory, "refresh")
    os.makedirs(directory)
    data, database = os.path.join(directory, "data"), os.path.join(directory, "db")
    outcome = options.binary.run("gen", "tpch", "--sf", scale, "--out", data, timeout=600)
    if outcome.status != 0:
        raise RuntimeError(f"forebay gen tpch: {outcome.stderr}")
    connection = duckdb.connect(config={"threads": 2})
    for table in TABLES["tpch"]:
        kind = "TABLE" if table in CHANGED else "VIEW"
        connection.execute(f"CREATE {kind} {table} AS SELECT * FROM '{data}/{table}.parquet'")
    schema = (options.query_directory / "tpch" / "schema.sql").read_text(encoding="utf-8")
    # Rows of tables with foreign keys that are enforced are not changed by key.
    schema = re.sub(r"(REFERENCES \w+ \([^)]*\))", r"\1 NOT ENFORCED", schema)
    options.binary.must(database, schema, *(f"COPY {table} FROM '{data}/{table}.parquet'" for table in TABLES["tpch"]))
    texts = query_texts(options.query_directory, "tpch", scale)
    for number in range(pairs):
        for name, change in (("RF1", come), ("RF2", go)):
            by_key = number % 3 != 0
            label = f"{name} {number} {'by key' if by_key else 'by plans'}"
            statements = change(connection, number if change is come else SHARE // 2 + number, by_key)
            report.check(f"{label} has rows", None if len(statements) > 3 else f"{statements}")
            answers = options.binary.answers(database, ["SET point_access = on", *statements], timeout=600)
            wrong = next((f"{sql}\n{answer.error}" for sql, answer in zip(statements, answers[1:]) if answer.error), None)
            report.check(label, wrong)
            expected = {name: Expected(connection.sql(text).to_arrow_table()) for name, text in texts.items()}
            compare_all(report, label, options.binary, database, texts, expected)
        if number % 3 == 1:
            options.binary.must(database, "CHECKPOINT")
            compare_all(report, f"CHECKPOINT {number}", options.binary, database, texts, expected)
    report.end()
