"""2,000 random queries: Forebay gives the rows that DuckDB gives on the same Parquet files."""

import os

import duckdb

from binary import Answer
from random_queries import Generator
from rows import Expected, difference
from tables import TABLES, create_table_sql, make_table

BATCH = 100


def connect():
    connection = duckdb.connect(config={"threads": 2})
    connection.execute("SET TimeZone = 'UTC'")
    return connection


def load_sql(table):
    """Statements that load a test table into Forebay."""
    if table.load == "ctas":
        return [f"CREATE TABLE {table.name} AS SELECT * FROM '{table.path}'"]
    return [create_table_sql(table.name), f"COPY {table.name} FROM '{table.path}'"]


def run(options, report):
    """`options`: binary, directory, seed, queries, query (one number, or None)."""
    report.suite(f"random queries, seed {options.seed}, {options.queries} queries")
    directory = os.path.join(options.directory, "random")
    os.makedirs(directory)
    connection = connect()
    tables = {name: make_table(connection, directory, name, options.seed + position) for position, name in enumerate(TABLES)}
    database = os.path.join(directory, "db")
    loaded = options.binary.answers(database, [sql for table in tables.values() for sql in load_sql(table)])
    for answer in loaded:
        report.check("load the test tables", answer.error)
    generator = Generator(tables, options.seed)
    numbers = [options.query] if options.query is not None else range(options.queries)
    batch = []
    for number in numbers:
        batch.append(generator.query(number))
        if len(batch) == BATCH or number == numbers[-1]:
            compare_batch(options, report, connection, database, batch)
            batch = []
    report.end()


def compare_batch(options, report, connection, database, queries):
    expected = []
    for query in queries:
        try:
            expected.append(Expected(connection.sql(query.sql).to_arrow_table()))
        except duckdb.Error as error:
            expected.append(error)
    try:
        answers = options.binary.answers(database, [query.sql for query in queries], timeout=180)
    except RuntimeError as error:
        answers = [Answer(error=str(error))] * len(queries)
    for query, wanted, answer in zip(queries, expected, answers):
        name = f"query {query.number} (--only random --seed {options.seed} --query {query.number})"
        if isinstance(wanted, Exception):
            report.fail(name, f"the oracle refused the query: {wanted}\n{query.sql}")
            continue
        different = difference(wanted, answer, query.ordered)
        report.check(name, different and f"{query.sql}\n{different}")
