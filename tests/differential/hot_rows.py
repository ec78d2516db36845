"""Random statements that change single rows by key, beside others that change many, in transactions and outside, over rows that are hot, frozen, or
both: after each tenth statement the table has the rows that it has in DuckDB, and queries of it, however they are executed, the same answers."""

import random
import re

import duckdb

from changes import EXECUTIONS, FILLED, OTHER, ChangeGenerator, loaded
from random_queries import Source
from rows import Expected, difference
from tables import COLUMNS, create_table_sql

STATEMENTS = 60
LOOK_AFTER = 10
QUESTIONS = 2
# Values of other types are kept as texts, and their rows are not changed by key.
OF_KEYS = [column for column in COLUMNS if column.type not in ("TIME", "TIMESTAMPTZ", "FLOAT")]
NAMES = ", ".join(column.name for column in OF_KEYS)
# Of a thousand rows, so that statements meet.
KEYS = 120
# Families of values that a statement by key may have as literals.
LITERALS = ("int", "bool", "text", "date", "decimal")
# Hot rows are shown as segments that no file has.
HOT = "SELECT count(*) FROM forebay.segments WHERE table_name = 'c' AND segment_id >= 549755813888"
# The emulated device compiles each kernel, so that it answers the questions of a few cases only.
OF_DEVICE = 20


class HotRowGenerator(ChangeGenerator):
    """Makes the statements of case `number` of a seed: changes of `c`, whose key is `k`."""

    def case(self, number):
        self.random = random.Random(f"{self.seed}:{number}")
        self.source, self.other = Source(self.tables[FILLED], "c"), Source(self.tables[OTHER], OTHER)
        self.is_open, self.added = False, []
        return [self.statement() for _ in range(STATEMENTS)]

    def pick_columns(self, count):
        return self.random.sample(OF_KEYS, count)

    def statement(self):
        if not self.is_open and self.chance(0.15):
            self.is_open = True
            return "BEGIN"
        if self.is_open and self.chance(0.2):
            self.is_open = False
            return "COMMIT" if self.chance(0.6) else "ROLLBACK"
        if not self.is_open and self.chance(0.06):
            return "CHECKPOINT"
        by_key = [self.add, self.add, self.add, self.put, self.put, self.put, self.put, self.take, self.put_range, self.take_range]
        of_many = [self.update, self.update, self.delete, self.delete_using, self.insert_others, self.update_key]
        return self.random.choice(by_key if self.chance(0.9) else of_many)()

    def key(self):
        """One of those that there were, or that have been added."""
        return self.random.choice(self.added) if self.added and self.chance(0.6) else self.random.randrange(KEYS)

    def condition(self, sources):
        """One of a tenth of the rows at most."""
        return f"c.k % 10 = {self.random.randrange(10)} AND {super().condition(sources)}"

    def new_value(self, column):
        values = self.source.table.samples[column.name]
        if column.not_null or (values and self.chance(0.8)):
            return re.sub(r"^CAST\('(-?[0-9.]+)' AS DECIMAL.*\)$", r"\1", self.random.choice(values))
        return "NULL"

    def add(self):
        """A row where there is none yet, or an error of both."""
        rows = []
        for _ in range(self.random.choice([1, 1, 1, 2, 3])):
            key = self.random.randrange(KEYS) if self.chance(0.01) else 10_000 + len(self.added)
            self.added.append(key)
            # Values of other families are planned.
            values = [self.new_value(column) if column.family in LITERALS or column.not_null else "NULL" for column in OF_KEYS[1:]]
            rows.append(f"({', '.join([str(key), *values])})")
        return f"INSERT INTO c VALUES {', '.join(rows)}"

    def changes(self):
        columns = [column for column in self.pick_columns(self.random.choice([1, 1, 2, 3])) if column.name != "k"]
        return ", ".join(f"{column.name} = {self.new_value(column)}" for column in columns) or "so = so + 1"

    def put(self):
        return f"UPDATE c SET {self.changes()} WHERE k = {self.key()}"

    def put_range(self):
        first = self.key()
        return f"UPDATE c SET {self.changes()} WHERE k >= {first} AND k < {first + self.random.randrange(12)}"

    def take(self):
        return f"DELETE FROM c WHERE k = {self.key()}"

    def take_range(self):
        first = self.key()
        return f"DELETE FROM c WHERE k BETWEEN {first} AND {first + self.random.randrange(5)}"

    def assignments(self):
        return self.changes()

    def update_key(self):
        return f"UPDATE c SET k = k + {2_000_000 + self.random.randrange(1000) * 1000} WHERE k = {self.key()}"

    def insert_others(self):
        first = self.random.randrange(1000)
        return f"INSERT INTO c SELECT {NAMES.replace('k,', 'k + 5000000,', 1)} FROM {FILLED} WHERE k BETWEEN {first} AND {first + 20} AND k + 5000000 NOT IN (SELECT k FROM c)"

    def questions(self, number):
        self.random = random.Random(f"questions:{self.seed}:{number}")
        asked = []
        for _ in range(QUESTIONS):
            column, other = self.pick_columns(2)
            where = self.predicate([Source(self.tables[FILLED], "c")])
            asked.append(f"SELECT count(*), count({column.name}), min({column.name}), max({other.name}) FROM c WHERE {where}")
        first = self.key()
        return [*asked, f"SELECT {NAMES} FROM c WHERE k = {self.key()}", f"SELECT k, s, d9 FROM c WHERE k >= {first} AND k < {first + 9}"]

    def predicate(self, sources, depth=0):
        """One over columns that the table has."""
        while True:
            text = super().predicate(sources, depth)
            if not any(f"c.{column.name} " in f"{text} ".replace(")", " ").replace(",", " ") for column in COLUMNS if column not in OF_KEYS):
                return text


