"""A full disk: the statement fails with a clear message, nothing of it stays, everything before it is there, and the
database can still be opened, read and made smaller. Needs the right to mount a small file system."""

import os
import subprocess

from cancel import Terminal

SIZE_MB = 24
LOAD = "CREATE TABLE big AS SELECT n, md5(CAST(n AS VARCHAR)) AS v FROM range(3000000) AS r(n)"


def full(outcome):
    """None where the outcome is the clear error of a full disk."""
    if outcome.crash():
        return f"{outcome.crash()}\n{outcome.stderr[:600]}"
    if outcome.status == 1 and "No space left" in outcome.error_line():
        return None
    return f"status {outcome.status}: {outcome.stderr[:600]}"


def fine(outcome, wanted=b""):
    if outcome.crash() or outcome.status != 0 or wanted not in outcome.stdout:
        return f"{outcome.crash() or outcome.status}: {outcome.stderr[:600]} {outcome.stdout[:300]}"
    return None


def segments(database):
    return sorted(os.listdir(os.path.join(database, "segments")))


def fill(path):
    """Takes all space that is left."""
    with open(path, "wb", buffering=0) as out:
        try:
            while out.write(b"\0" * 4096):
                pass
        except OSError:
            pass


def steps(binary, report, mounted):
    database = os.path.join(mounted, "db")
    ballast = os.path.join(mounted, "ballast")
    count = ("--format", "csv", "-c", "SELECT count(*) FROM small")
    binary.must(database, "CREATE TABLE small AS SELECT n FROM range(10000) AS r(n)")
    before = segments(database)
    for name, statement in (("CREATE TABLE AS", LOAD), ("INSERT", "INSERT INTO small SELECT CAST(random() * 2000000000 AS BIGINT) FROM range(3000000) AS r(n)")):
        if name == "INSERT":
            fill(ballast)
            os.truncate(ballast, os.path.getsize(ballast) - 2**20)
        report.check(f"{name} on a disk that fills", full(binary.run(database, "-c", statement, timeout=120)))
        report.check(f"{name}: nothing is left over", None if segments(database) == before else f"{segments(database)}")
        report.check(f"{name}: rows before are there", fine(binary.run(database, *count), b"\n10000\n"))
    fill(ballast)
    report.check("INSERT on a full disk", full(binary.run(database, "-c", "INSERT INTO small VALUES (1)")))
    report.check("reading on a full disk", fine(binary.run(database, *count), b"\n10000\n"))
    report.check("reading read-only on a full disk", fine(binary.run(database, "--read-only", *count), b"10000"))
    os.remove(ballast)
    report.check("space is back: rows", fine(binary.run(database, *count), b"\n10000\n"))
    report.check("space is back: CHECK DATABASE", fine(binary.run(database, "-c", "CHECK DATABASE")))
    report.check("space is back: INSERT", fine(binary.run(database, "-c", "INSERT INTO small VALUES (1)")))
    hot_rows(binary, report, database, ballast)
    binary.must(database, "CREATE TABLE wide AS SELECT n, n % 7 AS g, md5(CAST(n AS VARCHAR)) AS v FROM range(60000) AS r(n)")
    # Hot rows would have to become segments first.
    binary.must(database, "CHECKPOINT")
    fill(ballast)
    outcome = binary.run(database, "-c", "ALTER TABLE wide CLUSTER BY (g)")
    refused = outcome.status == 1 and "cannot be sorted" in outcome.error_line() and f" in {database}, where" in outcome.error_line()
    report.check("CLUSTER BY on a full disk", None if refused else f"status {outcome.status}: {outcome.stderr[:600]}")
    report.check("CLUSTER BY: rows are there", fine(binary.run(database, "--format", "csv", "-c", "SELECT count(*) FROM wide"), b"\n60000\n"))
    added = "ALTER TABLE wide ADD PROJECTION by_g (ORDER BY g)"
    outcome = binary.run(database, "-c", added)
    refused = outcome.status == 1 and "cannot be sorted" in outcome.error_line()
    report.check("ADD PROJECTION on a full disk", None if refused else f"status {outcome.status}: {outcome.stderr[:600]}")
    os.remove(ballast)
    report.check("space is back: CLUSTER BY", fine(binary.run(database, "-c", "ALTER TABLE wide CLUSTER BY (g)")))
    report.check("space is back: ADD PROJECTION", fine(binary.run(database, "-c", added)))
    before = segments(database)
    fill(ballast)
    of_copy = ("--format", "csv", "-c", "SET projections = by_g", "-c", "SELECT count(*), sum(g) FROM wide")
    for name, statement in (("INSERT", "INSERT INTO wide SELECT * FROM wide"), ("UPDATE", "UPDATE wide SET g = g + 1"), ("OPTIMIZE TABLE", "OPTIMIZE TABLE wide")):
        outcome = binary.run(database, "-c", statement)
        refused = full(outcome) is None or outcome.status == 1 and "cannot be sorted" in outcome.error_line()
        report.check(f"{name} with a projection on a full disk", None if refused else f"status {outcome.status}: {outcome.stderr[:600]}")
        report.check(f"{name} with a projection: nothing is left over", None if segments(database) == before else f"{segments(database)}")
        report.check(f"{name} with a projection: rows of the copy", fine(binary.run(database, *of_copy), b"\n60000,179994\n"))
    os.remove(ballast)
    report.check("space is back: OPTIMIZE TABLE", fine(binary.run(database, "-c", "OPTIMIZE TABLE wide")))
    report.check("space is back: rows of the copy", fine(binary.run(database, *of_copy), b"\n60000,179994\n"))


