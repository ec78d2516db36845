"""The program as a user meets it: formats of output, scripts, ^C, broken pipes, several processes."""

import csv
import io
import json
import os
import pty
import re
import select
import resource
import signal
import subprocess
import time

VALUES = (
    "SELECT 1 AS i, CAST(12.50 AS DECIMAL(9,2)) AS d, CAST(0.1 AS DOUBLE) AS f, 'a|b,\"c\"' AS t, NULL AS n,"
    " true AS b, DATE '2024-01-31' AS day, X'00ff' AS x"
)
SLOW = "SELECT count(*) FROM range(100000) AS a(x), range(100000) AS b(y) WHERE x * y % 7 = 3"


def fine(outcome, *wanted):
    """None where the program succeeded and its output holds all of `wanted`."""
    crash = outcome.crash()
    if crash or outcome.status != 0:
        return f"{crash or outcome.status}: {outcome.stderr[:800]}"
    text = outcome.stdout.decode("utf-8", "replace")
    missing = [part for part in wanted if part not in text]
    return f"without {missing}:\n{text[:1200]}" if missing else None


def formats(binary, report):
    run = lambda kind, *more: binary.run("--format", kind, *more, "-c", VALUES)
    outcome = run("csv")
    rows = list(csv.reader(io.StringIO(outcome.stdout.decode())))
    wanted = [["i", "d", "f", "t", "n", "b", "day", "x"], ["1", "12.50", "0.1", 'a|b,"c"', "", "true", "2024-01-31", "\\x00ff"]]
    report.check("csv", fine(outcome) or (None if rows == wanted else f"{rows}"))
    rows = list(csv.reader(io.StringIO(run("csv", "--no-header", "--null", "nil").stdout.decode())))
    report.check("csv without header", None if rows == [wanted[1][:4] + ["nil"] + wanted[1][5:]] else f"{rows}")
    row = {"i": 1, "d": 12.5, "f": 0.1, "t": 'a|b,"c"', "n": None, "b": True, "day": "2024-01-31", "x": "\\x00ff"}
    for kind in ("json", "jsonl"):
        outcome = run(kind)
        different = fine(outcome)
        if not different:
            got = json.loads(outcome.stdout)
            different = None if (got[0] if kind == "json" else got) == row else f"{got}"
        report.check(kind, different)
    report.check("markdown", fine(run("markdown"), "| i", "12.50", "a\\|b", "---"))
    report.check("line", fine(run("line"), "i = 1", "day = 2024-01-31"))
    report.check("table", fine(run("table"), "12.50", "NULL", "│"))
    report.check("empty result", fine(binary.run("--format", "csv", "-c", "SELECT 1 AS a WHERE false"), "a"))
    one_column = "SELECT * FROM (VALUES ('x'), (NULL), ('y')) AS v(a)"
    for kind, arguments in (("csv", ["--format", "csv"]), ("csv with a text for NULL", ["--format", "csv", "--null", "a,b"])):
        outcome = binary.run(*arguments, "-c", one_column)
        rows = list(csv.reader(io.StringIO(outcome.stdout.decode())))
        report.check(f"{kind}: one column", fine(outcome) or (None if len(rows) == 4 and all(len(row) == 1 for row in rows) else f"{rows}"))


def scripts(binary, report, directory):
    script = os.path.join(directory, "script.sql")
    with open(script, "w", encoding="utf-8") as out:
        out.write("-- a comment; with a semicolon\nCREATE TABLE t (a INTEGER);\n/* another; one */ INSERT INTO t VALUES (1), (2);\n")
        out.write("SELECT ';' || a AS semi FROM t ORDER BY a;\nSELECT 'last without semicolon' AS l")
    outcome = binary.run("--format", "csv", "-f", script)
    report.check("script", fine(outcome, ";1", ";2", "last without semicolon"))
    outcome = binary.run("--format", "csv", stdin=b"SELECT 41 + 1 AS answer;\n")
    report.check("standard input", fine(outcome, "answer", "42"))
    outcome = binary.run("-c", "CREATE TABLE t (a INTEGER)", "-c", "INSERT INTO t VALUES (7)", "-c", "SELECT a * 6 FROM t")
    report.check("several -c share the database in memory", fine(outcome, "42"))
    outcome = binary.run("-c", "SELECT 1;\nSELECT nope\nFROM range(3);")
    report.check(
        "an error points at its place",
        None if outcome.status == 1 and "^" in outcome.stderr and "SELECT nope" in outcome.stderr else outcome.stderr,
    )
    outcome = binary.run("-c", "-- a comment first\nSELECT 6 * 7 AS answer")
    report.check("a command may begin with a comment", fine(outcome, "42"))
    outcome = binary.run("-c", "-- why\n/* and how */ EXPLAIN SELECT 1")
    report.check("a plan has no box", fine(outcome) or ("a box" if "│" in outcome.stdout.decode() else None))
    with open(script, "w", encoding="utf-8") as out:
        out.write("-- one\n\\timing off\n/* three\nfour */\nSELECT 1; /* SELECT nope(2)\n*/ -- six\nSELECT nope(2);\n")
    outcome = binary.run("-f", script)
    report.check("an error names its line, comments or not", None if "line 7" in outcome.stderr else outcome.stderr)
    outcome = binary.run("--timing", "-c", "SELECT count(*) FROM range(1000)")
    report.check("timing", None if " ms" in outcome.stderr or " µs" in outcome.stderr else f"{outcome.stderr!r}")
    outcome = binary.run("--help")
    report.check("help", fine(outcome, "--format", "--read-only", "--memory", "--timeline <FILE>"))
    report.check("version", fine(binary.run("version"), "forebay"))


