"""Random queries of the kind that devices run: over one table, and over a fact table with the tables that its keys name. The
emulated device, the interpreter and compiled code give DuckDB's rows."""

from join_queries import Generator, Join, Select
from joins import SECONDS, Suite

EXECUTIONS = ("interpreter", "portable", "emulated")
FACTS = {"dup": 10, "mid": 45, "fact": 40, "huge": 5}
DIMENSIONS = {"dim": 45, "big": 30, "few": 10, "one": 4, "none": 4, "void": 3, "dup": 4}
# Columns of a fact table that are keys of dimensions: integers that lie close together.
KEYS = ["k", "l", "u", "v", "i"]
# Columns that devices group by: numbers that lie close together, and strings by their dictionary.
GROUPED = ["k", "l", "u", "b", "c", "m", "d", "s", "y"]
# The share of queries with parts that devices have not, which the CPU must be given.
ANYTHING = 0.15
FEWEST_ON_DEVICE = 0.5
# By layout: tables of which some rows are hot have deleted ones, which the CPU leaves out.
FEWEST_OF_LAYOUT = {"hot": 0.02, "mixed": 0}


class DeviceGenerator(Generator):
    """Queries over one table, and stars."""

    def joined(self, count=None):
        names = list(FACTS)
        fact = self.of_table(self.random.choices(names, weights=FACTS.values())[0])
        query, sources = Select(fact), [fact]
        for _ in range(self.random.choices([0, 1, 2, 3], weights=[35, 30, 25, 10])[0]):
            self.dimension(query, sources)
        return query, sources

    def dimension(self, query, sources):
        """Joins a dimension to the fact table, or tests for its keys."""
        names = list(DIMENSIONS)
        dimension = self.of_table(self.random.choices(names, weights=DIMENSIONS.values())[0])
        column = self.pick(KEYS)
        fact = sources[0]
        own = next(field.sql for field in fact.fields if field.column.name == column)
        # A dimension has its key once; those of other tables come often, and rows are multiplied.
        is_keyed = dimension.rows <= 12 or dimension.sql in ("dim", "big")
        key = "i" if not is_keyed else self.pick(["k", "i", "l"])
        other = next(field.sql for field in dimension.fields if field.column.name == key)
        equal = f"{own} = {other}"
        kind = self.random.choices(["JOIN", "LEFT JOIN", ",", "EXISTS", "NOT EXISTS", "IN"], weights=[45, 20, 15, 8, 5, 7])[0]
        tests = [self.predicate([dimension])] if self.chance(0.6) else []
        where = f" WHERE {' AND '.join(tests)}" if tests else ""
        match kind:
            case "EXISTS" | "NOT EXISTS":
                query.where.append(f"{kind} (SELECT 1 FROM {dimension.text()} WHERE {' AND '.join([equal, *tests])})")
            case "IN":
                query.where.append(f"{own} IN (SELECT {other} FROM {dimension.text()}{where})")
            case ",":
                query.where += [equal, *tests]
                query.joins.append(Join(kind, dimension))
                sources.append(dimension)
            case _:
                on = [equal, *tests] if kind == "LEFT JOIN" or self.chance(0.5) else [equal]
                query.where += [] if len(on) > 1 else tests
                query.joins.append(Join(kind, dimension, on))
                sources.append(dimension)

    def aggregate(self, sources):
        anything = self.chance(ANYTHING)
        while True:
            made = super().aggregate(sources)
            is_text = any(f"({field.sql})" in made for source in sources for field in source.fields if field.family == "text")
            if anything or not ("DISTINCT" in made or "bool_" in made or "avg" in made or is_text):
                return made

    def key(self, sources):
        if self.chance(ANYTHING):
            return super().key(sources)
        return self.pick([field.sql for source in sources for field in source.fields if field.column.name in GROUPED])

    def shapes(self):
        return {self.groups: 45, self.totals: 35, self.rows: 20}

    def subquery(self, sources):
        return self.leaf(sources)


class DeviceSuite(Suite):
    """Counts what ran on the device."""

    on_device = 0

    def answers(self, batch, texts):
        found = {name: self.ask(name, texts) for name in self.executions if name != "emulated"}
        # Each beside its plan, in one process, which compiles a kernel once.
        both = self.ask("emulated", [sql for text in texts for sql in (text, f"EXPLAIN ANALYZE {text}")])
        found["emulated"] = both[::2]
        self.on_device += sum("on the emulated device" in str(plan.rows) for plan in both[1::2])
        return found


def run(options, report):
    """`options`: binary, directory, seed, devices (how many queries), query (one number, or None)."""
    report.suite(f"random queries for devices, seed {options.seed}, {options.devices} queries")
    suite = DeviceSuite(options, report, "devices", DeviceGenerator, EXECUTIONS)
    suite.load()
    suite.ask_all(options.devices)
    report.say(f"   {suite.asked} queries, {suite.on_device} with pipelines on the device, {suite.slow} left out because DuckDB took {SECONDS} s")
    if options.query is None:
        few = suite.on_device < FEWEST_OF_LAYOUT.get(options.layout, FEWEST_ON_DEVICE) * suite.asked
        report.check("many queries run on the device", f"{suite.on_device} of {suite.asked}" if few else None)
    report.end()
