"""`kill -9` at random moments of COPY, CREATE TABLE AS, DROP, CHECKPOINT, CLUSTER BY, ADD PROJECTION and others: at the next open each statement
happened whole or not at all, in all copies of its table's rows, the database checks out, and nothing leaks. And of a stream of small
statements: those that were acknowledged are there, and no others but the next one; so it is with random changes by key, definitions and transactions
beside CHECKPOINTs. And of terminals that run the transactions of TPC-C: the
consistency conditions of the benchmark hold after each kill, and what was found before is still there."""

import os
import random
import re
import shutil
import signal
import subprocess
import threading
import time

import duckdb

from changes import FILLED, loaded
from hot_rows import NAMES, HotRowGenerator, Model, create_sql
from rows import Expected, difference

ROWS = 1_500_000
SMALL_INSERTS = 40
DURABILITIES = ["full", "'group(5ms)'", "off"]
# Tables of the streams, and which of their statements run by key.
POINT_ACCESS = {"small": "off", "hot": "on"}
# How the terminals of TPC-C run their transactions, by kill.
TERMINALS = [
    ["--set", "durability=full"],
    ["--set", "durability=full", "--procedures"],
    ["--set", "durability=off"],
    ["--set", "durability='group(5ms)'", "--procedures"],
    ["--set", "durability='group(5ms)'"],
    ["--set", "durability=off", "--procedures"],
]
CONDITIONS = 12
MOST_SECONDS_TO_WORK = 20
# What each transaction that changes something adds to.
PROGRESS = "SELECT (SELECT sum(d_next_o_id) FROM district), (SELECT count(*) FROM history), (SELECT sum(c_delivery_cnt) FROM customer)"
# Changes after which each of the conditions has rows.
BROKEN = [
    "UPDATE warehouse SET w_ytd = w_ytd + 1",
    "UPDATE district SET d_next_o_id = d_next_o_id + 1, d_ytd = d_ytd + 1",
    "UPDATE customer SET c_balance = c_balance + 1, c_delivery_cnt = c_delivery_cnt + 1",
    "DELETE FROM new_order WHERE no_o_id % 7 = 3",
    "DELETE FROM order_line WHERE ol_number = 1",
    "UPDATE order_line SET ol_delivery_d = NULL",
]
FIGURES = "count(*), sum(k), sum(g), min(v), max(v), count(DISTINCT v), sum(d)"

# name: (statement, the table it changes)
STATEMENTS = {
    "COPY": ("COPY loaded FROM '{data}'", "loaded"),
    "CREATE TABLE AS": ("CREATE TABLE made AS SELECT * FROM '{data}'", "made"),
    "INSERT SELECT": ("INSERT INTO loaded SELECT * FROM whole", "loaded"),
    # Millions of groups in little memory: most of them are on disk when the process dies.
    "groups on disk": (
        "SET memory_limit = '8MB'; CREATE TABLE made AS SELECT k, max(g) AS g, max(v) AS v, max(d) AS d FROM whole GROUP BY k",
        "made",
    ),
    "DROP": ("DROP TABLE whole", "whole"),
    "CHECKPOINT": ("CHECKPOINT", "pieces"),
    "CLUSTER BY": ("ALTER TABLE whole CLUSTER BY (g, d)", "whole"),
    "ANALYZE": ("ANALYZE whole", "whole"),
    "ADD PROJECTION": ("ALTER TABLE whole ADD PROJECTION by_g (ORDER BY g, d) (g, d, k, v)", "whole"),
    "OPTIMIZE TABLE": ("OPTIMIZE TABLE pieces", "pieces"),
    "UPDATE": ("UPDATE pieces SET g = g + 1 WHERE k % 3 = 0", "pieces"),
    # Every kill but one after the last word leaves nothing of it.
    "transaction": (
        "BEGIN; INSERT INTO loaded SELECT * FROM whole WHERE k % 5 = 0; UPDATE pieces SET g = 1 WHERE k % 4 = 0;"
        " CREATE TABLE made AS SELECT * FROM whole WHERE k % 7 = 0; SAVEPOINT s; DELETE FROM loaded; ROLLBACK TO s; DROP TABLE whole; COMMIT",
        "loaded",
    ),
}


