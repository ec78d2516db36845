"""Bad use, and files that somebody else has changed: two processes that write, keys that a load violates, a transaction that fails, redo logs of
newer versions, damaged or with more behind their last commit. Each gives one error that says what is wrong, where, and what can be done, or is told;
and nothing is lost, whether rows are hot, frozen, or both."""

import os
import re
import shutil
import signal
import struct
import subprocess

import duckdb

from bad_inputs import crc32c
from cancel import Terminal

ROWS = 100
TABLE = "CREATE TABLE t (k INTEGER PRIMARY KEY, v VARCHAR)"
FILL = f"INSERT INTO t SELECT range, 'v' || range FROM range({ROWS})"
BY_KEY = "SET point_access = on"
# Statements that fill the table, by what its rows are then.
KINDS = {
    "frozen": [TABLE, FILL, "CHECKPOINT"],
    "hot": [TABLE, FILL, BY_KEY, "UPDATE t SET v = v WHERE k >= 0"],
    "mixed": [TABLE, FILL, "CHECKPOINT", BY_KEY, "BEGIN", "UPDATE t SET v = v WHERE k BETWEEN 20 AND 70", "COMMIT"],
}
HOT = "SELECT coalesce(sum(rows), 0) FROM forebay.segments WHERE segment_id >= 549755813888"
HOT_ROWS = {"frozen": 0, "hot": ROWS, "mixed": 51}
ALL = "SELECT k, v FROM t ORDER BY k"

MAGIC = b"FBRF"
HEADER_BYTES, FRAME_BYTES = 4096, 40
# What a process that is killed leaves in its log: hot rows that come, change and go.
LOGGED = [BY_KEY, *(f"INSERT INTO t VALUES ({1000 + number}, 'new')" for number in range(5)), "UPDATE t SET v = 'other' WHERE k = 1001", "DELETE FROM t WHERE k = 5"]


def files_of(database):
    """What is in each file of a database."""
    found = {}
    for folder, _, names in os.walk(database):
        for name in names:
            path = os.path.join(folder, name)
            if name not in ("LOCK", "queries.log"):
                with open(path, "rb") as opened:
                    found[os.path.relpath(path, database)] = opened.read()
    return found


def error_line(outcome, pattern):
    """None where a process ended with one error line that the pattern matches, and without a crash."""
    errors = [line for line in outcome.stderr.splitlines() if line.startswith("Error:")]
    if outcome.crash() or outcome.status != 1 or len(errors) != 1:
        return f"{outcome.crash() or f'exit status {outcome.status}'}: {outcome.stderr[:600]}"
    return None if re.search(pattern, errors[0]) else f"expected {pattern}\ngot {errors[0]}"


