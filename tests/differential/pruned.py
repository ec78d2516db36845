"""Random queries over star and snowflake schemas, and changes in between: whatever rules blocks out, whatever order a table lies
in, whichever of its projections is read, the rows are the same as those of a copy that lies as it was loaded, with nothing ruled out."""

import os
import random

# Several blocks of 65,536 rows.
ROWS = 270_000
# Statements of a case, between which tables change.
STEPS = 12

DIMENSION = """CREATE TABLE d (k BIGINT, r VARCHAR, y INTEGER, e BIGINT, t DATE, x DOUBLE, FOREIGN KEY (e) REFERENCES s (k){})"""
SNOWFLAKE = """CREATE TABLE s (k INTEGER, n VARCHAR, v DECIMAL(9,2))"""
# The names of projections, and the column of the fact table that a column of an order begins at.
PROJECTIONS = ("p", "q")
BEGINS = {"r": "k", "y": "k", "k.t": "k", "k.x": "k", "k.e.v": "k", "n": "e", "e.n": "e"}

FACT = """CREATE TABLE {} (id BIGINT, k BIGINT, e INTEGER, q INTEGER, w VARCHAR, z DOUBLE, b INTEGER,
FOREIGN KEY (k) REFERENCES d (k){}, FOREIGN KEY (e) REFERENCES s (k){})"""
# Hot rows are shown as segments that no file has.
HOT = "SELECT count(*) FROM forebay.segments WHERE table_name IN ('f', 'd') AND segment_id >= 549755813888"


