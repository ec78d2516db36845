"""Two builds of Forebay on the same queries, by turns: how long they run, or with --planning how long they are planned.

    venv/bin/python bench/compare/builds.py --before PATH --after PATH [--benchmark ssb|tpch|wide|taxi] [--sf 10] [--rounds 11] [--keep DIR]
    venv/bin/python bench/compare/builds.py --before PATH --after PATH --planning [--benchmark …|random] [--sf 0.1] [--rounds 11] [--keep DIR]

Each build has databases of its own and is one process. Query by query they take turns, and begin by turns: in a round each build runs the
query twice in a row, and the second run counts; the first round does not count. With --planning the statement is EXPLAIN, with plans that
are not kept. `random` are the queries that the differential tests make of --seed, over their tables; it needs tests/requirements.txt.

Prints for each query the medians and the median of the rounds' ratios, after over before (below 1 the later build is faster), the worst
first; then their geometric mean and median.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile

from compare import Forebay, positive
from data import BENCHMARKS, HERE, own_folder, query_texts
from figures import geometric_mean

RANDOM = "random"
RANDOM_QUERIES = 150


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", required=True, help="the earlier build of the program")
    parser.add_argument("--after", required=True, help="the later one")
    parser.add_argument("--benchmark", choices=[*BENCHMARKS, RANDOM], default="ssb")
    parser.add_argument("--sf", type=float, help="scale factor (default: 10, and 0.1 with --planning)")
    parser.add_argument("--query", action="append", default=[], help="only this query, for example q1.1; may be repeated")
    parser.add_argument("--rounds", type=positive, default=11)
    parser.add_argument("--threads", type=positive, default=os.cpu_count())
    parser.add_argument("--planning", action="store_true", help="time EXPLAIN of each query, without plans that are kept")
    parser.add_argument("--seed", type=int, default=1, help="of random queries")
    parser.add_argument("--keep", metavar="DIR", help="folder for databases, used again when it is there")
    options = parser.parse_args()
    if options.benchmark == RANDOM and not options.planning:
        parser.error("random queries are for --planning")
    options.sf = options.sf or (0.1 if options.planning else 10.0)
    options.memory = None
    return options


class RandomTables(Forebay):
    """A build with the tables of the differential tests."""

    def load(self, options, directory):
        database = os.path.join(directory, "db")
        if not os.path.isdir(database):
            script = "".join(f"{statement};\n" for table in options.tables.values() for statement in options.load_sql(table))
            subprocess.run([options.binary, database, "--quiet"], input=script, text=True, check=True, stdout=subprocess.DEVNULL)
        return database, None


def random_queries(options, directory):
    """The queries; the tables go into `options`."""
    tests = HERE.parent.parent / "tests"
    sys.path[:0] = [str(tests), str(tests / "differential")]
    from random_queries import Generator
    from randomized import connect, load_sql
    from tables import TABLES, make_table

    folder = os.path.join(directory, "tables")
    os.makedirs(folder, exist_ok=True)
    connection = connect()
    options.tables = {name: make_table(connection, folder, name, options.seed + place) for place, name in enumerate(TABLES)}
    options.load_sql = load_sql
    generator = Generator(options.tables, options.seed)
    return {f"r{number}": generator.query(number).sql for number in range(RANDOM_QUERIES)}


def start(options, binary, directory, build):
    options.binary = os.path.abspath(binary)
    own = own_folder(options, directory, build)
    process = (RandomTables if options.benchmark == RANDOM else Forebay)(options, own)
    if "error" in process.state:
        sys.exit(f"{build}: {process.state['error']}")
    if options.planning:
        process.tell("SET plan_cache = off")
    return process


def measure(options, directory):
    """Query to the pairs of seconds, before and after; queries that a build does not answer are left out and named."""
    queries = random_queries(options, directory) if options.benchmark == RANDOM else query_texts(options)
    if options.planning:
        queries = {name: f"EXPLAIN {sql}" for name, sql in queries.items()}
    builds = [start(options, options.before, directory, "before"), start(options, options.after, directory, "after")]
    pairs = {}
    for name, sql in queries.items():
        pairs[name] = []
        for number in range(options.rounds + 1):
            answers = {}
            for place in (0, 1) if number % 2 else (1, 0):
                answers[place] = [builds[place].run(sql) for _ in range(2)][-1]
            failed = [answer["error"] for answer in answers.values() if "error" in answer]
            if failed:
                print(f"{name} is left out: {failed[0]}", flush=True)
                del pairs[name]
                for place, (binary, build) in enumerate([(options.before, "before"), (options.after, "after")]):
                    builds[place].close()
                    builds[place] = start(options, binary, directory, build)
                break
            if number > 0:
                pairs[name].append((answers[0]["seconds"], answers[1]["seconds"]))
    for build in builds:
        build.close()
    return pairs


def show(pairs):
    ratios = {name: statistics.median(after / before for before, after in times) for name, times in pairs.items()}
    for name in sorted(pairs, key=ratios.get, reverse=True):
        before, after = (statistics.median(times) * 1000 for times in zip(*pairs[name]))
        print(f"{name:8}{before:12.2f} ms{after:12.2f} ms{ratios[name]:10.3f}")
    values = list(ratios.values())
    print(f"{len(values)} queries: geometric mean of ratios {geometric_mean(values):.3f}, median {statistics.median(values):.3f}")


def main():
    options = arguments()
    if options.keep:
        os.makedirs(options.keep, exist_ok=True)
        show(measure(options, os.path.abspath(options.keep)))
        return
    with tempfile.TemporaryDirectory(prefix="forebay-builds-") as directory:
        show(measure(options, directory))


if __name__ == "__main__":
    main()
