"""What errors say: about two hundred statements that are wrong, each of which gives one line in the words of SQL. None names
a library, its types, its operators or its places in code."""

import os
import re

# What no message has: names of Rust and of libraries, their types, their ways to print structures.
INSIDES = re.compile(
    r"panick|unwrap|\bOption\b|Some\(|\bNone\b|Ok\(|Err\(|::|DataFusion|datafusion|[Aa]rrow\b|sqlparser|ParserError|tokio|rustc"
    r"|Span\(|Location\(|Ident\b|Ident \{|quote_style|TableReference|LogicalPlan|PhysicalExpr|\bExpr\b|ScalarValue|ScalarFunction"
    r"|\bUtf8|LargeUtf8|\bU?Int(8|16|32|64)\b|Float(16|32|64)\b|Decimal(32|64|128|256)\b|Boolean\(|Date(32|64)\b|Timestamp\(|Time64|Interval\(|BinaryView|FixedSize"
    r"|Exec\b|TopK|can spill|FairSpillPool|consumer|[Rr]eservation|RepartitionExec|Hash(Join|Agg)"
    r"|checked_(add|subtract|multiply|divide|modulo|negate)|integer_divide|shift_(left|right)\b|__\w|TypeSignature|Signature|UserDefined|Coercible|Volatility"
    r"|Optimizer rule|Schema error|Plan error|Execution error|Arrow error|Internal error|External error|Parser error|Cast error|SQL error|This feature is not implemented"
    r"|This was likely caused|bug report|issue tracker|github\.com|backtrace|\.rs\b|\bNYI\b|not impl|Generic\(|Placeholder \{|BinaryOp|TokenWithSpan|\bField \{|MonthDayNano|Nanosecond\b|Microsecond\b"
)

SETUP = [
    "CREATE TABLE orders (id INTEGER, amount DECIMAL(9,2), placed DATE, note VARCHAR, at TIMESTAMP, big BIGINT, x DOUBLE, b BOOLEAN, data BLOB)",
    "INSERT INTO orders VALUES (1, 2.50, DATE '2024-01-01', 'first', TIMESTAMP '2024-01-01 10:00:00', 9223372036854775807, 0.5, true, 'ab'::BLOB), (2, NULL, NULL, 'x', NULL, -9223372036854775808, 1e300, false, NULL)",
    "CREATE TABLE items (id INTEGER NOT NULL, order_id INTEGER, name VARCHAR DEFAULT 'none')",
    "INSERT INTO items VALUES (1, 1, 'pen'), (2, 1, 'ink'), (3, 2, 'pad')",
    "CREATE VIEW totals AS SELECT id, sum(amount) AS total FROM orders GROUP BY id",
    "CREATE SCHEMA other",
    "CREATE TABLE other.things (a INTEGER)",
]

