"""Random INSERTs, UPDATEs and DELETEs, whichever way segments are changed: their RETURNING has the rows that it has in DuckDB, and after
a few of them so has the table, in every copy of its rows; and queries of it have the same answers, however they are executed."""

import os
import random
from dataclasses import replace

import duckdb

from random_queries import Generator, Source
from randomized import connect, load_sql
from rows import Expected, difference
from tables import COLUMNS, TABLES, make_table

# The table that changes is filled from the first one, in several segments; the other one is joined with it.
FILLED, OTHER = "m", "d"
COPIES = ["k < 300", "k >= 300 AND k < 310", "k >= 310"]
CHANGES = 4
COPY_NAMES = ("p", "q")
MODES = ["auto", "copy_on_write", "merge_on_read", "merge_on_read"]
EXECUTIONS = ["compiled", "interpreter", "datafusion"]
QUESTIONS = 3


class ChangeGenerator(Generator):
    """Makes the statements of case `number` of a seed."""

    def projections(self, number):
        """Statements that add projections of all columns to the table of a case."""
        chance = random.Random(f"projections:{self.seed}:{number}")
        # Values of v are too long to order rows by.
        names = [column.name for column in COLUMNS if column.name != "v"]
        orders = [", ".join(chance.sample(names, chance.choice([1, 2]))) for _ in range(chance.choice([0, 0, 0, 1, 2]))]
        return [f"ALTER TABLE c ADD PROJECTION {name} (ORDER BY {order})" for name, order in zip(COPY_NAMES, orders)]

    def case(self, number):
        self.random = random.Random(f"{self.seed}:{number}")
        self.source, self.other = Source(self.tables[FILLED], "c"), Source(self.tables[OTHER], OTHER)
        makes = [self.update, self.update, self.update_from, self.delete, self.delete_using, self.insert]
        return [self.random.choice(makes)() + self.returning() for _ in range(CHANGES)]

    def mode(self, number):
        """What becomes of the segments of a case."""
        return f"SET row_changes = {random.Random(f'mode:{self.seed}:{number}').choice(MODES)}"

    def questions(self, number):
        """Queries of the table that has changed."""
        self.random = random.Random(f"questions:{self.seed}:{number}")
        filled = self.tables[FILLED]
        self.tables = {**self.tables, **{name: replace(filled, name="c") for name in TABLES}}
        makes = [self.totals, self.totals, self.groups, self.rows, self.distinct]
        asked = [self.random.choice(makes)()[0] for _ in range(QUESTIONS)]
        self.tables = {**self.tables, FILLED: filled}
        columns = ", ".join(f"count({column.name}), min({column.name}), max({column.name})" for column in COLUMNS if column.family != "float")
        return ["SELECT count(*) FROM c", f"SELECT {columns} FROM c", *asked]

    def returning(self):
        if self.chance(0.6):
            return ""
        columns = [column.name for column in self.pick_columns(self.random.choice([1, 2, 3]))]
        return f" RETURNING {self.random.choice(['*', ', '.join(columns)])}"

    def condition(self, sources):
        return self.predicate(sources) if self.chance(0.9) else self.random.choice(["true", "false", "NULL"])

    def value(self, column):
        """An expression of the type of the column."""
        kind = self.random.choice(["literal", "literal", "column", "choice", "null"])
        same = [other for other in COLUMNS if other.type == column.type and (other.not_null or not column.not_null)]
        if kind == "column":
            return self.source.name(self.random.choice(same))
        if kind == "choice":
            return f"CASE WHEN {self.predicate([self.source])} THEN {self.source.name(self.random.choice(same))} ELSE {self.source.name(column)} END"
        values = self.source.table.samples[column.name]
        if column.not_null or (kind == "literal" and values):
            return self.random.choice(values)
        return "NULL"

    def assignments(self):
        columns = self.pick_columns(self.random.choice([1, 1, 2, 3]))
        return ", ".join(f"{column.name} = {self.value(column)}" for column in columns)

    def update(self):
        where = f" WHERE {self.condition([self.source])}" if self.chance(0.9) else ""
        return f"UPDATE c SET {self.assignments()}{where}"

    def update_from(self):
        column = self.pick_column(lambda column: not column.not_null)
        where = f"c.k = {OTHER}.k AND {self.condition([self.source, self.other])}"
        return f"UPDATE c SET {column.name} = {OTHER}.{column.name} FROM {OTHER} WHERE {where}"

    def delete(self):
        return f"DELETE FROM c WHERE {self.condition([self.source])}"

    def delete_using(self):
        column = self.random.choice(["k", "g", "i8"])
        return f"DELETE FROM c USING {OTHER} WHERE c.{column} = {OTHER}.{column} AND {self.condition([self.other])}"

    def insert(self):
        return f"INSERT INTO c SELECT * FROM {FILLED} WHERE k % 50 = {self.random.randrange(50)}"


