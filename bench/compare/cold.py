"""Forebay and DuckDB as a stranger would measure them: every run a process of its own, timed from its start to its exit.

Cold: the page cache is dropped before every run. A round runs every query in Forebay, then in DuckDB; the first round does
not count, its answers are compared. The drive's raw bandwidth is measured before and after each round, and rounds in which
it changed by more than 15 % do not count either; more rounds are made for them, up to twice as many. Page cache warm
(`--buffered`): nothing is dropped, and Forebay reads through the page cache, too.

Ratios are Forebay's time over DuckDB's: below 1 Forebay is faster. They are those of whole processes. DuckDB's process is a
Python interpreter that imports DuckDB: how long that takes is measured with SELECT 1, and ratios without it are printed
beside the others (*), and those of both engines without their start (**).
"""

import csv
import datetime
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time

import drive
from data import FOREBAY, HERE, forebay_flags, forebay_version, generate, load_forebay, machine, own_folder, query_texts
from figures import geometric_mean

DUCKDB = "duckdb"
ENGINES = [FOREBAY, DUCKDB]
START_UP = "start-up"
# Rounds between whose bandwidths lies more do not count.
BANDWIDTH_CHANGE = 0.15
RELATIVE_TOLERANCE = 1e-9


class Forebay:
    """`forebay DATABASE -c SQL`."""

    def __init__(self, options, directory):
        self.version = forebay_version(options)
        self.database, error = load_forebay(options, own_folder(options, directory, FOREBAY))
        if error:
            sys.exit(f"forebay: {error}")
        self.options = options

    def command(self, sql, with_rows):
        prefix = "SET io = buffered; " if self.options.buffered else ""
        flags = ["--format", "csv", "--no-header", *forebay_flags(self.options)]
        return [self.options.binary, self.database, "-c", f"{prefix}{sql}", *flags]

    def start_up(self):
        return [self.options.binary, "-c", "SELECT 1", *forebay_flags(self.options)]


class DuckDB:
    """A Python process that opens a database of DuckDB's own format."""

    def __init__(self, options, directory, tables):
        own = own_folder(options, directory, DUCKDB)
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") * 8 // 10
        job = {"engine": DUCKDB, "directory": own, "threads": options.threads, "tables": tables, "benchmark": options.benchmark}
        job["memory"] = options.memory or memory
        command = [sys.executable, str(HERE / "engines.py")]
        done = subprocess.run(command, input=json.dumps(job) + "\n", capture_output=True, text=True, check=False)
        state = json.loads(done.stdout) if done.stdout.strip() else {"error": done.stderr.strip() or "no message"}
        if "error" in state:
            sys.exit(f"duckdb: {state['error']}")
        self.version = state["version"]
        self.database = os.path.join(own, "duckdb.db")
        self.options = options

    def process(self, database, sql):
        memory = str(self.options.memory or "-")
        return [sys.executable, str(HERE / "duckdb_query.py"), database, str(self.options.threads), memory, sql]

    def command(self, sql, with_rows):
        return self.process(self.database, sql) + (["csv"] if with_rows else [])

    def start_up(self):
        return self.process(":memory:", "SELECT 1")


def run(command, cold, rows=None):
    """One process from its start to its exit; `rows` is the file that it writes its answer to."""
    if cold:
        drive.drop_page_cache()
    with tempfile.TemporaryFile() as messages:
        start = time.perf_counter()
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=rows or subprocess.DEVNULL, stderr=messages)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            messages.seek(0)
            lines = messages.read().decode(errors="replace").strip().splitlines()
            return {"error": lines[-1] if lines else f"exit status {process.returncode}"}
    # The kernel counts what came from the drive in units of 512 bytes.
    return {"seconds": seconds, "user_s": usage.ru_utime, "system_s": usage.ru_stime, "read_bytes": usage.ru_inblock * 512}


def run_round(engines, queries, cold, answers=None):
    """Every query in every engine by turns; with `answers`, their rows are put there. Engine to query to figures."""
    runs = {name: {} for name in engines}
    for name, engine in engines.items():
        runs[name][START_UP] = run(engine.start_up(), cold)
    for query, sql in queries.items():
        for name, engine in engines.items():
            if answers is None:
                runs[name][query] = run(engine.command(sql, False), cold)
                continue
            with tempfile.TemporaryFile("w+", encoding="utf-8", newline="") as rows:
                runs[name][query] = run(engine.command(sql, True), cold, rows)
                rows.seek(0)
                answers.setdefault(query, {})[name] = list(csv.reader(rows))
    return runs


