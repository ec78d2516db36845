"""The 22 queries of the CH-benCHmark over what transactions of TPC-C have left: Forebay gives the rows that DuckDB gives on the same tables, which
COPY has written as Parquet files; first while rows are hot, then when all are frozen."""

import os

import duckdb

from benchmarks import LITTLE_MEMORY, compare_all, query_texts
from rows import Expected

TABLES = [
    "warehouse", "district", "customer", "history", "item", "stock", "orders", "new_order", "order_line", "region", "nation", "supplier",
]
QUERIES = 22
# Hot rows are shown as segments that no file has.
HOT = "SELECT count(DISTINCT table_name) FROM forebay.segments WHERE segment_id >= 549755813888"


def run(options, report):
    """`options`: binary, directory, query_directory, long."""
    seconds = 20 if options.long else 3
    report.suite(f"CH-benCHmark after {seconds} s of transactions")
    directory = os.path.join(options.directory, "chbench")
    os.makedirs(directory)
    database = os.path.join(directory, "db")
    texts = query_texts(options.query_directory, "chbench", 1)
    report.check("all queries are there", None if len(texts) == QUERIES else str(list(texts)))
    # The first program ends with frozen rows, the second one with hot ones.
    for benchmark, more in (("chbench", ["--query", "q1", "--query", "q22", "--runs", "1"]), ("tpcc", [])):
        outcome = options.binary.run("bench", benchmark, "--db", database, "--clients", "2", "--seconds", seconds, *more, timeout=600)
        wanted = "The twelve consistency conditions hold."
        report.check(f"bench {benchmark}", None if outcome.status == 0 and wanted in outcome.stdout.decode() else outcome.stderr)
    hot = int(options.binary.rows(database, HOT)[0][0])
    report.check("rows of several tables are hot", None if hot >= 5 else f"those of {hot} tables")
    connection = duckdb.connect(config={"threads": 2})
    for table in TABLES:
        file = os.path.join(directory, f"{table}.parquet")
        options.binary.must(database, f"COPY {table} TO '{file}' (FORMAT parquet)")
        connection.execute(f"CREATE TABLE {table} AS SELECT * FROM '{file}'")
        wanted = connection.execute(f"SELECT count(*) FROM {table}").fetchall()[0][0]
        got = int(options.binary.rows(database, f"SELECT count(*) FROM {table}")[0][0])
        report.check(f"rows of {table}", None if got == wanted else f"expected {wanted}, got {got}")
    expected = {name: Expected(connection.sql(text).to_arrow_table()) for name, text in texts.items()}
    empty = [name for name, rows in expected.items() if not rows.rows]
    report.check("the oracle has rows", f"no rows for {empty}" if empty else None)
    compare_all(report, "hot", options.binary, database, texts, expected)
    if options.long:
        compare_all(report, "hot, emulated device", options.binary, database, texts, expected, ["SET device = emulated"])
    compare_all(report, f"hot, {LITTLE_MEMORY} of memory", options.binary, database, texts, expected, [f"SET memory_limit = '{LITTLE_MEMORY}'"])
    options.binary.must(database, "CHECKPOINT")
    compare_all(report, "frozen", options.binary, database, texts, expected)
    report.end()
