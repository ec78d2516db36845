"""Random statements that change single rows by key, beside others that change many, merge, or alter the table, in transactions with savepoints and
outside, over rows that are hot, frozen, or both: after each tenth statement the table has the rows that it has in DuckDB, and queries of it, however
they are executed, the same answers; so has what changes return."""

import copy
import random
import re
from dataclasses import dataclass, field

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
# DuckDB finds keys taken that a transaction has given up itself, loses rows of its indexes in such transactions, and refuses some changes of
# definitions in them. What is a limitation of its own says nothing of Forebay.
LIMITATIONS = re.compile(r"Constraint|from index|TransactionContext|Cannot alter|depend")
REQUIRED = [column.name for column in OF_KEYS if column.not_null]
# The emulated device compiles each kernel, so that it answers the questions of a few cases only.
OF_DEVICE = 20
# Syncing each commit takes most of the time of these statements.
OF_DURABLE = 4


@dataclass
class State:
    """What a transaction or a savepoint may bring back: columns of the table that there were from the beginning, others, and indexes."""

    columns: list = field(default_factory=lambda: list(OF_KEYS))
    others: list = field(default_factory=list)
    indexes: list = field(default_factory=list)


class HotRowGenerator(ChangeGenerator):
    """Makes the statements of case `number` of a seed: changes of `c`, whose key is `k`."""

    def case(self, number):
        self.random = random.Random(f"{self.seed}:{number}")
        self.source, self.other = Source(self.tables[FILLED], "c"), Source(self.tables[OTHER], OTHER)
        self.added, self.made = [], 0
        # The state when the open transaction began, and savepoints with theirs.
        self.state, self.before, self.savepoints = State(), None, []
        return [self.statement() for _ in range(STATEMENTS)]

    def pick_columns(self, count):
        return self.random.sample(self.state.columns, min(count, len(self.state.columns)))

    def statement(self):
        if self.before is None and self.chance(0.15):
            self.before, self.savepoints = copy.deepcopy(self.state), []
            return "BEGIN"
        if self.before is not None and self.chance(0.15):
            if (is_kept := self.chance(0.6)) is False:
                self.state = self.before
            self.before = None
            return "COMMIT" if is_kept else "ROLLBACK"
        if self.before is not None and self.chance(0.2):
            return self.savepoint()
        if self.before is None and self.chance(0.06):
            return "CHECKPOINT"
        if self.chance(0.06):
            return self.definition()
        by_key = [self.add, self.add, self.add, self.put, self.put, self.put, self.put, self.take, self.put_range, self.take_range]
        of_many = [self.update, self.update, self.delete, self.delete_using, self.insert_others, self.update_key]
        of_both = [self.put_or_add, self.add_if_new, self.merge]
        made = self.random.choices([by_key, of_many, of_both], weights=[78, 10, 12])[0]
        returning = f" RETURNING {self.random.choice(['*', 'k', 'so, k'])}" if self.chance(0.1) else ""
        return self.random.choice(made)() + returning

    def savepoint(self):
        """One that is made, returned to, or forgotten."""
        if not self.savepoints or self.chance(0.4):
            self.made += 1
            self.savepoints.append((f"s{self.made}", copy.deepcopy(self.state)))
            return f"SAVEPOINT s{self.made}"
        place = self.random.randrange(len(self.savepoints))
        name, state = self.savepoints[place]
        if self.chance(0.25):
            del self.savepoints[place:]
            return f"RELEASE {name}"
        del self.savepoints[place + 1 :]
        self.state = copy.deepcopy(state)
        return f"ROLLBACK TO {name}"

    def definition(self):
        """A change of what the table is."""
        makes = [self.add_column, self.add_column, self.rename_column, self.drop_column, self.index, self.index, self.anew]
        return self.random.choice(makes)()

    def add_column(self):
        self.made += 1
        self.state.others.append(f"x{self.made}")
        return f"ALTER TABLE c ADD COLUMN x{self.made} {self.random.choice(['INTEGER', f'INTEGER DEFAULT {self.made}'])}"

    def rename_column(self):
        if not self.state.others:
            return self.add_column()
        self.made += 1
        place = self.random.randrange(len(self.state.others))
        old, self.state.others[place] = self.state.others[place], f"x{self.made}"
        return f"ALTER TABLE c RENAME COLUMN {old} TO x{self.made}"

    def drop_column(self):
        """One that was added, or one of those that may be NULL."""
        if self.state.others and self.chance(0.5):
            return f"ALTER TABLE c DROP COLUMN {self.state.others.pop(self.random.randrange(len(self.state.others)))}"
        column = self.random.choice([column for column in self.state.columns if not column.not_null and column.name not in ("g", "i8")])
        self.state.columns.remove(column)
        return f"ALTER TABLE c DROP COLUMN {column.name}"

    def index(self):
        """Forebay has one of `g`, of one column or of two. DuckDB has none, as it does not alter tables with indexes."""
        if self.state.indexes:
            return f"DROP INDEX {self.state.indexes.pop()}"
        self.made += 1
        self.state.indexes.append(f"by_{self.made}")
        return f"CREATE INDEX by_{self.made} ON c ({self.random.choice(['g', 'g, i8'])})"

    def anew(self):
        """Another table of the name, or the same one without its rows."""
        if self.chance(0.5):
            return "TRUNCATE c"
        self.state = State()
        return f"DROP TABLE c; {create_sql()}"

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

    def row(self, key, columns):
        # Values of other families are planned.
        values = [self.new_value(column) if column.family in LITERALS or column.not_null else "NULL" for column in columns if column.name != "k"]
        return f"({', '.join([str(key), *values])})"

    def add(self):
        """A row where there is none yet, or an error of both."""
        rows = []
        for _ in range(self.random.choice([1, 1, 1, 2, 3])):
            key = self.random.randrange(KEYS) if self.chance(0.01) else 10_000 + len(self.added)
            self.added.append(key)
            rows.append(self.row(key, self.state.columns))
        return f"INSERT INTO c ({', '.join(column.name for column in self.state.columns)}) VALUES {', '.join(rows)}"

    def some_rows(self):
        """Names of columns, and rows with them, of which there are some already."""
        others = [column for column in self.pick_columns(2) if column.name not in REQUIRED]
        columns = [*(column for column in OF_KEYS if column.not_null), *others]
        keys = {self.key() if self.chance(0.7) else 20_000 + self.random.randrange(KEYS) for _ in range(self.random.choice([1, 2, 4]))}
        self.added += [key for key in sorted(keys) if key >= 20_000]
        return [column.name for column in columns], ", ".join(self.row(key, columns) for key in sorted(keys))

    def put_or_add(self):
        names, rows = self.some_rows()
        changes = ", ".join(f"{name} = excluded.{name}" for name in names[1:] if name == names[-1] or self.chance(0.3))
        where = " WHERE c.so > 0" if self.chance(0.2) else ""
        return f"INSERT INTO c ({', '.join(names)}) VALUES {rows} ON CONFLICT (k) DO UPDATE SET {changes}{where}"

    def add_if_new(self):
        names, rows = self.some_rows()
        return f"INSERT INTO c ({', '.join(names)}) VALUES {rows} ON CONFLICT DO NOTHING"

    def merge(self):
        names, rows = self.some_rows()
        source = f"(VALUES {rows}) AS u({', '.join(names)})"
        if self.chance(0.3):
            first = self.random.randrange(150)
            source = f"(SELECT {', '.join(names)} FROM {OTHER} WHERE k BETWEEN {first} AND {first + 20}) AS u"
        known = self.random.choice([f"UPDATE SET {names[-1]} = u.{names[-1]}", "UPDATE SET so = c.so + 1", "DELETE", "DO NOTHING"])
        on = self.random.choice(["", "", " AND c.so % 2 = 0", " AND u.so > 0"])
        new = self.random.choice([f"INSERT ({', '.join(names)}) VALUES ({', '.join(f'u.{name}' for name in names)})", "DO NOTHING"])
        return f"MERGE INTO c USING {source} ON (c.k = u.k) WHEN MATCHED{on} THEN {known} WHEN NOT MATCHED THEN {new}"

    def changes(self):
        columns = [column for column in self.pick_columns(self.random.choice([1, 1, 2, 3])) if column.name != "k"]
        changes = [f"{column.name} = {self.new_value(column)}" for column in columns]
        changes += [f"{self.random.choice(self.state.others)} = {self.random.randrange(100)}"] if self.state.others and self.chance(0.5) else []
        return ", ".join(changes) or "so = so + 1"

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
        names = ", ".join(column.name for column in self.state.columns)
        values = names.replace("k,", "k + 5000000,", 1)
        which = f"k BETWEEN {first} AND {first + 20} AND k + 5000000 NOT IN (SELECT k FROM c)"
        return f"INSERT INTO c ({names}) SELECT {values} FROM {FILLED} WHERE {which}"

    def questions(self, number):
        self.random, self.state = random.Random(f"questions:{self.seed}:{number}"), State()
        asked = []
        for _ in range(QUESTIONS):
            column, other = self.pick_columns(2)
            where = self.predicate([Source(self.tables[FILLED], "c")])
            asked.append(f"SELECT count(*), count({column.name}), min({column.name}), max({other.name}) FROM c WHERE {where}")
        first = self.key()
        return [*asked, f"SELECT * FROM c WHERE k = {self.key()}", f"SELECT k, s, d9 FROM c WHERE k >= {first} AND k < {first + 9}"]

    def predicate(self, sources, depth=0):
        """One over columns that the table has."""
        while True:
            text = super().predicate(sources, depth)
            if not any(f"c.{column.name} " in f"{text} ".replace(")", " ").replace(",", " ") for column in COLUMNS if column not in self.state.columns):
                return text


