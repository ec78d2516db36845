"""Runs `tests/sql/*.test`: SQL and what it must give, one database per file.

A file is a list of blocks, separated by empty lines; `#` starts a comment line outside blocks.

    statement ok                    the SQL below must succeed
    statement error REGEX           … must fail with a message that REGEX matches (case ignored)
    query [sorted] [names]          the rows after `----`: values joined by `|`, NULL, true, 1.50, (empty); a line
                                    `~REGEX` matches a row by regular expression. `sorted`: order does not matter;
                                    `names`: the first line are the columns' names
    rows N                          the query must give N rows
    duckdb [sorted]                 as `query`, asked of DuckDB: reads the files that Forebay wrote
    file NAME                       makes a file of the lines up to `----`
    bytes NAME HEX                  makes a file of these bytes
    reopen [read-only]              a new process from here on; with `--read-only`
    shell REGEX ARGUMENTS…          runs the binary with these arguments; its output must match REGEX

Queries are asked twice, but for those that take numbers of sequences: the second time their plan is there already, and the rows must be the same.

`${DIR}` is the file's own directory, `${DB}` its database. Everything else runs in as few processes as errors allow.
"""

import os
import re
import shlex
from dataclasses import dataclass, field

import duckdb

from binary import Answer

ENCODINGS = ("uncompressed", "truncation", "dictionary", "run_length")
# Hot rows are shown as segments that no file has.
HOT_SEGMENTS = "SELECT count(*) AS hot FROM forebay.segments WHERE segment_id >= 549755813888"
CHANGE = re.compile(r"\s*(INSERT|UPDATE|DELETE|MERGE)\b", re.IGNORECASE)
INSERTED = re.compile(r"^INSERT\b.*\bVALUES\b", re.IGNORECASE | re.MULTILINE)
# Which differ in what the engine does, and those that differ in what goes first alone.
POLICIES = ("pbm", "proportional")
LIKE_LRU = ("lru", "mru", "two_q", "s3_fifo", "w_tiny_lfu")

SPECIAL = {None: "NULL", True: "true", False: "false", "": "(empty)"}


@dataclass
class Block:
    line: int
    kind: str
    arguments: str
    sql: str = ""
    expected: list = field(default_factory=list)


def parse(text):
    """The blocks of a test file."""
    blocks, lines, index = [], text.split("\n"), 0
    while index < len(lines):
        head = lines[index]
        index += 1
        if not head.strip() or head.startswith("#"):
            continue
        kind, _, arguments = head.partition(" ")
        block = Block(index, kind, arguments.strip())
        blocks.append(block)
        if kind in ("reopen", "bytes", "shell"):
            continue
        body, seen_rule = [], False
        while index < len(lines) and (lines[index].strip() or (kind == "file" and not seen_rule)):
            if lines[index] == "----":
                seen_rule = True
                if kind == "file":
                    index += 1
                    break
            elif seen_rule:
                block.expected.append(lines[index])
            else:
                body.append(lines[index])
            index += 1
        block.sql = "\n".join(body)
        if kind not in ("statement", "query", "rows", "duckdb", "file"):
            raise ValueError(f"line {block.line}: unknown block {kind!r}")
    return blocks


def show_value(value):
    if value is None or isinstance(value, bool) or value == "":
        return SPECIAL[value]
    return str(value).replace("\\n", "\\\\n").replace("\n", "\\n").replace("\t", "\\t")


def compare(block, answer, in_order=True):
    """None where the answer is what the block expects; unless `in_order`, rows may come in any order that no ORDER BY determines."""
    if answer.crashed:
        return f"{block.sql}\n{answer.error}"
    if block.kind == "statement" and block.arguments.startswith("error"):
        pattern = block.arguments.removeprefix("error").strip()
        if answer.error is None:
            return f"{block.sql}\nexpected an error that matches {pattern}, but it succeeded"
        if not re.search(pattern, answer.error, re.IGNORECASE | re.DOTALL):
            return f"{block.sql}\nexpected an error that matches {pattern}\ngot: {answer.error}"
        return None
    if answer.error is not None:
        return f"{block.sql}\n{answer.error}"
    if block.kind == "statement":
        return None
    if block.kind == "rows":
        wanted = int(block.arguments)
        return None if len(answer.rows) == wanted else f"{block.sql}\nexpected {wanted} rows, got {len(answer.rows)}"
    return compare_rows(block, answer, in_order)


