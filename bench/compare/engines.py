"""One engine in one process: it loads the data once, then runs the queries that it is told to run.

The parent writes one JSON request a line, and reads one JSON answer a line. Nothing runs between requests, so that engines
can be measured by turns.
"""

import json
import os
import re
import sys
import time

SSB_KEYS = {"lo_orderdate": "d_datekey", "lo_custkey": "c_custkey", "lo_suppkey": "s_suppkey", "lo_partkey": "p_partkey"}


class DuckDB:
    """Tables in DuckDB's own format."""

    def __init__(self, job):
        import duckdb

        self.version = duckdb.__version__
        config = {"threads": job["threads"], "memory_limit": f"{job['memory']}B"}
        self.connection = duckdb.connect(os.path.join(job["directory"], "duckdb.db"), config=config)
        there = {row[0] for row in self.connection.execute("SELECT table_name FROM information_schema.tables").fetchall()}
        for table, path in job["tables"].items():
            if table not in there:
                self.connection.execute(f"CREATE TABLE {table} AS SELECT * FROM '{path}'")
        self.connection.execute("CHECKPOINT")

    def run(self, name, sql):
        return len(self.connection.execute(sql).fetchall())


class DataFusion:
    """Scans of the Parquet files."""

    def __init__(self, job):
        import datafusion

        self.version = datafusion.__version__
        config = datafusion.SessionConfig().with_target_partitions(job["threads"])
        self.context = datafusion.SessionContext(config)
        for table, path in job["tables"].items():
            self.context.register_parquet(table, path)

    def run(self, name, sql):
        return sum(batch.num_rows for batch in self.context.sql(sql).collect())


class ChDB:
    """MergeTree tables of ClickHouse."""

    def __init__(self, job):
        import chdb
        from chdb.session import Session

        self.version = chdb.chdb_version if isinstance(chdb.chdb_version, str) else ".".join(map(str, chdb.chdb_version))
        self.session = Session(os.path.join(job["directory"], "chdb"))
        self.query(f"SET max_threads = {job['threads']}")
        self.query("SET schema_inference_make_columns_nullable = 0")
        self.query("SET join_use_nulls = 1")
        self.query("SET allow_experimental_correlated_subqueries = 1")
        self.query("CREATE DATABASE IF NOT EXISTS bench")
        self.query("USE bench")
        there = self.query("SELECT name FROM system.tables WHERE database = 'bench'").split()
        for table, path in job["tables"].items():
            if table not in there:
                self.query(
                    f"CREATE TABLE bench.`{table}` ENGINE = MergeTree ORDER BY tuple()"
                    f" AS SELECT * FROM file('{path}', 'Parquet')"
                )
                self.query(f"OPTIMIZE TABLE bench.`{table}` FINAL")

    def query(self, sql):
        return str(self.session.query(sql, "TabSeparated"))

    def run(self, name, sql):
        return self.query(sql).count("\n")


class Polars:
    """Lazy scans of the Parquet files. Its SQL knows no comma joins: those of the star schema are written as JOIN."""

    def __init__(self, job):
        os.environ["POLARS_MAX_THREADS"] = str(job["threads"])
        import polars

        self.version = polars.__version__
        self.context = polars.SQLContext({table: polars.scan_parquet(path) for table, path in job["tables"].items()})
        self.ssb = job["benchmark"] == "ssb"

    def run(self, name, sql):
        return self.context.execute(star_joins(sql) if self.ssb else sql, eager=True).height


def star_joins(sql):
    """`FROM lineorder, date … WHERE key = key AND …` with explicit joins, the fact table first."""
    match = re.fullmatch(r"(?s)(.*?)\bfrom\s+([\w\s,]+?)\s+where\s+(.*)", sql, re.IGNORECASE)
    if not match:
        return sql
    head, tables, rest = match.groups()
    joins = []
    for fact, key in SSB_KEYS.items():
        rest, count = re.subn(rf"\b{fact}\s*=\s*{key}\s+and\s+", "", rest)
        if count:
            table = next(name.strip() for name in tables.split(",") if name.strip()[0] == key[0])
            joins.append(f"JOIN {table} ON {fact} = {key}")
    return f"{head}FROM lineorder {' '.join(joins)} WHERE {rest}"


ENGINES = {"duckdb": DuckDB, "chdb": ChDB, "polars": Polars, "datafusion": DataFusion}


def answer(value):
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


def one_line(error):
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:300]


def serve():
    """Reads the job, then one query after the other."""
    job = json.loads(sys.stdin.readline())
    try:
        start = time.perf_counter()
        engine = ENGINES[job["engine"]](job)
        answer({"load_seconds": time.perf_counter() - start, "version": engine.version})
    except BaseException as error:  # the engine is not installed or cannot read the data
        answer({"error": one_line(error)})
        return
    for line in sys.stdin:
        request = json.loads(line)
        try:
            start = time.perf_counter()
            rows = engine.run(request["name"], request["sql"])
            answer({"seconds": time.perf_counter() - start, "rows": rows})
        except BaseException as error:  # engines raise what they like, panics included
            answer({"error": one_line(error)})


if __name__ == "__main__":
    serve()
