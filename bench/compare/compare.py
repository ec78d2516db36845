"""The same queries on the same data in Forebay and in DuckDB (own format), chDB (MergeTree), Polars and DataFusion (Parquet).

    python3 -m venv venv && venv/bin/pip install -r bench/compare/requirements.txt
    venv/bin/python bench/compare/compare.py --binary PATH [--benchmark ssb|tpch|wide] [--sf 1] [--runs 5] [--out DIR]

Every engine is one process that lives as long as the comparison. They take turns: every round runs all queries in each of
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
import pathlib
import platform
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
QUERIES = HERE.parent / "workload" / "queries"
FOREBAY = "forebay"
ORDER = [FOREBAY, "duckdb", "chdb", "polars", "datafusion"]


def positive(text):
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number}: at least 1 is needed")
    return number


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", required=True, help="the forebay program")
    parser.add_argument("--benchmark", choices=["ssb", "tpch", "wide"], default="ssb")
    parser.add_argument("--sf", type=float, default=1.0)
    parser.add_argument("--runs", type=positive, default=5)
    parser.add_argument("--threads", type=positive, default=os.cpu_count())
    memory = "bytes that Forebay and DuckDB may use each (default: 80 %% of the machine's, divided by all engines)"
    parser.add_argument("--memory", type=positive, help=memory)
    parser.add_argument("--engines", default=",".join(ORDER), help="separated by commas")
    parser.add_argument("--out", default="compare", help="folder for compare.json and compare.png")
    parser.add_argument("--data", help="folder for generated files and databases, used again when it is there")
    options = parser.parse_args()
    if options.memory is None:
        machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        options.memory = machine * 8 // 10 // len(options.engines.split(","))
    return options


def query_texts(benchmark, scale):
    """Names and texts, in the benchmark's order."""
    found = {}
    for path in (QUERIES / benchmark).glob("q*.sql"):
        text = path.read_text(encoding="utf-8").strip().rstrip(";")
        if path.stem == "q11":
            text = text.replace("0.0001", f"{0.0001 / scale:.12f}".rstrip("0"))
        found[path.stem] = text
    return dict(sorted(found.items(), key=lambda item: [int(part) for part in re.findall(r"\d+", item[0])]))


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
        database = os.path.join(directory, f"forebay-{options.benchmark}-{options.sf:g}")
        shared = ["--threads", str(options.threads), "--memory", f"{options.memory}B"]
        version = subprocess.run([options.binary, "version"], capture_output=True, text=True, check=False)
        self.version = version.stdout.strip().removeprefix("forebay ")
        # Generates and loads what is not there yet, with the keys of the benchmark.
        load = [options.binary, "bench", options.benchmark, "--sf", f"{options.sf:g}", "--db", database, "--runs", "1"]
        load += ["--query", next(iter(query_texts(options.benchmark, options.sf))), *shared]
        done = subprocess.run(load, capture_output=True, text=True, check=False)
        self.state = {}
        if done.returncode != 0:
            self.state["error"] = (done.stderr.strip().splitlines() or ["no message"])[-1]
            return
        self.process = subprocess.Popen(
            [options.binary, database, "--timing", "--format", "csv", "--no-header", *shared],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )

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


def generate(options, directory):
    """The Parquet files, made by `forebay gen`; table to path."""
    data = os.path.join(directory, f"{options.benchmark}-{options.sf:g}")
    if not os.path.isdir(data):
        # Under its name it is complete.
        partial = f"{data}.partial"
        shutil.rmtree(partial, ignore_errors=True)
        command = [options.binary, "gen", options.benchmark, "--sf", f"{options.sf:g}", "--out", partial]
        if subprocess.run(command, check=False).returncode != 0:
            shutil.rmtree(partial, ignore_errors=True)
            sys.exit("the data could not be generated")
        os.rename(partial, data)
    return {path.stem: str(path) for path in sorted(pathlib.Path(data).glob("*.parquet"))}


def measure(options, directory):
    """Runs every engine by turns; engine to query to the list of answers."""
    tables = generate(options, directory)
    queries = query_texts(options.benchmark, options.sf)
    chosen = [name for name in ORDER if name in options.engines.split(",")]
    unknown = set(options.engines.split(",")) - set(ORDER)
    if unknown:
        sys.exit(f"no engine is called {', '.join(sorted(unknown))}; there are {', '.join(ORDER)}")
    workers = {}
    for name in chosen:
        own = os.path.join(directory, f"{name}-{options.benchmark}-{options.sf:g}")
        os.makedirs(own, exist_ok=True)
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


def geometric_mean(values):
    return math.exp(sum(map(math.log, values)) / len(values)) if values else math.nan


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


def plot(path, options, middle):
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
    axes.set_title(f"{options.benchmark.upper()} scale factor {options.sf:g}, {options.threads} threads, warm, {options.runs} runs")
    axes.legend(ncols=len(middle), fontsize="small")
    figure.savefig(path, dpi=140)


def main():
    options = arguments()
    options.binary = os.path.abspath(options.binary)
    directory = options.data or tempfile.mkdtemp(prefix="forebay-compare-")
    try:
        _, results, versions = measure(options, directory)
    finally:
        if not options.data:
            shutil.rmtree(directory, ignore_errors=True)
    middle = medians(results)
    summary = summarize(middle)
    rows_differ = differing_rows(results)
    show(middle, summary, results, rows_differ)
    os.makedirs(options.out, exist_ok=True)
    record = {
        "benchmark": options.benchmark,
        "scale_factor": options.sf,
        "threads": options.threads,
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "machine": {"processor": processor(), "cores": os.cpu_count(), "system": platform.platform()},
        "versions": versions,
        "median_s": middle,
        "summary": summary,
        "rows_differ": rows_differ,
        "runs": results,
    }
    with open(os.path.join(options.out, "compare.json"), "w", encoding="utf-8") as out:
        json.dump(record, out, indent=2)
    plot(os.path.join(options.out, "compare.png"), options, middle)
    print(f"\n{options.out}/compare.json and {options.out}/compare.png are written")


def processor():
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as info:
            return next(line.split(":", 1)[1].strip() for line in info if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor()


if __name__ == "__main__":
    main()
