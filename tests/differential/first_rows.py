"""Random limits over random orders, joins and groups, and changes in between: whether columns are fetched behind the limit or read
where they are scanned, the rows are the same, in the same order."""

import os
import random

ROWS = 150_000
# Statements of a case, between which tables change.
STEPS = 12

PROJECTIONS = ("p", "q")
# Hot rows are shown as segments that no file has.
HOT = "SELECT count(*) FROM forebay.segments WHERE segment_id >= 549755813888"

# Columns of a kind each, that every table has besides its keys.
SHAPES = {
    "plain": "BIGINT, (i * 7919) % 1000003",
    "few": "VARCHAR, CASE WHEN i % 11 = 0 THEN NULL ELSE 'few ' || (i * 31 % 97) END",
    "text": "VARCHAR, CASE WHEN i % 7 = 0 THEN NULL WHEN i % 13 = 0 THEN '' ELSE 'text number ' || (i * 7919 % 99991) || repeat('x', CAST(i % 30 AS INTEGER)) END",
    "runs": "INTEGER, CASE WHEN i // 5000 % 5 = 3 THEN NULL ELSE i // 1000 END",
    "ratio": "DOUBLE, CASE WHEN i % 5 = 0 THEN NULL ELSE i / 7.0 END",
    "price": "DECIMAL(12,2), CAST((i * 37) % 99999 AS DECIMAL(12,2)) / 100",
    "day": "DATE, DATE '1990-01-01' + CAST(i * 31 % 9000 AS INTEGER)",
    "constant": "VARCHAR, 'the same in all rows'",
}
COLUMNS = tuple(SHAPES)