def compare_rows(block, answer, in_order=True):
    options = block.arguments.split()
    if not in_order and "order by" not in block.sql.lower():
        options.append("sorted")
    got = ["|".join(show_value(value) for _, value in row) for row in answer.rows]
    expected = list(block.expected)
    if "names" in options and answer.rows:
        names = "|".join(name for name, _ in answer.rows[0])
        if names != expected[0]:
            return f"{block.sql}\nexpected columns {expected[0]}\ngot columns      {names}"
    if "names" in options:
        expected = expected[1:]
    if "sorted" in options:
        got.sort()
        expected.sort()
    if len(got) == len(expected) and all(map(matches, expected, got)):
        return None
    return "\n".join([block.sql, "expected:", *expected, "got:", *(got or ["(no rows)"])])


def matches(expected, got):
    return bool(re.fullmatch(expected[1:], got)) if expected.startswith("~") else expected == got


def is_query(block):
    """Whether a block only reads."""
    words = block.sql.split(maxsplit=1)
    is_kind = block.kind in ("query", "rows") and bool(words) and words[0].upper() in ("SELECT", "WITH", "FROM", "VALUES")
    return is_kind and "nextval(" not in block.sql


class Runner:
    """Runs one file. `rows` are None, or `hot` where rows become hot if they can, or `mixed` where every other change makes hot rows."""

    def __init__(self, binary, directory, report, name, setup=(), rows=None):
        self.binary, self.directory, self.report, self.name, self.setup = binary, directory, report, name, setup
        self.rows, self.has_hot_rows, self.changes = rows, False, 0
        self.database = os.path.join(directory, "db")
        self.options = []
        self.waiting = []

    def fill(self, text):
        return text.replace("${DIR}", self.directory).replace("${DB}", self.database)

    def run(self, blocks):
        for block in blocks:
            block.sql = self.fill(block.sql)
            block.arguments = self.fill(block.arguments)
            if block.kind in ("statement", "query", "rows"):
                self.waiting.append(block)
            else:
                self.flush()
                getattr(self, block.kind)(block)
        self.flush()

    def flush(self):
        """Runs the statements collected so far."""
        blocks, self.waiting = self.waiting, []
        if not blocks:
            return
        if self.rows:
            blocks = [asked for block in blocks for asked in self.with_hot_rows(block)]
        elif not self.setup:
            blocks = [block for block in blocks for _ in range(2 if is_query(block) else 1)]
        try:
            answers = self.binary.answers(
                self.database,
                [block.sql for block in blocks],
                self.options,
                timeout=240,
                cwd=self.directory,
                setup=self.setup,
            )
        except RuntimeError as error:
            answers = [Answer(error=str(error), crashed=True)] * len(blocks)
        for block, answer in zip(blocks, answers):
            if block.sql == HOT_SEGMENTS and answer.error is None:
                self.has_hot_rows |= answer.rows[0][0][1] != "0"
            self.report.check(f"{self.name}:{block.line}", compare(block, answer, in_order=not self.rows))

    def with_hot_rows(self, block):
        """A block, with what makes its rows hot or not before it, and behind it the question whether there are some."""
        is_change = block.kind in ("statement", "query") and CHANGE.match(block.sql)
        if not is_change:
            return [block]
        self.changes += 1
        is_by_key = self.rows == "hot" or self.changes % 2 == 1
        setting = Block(block.line, "statement", "ok", f"SET point_access = {'on' if is_by_key else 'off'}")
        looks = [Block(block.line, "rows", "1", HOT_SEGMENTS)] if block.kind == "statement" and block.arguments == "ok" else []
        return [setting, block, *looks]

    def file(self, block):
        with open(os.path.join(self.directory, block.arguments), "w", encoding="utf-8", newline="") as out:
            out.write(block.sql + "\n")

    def bytes(self, block):
        name, data = block.arguments.split()
        with open(os.path.join(self.directory, name), "wb") as out:
            out.write(bytes.fromhex(data))

    def reopen(self, block):
        self.options = ["--read-only"] if block.arguments == "read-only" else []

    def shell(self, block):
        pattern, *arguments = shlex.split(block.arguments)
        outcome = self.binary.run(*arguments, cwd=self.directory)
        output = outcome.stdout.decode("utf-8", "replace") + outcome.stderr
        found = re.search(pattern, output, re.DOTALL) and not outcome.crash()
        self.report.check(f"{self.name}:{block.line}", None if found else f"expected {pattern}\ngot: {output[:1500]}")

    def duckdb(self, block):
        connection = duckdb.connect()
        connection.execute("SET TimeZone = 'UTC'")
        try:
            result = connection.execute(block.sql)
            names = [column[0] for column in result.description]
            rows = [list(zip(names, map(duckdb_value, row))) for row in result.fetchall()]
            answer = Answer(rows=rows)
        except duckdb.Error as error:
            answer = Answer(error=f"DuckDB: {error}")
        self.report.check(f"{self.name}:{block.line}", compare(block, answer))