def create_sql():
    return create_table_sql("c", OF_KEYS).replace("k BIGINT NOT NULL", "k BIGINT PRIMARY KEY", 1)


class Model:
    """DuckDB, with savepoints: a transaction returns to one by being rolled back and run anew up to there."""

    def __init__(self, connection):
        self.connection = connection
        self.is_open, self.run, self.savepoints = False, [], {}

    def execute(self, sql):
        """Rows, where the statement returns some. Raises DuckDB's errors."""
        word, *names = sql.split(" ")
        if word in ("CREATE", "DROP") and names[0] == "INDEX":
            return None
        if word == "SAVEPOINT":
            self.savepoints[names[0]] = len(self.run)
        elif word == "RELEASE":
            self.forget(names[0])
        elif word == "ROLLBACK" and names:
            kept = self.savepoints[names[1]]
            self.forget(names[1])
            self.savepoints[names[1]] = kept
            del self.run[kept:]
            self.connection.execute("ROLLBACK")
            for again in ["BEGIN", *self.run]:
                self.connection.execute(again)
        elif "RETURNING" in sql:
            rows = Expected(self.connection.sql(sql).to_arrow_table())
            self.run.append(sql)
            return rows
        else:
            self.connection.execute(sql)
            self.is_open = word == "BEGIN" or (self.is_open and word not in ("COMMIT", "ROLLBACK"))
            self.run = [*self.run, sql] if self.is_open and word != "BEGIN" else []
            self.savepoints = self.savepoints if self.is_open else {}
        return None

    def forget(self, name):
        """A savepoint and those behind it."""
        names = list(self.savepoints)
        for later in names[names.index(name) :]:
            del self.savepoints[later]

    def end(self):
        if self.is_open:
            self.execute("ROLLBACK")


