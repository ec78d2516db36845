"""Random queries over up to six joined tables, in SQL whose meaning is the same in DuckDB and in Forebay.

A query is kept in parts, so that a failing one can be made smaller by leaving parts out. Left out on purpose, because engines
differ or because rows would not be determined: sums of floats that round, averages of decimals, LIMIT without a total order.
"""

import copy
import random
from dataclasses import dataclass, field, replace

from join_tables import BY_NAME, COLUMNS, TABLES, joined_rows

COMPARISONS = ["=", "<>", "<", "<=", ">", ">="]
WEIGHTS = {"none": 3, "one": 3, "void": 3, "few": 9, "dim": 20, "big": 15, "dup": 17, "mid": 14, "fact": 9, "huge": 2}
JOIN_KINDS = {"JOIN": 34, "LEFT JOIN": 26, "RIGHT JOIN": 10, "FULL JOIN": 10, ",": 14, "CROSS JOIN": 3, "ON": 3}
GROUPED = ["k", "u", "s", "y", "b", "c", "z", "m", "d", "v", "f", "l", "w", "t", "i"]
SMALL, LARGE, SCANNED = 40_000, 500_000, 800_000


@dataclass
class Field:
    """A column of a source: how queries name it, and the table's column that its values come from."""

    sql: str
    column: object
    table: object = None

    @property
    def family(self):
        return self.column.family


@dataclass
class Source:
    """A table, a derived table or a CTE in a FROM clause."""

    alias: str
    sql: object
    rows: int
    fields: list

    def text(self):
        return f"{self.sql if isinstance(self.sql, str) else f'({self.sql.text()})'} {self.alias}"


@dataclass
class Join:
    kind: str
    source: Source
    on: list = field(default_factory=list)
    using: list = field(default_factory=list)

    def text(self):
        if self.using:
            return f" {self.kind} {self.source.text()} USING ({', '.join(self.using)})"
        if self.kind in (",", "CROSS JOIN"):
            return f"{'' if self.kind == ',' else ' '}{self.kind} {self.source.text()}"
        return f" {self.kind} {self.source.text()} ON {' AND '.join(self.on) or 'true'}"


@dataclass
class Select:
    """One SELECT with what hangs on it; `more` are (UNION …, Select) pairs."""

    first: Source
    joins: list = field(default_factory=list)
    where: list = field(default_factory=list)
    outputs: list = field(default_factory=list)
    keys: list = field(default_factory=list)
    having: list = field(default_factory=list)
    distinct: bool = False
    order: list = field(default_factory=list)
    limit: str = ""
    named: list = field(default_factory=list)
    more: list = field(default_factory=list)

    def text(self):
        parts = [f"WITH {', '.join(f'{name} AS ({query.text()})' for name, query in self.named)} "] if self.named else []
        outputs = ", ".join(f"{output} AS r{number}" for number, output in enumerate(self.outputs, 1))
        # A comma binds less than JOIN, and what an ON clause names must stand beside it: only the last ones are commas.
        last = max((place for place, join in enumerate(self.joins) if join.kind != ","), default=-1)
        joins = [replace(join, kind="CROSS JOIN") if join.kind == "," and place < last else join for place, join in enumerate(self.joins)]
        parts.append(f"SELECT {'DISTINCT ' if self.distinct else ''}{outputs} FROM {self.first.text()}{''.join(join.text() for join in joins)}")
        parts.append(f" WHERE {' AND '.join(self.where)}" if self.where else "")
        parts.append(f" GROUP BY {', '.join(self.keys)}" if self.keys else "")
        parts.append(f" HAVING {' AND '.join(self.having)}" if self.having else "")
        parts.extend(f" {operation} {query.text()}" for operation, query in self.more)
        if self.order:
            parts.append(f" ORDER BY {', '.join(f'{number} {how}' for number, how in enumerate(self.order[:len(self.outputs)], 1))}{self.limit}")
        return "".join(parts)

    def smaller(self):
        """This query with one part less, for each part."""
        for name in ("more", "where", "having", "joins", "outputs", "keys", "named"):
            for index in range(len(getattr(self, name))):
                if name == "outputs" and len(self.outputs) == 1:
                    continue
                less = copy.deepcopy(self)
                del getattr(less, name)[index]
                yield less
        for index, join in enumerate(self.joins):
            for part in range(len(join.on)):
                less = copy.deepcopy(self)
                del less.joins[index].on[part]
                yield less
            if not isinstance(join.source.sql, str):
                for inner in join.source.sql.smaller():
                    less = copy.deepcopy(self)
                    less.joins[index].source.sql = inner
                    yield less
        for name, empty in (("distinct", False), ("limit", ""), ("order", [])):
            if getattr(self, name) and (name != "order" or not self.limit):
                less = copy.deepcopy(self)
                setattr(less, name, empty)
                yield less