class Case:
    """Makes the statements of case `number` of a seed."""

    def __init__(self, seed, number):
        self.random = random.Random(f"pruned:{seed}:{number}")
        # With most keys the rows that others refer to have several blocks, too.
        self.keys = self.random.choice([50, 700, 20_000, 150_000])
        self.repeated = self.random.choice([0, 0, 3])
        # Rows of tables with foreign keys that are enforced are not hot.
        self.is_hot = number % 2 == 0

    def choose(self, *items):
        return self.random.choice(items)

    def tables(self):
        """Both copies of the fact table, and what they refer to: keys without a partner, with several, and NULL."""
        n, spread = self.keys, self.choose(1, 1, 1000)
        yield from (f"DROP TABLE IF EXISTS {table}" for table in ("f", "g", "d", "s"))
        yield SNOWFLAKE
        yield f"INSERT INTO s SELECT i, 'name ' || (i % 7), i % 13 FROM range({max(5, n // 10)}) t(i)"
        enforced = " NOT ENFORCED" if self.is_hot else ""
        yield f"SET point_access = {'on' if self.is_hot else 'off'}"
        yield DIMENSION.format(enforced)
        yield (
            f"INSERT INTO d SELECT i * {spread}, CASE WHEN i % 23 = 0 THEN NULL ELSE 'R' || (i % 5) END, i % 7, "
            f"(i * 31) % {max(6, n // 9)}, DATE '2020-01-01' + CAST(i % 400 AS INTEGER), CASE WHEN i % 19 = 0 THEN 'nan' ELSE (i % 50) / 4 END "
            f"FROM range({n}) t(i) WHERE i % 17 <> 3"
        )
        if self.repeated:
            yield f"INSERT INTO d SELECT k, 'R9', y + 1, e, t, x FROM d WHERE k % {self.repeated} = 0"
        shuffled = self.choose("i", "(i * 7919) % 270011", "i // 97", "(i * i) % 100003")
        for copy in ("f", "g"):
            yield FACT.format(copy, enforced, enforced)
            yield (
                f"INSERT INTO {copy} SELECT i, CASE WHEN i % 101 = 0 THEN NULL ELSE (({shuffled}) % {n + 5}) * {spread} END, "
                f"i % {max(5, n // 10)}, ({shuffled}) % 60, 'w' || (({shuffled}) % 300), ({shuffled}) / 7.0, ({shuffled}) // 1000 FROM range({ROWS}) t(i)"
            )

    def layout(self):
        """Puts one copy into another order, or finds out what its blocks have."""
        columns = ["r", "y", "k.t", "n", "q", "w", "e.n", "k.x", "z", "k.e.v", "k", "id"]
        picked = self.random.sample(columns, self.choose(1, 2, 3))
        return self.choose(
            f"ALTER TABLE f CLUSTER BY ({', '.join(picked)})",
            f"ALTER TABLE f CLUSTER BY ({', '.join(picked)})",
            "ALTER TABLE f CLUSTER BY AUTO",
            self.projection(picked),
            self.projection(picked),
            self.projection(picked),
            f"ALTER TABLE f DROP PROJECTION IF EXISTS {self.choose(*PROJECTIONS)}",
            "OPTIMIZE TABLE f",
            "CHECKPOINT",
            "ANALYZE f",
            "ANALYZE TABLE f SIDEWAYS",
            "ANALYZE d",
            "ANALYZE TABLE d SIDEWAYS",
            f"ALTER TABLE d CLUSTER BY ({self.choose('t', 'y', 'k', 'e.v')})",
            f"ALTER TABLE f ALTER COLUMN {self.choose('k', 'q', 'w', 'id')} SET (bloom_filter = {self.choose('on', 'off', 'auto', 1, 4, 64)})",
        )

    def projection(self, order):
        """Adds a projection, of all columns or some."""
        columns = ""
        if self.random.random() < 0.4:
            needed = {BEGINS.get(column, column) for column in order}
            columns = f" ({', '.join(sorted(needed | set(self.random.sample(['id', 'k', 'e', 'q', 'w', 'z', 'b'], 3))))})"
        return f"CHECKPOINT; ALTER TABLE f ADD PROJECTION IF NOT EXISTS {self.choose(*PROJECTIONS)} (ORDER BY {', '.join(order)}){columns}"

    def predicate(self):
        number = self.random.randrange
        return self.choose(
            f"d.r = 'R{number(6)}'",
            f"d.r IN ('R{number(6)}', 'R9')",
            f"d.r <> 'R{number(5)}'",
            "d.r IS NULL",
            "d.r IS NOT NULL",
            f"d.r LIKE 'R{number(3)}%'",
            f"d.y = {number(9)}",
            f"d.y BETWEEN {number(4)} AND {number(8)}",
            f"d.t < DATE '2020-01-01' + {number(400)}",
            f"d.x > {number(13)}.5",
            f"s.n = 'name {number(8)}'",
            f"s.v >= {number(14)}.00",
            f"f.q = {number(61)}",
            f"f.q < {number(61)}",
            f"f.w = 'w{number(310)}'",
            f"f.id = {number(ROWS * 4)}",
            f"f.id IN ({number(ROWS)}, {number(ROWS)}, {number(ROWS)})",
            f"f.w IN ('w{number(310)}', 'w{number(310)}', 'x')",
            f"f.z > {number(40_000)}",
            f"f.b < {number(150)}",
            f"f.b > {number(270)}",
            f"f.k = {number(self.keys + 5)}",
        )

    def query(self):
        """A query of `f`; the same of `g` gives the same rows."""
        predicates = " AND ".join(self.predicate() for _ in range(self.choose(1, 1, 2, 3)))
        of_s = "s." in predicates
        join = self.choose("JOIN", "JOIN", "LEFT JOIN", "SEMI")
        if join == "SEMI" and not of_s:
            own, other = [], []
            for predicate in predicates.split(" AND "):
                (other if "d." in predicate else own).append(predicate)
            inner = " AND ".join(["d.k = f.k", *other]) if "BETWEEN" not in predicates else "d.k = f.k"
            if "BETWEEN" in predicates:
                own = []
            tables, where = "f", " AND ".join([f"{self.choose('', '', 'NOT ')}EXISTS (SELECT 1 FROM d WHERE {inner})", *own])
        else:
            kind = "JOIN" if join == "SEMI" else join
            tables, where = f"f {kind} d ON f.k = d.k", predicates
            if of_s:
                tables += f" {self.choose('JOIN', kind)} s ON {self.choose('d.e', 'f.e')} = s.k"
        result = self.choose("count(*), sum(f.id)", "count(*), min(f.id), max(f.id)", "f.q, count(*), sum(f.id)")
        group = " GROUP BY f.q" if result.startswith("f.q") else ""
        return f"SELECT {result} FROM {tables} WHERE {where}{group}"

    def change(self):
        """Statements that change the tables that others refer to, or both copies alike."""
        number = self.random.randrange
        if self.is_hot and self.random.random() < 0.5:
            return self.hot_rows()
        change = self.choose(
            f"UPDATE d SET r = 'R{number(6)}' WHERE y = {number(7)}",
            f"UPDATE d SET y = y + 1 WHERE k % 5 = {number(5)}",
            f"DELETE FROM d WHERE y = {number(9)}",
            f"INSERT INTO d SELECT k + 1, 'R{number(6)}', {number(9)}, e, t, x FROM d WHERE y = {number(7)}",
            f"UPDATE s SET n = 'name {number(8)}' WHERE k % 3 = {number(3)}",
            "INSERT INTO {} SELECT id + 1000000, k, e, q, w, z, b FROM {} WHERE q = %d AND id < 100000" % number(60),
            "DELETE FROM {} WHERE q = %d" % number(60),
            "UPDATE {} SET k = k + 1 WHERE q = %d" % number(60),
        )
        return [change.replace("{}", copy) for copy in ("f", "g")] if "{}" in change else [change]

    def hot_rows(self):
        """Statements that add rows which become hot where their table has no projections."""
        number = self.random.randrange
        if self.random.random() < 0.4:
            row = lambda: f"({number(self.keys)}, 'R{number(9)}', {number(12)}, {number(9)}, DATE '20{number(10, 30)}-02-01', NULL)"
            return [f"INSERT INTO d VALUES {', '.join(row() for _ in range(20))}"]
        row = lambda: f"({number(ROWS * 4)}, {self.choose(number(self.keys), 'NULL')}, {number(9)}, {number(70)}, 'w{number(400)}', NULL, {number(300)})"
        rows = ", ".join(row() for _ in range(50))
        return [f"INSERT INTO {copy} VALUES {rows}" for copy in ("f", "g")]

    def steps(self):
        """Statements; a pair is a query of both copies."""
        yield self.layout()
        if self.is_hot:
            yield from self.hot_rows()
        for _ in range(STEPS):
            kind = self.random.random()
            if kind < (0.2 if self.is_hot else 0.12):
                yield from self.change()
            elif kind < 0.25:
                yield self.layout()
            else:
                query = self.query()
                yield (query, query.replace("f.", "g.").replace("FROM f", "FROM g"))


