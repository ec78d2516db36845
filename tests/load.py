"""Loads SSB lineorder into Forebay and into DuckDB, by turns, from Parquet and from .tbl: time, peak memory, stored size.

    python tests/load.py --binary PATH [--sf 10] [--runs 3] [--threads 2] [--directory DIR] [--keep]

Ratios are DuckDB's time over Forebay's: above 1 Forebay is faster. Exit status 1 where a bound of `--check` is missed:
Parquet at least 1.0, .tbl at least 0.6, peak memory under 2 GiB, stored size at most that of DuckDB's zstd Parquet file.
"""

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

DUCKDB = """
import json, sys, time
import duckdb
job = json.loads(sys.argv[1])
start = time.monotonic()
connection = duckdb.connect(job["database"], config={"threads": job["threads"]})
connection.execute("SET enable_progress_bar = false")
for statement in job["statements"]:
    connection.execute(statement)
connection.close()
print(time.monotonic() - start)
"""


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", required=True)
    parser.add_argument("--sf", default="10")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--directory", help="where the data goes; data found there is used again")
    parser.add_argument("--keep", action="store_true", help="keep the data")
    parser.add_argument("--formats", default="parquet,tbl")
    parser.add_argument("--json", help="file for everything measured")
    parser.add_argument("--check", action="store_true", help="fail where a bound is missed")
    return parser.parse_args()


def measured(command):
    """Wall seconds, peak resident bytes and output of a child that must succeed."""
    start = time.monotonic()
    # A file, not a second pipe: a child that fills one pipe while the other is read would wait for ever.
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors)
        output = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.monotonic() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            errors.seek(0)
            sys.exit(f"{command[0]} failed: {errors.read().decode('utf-8', 'replace')}")
    return seconds, usage.ru_maxrss * 1024, output


def stored_bytes(path):
    if os.path.isfile(path):
        return os.stat(path).st_size
    return sum(os.stat(os.path.join(folder, name)).st_size for folder, _, files in os.walk(path) for name in files)


def remove(path):
    for name in (path, f"{path}.wal"):
        if os.path.isdir(name):
            shutil.rmtree(name)
        elif os.path.exists(name):
            os.remove(name)


def load_forebay(options, path, create, source):
    remove(path)
    statements = [f"COPY lineorder FROM '{source}'"]
    statements.insert(0, create)
    command = [options.binary, path, "--threads", str(options.threads), "--quiet"]
    seconds, peak, _ = measured(command + [part for statement in statements for part in ("-c", statement)])
    return seconds, peak, stored_bytes(path)


def load_duckdb(options, path, create, source):
    remove(path)
    if source.endswith(".parquet"):
        statements = [f"CREATE TABLE lineorder AS SELECT * FROM '{source}'"]
    else:
        # dbgen ends its lines with the delimiter: one more, empty column.
        types = dict(re.findall(r"^\s+(lo_\w+) (\w+)", create, re.MULTILINE))
        described = ", ".join(f"'{name}': '{kind}'" for name, kind in types.items())
        statements = [
            f"CREATE TABLE lineorder AS SELECT {', '.join(types)} FROM read_csv('{source}', delim = '|', header = false,"
            f" columns = {{{described}, 'ending': 'VARCHAR'}})"
        ]
    job = {"database": path, "threads": options.threads, "statements": statements}
    _, peak, output = measured([sys.executable, "-c", DUCKDB, json.dumps(job)])
    return float(output), peak, stored_bytes(path)


def create_lineorder():
    here = os.path.dirname(os.path.abspath(__file__))
    with open(os.path.join(here, "..", "bench", "workload", "queries", "ssb", "schema.sql"), encoding="utf-8") as schema:
        text = schema.read()
    start = text.index("CREATE TABLE lineorder")
    body = text[start : text.index(";", start)]
    return body.split(",\n    FOREIGN KEY", 1)[0].rstrip().rstrip(",") + "\n)" if "FOREIGN KEY" in body else body


