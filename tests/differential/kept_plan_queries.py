"""Scripts of queries that are asked again and again while their tables change, in SQL whose meaning is the same in DuckDB and in
Forebay: what plans may take for granted of rows, and changes that keep it or break it.
"""

import random
import re

from join_queries import Generator, Source
from join_tables import COLUMNS as JOINED_COLUMNS

# How often the queries of a script are asked before anything changes; changes, and queries after each of them.
FIRST, CHANGES, ASKED = 2, 12, 5

F = {
    "id": "BIGINT",
    "a": "INTEGER",
    "b": "BIGINT",
    "d": "DECIMAL(12, 2)",
    "h": "DECIMAL(38, 3)",
    "day": "DATE",
    "moment": "TIMESTAMP",
    "u": "UINTEGER",
    "x": "DOUBLE",
    "yes": "BOOLEAN",
    "s": "VARCHAR",
    "g": "SMALLINT",
}
OF_ROW = {
    "id": "n",
    "a": "n % 90",
    "b": "n % 7 - 3",
    "d": "(n % 500) / 4.0",
    "h": "n % 40",
    "day": "DATE '1995-01-01' + CAST(n % 300 AS INTEGER)",
    "moment": "TIMESTAMP '1995-01-01 00:30:00' + to_minutes(CAST(n % 3000 AS INTEGER))",
    "u": "n % 12",
    "x": "(n % 50) * 0.25",
    "yes": "n % 4 = 1",
    "s": "'s' || n % 11",
    "g": "n % 5",
}
# Beyond what rows have at first: arithmetic overflows, casts fail, keys lie far apart, strings are long.
BEYOND = {
    "a": ["91", "2147483647", "-2147483648", "100000"],
    "b": ["4", "3037000500", "-9223372036854775807", "4294967296", "9223372036854775807", "1000000", "-4000000000000000", "40000"],
    "d": ["9999999999.99", "-9999999999.99", "130.5", "0.01"],
    "h": ["99999999999999999999.5", "-9223372036854775809", "10000000000000000", "41"],
    "day": ["DATE '9999-12-31'", "DATE '0001-01-01'", "DATE '1996-01-01'"],
    "moment": ["TIMESTAMP '1969-12-31 23:59:59.5'", "TIMESTAMP '0001-01-01 00:00:00'", "TIMESTAMP '2200-01-01 12:00:00'"],
    "u": ["4294967295", "13", "70000"],
    "x": ["'nan'", "'inf'", "-0.0", "1000000.5"],
    "s": ["'s' || repeat('y', 300)", "''", "'ä'"],
    "g": ["32767", "-32768", "6"],
}
NULLABLE = [*BEYOND, "yes"]
RESET = "a = 3, b = 1, d = 0.5, h = 2, day = DATE '1995-01-01', moment = TIMESTAMP '1995-01-01 00:00:00', u = 1, x = 0.5, yes = true, s = 's1', g = 0"

# What each session has: a table of its own, and statements that are prepared.
SETUP = [
    "CREATE OR REPLACE TEMP TABLE own AS SELECT n AS k, n % 6 AS z FROM range(40) AS r(n)",
    "PREPARE sums AS SELECT count(*), sum(a * b), min(h) FROM f WHERE g = $1 OR b > $2",
    "PREPARE joined AS SELECT e.name, count(f.id), sum(f.a + e.x) FROM f JOIN e ON f.a = e.k WHERE f.day >= $1 GROUP BY e.name",
]

