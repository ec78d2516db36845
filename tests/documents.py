"""docs/execution.md is true: each example of its tables is planned as its row says."""

import os
import re

DOCUMENT = "execution.md"


def tables(text):
    """The rows of each table behind a `<!-- table: NAME -->`, as lists of cells."""
    found = {}
    for name, body in re.findall(r"<!-- table: ([a-z ]+) -->\n((?:\|.*\n)+)", text):
        rows = [[cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in body.splitlines()]
        found[name] = rows[2:]
    return found


def plan(binary, database, cell):
    """EXPLAIN VERBOSE of an example."""
    outcome = binary.run(database, "-c", f"EXPLAIN VERBOSE {cell.strip('`')}")
    return outcome.stdout.decode("utf-8", "replace") + outcome.stderr


def run(options, report):
    report.suite("documents")
    text = (options.documents / DOCUMENT).read_text(encoding="utf-8")
    database = os.path.join(options.directory, "documents")
    [setup] = re.findall(r"```sql\n(.*?)```", text, re.DOTALL)
    options.binary.must(database, *filter(str.strip, setup.split(";\n")))
    found = tables(text)
    for what, example in found["in pipelines"]:
        got = plan(options.binary, database, example)
        report.check(f"in pipelines: {what}", None if "ForebayPipelines" in got and "left to DataFusion" not in got else f"{example}\n{got[:3000]}")
    for what, reason, example in found["left to datafusion"]:
        got = plan(options.binary, database, example)
        said = re.findall(r"left to DataFusion\s*\n?(.*)", got)
        report.check(f"left to DataFusion: {what}", None if any(reason in line for line in said) else f"{example}\nexpected {reason}, got {said}\n{got[:600]}")
    report.end()