def loaded(options, report, suite):
    """DuckDB, a database of ours, and the tables that rows come from, which are in both."""
    directory = os.path.join(options.directory, suite)
    os.makedirs(directory)
    connection = connect()
    tables = {name: make_table(connection, directory, name, options.seed + place) for place, name in enumerate(TABLES) if name in (FILLED, OTHER)}
    database = os.path.join(directory, "db")
    for answer in options.binary.answers(database, [sql for table in tables.values() for sql in load_sql(table)]):
        report.check("load the test tables", answer.error)
    return connection, database, tables


def made_table():
    """Statements that make the table that changes."""
    return [f"CREATE TABLE c AS SELECT * FROM {FILLED} WHERE false", *(f"INSERT INTO c SELECT * FROM {FILLED} WHERE {part}" for part in COPIES)]


def run(options, report):
    """`options`: binary, directory, seed, size (four statements are a case), query (one case, or None)."""
    cases = max(1, options.size // CHANGES)
    report.suite(f"random changes, seed {options.seed}, {cases} tables of {CHANGES} statements")
    connection, database, tables = loaded(options, report, "changes")
    generator = ChangeGenerator(tables, options.seed)
    for number in [options.query] if options.query is not None else range(cases):
        changes = generator.case(number)
        made = ["DROP TABLE IF EXISTS c", *made_table()]
        projections = generator.projections(number)
        # Some of the rows come before there are projections, others later.
        place = 2 + number % 4
        name = f"case {number} (--only changes --seed {options.seed} --query {number})"
        told = (generator.mode(number), generator.questions(number), EXECUTIONS[number % len(EXECUTIONS)])
        report.check(name, judge(options, connection, database, [*made, *changes], len(made), (place, projections), told))
    report.end()


def judge(options, connection, database, statements, first, projections, told):
    """What is wrong with the rows after these statements, of which those from `first` on are looked at; at a place between them
    projections are added, which DuckDB does not know. Told are a setting before all of them, queries behind them, and how these are
    executed."""
    (place, added), (mode, questions, execution) = projections, told
    shown = "\n".join([mode, *added, *statements[first:]])
    copies = [sql for name in COPY_NAMES[: len(added)] for sql in (f"SET projections = {name}", "SELECT * FROM c")]
    asked = [mode, *statements[:place], *added, *statements[place:], "SET projections = off", "SELECT * FROM c", *copies]
    answers = options.binary.answers(database, [*asked, f"SET execution = {execution}", *questions])
    told = answers[len(asked) + 1 :]
    del answers[len(asked) :]
    if answers.pop(0).error is not None:
        return f"{mode} is refused"
    for sql, answer in zip(added, answers[place:]):
        if answer.error is not None:
            return f"{shown}\n{sql}\n{answer.error}"
    del answers[place : place + len(added)]
    for statement, answer in zip(statements, answers):
        try:
            rows = connection.sql(statement)
            returned = Expected(rows.to_arrow_table()) if "RETURNING" in statement else None
        except duckdb.Error as error:
            return None if answer.error is not None else f"{statement}\nDuckDB says {error}"
        if answer.error is not None:
            return f"{shown}\n{statement}\n{answer.error}"
        wrong = returned and difference(returned, answer, False)
        if wrong:
            return f"{shown}\n{statement}\n{wrong}"
    expected = Expected(connection.sql("SELECT * FROM c").to_arrow_table())
    for name, answer in zip(("the table's own rows", *COPY_NAMES), answers[len(statements) + 1 :: 2]):
        wrong = difference(expected, answer, False)
        if wrong:
            return f"{shown}\n{name}: {wrong}"
    for sql, answer in zip(questions, told):
        try:
            expected = Expected(connection.sql(sql).to_arrow_table())
        except duckdb.Error:
            continue
        wrong = answer.error or difference(expected, answer, False)
        if wrong:
            return f"{shown}\nSET execution = {execution}\n{sql}: {wrong}"
    return None
