"""Databases over several data directories: the same answers, files in all of them, and clear errors where one is missing,
swapped, of another database or full."""

import os
import shutil
import signal
import subprocess
import time

TABLES = ["date", "customer", "supplier", "part", "lineorder"]
DRIVES = ["one", "two", "three"]
SIZE_MB = 16
ROWS = 3_000_000
LARGE = f"SELECT CAST(random() * 2000000000 AS BIGINT) AS n FROM range({ROWS}) AS r(n)"


def fine(outcome, *wanted):
    """None where the program succeeded and its output holds all of `wanted`."""
    text = outcome.stdout.decode("utf-8", "replace")
    missing = [part for part in wanted if part not in text]
    if outcome.crash() or outcome.status != 0 or missing:
        return f"{outcome.crash() or outcome.status}, without {missing}: {outcome.stderr[:600]} {text[:300]}"
    return None


def refused(outcome, *wanted):
    """None where the program ended with an error that holds all of `wanted`."""
    missing = [part for part in wanted if part not in outcome.stderr]
    if outcome.crash() or outcome.status != 1 or missing:
        return f"{outcome.crash() or outcome.status}, without {missing}: {outcome.stderr[:600]}"
    return None


class Place:
    """A folder with a database `db` and data directories beside it."""

    def __init__(self, binary, folder, drives=DRIVES):
        os.makedirs(folder)
        self.binary, self.folder, self.drives = binary, os.path.realpath(folder), drives
        self.database = self.at("db")

    def at(self, name):
        return os.path.join(self.folder, name)

    def init(self):
        return self.binary.run("init", self.database, "--data-dirs", ",".join(self.at(drive) for drive in self.drives))

    def run(self, *statements, options=()):
        arguments = [part for statement in statements for part in ("-c", statement)]
        return self.binary.run(self.database, "--format", "csv", *options, *arguments, timeout=300)

    def files(self):
        return {drive: sorted(os.listdir(os.path.join(self.at(drive), "segments"))) for drive in self.drives}

    def bytes(self):
        size = lambda drive, name: os.path.getsize(os.path.join(self.at(drive), "segments", name))
        return {drive: sum(size(drive, name) for name in names) for drive, names in self.files().items()}


def answers(binary, database, texts):
    return [sorted(map(str, answer.rows)) or answer.error for answer in binary.answers(database, texts, timeout=600)]


def benchmark(options, report, folder):
    """The Star Schema Benchmark in one directory and over three."""
    binary = options.binary
    place = Place(binary, folder)
    data, plain = place.at("data"), place.at("plain")
    report.check("generate", fine(binary.run("gen", "ssb", "--sf", "0.1", "--out", data, timeout=300)))
    report.check("init", fine(place.init(), "3 data directories"))
    loads = [f"CREATE TABLE {table} AS SELECT * FROM '{data}/{table}.parquet'" for table in TABLES]
    for database in (plain, place.database):
        binary.must(database, *loads)
    report.check("files in every directory", None if all(place.files().values()) else str(place.files()))
    own = os.listdir(os.path.join(place.database, "segments"))
    report.check("none in the database's own", str(own) if own else None)
    texts = [path.read_text(encoding="utf-8").strip().rstrip(";") for path in sorted((options.query_directory / "ssb").glob("q*.sql"))]
    expected = answers(binary, plain, texts)
    report.check("13 queries with rows", None if len(texts) == 13 and sum(map(bool, expected)) > 9 else str(expected)[:600])
    compare = lambda what: report.check(what, None if answers(binary, place.database, texts) == expected else "other answers")
    compare("the same answers")
    # Larger than one row group for each drive, so that all take part, and evenly.
    binary.must(place.database, *[f"INSERT INTO lineorder SELECT * FROM '{data}/lineorder.parquet'"] * 4, "DROP TABLE part")
    before = place.bytes()
    report.check("OPTIMIZE TABLE", fine(place.run("OPTIMIZE TABLE lineorder")))
    sizes = place.bytes()
    even = 0.5 * max(sizes.values()) < min(sizes.values()) and sum(sizes.values()) < 1.2 * sum(before.values())
    report.check("rows lie evenly after OPTIMIZE TABLE", None if even else f"{before}, then {sizes}")
    count = place.run("SELECT count(*) AS rows FROM lineorder")
    single = binary.run(plain, "--format", "csv", "-c", "SELECT 5 * count(*) AS rows FROM lineorder")
    report.check("rows after OPTIMIZE TABLE", None if count.stdout == single.stdout else f"{count.stdout} {single.stdout}")
    report.check("CHECK DATABASE", fine(place.run("CHECK DATABASE")))
    report.check("CHECKPOINT", fine(place.run("CHECKPOINT")))
    report.check("one after the other is the same as at once", fine(place.run("SELECT count(*) FROM lineorder", options=["--threads", "1"]), count.stdout.decode().split()[1]))
    listed = binary.run("data-dirs", "list", place.database)
    report.check("list", fine(listed, place.database, *(place.at(drive) for drive in DRIVES)))
    left = [f"DROP TABLE {table}" for table in TABLES if table != "part"]
    binary.must(place.database, *left)
    report.check("DROP TABLE gives room back everywhere", str(place.files()) if any(place.files().values()) else None)