def make_data(path):
    duckdb.connect(config={"threads": 2}).execute(
        f"COPY (SELECT i AS k, (i % 100)::INTEGER AS g, md5((i % 50000)::VARCHAR) AS v, (i % 99999)::DECIMAL(18,2) / 4 AS d"
        f" FROM range({ROWS}) AS numbers(i)) TO '{path}' (FORMAT parquet)"
    )


def make_database(binary, database, data):
    """Tables to load into, to drop and to merge."""
    binary.must(
        database,
        f"CREATE TABLE whole AS SELECT * FROM '{data}'",
        f"CREATE TABLE loaded AS SELECT * FROM '{data}' LIMIT 100000",
        f"CREATE TABLE pieces AS SELECT * FROM '{data}' LIMIT 1000",
        "ALTER TABLE loaded ADD PROJECTION by_g (ORDER BY g, d)",
        "ALTER TABLE pieces ADD PROJECTION by_g (ORDER BY g, d)",
        *(f"INSERT INTO pieces SELECT k + {i}, g, v, d FROM loaded WHERE k < 20000" for i in range(SMALL_INSERTS)),
    )


def state(binary, database):
    """Every table with its figures, as its own rows and those of its projection give them, and the rows of each copy."""
    names = sorted(row[0] for row in binary.rows(database, "SELECT table_name FROM information_schema.tables WHERE table_schema = 'main'"))
    figures = [f"SELECT {FIGURES} FROM {name}" for name in names]
    copies = [f"SELECT count(DISTINCT projection_name), sum(rows) FROM forebay.segments WHERE table_name = '{name}'" for name in names]
    answers = binary.answers(database, ["SET projections = off", *figures, "SET projections = by_g", *figures, *copies])
    found = {}
    for place, name in enumerate(names):
        of_table = [answers[start + place] for start in (1, len(names) + 2, 2 * len(names) + 2)]
        for answer in of_table:
            if answer.error:
                raise RuntimeError(f"table {name}: {answer.error}")
        own, copied, rows = ([str(value) for _, value in answer.rows[0]] for answer in of_table)
        if own != copied:
            raise RuntimeError(f"table {name}: {own} of its own rows, {copied} of its projection's")
        found[name] = own + rows
    return found


def listing(database):
    """Every file of the database with its size; the catalog's own size may change."""
    found = {}
    for folder, _, files in os.walk(database):
        for name in files:
            path = os.path.join(folder, name)
            found[os.path.relpath(path, database)] = os.path.getsize(path) if name.endswith(".seg") else None
    return found


def kill_during(binary, database, statement, delay):
    """Starts the statement, kills it after `delay` seconds; True where it had ended by itself."""
    process = binary.start(database, "--quiet", "-c", statement)
    try:
        time.sleep(delay)
        ended = process.poll() is not None
        if not ended:
            process.send_signal(signal.SIGKILL)
        _, stderr = process.communicate(timeout=60)
    finally:
        if process.poll() is None:
            process.kill()
    if ended and process.returncode != 0:
        raise RuntimeError(f"{statement}: {stderr.decode('utf-8', 'replace')}")
    return ended