def has_huge_pages(process):
    """What the kernel says of a process; None where it says nothing."""
    with open(f"/proc/{process.pid}/status") as status:
        found = re.search(r"THP_enabled:\s*(\d)", status.read())
    return found and found[1] == "1"


def statements_begin_without_huge_pages(binary, report):
    process = binary.start("-c", SLOW)
    end = time.monotonic() + 10
    while has_huge_pages(process) and time.monotonic() < end:
        time.sleep(0.05)
    report.check("statements begin without huge pages", "it has them" if has_huge_pages(process) else None)
    process.kill()
    process.communicate()


def prompt(binary, report):
    """A session at a terminal has huge pages, and a byte that is not UTF-8 does not end it."""
    controller, terminal = pty.openpty()
    process = subprocess.Popen([binary.path], stdin=terminal, stdout=terminal, stderr=terminal, close_fds=True)
    os.close(terminal)
    shown = b""

    def wait_for(part, seconds=20):
        nonlocal shown
        end = time.monotonic() + seconds
        while part not in shown and time.monotonic() < end:
            if select.select([controller], [], [], 0.2)[0]:
                try:
                    shown += os.read(controller, 65536)
                except OSError:
                    return

    wait_for(b"memory> ")
    report.check("a prompt has huge pages", "it has none" if has_huge_pages(process) is False else None)
    os.write(controller, b"SELECT 'abc\xff\r")
    wait_for(b"UTF-8")
    os.write(controller, b"SELECT 5 * 1111 AS product;\r")
    wait_for(b"5555")
    process.kill()
    process.wait()
    os.close(controller)
    report.check("a byte that is not UTF-8 at the prompt", None if b"5555" in shown else repr(shown[-600:]))


def schemas(binary, report, directory):
    """What .schema writes makes the same tables and views."""
    database = os.path.join(directory, "schema")
    binary.must(
        database,
        'CREATE TABLE "order" ("select" INTEGER NOT NULL, "Full Name" VARCHAR DEFAULT \'x, y\', d DECIMAL(9,2) DEFAULT 0.5, PRIMARY KEY ("select", d))',
        'CREATE TABLE "my.t" (id BIGINT PRIMARY KEY, at TIMESTAMP)',
        "CREATE SCHEMA other",
        "CREATE TABLE other.t (a DATE)",
        "CREATE TABLE small (a INTEGER WITH (compression = 'zstd'), b DATE)",
        "CREATE TABLE all_small (a INTEGER, b DATE) WITH (compression = 'best_ratio')",
        'CREATE VIEW big AS SELECT "select" AS s FROM "order" WHERE d > 1',
    )
    first = binary.run(database, "-c", ".schema")
    wanted = ['CREATE TABLE "order" (', 'PRIMARY KEY ("select", d)', "DEFAULT 'x, y'", "CREATE VIEW big AS SELECT", "other.t", "a INTEGER WITH (compression = 'zstd')", ") WITH (compression = 'best_ratio');"]
    report.check(".schema", fine(first, *wanted))
    again = os.path.join(directory, "schema-again")
    binary.must(again, "CREATE SCHEMA other")
    outcome = binary.run(again, stdin=first.stdout)
    second = binary.run(again, "-c", ".schema")
    report.check(".schema can be run", fine(outcome) or (None if second.stdout == first.stdout else second.stdout.decode()))
    for name, part in (("big", "CREATE VIEW big AS"), ("order", 'CREATE TABLE "order"'), ('"my.t"', 'CREATE TABLE "my.t"')):
        report.check(f".schema {name}", fine(binary.run(database, "-c", f".schema {name}"), part))
    report.check('\\d "my.t"', fine(binary.run(database, "-c", '\\d "my.t"'), "BIGINT", "TIMESTAMP"))
    report.check("\\d other.t", fine(binary.run(database, "-c", "\\d other.t"), "DATE"))


