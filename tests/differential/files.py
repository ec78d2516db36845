"""Tables of every type written to files and read back: by Forebay itself, and by DuckDB, from each format and compression."""

import os

import duckdb

from randomized import connect, load_sql
from rows import Expected, difference
from tables import COLUMNS, make_table

# name of the file: (options of COPY TO, options of COPY FROM)
FILES = {
    "plain.parquet": ("", ""),
    "zstd.parquet": ("(COMPRESSION zstd)", ""),
    "plain.csv": ("(HEADER true, NULL 'nil')", "(HEADER true, NULL 'nil')"),
    "semicolon.csv": ("(HEADER false, DELIMITER ';', NULL 'nil')", "(HEADER false, DELIMITER ';', NULL 'nil')"),
    "gzip.csv.gz": ("(HEADER true, NULL 'nil')", "(HEADER true, NULL 'nil')"),
    "zstd.csv.zst": ("(HEADER true, NULL 'nil')", "(HEADER true, NULL 'nil')"),
    "plain.json": ("", ""),
    "gzip.json.gz": ("", ""),
    "zstd.json.zst": ("", ""),
}
# JSON has no NaN and no infinity. DuckDB writes blobs as text in its own way, and reads decimals of JSON as doubles.
NOT_IN_JSON = {"fx", "gx"}
NOT_FOR_DUCKDB = {"bl", "d38"}


def columns_for(name):
    skipped = NOT_IN_JSON if ".json" in name else set()
    return [column for column in COLUMNS if column.name not in skipped]


def declared(table, columns):
    return f"CREATE TABLE {table} ({', '.join(f'{c.name} {c.type}' for c in columns)})"


def own_statements(directory, source, name, number):
    """Writes `source` to a file, reads it into a new table, counts by column the values that differ, and all its rows."""
    columns = columns_for(name)
    names = ", ".join(column.name for column in columns)
    path = os.path.join(directory, f"{source}-{name}")
    to, from_ = FILES[name]
    back = f"{source}_back_{number}"
    return [
        f"COPY (SELECT {names} FROM {source}) TO '{path}' {to}",
        declared(back, columns),
        f"COPY {back} FROM '{path}' {from_}",
        f"SELECT count(*) AS n, {', '.join(f'sum(CASE WHEN (a.{c.name} IS DISTINCT FROM b.{c.name}) THEN 1 ELSE 0 END) AS {c.name}' for c in columns)}"
        f" FROM {source} a LEFT JOIN {back} b ON a.k = b.k",
        f"SELECT count(*) AS n FROM {back}",
    ]


def duckdb_reads(directory, source, name):
    """DuckDB's reading of a file that Forebay wrote."""
    path = os.path.join(directory, f"{source}-{name}")
    skipped = set() if ".parquet" in name else NOT_FOR_DUCKDB
    columns = [column for column in columns_for(name) if column.name not in skipped]
    names = ", ".join(column.name for column in columns)
    if ".parquet" in name:
        return f"SELECT {names} FROM '{path}' ORDER BY k", names
    described = ", ".join(f"'{c.name}': '{'VARCHAR' if c.name in NOT_FOR_DUCKDB else c.type}'" for c in columns_for(name))
    if ".json" in name:
        return f"SELECT {names} FROM read_json('{path}', columns = {{{described}}}) ORDER BY k", names
    delimiter = ";" if name.startswith("semicolon") else ","
    header = "false" if name.startswith("semicolon") else "true"
    return (
        f"SELECT {names} FROM read_csv('{path}', columns = {{{described}}}, delim = '{delimiter}', header = {header},"
        f" auto_detect = false, nullstr = 'nil', quote = '\"', escape = '\"') ORDER BY k",
        names,
    )


def differing_columns(row, back, rows):
    """Columns whose values changed on their way through a file; None where there are none, and as many rows came back."""
    (_, paired), *columns = row
    changed = [f"{name}: {number} of {rows} values differ" for name, number in columns if number and int(number)]
    if (int(back), int(paired)) != (rows, rows):
        changed.insert(0, f"{back} rows came back, {rows} were written, paired by key there are {paired}")
    return "\n".join(changed) or None


def run(options, report):
    report.suite("files of every format")
    directory = os.path.join(options.directory, "files")
    os.makedirs(directory)
    connection = connect()
    tables = [make_table(connection, directory, name, options.seed + 100 + number) for number, name in enumerate("eom")]
    database = os.path.join(directory, "db")
    for answer in options.binary.answers(database, [sql for table in tables for sql in load_sql(table)]):
        report.check("load", answer.error)
    for table in tables:
        for number, name in enumerate(FILES):
            statements = own_statements(directory, table.name, name, number)
            answers = options.binary.answers(database, statements)
            error = next((f"{sql}\n{answer.error}" for sql, answer in zip(statements, answers) if answer.error), None)
            if not error:
                [[(_, back)]] = answers[4].rows
                error = differing_columns(answers[3].rows[0], back, table.rows)
            report.check(f"table {table.name} through {name}", error)
            sql, names = duckdb_reads(directory, table.name, name)
            try:
                expected = Expected(connection.sql(sql).to_arrow_table())
                answer = options.binary.answers(database, [f"SELECT {names} FROM {table.name} ORDER BY k"])[0]
                error = difference(expected, answer, True)
            except duckdb.Error as failure:
                error = str(failure)[:1500]
            report.check(f"DuckDB reads {name} of table {table.name}", error)
    report.end()
