"""Queries that are asked again and again between random changes of their tables: with their plans kept, in every execution, and
without, they give the rows that DuckDB gives each time.

Changes keep what a plan may have assumed of a table, or break it: values beyond the bounds of integers, dates and decimals, so
that arithmetic that needed no checks overflows; NULLs where there were none; keys far apart; many more rows or none; other
columns and constraints; another table, view or macro of the same name.
"""

import os
import threading

import duckdb

from binary import Answer
from join_tables import make_table
from joins import EXECUTIONS, SECONDS, UNSUPPORTED, compare, is_invalid
from kept_plan_queries import OfFacts, OfJoins, SmallJoins, is_known_to_duckdb, is_query
from numeric import NumericSuite
from randomized import connect
from rows import Expected

# What a script counts for in `--size`: it asks eight or nine queries, some 75 times in all.
SCRIPT = 40
# Settings of the executions that every script runs on; each also runs on one of the others.
NOT_KEPT = "no plan kept"
EACH = {"compiled": [], NOT_KEPT: ["SET plan_cache = off"]}
IN_TURN = ["interpreter", "datafusion", "ranges"]
# What DuckDB says of a query that it has no time for.
TOO_SLOW = "too slow"


def run(options, report):
    """`options`: binary, directory, seed, size, query (one script, or None)."""
    scripts = max(4, options.size // SCRIPT)
    report.suite(f"random changes between repeated queries, seed {options.seed}, {scripts} scripts")
    suite = Suite(options, report)
    for number in [options.query] if options.query is not None else range(scripts):
        suite.run(number)
    report.say(f"   {suite.asked} queries, {suite.errors} of them errors, {suite.slow} left out because DuckDB took {SECONDS} s")
    report.end()


class Suite:
    def __init__(self, options, report):
        self.options, self.report = options, report
        self.directory = os.path.join(options.directory, "kept_plans")
        os.makedirs(self.directory)
        self.asked = self.errors = self.slow = 0
        self.generator = None

    def case(self, number):
        """Every other script is one of joins."""
        if number % 2 == 0:
            return OfFacts(self.options.seed, number)
        if self.generator is None:
            model = connect()
            tables = {name: make_table(model, self.directory, name, self.options.seed + place) for place, name in enumerate(OfJoins.NAMES)}
            self.generator = SmallJoins(model, tables, self.options.seed)
        return OfJoins(self.generator, self.options.seed, number)

    def run(self, number):
        start, setup, statements = self.case(number).script()
        wanted = Oracle([*start, *setup]).ask(statements)
        # One that DuckDB takes too long for may take anybody long.
        asked = [(statement, rows) for statement, rows in zip(statements, wanted, strict=True) if rows is not TOO_SLOW]
        self.slow += len(statements) - len(asked)
        self.asked += sum(is_query(statement) for statement, _ in asked)
        self.errors += sum(isinstance(rows, duckdb.Error) for _, rows in asked)
        texts = [statement for statement, _ in asked]
        another = IN_TURN[number // 2 % len(IN_TURN)]
        answers = {}
        for execution, settings in {**EACH, another: EXECUTIONS[another]}.items():
            database = os.path.join(self.directory, f"{number} {execution}")
            answers[execution] = self.answers(database, start, [*settings, *setup], texts)
        judge = Judge([*start, *setup], asked, answers, self.report)
        name = f"script {number} (--only kept_plans --seed {self.options.seed} --query {number})"
        for execution in answers:
            self.report.check(f"{name}, {execution}", judge.first_wrong(execution))

    def answers(self, database, start, setup, statements):
        binary = self.options.binary
        try:
            made = binary.answers(database, start)
            wrong = next((answer for answer in made if answer.error is not None), None)
            return [wrong] * len(statements) if wrong else binary.answers(database, statements, setup=setup, timeout=300)
        except RuntimeError as error:
            return [Answer(error=str(error), crashed=True)] * len(statements)


class Oracle:
    """DuckDB after these statements."""

    def __init__(self, statements):
        self.connection = connect()
        for statement in statements:
            self.connection.execute(statement)

    def ask(self, statements):
        return [self.answer(statement) for statement in statements]

    def answer(self, statement):
        """The rows of a query, None of a change, or the error."""
        timer = threading.Timer(SECONDS, self.connection.interrupt)
        timer.start()
        try:
            if is_query(statement):
                return Expected(self.connection.sql(statement).to_arrow_table())
            if is_known_to_duckdb(statement):
                self.connection.execute(statement)
            return None
        except duckdb.InterruptException:
            return TOO_SLOW
        except duckdb.Error as error:
            return error
        finally:
            timer.cancel()


class Judge:
    """`asked` are the statements with DuckDB's answers, `answers` those of Forebay by execution."""

    def __init__(self, start, asked, answers, report):
        self.start, self.asked, self.answers, self.report = start, asked, answers, report

    def first_wrong(self, execution):
        for index in range(len(self.asked)):
            if wrong := self.wrong(index, execution):
                return f"{self.shown(index)}\n{wrong}"
        return None

    def shown(self, index):
        """A statement, and the changes before it."""
        changes = [statement for statement, _ in self.asked[:index] if not is_query(statement)]
        return "\n".join([*changes[-6:], self.asked[index][0]])

    def wrong(self, index, execution):
        statement, wanted = self.asked[index]
        answer = self.answers[execution][index]
        if answer.crashed:
            return answer.error
        if not is_query(statement):
            if isinstance(wanted, duckdb.Error) == (answer.error is not None):
                return None
            return f"DuckDB says {wanted or 'that it is done'}, Forebay {answer.error or 'too'}"
        if answer.error is not None and any(part in answer.error for part in UNSUPPORTED):
            return None
        if is_invalid(wanted):
            return f"the oracle refused the query: {wanted}"
        if isinstance(wanted, duckdb.Error) and any(pattern.search(str(wanted)) for pattern in NumericSuite.wider):
            plain = self.answers[NOT_KEPT][index]
            return None if gist(answer) == gist(plain) else f"without a plan kept {gist(plain)[:600]}\nwith it {gist(answer)[:600]}"
        is_ordered = " ORDER BY " in statement and " OVER " not in statement
        wrong = compare(wanted, answer, is_ordered)
        if wrong and (second := self.unoptimised(index)) is not TOO_SLOW and not compare(second, answer, is_ordered):
            self.report.say(f"   {statement}: DuckDB contradicts itself, without its optimiser it gives what Forebay gives")
            return None
        return wrong

    def unoptimised(self, index):
        """What DuckDB says without its optimiser: a second opinion."""
        oracle = Oracle(self.start)
        for statement, _ in self.asked[:index]:
            if not is_query(statement):
                oracle.answer(statement)
        oracle.answer("PRAGMA disable_optimizer")
        return oracle.answer(self.asked[index][0])


def gist(answer):
    """What answers must agree on where DuckDB has none."""
    return str(sorted(map(str, answer.rows))) if answer.error is None else "an error"