def run(options, report):
    """`options`: binary, directory, seed, size (sixty statements are a case), query (one case, or None)."""
    cases = max(1, options.size // 10)
    report.suite(f"random changes by key, seed {options.seed}, {cases} sequences of {STATEMENTS} statements")
    connection, database, tables = loaded(options, report, "hot_rows")
    generator, hot, done = HotRowGenerator(tables, options.seed), [], []
    for number in [options.query] if options.query is not None else range(cases):
        statements = generator.case(number)
        chance = random.Random(f"made:{options.seed}:{number}")
        made = ["DROP TABLE IF EXISTS c", create_sql(), f"INSERT INTO c SELECT {NAMES} FROM {FILLED} WHERE k < {chance.choice([0, 30, KEYS, 1000])}"]
        name = f"case {number} (--only hot_rows --seed {options.seed} --query {number})"
        execution = "device = emulated" if number % OF_DEVICE == OF_DEVICE // 2 else f"execution = {EXECUTIONS[number % len(EXECUTIONS)]}"
        settings = ["SET point_access = on", f"SET {execution}", f"SET durability = {'full' if number % OF_DURABLE == 0 else 'off'}"]
        report.check(name, judge(options, connection, database, made, (statements, generator.questions(number), settings), (hot, done)))
    report.check("rows are hot", None if 2 * sum(hot) > len(hot) else f"after {sum(hot)} of {len(hot)} tens of statements")
    report.check("most statements are run", None if 2 * sum(done) > STATEMENTS * len(done) else f"{sum(done)} of {STATEMENTS * len(done)}")
    report.say(f"   {sum(done)} statements were run, of {sum(count < STATEMENTS for count in done)} sequences not all")
    report.end()


def judge(options, connection, database, made, case, figures):
    """What is wrong with rows and answers between and after these statements. `made` makes the table. `figures` are lists, told after each tenth
    statement whether there are hot rows, and at the end how many statements were run."""
    statements, questions, settings = case
    hot, done = figures
    for sql in made:
        connection.execute(sql)
    for sql, answer in zip(made, options.binary.answers(database, made)):
        if answer.error is not None:
            return f"{sql}\n{answer.error}"
    asked, expected, model = [], [], Model(connection)
    for place, sql in enumerate(statements, 1):
        asked.append(sql)
        try:
            expected.append(model.execute(sql))
        except duckdb.Error as error:
            # An error ends the script, and what is open is rolled back.
            expected.append(str(error))
            break
        if place % LOOK_AFTER == 0:
            asked.append(HOT)
            expected.append(None)
            for look in ["SELECT * FROM c", *questions]:
                try:
                    expected.append(Expected(connection.sql(look).to_arrow_table()))
                    asked.append(look)
                except duckdb.Error:
                    continue
    done.append(place)
    shown = "\n".join([*made, *settings, *asked])
    was_open = model.is_open
    model.end()
    answers = options.binary.answers(database, [*settings, *asked])[len(settings) :]
    for sql, wanted, answer in zip(asked, expected, answers, strict=True):
        if isinstance(wanted, str):
            if answer.error is None and not (was_open and LIMITATIONS.search(wanted)):
                return f"{shown}\nDuckDB says {wanted}"
        elif answer.error is not None:
            return f"{shown}\n{sql}\n{answer.error}"
        elif wanted is not None and (wrong := difference(wanted, answer, False)):
            return f"{shown}\n{sql}\n{wrong}"
        elif sql == HOT:
            hot.append(answer.rows[0][0][1] != "0")
    if isinstance(expected[-1], str) and answers[-1].error is None:
        return None
    # Another process finds the same rows.
    for look in ["SELECT * FROM c", "SELECT count(*), sum(so) FROM c"]:
        answer = options.binary.answers(database, [look])[0]
        wrong = answer.error or difference(Expected(connection.sql(look).to_arrow_table()), answer, False)
        if wrong:
            return f"{shown}\nat the end: {look}\n{wrong}"
    return None