def hot_rows(binary, report, database, ballast):
    """Changes by key fail whole, too, and rows that are hot stay so."""
    keyed = "CREATE TABLE keyed (k INTEGER PRIMARY KEY, v VARCHAR)"
    binary.must(database, keyed, "SET point_access = on", f"INSERT INTO keyed VALUES {', '.join(f'({k}, NULL)' for k in range(1000))}")
    hot = "SELECT sum(rows) FROM forebay.segments WHERE table_name = 'keyed' AND segment_id >= 549755813888"
    look = ("--format", "csv", "--no-header", "-c", "SELECT count(*), sum(k), count(v) FROM keyed", "-c", hot)
    report.check("rows are hot", fine(binary.run(database, *look), b"1000,499500,0\n1000\n"))
    fill(ballast)
    text = "x" * 100_000
    for name, statements in {
        "INSERT": [f"INSERT INTO keyed VALUES (1000, '{text}')"],
        "UPDATE": ["UPDATE keyed SET v = 'new' WHERE k = 7"],
        "DELETE": ["DELETE FROM keyed WHERE k BETWEEN 10 AND 20"],
        "COMMIT": ["BEGIN", "UPDATE keyed SET v = 'new' WHERE k < 500", "DELETE FROM keyed WHERE k = 3", "COMMIT"],
    }.items():
        outcome = binary.run(database, *(part for statement in ["SET point_access = on", *statements] for part in ("-c", statement)))
        report.check(f"{name} by key on a full disk", full(outcome))
        report.check(f"{name} by key: nothing is kept", fine(binary.run(database, *look), b"1000,499500,0\n1000\n"))
    # In a program that goes on, hot rows are as before the commits that fail, and later ones succeed.
    terminal = Terminal(binary, database, os.path.dirname(database))
    of_all = "SELECT 5000000 + sum(k) + count(v) AS n FROM keyed;"
    begun = [("SET point_access = on;", b"SET"), ("UPDATE keyed SET v = 'lost' WHERE k < 500;", b"No space left"), (of_all, b" 5499500 ")]
    begun += [("BEGIN;", b"BEGIN"), ("DELETE FROM keyed WHERE k = 9;", b"1 row"), ("COMMIT;", b"No space left"), (of_all, b" 5499500 ")]
    for statement, wanted in begun:
        report.check(f"a full disk at a prompt: {statement}", None if terminal.answer(statement, wanted) else f"expected {wanted}")
    os.remove(ballast)
    for statement, wanted in [("UPDATE keyed SET v = 'new' WHERE k = 7;", b"1 row changed"), ("DELETE FROM keyed WHERE k = 3;", b"1 row changed"), (of_all, b" 5499498 ")]:
        report.check(f"space is back at a prompt: {statement}", None if terminal.answer(statement, wanted) else f"expected {wanted}")
    terminal.close()
    report.check("space is back: changes by key", fine(binary.run(database, *look), b"999,499497,1\n999\n"))
    report.check("space is back: CHECK DATABASE with hot rows", fine(binary.run(database, "-c", "CHECK DATABASE")))


def run(options, report):
    report.suite("a full disk")
    mounted = os.path.join(options.directory, "full")
    os.makedirs(mounted)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={SIZE_MB}m", "tmpfs", mounted]
    try:
        allowed = subprocess.run(mount, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        allowed = False
    if not allowed:
        report.say("   skipped: file systems cannot be mounted here")
        report.end()
        return
    try:
        steps(options.binary, report, mounted)
    finally:
        subprocess.run(["umount", mounted], capture_output=True, check=False)
    report.end()
