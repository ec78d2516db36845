"""Queries that need more memory than there is: each gives its answer, and the process never has more than 1.25 times its
budget beside what the bare program needs."""

import os
import subprocess
import time

SECONDS = 300
# What a process may have beyond its budget: a quarter of it, and what one that does nothing has.
BEYOND = 1.25

SETUP = [
    "CREATE TABLE rows AS SELECT n AS id, (n * 7919) % {rows} AS k, n % 1000 AS g, md5((n * 31)::VARCHAR) AS s,"
    " CASE WHEN n % 17 = 0 THEN NULL ELSE (n * 13) % 977 END AS v FROM range({rows}) AS r(n)",
    "CREATE TABLE wide AS SELECT n AS id, repeat(md5(n::VARCHAR), 64) AS w FROM range({wide}) AS r(n)",
]

# By what they need it for.
QUERIES = {
    "a large offset": "SELECT s FROM rows ORDER BY s LIMIT 5 OFFSET {most}",
    "a large offset of whole rows": "SELECT * FROM rows ORDER BY k, id LIMIT 5 OFFSET {most}",
    "a large limit": "SELECT count(*), max(s), min(id) FROM (SELECT * FROM rows ORDER BY s LIMIT {most})",
    "a small limit": "SELECT * FROM rows ORDER BY s LIMIT 5",
    "a whole sort": "SELECT count(*), sum(r) FROM (SELECT row_number() OVER (ORDER BY s DESC, id) * (id % 7) AS r FROM rows)",
    "several keys": "SELECT id, v, s FROM rows ORDER BY v DESC NULLS LAST, g, s LIMIT 3 OFFSET {most}",
    "wide strings": "SELECT id, length(w) FROM wide ORDER BY w LIMIT 3 OFFSET {wide_most}",
    "the first of wide strings": "SELECT id, length(w) FROM wide ORDER BY w LIMIT 3000 OFFSET 10",
    "distinct strings": "SELECT count(*), min(s), max(s) FROM (SELECT DISTINCT s FROM rows)",
    "distinct rows": "SELECT count(*) FROM (SELECT DISTINCT k, s, v FROM rows)",
    "distinct wide strings": "SELECT count(DISTINCT w), count(DISTINCT substr(w, 1, 100)) FROM wide",
    "count(DISTINCT)": "SELECT count(DISTINCT s), count(DISTINCT k) FROM rows",
    "many groups": "SELECT count(*), sum(n), max(m) FROM (SELECT k, s, count(*) AS n, max(id) AS m FROM rows GROUP BY k, s)",
    "groups that collect": "SELECT count(*), sum(n) FROM (SELECT g, count(DISTINCT s) AS n FROM rows GROUP BY g)",
    "windows over groups": "SELECT count(*), sum(c) FROM (SELECT sum(v) OVER (PARTITION BY g ORDER BY id) AS c FROM rows)",
    "windows over all": "SELECT count(*), sum(p) FROM (SELECT lag(id) OVER (ORDER BY s) AS p FROM rows)",
    "a large build side": "SELECT count(*), sum(a.id), max(b.s) FROM rows a JOIN rows b ON a.id = b.k",
    "a join of strings": "SELECT count(*), sum(a.id + b.id) FROM rows a JOIN rows b ON a.s = b.s",
    "an outer join": "SELECT count(*), count(b.id) FROM rows a LEFT JOIN rows b ON a.s = b.s AND b.g < 500",
    "an ordered join": "SELECT a.id, b.s FROM rows a JOIN rows b ON a.id = b.k ORDER BY b.s LIMIT 4 OFFSET {most}",
    "a union": "SELECT count(*) FROM (SELECT s FROM rows UNION SELECT upper(s) FROM rows)",
    "a table from a sort": "CREATE OR REPLACE TABLE sorted AS SELECT * FROM rows ORDER BY s",
}


def run_measured(binary, arguments, seconds=SECONDS):
    """A process: its exit status, output, errors, seconds and the most memory that it had."""
    start = time.monotonic()
    process = subprocess.Popen([binary.path, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    peak = 0
    while process.poll() is None:
        peak = max(peak, peak_bytes(process.pid))
        if time.monotonic() - start > seconds:
            process.kill()
        time.sleep(0.005)
    out, errors = process.communicate()
    return process.returncode, out.decode(), errors.decode("utf-8", "replace"), time.monotonic() - start, peak


def peak_bytes(pid):
    try:
        with open(f"/proc/{pid}/status", encoding="ascii") as status:
            return next((int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM")), 0)
    except OSError:
        return 0


def run(options, report):
    rows = 20_000_000 if options.long else 3_000_000
    numbers = {"rows": rows, "wide": rows // 30, "most": rows * 9 // 10, "wide_most": rows // 40}
    budgets = (256, 512) if options.long else (128,)
    report.suite(f"memory, {rows} rows, budgets of {', '.join(map(str, budgets))} MB")
    database = os.path.join(options.directory, "memory")
    options.binary.must(database, *(statement.format(**numbers) for statement in SETUP))
    _, _, _, _, bare = run_measured(options.binary, ["--memory", "64MB", "-c", "SELECT 1"])
    for name, query in QUERIES.items():
        query = query.format(**numbers)
        arguments = [database, "--quiet", "--format", "csv", "-c", query]
        expected = run_measured(options.binary, [*arguments, "--memory", "8GB"])
        for budget in budgets:
            status, out, errors, seconds, peak = run_measured(options.binary, [*arguments, "--memory", f"{budget}MB"])
            most = (budget << 20) * BEYOND + bare
            difference = None
            if status != 0:
                difference = f"exit status {status} after {seconds:.0f} s: {errors[:600]}"
            elif (expected[0], expected[1]) != (0, out):
                difference = f"another answer than with much memory: {out[:300]}, expected {expected[1][:300]} {expected[2][:300]}"
            elif peak > most:
                difference = f"{peak >> 20} MiB of memory, at most {int(most) >> 20} with a budget of {budget} MB"
            if getattr(options, "verbose", False):
                report.say(f"{name}: {budget} MB: {peak >> 20} MiB, {seconds:.1f} s, with much {expected[3]:.1f} s")
            report.check(f"{name}, {budget} MB: {query}", difference)
    report.end()
