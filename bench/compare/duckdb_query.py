"""One query of DuckDB in a process of its own: `python duckdb_query.py DATABASE THREADS MEMORY SQL [csv]`.

DATABASE is opened read-only; MEMORY is bytes, or - for DuckDB's own default. All rows are fetched, and written as CSV with
the last argument.
"""

import sys

import duckdb


def main():
    database, threads, memory, sql = sys.argv[1:5]
    config = {"threads": int(threads)}
    if memory != "-":
        config["memory_limit"] = f"{memory}B"
    rows = duckdb.connect(database, read_only=database != ":memory:", config=config).execute(sql).fetchall()
    if sys.argv[5:] == ["csv"]:
        import csv

        csv.writer(sys.stdout).writerows(rows)


if __name__ == "__main__":
    main()