QUERIES = [
    # Sums, whose width and checks the bounds and the number of rows decide.
    "SELECT g, count(*), sum(a), sum(b), sum(a * b), min(day), max(d) FROM f GROUP BY g",
    "SELECT sum(a * b + id), count(b), sum(u * g), sum(u) FROM f WHERE a < 80",
    "SELECT sum(b * b * 3), count(*) FROM f WHERE id >= 0",
    "SELECT sum(b * 3000000000000000), sum(a * 100000000000000), sum(d * 500000000000) FROM f WHERE id >= 0",
    "SELECT g, sum(b * 3000000000000000 + 7), count(*) FROM f GROUP BY g",
    "SELECT sum(b + 5), sum(b - 7), sum(9 - b), sum(b), count(b) FROM f WHERE id >= 0",
    "SELECT s, sum(d * a), sum(d * g), count(DISTINCT a) FROM f GROUP BY s",
    "SELECT g, sum(h), sum(h * 2 + a), min(h), max(h), sum(-h) FROM f GROUP BY g",
    "SELECT avg(CAST(d AS DOUBLE)), avg(b), avg(a), avg(d), sum(d * (1 - d)) FROM f WHERE id >= 0",
    "SELECT yes, sum(-b), sum(abs(a)), max(u), min(b // 2), sum(b % 5) FROM f GROUP BY yes",
    "SELECT g, sum(b // g), sum(a % g), sum(b // -1), count(id // b) FROM f GROUP BY g",
    "SELECT sum(CASE WHEN b > 2 THEN b * 1000 ELSE a END), sum(a) FILTER (WHERE u > 5), count(*) FILTER (WHERE x > 2) FROM f",
    "SELECT g, sum(x), min(x), max(x), avg(x), count(x) FROM f GROUP BY g",
    # Casts that cannot fail within the bounds.
    "SELECT g, max(CAST(b AS INTEGER)), sum(CAST(b AS SMALLINT)) FROM f GROUP BY g",
    "SELECT sum(CAST(a AS DECIMAL(9, 2))), max(CAST(d AS INTEGER)), sum(CAST(u AS SMALLINT)) FROM f WHERE id >= 0",
    "SELECT g, sum(CAST(h AS BIGINT)), max(CAST(h AS DECIMAL(12, 2))), sum(CAST(id AS DOUBLE)) FROM f GROUP BY g",
    "SELECT CAST(day AS TIMESTAMP) AS t, count(*), sum(CAST(yes AS INTEGER)) FROM f GROUP BY 1",
    # Moments, whose parts are cheap after 1970.
    "SELECT extract(year FROM moment), extract(hour FROM moment), count(*) FROM f GROUP BY 1, 2",
    "SELECT date_trunc('hour', moment) AS t, count(*), max(moment), sum(extract(minute FROM moment)) FROM f GROUP BY 1",
    "SELECT extract(year FROM day) AS y, extract(month FROM day) AS m, count(*), max(day) FROM f GROUP BY 1, 2",
    "SELECT count(*), sum(a) FROM f WHERE date_trunc('day', moment) = TIMESTAMP '1995-01-01 00:00:00' OR extract(day FROM moment) = 31",
    # Columns without NULLs.
    "SELECT count(*), count(a), count(b), count(d), count(day), count(s), count(yes) FROM f WHERE id >= 0",
    "SELECT coalesce(sum(a + b * 2), 0), sum(CASE WHEN b IS NULL THEN 1 ELSE 0 END), count(coalesce(s, 'none')) FROM f WHERE g IN (0, 2)",
    "SELECT coalesce(b, -1) AS k, count(*), bool_and(a IS NOT NULL), bool_or(yes) FROM f GROUP BY 1",
    "SELECT count(*), sum(x) FROM e WHERE k NOT IN (SELECT a FROM f)",
    "SELECT count(*), sum(id) FROM f WHERE a NOT IN (SELECT k FROM e WHERE x > 4)",
    "SELECT count(*), sum(e.x) FROM e JOIN f ON e.k IS NOT DISTINCT FROM f.b",
    "SELECT a, b FROM f WHERE id % 3 = 0 INTERSECT SELECT k, x FROM e",
    "SELECT k FROM e EXCEPT SELECT b FROM f",
    "SELECT count(*) FROM f WHERE b IS DISTINCT FROM a AND (s IS NULL OR s <> 's4')",
    "SELECT count(*), sum(id) FROM f WHERE nullif(g, 2) IS NULL AND coalesce(yes, true)",
    # Lists of which the bounds rule out values.
    "SELECT g, count(*) FROM f WHERE b IN (1, 2, 3037000500, 40000) OR a IN (91, 100000, 7) GROUP BY g",
    "SELECT count(*), sum(CASE WHEN b IN (4, 1000000) THEN 1 WHEN u IN (13, 70000) THEN 2 ELSE 0 END) FROM f WHERE g NOT IN (6, 3, -32768)",
    # Groups, whose keys lie close together or do not.
    "SELECT day, s, count(*), min(b), max(b) FROM f WHERE day >= DATE '1995-03-01' GROUP BY day, s",
    "SELECT a, b, count(*) FROM f WHERE s = 's3' OR s IS NULL GROUP BY a, b HAVING count(*) > 0",
    "SELECT b, yes, count(DISTINCT s), sum(a), count(*) FROM f GROUP BY b, yes",
    "SELECT h, count(*), min(s), max(s) FROM f GROUP BY h HAVING sum(a) > 10",
    "SELECT moment, u, count(*) FROM f GROUP BY moment, u",
    "SELECT s, g, count(*), sum(b), min(a) FROM f GROUP BY ROLLUP (s, g)",
    "SELECT DISTINCT s, yes FROM f WHERE length(s) > 1",
    "SELECT length(s), substr(s, 1, 2), count(*) FROM f WHERE s LIKE 's%' GROUP BY 1, 2",
    # What metadata tells.
    "SELECT count(*), min(id), max(id), min(day), max(day), count(d), count(s) FROM f",
    "SELECT max(a), min(b) FROM f",
    "SELECT count(*) FROM f",
    "SELECT count(b), max(moment), min(u), max(yes) FROM f",
    "SELECT max(s), min(h), max(x) FROM f",
    # Joins.
    "SELECT e.name, count(*), sum(f.a), sum(f.b * e.x) FROM f JOIN e ON f.a = e.k GROUP BY e.name",
    "SELECT f.g, sum(e.x), count(e.name), count(*) FROM f LEFT JOIN e ON f.id = e.k GROUP BY f.g",
    "SELECT e.k, count(*), count(f.a), sum(f.b), max(f.d), min(f.s) FROM e LEFT JOIN f ON e.k = f.a GROUP BY e.k",
    "SELECT e.x, count(DISTINCT f.b), sum(f.a), count(f.yes) FROM e LEFT JOIN f ON e.x = f.u GROUP BY e.x",
    "SELECT count(*), sum(x) FROM e WHERE k IN (SELECT a FROM f WHERE g = 1)",
    "SELECT count(*), sum(x) FROM e WHERE NOT EXISTS (SELECT 1 FROM f WHERE f.b = e.k AND f.g < 3)",
    "SELECT count(*), sum(id) FROM f WHERE g = 3 OR EXISTS (SELECT 1 FROM e WHERE e.k = f.a)",
    "SELECT n.k, sum(n.k * f.a) FROM n JOIN f ON n.k = f.a GROUP BY n.k",
    "SELECT count(*), sum(n.k), sum(e.x * f.a) FROM n JOIN e ON n.k = e.k JOIN f ON f.a = e.k AND f.s <> e.name",
    "SELECT l.s, count(*), sum(l.a - r.b) FROM f l JOIN f r ON l.id = r.id + 1 AND l.day = r.day + 1 GROUP BY l.s",
    "SELECT own.z, count(*), sum(f.b) FROM own JOIN f ON own.k = f.a GROUP BY own.z",
    "SELECT count(*), sum(f.a), sum(e.x) FROM f FULL JOIN e ON f.b = e.k",
    # Subqueries, and what DataFusion runs above or instead of pipelines.
    "SELECT count(*) FROM f WHERE b = (SELECT max(x) FROM e) OR a > (SELECT avg(k) FROM e)",
    "SELECT count(*), sum(f.a) FROM f WHERE f.b < (SELECT max(e.x) FROM e WHERE e.k = f.a)",
    "SELECT g, (SELECT count(*) FROM e WHERE e.x = f.g) AS c, sum(a) FROM f GROUP BY g",
    "SELECT count(*), sum(k) FROM n WHERE k = (SELECT min(k) FROM e)",
    "SELECT count(*), sum(k), max(k) FROM n",
    "SELECT id, a, b, s FROM f WHERE b > 2 AND a IS NOT NULL ORDER BY id, a, b, s LIMIT 20",
    "SELECT * FROM f WHERE id % 17 = 3",
    "SELECT upper(s), count(*), sum(a) FROM f WHERE s || 'x' <> 's3x' GROUP BY 1",
    "SELECT g, id, sum(a) OVER (PARTITION BY g ORDER BY id) AS t FROM f WHERE id < 40",
    "SELECT g, sum(a) AS t FROM f GROUP BY g UNION ALL SELECT x, max(k) FROM e GROUP BY x",
    "SELECT m.g, count(*), sum(m.t) FROM (SELECT g, u, sum(b) AS t FROM f GROUP BY g, u) m JOIN e ON m.u = e.x GROUP BY m.g",
    "SELECT count(*), sum(l.t * r.t) FROM (SELECT g, count(*) AS t FROM f GROUP BY g) l JOIN (SELECT x, count(*) AS t FROM e GROUP BY x) r ON l.g = r.x",
    "SELECT median(a), count(*) FROM f WHERE g > 1",
    # Views, macros, and columns that are made of values.
    "SELECT * FROM totals",
    "SELECT count(*), sum(t.total * e.x) FROM totals t JOIN e ON t.g = e.x",
    "SELECT g, sum(twice(a)), max(twice(b)) FROM f GROUP BY g",
    "SELECT * FROM (PIVOT (SELECT yes, s, a FROM f) ON yes USING sum(a) GROUP BY s)",
    "EXECUTE sums(1, 3)",
    "EXECUTE sums(4, 100)",
    "EXECUTE joined(DATE '1995-02-01')",
]

