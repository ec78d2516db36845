"""What is compared: query texts, generated files, and Forebay's database that holds them."""

import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
QUERIES = HERE.parent / "workload" / "queries"
BENCHMARKS = ["ssb", "tpch", "wide", "taxi"]
FOREBAY = "forebay"


def query_texts(options):
    """Names and texts of the chosen queries, in the benchmark's order."""
    found = {}
    for path in (QUERIES / options.benchmark).glob("q*.sql"):
        text = path.read_text(encoding="utf-8").strip().rstrip(";")
        if options.benchmark == "tpch" and path.stem == "q11":
            text = text.replace("0.0001", f"{0.0001 / options.sf:.12f}".rstrip("0"))
        found[path.stem] = text
    names = sorted(found, key=lambda name: [int(part) for part in re.findall(r"\d+", name)])
    unknown = set(options.query) - set(names)
    if unknown:
        sys.exit(f"{options.benchmark} has no query {', '.join(sorted(unknown))}; its queries are {', '.join(names)}")
    return {name: found[name] for name in names if not options.query or name in options.query}


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


def own_folder(options, directory, engine):
    """The folder of an engine's own files; made when missing."""
    own = os.path.join(directory, f"{engine}-{options.benchmark}-{options.sf:g}")
    os.makedirs(own, exist_ok=True)
    return own


def forebay_flags(options):
    """Threads and memory, as the program takes them."""
    memory = ["--memory", f"{options.memory}B"] if options.memory else []
    return ["--threads", str(options.threads), *memory]


def forebay_version(options):
    version = subprocess.run([options.binary, "version"], capture_output=True, text=True, check=False)
    return version.stdout.strip().removeprefix("forebay ")


def load_forebay(options, own):
    """Generates and loads what is not there yet, with the keys of the benchmark; the database and an error or None."""
    database = os.path.join(own, f"forebay-{options.benchmark}-{options.sf:g}")
    load = [options.binary, "bench", options.benchmark, "--sf", f"{options.sf:g}", "--db", database, "--runs", "1"]
    load += ["--query", next(iter(query_texts(options))), *forebay_flags(options)]
    done = subprocess.run(load, capture_output=True, text=True, check=False)
    error = None if done.returncode == 0 else (done.stderr.strip().splitlines() or ["no message"])[-1]
    return database, error


def machine():
    return {"processor": processor(), "cores": os.cpu_count(), "system": platform.platform()}


def processor():
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as info:
            return next(line.split(":", 1)[1].strip() for line in info if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor()