def run(options, report):
    """`options`: binary, directory, seed, size (sixty statements are a case), query (one case, or None)."""
    cases = max(1, options.size // 10)
    report.suite(f"random changes by key, seed {options.seed}, {cases} sequences of {STATEMENTS} statements")
    connection, database, tables = loaded(options, report, "hot_rows")
    generator, hot = HotRowGenerator(tables, options.seed), []
    for number in [options.query] if options.query is not None else range(cases):
        statements = generator.case(number)
        chance = random.Random(f"made:{options.seed}:{number}")
        made = ["DROP TABLE IF EXISTS c", create_table_sql("c", OF_KEYS).replace("k BIGINT NOT NULL", "k BIGINT PRIMARY KEY", 1)]
        made += [f"INSERT INTO c SELECT {NAMES} FROM {FILLED} WHERE k < {chance.choice([0, 30, KEYS, 1000])}"]
        index = ["CREATE INDEX by_g ON c (g)"] if chance.random() < 0.5 else []
        name = f"case {number} (--only hot_rows --seed {options.seed} --query {number})"
        execution = "device = emulated" if number % OF_DEVICE == OF_DEVICE // 2 else f"execution = {EXECUTIONS[number % len(EXECUTIONS)]}"
        told = (statements, generator.questions(number), execution)
        report.check(name, judge(options, connection, database, (made, index), told, hot))
    report.check("rows are hot", None if 2 * sum(hot) > len(hot) else f"after {sum(hot)} of {len(hot)} sequences")
    report.end()


def judge(options, connection, database, made, case, hot):
    """What is wrong with rows and answers between and after these statements. `made`: what both make, and indexes that Forebay has. `hot` is told
    whether there are hot rows at the end."""
    statements, questions, execution = case
    made, index = made
    for sql in made:
        connection.execute(sql)
    made = [*made, *index]
    for sql, answer in zip(made, options.binary.answers(database, made)):
        if answer.error is not None:
            return f"{sql}\n{answer.error}"
    settings = ["SET point_access = all", f"SET {execution}"]
    asked, expected = [], []
    is_open = False
    for place, sql in enumerate(statements, 1):
        asked.append(sql)
        try:
            connection.execute(sql)
            expected.append(None)
            is_open = sql == "BEGIN" or (is_open and sql not in ("COMMIT", "ROLLBACK"))
        except duckdb.Error as error:
            # An error ends the script, and what is open is rolled back.
            expected.append(str(error))
            break
        if place % LOOK_AFTER == 0:
            for look in ["SELECT * FROM c", *questions]:
                try:
                    expected.append(Expected(connection.sql(look).to_arrow_table()))
                    asked.append(look)
                except duckdb.Error:
                    continue
    shown = "\n".join([*made, *settings, *asked])
    if not isinstance(expected[-1], str):
        asked.append(HOT)
        expected.append(None)
    if is_open:
        connection.execute("ROLLBACK")
    answers = options.binary.answers(database, [*settings, *asked])[len(settings) :]
    for sql, wanted, answer in zip(asked, expected, answers, strict=True):
        if isinstance(wanted, str):
            # DuckDB finds keys taken that a transaction has given up itself, and loses rows of its indexes in such transactions.
            if answer.error is None and not (is_open and ("Constraint" in wanted or "from index" in wanted)):
                return f"{shown}\nDuckDB says {wanted}"
        elif answer.error is not None:
            return f"{shown}\n{sql}\n{answer.error}"
        elif wanted is not None and (wrong := difference(wanted, answer, False)):
            return f"{shown}\n{sql}\n{wrong}"
    if isinstance(expected[-1], str) and answers[-1].error is None:
        return None
    if asked[-1] == HOT:
        hot.append(answers[-1].rows[0][0][1] != "0")
    # Another process finds the same rows.
    for look in ["SELECT * FROM c", "SELECT count(*), sum(so) FROM c"]:
        answer = options.binary.answers(database, [look])[0]
        wrong = answer.error or difference(Expected(connection.sql(look).to_arrow_table()), answer, False)
        if wrong:
            return f"{shown}\nat the end: {look}\n{wrong}"
    return None
