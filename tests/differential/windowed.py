"""Random windows: every function, frame and order whose answer the rows determine. Rows that are equal by a window's order are told
apart by a unique column, unless the function or the frame takes them together anyway."""

import random

import computed
from computed import Query

TABLES = {"w": 60, "one": 1, "none": 0}
# Columns by which windows are parted and ordered.
KEYS = ["p", "q", "x", "y", "d", "ts", "s", "b", "t", "i", "x % 3", "p + x", "length(s)", "x IS NULL", "encode(q)"]
RANKS = ["row_number()", "rank()", "dense_rank()", "percent_rank()", "cume_dist()"]
# Whose order of rows, or all of whose rows, are in the result; the order of rows is total.
COLLECTING = [
    "string_agg(s, '-')", "string_agg(q, '')", "CAST(array_agg(x) AS VARCHAR)", "CAST(list(s) AS VARCHAR)", "median({})", "bool_and(x > 2)", "bool_or(b)", "any_value({})", "first({})", "last({})",
    "product(x)", "mad({})", "median(y)", "quantile_disc(x, 0.3)", "CAST(quantile_disc(id, [0.1, 0.9]) AS VARCHAR)", "CAST(max(id, 2) AS VARCHAR)", "arg_max(s, id)", "arg_min(x, id)", "CAST(arg_max(x, id, 2) AS VARCHAR)",
    "bit_and(x)", "bit_or(x)", "bit_xor(id)", "quantile_cont(x, 0.25)", "quantile_cont(y, 0.5)", "stddev({})", "var_pop({})", "regr_avgx(x, id)", "regr_count(x, y)", "median(DISTINCT x)",
]
AGGREGATES = ["sum({})", "count({})", "min({})", "max({})", "avg({})", "count(*)", "count(DISTINCT {})", "sum(DISTINCT {})", "avg(DISTINCT {})", "max(DISTINCT {})", "stddev_pop({})", "var_samp({})"]
VALUES = ["x", "id", "x + id", "f", "y"]


def statements():
    """Tables with few values, so that rows are equal by many orders, and NULLs."""
    shuffled = random.Random("windows")

    def one(values):
        return "NULL" if shuffled.random() < 0.12 else shuffled.choice(values)

    def row(number):
        numbers, texts = [str(value) for value in range(-2, 7)], [f"'{value}'" for value in ["a", "b", "B", "ä", "", "abc", "🦆"]]
        floats = [f"CAST({value} AS DOUBLE)" for value in ["0.5", "-1.5", "2", "3.25", "0", "1e17"]]
        times = [f"TIME '{hour}:{minute}:00'" for hour in ("08", "09", "14") for minute in ("00", "30")]
        intervals = [f"INTERVAL '{value}'" for value in ("1 day", "24 hours", "1 month", "30 days", "-1 day", "36 hours")]
        days = [f"DATE '2020-{month}-{day}'" for month in ("01", "02") for day in ("01", "15", "28", "29")]
        moments = [f"TIMESTAMP '2020-01-{day} {hour}:00:00'" for day in ("01", "02", "31") for hour in ("00", "12", "23")]
        cells = [one(["1", "2", "3"]), one(["'u'", "'v'"]), one(numbers), one(floats), one(["1.25", "-0.50", "3.00"]), one(days), one(moments), one(texts), one(["true", "false"]), one(times), one(intervals)]
        return f"({number}, {', '.join(cells)})"

    made = []
    for table, rows in TABLES.items():
        made.append(f"CREATE TABLE {table} (id INTEGER, p INTEGER, q VARCHAR, x INTEGER, y DOUBLE, f DECIMAL(9,2), d DATE, ts TIMESTAMP, s VARCHAR, b BOOLEAN, t TIME, i INTERVAL)")
        if rows:
            made.append(f"INSERT INTO {table} VALUES {', '.join(row(number) for number in range(rows))}")
    return made