def number(cell):
    try:
        return float(cell)
    except ValueError:
        return None


def plain(cell):
    """A cell as both engines write it: Python says None and True."""
    return "" if cell == "None" else cell.lower() if cell in ("True", "False") else cell


def equal_cells(own, other):
    if plain(own) == plain(other):
        return True
    a, b = number(own), number(other)
    if a is None or b is None:
        return False
    # An average kept as a decimal is off by a unit of its last digit at most.
    digits = min(len(text.partition(".")[2]) for text in (own, other))
    unit = 10.0**-digits if digits >= 4 else 0.0
    return math.isclose(a, b, rel_tol=RELATIVE_TOLERANCE, abs_tol=unit)


def sort_key(row):
    return [f"{value:.6g}" if (value := number(cell)) is not None else plain(cell) for cell in row]


def differing_answers(answers):
    """One line for each query whose rows differ, whatever their order."""
    lines = []
    for query, rows in answers.items():
        own, other = (sorted(rows[name], key=sort_key) for name in ENGINES)
        if len(own) != len(other):
            lines.append(f"answers differ: {query}: {len(own)} rows of forebay, {len(other)} of duckdb")
            continue
        pairs = zip(own, other)
        different = next((pair for pair in pairs if len(pair[0]) != len(pair[1]) or not all(map(equal_cells, *pair))), None)
        if different:
            lines.append(f"answers differ: {query}: forebay {different[0]}, duckdb {different[1]}")
    return lines


def is_steady(before, after):
    return abs(before - after) <= BANDWIDTH_CHANGE * max(before, after)


def measure(options, engines, queries, raw_file):
    """The rounds, each with its runs and whether it counts; and the answers of the first."""
    answers, rounds, counted = {}, [], 0
    while counted < options.runs and len(rounds) <= 2 * options.runs:
        first = not rounds
        before = drive.raw_bandwidth(raw_file) if options.cold else None
        runs = run_round(engines, queries, options.cold, answers if first else None)
        after = drive.raw_bandwidth(raw_file) if options.cold else None
        steady = not options.cold or is_steady(before, after)
        counts = not first and steady
        counted += counts
        note = "does not count: the first" if first else "counts" if steady else "does not count: unsteady"
        raw = f", raw bandwidth {before / 1e9:.2f} GB/s before and {after / 1e9:.2f} after" if options.cold else ""
        print(f"round {len(rounds)}{raw}: {note}", flush=True)
        rounds.append({"raw_bytes_per_s": [before, after], "steady": steady, "counts": counts, "runs": runs})
        for engine, of_query in runs.items():
            if all("error" in of_query[query] for query in queries):
                sys.exit(f"{engine} answers no query: {of_query[next(iter(queries))]['error']}")
    return rounds, answers


def medians(rounds):
    """Engine to query to the medians of each figure over these rounds; None where a run failed."""
    middle = {}
    for engine in ENGINES:
        middle[engine] = {}
        for query in rounds[0]["runs"][engine]:
            runs = [one["runs"][engine][query] for one in rounds]
            failed = any("error" in run for run in runs)
            middle[engine][query] = None if failed else {key: statistics.median(run[key] for run in runs) for key in runs[0]}
    return middle


def seconds_of(middle, engine, less=0.0):
    """Query to median seconds, less those of starting up; None where a run failed or nothing is left."""
    values = {query: figures and figures["seconds"] - less for query, figures in middle[engine].items() if query != START_UP}
    return {query: value if value is not None and value > 0 else None for query, value in values.items()}


def ratios(own, other):
    """Of the queries that both have: each, of the totals, and the geometric mean."""
    each = {query: own[query] / other[query] for query in own if own[query] is not None and other[query] is not None}
    total = sum(own[query] for query in each) / sum(other[query] for query in each) if each else None
    return {"queries": each, "total": total, "geometric_mean": geometric_mean(list(each.values())) if each else None}