VIEWS = [
    "CREATE OR REPLACE VIEW totals AS SELECT g, sum(a * b) AS total, count(yes) AS answers FROM f GROUP BY g",
    "CREATE OR REPLACE VIEW totals AS SELECT u AS g, max(b) AS total, count(*) AS answers FROM f WHERE a > 3 GROUP BY u",
]
MACROS = ["CREATE OR REPLACE MACRO twice(v) AS v * 2", "CREATE OR REPLACE MACRO twice(v) AS v + v + 1"]


def is_query(statement):
    return statement.startswith(("SELECT", "WITH", "EXECUTE"))


def is_known_to_duckdb(statement):
    return not statement.startswith("OPTIMIZE")


def script(chance, queries, change):
    """The queries, between changes; `change` gives one and a name that it concerns. Queries with that name come first."""
    statements = FIRST * queries
    for _ in range(CHANGES):
        changes, name = change()
        statements += changes
        concerned = [query for query in queries if re.search(rf"\b{name}\b", query)]
        asked = chance.sample(concerned, min(len(concerned), ASKED - 1))
        statements += asked + chance.sample([query for query in queries if query not in asked], ASKED - len(asked))
    return statements


class OfFacts:
    """Case `number` of a seed, over tables whose rows know little at first: few values, close together, no NULL."""

    def __init__(self, seed, number):
        self.random = random.Random(f"{seed}:{number}")
        self.next_id = self.added = 0

    def script(self):
        start = [self.make_f(self.random.choice([0, 20, 300, 3000, 3000])), self.make_e(), "CREATE TABLE n (k BIGINT)", VIEWS[0], MACROS[0]]
        self.queries = self.random.sample(QUERIES, 9)
        return start, SETUP, script(self.random, self.queries, self.change)

    def rows(self, count):
        first, self.next_id = self.next_id, self.next_id + count
        return f"SELECT {', '.join(OF_ROW.values())} FROM range({first}, {self.next_id}) AS r(n)"

    def make_f(self, count):
        values = ", ".join(f"CAST(v.{name} AS {kind}) AS {name}" for name, kind in F.items())
        return f"CREATE OR REPLACE TABLE f AS SELECT {values} FROM ({self.rows(count)}) AS v({', '.join(F)})"

    def make_e(self):
        keys = self.random.choice(["n", "n * 3", "n * 1000000007", "n - 20"])
        return f"CREATE OR REPLACE TABLE e AS SELECT {keys} AS k, n % 13 AS x, 'n' || n % 4 AS name FROM range(60) AS r(n)"

    def insert(self, **values):
        row = {**self.plain(), "id": str(self.next_id), **values}
        self.next_id += 1
        return f"INSERT INTO f ({', '.join(row)}) VALUES ({', '.join(row.values())})"

    @staticmethod
    def plain():
        """The values of a row that breaks nothing."""
        return {name: value.strip() for name, _, value in (part.partition("=") for part in RESET.split(", "))}

    def append(self, count):
        return f"INSERT INTO f ({', '.join(F)}) {self.rows(count)}"

    def named(self, columns):
        """One of the columns, one more likely that many queries name."""
        return self.random.choices(columns, [0.2 + sum(bool(re.search(rf"\b{name}\b", query)) for query in self.queries) for name in columns])[0]

    def alike(self, count):
        """Many rows that are far from zero together."""
        first, self.next_id = self.next_id, self.next_id + count
        values = {**self.plain(), "a": "89", "b": "3", "d": "124.75", "u": "11", "id": "n"}
        return f"INSERT INTO f ({', '.join(values)}) SELECT {', '.join(values.values())} FROM range({first}, {self.next_id}) AS r(n)"

    def change(self):
        """Changes, and what they concern: a column or a table."""
        pick = self.random.choice
        column, empty = self.named(list(BEYOND)), self.named(NULLABLE)
        beyond = pick(BEYOND[column])
        far = f"b NOT BETWEEN -100 AND 100 OR a NOT BETWEEN 0 AND 90 OR h > 100 OR h < 0 OR moment < TIMESTAMP '1970-01-01' OR {empty} IS NULL"
        key = pick(["7", "900", "-9223372036854775808", "5000000000", "NULL"])
        value = pick(["1", "9223372036854775807", "NULL", "-40"])
        makes = [
            (4, "f", lambda: [self.insert()]),
            (3, "f", lambda: [self.append(pick([1, 10, 100]))]),
            (1, "f", lambda: [self.append(pick([2500, 6000, 70000]))]),
            (3, "f", lambda: [self.alike(pick([600, 1100]))]),
            (12, column, lambda: [self.insert(**{column: beyond})]),
            (5, empty, lambda: [self.insert(**{empty: "NULL"})]),
            (4, column, lambda: [f"UPDATE f SET {column} = {beyond} WHERE id % {pick([7, 90, 1000])} = {pick([0, 1, 3])}"]),
            (1, empty, lambda: [f"UPDATE f SET {empty} = NULL WHERE id % 50 = 3"]),
            (6, empty, lambda: [f"UPDATE f SET {RESET} WHERE {far}"]),
            (2, "f", lambda: [f"DELETE FROM f WHERE id % {pick([2, 3, 20])} = 1"]),
            (1, "f", lambda: [pick(["DELETE FROM f", "TRUNCATE f", "DELETE FROM f WHERE id > 100"])]),
            (3, "e", lambda: [f"INSERT INTO e VALUES ({key}, {value}, {pick(['NULL', repr('new')])})"]),
            (1, "e", lambda: [pick(["DELETE FROM e WHERE k % 2 = 0", "UPDATE e SET k = x, x = x + 1", "UPDATE e SET x = NULL WHERE name = 'n1'"])]),
            (1, "e", lambda: [self.make_e()]),
            (1, "f", lambda: [self.make_f(pick([0, 50, 2000]))]),
            (2, "n", lambda: [f"INSERT INTO n VALUES ({pick(['1', '40', 'NULL', '9223372036854775807'])})"]),
            (1, "n", lambda: [pick(["DELETE FROM n", "INSERT INTO n SELECT n FROM range(1200) AS r(n)"])]),
            (2, empty, lambda: self.alter(empty)),
            (1, "totals|twice", lambda: [pick(VIEWS + MACROS)]),
            (1, "f", lambda: [pick(["CHECKPOINT", "OPTIMIZE TABLE f"])]),
        ]
        weights = [weight for weight, _, _ in makes]
        _, name, make = self.random.choices(makes, weights)[0]
        return make(), f"({name})"

    def alter(self, column):
        self.added += 1
        name = f"more{self.added}"
        return self.random.choice(
            [
                [f"ALTER TABLE f ADD COLUMN {name} BIGINT DEFAULT {self.random.choice(['7', 'NULL'])}", f"UPDATE f SET {name} = 8 WHERE g = 1"],
                # Rows that are older than a column have its default.
                ["ALTER TABLE f DROP COLUMN b", f"ALTER TABLE f ADD COLUMN b BIGINT DEFAULT {self.random.choice(['2', '3037000500', 'NULL'])}"],
                [f"DELETE FROM f WHERE {column} IS NULL", f"ALTER TABLE f ALTER COLUMN {column} SET NOT NULL", self.insert(), f"ALTER TABLE f ALTER COLUMN {column} DROP NOT NULL", self.insert(**{column: "NULL"})],
                ["ALTER TABLE e RENAME TO old_e", self.make_e(), "DROP TABLE old_e"],
            ]
        )