def kill_stream(binary, database, told, delay, chance):
    """Kills a process amid small statements; the greatest row that it has acknowledged, and the rows that there are after each statement. Told are
    the table, its rows and the first number that is new."""
    table, rows, first = told
    statements, rows = [f"SET point_access = {POINT_ACCESS[table]}"], dict(rows)
    # What is there after each statement, by the number that says that it has ended.
    after = {first - 1: dict(rows)}
    for number in range(first, first + 3000):
        kind = chance.random()
        if kind > 0.98:
            # A killed process loses nothing that it has acknowledged, whatever is set.
            statements.append(f"SET durability = {chance.choice(DURABILITIES)}")
        if kind < 0.02:
            statements.append("CHECKPOINT")
        elif kind < 0.1 and number > first:
            gone = chance.randrange(number)
            statements.append(f"DELETE FROM {table} WHERE a = {gone}")
            rows.pop(gone, None)
        elif kind < 0.3 and number > first:
            changed = chance.randrange(number)
            statements.append(f"UPDATE {table} SET t = 'text {changed} of {number}' WHERE a = {changed}")
            rows.update({changed: f"text {changed} of {number}"} if changed in rows else {})
        else:
            statements.append(f"INSERT INTO {table} VALUES ({number}, 'text {number}')")
            rows[number] = f"text {number}"
        statements.append(f"SELECT 'done {number}'")
        after[number] = dict(rows)
    seen = kill_after(binary, database, statements, delay)
    return (seen if seen is not None else first - 1), after