def order(binary, report, folder):
    """What one worker loads is read in its order, whatever the drives."""
    place = Place(binary, folder)
    place.init()
    binary.must(place.database, "CREATE TABLE t AS SELECT n FROM range(4000000) AS r(n)", options=["--threads", "1"])
    report.check("a load over all directories", None if all(place.files().values()) else str(place.files()))
    outcome = place.run("SELECT n FROM t", options=["--threads", "1"])
    rows = outcome.stdout.split()[1:]
    report.check("rows in the order of the load", None if rows == [b"%d" % n for n in range(4000000)] else f"{outcome.stderr} {rows[:5]} {len(rows)}")


def misplaced(binary, report, folder):
    place = Place(binary, folder)
    place.init()
    binary.must(place.database, "CREATE TABLE t AS SELECT n FROM range(3000000) AS r(n)")
    count = "SELECT sum(n) FROM t"
    answer = "4499998500000"
    os.rename(place.at("two"), place.at("away"))
    for options in ([], ["--read-only"]):
        outcome = place.run(count, options=options)
        report.check(f"a missing directory {options}", refused(outcome, "data directory 2", place.at("two"), "missing", "data-dirs move"))
    report.check("nothing was made in its place", "it was" if os.path.exists(place.at("two")) else None)
    wrong = binary.run("data-dirs", "move", place.database, f"2={place.at('three')}")
    report.check("moved to a wrong one", refused(wrong, "data directory 3"))
    report.check("moved to nowhere", refused(binary.run("data-dirs", "move", place.database, f"2={place.at('nothing')}"), "missing"))
    report.check("an unknown number", refused(binary.run("data-dirs", "move", place.database, f"9={place.at('away')}"), "1 to 3"))
    report.check("moved", fine(binary.run("data-dirs", "move", place.database, f"2={place.at('away')}")))
    report.check("found where it is now", fine(place.run(count), answer))
    for a, b in (("one", "x"), ("three", "one"), ("x", "three")):
        os.rename(place.at(a), place.at(b))
    report.check("swapped directories", refused(place.run(count), "is data directory 3 of database", place.at("one")))
    places = [f"1={place.at('three')}", f"3={place.at('one')}"]
    report.check("both are told", fine(binary.run("data-dirs", "move", place.database, *places)))
    report.check("found after a swap", fine(place.run(count), answer))
    shutil.copytree(place.database, place.at("copy"))
    copy = binary.run(place.at("copy"), "-c", count)
    report.check("a copy", refused(copy, "is a copy", place.database))
    report.check("the original", fine(place.run(count), answer))
    shutil.rmtree(place.at("copy"))
    os.rename(place.database, place.at("moved"))
    place.database = place.at("moved")
    report.check("a moved database", fine(place.run("INSERT INTO t VALUES (1)", count), "4499998500001"))
    report.check("a data directory is no database", refused(binary.run(place.at("one"), "-c", "SELECT 1"), "data directory of a database"))


