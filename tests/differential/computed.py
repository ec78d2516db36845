"""What the suites of random expressions have in common: queries that are asked in DuckDB and, on several executions, in Forebay;
their answers as DuckDB writes them; and failing queries made smaller before they are shown.

A suite has a name, tables that both load by the same statements, and a generator, whose `query(number)` makes the same query every
time.
"""

import json
import math
import os
import re
from dataclasses import dataclass, field, replace
from decimal import Decimal, InvalidOperation

import duckdb

from binary import Answer, Number
from joins import EXECUTIONS, is_invalid
from layouts import lay_out

BATCH = 50
# Of so many batches one is asked on the interpreter, too.
INTERPRETER_SHARE = 4
SMALLER_TRIES = 40
# Queries that DuckDB refuses, for types that do not fit, say nothing: the generator should make few of them.
MOST_REFUSED = 0.08


@dataclass
class Query:
    """`SELECT outputs tail`; rows are compared in their order where `is_ordered`. `parts` are texts of the tail to leave out."""

    outputs: list
    tail: str = ""
    is_ordered: bool = True
    parts: list = field(default_factory=list)
    head: str = "SELECT "

    def text(self):
        named = ", ".join(f"{output} AS r{number}" for number, output in enumerate(self.outputs, 1))
        return f"{self.head}{named}{self.tail}"

    def smaller(self):
        """This query with less of it."""
        if len(self.outputs) > 1:
            for output in self.outputs:
                yield replace(self, outputs=[output])
        for part in self.parts:
            if part and part in self.tail:
                yield replace(self, tail=self.tail.replace(part, "", 1), parts=[other for other in self.parts if other != part])


@dataclass
class Expected:
    """Rows of DuckDB as text, and the names of their types."""

    rows: list
    types: list


class Oracle:
    """DuckDB with the tables of a suite."""

    def __init__(self, statements):
        self.connection = duckdb.connect(config={"threads": 1})
        self.connection.execute("SET TimeZone = 'UTC'")
        for statement in statements:
            self.connection.execute(statement)

    def rows(self, sql):
        """Its rows, or the error that it gives."""
        try:
            relation = self.connection.sql(sql)
            types = [str(kind) for kind in relation.types]
            return Expected(relation.project("CAST(COLUMNS(*) AS VARCHAR)").fetchall(), types)
        except duckdb.Error as error:
            return error

    def unoptimised(self, sql):
        """What it gives without its optimiser: a second opinion."""
        self.connection.execute("PRAGMA disable_optimizer")
        try:
            return self.rows(sql)
        finally:
            self.connection.execute("PRAGMA enable_optimizer")


def same_number(expected, cell, is_float):
    try:
        if not is_float:
            return Decimal(expected) == Decimal(cell)
        left, right = float(expected), float(cell)
    except (InvalidOperation, ValueError):
        return False
    if math.isnan(left) or math.isnan(right):
        return math.isnan(left) and math.isnan(right)
    return left == right or math.isclose(left, right, rel_tol=1e-9, abs_tol=1e-300)


def same(expected, kind, cell):
    """Whether a cell of Forebay is what DuckDB writes as `expected`, of the type `kind`."""
    if expected is None or cell is None:
        return expected is cell
    if kind == "BOOLEAN":
        return isinstance(cell, bool) and expected == ("true" if cell else "false")
    if re.fullmatch(r"(U?(TINY|SMALL|BIG|HUGE)INT|U?INTEGER|DECIMAL.*|DOUBLE|FLOAT)", kind):
        return not isinstance(cell, bool) and same_number(expected, cell, kind in ("DOUBLE", "FLOAT"))
    return isinstance(cell, str) and not isinstance(cell, Number) and expected == cell


def compare(wanted, answer, is_ordered):
    """None where Forebay agrees: the same rows, or an error where DuckDB gives one."""
    if answer.crashed:
        return answer.error
    if isinstance(wanted, Exception):
        said = str(wanted).splitlines()[0]
        return None if answer.error is not None else f"DuckDB says {said}\ngot {shown(answer.rows)}"
    if answer.error is not None:
        return f"expected {wanted.rows[:3]}, got an error:\n{answer.error}"
    got = [[cell for _, cell in row] for row in answer.rows]
    expected = wanted.rows
    if not is_ordered:
        got, expected = sorted(got, key=repr), sorted(expected, key=repr)
    if len(got) != len(expected):
        return f"expected {len(expected)} rows: {expected[:5]}\ngot {len(got)} rows: {got[:5]}"
    for index, (left, right) in enumerate(zip(expected, got)):
        for place, (a, kind, b) in enumerate(zip(left, wanted.types, right), 1):
            if not same(a, kind, b):
                return f"row {index + 1}, column r{place} ({kind}): expected {a!r}, got {b!r}"
    return None


