"""Random sequences of statements, most of them in transactions of several that are committed or rolled back: after each tenth statement tables and
views have the rows that they have in DuckDB, in every copy of them; so they have after an error, of which nothing of its transaction is kept."""

import random

import duckdb

from changes import COPY_NAMES, FILLED, OTHER, ChangeGenerator, loaded, made_table
from random_queries import Source
from rows import Expected, difference

STATEMENTS = 30
LOOK_AFTER = 10
LOOKS = ["SELECT * FROM c", "SELECT * FROM e", "SELECT * FROM w"]


class TransactionGenerator(ChangeGenerator):
    """Makes the statements of case `number` of a seed: changes of `c`, and of a table `e` whose columns change, too."""

    def case(self, number):
        self.random = random.Random(f"{self.seed}:{number}")
        self.source, self.other = Source(self.tables[FILLED], "c"), Source(self.tables[OTHER], OTHER)
        # Columns of `e`, and those that it had when the transaction began; None outside.
        self.columns, self.before, self.made = ["k", "t"], None, 0
        statements = []
        while len(statements) < STATEMENTS:
            statements.append(self.statement())
        return statements

    def statement(self):
        if self.before is None and self.chance(0.5):
            self.before = list(self.columns)
            return self.random.choice(["BEGIN", "BEGIN TRANSACTION", "START TRANSACTION"])
        if self.before is not None and self.chance(0.2):
            is_kept = self.chance(0.55)
            if not is_kept:
                self.columns = self.before
            self.before = None
            return self.random.choice(["COMMIT", "END"] if is_kept else ["ROLLBACK", "ABORT"])
        of_rows = [self.update, self.update_from, self.delete, self.delete_using, self.insert, self.insert]
        of_e = [self.insert_e, self.insert_e, self.update_e, self.delete_e, self.add_column, self.drop_column, self.made_anew, self.view]
        return self.random.choice(of_rows if self.chance(0.55) else of_e)() if self.chance(0.97) else "TRUNCATE c"

    def insert_e(self):
        values = [str(self.random.randrange(100)), f"'text {self.random.randrange(20)}'"]
        named = ", ".join(self.columns[:2])
        if self.chance(0.5):
            return f"INSERT INTO e ({named}) VALUES ({', '.join(values)}), (NULL, NULL)"
        return f"INSERT INTO e ({named}) SELECT k % 100, 'row ' || k FROM c WHERE k < {self.random.randrange(400)}"

    def update_e(self):
        column = self.random.choice([column for column in self.columns if column != "t"])
        return f"UPDATE e SET {column} = {self.random.randrange(1000)} WHERE k % {self.random.randrange(2, 9)} = 1"

    def delete_e(self):
        return f"DELETE FROM e WHERE k > {self.random.randrange(100)} AND k % 3 = {self.random.randrange(3)}"

    def add_column(self):
        self.made += 1
        column = f"x{self.made}"
        self.columns = [*self.columns, column]
        return f"ALTER TABLE e ADD COLUMN {column} INTEGER DEFAULT {self.made}"

    def drop_column(self):
        others = self.columns[2:]
        if not others:
            return self.add_column()
        column = self.random.choice(others)
        self.columns = [own for own in self.columns if own != column]
        return f"ALTER TABLE e DROP COLUMN {column}"

    def made_anew(self):
        self.columns = ["k", "t"]
        return "CREATE OR REPLACE TABLE e AS SELECT CAST(k AS INTEGER) AS k, 'new ' || k AS t FROM c WHERE k < 20"

    def view(self):
        return f"CREATE OR REPLACE VIEW w AS SELECT k, count(*) AS n, max(t) AS t FROM e WHERE k IS NULL OR k <> {self.random.randrange(9)} GROUP BY k"


def run(options, report):
    """`options`: binary, directory, seed, size (thirty statements are a case), query (one case, or None)."""
    cases = max(1, options.size // STATEMENTS)
    report.suite(f"random transactions, seed {options.seed}, {cases} sequences of {STATEMENTS} statements")
    connection, database, tables = loaded(options, report, "transactions")
    generator = TransactionGenerator(tables, options.seed)
    for number in [options.query] if options.query is not None else range(cases):
        statements = generator.case(number)
        made = ["DROP VIEW IF EXISTS w", "DROP TABLE IF EXISTS c", *made_table()]
        made += ["CREATE OR REPLACE TABLE e (k INTEGER, t VARCHAR)", "CREATE VIEW w AS SELECT count(*) AS n FROM e"]
        name = f"case {number} (--only transactions --seed {options.seed} --query {number})"
        told = (made, statements, generator.projections(number), generator.mode(number))
        report.check(name, judge(options, connection, database, told))
    report.end()


def judge(options, connection, database, case):
    """What is wrong with the rows between and after these statements. Projections are added, which DuckDB does not know."""
    made, statements, projections, mode = case
    for sql in made:
        connection.execute(sql)
    for sql, answer in zip([*made, *projections], options.binary.answers(database, [*made, *projections])):
        if answer.error is not None:
            return f"{sql}\n{answer.error}"
    asked, expected = [], []
    for place, sql in enumerate(statements, 1):
        asked.append(sql)
        try:
            connection.execute(sql)
            expected.append(None)
        except duckdb.Error as error:
            expected.append(str(error))
            break
        if place % LOOK_AFTER == 0:
            asked += LOOKS
            expected += [Expected(connection.sql(look).to_arrow_table()) for look in LOOKS]
    shown = "\n".join([mode, *projections, *asked])
    try:
        # What is open is rolled back with its session.
        connection.execute("ROLLBACK")
    except duckdb.Error:
        pass
    for sql, wanted, answer in zip(asked, expected, options.binary.answers(database, [mode, *asked])[1:], strict=True):
        if isinstance(wanted, str):
            if answer.error is None:
                return f"{shown}\nDuckDB says {wanted}"
        elif answer.error is not None:
            return f"{shown}\n{sql}\n{answer.error}"
        elif wanted is not None and (wrong := difference(wanted, answer, False)):
            return f"{shown}\n{sql}\n{wrong}"
    settings = ["SET projections = off", *(f"SET projections = {name}" for name in COPY_NAMES[: len(projections)])]
    looks = [sql for setting in settings for sql in (setting, *LOOKS)]
    answers = iter(options.binary.answers(database, looks))
    for setting in settings:
        next(answers)
        for look, answer in zip(LOOKS, answers):
            wrong = answer.error or difference(Expected(connection.sql(look).to_arrow_table()), answer, False)
            if wrong:
                return f"{shown}\nat the end, {setting}: {look}\n{wrong}"
    return None
