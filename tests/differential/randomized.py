"""2,000 random queries: Forebay gives the rows that DuckDB gives on the same Parquet files."""

import os

import duckdb

from binary import Answer
from layouts import lay_out
from random_queries import Generator
from rows import Expected, difference
from tables import COLUMNS, TABLES, create_table_sql, make_table

BATCH = 100


def connect():
    connection = duckdb.connect(config={"threads": 2})
    connection.execute("SET TimeZone = 'UTC'")
    return connection


# What DuckDB is asked once more without, and how that is undone.
LESS_OPTIMISED = {
    "Top-N": ("SET disabled_optimizers = 'top_n'", "SET disabled_optimizers = ''"),
    "its optimiser": ("PRAGMA disable_optimizer", "PRAGMA enable_optimizer"),
}


def second_opinion(connection, sql, answer, ordered):
    """Without what DuckDB gives Forebay's rows, if it does. DuckDB 2.0 pushes the filter that Top-N makes into the optional side
    of an outer join, and gives NULLs for rows that match (`… a LEFT JOIN b … ORDER BY b.x NULLS FIRST LIMIT 10`). Above a join
    with an empty side it forgets LIMIT, as the rule it is without Top-N."""
    for name, (less, more) in LESS_OPTIMISED.items():
        connection.execute(less)
        try:
            wanted = Expected(connection.sql(sql).to_arrow_table())
        finally:
            connection.execute(more)
        if not difference(wanted, answer, ordered):
            return name
    return None


def load_sql(table):
    """Statements that load a test table into Forebay."""
    if table.load == "ctas":
        return [f"CREATE TABLE {table.name} AS SELECT * FROM '{table.path}'"]
    if table.load == "copy":
        return [create_table_sql(table.name), f"COPY {table.name} FROM '{table.path}'"]
    return load_in_parts(table)


def load_in_parts(table):
    """Several segments, some merged by CHECKPOINT, and a column younger than the first rows, which show its default."""
    late, early = COLUMNS[-1], COLUMNS[:-1]
    assert late.name == "ss"
    names = ", ".join(column.name for column in early)
    bounds = [0, table.rows // 100, table.rows // 75, table.rows // 3, table.rows]
    parts = [f"SELECT {{columns}} FROM '{table.path}' WHERE k >= {low} AND k < {high}" for low, high in zip(bounds, bounds[1:])]
    columns = (f"{c.name} {c.type}{' NOT NULL' if c.not_null else ''}" for c in early)
    return [
        f"CREATE TABLE {table.name} ({', '.join(columns)})",
        f"INSERT INTO {table.name} {parts[0].format(columns=names)}",
        f"INSERT INTO {table.name} {parts[1].format(columns=names)}",
        # Rows of the first parts have ss = 'v0000': the value of k // 1000 below 1,000.
        f"ALTER TABLE {table.name} ADD COLUMN ss VARCHAR DEFAULT 'v0000'",
        *(["CHECKPOINT"] if table.rows > 1000 else []),
        *(f"INSERT INTO {table.name} {part.format(columns='*')}" for part in parts[2:]),
    ]


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
    lay_out(options, report, database)
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
        if different and answer.error is None and (less := second_opinion(connection, query.sql, answer, query.ordered)):
            report.say(f"   {name}: DuckDB contradicts itself, without {less} it gives Forebay's rows")
            different = None
        report.check(name, different and f"{query.sql}\n{different}")
