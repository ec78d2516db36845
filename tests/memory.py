"""Eight sessions of one process within its budget of memory: the program checks that all answers are those of one session alone, and
says what it had of memory meanwhile. More rows that are added one by one than there is memory for."""

import json
import os

MOST_OF_BUDGET = 1.1
# What the account does not have: plans, machine code, the catalog, batches on their way between operators. Eight sessions had about a
# hundred megabytes of it.
UNCOUNTED_BYTES = 128 << 20


def run(options, report):
    report.suite("memory")
    scale = "1" if options.long else "0.2"
    budgets = (512, 2048) if options.long else (256,)
    directory = os.path.join(options.directory, "memory")
    os.makedirs(directory)
    for number, megabytes in enumerate((budgets[0], *budgets)):
        figures = os.path.join(directory, f"figures-{number}.json")
        arguments = ("--sf", scale, "--db", directory, "--runs", "2", "--memory", f"{megabytes}MB", "--json", figures)
        outcome = options.binary.run("bench", "cache", "--experiment", "sessions", *arguments, timeout=3600)
        # The first one makes the data, whose generators leave memory to the allocator.
        name = f"eight sessions in {megabytes} MB" if number else "data for eight sessions"
        report.check(name, failure(outcome, figures, with_peak=number > 0))
    rows = 120_000 if options.long else 40_000
    for kind, rows, others in (("alone", rows, ("", "")), ("together", 20_000, ("BEGIN;\n", "COMMIT;\nCHECKPOINT;\n"))):
        report.check(f"more hot rows than memory, committed {kind}", hot_rows(options, kind, rows, others))
    report.end()


def hot_rows(options, name, rows, others):
    """What went wrong when more rows were added one by one than may be hot; None where nothing did."""
    database, script = (os.path.join(options.directory, "memory", f"hot-{name}{end}") for end in ("", ".sql"))
    begin, end = others
    with open(script, "w", encoding="utf-8") as file:
        file.write("SET durability = off;\nCREATE TABLE t (k INTEGER PRIMARY KEY, v VARCHAR);\n" + begin)
        file.writelines(f"INSERT INTO t VALUES ({row}, '{f'{row:06}' * 166}');\n" for row in range(rows))
        file.write(end + "SELECT count(*), sum(length(v)), sum(k) FROM t;\n")
        file.write("SELECT held_bytes <= limit_bytes, peak_bytes > 8000000 FROM forebay.memory WHERE holder = 'hot rows';\n")
    outcome = options.binary.run(database, "--memory", "64MB", "--format", "csv", "-f", script, timeout=600)
    if outcome.crash() or outcome.status != 0:
        return f"{outcome.crash() or outcome.status}: {outcome.stderr[-600:]}"
    lines = outcome.stdout.decode().splitlines()
    wanted = [f"{rows},{rows * 996},{rows * (rows - 1) // 2}", "true,true"]
    return None if lines[-3] == wanted[0] and lines[-1] == wanted[1] else f"{lines[-4:]}"


def failure(outcome, figures, with_peak):
    """What went wrong; None where nothing did."""
    if outcome.crash() or outcome.status != 0:
        return f"{outcome.crash() or outcome.status}: {outcome.stderr[-600:]}"
    with open(figures, encoding="utf-8") as file:
        series = json.load(file)["experiments"][0]["series"]
    bytes_of = {one["name"]: int(one["points"][0][1]) for one in series}
    budget, resident, account = (bytes_of[name] for name in ("budget", "resident", "account"))
    if account > budget * MOST_OF_BUDGET:
        return f"the account itself is beyond the budget: {bytes_of}"
    if with_peak and resident > budget * MOST_OF_BUDGET + UNCOUNTED_BYTES:
        return f"more is resident than the budget allows: {bytes_of}"
    return None
