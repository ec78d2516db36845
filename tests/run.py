"""Runs the suites that drive the `forebay` binary from outside.

    python tests/run.py --binary PATH [--quick | --long] [--only NAME]…

Suites: harness, sql, encodings, policies, hot_files, passes, documents, random, joins, windows, moments, texts, devices, correlated, numeric, tlp,
norec, pqs, changes, transactions, hot_rows, hot_layouts, kept_plans, pruned, first_rows, csv, files, ssb, tpch, refresh, chbench, wide, taxi, messages, program, memory, directories, bad_use, bad_inputs, spoiled, full_disk, cancel, kill, kill_tpcc, flips.
Those up to `messages` run side by side, as many as `--jobs` says; the others measure memory and time, and run by themselves.
The last line is `N passed, M failed`; the exit status is 0 where nothing failed.
"""

import argparse
import importlib
import os
import pathlib
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE / "differential"), str(HERE / "robustness")]

from binary import Binary  # noqa: E402
from layouts import LAYOUTS  # noqa: E402
from report import Report  # noqa: E402

# suite: (module, function)
SUITES = {
    "harness": ("harness", "run"),
    "sql": ("sqltest", "run"),
    "encodings": ("sqltest", "run_encodings"),
    "policies": ("sqltest", "run_policies"),
    "hot_files": ("sqltest", "run_hot"),
    "passes": ("passes", "run"),
    "documents": ("documents", "run"),
    "random": ("randomized", "run"),
    "joins": ("joins", "run"),
    "windows": ("windowed", "run"),
    "moments": ("moments", "run"),
    "texts": ("texts", "run"),
    "devices": ("devices", "run"),
    "correlated": ("correlated", "run"),
    "numeric": ("numeric", "run"),
    "tlp": ("oracles", "run_tlp"),
    "norec": ("oracles", "run_norec"),
    "pqs": ("oracles", "run_pqs"),
    "changes": ("changes", "run"),
    "transactions": ("transactions", "run"),
    "hot_rows": ("hot_rows", "run"),
    "hot_layouts": ("hot_layouts", "run"),
    "pruned": ("pruned", "run"),
    "kept_plans": ("kept_plans", "run"),
    "first_rows": ("first_rows", "run"),
    "csv": ("csv_dialects", "run"),
    "files": ("files", "run"),
    "ssb": ("benchmarks", "run_ssb"),
    "tpch": ("benchmarks", "run_tpch"),
    "refresh": ("refresh", "run"),
    "chbench": ("chbench", "run"),
    "wide": ("benchmarks", "run_wide"),
    "taxi": ("benchmarks", "run_taxi"),
    "messages": ("messages", "run"),
    "program": ("program", "run"),
    "memory": ("memory", "run"),
    "directories": ("directories", "run"),
    "bad_use": ("bad_use", "run"),
    "bad_inputs": ("bad_inputs", "run"),
    "spoiled": ("spoiled_files", "run"),
    "full_disk": ("full_disk", "run"),
    "cancel": ("cancel", "run"),
    "kill": ("kill", "run"),
    "kill_tpcc": ("kill", "run_tpcc"),
    "flips": ("flips", "run"),
}

