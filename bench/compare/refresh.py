"""The refresh functions of TPC-H, and how long its queries run before and after them, by turns.

    venv/bin/python bench/compare/refresh.py --forebay PATH [--sf 1] [--pairs 10] [--rounds 11] [--keep DIR]

Two databases of Forebay have the same rows. One of them gets pairs of refresh functions: a thousandth of the orders comes with its lines (RF1)
and as many go (RF2), of odd pairs by one statement for each table, of even ones order by order, each a transaction. Then all queries run on both
databases in processes of their own, which take turns query by query; in a round each runs the query twice in a row, and the second run counts; the first
round does not count. Then the same once more after CHECKPOINT.

Prints for each query the medians and the median of the rounds' ratios, refreshed over untouched, the worst first; then their geometric mean.
"""

import argparse
import os
import tempfile
import time

from builds import show
from compare import Forebay, positive
from data import own_folder, query_texts

TABLES = (("orders", "o"), ("lineitem", "l"))
# Of the orders so many come and go each time: a thousandth.
SHARE = 1000
# TPC-H has orders with the keys 0 to 7 modulo 32.
FREE = 8


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--forebay", dest="binary", required=True, help="the program")
    parser.add_argument("--sf", type=float, default=1.0, help="scale factor (default: 1)")
    parser.add_argument("--pairs", type=positive, default=10, help="pairs of refresh functions")
    parser.add_argument("--query", action="append", default=[], help="only this query, for example q1; may be repeated")
    parser.add_argument("--rounds", type=positive, default=11)
    parser.add_argument("--threads", type=positive, default=os.cpu_count())
    parser.add_argument("--keep", metavar="DIR", help="folder for databases, used again when it is there")
    options = parser.parse_args()
    options.benchmark, options.memory = "tpch", None
    options.binary = os.path.abspath(options.binary)
    return options


def added(table, prefix, which):
    return f"INSERT INTO {table} SELECT {prefix}_orderkey + {FREE}, * EXCLUDE ({prefix}_orderkey) FROM {table} WHERE {which}"


def refresh(process, sf, number):
    """A pair of refresh functions: the orders of one thousandth come, those of another one go."""
    came, gone = (f"({{}}_orderkey // 32) % {SHARE} = {number + shift} AND {{}}_orderkey % 32 < {FREE}" for shift in (0, SHARE // 2))
    if number % 2:
        process.tell(";\n".join(["BEGIN", *(added(table, own, came.format(own, own)) for table, own in TABLES), "COMMIT"]))
        process.tell(";\n".join(["BEGIN", *(f"DELETE FROM {table} WHERE {gone.format(own, own)}" for table, own in reversed(TABLES)), "COMMIT"]))
        return
    first = [key for block in range(number, int(sf * 6_000_000) // 32, SHARE) for key in range(block * 32, block * 32 + FREE)]
    for key in first:
        if key == 0:
            continue
        statements = (added(table, own, f"{own}_orderkey = {key}") for table, own in TABLES)
        process.tell(";\n".join(["BEGIN", *statements, "COMMIT"]))
        key += SHARE // 2 * 32
        process.tell(";\n".join(["BEGIN", *(f"DELETE FROM {table} WHERE {own}_orderkey = {key}" for table, own in reversed(TABLES)), "COMMIT"]))


def compared(processes, queries, rounds):
    """Query to the pairs of seconds, untouched and refreshed."""
    pairs = {name: [] for name in queries}
    for name, sql in queries.items():
        for number in range(rounds + 1):
            seconds = {}
            for place in (0, 1) if number % 2 else (1, 0):
                seconds[place] = [processes[place].run(sql)["seconds"] for _ in range(2)][-1]
            if number > 0:
                pairs[name].append((seconds[0], seconds[1]))
    return pairs


def measure(options, directory):
    queries = query_texts(options)
    untouched, refreshed = (Forebay(options, own_folder(options, directory, name)) for name in ("untouched", "refreshed"))
    started = time.perf_counter()
    for number in range(1, options.pairs + 1):
        refresh(refreshed, options.sf, number)
    print(f"{options.pairs} pairs of refresh functions in {time.perf_counter() - started:.1f} s", flush=True)
    show(compared((untouched, refreshed), queries, options.rounds))
    refreshed.tell("CHECKPOINT")
    print("After CHECKPOINT:", flush=True)
    show(compared((untouched, refreshed), queries, options.rounds))
    untouched.close()
    refreshed.close()


def main():
    options = arguments()
    if options.keep:
        os.makedirs(options.keep, exist_ok=True)
        measure(options, os.path.abspath(options.keep))
        return
    with tempfile.TemporaryDirectory(prefix="forebay-refresh-") as directory:
        measure(options, directory)


if __name__ == "__main__":
    main()