def long_expressions(binary, report):
    """A thousand terms are planned soon, and give what they should."""
    table = "CREATE TABLE t AS SELECT 3 AS a, CAST(4 AS BIGINT) AS b, CAST(1.25 AS DECIMAL(9,2)) AS d, CAST(0.5 AS DOUBLE) AS f, 'x' AS s"
    for name, expression, wanted in (
        ("integers", "+".join(["a"] * 1001), "3003"),
        ("constants", "+".join(["1"] * 1001), "1001"),
        ("mixed integers", "a" + "+b-a" * 500, "503"),
        ("products below sums", "a" + "+a*b" * 500, "6003"),
        ("a sum", f"sum({'+'.join(['a'] * 1001)})", "3003"),
        ("decimals", "+".join(["d"] * 1001), "1251.25"),
        ("doubles", "+".join(["f"] * 1001), "500.5"),
        ("texts", f"length({'||'.join(['s'] * 1001)})", "1001"),
        ("alternatives", " OR ".join(f"a = {number}" for number in range(500)), "true"),
    ):
        outcome = binary.run("--format", "csv", "--no-header", stdin=f"{table}; SELECT {expression} FROM t;\n".encode(), timeout=30)
        different = fine(outcome) or (None if outcome.stdout.decode().strip() == wanted else outcome.stdout.decode()[:300])
        report.check(f"a thousand levels: {name}", different or (f"{outcome.seconds:.1f} s" if outcome.seconds > 10 else None))
    joins = " ".join(f"JOIN t AS t{number} ON t{number}.a = t{number - 1}.a" for number in range(1, 1000))
    outcome = binary.run("--format", "csv", "--no-header", stdin=f"{table}; SELECT count(*) FROM t AS t0 {joins};\n".encode(), timeout=60)
    report.check("a thousand joins", fine(outcome) or (None if outcome.stdout.decode().strip() == "1" else outcome.stdout.decode()[:300]))


def interrupted(binary, report, name, arguments, after):
    """SIGINT ends the program with status 130, soon."""
    process = binary.start(*arguments)
    time.sleep(after)
    if process.poll() is not None:
        report.fail(name, f"ended too early: {process.communicate()[1].decode()}")
        return
    process.send_signal(signal.SIGINT)
    start = time.monotonic()
    try:
        _, stderr = process.communicate(timeout=10)
        seconds = time.monotonic() - start
        good = process.returncode == 130 and b"panicked" not in stderr
        report.check(name, None if good else f"status {process.returncode} after {seconds:.1f} s: {stderr.decode()[:600]}")
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        report.fail(name, "still running 10 s after SIGINT")


def correlated(depth):
    """Queries within queries, each of which compares with the one around it: planning takes twice as long for each more of them."""
    inner = ""
    for level in range(depth, 0, -1):
        inner = f" WHERE t{level - 1}.x <= (SELECT count(*) FROM range(1) AS t{level}(x){inner})"
    return f"SELECT count(*) FROM range(1) AS t0(x){inner}"


def cancelling(binary, report, directory):
    interrupted(binary, report, "^C ends a query", ["-c", SLOW], 1.5)
    interrupted(binary, report, "^C ends planning", ["-c", correlated(24)], 1.5)
    database = os.path.join(directory, "cancelled")
    load = "CREATE TABLE t AS SELECT x, 'value ' || x AS v, x * 3 AS w FROM range(200000000) AS r(x)"
    interrupted(binary, report, "^C ends a load", [database, "-c", load], 2.0)
    outcome = binary.run(database, "-c", "CHECK DATABASE", "-c", "SHOW TABLES")
    report.check("nothing of a cancelled load is there", fine(outcome))
    left = [name for _, _, files in os.walk(database) for name in files if name.endswith(".seg")]
    report.check("a cancelled load leaves no files", f"{left}" if left else None)


def broken_pipe(binary, report):
    command = f"'{binary.path}' --format csv -c 'SELECT * FROM range(5000000)' | head -n 3"
    done = subprocess.run(["bash", "-c", command], capture_output=True, timeout=60, check=False)
    good = done.stdout.count(b"\n") == 3 and not done.stderr
    report.check("a broken pipe is no error", None if good else f"{done.stdout[:200]} {done.stderr.decode()[:400]}")