class Generator:
    """Makes query `number` of a seed; the same every time."""

    def __init__(self, seed):
        self.seed = seed

    def query(self, number):
        self.random = random.Random(f"windows:{self.seed}:{number}")
        shapes = {self.rows: 58, self.qualified: 10, self.of_groups: 12, self.named: 8, self.nested: 6, self.joined: 6}
        return self.random.choices(list(shapes), weights=list(shapes.values()))[0]()

    def chance(self, share):
        return self.random.random() < share

    def pick(self, items):
        return self.random.choice(items)

    def table(self):
        return self.random.choices(list(TABLES), weights=[92, 5, 3])[0]

    # Shapes

    def rows(self):
        outputs = ["id", *(self.call() for _ in range(self.pick([1, 1, 2, 3])))]
        condition = f" WHERE {self.condition()}" if self.chance(0.3) else ""
        return Query(outputs, f" FROM {self.table()}{condition} ORDER BY id", parts=[condition])

    def qualified(self):
        call, bound = self.call(["rank"]), self.pick([1, 2, 3])
        condition = f" WHERE {self.condition()}" if self.chance(0.3) else ""
        qualify = f" QUALIFY {call} {self.pick(['=', '<=', '>'])} {bound}"
        return Query(["id", self.call()], f" FROM {self.table()}{condition}{qualify} ORDER BY id", parts=[condition, qualify])

    def of_groups(self):
        """Windows over aggregates, one row for each group."""
        key = self.pick(["p", "q", "x"])
        orders = [f"sum(id){self.direction()}, {key}{self.direction()}", f"count(*){self.direction()}, {key}", f"{key}{self.direction()}"]
        calls = ["rank()", "row_number()", "sum(sum(id))", "max(count(*))", "lag(sum(id))", "sum(count(x))", "first_value(min(id))", "ntile(2)"]
        outputs = [key, "sum(id)", *(f"{self.pick(calls)} OVER (ORDER BY {self.pick(orders)})" for _ in range(self.pick([1, 2])))]
        having = " HAVING count(*) > 2" if self.chance(0.3) else ""
        return Query(outputs, f" FROM {self.table()} GROUP BY {key}{having} ORDER BY {key} NULLS FIRST", parts=[having])

    def named(self):
        partition = self.partition() or "PARTITION BY p"
        order = f"ORDER BY {self.total_order()}"
        frames = ["", " ROWS 2 PRECEDING", " ROWS BETWEEN CURRENT ROW AND 1 FOLLOWING"]
        outputs = ["id", "sum(x) OVER v", f"{self.pick(['count(*)', 'min(x)', 'last_value(id)'])} OVER (w {order}{self.pick(frames)})", "count(*) OVER w"]
        return Query(outputs, f" FROM {self.table()} WINDOW w AS ({partition}), v AS (w {order}) ORDER BY id")

    def nested(self):
        inner = f"(SELECT id, p, {self.call(['rank', 'aggregate'])} AS z FROM {self.table()}) t"
        return Query(["p", "count(*)", "count(z)", "min(z)", "max(z)"], f" FROM {inner} GROUP BY p ORDER BY p NULLS LAST")

    def joined(self):
        """Windows over joined rows, or rows of a subquery, within expressions."""
        call = self.call(["rank", "aggregate", "shift"])
        source = self.pick([f"{self.table()} JOIN (SELECT id AS other, x AS z FROM w WHERE id < 9) o ON p = z", f"(SELECT * FROM {self.table()} WHERE {self.condition()} ORDER BY id LIMIT 20) u"])
        keys = "id, other" if "other" in source else "id"
        shown = self.pick([f"{call}", f"coalesce(CAST({call} AS VARCHAR), 'none')", f"CASE WHEN id % 2 = 0 THEN {call} END"])
        # Of several rows with one number, each has another place in a total order.
        return Query([keys, shown] if keys == "id" else ["id", "other", "x", f"rank() {self.over(self.order())}"], f" FROM {source} ORDER BY {keys}")

    def condition(self):
        return self.pick(["x > 1", "p IS NOT NULL", "id % 2 = 0", "s < 'b'", "b", "id < 7", "d >= DATE '2020-01-15'"])

    # Windows

    def direction(self):
        return f"{self.pick(['', ' ASC', ' DESC'])}{self.pick(['', ' NULLS FIRST', ' NULLS LAST'])}"

    def partition(self):
        keys = self.random.sample(KEYS, self.pick([0, 1, 1, 1, 2]))
        return f"PARTITION BY {', '.join(keys)}" if keys else ""

    def order(self, keys=KEYS):
        return ", ".join(f"{key}{self.direction()}" for key in self.random.sample(keys, self.pick([1, 1, 2])))

    def total_order(self):
        return f"{self.order()}, id{self.pick(['', ' DESC'])}" if self.chance(0.8) else f"id{self.pick(['', ' DESC'])}"

    def over(self, order, frame=""):
        parts = [self.partition(), f"ORDER BY {order}" if order else "", frame]
        return f"OVER ({' '.join(part for part in parts if part)})"

    def bounds(self, start_values, end_values):
        """Two bounds of a frame in their order."""
        start, end = self.pick(start_values), self.pick(end_values)
        if self.chance(0.1):
            return f"BETWEEN {start} {self.pick(['PRECEDING', 'FOLLOWING'])} AND {end} FOLLOWING{self.exclusion()}"
        starts = ["UNBOUNDED PRECEDING", "CURRENT ROW", f"{start} PRECEDING", f"{start} PRECEDING"]
        ends = ["UNBOUNDED FOLLOWING", "CURRENT ROW", f"{end} FOLLOWING", f"{end} FOLLOWING"]
        first, last = self.pick(starts), self.pick(ends)
        if first == "UNBOUNDED PRECEDING" and self.chance(0.3):
            last = f"{end} PRECEDING"
        if last == "UNBOUNDED FOLLOWING" and self.chance(0.3):
            first = f"{start} FOLLOWING"
        if self.chance(0.15) and last == "CURRENT ROW":
            return first if first != "CURRENT ROW" else "UNBOUNDED PRECEDING"
        return f"BETWEEN {first} AND {last}{self.exclusion()}"

    def exclusion(self):
        """What a frame leaves out, mostly nothing."""
        return self.pick([" EXCLUDE CURRENT ROW", " EXCLUDE GROUP", " EXCLUDE TIES", " EXCLUDE NO OTHERS"]) if self.chance(0.25) else ""

    def frame(self):
        """A frame, with an order that determines what is in it."""
        kind = self.pick(["", "ROWS", "ROWS", "RANGE", "RANGE", "GROUPS"])
        if kind == "ROWS":
            return self.total_order(), self.row_frame()
        if kind == "GROUPS":
            return self.order(), f"GROUPS {self.bounds(['0', '1', '2', 'id % 3'], ['0', '1', '2', 'length(q)'])}"
        if kind == "RANGE":
            column, values = self.pick([
                ("x", ["0", "1", "2", "10"]), ("x", ["id", "p", "1"]), ("d", ["id", "to_days(id)"]), ("y", ["p", "0.5"]), ("x", ["0.5", "1.25"]), ("id", ["1", "5"]), ("y", ["0.5", "2"]), ("f", ["1", "0.25"]), ("f", ["0.125", "1.754"]), ("d", ["1", "14"]),
                ("t", ["INTERVAL '30' MINUTE", "INTERVAL 5 HOUR"]), ("i", ["INTERVAL '1' DAY", "INTERVAL '12 hours'", "INTERVAL 1 MONTH"]), ("d", ["INTERVAL '1' DAY", "INTERVAL '1' MONTH", "INTERVAL '14 days'"]), ("ts", ["INTERVAL '12' HOUR", "INTERVAL '1 day'", "INTERVAL 1 MONTH"]),
            ])
            return f"{column}{self.direction()}", f"RANGE {self.bounds(values, values)}"
        return self.order(), ""

    def row_frame(self):
        """A frame of rows; bounds may differ from row to row."""
        distances = ["0", "1", "2", "5", "1", "2", "id % 3", "coalesce(p, 1)"]
        return f"ROWS {self.bounds(distances, distances)}"

    def call(self, kinds=("rank", "tile", "shift", "value", "aggregate", "aggregate", "collecting", "collecting", "ordered")):
        return getattr(self, self.pick(kinds))()

    def rank(self):
        name = self.pick(RANKS)
        return f"{name} {self.over(self.total_order() if name == 'row_number()' else self.order())}"

    def tile(self):
        return f"ntile({self.pick([1, 2, 3, 7, 100, 'id + 1', 'p'])}) {self.over(self.total_order())}"

    def ordered(self):
        """An order among the arguments, beside an order and a frame of the window; and `fill`."""
        if self.chance(0.2):
            return f"fill({self.pick(['x', 'd', 'id'])}) {self.over('id')}"
        order = f"ORDER BY {self.total_order()}"
        if self.chance(0.3):
            call = self.pick(["row_number({})", "rank({})", "percent_rank({})", "cume_dist({})", "ntile(2 {})", "lag(x {})", "lead(s, 2, 'none' {})", "lead(x, id % 3 {})"])
            return f"{call.format(order)} {self.over(self.total_order(), self.row_frame().split(' EXCLUDE')[0])}"
        call = self.pick(["first_value(x {})", "last_value(s {})", "nth_value(id, 2 {})", "string_agg(s, '-' {})", "first_value(x {} IGNORE NULLS)", "sum(x {})", "max(d {})"])
        return f"{call.format(order)} {self.over(self.total_order(), self.row_frame())}"

    def shift(self):
        column, default = self.pick([("x", "-99"), ("s", "'none'"), ("d", "DATE '2000-01-01'"), ("id", "0"), ("y", "CAST(0 AS DOUBLE)"), ("x", "1.5"), ("x", "p"), ("f", "x"), ("f", "2.005"), ("t", "TIME '00:00:00'"), ("i", "INTERVAL 1 HOUR")])
        rest = self.pick(["", ", 1", ", 2", ", 0", ", -1", f", 1, {default}", f", 3, {default}", ", 1, NULL"])
        nulls = self.pick(["", "", " IGNORE NULLS", " RESPECT NULLS"])
        return f"{self.pick(['lag', 'lead'])}({column}{rest}{nulls}) {self.over(self.total_order())}"

    def value(self):
        column = self.pick(["x", "s", "d", "id", "y", "ts"])
        nulls = self.pick(["", "", " IGNORE NULLS", " RESPECT NULLS"])
        call = self.pick([f"first_value({column}{nulls})", f"last_value({column}{nulls})", f"nth_value({column}, {self.pick([1, 2, 3, 'id % 4', 'p'])}{nulls})"])
        frame = self.pick(["", self.row_frame()])
        return f"{call} {self.over(self.total_order(), frame)}"

    def aggregate(self):
        name = self.pick(AGGREGATES).format(self.pick(VALUES))
        condition = f" FILTER (WHERE {self.condition()})" if self.chance(0.2) else ""
        if self.chance(0.15):
            return f"{name}{condition} {self.over('')}"
        order, frame = self.frame()
        if self.chance(0.1) and not frame:
            name = f"{self.pick(['min', 'max', 'count'])}({self.pick(['s', 'd', 'ts', 'b'])})"
        return f"{name}{condition} {self.over(order, frame)}"

    def collecting(self):
        name = self.pick(COLLECTING).format(self.pick(VALUES))
        condition = f" FILTER (WHERE {self.condition()})" if self.chance(0.2) and not name.startswith(("first", "last")) else ""
        if self.chance(0.15):
            ordered = self.pick(["string_agg(s, '-'", "first(x", "list(x"])
            call = f"{ordered} ORDER BY {self.total_order()}) OVER ({self.partition()})"
            return f"CAST({call} AS VARCHAR)" if ordered.startswith("list") else call
        frame = self.pick(["", f"ROWS {self.bounds(['0', '1', '2', '5'], ['0', '1', '2', '5'])}", f"ROWS {self.bounds(['1', '2'], ['1', '3'])}"])
        over = self.over(self.total_order(), frame)
        if name.startswith("CAST("):
            return f"CAST({name[5:-12]}{condition} {over} AS VARCHAR)"
        return f"{name}{condition} {over}"


def run(options, report):
    """`options`: binary, directory, seed, computed (how many queries), query (one number, or None)."""
    computed.run(options, report, "windows", options.computed, statements(), Generator(options.seed))