class Suite:
    def __init__(self, options, report):
        self.binary, self.report = options.binary, report
        self.directory = os.path.join(options.directory, "bad_use")
        os.makedirs(self.directory)
        self.made = 0

    def database(self, kind):
        """A new database, whose rows are of the kind."""
        self.made += 1
        path = os.path.join(self.directory, f"{kind} {self.made}")
        self.binary.must(path, *KINDS[kind])
        [[hot]] = self.binary.rows(path, HOT)
        self.report.check(f"rows are {kind}", None if int(hot) == HOT_ROWS[kind] else f"{hot} of them are hot")
        return path

    def start(self, database):
        """A process that takes statements, and waits for more."""
        arguments = [self.binary.path, database, "--quiet", "--format", "csv", "--no-header"]
        return subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def say(self, process, *statements):
        """Has the process run statements, and waits until it has."""
        process.stdin.write("".join(f"{statement};\n" for statement in [*statements, "SELECT 'ended'"]).encode())
        process.stdin.flush()
        line = b" "
        while line and line.strip() != b"ended":
            line = process.stdout.readline()
        if not line:
            raise RuntimeError(f"the process ended: {process.stderr.read().decode('utf-8', 'replace')}")

    def two_processes(self, kind):
        """A process that would write to what another one writes is told who that is; the other one goes on."""
        database = self.database(kind)
        process = self.start(database)
        try:
            self.say(process, BY_KEY, "INSERT INTO t VALUES (1000, 'x')", "UPDATE t SET v = 'mine' WHERE k = 30")
            wanted = rf"LOCK is locked by process {process.pid}\b.*Close the other process"
            for arguments in (["-c", "INSERT INTO t VALUES (2000, 'z')"], ["--read-only", "-c", ALL]):
                self.report.check(f"{kind}: two processes", error_line(self.binary.run(database, *arguments), wanted))
            self.say(process, "INSERT INTO t VALUES (1001, 'y')")
            process.stdin.close()
            process.wait(30)
        finally:
            process.kill()
        found = self.binary.rows(database, "SELECT k, v FROM t WHERE k = 30 OR k >= 1000 ORDER BY k")
        wanted = [["30", "mine"], ["1000", "x"], ["1001", "y"]]
        self.report.check(f"{kind}: rows of the first process", None if found == wanted else f"{found}")

    def violated_keys(self, kind):
        """A load with a key that is there, or twice in itself, says which one and in which row, and loads nothing."""
        database = self.database(kind)
        before = self.binary.rows(database, ALL)
        texts = {"taken": "200,a\n201,b\n50,c\n202,d\n", "twice": "200,a\n201,b\n201,c\n"}
        keys = {"taken": "50", "twice": "201"}
        loads = []
        for name, text in texts.items():
            csv, parquet = (os.path.join(self.directory, f"{name}.{form}") for form in ("csv", "parquet"))
            with open(csv, "w", encoding="utf-8") as out:
                out.write("k,v\n" + text)
            duckdb.sql(f"COPY (SELECT k::INTEGER AS k, v FROM '{csv}') TO '{parquet}'")
            loads += [(name, f"COPY t FROM '{csv}'"), (name, f"COPY t FROM '{parquet}'"), (name, f"INSERT INTO t SELECT * FROM '{csv}'")]
            values = ", ".join("({}, '{}')".format(*row.split(",")) for row in text.split())
            loads.append((name, f"{BY_KEY}; INSERT INTO t VALUES {values}"))
        loads = [(name, sql, r" \(row 3 of those to be added; none was") for name, sql in loads]
        # Of many rows it is not known in which order they came.
        loads.append(("taken", "INSERT INTO t SELECT 50 + (range - 70000) * 1000, 'w' FROM range(100000)", ""))
        for name, sql, row in loads:
            outcome = self.binary.run(database, "-c", sql)
            message = rf'duplicate key "k: {keys[name]}" violates primary key constraint{row}'
            self.report.check(f"{kind}: {sql[:90]}", error_line(outcome, message))
            found = self.binary.rows(database, ALL)
            self.report.check(f"{kind}: nothing is loaded", None if found == before else f"{len(found)} rows after {sql[:90]}")

    def failed_transaction(self, kind):
        """A script whose transaction fails ends there, with one error, and keeps nothing of the transaction."""
        database = self.database(kind)
        before = self.binary.rows(database, ALL)
        for wrong, message in {
            "SELECT nothing": "column nothing does not exist",
            "INSERT INTO t VALUES (7, 'again')": 'duplicate key "k: 7"',
            "UPDATE t SET k = NULL WHERE k = 8": "NULL",
            "CHECKPOINT": "CHECKPOINT",
        }.items():
            script = f"{BY_KEY}; BEGIN; INSERT INTO t VALUES (3000, 'a'); UPDATE t SET v = 'b' WHERE k = 30; DELETE FROM t WHERE k = 3; {wrong}; COMMIT; SELECT 1;"
            outcome = self.binary.run(database, "--quiet", stdin=script.encode())
            self.report.check(f"{kind}: {wrong} in a transaction", error_line(outcome, message))
            found = self.binary.rows(database, ALL)
            self.report.check(f"{kind}: {wrong} keeps nothing", None if found == before else f"{len(found)} rows")

    def commit_after_error(self, kind):
        """At a prompt, a transaction that has failed takes nothing but its end: COMMIT rolls it back, and says so; then all goes on."""
        database = self.database(kind)
        terminal = Terminal(self.binary, database, self.directory)
        told = {
            f"{BY_KEY};": b"SET",
            "BEGIN;": b"BEGIN",
            "UPDATE t SET v = 'lost' WHERE k = 30;": b"1 row changed",
            "INSERT INTO t VALUES (7, 'again');": b'duplicate key "k: 7"',
            "UPDATE t SET v = 'lost' WHERE k = 40;": b"transaction is aborted",
            "SELECT count(*) FROM t;": b"ROLLBACK ends it",
            "COMMIT;": b"ROLLBACK in",
            "SELECT 5000 + count(*) AS n FROM t WHERE v = 'lost';": b" 5000 ",
            "UPDATE t SET v = 'kept' WHERE k = 50;": b"1 row changed",
        }
        for statement, wanted in told.items():
            is_told = terminal.answer(statement, wanted)
            self.report.check(f"{kind}: {statement}", None if is_told else f"expected {wanted}")
        terminal.close()
        found = self.binary.rows(database, "SELECT k, v FROM t WHERE k IN (30, 50) ORDER BY k")
        self.report.check(f"{kind}: behind a prompt", None if found == [["30", "v30"], ["50", "kept"]] else f"{found}")

    def logged(self, kind):
        """A database whose process was killed, with its rows, and its log's name."""
        database = self.database(kind)
        process = self.start(database)
        try:
            self.say(process, *LOGGED)
        finally:
            process.send_signal(signal.SIGKILL)
            process.communicate()
        [log] = [name for name in os.listdir(database) if name.startswith("redo-")]
        copy = f"{database} read"
        shutil.copytree(database, copy)
        rows = self.binary.rows(copy, ALL)
        self.report.check(f"{kind}: rows of a log", None if len(rows) == ROWS + 4 and ["1001", "other"] in rows else f"{rows[-6:]}")
        return database, rows, log

    def refused(self, name, database, pattern):
        """A database is refused, in both modes, and its files stay as they are."""
        before = files_of(database)
        for mode in ([], ["--read-only"]):
            self.report.check(f"{name} {' '.join(mode)}", error_line(self.binary.run(database, *mode, "-c", ALL), pattern))
        after = files_of(database)
        changed = sorted(path for path in {*before, *after} if before.get(path) != after.get(path))
        self.report.check(f"{name}: nothing is changed", f"{changed}" if changed else None)

    def newer_log(self, kind):
        """A log of a newer version is refused, and told from a damaged one."""
        database, rows, log = self.logged(kind)
        path = os.path.join(database, log)
        with open(path, "r+b") as opened:
            head = opened.read(24)
            newer = head[:8] + struct.pack("<I", struct.unpack("<I", head[8:12])[0] + 1) + head[12:20]
            opened.seek(0)
            opened.write(newer + struct.pack("<I", crc32c(newer)))
        self.refused(f"{kind}: a newer log", database, rf"a newer Forebay \(version \d+, .*{log}.*Upgrade Forebay")
        with open(path, "r+b") as opened:
            opened.write(head)
        self.check_rows(f"{kind}: behind a newer log", database, rows)

    def damaged_log(self, kind):
        """Damage in front of a record that says that the damaged one was durable is told with its place."""
        database, rows, log = self.logged(kind)
        path = os.path.join(database, log)
        with open(path, "rb") as opened:
            data = opened.read()
        frames = [at for at in range(HEADER_BYTES, len(data), 8) if data[at : at + 4] == MAGIC]
        self.report.check(f"{kind}: a log has a frame for each commit", None if len(frames) >= len(LOGGED) - 1 else f"{frames}")
        for place in (0, len(frames) // 2, len(frames) - 2):
            for at in (frames[place], frames[place] + 9, frames[place] + FRAME_BYTES + 3):
                with open(path, "r+b") as opened:
                    opened.seek(at)
                    opened.write(bytes([data[at] ^ 0x10]))
                self.refused(f"{kind}: byte {at} of {log}", database, rf"damaged at {frames[place]}: .*at {frames[place + 1]} .*{log}.*Restore")
                with open(path, "wb") as opened:
                    opened.write(data)
        self.check_rows(f"{kind}: a log that was damaged", database, rows)

    def tail(self, kind):
        """What lies behind the last commit is cut, and told once: how many bytes, and which commit is the last."""
        database, rows, log = self.logged(kind)
        path = os.path.join(database, log)
        with open(path, "rb") as opened:
            data = opened.read()
        last = data.rindex(MAGIC)
        end = last + FRAME_BYTES + struct.unpack("<I", data[last + 8 : last + 12])[0]
        end = (end + 7) // 8 * 8
        torn = data[last : last + FRAME_BYTES + 5].rstrip(b"\0")
        with open(path, "wb") as opened:
            opened.write(data[:end] + torn)
        wanted = rf"\b{len(torn)} bytes at {end} of {log}.*last commit is number \d+"
        for mode in (["--read-only"], []):
            outcome = self.binary.run(database, *mode, "-c", ALL)
            told = outcome.status == 0 and re.search(wanted, outcome.stderr)
            self.report.check(f"{kind}: a torn tail {' '.join(mode)}", None if told else f"expected {wanted}\ngot {outcome.status} {outcome.stderr[:600]}")
        self.check_rows(f"{kind}: a torn tail", database, rows)
        outcome = self.binary.run(database, "-c", "SELECT 1")
        self.report.check(f"{kind}: a tail that is cut is not told again", outcome.stderr)

    def check_rows(self, name, database, rows):
        found = self.binary.rows(database, ALL)
        self.report.check(f"{name}: rows", None if found == rows else f"{len(rows)} expected, {len(found)} found")


def run(options, report):
    """`options`: binary, directory."""
    report.suite("bad use")
    suite = Suite(options, report)
    of_statements = (suite.two_processes, suite.violated_keys, suite.failed_transaction, suite.commit_after_error)
    for case in (*of_statements, suite.newer_log, suite.damaged_log, suite.tail):
        for kind in KINDS:
            case(kind)
    shutil.rmtree(suite.directory, ignore_errors=True)
    report.end()
