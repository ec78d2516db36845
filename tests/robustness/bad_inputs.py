"""Bad inputs: each gives exactly one clear `Error:` line (and perhaps the SQL with a caret), the right exit status, no
panic, within ten seconds."""

import os
import re
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass, field

import duckdb

from binary import Binary

SECONDS = 10
# The user and group without rights.
NOBODY = 65534


@dataclass
class Case:
    """Run the binary with `arguments` (or `sql` on a fresh database) and expect `pattern` in its one error line: regular
    expressions joined by ` && `, in any order, any case."""

    name: str
    pattern: str
    sql: str = ""
    arguments: list = field(default_factory=list)
    setup: str = ""
    files: dict = field(default_factory=dict)
    status: int = 1
    stdin: bytes = b""
    prepare: object = None
    seconds: int = SECONDS


TABLE = "CREATE TABLE orders (id INTEGER, amount DECIMAL(9,2), placed DATE, note VARCHAR)"


def csv_case(name, content, pattern, options="HEADER false"):
    data = content if isinstance(content, bytes) else content.encode()
    return Case(name, pattern, f"COPY orders FROM 'in.csv' ({options})", setup=TABLE, files={"in.csv": data})


def sql_case(name, sql, pattern, setup=TABLE, **more):
    return Case(name, pattern, sql, setup=setup, **more)