STATEMENTS = """
SELECT amuont FROM orders
SELECT orders.amuont FROM orders
SELECT o.id FROM orders
SELECT nowhere.id FROM orders
SELECT "Id " FROM orders
SELECT a.b.c.d.e FROM orders
SELECT * FROM ordesr
SELECT * FROM othr.things
SELECT * FROM other.thigns
SELECT * FROM a.b.c.d
SELECT * FROM other.things.more
SELECT summ(amount) FROM orders
SELECT nosuchfunction(1)
SELECT substr()
SELECT substr('a')
SELECT substr('abc', 'x')
SELECT upper(1, 2)
SELECT abs('x')
SELECT abs()
SELECT round(1, 2, 3)
SELECT coalesce()
SELECT nullif(1)
SELECT greatest()
SELECT date_trunc('month', 5)
SELECT date_trunc('nonsense', DATE '2024-01-01')
SELECT date_part('nonsense', DATE '2024-01-01')
SELECT extract(nonsense FROM DATE '2024-01-01')
SELECT concat()
SELECT sum(note) FROM orders
SELECT sum(b) FROM orders
SELECT avg(placed) FROM orders
SELECT sum() FROM orders
SELECT sum(id, id) FROM orders
SELECT count(DISTINCT) FROM orders
SELECT stddev(note) FROM orders
SELECT median(note) FROM orders
SELECT quantile_cont(x, 2) FROM orders
SELECT quantile_cont(x, 'a') FROM orders
SELECT string_agg(id) FROM orders
SELECT sum(sum(id)) FROM orders
SELECT sum(count(*)) FROM orders
SELECT id FROM orders WHERE sum(id) > 1
SELECT id FROM orders GROUP BY sum(id)
SELECT note, count(*) FROM orders GROUP BY id
SELECT * FROM orders GROUP BY id
SELECT count(*) FROM orders HAVING id > 1
SELECT id FROM orders HAVING nothing > 1
SELECT count(*) FROM orders GROUP BY 7
SELECT id FROM orders ORDER BY 7
SELECT id FROM orders ORDER BY 0
SELECT id FROM orders ORDER BY nothing
SELECT DISTINCT id FROM orders ORDER BY note
SELECT row_number() FROM orders
SELECT row_number() OVER (PARTITION BY nothing) FROM orders
SELECT rank() OVER nowhere FROM orders
SELECT id FROM orders WHERE row_number() OVER () = 1
SELECT sum(id) OVER (ORDER BY id ROWS BETWEEN 1 FOLLOWING AND 1 PRECEDING) FROM orders
SELECT sum(id) OVER (ORDER BY id ROWS BETWEEN -1 PRECEDING AND CURRENT ROW) FROM orders
SELECT sum(id) OVER (ORDER BY note RANGE BETWEEN 1 PRECEDING AND CURRENT ROW) FROM orders
SELECT lag(id, 'x') OVER (ORDER BY id) FROM orders
SELECT ntile(0) OVER (ORDER BY id) FROM orders
SELECT ntile('a') OVER (ORDER BY id) FROM orders
SELECT sum(row_number() OVER ()) FROM orders
SELECT id FROM orders a JOIN orders b ON a.id = b.id
SELECT * FROM orders a JOIN orders a ON true
SELECT * FROM orders JOIN items USING (nothing)
SELECT * FROM orders JOIN items USING (note)
SELECT * FROM orders JOIN items ON orders.id = items.nothing
SELECT * FROM orders JOIN items ON orders.note = items.id + 'x'
SELECT * FROM orders NATURAL JOIN nowhere
SELECT * FROM orders JOIN items ON sum(orders.id) = 1
SELECT * FROM orders, LATERAL (SELECT nothing)
SELECT 1 + 'x'
SELECT 'a' + 'b'
SELECT note + 1 FROM orders
SELECT placed + placed FROM orders
SELECT placed * 2 FROM orders
SELECT b + 1 FROM orders
SELECT -note FROM orders
SELECT -'a'
SELECT NOT note FROM orders
SELECT NOT 5.5
SELECT 1 AND 'x'
SELECT id || data FROM orders
SELECT data + 1 FROM orders
SELECT placed > 5 FROM orders
SELECT placed = note FROM orders
SELECT at - 5 FROM orders
SELECT id << note FROM orders
SELECT 5 % 'a'
SELECT id LIKE 5 FROM orders
SELECT note BETWEEN 1 AND 2 FROM orders
SELECT id IN ('a', 'b') FROM orders
SELECT CASE WHEN note THEN 1 END FROM orders
SELECT CASE WHEN true THEN 1 ELSE 'x' END
SELECT CASE id WHEN 'a' THEN 1 END FROM orders
SELECT CAST('seven' AS INTEGER)
SELECT CAST('' AS INTEGER)
SELECT CAST(note AS INTEGER) FROM orders
SELECT CAST('2024-02-30' AS DATE)
SELECT CAST('nonsense' AS TIMESTAMP)
SELECT CAST('25:00:00' AS TIME)
SELECT CAST('x' AS BOOLEAN)
SELECT CAST('abc' AS DECIMAL(5,2))
SELECT CAST(123456 AS DECIMAL(5,2))
SELECT CAST(300 AS TINYINT)
SELECT CAST(1e300 AS BIGINT)
SELECT CAST(-1 AS UINTEGER)
SELECT CAST(placed AS INTEGER) FROM orders
SELECT CAST(data AS INTEGER) FROM orders
SELECT CAST(1 AS GEOGRAPHY)
SELECT CAST(1 AS DECIMAL(99,2))
SELECT CAST(1 AS DECIMAL(5,9))
SELECT CAST('1 parsec' AS INTERVAL)
SELECT INTERVAL 'x' DAY
SELECT INTERVAL '1' PARSEC
SELECT DATE 'nonsense'
SELECT TIMESTAMP '2024-13-01'
SELECT TIME 'x'
SELECT X'GG'
SELECT 9223372036854775807 + 1
SELECT big + 1 FROM orders
SELECT big * big FROM orders
SELECT -big FROM orders
SELECT big - 1 FROM orders
SELECT abs(big) FROM orders
SELECT sum(x * x * 1e300)::BIGINT FROM orders
SELECT 2147483647::INTEGER + 1::INTEGER
SELECT 99999999999999999999999999999999999999 * 10
SELECT 99999999999999999999999999999999999999999999999
SELECT 1 // 0
SELECT 1 % 0
SELECT 5 / 'x'
SELECT amount / note FROM orders
SELECT sqrt(-1)
SELECT ln(0)
SELECT log(-1)
SELECT pow('a', 2)
SELECT factorial(100)
SELECT chr(-5)
SELECT chr(999999999)
SELECT repeat('x', 9999999999)
SELECT lpad('x', 9999999999, 'y')
SELECT substr('abc', 1, -1)
SELECT regexp_matches('a', '[')
SELECT regexp_replace('a', '(', 'b')
SELECT 'a' SIMILAR TO '['
SELECT 'a' LIKE 'b' ESCAPE 'cd'
SELECT strftime(5, '%Y')
SELECT strptime('x', '%Y')
SELECT make_date(2024, 13, 1)
SELECT date_diff('nonsense', DATE '2024-01-01', DATE '2024-01-02')
SELECT DATE '2024-01-01' + INTERVAL '999999999' YEAR
SELECT to_timestamp('x')
SELECT [1, 'x']
SELECT [1, 2]['a']
SELECT {'a': 1}.b
SELECT (1).a
SELECT list_sum('x')
SELECT unnest(5)
SELECT unnest(note) FROM orders
SELECT array_length(1)
SELECT * FROM generate_series(1, 'x')
SELECT * FROM range()
SELECT * FROM range(1, 10, 0)
SELECT * FROM nosuchtablefunction(1)
SELECT * FROM read_csv()
SELECT * FROM read_csv(5)
SELECT * FROM read_csv('missing.csv')
SELECT * FROM read_csv('missing.csv', nonsense = 1)
SELECT * FROM read_parquet('missing.parquet')
SELECT * FROM read_parquet('*.nothing')
SELECT * FROM 'missing.json'
SELECT * FROM (VALUES (1), (1, 2))
SELECT * FROM (VALUES (1), ('x')) AS t(a, b)
SELECT (SELECT id FROM orders)
SELECT (SELECT id, note FROM orders)
SELECT id FROM orders WHERE id IN (SELECT id, note FROM orders)
SELECT id FROM orders WHERE id = (SELECT order_id FROM items)
SELECT EXISTS (SELECT nothing)
SELECT id FROM orders UNION SELECT id, note FROM orders
SELECT id FROM orders UNION SELECT data FROM orders
SELECT id FROM orders EXCEPT SELECT id, 1 FROM orders
SELECT id FROM orders UNION ALL SELECT id FROM orders ORDER BY note
WITH a AS (SELECT 1) SELECT * FROM b
WITH a AS (SELECT 1), a AS (SELECT 2) SELECT * FROM a
WITH a(x, y) AS (SELECT 1) SELECT * FROM a
WITH RECURSIVE a AS (SELECT 1 AS n UNION ALL SELECT n, 2 FROM a) SELECT * FROM a
SELECT * FROM orders LIMIT -1
SELECT * FROM orders LIMIT 'many'
SELECT * FROM orders LIMIT id
SELECT * FROM orders OFFSET -1
SELECT * FROM orders LIMIT 1.5
SELECT * FROM orders LIMIT NULL + 'x'
SELECT * EXCLUDE (nothing) FROM orders
SELECT * REPLACE (1 AS nothing) FROM orders
SELECT nothing.* FROM orders
SELECT COLUMNS('[') FROM orders
SELECT FROM orders
SELECT
SELECT 1 FROM
SELECT 1 +
SELECT 1 2 3
SELECT (1
SELECT 1)
SELECT 'abc
SELECT "abc
SELECT 1 /* x
SELECT * FROM orders WHERE
SELECT * FROM orders GROUP
SELECT * FROM orders ORDER id
SELECT CASE 1 END
SELECT id FROM orders WHERE id ==== 1
SELECT @@x
SELECT $1
SELECT ?
SELECT :name
SELEC 1
FOO BAR
CREATE TABLE orders (a INTEGER)
CREATE TABLE t (a INTEGER, a VARCHAR)
CREATE TABLE t (a INTEGER, A VARCHAR)
CREATE TABLE t ()
CREATE TABLE t (a)
CREATE TABLE t (a GEOGRAPHY)
CREATE TABLE t (a INTEGER DEFAULT 'x')
CREATE TABLE t (a INTEGER DEFAULT nothing)
CREATE TABLE t (a INTEGER CHECK (a > 'x'))
CREATE TABLE nowhere.t (a INTEGER)
CREATE TABLE t (a STRUCT(x INTEGER))
CREATE TABLE t AS SELECT 1 AS a, 2 AS a
CREATE TABLE t AS SELECT [1, 2] AS l
CREATE TABLE t AS SELECT nothing
CREATE TABLE t (a INTEGER) WITH (nonsense = 1)
CREATE TABLE t (a INTEGER) WITH (compression = 'nonsense')
CREATE VIEW orders AS SELECT 1
CREATE VIEW v AS SELECT nothing FROM orders
CREATE VIEW v (a, b) AS SELECT 1
CREATE SCHEMA other
CREATE SCHEMA main
CREATE INDEX i ON orders (nothing)
CREATE SEQUENCE s
CREATE FUNCTION f() RETURNS INTEGER AS 'x'
DROP TABLE nowhere
DROP TABLE totals
DROP VIEW orders
DROP VIEW nowhere
DROP SCHEMA other
DROP SCHEMA nowhere
DROP INDEX nothing
ALTER TABLE nowhere ADD COLUMN a INTEGER
ALTER TABLE orders ADD COLUMN id INTEGER
ALTER TABLE orders DROP COLUMN nothing
ALTER TABLE orders RENAME COLUMN nothing TO a
ALTER TABLE orders RENAME TO items
ALTER TABLE orders ALTER COLUMN note TYPE INTEGER
INSERT INTO nowhere VALUES (1)
INSERT INTO orders VALUES (1, 2)
INSERT INTO orders (id, nothing) VALUES (1, 2)
INSERT INTO orders (id, id) VALUES (1, 2)
INSERT INTO orders (id) VALUES ('seven')
INSERT INTO orders (id) VALUES (3000000000)
INSERT INTO orders (placed) VALUES ('2024-02-30')
INSERT INTO orders (amount) VALUES (12345678.5)
INSERT INTO orders (b) VALUES ('perhaps')
INSERT INTO items VALUES (NULL, 1, 'x')
INSERT INTO items (name) VALUES ('x')
INSERT INTO items SELECT 1
INSERT INTO totals VALUES (1, 2)
INSERT INTO items VALUES (1, 1, 'a') RETURNING nothing
UPDATE orders SET nothing = 1
UPDATE orders SET id = nothing
UPDATE orders SET id = 1, id = 2
UPDATE nowhere SET id = 1
DELETE FROM orders WHERE nothing = 1
DELETE FROM orders WHERE id = 'seven'
DELETE FROM nowhere
TRUNCATE orders
MERGE INTO orders USING items ON orders.id = items.id WHEN MATCHED THEN UPDATE SET nothing = 1
MERGE INTO orders USING items
INSERT INTO orders VALUES (1) ON CONFLICT (nothing) DO NOTHING
INSERT OR REPLACE INTO orders VALUES (1)
COPY orders FROM 'missing.csv'
COPY nowhere FROM 'missing.csv'
COPY orders (nothing) FROM 'missing.csv'
COPY orders FROM 'x.xyz'
COPY orders TO 'nowhere/x.csv'
COPY orders TO 'x.csv' (FORMAT nonsense)
COPY orders TO 'x.csv' (NONSENSE 1)
COPY orders TO 'x.csv' (DELIMITER ';;')
COPY (SELECT nothing) TO 'x.csv'
SET nonsense = 1
SET thraeds = 4
SET threads = 'many'
SET threads = -1
SET memory_limit = 'x'
SET execution = nonsense
SET device = nonsense
SET compression = nonsense
SET default_null_order = nonsense
RESET nonsense
SHOW nonsense
SHOW STATS nowhere
DESCRIBE nowhere
EXPLAIN SELECT nothing
EXPLAIN ANALYZE SELECT nothing FROM orders
OPTIMIZE TABLE nowhere
USE nowhere
BEGIN; BEGIN
COMMIT
ROLLBACK
GRANT SELECT ON orders TO me
PREPARE p AS SELECT $1
EXECUTE p(1)
PRAGMA nonsense
ATTACH 'x' AS y
VACUUM
CALL nothing()
DECLARE c CURSOR FOR SELECT 1
SELECT * FROM orders TABLESAMPLE 10 PERCENT
SELECT * FROM orders PIVOT (sum(id) FOR note IN ('a'))
SELECT * FROM orders FOR UPDATE
SELECT id FROM orders QUALIFY nothing = 1
SELECT id FROM orders WINDOW w AS (PARTITION BY nothing)
SELECT try_cast('x' AS GEOGRAPHY)
SELECT id AS a, a + nothing FROM orders
SELECT sum(DISTINCT id, note) FROM orders
SELECT min(id) FILTER (WHERE note) FROM orders
SELECT min(id ORDER BY nothing) FROM orders
SELECT sum(id) OVER (PARTITION BY id ORDER BY id RANGE BETWEEN INTERVAL '1' DAY PRECEDING AND CURRENT ROW) FROM orders
SELECT grouping(id) FROM orders
SELECT id FROM orders GROUP BY ROLLUP (nothing)
SELECT 1 IS OF (INTEGER)
SELECT 'a' COLLATE nonsense
SELECT TIMESTAMP '2024-01-01' AT TIME ZONE 'nowhere'
SELECT now('x')
SELECT current_setting('nonsense')
SELECT length(5, 6)
SELECT * FROM orders WHERE note
SELECT * FROM orders WHERE id + 1
SELECT * FROM orders HAVING true
SELECT id, FROM orders,
SELECT 1; SELECT nothing; SELECT 2
""".strip().splitlines()


