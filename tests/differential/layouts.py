"""How the tables of a random suite lie (`--layout`): as they are loaded, in an order (CLUSTER BY), or with projections beside them."""

import random

LAYOUTS = ("plain", "clustered", "projected")
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


def lay_out(options, report, database):
    """Gives all tables of a database the layout that is asked for."""
    if options.layout == "plain":
        return
    [answer] = options.binary.answers(database, [COLUMNS_OF_TABLES])
    report.check("columns of the test tables", answer.error)
    columns = {}
    for row in answer.rows:
        values = dict(row)
        if values["type"].startswith(ORDERED_TYPES) and not is_long(options, database, values):
            columns.setdefault(values["name"], []).append(values["column_name"])
    report.check("there are tables to lay out", None if columns else "no table has a column that an order can have")
    for answer in options.binary.answers(database, statements(columns, options.layout, options.seed)):
        report.check(f"tables are {options.layout}", answer.error)
