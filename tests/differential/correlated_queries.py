"""Random queries with correlated subqueries: scalar ones, EXISTS, IN, ANY and ALL, lists of values, LATERAL joins; in every clause;
correlated by equalities, inequalities and expressions, one level deep or several; over joins, groups, set operations, DISTINCT,
windows and LIMIT.

A subquery remembers smaller ones that could stand in its place, so that a query that fails is made smaller inside of it, too.
Left out on purpose, because rows would not be determined: LIMIT without a total order, sums of floats that round.
"""

from join_queries import COMPARISONS, Field, Generator, Join, Source
from join_tables import COLUMNS, TABLES as SHAPES
from parts import Outer, Part

# The tables of the joins' suite that are small: a subquery that is correlated by an inequality looks at all pairs of rows.
TABLES = {"none": 4, "one": 4, "void": 4, "few": 30, "dim": 30, "big": 8}
COMPARED = ["int", "text", "decimal", "date", "timestamp", "bool"]
DEEPEST = 3


class CorrelatedGenerator(Generator):
    """Each query has at least one subquery, most of them correlated."""

    def query(self, number):
        self.rows_so_far = 1
        return super().query(number)

    def shapes(self):
        return {self.rows_where: 34, self.rows_selected: 18, self.groups_of: 14, self.totals_of: 14, self.lateral: 14, self.joined_on: 6}

    # FROM

    def table(self, most=None):
        """A small table; with `most`, of so many rows."""
        names = [name for name in TABLES if most is None or SHAPES[name].rows <= most] or ["few"]
        return self.of_table(self.random.choices(names, weights=[TABLES[name] for name in names])[0])

    def outer(self):
        """A SELECT of one or two tables without outputs, and its sources."""
        first = self.table()
        query, sources = Outer(first), [first]
        if self.chance(0.3):
            other = self.table(most=150)
            a, b = self.matching(sources, [other])
            query.joins.append(Join(self.pick(["JOIN", "LEFT JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"]), other, [f"{a.sql} = {b.sql}"]))
            sources.append(other)
        return query, sources

    def matching(self, left, right, families=COMPARED):
        """A column of some source of each, of one family."""
        lefts = [f for source in left for f in source.fields if f.family in families]
        rights = [f for source in right for f in source.fields if f.family in families]
        family = self.pick(sorted({f.family for f in lefts} & {f.family for f in rights}))
        return self.pick([f for f in lefts if f.family == family]), self.pick([f for f in rights if f.family == family])

    # Subqueries

    def correlation(self, outer, inner):
        """A condition over columns of both."""
        a, b = self.matching(inner, outer)
        kind = self.random.choices(
            ["equal", "unequal", "null", "computed", "or", "outer", "both", "between"], weights=[46, 16, 6, 10, 7, 5, 5, 5]
        )[0]
        match kind:
            case "equal":
                return f"{a.sql} = {b.sql}"
            case "unequal":
                return f"{a.sql} {self.pick(COMPARISONS[1:])} {b.sql}"
            case "null":
                return f"({a.sql} IS {self.pick(['', 'NOT '])}DISTINCT FROM {b.sql})"
            case "computed":
                return self.computed_key(b, a)
            case "or":
                return f"({a.sql} = {b.sql} OR {self.leaf(inner)})"
            case "outer":
                return f"{b.sql} {self.pick(COMPARISONS)} {self.constant(b)}"
            case "between":
                return f"{b.sql} BETWEEN {a.sql} AND {self.matching(inner, [Source('', '', 0, [a])])[0].sql}"
        c, d = self.matching(inner, outer)
        return f"coalesce({a.sql}, {b.sql}) {self.pick(COMPARISONS)} coalesce({d.sql if d.family == a.family else b.sql}, {self.constant(a)})"

    def body(self, outer, depth, correlated=True):
        """FROM and WHERE of a subquery: `(text, the same with less, its sources)`. `outer` are the sources around it."""
        inner = self.table(most=150 if depth > 1 or self.chance(0.8) else None)
        sources, text = [inner], inner.text()
        if correlated and self.chance(0.22):
            more = self.table(most=12 if depth > 1 else 150)
            a, b = self.matching([inner], [more])
            kind = self.pick(["JOIN", "JOIN", "LEFT JOIN", "FULL JOIN"])
            on = f"{a.sql} = {b.sql}"
            if kind != "FULL JOIN" and self.chance(0.25):
                on += f" AND {self.correlation(outer, [more])}"
            text += f" {kind} {more.text()} ON {on}"
            sources.append(more)
        count = self.random.choices([0, 1, 2], weights=[10, 65, 25])[0] if correlated else 0
        conditions = [self.correlation(outer, sources) for _ in range(count)]
        if self.chance(0.4):
            conditions.append(self.predicate(sources))
        if correlated and depth < DEEPEST and self.chance(0.14):
            conditions.append(self.test(outer + sources, depth + 1))
        where = lambda conditions: f" WHERE {' AND '.join(conditions)}" if conditions else ""
        less = [text + where(conditions[:index] + conditions[index + 1:]) for index in range(len(conditions))]
        for index, condition in enumerate(conditions):
            less += [text + where(conditions[:index] + [simpler] + conditions[index + 1:]) for simpler in getattr(condition, "simpler", ())]
        return text + where(conditions), less, sources

    def plain_field(self, sources, family=None):
        fields = [f for source in sources for f in source.fields if f.family == family or (family is None and f.family in COMPARED)]
        return self.pick(fields) if fields else None

    def group_keys(self, outer, sources):
        """Columns of GROUP BY: of the subquery, of the query around it, or of both."""
        own = self.plain_field(sources).sql
        around = self.plain_field(outer)
        if around is None or self.chance(0.6):
            return own
        return self.pick([around.sql, f"{own}, {around.sql}", f"ROLLUP ({around.sql}, {own})"])

    def subselect(self, outer, depth, family, shapes):
        """`(text, simpler texts)` of a subquery of one column of `family`, or of any for None."""
        text, less, sources = self.body(outer, depth)
        item = self.plain_field(sources, family) or self.plain_field(sources)
        name = item.sql
        if self.chance(0.1) and family is not None:
            both = self.plain_field(outer, family)
            name = f"coalesce({name}, {both.sql})" if both else name
        shape = self.random.choices(list(shapes), weights=shapes.values())[0]
        key = self.plain_field(sources).sql
        frames = {
            "rows": (f"SELECT {name} FROM ", ""),
            "distinct": (f"SELECT DISTINCT {name} FROM ", ""),
            "total": (f"SELECT {self.pick(['min', 'max'])}({name}) FROM ", ""),
            "groups": (f"SELECT {self.pick(['min', 'max'])}({name}) FROM ", f" GROUP BY {self.group_keys(outer, sources)}{self.pick(['', ' HAVING count(*) > 1'])}"),
            "one group": (f"SELECT {self.pick(['min', 'max'])}({name}) FROM ", f" GROUP BY {(self.plain_field(outer) or item).sql}"),
            "first": (f"SELECT {name} FROM ", f" ORDER BY 1 {self.pick(['', 'DESC '])}NULLS {self.pick(['FIRST', 'LAST'])} LIMIT {self.pick([1, 1, 2])}"),
            "one": (f"SELECT {name} FROM ", f" ORDER BY 1 {self.pick(['', 'DESC '])}NULLS {self.pick(['FIRST', 'LAST'])} LIMIT 1{self.pick(['', ' OFFSET 1'])}"),
            "window": (f"SELECT {self.pick(['min', 'max'])}({name}) OVER (PARTITION BY {key}) FROM ", ""),
        }
        if shape == "union":
            other, _, others = self.body(outer, depth)
            second = self.plain_field(others, item.family) or item
            operation = self.pick(["UNION", "UNION ALL", "INTERSECT", "EXCEPT"])
            if second is item:
                return f"SELECT {name} FROM {text}", [f"SELECT {name} FROM {part}" for part in less]
            whole = f"SELECT {name} FROM {text} {operation} SELECT {second.sql} FROM {other}"
            return whole, [f"SELECT {name} FROM {text}"]
        if shape == "union total":
            inner, simpler = self.subselect(outer, depth, item.family, {"union": 1})
            head = f"SELECT {self.pick(['min(q.x)', 'max(q.x)'])} FROM ("
            return f"{head}{inner}) q(x)", [f"{head}{part}) q(x)" for part in simpler]
        before, behind = frames[shape]
        return before + text + behind, [before + part + behind for part in less]

    def scalar_subquery(self, outer, family=None, depth=1):
        """A subquery in the place of a value."""
        kind = self.random.choices(["value", "count", "sum", "many"], weights=[70, 18, 8, 2] if family in (None, "int") else [95, 0, 0, 2])[0]
        if kind in ("count", "sum"):
            text, less, sources = self.body(outer, depth)
            number = self.pick([f for source in sources for f in source.fields if f.column.exact and f.family == "int"])
            head = f"SELECT count({self.pick(['*', number.sql])}) FROM " if kind == "count" else f"SELECT sum({number.sql}) FROM "
            return Part(f"({head}{text})", [f"({head}{part})" for part in less])
        shapes = {"rows": 1} if kind == "many" else {"total": 60, "one": 22, "one group": 8, "union total": 10}
        text, simpler = self.subselect(outer, depth, family, shapes)
        return Part(f"({text})", [f"({part})" for part in simpler])

    def test(self, outer, depth=1):
        """A condition with a subquery."""
        kind = self.random.choices(["exists", "in", "compare", "any", "all", "row", "same"], weights=[32, 26, 22, 7, 7, 6, 10])[0]
        many = {"rows": 50, "distinct": 8, "groups": 12, "union": 12, "first": 10, "window": 6, "total": 4}
        item = self.plain_field(outer)
        operator = self.pick(COMPARISONS)
        negation = self.pick(["", "", "NOT "])
        match kind:
            case "exists":
                text, simpler = self.subselect(outer, depth, None, many)
                before = f"{negation}EXISTS ("
            case "compare":
                part = self.scalar_subquery(outer, item.family, depth)
                return Part(f"{item.sql} {operator} {part}", [f"{item.sql} {operator} {simpler}" for simpler in part.simpler])
            case "same":
                # Within the subquery its table hides the one outside that has its name.
                source = self.pick([s for s in outer if isinstance(s.sql, str) and s.sql in TABLES] or [self.table()])
                others = [s for s in outer if s.alias != source.alias]
                a, b = self.matching([source] if source in outer else outer, [source])
                conditions = [self.predicate([source])] if self.chance(0.7) else []
                if others and self.chance(0.6):
                    conditions.append(self.correlation(others, [source]))
                before = f"{a.sql} {self.pick([f'{negation}IN', f'{operator} ANY', '<> ALL'])} (SELECT {b.sql} FROM {source.text()}"
                text, simpler = f" WHERE {' AND '.join(conditions)}" if conditions else "", [f" WHERE {part}" for part in conditions]
            case "row":
                # DuckDB has no lists of values beside what is correlated.
                text, less, sources = self.body(outer, depth, correlated=False)
                pairs = [self.matching(outer, sources) for _ in range(2)]
                before = f"({', '.join(a.sql for a, _ in pairs)}) {negation}IN (SELECT {', '.join(b.sql for _, b in pairs)} FROM "
                simpler = less
            case _:
                text, simpler = self.subselect(outer, depth, item.family, many)
                before = f"{item.sql} {negation}IN (" if kind == "in" else f"{item.sql} {operator} {kind.upper()} ("
        return Part(f"{before}{text})", [f"{before}{part})" for part in simpler])

    def condition(self, sources):
        """A test, alone or within a larger condition."""
        test = self.test(sources)
        wrap = self.random.choices(["{}", "({} OR {leaf})", "NOT ({})", "({} AND {leaf})", "CASE WHEN {leaf} THEN {} ELSE {leaf} END", "({}) IS NULL"], weights=[55, 18, 8, 6, 8, 5])[0]
        leaf = self.leaf(sources)
        return Part(wrap.format(test, leaf=leaf), [test, *(wrap.format(part, leaf=leaf) for part in test.simpler)])

    def value(self, sources):
        """An expression with a subquery."""
        kind = self.random.choices(["plain", "coalesce", "case", "sum", "test"], weights=[50, 12, 14, 10, 14])[0]
        if kind == "test":
            part = self.test(sources)
            return Part(f"({part})", [f"({simpler})" for simpler in part.simpler])
        item = self.plain_field(sources, "int" if kind == "sum" else None) or self.plain_field(sources)
        part = self.scalar_subquery(sources, item.family)
        frame = {
            "plain": "{}",
            "coalesce": f"coalesce({{}}, {item.sql})",
            "case": f"CASE WHEN {self.leaf(sources)} THEN {{}} ELSE {item.sql} END",
            "sum": f"{item.sql} + {{}}" if item.family == "int" else "{}",
        }[kind]
        return Part(frame.format(part), [part, *(frame.format(simpler) for simpler in part.simpler)])

    # Shapes

    def ordered(self, query, limit=1000):
        query.order = self.directions(len(query.outputs))
        query.limit = f" LIMIT {limit}"
        return query

    def plain_outputs(self, sources):
        return [self.plain_field(sources).sql for _ in range(self.random.randint(1, 3))]

    def rows_where(self):
        query, sources = self.outer()
        query.where = [self.condition(sources) for _ in range(self.pick([1, 1, 1, 2]))]
        if self.chance(0.3):
            query.where.append(self.predicate(sources))
        query.outputs = self.plain_outputs(sources)
        query.distinct = self.chance(0.1)
        return self.ordered(query)

    def rows_selected(self):
        query, sources = self.outer()
        query.outputs = self.plain_outputs(sources) + [self.value(sources) for _ in range(self.pick([1, 1, 2]))]
        if self.chance(0.3):
            query.where.append(self.predicate(sources))
        if self.chance(0.15):
            query.where.append(self.condition(sources))
        return self.ordered(query)

    def totals_of(self):
        """Aggregates of what is selected by subqueries, or of their values."""
        query, sources = self.outer()
        query.outputs = [self.aggregate(sources) for _ in range(self.random.randint(1, 2))]
        if self.chance(0.4):
            part = self.scalar_subquery(sources, self.pick([None, "int"]))
            head = self.pick(["count", "min", "max"])
            query.outputs.append(Part(f"{head}({part})", [f"{head}({simpler})" for simpler in part.simpler]))
        else:
            query.where.append(self.condition(sources))
        return self.ordered(query)

    def groups_of(self):
        """Groups that are filtered by subqueries over their keys, or made by values of subqueries."""
        query, sources = self.outer()
        if self.chance(0.25):
            query.keys = [self.value(sources)]
        else:
            query.keys = list(dict.fromkeys(self.plain_field(sources).sql for _ in range(self.pick([1, 2]))))
            keys = [Field(f.sql, f.column, f.table) for source in sources for f in source.fields if f.sql in query.keys]
            group = [Source("", "", 0, keys)]
            if self.chance(0.6):
                query.having.append(self.test(group))
        query.outputs = list(query.keys) + [self.aggregate(sources)]
        if not query.having and not isinstance(query.keys[0], Part):
            query.where.append(self.condition(sources))
        return self.ordered(query)

    def joined_on(self):
        """A join whose condition has a subquery."""
        query, sources = self.outer()
        other = self.table(most=12)
        a, b = self.matching(sources, [other])
        test = self.test(self.pick([sources, [other], sources + [other]]))
        query.joins.append(Join(self.pick(["JOIN", "LEFT JOIN"]), other, [f"{a.sql} = {b.sql}", test]))
        query.outputs = self.plain_outputs(sources + [other])
        return self.ordered(query)

    def lateral(self):
        """A join with what depends on its left side."""
        query, sources = self.outer()
        text, less, inner = self.body(sources, 1)
        items = [self.plain_field(inner) for _ in range(self.pick([1, 2]))]
        alias = self.alias()
        kind = self.random.choices(["rows", "total", "groups", "first", "distinct", "computed"], weights=[30, 25, 12, 18, 8, 7])[0]
        names = ", ".join(f"{item.sql} AS r{number}" for number, item in enumerate(items, 1))
        fields = [Field(f"{alias}.r{number}", item.column, item.table) for number, item in enumerate(items, 1)]
        match kind:
            case "total" | "groups":
                totals = ", ".join(f"{self.pick(['min', 'max'])}({item.sql}) AS r{number}" for number, item in enumerate(items, 1))
                text = f"SELECT {totals}, count(*) AS c FROM {text}" + (f" GROUP BY {self.group_keys(sources, inner)}" if kind == "groups" else "")
                fields.append(Field(f"{alias}.c", COLUMNS[0]))
            case "first":
                order = ", ".join(f"{number} {how}" for number, how in enumerate(self.directions(len(items)), 1))
                text = f"SELECT {names} FROM {text} ORDER BY {order} LIMIT {self.pick([1, 2, 5])}"
            case "computed":
                own = self.plain_field(sources)
                text, fields = f"SELECT {own.sql} AS r1, {self.leaf(sources)} AS r2", [Field(f"{alias}.r1", own.column)]
            case _:
                text = f"SELECT {'DISTINCT ' if kind == 'distinct' else ''}{names} FROM {text}"
        source = Source(alias, f"LATERAL ({text})", 100, fields)
        kind = self.pick(["CROSS JOIN", ",", "JOIN", "LEFT JOIN", "LEFT JOIN"])
        on = [] if kind in ("CROSS JOIN", ",") or self.chance(0.7) else [self.leaf([source])]
        query.joins.append(Join(kind, source, on))
        query.outputs = self.plain_outputs(sources) + [f.sql for f in fields]
        if self.chance(0.2):
            query.where.append(self.leaf([source]))
        return self.ordered(query)
