"""Single bytes of a database flipped, and its files cut, with hot rows in its manifest, and a redo log that a kill has left: opening and reading everything gives an error that names the
place, or the right answer; never a wrong answer, a panic or a hang."""

import os
import random
import re
import shutil
import signal
import subprocess

SECONDS = 20
# Rows that are hot: those of the manifest first, then those of the log.
HOT_ROWS = 600
KEYED = ", ".join(f"({k}, '{'text ' * (k % 7)}', {k}.25)" for k in range(HOT_ROWS))
HOT = "SELECT sum(rows) FROM forebay.segments WHERE table_name = 'keyed' AND segment_id >= 549755813888"
PLACES = ("table", "column", "chunk", ".seg")

SETUP = [
    "CREATE TABLE numbers AS SELECT n AS k, n % 7 AS g, CAST(n % 1000 AS DOUBLE) / 8 AS x, CAST(n % 100000 AS DECIMAL(18,2)) AS d"
    " FROM range(150000) AS r(n)",
    "CREATE TABLE words AS SELECT n AS k, md5(CAST(n AS VARCHAR)) AS w, 'group ' || (n % 13) AS s,"
    " CASE WHEN n % 5 = 0 THEN NULL ELSE repeat('ab', n % 50) END AS v FROM range(70000) AS r(n)",
    "CREATE TABLE days AS SELECT DATE '1992-01-01' + CAST(n % 2500 AS INTEGER) AS d, n % 2 = 0 AS b,"
    " CAST(NULL AS INTEGER) AS nothing, TIMESTAMP '2020-01-01 00:00:00' AS t FROM range(30000) AS r(n)",
    "CREATE TABLE tiny (a INTEGER NOT NULL, b VARCHAR DEFAULT 'x')",
    "INSERT INTO tiny VALUES (1, 'one'), (2, NULL)",
    "INSERT INTO tiny (a) VALUES (3)",
    "ALTER TABLE numbers ADD PROJECTION by_g (ORDER BY g, x) (g, x, k, d)",
    "CREATE TABLE keyed (k INTEGER PRIMARY KEY, w VARCHAR, d DECIMAL(9,2))",
    "SET point_access = on",
    f"INSERT INTO keyed VALUES {KEYED}",
    "CREATE SCHEMA other",
    "CREATE VIEW other.totals AS SELECT g, sum(k) AS total FROM main.numbers GROUP BY g",
]

# What lies in the redo log: the process is killed when these have ended.
LOGGED = [
    "INSERT INTO tiny VALUES (4, 'four')",
    "DELETE FROM numbers WHERE k = 77",
    "INSERT INTO days SELECT DATE '2024-01-01', true, NULL, TIMESTAMP '2024-01-01 00:00:00' FROM range(20)",
    "INSERT INTO tiny VALUES (5, repeat('long', 1000))",
    "SET point_access = on",
    "INSERT INTO keyed VALUES (1000, 'new', 0.5), (1001, NULL, NULL)",
    "UPDATE keyed SET d = 3 WHERE k < 20",
    "DELETE FROM keyed WHERE k = 8",
    "SELECT 'ended'",
]

QUERIES = [
    "SELECT count(*), sum(k), sum(g), sum(x), sum(d), min(x), max(d) FROM numbers",
    "SELECT g, count(*), sum(d) FROM numbers WHERE k BETWEEN 1000 AND 140000 GROUP BY g ORDER BY g",
    "SET projections = by_g",
    "SELECT count(*), sum(k), sum(g), sum(d), min(x), max(d) FROM numbers",
    "SELECT g, count(*), sum(d) FROM numbers WHERE k BETWEEN 1000 AND 140000 GROUP BY g ORDER BY g",
    "RESET projections",
    "SELECT count(*), sum(k), min(w), max(w), count(DISTINCT w), count(DISTINCT s), sum(length(v)), count(v) FROM words",
    "SELECT s, max(v), min(w) FROM words GROUP BY s ORDER BY s",
    "SELECT k FROM words WHERE w = '202cb962ac59075b964b07152d234b70'",
    "SELECT count(*), min(d), max(d), sum(CASE WHEN b THEN 1 ELSE 0 END), count(nothing), min(t), max(t) FROM days",
    "SELECT * FROM tiny ORDER BY a",
    "SELECT * FROM keyed ORDER BY k",
    "SELECT * FROM other.totals ORDER BY g",
    "SELECT table_name FROM information_schema.tables WHERE table_schema IN ('main', 'other') ORDER BY 1",
    "SELECT table_name, column_name, data_type, is_nullable FROM information_schema.columns"
    " WHERE table_schema IN ('main', 'other') ORDER BY 1, 2",
]

HONEST = re.compile(r"corrupt|checksum|damaged|version|not a Forebay|shorter|truncated|invalid|missing|mismatch|does not match|unexpected|lost|is valid|is wrong|magic number|though \d+ was the last", re.IGNORECASE)


def read_everything(binary, database, read_only):
    """Output of all queries, or the process's outcome where it failed."""
    arguments = [part for query in QUERIES for part in ("-c", query)]
    mode = ["--read-only"] if read_only else []
    return binary.run(database, "--format", "jsonl", "--quiet", *mode, *arguments, timeout=SECONDS)


