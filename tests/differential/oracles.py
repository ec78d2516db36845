"""Oracles that need no second engine, over the generators of the other suites: answers of Forebay must agree with one another.

TLP (ternary logic partitioning): the rows of a query are those where a condition is true, those where it is false and those where it
is NULL; likewise its groups by a condition of HAVING, its distinct rows, and its sums, counts, least and greatest values.
NoREC: as many rows pass a condition in WHERE as it is true for in the SELECT list, where it cannot be pushed down.
PQS (pivoted query synthesis): a condition that was made true for one row finds that row.

A statement may fail, as where a number overflows: then the query says nothing, and is counted.
"""

import random
from dataclasses import dataclass
from decimal import Decimal

from binary import Answer
from correlated_queries import TABLES, CorrelatedGenerator
from join_queries import Generator, Select, Source
from joins import BATCH, EXECUTIONS, Suite
from layouts import lay_out
from numeric_queries import ROWS, NumericGenerator, Values, create_sql, insert_sql

# The executions that take turns, and plain scans, which narrow nothing.
TURNS = {name: EXECUTIONS[name] for name in ("portable", "interpreter", "datafusion", "folded")}
TURNS["plain scans"] = ["SET psma = off", "SET sma = off", "SET sargs = off"]
MOST_FAILED = 0.5


@dataclass
class Base:
    """A query without conditions, and what makes conditions over its sources."""

    query: Select
    condition: object
    outputs: list
    keys: list
    numbers: list
    pivot: str = ""
    rows: int = 0


class Bases:
    """Queries of the suites' generators."""

    def __init__(self, connection, tables, seed):
        self.seed = seed
        self.joins = Generator(connection, tables, seed)
        self.correlated = CorrelatedGenerator(connection, tables, seed)
        self.numeric = NumericGenerator(None, None, seed)

    def base(self, name, number, single=False):
        """The base of query `number` of an oracle; over one table for `single`."""
        self.random = random.Random(f"{name}:{self.seed}:{number}")
        kind = self.random.choices(["joins", "correlated", "numeric"], weights=[45, 25, 30])[0]
        if kind == "numeric":
            return self.of_numbers()
        generator = self.joins if kind == "joins" else self.correlated
        generator.random, generator.aliases, generator.scanned, generator.most_rows = self.random, 0, 0, 40_000
        if single:
            source = self.correlated_table()
            query, sources = Select(source), [source]
        elif kind == "joins":
            query, sources = self.joined()
        else:
            query, sources = self.correlated.outer()
        fields = [f for source in sources for f in source.fields]
        outputs = [self.random.choice(fields).sql for _ in range(self.random.randint(1, 4))]
        keys = [self.random.choice([f for f in fields if f.family in ("int", "text", "date", "bool", "decimal")]).sql]
        numbers = [f.sql for f in fields if f.column.exact and f.family == "int"]
        condition = (lambda: generator.predicate(sources)) if kind == "joins" else (lambda: self.correlated.condition(sources))
        source = sources[0]
        pivot = next((f.sql for f in source.fields if f.column.name == "i"), "")
        return Base(query, condition, outputs, keys, numbers, pivot, source.rows)

    def correlated_table(self):
        self.correlated.random, self.correlated.aliases = self.random, 0
        source = self.correlated.table()
        self.joins.aliases = self.correlated.aliases
        return source

    def joined(self):
        """Up to three small tables, joined on columns of one family."""
        self.correlated.random, self.correlated.aliases = self.random, 0
        query, sources = self.correlated.outer()
        self.joins.aliases = self.correlated.aliases
        return query, sources

    def of_numbers(self):
        generator = self.numeric
        generator.random, generator.has_rows = self.random, True
        generator.values = Values(self.random)
        query = Select(Source("n", "n", ROWS, []))
        columns = ["id", "tinyint", "integer", "bigint", "hugeint", "ubigint", "d9_2", "d38_10", "real"]
        outputs = [self.random.choice(columns) for _ in range(self.random.randint(1, 3))]
        return Base(query, generator.test, outputs, ["g"], ["smallint", "integer", "utinyint"], "id", ROWS)


def rows_of(answer):
    return [tuple(None if value is None else str(value) for _, value in row) for row in answer.rows]


