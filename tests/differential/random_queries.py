"""Random queries over one and two tables, in SQL whose meaning is the same in DuckDB and in Forebay.

Left out on purpose, because engines differ or because rows would not be determined: division, casts that may fail, float sums with
cancellation, LIMIT without a total order, and names of functions outside the standard.
"""

import random
from dataclasses import dataclass

from literals import text
from tables import COLUMNS, TABLES

BY_NAME = {column.name: column for column in COLUMNS}
COMPARISONS = ["=", "<>", "<", "<=", ">", ">="]
ORDERED_ROWS = 200
NEARLY_CONSTANT = {"c1", "cs", "cn", "g", "s", "ss", "dx", "fx", "gx", "x64", "u64", "d38", "tx"}


@dataclass
class Query:
    """One query; `ordered` where its ORDER BY determines the order of rows."""

    number: int
    sql: str
    ordered: bool


@dataclass
class Source:
    """A table in the FROM clause under an alias."""

    table: object
    alias: str = ""

    def name(self, column):
        return f"{self.alias}.{column.name}" if self.alias else column.name


class Generator:
    """Makes query `number` of a seed; the same every time."""

    def __init__(self, tables, seed):
        self.tables = tables
        self.seed = seed

    def query(self, number):
        self.random = random.Random(f"{self.seed}:{number}")
        shape = self.random.choices(
            [self.totals, self.groups, self.rows, self.distinct, self.join_totals, self.join_rows, self.subquery],
            weights=[26, 24, 18, 6, 12, 8, 6],
        )[0]
        sql, ordered = shape()
        return Query(number, sql, ordered)

    # Sources and columns

    def chance(self, share):
        return self.random.random() < share

    def pick_table(self, weights=(1, 2, 20, 20, 15, 40, 2)):
        return self.tables[self.random.choices(list(TABLES), weights=weights)[0]]

    def pick_column(self, test=lambda column: True):
        return self.random.choice([column for column in COLUMNS if test(column)])

    def pick_columns(self, count, test=lambda column: True):
        candidates = [column for column in COLUMNS if test(column)]
        return self.random.sample(candidates, min(count, len(candidates)))

    # Predicates

    def literal(self, source, column):
        """A value of the column; rarely one that it cannot hold or does not have."""
        values = source.table.samples[column.name]
        if not values or self.chance(0.06):
            values = self.elsewhere(column)
        return self.random.choice(values)

    @staticmethod
    def elsewhere(column):
        """Values beside those in the data, some outside the range of the column's type."""
        return {
            "bool": ["true", "false"],
            "int": ["0", "-1", "128", "-40000", "70000", "5000000000", "42", "10.5", "-0.5", "CAST('2.5e2' AS DOUBLE)"],
            "float": ["0", "1.5", "-2.25", "100", "CAST('NaN' AS DOUBLE)", "CAST('-Infinity' AS DOUBLE)"],
            "decimal": ["0", "1", "-7", "0.25", "CAST('-12.5' AS DOUBLE)", "CAST('0.005' AS DECIMAL(10,3))", "CAST('123.45' AS DECIMAL(9,2))"],
            "date": ["DATE '1900-02-28'", "DATE '2024-02-29'", "'1995-06-17'", "TIMESTAMP '1995-06-17 12:00:00'"],
            "time": ["TIME '00:00:00'", "TIME '23:59:59.999999'"],
            "timestamp": ["TIMESTAMP '1970-01-01 00:00:00'", "TIMESTAMP '2000-01-01 00:00:30'", "DATE '2000-01-01'"],
            "timestamptz": ["TIMESTAMPTZ '2001-09-09 01:46:40+00'", "TIMESTAMPTZ '2001-09-09 01:46:40+02'"],
            "text": ["''", "'zzz'", "'name 1'", "'Name 1'", "'gree'", "'日本1'"],
            "blob": ["X''", "X'00ff'", "X'ff'"],
        }[column.family]

    def pattern(self):
        return text(
            self.random.choice(
                ["red", "%green", "name 1%", "%een%", "_lue", "%日本%", "%🦆", "", "%", "n_me 1_", "%0%0%", "a%b", "v00__", "%ů%", "b%e", "__", "name%9", "%it's%"]
            )
        )

    def predicate(self, sources, depth=0):
        if depth < 3 and self.chance(0.45 - 0.1 * depth):
            kind = self.random.choice(["AND", "AND", "OR", "NOT"])
            if kind == "NOT":
                return f"NOT ({self.predicate(sources, depth + 1)})"
            parts = [self.predicate(sources, depth + 1) for _ in range(self.random.choice([2, 2, 3]))]
            return "(" + f" {kind} ".join(parts) + ")"
        return self.leaf(sources)

    def leaf(self, sources):
        source = self.random.choice(sources)
        column = self.pick_column()
        name = source.name(column)
        choices = [self.compare, self.compare, self.compare, self.between, self.among, self.null_test, self.computed]
        if column.family == "text":
            choices += [self.like, self.like]
        if column.family == "bool":
            choices += [self.truth, self.truth]
        return self.random.choice(choices)(source, column, name)

    def compare(self, source, column, name):
        operator = self.random.choice(COMPARISONS + ["=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM"])
        if self.chance(0.12):
            other = self.pick_column(lambda c: c.family == column.family and c.name != column.name) if column.family in (
                "int", "float", "decimal", "date", "timestamp", "text"
            ) else column
            return comparison(name, operator, source.name(other))
        value = self.literal(source, column)
        if self.chance(0.15):
            return comparison(value, operator, name)
        return comparison(name, operator, value)

    def between(self, source, column, name):
        low, high = self.literal(source, column), self.literal(source, column)
        return f"{name} {'NOT ' if self.chance(0.2) else ''}BETWEEN {low} AND {high}"

    def among(self, source, column, name):
        values = [self.literal(source, column) for _ in range(self.random.choice([1, 2, 3, 5, 9]))]
        if self.chance(0.08):
            values.append("NULL")
        return f"{name} {'NOT ' if self.chance(0.3) else ''}IN ({', '.join(values)})"

    def null_test(self, source, column, name):
        return f"{name} IS {'NOT ' if self.chance(0.5) else ''}NULL"

    def like(self, source, column, name):
        return f"{name} {'NOT ' if self.chance(0.25) else ''}{'ILIKE' if self.chance(0.1) else 'LIKE'} {self.pattern()}"

    def truth(self, source, column, name):
        return self.random.choice([name, f"NOT {name}", f"{name} IS TRUE", f"{name} IS NOT FALSE", f"{name} = true"])

    def computed(self, source, column, name):
        value = self.literal(source, column)
        match column.family:
            case "int":
                if column.summable:
                    return f"CAST({name} AS BIGINT) * 3 + {self.random.randint(-9, 9)} {self.random.choice(COMPARISONS)} {value}"
                return f"coalesce({name}, 7) {self.random.choice(COMPARISONS)} {value}"
            case "date" | "timestamp":
                part = self.random.choice(["year", "month", "day"])
                bound = self.random.choice([1, 2, 6, 12, 28, 1969, 1970, 1994, 1997, 2000])
                return f"extract({part} FROM {name}) {self.random.choice(COMPARISONS)} {bound}"
            case "text":
                expression = self.random.choice([f"length({name})", f"length({name} || 'x')"])
                return f"{expression} {self.random.choice(COMPARISONS)} {self.random.choice([0, 1, 3, 4, 6, 8, 32, 600])}"
            case "bool":
                return f"CASE WHEN {name} THEN 1 ELSE 2 END = {self.random.choice([1, 2])}"
            case _:
                return f"coalesce({name}, {value}) {self.random.choice(COMPARISONS)} {self.literal(source, column)}"

    def where(self, sources, share=0.85):
        return f" WHERE {self.predicate(sources)}" if self.chance(share) else ""

    # Expressions

    def scalar(self, source):
        """An expression over one row that cannot overflow."""
        if self.chance(0.55):
            return source.name(self.pick_column())
        column = self.pick_column()
        name = source.name(column)
        match column.family:
            case "int" if column.summable:
                other = source.name(self.pick_column(lambda c: c.family == "int" and c.summable))
                return self.random.choice(
                    [
                        f"CAST({name} AS BIGINT) + {other}",
                        f"CAST({name} AS BIGINT) - CAST({other} AS BIGINT) * 2",
                        f"CAST({name} AS BIGINT) % 7",
                        f"-CAST({name} AS BIGINT)",
                        f"abs(CAST({name} AS BIGINT))",
                        f"CAST({name} AS DOUBLE) / 4",
                        f"CASE WHEN {name} > {other} THEN {name} WHEN {name} IS NULL THEN -1 END",
                        f"nullif({name}, {self.literal(source, column)})",
                        f"CAST({name} AS VARCHAR)",
                    ]
                )
            case "decimal":
                other = source.name(BY_NAME["d9"])
                return self.random.choice([f"{name} + {other}", f"{name} - {other}", f"{other} * {other}", f"-{name}"])
            case "float" if column.summable:
                return self.random.choice([f"{name} * 2", f"CAST({name} AS DOUBLE) + 0.5", f"-{name}"])
            case "text":
                return self.random.choice(
                    [f"length({name})", f"substr({name}, 2, 5)", f"{name} || '-' || {source.name(BY_NAME['s'])}", f"upper({source.name(BY_NAME['s'])})", f"replace({name}, 'e', '<e>')"]
                )
            case "date" | "timestamp":
                return f"extract({self.random.choice(['year', 'month', 'day'])} FROM {name})"
            case "bool":
                return f"NOT {name}"
            case _:
                return f"coalesce({name}, {self.literal(source, column)})"

    def aggregate(self, sources):
        source = self.random.choice(sources)
        kind = self.random.choice(["count(*)", "count", "sum", "sum", "min", "max", "min", "max", "avg", "distinct", "filter"])
        if kind == "count(*)":
            return kind
        if kind in ("count", "distinct"):
            name = source.name(self.pick_column())
            return f"count({'DISTINCT ' if kind == 'distinct' else ''}{name})"
        if kind in ("min", "max"):
            return f"{kind}({source.name(self.pick_column())})"
        column = self.pick_column(lambda c: c.summable)
        name = source.name(column)
        if kind == "avg":
            return f"avg(CAST({name} AS DOUBLE))" if column.family == "decimal" or self.chance(0.3) else f"avg({name})"
        if kind == "filter":
            return f"sum({name}) FILTER (WHERE {self.leaf([source])})"
        if column.family == "int" and self.chance(0.4):
            other = source.name(self.pick_column(lambda c: c.family == "int" and c.summable))
            name = self.random.choice(
                [f"CAST({name} AS BIGINT) + {other}", f"CASE WHEN {other} > 3 THEN {name} ELSE 0 END", f"CAST({name} AS BIGINT) * 2 - 1"]
            )
        return f"sum({name})"

    # Shapes

    def totals(self):
        source = Source(self.pick_table())
        aggregates = [self.aggregate([source]) for _ in range(self.random.randint(1, 5))]
        return f"SELECT {named(aggregates)} FROM {source.table.name}{self.where([source], 0.93)}", True

    def groups(self):
        source = Source(self.pick_table())
        return self.grouped([source], f"FROM {source.table.name}{self.where([source], 0.7)}")

    def grouped(self, sources, from_where):
        if self.chance(0.75):
            keys = [
                source.name(column)
                for source in [self.random.choice(sources)]
                for column in self.pick_columns(self.random.choice([1, 1, 2, 3]), lambda c: c.few and c.family != "float")
            ]
        else:
            source = self.random.choice(sources)
            keys = [self.random.choice([source.name(self.pick_column()), self.scalar(source)])]
        aggregates = [self.aggregate(sources) for _ in range(self.random.randint(1, 4))]
        having = f" HAVING count(*) > {self.random.choice([0, 1, 2, 10, 100])}" if self.chance(0.25) else ""
        order = self.total_order(len(keys))
        limit = f" LIMIT {self.random.choice([1, 5, 50, ORDERED_ROWS, 5 * ORDERED_ROWS])}"
        return f"SELECT {named(keys + aggregates)} {from_where} GROUP BY {', '.join(keys)}{having}{order}{limit}", True

    def total_order(self, count):
        positions = list(range(1, count + 1))
        self.random.shuffle(positions)
        parts = []
        for position in positions:
            direction, nulls = self.random.choice(["ASC", "DESC"]), self.random.choice(["FIRST", "LAST"])
            parts.append(f"{position} {direction} NULLS {nulls}")
        return f" ORDER BY {', '.join(parts)}"

    def rows(self):
        source = Source(self.pick_table())
        return self.selected([source], f"FROM {source.table.name}{self.where([source])}")

    def selected(self, sources, from_where, distinct=""):
        expressions = [self.scalar(self.random.choice(sources)) for _ in range(self.random.randint(1, 6))]
        limit = f" LIMIT {self.random.choice([0, 1, 10, 100, ORDERED_ROWS])}"
        if self.chance(0.15):
            limit += f" OFFSET {self.random.choice([0, 1, 10, 1000])}"
        return f"SELECT {distinct}{named(expressions)} {from_where}{self.total_order(len(expressions))}{limit}", True

    def distinct(self):
        source = Source(self.pick_table())
        return self.selected([source], f"FROM {source.table.name}{self.where([source])}", "DISTINCT ")

    def joined(self):
        left = Source(self.pick_table((1, 1, 20, 20, 15, 20, 0)), "a")
        if self.chance(0.7):
            right = Source(self.tables["d"], "b")
            condition = self.random.choice([self.join_on_key, self.join_on_key, self.join_on_any])()
        else:
            right = Source(self.pick_table((1, 1, 20, 10, 10, 10, 10)), "b")
            condition = "a.k = b.k"
        if self.chance(0.25):
            condition += f" AND {self.leaf([right])}"
        kind = self.random.choice(["JOIN", "JOIN", "LEFT JOIN"])
        if kind == "JOIN" and self.chance(0.3):
            from_clause = f"FROM {left.table.name} a, {right.table.name} b WHERE {condition}"
            if self.chance(0.7):
                from_clause += f" AND {self.predicate([left, right])}"
            return [left, right], from_clause
        from_clause = f"FROM {left.table.name} a {kind} {right.table.name} b ON {condition}"
        return [left, right], from_clause + self.where([left, right], 0.7)

    def join_on_key(self):
        """The right table's unique key."""
        return f"a.{self.random.choice(['g', 'i8', 'u8', 'i16', 'k', 'so', 'u64', 'd9'])} = b.k"

    def join_on_any(self):
        """Columns of one family, of equal or different types, without those of so few values that rows explode."""
        left = self.pick_column(lambda c: c.family not in ("bool", "blob", "time") and c.name not in NEARLY_CONSTANT)
        right = self.pick_column(lambda c: c.family == left.family and c.name not in NEARLY_CONSTANT)
        return f"a.{left.name} = b.{right.name}"

    def join_totals(self):
        sources, from_where = self.joined()
        if self.chance(0.5):
            return self.grouped(sources, from_where)
        aggregates = [self.aggregate(sources) for _ in range(self.random.randint(1, 4))]
        return f"SELECT {named(aggregates)} {from_where}", True

    def join_rows(self):
        sources, from_where = self.joined()
        return self.selected(sources, from_where)

    def subquery(self):
        outer = Source(self.pick_table(), "a")
        inner = Source(self.tables["d"] if self.chance(0.6) else self.pick_table((1, 1, 20, 10, 5, 5, 0)), "b")
        column = self.pick_column(lambda c: c.name in ("g", "i8", "u16", "k", "so", "s", "v", "dt", "b", "d9"))
        conditions = [self.predicate([inner])] if self.chance(0.8) else []
        if self.chance(0.5):
            test = f"a.{column.name} {'NOT ' if self.chance(0.3) else ''}IN (SELECT b.{column.name}"
        else:
            conditions.append(f"b.{column.name} = a.{column.name}")
            test = f"{'NOT ' if self.chance(0.3) else ''}EXISTS (SELECT 1"
        inner_where = f" WHERE {' AND '.join(f'({condition})' for condition in conditions)}" if conditions else ""
        test += f" FROM {inner.table.name} b{inner_where})"
        aggregates = [self.aggregate([outer]) for _ in range(self.random.randint(1, 3))]
        extra = f" AND {self.predicate([outer])}" if self.chance(0.4) else ""
        return f"SELECT {named(aggregates)} FROM {outer.table.name} a WHERE {test}{extra}", True


def comparison(left, operator, right):
    """IS DISTINCT FROM binds differently in the two parsers: it stands in parentheses."""
    return f"({left} {operator} {right})" if "DISTINCT" in operator else f"{left} {operator} {right}"


def named(expressions):
    """Output columns r1, r2, …: no name of a table's column is hidden."""
    return ", ".join(f"{expression} AS r{index}" for index, expression in enumerate(expressions, 1))
