"""The same queries on the same data in Forebay and in DuckDB (own format), chDB (MergeTree), Polars and DataFusion (Parquet).

    python3 -m venv venv && venv/bin/pip install -r bench/compare/requirements.txt
    venv/bin/python bench/compare/compare.py --binary PATH [--benchmark ssb|tpch|wide|taxi] [--sf 1] [--runs 5] [--out DIR]
    venv/bin/python bench/compare/compare.py --binary PATH (--cold [--throttle BYTES_PER_S] | --buffered) [--keep DIR] …

With --cold and --buffered every run is a process of its own, of Forebay and of DuckDB alone: see cold.py.

Else every engine is one process that lives as long as the comparison. They take turns: every round runs all queries in each of
them, the first round warms up and does not count. In a round a query runs twice in a row, and the second run is measured,
from the statement to the last row of its answer: the program `forebay` writes it as CSV, others are asked for their rows.
Prints medians and ratios to Forebay, the total and the geometric mean; writes compare.json and compare.png into --out.
A query that an engine does not answer is shown as failed, with its message, and left out of that engine's ratios.
"""

import argparse
import datetime
import json
import math
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import cold
from data import BENCHMARKS, FOREBAY, HERE, forebay_flags, forebay_version, generate, load_forebay, machine, own_folder, query_texts
from figures import geometric_mean

ORDER = [FOREBAY, "duckdb", "chdb", "polars", "datafusion"]


def positive(text):
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number}: at least 1 is needed")
    return number


def bytes_per_second(text):
    number = float(text)
    if not 1e6 <= number < 1e15:
        raise argparse.ArgumentTypeError(f"{text}: a million bytes a second at least are needed")
    return int(number)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", required=True, help="the forebay program")
    parser.add_argument("--benchmark", choices=BENCHMARKS, default="ssb")
    parser.add_argument("--sf", type=float, default=1.0)
    parser.add_argument("--query", action="append", default=[], help="only this query, for example q1.1; may be repeated")
    parser.add_argument("--runs", type=positive, default=5)
    parser.add_argument("--threads", type=positive, default=os.cpu_count())
    memory = "bytes that Forebay and DuckDB may use each (default: 80 %% of the machine's, divided by all engines; their own where each runs alone)"
    parser.add_argument("--memory", type=positive, help=memory)
    parser.add_argument("--engines", help=f"separated by commas (default: {','.join(ORDER)})")
    parser.add_argument("--out", default="compare", help="folder for compare.json and compare.png")
    keep = "folder for generated files and databases, used again when it is there"
    parser.add_argument("--keep", "--data", dest="data", metavar="FOLDER", help=keep)
    alone = parser.add_mutually_exclusive_group()
    alone.add_argument("--cold", action="store_true", help="each run in a process of its own, with the page cache dropped before it")
    alone.add_argument("--buffered", action="store_true", help="each run in a process of its own, with what the page cache has")
    throttle = "with --cold: let both engines read so many bytes a second at most, by a control group; 500e6 is 500 MB/s"
    parser.add_argument("--throttle", type=bytes_per_second, metavar="BYTES_PER_S", help=throttle)
    options = parser.parse_args()
    is_alone = options.cold or options.buffered
    if options.throttle and not options.cold:
        parser.error("--throttle is for --cold")
    if is_alone and options.engines not in (None, ",".join(cold.ENGINES)):
        parser.error(f"--cold and --buffered compare {' and '.join(cold.ENGINES)}")
    options.engines = options.engines or ",".join(ORDER)
    if options.memory is None and not is_alone:
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        options.memory = total * 8 // 10 // len(options.engines.split(","))
    return options


