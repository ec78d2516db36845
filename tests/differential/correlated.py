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


class CorrelatedSuite(Suite):
    """As random joins, over their small tables."""

    tables = tuple(TABLES)
    undecided = (re.compile(r"More than one row returned by a subquery"),)
    unsupported_texts = (*UNSUPPORTED, *REFUSED)


def run(options, report):
    """`options`: binary, directory, seed, size (how many queries), query (one number, or None)."""
    report.suite(f"random correlated subqueries, seed {options.seed}, {options.size} queries")
    suite = CorrelatedSuite(options, report, "correlated", CorrelatedGenerator, EXECUTIONS)
    suite.load()
    suite.ask_all(options.size)
    refused = f"{suite.unsupported} refused, {suite.slow} left out because DuckDB took {SECONDS} s"
    report.say(f"   {suite.asked} queries, {suite.carved} with pipelines, {refused}")
    report.end()