class Case:
    """Makes the statements of case `number` of a seed."""

    def __init__(self, seed, number):
        self.random = random.Random(f"first_rows:{seed}:{number}")
        self.keys = self.random.choice([3000, 70_000, 140_000])
        self.spread = self.random.choice([1, 1, 977])
        self.is_hot = number % 2 == 0
        # Times that rows were added, each with numbers of its own.
        self.added = 0

    def choose(self, *items):
        return self.random.choice(items)

    def some(self, items, most):
        return self.random.sample(items, self.random.randint(1, min(most, len(items))))

    def tables(self):
        """Facts, whose keys lead to a dimension, to nothing, or are NULL."""
        yield from (f"DROP TABLE IF EXISTS {table}" for table in ("f", "d"))
        declared = ", ".join(f"{name} {shape.split(',')[0] if name != 'price' else 'DECIMAL(12,2)'}" for name, shape in SHAPES.items())
        values = ", ".join(shape.partition(", ")[2] for shape in SHAPES.values())
        # Rows that are there become hot in tables with a primary key.
        key = " PRIMARY KEY" if self.is_hot else self.choose(" PRIMARY KEY", " UNIQUE", "")
        spread = self.spread
        yield f"SET point_access = {'on' if self.is_hot else 'off'}"
        yield f"SET force_encoding = {self.choose('none', 'none', 'uncompressed', 'dictionary', 'run_length')}"
        yield f"SET chunk_blocks = {self.choose('auto', '1', '8')}"
        yield f"CREATE TABLE d (k BIGINT{key}, {declared})"
        yield f"INSERT INTO d SELECT i * {spread}, {values} FROM range({self.keys}) t(i)"
        yield f"CREATE TABLE f (id BIGINT, k BIGINT, {declared})"
        shuffled = self.choose("i", "(i * 7919) % 150001", "i // 97")
        yield (
            f"INSERT INTO f SELECT i, CASE WHEN i % 101 = 0 THEN NULL ELSE (({shuffled}) % {self.keys + 5}) * {spread} END, {values} "
            f"FROM range({ROWS}) t(i)"
        )

    def layout(self):
        """Puts a table into another order, or adds another copy of its rows."""
        table = self.choose("f", "f", "d")
        order = ", ".join(self.some(["k", "plain", "few", "day", "price"], 2))
        columns = ""
        if self.random.random() < 0.5:
            columns = f" ({', '.join(sorted(set(order.split(', ')) | set(self.some(['k', *COLUMNS], 6)) | ({'id'} if table == 'f' else set())))})"
        projected = [
            f"ALTER TABLE {table} ADD PROJECTION IF NOT EXISTS {self.choose(*PROJECTIONS)} (ORDER BY {order}){columns}",
            f"ALTER TABLE {table} ADD PROJECTION IF NOT EXISTS {self.choose(*PROJECTIONS)} (ORDER BY {order})",
            f"ALTER TABLE {table} DROP PROJECTION IF EXISTS {self.choose(*PROJECTIONS)}",
        ]
        # Rows of tables with projections are not hot.
        return self.choose(
            f"ALTER TABLE {table} CLUSTER BY ({order})",
            *([] if self.is_hot else projected),
            f"OPTIMIZE TABLE {table}",
            f"ALTER TABLE f ADD COLUMN IF NOT EXISTS late VARCHAR DEFAULT 'older than this'",
        )

    def change(self):
        number = self.random.randrange
        self.added += 1
        if self.is_hot and self.random.random() < 0.6:
            return self.hot_rows()
        return self.choose(
            f"DELETE FROM f WHERE plain % 50 = {number(50)}",
            f"DELETE FROM d WHERE plain % 50 = {number(50)}",
            f"UPDATE f SET text = 'changed ' || id WHERE runs = {number(140)}",
            f"UPDATE d SET few = NULL WHERE runs = {number(30)}",
            f"INSERT INTO f BY NAME SELECT id + {ROWS * self.added} AS id, k, plain, text, day FROM f WHERE runs = {number(140)} AND id < {ROWS}",
        )

    def hot_rows(self):
        """A statement that adds hot rows, or makes rows hot."""
        number = self.random.randrange
        first = number(self.keys)
        among = f"k BETWEEN {first * self.spread} AND {(first + number(1, 400)) * self.spread}"
        key = self.choose(first * self.spread, "NULL")
        values = f"'few {number(99)}', 'text number {number(99_991)}', {number(150)}, NULL, {number(1000)}.25, DATE '2001-02-03', NULL"
        rows = ", ".join(f"({ROWS * (self.added + 100) + at}, {key}, {number(1_000_003)}, {values})" for at in range(30))
        added = f"INSERT INTO f (id, k, {', '.join(COLUMNS)}) VALUES {rows}"
        return self.choose(
            added,
            f"UPDATE d SET text = 'hot', runs = 7 WHERE {among}",
            f"UPDATE d SET few = NULL, plain = {number(99)} WHERE {among}",
            f"DELETE FROM d WHERE {among}",
        )

    def predicate(self, table):
        number = self.random.randrange
        return table + self.choose(
            f".plain < {number(1_000_003)}",
            f".few = 'few {number(99)}'",
            ".few IS NULL",
            f".runs BETWEEN {number(100)} AND {number(150)}",
            f".day > DATE '1990-01-01' + {number(9000)}",
            f".text LIKE '%{number(100)}%'",
            f".ratio > {number(25_000)}",
            f".price < {number(1000)}",
        )

    def order(self, tables):
        """Keys of an order, whose last one tells all rows apart."""
        keys = [f"{self.choose(*tables)}.{column}" for column in self.some(COLUMNS, 2)] if self.random.random() < 0.8 else []
        keys = [f"{key}{self.choose('', ' DESC', ' NULLS FIRST', ' DESC NULLS LAST')}" for key in keys]
        return ", ".join([*keys, f"f.id{self.choose('', ' DESC')}"])

    def limit(self):
        return f"LIMIT {self.choose(1, 1, 2, 3, 5, 20)}{self.choose('', '', f' OFFSET {self.random.randrange(7)}')}"

    def query(self):
        return self.choose(self.rows, self.rows, self.joined, self.joined, self.grouped, self.nested)()

    def rows(self):
        where = f" WHERE {self.predicate('f')}" if self.random.random() < 0.6 else ""
        columns = self.choose("f.*", ", ".join(f"f.{column}" for column in self.some(("id", "k", *COLUMNS), 6)), "f.id, upper(f.text), f.day, f.few")
        return f"SELECT {columns} FROM f{where} ORDER BY {self.order(['f'])} {self.limit()}"

    def joined(self):
        join = self.choose("JOIN d ON f.k = d.k", "LEFT JOIN d ON f.k = d.k", f"LEFT JOIN d ON f.k = d.k AND {self.predicate('d')}", "SEMI JOIN d ON f.k = d.k")
        tables = ["f"] if "SEMI" in join else ["f", "d"]
        columns = ", ".join(f"{table}.{column} AS {table}_{column}" for table in tables for column in self.some(COLUMNS, 5))
        where = f" WHERE {self.predicate(self.choose(*tables))}" if self.random.random() < 0.6 else ""
        # Keys that are there twice have rows which only these tell apart.
        return f"SELECT {columns}, f.id FROM f {join}{where} ORDER BY {self.order(tables)} {self.limit()}"

    def grouped(self):
        """Groups by a key, of which other columns may follow."""
        others = self.some(COLUMNS, 5)
        columns = ", ".join(f"d.{column}" for column in others)
        join = self.choose("JOIN", "JOIN", "LEFT JOIN")
        where = f" WHERE {self.predicate(self.choose('f', 'd'))}" if self.random.random() < 0.5 else ""
        first = self.choose("n DESC", "total DESC NULLS LAST", "total NULLS FIRST", "n")
        key = self.choose("d.k", "d.k", "f.k")
        return (
            f"SELECT {key} AS key, {columns}, count(*) AS n, sum(f.plain) AS total FROM f {join} d ON f.k = d.k{where} "
            f"GROUP BY {key}, {columns} ORDER BY {first}, key {self.limit()}"
        )

    def nested(self):
        inner = f"SELECT f.* FROM f WHERE {self.predicate('f')} ORDER BY {self.order(['f'])} {self.limit()}"
        return self.choose(
            f"SELECT count(*), min(text), max(day) FROM ({inner}) x",
            f"SELECT x.id, x.text, d.few, d.day FROM ({inner}) x LEFT JOIN d ON x.k = d.k ORDER BY x.id, d.few, d.day LIMIT 4",
            f"WITH x AS ({inner}) SELECT a.id, a.text, b.few FROM x a JOIN x b ON a.id = b.id ORDER BY a.id LIMIT 3",
        )

    def steps(self):
        """Statements; a list is a query."""
        for _ in range(self.choose(0, 1, 2)):
            yield self.layout()
        if self.is_hot:
            yield self.hot_rows()
        for _ in range(STEPS):
            kind = self.random.random()
            if kind < (0.2 if self.is_hot else 0.12):
                yield self.change()
            elif kind < 0.25:
                yield self.layout()
            else:
                yield [self.query()]


