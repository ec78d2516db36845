"""The suites' own tools, tried on a program that misbehaves on purpose: what they must not take for a right answer."""

import os

import pyarrow as pa

from binary import MARKER_COLUMN, Answer, Binary, Number
from rows import Expected, difference

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


def run(options, report):
    report.suite("the suites' tools")
    directory = os.path.join(options.directory, "harness")
    os.makedirs(directory)
    endings(directory, report)
    errors(directory, report)
    numbers(report)
    report.end()