def truncated_parquet(directory):
    path = os.path.join(directory, "cut.parquet")
    duckdb.connect().execute(f"COPY (SELECT range AS a FROM range(50000)) TO '{path}' (FORMAT parquet)")
    os.truncate(path, os.path.getsize(path) // 2)


def spoiled_parquet(directory):
    """The footer is whole, the pages are not."""
    path = os.path.join(directory, "spoiled.parquet")
    duckdb.connect().execute(f"COPY (SELECT range AS a, md5(range::VARCHAR) AS b FROM range(50000)) TO '{path}' (FORMAT parquet)")
    with open(path, "r+b") as file:
        file.seek(1000)
        file.write(b"\xff" * 100_000)


def plain_file_as_database(directory):
    with open(os.path.join(directory, "notadb"), "w", encoding="utf-8") as out:
        out.write("hello")


def foreign_directory(directory):
    os.makedirs(os.path.join(directory, "photos"))
    with open(os.path.join(directory, "photos", "cat.jpg"), "wb") as out:
        out.write(b"\xff\xd8\xff")


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def rewrite_version(database, version):
    """Makes a database say that format `version` wrote it: the records of HEAD (docs/format.md)."""
    with open(os.path.join(database, "HEAD"), "r+b") as file:
        for offset in (0, 4096):
            file.seek(offset)
            record = file.read(20)
            record = record[:8] + version.to_bytes(4, "little") + record[12:]
            file.seek(offset)
            file.write(record + crc32c(record).to_bytes(4, "little"))


def directory_as_csv(directory):
    os.makedirs(os.path.join(directory, "folder.csv"))


DEEP = 10_000

CASES = [
    # Delimited text: file, line and column are named.
    csv_case("csv: letters for a number", "1,1.00,2024-01-01,a\nx,2.00,2024-01-01,b\n", r"in\.csv && line 2 && (column 1|column id|id)"),
    csv_case("csv: bad number far down", "1,1.00,2024-01-01,a\n" * 70_000 + "1,oops,2024-01-01,a\n", r"in\.csv && line 70001 && (column 2|amount)"),
    csv_case("csv: bad date", "1,1.00,2024-02-30,a\n", r"in\.csv && line 1 && (column 3|placed)"),
    csv_case("csv: number too large", "99999999999,1.00,2024-01-01,a\n", r"in\.csv && line 1 && (column 1|id)"),
    csv_case("csv: decimal too large", "1,99999999.00,2024-01-01,a\n", r"in\.csv && line 1 && (column 2|amount)"),
    csv_case("csv: a column too few", "1,1.00,2024-01-01,a\n2,2.00,2024-01-01\n", r"in\.csv && line 2"),
    csv_case("csv: a column too many", "1,1.00,2024-01-01,a\n2,2.00,2024-01-01,b,c\n", r"in\.csv && line 2"),
    csv_case("csv: unterminated quote", '1,1.00,2024-01-01,"abc\n2,2.00,2024-01-01,x\n', r"in\.csv && (line [12]|quote)"),
    csv_case("csv: invalid UTF-8", b"1,1.00,2024-01-01,ok\n2,2.00,2024-01-01,\xff\xfe\n", r"in\.csv && line 2|utf-8"),
    csv_case("csv: NUL bytes", b"1,1.00,2024-01-01,a\n\x00\x00\x00,2.00,2024-01-01,b\n", r"in\.csv && line 2"),
    csv_case("csv: 10,000 columns", ",".join(["1"] * 10_000) + "\n", r"in\.csv && line 1|10,?000"),
    csv_case("csv: a header that names other columns", "a,b,c,d\n1,2,3,4\n", r"in\.csv|column", "HEADER true"),
    csv_case("csv: binary noise", bytes(range(256)) * 40, r"in\.csv"),
    csv_case("csv: delimiter of two characters", "1;;1.00;;2024-01-01;;a\n", r"delimiter", "DELIMITER ';;'"),
    csv_case("csv: not gzip", "plain text\n", r"in\.csv|gzip", "COMPRESSION gzip"),
    sql_case("csv: NOT NULL violated", "COPY strict FROM 'in.csv' (HEADER false)", r"null.*\ba\b|\ba\b.*null", setup="CREATE TABLE strict (a INTEGER NOT NULL, b VARCHAR)", files={"in.csv": b"1,x\n,y\n"}),
    sql_case("csv: more columns than a table may have", "SELECT * FROM 'wide.csv'", r"10,?000|4,?096|column", setup="", files={"wide.csv": b"0123456789," * 9_999 + b"1\n" + b"1," * 9_998 + b"1\n"}),
    # Files.
    sql_case("missing file", "COPY orders FROM 'missing.csv'", r"missing\.csv"),
    sql_case("missing file in FROM", "SELECT * FROM 'missing.parquet'", r"missing\.parquet"),
    sql_case("glob without match", "SELECT * FROM 'none-*.parquet'", r"none-\*\.parquet"),
    sql_case("a directory instead of a file", "SELECT * FROM 'folder.csv'", r"folder\.csv.*directory|directory.*folder\.csv", prepare=directory_as_csv),
    sql_case("truncated Parquet", "SELECT sum(a) FROM 'cut.parquet'", r"cut\.parquet", prepare=truncated_parquet),
    sql_case("spoiled Parquet pages", "SELECT sum(a), max(b) FROM 'spoiled.parquet'", r"spoiled\.parquet", prepare=spoiled_parquet),
    sql_case("empty Parquet file", "SELECT * FROM 'empty.parquet'", r"empty\.parquet", files={"empty.parquet": b""}),
    sql_case("text called Parquet", "CREATE TABLE t AS SELECT * FROM 'text.parquet'", r"text\.parquet", files={"text.parquet": b"a,b\n1,2\n"}),
    sql_case("malformed JSON", "COPY orders FROM 'bad.json'", r"bad\.json", files={"bad.json": b'{"id": 1}\n{"id": 2,\n'}),
    sql_case("JSON of a wrong type", "COPY orders FROM 'bad.json'", r"bad\.json|id", files={"bad.json": b'{"id": "seven"}\n'}),
    sql_case("Parquet of other types", "COPY orders FROM 'other.parquet'", r"other\.parquet|column|id", prepare=lambda d: duckdb.connect().execute(f"COPY (SELECT 'x' AS id, 'y' AS amount, 'z' AS placed, 'w' AS note) TO '{d}/other.parquet' (FORMAT parquet)")),
    sql_case("COPY into a missing directory", "COPY (SELECT 1 AS a) TO 'nowhere/out.csv'", r"nowhere"),
    sql_case("COPY into a directory", "COPY (SELECT 1 AS a) TO 'folder.csv'", r"folder\.csv", prepare=directory_as_csv),
    sql_case("unknown format", "COPY orders FROM 'in.xyz'", r"in\.xyz|format", files={"in.xyz": b"1\n"}),
    # SQL.
    sql_case("unknown column", "SELECT amuont FROM orders", r"amuont.*amount"),
    sql_case("unknown table", "SELECT * FROM ordesr", r"ordesr.*orders"),
    sql_case("unknown function", "SELECT summ(amount) FROM orders", r"summ"),
    sql_case("unknown schema", "SELECT * FROM nowhere.orders", r"nowhere"),
    sql_case("unknown type", "CREATE TABLE t (a GEOGRAPHY)", r"geography"),
    sql_case("syntax error", "SELEC 1", r"selec"),
    sql_case("half a statement", "SELECT * FROM", r"end|expected"),
    sql_case("unterminated string", "SELECT 'abc", r"untermin|quote|string|closing"),
    sql_case("unterminated identifier", 'SELECT "abc FROM orders', r"untermin|quote|identifier|closing|delimiter"),
    sql_case("unterminated comment", "SELECT 1 /* and so on", r"comment|untermin|closing|end"),
    sql_case("NUL byte in SQL", "", r".", stdin=b"SELECT 1 \x00 2;\n"),
    sql_case("invalid UTF-8 in SQL", "", r"utf-8", stdin=b"SELECT '\xff\xfe';\n"),
    sql_case("10,000 parentheses", "", r"nest|deep|recursion|limit", stdin=b"SELECT " + b"(" * DEEP + b"1" + b")" * DEEP + b";\n"),
    sql_case("10,000 NOTs", "", r"nest|deep|recursion|limit|NOT", stdin=b"SELECT " + b"NOT " * DEEP + b"true;\n"),
    sql_case("10,000 nested subqueries", "", r"nest|deep|recursion|limit", stdin=b"SELECT * FROM (" * DEEP + b"SELECT 1" + b")" * DEEP + b";\n"),
    sql_case("10,000 nested functions", "", r"nest|deep|recursion|limit", stdin=b"SELECT " + b"abs(" * DEEP + b"1" + b")" * DEEP + b";\n"),
    sql_case("6,000 terms", "", r"nested too deeply: 5999 levels; at most 1000", stdin=b"SELECT " + b"+".join([b"id"] * 6000) + b" FROM orders;\n"),
    sql_case("100,000 terms and a syntax error", "", r"nested too deeply: 99999 levels", stdin=b"SELECT " + b" AND ".join([b"true"] * 100_000) + b" FROM FROM;\n"),
    sql_case("10,000 queries in a UNION", "", r"nested too deeply: 9999 levels", stdin=b" UNION ALL ".join([b"SELECT 1"] * DEEP) + b";\n"),
    sql_case("LIMIT -1", "SELECT * FROM orders LIMIT -1", r"limit"),
    sql_case("LIMIT of text", "SELECT * FROM orders LIMIT 'many'", r"limit|many"),
    sql_case("decimal of 99 digits", "CREATE TABLE t (a DECIMAL(99,2))", r"99"),
    sql_case("decimal with a scale above its precision", "CREATE TABLE t (a DECIMAL(5,9))", r"9"),
    sql_case("a literal of 100 digits", f"INSERT INTO orders (id) VALUES ({'9' * 100})", r"9999|overflow|range|large|precision"),
    sql_case("a name of 1,000 characters", f"CREATE TABLE {'x' * 1000} (a INTEGER)", r"255|long"),
    sql_case("10,000 columns", "", r"4,?096|10,?000", stdin=("CREATE TABLE t (" + ", ".join(f"c{i} INTEGER" for i in range(10_000)) + ");\n").encode()),
    sql_case("two tables of one name", "CREATE TABLE orders (a INTEGER)", r"orders.*exists"),
    sql_case("wrong number of values", "INSERT INTO orders VALUES (1, 2)", r"column|value"),
    sql_case("text into a number", "INSERT INTO orders (id) VALUES ('seven')", r"seven"),
    sql_case("cast of text", "SELECT CAST('seven' AS INTEGER)", r"seven"),
    sql_case("integer overflow", "SELECT 9223372036854775807 + 1", r"overflow"),
    sql_case("division by zero", "SELECT 1 // 0", r"zero"),
    sql_case("aggregate in WHERE", "SELECT 1 FROM orders WHERE sum(id) > 1", r"aggregate|where|sum"),
    sql_case("column outside GROUP BY", "SELECT note, count(*) FROM orders GROUP BY id", r"note"),
    sql_case("ambiguous column", "SELECT id FROM orders a JOIN orders b ON a.id = b.id", r"ambiguous.*id|id.*ambiguous"),
    sql_case("UPDATE of a column that is not there", "UPDATE orders SET nothing = 1", r"nothing"),
    # The program.
    Case("unreadable script", r"nofile\.sql", arguments=["-f", "nofile.sql"]),
    Case("a directory as script", r"folder\.csv", arguments=["-f", "folder.csv"], prepare=directory_as_csv),
    Case("a database below a file", r"notadb", arguments=["notadb/db", "-c", "SELECT 1"], prepare=plain_file_as_database),
    Case("a file as database", r"notadb", arguments=["notadb", "-c", "SELECT 1"], prepare=plain_file_as_database),
    Case("an unrelated directory as database", r"photos", arguments=["photos", "-c", "SELECT 1"], prepare=foreign_directory),
    Case("a directory of directories as database", r"albums", arguments=["albums", "-c", "SELECT 1"], prepare=lambda d: os.makedirs(os.path.join(d, "albums", "summer"))),
    Case("read-only without a database", r"fresh", arguments=["fresh", "--read-only", "-c", "SELECT 1"]),
    Case("read-only in memory", r"read-only.*database", arguments=["--read-only", "-c", "SELECT 1"], status=2),
    Case("absurd --memory", r"memory|size|parsecs", arguments=["--memory", "3parsecs", "-c", "SELECT 1"], status=2),
    Case("--memory 0", r"memory|size", arguments=["--memory", "0", "-c", "SELECT 1"], status=(1, 2)),
    Case("--memory -1", r"memory|size|-1", arguments=["--memory=-1", "-c", "SELECT 1"], status=2),
    Case("--threads 0", r"threads|0", arguments=["--threads", "0", "-c", "SELECT 1"], status=(1, 2)),
    Case("--threads many", r"threads|invalid", arguments=["--threads", "99999999999", "-c", "SELECT 1"], status=2),
    Case("--threads a million", r"threads", arguments=["--threads", "1000000", "-c", "SELECT 1"], status=(1, 2)),
    Case("--threads 1025", r"threads.*1024", arguments=["--threads", "1025", "-c", "SELECT 1"], status=2),
    Case("unknown format", r"format|xml", arguments=["--format", "xml", "-c", "SELECT 1"], status=2),
    Case("unknown option", r"frobnicate", arguments=["--frobnicate"], status=2),
    Case("gen: negative scale", r"sf|scale|-1", arguments=["gen", "ssb", "--sf=-1", "--out", "x"], status=(1, 2)),
    Case("gen: negative scale in a word of its own", r"scale factor -1 is out of range", arguments=["gen", "ssb", "--sf", "-1", "--out", "x"]),
    Case("gen: absurd scale", r"sf|scale", arguments=["gen", "ssb", "--sf", "1e30", "--out", "x"], status=(1, 2)),
    Case("gen: NaN", r"sf|scale|nan", arguments=["gen", "tpch", "--sf", "nan", "--out", "x"], status=(1, 2)),
    Case("gen: unknown benchmark", r"tpcds", arguments=["gen", "tpcds", "--sf", "1", "--out", "x"], status=2),
    Case("gen: out is a file", r"notadb", arguments=["gen", "ssb", "--sf", "0.01", "--out", "notadb/x"], prepare=plain_file_as_database),
    Case("gen: unknown table", r"tablets", arguments=["gen", "ssb", "--sf", "0.01", "--out", "x", "--tables", "tablets"], status=(1, 2)),
]


def verdict(case, outcome):
    """None where the outcome is one clear error line and the right status."""
    crash = outcome.crash()
    if crash:
        return crash
    statuses = case.status if isinstance(case.status, tuple) else (case.status,)
    if outcome.status not in statuses:
        return f"exit status {outcome.status}, expected {' or '.join(map(str, statuses))}\n{outcome.stderr[:600]}"
    lines = [line for line in outcome.stderr.splitlines() if re.match(r"error:", line, re.IGNORECASE)]
    if len(lines) != 1:
        return f"{len(lines)} error lines, expected one:\n{outcome.stderr[:600]}"
    if not all(re.search(part, lines[0], re.IGNORECASE) for part in case.pattern.split(" && ")):
        return f"the error does not say {case.pattern}:\n{lines[0][:600]}"
    if len(lines[0]) > 1000:
        return f"an error line of {len(lines[0])} characters:\n{lines[0][:300]}…"
    if outcome.status == 1 and any(not re.match(r"\s|\d+ *[|│]|Error:", line) for line in outcome.stderr.splitlines() if line):
        return f"more than an error line and the SQL it points at:\n{outcome.stderr[:600]}"
    return None


def run_case(options, directory, case):
    os.makedirs(directory)
    for name, data in case.files.items():
        with open(os.path.join(directory, name), "wb") as out:
            out.write(data)
    if case.prepare:
        case.prepare(directory)
    if case.setup:
        options.binary.must(os.path.join(directory, "db"), case.setup)
    if case.arguments:
        arguments = case.arguments
    elif case.stdin:
        arguments = ["db"]
    else:
        arguments = ["db", "-c", case.sql]
    return verdict(case, options.binary.run(*arguments, stdin=case.stdin, timeout=case.seconds, cwd=directory))


def unreadable(options, report):
    """Files and directories without permission. Root may read everything, so for root another user looks at them, with a
    copy of the program where that user can reach it."""
    with tempfile.TemporaryDirectory(prefix="forebay-unreadable-") as directory:
        binary, user = options.binary, {}
        if os.geteuid() == 0:
            os.chmod(directory, 0o755)
            binary = Binary(shutil.copy2(binary.path, os.path.join(directory, "forebay")))
            os.chmod(binary.path, 0o755)
            user = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
        place = lambda name: os.path.join(directory, name)
        try:
            reachable = binary.run("version", cwd=directory, **user).status == 0
        except OSError:
            reachable = False
        if not reachable:
            report.say("   skipped: files without permission, since no other user can run the program here")
            return
        with open(place("secret.csv"), "w", encoding="utf-8") as out:
            out.write("1\n")
        options.binary.must(place("private"), "CREATE TABLE t AS SELECT 1 AS a")
        os.makedirs(place("closed"))
        os.makedirs(place("fixed"))
        modes = {"secret.csv": 0, "closed": 0, "private": 0, "fixed": 0o555}
        for name, mode in modes.items():
            os.chmod(place(name), mode)
        for name, pattern, arguments in (
            ("unreadable file", r"secret\.csv.*permission", ["-c", "SELECT * FROM 'secret.csv'"]),
            ("unreadable directory", r"closed.*permission", ["closed/db", "-c", "SELECT 1"]),
            ("files of an unreadable directory", r"closed", ["-c", "SELECT * FROM 'closed/a.csv'"]),
            ("unreadable database", r"private.*permission", ["private", "-c", "SELECT * FROM t"]),
            ("unreadable database, read-only", r"private.*permission", ["private", "--read-only", "-c", "SELECT * FROM t"]),
            ("database in a directory that cannot be written", r"fixed.*permission", ["fixed/db", "-c", "SELECT 1"]),
            ("COPY into a directory that cannot be written", r"fixed.*permission", ["-c", "COPY (SELECT 1 AS a) TO 'fixed/a.csv'"]),
        ):
            outcome = binary.run(*arguments, timeout=SECONDS, cwd=directory, **user)
            report.check(name, verdict(Case("", pattern), outcome))
        for name in modes:
            os.chmod(place(name), 0o755)


def locked(options, report, directory):
    """A database that another process holds."""
    database = os.path.join(directory, "held")
    options.binary.must(database, "CREATE TABLE t (a INTEGER)")
    holder = subprocess.Popen([options.binary.path, database], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    holder.stdin.write(b"SELECT 'open';\n")
    holder.stdin.flush()
    time.sleep(1)
    try:
        for name, arguments in (("writer", []), ("reader", ["--read-only"])):
            outcome = options.binary.run(database, *arguments, "-c", "SELECT 1", timeout=SECONDS)
            case = Case("", rf"{holder.pid}|held|open|lock")
            difference = verdict(case, outcome)
            if not difference and str(holder.pid) not in outcome.stderr:
                difference = f"the holder, process {holder.pid}, is not named:\n{outcome.stderr}"
            report.check(f"database already open, second {name}", difference)
    finally:
        holder.stdin.close()
        holder.wait(timeout=20)
    report.check("database free again", verdict_fine(options.binary.run(database, "-c", "SELECT * FROM t")))


def verdict_fine(outcome):
    return None if outcome.status == 0 else f"exit status {outcome.status}: {outcome.stderr[:600]}"


def other_versions(options, report, directory):
    """A database of a newer or an older format."""
    for word, version in (("newer", 999), ("older", 0)):
        database = os.path.join(directory, word)
        options.binary.must(database, "CREATE TABLE t (a INTEGER)")
        rewrite_version(database, version)
        for mode in ([], ["--read-only"]):
            outcome = options.binary.run(database, *mode, "-c", "SELECT * FROM t", timeout=SECONDS)
            report.check(f"a database of {word} format {mode}", verdict(Case("", rf"{word} Forebay \(format {version}"), outcome))


def spoiled_catalogs(options, report, directory):
    """A database whose catalog is noise, empty, or gone."""
    for name, content in (("noise", os.urandom(8192)), ("empty", b""), ("gone", None)):
        database = os.path.join(directory, f"catalog-{name}")
        options.binary.must(database, "CREATE TABLE t AS SELECT 1 AS a")
        path = os.path.join(database, "forebay.redb")
        os.remove(path)
        if content is not None:
            with open(path, "wb") as out:
                out.write(content)
        for mode in ([], ["--read-only"]):
            outcome = options.binary.run(database, *mode, "-c", "SELECT * FROM t", timeout=SECONDS)
            report.check(f"a catalog that is {name} {mode}", verdict(Case("", rf"forebay\.redb|catalog-{name}"), outcome))
    segments = os.listdir(os.path.join(database, "segments"))
    report.check("its segments are left alone", None if len(segments) == 1 else f"{segments}")


def unchanged(options, report, directory):
    """A failing statement leaves the table as it was, and the script stops there."""
    database = os.path.join(directory, "after")
    options.binary.must(database, "CREATE TABLE t AS SELECT 1 AS a")
    outcome = options.binary.run(database, "-c", "INSERT INTO t VALUES (2)", "-c", "INSERT INTO t VALUES ('x')", "-c", "INSERT INTO t VALUES (3)")
    rows = options.binary.rows(database, "SELECT count(*), max(a) FROM t")
    report.check("a script stops at its first error", None if outcome.status == 1 and rows == [["2", "2"]] else f"{outcome.status} {rows}")


def run(options, report):
    report.suite("bad inputs")
    directory = os.path.join(options.directory, "bad")
    os.makedirs(directory)
    for index, case in enumerate(CASES):
        try:
            report.check(case.name, run_case(options, os.path.join(directory, str(index)), case))
        except RuntimeError as error:
            report.fail(case.name, f"the preparation failed: {error}")
    unreadable(options, report)
    locked(options, report, directory)
    other_versions(options, report, directory)
    spoiled_catalogs(options, report, directory)
    unchanged(options, report, directory)
    report.end()