def kill_after(binary, database, statements, delay):
    """Kills a process after `delay` seconds of these statements; the last number that it has said, or None."""
    process = subprocess.Popen(
        [binary.path, database, "--quiet", "--format", "csv", "--no-header"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )

    def feed():
        try:
            process.stdin.write(";\n".join(statements).encode())
        except BrokenPipeError:
            pass

    feeder = threading.Thread(target=feed, daemon=True)
    feeder.start()
    time.sleep(delay)
    process.send_signal(signal.SIGKILL)
    # The last line may be half of one, and other statements may return rows.
    said = [line for line in process.stdout.read().split(b"\n")[:-1] if line.startswith(b"done ")]
    errors = process.stderr.read().decode("utf-8", "replace")
    process.wait()
    feeder.join(10)
    if errors:
        raise RuntimeError(errors)
    return int(said[-1].removeprefix(b"done ")) if said else None


def streams(binary, report, database, kills, chance):
    """Kills of streams of small statements, each into the database that the one before has left: by plans, and by key into hot rows."""
    for table in POINT_ACCESS:
        binary.must(database, f"CREATE TABLE {table} (a INTEGER PRIMARY KEY, t VARCHAR)")
        kept, first, total = {}, 0, 0
        for number in range(kills):
            delay = chance.uniform(0.05, 0.6)
            last, after = kill_stream(binary, database, (table, kept, first), delay, chance)
            allowed = [after[last], after.get(last + 1, after[last])]
            total += last + 1 - first
            if number % 3 == 0:
                checked = binary.run(database, "--read-only", "-c", "CHECK DATABASE")
                report.check(f"{table} stream {number}: a check without recovery", None if checked.status == 0 else checked.stderr)
            found = {int(row[0]): row[1] for row in binary.rows(database, f"SELECT a, t FROM {table}")}
            wrong = None
            if found not in allowed:
                lost, more = ([pair for pair in one.items() if pair not in other.items()][:5] for one, other in ((allowed[0], found), (found, allowed[-1])))
                wrong = f"{last} was acknowledged; lost {lost}, too many {more}"
            report.check(f"{table} stream {number}: killed after {delay * 1000:.0f} ms, {last + 1 - first} acknowledged", wrong)
            kept, first = found, last + 2
        report.check(f"{table} streams were under way", None if total > kills else f"{total} statements in {kills} streams")


def changes(options, report, chance):
    """Kills of the sequences of the suite hot_rows: the table has the rows that it has in DuckDB after what was acknowledged, or after one statement
    more, of which those of an open transaction keep nothing."""
    connection, database, tables = loaded(options, report, "kill_changes")
    generator, interrupted = HotRowGenerator(tables, options.seed), 0
    for number in range(options.kills):
        statements = generator.case(number)
        made = ["DROP TABLE IF EXISTS c", create_sql(), f"INSERT INTO c SELECT {NAMES} FROM {FILLED} WHERE k < 100"]
        for sql in made:
            connection.execute(sql)
        options.binary.must(database, *made)
        after, model = [of_table(connection)], Model(connection)
        for sql in statements:
            try:
                model.execute(sql)
            except duckdb.Error:
                break
            after.append(after[-1] if model.is_open else of_table(connection))
        model.end()
        told = [part for place, sql in enumerate(statements[: len(after) - 1], 1) for part in (sql, f"SELECT 'done {place}'")]
        delay = chance.uniform(0.02, 0.3)
        name = f"sequence {number} (--only hot_rows --seed {options.seed} --query {number}) killed after {delay * 1000:.0f} ms"
        try:
            last = kill_after(options.binary, database, ["SET point_access = on", f"SET durability = {chance.choice(DURABILITIES)}", *told], delay) or 0
        except RuntimeError as error:
            report.fail(name, str(error))
            continue
        interrupted += 0 < last < len(after) - 1
        [answer, checked] = options.binary.answers(database, ["SELECT * FROM c", "CHECK DATABASE"])
        wrong = checked.error or difference(after[last], answer, False)
        if wrong and not checked.error and last + 1 < len(after) and not difference(after[last + 1], answer, False):
            wrong = None
        report.check(name, wrong and "\n".join([*statements[: last + 1], f"{last} were acknowledged", wrong]))
    report.check("sequences were under way", None if 3 * interrupted > options.kills else f"{interrupted} of {options.kills}")


def of_table(connection):
    return Expected(connection.sql("SELECT * FROM c").to_arrow_table())


def look(binary, database, before, after, acknowledged):
    """What is wrong with the database after the kill; None where nothing is."""
    found = state(binary, database)
    if found != before and found != after:
        return f"neither as before nor as after\nbefore {before}\nafter  {after}\nfound  {found}"
    if acknowledged and found != after:
        return f"the statement had ended, and is gone\nafter  {after}\nfound  {found}"
    checked = binary.run(database, "-c", "CHECK DATABASE")
    if checked.status != 0:
        return f"CHECK DATABASE: {checked.stderr}"
    files = listing(database)
    state(binary, database)
    if listing(database) != files:
        return f"a second open changed the files\nfirst  {files}\nsecond {listing(database)}"
    strangers = [name for name in files if not (name.endswith((".seg", ".fact")) or os.path.basename(name) in ("forebay.redb", "HEAD", "LOCK", "queries.log", "queries.old.log", "cache.plan", "cache.plan.tmp"))]
    if strangers:
        return f"files left over: {strangers}"
    binary.must(database, *(f"DROP TABLE {name}" for name in found))
    binary.must(database, "SELECT 1")
    leaked = [name for name in listing(database) if name.endswith((".seg", ".fact"))]
    return f"all tables are dropped, and these files remain: {leaked}" if leaked else None


def measure(binary, original, work, statement):
    """Seconds of the whole statement, and the state after it."""
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(original, work)
    start = time.monotonic()
    binary.must(work, statement)
    return time.monotonic() - start, state(binary, work)


def run(options, report):
    report.suite(f"kill -9, {options.kills} times, seed {options.seed}")
    binary = options.binary
    directory = os.path.join(options.directory, "kill")
    os.makedirs(directory)
    data, original, work = (os.path.join(directory, name) for name in ("data.parquet", "original", "work"))
    make_data(data)
    make_database(binary, original, data)
    before = state(binary, original)
    chance = random.Random(options.seed)
    measured = {}
    interrupted = 0
    for number in range(options.kills):
        name = list(STATEMENTS)[number % len(STATEMENTS)]
        statement = STATEMENTS[name][0].format(data=data)
        if name not in measured:
            measured[name] = measure(binary, original, work, statement)
        seconds, after = measured[name]
        delay = chance.uniform(0, seconds * 1.05)
        shutil.rmtree(work, ignore_errors=True)
        shutil.copytree(original, work)
        try:
            ended = kill_during(binary, work, statement, delay)
            interrupted += not ended
            if ended:
                # It is quicker than it was: what else the machine does has changed.
                measured[name] = (min(seconds, delay), after)
            report.check(f"kill {number}: {name} after {delay * 1000:.0f} of {seconds * 1000:.0f} ms", look(binary, work, before, after, ended))
        except (RuntimeError, ValueError) as error:
            report.fail(f"kill {number}: {name} after {delay * 1000:.0f} of {seconds * 1000:.0f} ms", str(error))
    report.check("most kills hit a running statement", None if interrupted * 2 > options.kills else f"only {interrupted} of {options.kills}")
    streams(binary, report, os.path.join(directory, "streams"), options.kills, chance)
    changes(options, report, chance)
    shutil.rmtree(directory, ignore_errors=True)
    report.end()


def run_tpcc(options, report):
    """`options`: binary, directory, seed, kills, long, query_directory."""
    kills = 2 * options.kills if options.long else max(6, options.kills // 2)
    report.suite(f"kill -9 under TPC-C, {kills} times, seed {options.seed}")
    binary = options.binary
    database = os.path.join(options.directory, "tpcc")
    text = (options.query_directory / "tpcc" / "conditions.sql").read_text(encoding="utf-8")
    conditions = [part for part in re.sub(r"--.*", "", text).split(";") if part.strip()]
    report.check("conditions of TPC-C", None if len(conditions) == CONDITIONS else f"there are {len(conditions)}")
    made = binary.run("bench", "tpcc", "--db", database, "--seconds", 1, timeout=300)
    if made.status != 0:
        raise RuntimeError(f"forebay bench tpcc: {made.stderr}")
    chance, progress, moved = random.Random(options.seed), [0, 0, 0], 0
    for number in range(kills):
        terminals = TERMINALS[number % len(TERMINALS)]
        # Some logs grow so long that a checkpoint is under way.
        delay = chance.uniform(0, 0.7) if chance.random() < 0.8 else chance.uniform(0.7, 3)
        before = logs(database)
        name = f"kill {number}: {' '.join(terminals)} after {delay * 1000:.0f} ms"
        process = binary.start("bench", "tpcc", "--db", database, "--seconds", 60, "--clients", chance.choice([1, 2, 4]), *terminals)
        try:
            # The first commit makes a log.
            started = time.monotonic()
            while not logs(database) - before and process.poll() is None and time.monotonic() - started < MOST_SECONDS_TO_WORK:
                time.sleep(0.01)
            time.sleep(delay)
            is_running = process.poll() is None
        finally:
            process.kill()
        _, stderr = process.communicate(timeout=60)
        if not is_running:
            report.fail(name, f"the terminals had ended: {stderr.decode('utf-8', 'replace')}")
            continue
        wrong, found = look_at_tpcc(binary, database, conditions, progress)
        report.check(name, wrong)
        moved += found != progress
        progress = found
    report.check("most kills hit terminals at work", None if 2 * moved > kills else f"{moved} of {kills}")
    report.say(f"   {kills} kills, {moved} of terminals that had changed something: {progress[0]} orders, {progress[1]} payments, {progress[2]} deliveries")
    broken = binary.answers(database, ["BEGIN", *BROKEN, *conditions, "ROLLBACK"])[1 + len(BROKEN) : -1]
    blind = [place for place, answer in enumerate(broken, 1) if answer.error or not answer.rows]
    report.check("conditions find what is wrong", f"not those of the numbers {blind}" if blind else None)
    shutil.rmtree(database, ignore_errors=True)
    report.end()


def logs(database):
    return {name for name in os.listdir(database) if name.startswith("redo-")}


def look_at_tpcc(binary, database, conditions, before):
    """What is wrong after a kill, and how far the benchmark has come."""
    try:
        told, *answers, checked = binary.answers(database, [PROGRESS, *conditions, "CHECK DATABASE"])
    except RuntimeError as error:
        return str(error), before
    if told.error or checked.error:
        return told.error or checked.error, before
    found = [int(value) for _, value in told.rows[0]]
    if any(now < then for now, then in zip(found, before)):
        return f"there were {before} orders, payments and deliveries, and now {found}", found
    for number, answer in enumerate(answers, 1):
        if answer.error or answer.rows:
            return f"condition {number}: {answer.error or answer.rows[:5]}", found
    return None, found