def run(options, report):
    """`options`: binary, directory, seed, size (twelve statements are a case), query (one case, or None)."""
    cases = max(1, options.size // STEPS)
    report.suite(f"pruned scans, seed {options.seed}, {cases} cases of {STEPS} statements")
    database = os.path.join(options.directory, "pruned")
    hot = []
    for number in [options.query] if options.query is not None else range(cases):
        name = f"case {number} (--only pruned --seed {options.seed} --query {number})"
        report.check(name, judge(options, database, Case(options.seed, number), hot))
    if options.query is None:
        report.check("queries meet hot rows", None if 10 * sum(hot) > len(hot) else f"{sum(hot)} of {len(hot)} do")
    report.end()


def values(rows):
    """The values of rows, in an order of their own."""
    return sorted(str([value for _, value in row]) for row in rows)


def judge(options, database, case, hot):
    """What is wrong with the answers of a case. `hot` is told for each pair of queries whether there were hot rows."""
    statements, pairs = list(case.tables()), []
    for step in case.steps():
        if isinstance(step, str):
            statements.append(step)
            continue
        pruning = case.choose("all", "all", "all", "histogram", "bloom", "minmax")
        copies = case.choose("on", "on", "off", *PROJECTIONS)
        statements += [f"SET projections = '{copies}'", f"SET pruning = '{pruning}'", step[0], HOT, "SET pruning = 'none'", step[1]]
        pairs.append(len(statements) - 1)
    answers = options.binary.answers(database, statements)
    for statement, answer in zip(statements, answers):
        if answer.error is not None:
            return f"{statement}\n{answer.error}"
    for place in pairs:
        pruned, plain = (values(answers[at].rows) for at in (place - 3, place))
        hot.append(answers[place - 2].rows[0][0][1] != "0")
        if pruned != plain:
            shown = "\n".join(statements[: place + 1])
            return f"{shown}\n{len(pruned)} and {len(plain)} rows: {pruned[:3]} and {plain[:3]}"
    return None
