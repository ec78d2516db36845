"""The suites' own tools, tried on a program that misbehaves on purpose: what they must not take for a right answer."""

import math
import os
import pathlib
import sys

import duckdb
import pyarrow as pa

from binary import MARKER_COLUMN, Answer, Binary, Number
from hot_rows import Model
from rows import Expected, difference
from sqltest import compare, parse

# name: (what the program does after its answers, how the last answer looks)
ENDS = {
    "an exit status after the last answer": ("exit 3", "crash"),
    "a panic after the last answer": ("echo \"thread 'main' panicked\" >&2; exit 101", "crash"),
    "a signal after the last answer": ("kill -SEGV $$", "crash"),
    "an error after the last answer": ("echo 'Error: too late' >&2; exit 1", "crash"),
    "a good end": ("exit 0", None),
}


def program(directory, name, lines):
    """A program that prints `lines` of shell."""
    path = os.path.join(directory, name)
    with open(path, "w", encoding="utf-8") as out:
        out.write("\n".join(["#!/bin/sh", "ulimit -c 0", *lines, ""]))
    os.chmod(path, 0o755)
    return Binary(path)


def row(text):
    return f"echo '{text}'"


def end(number):
    return row(f'{{"{MARKER_COLUMN}": "end {number}"}}')


def endings(directory, report):
    for number, (name, (last, wanted)) in enumerate(ENDS.items()):
        binary = program(directory, f"ends-{number}", [end(0), row('{"a": 1}'), end(1), last])
        [answer] = binary.answers(None, ["SELECT 1 AS a"])
        got = "crash" if answer.crashed else answer.error
        report.check(name, None if got == wanted else f"expected {wanted}, got {got}")


def errors(directory, report):
    lines = [end(0), "echo 'Error: no such thing (line 7)' >&2", "echo '  --> /tmp/x.sql, line 2' >&2", "exit 1"]
    [answer] = program(directory, "fails", lines).answers(None, ["SELECT 1"])
    wanted = "Error: no such thing (line 7)"
    report.check("an error is its line alone", None if answer.error == wanted and not answer.crashed else f"{answer}")


def numbers(report):
    expected = Expected(pa.table({"a": pa.array([1], pa.int64())}))
    for cell, is_right in ((Number("1"), True), (Number("2"), False), ("1", False), (True, False), (None, False)):
        different = difference(expected, Answer(rows=[[("a", cell)]]), ordered=True)
        report.check(f"{cell!r} where 1 is expected", None if (different is None) == is_right else f"{different}")


def orders(report):
    """Rows of SQL files, which may lie in another order where no ORDER BY determines it."""
    answer = Answer(rows=[[("a", Number("2"))], [("a", Number("1"))]])
    for sql, in_order, is_right in (
        ("SELECT a FROM t", True, False),
        ("SELECT a FROM t", False, True),
        ("SELECT a FROM t ORDER BY a", False, False),
    ):
        [block] = parse(f"query\n{sql}\n----\n1\n2\n")
        different = compare(block, answer, in_order)
        report.check(f"{sql}, {in_order}", None if (different is None) == is_right else f"{different}")
    [block] = parse("query\nSELECT a FROM t\n----\n1\n3\n")
    report.check("other rows in any order", None if compare(block, answer, in_order=False) else "they are taken for right")


def savepoints(report):
    """DuckDB with savepoints, as it stands in for what Forebay should do."""
    connection = duckdb.connect()
    model = Model(connection)
    found = []
    for sql, wanted in (
        ("CREATE TABLE c (k INTEGER)", []),
        ("BEGIN", []),
        ("INSERT INTO c VALUES (1)", [1]),
        ("SAVEPOINT s1", [1]),
        ("INSERT INTO c VALUES (2)", [1, 2]),
        ("SAVEPOINT s2", [1, 2]),
        ("DELETE FROM c RETURNING k", []),
        ("ROLLBACK TO s2", [1, 2]),
        ("INSERT INTO c VALUES (3)", [1, 2, 3]),
        ("RELEASE s2", [1, 2, 3]),
        ("ROLLBACK TO s1", [1]),
        ("INSERT INTO c VALUES (4)", [1, 4]),
        ("ROLLBACK TO s1", [1]),
        ("COMMIT", [1]),
        ("BEGIN", [1]),
        ("DELETE FROM c", []),
        ("ROLLBACK", [1]),
    ):
        model.execute(sql)
        rows = [key for (key,) in connection.execute("SELECT k FROM c ORDER BY k").fetchall()]
        found += [] if rows == wanted else [f"{sql}: {rows}, not {wanted}"]
    report.check("savepoints of the model", "\n".join(found))


def comparison(report):
    """What `bench/compare --cold` concludes from rounds whose figures are made up."""
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "bench" / "compare"))
    import cold

    def runs(seconds):
        return {query: {"seconds": value, "read_bytes": 512} for query, value in seconds.items()}

    rounds = [
        {"runs": {"forebay": runs({cold.START_UP: 0.1, "a": 1.0 + x, "b": 0.2}), "duckdb": runs({cold.START_UP: 0.5, "a": 2.5, "b": 0.4 - x})}}
        for x in (0.0, 0.1, -0.1)
    ]
    summary = cold.summarize(cold.medians(rounds))
    whole, less = summary["forebay_over_duckdb"], summary["forebay_over_duckdb_without_start_up"]
    wanted = [1.0 / 2.5, 0.2 / 0.4, 1.2 / 2.9, math.sqrt(0.4 * 0.5), 1.0 / 2.0, None]
    got = [whole["queries"]["a"], whole["queries"]["b"], whole["total"], whole["geometric_mean"], less["queries"]["a"], less["queries"].get("b")]
    wanted.append(0.9 / 2.0)
    got.append(summary["both_without_start_up"]["queries"]["a"])
    equal = all(a == b or math.isclose(a, b) for a, b in zip(wanted, got))
    report.check("ratios of whole processes, and without starting up", None if equal else f"expected {wanted}, got {got}")
    rounds[1]["runs"]["duckdb"]["b"] = {"error": "no"}
    failed = cold.summarize(cold.medians(rounds))["forebay_over_duckdb"]["queries"]
    report.check("a query that fails has no ratio", None if list(failed) == ["a"] else f"{failed}")
    steady = [cold.is_steady(1.0, 1.15), cold.is_steady(1.0, 0.8), cold.is_steady(0.84, 1.0)]
    report.check("bandwidths that change", None if steady == [True, False, False] else f"{steady}")
    own = [["1", "x", "0.30000000000000004"], ["2", "", "true"]]
    alike = [
        ([["2", "None", "True"], ["1", "x", "0.3"]], True),
        ([["2", "None", "True"], ["1", "x", "0.31"]], False),
        ([["2", "None", "True"], ["1", "y", "0.3"]], False),
        ([["1", "x", "0.3"]], False),
    ]
    for rows, is_equal in alike:
        lines = cold.differing_answers({"a": {"forebay": own, "duckdb": rows}})
        report.check(f"answers {rows}", None if (lines == []) == is_equal else f"{lines}")


def run(options, report):
    report.suite("the suites' tools")
    directory = os.path.join(options.directory, "harness")
    os.makedirs(directory)
    endings(directory, report)
    errors(directory, report)
    numbers(report)
    orders(report)
    savepoints(report)
    comparison(report)
    report.end()