def run(options, report):
    """`options`: binary, directory, seed, size (twelve statements are a case), query (one case, or None)."""
    cases = max(1, options.size // STEPS)
    report.suite(f"first rows, seed {options.seed}, {cases} cases of {STEPS} statements")
    database = os.path.join(options.directory, "first_rows")
    hot = []
    for number in [options.query] if options.query is not None else range(cases):
        name = f"case {number} (--only first_rows --seed {options.seed} --query {number})"
        report.check(name, judge(options, database, Case(options.seed, number), hot))
    if options.query is None:
        report.check("queries meet hot rows", None if 10 * sum(hot) > len(hot) else f"{sum(hot)} of {len(hot)} do")
    report.end()


def values(rows):
    return [str([value for _, value in row]) for row in rows]


def judge(options, database, case, hot):
    """What is wrong with the answers of a case. `hot` is told for each query whether there were hot rows."""
    statements, queries = list(case.tables()), []
    for step in case.steps():
        if isinstance(step, str):
            statements.append(step)
            continue
        settings = [
            f"SET projections = '{case.choose('on', 'on', 'off', *PROJECTIONS)}'",
            f"SET execution = {case.choose('compiled', 'compiled', 'datafusion', 'interpreter')}",
            f"SET cache_size = '{case.choose('all', 'all', '64KB')}'",
        ]
        statements += [*settings, "SET late_materialization_max_rows = 10000", *step, HOT, "SET late_materialization_max_rows = 0", *step]
        queries.append(len(statements) - 1)
    answers = options.binary.answers(database, statements)
    for statement, answer in zip(statements, answers):
        if answer.error is not None:
            return f"{statement}\n{answer.error}"
    for place in queries:
        late, early = (values(answers[at].rows) for at in (place - 3, place))
        hot.append(answers[place - 2].rows[0][0][1] != "0")
        if late != early:
            shown = "\n".join(statements[: place + 1])
            return f"{shown}\n{len(late)} and {len(early)} rows: {late[:3]} and {early[:3]}"
    return None
