"""How the tables of a random suite lie (`--layout`): as they are loaded, in an order (CLUSTER BY), with projections beside them, or
with all (`hot`) or some (`mixed`) of their rows as hot rows."""

import random

LAYOUTS = ("plain", "clustered", "projected", "hot", "mixed")
# Orders and copies are of columns of these types, which every execution compares.
ORDERED_TYPES = ("INTEGER", "BIGINT", "SMALLINT", "DATE", "VARCHAR", "DOUBLE", "DECIMAL", "TIMESTAMP")
MOST_COLUMNS = 3
# Bytes of values that rows can be ordered by, at most.
MOST_BYTES = 256
COLUMNS_OF_TABLES = """
SELECT c.table_name AS name, c.column_name AS column_name, c.data_type AS type FROM information_schema.columns AS c
JOIN information_schema.tables AS t ON t.table_name = c.table_name AND t.table_schema = c.table_schema
WHERE t.table_type = 'BASE TABLE' AND t.table_schema = 'main' ORDER BY c.table_name, c.ordinal_position
"""
# Rows are made hot by changing them by key, so many at a time: fewer than one statement by key may change.
ROWS_OF_A_CHANGE = 4_000
# Of larger tables so many rows become hot: some at both ends, or the first ones. The long size has more.
MOST_HOT = {False: 12_000, True: 80_000}
# Hot rows are shown as segments that no file has.
HOT_ROWS = "SELECT coalesce(sum(rows), 0) AS hot FROM forebay.segments WHERE table_name = '{}' AND segment_id >= 549755813888"


def quoted(name):
    return '"' + name.replace('"', '""') + '"'


def statements(columns, layout, seed):
    """Those that give each of the tables the layout; `columns` are names of tables and of their columns."""
    made = []
    for table, names in columns.items():
        choice = random.Random(f"{seed} {table}")

        def order():
            return ", ".join(map(quoted, choice.sample(names, min(len(names), choice.randint(1, MOST_COLUMNS)))))

        if layout == "clustered":
            made.append(f"ALTER TABLE {quoted(table)} CLUSTER BY ({order()})")
        else:
            made += [f"ALTER TABLE {quoted(table)} ADD PROJECTION {copy} (ORDER BY {order()})" for copy in ("copy1", "copy2")]
    return made


def is_long(options, database, column):
    """Whether a column has values that are too long to order rows by."""
    if column["type"] != "VARCHAR":
        return False
    [answer] = options.binary.answers(database, [f"SELECT max(strlen({quoted(column['column_name'])})) AS longest FROM {quoted(column['name'])}"])
    longest = dict(answer.rows[0])["longest"]
    return longest is not None and int(longest) > MOST_BYTES


def find_columns(options, report, database):
    """Names of tables and of columns, and types of these."""
    [answer] = options.binary.answers(database, [COLUMNS_OF_TABLES])
    report.check("columns of the test tables", answer.error)
    return [dict(row) for row in answer.rows]


def lay_out(options, report, database):
    """Gives all tables of a database the layout that is asked for."""
    if options.layout == "plain":
        return
    found = find_columns(options, report, database)
    if options.layout in ("hot", "mixed"):
        heat(options, report, database, found)
        return
    columns = {}
    for values in found:
        if values["type"].startswith(ORDERED_TYPES) and not is_long(options, database, values):
            columns.setdefault(values["name"], []).append(values["column_name"])
    report.check("there are tables to lay out", None if columns else "no table has a column that an order can have")
    for answer in options.binary.answers(database, statements(columns, options.layout, options.seed)):
        report.check(f"tables are {options.layout}", answer.error)


def heat(options, report, database, found):
    """Makes rows hot: gives each table with a column of integers that are unique a key, and changes rows by it to what they were."""
    columns = {}
    for values in found:
        columns.setdefault(values["name"], []).append((values["column_name"], values["type"]))
    for table, own in columns.items():
        key, rows = find_key(options, database, table, own)
        if key is None:
            report.say(f"   table {table} has no key: its rows are not hot")
            continue
        other = next(quoted(name) for name, _ in own if quoted(name) != key)
        changes = [
            f"UPDATE {quoted(table)} SET {other} = {other} WHERE {key} BETWEEN {low} AND {high}"
            for low, high in ranges(options, database, table, key, rows)
        ]
        keyed = f"ALTER TABLE {quoted(table)} ADD PRIMARY KEY ({key})"
        # Within a transaction rows of small segments become hot, too.
        asked = [keyed, "SET point_access = on", "BEGIN", *changes, "COMMIT"]
        answers = options.binary.answers(database, [*asked, HOT_ROWS.format(table)], timeout=300)
        wrong = next((f"{sql}\n{answer.error}" for sql, answer in zip(asked, answers) if answer.error), None)
        hot = int(answers[-1].rows[0][0][1]) if not wrong else 0
        most = MOST_HOT[options.long]
        least = most // 3 if rows > most else rows // 3 if options.layout == "mixed" else rows
        report.check(f"rows of {table} are hot", wrong or (None if least <= hot else f"{hot} of {rows}"))


def find_key(options, database, table, columns):
    """A column of integers that are unique and not NULL, or None, and the number of rows."""
    whole = [quoted(name) for name, kind in columns if kind in ("INTEGER", "BIGINT")]
    counts = ", ".join(f"count(DISTINCT {name})" for name in whole)
    [answer] = options.binary.answers(database, [f"SELECT count(*), {counts} FROM {quoted(table)}"])
    if answer.error is not None:
        return None, 0
    rows, *distinct = (int(value) for _, value in answer.rows[0])
    return next((name for name, count in zip(whole, distinct) if count == rows > 0), None), rows


def ranges(options, database, table, key, rows):
    """Bounds of the keys that are changed together: all of them, or every other one."""
    size = max(1, min(ROWS_OF_A_CHANGE, rows // 4))
    of_rows = f"SELECT {key} AS key, (row_number() OVER (ORDER BY {key}) - 1) // {size} AS part FROM {quoted(table)}"
    [answer] = options.binary.answers(database, [f"SELECT min(key) AS low, max(key) AS high FROM ({of_rows}) GROUP BY part ORDER BY part"])
    bounds = [(low, high) for (_, low), (_, high) in answer.rows]
    half = max(1, MOST_HOT[options.long] // size // 2)
    return bounds[::2][: 2 * half] if options.layout == "mixed" else [*bounds[:half], *bounds[half:][-half:]]