def refused_init(binary, report, folder):
    place = Place(binary, folder)
    os.makedirs(place.at("full"))
    with open(os.path.join(place.at("full"), "letter.txt"), "w", encoding="utf-8") as letter:
        letter.write("dear")
    init = lambda database, *drives: binary.run("init", place.at(database), *(part for drive in drives for part in ("--data-dirs", place.at(drive))))
    report.check("a directory that is not empty", refused(init("db", "one", "full"), "letter.txt"))
    report.check("a file", refused(init("db", "full/letter.txt"), "is a file"))
    report.check("a directory twice", refused(init("db", "one", "one"), "named twice"))
    report.check("a directory in the database", refused(init("db", "db/one"), "lies in the other"))
    names = lambda name: os.listdir(place.at(name)) if os.path.exists(place.at(name)) else []
    left = [f"{name}/{file}" for name in ("one", "db") for file in names(name) if file != "LOCK"]
    report.check("nothing was written", str(left) if left else None)
    report.check("without data directories", fine(init("plain")))
    report.check("a database", refused(init("plain"), "already"))
    report.check("a directory of files", refused(init("full"), "letter.txt"))
    report.check("made at last", fine(init("db", "one", "two")))
    report.check("a directory of another database", refused(init("db2", "two"), "is data directory 2 of database"))
    unnamed = binary.run("init", place.at("db3"), "--data-dirs", "three,,four")
    report.check("no name", None if unnamed.status == 2 and "--data-dirs" in unnamed.stderr else unnamed.stderr)
    relative = binary.run("init", "here", "--data-dirs", "a,../b", cwd=place.at("full"))
    listed = binary.run("data-dirs", "list", "here", cwd=place.at("full"))
    report.check("relative paths", fine(relative) or fine(listed, place.at("full/a"), place.at("b")))
    missing = binary.run("data-dirs", "list", place.at("nowhere"))
    report.check("no database", refused(missing, "no database") or ("made" if os.path.exists(place.at("nowhere")) else None))
    binary.must(place.at("plain"), "CREATE TABLE t AS SELECT n FROM range(10) AS r(n)")
    report.check("added later", fine(binary.run("data-dirs", "add", place.at("plain"), place.at("late"))))
    # Rows inserted by key stay in the log until a checkpoint.
    binary.must(place.at("plain"), "INSERT INTO t VALUES (100)", "CHECKPOINT")
    files = os.listdir(os.path.join(place.at("late"), "segments"))
    report.check("new rows are in it", None if len(files) == 1 else str(files))
    report.check("old and new rows", fine(binary.run(place.at("plain"), "--format", "csv", "-c", "SELECT sum(n) FROM t"), "145"))


def killed(binary, report, folder):
    """Whatever a killed load left goes when the database is opened, from all directories."""
    place = Place(binary, folder)
    place.init()
    binary.must(place.database, "CREATE TABLE t AS SELECT n FROM range(1000) AS r(n)")
    before = place.files()
    for delay in (0.3, 0.6, 1.0):
        process = subprocess.Popen(
            [binary.path, place.database, "-c", f"CREATE TABLE u AS {LARGE.replace(str(ROWS), str(20 * ROWS))}"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        time.sleep(delay)
        process.send_signal(signal.SIGKILL)
        process.wait()
        report.check(f"rows after a kill at {delay} s", fine(place.run("SELECT sum(n) FROM t"), "499500"))
        # A load that was faster than the kill has made its table.
        place.run("DROP TABLE IF EXISTS u")
        report.check("nothing is left over", None if place.files() == before else str(place.files()))


def full(binary, report, folder):
    """Three small drives, of which one has room for little, and then none has."""
    place = Place(binary, folder)
    mounted = []
    try:
        for drive in DRIVES:
            os.makedirs(place.at(drive))
            mount = ["mount", "-t", "tmpfs", "-o", f"size={2 if drive == 'two' else SIZE_MB}m", "tmpfs", place.at(drive)]
            if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
                report.say("   skipped: file systems cannot be mounted here")
                return
            mounted.append(place.at(drive))
        report.check("init on mounted drives", fine(place.init()))
        report.check("a load that passes a full drive over", fine(place.run(f"CREATE TABLE t AS {LARGE}")))
        count = ("SELECT count(*) FROM t",)
        report.check("its rows", fine(place.run(*count), str(ROWS)))
        before = place.files()
        report.check("and they are sound", fine(place.run("CHECK DATABASE")))
        outcome = place.run(*[f"INSERT INTO t {LARGE}"] * 4)
        report.check("all drives are full", refused(outcome, "no space left in any data directory", *map(place.at, DRIVES)))
        rows = place.run(*count).stdout.split()[1:]
        whole = len(rows) == 1 and int(rows[0]) % ROWS == 0
        report.check("each load is there whole or not at all", None if whole else str(rows))
        binary.must(place.database, "CHECK DATABASE", "DROP TABLE t")
        report.check("room again", fine(place.run(f"CREATE TABLE t AS {LARGE}", *count), str(ROWS)))
        report.check("as before", None if len(place.files()["one"]) == len(before["one"]) else f"{before} {place.files()}")
    finally:
        for path in mounted:
            subprocess.run(["umount", path], capture_output=True, check=False)


def run(options, report):
    report.suite("data directories")
    folder = os.path.join(options.directory, "directories")
    os.makedirs(folder)
    at = lambda name: os.path.join(folder, name)
    benchmark(options, report, at("benchmark"))
    order(options.binary, report, at("order"))
    misplaced(options.binary, report, at("misplaced"))
    refused_init(options.binary, report, at("init"))
    killed(options.binary, report, at("killed"))
    full(options.binary, report, at("full"))
    report.end()