NEAREST = [
    ("SELECT amuont FROM orders", "amount"),
    ("SELECT * FROM ordesr", "orders"),
    ("SELECT * FROM other.thigns", "things"),
    ("SELECT uper('a')", "upper"),
    ("SELECT coutn(*) FROM orders", "count"),
    ("SET thraeds = 4", "threads"),
    ("COPY orders FROM 'x.csv' (DELIMTER ';')", "DELIMITER"),
]


def verdict(outcome):
    """None where the statement succeeded, or has one error line without insides."""
    crash = outcome.crash()
    if crash:
        return crash
    if outcome.status == 0:
        return None
    lines = [line for line in outcome.stderr.splitlines() if line.startswith("Error:")]
    if len(lines) != 1:
        return f"{len(lines)} error lines, expected one:\n{outcome.stderr[:600]}"
    # A setting has a value of this name.
    line = re.sub(r"/[\w/.-]+", "PATH", lines[0]).replace("interpreter or datafusion", "")
    found = INSIDES.search(line)
    if found:
        return f"{found.group(0)!r} says nothing to a user: {lines[0][:600]}"
    if len(lines[0]) > 500:
        return f"an error of {len(lines[0])} characters: {lines[0][:600]}"
    return None


def run(options, report):
    report.suite(f"messages of {len(STATEMENTS)} statements")
    database = os.path.join(options.directory, "messages")
    options.binary.must(database, *SETUP)
    for statement in STATEMENTS:
        outcome = options.binary.run(database, "--quiet", "-c", statement, timeout=30, cwd=options.directory)
        if getattr(options, "verbose", False):
            report.say(f"{statement}\n        {outcome.error_line() or 'OK'}")
        report.check(statement, verdict(outcome))
    for statement, nearest in NEAREST:
        said = {options.binary.run(database, "--quiet", "-c", statement, cwd=options.directory).error_line() for _ in range(5)}
        difference = None
        if len(said) != 1:
            difference = f"it does not always say the same: {said}"
        elif not re.search(rf"\b{nearest}\b", next(iter(said))):
            difference = f"it does not suggest {nearest}: {said}"
        report.check(f"{statement}: the nearest name", difference)
    report.end()
