"""SSB from a cold disk, clustered and as it is loaded: Forebay beside DuckDB, and DuckDB over the same rows in the same order.

    sudo python bench/compare/clustered.py --binary PATH/TO/forebay --sf 10 --runs 3 --keep data [--throttle 1e9]

What `compare.py --cold` measures, of four databases by turns: Forebay's as it is loaded; the same behind `ALTER TABLE lineorder
CLUSTER BY AUTO` in the session that ran the 13 queries; DuckDB's as it is loaded; and DuckDB's with `lineorder` inserted in the
order that Forebay chose. Prints medians, the ratios of the clustered database's times to all others', and the bytes read.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys

import cold
import drive
from compare import bytes_per_second, positive
from data import generate, own_folder, query_texts

LOADED, CLUSTERED = "forebay", "forebay, clustered"
DUCKDB, ORDERED = "duckdb", "duckdb, ordered"


class Clustered(cold.Forebay):
    """A copy of Forebay's database, in the order that is chosen from the 13 queries."""

    def __init__(self, options, directory, loaded):
        self.options, self.version = options, loaded.version
        self.database = os.path.join(own_folder(options, directory, "forebay-clustered"), "database")
        if not os.path.exists(self.database):
            partial = f"{self.database}.partial"
            shutil.rmtree(partial, ignore_errors=True)
            shutil.copytree(loaded.database, partial)
            statements = [*query_texts(options).values(), "ALTER TABLE lineorder CLUSTER BY AUTO"]
            run([options.binary, partial, "-c", ";\n".join(statements)])
            os.rename(partial, self.database)


def ordered_tables(options, directory, clustered, tables):
    """The files with `lineorder` in the clustered order."""
    path = os.path.join(directory, f"lineorder-ordered-{options.sf:g}.parquet")
    if not os.path.exists(path):
        partial = f"{path}.partial"
        # One thread writes the rows as they lie.
        copy = f"COPY lineorder TO '{partial}' (FORMAT parquet)"
        run([options.binary, clustered.database, "--threads", "1", "-c", copy])
        os.rename(partial, path)
    return {**tables, "lineorder": path}


def run(command):
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{command[0]}: {done.stderr.strip()}")


def engines(options, directory):
    """The four by name, loaded where they are not there yet."""
    tables = generate(options, directory)
    loaded = cold.Forebay(options, directory)
    clustered = Clustered(options, directory, loaded)
    duckdb = cold.DuckDB(options, directory, tables)
    ordered_folder = os.path.join(directory, "ordered")
    os.makedirs(ordered_folder, exist_ok=True)
    ordered = cold.DuckDB(options, ordered_folder, ordered_tables(options, directory, clustered, tables))
    return {CLUSTERED: clustered, LOADED: loaded, DUCKDB: duckdb, ORDERED: ordered}


def differing(answers):
    """Lines for queries that not all four answer alike."""
    lines = []
    for name in (LOADED, ORDERED, CLUSTERED):
        pairs = {query: {cold.FOREBAY: rows[name], cold.DUCKDB: rows[DUCKDB]} for query, rows in answers.items()}
        lines += [f"{name}: {line}" for line in cold.differing_answers(pairs)]
    return lines


def figures(rounds):
    """Engine to query to the medians of seconds and of bytes read."""
    runs = {name: {} for name in (CLUSTERED, LOADED, DUCKDB, ORDERED)}
    for name, of_query in runs.items():
        for query in rounds[0]["runs"][name]:
            several = [one["runs"][name][query] for one in rounds]
            failed = next((one["error"] for one in several if "error" in one), None)
            if failed:
                sys.exit(f"{name} {query}: {failed}")
            of_query[query] = {key: statistics.median(one[key] for one in several) for key in ("seconds", "read_bytes")}
    return runs


def show(middle):
    names = list(middle)
    print("| query | " + " | ".join(f"{name}, s" for name in names) + " | " + " | ".join(f"clustered / {name}" for name in names[1:]) + " |")
    print("|---|" + "---:|" * (2 * len(names) - 1))
    totals = {name: 0.0 for name in names}
    read = {name: 0 for name in names}

    def row(title, seconds):
        ratios = (seconds[CLUSTERED] / seconds[name] for name in names[1:])
        print(f"| {title} | " + " | ".join(f"{seconds[name]:.3f}" for name in names) + " | " + " | ".join(f"{ratio:.3f}" for ratio in ratios) + " |")

    for query in middle[CLUSTERED]:
        row(query, {name: middle[name][query]["seconds"] for name in names})
        for name in names:
            if query != cold.START_UP:
                totals[name] += middle[name][query]["seconds"]
                read[name] += middle[name][query]["read_bytes"]
    row("total of the queries", totals)
    print("\nRead from the disk, with the programs: " + ", ".join(f"{name} {size / 2**20:,.0f} MiB" for name, size in read.items()))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", required=True)
    parser.add_argument("--sf", type=float, default=10)
    parser.add_argument("--runs", type=positive, default=3)
    parser.add_argument("--threads", type=positive, default=os.cpu_count())
    parser.add_argument("--memory", type=positive)
    parser.add_argument("--throttle", type=bytes_per_second)
    parser.add_argument("--keep", dest="data", required=True, metavar="FOLDER")
    parser.add_argument("--json", metavar="FILE", help="every run of every round")
    options = parser.parse_args()
    options.benchmark, options.query, options.buffered, options.cold = "ssb", [], False, True
    drive.drop_page_cache()
    os.makedirs(options.data, exist_ok=True)
    four = engines(options, options.data)
    raw_file = os.path.join(options.data, "raw-bandwidth")
    drive.make_raw_file(raw_file)
    with drive.throttled(options.data, options.throttle):
        rounds, answers = cold.measure(options, four, query_texts(options), raw_file)
    counted = [one for one in rounds if one["counts"]]
    show(figures(counted or rounds))
    print(f"\n{len(counted)} of {len(rounds)} rounds count." + ("" if counted else " NO ROUND COUNTS: these are figures of all, and judge nothing."))
    for line in differing(answers) or ["All four gave the same answers."]:
        print(line)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(rounds, file, indent=1)


if __name__ == "__main__":
    main()
