"""Random queries over numbers of every type: Forebay gives DuckDB's values, and an error where DuckDB has one."""

import math
import re

from joins import SECONDS, WIDER, Suite
from numeric_queries import NumericGenerator, create_sql, insert_sql

# Errors of DuckDB where decimals of 38 digits get more of them, or would have to, and where a zero decides before a division.
BEYOND = [
    re.compile(r"Overflow in (addition|subtract|multiplication) of DECIMAL\((18|38)\)"),
    re.compile(r"(Casting value \S+|Could not cast value \S+|Failed to cast decimal value \S+) to (type )?DECIMAL\(38,"),
    re.compile(r"Division by zero"),
    re.compile(r"Needed scale \d+ to accurately represent"),
]

EXECUTIONS = ("interpreter", "portable", "datafusion")


class NumericSuite(Suite):
    """Over one table with a column of every type."""

    wider = (*WIDER, *BEYOND)
    undecided = (re.compile(r"^(Conversion Error|Out of Range Error: Overflow in ROUND)"),)

    def may_answer(self, text, error):
        # A bound that fails decides nothing where the other one leaves the row out.
        is_bound = "BETWEEN" in text and error.startswith("Out of Range Error: Overflow in")
        return is_bound or super().may_answer(text, error)

    def is_documented(self, execution, query, different):
        # DECIMAL(38,0) is HUGEINT, of which functions give a float.
        numbers = re.match(r"row \d+, column \w+: expected (-?\d+), got (-?\d[\d.]*E\+?\d+)$", different.splitlines()[0])
        if numbers and "hugeint" in query.text().lower() and math.isclose(float(numbers[1]), float(numbers[2]), rel_tol=1e-14):
            return True
        # A bound is computed also where the other one leaves the row out.
        if "BETWEEN" in query.text() and re.search(r"got an error:\nError: overflow", different):
            return True
        # Pipelines compute no argument of rows that the FILTER leaves out.
        if "FILTER" in query.text() and different.startswith("DuckDB says Out of Range Error: Overflow in"):
            return True
        return super().is_documented(execution, query, different)

    def gist(self, answer):
        return re.sub(r"-?\d+\.\d+(e-?\d+)?", lambda number: f"{float(number[0]):.9g}", super().gist(answer))

    def make_tables(self):
        statements = [create_sql(), insert_sql(self.options.seed)]
        for statement in statements:
            self.oracle.connection.execute(statement)
        return {}, statements


def run(options, report):
    """`options`: binary, directory, seed, size (how many queries), query (one number, or None)."""
    report.suite(f"random queries over numbers, seed {options.seed}, {options.size} queries")
    suite = NumericSuite(options, report, "numeric", NumericGenerator, EXECUTIONS)
    suite.load()
    suite.ask_all(options.size)
    report.say(f"   {suite.asked} queries, {suite.carved} with pipelines, {suite.slow} left out because DuckDB took {SECONDS} s")
    report.end()
