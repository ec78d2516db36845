"""Random queries with correlated subqueries: Forebay gives DuckDB's rows on every kind of execution. What it refuses by a clear
error is counted."""

import re

from correlated_queries import TABLES, CorrelatedGenerator
from joins import SECONDS, UNSUPPORTED, Suite

EXECUTIONS = ("interpreter", "portable", "datafusion")

# What Forebay says where it does not unnest a subquery: of subqueries by their kind, or of an outer column that a query several
# levels deep, or one under a set operation, does not see.
REFUSED = [
    "is not supported yet",
    "The subquery should only return one column",
    "correlated scalar subquery",
    " does not exist",
]

# DuckDB's error of subqueries in the place of a value, also where nothing asks for the value, as docs/execution.md says.
SEVERAL_ROWS = re.compile(r"More than one row returned by a subquery")


class CorrelatedSuite(Suite):
    """As random joins, over their small tables."""

    tables = tuple(TABLES)
    unsupported_texts = (*UNSUPPORTED, *REFUSED)

    def judge(self, number, query, wanted, answers):
        """Of a subquery of several rows whose value decides nothing, DuckDB's rows are those that it gives with any value of it."""
        if isinstance(wanted, Exception) and SEVERAL_ROWS.search(str(wanted)) and all(answer.error is None for answer in answers.values()):
            wanted = self.oracle.with_any_row(query.text()) or wanted
        super().judge(number, query, wanted, answers)


def run(options, report):
    """`options`: binary, directory, seed, size (how many queries), query (one number, or None)."""
    report.suite(f"random correlated subqueries, seed {options.seed}, {options.size} queries")
    suite = CorrelatedSuite(options, report, "correlated", CorrelatedGenerator, EXECUTIONS)
    suite.load()
    suite.ask_all(options.size)
    refused = f"{suite.unsupported} refused, {suite.slow} left out because DuckDB took {SECONDS} s"
    report.say(f"   {suite.asked} queries, {suite.carved} with pipelines, {refused}")
    report.end()