def zstd_parquet_bytes(options, source, directory):
    path = os.path.join(directory, "zstd.parquet")
    job = {
        "database": ":memory:",
        "threads": options.threads,
        "statements": [f"COPY (SELECT * FROM '{source}') TO '{path}' (FORMAT parquet, COMPRESSION zstd)"],
    }
    measured([sys.executable, "-c", DUCKDB, json.dumps(job)])
    size = os.path.getsize(path)
    os.remove(path)
    return size


def main():
    options = arguments()
    directory = options.directory or tempfile.mkdtemp(prefix="forebay-load-")
    os.makedirs(directory, exist_ok=True)
    options.binary = os.path.abspath(options.binary)
    create = create_lineorder()
    record = {"scale_factor": options.sf, "threads": options.threads, "loads": {}}
    missed = []
    try:
        parquet_size = None
        for kind in options.formats.split(","):
            source = os.path.join(directory, kind, f"lineorder.{kind}")
            if not os.path.exists(source):
                measured([options.binary, "gen", "ssb", "--sf", options.sf, "--out", os.path.dirname(source), "--format", kind, "--tables", "lineorder"])
            if kind == "parquet":
                parquet_size = zstd_parquet_bytes(options, source, directory)
            runs = {"forebay": [], "duckdb": []}
            for _ in range(options.runs):
                runs["forebay"].append(load_forebay(options, os.path.join(directory, "forebay.db"), create, source))
                runs["duckdb"].append(load_duckdb(options, os.path.join(directory, "duckdb.db"), create, source))
            record["loads"][kind] = summarize(kind, runs, parquet_size, missed)
    finally:
        for name in ("forebay.db", "duckdb.db"):
            remove(os.path.join(directory, name))
        if not options.keep and not options.directory:
            shutil.rmtree(directory)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as out:
            json.dump(record, out, indent=2)
    for line in missed:
        print(f"missed: {line}")
    sys.exit(1 if missed and options.check else 0)


def summarize(kind, runs, parquet_size, missed):
    """Prints the table of one format and collects the bounds that it misses."""
    print(f"\nlineorder from .{kind}")
    print(f"{'':10} {'seconds (median, all)':40} {'peak memory':>12} {'stored':>12}")
    figures = {}
    for engine, loads in runs.items():
        seconds = [load[0] for load in loads]
        figures[engine] = {
            "seconds": seconds,
            "median": statistics.median(seconds),
            "peak_bytes": max(load[1] for load in loads),
            "stored_bytes": loads[-1][2],
        }
        shown = f"{figures[engine]['median']:.2f}  ({', '.join(f'{value:.2f}' for value in seconds)})"
        peak, stored = figures[engine]["peak_bytes"] / 2**30, figures[engine]["stored_bytes"] / 1e9
        print(f"{engine:10} {shown:40} {peak:8.2f} GiB {stored:9.3f} GB")
    ratio = figures["duckdb"]["median"] / figures["forebay"]["median"]
    figures["speed_ratio"] = ratio
    print(f"speed of Forebay over DuckDB: {ratio:.2f}")
    if ratio < (1.0 if kind == "parquet" else 0.6):
        missed.append(f".{kind}: {ratio:.2f} of DuckDB's speed")
    if figures["forebay"]["peak_bytes"] >= 2 * 2**30:
        missed.append(f".{kind}: peak memory {figures['forebay']['peak_bytes'] / 2**30:.2f} GiB")
    if parquet_size:
        figures["parquet_zstd_bytes"] = parquet_size
        share = figures["forebay"]["stored_bytes"] / parquet_size
        print(f"stored by Forebay over DuckDB's zstd Parquet ({parquet_size / 1e9:.3f} GB): {share:.2f}")
        if share > 1:
            missed.append(f".{kind}: stored size {share:.2f} of the Parquet file's")
    return figures


if __name__ == "__main__":
    main()