# What measures memory and time, or fills a disk: from here on one by one, with nothing beside it.
ALONE = list(SUITES)[list(SUITES).index("program") :]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", required=True, help="the program under test")
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="a few minutes in all (the default)")
    size.add_argument("--long", action="store_true", help="scale factor 1, 100 kills, 1,000 flips")
    parser.add_argument("--only", action="append", choices=list(SUITES), help="run this suite only; may be repeated")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a setting under which statements are run; may be repeated")
    layout = "how the tables of random, joins, correlated, numeric, windows, moments, texts, devices, tlp, norec and pqs lie: in an order, with projections, or with all or some rows hot"
    parser.add_argument("--layout", choices=LAYOUTS, default="plain", help=layout)
    parser.add_argument("--seed", type=int, default=1, help="seed of random queries, kills and flips")
    parser.add_argument("--queries", type=int, default=2000, help="number of random queries")
    parser.add_argument("--joins", type=int, help="number of random joins (quick 200, else 500, long 5,000)")
    parser.add_argument("--size", type=int, help="queries of each random suite without an option of its own (quick 150, else 400, long 20,000)")
    parser.add_argument("--computed", type=int, help="number of random queries of windows, of moments and of texts (quick 300, else 1,000, long 20,000)")
    parser.add_argument("--devices", type=int, help="number of random queries for devices (quick 40, else 100, long 2,000)")
    parser.add_argument("--query", type=int, help="run this random query only")
    parser.add_argument("--interrupts", type=int, help="number of ^C for each statement (quick 3, long 10)")
    parser.add_argument("--kills", type=int, help="number of kills (quick 15, long 100); half as many, or twice in the long size, under TPC-C")
    parser.add_argument("--mutations", type=int, help="number of spoiled files (quick 300, else 2,000, long 20,000)")
    parser.add_argument("--flips", type=int, help="number of flips (quick 150, long 1,000)")
    parser.add_argument("--file", action="append", default=[], help="run SQL files whose name contains this only; may be repeated")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="suites that run side by side (default: one for each core)")
    parser.add_argument("--details", type=int, default=20, help="failures shown per suite")
    parser.add_argument("--directory", help="where the temporary files go (default: the system's temporary directory)")
    return parser.parse_args()


def side_by_side(names, jobs, report):
    """Runs suites in processes of their own, `jobs` at a time. What they say is shown in the order of `names`."""
    arguments = iter(sys.argv[1:])
    common = []
    for argument in arguments:
        if argument == "--only":
            next(arguments)
        elif not argument.startswith("--only="):
            common.append(argument)

    def run(name):
        command = [sys.executable, __file__, *common, "--jobs", "1", "--only", name]
        return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)

    with ThreadPoolExecutor(jobs) as pool:
        for name, done in zip(names, pool.map(run, names), strict=True):
            # The first line is the seed, the last one the counts.
            lines = done.stdout.splitlines()
            counts = re.fullmatch(r"(\d+) passed, (\d+) failed", lines[-1] if lines else "")
            for line in lines[1:-1] if counts else lines:
                report.say(line)
            if counts:
                report.add(passed=int(counts[1]), failed=int(counts[2]))
            else:
                report.fail(name, f"the suite stopped with exit status {done.returncode}: {done.stderr.strip()}")


def main():
    options = arguments()
    if not os.access(options.binary, os.X_OK):
        sys.exit(f"--binary {options.binary}: no such program; build it with `cargo build --release`")
    options.binary = Binary(options.binary, options.set)
    options.joins = options.joins or (5000 if options.long else 200 if options.quick else 500)
    options.computed = options.computed or (20000 if options.long else 300 if options.quick else 1000)
    options.devices = options.devices or (2000 if options.long else 40 if options.quick else 100)
    options.size = options.size or (20_000 if options.long else 150 if options.quick else 400)
    options.interrupts = options.interrupts or (10 if options.long else 3)
    options.kills = options.kills or (100 if options.long else 15)
    options.mutations = options.mutations or (20_000 if options.long else 300 if options.quick else 2000)
    options.flips = options.flips or (1000 if options.long else 150)
    options.query_directory = HERE.parent / "bench" / "workload" / "queries"
    options.sql_directory = HERE / "sql"
    options.documents = HERE.parent / "docs"
    report = Report(details=options.details)
    report.say(f"seed {options.seed}")
    with tempfile.TemporaryDirectory(prefix="forebay-tests-", dir=options.directory) as directory:
        options.directory = directory
        names = options.only or list(SUITES)
        beside = [name for name in names if name not in ALONE]
        if options.jobs > 1 and len(beside) > 1:
            side_by_side(beside, options.jobs, report)
            names = [name for name in names if name in ALONE]
        for name in names:
            module, function = SUITES[name]
            try:
                getattr(importlib.import_module(module), function)(options, report)
            except Exception as error:  # a suite that cannot go on is one failure, and the others still run
                report.fail(name, f"the suite stopped: {type(error).__name__}: {error}")
    sys.exit(report.finish())


if __name__ == "__main__":
    main()