def in_order(rows):
    return sorted(rows, key=lambda row: tuple((value is None, value or "") for value in row))


def differing(whole, parts):
    """None where the rows of the whole are those of the parts."""
    left, right = in_order(rows_of(whole)), in_order(row for part in parts for row in rows_of(part))
    if left == right:
        return None
    missing, added = list(left), []
    for row in right:
        missing.remove(row) if row in missing else added.append(row)
    return f"{len(left)} rows, and {len(right)} in {', '.join(str(len(part.rows)) for part in parts)}; not in parts: {missing[:3]}; in parts only: {added[:3]}"


class OracleSuite(Suite):
    """`groups` of statements belong together; a check looks at their answers."""

    tables = tuple(TABLES)

    def make_tables(self):
        tables, statements = super().make_tables()
        return tables, [*statements, create_sql(), insert_sql(self.options.seed)]

    def load(self):
        tables, statements = self.make_tables()
        for answer in self.options.binary.answers(self.database, statements):
            self.report.check("load the test tables", answer.error)
        lay_out(self.options, self.report, self.database)
        self.bases = Bases(self.oracle.connection, tables, self.options.seed)
        self.failed = self.told = 0

    def ask(self, execution, statements, timeout=300):
        try:
            return self.options.binary.answers(self.database, statements, timeout=timeout, setup=TURNS[execution])
        except RuntimeError as error:
            return [Answer(error=str(error), crashed=True)] * len(statements)

    def batch(self, numbers):
        execution = list(TURNS)[numbers[0] // BATCH % len(TURNS)] if self.options.query is None else "portable"
        groups = [self.statements(number) for number in numbers]
        answers = iter(self.ask(execution, [sql for statements, _ in groups for sql in statements]))
        for number, (statements, check) in zip(numbers, groups):
            own = [next(answers) for _ in statements]
            self.judge_group(execution, number, statements, own, check)

    def judge_group(self, execution, number, statements, answers, check):
        self.asked += 1
        name = f"query {number} (--only {self.name} --seed {self.options.seed} --query {number})"
        crashed = next((answer.error for answer in answers if answer.crashed), None)
        if crashed is None and any(answer.error is not None for answer in answers):
            self.failed += 1
            self.report.check(name, None)
            return
        different = crashed or check(answers)
        self.report.check(name, different and "\n".join([f"on {execution}:", *statements, different]))


class Tlp(OracleSuite):
    def statements(self, number):
        base = self.bases.base("tlp", number)
        condition = str(base.condition())
        parts = [condition, f"NOT ({condition})", f"({condition}) IS NULL"]
        kind = base_kind(self.bases.random, base)
        query = base.query
        if kind == "having":
            key, number = base.keys[0], self.bases.random.choice(base.numbers)
            operator, bound = self.bases.random.choice(["=", ">", "<=", "<>"]), self.bases.random.choice([0, 1, 7, 100])
            total = self.bases.random.choice([f"sum({number}) {operator} {bound}", f"max({number}) {operator} min({number})", f"count({number}) {operator} {bound}"])
            query.keys, query.outputs = [key], [key, "count(*)", f"max({number})"]
            whole, thirds = query.text(), [total, f"NOT ({total})", f"({total}) IS NULL"]
            texts = [whole]
            for third in thirds:
                query.having = [third]
                texts.append(query.text())
            return texts, lambda answers: differing(answers[0], answers[1:])
        if kind == "aggregate":
            number = self.bases.random.choice(base.numbers)
            query.outputs = ["count(*)", f"count({number})", f"sum({number})", f"min({number})", f"max({number})"]
        else:
            query.outputs, query.distinct = base.outputs, kind == "distinct"
        texts = [query.text()]
        before = list(query.where)
        for part in parts:
            query.where = [*before, part]
            texts.append(query.text())
        check = {"rows": lambda answers: differing(answers[0], answers[1:]), "distinct": self.distinct, "aggregate": self.aggregate}[kind]
        return texts, check

    @staticmethod
    def distinct(answers):
        whole, parts = set(rows_of(answers[0])), set(row for part in answers[1:] for row in rows_of(part))
        if len(whole) != len(answers[0].rows):
            return f"{len(answers[0].rows)} rows of DISTINCT, {len(whole)} of them distinct"
        return None if whole == parts else f"not in parts: {sorted(map(str, whole - parts))[:3]}; in parts only: {sorted(map(str, parts - whole))[:3]}"

    @staticmethod
    def aggregate(answers):
        columns = [[None if row[index] is None else Decimal(row[index]) for row in (rows_of(answer)[0] for answer in answers)] for index in range(5)]
        together = [sum, sum, sum, min, max]
        for index, (whole, *parts) in enumerate(columns):
            known = [part for part in parts if part is not None]
            wanted = together[index](known) if known else None
            if whole != wanted:
                return f"column {index + 1} is {whole}, its parts are {parts}"
        return None


def base_kind(chance, base):
    return chance.choices(["rows", "distinct", "aggregate", "having"], weights=[50, 15, 20, 15])[0]


class NoRec(OracleSuite):
    def statements(self, number):
        base = self.bases.base("norec", number)
        condition = str(base.condition())
        query = base.query
        query.outputs = [f"CASE WHEN ({condition}) IS TRUE THEN 1 ELSE 0 END"]
        plain = f"SELECT coalesce(sum(q.r1), 0) AS r1 FROM ({query.text()}) q"
        query.outputs, query.where = ["count(*)"], [*query.where, condition]
        return [query.text(), plain], self.same

    @staticmethod
    def same(answers):
        [[filtered]], [[counted]] = (rows_of(answer) for answer in answers)
        return None if filtered == counted else f"{filtered} rows pass, and the condition is true for {counted}"


class Pqs(OracleSuite):
    """Asks first what a condition is for its pivot row, and then for the rows that pass it, made true."""

    def batch(self, numbers):
        bases = [(number, self.bases.base("pqs", number, single=True)) for number in numbers]
        bases = [(number, base, str(base.condition()), self.bases.random.randrange(max(base.rows, 1))) for number, base in bases if base.rows]
        values = []
        for number, base, condition, pivot in bases:
            values.append(f"SELECT ({condition}) AS r1 FROM {base.query.first.text()} WHERE {base.pivot} = {pivot}")
        if not values:
            return
        first = self.ask("datafusion", values)
        execution = list(TURNS)[numbers[0] // BATCH % len(TURNS)] if self.options.query is None else "portable"
        asked, statements = [], []
        for (number, base, condition, pivot), value, answer in zip(bases, values, first):
            if answer.error is not None or len(answer.rows) != 1:
                self.judge_group("datafusion", number, [value], [answer], lambda answers: None)
                continue
            truth = answer.rows[0][0][1]
            rectified = condition if truth is True else f"NOT ({condition})" if truth is False else f"({condition}) IS NULL"
            statements.append(f"SELECT {base.pivot} AS r1 FROM {base.query.first.text()} WHERE {rectified}")
            asked.append((number, pivot))
        for (number, pivot), statement, answer in zip(asked, statements, self.ask(execution, statements) if statements else []):
            def check(answers, pivot=pivot):
                return None if (str(pivot),) in rows_of(answers[0]) else f"row {pivot} is not among the {len(answers[0].rows)} rows"
            self.judge_group(execution, number, [statement], [answer], check)


def run(kind, name, words, options, report):
    report.suite(f"{words}, seed {options.seed}, {options.size} queries")
    suite = kind(options, report, name)
    suite.load()
    suite.ask_all(options.size)
    report.say(f"   {suite.asked} queries, {suite.failed} that say nothing because a statement fails")
    if options.query is None:
        report.check("few queries fail", None if suite.failed <= MOST_FAILED * suite.asked else f"{suite.failed} of {suite.asked}")
    report.end()


def run_tlp(options, report):
    """`options`: binary, directory, seed, size (how many queries), query (one number, or None)."""
    run(Tlp, "tlp", "ternary logic partitioning", options, report)


def run_norec(options, report):
    """As [`run_tlp`]."""
    run(NoRec, "norec", "conditions in WHERE and in SELECT", options, report)


def run_pqs(options, report):
    """As [`run_tlp`]."""
    run(Pqs, "pqs", "rows that a condition must find", options, report)
