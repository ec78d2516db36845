"""Whether queries read the copy of `lineorder` that is the fastest for them: the 13 queries of SSB from a cold disk, with each copy in turn.

    python bench/compare/projections.py --binary target/release/forebay --db ssb.db --sf 1 --runs 5 [--throttle 500MB]

The database is generated and loaded where it is not there, and gets four projections. Prints a table in Markdown: for each query the copy
that is chosen, the median times of all, and how much longer the chosen one takes than the fastest.
"""

import argparse
import json
import os
import re
import subprocess
import tempfile

PROJECTIONS = {
    "by_date": "d_year, d_yearmonthnum, d_weeknuminyear, lo_discount",
    "by_customer": "c_region, c_nation, s_region, d_year",
    "by_supplier": "s_region, s_nation, d_year",
    "by_part": "p_category, p_brand1, s_region",
}
OWN = "as loaded"
# Times that differ by less are ties.
TIE = 1.05


def run(binary, *arguments):
    return subprocess.run([binary, *arguments], check=True, capture_output=True, text=True).stdout


def measured(options, setting, runs):
    """Median seconds and bytes read by query."""
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "figures.json")
        throttle = ["--throttle", options.throttle] if options.throttle else []
        run(options.binary, "bench", "ssb", "--sf", str(options.sf), "--db", options.db, "--cold", "--runs", str(runs), "--set", f"projections={setting}", "--json", path, *throttle)
        with open(path, encoding="utf-8") as file:
            queries = json.load(file)["queries"]
    return {query["name"]: (query["median_s"], query["read_bytes"]) for query in queries}


def chosen(options, name):
    """The copy that is read by itself."""
    folder = os.path.join(os.path.dirname(__file__), "..", "workload", "queries", "ssb")
    with open(os.path.join(folder, f"{name}.sql"), encoding="utf-8") as file:
        plan = run(options.binary, options.db, "-c", f"EXPLAIN {file.read()}")
    found = re.findall(r"reads (?:projection (\w+)|the table's own rows):", plan)
    return (found[0] or OWN) if found else OWN


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", required=True)
    parser.add_argument("--db", required=True)
    parser.add_argument("--sf", type=float, default=1)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--throttle")
    options = parser.parse_args()
    if not os.path.exists(options.db):
        run(options.binary, "bench", "ssb", "--sf", str(options.sf), "--db", options.db, "--runs", "1")
    for name, order in PROJECTIONS.items():
        run(options.binary, options.db, "-c", f"ALTER TABLE lineorder ADD PROJECTION IF NOT EXISTS {name} (ORDER BY {order})")
    copies = {OWN: measured(options, "off", options.runs)}
    copies |= {name: measured(options, name, options.runs) for name in PROJECTIONS}
    print(f"| query | chosen | {' | '.join(copies)} | chosen / fastest |")
    print(f"|---|---|{'---:|' * (len(copies) + 1)}")
    fastest, worst = 0, 1.0
    for query in copies[OWN]:
        name = chosen(options, query)
        seconds = {copy: figures[query][0] for copy, figures in copies.items()}
        ratio = seconds[name] / min(seconds.values())
        fastest, worst = fastest + (ratio <= TIE), max(worst, ratio)
        cells = [f"{figures[query][0] * 1000:.1f} ms, {figures[query][1] / 2**20:.1f} MiB" for figures in copies.values()]
        print(f"| {query} | {name} | {' | '.join(cells)} | {ratio:.2f} |")
    print(f"\nThe fastest, or within 5 % of it: {fastest} of {len(copies[OWN])}; at worst {worst:.2f} times the fastest.")


if __name__ == "__main__":
    main()
