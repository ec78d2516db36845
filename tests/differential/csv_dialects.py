"""Random CSV files of many dialects: Forebay tells the columns that DuckDB tells, and reads the same rows."""

import os
import random

import duckdb

from randomized import connect
from rows import Expected, difference

FILES_AT_ONCE = 50
TEXTS = ["red", "green", "blue sky", "Ünï", "1a"]
SENTENCES = ["hello, world", "a;b", "c|d", 'say "hi"', "plain", "two\nlines"]


class Column:
    """What the values of a column are made of."""

    def __init__(self, generator, dates):
        self.random = generator
        kinds = ["whole", "whole", "number", "text", "text", "truth", "time", "sparse", "mixed", "sentence", "zeros", dates]
        self.kind = generator.choice(kinds)

    def value(self):
        return "" if self.random.random() < 0.08 else getattr(self, self.kind)()

    def whole(self):
        return str(self.random.randint(-1000, 1000))

    def number(self):
        return f"{self.random.uniform(-100, 100):.2f}"

    def text(self):
        return self.random.choice(TEXTS)

    def sentence(self):
        return self.random.choice(SENTENCES)

    def truth(self):
        return self.random.choice(["true", "false"])

    def mixed(self):
        return self.random.choice(["1", "a", "2.5"])

    def sparse(self):
        return self.random.choice(["", str(self.random.randint(0, 9))])

    def zeros(self):
        return f"{self.random.randint(0, 99):03}"

    def time(self):
        return f"1{self.random.randint(0, 9)}:{self.random.randint(10, 59)}:{self.random.randint(10, 59)}"

    def date(self):
        return f"20{self.random.randint(10, 25)}-{self.random.randint(1, 12):02}-{self.random.randint(1, 28):02}"

    def moment(self):
        return f"{self.date()} {self.time()}"

    def european(self):
        return f"{self.random.randint(13, 28)}/{self.random.randint(1, 12):02}/20{self.random.randint(10, 25)}"


def content(seed, number):
    """The text of a file. Dates have one form only, which DuckDB has for the whole file, and looks for in all rows but the first."""
    generator = random.Random(f"{seed}:{number}")
    delimiter, has_header = generator.choice(",;|\t"), generator.random() < 0.6
    dates = generator.choice(["date", "moment", *["european"] * has_header])
    # Files of one column have rows that are blank lines, which the first rows of a file are not to DuckDB.
    columns = [Column(generator, dates) for _ in range(generator.randint(2, 6))]

    def written(value):
        must = any(character in value for character in (delimiter, '"', "\n"))
        return '"' + value.replace('"', '""') + '"' if must or generator.random() < 0.03 else value

    # The first row is whole and plain: what DuckDB makes of another one depends on the rest.
    first = [f"c{place}" if has_header else "a" if column.kind == "sentence" else getattr(column, column.kind)() or "0" for place, column in enumerate(columns)]
    lines = [delimiter.join(first)]
    lines += [delimiter.join(written(column.value()) for column in columns) for _ in range(generator.randint(3, 40))]
    end = generator.choice(["\n", "\n", "\r\n"])
    return end.join(lines) + (end if generator.random() < 0.9 else "")


def run(options, report):
    """`options`: binary, directory, seed, size (how many files), query (one file, or None)."""
    report.suite(f"random CSV files, seed {options.seed}, {options.size} files")
    directory = os.path.join(options.directory, "csv_dialects")
    os.makedirs(directory)
    connection = connect()
    numbers = [options.query] if options.query is not None else range(options.size)
    for begun in range(0, len(numbers), FILES_AT_ONCE):
        batch = numbers[begun : begun + FILES_AT_ONCE]
        paths = {number: os.path.join(directory, f"{number}.csv") for number in batch}
        for number, path in paths.items():
            with open(path, "w", encoding="utf-8", newline="") as out:
                out.write(content(options.seed, number))
        queries = [query for path in paths.values() for query in (columns_sql(path), f"SELECT * FROM '{path}'")]
        answers = options.binary.answers(None, queries)
        for place, (number, path) in enumerate(paths.items()):
            name = f"file {number} (--only csv --seed {options.seed} --query {number})"
            report.check(name, judge(connection, path, answers[2 * place], answers[2 * place + 1]))
    report.end()


def columns_sql(path):
    return f"SELECT column_name, column_type FROM (DESCRIBE SELECT * FROM '{path}')"


def judge(connection, path, columns, rows):
    """What is wrong with the columns and rows of a file."""
    with open(path, encoding="utf-8", newline="") as source:
        shown = "\n".join(source.read().splitlines()[:6])
    try:
        expected = [Expected(connection.sql(sql).to_arrow_table()) for sql in (columns_sql(path), f"SELECT * FROM '{path}'")]
    except duckdb.Error as error:
        is_unknown = "not possible to automatically detect" in str(error)
        return None if is_unknown or rows.error is not None else f"{shown}\nDuckDB says {error}"
    for wanted, answer in zip(expected, (columns, rows)):
        wrong = answer.error or difference(wanted, answer, False)
        if wrong:
            return f"{shown}\n{wrong}"
    return None