class Generator:
    """Makes query `number` of a seed; the same every time."""

    def __init__(self, connection, tables, seed):
        self.connection, self.tables, self.seed = connection, tables, seed

    def query(self, number):
        self.random = random.Random(f"joins:{self.seed}:{number}")
        self.aliases = 0
        self.most_rows = SMALL if self.chance(0.85) else LARGE
        self.scanned = 0
        shapes = self.shapes()
        return self.random.choices(list(shapes), weights=shapes.values())[0]()

    def shapes(self):
        """What makes queries of one shape, with how often."""
        return {self.groups: 34, self.totals: 22, self.rows: 20, self.distinct: 7, self.sets: 8, self.with_names: 6, self.using: 6}

    def chance(self, share):
        return self.random.random() < share

    def pick(self, items):
        return self.random.choice(items)

    def alias(self):
        self.aliases += 1
        return f"t{self.aliases}"

    # FROM

    def table(self, most=None):
        """A table, not so large that queries take long."""
        limit = SCANNED - self.scanned if most is None else most
        names = [name for name in TABLES if TABLES[name].rows <= limit] or ["one"]
        name = self.random.choices(names, weights=[WEIGHTS[name] for name in names])[0]
        self.scanned += TABLES[name].rows
        return self.of_table(name)

    def of_table(self, name):
        """A source of this table."""
        alias = self.alias()
        table = self.tables[name]
        return Source(alias, name, table.shape.rows, [Field(f"{alias}.{column.name}", column, table) for column in COLUMNS])

    def derived(self):
        """A derived table: groups or rows of a table."""
        inner = self.table()
        alias = self.alias()
        if self.chance(0.6):
            keys = self.random.sample([f for f in inner.fields if f.column.name in ("k", "l", "s", "u", "d", "m")], self.pick([1, 1, 2]))
            aggregates = [self.aggregate([inner]) for _ in range(self.pick([1, 2]))]
            query = Select(inner, outputs=[key.sql for key in keys] + aggregates, keys=[key.sql for key in keys])
            rows = inner.rows if len(keys) > 1 else min(inner.rows, 2500)
        else:
            keys = self.random.sample(inner.fields, 6)
            rows = inner.rows
            # What is computed or constant is NULL where an outer join has no match for it.
            k, d, s = (next(f.sql for f in inner.fields if f.column.name == name) for name in "kds")
            computed = {"5": "c", f"coalesce({k}, -1)": "k", f"CASE WHEN {d} > 0 THEN 'plus' ELSE {s} END": "s", f"{d} IS NULL": "b"}
            keys += [Field(sql, BY_NAME[name]) for sql, name in self.random.sample(list(computed.items()), 2)]
            query = Select(inner, outputs=[key.sql for key in keys])
        if self.chance(0.5):
            query.where.append(self.predicate([inner]))
        return Source(alias, query, rows, [Field(f"{alias}.r{number}", key.column, key.table) for number, key in enumerate(keys, 1)])

    def source(self):
        return self.derived() if self.chance(0.14) else self.table()

    def pairs(self, left, right):
        """About how many rows a join of two sources on two of their columns gives."""
        (a, x), (b, y) = left, right
        if x.table is None or y.table is None:
            return a.rows * b.rows / 20
        pairs = joined_rows(self.connection, x.table, x.column.name, y.table, y.column.name)
        return pairs * a.rows / max(x.table.shape.rows, 1) * b.rows / max(y.table.shape.rows, 1)

    def joined(self, count=None):
        """A SELECT of several joined sources without outputs, and its sources."""
        count = count or self.random.choices([1, 2, 3, 4, 5, 6], weights=[8, 34, 28, 16, 8, 6])[0]
        query = Select(self.source())
        sources, rows = [query.first], query.first.rows
        for _ in range(count - 1):
            rows = self.join(query, sources, rows)
        return query, sources

    def join(self, query, sources, rows):
        """Joins one more source; the number of rows that this may give."""
        kind = self.random.choices(list(JOIN_KINDS), weights=JOIN_KINDS.values())[0]
        for attempt in range(14):
            source = self.source() if attempt < 8 else self.table(most=200)
            if kind in ("CROSS JOIN", "ON") and rows * source.rows <= self.most_rows:
                break
            if kind in ("CROSS JOIN", "ON"):
                continue
            other = self.pick(sources)
            left = self.pick(other.fields)
            candidates = [f for f in source.fields if f.family == left.family]
            if not candidates:
                continue
            right = self.pick(candidates)
            pairs = self.pairs((other, left), (source, right))
            now = pairs * max(rows / max(other.rows, 1), 1) * (3 if len(sources) > 1 else 1)
            if now > self.most_rows:
                continue
            on = [f"{left.sql} = {right.sql}"]
            if self.chance(0.15) and rows * source.rows <= 10 * self.most_rows:
                on = [self.computed_key(left, right)]
            if self.chance(0.2):
                on += [f"{a.sql} = {b.sql}" for a, b in [self.alike(other, source)] if a]
            return self.attach(query, sources, source, kind, on, max(now, rows if "LEFT" in kind or "FULL" in kind else 0, source.rows))
        else:
            source, kind = self.table(most=12), "CROSS JOIN"
        on = []
        if kind == "ON":
            kind = self.pick(["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"])
            a, b = self.alike(self.pick(sources), source)
            on = [f"{a.sql} {self.pick(COMPARISONS[1:])} {b.sql}" if a else "true"]
        return self.attach(query, sources, source, kind, on, rows * max(source.rows, 1))

    def computed_key(self, left, right):
        """An equality of which one side at least is computed, or that NULLs pass."""
        choices = [
            f"coalesce({left.sql}, {self.constant(left)}) = {right.sql}",
            f"({left.sql} IS NOT DISTINCT FROM {right.sql})",
            f"({left.sql} = {right.sql} OR {self.leaf([Source('', '', 0, [left, right])])})",
        ]
        match left.family:
            case "int":
                choices += [f"{left.sql} + 1 = {right.sql}", f"{left.sql} % 50 = {right.sql} % 50"]
            case "text":
                choices += [f"substr({left.sql}, 1, 5) = {right.sql}", f"upper({left.sql}) = upper({right.sql})"]
            case "date":
                choices += [f"{left.sql} + 1 = {right.sql}", f"extract(month FROM {left.sql}) = extract(month FROM {right.sql})"]
            case "decimal":
                choices += [f"{left.sql} * 2 = {right.sql}"]
        return self.pick(choices)

    def alike(self, left, right):
        """A column of each, of one family."""
        for _ in range(10):
            a, b = self.pick(left.fields), self.pick(right.fields)
            if a.family == b.family:
                return a, b
        return None, None

    def attach(self, query, sources, source, kind, on, rows):
        if kind == ",":
            query.where += on
            on = []
        elif kind != "CROSS JOIN" and self.chance(0.3):
            a, b = self.alike(self.pick(sources), source)
            extra = [self.leaf([source]), self.leaf(sources), self.predicate(sources + [source])]
            on.append(self.pick(extra + [f"{a.sql} {self.pick(COMPARISONS)} {b.sql}"] if a else extra))
        query.joins.append(Join(kind, source, on))
        sources.append(source)
        return rows

    # Predicates

    def constant(self, item):
        return self.pick(item.column.constants)

    def predicate(self, sources, depth=0):
        if depth < 2 and self.chance(0.4 - 0.1 * depth):
            kind = self.pick(["AND", "OR", "OR", "NOT"])
            if kind == "NOT":
                return f"NOT ({self.predicate(sources, depth + 1)})"
            return f"({self.predicate(sources, depth + 1)} {kind} {self.predicate(sources, depth + 1)})"
        return self.leaf(sources)

    def leaf(self, sources):
        item = self.pick(self.pick(sources).fields)
        name, value = item.sql, self.constant(item)
        operator = self.pick(COMPARISONS)
        choices = [f"{name} {operator} {value}"] * 4 + [
            f"{name} IS {self.pick(['', 'NOT '])}NULL",
            f"{name} {self.pick(['', 'NOT '])}IN ({value}, {self.constant(item)}{self.pick(['', '', ', NULL'])})",
            f"coalesce({name}, {self.constant(item)}) {operator} {value}",
            f"CASE WHEN {name} {operator} {value} THEN {self.pick(['true', 'NULL'])} WHEN {name} IS NULL THEN {self.pick(['true', 'false'])} ELSE false END",
            f"{name} BETWEEN {value} AND {self.constant(item)}",
            f"({name} IS {self.pick(['', 'NOT '])}DISTINCT FROM {value})",
        ]
        match item.family:
            case "text":
                choices += [f"{name} LIKE {self.pick(['%7%', 'key%', 'r_d', '%prefix%1', ''])!r}", f"length({name}) {operator} 5", f"substr({name}, 1, 3) = 'key'"]
            case "date":
                choices += [
                    f"{name} {operator} {value} + INTERVAL '{self.pick([1, 30, -2])}' {self.pick(['DAY', 'MONTH', 'YEAR'])}",
                    f"extract({self.pick(['year', 'month', 'day'])} FROM {name}) {operator} {self.pick([1, 6, 1996])}",
                    f"{name} - {value} {operator} {self.pick([0, 100, -50])}",
                ]
            case "timestamp":
                choices += [f"{name} + INTERVAL '{self.pick([1, 36])}' HOUR {operator} {value}", f"CAST({name} AS DATE) {operator} DATE '1996-03-01'"]
            case "int":
                choices += [f"CAST({name} AS BIGINT) * 2 + 1 {operator} {value}", f"{name} % {self.pick([2, 7, -3])} {operator} {self.pick([0, 1])}"]
            case "bool":
                choices += [name, f"NOT {name}"]
        other = self.pick([f for source in sources for f in source.fields])
        if other.family == item.family:
            choices += [f"{name} {operator} {other.sql}"] * 4
        return self.pick(choices)

    def subquery(self, sources):
        """A condition with a subquery, most of them correlated."""
        outer, inner = self.pick(sources), self.table(most=40_000)
        a, b = self.alike(outer, inner)
        if a is None:
            return self.leaf(sources)
        kind = self.random.choices(["exists", "in", "compare", "count", "uncorrelated"], weights=[32, 34, 14, 10, 10])[0]
        own = [self.predicate([inner])] if self.chance(0.6) else []
        where = lambda conditions: f" WHERE {' AND '.join(conditions)}" if conditions else ""
        negation = self.pick(["", "", "NOT "])
        correlation = [f"{b.sql} = {a.sql}"]
        if kind == "exists":
            c, d = self.alike(outer, inner)
            if c and self.chance(0.3):
                correlation.append(f"{d.sql} {self.pick(COMPARISONS)} {c.sql}")
            text = inner.text()
            if self.chance(0.3):
                more = self.table(most=200)
                text += f" JOIN {more.text()} ON {inner.fields[1].sql} = {more.fields[0].sql}"
                c, d = self.alike(outer, more)
                correlation += [f"{d.sql} {self.pick(['=', '=', '<>'])} {c.sql}"] if c and self.chance(0.6) else []
            return f"{negation}EXISTS (SELECT 1 FROM {text}{where(correlation + own)})"
        if kind == "in":
            extra = correlation if self.chance(0.15) else []
            c, d = self.alike(outer, inner) if extra else (a, b)
            c, d = (c, d) if c else (a, b)
            return f"{c.sql} {negation}IN (SELECT {d.sql} FROM {inner.text()}{where(extra + own)})"
        if kind == "count":
            return f"(SELECT count({self.pick(['*', b.sql])}) FROM {inner.text()}{where(correlation + own)}) {self.pick(COMPARISONS)} {self.pick([0, 1, 30])}"
        c, d = self.alike(outer, inner)
        c, d = (c, d) if c else (a, b)
        correlation = [] if kind == "uncorrelated" else correlation
        return f"{c.sql} {self.pick(COMPARISONS)} (SELECT {self.pick(['min', 'max'])}({d.sql}) FROM {inner.text()}{where(correlation + own)})"

    def filtered(self, query, sources, share=0.6):
        if self.chance(share):
            query.where.append(self.predicate(sources))
        if self.chance(0.22):
            test = self.subquery(sources)
            query.where.append(f"({test} OR {self.leaf(sources)})" if self.chance(0.15) else test)

    # Outputs

    def scalar(self, sources):
        item = self.pick(self.pick(sources).fields)
        name = item.sql
        alike = [f.sql for source in sources for f in source.fields if f.column.type == item.column.type]
        choices = [
            *[name] * 3,
            f"coalesce({name}, {self.pick(alike)})",
            f"CASE WHEN {self.leaf(sources)} THEN {name} ELSE {self.pick(alike)} END",
            f"nullif({name}, {self.pick(alike)})",
        ]
        other = self.pick(alike)
        match item.column.name:
            case "k" | "i" | "l" | "u" | "v" | "c" | "z":
                choices += [f"CAST({name} AS BIGINT) + {other}", f"CAST({name} AS BIGINT) * 2 - {other}", f"{name} % 7"]
                choices += [f"-CAST({name} AS BIGINT)", f"CAST({name} AS DOUBLE) / 4"]
            case "o" | "w" | "q":
                choices += [f"{name} % 7", f"{name} % -1", f"CAST({name} AS DECIMAL(38,0)) * 2"] + [f"{name} - {other}"] * (item.column.name == "q" and self.chance(0.1))
            case "d" | "e":
                choices += [f"{name} + {other}", f"{name} * {other}", f"{name} - 1.5"]
            case "s" | "t" | "y":
                choices += [f"{name} || '/' || {other}", f"upper({name})", f"length({name})", f"substr({name}, 5, 3)"]
            case "m":
                choices += [f"extract(month FROM {name})", f"{name} + 30", f"{name} - {other}", f"{name} + INTERVAL '1' MONTH"]
            case "n":
                choices += [f"extract(day FROM {name})", f"CAST({name} AS DATE)", f"{name} - INTERVAL '3' DAY"]
            case "r":
                choices += [f"{name} * 2", f"-{name}"]
        return self.pick(choices)

    def aggregate(self, sources):
        items = [f for source in sources for f in source.fields]
        item = self.pick(items)
        exact = [f for f in items if f.column.exact]
        test = f" FILTER (WHERE {self.leaf(sources)})" if self.chance(0.12) else ""
        kind = self.pick(["count(*)", "count", "sum", "sum", "sum", "min", "max", "avg", "distinct", "wide", "bool"])
        number = self.pick(exact) if exact else None
        if kind == "count(*)" or (number is None and kind in ("sum", "avg", "distinct", "wide")):
            return f"count(*){test}"
        if kind in ("count", "min", "max"):
            return f"{kind}({item.sql}){test}"
        if kind == "avg":
            return f"avg(CAST({number.sql} AS DOUBLE)){test}"
        if kind == "distinct":
            return f"{self.pick([f'count(DISTINCT {item.sql})', f'sum(DISTINCT {number.sql})'])}{test}"
        if kind == "bool":
            return f"{self.pick(['bool_and', 'bool_or'])}({self.leaf(sources)}){test}"
        if kind == "wide":
            wide = [f.sql for f in items if f.column.name in ("w", "o", "q", "x")]
            return f"sum({self.pick(wide)}){test}" if wide else f"count(*){test}"
        expression = number.sql
        if number.family == "int":
            other = self.pick([f.sql for f in exact if f.family == "int"])
            choices = [number.sql, f"CAST({number.sql} AS BIGINT) + {other}", f"CAST({number.sql} AS BIGINT) * 3", f"coalesce({number.sql}, 1)"]
            expression = self.pick([*choices, f"CASE WHEN {self.leaf(sources)} THEN {number.sql} ELSE 0 END"])
        elif number.family == "decimal":
            expression = self.pick([number.sql, f"{number.sql} * (1 - {self.pick([f.sql for f in exact if f.family == 'decimal'])})"])
        return f"sum({expression}){test}"

    def directions(self, count):
        return [f"{self.pick(['ASC', 'DESC'])} NULLS {self.pick(['FIRST', 'LAST'])}" for _ in range(count)]

    # Shapes

    def totals(self):
        query, sources = self.joined()
        self.filtered(query, sources)
        query.outputs = [self.aggregate(sources) for _ in range(self.random.randint(1, 5))]
        return query

    def key(self, sources):
        fields = [f for source in sources for f in source.fields]
        few = [f for f in fields if f.column.name in GROUPED] or fields
        return self.scalar(sources) if self.chance(0.15) else self.pick(few).sql

    def groups(self):
        query, sources = self.joined()
        self.filtered(query, sources)
        query.keys = list(dict.fromkeys(self.key(sources) for _ in range(self.random.choices([1, 2, 3], weights=[5, 3, 1])[0])))
        query.outputs = query.keys + [self.aggregate(sources) for _ in range(self.random.randint(1, 4))]
        if self.chance(0.25):
            query.having.append(self.pick([f"count(*) > {self.pick([0, 1, 5, 100])}", f"{self.aggregate(sources)} IS NOT NULL"]))
        query.order = self.directions(len(query.outputs))
        query.limit = f" LIMIT {self.pick([1, 10, 100, 2000])}"
        return query

    def rows(self):
        query, sources = self.joined()
        self.filtered(query, sources)
        query.outputs = [self.scalar(sources) for _ in range(self.random.randint(1, 6))]
        query.order = self.directions(len(query.outputs))
        query.limit = f" LIMIT {self.pick([0, 1, 10, 100, 1000])}{self.pick(['', '', ' OFFSET 3'])}"
        return query

    def distinct(self):
        query = self.rows()
        query.distinct = True
        return query

    def sets(self):
        """UNION, INTERSECT and EXCEPT of queries with outputs of the same types."""
        names = self.random.sample(["k", "l", "s", "d", "m", "b", "w", "y", "n", "u"], self.pick([1, 2, 3]))
        query = None
        for _ in range(self.pick([2, 2, 3])):
            source = self.table()
            part, sources = Select(source), [source]
            if self.chance(0.5):
                self.join(part, sources, source.rows)
            self.filtered(part, sources, 0.7)
            part.outputs = [f"{source.alias}.{name}" for name in names]
            if query is None:
                query = part
            else:
                query.more.append((self.pick(["UNION", "UNION ALL", "INTERSECT", "EXCEPT", "INTERSECT ALL", "EXCEPT ALL"]), part))
        query.order = self.directions(len(names))
        query.limit = " LIMIT 1000"
        return query

    def with_names(self):
        """A CTE that is joined with a table, and at times with itself."""
        inner = self.derived()
        common = lambda alias: Source(alias, "c1", inner.rows, [Field(f"{alias}.r{number}", f.column, f.table) for number, f in enumerate(inner.fields, 1)])
        query = Select(common(self.alias()), named=[("c1", inner.sql)])
        sources = [query.first]
        rows = self.join(query, sources, inner.rows)
        if self.chance(0.4) and rows < SMALL and inner.rows <= 2500:
            again = common(self.alias())
            on = [f"{sources[0].fields[0].sql} = {again.fields[0].sql}"]
            query.joins.append(Join(self.pick(["JOIN", "LEFT JOIN", "FULL JOIN"]), again, on))
            sources.append(again)
        self.filtered(query, sources, 0.4)
        query.outputs = [self.aggregate(sources) for _ in range(self.random.randint(1, 3))]
        if self.chance(0.5):
            query.keys = [self.key(sources)]
            query.outputs = query.keys + query.outputs
            query.order = self.directions(len(query.outputs))
            query.limit = " LIMIT 500"
        return query

    def using(self):
        """Two or three tables joined by USING, whose columns stand for both sides."""
        names = self.pick([["k"], ["l"], ["s"], ["i"], ["k", "s"], ["m", "b"]])
        first = self.table(most=6_000)
        query, sources = Select(first), [first]
        for _ in range(self.pick([1, 1, 2])):
            source = self.table(most=150 if len(sources) > 1 else 2_500)
            kind = self.pick(["JOIN", "JOIN", "LEFT JOIN"] + ["RIGHT JOIN", "FULL JOIN"] * (len(sources) == 1))
            query.joins.append(Join(kind, source, using=names))
            sources.append(source)
        if self.chance(0.5):
            query.where.append(self.predicate(sources))
        if self.chance(0.5):
            query.keys = list(names)
            query.outputs = query.keys + [self.aggregate(sources) for _ in range(2)]
        else:
            query.outputs = names + [self.scalar(sources) for _ in range(2)]
        query.order = self.directions(len(query.outputs))
        query.limit = " LIMIT 500"
        return query


assert all(name in BY_NAME for name in GROUPED)