def duckdb_value(value):
    return "\\x" + value.hex() if isinstance(value, bytes) else value


def is_chosen(options, path):
    """Whether a SQL file is asked for: by a part of its name, or none was named."""
    return not options.file or any(part in path.name for part in options.file)


def sql_files(options, report):
    """The SQL files that are asked for."""
    paths = [path for path in sorted(options.sql_directory.glob("*.test")) if is_chosen(options, path)]
    report.check(f"SQL files called {' or '.join(options.file) or '*'}", None if paths else "there is none")
    return paths


def run_file(options, report, path, folder, setup=(), rows=None):
    """A file in a directory of its own; `setup` runs first in each process. Tells whether there were hot rows, where they were asked for."""
    directory = os.path.join(options.directory, folder, path.stem)
    os.makedirs(directory)
    blocks = parse(path.read_text(encoding="utf-8"))
    runner = Runner(options.binary, directory, report, f"sql/{path.name}", setup, rows)
    runner.run(blocks)
    return runner.has_hot_rows


def run(options, report):
    report.suite("SQL files")
    for path in sql_files(options, report):
        run_file(options, report, path, "sql")
    report.end()


def run_variants(options, report, variants, each):
    """Files that store rows, under `variants`: pairs of a name and settings. Each file is run under `each` of them, other ones with
    another seed and for its neighbours, so that all are run over many files; the long size and a file that is named run all."""
    stores = re.compile(r"\b(create|load|copy|insert)\b", re.IGNORECASE)
    files = [path for path in sql_files(options, report) if stores.search(path.read_text(encoding="utf-8"))]
    for number, path in enumerate(files):
        first = number + options.seed
        chosen = range(len(variants)) if options.long or options.file else range(first, first + each)
        for name, setup in (variants[variant % len(variants)] for variant in chosen):
            run_file(options, report, path, f"sql-{name}", setup)


def run_policies(options, report):
    """What a file says holds whichever chunks stay in memory."""
    report.suite("SQL files by cache policy")
    policies = POLICIES + (LIKE_LRU if options.long else ())
    variants = [(policy, [f"SET cache_policy = {policy}", "SET cache_size = '96KB'"]) for policy in policies]
    variants.append(("both-forms", ["SET cache_forms = both", "SET cache_size = '96KB'"]))
    run_variants(options, report, variants, each=1)
    report.end()


def run_encodings(options, report):
    """What a file says holds however its tables are encoded, and without what narrows scans."""
    report.suite("SQL files by encoding")
    variants = [(encoding, [f"SET force_encoding = {encoding}"]) for encoding in ENCODINGS]
    variants.append(("plain-scans", ["SET psma = off", "SET sma = off", "SET sargs = off"]))
    variants.append(("folded", ["SET fold_rows = 0"]))
    variants.append(("ranges", ["SET partition_wise_rows = 0"]))
    run_variants(options, report, variants, each=2)
    report.end()


def run_hot(options, report):
    """What a file says holds for hot rows, and for those beside frozen ones, in some order. So many of the files that change rows are run with the
    ones, and others with the others; the long size and a file that is named run all with both."""
    report.suite("SQL files on hot and mixed rows")
    # Row ids are places, and those of hot rows come last. Some files make hot rows themselves.
    texts = {path: path.read_text(encoding="utf-8") for path in sql_files(options, report)}
    files = [path for path, text in texts.items() if INSERTED.search(text) and "rowid" not in text and "point_access" not in text]
    step = 1 if options.long or options.file else 8
    for place, rows in enumerate(("hot", "mixed")):
        chosen = files[(options.seed + place) % step :: step]
        hot = [run_file(options, report, path, f"sql-{rows}", rows=rows) for path in chosen]
        report.say(f"   {sum(hot)} of {len(hot)} files had {rows} rows")
        if not options.file:
            report.check(f"many files have {rows} rows", None if 3 * sum(hot) > len(hot) else f"{sum(hot)} of {len(hot)}")
    report.end()