def leave_log(binary, database):
    """Runs the statements of the log, and kills the process before it can write anything else."""
    process = subprocess.Popen(
        [binary.path, database, "--quiet", "--format", "csv", "--no-header"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    process.stdin.write("".join(f"{statement};\n" for statement in LOGGED).encode())
    process.stdin.flush()
    line = b" "
    while line and line.strip() != b"ended":
        line = process.stdout.readline()
    process.send_signal(signal.SIGKILL)
    process.communicate()
    if not any(name.startswith("redo-") for name in os.listdir(database)):
        raise RuntimeError("a killed process left no redo log")


def verdict(outcome, right, file):
    """None where the answer is right, or the error is honest and names its place."""
    crash = outcome.crash()
    if crash:
        return f"{crash}\n{outcome.stderr[:800]}"
    if outcome.status == 0:
        return None if outcome.stdout == right else "a wrong answer:\n" + first_difference(right, outcome.stdout)
    if not right.startswith(outcome.stdout):
        return "a wrong answer before the error:\n" + first_difference(right, outcome.stdout)
    line = outcome.error_line()
    if outcome.status != 1 or not line:
        return f"exit status {outcome.status} without an `Error:` line: {outcome.stderr[:600]}"
    if not HONEST.search(line):
        return f"the error does not say that the database is damaged: {line}"
    if file.endswith(".seg"):
        missing = [place for place in PLACES if place not in line]
        if os.path.basename(file) not in line or ("chunk" in line and missing):
            return f"the error does not name table, column, chunk and file {file}: {line}"
    return None


def first_difference(right, got):
    for expected, found in zip(right.split(b"\n"), got.split(b"\n")):
        if expected != found:
            return f"expected {expected[:300].decode()}\ngot      {found[:300].decode('utf-8', 'replace')}"
    return f"{len(right)} bytes expected, got {len(got)}"


def database_files(database):
    found = []
    for folder, _, files in os.walk(database):
        for name in files:
            path = os.path.relpath(os.path.join(folder, name), database)
            if os.path.basename(path) != "LOCK" and os.path.getsize(os.path.join(database, path)):
                found.append(path)
    return sorted(found)


def positions(chance, database, file):
    """One random position; half of them where bytes are not zero, so that most flips hit data and not padding."""
    with open(os.path.join(database, file), "rb") as opened:
        data = opened.read()
    position = chance.randrange(len(data))
    if chance.random() < 0.5:
        for _ in range(200):
            if data[position]:
                break
            position = chance.randrange(len(data))
    return position, len(data)


def spoil(chance, database, file):
    """Flips one byte or cuts the file; says what it did."""
    path = os.path.join(database, file)
    position, length = positions(chance, database, file)
    if chance.random() < 0.12:
        os.truncate(path, position)
        return f"{file} cut to {position} of {length} bytes"
    with open(path, "r+b") as opened:
        opened.seek(position)
        old = opened.read(1)[0]
        new = old ^ (1 << chance.randrange(8)) if chance.random() < 0.5 else (old + chance.randrange(1, 256)) % 256
        opened.seek(position)
        opened.write(bytes([new]))
    return f"{file} byte {position} of {length}: {old:#04x} → {new:#04x}"


def run(options, report):
    report.suite(f"flipped bytes, {options.flips} positions, seed {options.seed}")
    binary = options.binary
    directory = os.path.join(options.directory, "flips")
    os.makedirs(directory)
    original, work = os.path.join(directory, "original"), os.path.join(directory, "work")
    binary.must(original, *SETUP)
    leave_log(binary, original)
    [[hot]] = binary.rows(original, HOT, options=["--read-only"])
    report.check("rows are hot", None if int(hot) == HOT_ROWS + 1 else f"{hot} rows are")
    whole = read_everything(binary, original, True)
    if whole.status != 0:
        raise RuntimeError(f"the whole database cannot be read: {whole.stderr}")
    files = database_files(original)
    weights = [max(os.path.getsize(os.path.join(original, file)), 65536) ** 0.5 for file in files]
    chance = random.Random(options.seed)
    errors = 0
    for number in range(options.flips):
        shutil.rmtree(work, ignore_errors=True)
        shutil.copytree(original, work)
        file = chance.choices(files, weights)[0]
        what = spoil(chance, work, file)
        outcome = read_everything(binary, work, number % 3 == 0)
        errors += outcome.status != 0
        report.check(f"flip {number}: {what}{' (read-only)' if number % 3 == 0 else ''}", verdict(outcome, whole.stdout, file))
        if number % 5 == 0:
            report.check(f"flip {number}: CHECK DATABASE, {what}", check_verdict(binary.run(work, "-c", "CHECK DATABASE", timeout=SECONDS), outcome))
    report.check("flips are noticed", None if errors > options.flips // 10 else f"only {errors} of {options.flips} gave errors")
    report.say(f"   {errors} of {options.flips} gave an error, the others the right answer")
    shutil.rmtree(directory, ignore_errors=True)
    report.end()


def check_verdict(checked, read):
    """CHECK DATABASE sees what reading saw."""
    if checked.crash():
        return f"{checked.crash()}\n{checked.stderr[:800]}"
    if read.status == 1 and checked.status == 0:
        return f"CHECK DATABASE is content where reading failed: {read.stderr[:400]}\n{checked.stdout[:400].decode()}"
    return None