def shown(rows):
    return json.dumps([[cell for _, cell in row] for row in rows[:3]], ensure_ascii=False)[:300]


class Suite:
    """`documented` are pairs of patterns, for the query and for what differs, that docs/execution.md explains."""

    def __init__(self, options, report, name, statements, generator, documented=()):
        self.options, self.report, self.name = options, report, name
        self.generator, self.documented = generator, documented
        self.directory = os.path.join(options.directory, name)
        self.database = os.path.join(self.directory, "db")
        os.makedirs(self.directory)
        self.oracle = Oracle(statements)
        self.asked = self.refused = self.failing = self.known = 0
        for answer in options.binary.answers(self.database, statements):
            report.check("load the test tables", answer.error)
        lay_out(options, report, self.database)

    def ask(self, execution, statements):
        setup = EXECUTIONS.get(execution, [])
        try:
            return self.options.binary.answers(self.database, statements, timeout=300, setup=setup)
        except RuntimeError as error:
            return [Answer(error=str(error))] * len(statements)

    def ask_all(self, count):
        """The queries of numbers below `count`, or the one that was named."""
        numbers = [self.options.query] if self.options.query is not None else list(range(count))
        for start in range(0, len(numbers), BATCH):
            self.batch(start // BATCH, numbers[start:start + BATCH])
        if self.options.query is None:
            refused = self.refused > MOST_REFUSED * max(self.asked, 1)
            self.report.check("DuckDB takes nearly all queries", f"it refuses {self.refused} of {self.asked}" if refused else None)
        self.report.say(
            f"   {self.asked} queries, {self.refused} that DuckDB refuses, {self.failing} with an error in both, {self.known} with a documented difference"
        )

    def batch(self, index, numbers):
        queries = [(number, self.generator.query(number)) for number in numbers]
        wanted = [self.oracle.rows(query.text()) for _, query in queries]
        self.asked += len(queries)
        self.refused += sum(is_invalid(rows) for rows in wanted)
        kept = [(number, query, rows) for (number, query), rows in zip(queries, wanted) if not is_invalid(rows)]
        texts = [query.text() for _, query, _ in kept]
        executions = ["compiled", "datafusion"] + (["interpreter"] if index % INTERPRETER_SHARE == 0 else [])
        answers = {execution: self.ask(execution, texts) for execution in executions}
        for place, (number, query, rows) in enumerate(kept):
            self.judge(number, query, rows, {execution: answers[execution][place] for execution in executions})

    def judge(self, number, query, wanted, answers):
        name = f"query {number} (--only {self.name} --seed {self.options.seed} --query {number})"
        self.failing += isinstance(wanted, Exception)
        failed = {execution: compare(wanted, answer, query.is_ordered) for execution, answer in answers.items()}
        failed = {execution: different for execution, different in failed.items() if different}
        if failed:
            second = self.oracle.unoptimised(query.text())
            if not any(compare(second, answers[execution], query.is_ordered) for execution in failed):
                self.report.say(f"   {name}: DuckDB contradicts itself, without its optimiser it gives what Forebay gives")
                failed = {}
        if not failed:
            self.report.check(name, None)
            return
        execution = next(iter(failed))
        query, different = self.smallest(execution, query, failed[execution])
        if any(re.search(asked, query.text(), re.I) and re.search(what, different) for asked, what in self.documented):
            self.known += 1
            self.report.check(name, None)
            return
        self.report.fail(name, f"on {', '.join(failed)}:\n{query.text()}\n{different}")

    def smallest(self, execution, query, different):
        """The query with parts left out as long as it still fails, and how."""
        left, shrinking = SMALLER_TRIES, True
        while shrinking and left > 0:
            shrinking = False
            for less in query.smaller():
                left -= 1
                wanted = self.oracle.rows(less.text())
                if left <= 0:
                    break
                if is_invalid(wanted):
                    continue
                [answer] = self.ask(execution, [less.text()])
                now = compare(wanted, answer, less.is_ordered)
                if now:
                    query, different, shrinking = less, now, True
                    break
        return query, different


def run(options, report, name, count, statements, generator, documented=()):
    """A whole suite of so many queries."""
    report.suite(f"random {name}, seed {options.seed}, {count} queries")
    Suite(options, report, name, statements, generator, documented).ask_all(count)
    report.end()