class Worker:
    """An engine in its own process."""

    def __init__(self, name, options, directory, tables):
        self.name = name
        job = {"engine": name, "directory": directory, "threads": options.threads, "tables": tables, "benchmark": options.benchmark, "memory": options.memory}
        environment = {**os.environ, "POLARS_MAX_THREADS": str(options.threads)}
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / "engines.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment,
        )
        self.state = self.ask(job)
        self.version = self.state.get("version", "")

    def ask(self, request):
        try:
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        return json.loads(line) if line else {"error": f"the process of {self.name} ended"}

    def round(self, queries):
        """Each query twice; the second answer counts, unless the first is an error."""
        answers = {}
        for name, sql in queries.items():
            request = {"name": name, "sql": sql}
            first = self.ask(request)
            answers[name] = first if "error" in first else self.ask(request)
        return answers

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class Forebay:
    """The `forebay` program, fed with one statement at a time; an answer is there when its line of timing is."""

    def __init__(self, options, directory):
        self.version = forebay_version(options)
        database, error = self.load(options, directory)
        self.state = {"error": error} if error else {}
        if error:
            return
        self.process = subprocess.Popen(
            [options.binary, database, "--timing", "--format", "csv", "--no-header", *forebay_flags(options)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )

    def load(self, options, directory):
        """The database, and an error or None."""
        return load_forebay(options, directory)

    def tell(self, statement):
        """A statement without rows, which may print a line of its own."""
        self.process.stdin.write(f"{statement};\nSELECT 1;\n")
        self.process.stdin.flush()
        while line := self.process.stderr.readline():
            if re.match(r"1 row in ", line):
                return

    def round(self, queries):
        return {name: [self.run(sql) for _ in range(2)][-1] for name, sql in queries.items()}

    def run(self, sql):
        start = time.perf_counter()
        try:
            self.process.stdin.write(f"{sql};\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            return {"error": "forebay ended at the statement before"}
        line = self.process.stderr.readline()
        seconds = time.perf_counter() - start
        counted = re.match(r"([\d,]+) rows? in ", line)
        if not counted:
            # A message of several lines would be taken for the next answers.
            self.process.kill()
            return {"error": line.strip() or "forebay ended"}
        return {"seconds": seconds, "rows": int(counted[1].replace(",", ""))}

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def measure(options, directory):
    """Runs every engine by turns; engine to query to the list of answers."""
    tables = generate(options, directory)
    queries = query_texts(options)
    chosen = [name for name in ORDER if name in options.engines.split(",")]
    unknown = set(options.engines.split(",")) - set(ORDER)
    if unknown:
        sys.exit(f"no engine is called {', '.join(sorted(unknown))}; there are {', '.join(ORDER)}")
    workers = {}
    for name in chosen:
        own = own_folder(options, directory, name)
        print(f"starting {name}", flush=True)
        workers[name] = Forebay(options, own) if name == FOREBAY else Worker(name, options, own, tables)
        if "error" in workers[name].state:
            print(f"{name} is left out: {workers[name].state['error']}")
    workers = {name: worker for name, worker in workers.items() if "error" not in worker.state}
    results = {name: {query: [] for query in queries} for name in workers}
    for number in range(options.runs + 1):
        print(f"round {number} of {options.runs}{' (warm-up)' if number == 0 else ''}", flush=True)
        for name, worker in workers.items():
            for query, result in worker.round(queries).items():
                if number > 0 or "error" in result:
                    results[name][query].append(result)
    versions = {name: worker.version for name, worker in workers.items()}
    for worker in workers.values():
        worker.close()
    return queries, results, versions


def medians(results):
    """Engine to query to median seconds; None where any run failed."""
    return {
        engine: {
            query: None if any("error" in run for run in runs) else statistics.median(run["seconds"] for run in runs)
            for query, runs in queries.items()
        }
        for engine, queries in results.items()
    }


def summarize(middle):
    """Engine to total, geometric mean and, over the queries that both answer, ratios to Forebay."""
    summary = {}
    for engine, values in middle.items():
        answered = {query: value for query, value in values.items() if value is not None}
        own = middle.get(FOREBAY, {})
        both = [query for query in answered if own.get(query) is not None]
        summary[engine] = {
            "answered": len(answered),
            "total_s": sum(answered.values()),
            "geometric_mean_s": geometric_mean(list(answered.values())),
            "total_ratio": sum(answered[query] for query in both) / sum(own[query] for query in both) if both else math.nan,
            "geometric_mean_ratio": geometric_mean([answered[query] / own[query] for query in both]),
        }
    return summary


def show(middle, summary, results, rows_differ):
    engines = list(middle)
    print(f"\n{'query':8}" + "".join(f"{engine:>20}" for engine in engines))
    for query in next(iter(middle.values())):
        own = middle.get(FOREBAY, {}).get(query)
        line = f"{query:8}"
        for engine in engines:
            value = middle[engine][query]
            ratio = "" if engine == FOREBAY or own is None or value is None else f"{value / own:7.2f}×"
            line += f"{'failed':>20}" if value is None else f"{value * 1000:9.1f} ms{ratio:>8}"
        print(line)
    for label, time, ratio in (("total", "total_s", "total_ratio"), ("geomean", "geometric_mean_s", "geometric_mean_ratio")):
        line = f"{label:8}"
        for engine in engines:
            shown = "" if engine == FOREBAY or math.isnan(summary[engine][ratio]) else f"{summary[engine][ratio]:7.2f}×"
            line += f"{summary[engine][time] * 1000:9.1f} ms{shown:>8}"
        print(line)
    print("Ratios are the engine's time over Forebay's, on the queries that both answer: above 1 Forebay is faster.")
    for engine, queries in results.items():
        for query, runs in queries.items():
            error = next((run["error"] for run in runs if "error" in run), None)
            if error:
                print(f"failed: {engine} {query}: {error}")
    for line in rows_differ:
        print(line)


def differing_rows(results):
    """Queries for which engines returned different numbers of rows."""
    lines = []
    for query in next(iter(results.values())):
        counts = {engine: queries[query][-1]["rows"] for engine, queries in results.items() if queries[query] and "error" not in queries[query][-1]}
        if len(set(counts.values())) > 1:
            lines.append(f"rows differ: {query}: {', '.join(f'{engine} {count}' for engine, count in counts.items())}")
    return lines


def plot(path, options, middle, how):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot, ticker

    queries = list(next(iter(middle.values())))
    figure, axes = pyplot.subplots(figsize=(max(8, 0.62 * len(queries)), 4.5), layout="constrained")
    width = 0.8 / len(middle)
    for index, (engine, values) in enumerate(middle.items()):
        places = [position + (index - (len(middle) - 1) / 2) * width for position in range(len(queries))]
        heights = [math.nan if values[query] is None else values[query] * 1000 for query in queries]
        axes.bar(places, heights, width, label=engine)
    axes.set_yscale("log")
    for axis_part in (axes.yaxis.set_major_formatter, axes.yaxis.set_minor_formatter):
        axis_part(ticker.LogFormatter(labelOnlyBase=False, minor_thresholds=(2, 0.5)))
    axes.set_ylabel("milliseconds (median, lower is better)")
    axes.set_xticks(range(len(queries)), queries)
    axes.set_title(f"{options.benchmark.upper()} scale factor {options.sf:g}, {options.threads} threads, {how}, {options.runs} runs")
    axes.legend(ncols=len(middle), fontsize="small")
    figure.savefig(path, dpi=140)


def main():
    options = arguments()
    options.binary = os.path.abspath(options.binary)
    directory = options.data or tempfile.mkdtemp(prefix="forebay-compare-")
    os.makedirs(directory, exist_ok=True)
    try:
        if options.cold or options.buffered:
            record = cold.compare(options, os.path.abspath(directory))
            write(options, record, f"{'cold' if options.cold else 'page cache warm'}, a process for each run")
            return
        _, results, versions = measure(options, directory)
    finally:
        if not options.data:
            shutil.rmtree(directory, ignore_errors=True)
    middle = medians(results)
    summary = summarize(middle)
    rows_differ = differing_rows(results)
    show(middle, summary, results, rows_differ)
    record = {
        "benchmark": options.benchmark,
        "scale_factor": options.sf,
        "threads": options.threads,
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "machine": machine(),
        "versions": versions,
        "median_s": middle,
        "summary": summary,
        "rows_differ": rows_differ,
        "runs": results,
    }
    write(options, record, "warm")


def write(options, record, how):
    os.makedirs(options.out, exist_ok=True)
    with open(os.path.join(options.out, "compare.json"), "w", encoding="utf-8") as out:
        json.dump(record, out, indent=2)
    plot(os.path.join(options.out, "compare.png"), options, record["median_s"], how)
    print(f"\n{options.out}/compare.json and {options.out}/compare.png are written")


if __name__ == "__main__":
    main()
