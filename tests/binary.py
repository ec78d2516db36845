"""The `forebay` binary as the suites drive it: one process runs many statements, and each answer is found again.

A statement is followed by a marker query, so that one process can run thousands of statements. The program stops at the
first error of a script; what follows it runs in a new process on the same database.
"""

import json
import os
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass, field

MARKER_COLUMN = "statement ends here"


class Number(str):
    """A JSON number, kept as its text: no digit of a decimal or a 64-bit integer is lost."""


@dataclass
class Outcome:
    """How one process ended."""

    status: int
    stdout: bytes
    stderr: str
    seconds: float
    timed_out: bool = False

    def error_line(self):
        """The first line that starts with `Error:`, or an empty string."""
        return next((line for line in self.stderr.splitlines() if line.startswith("Error:")), "")

    def crash(self):
        """Why this is a crash rather than an answer or an error; None where it is not."""
        if self.timed_out:
            return f"no answer within {self.seconds:.0f} s"
        if "panicked" in self.stderr or b"panicked" in self.stdout:
            return "panic: " + first_line_with(self.stderr, "panicked")
        if self.status < 0:
            return f"killed by {signal.Signals(-self.status).name}"
        if self.status == 101:
            return "exit status 101"
        return None


@dataclass
class Answer:
    """What one statement gave: rows as lists of (name, value), or an error."""

    rows: list = field(default_factory=list)
    error: str | None = None
    crashed: bool = False


def failure(outcome, crash):
    """The answer of a statement that the process did not survive; `crash` says how, if it was not an error.

    An error is its line alone: what follows it names places in the script, which are the suite's and not the test's.
    """
    message = outcome.stderr.strip() or f"exit status {outcome.status} without a message"
    if crash:
        return Answer(error=f"{crash}\n{message}", crashed=True)
    return Answer(error=outcome.error_line() or message)


def first_line_with(text, part):
    return next((line for line in text.splitlines() if part in line), "")


def parse_rows(stdout):
    """Rows of `--format jsonl`, each a list of (name, value) pairs; equal names stay apart."""
    rows = []
    for line in stdout.split(b"\n"):
        if line.strip():
            rows.append(json.loads(line, object_pairs_hook=list, parse_int=Number, parse_float=Number))
    return rows


class Binary:
    """Runs the program at `path`; scripts of statements begin with `settings`, each `NAME = VALUE`."""

    def __init__(self, path, settings=()):
        self.path = os.path.abspath(path)
        self.settings = [f"SET {setting}" for setting in settings]

    def run(self, *arguments, stdin=b"", timeout=60, cwd=None, environment=None, **more):
        """One process to its end; killed after `timeout` seconds. `more` goes to `subprocess.Popen`."""
        start = time.monotonic()
        process = subprocess.Popen(
            [self.path, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cwd,
            env={**os.environ, **(environment or {})},
            **more,
        )
        timed_out = False
        try:
            stdout, stderr = process.communicate(stdin, timeout=timeout)
        except subprocess.TimeoutExpired:
            timed_out = True
            process.kill()
            stdout, stderr = process.communicate()
        seconds = time.monotonic() - start
        return Outcome(process.returncode, stdout, stderr.decode("utf-8", "replace"), seconds, timed_out)

    def start(self, *arguments, cwd=None):
        """One process that the caller kills or waits for."""
        return subprocess.Popen(
            [self.path, *map(str, arguments)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            cwd=cwd,
        )

    def answers(self, database, statements, options=(), timeout=120, cwd=None, setup=()):
        """One [`Answer`] per statement. `setup` runs again, unseen, in each process that an error makes necessary."""
        answers = []
        while len(answers) < len(statements):
            answers += self._batch(database, statements[len(answers):], options, timeout, cwd, setup)
        return answers

    def _batch(self, database, statements, options, timeout, cwd, setup):
        with tempfile.NamedTemporaryFile("w", suffix=".sql", encoding="utf-8") as script:
            for statement in [*self.settings, *setup]:
                script.write(f"{statement}\n;\n")
            for index, statement in enumerate([None, *statements]):
                if statement is not None:
                    script.write(f"{statement}\n;\n")
                script.write(f"SELECT 'end {index}' AS \"{MARKER_COLUMN}\";\n")
            script.flush()
            place = [] if database is None else [database]
            outcome = self.run(
                *place, "--format", "jsonl", "--quiet", *options, "-f", script.name, timeout=timeout, cwd=cwd
            )
        answers, ended = self._split(outcome)
        if ended == 0:
            reason = outcome.crash() or outcome.stderr.strip() or f"exit status {outcome.status} and no output"
            raise RuntimeError(f"the program did not reach the first statement: {reason}")
        answers = answers[1:]
        crash = outcome.crash()
        if len(answers) < len(statements):
            answers.append(failure(outcome, crash))
        elif crash or outcome.status != 0:
            # All statements were answered, and then the program did not end as it should.
            answers[-1] = failure(outcome, crash or "a failure after the last answer")
        return answers

    @staticmethod
    def _split(outcome):
        answers, rows = [], []
        lines = outcome.stdout.split(b"\n")
        if not outcome.stdout.endswith(b"\n"):
            lines.pop()
        for line in lines:
            if not line.strip():
                continue
            row = json.loads(line, object_pairs_hook=list, parse_int=Number, parse_float=Number)
            if row and row[0][0] == MARKER_COLUMN:
                answers.append(Answer(rows=rows))
                rows = []
            else:
                rows.append(row)
        return answers, len(answers)

    def rows(self, database, statement, options=(), timeout=120, cwd=None):
        """The rows of one statement that must succeed, as lists of values."""
        answer = self.answers(database, [statement], options, timeout, cwd)[0]
        if answer.error is not None:
            raise RuntimeError(f"{statement}: {answer.error}")
        return [[value for _, value in row] for row in answer.rows]

    def must(self, database, *statements, options=(), timeout=300, cwd=None):
        """Runs statements that must succeed."""
        arguments = [part for statement in statements for part in ("-c", statement)]
        place = [] if database is None else [database]
        outcome = self.run(*place, "--quiet", *options, *arguments, timeout=timeout, cwd=cwd)
        if outcome.status != 0:
            raise RuntimeError(f"{'; '.join(statements)[:300]}: {outcome.crash() or outcome.stderr.strip()}")
        return outcome