def readers(binary, report, directory):
    database = os.path.join(directory, "shared")
    binary.must(database, "CREATE TABLE t AS SELECT * FROM range(100000) AS r(a)")
    processes = [
        subprocess.Popen(
            [binary.path, database, "--read-only", "--format", "csv", "-c", "SELECT sum(a) FROM t"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
        )
        for _ in range(4)
    ]
    results = [process.communicate(timeout=60) for process in processes]
    wrong = [f"{out} {err}" for out, err in results if b"4999950000" not in out]
    report.check("four read-only processes at once", "\n".join(wrong) or None)


def little_memory(binary, report, directory):
    """More groups and more data than memory: the right answer."""
    database = os.path.join(directory, "memory")
    binary.must(database, "CREATE TABLE t AS SELECT x AS k, 'some text ' || x AS v FROM range(2000000) AS r(x)")
    for sql, wanted in (
        ("SELECT count(*), sum(k) FROM t", "2000000,1999999000000"),
        ("SELECT count(*) FROM (SELECT v, count(*) FROM t GROUP BY v)", "2000000"),
        ("SELECT v FROM t ORDER BY v DESC LIMIT 1", "some text 999999"),
    ):
        for megabytes in (64, 256):
            arguments = ("--memory", f"{megabytes}MB", "--format", "csv", "-c", sql, "-c", "SHOW MEMORY")
            outcome = binary.run(database, *arguments, timeout=120)
            report.check(f"{megabytes} MB: {sql}", fine(outcome, wanted) or account_error(outcome, megabytes << 20))


def account_error(outcome, total_bytes):
    """What is wrong with the account of memory that ends this output; None where nothing is."""
    lines = outcome.stdout.decode().splitlines()
    heads = [index for index, line in enumerate(lines) if line.startswith("tier,holder,")]
    if not heads:
        return f"no account of memory: {lines[-5:]}"
    rows = {row["holder"]: row for row in csv.DictReader(lines[heads[-1] :]) if row["tier"] == "process"}
    names = ("queries", "hot rows", "read buffers", "inflated chunks", "rest of the process", "freed by queries")
    clients = [rows[name] for name in names]
    limits, held = ([int(row[column]) for row in clients] for column in ("limit_bytes", "held_bytes"))
    good = (
        int(rows["all"]["limit_bytes"]) == total_bytes
        and sum(held) == int(rows["all"]["held_bytes"]) <= total_bytes
        and all(one <= limit <= total_bytes for one, limit in zip(held, limits))
        # With very little memory a worker takes more than its part for as long as it has to.
        and (all(int(row["peak_bytes"] or 0) <= limit for row, limit in zip(clients, limits)) or total_bytes < 128 << 20)
    )
    return None if good else f"{rows}"


def refused_options(binary, report, directory):
    """Options that cannot be met are refused before a database is made."""
    database = os.path.join(directory, "refused")
    for options in (["--memory", "1MB"], ["--threads", "2000"]):
        outcome = binary.run(database, *options, "-c", "SELECT 1")
        good = outcome.status in (1, 2) and "rror: " in outcome.stderr and not os.path.exists(database)
        report.check(f"{options[0]} is refused and makes nothing", None if good else f"{outcome.stderr} {os.path.exists(database)}")


def few_descriptors(binary, report, directory):
    """A segment for every INSERT, and many more of them than files may be open."""
    database = os.path.join(directory, "pieces")
    script = os.path.join(directory, "inserts.sql")
    with open(script, "w", encoding="utf-8") as out:
        out.write("CREATE TABLE t (a BIGINT, b VARCHAR);\n")
        out.writelines(f"INSERT INTO t VALUES ({number}, 'row {number}');\n" for number in range(INSERTS))
    count = ("--format", "csv", "-c", "SELECT count(*), sum(a), max(b), count(DISTINCT b) FROM t")
    wanted = f"{INSERTS},{INSERTS * (INSERTS - 1) // 2},row 999,{INSERTS}"
    run = lambda *arguments: binary.run(
        database, *arguments, timeout=300, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
    )
    report.check("many small INSERTs", fine(run("--quiet", "-f", script)))
    report.check("a query over many segments", fine(run(*count), wanted))
    report.check("CHECK DATABASE of many segments", fine(run("-c", "CHECK DATABASE")))
    report.check("CHECKPOINT of many segments", fine(run("-c", "CHECKPOINT", *count), wanted))
    report.check("CHECK DATABASE after it", fine(run("-c", "CHECK DATABASE", *count), wanted))
    left = len(os.listdir(os.path.join(database, "segments")))
    report.check("CHECKPOINT merges them", None if left < 10 else f"{left} segments")


INSERTS = 1200
UNITS = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


def bytes_read(binary, database, sql):
    """What a fresh process says that it read from disk for a query."""
    outcome = binary.run(database, "--read-only", "--timing", "-c", sql)
    found = re.search(r"read ([\d.]+) (B|KiB|MiB|GiB)", outcome.stderr)
    if outcome.status != 0 or "ms" not in outcome.stderr and "µs" not in outcome.stderr:
        raise RuntimeError(f"{sql}: {outcome.stderr}")
    return float(found[1]) * UNITS[found[2]] if found else 0.0


def reading(binary, report, directory):
    """A query reads the columns it touches, after pruning, and no more; of a chunk only the blocks that it needs."""
    columns = {
        "k": "n",
        "g": "n % 10",
        "t": "'text ' || (n * 7919 % 100003)",
        "x": "CAST(n * 31 % 65521 AS DOUBLE) / 3",
        "m": "md5(CAST(n AS VARCHAR))",
    }
    rows = "FROM range(1000000) AS r(n)"
    wide = os.path.join(directory, "wide")
    binary.must(wide, f"CREATE TABLE t AS SELECT {', '.join(f'{text} AS {name}' for name, text in columns.items())} {rows}")
    stored = {}
    for name, text in columns.items():
        alone = os.path.join(directory, f"alone-{name}")
        binary.must(alone, f"CREATE TABLE t AS SELECT {text} AS {name} {rows}")
        stored[name] = sum(entry.stat().st_size for entry in os.scandir(os.path.join(alone, "segments")))
    slack = 64 * 2**10
    cases = [
        ("SELECT sum(k) FROM t", stored["k"]),
        ("SELECT max(x), min(t) FROM t", stored["x"] + stored["t"]),
        ("SELECT g, count(*) FROM t WHERE length(m) = 32 GROUP BY g", stored["g"] + stored["m"]),
        ("SELECT count(*) FROM t", 0),
        ("SELECT sum(x) FROM t WHERE k BETWEEN 10 AND 1000", (stored["x"] + stored["k"]) / 8),
        ("SELECT sum(g) FROM t WHERE k = 500000", (stored["g"] + stored["k"]) / 10),
        ("SELECT sum(x) FROM t WHERE k < 0", 0),
    ]
    for sql, limit in cases:
        got = bytes_read(binary, wide, sql)
        report.check(f"bytes read: {sql}", None if got <= limit * 1.02 + slack else f"read {got:.0f} bytes, at most {limit:.0f} are needed")
        if limit > 2**20:
            report.check(f"bytes read are true: {sql}", None if got >= limit * 0.2 else f"read {got:.0f} bytes of {limit:.0f}")


def inspecting(binary, report, directory):
    """`inspect` says how a table is stored and what other plans would cost, and `OPTIMIZE TABLE` does what it says."""
    database = os.path.join(directory, "inspected")
    columns = "n AS k, n // 40 % 7 AS g, 'word ' || (n * 7919 % 1009) AS t, CAST(n % 977 AS DOUBLE) / 100 AS d"
    binary.must(database, f"CREATE TABLE t AS SELECT {columns} FROM range(600000) AS r(n); CREATE TABLE e (a INTEGER)")
    report.check("inspect", fine(binary.run("inspect", database, "t"), "main.t: 600,000 rows", "best_ratio", "of 2 row groups", "fsst"))
    report.check("inspect: a table without rows", fine(binary.run("inspect", database, "main.e"), "main.e: 0 rows"))
    outcome = binary.run("inspect", database, "nothing")
    report.check("inspect: no such table", None if outcome.status == 1 and "Its tables are main.e, main.t" in outcome.stderr else outcome.stderr)

    def record():
        return json.loads(binary.run("inspect", database, "t", "--format", "json", "--sample", "100", "--fixed-rates").stdout)

    before = record()
    report.check("inspect: the same twice by fixed rates", None if before == record() else "two runs differ")
    names = [column["column"] for column in before["columns"]]
    report.check("inspect: columns", None if names == ["k", "g", "t", "d"] else f"{names}")
    expected = {column["column"]: column["plans"][column["best"]["best_ratio"]]["stored_bytes"] for column in before["columns"]}
    binary.must(database, "SET compression_rates = fixed; SET compression = best_ratio; OPTIMIZE TABLE t")
    for column in record()["columns"]:
        name, stored = column["column"], column["stored_bytes"]
        # Directories of frames count as bytes of a plan, and are no bytes of chunks; eight row groups of a few rows more.
        off = None if abs(stored - expected[name]) <= 0.1 * expected[name] + 16384 else f"{stored} bytes, not {expected[name]}"
        report.check(f"inspect: OPTIMIZE TABLE stores {name} as it says", off)


def keeping_rates(binary, report, directory):
    """Rates of the machine are measured once, and kept in the user's cache; what is not as it was written is measured anew."""
    database, cache = os.path.join(directory, "rates"), os.path.join(directory, "cache")
    columns = "n * 7919 % 1000003 AS k, n % 100003 AS g, 'word ' || (n * 7919 % 100003) AS t, n AS i"
    binary.must(database, f"CREATE TABLE t AS SELECT {columns} FROM range(1000000) AS r(n)")

    def run(*arguments, place=cache):
        return binary.run(*arguments, environment={"XDG_CACHE_HOME": place})

    def optimize(settings, place=cache):
        return fine(run(database, "-c", f"{settings}; OPTIMIZE TABLE t", place=place))

    def kept():
        folder = os.path.join(cache, "forebay")
        names = os.listdir(folder) if os.path.isdir(folder) else []
        return {name: open(os.path.join(folder, name), "rb").read() for name in names}

    report.check("rates: fixed ones", optimize("SET compression_rates = fixed") or (str(kept()) if kept() else None))
    report.check("rates: no place for them", optimize("SET compression_rates = measured", "/dev/null/nowhere"))
    report.check("rates: measured", optimize("SET compression_rates = measured"))
    first = kept()
    sound = len(first) == 1 and all(name.startswith("rates-") and text.startswith(b"forebay rates 1\n") for name, text in first.items())
    report.check("rates: kept", None if sound and b"\nlz4 " in first[list(first)[0]] else str(first))
    # What was too little to measure may be enough in the table written anew; what was measured stays.
    outcome, lines = optimize("SET compression = best_time"), first[list(first)[0]].splitlines()[:-1]
    lost = [line for line in lines if line not in kept()[list(first)[0]].splitlines()]
    report.check("rates: asked again", outcome or (f"{lost} are lost in {kept()}" if lost else None))
    records = [json.loads(run("inspect", database, "t", "--format", "json").stdout) for _ in range(2)]
    report.check("rates: the same plans twice", None if records[0] == records[1] else "two runs differ")
    (name,) = first
    file = os.path.join(cache, "forebay", name)
    found = records[0]["sample"]["rates_file"]
    report.check("rates: inspect names the file", None if found == file else str(found))
    for wrong in (b"", b"forebay rates 1\n", first[name][:-2], first[name].replace(b"lz4 ", b"lz4 9"), b"\xff" * 100_000):
        with open(file, "wb") as out:
            out.write(wrong)
        outcome = optimize("SET compression_rates = measured")
        sound = kept()[name].startswith(b"forebay rates 1\n") and kept()[name] != wrong
        report.check(f"rates: damaged, {len(wrong)} bytes", outcome or (None if sound else str(kept())))
    report.check("rates: measured anew", optimize("SET compression_rates = remeasured") or (None if list(kept()) == [name] else str(kept())))


def page_data(path):
    """What a page of timelines has in it, each span as a dictionary."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    data = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)[1])
    for statement in data["statements"]:
        statement["spans"] = [dict(zip(data["fields"], span)) for span in statement["spans"]]
        for span in statement["spans"]:
            span["kind"] = data["kinds"][span["kind"]]
    return data


def wrong_spans(statement):
    """What is wrong with a statement's spans: times outside of the statement's, workers that do two things at once, sums."""
    wrong = []
    ends = {}
    for span in sorted(statement["spans"], key=lambda span: span["start_ns"]):
        if not 0 <= span["start_ns"] < span["end_ns"] <= statement["elapsed_ns"] or span["busy_ns"] > span["end_ns"] - span["start_ns"]:
            wrong.append(f"outside of the statement: {span}")
        if span["thread"] >= 0 and span["start_ns"] < ends.get(span["thread"], 0):
            wrong.append(f"begins before the thread was done: {span}")
        ends[span["thread"]] = span["end_ns"]
    for number, source in enumerate(statement["sources"]):
        mine = [span for span in statement["spans"] if span["source"] == number]
        for kind, total in (("wait", "wait_ns"), ("inflate", "inflate_ns"), ("compute", "compute_ns")):
            spent = sum(span["busy_ns"] for span in mine if span["kind"] == kind)
            if spent != source[total]:
                wrong.append(f"{source['name']}: {spent} ns of {kind}, not {source[total]}")
        read = sum(span["bytes"] for span in mine if span["kind"] == "read")
        if read != source["read_bytes"]:
            wrong.append(f"{source['name']}: spans of {read} bytes, not {source['read_bytes']}")
    return "\n".join(wrong[:5]) or None


def timelines(binary, report, directory):
    """`--timeline` shows when statements did what, changes no answer, and says at once when it cannot."""
    database = os.path.join(directory, "timed")
    columns = "n AS k, n % 10 AS g, 'text ' || (n * 7919 % 1009) AS t"
    binary.must(database, f"CREATE TABLE t AS SELECT {columns} FROM range(2000000) AS r(n); CREATE TABLE d AS SELECT n AS g, 'name ' || n AS name FROM range(10) AS r(n)")
    queries = [
        "SELECT name, count(*), sum(k), max(t) FROM t JOIN d ON t.g = d.g WHERE k > 1000 GROUP BY name ORDER BY name",
        "SELECT count(*) FROM t WHERE t LIKE '%7' AND upper(t) < 'TEXT 5'",
        "SELECT k, t FROM t WHERE k % 500000 = 3 ORDER BY k",
        "SELECT '</script>' AS a, sum(k) FROM t",
    ]
    arguments = [part for query in queries for part in ("-c", query)]
    page = os.path.join(directory, "timeline.html")
    for execution in ("compiled", "interpreter", "datafusion"):
        run = lambda *options: binary.run(database, "--threads", "2", "--format", "csv", *options, "-c", f"SET execution = {execution}", *arguments)
        plain, timed = run(), run("--timeline", page)
        different = fine(timed, "name 7") or (None if plain.stdout == timed.stdout else "other answers than without --timeline")
        report.check(f"--timeline changes no answer: {execution}", different)
        data = page_data(page)
        shown = [statement["sql"] for statement in data["statements"]]
        report.check(f"--timeline shows the statements: {execution}", None if shown == queries and data["without_spans"] == 1 else f"{shown}, {data['without_spans']} others")
        for query, statement in zip(queries, data["statements"]):
            kinds = {span["kind"] for span in statement["spans"]}
            missing = {"plan", "compute"} - kinds
            report.check(f"--timeline, {execution}: {query[:40]}", wrong_spans(statement) or (f"no {missing}" if missing else None))
        first = data["statements"][0]
        names = {source["name"]: source for source in first["sources"]}
        read = names["main.t"]["read_bytes"] if "main.t" in names else 0
        report.check(f"--timeline tells what was read: {execution}", None if read > 2**16 and {"read", "inflate"} <= {span["kind"] for span in first["spans"]} else f"{names}")
    outcome = binary.run(database, "--timeline", page, "-c", queries[1], "-c", "SELECT sum(CAST(t AS INTEGER)) FROM t", "-c", queries[0])
    data = page_data(page)
    good = outcome.status == 1 and [statement["failed"] for statement in data["statements"]] == [False, True]
    report.check("--timeline of a statement that fails", None if good else f"{outcome.status}: {[statement['sql'] for statement in data['statements']]}")
    report.check("--timeline of nothing", fine(binary.run("--timeline", page, "-c", "SELECT 1")) or (None if page_data(page)["statements"] == [] else "a statement"))
    # Blocks that the keys of a join leave out are not read before these are known: of 500 days those of two weeks.
    sales = "n // 4000 AS day, n * 7919 % 1000003 AS article, n % 100 AS price"
    binary.must(database, f"CREATE TABLE sales AS SELECT {sales} FROM range(2000000) AS r(n); CREATE TABLE days AS SELECT n AS day, n // 7 AS week FROM range(20000) AS r(n)")
    asked = "SELECT count(*), sum(article) FROM sales JOIN days USING (day) WHERE week IN (20, 21) AND price BETWEEN 10 AND 89"
    outcome = binary.run(database, "--threads", "2", "--format", "csv", "--timeline", page, "-c", asked)
    sources = {source["name"]: source for source in page_data(page)["statements"][0]["sources"]}
    good = sources["main.sales"]["let_go_bytes"] == 0 and sources["main.sales"]["read_bytes"] > 0
    report.check("a scan waits for few keys of a table in their order", fine(outcome, "44800,") or (None if good else str(sources["main.sales"])))
    for place in (os.path.join(directory, "none", "t.html"), directory):
        outcome = binary.run(os.path.join(directory, "never"), "--timeline", place, "-c", "SELECT 1")
        good = outcome.status == 1 and place in outcome.stderr and not outcome.stdout and not os.path.exists(os.path.join(directory, "never"))
        report.check("--timeline that cannot be written", None if good else f"{outcome.status}: {outcome.stdout} {outcome.stderr}")


def placing(binary, report):
    """The functions that queries run lie side by side (apps/cli/functions.order); other compilers name them otherwise."""
    with open(os.path.join(os.path.dirname(__file__), "..", "apps", "cli", "functions.order"), encoding="utf-8") as file:
        compiler, *names = file.read().splitlines()
    version = subprocess.run(["rustc", "--version"], capture_output=True, text=True, check=False).stdout.strip()
    if compiler != f"# {version}":
        print(f"skipped: functions.order is of {compiler[2:]}, and this is {version}")
        return
    listed = subprocess.run(["nm", "--defined-only", binary.path], capture_output=True, text=True, check=False).stdout
    places = {line.split()[2]: int(line.split()[0], 16) for line in listed.splitlines() if line.split()[1] in "tT"}
    known = [places[name] for name in names if name in places]
    if not places:
        print("skipped: the program has no symbols")
        return
    few = f"only {len(known)} of {len(names)} functions are in the program: run scripts/function-order"
    report.check("functions.order is of this program", None if len(known) > 0.8 * len(names) else few)


def machine(binary, report, directory):
    """Nothing of CUDA is linked, and `doctor` says of each part whether it is there and what to do."""
    outcome = subprocess.run(["ldd", binary.path], capture_output=True, text=True, check=False)
    found = [line for line in outcome.stdout.splitlines() if re.search("cuda|nvidia|nvrtc|cufile|nvcomp", line, re.IGNORECASE)]
    report.check("no library of CUDA is linked", "\n".join(found) or (None if "libc" in outcome.stdout else outcome.stderr or "ldd says nothing"))
    outcome = binary.run("doctor", directory)
    parts = ["io_uring", "O_DIRECT", "NVIDIA driver", "GPU", "NVRTC", "nvCOMP", "cuFile", "C++ compiler"]
    report.check("doctor names every part", fine(outcome, *parts))
    lines = outcome.stdout.decode().splitlines()
    said = {line[:14].strip(): line[15:] for line in lines if line[:1] != " "}
    unclear = [part for part in parts if not re.match(r"(yes|no )\s+\S", said.get(part, ""))]
    report.check("doctor says yes or no", f"{unclear} in\n" + "\n".join(lines) if unclear else None)
    # What is missing has a line below that says what it would bring.
    mute = [line for line, below in zip(lines, [*lines[1:], ""]) if line[15:18] == "no " and not below.strip().startswith("for ")]
    report.check("doctor says what a missing part is for", "\n".join(mute) or None)
    unhelpful = [part for part in ("NVIDIA driver", "NVRTC", "nvCOMP", "cuFile") if said.get(part, "").startswith("no") and not re.search("pip install|Install|See|CUDA", said[part])]
    report.check("doctor says how to install what is missing", str(unhelpful) if unhelpful else None)
    report.check("selftest", fine(binary.run("selftest", "--device", "emulated", "--programs", "3", timeout=300), " passed, 0 failed"))
    outcome = binary.run("selftest", "--device", "cpu")
    report.check("selftest of the CPU", None if outcome.status == 1 and "gpu or emulated" in outcome.stderr else outcome.stderr)
    database = os.path.join(directory, "bench-device")
    outcome = binary.run("bench", "ssb", "--sf", "0.01", "--db", database, "--device", "emulated", "--query", "q1.1", "--runs", "1", timeout=300)
    report.check("floors of a device", fine(outcome, "on device emulated", "in its memory, its link", "q1.1"))


def transactions(binary, report, directory):
    """TPC-C by two terminals that share a warehouse, and once more over what they left."""
    database = os.path.join(directory, "tpcc")
    for run, wanted in (("", "Made TPC-C in"), (" once more", "TPC-C is there already")):
        outcome = binary.run("bench", "tpcc", "--db", database, "--clients", "2", "--seconds", "2", timeout=300)
        report.check(f"TPC-C{run}", fine(outcome, wanted, "tx/s, unaudited", "The twelve consistency conditions hold."))
    refused = binary.run("bench", "tpcc", "--db", database, "--sf", "2")
    report.check("TPC-C has no scale factor", None if "tpcc has --warehouses" in refused.stderr else refused.stderr)
    outcome = binary.run("bench", "tpcc", "--db", database, "--warehouses", "2", timeout=300)
    report.check("TPC-C of another size", None if "holds TPC-C with 1 warehouse, not 2" in outcome.stderr else outcome.stderr)
    figures = os.path.join(directory, "chbench.json")
    some = ("--query", "q6", "--query", "q1", "--seconds", "1", "--runs", "1", "--json", figures)
    outcome = binary.run("bench", "chbench", "--db", database, *some, timeout=300)
    wanted = ("Added suppliers", "beside queries", "Hot rows:", "0 committed before were missed", "The twelve consistency conditions hold.")
    report.check("CH-benCHmark", fine(outcome, *wanted))
    with open(figures, encoding="utf-8") as file:
        names = [query["name"] for query in json.load(file)["queries"]]
    report.check("figures of the CH-benCHmark", None if names == ["q1", "q6"] else str(names))
    refused = binary.run("bench", "chbench", "--db", database, "--query", "q23")
    report.check("a query that is not there", None if 'no query "q23"' in refused.stderr else refused.stderr)


def run(options, report):
    report.suite("the program")
    directory = os.path.join(options.directory, "program")
    os.makedirs(directory)
    formats(options.binary, report)
    scripts(options.binary, report, directory)
    prompt(options.binary, report)
    statements_begin_without_huge_pages(options.binary, report)
    schemas(options.binary, report, directory)
    long_expressions(options.binary, report)
    cancelling(options.binary, report, directory)
    broken_pipe(options.binary, report)
    readers(options.binary, report, directory)
    little_memory(options.binary, report, directory)
    refused_options(options.binary, report, directory)
    few_descriptors(options.binary, report, directory)
    reading(options.binary, report, directory)
    inspecting(options.binary, report, directory)
    keeping_rates(options.binary, report, directory)
    timelines(options.binary, report, directory)
    placing(options.binary, report)
    machine(options.binary, report, directory)
    transactions(options.binary, report, directory)
    report.end()
