"""The 13 queries of the Star Schema Benchmark, the 22 of TPC-H, the 20 of the wide table and the 6 of taxi trips: Forebay gives the rows that DuckDB gives on the same
Parquet files, loaded by COPY into declared tables and by CREATE TABLE AS, and with little memory."""

import os
import re

import duckdb

from binary import Answer
from rows import Expected, difference

TABLES = {
    "ssb": ["date", "customer", "supplier", "part", "lineorder"],
    "tpch": ["region", "nation", "supplier", "customer", "part", "partsupp", "orders", "lineitem"],
    "wide": ["hits"],
    "taxi": ["trips"],
}
QUERIES = {"ssb": 13, "tpch": 22, "wide": 20, "taxi": 6}
Q11_FRACTION = "0.0001"
# Queries with pipelines that a device must run; all of them where the list is empty.
ON_DEVICE = {"ssb": [], "tpch": ["q1", "q6"]}
# Less than most joins and groups take at the smallest scale, so that they go to disk.
LITTLE_MEMORY = "1MB"


def query_texts(directory, benchmark, scale):
    """Names and texts of the queries; TPC-H q11 depends on the scale factor."""
    found = {}
    for path in (directory / benchmark).glob("q*.sql"):
        text = path.read_text(encoding="utf-8").strip().rstrip(";")
        if benchmark == "tpch" and path.stem == "q11":
            text = text.replace(Q11_FRACTION, f"{0.0001 / scale:.12f}".rstrip("0"))
        found[path.stem] = text
    return dict(sorted(found.items(), key=lambda item: [int(part) for part in re.findall(r"\d+", item[0])]))


def order_columns(text, names):
    """Positions of the output columns that the query's last ORDER BY names."""
    found = re.search(r"order\s+by\s+((?:(?!order\s+by).)*?)(?:\s+limit\s+\d+(?:\s+offset\s+\d+)?)?\s*$", text, re.IGNORECASE | re.DOTALL)
    if not found:
        return []
    keys = [re.sub(r"(?i)\s+(asc|desc)$", "", key.strip()) for key in found[1].split(",")]
    return [names.index(key) for key in keys if key in names]


def unordered_difference(text, expected, answer):
    """Rows in any order, then the columns of ORDER BY in DuckDB's order: rows that tie may come in any order."""
    different = difference(expected, answer, ordered=False, averages=True)
    if different:
        return different
    positions = order_columns(text, expected.names)
    got = expected.read(answer.rows)
    for index, (wanted, found) in enumerate(zip(expected.rows, got), 1):
        for position in positions:
            a, b = wanted[position], found[position]
            if a != b and not (isinstance(a, float) and abs(a - b) <= 1e-6 * abs(a)):
                return f"row {index} is out of order: column {expected.names[position]} is {b}, expected {a}"
    return None


def compare_all(report, label, binary, database, texts, expected, setup=()):
    try:
        answers = binary.answers(database, list(texts.values()), timeout=600, setup=setup)
    except RuntimeError as error:
        answers = [Answer(error=str(error))] * len(texts)
    for (name, text), answer in zip(texts.items(), answers):
        different = unordered_difference(text, expected[name], answer)
        report.check(f"{label} {name}", different and f"{text}\n{different}")


def run_benchmark(options, report, benchmark, scale):
    report.suite(f"{benchmark} at scale factor {scale}")
    directory = os.path.join(options.directory, f"{benchmark}-{scale}")
    os.makedirs(directory)
    data = os.path.join(directory, "data")
    outcome = options.binary.run("gen", benchmark, "--sf", scale, "--out", data, timeout=600)
    if outcome.status != 0:
        raise RuntimeError(f"forebay gen {benchmark}: {outcome.stderr}")
    connection = duckdb.connect(config={"threads": 2})
    for table in TABLES[benchmark]:
        connection.execute(f"CREATE VIEW {table} AS SELECT * FROM '{data}/{table}.parquet'")
    texts = query_texts(options.query_directory, benchmark, scale)
    report.check("all queries are there", None if len(texts) == QUERIES[benchmark] else str(list(texts)))
    expected = {name: Expected(connection.sql(text).to_arrow_table()) for name, text in texts.items()}
    empty = [name for name, rows in expected.items() if not rows.rows]
    report.check("the oracle has rows", None if len(empty) <= len(texts) // 3 else f"no rows for {empty}")
    schema = (options.query_directory / benchmark / "schema.sql").read_text(encoding="utf-8")
    declared, inferred = os.path.join(directory, "declared"), os.path.join(directory, "inferred")
    options.binary.must(declared, schema, *(f"COPY {table} FROM '{data}/{table}.parquet'" for table in TABLES[benchmark]))
    options.binary.must(
        inferred, *(f"CREATE TABLE {table} AS SELECT * FROM '{data}/{table}.parquet'" for table in TABLES[benchmark])
    )
    for table in TABLES[benchmark]:
        wanted = connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
        for database in (declared, inferred):
            got = options.binary.rows(database, f"SELECT count(*) FROM {table}")[0][0]
            report.check(f"rows of {table}", None if int(got) == wanted else f"expected {wanted}, got {got}")
    compare_all(report, "COPY", options.binary, declared, texts, expected)
    compare_all(report, "CREATE TABLE AS", options.binary, inferred, texts, expected)
    compare_all(report, f"{LITTLE_MEMORY} of memory", options.binary, inferred, texts, expected, [f"SET memory_limit = '{LITTLE_MEMORY}'"])
    if benchmark in ON_DEVICE:
        compare_all(report, "emulated device", options.binary, inferred, texts, expected, ["SET device = emulated"])
        plans = options.binary.answers(inferred, [f"EXPLAIN ANALYZE {text}" for text in texts.values()], timeout=600, setup=["SET device = emulated"])
        on_device = [name for name, plan in zip(texts, plans) if "on the emulated device" in str(plan.rows)]
        missing = set(ON_DEVICE[benchmark] or texts) - set(on_device)
        report.check("pipelines run on the device", f"none of {sorted(missing)}" if missing else None)
    report.end()


def scales(options):
    return ["0.1", "1"] if options.long else ["0.1"]


def run_ssb(options, report):
    for scale in scales(options):
        run_benchmark(options, report, "ssb", float(scale))


def run_tpch(options, report):
    for scale in scales(options):
        run_benchmark(options, report, "tpch", float(scale))


def run_taxi(options, report):
    for scale in scales(options):
        run_benchmark(options, report, "taxi", float(scale))


def run_wide(options, report):
    for scale in scales(options):
        run_benchmark(options, report, "wide", float(scale))