class OfJoins:
    """Case `number` of a seed: random joins, as those of the suite `joins`, over tables of which rows come and go."""

    NAMES = {"none": 5, "one": 3, "void": 3, "few": 15, "dim": 30, "big": 20, "dup": 12}
    # What the rows of a table have in common at first.
    NARROW = ["i % 3 = 0", "i < 10", "w BETWEEN -4000000000000000 AND 4000000000000000", "abs(CAST(q AS BIGINT)) <= 1000", "o BETWEEN 0 AND 1000",
        "k IS NOT NULL AND l IS NOT NULL", "v < 100", "d > 0 AND e < 50", "m < DATE '1996-03-01'", "s <> 'key 7'", "z IS NOT NULL", "b"]

    def __init__(self, generator, seed, number):
        self.random = random.Random(f"joins:{seed}:{number}")
        self.generator, self.first = generator, number * 1000

    def script(self):
        pick = self.random.sample
        start = [self.make(name, pick(self.NARROW, self.random.choice([0, 1, 2, 2]))) for name in self.NAMES]
        queries = [self.generator.query(self.first + place).text() for place in range(8)]
        return start, [], script(self.random, queries, self.change)

    def make(self, name, conditions):
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        return f"CREATE OR REPLACE TABLE {name} AS SELECT * FROM '{self.generator.tables[name].path}'{where}"

    def change(self):
        pick = self.random.choice
        names = list(self.NAMES)
        name, other = (self.random.choices(names, self.NAMES.values())[0] for _ in range(2))
        column = pick([column for column in JOINED_COLUMNS if column.name != "i"])
        self.generator.random = self.random
        where = self.generator.predicate([self.generator.bare(name)])
        value = pick([*column.constants[:4], "NULL"])
        some = f"i % {pick([3, 11, 40])} = {pick([0, 1, 2])}"
        makes = [
            (6, lambda: f"INSERT INTO {name} SELECT * FROM '{self.generator.tables[other].path}' WHERE {some} AND i < 700"),
            (4, lambda: f"INSERT INTO {name} SELECT * FROM '{self.generator.tables[other].path}' WHERE i = {pick([0, 1, 5, 20])}"),
            (4, lambda: f"UPDATE {name} SET {column.name} = {value} WHERE {pick([some, where])}"),
            (2, lambda: f"DELETE FROM {name} WHERE {pick([some, where])}"),
            (1, lambda: f"DELETE FROM {name}"),
            (1, lambda: self.make(name, self.random.sample(self.NARROW, 1))),
            (1, lambda: "CHECKPOINT"),
        ]
        weights = [weight for weight, _ in makes]
        _, make = self.random.choices(makes, weights)[0]
        return [make()], name


class SmallJoins(Generator):
    """Random joins of small tables."""

    def table(self, most=None):
        names = [name for name in OfJoins.NAMES if most is None or self.tables[name].shape.rows <= most]
        return self.of_table(self.random.choices(names, [OfJoins.NAMES[name] for name in names])[0])

    def bare(self, name):
        """The table without another name, as DELETE has it."""
        source = self.of_table(name)
        for field in source.fields:
            field.sql = field.column.name
        return Source(name, name, source.rows, source.fields)