def summarize(middle):
    start_up = {engine: figures and figures["seconds"] for engine in ENGINES for figures in [middle[engine][START_UP]]}
    own, other = (seconds_of(middle, engine) for engine in ENGINES)
    own_less, less = (seconds_of(middle, engine, start_up[engine] or 0.0) for engine in ENGINES)
    totals = {name: sum(filter(None, values.values())) for name, values in ((FOREBAY, own), (DUCKDB, other), ("duckdb_without_start_up", less))}
    return {
        "start_up_s": start_up,
        "total_s": totals,
        "forebay_over_duckdb": ratios(own, other),
        "forebay_over_duckdb_without_start_up": ratios(own, less),
        "both_without_start_up": ratios(own_less, less),
    }


def show(middle, summary):
    whole, less = summary["forebay_over_duckdb"], summary["forebay_over_duckdb_without_start_up"]
    kinds = [whole, less, summary["both_without_start_up"]]
    print(f"\n{'query':8}{'forebay':>12}{'duckdb':>12}{'ratio':>8}{'ratio*':>8}{'ratio**':>8}{'forebay read':>15}{'duckdb read':>15}")

    def ratio(value):
        return f"{value:8.3f}" if value is not None else f"{'–':>8}"

    def time_of(value):
        return f"{'failed':>12}" if value is None else f"{value * 1000:9.1f} ms"

    def read(figures):
        return f"{'–':>15}" if figures is None else f"{figures['read_bytes'] / 2**20:11.1f} MiB"

    for query in middle[FOREBAY]:
        both = [middle[engine][query] for engine in ENGINES]
        times = "".join(time_of(figures and figures["seconds"]) for figures in both)
        print(f"{query:8}{times}" + "".join(ratio(kind["queries"].get(query)) for kind in kinds) + "".join(map(read, both)))
    totals = summary["total_s"]
    print(f"{'total':8}{time_of(totals[FOREBAY])}{time_of(totals[DUCKDB])}" + "".join(ratio(kind["total"]) for kind in kinds))
    print(f"{'geomean':8}{'':24}" + "".join(ratio(kind["geometric_mean"]) for kind in kinds))
    print("Ratios are Forebay's time over DuckDB's: below 1 Forebay is faster. ratio: whole processes of both, the one that counts;")
    print("ratio*: DuckDB's less the start of Python and `import duckdb` (its line start-up), Forebay's whole; ratio**: both less their start.")


def compare(options, directory):
    """Loads what is missing, measures, prints; the record for the JSON file."""
    if options.cold:
        # Before an hour of loading it should be known whether this is permitted.
        drive.drop_page_cache()
    queries = query_texts(options)
    tables = generate(options, directory)
    print("loading what is not there yet", flush=True)
    engines = {FOREBAY: Forebay(options, directory), DUCKDB: DuckDB(options, directory, tables)}
    raw_file = os.path.join(directory, "raw-bandwidth")
    if options.cold:
        drive.make_raw_file(raw_file)
    with drive.throttled(directory, options.throttle):
        rounds, answers = measure(options, engines, queries, raw_file)
    counted = [one for one in rounds if one["counts"]]
    unsteady = sum(not one["steady"] for one in rounds[1:])
    # Figures that judge nothing are better than none.
    middle = medians(counted or rounds)
    summary = summarize(middle)
    show(middle, summary)
    print(f"{len(counted)} rounds count, {unsteady} were left out because the drive's raw bandwidth changed by more than 15 %")
    if not counted:
        print("NO ROUND COUNTS: these are figures of all rounds, and judge nothing")
    differ = differing_answers(answers)
    failures = [f"failed: {engine} {query}: {run['error']}" for one in rounds for engine, runs in one["runs"].items() for query, run in runs.items() if "error" in run]
    for line in [*failures, *differ] or ["Both engines gave the same answers."]:
        print(line)
    return {
        "benchmark": options.benchmark,
        "scale_factor": options.sf,
        "threads": options.threads,
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "machine": machine(),
        "versions": {name: engine.version for name, engine in engines.items()},
        "variant": "cold" if options.cold else "buffered",
        "throttle_bytes_per_s": options.throttle,
        "memory_limit_bytes": options.memory,
        "rounds_counted": len(counted),
        "rounds_unsteady": unsteady,
        "median_s": {engine: seconds_of(middle, engine) for engine in ENGINES},
        "medians": middle,
        "summary": summary,
        "answers_differ": differ,
        "rounds": rounds,
    }
